//! Signals that end what is learned, or one round of it.

use anyhow::{Context, bail};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Signal, getpgrp},
    termios::tcgetpgrp,
};
use signal_hook::{flag, low_level::pipe};
use std::{
    fs::File,
    io::{self, Read},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// What ends a program that does not mind it.
const CAUGHT: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Signals that are caught from now on.
pub(super) struct Signals {
    came: [Arc<AtomicBool>; CAUGHT.len()],
    /// Has something to read once one came.
    told: UnixStream,
}

impl Signals {
    pub(super) fn catch() -> anyhow::Result<Self> {
        let (told, tells) = UnixStream::pair().context("host: cannot make a pipe")?;
        told.set_nonblocking(true)
            .context("host: cannot make a pipe")?;
        let signals = Self {
            came: Default::default(),
            told,
        };
        for (signal, came) in CAUGHT.iter().zip(&signals.came) {
            // The flag first: it is set before anybody is told.
            flag::register(signal.as_raw(), Arc::clone(came))
                .and_then(|_| pipe::register(signal.as_raw(), tells.try_clone()?))
                .context("host: cannot catch signals")?;
        }
        Ok(signals)
    }

    /// To be waited for: readable once there is one to [take](Self::take).
    pub(super) fn wakes(&self) -> PollFd<'_> {
        PollFd::new(&self.told, PollFlags::IN)
    }

    /// Those that came since the last time.
    pub(super) fn take(&self) -> Vec<Signal> {
        // First, or one could come between, and nobody be told.
        let _ = (&self.told).read(&mut [0; 64]);
        let all = CAUGHT.iter().zip(&self.came);
        let came = all.filter(|(_, came)| came.swap(false, Ordering::Relaxed));
        came.map(|(signal, _)| *signal).collect()
    }

    /// Outside of rounds each of them ends all of it.
    pub(super) fn heed(&self) -> anyhow::Result<()> {
        match self.take().is_empty() {
            true => Ok(()),
            false => bail!("host: ended by a signal: no policy was written"),
        }
    }

    /// What can be read there, until a signal comes.
    pub(super) fn while_reading<'a>(&'a self, file: &'a File) -> Heedful<'a> {
        Heedful {
            signals: self,
            file,
        }
    }
}

/// Whether a signal of the terminal's goes to the children of this process, too.
pub(super) fn is_before_a_terminal() -> bool {
    let terminal = File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()))
}

/// See [`Signals::while_reading`].
pub(super) struct Heedful<'a> {
    signals: &'a Signals,
    file: &'a File,
}

impl Read for Heedful<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut file = self.file;
        loop {
            let mut fds = [PollFd::new(self.file, PollFlags::IN), self.signals.wakes()];
            rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
            self.signals.heed().map_err(io::Error::other)?;
            if !fds[0].revents().is_empty() {
                return file.read(buffer);
            }
        }
    }
}
