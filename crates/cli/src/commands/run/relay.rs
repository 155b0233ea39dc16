//! The loop between a running guest and the outside: signals, terminal, counted output.

use super::{
    output::{Counted, Moved, write_all},
    terminal::Outer,
};
use palisade_process::{Domain, Event};
use palisade_wall::Report;
use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    process::Signal,
    termios::Winsize,
};
use signal_hook::{
    consts::signal::{
        SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTOU, SIGUSR1, SIGUSR2,
        SIGWINCH,
    },
    iterator::{backend::SignalDelivery, exfiltrator::SignalOnly},
};
use std::os::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    unix::net::UnixStream,
};

/// Signals that palisade takes for the guest.
const CAUGHT: [i32; 11] = [
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTOU, SIGUSR1, SIGUSR2,
    SIGWINCH,
];

/// Caught signals, readable through a descriptor.
pub(super) struct Signals(SignalDelivery<UnixStream, SignalOnly>);

impl Signals {
    pub(super) fn catch() -> std::io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        SignalDelivery::with_pipe(read, write, SignalOnly, CAUGHT).map(Self)
    }

    fn pending(&mut self) -> Vec<i32> {
        self.0.pending().collect()
    }
}

/// Everything that is relayed.
struct Relay {
    domain: Domain,
    outer: Option<Outer>,
    /// Our end of the guest's terminal.
    master: Option<OwnedFd>,
    output: Counted,
    signals: Signals,
    /// Keys the guest's terminal has no room for yet.
    keys: Vec<u8>,
    /// The user asked for a stop. A guest that stops by itself must not stop what started palisade,
    /// nor palisade, which keeps its limits.
    stop_wanted: Option<Stop>,
    ended: bool,
}

/// Relays until the guest has ended and its output has been passed on.
pub(super) fn relay(
    mut domain: Domain,
    outer: Option<Outer>,
    output: Counted,
    signals: Signals,
) -> anyhow::Result<Report> {
    let master = domain.take_terminal();
    if let Some(master) = &master {
        rustix::io::ioctl_fionbio(master, true)?;
    }
    let mut relay = Relay {
        domain,
        outer,
        master,
        output,
        signals,
        keys: Vec::new(),
        stop_wanted: None,
        ended: false,
    };
    if let Some(outer) = &mut relay.outer {
        outer.make_raw();
    }
    while !relay.is_done() {
        relay.turn()?;
    }
    relay.finish()
}

/// How the user asked for a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// By a key, which only the guest's terminal got.
    ByKey,
    /// By a signal, which every process in palisade's group got.
    BySignal,
}

/// Ctrl-Z.
const SUSPEND_KEY: u8 = 0x1a;

/// What a turn of the loop waits for.
#[derive(Clone, Copy, Default)]
struct Ready {
    signals: bool,
    domain: bool,
    screen: bool,
    room_for_keys: bool,
    keyboard: bool,
    output: [bool; 2],
}

impl Relay {
    fn is_done(&self) -> bool {
        self.ended && self.output.is_empty() && self.master.is_none()
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        let ready = self.wait()?;
        if ready.signals {
            self.pass_signals_on();
        }
        if ready.domain {
            self.hear()?;
        }
        if ready.output != [false; 2]
            && self.output.move_ready(&ready.output) == Moved::LimitReached
        {
            self.domain.end_for_output();
        }
        if ready.screen {
            self.show()?;
        }
        if ready.keyboard {
            self.type_in();
        }
        if ready.room_for_keys {
            self.pass_keys_on();
        }
        Ok(())
    }

    fn wait(&self) -> rustix::io::Result<Ready> {
        let stdin = std::io::stdin();
        let read = |fd| (fd, PollFlags::IN);
        let master = self.master.as_ref().map(AsFd::as_fd);
        let keys_flag = if self.keys.is_empty() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        };
        let keyboard = self
            .outer
            .as_ref()
            .filter(|outer| self.wants_keys() && outer.has_keys());
        let waits: [Option<(BorrowedFd<'_>, PollFlags)>; 4] = [
            Some(read(self.signals.0.get_read().as_fd())),
            (!self.ended).then(|| read(self.domain.as_fd())),
            master.map(|master| (master, PollFlags::IN | keys_flag)),
            keyboard.map(|_| read(stdin.as_fd())),
        ];
        let mut fds: Vec<_> = waits
            .iter()
            .flatten()
            .copied()
            .chain(self.output.ends().map(read))
            .map(poll_fd)
            .collect();
        match rustix::event::poll(&mut fds, None) {
            Err(Errno::INTR) => {}
            outcome => drop(outcome?),
        }
        let mut events = fds.iter().map(PollFd::revents);
        let mut next = |waited: bool| {
            if waited {
                events.next().unwrap_or(PollFlags::empty())
            } else {
                PollFlags::empty()
            }
        };
        let [signals, domain, terminal, keyboard] = waits.map(|wait| next(wait.is_some()));
        let mut output = [false; 2];
        for (ready, event) in output.iter_mut().zip(events) {
            *ready = !event.is_empty();
        }
        Ok(Ready {
            signals: !signals.is_empty(),
            domain: !domain.is_empty(),
            screen: terminal.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            room_for_keys: terminal.contains(PollFlags::OUT),
            keyboard: !keyboard.is_empty(),
            output,
        })
    }

