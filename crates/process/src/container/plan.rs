//! A container as data.

use super::Namespaces;
use crate::wire::container::{Step as Failed, proc};
use serde::Serialize;
use std::{path::PathBuf, time::Duration};

/// Every step of one container, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// What it is called.
    pub id: String,
    /// Its namespaces.
    pub namespaces: Namespaces,
    /// What its first process does before it waits for the start.
    pub steps: Vec<Step>,
    /// What it does then, and its program.
    pub process: Process,
}

/// A path on the host. What lies there when the container is created is what is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Source(pub PathBuf);

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// Join prepared control groups, each by its position among [`super::Given::groups`].
    JoinGroups,
    /// Take them for the root of all.
    OwnGroups,
    /// How the host's later mounts reach the container's copies, which leave with the host's files: `MS_*`.
    Propagation {
        /// The flag.
        flag: u64,
    },
    /// A setting of the kernel's that is the namespaces' own.
    Setting {
        /// Its file.
        path: PathBuf,
        /// What it is set to.
        value: String,
    },
    /// Host name.
    HostName {
        /// The name.
        name: String,
    },
    /// NIS domain name.
    DomainName {
        /// The name.
        name: String,
    },
    /// The image's files.
    Root {
        /// Where they are.
        source: Source,
        /// On top of the host's root, not where they are.
        is_on_top: bool,
    },
    /// A file system of its own.
    Mount {
        /// Its kind.
        kind: String,
        /// What is shown as its device.
        source: String,
        /// Where.
        target: PathBuf,
        /// `MOUNT_ATTR_*`.
        attributes: u64,
        /// `MS_*` of propagation, or 0.
        propagation: u64,
        /// It begins with what the image has there.
        copies: bool,
        /// What the file system is told.
        options: Vec<(String, Option<String>)>,
    },
    /// Something of the host's.
    Bind(Bind),
    /// A device node.
    Device {
        /// Where.
        path: PathBuf,
        /// Kind and permission bits.
        mode: u32,
        /// Major and minor number.
        number: (u32, u32),
        /// Owner and group.
        owner: (u32, u32),
    },
    /// A symlink where nothing is.
    Link {
        /// Where.
        path: PathBuf,
        /// What it says.
        target: PathBuf,
    },
    /// A folder, with those that lead there.
    Folder {
        /// Where.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
    },
    /// Whoever creates the container is told, and says when to go on.
    TellNamespaces,
    /// A program of the engine's, in the container's namespaces and among the host's files.
    Hook(Hook),
    /// A terminal.
    Terminal(Terminal),
    /// The host's files become unreachable.
    EnterRoot {
        /// The root is one that nothing can be pivoted out of.
        without_pivot: bool,
    },
    /// Attributes on a path, if it is there.
    Restrict {
        /// The path.
        path: PathBuf,
        /// `MOUNT_ATTR_*`.
        attributes: u64,
        /// With what is mounted below.
        recursive: bool,
    },
    /// Nothing can be seen at a path, if there is something.
    Mask {
        /// The path.
        path: PathBuf,
    },
    /// Attributes of the root itself.
    RootAttributes {
        /// `MOUNT_ATTR_*`.
        attributes: u64,
        /// `MS_*` of propagation, or 0.
        propagation: u64,
    },
    /// How readily it is ended when memory runs out (proc(5)).
    OomScore {
        /// From -1000 to 1000.
        score: i32,
    },
}

/// Something of the host's, mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bind {
    /// Where it is.
    pub source: PathBuf,
    /// Where it appears.
    pub target: PathBuf,
    /// With what is mounted below.
    pub recursive: bool,
    /// `MOUNT_ATTR_*` to set.
    pub set: u64,
    /// To clear.
    pub clear: u64,
    /// To set on what is mounted below, too.
    pub set_below: u64,
    /// To clear there.
    pub clear_below: u64,
    /// `MS_*` of propagation.
    pub propagation: u64,
    /// Whose its files are is told as by the container's user namespace, as if they were made in it (`MOUNT_ATTR_IDMAP`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mapped: bool,
    /// And those of what is mounted below.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mapped_below: bool,
}

/// A terminal of the container's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Terminal {
    /// Its height, or 0.
    pub rows: u16,
    /// Its width, or 0.
    pub columns: u16,
    /// Whose it is inside.
    pub owner: u32,
    /// `/dev/console` is it.
    pub at_console: bool,
}

/// A program that the engine has run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hook {
    /// Its file.
    pub path: PathBuf,
    /// Its name and arguments.
    pub arguments: Vec<String>,
    /// `NAME=VALUE` each.
    pub environment: Vec<String>,
    /// How long it may take.
    pub patience: Option<Duration>,
}

/// The container's program, and all that its process does to itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Hooks that run as the container's own before the program.
    pub hooks: Vec<Hook>,
    /// Paths to try for the program, in order.
    pub candidates: Vec<String>,
    /// Its own name and its arguments.
    pub arguments: Vec<String>,
    /// `NAME=VALUE` each.
    pub environment: Vec<String>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Whom it runs as.
    pub credentials: Credentials,
    /// Resource, soft and hard limit: setrlimit(2).
    pub limits: Vec<(u32, u64, u64)>,
    /// Programs of system-call filters, and flags of seccomp(2).
    #[serde(skip)]
    pub filters: Vec<(Vec<u8>, u32)>,
    /// Which of them leaves calls to a supervisor, by its position.
    pub asks: Option<usize>,
    /// Landlock without a rule: file rights, network rights and scopes that nothing is allowed of.
    pub landlock: Option<[u64; 3]>,
    /// A file of `/proc/self/attr` and what to write there.
    pub labels: Vec<(PathBuf, String)>,
    /// A session keyring of its own.
    pub new_keyring: bool,
    /// `struct sched_attr` (sched_setattr(2)).
    pub scheduler: Option<Vec<u8>>,
    /// ioprio_set(2).
    pub io_priority: Option<u32>,
    /// personality(2).
    pub personality: Option<u32>,
    /// A mask of processors.
    pub affinity: Option<Vec<u8>>,
    /// A program of the host's that is executed in place of what the image has: with these arguments, and by no name that the
    /// container knows.
    pub executable: Option<PathBuf>,
    /// Not one file system of the kind `proc` is in the container.
    pub without_proc: bool,
}

