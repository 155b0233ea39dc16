//! A proxy in a process of its own: it reads what a guest sends, and connects to where that says.
//!
//! ```text
//!  supervisor                                   the proxy's process
//!    │ a connection's address, and whose it is    │
//!    │ the new addresses of a granted name        │
//!    ├───────────────────────────────────────────▶│
//!    │ the end                                    │
//!    ├───────────────────────────────────────────▶│ closes its connections
//!    │ each thing that it refused                 │
//!    ◀────────────────────────────────────────────┤
//! ```
//!
//! Somebody else may speak for that process. So the supervisor takes no more than there are things to tell
//! apart, and no words but names: sentences and flags are its own.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use palisade_policy::{HostName, Transport};
use rustix::net::{Shutdown, sockopt};

use super::{HelloFault, LIMITS, Listening, Proxy, ProxyRefusal, RequestFault};
use crate::{
    Call, Gate, Observation, Observations, Process, Reason, Refusal, Resolve, Target,
    datagrams::{pair, receive, send},
    flag,
    observation::LIMIT,
    wait::until_readable,
};

/// The supervisor's end of it.
#[derive(Debug)]
pub struct RemoteProxy {
    channel: OwnedFd,
}

/// How long the supervisor waits for the proxy to take what it is told.
const PATIENCE: Duration = Duration::from_secs(1);

/// The two ends between a supervisor and its proxy.
///
/// # Errors
/// When the kernel has no more sockets.
pub fn connect() -> io::Result<(RemoteProxy, OwnedFd)> {
    let (channel, theirs) = pair()?;
    // A proxy that takes nothing keeps nobody waiting.
    sockopt::set_socket_timeout(&channel, sockopt::Timeout::Send, Some(PATIENCE))?;
    Ok((RemoteProxy { channel }, theirs))
}

/// Serves until the supervisor says that it is the end, or is gone; then tells what was refused.
///
/// # Errors
/// When no thread can be started.
pub fn serve(
    channel: &OwnedFd,
    listening: &Listening,
    gate: Arc<Gate>,
    resolver: Arc<dyn Resolve>,
) -> io::Result<()> {
    let observations = Arc::new(Observations::of_refusals());
    let seen = Arc::clone(&observations);
    let news = Some(channel.try_clone()?);
    let mut proxy = Proxy::serve_with(LIMITS, listening, gate, resolver, seen, news)?;
    proxy.wait();
    proxy.end(LAST_WORDS);
    let (refused, more) = observations.drain();
    for observation in &refused {
        tell(channel, encode(observation).as_deref().unwrap_or_default())?;
    }
    tell(channel, &format!("{MORE}{more}"))
}

const MORE: &str = "more ";
/// How long connections may take to end.
const LAST_WORDS: Duration = Duration::from_millis(500);

fn tell(channel: &OwnedFd, text: &str) -> io::Result<()> {
    send(channel.as_fd(), text.as_bytes(), None)
}

impl RemoteProxy {
    /// See [`Proxy::admit`].
    pub fn admit(&self, peer: SocketAddr, process: Process) {
        self.tell(&News::Connection(peer, process));
    }

    /// See [`Gate::pin`].
    pub fn pin(&self, name: &HostName, addresses: &[IpAddr]) {
        self.tell(&News::Addresses(name.clone(), addresses.into()));
    }

    /// Nobody connects where there is nobody to hear of it.
    fn tell(&self, news: &News) {
        let _ = tell(&self.channel, &news.encode());
    }

    /// Has it end, and say what it refused. Nobody waits for that before [`Self::finish`].
    pub fn dismiss(&self) {
        let _ = rustix::net::shutdown(&self.channel, Shutdown::Write);
    }

    /// Ends it, and takes what it refused, as [`Observations::drain`] gives it, for no longer than
    /// `patience`. Of one that does not tell all of it (it was killed) at least one try more counts.
    pub fn finish(&self, patience: Duration) -> (Vec<Observation>, u64) {
        let deadline = Instant::now() + patience;
        self.dismiss();
        let mut refused = Vec::new();
        while refused.len() <= LIMIT
            && until_readable(&self.channel, None::<&OwnedFd>, deadline).is_ok()
            && let Ok(Some((told, _))) = receive(self.channel.as_fd())
        {
            let told = String::from_utf8_lossy(&told);
            match told.strip_prefix(MORE) {
                Some(more) => return (refused, more.parse().unwrap_or(0)),
                None => refused.extend(decode(&told)),
            }
        }
        refused.truncate(LIMIT);
        (refused, 1)
    }
}

/// What the supervisor tells its proxy.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    Connection(SocketAddr, Process),
    Addresses(HostName, Vec<IpAddr>),
}

