//! Network grants: what a guest may connect to, and where it may listen.
//!
//! These are what was written, in a normal form. Which addresses a name comes to, and which
//! addresses a network does not cover although they lie in it (loopback, link-local), is found out
//! on a machine and is not this crate's.

mod text;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use crate::value::words;

/// How bytes travel between internet sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// A stream of bytes.
    Tcp,
    /// Single datagrams.
    Udp,
}

words!(Transport, "transport", {
    Tcp => "tcp",
    Udp => "udp",
});

/// Something the guest may connect to: `--connect`, `grants.connect`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ConnectGrant {
    /// `tcp://HOST:PORTS`, `udp://HOST:PORTS`.
    Internet {
        /// By which transport.
        transport: Transport,
        /// Which hosts.
        host: HostPattern,
        /// Which of their ports; never 0.
        ports: Ports,
    },
    /// `internet`, `internet:PORTS`: every address that means the same machine to everybody on the internet, by both
    /// transports, and look-ups of names.
    Public {
        /// At which ports; never 0.
        ports: Ports,
    },
    /// `unix:PATH`, `unix:PATH:GUEST`.
    Unix(UnixGrant),
}

/// A socket of the host's in its file system.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "AF_UNIX")]
pub struct UnixGrant {
    /// The socket's path on the host, absolute, not yet resolved.
    pub host: PathBuf,
    /// The path inside the domain where it differs from `host`.
    pub guest: Option<PathBuf>,
}

impl UnixGrant {
    /// The path inside the domain.
    pub fn guest_path(&self) -> &Path {
        self.guest.as_deref().unwrap_or(&self.host)
    }
}

/// The hosts of a [`ConnectGrant`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// One address, or all of a network.
    Network(IpNetwork),
    /// One host by its name. `localhost` is the host's loopback, `127.0.0.1` and `::1`.
    Name(HostName),
    /// `*.NAME`: every name below this one, at any depth, and not this one itself. Tcp only.
    Wildcard(HostName),
}

/// A host's name: ASCII, lower-case, without a trailing dot, of 1 to 253 bytes.
///
/// Its labels have 1 to 63 letters, digits, hyphens and underscores. The last one does not look
/// like a number, so that no name can be taken for an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostName(String);

impl HostName {
    /// The caller has checked the form.
    pub(crate) fn from_checked(name: String) -> Self {
        Self(name)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `localhost`, which is granted as the host's loopback.
    pub fn is_localhost(&self) -> bool {
        self.0 == "localhost"
    }

    /// Whether this is `localhost` or a name below it, which is the loopback too (RFC 6761, 6.3).
    pub(crate) fn is_of_localhost(&self) -> bool {
        self.is_localhost() || self.0.ends_with(".localhost")
    }

    /// Whether `other` lies below this name: `api.example.com` below `example.com`.
    pub fn is_above(&self, other: &Self) -> bool {
        let head = other.0.strip_suffix(&self.0);
        head.is_some_and(|head| head.ends_with('.'))
    }
}

/// An IP network, or a single address where the prefix has all its bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "CIDR")]
pub struct IpNetwork {
    /// The network's first address: all bits after the prefix are zero. Never an IPv4-mapped one.
    pub address: IpAddr,
    /// How many leading bits the addresses share: up to 32 or 128.
    pub prefix: u8,
    /// The interface a link-local IPv6 network is on, by name.
    pub zone: Option<String>,
}

impl IpNetwork {
    /// The network of this one address.
    pub fn of_address(address: IpAddr) -> Self {
        Self {
            address,
            prefix: address_bits(address),
            zone: None,
        }
    }

    /// Whether this is one address.
    pub fn is_single(&self) -> bool {
        self.prefix == address_bits(self.address)
    }

    /// Whether `address` lies in the network, by its bits alone: the zone is not looked at, and an
    /// IPv4 address lies in no IPv6 network.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && first_address(address, self.prefix) == self.address
    }

    /// Whether all of `other` lies in the network, by its bits alone.
    pub fn contains_network(&self, other: &Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.address)
    }
}

