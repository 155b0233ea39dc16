//! The signals that palisade takes for the guest.

use rustix::process::{Resource, getrlimit};
use signal_hook::{
    consts::signal::{
        SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
        SIGXFSZ,
    },
    iterator::{backend::SignalDelivery, exfiltrator::SignalOnly},
};
use std::{
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::Arc,
};

/// SIGTTIN and SIGTTOU keep their default action: in the background the kernel stops palisade as it
/// would any program that uses the terminal.
const CAUGHT: [i32; 10] = [
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
];

/// Whether a signal asks a program to end.
pub(in crate::commands) fn ask_to_end(signal: i32) -> bool {
    [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&signal)
}

/// Caught signals, readable through a descriptor.
pub(in crate::commands) struct Signals(SignalDelivery<UnixStream, SignalOnly>);

impl Signals {
    /// A keeper started after this has the default action for what is caught, and so have its guests:
    /// then what is ignored (nohup(1)) is left alone.
    pub(in crate::commands) fn catch(keeper_runs: bool) -> std::io::Result<Self> {
        let ignored = if keeper_runs { 0 } else { ignored() };
        let caught = CAUGHT
            .into_iter()
            .filter(|signal| ignored >> (signal - 1) & 1 == 0);
        if ignored >> (SIGXFSZ - 1) & 1 == 0 {
            survive_large_files()?;
        }
        let (read, write) = UnixStream::pair()?;
        SignalDelivery::with_pipe(read, write, SignalOnly, caught).map(Self)
    }

    pub(in crate::commands) fn pending(&mut self) -> Vec<i32> {
        self.0.pending().collect()
    }
}

impl AsFd for Signals {
    /// Readable when some are pending.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_read().as_fd()
    }
}

/// What palisade writes for the guest (relayed output, the report) may reach the starter's limit on files: then
/// writing fails and is told of. What is caught has its default action in every program that is executed, so the
/// guest has what its starter has. Without a limit there is no such signal.
fn survive_large_files() -> std::io::Result<()> {
    if getrlimit(Resource::Fsize).current.is_some() {
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    }
    Ok(())
}

/// A bit for each, as proc_pid_status(5) shows them.
fn ignored() -> u64 {
    let status = palisade_process::kernel_file::text("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.map_or(0, |bits| u64::from_str_radix(bits.trim(), 16).unwrap_or(0))
}
