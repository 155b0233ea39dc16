//! The terminal palisade was started from, and the guest's own in its place.

use super::job;
use palisade_wall::Terminal;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{Mode, OFlags},
    io::{Errno, retry_on_intr},
    termios::{
        InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, Winsize,
    },
};
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io::{IsTerminal, stderr, stdin, stdout},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// The terminal outside.
#[derive(Debug)]
pub(in crate::commands) struct Outer {
    replaces: [bool; 3],
    /// Where keys come from: stdin, or whatever else is the terminal, as programs read it that get
    /// their input by a pipe.
    keyboard: OwnedFd,
    /// Where the guest's output is shown.
    screen: OwnedFd,
    /// The settings to put back.
    found: Termios,
    is_raw: bool,
    /// So many bytes were typed before the terminal was raw, and not read yet.
    typed_ahead: usize,
    start: Start,
}

/// How palisade was started on this terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// With the keyboard and the screen for itself.
    Alone,
    /// In the foreground, in a pipeline that may want the keys, `palisade run -- ls | less`: they are
    /// left to it until the guest asks for them.
    Beside,
    /// In the background, or without job control.
    Behind,
}

/// Which standard streams are terminals.
fn terminals() -> [bool; 3] {
    [
        stdin().is_terminal(),
        stdout().is_terminal(),
        stderr().is_terminal(),
    ]
}

/// Whether any standard stream is a terminal; the guest gets one of its own then.
pub(crate) fn is_wanted() -> bool {
    terminals().contains(&true)
}

impl Outer {
    /// The terminal among the standard streams, if there is one. The guest must never get that one
    /// itself, so a failure is not the same as none.
    pub(in crate::commands) fn find() -> rustix::io::Result<Option<Self>> {
        let replaces = terminals();
        let (stdin, stdout, stderr) = (stdin(), stdout(), stderr());
        let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let first = |order: [usize; 3]| order.into_iter().find(|stream| replaces[*stream]);
        let (Some(keys_from), Some(shows_on)) = (first([0, 1, 2]), first([1, 2, 0])) else {
            return Ok(None);
        };
        let keyboard = open_again(streams[keys_from])?;
        let screen = open_again(streams[shows_on])?;
        let found = rustix::termios::tcgetattr(&keyboard)?;
        let start = match foreground_group(keyboard.as_fd()) {
            Ok(group) if Some(group) != job::own_group() => Start::Behind,
            Ok(_) if replaces[0] && replaces[1] => Start::Alone,
            Ok(_) => Start::Beside,
            Err(_) => Start::Behind,
        };
        Ok(Some(Self {
            replaces,
            keyboard,
            screen,
            found,
            is_raw: false,
            typed_ahead: 0,
            start,
        }))
    }

    pub(in crate::commands) fn replaces(&self) -> [bool; 3] {
        self.replaces
    }

