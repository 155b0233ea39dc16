//! Creating a container: its keeper, its namespaces, its files; then it waits for its start.

use super::{
    ContainerError, Plan,
    encode::{Encoded, Encoder, Outside},
    namespaces::{Namespace, Namespaces},
    supervisor::Supervisor,
};
use crate::{
    keeper::{self, KeeperError},
    launch::encode::header,
    record::{receive_record, record_bytes},
    sys::{self, Spawned},
    wire::{
        self,
        container::{self, Step, create, pause},
    },
};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType,
    },
    process::{Pid, WaitOptions},
};
use std::{
    collections::VecDeque,
    io::IoSlice,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// What a container is given that is open already.
#[derive(Debug, Default)]
pub struct Given<'a> {
    /// What its program finds open, from 0 on.
    pub streams: Vec<BorrowedFd<'a>>,
    /// Files by which to join control groups.
    pub groups: Vec<OwnedFd>,
    /// The way to who answers its calls on the network: [`super::Supervisor::channel`].
    pub supervisor: Option<BorrowedFd<'a>>,
    /// Where the processes of its control group are listed, which ends what a pid namespace of others would not.
    pub processes: Option<OwnedFd>,
}

/// Whoever creates a container, as far as it is asked on the way.
pub trait Creator {
    /// What the specification calls the container's state, for hooks: of its first process, before the start or at it.
    fn state(&self, pid: u32, at_start: bool) -> String;

    /// Its first process is there, and does nothing yet.
    ///
    /// # Errors
    ///
    /// With what keeps it from going on.
    fn on_first(&mut self, pid: u32) -> Result<(), String>;

    /// Its namespaces are there, and its root is not yet the root.
    ///
    /// # Errors
    ///
    /// With what keeps it from going on.
    fn on_namespaces(&mut self, pid: u32) -> Result<(), String>;

    /// It is there, and is left to its keeper next: until then it ends with this process. What is written down of it now is there
    /// for as long as it is.
    ///
    /// # Errors
    ///
    /// With what keeps it from going on.
    fn on_created(&mut self, created: &Created) -> Result<(), String>;
}

/// A container that waits for its start.
#[derive(Debug)]
pub struct Created {
    /// Its first process, on the host.
    pub pid: u32,
    /// Its keeper.
    pub keeper: u32,
    /// A pidfd of the first process.
    pub pidfd: OwnedFd,
    /// The other end of its terminal.
    pub terminal: Option<OwnedFd>,
}

/// A container whose first process is being made in its namespaces. That takes as long as making its control groups does, and can be
/// done meanwhile.
#[derive(Debug)]
pub struct Begun(Option<Beginning>);

impl Begun {
    /// Begins it. Dropped, it ends again.
    ///
    /// # Errors
    ///
    /// When there can be no keeper, or a namespace to be joined is not there.
    pub fn of(plan: &Plan) -> Result<Self, ContainerError> {
        let mut flags = 0;
        if !plan.namespaces.owns(Namespace::Pid) {
            flags |= container::SHARED_PROCESSES;
        }
        let joins_network = plan.namespaces.has(Namespace::Network)
            && !plan.namespaces.owns(Namespace::Network)
            && plan.namespaces.owns(Namespace::User);
        if joins_network && mounts_sysfs(plan) {
            flags |= container::WITH_SYSFS;
        }
        let joined = plan.namespaces.open_joined()?;
        Beginning::of(&plan.namespaces, joined, flags).map(|beginning| Self(Some(beginning)))
    }

    fn first(mut self) -> Result<First, ContainerError> {
        let beginning = self.0.take().ok_or(ContainerError::Gone)?;
        beginning.first()
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // Only one that is there can be ended and waited for.
        drop(self.0.take().map(Beginning::first));
    }
}

