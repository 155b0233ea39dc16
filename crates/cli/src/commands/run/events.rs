//! Where `--events` writes what happens.

use super::{ask::connect_local, open_output};
use anyhow::{Context, bail};
use palisade_wall::journal::Journal;
use std::{
    fs::{self, OpenOptions},
    os::fd::OwnedFd,
    path::Path,
    sync::Arc,
};

/// Before the path of a socket.
const SOCKET: &str = "unix:";

/// The file's path, or the socket's.
pub(in crate::commands) fn path(to: &Path) -> &Path {
    socket(to).unwrap_or(to)
}

fn socket(to: &Path) -> Option<&Path> {
    to.to_str()?.strip_prefix(SOCKET).map(Path::new)
}

/// Opens it before the guest runs: later it could have put a link in its place.
pub(super) fn open(to: &Path, report: Option<&Path>) -> anyhow::Result<Arc<Journal>> {
    // The report's file has been opened: it is there.
    let found = |path: &Path| fs::canonicalize(path).ok();
    let is_report = report
        .is_some_and(|report| report == to || found(to).is_some() && found(report) == found(to));
    if to == Path::new("-") || is_report {
        bail!("usage: --events takes a file or a socket of its own");
    }
    let opened: OwnedFd = match socket(to) {
        Some(path) => connect_local(path)
            .with_context(|| {
                format!(
                    "host: nobody reads at {}: begin what listens there first",
                    path.display()
                )
            })?
            .into(),
        None => open_output(to, OpenOptions::new().truncate(true))
            .with_context(|| {
                format!(
                    "host: cannot write events to {}; a FIFO needs a reader first",
                    to.display()
                )
            })?
            .into(),
    };
    let journal = Journal::to(opened).context("host: cannot write events")?;
    Ok(Arc::new(journal))
}
