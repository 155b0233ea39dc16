//! Questions about what no grant covers, to whoever started the guest: [`palisade_wall::ask`].
//!
//! ```text
//!  guest            broker                                   asker
//!    │ connect(…)     │ no grant covers it                      │
//!    ├───────────────▶│ held ──question──────────────────────▶ │
//!    │ waits          │                       ◀────answer───────┤
//!    │                │ the same call is decided anew           │
//! ```
//!
//! - **An answer changes what is granted, not a call.** A call that was asked about is decided anew, as if it had just
//!   come, by what it says then: there is nothing of it to change between question and answer.
//! - **One question is open at a time,** and what is asked once is known. A guest that tries a hundred things has them wait; what
//!   comes beyond is refused and counted.
//! - **No name is looked up before it may be reached.** A guest's own lookups get stand-ins ([`StandIns`]), and connections to
//!   these are asked about by name.

use super::{
    call::{Brokered, DONE, Outcome, address_towards},
    guest, small_thread,
};
use crate::{address, lock::lock, seen};
use palisade_network::{
    Asked as Question, Call, Gate, Process, Reason, Refusal, Resolve, StandIns, Target,
    address::{canonical, destination, is_public},
    answer_question, is_withheld,
    service::RemoteResolver,
};
use palisade_policy::{HostName, Transport};
use palisade_wall::{
    Granted,
    ask::{self, Answer, MOST_ANSWER_BYTES, Told, Verdict},
    journal::{Entry, Journal},
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags},
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType},
};
use std::{
    collections::{HashMap, VecDeque},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// Where programs ask for names.
const NAME_SERVERS: u16 = 53;
/// Wishes that wait for their question.
const MOST_WAITING: usize = 64;
/// Answers that are remembered. Nobody answers so many.
const MOST_KNOWN: usize = 4096;
/// Sockets of the guest's that ask for names, the last ones.
const MOST_PEERS: usize = 256;
/// A question is taken back when nobody has waited for its answer for so long: a signal takes a call back that comes again.
const FORSAKEN: Duration = Duration::from_secs(1);
/// How long what was looked up holds, at least and at most.
const HOLDS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60 * 60));

/// What may be asked about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wish {
    /// To connect or send to an address, in canonical form.
    Address(Transport, SocketAddr),
    /// To connect to a host by its name.
    Name(Transport, HostName, u16),
    /// To bind an address, or to listen there.
    Listen(Transport, SocketAddr),
}

/// What a held call waits for.
#[derive(Clone, Debug)]
pub(super) enum Ticket {
    /// An answer.
    Answer(Wish),
    /// A name's addresses.
    Lookup(HostName),
}

/// What is known of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    Yes,
    No { was_asked: bool },
    Waits,
}

/// Asks for one domain.
#[derive(Debug)]
pub(super) struct Asking {
    channel: OwnedFd,
    patience: Duration,
    resolver: Arc<RemoteResolver>,
    /// Where the guest's questions for names arrive.
    server: OwnedFd,
    server_address: SocketAddr,
    /// Readable when a name was looked up.
    bell: OwnedFd,
    begun: Instant,
    journal: Option<Arc<Journal>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The first has been asked about.
    queue: VecDeque<Waiting>,
    known: HashMap<Wish, bool>,
    /// Allowed for one call each.
    once: Vec<Wish>,
    /// Nobody answers any more, or no more is to be asked.
    is_over: bool,
    unasked: u64,
    last_question: u64,
    /// Of an answer whose end has not come yet.
    heard: Vec<u8>,
    granted: Vec<Granted>,
    stand_ins: StandIns,
    peers: VecDeque<SocketAddr>,
    lookups: HashMap<HostName, Lookup>,
}

#[derive(Debug)]
struct Waiting {
    wish: Wish,
    call: Call,
    process: Process,
    found_by: Option<HostName>,
    /// Its number, and when, once it is open.
    asked: Option<(u64, Instant)>,
    /// When a call was last seen that waits for it.
    wanted: Instant,
}

#[derive(Debug)]
enum Lookup {
    Running,
    Done(Vec<IpAddr>, Instant),
}

impl Wish {
    /// As a grant names it.
    fn target(&self) -> String {
        match self {
            Self::Address(transport, to) => Target::Address(*transport, *to).to_string(),
            Self::Name(transport, name, port) => format!("{transport}://{name}:{port}"),
            Self::Listen(transport, at) if at.ip().is_unspecified() => {
                format!("{transport}://*:{}", at.port())
            }
            Self::Listen(transport, at) => Target::Address(*transport, *at).to_string(),
        }
    }

