//! A container's plan as the message that its first process reads: see [`crate::wire::container::op`].

use super::{Bind, ContainerError, Hook, Plan, Process, Source, Step, executable};
use crate::{
    launch::encode::Writer,
    seccomp, sys,
    wire::{
        self,
        container::{BY_PATH, op, pause},
    },
};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, StatxFlags},
    io::Errno,
    mount::OpenTreeFlags,
};
use std::{
    ffi::OsStr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

/// A message under construction, and the descriptors that go with it.
pub(super) struct Encoder<'a> {
    writer: Writer,
    /// The program's streams first.
    streams: Vec<BorrowedFd<'a>>,
    groups: Vec<OwnedFd>,
    /// The way to who answers calls; behind the groups.
    supervisor: Option<BorrowedFd<'a>>,
    handed_over: Vec<OwnedFd>,
    /// Which of them the mount is that was added last, if it is one.
    mounted: Option<usize>,
    /// What hooks read, before the start and at it.
    states: [String; 2],
    outside: Outside,
}

/// What whoever creates a container does for it, because a user namespace's root may not.
#[derive(Default)]
pub(super) struct Outside {
    /// The container's user namespace, by whose map files are shown as other users'.
    pub(super) users: Option<OwnedFd>,
    /// What the kernel weighs when memory runs out is said already.
    pub(super) has_score: bool,
}

/// The message, ready to be sent.
pub(super) struct Encoded<'a> {
    pub(super) body: Vec<u8>,
    streams: Vec<BorrowedFd<'a>>,
    groups: Vec<OwnedFd>,
    supervisor: Option<BorrowedFd<'a>>,
    handed_over: Vec<OwnedFd>,
}

impl Encoded<'_> {
    pub(super) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let groups = self.groups.iter().map(AsFd::as_fd);
        let handed_over = self.handed_over.iter().map(AsFd::as_fd);
        let streams = self.streams.iter().copied();
        streams
            .chain(groups)
            .chain(self.supervisor)
            .chain(handed_over)
            .collect()
    }
}

