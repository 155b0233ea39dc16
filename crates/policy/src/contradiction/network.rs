//! Network grants that contradict each other or mean nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{
    ConnectGrant, Grants, HostPattern, ListenAddress, ListenGrant, Ports, Transport, ValueError,
    quote::quote,
    value::{NetworkReason, Reason},
};

/// A network grant that makes no sense, or two that exclude each other.
///
/// Grants are given as their flags take them, without the flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkContradiction {
    /// A grant that did not come through the parser and that no text stands for.
    #[error("{} cannot be granted: {reason}", quote(grant))]
    Unwritable {
        /// The grant.
        grant: String,
        /// What is wrong with it.
        reason: Reason,
    },
    /// A wildcard for datagrams, which no proxy can tell the names of.
    #[error(
        "--connect {} cannot be held: the names behind `*` are checked by a proxy, which carries \
         tcp only; name each host, as in `--connect udp://host.{below}:{ports}`",
        quote(grant)
    )]
    WildcardUdp {
        /// The grant.
        grant: String,
        /// The name below which it grants.
        below: String,
        /// Its ports.
        ports: Ports,
    },
    /// Every name below `localhost` is the host's loopback (RFC 6761, section 6.3).
    #[error(
        "--connect {} would be the host's loopback under any name: if it is meant, write \
         `--connect tcp://localhost:{ports}`",
        quote(grant)
    )]
    WildcardLocalhost {
        /// The grant.
        grant: String,
        /// Its ports.
        ports: Ports,
    },
    /// The unspecified address is no host: who connects to it reaches the own machine.
    #[error(
        "--connect {} names no host: who connects to that address reaches the own machine, which \
         is `{transport}://localhost:{ports}`",
        quote(grant)
    )]
    Unspecified {
        /// The grant.
        grant: String,
        /// Its transport.
        transport: Transport,
        /// Its ports.
        ports: Ports,
    },
    /// Tcp has no groups.
    #[error(
        "{} has no effect, for many hosts share that address and tcp speaks with one: \
         only `udp://` reaches it",
        quote(grant)
    )]
    TcpGroup {
        /// The grant.
        grant: String,
    },
    /// One other port for many.
    #[error(
        "--listen {} gives one host port for {}: `host-port` goes with a single port from 1",
        quote(grant),
        match .ports { &Ports::KERNEL_PICKS => "any that the kernel picks", _ => "several ports" }
    )]
    HostPortOfMany {
        /// The grant.
        grant: String,
        /// Its ports.
        ports: Ports,
    },
    /// A range of sockets to be opened in advance.
    #[error(
        "--listen {} asks for a ready socket at several ports: `ready` goes with a single port",
        quote(grant)
    )]
    ReadyRange {
        /// The grant.
        grant: String,
    },
    /// A ready socket is bound already: the guest has no port of its own for it.
    #[error(
        "--listen {} gives a host port to a ready socket, which the guest does not bind: write \
         `{instead}`",
        quote(grant)
    )]
    ReadyHostPort {
        /// The grant.
        grant: String,
        /// The grant that says the same.
        instead: String,
    },
    /// One port of the guest's, two of the host's.
    #[error(
        "--listen {} and {} publish the same port of the guest's under two of the host's: keep one",
        quote(first),
        quote(second)
    )]
    TwoHostPorts {
        /// One grant.
        first: String,
        /// The other.
        second: String,
    },
    /// Two ports of the guest's, one of the host's.
    #[error(
        "--listen {} and {} publish two ports of the guest's under the same one of the host's: give \
         one of them another, as in `,host-port=8081`",
        quote(first),
        quote(second)
    )]
    SameHostPort {
        /// One grant.
        first: String,
        /// The other.
        second: String,
    },
}

type Found = Option<NetworkContradiction>;

/// The first contradiction among the network grants.
pub(super) fn find_in_network(grants: &Grants) -> Found {
    let (connect, listen) = (&grants.connect, &grants.listen);
    let unwritable = connect.iter().find_map(find_unwritable_connect);
    unwritable
        .or_else(|| listen.iter().find_map(find_unwritable))
        .or_else(|| connect.iter().find_map(find_in_connect))
        .or_else(|| listen.iter().find_map(find_in_listen))
        .or_else(|| find_two_places(listen))
}

/// A socket's path is looked at with the other paths.
fn find_unwritable_connect(grant: &ConnectGrant) -> Found {
    match grant {
        ConnectGrant::Unix(_) => None,
        ConnectGrant::Internet { .. } | ConnectGrant::Public { .. } => find_unwritable(grant),
    }
}

/// The fields are public: whoever fills them by hand may leave what the parser refuses, or a zone
/// that reads as something else.
fn find_unwritable<T>(grant: &T) -> Found
where
    T: ToString + PartialEq + std::str::FromStr<Err = ValueError>,
{
    let text = grant.to_string();
    let reason = match text.parse::<T>() {
        Ok(again) if again == *grant => return None,
        Ok(_) => NetworkReason::AmbiguousZone.into(),
        Err(error) => error.reason().clone(),
    };
    Some(NetworkContradiction::Unwritable {
        grant: text,
        reason,
    })
}