    fn grant(&self) -> String {
        let flag = match self {
            Self::Listen(..) => "--listen",
            Self::Address(..) | Self::Name(..) => "--connect",
        };
        format!("{flag} {}", self.target())
    }
}

impl Asking {
    /// By this channel.
    pub(super) fn new(
        channel: OwnedFd,
        patience: Duration,
        resolver: Arc<RemoteResolver>,
        journal: Option<Arc<Journal>>,
    ) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
        let server = rustix::net::socket_with(family, kind, flags, None)?;
        rustix::net::bind(&server, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let server_address = SocketAddr::try_from(rustix::net::getsockname(&server)?)?;
        Ok(Self {
            channel,
            patience,
            resolver,
            server,
            server_address,
            bell: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            begun: Instant::now(),
            journal,
            state: Mutex::default(),
        })
    }

    /// What to wait for beside calls.
    pub(super) fn waits(&self) -> [PollFd<'_>; 3] {
        let mut answers = PollFlags::IN;
        if lock(&self.state).is_over {
            answers = PollFlags::empty();
        }
        [
            PollFd::new(&self.channel, answers),
            PollFd::new(&self.server, PollFlags::IN),
            PollFd::new(&self.bell, PollFlags::IN),
        ]
    }

    /// Hears answers, and answers questions for names.
    pub(super) fn attend(&self, gate: &Gate) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
        self.hear(gate);
        self.serve_names();
        let mut state = lock(&self.state);
        self.take_back(&mut state);
        self.ask_next(&mut state);
    }

    /// Whether a call that waits for this may go on. If not, it is known that somebody waits.
    pub(super) fn is_settled(&self, ticket: &Ticket) -> bool {
        let mut state = lock(&self.state);
        match ticket {
            Ticket::Lookup(name) => !matches!(state.lookups.get(name), Some(Lookup::Running)),
            Ticket::Answer(wish) => {
                let waiting = state.queue.iter_mut().find(|waiting| waiting.wish == *wish);
                let is_waiting = waiting.is_some();
                if let Some(waiting) = waiting {
                    waiting.wanted = Instant::now();
                }
                !is_waiting
            }
        }
    }

    /// What was granted, and how much was refused that nobody was asked about.
    pub(super) fn finish(&self) -> (Vec<Granted>, u64) {
        let mut state = lock(&self.state);
        (std::mem::take(&mut state.granted), state.unasked)
    }

    /// What is known of a wish. If nothing is, it is asked about.
    fn judge(
        &self,
        wish: &Wish,
        call: Call,
        found_by: Option<&HostName>,
        who: impl FnOnce() -> Process,
    ) -> Judged {
        let mut state = lock(&self.state);
        if state.once.contains(wish) {
            return Judged::Yes;
        }
        match state.known.get(wish) {
            Some(true) => return Judged::Yes,
            Some(false) => return Judged::No { was_asked: true },
            None => {}
        }
        if let Some(waiting) = state.queue.iter_mut().find(|waiting| waiting.wish == *wish) {
            waiting.wanted = Instant::now();
            return Judged::Waits;
        }
        if state.is_over || state.queue.len() >= MOST_WAITING || state.known.len() >= MOST_KNOWN {
            state.unasked += 1;
            return Judged::No { was_asked: false };
        }
        state.queue.push_back(Waiting {
            wish: wish.clone(),
            call,
            process: who(),
            found_by: found_by.cloned(),
            asked: None,
            wanted: Instant::now(),
        });
        self.ask_next(&mut state);
        Judged::Waits
    }

    /// Uses up what was allowed once. Tells whether it was.
    fn spend(&self, wish: &Wish) -> bool {
        let mut state = lock(&self.state);
        let place = state.once.iter().position(|once| once == wish);
        place.map(|place| state.once.swap_remove(place)).is_some()
    }

    /// Opens the first question, unless it is.
    fn ask_next(&self, state: &mut State) {
        let waiting = state.queue.len().saturating_sub(1) as u64;
        let (number, unasked) = (state.last_question + 1, state.unasked);
        let Some(first) = state
            .queue
            .front_mut()
            .filter(|first| first.asked.is_none())
        else {
            return;
        };
        first.asked = Some((number, Instant::now()));
        let told = Told::Question(ask::Question {
            question: number,
            process: told_process(&first.process),
            call: first.call.to_string(),
            target: first.wish.target(),
            found_by: first.found_by.as_ref().map(ToString::to_string),
            grant: first.wish.grant(),
            waiting,
            unasked,
        });
        state.last_question = number;
        self.tell(state, &told);
    }

    /// One who does not take what he is told has hung up.
    fn tell(&self, state: &mut State, told: &Told) {
        let line = told.line();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if rustix::net::send(&self.channel, &line, flags) != Ok(line.len()) {
            end(state);
        }
    }

    fn hear(&self, gate: &Gate) {
        let mut state = lock(&self.state);
        let mut buffer = [0; MOST_ANSWER_BYTES];
        while !state.is_over {
            match rustix::net::recv(&self.channel, &mut buffer, RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN | Errno::INTR) => return,
                Ok((length @ 1.., _)) => state.heard.extend_from_slice(&buffer[..length]),
                Ok(_) | Err(_) => return end(&mut state),
            }
            while let Some(length) = state.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = state.heard.drain(..=length).collect();
                if let Some(answer) = Answer::read(&line) {
                    self.take(&mut state, gate, answer);
                }
            }
            if state.heard.len() > MOST_ANSWER_BYTES {
                return end(&mut state);
            }
        }
    }

    /// An answer to another question than the open one comes too late.
    fn take(&self, state: &mut State, gate: &Gate, answer: Answer) {
        let is_open = |first: &Waiting| first.asked.is_some_and(|(n, _)| n == answer.question);
        if !state.queue.front().is_some_and(is_open) {
            return;
        }
        let Some(Waiting { wish, process, .. }) = state.queue.pop_front() else {
            return;
        };
        // What is bound stays so.
        let verdict = match (answer.verdict, &wish) {
            (Verdict::Once, Wish::Listen(..)) => Verdict::Run,
            (verdict, _) => verdict,
        };
        match verdict {
            Verdict::No | Verdict::Never => drop(state.known.insert(wish, false)),
            verdict => {
                if let Some(journal) = &self.journal {
                    journal.write(Entry::Granted {
                        grant: wish.grant(),
                        process: told_process(&process),
                        answer: verdict,
                    });
                }
                state.granted.push(Granted {
                    grant: wish.grant(),
                    process: told_process(&process),
                    verdict,
                    at_us: u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX),
                });
                match verdict {
                    Verdict::Once => state.once.push(wish),
                    _ => allow(state, gate, wish),
                }
            }
        }
        match verdict {
            Verdict::Never => end(state),
            _ => self.ask_next(state),
        }
    }

    /// Questions that nobody waits for any more, and one that was not answered in time.
    fn take_back(&self, state: &mut State) {
        let now = Instant::now();
        let mut first = state.queue.front().and_then(|first| first.asked);
        if let Some((number, since)) = first
            && now.duration_since(since) >= self.patience
            && let Some(late) = state.queue.pop_front()
        {
            state.known.insert(late.wish, false);
            self.tell(state, &Told::Withdrawn { question: number });
            first = None;
        }
        let queue = &mut state.queue;
        queue.retain(|waiting| now.duration_since(waiting.wanted) < FORSAKEN);
        let is_open = |number| queue.front().and_then(|first| first.asked) == Some(number);
        if let Some((number, _)) = first.filter(|first| !is_open(*first)) {
            self.tell(state, &Told::Withdrawn { question: number });
        }
    }

    /// Answers the guest's questions for names, none of which leaves this machine.
    fn serve_names(&self) {
        /// At a time: calls wait meanwhile.
        const MOST: usize = 64;
        let mut buffer = [0; 1024];
        for _ in 0..MOST {
            let flags = RecvFlags::DONTWAIT;
            let Ok((length, _, from)) = rustix::net::recvfrom(&self.server, &mut buffer, flags)
            else {
                return;
            };
            let Some(from) = from.and_then(|from| SocketAddr::try_from(from).ok()) else {
                continue;
            };
            let Some(reply) = self.reply(&buffer[..length], from) else {
                continue;
            };
            // One that does not read its answers gets none.
            let _ = rustix::net::sendto(&self.server, &reply, SendFlags::DONTWAIT, &from);
        }
    }

    fn reply(&self, question: &[u8], from: SocketAddr) -> Option<Vec<u8>> {
        let mut state = lock(&self.state);
        if !state.peers.contains(&from) {
            return None;
        }
        let name = Question::read(question)?.into_name();
        let address = name.and_then(|name| state.stand_ins.of(&name));
        answer_question(question, address)
    }

    /// Takes note of a socket of the guest's that will ask for names.
    fn admit(&self, peer: SocketAddr) {
        let mut state = lock(&self.state);
        if !state.peers.contains(&peer) {
            if state.peers.len() == MOST_PEERS {
                state.peers.pop_front();
            }
            state.peers.push_back(peer);
        }
    }

    fn name(&self, address: IpAddr) -> Option<HostName> {
        lock(&self.state).stand_ins.name(address).cloned()
    }

    /// The addresses of a name that may be reached; `None` while it is looked up.
    fn find(self: &Arc<Self>, name: &HostName) -> Option<Vec<IpAddr>> {
        let mut state = lock(&self.state);
        match state.lookups.get(name) {
            Some(Lookup::Running) => return None,
            Some(Lookup::Done(found, until)) if Instant::now() < *until => {
                return Some(found.clone());
            }
            _ => {}
        }
        let (asking, asked) = (Arc::clone(self), name.clone());
        let begun = small_thread("palisade-lookup", move || asking.look_up(&asked));
        if begun.is_err() {
            return Some(Vec::new());
        }
        state.lookups.insert(name.clone(), Lookup::Running);
        None
    }

    fn look_up(&self, name: &HostName) {
        let (found, ttl) = match self.resolver.addresses(name) {
            Ok(answer) => (answer.addresses, answer.ttl),
            Err(_) => (Vec::new(), Duration::ZERO),
        };
        let until = Instant::now() + ttl.clamp(HOLDS.0, HOLDS.1);
        let mut state = lock(&self.state);
        state
            .lookups
            .insert(name.clone(), Lookup::Done(found, until));
        drop(state);
        // It cannot be full: a count of 2^64 - 1.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// No question is open, and none is asked any more.
fn end(state: &mut State) {
    state.is_over = true;
    for waiting in std::mem::take(&mut state.queue) {
        state.known.insert(waiting.wish, false);
    }
}

fn allow(state: &mut State, gate: &Gate, wish: Wish) {
    match &wish {
        Wish::Address(transport, to) => gate.allow_connect(*transport, *to),
        Wish::Listen(transport, at) => gate.allow_listen(*transport, *at),
        Wish::Name(..) => {}
    }
    state.known.insert(wish, true);
}

fn told_process(process: &Process) -> palisade_wall::Process {
    palisade_wall::Process::new(process.pid, process.name.as_bytes())
}

impl Brokered<'_> {
    /// Where this call may go, by a grant or once.
    pub(super) fn may_reach(
        &self,
        transport: Transport,
        asked: SocketAddr,
    ) -> Result<SocketAddr, Refusal> {
        self.shared
            .gate
            .connect(transport, asked)
            .or_else(|refusal| {
                let wish = Wish::Address(transport, destination(asked));
                match &self.shared.asking {
                    Some(asking) if refusal.reason.may_be_asked() && asking.spend(&wish) => {
                        Ok(destination(asked))
                    }
                    _ => Err(refusal),
                }
            })
    }

    /// A connection that no grant covers, of a guest that is asked about.
    pub(super) fn ask_to_connect(
        &mut self,
        asking: &Arc<Asking>,
        socket: OwnedFd,
        (transport, asked): (Transport, SocketAddr),
        refusal: Refusal,
    ) -> Outcome {
        if let Some(name) = asking.name(canonical(asked).ip()) {
            return match transport {
                Transport::Tcp => self.connect_by_name(asking, socket, &name, asked),
                // A lookup learns the route to what it has found in this way, and sends nothing.
                Transport::Udp => connect_to_server(asking, &socket, asked)
                    .map(drop)
                    .and(DONE),
            };
        }
        if (transport, asked.port()) == (Transport::Udp, NAME_SERVERS) {
            if let Some(own) = connect_to_server(asking, &socket, asked)? {
                asking.admit(own);
            }
            return DONE;
        }
        Err(self.ask_or_refuse(transport, asked, refusal))
    }

    fn connect_by_name(
        &mut self,
        asking: &Arc<Asking>,
        socket: OwnedFd,
        name: &HostName,
        asked: SocketAddr,
    ) -> Outcome {
        let (transport, port) = (Transport::Tcp, asked.port());
        let by_name = Wish::Name(transport, name.clone(), port);
        let granted = self
            .shared
            .gate
            .network()
            .addresses_of(transport, name, port);
        let found = match granted {
            Some(found) => found,
            None => {
                let judged = asking.judge(&by_name, Call::Connect, None, || self.who());
                self.follow(judged, &by_name)?;
                let Some(found) = asking.find(name) else {
                    return self.hold(Ticket::Lookup(name.clone()));
                };
                found
            }
        };
        let reachable = found.into_iter().map(|ip| SocketAddr::new(ip, port));
        let reachable: Vec<_> = reachable
            .filter(|to| to.is_ipv4() || asked.is_ipv6())
            .collect();
        let may = |to: &&SocketAddr| match is_public(to.ip()) {
            true => !is_withheld(**to),
            false => self.shared.gate.connect(transport, **to).is_ok(),
        };
        if let Some(to) = reachable.iter().find(may) {
            asking.spend(&by_name);
            self.tell_of_allowed(Call::Connect, || Target::Name(name.clone(), port));
            return self.reach(socket, address::in_family_of(asked, *to));
        }
        // Who answers for the name must not choose what is reached inside.
        let private = reachable.into_iter().find(|to| !is_withheld(*to));
        let Some(to) = private else {
            let refusal = Refusal {
                reason: Reason::Unfound,
                grant: None,
            };
            let target = Target::Host(name.clone());
            let observations = &self.shared.observations;
            observations.record(Call::Lookup, target, self.who(), Some(refusal), false);
            return Err(Errno::HOSTUNREACH);
        };
        let by_address = Wish::Address(transport, destination(to));
        let judged = asking.judge(&by_address, Call::Connect, Some(name), || self.who());
        self.follow(judged, &by_address)?;
        asking.spend(&by_name);
        asking.spend(&by_address);
        self.tell_of_allowed(Call::Connect, || Target::Name(name.clone(), port));
        self.reach(socket, address::in_family_of(asked, to))
    }

    /// Goes on only where it is allowed.
    fn follow(&self, judged: Judged, wish: &Wish) -> Result<(), Errno> {
        match judged {
            Judged::Yes => return Ok(()),
            Judged::Waits => self.ticket.set(Some(Ticket::Answer(wish.clone()))),
            Judged::No { was_asked } => {
                let target = match wish {
                    Wish::Name(_, name, port) => Target::Name(name.clone(), *port),
                    Wish::Address(transport, to) | Wish::Listen(transport, to) => {
                        Target::Address(*transport, *to)
                    }
                };
                let refusal = Refusal {
                    reason: declined(was_asked, Reason::NotGranted),
                    grant: Some(wish.grant()),
                };
                let observations = &self.shared.observations;
                observations.record(Call::Connect, target, self.who(), Some(refusal), false);
            }
        }
        Err(Errno::ACCESS)
    }

    fn hold(&self, ticket: Ticket) -> Outcome {
        self.ticket.set(Some(ticket));
        Err(Errno::ACCESS)
    }

    /// How a call fails that no grant covers, unless it waits for an answer first.
    pub(super) fn ask_or_refuse(
        &self,
        transport: Transport,
        asked: SocketAddr,
        mut refusal: Refusal,
    ) -> Errno {
        if let Some(asking) = &self.shared.asking
            && refusal.reason.may_be_asked()
            && let Some(wish) = self.wish(transport, asked)
        {
            match asking.judge(&wish, self.kind(), None, || self.who()) {
                Judged::Waits => {
                    self.ticket.set(Some(Ticket::Answer(wish)));
                    return Errno::ACCESS;
                }
                // What was allowed is not all that it takes.
                Judged::Yes => {}
                Judged::No { was_asked } => refusal.reason = declined(was_asked, refusal.reason),
            }
        }
        self.refuse(transport, asked, refusal);
        Errno::ACCESS
    }

    /// What this call is about. Nobody is asked about a probe.
    fn wish(&self, transport: Transport, asked: SocketAddr) -> Option<Wish> {
        match self.kind() {
            Call::Bind => Some(Wish::Listen(transport, canonical(asked))),
            // The kernel has picked the port, and picks another one next time.
            Call::Listen => {
                let mut at = canonical(asked);
                at.set_port(0);
                Some(Wish::Listen(transport, at))
            }
            call => {
                let to = destination(asked);
                let is_probe = seen::is_probe(call, &Target::Address(transport, to));
                (!is_probe).then_some(Wish::Address(transport, to))
            }
        }
    }

    fn who(&self) -> Process {
        guest::identify(&self.shared.maker, self.call.thread)
    }
}

fn declined(was_asked: bool, reason: Reason) -> Reason {
    match was_asked {
        true => Reason::Declined,
        false => reason,
    }
}

/// Connects a datagram socket to where questions for names arrive. Gives its own address.
fn connect_to_server(
    asking: &Asking,
    socket: &OwnedFd,
    asked: SocketAddr,
) -> Result<Option<SocketAddr>, Errno> {
    let to = address::in_family_of(asked, asking.server_address);
    let own = address_towards(socket, to)?;
    rustix::net::connect(socket, &to)?;
    Ok(own)
}

#[cfg(test)]
mod tests;
