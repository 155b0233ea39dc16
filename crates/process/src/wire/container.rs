//! What is said about a container: to its keeper, to its init, and at the keeper's door.
//!
//! ```text
//! who creates it ──control (SEQPACKET)──▶ keeper   CREATE, then LET_GO; CREATED or FAILED back
//! who creates it ──channel (STREAM)─────▶ init     one message of instructions, then PAUSED and GO_ON
//! who starts it ──door──▶ keeper ──gate──▶ init     START with a session; STARTED or FAILED on that
//! who enters it ──channel (STREAM)──────▶ entrant  one message of instructions; FAILED, or the end
//! ```

/// Make the namespaces and their first process. Words: see [`create`]. Descriptors: its channel; namespaces to join, in
/// the order in which they are entered.
pub const CREATE: u64 = 96;
/// Whoever created the container leaves. Words: 1 if the first descriptor is a `cgroup.procs` file, for what has no PID 1 that would
/// end the rest; how many namespaces follow, and their `CLONE_NEW*` each. Descriptors: these.
pub const LET_GO: u64 = 97;
/// Go on after a [`PAUSED`].
pub const GO_ON: u64 = 98;
/// At the door: start the program. Descriptor: a session.
pub const START: u64 = 99;
/// At the door: which namespaces is it in? Descriptor: a session, on which a record of the same kind answers. Words: how many, and
/// their `CLONE_NEW*` each, or [`SUPERVISOR`]. Descriptors: they.
pub const NAMESPACES: u64 = 100;
/// To a supervisor: the calls of a program that is about to be executed arrive here. Descriptor: a listener, seccomp_unotify(2).
pub const LISTENER: u64 = 101;

/// To a supervisor: what its container's processes join. Descriptors: files of control groups. [`NAMESPACES`] comes before, its
/// first word the pid of the container's first process.
pub const GROUPS: u64 = 102;

/// Among namespaces: the way to who answers calls on the network, with whom the container ends.
pub const SUPERVISOR: u64 = 0;

/// The first process exists. Words: its pid on the host, that of who made it, which is to be waited for. Descriptor: a pidfd of
/// the first.
pub const CREATED: u64 = 112;
/// A step failed. Words: a number of [`Step`], which of its kind, the kernel's answer.
pub const FAILED: u64 = 113;
/// Instructions up to an [`op::PAUSE`] are carried out. Words: which; before the start also 1 if there is a terminal, how many
/// namespaces it is in, and their `CLONE_NEW*` each. Descriptors: these.
pub const PAUSED: u64 = 114;
/// The program runs.
pub const STARTED: u64 = 115;

/// Positions in the words of [`CREATE`].
pub mod create {
    /// Namespaces to make: `CLONE_NEW*`.
    pub const MADE: usize = 0;
    /// Of [`super::ENTRANT`], [`super::SHARED_PROCESSES`] and [`super::WITH_SYSFS`].
    pub const FLAGS: usize = 1;
    /// How many are joined, and then their `CLONE_NEW*` each.
    pub const JOINED: usize = 2;
    /// Most of them.
    pub const MOST_JOINED: usize = 8;
}

/// The first process is no init: it becomes the program itself, in a container that is there.
pub const ENTRANT: u64 = 1;
/// The pid namespace is somebody else's too.
pub const SHARED_PROCESSES: u64 = 2;

/// `/sys` is to be that of a network which is joined: mounted before there is a user namespace, in which nobody may.
pub const WITH_SYSFS: u64 = 4;

/// Where a source is told by its path: the index that stands for none.
pub const BY_PATH: u32 = u32::MAX;

