//! The host part of a network grant: names, wildcards, addresses, networks.

use std::{fmt, net::IpAddr, str::FromStr};

use super::{
    super::{HostName, HostPattern, IpNetwork, ListenAddress, address_bits, first_address},
    Parsed,
};
use crate::value::{NetworkReason, ValueError, ValueKind};

impl ValueKind {
    const HOST_NAME: &'static Self = &Self::of_form(
        "host name",
        "letters, digits, hyphens and underscores between dots",
        "api.example.com",
    );

    const IP_NETWORK: &'static Self =
        &Self::of_form("network", "ADDRESS or ADDRESS/PREFIX", "2001:db8::/32");
}

/// The longest name DNS can carry (RFC 1035, 2.3.4) as text without its trailing dot.
const LONGEST_NAME: usize = 253;

/// The longest label (RFC 1035, 2.3.4).
const LONGEST_LABEL: usize = 63;

/// The longest interface name, `IFNAMSIZ` less its NUL byte.
const LONGEST_ZONE: usize = 15;

/// A host as it stands in a grant: in brackets or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written<'a> {
    Plain(&'a str),
    Bracketed(&'a str),
}

/// Splits `HOST:PORTS` or `[HOST]:PORTS`.
pub(super) fn split_host(text: &str) -> Parsed<(Written<'_>, &str)> {
    if let Some(opened) = text.strip_prefix('[') {
        let (host, rest) = opened.split_once(']').ok_or(NetworkReason::OpenBracket)?;
        let ports = rest.strip_prefix(':').ok_or(NetworkReason::NoPort)?;
        return Ok((Written::Bracketed(host), ports));
    }
    let (host, ports) = text.rsplit_once(':').ok_or(NetworkReason::NoPort)?;
    match host.contains(':') {
        true => Err(NetworkReason::NoBrackets),
        false => Ok((Written::Plain(host), ports)),
    }
}

pub(super) fn parse_host(host: Written<'_>) -> Parsed<HostPattern> {
    let text = match host {
        Written::Bracketed(text) => return Ok(HostPattern::Network(parse_bracketed(text)?)),
        Written::Plain(text) => text,
    };
    if text == "*" {
        return Err(NetworkReason::EveryHost);
    }
    if let Some(name) = text.strip_prefix("*.") {
        return Ok(HostPattern::Wildcard(parse_name(name)?));
    }
    match text.contains('/') || ends_in_number(text) {
        true => Ok(HostPattern::Network(parse_network(text)?)),
        false => Ok(HostPattern::Name(parse_name(text)?)),
    }
}

pub(super) fn parse_listen_address(host: Written<'_>) -> Parsed<ListenAddress> {
    let network = match host {
        Written::Bracketed(text) => parse_bracketed(text)?,
        Written::Plain("") => return Err(NetworkReason::NoHost),
        Written::Plain("*") => return Ok(ListenAddress::Every),
        Written::Plain(text) if text.eq_ignore_ascii_case("localhost") => {
            return Ok(ListenAddress::Localhost);
        }
        Written::Plain(text) if text.contains('/') || ends_in_number(text) => parse_network(text)?,
        Written::Plain(_) => return Err(NetworkReason::ListenName),
    };
    match network.is_single() {
        true => Ok(ListenAddress::Address {
            address: network.address,
            zone: network.zone,
        }),
        false => Err(NetworkReason::ListenNetwork),
    }
}

fn parse_bracketed(text: &str) -> Parsed<IpNetwork> {
    let network = parse_network(text)?;
    match network.address {
        IpAddr::V6(_) => Ok(network),
        IpAddr::V4(_) => Err(NetworkReason::BracketedIpv4),
    }
}

/// Parses `ADDRESS[%ZONE][/PREFIX]`, the order of RFC 4007, section 11.7.
fn parse_network(text: &str) -> Parsed<IpNetwork> {
    let (rest, prefix) = match text.split_once('/') {
        Some((rest, prefix)) => (rest, Some(prefix)),
        None => (text, None),
    };
    let (address, zone) = match rest.split_once('%') {
        Some((address, zone)) => (address, Some(parse_zone(zone)?)),
        None => (rest, None),
    };
    let address = parse_address(address)?;
    let network = IpNetwork {
        address,
        prefix: match prefix {
            Some(prefix) => parse_prefix(prefix, address)?,
            None => address_bits(address),
        },
        zone,
    };
    refuse_odd_network(&network)?;
    Ok(network)
}

/// Takes what [`std::net`] takes: four decimal numbers without leading zeros, or RFC 4291's forms.
fn parse_address(text: &str) -> Parsed<IpAddr> {
    text.parse()
        .map_err(|_| NetworkReason::BadAddress(text.to_owned()))
}

fn parse_prefix(text: &str, address: IpAddr) -> Parsed<u8> {
    let bits = address_bits(address);
    let prefix = super::ports::decimal(text).and_then(|prefix| u8::try_from(prefix).ok());
    let prefix = prefix.filter(|prefix| *prefix <= bits);
    prefix.ok_or_else(|| NetworkReason::BadPrefix {
        given: text.to_owned(),
        bits,
    })
}

/// Takes what the kernel takes as an interface's name (`dev_valid_name`) of what can be printed.
fn parse_zone(text: &str) -> Parsed<String> {
    let fits = (1..=LONGEST_ZONE).contains(&text.len()) && !matches!(text, "." | "..");
    let named = |c: char| c.is_ascii_graphic() && !matches!(c, ':' | '%' | '[' | ']' | ',');
    match fits && text.chars().all(named) {
        true => Ok(text.to_owned()),
        false => Err(NetworkReason::BadZone(text.to_owned())),
    }
}

fn refuse_odd_network(network: &IpNetwork) -> Parsed<()> {
    let first = first_address(network.address, network.prefix);
    if first != network.address {
        return Err(NetworkReason::HostBits {
            network: shown(&IpNetwork {
                address: first,
                ..network.clone()
            }),
            address: network.address,
        });
    }
    if let Some(address) = mapped_ipv4(network.address) {
        // The prefix covers the 96 bits of `::ffff:0:0`, for none of them is cleared.
        let ipv4 = IpNetwork {
            address: address.into(),
            prefix: network.prefix - 96,
            zone: None,
        };
        return Err(NetworkReason::MappedAddress(shown(&ipv4)));
    }
    if network.zone.is_some() && !is_of_one_link(network.address) {
        return Err(NetworkReason::ZoneElsewhere);
    }
    Ok(())
}

fn shown(network: &IpNetwork) -> Box<str> {
    network.to_string().into()
}

fn mapped_ipv4(address: IpAddr) -> Option<std::net::Ipv4Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => address.to_ipv4_mapped(),
    }
}