/// Creates what was begun by the same plan.
///
/// The keeper and the first process become children of whoever this process's parent or subreaper is when it ends.
///
/// # Errors
///
/// When a step fails. Nothing of the container is left then.
pub fn create(
    begun: Begun,
    plan: &Plan,
    given: Given<'_>,
    creator: &mut dyn Creator,
) -> Result<Created, ContainerError> {
    let first = begun.first()?;
    plan.namespaces.map(first.pid)?;
    creator
        .on_first(first.pid)
        .map_err(ContainerError::Paused)?;
    let groups: Result<Vec<_>, _> = match given.supervisor {
        Some(_) => given.groups.iter().map(OwnedFd::try_clone).collect(),
        None => Ok(Vec::new()),
    };
    let groups = groups.map_err(|error| ContainerError::Supervise(error.to_string()))?;
    let mut encoder = Encoder::new(&given.streams, given.groups, given.supervisor);
    let states = [false, true].map(|at_start| creator.state(first.pid, at_start));
    encoder.plan(plan, states, first.outside(plan)?)?;
    first.send(&encoder.finish())?;
    let (record, mut fds) = loop {
        match first.hear()? {
            Some((record, fds)) if record.kind == container::PAUSED => {
                if record.words[0] == u64::from(pause::CREATED) {
                    break (record, fds);
                }
                creator
                    .on_namespaces(first.pid)
                    .map_err(ContainerError::Paused)?;
                let go_on = record_bytes(container::GO_ON, &[]);
                rustix::net::send(&first.channel, &go_on, SendFlags::NOSIGNAL)
                    .map_err(ContainerError::Talk)?;
            }
            Some((record, _)) => {
                let program = plan.process.arguments.first();
                return Err(failure(&record, Some(plan), program.map(String::as_str)));
            }
            None => return Err(ContainerError::Silent),
        }
    };
    let [_, has_terminal, count, kinds @ ..] = &record.words;
    let terminal = match has_terminal {
        0 => None,
        _ => fds.pop_front(),
    };
    let kinds = kinds.get(..*count as usize).unwrap_or(&[]);
    let mut namespaces: Vec<_> = kinds.iter().copied().zip(fds).collect();
    if let Some(channel) = given.supervisor {
        Supervisor::attend(channel, first.pid, &namespaces, &groups)?;
        let kept = channel.try_clone_to_owned();
        let kept = kept.map_err(|error| ContainerError::Supervise(error.to_string()))?;
        namespaces.push((container::SUPERVISOR, kept));
    }
    let created = first.created(terminal)?;
    creator
        .on_created(&created)
        .map_err(ContainerError::Paused)?;
    first.let_go(given.processes, &namespaces)?;
    Ok(created)
}

/// Whether it was set from outside. A first process that became another user is not the owner of its own file, and a score below the
/// machine's takes CAP_SYS_RESOURCE outside of every user namespace (`__set_oom_adj` of the kernel).
fn set_oom_score(plan: &Plan, pid: u32) -> bool {
    let score = plan.steps.iter().find_map(|step| match step {
        super::Step::OomScore { score } => Some(score.to_string()),
        _ => None,
    });
    let path = format!("/proc/{pid}/oom_score_adj");
    score.is_some_and(|score| std::fs::write(path, score).is_ok())
}

fn mounts_sysfs(plan: &Plan) -> bool {
    let is_sysfs =
        |step: &super::Step| matches!(step, super::Step::Mount { kind, .. } if kind == "sysfs");
    plan.steps.iter().any(is_sysfs)
}

/// The first process of a container, or one that enters it, and the keeper that made it.
pub(super) struct First {
    pub(super) pid: u32,
    pub(super) pidfd: OwnedFd,
    channel: OwnedFd,
    control: OwnedFd,
    keeper: Option<Spawned>,
}

/// One that its keeper is making. The order is that in which they go: without its socket the keeper ends, which is waited for then.
#[derive(Debug)]
struct Beginning {
    control: OwnedFd,
    channel: OwnedFd,
    inits_end: OwnedFd,
    keeper: Spawned,
}

