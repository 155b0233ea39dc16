//! The broker: internet sockets of the host's, handed to a guest one granted call at a time.
//!
//! The domain's own network is empty. Its filter leaves `socket`, `connect`, `bind`, `listen` and what
//! sends to an address to the supervisor (seccomp_unotify(2)), where one thread for each domain that calls
//! answers them:
//!
//! ```text
//!  guest              socket()            connect(fd, address)             read, write, epoll, …
//!                        │ trap                │ trap                            │
//!  supervisor    makes it in the       copies the address once,                  │ no trap:
//!                host's network,       asks the gate, connects the               │ a kernel socket
//!                injects it            same open socket itself                   ▼
//! ```
//!
//! What the guest holds is the kernel's own socket, so everything after is as without a wall, and
//! `epoll`, `O_NONBLOCK`, `SO_ERROR`, `dup` and `fork` mean what they always do: a call acts on the open
//! socket that all its descriptors share.
//!
//! - **Nothing is checked in one place and used in another.** An address is copied out of the guest
//!   once, and the copy is checked and used. No call that has a pointer is ever let through to the kernel
//!   (`SECCOMP_USER_NOTIF_FLAG_CONTINUE`) because of what was read there: another thread could change what it points to,
//!   or put another socket under the same number. What goes on is told of only (`observe`), and would be allowed anyway.
//! - **No call waits for another.** What would block is left to a second thread that waits for all such
//!   calls at once (`pending`), and a call that a signal took back is not done twice (`repeated`).
//! - **A domain that is quiet has no thread:** one thread waits for the next call of all of them (`parked`), and begins
//!   one that answers. So no guest's calls wait for another's, however much or long those take.
//! - **Nobody answers for a dead supervisor:** the domain ends with it, and its calls fail.

mod ask;
pub mod boundary;
mod budget;
mod call;
mod caller;
pub(crate) mod denials;
mod ends;
mod files;
mod guest;
mod hosts;
mod inner;
mod local;
mod lookups;
pub(crate) mod maker;
mod message;
mod nodes;
mod observe;
mod parked;
mod pending;
mod proxy;
pub(crate) mod refusals;
mod repeated;
mod request;
mod room;

