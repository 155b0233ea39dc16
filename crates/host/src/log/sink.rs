//! Where lines are written: a file or stderr, without ever waiting for it.

use super::{Entry, Format, LogError, line};
use crate::{beneath, kinds::Level};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, IsTerminal, Write},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

/// Bytes that wait for a sink that takes no more. Above it, lines are dropped.
const MOST_PENDING_BYTES: usize = 256 << 10;
/// What a pipe that is said to be writable takes without waiting (pipe(7)).
const PIPE_BUF: usize = 4096;

/// Where lines go.
#[derive(Debug)]
pub(super) struct Sink {
    state: Mutex<State>,
    /// Lines that did not come as far as here.
    dropped: AtomicU64,
}

#[derive(Debug)]
struct State {
    path: Option<PathBuf>,
    /// The folder that it must lie in.
    within: Option<PathBuf>,
    out: Out,
    format: Format,
    is_terminal: bool,
    /// Whole lines, and the rest of one that is half written.
    pending: Vec<u8>,
    /// Line ends in `pending` that belong to no line of anybody's.
    own_ends: u64,
    /// What was written last is not a line's end.
    mid_line: bool,
    /// Lines lost that this sink was not told of.
    lost: u64,
    /// Lines lost that `pending` tells of.
    noted: u64,
}

/// A path, open.
#[derive(Debug)]
pub(super) struct Opened {
    path: Option<PathBuf>,
    out: Out,
    is_terminal: bool,
}

/// How an open sink is written to.
#[derive(Debug)]
enum Out {
    /// `O_NONBLOCK` is set, on a description that nobody else has.
    Own(File),
    /// Others write here too, and would be surprised if writes stopped waiting.
    Shared(OwnedFd),
}

impl Sink {
    /// Opens the file, below a folder that it must be `within`; or stderr.
    pub(super) fn open(
        path: Option<&Path>,
        within: Option<&Path>,
        format: Format,
    ) -> Result<Self, LogError> {
        let (out, is_terminal) = open(path, within)?;
        Ok(Self::new((path, within), out, format, is_terminal))
    }

    fn new(
        (path, within): (Option<&Path>, Option<&Path>),
        out: Out,
        format: Format,
        is_terminal: bool,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                path: path.map(Into::into),
                within: within.map(Into::into),
                out,
                format,
                is_terminal,
                pending: Vec::new(),
                own_ends: 0,
                mid_line: false,
                lost: 0,
                noted: 0,
            }),
            dropped: AtomicU64::new(0),
        }
    }

    /// Writes to what somebody reads at the other end, as stderr may be.
    #[cfg(test)]
    pub(super) fn pipe(writer: File, format: Format) -> Self {
        Self::new((None, None), Out::Own(writer), format, false)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Opens another path; `None` where it is the present one.
    pub(super) fn prepare(&self, path: Option<&Path>) -> Result<Option<Opened>, LogError> {
        if self.state().path.as_deref() == path {
            return Ok(None);
        }
        let (out, is_terminal) = open(path, None)?;
        Ok(Some(Opened {
            path: path.map(Into::into),
            out,
            is_terminal,
        }))
    }

    /// Goes on at another path, if there is one, and with this form.
    pub(super) fn redirect(&self, opened: Option<Opened>, format: Format) {
        let mut state = self.state();
        state.format = format;
        if let Some(opened) = opened {
            state.path = opened.path.clone();
            state.go_on_in(opened.out, opened.is_terminal);
        }
    }

    /// Opens the file anew; what waits goes to the old one first. A file that can't be opened leaves the
    /// old one in use.
    pub(super) fn reopen(&self) -> Result<(), LogError> {
        let mut state = self.state();
        if state.path.is_some() {
            let (out, is_terminal) = open(state.path.as_deref(), state.within.as_deref())?;
            state.go_on_in(out, is_terminal);
        }
        Ok(())
    }

    /// Takes a line, or loses it; says how many lines were lost.
    pub(super) fn put(&self, entry: &Entry) -> u64 {
        let mut state = self.state();
        let mut text = String::new();
        let write = state.writer();
        state.lost += self.dropped.swap(0, Ordering::Relaxed);
        if state.lost > 0 && state.pending.is_empty() {
            let note = line::Line::new(Level::Warn, "lines were lost: the log took no more")
                .with("lost", state.lost);
            write(&mut text, entry.time, &entry.origin, &note);
            state.own_ends += 1;
            state.noted = std::mem::take(&mut state.lost);
        }
        write(&mut text, entry.time, &entry.origin, &entry.line);
        state.take(text.as_bytes())
    }

    /// Counts a line that did not come as far as here.
    pub(super) fn lose(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Passes on what waits; gives the lines that were lost.
    pub(super) fn flush(&self) -> u64 {
        self.state().flush()
    }

    /// Whether something waits.
    pub(super) fn is_pending(&self) -> bool {
        !self.state().pending.is_empty()
    }
}

type WriteLine = fn(&mut String, std::time::SystemTime, &line::Origin, &line::Line);

impl State {
    fn writer(&self) -> WriteLine {
        match self.format {
            Format::Text => line::write_text,
            Format::Auto if self.is_terminal => line::write_text,
            Format::Auto | Format::Json => line::write_json,
        }
    }

    /// What waits goes to the old sink first.
    fn go_on_in(&mut self, out: Out, is_terminal: bool) {
        self.flush();
        self.forget_pending();
        self.mid_line = false;
        (self.out, self.is_terminal) = (out, is_terminal);
    }

    fn take(&mut self, lines: &[u8]) -> u64 {
        if self.pending.len() + lines.len() > MOST_PENDING_BYTES {
            self.lost += 1;
            return 1;
        }
        if self.mid_line && self.pending.is_empty() {
            self.pending.push(b'\n');
            self.own_ends += 1;
        }
        self.pending.extend_from_slice(lines);
        0
    }

    fn flush(&mut self) -> u64 {
        let mut written = 0;
        let failed = loop {
            let rest = self.pending.get(written..).unwrap_or_default();
            if rest.is_empty() {
                break false;
            }
            match self.out.write(rest) {
                Ok(0) => break true,
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                // A full disk, a pipe that nobody reads: later lines may have better luck.
                Err(_) => break true,
            }
        };
        if let Some(last) = written.checked_sub(1) {
            self.mid_line = self.pending.get(last) != Some(&b'\n');
        }
        self.pending.drain(..written);
        match failed {
            true => self.forget_pending(),
            false if self.pending.is_empty() => {
                (self.own_ends, self.noted) = (0, 0);
                0
            }
            false => 0,
        }
    }

    /// Loses what waits; gives the number of lines.
    fn forget_pending(&mut self) -> u64 {
        let ends = self.pending.iter().filter(|byte| **byte == b'\n').count() as u64;
        let lines = ends.saturating_sub(std::mem::take(&mut self.own_ends));
        self.pending.clear();
        self.lost += lines + std::mem::take(&mut self.noted);
        lines
    }
}

impl Out {
    /// Writes what can be written without waiting.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Own(file) => file.write(bytes),
            Self::Shared(stream) => {
                let mut asked = [PollFd::new(stream, PollFlags::OUT)];
                let at_once = Timespec::default();
                if rustix::event::poll(&mut asked, Some(&at_once))? == 0 {
                    return Err(Errno::WOULDBLOCK.into());
                }
                let part = bytes.get(..PIPE_BUF).unwrap_or(bytes);
                Ok(rustix::io::write(stream, part)?)
            }
        }
    }
}

