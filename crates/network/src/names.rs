//! Names to addresses.
//!
//! Like the C library, but with the time that an answer holds, which getaddrinfo(3) does not tell,
//! and without loading foreign code into this process:
//!
//! ```text
//!  /etc/hosts ──▶ DNS, to the servers of /etc/resolv.conf ──▶ the system's own lookup, in a
//!                                                             process of its own (getent)
//! ```
//!
//! DNS is passed over where /etc/nsswitch.conf has another service before it; the last step, where
//! that file has no other and the name needs no search domain.

mod dns;
mod getent;
mod hosts;
mod name_services;
mod resolv_conf;
pub mod service;

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    path::PathBuf,
    time::Duration,
};

use palisade_policy::HostName;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

use name_services::NameServices;
use resolv_conf::ResolvConf;

/// How long an answer holds that came without a time.
const TTL_OF_LOCAL_ANSWERS: Duration = Duration::from_secs(60);

/// Who knows the addresses of names and the interfaces of this machine.
pub trait Resolve: Send + Sync {
    /// The addresses of `name`.
    ///
    /// # Errors
    /// When nobody knows any.
    fn addresses(&self, name: &HostName) -> Result<Answer, ResolveError>;

    /// The index of a network interface, by its name or its index in decimal.
    fn interface(&self, zone: &str) -> Option<u32>;

    /// The name servers that programs on this machine ask.
    fn name_servers(&self) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// The files that a lookup reads, loads or executes. Whoever can change one, or put one there, chooses the
    /// answers, or what runs in the lookup's process: no guest may whose names are looked up while it runs.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// What a name stands for, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its addresses; never none.
    pub addresses: Vec<IpAddr>,
    /// How long they hold.
    pub ttl: Duration,
}

/// Why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// There is no such name, or it has no address.
    #[error("no name server knows it: correct the name or leave the grant out")]
    NotFound,
    /// Nobody answered.
    #[error("no name server answered ({0}): check the machine's network and /etc/resolv.conf")]
    NoAnswer(String),
    /// The system's own lookup is not installed.
    #[error(
        "getent(1) is not in /usr/bin, and this name needs it: install the C library's programs"
    )]
    NoProgram,
    /// All that it stands for is not public, and nobody may be led there by a name.
    #[error(
        "it stands for {} alone, which no name may lead to: grant the address itself, if that is meant",
        listed(.0)
    )]
    Withheld(Vec<IpAddr>),
    /// The lookup itself failed.
    #[error("the lookup failed in palisade itself; please report it")]
    Broken,
}

fn listed(addresses: &[IpAddr]) -> String {
    let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    match texts.is_empty() {
        true => "no address".into(),
        false => texts.join(", "),
    }
}

impl ResolveError {
    /// Whose fault it is.
    pub fn fault(&self) -> &'static str {
        match self {
            Self::NotFound | Self::Withheld(_) => "policy",
            Self::NoAnswer(_) | Self::NoProgram => "host",
            Self::Broken => "wall",
        }
    }
}

/// This machine's own resolver.
#[derive(Clone, Debug)]
pub struct SystemResolver {
    hosts: PathBuf,
    resolv_conf: PathBuf,
    nsswitch_conf: PathBuf,
    dns_port: u16,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            hosts: "/etc/hosts".into(),
            resolv_conf: "/etc/resolv.conf".into(),
            nsswitch_conf: "/etc/nsswitch.conf".into(),
            dns_port: 53,
        }
    }
}

impl Resolve for SystemResolver {
    fn addresses(&self, name: &HostName) -> Result<Answer, ResolveError> {
        let mut answer = self.look_up(name)?;
        drop_unreachable(&mut answer.addresses);
        Ok(answer)
    }

    fn interface(&self, zone: &str) -> Option<u32> {
        let any = socket_with(
            AddressFamily::UNIX,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        );
        let any = any.ok()?;
        let by_index = || {
            let index = zone.parse().ok().filter(|index| *index != 0)?;
            netdevice::index_to_name(&any, index).ok().map(|_| index)
        };
        netdevice::name_to_index(&any, zone).ok().or_else(by_index)
    }

    fn name_servers(&self) -> Vec<SocketAddr> {
        ResolvConf::parse(&read(&self.resolv_conf), self.dns_port).servers
    }

    fn files(&self) -> Vec<PathBuf> {
        let own = [&self.hosts, &self.resolv_conf, &self.nsswitch_conf];
        let systems = getent::FILES.iter().map(PathBuf::from);
        own.into_iter().cloned().chain(systems).collect()
    }
}

impl SystemResolver {
    fn look_up(&self, name: &HostName) -> Result<Answer, ResolveError> {
        if let Some(addresses) = hosts::addresses_of(name, &read(&self.hosts)) {
            return Ok(local_answer(addresses));
        }
        let services = NameServices::parse(&read(&self.nsswitch_conf));
        let conf = ResolvConf::parse(&read(&self.resolv_conf), self.dns_port);
        let is_whole = conf.is_whole(name);
        if services.ask_dns_first(name) {
            match dns::look_up(name, &conf) {
                Err(ResolveError::NotFound) if !is_whole || services.ask_others(name) => {}
                answered => return answered,
            }
        }
        // It knows search domains, mDNS and whatever else the machine is set up for.
        getent::look_up(name, is_whole).map(local_answer)
    }
}

/// A file that is missing or unreadable is as good as an empty one, as it is for the C library.
fn read(path: &PathBuf) -> String {
    fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

fn local_answer(addresses: Vec<IpAddr>) -> Answer {
    Answer {
        addresses,
        ttl: TTL_OF_LOCAL_ANSWERS,
    }
}

/// Leaves out addresses that no route leads to, unless that is all of them. A program inside cannot
/// ask for routes itself, and would try IPv6 first on a machine that has none.
fn drop_unreachable(addresses: &mut Vec<IpAddr>) {
    let (reachable, rest): (Vec<_>, Vec<_>) =
        addresses.iter().partition(|address| has_route(**address));
    *addresses = if reachable.is_empty() {
        rest
    } else {
        reachable
    };
}

/// Connecting a udp socket looks for a route and sends nothing.
fn has_route(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    /// The port does not matter; this one is `discard`.
    const PORT: u16 = 9;
    UdpSocket::bind(SocketAddr::new(any, 0))
        .and_then(|socket| socket.connect(SocketAddr::new(address, PORT)))
        .is_ok()
}

#[cfg(test)]
mod tests;