    pub(in crate::commands) fn keyboard(&self) -> BorrowedFd<'_> {
        self.keyboard.as_fd()
    }

    pub(in crate::commands) fn screen(&self) -> BorrowedFd<'_> {
        self.screen.as_fd()
    }

    pub(in crate::commands) fn starts_in_front(&self) -> bool {
        self.start == Start::Alone
    }

    pub(in crate::commands) fn starts_behind(&self) -> bool {
        self.start == Start::Behind
    }

    /// The terminal to make for the guest: with the same keys and modes.
    pub(in crate::commands) fn order(&self) -> Terminal {
        let size = self.size();
        let mut settings = self.found.clone();
        if self.start == Start::Behind {
            make_cooked(&mut settings);
        }
        Terminal {
            rows: size.ws_row,
            columns: size.ws_col,
            replaces: self.replaces,
            settings,
            in_front: self.starts_in_front(),
        }
    }

    /// The settings that were found when the terminal was last made raw.
    pub(in crate::commands) fn found(&self) -> &Termios {
        &self.found
    }

    /// Whether all that is shown comes from the guest. The rest of a pipeline counts on line ends
    /// being translated.
    fn shows_the_guest_alone(&self) -> bool {
        self.replaces[1]
    }

    pub(in crate::commands) fn translates_line_ends(&self) -> bool {
        let leaves_alone = self.is_raw && self.shows_the_guest_alone();
        !leaves_alone && self.found.output_modes.contains(OutputModes::OPOST)
    }

    pub(in crate::commands) fn size(&self) -> Winsize {
        rustix::termios::tcgetwinsize(&self.screen).unwrap_or(Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        })
    }

    /// Whether keys typed now are meant for this process. A terminal that is not its controlling one
    /// has no job control for it: it may read (`__tty_check_change` in drivers/tty/tty_jobctrl.c).
    pub(in crate::commands) fn is_ours(&self) -> bool {
        match foreground_group(self.keyboard()) {
            Ok(group) => Some(group) == job::own_group(),
            Err(errno) => errno == Errno::NOTTY,
        }
    }

    /// Passes every key on to the guest's terminal, which gives Ctrl-C and Ctrl-Z their meaning.
    pub(in crate::commands) fn make_raw(&mut self) {
        if !self.is_raw
            && let Ok(settings) = rustix::termios::tcgetattr(&self.keyboard)
        {
            self.found = settings;
        }
        let mut raw = self.found.clone();
        raw.make_raw();
        if !self.shows_the_guest_alone() {
            raw.output_modes = self.found.output_modes;
        }
        // Also if it was raw: a shell sets it to its own liking when palisade stops.
        let set = rustix::termios::tcsetattr(&self.keyboard, OptionalActions::Now, &raw);
        self.is_raw = set.is_ok();
        self.typed_ahead = rustix::io::ioctl_fionread(&self.keyboard).unwrap_or(0) as usize;
    }

    /// Reads keys. Those typed ahead are lines already, in which the kernel keeps a 0 where Ctrl-D was
    /// typed (`n_tty_receive_char_special` in drivers/tty/n_tty.c).
    pub(in crate::commands) fn read_keys(
        &mut self,
        buffer: &mut [u8],
    ) -> rustix::io::Result<usize> {
        let length = rustix::io::read(&self.keyboard, &mut *buffer)?;
        let ahead = length.min(self.typed_ahead);
        self.typed_ahead -= ahead;
        let end_of_file = self.found.special_codes[SpecialCodeIndex::VEOF];
        for byte in buffer[..ahead].iter_mut().filter(|byte| **byte == 0) {
            *byte = end_of_file;
        }
        Ok(length)
    }

    /// Reads and drops what the terminal types in answer to what a guest printed. Answers come in the order
    /// of the questions: the last one asked here is about a mode that nobody could have guessed. A
    /// terminal that does not answer it is given up after a while. Keys typed meanwhile are lost too, as
    /// they would have been to the guest.
    pub(in crate::commands) fn discard_answers(&self) {
        /// More than a terminal far away takes.
        const PATIENCE: Duration = Duration::from_millis(500);
        /// A guest may have asked the same before.
        const QUIET: Duration = Duration::from_millis(20);
        // Else whoever has the keys reads them.
        if !self.is_raw || !self.is_ours() {
            return;
        }
        let mode = 20_000 + RandomState::new().build_hasher().finish() % 10_000;
        // CAN takes back what was begun. DECRQM is answered for unknown modes, too.
        let question = format!("\x18\x1b[?{mode}$p");
        if rustix::io::write(&self.screen, question.as_bytes()).is_err() {
            return;
        }
        let answer = format!("?{mode};");
        let deadline = Instant::now() + PATIENCE;
        let mut heard = Vec::new();
        let mut is_answered = false;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = if is_answered { left.min(QUIET) } else { left };
            if left.is_zero() || !self.drop_typed(wait, &mut heard) {
                return;
            }
            let mut windows = heard.windows(answer.len());
            is_answered |= windows.any(|typed| typed == answer.as_bytes());
            let tail = heard.len().saturating_sub(answer.len());
            heard.drain(..tail);
        }
    }

    /// Takes what is typed within this time; `false` if there is nothing.
    fn drop_typed(&self, within: Duration, to: &mut Vec<u8>) -> bool {
        let Ok(within) = Timespec::try_from(within) else {
            return false;
        };
        let mut fds = [PollFd::new(&self.keyboard, PollFlags::IN)];
        let waited = retry_on_intr(|| rustix::event::poll(&mut fds, Some(&within)));
        let mut buffer = [0; 4096];
        match waited {
            Ok(1..) => match rustix::io::read(&self.keyboard, &mut buffer) {
                Ok(length @ 1..) => {
                    to.extend_from_slice(&buffer[..length]);
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Puts the terminal back as it was found, unless it belongs to somebody else by now.
    pub(in crate::commands) fn restore(&mut self) {
        if std::mem::take(&mut self.is_raw) && self.is_ours() {
            let _ = rustix::termios::tcsetattr(&self.keyboard, OptionalActions::Now, &self.found);
        }
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        self.restore();
    }
}

/// What was found are somebody else's settings, perhaps a shell's at its prompt.
fn make_cooked(settings: &mut Termios) {
    settings.input_modes |= InputModes::ICRNL | InputModes::IXON;
    settings.local_modes |= LocalModes::ISIG
        | LocalModes::ICANON
        | LocalModes::IEXTEN
        | LocalModes::ECHO
        | LocalModes::ECHOE
        | LocalModes::ECHOK;
}

/// The group in the foreground of this process's controlling terminal, 0 if it is of another pid
/// namespace. ENOTTY for any other terminal.
fn foreground_group(terminal: BorrowedFd<'_>) -> rustix::io::Result<i32> {
    match rustix::termios::tcgetpgrp(terminal) {
        Ok(group) => Ok(group.as_raw_pid()),
        Err(Errno::OPNOTSUPP) => Ok(0),
        Err(errno) => Err(errno),
    }
}

/// The same terminal without its open file description, which others share: O_NONBLOCK would be
/// theirs too. A screen that stands still must not keep palisade from hearing signals.
fn open_again(stream: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let open = |path: &str| {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())
    };
    open(&format!("/proc/self/fd/{}", stream.as_raw_fd()))
        // After su(1) it is another user's, but a controlling terminal is open to its session.
        .or_else(|_| foreground_group(stream).and_then(|_| open("/dev/tty")))
        .or_else(|_| rustix::io::fcntl_dupfd_cloexec(stream, 3))
}