use crate::{
    confine::{Kept, Walls},
    grants::{Change, Changed, NOT_GRANTABLE, files::Files},
    layout::Layout,
    machine::Machine,
    parts::Parts,
    plan::{Plan, hosts_file},
    record::record_bytes,
    seccomp::HostNetwork,
    sys::{
        notify::{self, Notification},
        with_signals_blocked,
    },
    wire,
};
pub(crate) use ask::files::Advisor;
use ask::{Asking, Ticket, Wish};
use budget::{Budget, Meter};
use call::{Answer, Brokered};
pub(crate) use caller::Ids;
use ends::Ends;
use files::Watch;
pub(crate) use files::{Note, Notes};
use inner::InnerPort;
use local::{Performer, Refused};
use lookups::Asked;
use maker::Maker;
use palisade_network::{
    Gate, Listening, Network, Observation, Observations, Refresh,
    address::canonical,
    proxy::environment,
    service::{self, RemoteResolver},
};
use palisade_wall::{
    Granted,
    journal::{Entry, Journal, Judgement},
};
use pending::{LOOK_AGAIN, Pending};
use refusals::Refusals;
use repeated::Repeated;
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec},
    io::Errno,
    net::SendFlags,
};
use std::{
    cell::Cell,
    ffi::OsString,
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How long the end of a domain waits for the end of its broker. It does not take long, but closing what
/// was a guest's may (a file of a server that does not answer), and then nobody shall wait for it.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a broker knows of those whose calls it answers.
#[derive(Debug)]
pub(crate) struct Callers {
    /// Which calls on addresses are decided; the others are only told of.
    decides: HostNetwork,
    /// Internet sockets may be the host's; else they are those of an empty network.
    has_network: bool,
    /// Landlock refuses TCP to the guest altogether.
    tcp_ruled: bool,
    /// Sockets and FIFOs are made for the guest.
    special_files_ruled: bool,
    /// What is executed and asked for is told of.
    is_observed: bool,
    /// The files that are asked for are noted.
    is_watched: bool,
    /// More may be granted, and whoever started it asked, for so long.
    asks: Option<Duration>,
    /// Init holds a limit on processor time.
    is_timed: bool,
    /// Share of processors.
    processors: Option<f64>,
    memory_bytes: Option<u64>,
    refused: Refused,
    inner: InnerPort,
    /// How its file of hosts begins.
    hosts: String,
    /// It is a container, whose users these are.
    container: Option<Ids>,
}

impl Callers {
    /// What this plan says.
    pub(crate) fn of(plan: &Plan) -> Self {
        Self {
            decides: (plan.seccomp.and_then(|groups| groups.host_network)).unwrap_or_default(),
            has_network: plan.has_brokered_network(),
            tcp_ruled: plan
                .landlock
                .as_ref()
                .is_some_and(|rules| rules.network != 0),
            special_files_ruled: plan.special_files_ruled(),
            is_observed: plan.is_observed(),
            is_watched: plan.is_watched(),
            asks: plan.grantable.then(|| plan.asks.unwrap_or_default()),
            is_timed: plan.cpu_time.is_some(),
            processors: plan.processors(),
            memory_bytes: plan.held_by_cgroup.memory_bytes,
            refused: Refused::of(plan),
            inner: InnerPort::new(plan.inner_port),
            hosts: hosts_file(None),
            container: None,
        }
    }

    /// Whether files are told of by the folders that they lie in.
    fn names_folders(&self) -> bool {
        self.is_observed || self.is_watched
    }

    /// A container of these users.
    pub(crate) fn of_container(
        decides: HostNetwork,
        (memory_bytes, processors): (Option<u64>, Option<f64>),
        hosts: String,
        ids: Ids,
    ) -> Self {
        Self {
            decides,
            has_network: true,
            tcp_ruled: false,
            special_files_ruled: false,
            is_observed: false,
            is_watched: false,
            asks: None,
            is_timed: false,
            processors,
            memory_bytes,
            refused: Refused::default(),
            inner: InnerPort::of_all(),
            hosts,
            container: Some(ids),
        }
    }
}

/// What a domain's network needs before there is a guest.
#[derive(Debug)]
pub(crate) struct Prepared {
    gate: Arc<Gate>,
    observations: Arc<Observations>,
    /// What happens is told here.
    journal: Option<Arc<Journal>>,
    /// Where whoever started the guest is asked.
    questions: Option<OwnedFd>,
    /// Where there are names: who is asked for them, and where that arrives.
    names: Option<(Arc<RemoteResolver>, Asked)>,
    proxy: Option<proxy::Prepared>,
    landlock_abi: Option<u32>,
    /// What filters refuse is left to the broker, too.
    refusals: Option<Arc<Refusals>>,
}

/// Answers the calls of one domain until nothing runs there any more.
#[derive(Debug)]
pub(crate) struct Broker {
    /// Cut when nobody answers any more.
    lifeline: Receiver<()>,
    shared: Arc<Shared>,
    /// Keeps the addresses of names up to date.
    names: Option<Refresh>,
    asked: Option<Asked>,
    is_dismissed: bool,
}

/// What the threads of a broker work on.
#[derive(Debug)]
struct Shared {
    listener: OwnedFd,
    gate: Arc<Gate>,
    observations: Arc<Observations>,
    /// Files that are asked for are told here, too.
    journal: Option<Arc<Journal>>,
    /// What filters refuse, where that is left to the broker.
    refusals: Option<Arc<Refusals>>,
    /// Where the guest finds names below a wildcard.
    proxy: Option<Arc<proxy::Served>>,
    /// What no grant covers is asked about.
    asking: Option<Arc<Asking>>,
    performer: Arc<Performer>,
    maker: Arc<Maker>,
    callers: Arc<Callers>,
    /// The files that are asked for are noted.
    watch: Option<Watch>,
    ends: Ends,
    repeated: Repeated,
    budget: Arc<Budget>,
    /// Readable when there is nobody left to answer.
    stop: OwnedFd,
    /// Where it is among those that nobody calls.
    place: parked::Place,
}

/// What a guest tried, and what it took to answer.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// Each thing once, up to a bound.
    pub(crate) different: Vec<Observation>,
    /// Tries beyond it.
    pub(crate) more: u64,
    /// Files.
    pub(crate) files: Notes,
    /// What was granted meanwhile.
    pub(crate) granted: Vec<Granted>,
    /// What was refused without a question, where there were too many.
    pub(crate) unasked: u64,
    /// How processes ended that tried something in vain.
    pub(crate) ends: Ends,
    /// Processor time of the threads that answered its calls.
    pub(crate) answering: Duration,
}

