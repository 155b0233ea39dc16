//! Who answers a container's calls: those on the network, where it has grants in place of one, and those that its filters refuse, where
//! that is told of.
//!
//! ```text
//!  keeper ◀──channel──▶ supervisor ──▶ keeper of domains ──▶ maker
//!  init, who enters ──listener──▲ │
//!                                 └──calls on local sockets──▶ attendant, inside
//! ```
//!
//! Whoever creates a container leaves, so this is a process that stays, one for each such container. The keeper holds one end of the
//! channel: the container ends with its supervisor, and the supervisor with the keeper. Every process that is put into the container
//! has a filter of its own, and so a listener, which it sends along the channel.

use super::{
    ContainerError, Process,
    create::{self, send},
    encode::Encoder,
    namespaces::is_own,
};
use crate::{
    broker::{
        Broker, Callers, Ids, Prepared,
        denials::{Denials, observations},
        maker::Maker,
        refusals::{Filters, Refusals, Refuser},
    },
    keeper::{Keeper, KeeperError},
    parts::Parts,
    record::{receive_record, record_bytes},
    seccomp::HostNetwork,
    sys,
    wire::container::{GROUPS, LISTENER, NAMESPACES},
};
use palisade_network::Network;
use rustix::{
    event::{PollFd, PollFlags},
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType},
    process::{Pid, WaitOptions},
};
use std::{
    fs::File,
    io::{self, ErrorKind},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

/// What a supervisor answers, and what goes with it.
#[derive(Debug)]
pub struct Grants {
    /// What a container is granted in place of a network.
    pub network: Option<Network>,
    /// The filters whose refusals are told of.
    pub refusals: Option<Filters>,
    /// What the container may have: buffers of its sockets count towards it.
    pub memory_bytes: Option<u64>,
    /// Its share of processors: answering its calls has as much beside.
    pub processors: Option<f64>,
    /// Its `/etc/hosts`, which follows what names stand for, and how that begins.
    pub hosts: Option<(File, String)>,
    /// Gets a line of JSON for each thing that is denied, once.
    pub denials: File,
    /// As whom its calls on local sockets are carried out for others: one who may become each of them.
    pub attendant: Process,
}

/// What such a container's filter leaves to its supervisor.
#[must_use]
pub fn host_network(network: &Network) -> HostNetwork {
    let udp = network.uses(palisade_policy::Transport::Udp);
    HostNetwork {
        // What is not granted is denied by name.
        tcp: true,
        udp: udp.connect || udp.listen,
        brokered: true,
        listens: true,
        sends: udp.connect || !udp.listen,
        // Who gets a socket of the host's, of containers that have a network, is under no such filter.
        messages: true,
    }
}

/// A supervisor that waits for its container. Without one it ends when this is dropped.
#[derive(Debug)]
pub struct Supervisor {
    /// The container's end of the channel.
    channel: OwnedFd,
    pid: u32,
    environment: Vec<String>,
}

impl Supervisor {
    /// Begins one. It outlives this process, which must have one thread.
    ///
    /// # Errors
    ///
    /// When there can be no more processes, or what the grants take is not there.
    pub fn begin(grants: Grants) -> Result<Self, ContainerError> {
        let (channel, own_end) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(ContainerError::Talk)?;
        let files = [
            grants.hosts.as_ref().map(|(file, _)| file.as_raw_fd()),
            Some(grants.denials.as_raw_fd()),
        ];
        let kept: Vec<_> = files
            .into_iter()
            .flatten()
            .chain([own_end.as_raw_fd()])
            .collect();
        let pid = sys::fork_apart(c"palisade-broker", &kept, || serve(&own_end, grants))
            .map_err(|errno| ContainerError::Supervise(format!("it cannot be started: {errno}")))?;
        drop(own_end);
        let environment = hear(channel.as_fd())?;
        let environment = environment.lines().map(str::to_owned).collect();
        Ok(Self {
            channel,
            pid: pid.as_raw_nonzero().get().unsigned_abs(),
            environment,
        })
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Variables that tell programs of its proxy.
    #[must_use]
    pub fn environment(&self) -> &[String] {
        &self.environment
    }

    /// By which listeners reach it.
    #[must_use]
    pub fn channel(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Tells it of its container, and waits until it can answer.
    pub(super) fn attend(
        channel: BorrowedFd<'_>,
        pid: u32,
        namespaces: &[(u64, OwnedFd)],
        groups: &[OwnedFd],
    ) -> Result<(), ContainerError> {
        let mut words = vec![pid.into(), namespaces.len() as u64];
        words.extend(namespaces.iter().map(|(kind, _)| kind));
        let fds: Vec<_> = namespaces.iter().map(|(_, fd)| fd.as_fd()).collect();
        send(channel, &record_bytes(NAMESPACES, &words), &fds)?;
        let fds: Vec<_> = groups.iter().map(AsFd::as_fd).collect();
        send(channel, &record_bytes(GROUPS, &[]), &fds)?;
        hear(channel).map(drop)
    }
}

/// What a supervisor answers with, unless it failed.
fn hear(channel: BorrowedFd<'_>) -> Result<String, ContainerError> {
    let mut answer = [0; MOST_ANSWER];
    let (length, _) =
        rustix::io::retry_on_intr(|| rustix::net::recv(channel, &mut answer, RecvFlags::empty()))
            .map_err(ContainerError::Talk)?;
    let words = |words| String::from_utf8_lossy(words).into_owned();
    match answer.get(..length) {
        Some([DONE, text @ ..]) => Ok(words(text)),
        Some([FAILED, text @ ..]) => Err(ContainerError::Supervise(words(text))),
        _ => Err(ContainerError::Supervise("it ended".into())),
    }
}

/// Most bytes of an answer, and how one begins.
const MOST_ANSWER: usize = 4096;
const DONE: u8 = 0;
const FAILED: u8 = 1;

/// Tells whoever begins it, or creates the container. `false` where nobody is there any more.
fn answer(channel: &OwnedFd, answer: Result<&str, &str>) -> bool {
    let (kind, text) = match answer {
        Ok(text) => (DONE, text),
        Err(text) => (FAILED, text),
    };
    let bytes = [&[kind], text.as_bytes()].concat();
    rustix::net::send(channel, &bytes, SendFlags::NOSIGNAL).is_ok() && answer.is_ok()
}

/// Until the container is gone.
fn serve(channel: &OwnedFd, grants: Grants) {
    // A call that nobody answers would wait for ever: the container ends with this process.
    std::panic::set_hook(Box::new(|_| std::process::abort()));
    let mut service = match Service::of(grants) {
        Ok((service, environment)) if answer(channel, Ok(&environment)) => service,
        Ok(_) => return,
        Err(error) => {
            answer(channel, Err(&error.to_string()));
            return;
        }
    };
    let Some(mut running) = service.hear_of_container(channel) else {
        return;
    };
    running.serve(channel);
    // The end of this process ends all that it began, and waits for nobody.
    std::mem::forget(running);
}

/// What the process works with.
struct Service {
    network: Option<(HostNetwork, Prepared)>,
    refusals: Option<Refusals>,
    memory_bytes: Option<u64>,
    processors: Option<f64>,
    hosts: Option<(File, String)>,
    attendant: Process,
}

impl Service {
    /// With the variables that tell of it, a line each.
    fn of(grants: Grants) -> io::Result<(Self, String)> {
        let denials = Denials::to(grants.denials);
        let prepare = |network: Network| {
            let decides = host_network(&network);
            let told = (observations(&denials), None);
            let prepared = Prepared::with(network, told, sys::landlock_abi())?;
            io::Result::Ok((decides, prepared))
        };
        let network = grants.network.map(prepare).transpose()?;
        let environment = network
            .iter()
            .flat_map(|(_, prepared)| prepared.environment());
        let environment = environment.filter_map(|one| one.into_string().ok());
        let environment: Vec<_> = environment.collect();
        let (refusals, has_network) = (grants.refusals, network.is_some());
        let service = Self {
            network,
            refusals: refusals
                .map(|filters| Refusals::new(filters, has_network, Arc::clone(&denials))),
            memory_bytes: grants.memory_bytes,
            processors: grants.processors,
            hosts: grants.hosts,
            attendant: grants.attendant,
        };
        Ok((service, environment.join("\n")))
    }

    /// Waits for the container, and begins all that its calls take. `None` where there is none, or no answering.
    fn hear_of_container(&mut self, channel: &OwnedFd) -> Option<Running> {
        let heard = |kind| match receive_record(channel.as_fd()) {
            Ok(Some((record, fds))) if record.kind == kind => Some((record, fds)),
            _ => None,
        };
        let (record, namespaces) = heard(NAMESPACES)?;
        let (_, groups) = heard(GROUPS)?;
        let [pid, _, kinds @ ..] = &record.words;
        let namespaces = kinds.iter().copied().zip(namespaces).collect();
        match self.attend_to(*pid as u32, namespaces, &Vec::from(groups)) {
            Ok(running) => answer(channel, Ok("")).then_some(running),
            Err(words) => {
                answer(channel, Err(&words));
                None
            }
        }
    }

    fn attend_to(
        &mut self,
        pid: u32,
        namespaces: Vec<(u64, OwnedFd)>,
        groups: &[OwnedFd],
    ) -> Result<Running, String> {
        let said = |error: io::Error| error.to_string();
        let refusals = self.refusals.take();
        let Some((decides, prepared)) = self.network.take() else {
            let refusals = refusals.ok_or("it serves one container")?;
            let keeper = Arc::new(self.keeper().map_err(|error| error.to_string())?);
            let refuser = Refuser::new(refusals, Maker::later(&keeper), self.processors);
            return Ok(Running {
                answering: Answering::Refuser(refuser),
                attendant: None,
                _keeper: keeper,
            });
        };
        let ids = Ids::of_process(pid).map_err(said)?;
        let attendant = attend(&self.attendant, namespaces, groups)?;
        let mut prepared = prepared.refusing(refusals);
        prepared.serve(Parts::Processes).map_err(said)?;
        let keeper = self.keeper().map_err(|error| error.to_string())?;
        let maker = self
            .maker(&keeper, groups)
            .map_err(|error| error.to_string())?;
        let (hosts, head) = self.hosts.take().unzip();
        let limits = (self.memory_bytes, self.processors);
        let callers = Callers::of_container(decides, limits, head.unwrap_or_default(), ids);
        let first = First {
            prepared,
            hosts: hosts.map(OwnedFd::from),
            callers,
            maker,
            calls: Arc::clone(&attendant.calls),
        };
        Ok(Running {
            answering: Answering::Later(Some(Box::new(first))),
            attendant: Some(attendant),
            _keeper: Arc::new(keeper),
        })
    }

    fn keeper(&self) -> Result<Keeper, KeeperError> {
        let keeper = Keeper::start()?;
        keeper.confirm()?;
        Ok(keeper)
    }

    /// Who makes descriptors for a broker, in the container's groups where their memory is limited.
    fn maker(&self, keeper: &Keeper, groups: &[OwnedFd]) -> Result<Maker, KeeperError> {
        let tasks: Vec<_> = match self.memory_bytes {
            Some(_) => groups.iter().map(AsFd::as_fd).collect(),
            None => Vec::new(),
        };
        let asked = keeper.order_maker(None, &tasks)?;
        Ok(Maker::ordered(asked, self.memory_bytes, !tasks.is_empty()))
    }
}

/// A container whose calls are answered.
struct Running {
    answering: Answering,
    /// Where there are calls on local sockets to be carried out.
    attendant: Option<Attendant>,
    /// Ends what it made with this process.
    _keeper: Arc<Keeper>,
}

/// Who answers.
enum Answering {
    /// A broker that begins with the first program.
    Later(Option<Box<First>>),
    Broker(Broker),
    Refuser(Refuser),
}

/// What it takes to begin a broker.
struct First {
    prepared: Prepared,
    hosts: Option<OwnedFd>,
    callers: Callers,
    maker: Maker,
    /// The way to the attendant.
    calls: Arc<OwnedFd>,
}

/// Who carries out calls on local sockets, inside.
struct Attendant {
    calls: Arc<OwnedFd>,
    pid: u32,
    pidfd: OwnedFd,
}

impl Running {
    fn serve(&mut self, channel: &OwnedFd) {
        while self.waits_for(channel) {
            match receive_record(channel.as_fd()) {
                Ok(Some((record, mut fds))) if record.kind == LISTENER => {
                    let answered = fds.pop_front().map(|listener| self.answer(listener));
                    if !matches!(answered, Some(Ok(()))) {
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    /// Waits until the channel can be read; `false` where the container has ended, or its attendant. The namespace that this is in
    /// is not gone before somebody has waited for it.
    fn waits_for(&self, channel: &OwnedFd) -> bool {
        let attendant = self.attendant.iter().map(|attendant| &attendant.pidfd);
        let sources = [channel].into_iter().chain(attendant);
        let mut fds: Vec<_> = sources
            .map(|source| PollFd::new(source, PollFlags::IN))
            .collect();
        let waited = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None));
        let has_ended = fds.get(1).is_some_and(|pidfd| !pidfd.revents().is_empty());
        let attendant = self.attendant.as_ref().filter(|_| has_ended);
        if let Some(pid) = attendant.and_then(|attendant| Pid::from_raw(attendant.pid as i32)) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        }
        waited.is_ok() && !has_ended
    }

    fn answer(&mut self, listener: OwnedFd) -> io::Result<()> {
        match &mut self.answering {
            Answering::Refuser(refuser) => refuser.answer(listener),
            Answering::Broker(broker) => broker.answer_too(listener),
            Answering::Later(first) => {
                let first = first.take().ok_or(ErrorKind::BrokenPipe)?;
                let init = (&first.calls, None);
                let (hosts, callers, maker) = (first.hosts, first.callers, first.maker);
                let broker = first
                    .prepared
                    .start(listener, hosts, callers, init, maker, None)?;
                self.answering = Answering::Broker(broker);
                Ok(())
            }
        }
    }
}

/// Puts a process into the container that carries out calls on local sockets. Gives the way to it.
fn attend(
    process: &Process,
    mut joined: Vec<(u64, OwnedFd)>,
    groups: &[OwnedFd],
) -> Result<Attendant, String> {
    let said = |error: ContainerError| error.to_string();
    let (calls, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|errno| errno.to_string())?;
    joined.retain(|(kind, namespace)| !is_own(*kind, namespace));
    let groups: io::Result<Vec<_>> = groups.iter().map(OwnedFd::try_clone).collect();
    let groups = groups.map_err(|error| error.to_string())?;
    let mut encoder = Encoder::new(&[], groups, Some(theirs.as_fd()));
    encoder.attendant(process).map_err(said)?;
    let first = create::First::enter(joined).map_err(said)?;
    first.send(&encoder.finish()).map_err(said)?;
    drop(theirs);
    match first.hear().map_err(said)? {
        // Its channel has closed: it is there.
        None => Ok(Attendant {
            calls: Arc::new(calls),
            pidfd: first.pidfd.try_clone().map_err(|error| error.to_string())?,
            pid: first.leave(),
        }),
        Some((record, _)) => Err(create::failure(&record, None, None).to_string()),
    }
}
