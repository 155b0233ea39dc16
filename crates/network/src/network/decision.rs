//! The decisions: whether a call is covered, and with which address it is made.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use palisade_policy::{HostName, Ports, Transport};

use super::{AddressRule, ListenRule, NameRule, Network};
use crate::{
    address::{self, canonical, destination, special_range},
    flag,
    refusal::{Reason, Refusal},
};

/// Where the addresses of a name come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The name is granted: these are pinned for it.
    Pinned(Vec<IpAddr>),
    /// A wildcard covers the name, which must be looked up.
    LookUp,
}

impl Network {
    /// Whether the guest may connect or send to `address`, and the canonical address to act on.
    ///
    /// # Errors
    /// When no grant covers it.
    pub fn connect(
        &self,
        transport: Transport,
        address: SocketAddr,
    ) -> Result<SocketAddr, Refusal> {
        let target = destination(address);
        let by_address = || {
            let mut admitted = self
                .addresses
                .iter()
                .map(|rule| rule.admit(transport, target));
            admitted.find_map(|target| target)
        };
        let is_public = || self.public.iter().any(|rule| rule.covers(target));
        by_address()
            .or_else(|| is_public().then_some(target))
            .or_else(|| self.is_granted_by_name(transport, target).then_some(target))
            .ok_or_else(|| self.refuse_connect(transport, target))
    }

    fn is_granted_by_name(&self, transport: Transport, target: SocketAddr) -> bool {
        let stands_for = |rule: &NameRule| {
            let mut pins = self.pins.iter().filter(|pins| pins.name == rule.name);
            pins.any(|pins| pins.has(target.ip()))
        };
        // What is not public is pinned where a grant by address covers it, and that decides.
        let mut rules = self.names.iter();
        rules.any(|rule| {
            rule.transport == transport && rule.ports.contains(target.port()) && stands_for(rule)
        }) && address::is_public(target.ip())
    }

    /// Whether `address` is granted for tcp, at whatever port.
    ///
    /// A program's name lookup connects a udp socket to each address to learn which source address
    /// it would get (RFC 6724), at a port of its own choosing: glibc takes the service's, musl
    /// 65535, Go 9. Nothing is sent.
    pub fn is_granted_for_tcp(&self, address: SocketAddr) -> bool {
        let target = destination(address);
        let by_name = |rule: &NameRule| {
            let mut pins = self.pins.iter().filter(|pins| pins.name == rule.name);
            rule.transport == Transport::Tcp && pins.any(|pins| pins.has(target.ip()))
        };
        let by_address = |rule: &AddressRule| {
            rule.transport == Transport::Tcp && address::covers(&rule.network, target.ip())
        };
        let is_public = !self.public.is_empty() && address::is_public(target.ip());
        self.addresses.iter().any(by_address) || self.names.iter().any(by_name) || is_public
    }

    /// Whether the guest may bind a socket to `address`, and the canonical address to bind.
    ///
    /// `one_family` is true for an IPv4 socket, and for an IPv6 one that takes no IPv4
    /// (`IPV6_V6ONLY`). The answer may be IPv4 where an IPv6 socket takes both: it is bound to the
    /// mapped form.
    ///
    /// # Errors
    /// When no grant covers it.
    pub fn bind(
        &self,
        transport: Transport,
        address: SocketAddr,
        one_family: bool,
    ) -> Result<SocketAddr, Refusal> {
        let asked = canonical(address);
        let admitted = |rule: &ListenRule| rule.admit_bind(transport, asked, one_family);
        let nearest = self
            .listen
            .iter()
            .filter_map(admitted)
            .min_by_key(|(nearness, _)| *nearness);
        match nearest {
            Some((_, address)) => Ok(address),
            // Clients do this. It gives a tcp socket nothing that connecting does not, and a udp
            // socket no more than its first datagram would.
            None if asked.port() == 0 && self.uses(transport).connect => Ok(asked),
            None => Err(Refusal {
                reason: Reason::NotBindable,
                grant: Some(flag::listen(transport, asked)),
            }),
        }
    }

    /// Whether the guest may listen with a tcp socket that is bound to `bound`, an address of the
    /// host's; `None` for one that is not bound, which the kernel would bind to every interface.
    ///
    /// # Errors
    /// When no grant covers it.
    pub fn listen(&self, bound: Option<SocketAddr>) -> Result<(), Refusal> {
        let address = canonical(bound.unwrap_or_else(every_interface));
        let granted = self
            .listen
            .iter()
            .any(|rule| rule.covers_bound(Transport::Tcp, address));
        match (granted, bound) {
            (true, _) => Ok(()),
            // The kernel has picked the port, and picks another one next time: one of the guest's own
            // choosing could not have been bound.
            (false, Some(_)) => Err(Refusal {
                reason: Reason::NotListenable,
                grant: Some(flag::listen(Transport::Tcp, any_port(address))),
            }),
            (false, None) => Err(Refusal {
                reason: Reason::Unbound,
                grant: Some(flag::listen(Transport::Tcp, address)),
            }),
        }
    }

