//! What the guest tried on the network.

use crate::lock::lock;
use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::{Mutex, MutexGuard},
};

use palisade_policy::{HostName, Transport};
use serde::Serialize;

use crate::{Reason, Refusal, refusal::as_text};

/// How many different observations are kept; those after them are only counted. A guest that tries
/// every address must not fill the supervisor's memory.
pub(crate) const LIMIT: usize = 256;

/// A call on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// socket(2), or a variant of it.
    Socket,
    /// connect(2).
    Connect,
    /// A datagram with an address: sendto(2), sendmsg(2), sendmmsg(2).
    Send,
    /// bind(2).
    Bind,
    /// listen(2).
    Listen,
    /// A request to the proxy for wildcards.
    Proxy,
    /// A question to a name server.
    Lookup,
    /// io_uring_setup(2): its calls are no calls, and nobody could look at them.
    Ring,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Socket => "socket",
            Self::Connect => "connect",
            Self::Send => "send",
            Self::Bind => "bind",
            Self::Listen => "listen",
            Self::Proxy => "proxy",
            Self::Lookup => "look up",
            Self::Ring => "io_uring_setup",
        })
    }
}

/// What a call was about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// An internet address, in canonical form.
    Address(#[serde(serialize_with = "as_text")] Transport, SocketAddr),
    /// A name and a port, as the proxy was asked for them.
    Name(
        #[serde(serialize_with = "as_text")] Transport,
        #[serde(serialize_with = "as_text")] HostName,
        u16,
    ),
    /// A name, of which a name server was asked.
    Host(#[serde(serialize_with = "as_text")] HostName),
    /// A socket that is bound to no address.
    Unbound(#[serde(serialize_with = "as_text")] Transport),
    /// Something else, in words: `an AF_NETLINK socket`.
    Other(String),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(transport, address) => write!(f, "{transport}://{address}"),
            Self::Name(transport, name, port) => write!(f, "{transport}://{name}:{port}"),
            Self::Host(name) => name.fmt(f),
            Self::Unbound(transport) => write!(f, "an unbound {transport} socket"),
            Self::Other(words) => f.write_str(words),
        }
    }
}

impl Target {
    /// What a name server was asked; `None` where that is not known, or no grant could name it.
    pub fn of_lookup(name: Option<HostName>) -> Self {
        name.map_or_else(|| Self::Other("a name".into()), Self::Host)
    }
}

impl Refusal {
    /// Of a name that a name server was asked, as [`Target::of_lookup`] has it: none answers a guest. The port is a guess,
    /// for nobody has said it yet.
    pub fn of_lookup(name: Option<&HostName>) -> Self {
        Self {
            reason: match name {
                Some(_) => Reason::NotGranted,
                None => Reason::Unseen,
            },
            grant: name.map(|name| format!("--connect tcp://{name}:443")),
        }
    }
}

/// Who called.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Process {
    /// Its id, as the host sees it; 0 where only the domain knows it.
    pub pid: u32,
    /// Its name, as the kernel keeps it: up to 15 bytes.
    #[doc(alias = "comm")]
    pub name: String,
}

/// Something that the guest tried.
///
/// Displayed as one sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Observation {
    /// By which call.
    pub call: Call,
    /// What it was about.
    pub target: Target,
    /// Who was the first to try.
    pub process: Process,
    /// Why it was refused; `None` if it was allowed.
    pub refusal: Option<Refusal>,
    /// Whether it was only a name lookup that asks for source addresses, and nobody misses it.
    pub probe: bool,
    /// How often it was tried.
    pub count: u64,
}

impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Process { pid, name } = &self.process;
        // The guest gives itself its name, and this may go to a terminal.
        write!(
            f,
            "{} ({pid}): {} {}",
            name.escape_debug(),
            self.call,
            self.target
        )?;
        if self.count > 1 {
            write!(f, ", {} times", self.count)?;
        }
        match &self.refusal {
            Some(refusal) => write!(f, ": {refusal}"),
            None => f.write_str(": allowed"),
        }
    }
}

/// What the guest tried, each thing once, in the order of first tries. May be shared by threads.
///
/// Things are told apart by call, target, refusal and the process's name: a shell loop that tries
/// one address from a thousand processes is one observation.
#[derive(Default)]
pub struct Observations {
    keeps_allowed: bool,
    /// Hears each of them at once.
    hears: Option<Box<Hears>>,
    /// Allowed ones, too.
    hears_allowed: bool,
    seen: Mutex<Seen>,
}

impl fmt::Debug for Observations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observations")
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Seen {
    positions: BTreeMap<Key, usize>,
    list: Vec<Observation>,
    more: u64,
}

type Hears = dyn Fn(&Observation) + Send + Sync;

type Key = (Call, Target, Option<Refusal>, bool, String);

impl Observations {
    /// Keeps what was refused.
    pub fn of_refusals() -> Self {
        Self::default()
    }

    /// Keeps what was allowed too.
    pub fn of_everything() -> Self {
        Self {
            keeps_allowed: true,
            ..Self::default()
        }
    }

