//! Whose connections the proxy serves: those that the broker announced.
//!
//! The proxy listens at the host's loopback, where every process of the host can connect. A
//! connection is known by its peer's address, which is the broker's to give: it has made the
//! connection for a guest, and asks the kernel for that address.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
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
    more: Condvar,
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
        self.more.notify_all();
    }

    /// Who made the connection from `peer`; waits for the announcement until the deadline. Each
    /// announcement is good for one connection.
    pub(super) fn wait_for(&self, peer: SocketAddr, deadline: Instant) -> Option<Process> {
        let left = deadline.saturating_duration_since(Instant::now());
        let missing =
            |announced: &mut HashMap<SocketAddr, Announced>| !announced.contains_key(&peer);
        let waited = self
            .more
            .wait_timeout_while(self.announced(), left, missing);
        let (mut announced, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let one = announced.remove(&peer)?;
        (one.at.elapsed() < HOLDS_FOR).then_some(one.process)
    }

    fn announced(&self) -> MutexGuard<'_, HashMap<SocketAddr, Announced>> {
        self.announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