impl Prepared {
    /// For a guest of this plan; `None` where its calls are not the supervisor's.
    ///
    /// # Errors
    ///
    /// When the proxy can't listen.
    pub(crate) fn of(
        plan: &Plan,
        machine: &Machine,
        questions: Option<BorrowedFd<'_>>,
        journal: Option<&Arc<Journal>>,
    ) -> io::Result<Option<Self>> {
        if !plan.is_brokered() {
            return Ok(None);
        }
        let questions = questions.map(|channel| channel.try_clone_to_owned());
        let told = (observations(journal), journal.cloned());
        let mut prepared = Self::with(plan.network.clone(), told, machine.landlock_abi)?;
        prepared.questions = questions.transpose()?;
        Ok(Some(prepared))
    }

    /// With these rules.
    ///
    /// # Errors
    ///
    /// When the proxy can't listen.
    pub(crate) fn with(
        network: Network,
        (observations, journal): (Observations, Option<Arc<Journal>>),
        landlock_abi: Option<u32>,
    ) -> io::Result<Self> {
        let mut names = None;
        if network.has_names() {
            let (asker, asked) = service::connect()?;
            names = Some((Arc::new(asker), Asked::Waiting(asked)));
        }
        let gate = Arc::new(Gate::new(network));
        Ok(Self {
            questions: None,
            proxy: Listening::begin(&gate)?.map(proxy::Prepared::Listening),
            gate,
            observations: Arc::new(observations),
            journal,
            names,
            landlock_abi,
            refusals: None,
        })
    }

    /// What filters refuse is left to the broker, and refused there.
    pub(crate) fn refusing(mut self, refusals: Option<Refusals>) -> Self {
        self.refusals = refusals.map(Arc::new);
        self
    }

    /// Has names looked up from now on, and the proxy served where it has a process. While the domain is
    /// made: nobody waits for it then.
    ///
    /// # Errors
    ///
    /// When there can be no more threads or processes.
    pub(crate) fn serve(&mut self, parts: Parts) -> io::Result<()> {
        let Some((asker, asked)) = &mut self.names else {
            return Ok(());
        };
        // The proxy first: names may have a thread.
        if let (Parts::Processes, Some(proxy)) = (parts, &mut self.proxy) {
            proxy.serve_apart(&self.gate, asker, self.landlock_abi)?;
        }
        asked.serve(parts, self.landlock_abi)
    }

    /// Variables that tell the guest's programs of the proxy.
    pub(crate) fn environment(&self) -> Vec<OsString> {
        environment(&self.gate)
            .into_iter()
            .map(|(name, value)| format!("{name}={value}").into())
            .collect()
    }

    /// Begins to answer a guest that has just been started, whose init is at the other end of this
    /// socket.
    ///
    /// # Errors
    ///
    /// When no thread can be made.
    pub(crate) fn start(
        self,
        listener: OwnedFd,
        hosts_file: Option<OwnedFd>,
        callers: Callers,
        (socket, layout): (&Arc<OwnedFd>, Option<Arc<Layout>>),
        maker: Maker,
        files: Option<(&Arc<Files>, Box<dyn Advisor>)>,
    ) -> io::Result<Broker> {
        maker.begin()?;
        let walls = Kept::of_broker(callers.names_folders()).walls(None);
        let walls = walls.map_err(io::Error::other)?;
        let (mut asked, mut proxy, mut names, mut asking) = (None, None, None, None);
        if let Some((asker, answered)) = self.names {
            asked = Some(answered);
            if let Some(patience) = callers.asks {
                let journal = self.journal.clone();
                let begun = Asking::new(self.questions, patience, Arc::clone(&asker), journal)?;
                asking = Some(Arc::new(begun));
            }
            if let Some(prepared) = self.proxy {
                let seen = &self.observations;
                let served = prepared.serve(&self.gate, &asker, seen, self.landlock_abi)?;
                proxy = Some(Arc::new(served));
            }
            let (gate, told) = (Arc::clone(&self.gate), proxy.clone());
            let file = (hosts_file, callers.hosts.clone());
            names = walls.start(move || hosts::keep(file, gate, asker, told))?;
        }
        let init = callers.is_timed.then(|| Arc::clone(socket));
        // Refused by older kernels, where calls take longer.
        let _ = notify::hand_over_processor(listener.as_fd());
        let shared = Arc::new(Shared {
            listener,
            gate: self.gate,
            observations: self.observations,
            journal: self.journal,
            refusals: self.refusals,
            proxy,
            asking,
            performer: Arc::new(Performer::new(Arc::clone(socket), &callers, layout)),
            watch: callers.is_watched.then(Watch::default),
            ends: Ends::default(),
            maker: Arc::new(maker),
            repeated: Repeated::default(),
            budget: Arc::new(Budget::new(callers.processors, init)),
            callers: Arc::new(callers),
            stop: rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?,
            place: parked::Place::default(),
        });
        if let (Some((files, advisor)), Some(asking)) = (files, &shared.asking) {
            let abi = self.landlock_abi;
            ask::files::begin(&shared, asking, Arc::clone(files), advisor, abi)?;
        }
        if shared.callers.container.is_some() {
            shared.callers.inner.learn(&shared.performer)?;
        }
        let lifeline = begin_answering(&shared, walls)?;
        Ok(Broker {
            lifeline,
            shared,
            names,
            asked,
            is_dismissed: false,
        })
    }
}