/// Whom a program runs as, and with which capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Credentials {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
    /// umask(2).
    pub umask: u32,
    /// No program gives it more (prctl(2)).
    pub no_new_privs: bool,
    /// Sets of capabilities, a bit each.
    pub bounding: u64,
    /// The same.
    pub effective: u64,
    /// The same.
    pub permitted: u64,
    /// The same.
    pub inheritable: u64,
    /// The same.
    pub ambient: u64,
}

const PROC_IS_THERE: &str = "policy: a /proc is mounted in the container, and by it a WebAssembly program could reach the \
                             memory of what runs it: mount nothing that has one below (as the host's / has), or without \
                             what is below";

/// What failed, in words, and whose fault it is.
pub(super) fn describe(
    plan: Option<&Plan>,
    program: Option<&str>,
    step: Failed,
    item: u32,
) -> String {
    let steps = || plan.into_iter().flat_map(|plan| &plan.steps);
    let nth = |is_it: &dyn Fn(&Step) -> bool| steps().filter(|step| is_it(step)).nth(item as usize);
    match step {
        Failed::Mount => match nth(&|step| matches!(step, Step::Mount { .. })) {
            Some(Step::Mount { kind, target, .. }) => {
                format!("policy: a file system of the kind {kind} cannot be mounted at {target:?}")
            }
            _ => "host: /sys of the network that is joined cannot be mounted".into(),
        },
        Failed::Bind | Failed::SourceChanged => match nth(&|step| matches!(step, Step::Bind(_))) {
            Some(Step::Bind(bind)) => format!(
                "policy: {:?} cannot be mounted at {:?}",
                bind.source, bind.target
            ),
            _ => "policy: the image's root cannot be mounted".into(),
        },
        Failed::Device => match nth(&|step| matches!(step, Step::Device { .. })) {
            Some(Step::Device { path, .. }) => {
                format!("policy: the device {path:?} cannot be made")
            }
            _ => "policy: a device cannot be made".into(),
        },
        Failed::Setting => match nth(&|step| matches!(step, Step::Setting { .. })) {
            Some(Step::Setting { path, value }) => {
                format!("policy: {path:?} cannot be set to {value:?}")
            }
            _ => "policy: a kernel setting cannot be set".into(),
        },
        Failed::Hook => {
            let hooks = plan.map(|plan| {
                let inside = plan.process.hooks.iter();
                let outside = plan.steps.iter().filter_map(|step| match step {
                    Step::Hook(hook) => Some(hook),
                    _ => None,
                });
                outside.chain(inside).nth(item as usize)
            });
            match hooks.flatten() {
                Some(hook) => format!("policy: the hook {:?}", hook.path),
                None => "policy: a hook".into(),
            }
        }
        Failed::ProcInReach if item == proc::IS_THERE => PROC_IS_THERE.into(),
        Failed::Execute => match program {
            Some(program) => format!("policy: {program:?} cannot be executed"),
            None => "policy: the program cannot be executed".into(),
        },
        other => format!("{} ({item})", words(other)),
    }
}

fn words(step: Failed) -> &'static str {
    match step {
        Failed::Decode => "wall: the container's plan is not understood",
        Failed::JoinNamespace => "host: a namespace cannot be joined",
        Failed::MakeNamespaces => "host: namespaces cannot be made",
        Failed::SetIds => "policy: the user namespace has no root",
        Failed::Root => "policy: the image's root cannot be mounted",
        Failed::Link => "policy: a link of /dev cannot be made",
        Failed::Folder => "policy: the working directory cannot be made",
        Failed::HostName => "policy: the host name cannot be set",
        Failed::EnterRoot => "host: the image's root cannot be entered",
        Failed::Restrict => "policy: a path cannot be made read-only",
        Failed::Mask => "policy: a path cannot be masked",
        Failed::Terminal => "policy: a terminal cannot be opened: does the container mount devpts?",
        Failed::OomScore => "policy: oomScoreAdj cannot be set",
        Failed::JoinCgroup => "host: a control group cannot be joined",
        Failed::CgroupNamespace => "host: a cgroup namespace cannot be made",
        Failed::Streams => "wall: the streams cannot be set up",
        Failed::Limit => "policy: a resource limit cannot be set",
        Failed::Keyring => "host: a keyring cannot be made",
        Failed::Label => "policy: the label of a security module cannot be set",
        Failed::Landlock => "host: Landlock's rules cannot be set",
        Failed::Filter => "policy: the system-call filter cannot be loaded",
        Failed::Credentials => "policy: user, groups or capabilities cannot be set",
        Failed::WorkingDirectory => "policy: the working directory cannot be entered",
        Failed::Scheduling => "policy: scheduling cannot be set",
        Failed::NoNewPrivileges => "host: no_new_privs cannot be set",
        Failed::Loopback => {
            "host: the loopback of the container's own network cannot be brought up"
        }
        Failed::Seal => "policy: the root cannot be made read-only",
        Failed::ProcInReach => "host: the container's mounts cannot be listed",
        _ => "wall: the container's process cannot be made",
    }
}
