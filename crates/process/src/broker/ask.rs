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

pub(super) mod files;
mod way;

use super::small_thread;
use crate::{
    grants::files::{Files, flag_of},
    lock::lock,
};
use files::{FileDesk, Sought};
use palisade_network::{
    Asked as Question, Call, Gate, GiveError, Observations, Process, Reason, Refusal, Resolve,
    StandIns, Target, answer_question, canonical_flag, service::RemoteResolver,
};
use palisade_policy::{FileGrant, HostName, Transport};
use palisade_wall::{
    Granted,
    ask::{self, Answer, MOST_ANSWER_BYTES, Told, Verdict},
    journal::{Entry, Journal},
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags},
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt},
};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// Wishes that wait for their question.
const MOST_WAITING: usize = 64;
/// Answers that are remembered. Nobody answers so many.
const MOST_KNOWN: usize = 4096;
/// Sockets of the guest's that ask for names, and those that were allowed something once: the last ones.
const MOST_PEERS: usize = 256;
/// Who says so much that is no answer is no asker.
const MOST_NONSENSE: usize = 256;
/// Grants that the report tells apart.
const MOST_TOLD: usize = 1024;
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
    /// To have a file or folder of the host's.
    File(Box<FileGrant>),
}

/// What a held call waits for.
#[derive(Clone, Debug)]
pub(super) enum Ticket {
    /// An answer.
    Answer(Wish),
    /// A name's addresses.
    Lookup(HostName),
    /// What the host has at a path.
    Look(Sought),
}

impl Ticket {
    /// Whether a call waits that names files.
    pub(super) fn is_of_files(&self) -> bool {
        matches!(self, Self::Look(_) | Self::Answer(Wish::File(_)))
    }
}

/// What is known of a wish that no grant covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    No { was_asked: bool },
    Waits,
}

/// Asks for one domain.
#[derive(Debug)]
pub(super) struct Asking {
    /// `None` where nobody is asked, and grants may come all the same.
    channel: Option<OwnedFd>,
    patience: Duration,
    resolver: Arc<RemoteResolver>,
    /// Where the guest's questions for names arrive.
    server: OwnedFd,
    server_address: SocketAddr,
    /// Where nobody hears: a socket that is connected to itself.
    nowhere: SocketAddr,
    _nobody: OwnedFd,
    /// Readable when a name was looked up.
    bell: OwnedFd,
    begun: Instant,
    journal: Option<Arc<Journal>>,
    /// What is known of files.
    files: FileDesk,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The first has been asked about.
    queue: VecDeque<Waiting>,
    /// What was answered with no.
    refused: HashSet<Wish>,
    /// What was answered with yes. Where that does not open it, it is not asked about again.
    agreed: HashSet<Wish>,
    /// What was, and is being mounted.
    giving: HashSet<Wish>,
    /// Allowed for one call that is held, until all that are were looked at.
    once: Vec<Once>,
    /// What was allowed once: the socket and where it goes. It may be asked for again, to hear what became of it.
    spent: VecDeque<(u64, Wish)>,
    /// Lines that were no answers.
    nonsense: usize,
    /// Nobody answers any more, or no more is to be asked.
    is_over: bool,
    unasked: u64,
    last_question: u64,
    /// Of an answer whose end has not come yet.
    heard: Vec<u8>,
    granted: Vec<Granted>,
    stand_ins: StandIns,
    /// Names whose stand-ins somebody connected or sent to.
    met: HashSet<HostName>,
    peers: VecDeque<SocketAddr>,
    lookups: HashMap<HostName, Lookup>,
}

#[derive(Debug)]
struct Waiting {
    wish: Wish,
    call: Tried,
    process: Process,
    found_by: Option<HostName>,
    sought: Option<String>,
    secret: Option<String>,
    is_folder: bool,
    /// Its number, and when, once it is open.
    asked: Option<(u64, Instant)>,
    /// When a call was last seen that waits for it.
    wanted: Instant,
}