impl Beginning {
    fn of(
        namespaces: &Namespaces,
        joined: Vec<(u64, OwnedFd)>,
        flags: u64,
    ) -> Result<Self, ContainerError> {
        let program =
            keeper::memory_file(sys::CONTAINER_KEEPER).map_err(KeeperError::CreateProgram)?;
        let (channel, inits_end) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(ContainerError::Talk)?;
        let (control, keeper) = keeper::spawn(program)?;
        let beginning = Self {
            control,
            channel,
            inits_end,
            keeper,
        };
        let made = namespaces.made.iter().map(|kind| kind.flag());
        // What the groups are seen as is made once they are joined.
        let made = made
            .filter(|flag| *flag != libc::CLONE_NEWCGROUP as u64)
            .sum::<u64>();
        let mut words = vec![made, flags, joined.len() as u64];
        debug_assert_eq!(
            [create::MADE, create::FLAGS, create::JOINED],
            [0, 1, 2],
            "the order of the words"
        );
        words.extend(joined.iter().map(|(kind, _)| kind));
        let fds: Vec<_> = [beginning.inits_end.as_fd()]
            .into_iter()
            .chain(joined.iter().map(|(_, namespace)| namespace.as_fd()))
            .collect();
        let order = record_bytes(container::CREATE, &words);
        send(&beginning.control, &order, &fds)?;
        Ok(beginning)
    }

    /// Waits until it is there.
    fn first(self) -> Result<First, ContainerError> {
        self.keeper.confirm().map_err(KeeperError::Start)?;
        let heard = receive_record(self.control.as_fd()).map_err(ContainerError::Talk)?;
        let Some((record, mut fds)) = heard else {
            return Err(ContainerError::Keeper(KeeperError::Gone));
        };
        let Some(pidfd) = fds
            .pop_front()
            .filter(|_| record.kind == container::CREATED)
        else {
            return Err(failure(&record, None, None));
        };
        let [pid, stage, ..] = record.words;
        // The process that made it has gone by now, or will at once.
        if let Some(stage) = Pid::from_raw(stage as i32) {
            let _ = rustix::io::retry_on_intr(|| {
                rustix::process::waitpid(Some(stage), WaitOptions::empty())
            });
        }
        Ok(First {
            pid: pid as u32,
            pidfd,
            channel: self.channel,
            control: self.control,
            keeper: Some(self.keeper),
        })
    }
}

impl First {
    /// One that enters the namespaces of a container which is there.
    pub(super) fn enter(joined: Vec<(u64, OwnedFd)>) -> Result<Self, ContainerError> {
        Beginning::of(&Namespaces::default(), joined, container::ENTRANT)?.first()
    }

    /// What is done from outside for one that has a user namespace.
    fn outside(&self, plan: &Plan) -> Result<Outside, ContainerError> {
        let has_users = plan.namespaces.has(Namespace::User);
        Ok(Outside {
            users: self.users(plan)?,
            has_score: has_users && set_oom_score(plan, self.pid),
        })
    }

    /// Its user namespace, where a mount is mapped by it.
    fn users(&self, plan: &Plan) -> Result<Option<OwnedFd>, ContainerError> {
        let is_mapped = |step: &super::Step| matches!(step, super::Step::Bind(bind) if bind.mapped);
        if !plan.steps.iter().any(is_mapped) {
            return Ok(None);
        }
        let path = format!("/proc/{}/ns/{}", self.pid, Namespace::User.file());
        rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map(Some)
            .map_err(|errno| ContainerError::OpenNamespace {
                kind: Namespace::User.file(),
                path: path.into(),
                errno,
            })
    }

    pub(super) fn send(&self, message: &Encoded<'_>) -> Result<(), ContainerError> {
        let fds = message.fds();
        let mut rest = &message.body[..];
        send(&self.channel, &header(rest.len(), fds.len()), &fds)?;
        while !rest.is_empty() {
            let sent = rustix::io::retry_on_intr(|| {
                rustix::net::send(&self.channel, rest, SendFlags::NOSIGNAL)
            });
            match sent {
                Ok(sent) => rest = &rest[sent..],
                // What failed has left its reason in the channel.
                Err(Errno::PIPE | Errno::CONNRESET) => break,
                Err(errno) => return Err(ContainerError::Talk(errno)),
            }
        }
        Ok(())
    }

