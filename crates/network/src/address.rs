//! Addresses in one form, and which of them are special or private.
//!
//! A program can write one destination in several ways: `::ffff:127.0.0.1` and `0.0.0.0` both reach
//! 127.0.0.1. Every decision is about the canonical form, and the call is made with it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use palisade_policy::IpNetwork;

/// The same address with IPv4 as IPv4: `::ffff:192.0.2.1` is `192.0.2.1`. The scope is kept, the
/// flow label is not.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(v4.into(), v6.port()),
            None => SocketAddrV6::new(*v6.ip(), v6.port(), 0, v6.scope_id()).into(),
        },
    }
}

/// Where a connection or datagram to `address` arrives: canonical, and the loopback where the
/// unspecified address is written, as Linux takes it.
pub fn destination(address: SocketAddr) -> SocketAddr {
    let address = canonical(address);
    match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => {
            SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port())
        }
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port())
        }
        _ => address,
    }
}

/// The scope id of an IPv6 address, 0 where it has none.
pub(crate) fn scope_of(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(v6) => v6.scope_id(),
    }
}

/// A range that no wider network covers: whoever means it must write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecialRange {
    /// What it is, for people.
    pub name: &'static str,
    /// Its addresses.
    pub network: IpNetwork,
}

/// The special range that `address` lies in, if any; the narrowest of several.
///
/// An IPv6 address that a translator or tunnel turns into an IPv4 one (NAT64, 6to4, Teredo) is as
/// special as that.
pub fn special_range(address: IpAddr) -> Option<SpecialRange> {
    listed_range(SPECIAL, address).or_else(|| embedded_range(SPECIAL, address))
}

/// Whether a cloud hands out a machine's credentials at `address`.
pub fn is_metadata(address: IpAddr) -> bool {
    let of_most = address == IpAddr::V4(OF_MOST_CLOUDS);
    of_most || listed_range(SPECIAL, address).is_some_and(|range| range.name == METADATA)
}

/// Whether everybody on the internet means the same machine by `address`, so that a name may stand
/// for it: neither special nor private, nor the embedding of one that is.
pub fn is_public(address: IpAddr) -> bool {
    is_given_out(address)
        && [SPECIAL, PRIVATE].into_iter().all(|list| {
            listed_range(list, address).is_none() && embedded_range(list, address).is_none()
        })
}

/// Of version 6 the internet has `2000::/3`, and the translator's well-known prefix, which stands for version 4. All else
/// is kept by the IANA, or means something at one place alone: translated addresses (`::ffff:0:0:0/96`), segments of a
/// route (`5f00::/16`), the black hole (`100::/64`).
fn is_given_out(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => match v6.segments() {
            [0x64, 0xff9b, 0, 0, 0, 0, ..] => true,
            [first, ..] => first >> 13 == 1,
        },
    }
}

/// Whether a grant for `network` covers `address`: it lies inside, and if it is of a special range,
/// the whole network does too.
pub fn covers(network: &IpNetwork, address: IpAddr) -> bool {
    network.contains(address)
        && special_range(address).is_none_or(|range| range.network.contains_network(network))
}

/// The IPv4 address that `address` ends up at through NAT64 (RFC 6052), 6to4 (RFC 3056), Teredo
/// (RFC 4380) or as an IPv4-compatible address (RFC 4291), and how it is written there.
fn embedded_ipv4(address: Ipv6Addr) -> Option<(Ipv4Addr, Embedding)> {
    let low = |bits: u128| Ipv4Addr::from_bits((bits & 0xffff_ffff) as u32);
    let bits = address.to_bits();
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some((low(bits), Embedding::After(96))),
        [0x2002, ..] => Some((low(bits >> 80), Embedding::After(16))),
        [0x2001, 0, ..] => Some((low(!bits), Embedding::Inverted)),
        [0, 0, 0, 0, 0, 0, ..] if bits > 1 => Some((low(bits), Embedding::After(96))),
        _ => None,
    }
}

enum Embedding {
    /// Verbatim, after so many bits.
    After(u8),
    /// With every bit inverted, at the end.
    Inverted,
}

fn embedded_range(list: &[(&'static str, IpNetwork)], address: IpAddr) -> Option<SpecialRange> {
    let IpAddr::V6(v6) = address else { return None };
    let (v4, embedding) = embedded_ipv4(v6)?;
    let range = listed_range(list, v4.into())?;
    let prefix = match embedding {
        Embedding::After(bits) => bits + range.network.prefix,
        Embedding::Inverted => 128,
    };
    Some(SpecialRange {
        network: network_around(v6, prefix),
        ..range
    })
}

fn network_around(address: Ipv6Addr, prefix: u8) -> IpNetwork {
    let mask = u128::MAX
        .checked_shl(128 - u32::from(prefix))
        .unwrap_or_default();
    IpNetwork {
        address: Ipv6Addr::from_bits(address.to_bits() & mask).into(),
        prefix,
        zone: None,
    }
}

fn listed_range(list: &[(&'static str, IpNetwork)], address: IpAddr) -> Option<SpecialRange> {
    let (name, network) = list.iter().find(|(_, network)| network.contains(address))?;
    Some(SpecialRange {
        name,
        network: network.clone(),
    })
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> IpNetwork {
    IpNetwork {
        address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        prefix,
        zone: None,
    }
}

const fn v6(segments: [u16; 8], prefix: u8) -> IpNetwork {
    let [a, b, c, d, e, f, g, h] = segments;
    IpNetwork {
        address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)),
        prefix,
        zone: None,
    }
}

const METADATA: &str = "cloud metadata";
/// It lies in the link-local range, whose name says more about who can be reached there.
const OF_MOST_CLOUDS: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
const LINK_LOCAL: &str = "link-local";

/// The narrower before the wider. Sources: the IANA special-purpose registries (RFC 6890), and the
/// clouds' own pages for the addresses at which a machine's credentials are handed out.
const SPECIAL: &[(&str, IpNetwork)] = &[
    ("loopback", v4(127, 0, 0, 0, 8)),
    (LINK_LOCAL, v4(169, 254, 0, 0, 16)),
    (METADATA, v4(168, 63, 129, 16, 32)),   // Azure
    (METADATA, v4(100, 100, 100, 200, 32)), // Alibaba
    (METADATA, v4(192, 0, 0, 192, 32)),     // Oracle
    ("this network", v4(0, 0, 0, 0, 8)),
    ("multicast", v4(224, 0, 0, 0, 4)),
    ("broadcast", v4(255, 255, 255, 255, 32)),
    ("reserved", v4(240, 0, 0, 0, 4)),
    ("unspecified", v6([0; 8], 128)),
    ("loopback", v6([0, 0, 0, 0, 0, 0, 0, 1], 128)),
    (METADATA, v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128)), // Amazon
    (METADATA, v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128)),  // Google
    (LINK_LOCAL, v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10)),
    ("multicast", v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8)),
];

/// Networks that mean other machines at every place.
const PRIVATE: &[(&str, IpNetwork)] = &[
    ("private", v4(10, 0, 0, 0, 8)),
    ("private", v4(172, 16, 0, 0, 12)),
    ("private", v4(192, 168, 0, 0, 16)),
    ("shared by a carrier", v4(100, 64, 0, 0, 10)),
    ("of the link's protocols", v4(192, 0, 0, 0, 24)),
    ("for benchmarks", v4(198, 18, 0, 0, 15)),
    ("for benchmarks", v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48)),
    ("private", v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7)),
    ("site-local", v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10)),
    (
        "translated locally",
        v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),
    ),
];

#[cfg(test)]
mod tests;
