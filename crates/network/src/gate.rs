//! Decisions while names change: what the broker asks at each call.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use palisade_policy::{HostName, Transport};

use crate::{Network, Reason, Refusal, address::destination, is_withheld};

/// A [`Network`] whose pins may change while it is asked.
///
/// Asking takes a read lock and allocates nothing, unless it refuses.
#[derive(Debug)]
pub struct Gate {
    network: RwLock<Network>,
    proxy: OnceLock<SocketAddr>,
}

impl Gate {
    /// A gate with these rules.
    pub fn new(network: Network) -> Self {
        Self {
            network: RwLock::new(network),
            proxy: OnceLock::new(),
        }
    }

    /// Lets the guest connect to the proxy, from now on. The first proxy stays.
    pub fn open_proxy(&self, address: SocketAddr) {
        self.proxy.get_or_init(|| address);
    }

    /// The proxy's address, where there is one: the broker announces each connection to it.
    pub fn proxy(&self) -> Option<SocketAddr> {
        self.proxy.get().copied()
    }

    /// See [`Network::connect`]. The proxy is allowed too.
    ///
    /// # Errors
    /// When no grant covers it, or it is [withheld](is_withheld).
    pub fn connect(
        &self,
        transport: Transport,
        address: SocketAddr,
    ) -> Result<SocketAddr, Refusal> {
        match self.proxy() {
            Some(proxy) if transport == Transport::Tcp && destination(address) == proxy => {
                Ok(proxy)
            }
            _ if transport == Transport::Tcp && is_withheld(address) => Err(Refusal {
                reason: Reason::OfOperators,
                grant: None,
            }),
            _ => self.network().connect(transport, address),
        }
    }

    /// Whether the guest may send a datagram to `address`, and the canonical address to send to.
    ///
    /// # Errors
    /// When no grant covers it. A socket that is bound where the guest may listen can answer
    /// nevertheless: see [`Gate::may_answer_from`].
    pub fn send(&self, address: SocketAddr) -> Result<SocketAddr, Refusal> {
        self.network().connect(Transport::Udp, address)
    }

    /// See [`Network::bind`].
    ///
    /// # Errors
    /// When no grant covers it.
    pub fn bind(
        &self,
        transport: Transport,
        address: SocketAddr,
        one_family: bool,
    ) -> Result<SocketAddr, Refusal> {
        self.network().bind(transport, address, one_family)
    }

    /// See [`Network::listen`].
    ///
    /// # Errors
    /// When no grant covers it.
    pub fn listen(&self, bound: Option<SocketAddr>) -> Result<(), Refusal> {
        self.network().listen(bound)
    }

    /// See [`Network::may_answer_from`].
    pub fn may_answer_from(&self, bound: SocketAddr) -> bool {
        self.network().may_answer_from(bound)
    }

    /// See [`Network::is_granted_for_tcp`].
    pub fn is_granted_for_tcp(&self, address: SocketAddr) -> bool {
        self.network().is_granted_for_tcp(address)
    }

    /// See [`Network::allow_connect`].
    pub fn allow_connect(&self, transport: Transport, to: SocketAddr) {
        self.change().allow_connect(transport, to);
    }

    /// See [`Network::allow_listen`].
    pub fn allow_listen(&self, transport: Transport, at: SocketAddr) {
        self.change().allow_listen(transport, at);
    }

    /// The rules as they are now.
    pub fn network(&self) -> RwLockReadGuard<'_, Network> {
        // Nothing panics between two changes of one value, so that a poisoned lock holds a whole
        // network too.
        self.network.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Network::pin`]. Returns the new lines of the hosts file if they changed.
    pub fn pin(&self, name: &HostName, addresses: &[IpAddr]) -> Option<String> {
        let mut network = self.change();
        let changed = network.pin(name, addresses);
        changed.then(|| network.hosts_file()).flatten()
    }

    fn change(&self) -> RwLockWriteGuard<'_, Network> {
        self.network.write().unwrap_or_else(PoisonError::into_inner)
    }
}
