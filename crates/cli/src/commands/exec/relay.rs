//! The loop between a further process and the outside.

use super::pipes::Pipes;
use crate::commands::run::{
    console::{Console, Events, HungUp},
    signals::Signals,
    terminal::Outer,
};
use anyhow::Context;
use palisade_process::running::{Session, SessionEvent};
use palisade_wall::Exit;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    process::Signal,
};
use signal_hook::consts::signal::{SIGCONT, SIGHUP, SIGTSTP, SIGWINCH};
use std::{
    io::stdin,
    os::fd::AsFd,
    time::{Duration, Instant},
};

/// How long what a process printed is waited for that others, who may print for ever, still hold.
const PATIENCE: Duration = Duration::from_millis(500);

/// Relays until the process has ended and its output has been passed on; gives its exit code.
pub(super) fn relay(
    mut session: Session,
    outer: Option<Outer>,
    pipes: Pipes,
) -> anyhow::Result<u8> {
    let signals = Signals::catch(false).context("host: cannot catch signals")?;
    let terminals = outer.zip(session.take_terminal());
    let console = terminals.map(|(outer, master)| Console::new(outer, master));
    let mut relay = Relay {
        session,
        signals,
        console: console.transpose()?,
        pipes,
        ended: None,
    };
    while !relay.is_done() {
        relay.turn()?;
    }
    Ok(relay.finish())
}

struct Relay {
    session: Session,
    signals: Signals,
    console: Option<Console>,
    pipes: Pipes,
    ended: Option<(SessionEvent, Instant)>,
}

impl Relay {
    fn is_done(&self) -> bool {
        let Some((_, at)) = self.ended else {
            return false;
        };
        let is_shown = self.console.as_ref().is_none_or(Console::is_done);
        is_shown && self.pipes.is_done() || at.elapsed() >= PATIENCE
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        let (signals, session, terminals, pipes) = self.wait()?;
        if signals {
            self.pass_signals_on();
        }
        if session {
            self.ended = Some((self.session.next_event()?, Instant::now()));
        }
        self.pipes.move_ready(pipes);
        if self.pass_bytes_on(terminals) == Err(HungUp) {
            self.console = None;
            self.signal(SIGHUP);
        }
        Ok(())
    }

    fn wait(&self) -> rustix::io::Result<(bool, bool, Events, [PollFlags; 4])> {
        let stdin = stdin();
        let console = self.console.as_ref();
        let [guest, keyboard, screen] = console.map_or([None; 3], |console| console.waits(true));
        let [reads, writes, out, error] = self.pipes.waits(&stdin);
        let heard = self
            .ended
            .is_none()
            .then(|| (self.session.as_fd(), PollFlags::IN));
        let signals = Some((self.signals.as_fd(), PollFlags::IN));
        let waits = [
            signals, heard, guest, keyboard, screen, reads, writes, out, error,
        ];
        let mut fds: Vec<_> = waits
            .iter()
            .flatten()
            .map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags))
            .collect();
        let left = self
            .ended
            .map(|(_, at)| PATIENCE.saturating_sub(at.elapsed()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut fds, left.as_ref()) {
            Err(Errno::INTR) => {}
            outcome => drop(outcome?),
        }
        let mut events = fds.iter().map(PollFd::revents);
        let [signals, heard, guest, keyboard, screen, pipes @ ..] = waits.map(|wait| {
            wait.and_then(|_| events.next())
                .unwrap_or(PollFlags::empty())
        });
        let terminals = Events {
            guest,
            keyboard,
            screen,
        };
        Ok((!signals.is_empty(), !heard.is_empty(), terminals, pipes))
    }

    fn pass_bytes_on(&mut self, events: Events) -> Result<(), HungUp> {
        let Some(console) = &mut self.console else {
            return Ok(());
        };
        if Console::has_hung_up(events) {
            return Err(HungUp);
        }
        console.show_rest()?;
        console.pass_keys_on();
        if console.takes_keys() && events.keyboard.contains(PollFlags::IN) {
            console.type_in()?;
        }
        let printed = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        if events.guest.intersects(printed) {
            console.show(usize::MAX)?;
        }
        Ok(())
    }

    fn pass_signals_on(&mut self) {
        for signal in self.signals.pending() {
            match signal {
                SIGWINCH => self.resize(),
                SIGCONT => self.resume(),
                SIGTSTP => self.stop(),
                signal => self.signal(signal),
            }
        }
    }

    /// One that comes when the process has ended is about what it printed and nobody reads.
    fn signal(&mut self, signal: i32) {
        if self.ended.is_some() || self.session.signal(signal).is_err() {
            self.console = None;
            self.pipes = Pipes::default();
        }
    }

    fn resize(&self) {
        if let Some(console) = &self.console {
            console.resize();
        }
    }

    /// Palisade alone: the process goes on.
    fn stop(&mut self) {
        if let Some(console) = &mut self.console {
            console.step_back();
        }
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
    }

    fn resume(&mut self) {
        if let Some(console) = &mut self.console {
            console.want_front();
            console.look_around();
            console.resize();
        }
    }

    fn finish(mut self) -> u8 {
        if let Some(console) = &self.console {
            console.settle();
        }
        // Puts the terminal back.
        self.console = None;
        match self.ended {
            Some((SessionEvent::Ended(status), _)) => Exit::from_wait_status(status).shell_code(),
            // All that ran there was killed.
            _ => Exit::Signal(9).shell_code(),
        }
    }
}