/// A thread that answers within these walls. What this gives is cut when nobody answers any more.
fn begin_answering(shared: &Arc<Shared>, walls: Walls) -> io::Result<Receiver<()>> {
    let (alive, lifeline) = mpsc::channel();
    let answering = Answering {
        shared: Arc::clone(shared),
        alive,
    };
    small_thread(THREAD_NAME, move || {
        let last_word = LastWord(Arc::clone(&answering.shared.performer.socket));
        if let Err(error) = walls.around_this_thread() {
            panic!("{error}");
        }
        drop(last_word);
        answering.run();
    })?;
    Ok(lifeline)
}

impl Broker {
    /// Answers the calls of others of the same domain too, who have another listener.
    ///
    /// # Errors
    ///
    /// When no thread can be made.
    pub(crate) fn answer_too(&self, listener: OwnedFd) -> io::Result<()> {
        let walls = Kept::of_broker(self.shared.callers.names_folders()).walls(None);
        let walls = walls.map_err(io::Error::other)?;
        let _ = notify::hand_over_processor(listener.as_fd());
        let shared = &self.shared;
        let shared = Shared {
            listener,
            gate: Arc::clone(&shared.gate),
            observations: Arc::clone(&shared.observations),
            journal: shared.journal.clone(),
            refusals: shared.refusals.clone(),
            proxy: shared.proxy.clone(),
            asking: None,
            performer: Arc::clone(&shared.performer),
            maker: Arc::clone(&shared.maker),
            callers: Arc::clone(&shared.callers),
            watch: None,
            ends: Ends::default(),
            repeated: Repeated::default(),
            budget: Arc::clone(&shared.budget),
            stop: rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?,
            place: parked::Place::default(),
        };
        begin_answering(&Arc::new(shared), walls).map(drop)
    }

    /// Has everybody who serves the guest end, once its domain has said that it ends or can say nothing any more.
    /// Nobody waits for that before [`Self::finish`].
    pub(crate) fn dismiss(&mut self) {
        if std::mem::replace(&mut self.is_dismissed, true) {
            return;
        }
        self.names = None;
        if let Some(proxy) = &self.shared.proxy {
            proxy.dismiss();
        }
        if let Some(asked) = &self.asked {
            asked.dismiss();
        }
        // It cannot be full: a count of 2^64 - 1.
        let _ = rustix::io::write(&self.shared.stop, &1u64.to_ne_bytes());
        parked::release(&self.shared);
        self.shared.maker.dismiss();
    }

    /// Grants more, or takes back what was granted so, each a flag; with why where that is not done.
    pub(crate) fn change(&self, request: &Change) -> Changed {
        let Some(asking) = &self.shared.asking else {
            return Changed::refused(request, NOT_GRANTABLE);
        };
        let gate = &self.shared.gate;
        let given = request.grant.iter().map(|flag| {
            let given = asking.give(gate, flag);
            (flag, given.map_err(|error| error.to_string()))
        });
        let revoked = request.revoke.iter().map(|flag| {
            let taken = asking.take_from(gate, flag).then_some(());
            (
                flag,
                taken.ok_or_else(|| "it was not granted while the guest runs".into()),
            )
        });
        Changed::of(given.chain(revoked))
    }

