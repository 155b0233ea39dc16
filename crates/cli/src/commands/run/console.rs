//! Both terminals, the one outside and the guest's, and what is on its way between them.

use super::{line_ends::LineEnds, queries::Queries, terminal::Outer};
use rustix::{
    event::PollFlags,
    io::Errno,
    termios::{OptionalActions, SpecialCodeIndex},
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The guest's output is taken over in pieces of this size.
const CHUNK_BYTES: usize = 16 * 1024;

/// The two terminals of a running guest.
#[derive(Debug)]
pub(in crate::commands) struct Console {
    outer: Outer,
    /// Our end of the guest's terminal, until nobody holds the other one.
    master: Option<OwnedFd>,
    /// Keys the guest's terminal has no room for yet.
    keys: Vec<u8>,
    /// Output the screen has no room for yet.
    unshown: Vec<u8>,
    line_ends: LineEnds,
    queries: Queries,
    /// Keys go to the guest.
    in_front: bool,
    /// The guest gets the keys whenever palisade is in the foreground. In a pipeline it must have
    /// asked for them once.
    wants_front: bool,
    /// The guest's terminal was given settings that were meant for palisade.
    has_settings: bool,
    /// Somebody asks at the terminal.
    is_left: bool,
}

/// What to wait for on one descriptor.
pub(in crate::commands) type Wait<'a> = (BorrowedFd<'a>, PollFlags);

/// What happened on the guest's terminal, on the keyboard and on the screen.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct Events {
    pub(in crate::commands) guest: PollFlags,
    pub(in crate::commands) keyboard: PollFlags,
    pub(in crate::commands) screen: PollFlags,
}

/// The terminal outside is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) struct HungUp;

impl Console {
    pub(in crate::commands) fn new(outer: Outer, master: OwnedFd) -> rustix::io::Result<Self> {
        rustix::io::ioctl_fionbio(&master, true)?;
        let starts_in_front = outer.starts_in_front();
        let has_settings = !outer.starts_behind();
        let mut console = Self {
            outer,
            master: Some(master),
            keys: Vec::new(),
            unshown: Vec::new(),
            line_ends: LineEnds::default(),
            queries: Queries::default(),
            in_front: starts_in_front,
            wants_front: starts_in_front,
            has_settings,
            is_left: false,
        };
        if starts_in_front {
            console.outer.make_raw();
        }
        Ok(console)
    }

    /// What to wait for on the guest's terminal, on the keyboard and on the screen. A hang-up of the
    /// last two is always heard.
    pub(in crate::commands) fn waits(&self, for_keys: bool) -> [Option<Wait<'_>>; 3] {
        let mut guest = PollFlags::empty();
        guest.set(PollFlags::IN, self.unshown.is_empty() && !self.is_left);
        guest.set(PollFlags::OUT, !self.keys.is_empty());
        let mut keyboard = PollFlags::empty();
        keyboard.set(PollFlags::IN, for_keys && self.takes_keys());
        let mut screen = PollFlags::empty();
        screen.set(PollFlags::OUT, !self.unshown.is_empty() && !self.is_left);
        let master = self.master.as_ref().filter(|_| !guest.is_empty());
        [
            master.map(|master| (master.as_fd(), guest)),
            Some((self.outer.keyboard(), keyboard)),
            Some((self.outer.screen(), screen)),
        ]
    }

    /// Whether keys may be read now. They wait while the guest's terminal is full, or its input would
    /// grow here without bound.
    pub(in crate::commands) fn takes_keys(&self) -> bool {
        let has_room = self.master.is_some() && self.keys.is_empty();
        self.in_front && has_room && !self.is_left
    }

