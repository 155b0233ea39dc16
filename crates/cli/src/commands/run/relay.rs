//! The loop between a running guest and the outside: signals, terminal, counted output.

use super::{
    console::{Console, Events, HungUp},
    job,
    output::{Counted, Moved},
    question::{Change, Desk},
    signals::{self, Signals},
    terminal::Outer,
};
use anyhow::bail;
use palisade_wall::{Domain, Event, Report, TerminalPosition};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    process::Signal,
};
use signal_hook::consts::signal::{SIGCONT, SIGHUP, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH};
use std::os::fd::{AsFd, BorrowedFd};

/// Everything that is relayed.
struct Relay<'a> {
    domain: Box<dyn Domain>,
    console: Option<Console>,
    desk: Option<Desk>,
    output: Counted,
    signals: &'a mut Signals,
    /// The user asked for a stop.
    stop_wanted: Option<Stop>,
    is_stopped: bool,
    /// How often the guest is to be continued and has not answered.
    awaited: u32,
    ended: bool,
    /// What the wall relays itself has all been passed on.
    is_relayed: bool,
}

/// Relays until the guest has ended and its output has been passed on.
pub(super) fn relay(
    mut domain: Box<dyn Domain>,
    (outer, desk): (Option<Outer>, Option<Desk>),
    output: Counted,
    signals: &mut Signals,
) -> anyhow::Result<Report> {
    let terminals = outer.zip(domain.take_terminal());
    let console = terminals.map(|(outer, master)| Console::new(outer, master));
    let mut relay = Relay {
        domain,
        console: console.transpose()?,
        desk,
        output,
        signals,
        stop_wanted: None,
        is_stopped: false,
        awaited: 0,
        ended: false,
        is_relayed: false,
    };
    while !relay.is_done() {
        relay.turn()?;
    }
    relay.finish()
}

/// Who is to stop with the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Palisade's process group: only the guest's terminal got the key.
    Group,
    /// Palisade alone: whoever else was meant got the signal too.
    Palisade,
}

/// What a turn of the loop waits for.
#[derive(Clone, Copy)]
struct Ready {
    signals: bool,
    domain: bool,
    terminals: Events,
    output: [bool; 2],
    relayed: bool,
    /// Questions, and answers that were typed.
    desk: [bool; 2],
}