    /// Whether a udp socket that is bound to `bound`, an address of the host's, is where the guest
    /// may listen. Such a socket may answer anyone.
    pub fn may_answer_from(&self, bound: SocketAddr) -> bool {
        let bound = canonical(bound);
        self.listen
            .iter()
            .any(|rule| rule.covers_bound(Transport::Udp, bound))
    }

    /// Where the proxy finds the addresses of a name that it is asked for.
    ///
    /// # Errors
    /// When neither a wildcard nor the name itself is granted at this port.
    pub(crate) fn route(&self, name: &HostName, port: u16) -> Result<Route, Refusal> {
        let is_name = |rule: &NameRule| {
            rule.transport == Transport::Tcp && rule.name == *name && rule.ports.contains(port)
        };
        if self.names.iter().any(is_name) {
            let pins = self.pins.iter().find(|pins| pins.name == *name);
            let addresses = pins.map(|pins| pins.addresses.clone());
            return Ok(Route::Pinned(addresses.unwrap_or_default()));
        }
        let below = || {
            self.wildcards
                .iter()
                .filter(|rule| rule.below.is_above(name))
        };
        if below().any(|rule| rule.ports.contains(port)) {
            return Ok(Route::LookUp);
        }
        let named = self.names.iter().any(|rule| rule.name == *name);
        Err(Refusal {
            reason: match named || below().next().is_some() {
                true => Reason::OtherPort,
                false => Reason::NotGranted,
            },
            grant: Some(flag::connect_to_name(Transport::Tcp, name, port)),
        })
    }

    /// Those of a name's addresses that it may stand for at this tcp port: what is public, and what
    /// a grant by address covers.
    ///
    /// # Errors
    /// When none is left.
    pub(crate) fn allow_behind_name(
        &self,
        name: &HostName,
        addresses: &[IpAddr],
        port: u16,
    ) -> Result<Vec<IpAddr>, Refusal> {
        let target = |address: IpAddr| canonical(SocketAddr::new(address, port));
        let covers = |address: SocketAddr| {
            let mut rules = self.addresses.iter();
            rules.any(|rule| rule.admit(Transport::Tcp, address).is_some())
        };
        let allowed: Vec<IpAddr> = addresses
            .iter()
            .map(|address| target(*address))
            .filter(|address| address::is_public(address.ip()) || covers(*address))
            .map(|address| address.ip())
            .collect();
        if !allowed.is_empty() {
            return Ok(allowed);
        }
        Err(Refusal {
            reason: Reason::BehindName(name.clone()),
            grant: addresses
                .first()
                .map(|address| flag::connect_to(Transport::Tcp, target(*address))),
        })
    }

    #[cold]
    fn refuse_connect(&self, transport: Transport, target: SocketAddr) -> Refusal {
        let (reason, grant) = match target.port() {
            0 => (Reason::PortZero, None),
            port => (
                self.reason_against(transport, target),
                Some(match self.name_of(target.ip()) {
                    Some(name) => flag::connect_to_name(transport, name, port),
                    None => flag::connect_to(transport, target),
                }),
            ),
        };
        Refusal { reason, grant }
    }

    fn reason_against(&self, transport: Transport, target: SocketAddr) -> Reason {
        let (ip, port) = (target.ip(), target.port());
        let rules = || {
            self.addresses
                .iter()
                .filter(|rule| rule.network.contains(ip))
        };
        let withheld = self.pins.iter().find(|pins| pins.withheld.contains(&ip));
        // Each grant that has the address in it, as (transport, ports).
        let by_address = rules()
            .filter(|rule| address::covers(&rule.network, ip))
            .map(|rule| (rule.transport, rule.ports));
        let by_name = self
            .names
            .iter()
            .filter(|rule| self.name_of(ip) == Some(&rule.name))
            .map(|rule| (rule.transport, rule.ports));
        let by_public = self
            .public
            .iter()
            .filter(|_| address::is_public(ip))
            .map(|rule| (transport, rule.ports));
        let near: Vec<(Transport, Ports)> = by_address.chain(by_name).chain(by_public).collect();
        let same_transport = || near.iter().filter(|(granted, _)| *granted == transport);
        if same_transport().any(|(_, ports)| ports.contains(port)) {
            Reason::OtherInterface
        } else if same_transport().next().is_some() {
            Reason::OtherPort
        } else if !near.is_empty() {
            Reason::OtherTransport(transport)
        } else if let Some(pins) = withheld {
            Reason::BehindName(pins.name.clone())
        } else if rules().next().is_some() {
            special_range(ip).map_or(Reason::NotGranted, |range| Reason::Special(range.name))
        } else {
            Reason::NotGranted
        }
    }

    /// The granted name that a public address is pinned for.
    pub(crate) fn name_of(&self, ip: IpAddr) -> Option<&HostName> {
        let pins = self.pins.iter().find(|pins| pins.has(ip))?;
        address::is_public(ip).then_some(&pins.name)
    }
}

fn any_port(mut address: SocketAddr) -> SocketAddr {
    address.set_port(0);
    address
}

fn every_interface() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)
}
