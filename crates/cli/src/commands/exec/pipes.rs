//! Pipes in place of standard streams that are no terminal: the process gets nothing of palisade's own.

use rustix::{
    event::PollFlags,
    fs::{Mode, OFlags},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};
use std::{
    io::{stderr, stdin, stdout},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

const CHUNK_BYTES: usize = 64 * 1024;

/// Our ends.
#[derive(Debug, Default)]
pub(super) struct Pipes {
    /// Where what is read from stdin goes, until it ends or nobody reads it.
    input: Option<OwnedFd>,
    /// Read and not written yet.
    unwritten: Vec<u8>,
    is_at_end: bool,
    /// Where what goes to stdout and stderr comes from.
    outputs: [Option<OwnedFd>; 2],
}

/// The process's ends.
#[derive(Debug)]
pub(super) struct Ends([OwnedFd; 3]);

impl Ends {
    pub(super) fn streams(&self) -> [BorrowedFd<'_>; 3] {
        self.0.each_ref().map(AsFd::as_fd)
    }
}

/// What to wait for: stdin, the pipe of it, the pipes of both outputs.
pub(super) type Waits<'a> = [Option<(BorrowedFd<'a>, PollFlags)>; 4];

impl Pipes {
    /// A pipe for each stream that a terminal does not replace.
    pub(super) fn make(replaced: [bool; 3]) -> rustix::io::Result<(Self, Ends)> {
        let mut pipes = Self::default();
        let input = match replaced[0] {
            true => nothing()?,
            false => {
                let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
                let_reopen(&theirs, Mode::ROTH)?;
                rustix::io::ioctl_fionbio(&ours, true)?;
                pipes.input = Some(ours);
                theirs
            }
        };
        let mut output = |stream: usize| match replaced[stream] {
            true => nothing(),
            false => {
                let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
                let_reopen(&theirs, Mode::WOTH)?;
                pipes.outputs[stream - 1] = Some(ours);
                Ok(theirs)
            }
        };
        let ends = Ends([input, output(1)?, output(2)?]);
        Ok((pipes, ends))
    }

    pub(super) fn waits<'a>(&'a self, stdin: &'a impl AsFd) -> Waits<'a> {
        let is_empty = self.unwritten.is_empty();
        let input = self.input.as_ref();
        let reads = input.filter(|_| is_empty && !self.is_at_end);
        // Without anything to write, that nobody reads it any more is told all the same.
        let writes = if is_empty {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        };
        let outputs = self.outputs.each_ref();
        let [out, error] = outputs.map(|output| Some((output.as_ref()?.as_fd(), PollFlags::IN)));
        [
            reads.map(|_| (stdin.as_fd(), PollFlags::IN)),
            input.map(|input| (input.as_fd(), writes)),
            out,
            error,
        ]
    }

    /// Moves what is ready, in the order of [`Pipes::waits`].
    pub(super) fn move_ready(&mut self, ready: [PollFlags; 4]) {
        let [reads, writes, outputs @ ..] = ready;
        if writes.contains(PollFlags::ERR) {
            self.input = None;
        }
        if !reads.is_empty() {
            self.read();
        }
        self.write();
        for (stream, ready) in outputs.into_iter().enumerate() {
            if !ready.is_empty() {
                self.show(stream);
            }
        }
    }

    /// Whether all that was written to outputs has been passed on and nothing more can come.
    pub(super) fn is_done(&self) -> bool {
        self.outputs.iter().all(Option::is_none)
    }

    fn read(&mut self) {
        self.unwritten.resize(CHUNK_BYTES, 0);
        let read = rustix::io::read(stdin(), &mut self.unwritten[..]);
        self.unwritten.truncate(read.unwrap_or(0));
        self.is_at_end = !matches!(read, Ok(1..) | Err(Errno::AGAIN | Errno::INTR));
    }

    fn write(&mut self) {
        let Some(input) = &self.input else { return };
        if !self.unwritten.is_empty() {
            match rustix::io::write(input, &self.unwritten) {
                Ok(written) => drop(self.unwritten.drain(..written)),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => {
                    self.unwritten.clear();
                    self.is_at_end = true;
                }
            }
        }
        if self.is_at_end && self.unwritten.is_empty() {
            self.input = None;
        }
    }

    /// Once nobody takes it, its writer shall hear (SIGPIPE).
    fn show(&mut self, stream: usize) {
        let Some(output) = &self.outputs[stream] else {
            return;
        };
        let mut buffer = vec![0; CHUNK_BYTES];
        let passed = match rustix::io::read(output, &mut buffer[..]) {
            Ok(length @ 1..) => write_all(stream, &buffer[..length]),
            Err(Errno::INTR) => Ok(()),
            Ok(_) => Err(Errno::PIPE),
            Err(errno) => Err(errno),
        };
        if passed.is_err() {
            self.outputs[stream] = None;
        }
    }
}

fn write_all(stream: usize, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        let written = match stream {
            0 => rustix::io::write(stdout(), bytes),
            _ => rustix::io::write(stderr(), bytes),
        };
        match written {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            // It may be another's who made it so.
            Err(Errno::AGAIN) => wait_for_room(stream)?,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn wait_for_room(stream: usize) -> rustix::io::Result<()> {
    let (out, error) = (stdout(), stderr());
    let to = if stream == 0 {
        out.as_fd()
    } else {
        error.as_fd()
    };
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(to, PollFlags::OUT)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None)).map(drop)
}

/// As root a domain has a user of its own, who owns no pipe and could not open `/dev/stdout`. Nobody else finds a pipe that
/// has no name.
fn let_reopen(pipe: &OwnedFd, way: Mode) -> rustix::io::Result<()> {
    match rustix::process::geteuid().is_root() {
        true => rustix::fs::fchmod(pipe, Mode::RUSR | Mode::WUSR | way),
        false => Ok(()),
    }
}

/// In the place of what a terminal replaces.
fn nothing() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}
