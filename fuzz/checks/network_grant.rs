//! What must hold of any text that is read as a network grant.
//!
//! The fuzz target and an ordinary test call the same function.

use std::{ffi::OsStr, fmt, net::Ipv4Addr, os::unix::ffi::OsStrExt, path::Path, str::FromStr};

use palisade_policy::{
    ConnectGrant, HostName, HostPattern, IpNetwork, ListenGrant, Policy, ValueError,
};

/// How many kinds of values took the text.
pub(crate) fn check(text: &[u8]) -> usize {
    let connect = check_connect(text);
    let Ok(text) = std::str::from_utf8(text) else {
        return connect.into();
    };
    let listen = check_value::<ListenGrant>(text);
    let taken = [
        connect,
        listen.is_some(),
        check_value::<IpNetwork>(text).is_some(),
        check_value::<HostName>(text).is_some(),
    ];
    if let Some(grant) = listen {
        check_policy(Policy {
            grants: palisade_policy::Grants {
                listen: vec![grant],
                ..Default::default()
            },
            ..Policy::default()
        });
    }
    taken.into_iter().filter(|taken| *taken).count()
}

fn check_connect(text: &[u8]) -> bool {
    let grant = match ConnectGrant::parse(OsStr::from_bytes(text), Path::new("/base")) {
        Ok(grant) => grant,
        Err(error) => {
            assert_shows(&error);
            return false;
        }
    };
    if let ConnectGrant::Internet { host, .. } = &grant {
        assert_reads_back(&grant);
        check_host(host);
    }
    if std::str::from_utf8(text).is_ok() {
        assert_reads_back(&grant);
        check_policy(Policy {
            grants: palisade_policy::Grants {
                connect: vec![grant],
                ..Default::default()
            },
            ..Policy::default()
        });
    }
    true
}

fn check_value<T>(text: &str) -> Option<T>
where
    T: FromStr<Err = ValueError> + fmt::Display + fmt::Debug + PartialEq,
{
    match text.parse::<T>() {
        Ok(value) => {
            assert_reads_back(&value);
            Some(value)
        }
        Err(error) => {
            assert_shows(&error);
            None
        }
    }
}

/// The text of a value stands for that value, and is its only normal form.
fn assert_reads_back<T>(value: &T)
where
    T: FromStr<Err = ValueError> + fmt::Display + fmt::Debug + PartialEq,
{
    let text = value.to_string();
    assert_eq!(text.parse::<T>().as_ref(), Ok(value), "{text:?}");
}

/// A message can be printed on a terminal, whatever it is about.
fn assert_shows(error: &ValueError) {
    let message = error.to_string();
    assert!(!message.contains(char::is_control), "{message:?}");
}

/// No name is an address to anybody, and no address is another one to anybody.
fn check_host(host: &HostPattern) {
    match host {
        HostPattern::Name(name) | HostPattern::Wildcard(name) => {
            assert_eq!(
                inet_aton(name.as_str()),
                None,
                "{name} is an address to libc"
            );
            assert!(!name.as_str().ends_with('.'));
            assert!(name.as_str().len() <= 253);
        }
        HostPattern::Network(network) => {
            assert!(network.contains(network.address), "{network}");
            assert!(network.contains_network(network));
            let text = network.address.to_string();
            if let Some(address) = inet_aton(&text) {
                assert_eq!(network.address, address, "{text} is {address} to libc");
            }
        }
    }
}

/// What a policy of this one grant says is one thing, valid or not.
fn check_policy(policy: Policy) {
    if let Err(error) = policy.validate() {
        let message = error.to_string();
        assert!(!message.contains(char::is_control), "{message:?}");
    }
    let written = policy.to_toml().expect("a text that was UTF-8");
    let again = Policy::from_toml(&written, "written", Path::new("/elsewhere"));
    assert_eq!(again.as_ref(), Ok(&policy), "{written}");
}

/// inet_aton(3): one to four numbers, decimal, octal or hexadecimal, the last of which fills what is
/// left of the address.
fn inet_aton(text: &str) -> Option<Ipv4Addr> {
    let numbers: Option<Vec<u32>> = text.split('.').map(c_number).collect();
    let numbers = numbers.filter(|numbers| numbers.len() <= 4)?;
    let (last, first) = numbers.split_last()?;
    let left = u32::BITS - 8 * u32::try_from(first.len()).ok()?;
    let fits = left == u32::BITS || *last < 1 << left;
    let bytes_fit = first.iter().all(|byte| *byte < 256);
    let head = first
        .iter()
        .enumerate()
        .fold(0, |head, (place, byte)| head | byte << (24 - 8 * place));
    (fits && bytes_fit).then(|| Ipv4Addr::from_bits(head | last))
}

/// A number as strtoul(3) reads it in base 0.
fn c_number(text: &str) -> Option<u32> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, base) = match (hex, text) {
        (Some(digits), _) => (digits, 16),
        (None, "0") => (text, 10),
        (None, _) if text.starts_with('0') => (&text[1..], 8),
        (None, _) => (text, 10),
    };
    let plain = digits.chars().all(|c| c.is_ascii_hexdigit());
    plain
        .then(|| u32::from_str_radix(digits, base).ok())
        .flatten()
}

#[test]
fn the_oracle_reads_addresses_as_libc_does() {
    let loopback = Some(Ipv4Addr::LOCALHOST);
    for text in [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "0177.0.0.01",
        "2130706433",
        "0x7f000001",
    ] {
        assert_eq!(inet_aton(text), loopback, "{text}");
    }
    for text in [
        "127.0.0.256",
        "08",
        "1.2.3.4.5",
        "a",
        "",
        "1.",
        "4294967296",
        "1.16777216",
    ] {
        assert_eq!(inet_aton(text), None, "{text}");
    }
}