    /// Files were granted, or taken back.
    pub(crate) fn files_changed(&self, files: &Files) {
        if let Some(asking) = &self.shared.asking {
            asking.files_changed(files);
        }
    }

    /// Has all begun now that the keeper may be asked for later.
    pub(crate) fn settle(&self) -> io::Result<()> {
        self.shared.maker.settle()
    }

    /// What was tried, once nothing of the domain runs any more.
    pub(crate) fn finish(&mut self) -> Observed {
        self.dismiss();
        if let Some(proxy) = &self.shared.proxy {
            proxy.finish(&self.shared.observations);
        }
        self.asked = None;
        let _ = self.lifeline.recv_timeout(PATIENCE);
        self.shared.maker.wait();
        let watch = self.shared.watch.as_ref();
        let asking = self.shared.asking.as_ref();
        let (granted, unasked) = asking
            .map(|asking| asking.finish(&self.shared.observations, &self.shared.gate))
            .unwrap_or_default();
        let (different, more) = self.shared.observations.drain();
        Observed {
            granted,
            unasked,
            different,
            more,
            files: watch.map(Watch::finish).unwrap_or_default(),
            ends: self.shared.ends.clone(),
            answering: self.shared.budget.used(),
        }
    }
}

impl Shared {
    /// Whether signals take no call back that is answered: see `notifies::WATCHER`.
    fn keeps_calls(&self) -> bool {
        self.watch.is_some() || self.asking.is_some() || self.callers.special_files_ruled
    }

    /// Tells the proxy of a connection that will be begun for a guest, to an address in the form of the socket's
    /// family; it serves no others. The socket has an address by then, the guest's or one of the loopback's.
    fn announce(&self, to: SocketAddr, socket: &OwnedFd, caller: u32) -> Result<(), Errno> {
        if let Some(proxy) = self
            .proxy
            .as_ref()
            .filter(|_| self.gate.proxy() == Some(canonical(to)))
            && let Some(from) = call::address_towards(socket, to)?
        {
            proxy.admit(from, guest::identify(&self.maker, caller));
        }
        Ok(())
    }
}

/// Of what is refused; all of it is told in the journal.
fn observations(journal: Option<&Arc<Journal>>) -> Observations {
    let observations = Observations::of_refusals();
    match journal.cloned() {
        Some(journal) => {
            let hears_allowed = journal.hears_allowed();
            observations.heard_by(hears_allowed, move |one| journal.write(verdict_on(one)))
        }
        None => observations,
    }
}

/// What the journal tells of it.
pub(crate) fn verdict_on(observation: &Observation) -> Entry {
    let process = &observation.process;
    let refusal = observation.refusal.as_ref();
    Entry::Verdict {
        verdict: match refusal {
            Some(_) => Judgement::Deny,
            None => Judgement::Allow,
        },
        call: observation.call.to_string(),
        target: observation.target.to_string(),
        process: palisade_wall::Process::new(process.pid, process.name.as_bytes()),
        reason: refusal.map(|refusal| refusal.reason.to_string()),
        grant: refusal.and_then(|refusal| refusal.grant.clone()),
        probe: observation.probe,
        count: observation.count,
    }
}

/// Has init, at the other end, end the domain if its thread panics: a call that nobody answers would
/// wait for ever.
struct LastWord(Arc<OwnedFd>);

impl LastWord {
    fn say(&self) {
        let record = record_bytes(wire::DOMAIN_KILL, &[]);
        // It fails only if the domain has ended.
        let _ = rustix::net::send(&self.0, &record, SendFlags::NOSIGNAL);
    }
}

impl Drop for LastWord {
    fn drop(&mut self) {
        if thread::panicking() {
            self.say();
        }
    }
}

/// A thread that needs little stack: a host may have thousands of domains.
fn small_thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    const STACK_BYTES: usize = 128 * 1024;
    let builder = thread::Builder::new();
    let builder = builder.name(name.into()).stack_size(STACK_BYTES);
    with_signals_blocked(|| builder.spawn(run))
}