const FLAGS: OFlags = OFlags::WRONLY
    .union(OFlags::APPEND)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Opens a sink; says whether it is a terminal.
fn open(path: Option<&Path>, within: Option<&Path>) -> Result<(Out, bool), LogError> {
    let opened = match path.map(|path| (path, path.to_str())) {
        Some((path, _)) if within.is_some() => open_file(path, within),
        None | Some((_, Some("/dev/stderr"))) => open_stream(io::stderr(), "/proc/self/fd/2"),
        Some((_, Some("/dev/stdout"))) => open_stream(io::stdout(), "/proc/self/fd/1"),
        Some((path, _)) => open_file(path, None),
    };
    opened.map_err(|source| LogError {
        path: path.unwrap_or(Path::new("stderr")).into(),
        source,
    })
}

/// Opens a file, or a device of `/dev`. A guest may be able to write to the folder that its log is in: nothing
/// that it puts there in the log's place leads the server's lines elsewhere.
fn open_file(path: &Path, within: Option<&Path>) -> io::Result<(Out, bool)> {
    // Readable by the group, as logs are.
    let mode = Mode::from_raw_mode(0o640);
    let flags = FLAGS | OFlags::CREATE | OFlags::NOFOLLOW;
    let file = match beneath::open(within, path, flags, mode) {
        Ok(file) => File::from(file),
        Err(Errno::XDEV) => {
            return Err(io::Error::other("it lies outside the folder of its tenant"));
        }
        Err(Errno::LOOP) => return Err(io::Error::other("it is a link: name what it leads to")),
        // A FIFO that nobody reads, or a socket.
        Err(Errno::NXIO) => return Err(no_file()),
        Err(error) => return Err(error.into()),
    };
    let is_device = within.is_none() && path.starts_with("/dev");
    if !file.metadata()?.is_file() && !is_device {
        return Err(no_file());
    }
    let is_terminal = file.is_terminal();
    Ok((Out::Own(file), is_terminal))
}

fn no_file() -> io::Error {
    io::Error::other("it is no file: name one, or /dev/stdout or /dev/stderr")
}

/// One of the process's own streams, opened anew, so that writes need not wait. Where that can't be had (a
/// socket, somebody else's terminal) it is used as it is.
fn open_stream(stream: impl AsFd + IsTerminal, path: &str) -> io::Result<(Out, bool)> {
    let is_terminal = stream.is_terminal();
    if let Ok(own) = rustix::fs::open(path, FLAGS, Mode::empty()) {
        return Ok((Out::Own(own.into()), is_terminal));
    }
    let shared = stream.as_fd().try_clone_to_owned()?;
    Ok((Out::Shared(shared), is_terminal))
}
