//! Why a network grant is refused.

use std::net::IpAddr;

use crate::quote::quote;

/// What is wrong with a network grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkReason {
    /// No `tcp://`, `udp://` or `unix:`.
    #[error("it does not say by which transport")]
    NoTransport,
    /// Another word before `://`. What runs over a transport is not looked at.
    #[error("{} is not a transport (a web server is reached by `tcp`)", quote(.0))]
    UnknownTransport(String),
    /// Nothing where the host belongs.
    #[error("there is no host")]
    NoHost,
    /// No `:PORT`.
    #[error("there is no port (`:*` stands for every port)")]
    NoPort,
    /// Something else than ports.
    #[error(
        "{} is not a port: that is a decimal number up to 65535, `8000-8099` for a range, or `*`",
        quote(.0)
    )]
    BadPort(String),
    /// Port 0 where it has no meaning.
    #[error("port 0 is no port of its own (alone, it lets the kernel pick where a guest listens)")]
    PortZero,
    /// A range from high to low.
    #[error("the range of ports ends before it starts")]
    PortOrder,
    /// `[` without `]`.
    #[error("there is a `[` without its `]`")]
    OpenBracket,
    /// IPv6 without brackets, where the port cannot be told from the address.
    #[error("it has more than one colon (an IPv6 address stands in brackets, as in `[::1]:443`)")]
    NoBrackets,
    /// IPv4 in brackets.
    #[error("only an IPv6 address stands in brackets")]
    BracketedIpv4,
    /// Not an address, or one that programs read differently.
    #[error(
        "{} is not an address that every program reads alike: IPv4 is four decimal numbers \
         without leading zeros",
        quote(.0)
    )]
    BadAddress(String),
    /// Not a number of bits.
    #[error("{} is not a prefix of 0 to {bits} bits", quote(given))]
    BadPrefix {
        /// What stands after the slash.
        given: String,
        /// How many bits the address has.
        bits: u8,
    },
    /// An address that is not its network's first.
    #[error(
        "it has bits beyond its prefix: the network is `{network}`, the single address `{address}`"
    )]
    HostBits {
        /// The network with those bits cleared.
        network: Box<str>,
        /// The address without the prefix.
        address: IpAddr,
    },
    /// IPv4 inside IPv6.
    #[error("it is an IPv4 address within an IPv6 one: write `{0}`, which covers both")]
    MappedAddress(Box<str>),
    /// Not a name of an interface.
    #[error("{} is not the name of a network interface", quote(.0))]
    BadZone(String),
    /// A zone that was not parsed and would not be read back.
    #[error("the interface's name cannot be told from what stands beside it")]
    AmbiguousZone,
    /// A zone on an address that means the same on every link.
    #[error("only a link-local IPv6 address takes `%` and an interface")]
    ZoneElsewhere,
    /// A name in another script.
    #[error("the name is not ASCII: write the form that DNS has, which starts with `xn--`")]
    NotAscii,
    /// A character that no name has.
    #[error("a host name has no {} in it", quote(&.0.to_string()))]
    HostCharacter(char),
    /// Two dots in a row, or one at the start.
    #[error("a part of the name between its dots is empty")]
    EmptyLabel,
    /// A label that DNS cannot carry.
    #[error("a part of the name is longer than 63 bytes")]
    LongLabel,
    /// A name that DNS cannot carry.
    #[error("the name is longer than 253 bytes")]
    LongName,
    /// A hyphen at an end of a label.
    #[error("a part of the name starts or ends with a hyphen")]
    HyphenAtEnd,
    /// `*` elsewhere than as the first label.
    #[error("`*` may stand for the first parts of a name only, as in `*.example.com`")]
    WildcardPlace,
    /// `*` as a whole host to connect to.
    #[error(
        "`*` alone is not a host: every IPv4 address is `0.0.0.0/0`, every IPv6 address `[::/0]`"
    )]
    EveryHost,
    /// A name as a place to listen at.
    #[error("a guest listens at an address and not at a name (`localhost` and `*` are taken)")]
    ListenName,
    /// A network as a place to listen at.
    #[error("a guest listens at a single address and not at a network (`*` is every interface)")]
    ListenNetwork,
    /// Something else after a comma.
    #[error("{} is not an option of it", quote(.0))]
    UnknownOption(String),
    /// An option that is given twice.
    #[error("the option {} is given twice", quote(.0))]
    OptionTwice(String),
    /// A socket name without a file.
    #[error(
        "a socket without a path (an abstract one) cannot be granted; for a file of that name \
         write `./@`"
    )]
    AbstractSocket,
    /// A relative path where there is no folder that it starts at.
    #[error("the socket's path is not absolute")]
    RelativePath,
}