    /// Has `hears` told of each at once; of allowed ones, too, if it `hears_allowed`.
    #[must_use]
    pub fn heard_by(
        mut self,
        hears_allowed: bool,
        hears: impl Fn(&Observation) + Send + Sync + 'static,
    ) -> Self {
        self.hears = Some(Box::new(hears));
        self.hears_allowed = hears_allowed;
        self
    }

    /// Whether somebody wants to know of allowed calls: without that, nobody need say who made one.
    pub fn wants_allowed(&self) -> bool {
        self.keeps_allowed || self.hears_allowed
    }

    /// Takes note of one try.
    pub fn record(
        &self,
        call: Call,
        target: Target,
        process: Process,
        refusal: Option<Refusal>,
        probe: bool,
    ) {
        let observation = Observation {
            call,
            target,
            process,
            refusal,
            probe,
            count: 1,
        };
        self.tell(&observation);
        if observation.refusal.is_some() || self.keeps_allowed {
            self.seen().add(observation);
        }
    }

    /// Takes in what was observed elsewhere, as [`Observations::drain`] gave it: behind what is here.
    pub fn add(&self, (list, more): (Vec<Observation>, u64)) {
        list.iter().for_each(|one| self.tell(one));
        let mut seen = self.seen();
        list.into_iter().for_each(|one| seen.add(one));
        seen.more = seen.more.saturating_add(more);
    }

    /// Takes out all that was observed so far: up to 256 different things, and how many tries there
    /// were beside those.
    pub fn drain(&self) -> (Vec<Observation>, u64) {
        let Seen { list, more, .. } = std::mem::take(&mut *self.seen());
        (list, more)
    }

    fn tell(&self, observation: &Observation) {
        let is_heard = self.hears_allowed || observation.refusal.is_some();
        if let Some(hears) = self.hears.as_ref().filter(|_| is_heard) {
            hears(observation);
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }
}

impl Seen {
    fn add(&mut self, observation: Observation) {
        let key = (
            observation.call,
            observation.target.clone(),
            observation.refusal.clone(),
            observation.probe,
            observation.process.name.clone(),
        );
        if let Some(position) = self.positions.get(&key) {
            let count = &mut self.list[*position].count;
            *count = count.saturating_add(observation.count);
        } else if self.list.len() < LIMIT {
            self.positions.insert(key, self.list.len());
            self.list.push(observation);
        } else {
            self.more = self.more.saturating_add(observation.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(index: u32) -> Target {
        let address = SocketAddr::new(std::net::Ipv4Addr::from_bits(index).into(), 443);
        Target::Address(Transport::Tcp, address)
    }

    fn process(pid: u32, name: &str) -> Process {
        Process {
            pid,
            name: name.into(),
        }
    }

    fn refusal() -> Option<Refusal> {
        Some(Refusal {
            reason: Reason::NotGranted,
            grant: Some("--connect tcp://1.2.3.4:443".into()),
        })
    }

    #[test]
    fn what_repeats_itself_is_counted() {
        let seen = Observations::of_refusals();
        for pid in 1..=3 {
            seen.record(
                Call::Connect,
                target(0x0102_0304),
                process(pid, "sh"),
                refusal(),
                false,
            );
        }
        seen.record(
            Call::Connect,
            target(0x0102_0304),
            process(9, "curl"),
            refusal(),
            false,
        );
        seen.record(
            Call::Connect,
            target(0x0102_0304),
            process(9, "curl"),
            refusal(),
            true,
        );
        seen.record(
            Call::Connect,
            target(0x0102_0304),
            process(9, "curl"),
            None,
            false,
        );
        let (list, more) = seen.drain();
        let shown: Vec<String> = list.iter().map(ToString::to_string).collect();
        let why = "no grant covers it; `--connect tcp://1.2.3.4:443` would allow it";
        assert_eq!(
            shown,
            [
                format!("sh (1): connect tcp://1.2.3.4:443, 3 times: {why}"),
                format!("curl (9): connect tcp://1.2.3.4:443: {why}"),
                format!("curl (9): connect tcp://1.2.3.4:443: {why}"),
            ]
        );
        assert_eq!((list[1].probe, list[2].probe, more), (false, true, 0));
        assert_eq!(seen.drain(), (Vec::new(), 0));
    }

    #[test]
    fn allowed_calls_are_kept_on_request() {
        let seen = Observations::of_everything();
        let place = Target::Unbound(Transport::Tcp);
        seen.record(Call::Listen, place, process(7, "nc\u{1b}[2J"), None, false);
        let (list, _) = seen.drain();
        assert_eq!(
            list[0].to_string(),
            "nc\\u{1b}[2J (7): listen an unbound tcp socket: allowed"
        );
    }

    #[test]
    fn a_guest_that_tries_everything_is_only_counted() {
        let seen = Observations::of_refusals();
        for index in 0..1000 {
            seen.record(
                Call::Send,
                target(index),
                process(1, "scan"),
                refusal(),
                false,
            );
        }
        // What is known is still told apart.
        seen.record(Call::Send, target(0), process(1, "scan"), refusal(), false);
        let (list, more) = seen.drain();
        assert_eq!((list.len(), list[0].count, more), (LIMIT, 2, 744));
    }
}