/// What the thread is called that answers.
const THREAD_NAME: &str = "palisade-broker";

/// How long a domain calls nobody before its thread ends.
const QUIET: Duration = Duration::from_secs(1);
/// Calls that are held at a time.
const MOST_HELD: usize = 256;

/// The task of answering one domain, which goes from thread to thread.
struct Answering {
    shared: Arc<Shared>,
    /// Cut when it is over.
    alive: Sender<()>,
}

impl Answering {
    /// Answers until nobody calls for a while, and then waits with all others; or until it is over.
    fn run(mut self) {
        loop {
            let _last_word = LastWord(Arc::clone(&self.shared.performer.socket));
            match Answers::new(Arc::clone(&self.shared)).run() {
                Why::Over => {
                    // Said once nothing of the domain's is held here.
                    let Self { shared, alive } = self;
                    drop(shared);
                    drop::<Sender<()>>(alive);
                    return;
                }
                Why::Quiet => match parked::park(self) {
                    Ok(()) => return,
                    Err(answering) => self = answering,
                },
            }
        }
    }
}

/// What came of waiting.
enum Waited {
    /// Somebody calls.
    Call,
    /// Nobody has, for a while.
    InVain,
    /// No process is left that could call.
    Over,
}

/// Why a thread leaves off answering.
enum Why {
    /// Nobody has called for a while, and no call waits.
    Quiet,
    /// No process is left that could call.
    Over,
}

/// A call that waits for something to be known.
struct Held {
    call: Notification,
    ticket: Ticket,
    /// What somebody has allowed it, and no other.
    allowed: Vec<Wish>,
}

/// The thread that answers.
struct Answers {
    shared: Arc<Shared>,
    threads: guest::Threads,
    pending: Pending,
    /// Calls that are decided anew when something is known.
    held: Vec<Held>,
    /// When these were last looked at.
    looked: Instant,
}

