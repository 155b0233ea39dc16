//! What init saw a guest try in vain, as it tells of it at the domain's end: see [`crate::wire::seen`].

use crate::{address::Address, wire::seen};
use palisade_network::{Asked, Call, Network, Observation, Process, Refusal, Target};
use palisade_policy::{HostName, Transport};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf};

/// All that was seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) executions: Vec<Execution>,
    pub(crate) network: Vec<Observation>,
    /// Tries beside those.
    pub(crate) more: u64,
}

/// Of a program that lies where nothing is executed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Execution {
    /// Inside, without links.
    pub(crate) path: PathBuf,
    pub(crate) count: u64,
}

impl Seen {
    /// Reads entries. What is none is left out.
    pub(crate) fn read(entries: &[u8], more: u64) -> Self {
        let mut seen = Self {
            more,
            ..Self::default()
        };
        let (entries, _) = entries.as_chunks::<{ seen::ENTRY_BYTES }>();
        for entry in entries {
            seen.add(entry);
        }
        seen
    }

    fn add(&mut self, entry: &[u8; seen::ENTRY_BYTES]) {
        let count = word(entry, seen::COUNT);
        let length = usize::try_from(word(entry, seen::LENGTH)).unwrap_or(usize::MAX);
        let rest = &entry[seen::BYTES..];
        let bytes = &rest[..length.min(rest.len())];
        if word(entry, seen::KIND) == seen::EXECUTION {
            let path = OsStr::from_bytes(bytes).into();
            self.executions.push(Execution { path, count });
            return;
        }
        let Some((call, target, refusal)) = describe(word(entry, seen::KIND), bytes) else {
            return;
        };
        let name = &entry[seen::NAME..seen::NAME + seen::NAME_BYTES];
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let probe = is_probe(call, &target);
        self.network.push(Observation {
            call,
            target,
            process: Process {
                pid: 0,
                name: String::from_utf8_lossy(name).into_owned(),
            },
            refusal: Some(refusal),
            probe,
            count,
        });
    }
}

/// getaddrinfo(3) connects datagram sockets to each address of `localhost`, to learn the routes. And a lookup whose name is
/// not seen is as often one of an address's name, for a log.
pub(crate) fn is_probe(call: Call, target: &Target) -> bool {
    match (call, target) {
        (Call::Connect, Target::Address(Transport::Udp, to)) => to.ip().is_loopback(),
        (Call::Lookup, Target::Other(_)) => true,
        _ => false,
    }
}

fn describe(kind: u64, bytes: &[u8]) -> Option<(Call, Target, Refusal)> {
    let (call, transport) = match kind {
        seen::STREAM => (Call::Connect, Transport::Tcp),
        seen::DATAGRAM => (Call::Connect, Transport::Udp),
        seen::SENT => (Call::Send, Transport::Udp),
        seen::QUESTION => {
            return Asked::read(bytes)
                .and_then(Asked::into_name)
                .map(|name| lookup(Some(name)));
        }
        seen::LOOKUP => return Some(lookup(None)),
        _ => return None,
    };
    let Ok(Address::Internet(address)) = Address::parse(bytes) else {
        return None;
    };
    let refusal = Network::default().connect(transport, address).err()?;
    let address = palisade_network::address::canonical(address);
    Some((call, Target::Address(transport, address), refusal))
}

fn lookup(name: Option<HostName>) -> (Call, Target, Refusal) {
    let refusal = Refusal::of_lookup(name.as_ref());
    (Call::Lookup, Target::of_lookup(name), refusal)
}

fn word(entry: &[u8; seen::ENTRY_BYTES], at: usize) -> u64 {
    let bytes = entry[at..].first_chunk();
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u64, length: u64, bytes: &[u8]) -> [u8; seen::ENTRY_BYTES] {
        let mut entry = [0; seen::ENTRY_BYTES];
        let mut put = |at: usize, bytes: &[u8]| entry[at..at + bytes.len()].copy_from_slice(bytes);
        put(seen::KIND, &kind.to_ne_bytes());
        put(seen::COUNT, &3u64.to_ne_bytes());
        put(seen::NAME, b"curl");
        put(seen::LENGTH, &length.to_ne_bytes());
        put(seen::BYTES, bytes);
        entry
    }

    #[test]
    fn entries_are_told_in_words() {
        let address = [2, 0, 1, 187, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let entries = [
            entry(seen::EXECUTION, 6, b"/tmp/t"),
            entry(seen::STREAM, 16, &address),
            entry(seen::LOOKUP, 0, &[]),
        ];
        let seen = Seen::read(entries.as_flattened(), 7);
        assert_eq!((seen.executions[0].count, seen.more), (3, 7));
        assert_eq!(seen.executions[0].path, PathBuf::from("/tmp/t"));
        let told: Vec<_> = seen.network.iter().map(ToString::to_string).collect();
        assert_eq!(
            told[0],
            "curl (0): connect tcp://192.0.2.1:443, 3 times: no grant covers it; `--connect \
             tcp://192.0.2.1:443` would allow it"
        );
        assert!(told[1].starts_with("curl (0): look up a name, 3 times: "));
    }

    #[test]
    fn what_is_no_entry_is_left_out() {
        for entry in [
            entry(0, 0, &[]),
            entry(seen::STREAM, 3, &[2, 0, 1]),
            entry(seen::QUESTION, u64::MAX, &[0xff; 200]),
            entry(99, 5, b"hello"),
        ] {
            assert_eq!(Seen::read(&entry, 0), Seen::default());
        }
        assert_eq!(Seen::read(b"short", 0), Seen::default());
        let endless = entry(seen::EXECUTION, u64::MAX, b"/tmp/t");
        let path = &Seen::read(&endless, 0).executions[0].path;
        assert_eq!(path.as_os_str().len(), seen::ENTRY_BYTES - seen::BYTES);
    }
}