/// How many bits an address of this family has.
pub(crate) fn address_bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// `address` with all bits after the first `prefix` cleared.
pub(crate) fn first_address(address: IpAddr, prefix: u8) -> IpAddr {
    let cleared = u32::from(address_bits(address).saturating_sub(prefix));
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(cleared).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(cleared).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

/// One port or a range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// `*`: every port but 0.
    pub const ANY: Self = Self {
        first: 1,
        last: u16::MAX,
    };

    /// Port 0 alone: the kernel picks one.
    pub const KERNEL_PICKS: Self = Self { first: 0, last: 0 };

    /// This port alone.
    pub const fn one(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }

    /// All ports of the range; `None` for an empty one, and for one that has 0 and others.
    pub fn new(range: RangeInclusive<u16>) -> Option<Self> {
        let (first, last) = range.into_inner();
        let possible = first <= last && (first > 0 || last == 0);
        possible.then_some(Self { first, last })
    }

    /// The ports as a range.
    pub fn range(self) -> RangeInclusive<u16> {
        self.first..=self.last
    }

    /// The port, where it is one.
    pub fn single(self) -> Option<u16> {
        (self.first == self.last).then_some(self.first)
    }

    /// Whether `port` is one of them.
    pub fn contains(self, port: u16) -> bool {
        self.range().contains(&port)
    }

    /// Whether a port is in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// A place where the guest may listen: `--listen`, `grants.listen`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenGrant {
    /// `tcp://ADDR:PORT[,host-port=N][,ready]`, `udp://…`.
    At {
        /// By which transport.
        transport: Transport,
        /// At which of the host's addresses.
        address: ListenAddress,
        /// At which ports, as the guest sees them; 0, alone, lets the kernel pick.
        ports: Ports,
        /// The port the host sees, where it is another than the guest's; never 0.
        host_port: Option<u16>,
        /// Whether palisade opens the socket and passes it on, so that the guest need not bind.
        #[doc(alias = "LISTEN_FDS")]
        ready: bool,
    },
    /// `inherited`: the sockets that palisade itself was given (`LISTEN_FDS`, sd_listen_fds(3)).
    Inherited,
}

/// The addresses of a [`ListenGrant`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// `*`: every interface, `0.0.0.0` and `::`.
    Every,
    /// `localhost`: the host's loopback, `127.0.0.1` and `::1`.
    Localhost,
    /// This address alone.
    Address {
        /// The address; never an IPv4-mapped one.
        address: IpAddr,
        /// The interface a link-local IPv6 address is on, by name.
        zone: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> IpNetwork {
        text.parse().unwrap()
    }

    #[test]
    fn networks_contain_by_prefix() {
        let contains = |net: &str, address: &str| network(net).contains(address.parse().unwrap());
        assert!(contains("10.0.0.0/8", "10.255.0.1"));
        assert!(!contains("10.0.0.0/8", "11.0.0.0"));
        assert!(contains("0.0.0.0/0", "255.255.255.255"));
        assert!(contains("::/0", "ffff::"));
        assert!(contains("2001:db8::/33", "2001:db8:7fff::1"));
        assert!(!contains("2001:db8::/33", "2001:db8:8000::1"));
        assert!(contains("192.0.2.1", "192.0.2.1"));
        assert!(!contains("192.0.2.1", "192.0.2.0"));
        assert!(!contains("::/0", "10.0.0.1"), "families do not mix");
        assert!(network("10.0.0.0/8").contains_network(&network("10.1.0.0/16")));
        assert!(!network("10.1.0.0/16").contains_network(&network("10.0.0.0/8")));
        assert!(network("192.0.2.1").is_single() && !network("::/0").is_single());
        assert_eq!(
            IpNetwork::of_address("::1".parse().unwrap()),
            network("::1/128")
        );
    }

    #[test]
    fn names_lie_below_names() {
        let name = |text: &str| text.parse::<HostName>().unwrap();
        assert!(name("example.com").is_above(&name("a.b.example.com")));
        assert!(!name("example.com").is_above(&name("example.com")));
        assert!(!name("example.com").is_above(&name("badexample.com")));
        assert!(name("LocalHost.").is_localhost());
    }

    #[test]
    fn ranges_of_ports() {
        assert_eq!(Ports::new(1..=u16::MAX), Some(Ports::ANY));
        assert_eq!(Ports::new(0..=0), Some(Ports::KERNEL_PICKS));
        assert_eq!(Ports::new(0..=1), None);
        #[expect(clippy::reversed_empty_ranges, reason = "an empty range is refused")]
        let empty = Ports::new(2..=1);
        assert_eq!(empty, None);
        let ports = Ports::new(80..=90).unwrap();
        assert!(ports.contains(80) && ports.contains(90) && !ports.contains(91));
        assert!(ports.overlaps(Ports::one(90)) && !ports.overlaps(Ports::one(79)));
        assert_eq!((ports.single(), Ports::one(7).single()), (None, Some(7)));
    }
}