impl Answers {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            pending: Pending::new(Arc::clone(&shared)),
            shared,
            threads: guest::Threads::default(),
            held: Vec::new(),
            looked: Instant::now(),
        }
    }

    fn run(mut self) -> Why {
        let shared = Arc::clone(&self.shared);
        let mut meter = Meter::of_this_thread(&shared.budget);
        loop {
            let waited = self.wait_for_call();
            if self.shared.asking.is_some() {
                self.go_on_with_held();
                meter.keep();
            }
            match waited {
                Waited::Call => {}
                Waited::InVain if self.may_be_quiet() => return Why::Quiet,
                Waited::InVain => continue,
                Waited::Over => break,
            }
            match notify::receive(self.shared.listener.as_fd()) {
                Ok(call) => {
                    self.answer(&call);
                    meter.keep();
                }
                // Taken back before it was read.
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(_) => break,
            }
        }
        self.pending.finish();
        Why::Over
    }

    fn wait_for_call(&self) -> Waited {
        let sources = [&self.shared.listener, &self.shared.stop];
        let own = sources.map(|source| PollFd::new(source, PollFlags::IN));
        let quiet = match self.held.is_empty() {
            true => QUIET,
            false => LOOK_AGAIN,
        };
        let quiet = Timespec::try_from(quiet).ok();
        let wait = |fds: &mut [PollFd<'_>]| {
            let waited = rustix::io::retry_on_intr(|| rustix::event::poll(fds, quiet.as_ref()));
            let (called, stopped) = (fds[0].revents(), fds[1].revents());
            match waited {
                Err(_) => Waited::Over,
                Ok(_) if !stopped.is_empty() => Waited::Over,
                Ok(_) if called.contains(PollFlags::IN) => Waited::Call,
                Ok(_) if called.is_empty() => Waited::InVain,
                Ok(_) => Waited::Over,
            }
        };
        match &self.shared.asking {
            None => wait(&mut { own }),
            Some(asking) => {
                let [called, stopped] = own;
                let [answers, names, bell] = asking.waits();
                wait(&mut [called, stopped, answers, names, bell])
            }
        }
    }

    /// Whoever is asked, or answers for names, may speak at any time.
    fn may_be_quiet(&self) -> bool {
        self.pending.is_empty() && self.shared.asking.is_none()
    }

    /// Decides anew what waited for something that is known by now.
    fn go_on_with_held(&mut self) {
        let shared = Arc::clone(&self.shared);
        let Some(asking) = &shared.asking else { return };
        asking.attend(&shared.gate);
        let looks = self.looked.elapsed() >= LOOK_AGAIN;
        if looks {
            self.looked = Instant::now();
        }
        let listener = shared.listener.as_fd();
        for mut held in std::mem::take(&mut self.held) {
            let call = held.call;
            let is_settled = asking.is_settled(&held.ticket);
            if (is_settled || looks) && !notify::is_waiting(listener, call.id) {
                // Its thread was killed.
            } else if is_settled {
                let who = || guest::identify(&shared.maker, call.thread);
                held.allowed.extend(asking.claim(&held.ticket, who));
                self.decide(&call, held.allowed);
            } else if let Some(errno) = looks
                .then(|| guest::after_signal(&shared.maker, call.thread))
                .flatten()
            {
                let _ = notify::answer(listener, call.id, Err(errno));
            } else {
                self.held.push(held);
            }
        }
        asking.forget_unclaimed();
    }

    fn answer(&mut self, call: &Notification) {
        let listener = self.shared.listener.as_fd();
        let refusals = self.shared.refusals.as_ref();
        let refused = refusals.and_then(|all| all.refuse(listener, call, &self.shared.maker));
        if let Some(result) = refused {
            // It fails only if nobody waits any more.
            let _ = notify::answer(listener, call.id, result);
            return;
        }
        if !self.shared.repeated.takes(listener, call) {
            self.decide(call, Vec::new());
        }
    }

    /// With what somebody has allowed this call.
    fn decide(&mut self, call: &Notification, allowed: Vec<Wish>) {
        let listener = self.shared.listener.as_fd();
        let mut brokered = Brokered {
            shared: &self.shared,
            threads: &mut self.threads,
            call,
            ticket: Cell::new(None),
            allowed: &allowed,
        };
        match brokered.decide() {
            Answer::Result(result) => self.shared.repeated.answer(listener, call, result),
            Answer::Socket(socket, close_on_exec) => self.hand_over(call, &socket, close_on_exec),
            Answer::Later(wait) => self.pending.push(call, wait),
            Answer::Held(ticket) if self.held.len() >= MOST_HELD => {
                if let Some(asking) = &self.shared.asking {
                    asking.count_unasked();
                }
                // The kernel has its own answer.
                if ticket.is_of_files() {
                    self.let_go_on(call);
                    return;
                }
                self.shared
                    .repeated
                    .answer(listener, call, Err(Errno::AGAIN));
            }
            Answer::Held(ticket) => self.held.push(Held {
                call: *call,
                ticket,
                allowed,
            }),
            Answer::Continue => self.let_go_on(call),
            Answer::Passed => {}
        }
    }

    /// Only what the filter would allow if nobody listened. What is made for the guest is no such call, whatever it was asked
    /// about: a pointer may lead elsewhere by now.
    fn let_go_on(&self, call: &Notification) {
        let listener = self.shared.listener.as_fd();
        // It fails only if nobody waits any more.
        let _ = match self.shared.callers.makes_for(call) {
            true => notify::answer(listener, call.id, Err(Errno::ACCESS)),
            false => notify::let_continue(listener, call.id),
        };
    }

    /// A socket that nobody waits for any more is closed here.
    fn hand_over(&self, call: &Notification, socket: &OwnedFd, close_on_exec: bool) {
        let listener = self.shared.listener.as_fd();
        let handed =
            notify::answer_with_descriptor(listener, call.id, socket.as_fd(), close_on_exec);
        match handed {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => drop(notify::answer(listener, call.id, Err(errno))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::receive_record;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn kind_that_init_hears(run: impl FnOnce() + Send + 'static) -> Option<u64> {
        let flags = SocketFlags::CLOEXEC;
        let (init, ours) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let thread = thread::spawn(move || {
            let _last_word = LastWord(Arc::new(ours));
            run();
        });
        let _ = thread.join();
        let heard = receive_record(init.as_fd()).unwrap();
        heard.map(|(record, _)| record.kind)
    }

    #[test]
    fn a_panic_ends_the_domain_and_nothing_else_does() {
        let panics = || panic!("of this test");
        assert_eq!(kind_that_init_hears(panics), Some(wire::DOMAIN_KILL));
        assert_eq!(kind_that_init_hears(|| ()), None);
    }
}