    /// Keys wait while the guest's terminal is full, or its input would grow here without bound.
    fn wants_keys(&self) -> bool {
        self.master.is_some() && self.keys.is_empty() && !self.ended
    }

    fn pass_signals_on(&mut self) {
        for signal in self.signals.pending() {
            match signal {
                SIGWINCH => self.resize(),
                SIGTTOU => {}
                SIGCONT => self.go_on(),
                SIGTSTP => {
                    self.stop_wanted = Some(Stop::BySignal);
                    let _ = self.domain.signal(SIGTSTP);
                }
                // The guest may have ended already; its report is on the way then.
                signal => drop(self.domain.signal(signal)),
            }
        }
    }

    fn resize(&self) {
        if let (Some(outer), Some(master)) = (&self.outer, &self.master) {
            let (ws_row, ws_col) = outer.size();
            let _ = rustix::termios::tcsetwinsize(
                master,
                Winsize {
                    ws_row,
                    ws_col,
                    ws_xpixel: 0,
                    ws_ypixel: 0,
                },
            );
        }
    }

    fn hear(&mut self) -> anyhow::Result<()> {
        match self.domain.next_event()? {
            Event::Stopped(_) => {
                if let Some(stop) = self.stop_wanted.take() {
                    self.stop_too(stop);
                }
            }
            Event::Ended => self.ended = true,
        }
        Ok(())
    }

    /// A stopped guest looks like a stopped palisade to the shell that started it.
    fn stop_too(&mut self, stop: Stop) {
        if let Some(outer) = &mut self.outer {
            outer.restore();
        }
        let _ = match stop {
            Stop::ByKey => rustix::process::kill_current_process_group(Signal::STOP),
            Stop::BySignal => {
                rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)
            }
        };
        self.go_on();
    }

    fn go_on(&mut self) {
        if let Some(outer) = &mut self.outer {
            outer.make_raw();
        }
        self.resize();
        let _ = self.domain.signal(SIGCONT);
    }

    /// Shows what the guest printed to its terminal.
    fn show(&mut self) -> anyhow::Result<()> {
        let (Some(master), Some(outer)) = (&self.master, &self.outer) else {
            return Ok(());
        };
        let mut buffer = [0; 16 * 1024];
        match rustix::io::read(master, &mut buffer) {
            Ok(length @ 1..) => {
                let shown = length.min(self.output.left_bytes());
                // A screen that is gone shows nothing; the guest still runs to its end.
                let _ = write_all(outer.screen().as_fd(), &buffer[..shown]);
                self.output.count(shown);
                if shown < length {
                    self.domain.end_for_output();
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            // EIO: the last process that held the terminal is gone (pty(7)).
            Ok(_) | Err(_) => self.master = None,
        }
        Ok(())
    }

    fn type_in(&mut self) {
        let mut buffer = [0; 4096];
        match rustix::io::read(std::io::stdin(), &mut buffer) {
            Ok(0) => drop(self.domain.signal(SIGHUP)),
            Ok(length) => {
                if buffer[..length].contains(&SUSPEND_KEY) {
                    self.stop_wanted = Some(Stop::ByKey);
                }
                self.keys.extend_from_slice(&buffer[..length]);
                self.pass_keys_on();
            }
            Err(_) => {}
        }
    }

    fn pass_keys_on(&mut self) {
        if let Some(master) = &self.master
            && let Ok(written) = rustix::io::write(master, &self.keys)
        {
            self.keys.drain(..written);
        }
    }

    fn finish(mut self) -> anyhow::Result<Report> {
        if let Some(outer) = &mut self.outer {
            outer.restore();
        }
        let output_bytes = self.output.passed_bytes();
        let mut report = self.domain.wait()?;
        report.usage.output_bytes = output_bytes;
        Ok(report)
    }
}

fn poll_fd((fd, flags): (BorrowedFd<'_>, PollFlags)) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, flags)
}
