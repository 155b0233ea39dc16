//! The host that a request names: RFC 9110, section 7.2, and RFC 3986, section 3.2.2.

use std::net::Ipv6Addr;

/// A name or address, with a port or without.
#[derive(Clone, Copy, Debug, Eq)]
pub(super) struct Host<'a> {
    name: Name<'a>,
    port: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name<'a> {
    /// A name or an address of IPv4, without a dot at its end.
    Plain(&'a str),
    Ipv6(Ipv6Addr),
}

/// The same host, however each is written.
impl PartialEq for Host<'_> {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (self.name, other.name) {
            (Name::Plain(name), Name::Plain(other)) => name.eq_ignore_ascii_case(other),
            (name, other) => name == other,
        };
        is_same && self.port == other.port
    }
}

/// The longest name that DNS can have, with its last dot.
const LONGEST_NAME: usize = 255;

impl<'a> Host<'a> {
    /// `None`: it is none. No user, no comma, nothing that could be a path, no escape.
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok()?;
        let (name, rest) = match text.strip_prefix('[') {
            Some(inner) => {
                let (address, rest) = inner.split_once(']')?;
                (Name::Ipv6(address.parse().ok()?), rest)
            }
            None => {
                let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
                (Name::Plain(plain_name(name)?), rest)
            }
        };
        let port = match rest.strip_prefix(':') {
            None if rest.is_empty() => None,
            None => return None,
            Some("") => None,
            Some(digits) => Some(parse_port(digits)?),
        };
        Some(Self { name, port })
    }

    /// The one way to write it, if `given` is another.
    pub(super) fn formed(self, given: &[u8]) -> Option<String> {
        if self.is_formed(given) {
            return None;
        }
        let mut formed = match self.name {
            Name::Plain(name) => name.to_ascii_lowercase(),
            Name::Ipv6(address) => format!("[{address}]"),
        };
        if let Some(port) = self.port {
            formed += &format!(":{port}");
        }
        (formed.as_bytes() != given).then_some(formed)
    }

    /// Whether it is surely written that way, as nearly every name is.
    fn is_formed(self, given: &[u8]) -> bool {
        let Name::Plain(name) = self.name else {
            return false;
        };
        let digits = |port: u16| port.checked_ilog10().unwrap_or(0) as usize + 1;
        let port_bytes = self.port.map_or(0, |port| 1 + digits(port));
        let is_small = !given.iter().any(u8::is_ascii_uppercase);
        given.len() == name.len() + port_bytes && is_small
    }
}

fn plain_name(name: &str) -> Option<&str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let is_name = name.bytes().all(is_of_name)
        && name.len() < LONGEST_NAME
        && !name.starts_with('.')
        && !name.ends_with('.')
        && !name.contains("..");
    (is_name && !name.is_empty()).then_some(name)
}

fn parse_port(digits: &str) -> Option<u16> {
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::Host;

    fn formed(given: &str) -> Option<String> {
        let host = Host::parse(given.as_bytes())?;
        Some(host.formed(given.as_bytes()).unwrap_or(given.to_owned()))
    }

    #[test]
    fn a_host_has_one_form() {
        for (given, expected) in [
            ("a", "a"),
            ("A.Example.COM", "a.example.com"),
            ("a.example.com.", "a.example.com"),
            ("a:80", "a:80"),
            ("A.:0080", "a:80"),
            ("a:080", "a:80"),
            ("a.:8", "a:8"),
            ("a:0", "a:0"),
            ("a:65535", "a:65535"),
            ("a:", "a"),
            ("10.0.0.1:8080", "10.0.0.1:8080"),
            ("[::1]", "[::1]"),
            ("[0:0::0:1]:443", "[::1]:443"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("a_b~c-d", "a_b~c-d"),
        ] {
            assert_eq!(formed(given).as_deref(), Some(expected), "{given}");
        }
    }

    #[test]
    fn what_is_no_host_is_none() {
        let long = "a".repeat(256);
        for given in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a b",
            "a,b",
            "a/b",
            "u@a",
            "a%41",
            "a;b",
            "h:-1",
            "h:+1",
            "h:65536",
            "h:99999999999",
            "h:80:80",
            "h:x",
            "[::1",
            "::1",
            "[::1]x",
            "[a]",
            "[]",
            "[fe80::1%25eth0]",
            "[v1.x]",
            "a]",
            "\u{e4}",
            ":80",
            &long,
        ] {
            assert_eq!(formed(given), None, "{given}");
        }
    }
}