impl News {
    fn encode(&self) -> String {
        match self {
            Self::Connection(from, Process { pid, name }) => format!("c{from} {pid} {name}"),
            Self::Addresses(name, addresses) => {
                addresses.iter().fold(format!("a{name}"), |text, address| {
                    format!("{text} {address}")
                })
            }
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        match text.split_at_checked(1)? {
            ("c", text) => {
                let mut words = text.splitn(3, ' ');
                let from = words.next()?.parse().ok()?;
                let pid = words.next()?.parse().ok()?;
                let name = words.next()?.into();
                Some(Self::Connection(from, Process { pid, name }))
            }
            ("a", text) => {
                let mut words = text.split(' ');
                let name = words.next()?.parse().ok()?;
                let addresses = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
                Some(Self::Addresses(name, addresses))
            }
            _ => None,
        }
    }
}

/// Faults of which there is no more to say; told by their number here.
const OF_REQUESTS: [RequestFault; 8] = [
    RequestFault::Syntax,
    RequestFault::Method,
    RequestFault::Version,
    RequestFault::Authority,
    RequestFault::Host,
    RequestFault::OtherHost,
    RequestFault::Header,
    RequestFault::TooLong,
];
/// As [`OF_REQUESTS`].
const OF_HELLOS: [HelloFault; 5] = [
    HelloFault::NotTls,
    HelloFault::Malformed,
    HelloFault::NoName,
    HelloFault::Encrypted,
    HelloFault::TooLong,
];

/// One refusal: how often, the first process, what it was, and on the next line the process's name. `None` of
/// what a proxy does not say.
fn encode(observation: &Observation) -> Option<String> {
    let Process { pid, name } = &observation.process;
    let what = encode_refusal(&observation.target, observation.refusal.as_ref()?)?;
    Some(format!("{} {pid} {what}\n{name}", observation.count))
}

fn encode_refusal(target: &Target, refusal: &Refusal) -> Option<String> {
    let target = match target {
        Target::Name(_, name, port) => format!("{name} {port}"),
        _ => String::new(),
    };
    Some(match &refusal.reason {
        Reason::NotGranted => format!("not-granted {target}"),
        Reason::OtherPort => format!("other-port {target}"),
        Reason::BehindName(_) => match refusal.grant.as_deref().and_then(address_in) {
            Some(address) => format!("behind {target} {address}"),
            None => format!("behind {target}"),
        },
        Reason::Proxy(ProxyRefusal::Request(fault)) => match fault {
            RequestFault::Address(Some(address)) => format!("address {address}"),
            RequestFault::Address(None) => "address".into(),
            fault => format!(
                "request {}",
                OF_REQUESTS.iter().position(|one| one == fault)?
            ),
        },
        Reason::Proxy(ProxyRefusal::Hello(fault)) => match fault {
            HelloFault::OtherName(other) => format!("other-name {target} {other}"),
            fault => format!(
                "hello {target} {}",
                OF_HELLOS.iter().position(|one| one == fault)?
            ),
        },
        _ => return None,
    })
}

/// The address in a flag that [`flag::connect_to`] wrote.
fn address_in(grant: &str) -> Option<SocketAddr> {
    grant.split_once("://")?.1.parse().ok()
}

fn decode(text: &str) -> Option<Observation> {
    /// The kernel's own are shorter (`TASK_COMM_LEN`).
    const NAME_CHARS: usize = 64;
    let (words, name) = text.split_once('\n')?;
    let mut words = words.split(' ');
    let count = words.next()?.parse().ok()?;
    let pid = words.next()?.parse().ok()?;
    let (target, refusal) = decode_refusal(&mut words)?;
    Some(Observation {
        call: Call::Proxy,
        target,
        process: Process {
            pid,
            name: name.chars().take(NAME_CHARS).collect(),
        },
        refusal: Some(refusal),
        probe: false,
        count,
    })
}

fn decode_refusal<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<(Target, Refusal)> {
    let without_grant = |refusal| Refusal {
        reason: Reason::Proxy(refusal),
        grant: None,
    };
    let to_address = |address| flag::connect_to(Transport::Tcp, address);
    let kind = words.next()?;
    match kind {
        "request" => {
            let fault = *OF_REQUESTS.get(words.next()?.parse::<usize>().ok()?)?;
            let target = Target::Other("a request".into());
            return Some((target, without_grant(ProxyRefusal::Request(fault))));
        }
        "address" => {
            let address: Option<SocketAddr> = words.next().and_then(|word| word.parse().ok());
            let target = address.map_or(Target::Other("a request".into()), |address| {
                Target::Address(Transport::Tcp, address)
            });
            let fault = RequestFault::Address(address);
            let refusal = Refusal {
                grant: address
                    .filter(|address| address.port() != 0)
                    .map(to_address),
                ..without_grant(ProxyRefusal::Request(fault))
            };
            return Some((target, refusal));
        }
        _ => {}
    }
    let name: HostName = words.next()?.parse().ok()?;
    let port = words.next()?.parse().ok()?;
    let by_name = |reason| Refusal {
        reason,
        grant: Some(flag::connect_to_name(Transport::Tcp, &name, port)),
    };
    let of_hello = |fault| without_grant(ProxyRefusal::Hello(fault));
    let refusal = match kind {
        "not-granted" => by_name(Reason::NotGranted),
        "other-port" => by_name(Reason::OtherPort),
        "behind" => Refusal {
            reason: Reason::BehindName(name.clone()),
            grant: words
                .next()
                .and_then(|word| word.parse().ok())
                .map(to_address),
        },
        "hello" => of_hello(OF_HELLOS.get(words.next()?.parse::<usize>().ok()?)?.clone()),
        "other-name" => {
            let other: HostName = words.next()?.parse().ok()?;
            of_hello(HelloFault::OtherName(other.to_string()))
        }
        _ => return None,
    };
    Some((Target::Name(Transport::Tcp, name, port), refusal))
}

#[cfg(test)]
mod tests;
