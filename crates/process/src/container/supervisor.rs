//! Who answers a container's calls on the network, where it has grants in place of a network.
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
    create::{First, send},
    encode::Encoder,
    namespaces::is_own,
};
use crate::{
    broker::{Broker, Callers, Ids, Prepared, maker::Maker, verdict_on},
    keeper::{Keeper, KeeperError},
    lock::lock,
    parts::Parts,
    record::{receive_record, record_bytes},
    seccomp::HostNetwork,
    sys,
    wire::container::{GROUPS, LISTENER, NAMESPACES},
};
use palisade_network::{Network, Observation, Observations};
use palisade_wall::journal::Entry;
use rustix::{
    event::{PollFd, PollFlags},
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType},
    process::{Pid, WaitOptions},
};
use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Write as _},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex},
};

/// What a container is granted in place of a network, and what goes with it.
#[derive(Debug)]
pub struct Grants {
    /// The rules.
    pub network: Network,
    /// What the container may have: buffers of its sockets count towards it.
    pub memory_bytes: Option<u64>,
    /// Its share of processors: answering its calls has as much beside.
    pub processors: Option<f64>,
    /// Its `/etc/hosts`, which follows what names stand for, and how that begins.
    pub hosts: Option<(File, String)>,
    /// Gets a line of JSON for each thing that is denied, once.
    pub denials: Option<File>,
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
            grants.denials.as_ref().map(AsRawFd::as_raw_fd),
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

/// What is denied is told once, up to a bound, and that there was more: a guest may try as much as it likes.
fn observations(denials: Option<File>) -> Observations {
    const MOST: usize = 256;
    let Some(mut file) = denials else {
        return Observations::of_refusals();
    };
    let told = Mutex::new(BTreeSet::new());
    let file = Mutex::new(move |line: &str| file.write_all(line.as_bytes()));
    let tell = move |one: &Observation| {
        let what = (one.call.to_string(), one.target.to_string());
        let entry = {
            let mut told = lock(&told);
            if one.probe || told.len() > MOST || !told.insert(what) {
                return;
            }
            match told.len() > MOST {
                true => Entry::Lost { count: 1 },
                false => verdict_on(one),
            }
        };
        if let Ok(line) = serde_json::to_string(&entry) {
            // A disk that is full keeps nobody from what is granted.
            let _ = (*lock(&file))(&format!("{line}\n"));
        }
    };
    Observations::of_refusals().heard_by(false, tell)
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
    decides: HostNetwork,
    prepared: Option<Prepared>,
    memory_bytes: Option<u64>,
    processors: Option<f64>,
    hosts: Option<(File, String)>,
    attendant: Process,
}

impl Service {
    /// With the variables that tell of it, a line each.
    fn of(grants: Grants) -> io::Result<(Self, String)> {
        let decides = host_network(&grants.network);
        let told = (observations(grants.denials), None);
        let prepared = Prepared::with(grants.network, told, sys::landlock_abi())?;
        let environment = prepared.environment().into_iter();
        let environment = environment.filter_map(|one| one.into_string().ok());
        let environment: Vec<_> = environment.collect();
        let service = Self {
            decides,
            prepared: Some(prepared),
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
        let ids = Ids::of_process(pid).map_err(|error| error.to_string())?;
        let attendant = attend(&self.attendant, namespaces, groups)?;
        let mut prepared = self.prepared.take().ok_or("it serves one container")?;
        let served = prepared.serve(Parts::Processes);
        served.map_err(|error| error.to_string())?;
        let (keeper, maker) = self.maker(groups).map_err(|error| error.to_string())?;
        let (file, head) = self.hosts.take().unzip();
        let head = head.unwrap_or_default();
        let callers = Callers::of_container(
            self.decides,
            (self.memory_bytes, self.processors),
            head,
            ids,
        );
        Ok(Running {
            first: Some((prepared, file.map(OwnedFd::from), callers, maker)),
            broker: None,
            attendant,
            _keeper: keeper,
        })
    }

    /// Who makes descriptors for a broker, in the container's groups where their memory is limited; and who keeps it.
    fn maker(&self, groups: &[OwnedFd]) -> Result<(Keeper, Maker), KeeperError> {
        let keeper = Keeper::start()?;
        keeper.confirm()?;
        let tasks: Vec<_> = match self.memory_bytes {
            Some(_) => groups.iter().map(AsFd::as_fd).collect(),
            None => Vec::new(),
        };
        let asked = keeper.order_maker(None, &tasks)?;
        let maker = Maker::ordered(asked, self.memory_bytes, !tasks.is_empty());
        Ok((keeper, maker))
    }
}

/// A container whose calls are answered.
struct Running {
    /// What it takes to begin, until the first program does.
    first: Option<(Prepared, Option<OwnedFd>, Callers, Maker)>,
    broker: Option<Broker>,
    attendant: Attendant,
    /// Ends what it made with this process.
    _keeper: Keeper,
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
        let sources = [channel, &self.attendant.pidfd];
        let mut fds = sources.map(|source| PollFd::new(source, PollFlags::IN));
        let waited = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None));
        let has_ended = !fds[1].revents().is_empty();
        if let Some(pid) = Pid::from_raw(self.attendant.pid as i32).filter(|_| has_ended) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        }
        waited.is_ok() && !has_ended
    }

    fn answer(&mut self, listener: OwnedFd) -> io::Result<()> {
        if let Some(broker) = &self.broker {
            return broker.answer_too(listener);
        }
        if let Some((prepared, hosts, callers, maker)) = self.first.take() {
            let init = (&self.attendant.calls, None);
            self.broker = Some(prepared.start(listener, hosts, callers, init, maker, None)?);
        }
        Ok(())
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
    let first = First::enter(joined).map_err(said)?;
    first.send(&encoder.finish()).map_err(said)?;
    drop(theirs);
    match first.hear().map_err(said)? {
        // Its channel has closed: it is there.
        None => Ok(Attendant {
            calls: Arc::new(calls),
            pidfd: first.pidfd.try_clone().map_err(|error| error.to_string())?,
            pid: first.leave(),
        }),
        Some((record, _)) => Err(super::create::failure(&record, None, None).to_string()),
    }
}