impl<'a> Encoder<'a> {
    /// The program finds `streams` open, from 0 on; `groups` are files to join control groups by; `supervisor` gets listeners, or
    /// tells an attendant of calls.
    pub(super) fn new(
        streams: &[BorrowedFd<'a>],
        groups: Vec<OwnedFd>,
        supervisor: Option<BorrowedFd<'a>>,
    ) -> Self {
        Self {
            writer: Writer::default(),
            streams: streams.to_vec(),
            groups,
            supervisor,
            handed_over: Vec::new(),
            mounted: None,
            states: Default::default(),
            outside: Outside::default(),
        }
    }

    pub(super) fn plan(
        &mut self,
        plan: &Plan,
        states: [String; 2],
        outside: Outside,
    ) -> Result<(), ContainerError> {
        self.states = states;
        self.outside = outside;
        for step in &plan.steps {
            self.step(step)?;
        }
        let words = [wire::CONTAINERS_TITLE, plan.id.as_bytes()];
        self.title(&[words[0], words[1], wire::CREATED_TITLE]);
        // What is executed is known before the pause, so that what is not there is told of then.
        self.program(&plan.process)?;
        self.writer.u32(op::OWN_FILTER).text(&seccomp::init()?);
        self.writer.u32(op::CHECK_PROGRAM);
        self.writer.u32(op::PAUSE).u32(pause::CREATED);
        self.title(&[words[0], words[1], wire::RUNNING_TITLE]);
        self.confinement(&plan.process);
        for hook in &plan.process.hooks {
            self.hook(hook, true);
        }
        Ok(())
    }

    fn title(&mut self, words: &[&[u8]]) {
        let title: Vec<u8> = words
            .iter()
            .flat_map(|word| [word, &b"\0"[..]])
            .flatten()
            .copied()
            .collect();
        self.writer.u32(op::TITLE).text(&title);
    }

    fn without_proc(&mut self, process: &Process) -> Result<(), ContainerError> {
        if process.without_proc {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let proc = rustix::fs::open("/proc", flags, Mode::empty());
            let index = self.hand_over(proc.map_err(ContainerError::OpenProc)?)?;
            self.writer.u32(op::WITHOUT_PROC).u32(index);
        }
        Ok(())
    }

    fn program(&mut self, process: &Process) -> Result<(), ContainerError> {
        self.without_proc(process)?;
        if let Some(path) = &process.executable {
            let index = self.hand_over(executable::open(path)?)?;
            self.writer.u32(op::EXECUTABLE).u32(index);
        }
        let writer = &mut self.writer;
        writer.u32(op::CWD).path(&process.cwd);
        writer.u32(op::PROGRAM);
        for texts in [
            &process.candidates,
            &process.arguments,
            &process.environment,
        ] {
            writer.texts(texts.iter().map(OsStr::new));
        }
        Ok(())
    }

    /// A process that becomes its program at once.
    pub(super) fn entrant(
        &mut self,
        process: &Process,
        terminal: Option<super::Terminal>,
    ) -> Result<(), ContainerError> {
        self.join_groups();
        if let Some(terminal) = terminal {
            self.terminal(terminal);
        }
        self.program(process)?;
        self.confinement(process);
        Ok(())
    }

    /// One that carries out calls for others, as it is told by the `supervisor`.
    pub(super) fn attendant(&mut self, process: &Process) -> Result<(), ContainerError> {
        self.join_groups();
        self.without_proc(process)?;
        self.confinement(process);
        let place = self.supervisors_place();
        self.writer.u32(op::ATTEND).u32(place);
        Ok(())
    }

    fn supervisors_place(&self) -> u32 {
        (self.streams.len() + self.groups.len()) as u32
    }

    fn join_groups(&mut self) {
        let first = self.streams.len() as u32;
        for index in 0..self.groups.len() as u32 {
            self.writer.u32(op::JOIN).u32(first + index);
        }
    }

    fn terminal(&mut self, terminal: super::Terminal) {
        self.writer
            .u32(op::TERMINAL)
            .u32(terminal.rows.into())
            .u32(terminal.columns.into())
            .u32(terminal.owner)
            .u32(terminal.at_console.into());
    }

    fn confinement(&mut self, process: &Process) {
        let streams = self.streams.len() as u32;
        let supervisor = self.supervisors_place();
        let writer = &mut self.writer;
        writer.u32(op::STREAMS).u32(streams);
        let credentials = &process.credentials;
        writer.u32(op::CREDENTIALS);
        writer
            .u32(credentials.uid)
            .u32(credentials.gid)
            .u32(credentials.umask)
            .u32(credentials.no_new_privs.into());
        for set in [
            credentials.bounding,
            credentials.effective,
            credentials.permitted,
            credentials.inheritable,
            credentials.ambient,
        ] {
            writer.u64(set);
        }
        let groups = credentials.groups.iter();
        let groups: Vec<u8> = groups.flat_map(|group| group.to_ne_bytes()).collect();
        writer.text(&groups);
        for (resource, soft, hard) in &process.limits {
            writer.u32(op::RLIMIT).u32(*resource).u64(*soft).u64(*hard);
        }
        for (at, (program, flags)) in process.filters.iter().enumerate() {
            let asks = process.asks == Some(at);
            writer
                .u32(op::FILTER)
                .text(program)
                .u32(*flags)
                .u32(if asks { supervisor + 1 } else { 0 });
        }
        if let Some(handled) = process.landlock {
            writer.u32(op::LANDLOCK);
            for rights in handled {
                writer.u64(rights);
            }
        }
        for (file, text) in &process.labels {
            writer.u32(op::LABEL).path(file).text(text.as_bytes());
        }
        if process.new_keyring {
            writer.u32(op::KEYRING);
        }
        if let Some(scheduler) = &process.scheduler {
            writer.u32(op::SCHEDULER).text(scheduler);
        }
        if let Some(priority) = process.io_priority {
            writer.u32(op::IO_PRIORITY).u32(priority);
        }
        if let Some(personality) = process.personality {
            writer.u32(op::PERSONALITY).u32(personality);
        }
        if let Some(affinity) = &process.affinity {
            writer.u32(op::AFFINITY).text(affinity);
        }
    }

    fn hook(&mut self, hook: &Hook, confined: bool) {
        let seconds = hook.patience.map_or(0, |most| most.as_secs().max(1));
        let writer = &mut self.writer;
        writer
            .u32(op::HOOK)
            .u32(confined.into())
            .u32(u32::try_from(seconds).unwrap_or(u32::MAX))
            .path(&hook.path);
        writer.texts(hook.arguments.iter().map(OsStr::new));
        writer.texts(hook.environment.iter().map(OsStr::new));
        writer.text(self.states[usize::from(confined)].as_bytes());
    }

    fn step(&mut self, step: &Step) -> Result<(), ContainerError> {
        match step {
            Step::JoinGroups => self.join_groups(),
            Step::Bind(bind) => self.bind(bind)?,
            Step::Root {
                source: Source(path),
                is_on_top,
            } => {
                self.writer.u32(op::ROOT);
                self.source(path, true)?;
                self.writer
                    .path(if *is_on_top { Path::new("/") } else { path });
            }
            Step::Hook(hook) => self.hook(hook, false),
            Step::OomScore { .. } if self.outside.has_score => {}
            Step::Terminal(terminal) => self.terminal(*terminal),
            other => self.plain(other),
        }
        Ok(())
    }

    fn plain(&mut self, step: &Step) {
        let writer = &mut self.writer;
        match step {
            Step::JoinGroups
            | Step::Bind(_)
            | Step::Root { .. }
            | Step::Hook(_)
            | Step::Terminal(_) => {}
            Step::OwnGroups => drop(writer.u32(op::CGROUP_NAMESPACE)),
            Step::Propagation { flag } => drop(writer.u32(op::PROPAGATION).u64(*flag)),
            Step::Setting { path, value } => {
                writer.u32(op::SETTING).path(path).text(value.as_bytes());
            }
            Step::HostName { name } => drop(writer.u32(op::HOST_NAME).text(name.as_bytes())),
            Step::DomainName { name } => drop(writer.u32(op::DOMAIN_NAME).text(name.as_bytes())),
            Step::Mount {
                kind,
                source,
                target,
                attributes,
                propagation,
                copies,
                options,
            } => {
                writer
                    .u32(op::MOUNT)
                    .text(kind.as_bytes())
                    .text(source.as_bytes())
                    .path(target)
                    .u64(*attributes)
                    .u64(*propagation)
                    .u32((*copies).into())
                    .u32(options.len() as u32);
                for (key, value) in options {
                    writer.text(key.as_bytes()).u32(value.is_some().into());
                    if let Some(value) = value {
                        writer.text(value.as_bytes());
                    }
                }
            }
            Step::Device {
                path,
                mode,
                number,
                owner,
            } => {
                writer
                    .u32(op::DEVICE)
                    .path(path)
                    .u32(*mode)
                    .u32(number.0)
                    .u32(number.1)
                    .u32(owner.0)
                    .u32(owner.1);
            }
            Step::Link { path, target } => drop(writer.u32(op::SYMLINK).path(target).path(path)),
            Step::Folder { path, mode } => drop(writer.u32(op::FOLDER).path(path).u32(*mode)),
            Step::TellNamespaces => drop(writer.u32(op::PAUSE).u32(pause::NAMESPACES)),
            Step::EnterRoot { without_pivot } => {
                writer.u32(op::ENTER_ROOT).u32((*without_pivot).into());
            }
            Step::Restrict {
                path,
                attributes,
                recursive,
            } => {
                writer
                    .u32(op::RESTRICT)
                    .path(path)
                    .u64(*attributes)
                    .u32((*recursive).into());
            }
            Step::Mask { path } => drop(writer.u32(op::MASK).path(path)),
            Step::RootAttributes {
                attributes,
                propagation,
            } => {
                writer
                    .u32(op::ROOT_ATTRIBUTES)
                    .u64(*attributes)
                    .u64(*propagation);
            }
            Step::OomScore { score } => {
                writer.u32(op::OOM_SCORE).text(score.to_string().as_bytes());
            }
        }
    }

    fn bind(&mut self, bind: &Bind) -> Result<(), ContainerError> {
        self.writer.u32(op::BIND);
        let is_folder = self.source(&bind.source, bind.recursive)?;
        if bind.mapped {
            self.map_last(bind)?;
        }
        self.writer
            .u32(bind.recursive.into())
            .u64(bind.set)
            .u64(bind.clear)
            .u64(bind.set_below)
            .u64(bind.clear_below)
            .u64(bind.propagation)
            .path(&bind.target)
            .u32(is_folder.into());
        Ok(())
    }

    /// Who may mounts it here, so that what lies at the path is what is mounted, whoever the container's root is. Else the
    /// container's first process does, and finds that file or nothing. Tells whether it is a folder.
    fn source(&mut self, path: &Path, recursive: bool) -> Result<bool, ContainerError> {
        let refused = |errno| ContainerError::OpenSource {
            path: path.into(),
            errno,
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(refused)?;
        let about = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
            .map_err(refused)?;
        let is_folder = u32::from(about.stx_mode) & libc::S_IFMT == libc::S_IFDIR;
        let mut how = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH;
        if recursive {
            how |= OpenTreeFlags::AT_RECURSIVE;
        }
        match rustix::mount::open_tree(&file, "", how) {
            Ok(mount) => {
                let index = self.hand_over(mount)?;
                self.mounted = Some(self.handed_over.len() - 1);
                self.writer.u32(index);
            }
            Err(Errno::PERM) => {
                self.mounted = None;
                let found = rustix::fs::readlinkat(
                    CWD,
                    format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)),
                    Vec::new(),
                )
                .map_err(refused)?;
                self.writer
                    .u32(BY_PATH)
                    .text(found.as_bytes())
                    .u32(about.stx_dev_major)
                    .u32(about.stx_dev_minor)
                    .u64(about.stx_ino);
            }
            Err(errno) => return Err(refused(errno)),
        }
        Ok(is_folder)
    }