/// What one instruction does. Strings are a `u32` length, the bytes and a NUL; a *source* is the index of a descriptor of the
/// message, a detached mount, or [`BY_PATH`] and then a path, device major and minor, and inode of what must lie there.
pub mod op {
    /// How mounts of the host's reach the container's copy of them: `MS_*` (low, high).
    pub const PROPAGATION: u32 = 1;
    /// The root: a source.
    pub const ROOT: u32 = 2;
    /// A file system of its own: kind, source, target, `MOUNT_ATTR_*` (low, high), propagation (low, high); 1 if it begins with what
    /// the image has there; a count of options, each a key, 1 and a value or 0.
    pub const MOUNT: u32 = 3;
    /// Something of the host's: a source, 1 if with what is mounted below; attributes to set, to clear, to set and to clear on what
    /// is below too, propagation (low, high each); target; 1 for a folder.
    pub const BIND: u32 = 4;
    /// A device node: path, mode with its kind, major, minor, owner, group.
    pub const DEVICE: u32 = 5;
    /// A symlink, unless something is there: what it says, path.
    pub const SYMLINK: u32 = 6;
    /// A folder and those that lead there: path, mode.
    pub const FOLDER: u32 = 7;
    /// A kernel setting of the namespaces': the file in `/proc/sys`, what to write.
    pub const SETTING: u32 = 8;
    /// Host name.
    pub const HOST_NAME: u32 = 9;
    /// Domain name of the NIS kind.
    pub const DOMAIN_NAME: u32 = 10;
    /// Tell, and wait: which pause it is.
    pub const PAUSE: u32 = 11;
    /// Run a program and wait for its end: 1 if confined as the container's own; seconds that it may take, or 0; path; arguments and
    /// variables, each a count and that many strings; what it reads.
    pub const HOOK: u32 = 12;
    /// Leave the host's files: 1 for a root that nothing can be pivoted out of.
    pub const ENTER_ROOT: u32 = 13;
    /// Attributes on a path and all below it, through a mount of its own: path, attributes (low, high).
    pub const RESTRICT: u32 = 14;
    /// Something empty over a path, if it is there.
    pub const MASK: u32 = 15;
    /// Attributes of the root's mount, not of what is below: attributes (low, high), propagation (low, high).
    pub const ROOT_ATTRIBUTES: u32 = 16;
    /// A terminal: rows, columns, owner; 1 if `/dev/console` is it.
    pub const TERMINAL: u32 = 17;
    /// What the kernel weighs when memory runs out: what to write to `oom_score_adj`.
    pub const OOM_SCORE: u32 = 18;
    /// Write `0` into an open file of a control group: index of a descriptor.
    pub const JOIN: u32 = 19;
    /// A cgroup namespace, now that its groups are joined.
    pub const CGROUP_NAMESPACE: u32 = 20;
    /// What to execute: candidates, arguments, variables, each a count and that many strings.
    pub const PROGRAM: u32 = 21;
    /// Fail unless one of the candidates can be executed.
    pub const CHECK_PROGRAM: u32 = 22;
    /// Working directory.
    pub const CWD: u32 = 23;
    /// Whom it runs as, and with what: uid, gid, umask, 1 for `no_new_privs`; bounding, effective, permitted, inheritable and
    /// ambient capabilities (low, high each); a count of groups, and they.
    pub const CREDENTIALS: u32 = 24;
    /// One resource limit: resource, soft (low, high), hard (low, high).
    pub const RLIMIT: u32 = 25;
    /// A system-call filter: its program, flags of seccomp(2), 1 + the index of a descriptor on which its listener goes to a
    /// supervisor, or 0.
    pub const FILTER: u32 = 26;
    /// What a security module is told: a file in `/proc/self/attr`, what to write.
    pub const LABEL: u32 = 27;
    /// A session keyring of its own.
    pub const KEYRING: u32 = 28;
    /// How many descriptors of the message the program finds open, from 0 on.
    pub const STREAMS: u32 = 29;
    /// `struct sched_attr`.
    pub const SCHEDULER: u32 = 30;
    /// What ioprio_set(2) takes.
    pub const IO_PRIORITY: u32 = 31;
    /// What personality(2) takes.
    pub const PERSONALITY: u32 = 32;
    /// Processors, as a mask.
    pub const AFFINITY: u32 = 33;
    /// Landlock without rules: file rights, network rights, scopes (low, high each).
    pub const LANDLOCK: u32 = 34;
    /// What init is called from here on.
    pub const TITLE: u32 = 35;
    /// The filter that init loads itself once the program runs: its program.
    pub const OWN_FILTER: u32 = 36;
    /// Of a process that enters: no program, but calls on local sockets for others. Index of the descriptor where they are asked for.
    pub const ATTEND: u32 = 39;
    /// A program of the host's that is executed in the candidates' place: index of a descriptor.
    pub const EXECUTABLE: u32 = 37;
    /// Fail if a file system of the kind `proc` is among the mounts. What is done to this process by files of `/proc` is done by
    /// the one that is handed over: index of a descriptor.
    pub const WITHOUT_PROC: u32 = 38;
}