fn find_in_connect(grant: &ConnectGrant) -> Found {
    let ConnectGrant::Internet {
        transport,
        host,
        ports,
    } = grant
    else {
        return None;
    };
    let (transport, ports, grant) = (*transport, *ports, grant.to_string());
    match host {
        HostPattern::Wildcard(name) if transport == Transport::Udp => {
            let below = name.to_string();
            Some(NetworkContradiction::WildcardUdp {
                grant,
                below,
                ports,
            })
        }
        HostPattern::Wildcard(name) if name.is_of_localhost() => {
            Some(NetworkContradiction::WildcardLocalhost { grant, ports })
        }
        HostPattern::Network(network)
            if network.is_single() && network.address.is_unspecified() =>
        {
            Some(NetworkContradiction::Unspecified {
                grant,
                transport,
                ports,
            })
        }
        // 224.0.0.0/3 starts among the groups and goes on beyond them.
        HostPattern::Network(network) if network.prefix >= 4 => {
            find_tcp_group(transport, network.address, grant)
        }
        _ => None,
    }
}

fn find_tcp_group(transport: Transport, address: IpAddr, grant: String) -> Found {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    let is_group = address.is_multicast() || is_broadcast;
    (is_group && transport == Transport::Tcp).then_some(NetworkContradiction::TcpGroup { grant })
}

fn find_in_listen(grant: &ListenGrant) -> Found {
    let ListenGrant::At {
        transport,
        address,
        ports,
        host_port,
        ready,
    } = grant
    else {
        return None;
    };
    let shown = grant.to_string();
    let single = ports.single();
    if *ready && single.is_none() {
        return Some(NetworkContradiction::ReadyRange { grant: shown });
    }
    if let Some(host_port) = host_port {
        if single.is_none_or(|port| port == 0) {
            return Some(NetworkContradiction::HostPortOfMany {
                grant: shown,
                ports: *ports,
            });
        }
        if *ready {
            let instead = format!("--listen {transport}://{address}:{host_port},ready");
            return Some(NetworkContradiction::ReadyHostPort {
                grant: shown,
                instead,
            });
        }
    }
    match address {
        ListenAddress::Address { address, .. } => find_tcp_group(*transport, *address, shown),
        ListenAddress::Every | ListenAddress::Localhost => None,
    }
}

/// Two grants that publish one port of either side twice.
fn find_two_places(listen: &[ListenGrant]) -> Found {
    let places: Vec<Place> = listen.iter().filter_map(Place::of).collect();
    let pairs = places
        .iter()
        .enumerate()
        .flat_map(|(index, one)| places[..index].iter().map(move |other| (other, one)));
    pairs
        .filter(|(one, other)| one.shares_address(other))
        .find_map(|(one, other)| {
            let (first, second) = (one.grant.to_string(), other.grant.to_string());
            match (
                one.ports.overlaps(other.ports),
                one.host_ports.overlaps(other.host_ports),
            ) {
                _ if !one.is_published() && !other.is_published() => None,
                (true, _) if !one.is_same_port(other) => {
                    Some(NetworkContradiction::TwoHostPorts { first, second })
                }
                (false, true) => Some(NetworkContradiction::SameHostPort { first, second }),
                _ => None,
            }
        })
}

/// Where a listen grant lets the guest listen, on either side.
struct Place<'a> {
    grant: &'a ListenGrant,
    transport: Transport,
    address: &'a ListenAddress,
    ports: Ports,
    host_ports: Ports,
}

impl<'a> Place<'a> {
    fn of(grant: &'a ListenGrant) -> Option<Self> {
        let ListenGrant::At {
            transport,
            address,
            ports,
            host_port,
            ..
        } = grant
        else {
            return None;
        };
        Some(Self {
            grant,
            transport: *transport,
            address,
            ports: *ports,
            host_ports: host_port.map_or(*ports, Ports::one),
        })
    }

    fn is_published(&self) -> bool {
        self.ports != self.host_ports
    }

    fn is_same_port(&self, other: &Self) -> bool {
        (self.ports, self.host_ports) == (other.ports, other.host_ports)
    }

    fn shares_address(&self, other: &Self) -> bool {
        self.transport == other.transport
            && (covers(self.address, other.address) || covers(other.address, self.address))
    }
}

/// Whether `wide` is `narrow` or more.
fn covers(wide: &ListenAddress, narrow: &ListenAddress) -> bool {
    use ListenAddress::{Address, Every, Localhost};
    match (wide, narrow) {
        (Every, _) => true,
        (Localhost, Address { address, .. }) => {
            *address == Ipv4Addr::LOCALHOST || *address == Ipv6Addr::LOCALHOST
        }
        // A socket at `::` takes IPv4 too, unless it asks not to.
        (Address { address, .. }, _) if address.is_unspecified() => {
            address.is_ipv6() || !matches!(narrow, Address { address, .. } if address.is_ipv6())
        }
        _ => wide == narrow,
    }
}