    /// Gives the index of a descriptor that goes with the message.
    fn hand_over(&mut self, fd: OwnedFd) -> Result<u32, ContainerError> {
        let before = self.supervisors_place() as usize + self.supervisor.iter().len();
        let index = before + self.handed_over.len();
        if index >= wire::MAX_FDS {
            return Err(ContainerError::TooManyMounts {
                most: wire::MAX_FDS,
            });
        }
        self.handed_over.push(fd);
        Ok(index as u32)
    }

    /// The mount that was added last is mapped while it is nowhere yet: later the kernel does not (mount_setattr(2)). Who may not mount
    /// here may not map either.
    fn map_last(&self, bind: &Bind) -> Result<(), ContainerError> {
        let mount = self.mounted.and_then(|at| self.handed_over.get(at));
        let (Some(users), Some(mount)) = (&self.outside.users, mount) else {
            return Err(map_error(bind, Errno::PERM));
        };
        sys::map_mount(mount.as_fd(), users.as_fd(), bind.mapped_below)
            .map_err(|errno| map_error(bind, errno))
    }

    pub(super) fn finish(self) -> Encoded<'a> {
        Encoded {
            body: self.writer.finish(),
            streams: self.streams,
            groups: self.groups,
            supervisor: self.supervisor,
            handed_over: self.handed_over,
        }
    }
}

fn map_error(bind: &Bind, errno: Errno) -> ContainerError {
    ContainerError::MapMount {
        path: bind.source.clone(),
        errno,
    }
}
