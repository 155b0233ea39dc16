//! The signals by which a server is told to reload and to end.

use super::ServeError;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// One signal may come twice: timeout(1) sends it to its child and to the group that the child is in.
const ONE_SIGNAL: Duration = Duration::from_millis(300);

/// Signals that a server hears.
pub(super) struct Signals {
    hangup: Signal,
    reopen: Signal,
    terminate: Signal,
    interrupt: Signal,
}

/// What a signal means.
pub(super) enum Heard {
    /// Read the configuration anew, and open the logs anew.
    Reload,
    /// Open the logs anew.
    Reopen,
    /// End. Its number.
    End(u8),
}

impl Signals {
    pub(super) fn hear() -> Result<Self, ServeError> {
        let hear = |kind| signal(kind).map_err(ServeError::Signals);
        Ok(Self {
            hangup: hear(SignalKind::hangup())?,
            reopen: hear(SignalKind::user_defined1())?,
            terminate: hear(SignalKind::terminate())?,
            interrupt: hear(SignalKind::interrupt())?,
        })
    }

    /// Waits for one.
    pub(super) async fn next(&mut self) -> Heard {
        tokio::select! {
            _ = self.hangup.recv() => Heard::Reload,
            _ = self.reopen.recv() => Heard::Reopen,
            _ = self.terminate.recv() => Heard::End(15),
            _ = self.interrupt.recv() => Heard::End(2),
        }
    }

    /// The number of the second signal by which the server shall end: the first has just come.
    pub(super) async fn second_end(&mut self) -> u8 {
        let first = std::time::Instant::now();
        loop {
            match self.next().await {
                Heard::End(signal) if first.elapsed() >= ONE_SIGNAL => return signal,
                _ => {}
            }
        }
    }
}