    /// What it says next; `None` when it is gone, or has become its program.
    pub(super) fn hear(&self) -> Result<Option<(wire::Record, VecDeque<OwnedFd>)>, ContainerError> {
        match receive_record(self.channel.as_fd()) {
            Ok(heard) => Ok(heard),
            Err(Errno::CONNRESET) => Ok(None),
            Err(errno) => Err(ContainerError::Talk(errno)),
        }
    }

    fn created(&self, terminal: Option<OwnedFd>) -> Result<Created, ContainerError> {
        let keeper = self.keeper.as_ref().ok_or(ContainerError::Gone)?;
        Ok(Created {
            pid: self.pid,
            keeper: keeper.pid(),
            pidfd: self.pidfd.try_clone().map_err(|_| ContainerError::Gone)?,
            terminal,
        })
    }

    /// Leaves the container to its keeper.
    fn let_go(
        mut self,
        processes: Option<OwnedFd>,
        namespaces: &[(u64, OwnedFd)],
    ) -> Result<(), ContainerError> {
        let namespaces_fds = namespaces.iter().map(|(_, namespace)| namespace.as_fd());
        let fds: Vec<_> = processes
            .iter()
            .map(AsFd::as_fd)
            .chain(namespaces_fds)
            .collect();
        let mut words = vec![processes.is_some().into(), namespaces.len() as u64];
        words.extend(namespaces.iter().map(|(kind, _)| kind));
        send(
            &self.control,
            &record_bytes(container::LET_GO, &words),
            &fds,
        )?;
        if let Some(keeper) = self.keeper.take() {
            keeper.leave();
        }
        Ok(())
    }

    /// It has become its program, and its keeper, which has nothing to keep, ends by itself.
    pub(super) fn leave(mut self) -> u32 {
        drop(self.keeper.take());
        self.pid
    }
}

impl Drop for First {
    /// Unless it was let go, it ends with its keeper, and this process waits for both: they are its children.
    fn drop(&mut self) {
        let Some(keeper) = self.keeper.take() else {
            return;
        };
        let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Both);
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
        drop(keeper);
        if let Some(pid) = Pid::from_raw(self.pid as i32) {
            let _ = rustix::io::retry_on_intr(|| {
                rustix::process::waitpid(Some(pid), WaitOptions::empty())
            });
        }
    }
}

pub(super) fn send(
    socket: impl AsFd,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Result<(), ContainerError> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(wire::MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(ContainerError::TooManyMounts {
            most: wire::MAX_FDS,
        });
    }
    let parts = [IoSlice::new(bytes)];
    rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)
        .map(drop)
        .map_err(ContainerError::Talk)
}

/// What a record of failure says, in words.
pub(super) fn failure(
    record: &wire::Record,
    plan: Option<&Plan>,
    program: Option<&str>,
) -> ContainerError {
    if record.kind != container::FAILED {
        return ContainerError::Silent;
    }
    let step = Step::from_number(record.words[0]);
    let item = record.words[1] as u32;
    let code = record.words[2] as i32;
    if step == Step::Hook {
        return ContainerError::Hook {
            what: super::plan::describe(plan, program, step, item),
            status: describe_status(code),
        };
    }
    let errno = Errno::from_raw_os_error(code);
    let what = super::plan::describe(plan, program, step, item);
    ContainerError::Step {
        what: match step {
            Step::Execute => for_engines(&what, errno),
            _ => what,
        },
        step,
        item,
        errno,
    }
}

/// Docker ends with 127 or 126 by these words, as they stand, and podman by the first.
fn for_engines(what: &str, errno: Errno) -> String {
    let words = match errno {
        Errno::NOENT => "executable file not found",
        Errno::ACCESS => "permission denied",
        _ => return what.into(),
    };
    what.replacen("policy: ", &format!("policy: {words}: "), 1)
}

fn describe_status(status: i32) -> String {
    match status & 0x7f {
        0 => format!("code {}", status >> 8 & 0xff),
        signal => format!("signal {signal}"),
    }
}
