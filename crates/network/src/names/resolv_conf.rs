//! `/etc/resolv.conf`, resolv.conf(5): the name servers, how long to wait for them, and which names
//! are whole.
//!
//! Search domains are not read: a name that needs them is found by the system's own lookup.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6},
    time::Duration,
};

use palisade_policy::HostName;

/// The name servers and how long to wait for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResolvConf {
    /// In the order they are asked; never none.
    pub(super) servers: Vec<SocketAddr>,
    /// How long to wait for one answer.
    pub(super) timeout: Duration,
    /// How many times to ask all of them.
    pub(super) attempts: u32,
    /// A name with fewer dots is completed by a search domain.
    pub(super) ndots: usize,
}

/// The C library's own limits.
const MAX_SERVERS: usize = 3;
const MAX_TIMEOUT_S: u64 = 30;
const MAX_ATTEMPTS: u32 = 5;
const MAX_NDOTS: usize = 15;

impl ResolvConf {
    /// Reads the file's text; `port` is the one that servers are asked at.
    pub(super) fn parse(text: &str, port: u16) -> Self {
        let mut conf = Self {
            servers: Vec::new(),
            timeout: Duration::from_secs(5),
            attempts: 2,
            ndots: 1,
        };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => conf.servers.extend(server(words.next(), port)),
                Some("options") => words.for_each(|option| conf.set(option)),
                _ => {}
            }
        }
        conf.servers.truncate(MAX_SERVERS);
        if conf.servers.is_empty() {
            conf.servers
                .push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
        }
        conf
    }

    fn set(&mut self, option: &str) {
        match option.split_once(':') {
            Some(("timeout", value)) => {
                if let Ok(seconds) = value.parse::<u64>() {
                    self.timeout = Duration::from_secs(seconds.clamp(1, MAX_TIMEOUT_S));
                }
            }
            Some(("attempts", value)) => {
                if let Ok(attempts) = value.parse::<u32>() {
                    self.attempts = attempts.clamp(1, MAX_ATTEMPTS);
                }
            }
            Some(("ndots", value)) => {
                if let Ok(dots) = value.parse::<usize>() {
                    self.ndots = dots.min(MAX_NDOTS);
                }
            }
            _ => {}
        }
    }

    /// Whether `name` is taken as it stands. The C library tries search domains for such a name as
    /// well, once it is not found; here that would make it another host's.
    pub(super) fn is_whole(&self, name: &HostName) -> bool {
        name.as_str().matches('.').count() >= self.ndots
    }
}

/// A server's address, with its zone as an index where it is link-local.
fn server(word: Option<&str>, port: u16) -> Option<SocketAddr> {
    let word = word?;
    match word.split_once('%') {
        None => word
            .parse()
            .ok()
            .map(|ip: IpAddr| SocketAddr::new(ip, port)),
        Some((address, zone)) => {
            let scope = super::Resolve::interface(&super::SystemResolver::default(), zone)?;
            let address = address.parse().ok()?;
            Some(SocketAddrV6::new(address, port, 0, scope).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let ResolvConf {
            servers,
            timeout,
            attempts,
            ..
        } = ResolvConf::parse(text, 53);
        format!("{servers:?} {timeout:?} {attempts}")
    }

    #[test]
    fn whole_names() {
        let is_whole =
            |text: &str, name: &str| ResolvConf::parse(text, 53).is_whole(&name.parse().unwrap());
        assert!(is_whole("", "a.example") && !is_whole("", "db"));
        let cluster = "search a.svc.cluster.local\noptions ndots:5\n";
        assert!(!is_whole(cluster, "db.svc") && is_whole(cluster, "a.b.c.d.e.example"));
        assert!(is_whole("options ndots:0", "db"));
    }

    #[test]
    fn servers_and_options() {
        for (text, conf) in [
            ("", "[127.0.0.1:53] 5s 2"),
            (
                "# nameserver 192.0.2.9\n;nameserver 192.0.2.8\n",
                "[127.0.0.1:53] 5s 2",
            ),
            (
                "search a.example\nnameserver 192.0.2.1\nnameserver\t2001:db8::1\nnameserver x\n",
                "[192.0.2.1:53, [2001:db8::1]:53] 5s 2",
            ),
            (
                "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4",
                "[192.0.2.1:53, 192.0.2.2:53, 192.0.2.3:53] 5s 2",
            ),
            (
                "options ndots:5 timeout:1 attempts:3 rotate",
                "[127.0.0.1:53] 1s 3",
            ),
            ("options timeout:0 attempts:0", "[127.0.0.1:53] 1s 1"),
            (
                "options timeout:900 attempts:900 timeout:x",
                "[127.0.0.1:53] 30s 5",
            ),
            ("nameserver ::1%lo", "[[::1%1]:53] 5s 2"),
            ("nameserver fe80::1%nonesuch7", "[127.0.0.1:53] 5s 2"),
        ] {
            assert_eq!(shown(text), conf, "{text}");
        }
    }
}
