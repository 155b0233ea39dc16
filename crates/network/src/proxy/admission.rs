//! Whose connections the proxy serves: those that the broker announced.
//!
//! The proxy listens at the host's loopback, where every process of the host can connect. A
//! connection is known by its peer's address, which is the broker's to give: it binds the guest's
//! socket, announces that address, and only then connects. So whoever is not announced when accepted
//! never will be, and costs the proxy neither a thread nor a place.

use crate::lock::lock;
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use crate::Process;

/// How many connections may be announced and not accepted yet; then the oldest is forgotten. More
/// than the backlog of a listening socket holds.
const MAX_ANNOUNCED: usize = 4096;

/// How long an announcement holds: the kernel has accepted the connection by then, or dropped it.
const HOLDS_FOR: Duration = Duration::from_secs(30);

/// The connections that were announced and are not served yet.
#[derive(Debug, Default)]
pub(super) struct Admission {
    announced: Mutex<HashMap<SocketAddr, Announced>>,
}

#[derive(Debug)]
struct Announced {
    process: Process,
    at: Instant,
}

impl Admission {
    pub(super) fn announce(&self, peer: SocketAddr, process: Process) {
        let at = Instant::now();
        let mut announced = self.announced();
        if announced.len() >= MAX_ANNOUNCED {
            announced.retain(|_, one| at - one.at < HOLDS_FOR);
        }
        if announced.len() >= MAX_ANNOUNCED {
            let oldest = announced
                .iter()
                .min_by_key(|(_, one)| one.at)
                .map(|(peer, _)| *peer);
            oldest.and_then(|peer| announced.remove(&peer));
        }
        announced.insert(peer, Announced { process, at });
    }

    /// Who made the connection from `peer`, if it was announced. Each announcement is good for one
    /// connection.
    pub(super) fn take(&self, peer: SocketAddr) -> Option<Process> {
        let one = self.announced().remove(&peer)?;
        (one.at.elapsed() < HOLDS_FOR).then_some(one.process)
    }

    fn announced(&self) -> MutexGuard<'_, HashMap<SocketAddr, Announced>> {
        lock(&self.announced)
    }
}