/// By which call.
#[derive(Clone, Copy, Debug)]
enum Tried {
    Network(Call),
    /// By the kernel's name.
    Files(&'static str),
}

/// How somebody came to wish for something.
#[derive(Debug)]
struct How<'a> {
    call: Tried,
    /// The name that led to an address which is not public.
    found_by: Option<&'a HostName>,
    /// The path that was named, where that is not what would be granted.
    sought: Option<String>,
    /// Something in it that may be a key.
    secret: Option<String>,
    /// All that lies in it is granted with it.
    is_folder: bool,
}

impl From<Call> for How<'_> {
    fn from(call: Call) -> Self {
        Self {
            call: Tried::Network(call),
            found_by: None,
            sought: None,
            secret: None,
            is_folder: false,
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(call) => call.fmt(formatter),
            Self::Files(name) => formatter.write_str(name),
        }
    }
}

/// An answer for one call of the process that it was asked for.
#[derive(Debug)]
struct Once {
    wish: Wish,
    process: Process,
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
            Self::File(grant) => grant.host.to_string_lossy().into_owned(),
        }
    }

    /// For the report, which tells of files otherwise.
    fn of_call(&self) -> Option<Target> {
        Some(match self {
            Self::Name(transport, name, port) => Target::Name(*transport, name.clone(), *port),
            Self::Address(transport, to) | Self::Listen(transport, to) => {
                Target::Address(*transport, *to)
            }
            Self::File(_) => return None,
        })
    }

    /// Whether it can be allowed for one call alone: what is bound stays so, and what is mounted all see.
    fn has_once(&self) -> bool {
        matches!(self, Self::Address(..) | Self::Name(..))
    }

    /// Whether it is by now.
    fn is_granted(&self, gate: &Gate) -> bool {
        match self {
            Self::Address(transport, to) => gate.connect(*transport, *to).is_ok(),
            Self::Name(transport, name, port) => gate.gives_name(*transport, name, *port),
            Self::Listen(transport, at) => gate.bind(*transport, *at, true).is_ok(),
            Self::File(_) => false,
        }
    }

    fn grant(&self) -> String {
        let flag = match self {
            Self::Listen(..) => "--listen",
            Self::Address(..) | Self::Name(..) => "--connect",
            Self::File(grant) => return flag_of(grant),
        };
        let text = format!("{flag} {}", self.target());
        canonical_flag(&text).unwrap_or(text)
    }
}

impl Asking {
    /// By this channel.
    pub(super) fn new(
        channel: Option<OwnedFd>,
        patience: Duration,
        resolver: Arc<RemoteResolver>,
        journal: Option<Arc<Journal>>,
    ) -> io::Result<Self> {
        let (server, server_address) = datagram_socket()?;
        let (nobody, nowhere) = datagram_socket()?;
        rustix::net::connect(&nobody, &nowhere)?;
        Ok(Self {
            channel,
            patience,
            resolver,
            server,
            server_address,
            nowhere,
            _nobody: nobody,
            bell: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            begun: Instant::now(),
            journal,
            files: FileDesk::default(),
            state: Mutex::default(),
        })
    }