    pub(in crate::commands) fn has_hung_up(events: Events) -> bool {
        (events.keyboard | events.screen).intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Whether all that the guest printed has been shown and nothing more can come.
    pub(in crate::commands) fn is_done(&self) -> bool {
        self.master.is_none() && self.unshown.is_empty()
    }

    pub(in crate::commands) fn is_in_front(&self) -> bool {
        self.in_front
    }

    /// Whether keys typed now are meant for palisade.
    pub(in crate::commands) fn is_ours(&self) -> bool {
        self.outer.is_ours()
    }

    /// The guest wants the keys, now and whenever palisade comes to the foreground.
    pub(in crate::commands) fn want_front(&mut self) {
        self.wants_front = true;
    }

    /// Gives the guest the keys if it wants them and palisade has them, or else leaves them to others;
    /// tells which.
    pub(in crate::commands) fn look_around(&mut self) -> bool {
        if self.wants_front && self.outer.is_ours() {
            self.come_to_front();
        } else {
            self.step_back();
        }
        self.in_front
    }

    /// Leaves the terminal, which somebody asks at: cooked, and what the guest prints waits.
    pub(super) fn leave_to_questions(&mut self) {
        self.outer.restore();
        self.is_left = true;
    }

    /// Takes it back.
    pub(super) fn return_from_questions(&mut self) {
        self.is_left = false;
        if self.in_front && self.outer.is_ours() {
            self.outer.make_raw();
        }
    }

    fn come_to_front(&mut self) {
        if !self.is_left {
            self.outer.make_raw();
        }
        self.in_front = true;
        if !std::mem::replace(&mut self.has_settings, true) {
            self.take_settings_over();
        }
    }

    /// The terminal is put back as it was found.
    pub(in crate::commands) fn step_back(&mut self) {
        self.outer.restore();
        self.in_front = false;
    }

    /// The guest is stopped now: it could not change them yet.
    fn take_settings_over(&self) {
        if let Some(master) = &self.master {
            let settings = self.outer.found();
            let _ = rustix::termios::tcsetattr(master, OptionalActions::Now, settings);
        }
    }

    /// The kernel tells the guest if the size is another one.
    pub(in crate::commands) fn resize(&self) {
        if let Some(master) = &self.master {
            let _ = rustix::termios::tcsetwinsize(master, self.outer.size());
        }
    }

    /// Takes what was typed over to the guest's terminal; tells whether the suspend key was among it.
    pub(in crate::commands) fn type_in(&mut self) -> Result<bool, HungUp> {
        let mut buffer = [0; 4096];
        match self.outer.read_keys(&mut buffer) {
            Ok(0) | Err(Errno::IO) => Err(HungUp),
            Ok(length) => {
                let typed = &buffer[..length];
                let suspends = self.suspend_key().is_some_and(|key| typed.contains(&key));
                self.keys.extend_from_slice(typed);
                self.pass_keys_on();
                Ok(suspends)
            }
            Err(_) => Ok(false),
        }
    }

    /// Ctrl-Z, unless the guest or its user said otherwise (stty(1)).
    fn suspend_key(&self) -> Option<u8> {
        let settings = rustix::termios::tcgetattr(self.master.as_ref()?).ok()?;
        Some(settings.special_codes[SpecialCodeIndex::VSUSP]).filter(|key| *key != 0)
    }

    pub(in crate::commands) fn pass_keys_on(&mut self) {
        let Some(master) = self.master.as_ref().filter(|_| !self.keys.is_empty()) else {
            return;
        };
        match rustix::io::write(master, &self.keys) {
            Ok(written) => drop(self.keys.drain(..written)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Nobody is there to read them.
            Err(_) => self.keys.clear(),
        }
    }

    /// Takes over what the guest printed, and shows at most so much of it; tells how much it printed.
    pub(in crate::commands) fn show(&mut self, most_bytes: usize) -> Result<usize, HungUp> {
        let Some(master) = self.master.as_ref().filter(|_| self.unshown.is_empty()) else {
            return Ok(0);
        };
        let mut buffer = [0; CHUNK_BYTES];
        match rustix::io::read(master, &mut buffer) {
            Ok(length @ 1..) => {
                let shown = &buffer[..length.min(most_bytes)];
                self.queries.read(shown);
                let translated_outside = self.outer.translates_line_ends();
                self.line_ends
                    .pass(shown, translated_outside, &mut self.unshown);
                self.show_rest()?;
                Ok(length)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            // EIO: the last process that held the terminal is gone (pty(7)).
            Ok(_) | Err(_) => {
                self.master = None;
                self.line_ends.end(&mut self.unshown);
                self.show_rest()?;
                Ok(0)
            }
        }
    }

    /// The guest has ended, and all that it printed is shown: what the terminal still answers it is
    /// nobody's.
    pub(in crate::commands) fn settle(&self) {
        if self.queries.may_be_answered() {
            self.outer.discard_answers();
        }
    }

    /// Shows what the screen has room for.
    pub(in crate::commands) fn show_rest(&mut self) -> Result<(), HungUp> {
        while !self.unshown.is_empty() && !self.is_left {
            match rustix::io::write(self.outer.screen(), &self.unshown) {
                Ok(written) => drop(self.unshown.drain(..written)),
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(_) => return Err(HungUp),
            }
        }
        Ok(())
    }
}
