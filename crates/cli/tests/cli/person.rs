//! Somebody at a terminal with an interactive shell in it.

use super::fixture::{Fixture, children_of, pidfd_of};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{Mode, OFlags},
    pty::OpenptFlags,
    termios::{Action, Winsize},
};
use std::{
    fs::{self, File},
    io::{Read, Write},
    os::fd::OwnedFd,
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

/// The shell's. What is typed before it appears belongs to the program that runs.
pub(crate) const PROMPT: &str = "$ ";

/// Where what is kept for a session lies.
pub(crate) const SESSION: &str = "session";

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Person {
    /// The terminal's end of the person, until it is closed.
    window: Option<File>,
    /// The shell's end.
    terminal: Option<OwnedFd>,
    /// Everything shown so far.
    pub(crate) shown: String,
    /// Where to look for what comes next.
    seen: usize,
    shell: Child,
}

impl Person {
    /// As a login starts a shell, whatever the suite was started with.
    pub(crate) fn sit_down(fixture: &Fixture) -> Self {
        let (window, terminal) = open_terminal();
        let stream = || Stdio::from(terminal.try_clone().unwrap());
        fixture.make_folder(SESSION);
        let shell = "--ctty env --default-signal bash --norc --noprofile -i";
        let mut call = fixture.call(Path::new("/usr/bin/setsid"), shell.split(' '));
        call.command
            .env("PS1", PROMPT)
            .env("TERM", "dumb")
            .env("XDG_RUNTIME_DIR", fixture.path(SESSION))
            .env("P", fixture.program());
        let shell = call
            .command
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .unwrap();
        let mut person = Self {
            window: Some(window),
            terminal: Some(terminal),
            shown: String::new(),
            seen: 0,
            shell,
        };
        person.resizes(30, 100);
        // An ordinary user's shell finds the terminal root's; it says so and goes on.
        person
            .types("echo rea''dy\n")
            .sees("ready\r\n")
            .sees(PROMPT);
        person
    }

    fn window(&self) -> &File {
        self.window.as_ref().unwrap()
    }

    fn terminal(&self) -> &OwnedFd {
        self.terminal.as_ref().unwrap()
    }

    pub(crate) fn types(&mut self, keys: &str) -> &mut Self {
        self.window().write_all(keys.as_bytes()).unwrap();
        self
    }

    /// Waits until this is shown, behind what was seen before.
    #[track_caller]
    pub(crate) fn sees(&mut self, text: &str) -> &mut Self {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.shown[self.seen..].find(text) {
                self.seen += at + text.len();
                return self;
            }
            assert!(
                self.looks(deadline),
                "no {text:?} in {:?}",
                &self.shown[self.seen..]
            );
        }
    }

    /// Looks until nothing more is shown for a while.
    pub(crate) fn sees_no_more(&mut self) -> &mut Self {
        while self.looks(Instant::now() + PATIENCE / 100) {}
        self
    }

    fn looks(&mut self, deadline: Instant) -> bool {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).unwrap();
        let mut fds = [PollFd::new(self.window(), PollFlags::IN)];
        if rustix::event::poll(&mut fds, Some(&left)).unwrap() == 0 {
            return false;
        }
        let mut buffer = [0; 4096];
        let Ok(length @ 1..) = self.window().read(&mut buffer) else {
            return false;
        };
        self.shown
            .push_str(&String::from_utf8_lossy(&buffer[..length]));
        true
    }

    pub(crate) fn resizes(&self, ws_row: u16, ws_col: u16) {
        let size = Winsize {
            ws_row,
            ws_col,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        rustix::termios::tcsetwinsize(self.window(), size).unwrap();
    }

    /// The terminal takes no output any more, as after Ctrl-S, until it goes on.
    pub(crate) fn holds_the_screen(&self) {
        rustix::termios::tcflow(self.terminal(), Action::OOff).unwrap();
    }

    pub(crate) fn lets_the_screen_go_on(&self) {
        rustix::termios::tcflow(self.terminal(), Action::OOn).unwrap();
    }

    /// The palisade that the shell has started.
    pub(crate) fn palisade(&self) -> u32 {
        let is_palisade = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "palisade\n")
        };
        let jobs = children_of(self.shell.id());
        jobs.into_iter()
            .find(is_palisade)
            .expect("no palisade runs")
    }

    /// Closes the window. Gives a pidfd of the palisade that ran in it.
    pub(crate) fn closes_the_window(&mut self) -> OwnedFd {
        let palisade = pidfd_of(self.palisade());
        self.terminal = None;
        self.window = None;
        palisade
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        self.window = None;
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

fn open_terminal() -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let window = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&window).unwrap();
    rustix::pty::unlockpt(&window).unwrap();
    let name = rustix::pty::ptsname(&window, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
    (File::from(window), terminal)
}
