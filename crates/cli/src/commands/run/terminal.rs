//! The terminal palisade was started from, and the guest's own in its place.

use palisade_process::Terminal;
use rustix::termios::{OptionalActions, Termios};
use std::{
    io::{IsTerminal, stderr, stdin, stdout},
    os::fd::{AsFd, OwnedFd},
};

/// The terminal outside.
#[derive(Debug)]
pub(super) struct Outer {
    replaces: [bool; 3],
    /// Settings to put back, while the terminal is in raw mode.
    saved: Option<Termios>,
    /// A descriptor for showing what the guest prints.
    screen: OwnedFd,
}

impl Outer {
    /// Looks which standard streams are terminals; `None` if none is.
    pub(super) fn find() -> Option<Self> {
        let replaces = [
            stdin().is_terminal(),
            stdout().is_terminal(),
            stderr().is_terminal(),
        ];
        let screen = match replaces {
            [_, true, _] => stdout().as_fd().try_clone_to_owned(),
            [_, _, true] => stderr().as_fd().try_clone_to_owned(),
            [true, ..] => stdin().as_fd().try_clone_to_owned(),
            _ => return None,
        };
        Some(Self {
            replaces,
            saved: None,
            screen: screen.ok()?,
        })
    }

    pub(super) fn replaces(&self) -> [bool; 3] {
        self.replaces
    }

    pub(super) fn screen(&self) -> &OwnedFd {
        &self.screen
    }

    /// The terminal to make for the guest.
    pub(super) fn order(&self) -> Terminal {
        let (rows, columns) = self.size();
        Terminal {
            rows,
            columns,
            replaces: self.replaces,
            raw_output: !self.shows_as_is(),
        }
    }

    /// Whether the terminal outside leaves output alone while keys go straight to the guest. It
    /// goes on translating line ends where the rest of a pipeline prints to it too.
    fn shows_as_is(&self) -> bool {
        self.replaces[0] && self.replaces[1]
    }

    pub(super) fn size(&self) -> (u16, u16) {
        rustix::termios::tcgetwinsize(&self.screen)
            .map_or((24, 80), |size| (size.ws_row, size.ws_col))
    }

    /// Whether keys typed now are meant for us.
    pub(super) fn has_keys(&self) -> bool {
        self.replaces[0] && self.is_in_foreground()
    }

    fn is_in_foreground(&self) -> bool {
        rustix::termios::tcgetpgrp(stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
    }

    /// Passes every key on to the guest's terminal, which gives Ctrl-C and Ctrl-Z their meaning. In
    /// the background the terminal belongs to somebody else and is left alone.
    pub(super) fn make_raw(&mut self) {
        if self.saved.is_some() || !self.has_keys() {
            return;
        }
        if let Ok(settings) = rustix::termios::tcgetattr(stdin()) {
            let mut raw = settings.clone();
            raw.make_raw();
            if !self.shows_as_is() {
                raw.output_modes = settings.output_modes;
            }
            if rustix::termios::tcsetattr(stdin(), OptionalActions::Now, &raw).is_ok() {
                self.saved = Some(settings);
            }
        }
    }

    /// Puts the terminal back as it was found.
    pub(super) fn restore(&mut self) {
        if let Some(settings) = self.saved.take() {
            let _ = rustix::termios::tcsetattr(stdin(), OptionalActions::Now, &settings);
        }
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        self.restore();
    }
}
