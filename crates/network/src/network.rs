//! What the network grants came to on this machine.

mod decision;
mod error;
mod given;
mod resolve;
mod rule;

pub(crate) use decision::Route;
pub use error::NetworkError;
pub(crate) use given::{AllGiven, Given};
pub use given::{GiveError, canonical_flag};
pub use rule::{
    AddressRule, ListenPlace, ListenRule, NameRule, Pins, PublicRule, ReadyListener, WildcardRule,
};

use std::net::{IpAddr, SocketAddr};

use palisade_policy::{HostName, Transport};
use serde::Serialize;

use crate::address;

/// What the grants came to: networks, names with the addresses that are pinned for them, wildcards
/// and places to listen at. Pure data; it decides, and makes no call.
///
/// Displayed as one line for each rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Network {
    /// Grants by address, in the order they were written.
    pub addresses: Vec<AddressRule>,
    /// Grants by name, but for `localhost`, which is two addresses.
    pub names: Vec<NameRule>,
    /// What each granted name stands for now.
    pub pins: Vec<Pins>,
    /// Grants by wildcard, which the proxy serves.
    pub wildcards: Vec<WildcardRule>,
    /// Grants of all that is public.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub public: Vec<PublicRule>,
    /// The name servers that the guest may ask itself; rules by address grant them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub name_servers: Vec<SocketAddr>,
    /// Where the guest may listen, in the order it was written.
    pub listen: Vec<ListenRule>,
    /// Whoever started the guest is asked about what no rule covers, or may grant more, so that any call may come to be allowed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub asks: bool,
}

/// Which calls of a transport can be allowed at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Something may be connected or sent to.
    pub connect: bool,
    /// There is a place to listen at.
    pub listen: bool,
}

impl Network {
    /// Whether no internet socket is granted at all. Sockets that are passed in ready-made
    /// (`--listen inherited`) need no call of the guest's and do not count.
    pub fn is_empty(&self) -> bool {
        [Transport::Tcp, Transport::Udp]
            .into_iter()
            .all(|transport| self.uses(transport) == Uses::default())
    }

    /// Which calls of this transport can be allowed at all.
    pub fn uses(&self, transport: Transport) -> Uses {
        Uses {
            connect: self.asks
                || self
                    .addresses
                    .iter()
                    .any(|rule| rule.transport == transport)
                || self.names.iter().any(|rule| rule.transport == transport)
                || !self.public.is_empty()
                || transport == Transport::Tcp && self.needs_proxy(),
            listen: self.asks || self.listen.iter().any(|rule| rule.transport == transport),
        }
    }

    /// Whether a wildcard is granted, which only the proxy can serve.
    pub fn needs_proxy(&self) -> bool {
        !self.wildcards.is_empty()
    }

    /// Whether names are looked up while the guest runs.
    pub fn has_names(&self) -> bool {
        self.asks || !self.pins.is_empty() || self.needs_proxy()
    }

    /// The lines that the guest's `/etc/hosts` has for granted names, as `ADDRESS NAME`; `None`
    /// where no name is granted. Addresses whose time is up are left out, those that a name must
    /// not stand for too.
    pub fn hosts_file(&self) -> Option<String> {
        let lines = |pins: &Pins| -> String {
            let line = |address| format!("{address} {}\n", pins.name);
            pins.addresses.iter().map(line).collect()
        };
        (!self.pins.is_empty()).then(|| self.pins.iter().map(lines).collect())
    }

    /// What the guest's `/etc/resolv.conf` has; `None` where it asks no name server itself.
    pub fn resolver_file(&self) -> Option<String> {
        let line = |server: &SocketAddr| match server {
            SocketAddr::V6(v6) if v6.scope_id() != 0 => {
                format!("nameserver {}%{}\n", v6.ip(), v6.scope_id())
            }
            server => format!("nameserver {}\n", server.ip()),
        };
        let lines: String = self.name_servers.iter().map(line).collect();
        (!self.public.is_empty()).then_some(lines)
    }

    /// The listening sockets that palisade opens itself and passes on, in the order of the grants;
    /// for `localhost`, two. Ports are those that the host sees.
    pub fn ready_listeners(&self) -> Vec<ReadyListener> {
        let rules = self.listen.iter().filter(|rule| rule.ready);
        rules.filter_map(ListenRule::ready_listener).collect()
    }

    /// Whether the name itself is granted at this port, and the addresses that it stands for then.
    pub fn addresses_of(
        &self,
        transport: Transport,
        name: &HostName,
        port: u16,
    ) -> Option<Vec<IpAddr>> {
        let pins = self.pins.iter().find(|pins| pins.name == *name);
        let is_granted = self.names_grant(transport, name, port);
        Some(pins.filter(|_| is_granted)?.addresses.clone())
    }

    /// Takes a name's new addresses. Those that it no longer has stay pinned until the next call:
    /// a program that has just looked the old one up in its `/etc/hosts` may still connect to it,
    /// and servers that answer with a few of many addresses do not mean that the others are gone.
    ///
    /// Returns whether [`Network::hosts_file`] changed.
    pub fn pin(&mut self, name: &HostName, addresses: &[IpAddr]) -> bool {
        let (allowed, withheld) = self.split_by_public(name, addresses);
        let Some(pins) = self.pins.iter_mut().find(|pins| pins.name == *name) else {
            return false;
        };
        let changed = pins.addresses != allowed;
        let former = std::mem::replace(&mut pins.addresses, allowed);
        let current = &pins.addresses;
        pins.former = former
            .into_iter()
            .filter(|address| !current.contains(address))
            .collect();
        pins.withheld = withheld;
        changed
    }

    /// Which of a name's addresses may stand for it: what is public, and what a grant by address
    /// covers at a port of the name's. The others are the second list.
    fn split_by_public(&self, name: &HostName, addresses: &[IpAddr]) -> (Vec<IpAddr>, Vec<IpAddr>) {
        let mut listed: Vec<IpAddr> = Vec::with_capacity(addresses.len());
        for address in addresses {
            let address = address::canonical(SocketAddr::new(*address, 0)).ip();
            if !listed.contains(&address) {
                listed.push(address);
            }
        }
        listed
            .into_iter()
            .partition(|address| address::is_public(*address) || self.covers_for(name, *address))
    }

    fn covers_for(&self, name: &HostName, address: IpAddr) -> bool {
        let mut rules = self.names.iter().filter(|rule| rule.name == *name);
        rules.any(|rule| {
            let same = |other: &&AddressRule| {
                other.transport == rule.transport && other.ports.overlaps(rule.ports)
            };
            let mut others = self.addresses.iter().filter(same);
            others.any(|other| address::covers(&other.network, address))
        })
    }
}

#[cfg(test)]
mod tests;
