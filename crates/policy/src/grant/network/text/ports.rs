//! The port part of a network grant.

use std::fmt;

use super::{super::Ports, Parsed};
use crate::value::NetworkReason;

/// Parses `443`, `8000-8099` or `*`.
pub(super) fn parse_connect_ports(text: &str) -> Parsed<Ports> {
    match parse_ports(text)? {
        ports if ports.contains(0) => Err(NetworkReason::PortZero),
        ports => Ok(ports),
    }
}

/// Parses what [`parse_connect_ports`] parses, and `0` alone.
pub(super) fn parse_listen_ports(text: &str) -> Parsed<Ports> {
    parse_ports(text)
}

/// Parses a single port of at least 1.
pub(super) fn parse_port(text: &str) -> Parsed<u16> {
    match parse_number(text)? {
        0 => Err(NetworkReason::PortZero),
        port => Ok(port),
    }
}

fn parse_ports(text: &str) -> Parsed<Ports> {
    let (first, last) = match text {
        "" => return Err(NetworkReason::NoPort),
        "*" => return Ok(Ports::ANY),
        _ => text.split_once('-').unwrap_or((text, text)),
    };
    let (first, last) = (parse_number(first)?, parse_number(last)?);
    Ports::new(first..=last).ok_or(match first > last {
        true => NetworkReason::PortOrder,
        false => NetworkReason::PortZero,
    })
}

fn parse_number(text: &str) -> Parsed<u16> {
    let number = decimal(text).and_then(|number| u16::try_from(number).ok());
    number.ok_or_else(|| NetworkReason::BadPort(text.to_owned()))
}

/// A number as everybody reads it: decimal digits, no sign and no leading zero.
pub(super) fn decimal(text: &str) -> Option<u32> {
    let digits = text.chars().all(|c| c.is_ascii_digit());
    let plain = digits && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

/// Writes the ports as they stand in a grant.
impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = self.range().into_inner();
        match self.single() {
            Some(port) => write!(f, "{port}"),
            None if *self == Self::ANY => f.write_str("*"),
            None => write!(f, "{first}-{last}"),
        }
    }
}
