//! Decisions while names change: what the broker asks at each call.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use palisade_policy::{HostName, Transport};

use crate::{
    GiveError, Network, Reason, Refusal,
    address::destination,
    is_withheld,
    network::{AllGiven, Given},
};

/// A [`Network`] whose pins may change while it is asked.
///
/// Asking takes a read lock and allocates nothing, unless it refuses.
#[derive(Debug)]
pub struct Gate {
    network: RwLock<Network>,
    /// What was granted since.
    given: RwLock<AllGiven>,
    proxy: OnceLock<SocketAddr>,
}

impl Gate {
    /// A gate with these rules.
    pub fn new(network: Network) -> Self {
        Self {
            network: RwLock::new(network),
            given: RwLock::default(),
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
            _ => {
                let granted = self.network().connect(transport, address);
                granted.or_else(|refusal| self.connect_as_given(transport, address).ok_or(refusal))
            }
        }
    }

    /// Whether the guest may send a datagram to `address`, and the canonical address to send to.
    ///
    /// # Errors
    /// When no grant covers it. A socket that is bound where the guest may listen can answer
    /// nevertheless: see [`Gate::may_answer_from`].
    pub fn send(&self, address: SocketAddr) -> Result<SocketAddr, Refusal> {
        let granted = self.network().connect(Transport::Udp, address);
        granted.or_else(|refusal| {
            let given = self.connect_as_given(Transport::Udp, address);
            given.ok_or(refusal)
        })
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
        let granted = self.network().bind(transport, address, one_family);
        granted.or_else(|refusal| {
            let given = self.given().rules.bind(transport, address, one_family);
            given.map_err(|_| refusal)
        })
    }

    /// See [`Network::listen`].
    ///
    /// # Errors
    /// When no grant covers it.
    pub fn listen(&self, bound: Option<SocketAddr>) -> Result<(), Refusal> {
        let granted = self.network().listen(bound);
        granted.or_else(|refusal| self.given().rules.listen(bound).map_err(|_| refusal))
    }

    /// See [`Network::may_answer_from`].
    pub fn may_answer_from(&self, bound: SocketAddr) -> bool {
        self.network().may_answer_from(bound) || self.given().rules.may_answer_from(bound)
    }

    /// See [`Network::is_granted_for_tcp`].
    pub fn is_granted_for_tcp(&self, address: SocketAddr) -> bool {
        self.network().is_granted_for_tcp(address) || self.given().rules.is_granted_for_tcp(address)
    }

    /// Grants something from now on, as a flag writes it: `--connect tcp://example.com:443`.
    ///
    /// # Errors
    /// When it is nothing that a guest which runs can be given.
    pub fn give(&self, flag: &str) -> Result<(), GiveError> {
        let given = Given::parse(flag)?;
        if given.has_names() && !self.network().public.is_empty() {
            return Err(GiveError::AsksItself);
        }
        self.change().add(given);
        Ok(())
    }

    /// Takes back what was given with this flag, however it is written. Tells whether there was such a thing.
    pub fn take_back(&self, flag: &str) -> bool {
        Given::parse(flag).is_ok_and(|given| self.change().remove(&given.flag))
    }

    /// The granted name that a public address is pinned for: the guest has it from its file of names, where it asks no name server
    /// itself.
    pub fn pinned_name(&self, address: IpAddr) -> Option<HostName> {
        let network = self.network();
        let is_named = network.public.is_empty();
        network.name_of(address).filter(|_| is_named).cloned()
    }

    /// By its address, or by the name that the guest has it from.
    fn connect_as_given(&self, transport: Transport, address: SocketAddr) -> Option<SocketAddr> {
        let target = destination(address);
        let (given, network) = (self.given(), self.network());
        let by_name = || {
            let name = network.name_of(target.ip())?;
            let is_given = given.rules.names_grant(transport, name, target.port());
            is_given.then_some(target)
        };
        given
            .rules
            .connect(transport, address)
            .ok()
            .or_else(by_name)
    }

    fn change(&self) -> RwLockWriteGuard<'_, AllGiven> {
        self.given.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a name was given at this port.
    pub fn gives_name(&self, transport: Transport, name: &HostName, port: u16) -> bool {
        self.given().rules.names_grant(transport, name, port)
    }

    /// The rules as they are now.
    pub fn network(&self) -> RwLockReadGuard<'_, Network> {
        // Nothing panics between two changes of one value, so that a poisoned lock holds a whole
        // network too.
        self.network.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Network::pin`]. Returns the new lines of the hosts file if they changed.
    pub fn pin(&self, name: &HostName, addresses: &[IpAddr]) -> Option<String> {
        let mut network = self.network.write().unwrap_or_else(PoisonError::into_inner);
        let changed = network.pin(name, addresses);
        changed.then(|| network.hosts_file()).flatten()
    }

    fn given(&self) -> RwLockReadGuard<'_, AllGiven> {
        self.given.read().unwrap_or_else(PoisonError::into_inner)
    }
}
