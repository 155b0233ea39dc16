//! One grant each, as it came to be on this machine.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6},
};

use palisade_policy::{HostName, IpNetwork, Ports, Transport};
use serde::Serialize;

use super::Network;
use crate::{
    address::{covers, is_public, scope_of},
    refusal::as_text,
};

/// A grant to connect, by address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AddressRule {
    /// By which transport.
    #[serde(serialize_with = "as_text")]
    pub transport: Transport,
    /// To which addresses.
    #[serde(serialize_with = "as_text")]
    pub network: IpNetwork,
    /// The index of the interface that the network's zone names; 0 for every interface.
    pub scope: u32,
    /// At which ports.
    #[serde(serialize_with = "as_text")]
    pub ports: Ports,
}

impl AddressRule {
    /// `target` with the rule's interface, if the rule covers it.
    pub(super) fn admit(&self, transport: Transport, target: SocketAddr) -> Option<SocketAddr> {
        let covers = self.transport == transport
            && self.ports.contains(target.port())
            && covers(&self.network, target.ip());
        covers.then(|| with_scope(target, self.scope)).flatten()
    }
}

/// `address` on this interface: filled in where the call names none, `None` where it names another.
fn with_scope(address: SocketAddr, scope: u32) -> Option<SocketAddr> {
    match (address, scope_of(address)) {
        (SocketAddr::V6(v6), 0) if scope != 0 => {
            Some(SocketAddrV6::new(*v6.ip(), v6.port(), 0, scope).into())
        }
        (_, named) => (scope == 0 || named == scope).then_some(address),
    }
}

/// A grant to connect to every address that is public, by tcp and by udp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PublicRule {
    /// At which ports.
    #[serde(serialize_with = "as_text")]
    pub ports: Ports,
}

impl PublicRule {
    /// What is private or special at the place where the call arrives is not covered, however it is written.
    pub(super) fn covers(&self, target: SocketAddr) -> bool {
        self.ports.contains(target.port()) && is_public(target.ip())
    }
}

/// A grant to connect, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NameRule {
    /// By which transport.
    #[serde(serialize_with = "as_text")]
    pub transport: Transport,
    /// To which host.
    #[serde(serialize_with = "as_text")]
    pub name: HostName,
    /// At which ports.
    #[serde(serialize_with = "as_text")]
    pub ports: Ports,
}

/// What a granted name stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pins {
    /// The name.
    #[serde(serialize_with = "as_text")]
    pub name: HostName,
    /// Its addresses now, in the order of the answer.
    pub addresses: Vec<IpAddr>,
    /// Addresses that the last answer had and this one has not; still allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<IpAddr>,
    /// Addresses of the answer that no name may stand for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<IpAddr>,
    /// How long the answer holds, in seconds.
    pub ttl_s: u64,
}

impl Pins {
    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address) || self.former.contains(&address)
    }
}

/// A grant to connect to every name below one. Always tcp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WildcardRule {
    /// The name above them.
    #[serde(serialize_with = "as_text")]
    pub below: HostName,
    /// At which ports.
    #[serde(serialize_with = "as_text")]
    pub ports: Ports,
}

/// A grant to listen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListenRule {
    /// By which transport.
    #[serde(serialize_with = "as_text")]
    pub transport: Transport,
    /// At which address.
    pub place: ListenPlace,
    /// At which ports, as the guest sees them.
    #[serde(serialize_with = "as_text")]
    pub ports: Ports,
    /// The port that the host sees, where it is another.
    pub host_port: Option<u16>,
    /// Whether palisade opens the socket itself.
    pub ready: bool,
}

/// The address of a [`ListenRule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListenPlace {
    /// Every interface.
    Every,
    /// This address, on the interface of this index (0 where the address needs none). `0.0.0.0` is
    /// every one of IPv4, `::` every one of IPv6.
    At(IpAddr, u32),
}

/// A listening socket to be opened for the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyListener {
    /// Its transport; a udp socket is bound only.
    pub transport: Transport,
    /// Where, as the host sees it. For every interface it is `[::]`, meant for both families.
    pub address: SocketAddr,
}

/// How near a bind is to what the guest asked for; the lowest is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Nearness {
    /// Just that.
    Same,
    /// One address in place of every one; IPv4 first for a socket of both families, as that is what
    /// most clients on the same machine try.
    Narrowed,
    /// One IPv6 address for a socket of both families.
    NarrowedToIpv6,
}

impl ListenRule {
    /// The address to bind where the guest asks for `asked`, if the rule covers it.
    pub(super) fn admit_bind(
        &self,
        transport: Transport,
        asked: SocketAddr,
        one_family: bool,
    ) -> Option<(Nearness, SocketAddr)> {
        if self.transport != transport || !self.ports.contains(asked.port()) {
            return None;
        }
        let (nearness, mut address) = self.place.narrow(asked, one_family)?;
        if let Some(port) = self.host_port {
            address.set_port(port);
        }
        Some((nearness, address))
    }