/// Pauses of a container.
pub mod pause {
    /// Its namespaces are there, its root is not yet the root.
    pub const NAMESPACES: u32 = 0;
    /// It waits for its start.
    pub const CREATED: u32 = 1;
}

/// Which part of [`Step::ProcInReach`] failed.
pub mod proc {
    /// The mounts cannot be opened.
    pub const OPEN: u32 = 0;
    /// They cannot be read.
    pub const READ: u32 = 1;
    /// One is of the kind.
    pub const IS_THERE: u32 = 2;
}

/// The step in which something failed.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "each step is explained by the error it becomes"
)]
pub enum Step {
    Unknown = 0,
    Decode = 1,
    JoinNamespace = 2,
    MakeNamespaces = 3,
    SetIds = 4,
    Root = 5,
    Mount = 6,
    Bind = 7,
    Device = 8,
    Link = 9,
    Folder = 10,
    Setting = 11,
    HostName = 12,
    Hook = 13,
    EnterRoot = 14,
    Restrict = 15,
    Mask = 16,
    Terminal = 17,
    OomScore = 18,
    JoinCgroup = 19,
    CgroupNamespace = 20,
    Streams = 21,
    Limit = 22,
    Keyring = 23,
    Label = 24,
    Landlock = 25,
    Filter = 26,
    Credentials = 27,
    WorkingDirectory = 28,
    Execute = 29,
    Scheduling = 30,
    Session = 31,
    Spawn = 32,
    NoNewPrivileges = 33,
    SourceChanged = 34,
    Seal = 35,
    Loopback = 36,
    ProcInReach = 37,
}

impl Step {
    /// The step with this number.
    pub fn from_number(number: u64) -> Self {
        let step = usize::try_from(number).ok().and_then(|at| STEPS.get(at));
        step.copied().unwrap_or(Self::Unknown)
    }
}

/// Each at its number.
const STEPS: [Step; 38] = [
    Step::Unknown,
    Step::Decode,
    Step::JoinNamespace,
    Step::MakeNamespaces,
    Step::SetIds,
    Step::Root,
    Step::Mount,
    Step::Bind,
    Step::Device,
    Step::Link,
    Step::Folder,
    Step::Setting,
    Step::HostName,
    Step::Hook,
    Step::EnterRoot,
    Step::Restrict,
    Step::Mask,
    Step::Terminal,
    Step::OomScore,
    Step::JoinCgroup,
    Step::CgroupNamespace,
    Step::Streams,
    Step::Limit,
    Step::Keyring,
    Step::Label,
    Step::Landlock,
    Step::Filter,
    Step::Credentials,
    Step::WorkingDirectory,
    Step::Execute,
    Step::Scheduling,
    Step::Session,
    Step::Spawn,
    Step::NoNewPrivileges,
    Step::SourceChanged,
    Step::Seal,
    Step::Loopback,
    Step::ProcInReach,
];

const _: () = {
    let mut number = 0;
    while number < STEPS.len() {
        assert!(STEPS[number] as usize == number);
        number += 1;
    }
};