    /// What to wait for beside calls.
    pub(super) fn waits(&self) -> [PollFd<'_>; 3] {
        let hears = !lock(&self.state).is_over;
        let channel = self.channel.as_ref().filter(|_| hears);
        [
            PollFd::new(channel.unwrap_or(&self.bell), PollFlags::IN),
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
            Ticket::Look(sought) => self.files.knows(sought),
            Ticket::Answer(wish) if state.giving.contains(wish) => false,
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

    /// Whether this was answered with yes, or granted otherwise.
    fn has_agreed(&self, wish: &Wish) -> bool {
        lock(&self.state).agreed.contains(wish)
    }

    /// What was answered with yes has been mounted, or could not be: it is asked about once more, if something else lies there
    /// by now.
    fn given(&self, wish: Wish, is_given: bool, is_over: bool) {
        let mut state = lock(&self.state);
        state.giving.remove(&wish);
        if is_given {
            state.agreed.insert(wish);
        } else if is_over {
            state.refused.insert(wish);
        }
    }

    /// Nobody looks at files any more.
    fn no_more_files(&self) {
        self.files.finish();
        let mut state = lock(&self.state);
        let giving = std::mem::take(&mut state.giving);
        state.refused.extend(giving);
        self.ring();
    }

    /// Whoever may operate the domain has granted files, or taken some back.
    pub(super) fn files_changed(&self, files: &Files) {
        let mut state = lock(&self.state);
        let is_granted = |wish: &Wish| match wish {
            Wish::File(grant) => Some(files.grants(grant)),
            _ => None,
        };
        for wish in self.files.forget() {
            match is_granted(&wish) {
                Some(true) => state.agreed.insert(wish),
                _ => state.agreed.remove(&wish),
            };
        }
        state.refused.retain(|wish| is_granted(wish) != Some(true));
        self.withdraw(&mut state, |wish| is_granted(wish) == Some(true));
        self.ring();
    }

    /// Rings where the thread that answers waits.
    fn ring(&self) {
        // It cannot be full: a count of 2^64 - 1.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Takes questions back that are answered otherwise.
    fn withdraw(&self, state: &mut State, is_granted: impl Fn(&Wish) -> bool) {
        let open = state.queue.front().and_then(|first| first.asked);
        state.queue.retain(|waiting| !is_granted(&waiting.wish));
        let still = state.queue.front().and_then(|first| first.asked);
        if let Some((number, _)) = open.filter(|open| still != Some(*open)) {
            self.tell(state, &Told::Withdrawn { question: number });
        }
        self.ask_next(state);
    }

    /// What was granted, and how much was refused that nobody was asked about. What still waits for an answer was not allowed.
    pub(super) fn finish(&self, observations: &Observations, gate: &Gate) -> (Vec<Granted>, u64) {
        let mut state = lock(&self.state);
        self.tell_of_lookups(&state, observations, gate);
        for waiting in std::mem::take(&mut state.queue) {
            let refusal = Refusal {
                reason: Reason::Declined,
                grant: Some(waiting.wish.grant()),
            };
            if let (Some(target), Tried::Network(call)) = (waiting.wish.of_call(), waiting.call) {
                observations.record(call, target, waiting.process, Some(refusal), false);
            }
        }
        self.files.finish();
        (std::mem::take(&mut state.granted), state.unasked)
    }

    /// Names that were looked up for nothing else: by the question alone something can be told to who answers for the name. Nobody has
    /// heard of these.
    fn tell_of_lookups(&self, state: &State, observations: &Observations, gate: &Gate) {
        let network = gate.network();
        let is_granted = |name: &HostName| network.pins.iter().any(|pins| pins.name == *name);
        let names = state.stand_ins.names().iter();
        for name in names.filter(|name| !state.met.contains(*name) && !is_granted(name)) {
            let refusal = Refusal::of_lookup(Some(name));
            let (call, target) = (Call::Lookup, Target::Host(name.clone()));
            observations.record(call, target, somebody(), Some(refusal), false);
        }
    }

    /// What is known of a wish. If nothing is, it is asked about.
    fn judge(&self, wish: &Wish, how: How<'_>, who: impl FnOnce() -> Process) -> Judged {
        let mut state = lock(&self.state);
        if state.giving.contains(wish) {
            return Judged::Waits;
        }
        if state.refused.contains(wish) {
            return Judged::No { was_asked: true };
        }
        if self.channel.is_none() || state.agreed.contains(wish) {
            return Judged::No { was_asked: false };
        }
        if let Some(waiting) = state.queue.iter_mut().find(|waiting| waiting.wish == *wish) {
            waiting.wanted = Instant::now();
            return Judged::Waits;
        }
        let known = state.refused.len() + state.agreed.len();
        if state.is_over || state.queue.len() >= MOST_WAITING || known >= MOST_KNOWN {
            state.unasked += 1;
            return Judged::No { was_asked: false };
        }
        state.queue.push_back(Waiting {
            wish: wish.clone(),
            call: how.call,
            process: who(),
            found_by: how.found_by.cloned(),
            sought: how.sought,
            secret: how.secret,
            is_folder: how.is_folder,
            asked: None,
            wanted: Instant::now(),
        });
        self.ask_next(&mut state);
        Judged::Waits
    }

    /// Whether the answer to this was meant for one call of this process, which is the first that claims it.
    pub(super) fn claim(&self, ticket: &Ticket, who: impl FnOnce() -> Process) -> Option<Wish> {
        let Ticket::Answer(wish) = ticket else {
            return None;
        };
        let mut state = lock(&self.state);
        let place = state.once.iter().position(|once| once.wish == *wish)?;
        if state.once[place].process.pid != who().pid {
            return None;
        }
        let Once { wish, process } = state.once.swap_remove(place);
        self.note(&mut state, wish.grant(), Some((&process, Verdict::Once)));
        Some(wish)
    }

    /// Nobody has claimed what was allowed once: whoever waited for it is gone.
    pub(super) fn forget_unclaimed(&self) {
        lock(&self.state).once.clear();
    }

    /// A call was refused for there is no room for it to wait.
    pub(super) fn count_unasked(&self) {
        lock(&self.state).unasked += 1;
    }

    /// Whether this socket was allowed to go there once.
    fn was_spent(&self, socket: &OwnedFd, wish: &Wish) -> bool {
        let Ok(socket) = sockopt::socket_cookie(socket) else {
            return false;
        };
        let state = lock(&self.state);
        state
            .spent
            .iter()
            .any(|(by, on)| *by == socket && on == wish)
    }

    fn spend(&self, socket: &OwnedFd, wish: Wish) {
        let Ok(socket) = sockopt::socket_cookie(socket) else {
            return;
        };
        let mut state = lock(&self.state);
        if state.spent.len() == MOST_PEERS {
            state.spent.pop_front();
        }
        state.spent.push_back((socket, wish));
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
            sought: first.sought.clone(),
            secret: first.secret.clone(),
            is_folder: first.is_folder,
            grant: first.wish.grant(),
            has_once: first.wish.has_once(),
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
        let Some(channel) = &self.channel else { return };
        if rustix::net::send(channel, &line, flags) != Ok(line.len()) {
            self.end(state);
        }
    }

    fn hear(&self, gate: &Gate) {
        let Some(channel) = &self.channel else { return };
        let mut state = lock(&self.state);
        let mut buffer = [0; MOST_ANSWER_BYTES];
        if state.is_over {
            return;
        }
        // Once a turn: calls wait meanwhile.
        match rustix::net::recv(channel, &mut buffer, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => return,
            Ok((length @ 1.., _)) => state.heard.extend_from_slice(&buffer[..length]),
            Ok(_) | Err(_) => return self.end(&mut state),
        }
        let heard = std::mem::take(&mut state.heard);
        let whole = heard.iter().rposition(|byte| *byte == b'\n');
        let (whole, rest) = heard.split_at(whole.map_or(0, |end| end + 1));
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            match Answer::read(line) {
                Some(answer) => self.take(&mut state, gate, answer),
                None => state.nonsense += 1,
            }
        }
        state.heard = rest.to_vec();
        if state.heard.len() > MOST_ANSWER_BYTES || state.nonsense > MOST_NONSENSE {
            self.end(&mut state);
        }
    }

    /// An answer to another question than the open one comes too late.
    fn take(&self, state: &mut State, gate: &Gate, answer: Answer) {
        let is_open = |first: &Waiting| first.asked.is_some_and(|(n, _)| n == answer.question);
        if !state.queue.front().is_some_and(is_open) {
            state.nonsense += 1;
            return;
        }
        // Who answers what is asked may be wrong at times.
        state.nonsense = 0;
        let Some(Waiting { wish, process, .. }) = state.queue.pop_front() else {
            return;
        };
        // That was not offered.
        let verdict = match answer.verdict {
            Verdict::Once if !wish.has_once() => Verdict::No,
            verdict => verdict,
        };
        match verdict {
            Verdict::No | Verdict::Never => drop(state.refused.insert(wish)),
            // It counts when a call has it.
            Verdict::Once => state.once.push(Once { wish, process }),
            Verdict::Run | Verdict::Always if matches!(wish, Wish::File(_)) => {
                let asked = (told_process(&process), verdict);
                match self.files.give(&wish, asked) {
                    true => drop(state.giving.insert(wish)),
                    false => drop(state.refused.insert(wish)),
                }
            }
            Verdict::Run | Verdict::Always => {
                let grant = wish.grant();
                // The report tells of what is held, and of nothing else.
                if gate.give(&grant).is_ok() {
                    self.note(state, grant, Some((&process, verdict)));
                    state.agreed.insert(wish);
                } else {
                    state.refused.insert(wish);
                }
            }
        }
        match verdict {
            Verdict::Never => self.end(state),
            _ => self.ask_next(state),
        }
    }

    /// Takes note of a grant.
    fn note(&self, state: &mut State, grant: String, asked: Option<(&Process, Verdict)>) {
        let process = asked.map(|(process, _)| told_process(process));
        let verdict = asked.map(|(_, verdict)| verdict);
        if let Some(journal) = &self.journal {
            journal.write(Entry::Granted {
                grant: grant.clone(),
                process: process.clone(),
                answer: verdict,
            });
        }
        let is_same = |known: &&mut Granted| {
            (&known.grant, known.verdict, &known.process) == (&grant, verdict, &process)
                && known.revoked_at_us.is_none()
        };
        if let Some(known) = state.granted.iter_mut().find(is_same) {
            known.count += 1;
        } else if state.granted.len() < MOST_TOLD {
            state.granted.push(Granted {
                grant,
                process,
                verdict,
                count: 1,
                at_us: self.now_us(),
                revoked_at_us: None,
            });
        }
    }

    /// No question is open, and none is asked any more.
    fn end(&self, state: &mut State) {
        self.files.finish();
        state.is_over = true;
        for waiting in std::mem::take(&mut state.queue) {
            state.refused.insert(waiting.wish);
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Grants what somebody gives who did not start the guest. What waited for that goes on, and what was refused before is
    /// not any more.
    pub(super) fn give(&self, gate: &Gate, flag: &str) -> Result<(), GiveError> {
        gate.give(flag)?;
        let mut state = lock(&self.state);
        self.note(&mut state, canonical_flag(flag)?, None);
        state.refused.retain(|wish| !wish.is_granted(gate));
        self.withdraw(&mut state, |wish| wish.is_granted(gate));
        Ok(())
    }

    /// Takes back what was granted while the guest runs. Tells whether it was.
    pub(super) fn take_from(&self, gate: &Gate, flag: &str) -> bool {
        let mut state = lock(&self.state);
        let now = self.now_us();
        let Ok(flag) = canonical_flag(flag) else {
            return false;
        };
        let is_of_flag = |wish: &Wish| wish.grant() == flag;
        let spent = state.spent.len();
        state.spent.retain(|(_, wish)| !is_of_flag(wish));
        state.agreed.retain(|wish| !is_of_flag(wish));
        let was_spent = state.spent.len() < spent;
        let was_given = gate.take_back(&flag) || was_spent;
        let granted = state
            .granted
            .iter_mut()
            .filter(|granted| granted.grant == flag);
        for granted in granted.filter(|granted| granted.revoked_at_us.is_none()) {
            granted.revoked_at_us = Some(now);
        }
        if was_given && let Some(journal) = &self.journal {
            journal.write(Entry::Revoked { grant: flag });
        }
        was_given
    }

    /// Questions that nobody waits for any more, and one that was not answered in time.
    fn take_back(&self, state: &mut State) {
        let now = Instant::now();
        let mut first = state.queue.front().and_then(|first| first.asked);
        if let Some((number, since)) = first
            && now.duration_since(since) >= self.patience
            && let Some(late) = state.queue.pop_front()
        {
            state.refused.insert(late.wish);
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
        let address = name.and_then(|name| match is_of_loopback(&name) {
            true => Some(Ipv4Addr::LOCALHOST),
            false => state.stand_ins.of(&name),
        });
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
        let mut state = lock(&self.state);
        let name = state.stand_ins.name(address).cloned()?;
        state.met.insert(name.clone());
        Some(name)
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
        self.ring();
    }
}

/// Whoever it was: a question for a name does not say.
fn somebody() -> Process {
    Process {
        pid: 0,
        name: "the guest".into(),
    }
}

/// What every resolver takes for this machine (RFC 6761, 6.3).
fn is_of_loopback(name: &HostName) -> bool {
    name.is_localhost() || name.as_str().ends_with(".localhost")
}

/// One of the loopback's.
fn datagram_socket() -> io::Result<(OwnedFd, SocketAddr)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, address))
}

fn told_process(process: &Process) -> palisade_wall::Process {
    palisade_wall::Process::new(process.pid, process.name.as_bytes())
}

#[cfg(test)]
mod tests;