    /// Whether a socket that is bound to `bound` was bound by this rule. Port 0 covers every port:
    /// of the guest's choosing are only those that another rule grants.
    pub(super) fn covers_bound(&self, transport: Transport, bound: SocketAddr) -> bool {
        let port = match self.host_port {
            Some(port) => bound.port() == port,
            None => self.ports == Ports::KERNEL_PICKS || self.ports.contains(bound.port()),
        };
        self.transport == transport && port && self.place.is_at(bound)
    }

    pub(super) fn ready_listener(&self) -> Option<ReadyListener> {
        let port = self.host_port.or(self.ports.single())?;
        let address = match self.place {
            ListenPlace::Every => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
            ListenPlace::At(ip, scope) => with_scope(SocketAddr::new(ip, port), scope)?,
        };
        Some(ReadyListener {
            transport: self.transport,
            address,
        })
    }
}

impl ListenPlace {
    fn narrow(self, asked: SocketAddr, one_family: bool) -> Option<(Nearness, SocketAddr)> {
        let Self::At(ip, scope) = self else {
            return Some((Nearness::Same, asked));
        };
        if self.has(asked.ip()) {
            return Some((Nearness::Same, with_scope(asked, scope)?));
        }
        if !asked.ip().is_unspecified() {
            return None;
        }
        let nearness = match (asked.is_ipv4() == ip.is_ipv4(), one_family) {
            (true, true) => Nearness::Narrowed,
            (true, false) => Nearness::NarrowedToIpv6,
            (false, false) if asked.is_ipv6() => Nearness::Narrowed,
            (false, _) => return None,
        };
        let here = with_scope(SocketAddr::new(ip, asked.port()), scope)?;
        Some((nearness, here))
    }

    /// Whether a socket at `address` is within the place; `0.0.0.0` is all of IPv4, `::` of IPv6.
    fn has(self, address: IpAddr) -> bool {
        match self {
            Self::Every => true,
            Self::At(ip, _) if ip.is_unspecified() => ip.is_ipv4() == address.is_ipv4(),
            Self::At(ip, _) => ip == address,
        }
    }

    fn is_at(self, bound: SocketAddr) -> bool {
        let on_interface = match self {
            Self::Every => true,
            Self::At(_, scope) => with_scope(bound, scope).is_some(),
        };
        on_interface && self.has(bound.ip())
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in &self.public {
            writeln!(f, "{rule}")?;
        }
        for rule in &self.addresses {
            writeln!(f, "{rule}")?;
        }
        for rule in &self.names {
            let pins = self.pins.iter().find(|pins| pins.name == rule.name);
            writeln!(f, "{rule}{}", ShownPins(pins))?;
        }
        for rule in &self.wildcards {
            writeln!(f, "{rule}")?;
        }
        for rule in &self.listen {
            writeln!(f, "{rule}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PublicRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = self.ports;
        write!(
            f,
            "connect every public address at ports {ports}, by tcp and udp"
        )
    }
}

impl fmt::Display for AddressRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = match self.network.address {
            IpAddr::V4(_) => ("", ""),
            IpAddr::V6(_) => ("[", "]"),
        };
        write!(
            f,
            "connect {}://{open}{}{close}:{}",
            self.transport, self.network, self.ports
        )
    }
}

impl fmt::Display for NameRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "connect {}://{}:{}",
            self.transport, self.name, self.ports
        )
    }
}

struct ShownPins<'a>(Option<&'a Pins>);

impl fmt::Display for ShownPins<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pins) = self.0 else { return Ok(()) };
        for (index, address) in pins.addresses.iter().enumerate() {
            write!(f, "{}{address}", if index == 0 { " at " } else { ", " })?;
        }
        for (index, address) in pins.withheld.iter().enumerate() {
            write!(
                f,
                "{}{address}",
                if index == 0 { " but not " } else { ", " }
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for WildcardRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connect tcp://*.{}:{} by proxy", self.below, self.ports)
    }
}

impl fmt::Display for ListenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "listen {}://{}:{}",
            self.transport, self.place, self.ports
        )?;
        if let Some(port) = self.host_port {
            write!(f, " as the host's {port}")?;
        }
        f.write_str(if self.ready { " made ready" } else { "" })
    }
}

impl fmt::Display for ListenPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every => f.write_str("*"),
            Self::At(IpAddr::V4(v4), _) => v4.fmt(f),
            Self::At(IpAddr::V6(v6), 0) => write!(f, "[{v6}]"),
            Self::At(IpAddr::V6(v6), scope) => write!(f, "[{v6}%{scope}]"),
        }
    }
}