impl Relay<'_> {
    fn is_done(&self) -> bool {
        let all_shown = self.console.as_ref().is_none_or(Console::is_done);
        let all_relayed = self.is_relayed || self.domain.relayed().is_none();
        self.ended && self.output.is_empty() && all_shown && all_relayed
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        let ready = self.wait()?;
        if ready.signals {
            self.pass_signals_on();
        }
        if ready.domain {
            self.hear()?;
        }
        self.is_relayed |= ready.relayed;
        self.attend_desk(ready.desk);
        if ready.output != [false; 2]
            && self.output.move_ready(&ready.output) == Moved::LimitReached
        {
            self.domain.end_for_output();
        }
        if self.pass_bytes_on(ready.terminals) == Err(HungUp) {
            self.console = None;
            // Nobody is there to be asked.
            self.desk = None;
            self.pass_hangup_on();
        }
        Ok(())
    }

    fn wait(&self) -> rustix::io::Result<Ready> {
        let read = |fd| (fd, PollFlags::IN);
        let terminals = self.console.as_ref();
        let terminals = terminals.map_or([None; 3], |console| console.waits(self.awaited == 0));
        let desk = self.desk.as_ref().map_or([None; 2], Desk::waits);
        let waits = [
            Some(read(self.signals.as_fd())),
            (!self.ended).then(|| read(self.domain.as_fd())),
            self.domain
                .relayed()
                .filter(|_| self.ended && !self.is_relayed)
                .map(read),
            terminals[0],
            terminals[1],
            terminals[2],
            desk[0],
            desk[1],
        ];
        let flat = waits.iter().flatten().copied().chain(self.output.waits());
        let mut fds: Vec<_> = flat.map(poll_fd).collect();
        let patience = self.desk.as_ref().and_then(Desk::patience);
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        match rustix::event::poll(&mut fds, patience.as_ref()) {
            Err(Errno::INTR) => {}
            outcome => drop(outcome?),
        }
        let mut events = fds.iter().map(PollFd::revents);
        let [
            signals,
            domain,
            relayed,
            guest,
            keyboard,
            screen,
            asked,
            typed,
        ] = waits.map(|wait| {
            wait.and_then(|_| events.next())
                .unwrap_or(PollFlags::empty())
        });
        let mut output = [false; 2];
        for (ready, event) in output.iter_mut().zip(events) {
            *ready = !event.is_empty();
        }
        Ok(Ready {
            signals: !signals.is_empty(),
            domain: !domain.is_empty(),
            relayed: !relayed.is_empty(),
            terminals: Events {
                guest,
                keyboard,
                screen,
            },
            output,
            desk: [asked, typed].map(|events| !events.is_empty()),
        })
    }

    /// Questions to whoever sits at the terminal, which is not the guest's meanwhile.
    fn attend_desk(&mut self, [asked, typed]: [bool; 2]) {
        let Some(desk) = &mut self.desk else { return };
        if self.ended {
            let change = desk.close();
            self.pass_terminal(change);
            self.desk = None;
            return;
        }
        let heard = if asked { desk.hear() } else { Change::Nothing };
        self.pass_terminal(heard);
        let typed = self.desk.as_mut().filter(|_| typed).map(Desk::read);
        self.pass_terminal(typed.unwrap_or(Change::Nothing));
        let next = self.desk.as_mut().map(Desk::go_on);
        self.pass_terminal(next.unwrap_or(Change::Nothing));
    }

    fn pass_terminal(&mut self, change: Change) {
        let Some(desk) = &mut self.desk else { return };
        match change {
            Change::Nothing => {}
            Change::Taken => {
                if let Some(console) = &mut self.console {
                    console.leave_to_questions();
                }
                desk.show();
            }
            Change::Given => {
                if let Some(console) = &mut self.console {
                    console.return_from_questions();
                    // What it had on the screen is drawn anew.
                    let _ = self.domain.signal(SIGWINCH);
                }
            }
        }
    }

    /// Output goes to the screen and keys to the guest.
    fn pass_bytes_on(&mut self, events: Events) -> Result<(), HungUp> {
        let Some(console) = &mut self.console else {
            return Ok(());
        };
        if Console::has_hung_up(events) {
            return Err(HungUp);
        }
        console.show_rest()?;
        console.pass_keys_on();
        // Palisade may have been stopped since it waited for keys.
        let takes_keys = self.awaited == 0 && console.takes_keys();
        let is_typed = takes_keys && events.keyboard.contains(PollFlags::IN);
        let is_anothers = |desk: &Desk| desk.is_asked_elsewhere();
        if is_typed && !self.desk.as_ref().is_some_and(is_anothers) {
            let suspends = console.type_in()?;
            self.want_stop(suspends.then_some(Stop::Group));
        }
        if events
            .guest
            .intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
        {
            self.show()?;
        }
        Ok(())
    }

    /// Shows a piece of what the guest printed; tells how long it is.
    fn show(&mut self) -> Result<usize, HungUp> {
        let Some(console) = &mut self.console else {
            return Ok(0);
        };
        let most_bytes = self.output.left_bytes();
        let printed_bytes = console.show(most_bytes)?;
        self.output.count(printed_bytes.min(most_bytes));
        if printed_bytes > most_bytes {
            self.domain.end_for_output();
        }
        Ok(printed_bytes)
    }

    /// What the guest printed before it stopped is seen before palisade stops. Others of its domain
    /// may print for ever.
    fn show_before_stop(&mut self) {
        const MOST_PIECES: usize = 64;
        for _ in 0..MOST_PIECES {
            // A terminal that is gone is noticed when palisade goes on.
            if self.show().unwrap_or(0) == 0 {
                return;
            }
        }
    }

    fn pass_signals_on(&mut self) {
        for signal in self.signals.pending() {
            match signal {
                SIGWINCH => self.resize(),
                SIGCONT => self.resume(),
                SIGTSTP => {
                    self.signal(SIGTSTP);
                    self.want_stop(Some(Stop::Palisade));
                }
                SIGHUP => self.pass_hangup_on(),
                signal => {
                    if signals::ask_to_end(signal) {
                        self.decline();
                    }
                    self.signal(signal);
                }
            }
        }
    }

    /// Who ends the guest says no to what it asks.
    fn decline(&mut self) {
        let change = self.desk.as_mut().map(Desk::decline);
        self.pass_terminal(change.unwrap_or(Change::Nothing));
    }

    /// A signal that comes when the guest has ended already is about what it printed and nobody reads.
    fn signal(&mut self, signal: i32) {
        let has_ended = self.ended || self.domain.signal(signal).is_err();
        if has_ended && signals::ask_to_end(signal) {
            self.console = None;
            self.output.close();
            self.domain.leave_relayed();
        }
    }

    /// What is stopped hears of nothing but SIGCONT: the kernel sends it behind the SIGHUP for every
    /// group that is left behind stopped (setpgid(2)).
    fn pass_hangup_on(&mut self) {
        self.signal(SIGHUP);
        self.continue_guest(TerminalPosition::Same);
    }

    fn resize(&self) {
        if let Some(console) = &self.console {
            console.resize();
        }
    }

    fn hear(&mut self) -> anyhow::Result<()> {
        match self.domain.next_event()? {
            Event::Stopped(signal) => self.guest_stopped(signal),
            Event::Continued => self.awaited = self.awaited.saturating_sub(1),
            Event::Ended => self.ended = true,
            Event::Asked => {}
        }
        Ok(())
    }

    fn guest_stopped(&mut self, signal: i32) {
        // Perhaps palisade has been continued in the meantime, and the guest with it.
        self.pass_signals_on();
        if self.awaited > 0 {
            return;
        }
        self.is_stopped = true;
        let is_in_front = self.console.as_ref().map(Console::is_in_front);
        let asks = [SIGTTIN, SIGTTOU].contains(&signal) && is_in_front == Some(false);
        if let (true, Some(console)) = (asks, &mut self.console) {
            console.want_front();
        }
        if let Some(stop) = self.stop_wanted.take() {
            self.stop_too(stop);
        } else if asks {
            self.ask_for_terminal(signal);
        } else if is_in_front == Some(true) && job::leads_its_group() {
            // As `:stop` of an editor. Only the person at the keyboard gets to see it: a guest must
            // not stop what started palisade, nor a palisade that nobody watches, which keeps its limits.
            self.stop_too(Stop::Group);
        } else if signal != SIGSTOP && !job::is_watched() {
            // Outside the kernel would have ignored it.
            self.continue_guest(TerminalPosition::Same);
        }
    }

    /// The guest, in the background, was stopped because it read or set its terminal.
    fn ask_for_terminal(&mut self, signal: i32) {
        if self.console.as_ref().is_some_and(Console::is_ours) {
            self.resume();
        } else if job::is_watched() {
            let signal = if signal == SIGTTIN {
                Signal::TTIN
            } else {
                Signal::TTOU
            };
            self.show_before_stop();
            // Stops palisade; it goes on by SIGCONT.
            let _ = rustix::process::kill_current_process_group(signal);
        } else {
            // Nobody can bring it to the foreground; outside it would have got EIO.
            self.console = None;
            self.pass_hangup_on();
        }
    }

    /// The user wants the guest, and palisade with it, to stop.
    fn want_stop(&mut self, stop: Option<Stop>) {
        self.stop_wanted = stop;
        // One that has stopped by itself does not stop again.
        if self.is_stopped
            && let Some(stop) = self.stop_wanted.take()
        {
            self.stop_too(stop);
        }
    }

    /// A stopped guest looks like a stopped palisade to the shell that started it. Where there is no
    /// such shell, nobody could ever continue either.
    fn stop_too(&mut self, stop: Stop) {
        if !job::is_watched() {
            return self.continue_guest(TerminalPosition::Same);
        }
        self.show_before_stop();
        if let Some(console) = &mut self.console {
            console.step_back();
        }
        let _ = match stop {
            Stop::Group => rustix::process::kill_current_process_group(Signal::STOP),
            Stop::Palisade => {
                rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)
            }
        };
    }

    /// Palisade was continued, in the foreground or in the background.
    fn resume(&mut self) {
        self.stop_wanted = None;
        self.resize();
        let is_stopped = self.is_stopped;
        let position = self
            .console
            .as_mut()
            .map_or(TerminalPosition::Same, |console| {
                let was_in_front = console.is_in_front();
                let is_in_front = console.look_around();
                match is_in_front {
                    _ if was_in_front == is_in_front && !is_stopped => TerminalPosition::Same,
                    true => TerminalPosition::Foreground,
                    false => TerminalPosition::Background,
                }
            });
        self.continue_guest(position);
    }

    /// Keys wait until it has happened: earlier they would be another group's, and a stop would be
    /// taken back.
    fn continue_guest(&mut self, position: TerminalPosition) {
        self.is_stopped = false;
        if self.domain.resume(position).is_ok() {
            self.awaited += 1;
        }
    }

    fn finish(mut self) -> anyhow::Result<Report> {
        if let Some(console) = &self.console {
            console.settle();
        }
        // Puts the terminal back.
        self.console = None;
        let output_bytes = self.output.passed_bytes();
        let failure = self.output.failure().or(self.domain.relay_failure());
        let mut report = self.domain.wait()?;
        if let Some((stream, errno)) = failure {
            bail!(
                "host: {stream} cannot be written ({errno}): some of what the guest wrote is lost"
            );
        }
        report.usage.output_bytes = output_bytes;
        Ok(report)
    }
}

fn poll_fd((fd, flags): (BorrowedFd<'_>, PollFlags)) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, flags)
}