/// Whether an address means something on one interface only (RFC 4007, section 4): unicast
/// `fe80::/10`, multicast of interface and link scope.
fn is_of_one_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => {
            let multicast_scope = address.segments()[0] & 0xf;
            address.is_unicast_link_local()
                || address.is_multicast() && matches!(multicast_scope, 1 | 2)
        }
    }
}

/// Whether a host is an address to some program, although it may be none to others: the WHATWG's
/// "ends in a number", after which `1`, `0x7f.1` and `0177.0.0.1` are spellings of addresses.
fn ends_in_number(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or(host);
    let is_hex = |digits: &str| digits.chars().all(|c| c.is_ascii_hexdigit());
    let hex = last
        .strip_prefix("0x")
        .or_else(|| last.strip_prefix("0X"))
        .is_some_and(is_hex);
    hex || !last.is_empty() && last.chars().all(|c| c.is_ascii_digit())
}

/// Parses a name into its normal form: lower-case, without the trailing dot.
fn parse_name(text: &str) -> Parsed<HostName> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match name.chars().find(|c| !allowed(*c)) {
        Some('*') => return Err(NetworkReason::WildcardPlace),
        Some(c) if !c.is_ascii() => return Err(NetworkReason::NotAscii),
        Some(c) => return Err(NetworkReason::HostCharacter(c)),
        None => {}
    }
    if text.is_empty() {
        return Err(NetworkReason::NoHost);
    }
    if name.len() > LONGEST_NAME {
        return Err(NetworkReason::LongName);
    }
    name.split('.').try_for_each(check_label)?;
    if ends_in_number(name) {
        return Err(NetworkReason::BadAddress(name.to_owned()));
    }
    Ok(HostName::from_checked(name.to_ascii_lowercase()))
}

fn check_label(label: &str) -> Parsed<()> {
    match label {
        "" => Err(NetworkReason::EmptyLabel),
        _ if label.len() > LONGEST_LABEL => Err(NetworkReason::LongLabel),
        _ if label.starts_with('-') || label.ends_with('-') => Err(NetworkReason::HyphenAtEnd),
        _ => Ok(()),
    }
}

impl FromStr for HostName {
    type Err = ValueError;

    /// Parses a name; capitals and a trailing dot are taken and not kept.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        parse_name(text)
            .map_err(|reason| ValueError::new(ValueKind::HOST_NAME, text, reason.into()))
    }
}

impl FromStr for IpNetwork {
    type Err = ValueError;

    /// Parses `ADDRESS[%ZONE][/PREFIX]`, without brackets.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        parse_network(text)
            .map_err(|reason| ValueError::new(ValueKind::IP_NETWORK, text, reason.into()))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Writes `ADDRESS[%ZONE][/PREFIX]`, without brackets.
impl fmt::Display for IpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_address(f, self.address, self.zone.as_deref())?;
        match self.is_single() {
            true => Ok(()),
            false => write!(f, "/{}", self.prefix),
        }
    }
}

fn write_address(f: &mut fmt::Formatter<'_>, address: IpAddr, zone: Option<&str>) -> fmt::Result {
    write!(f, "{address}")?;
    match zone {
        Some(zone) => write!(f, "%{zone}"),
        None => Ok(()),
    }
}

/// Writes the host as it stands in a grant, IPv6 in brackets.
impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) if network.address.is_ipv6() => write!(f, "[{network}]"),
            Self::Network(network) => network.fmt(f),
            Self::Name(name) => name.fmt(f),
            Self::Wildcard(name) => write!(f, "*.{name}"),
        }
    }
}

/// Writes the address as it stands in a grant, IPv6 in brackets.
impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every => f.write_str("*"),
            Self::Localhost => f.write_str("localhost"),
            Self::Address { address, zone } if address.is_ipv6() => {
                f.write_str("[")?;
                write_address(f, *address, zone.as_deref())?;
                f.write_str("]")
            }
            Self::Address { address, zone } => write_address(f, *address, zone.as_deref()),
        }
    }
}
