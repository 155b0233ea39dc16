//! Why a guest did not start.

use crate::{
    cgroup::{CreateError, EnterError},
    keeper::KeeperError,
    plan::Plan,
    seccomp::CompileError,
    steps,
    wire::Step,
};
use palisade_policy::Transport;
use palisade_wall::Cause;
use rustix::io::Errno;
use std::{net::SocketAddr, path::PathBuf};

/// A step of a launch failed. Nothing of the domain is left.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
#[non_exhaustive]
pub enum LaunchError {
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    #[error("wall: the system-call filter does not compile: {0}")]
    CompileFilter(#[from] CompileError),
    #[error(
        "policy: {stream} is a folder, by which the guest could leave its domain: redirect it elsewhere"
    )]
    StreamIsFolder { stream: &'static str },
    #[error("host: {stream} cannot be used: {errno}; redirect it, to /dev/null for none")]
    BadStream {
        stream: &'static str,
        #[source]
        errno: Errno,
    },
    #[error("policy: {stream} is {what}: {advice}")]
    StreamRefused {
        stream: &'static str,
        what: &'static str,
        advice: &'static str,
    },
    #[error(
        "host: stdin is a file that cannot be opened for the guest: {errno}; it may have been moved while the domain \
         started: run again, or pass it through a pipe"
    )]
    ReopenInput {
        #[source]
        errno: Errno,
    },
    #[error("wall: cannot make sockets for the guest's streams: {errno}")]
    PairStreams {
        #[source]
        errno: Errno,
    },
    #[error("host: cannot make a thread or process for the guest's streams: {0}")]
    Relay(#[source] std::io::Error),
    #[error("host: cannot name a control group: {0}")]
    NameLeaf(#[source] std::io::Error),
    #[error(transparent)]
    CreateLeaf(#[from] CreateError),
    #[error(transparent)]
    EnterLeaf(#[from] EnterError),
    #[error("wall: cannot send the launch message: {0}")]
    Send(#[source] Errno),
    #[error("host: cannot make a thread or process for the guest's network: {0}")]
    Broker(#[source] std::io::Error),
    #[error("host: cannot listen at {transport}://{address}: {errno}{}", listen_advice(*errno))]
    Listen {
        transport: Transport,
        address: SocketAddr,
        #[source]
        errno: Errno,
    },
    #[error(
        "host: no socket was passed to this process (LISTEN_FDS, LISTEN_PID), and --listen inherited passes it on; \
         start palisade by socket activation"
    )]
    NothingInherited,
    #[error(
        "host: LISTEN_FDS names {count} sockets, and no more than {} can be passed on; pass fewer",
        crate::sys::MOST_INHERITED
    )]
    TooManyInherited { count: usize },
    #[error(
        "host: the plan hands over more sockets than the launch was given; give it all of them"
    )]
    NotHandedOver,
    #[error("host: what LISTEN_FDS names is no socket to listen at: {0}")]
    Inherit(#[source] Errno),
    #[error("wall: cannot hear from the domain: {0}")]
    Receive(#[source] Errno),
    #[error(
        "wall: the domain's init ended before the guest was started; it may have been killed from outside"
    )]
    InitGone,
    #[error(
        "host: the guest's process was killed before it began its program, by somebody outside or for want of memory; run again"
    )]
    GuestKilled,
    #[error(
        "host: cannot make {} for --exec: the folder around it is another user's: make it first, with mkdir -p",
        path.display()
    )]
    OfAnotherUser { path: PathBuf },
    #[error("host: cannot make {} for --exec: {errno}; make it first, with mkdir -p", path.display())]
    MakeFolder {
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error(
        "host: cannot make a temporary folder for the guest in {}: {errno}; --env TMPDIR=PATH together with --write PATH \
         gives it one of yours",
        folder.display()
    )]
    MakeTemporary {
        folder: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("host: cannot keep {} from coming into being: {errno}; --protect needs to create an empty placeholder there", path.display())]
    HoldPath {
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error(
        "host: another program locks {}, an empty placeholder that keeps the path from coming into being; end that program \
         (lslocks(8) names it) or remove the file, and run again",
        path.display()
    )]
    PlaceholderLocked { path: PathBuf },
    #[error(
        "host: cannot watch {} for being moved: {errno}{}",
        path.display(), watch_advice(*errno)
    )]
    Watch {
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error(
        "host: a protected path was replaced while the domain started; run again if that was you"
    )]
    GuardedChanged,
    #[error("host: cannot open {} for a grant: {errno}", path.display())]
    OpenSource {
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("host: {} was replaced while the domain started; run again if that was you", path.display())]
    SourceChanged { path: PathBuf },
    #[error("host: cannot restrict the mount of {}: {errno}", path.display())]
    SetMountAttributes {
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error(
        "host: the file system of {} cannot show its files as the guest's ({errno}), and others may not use them; \
         open its permissions, copy it elsewhere, or run palisade as its owner",
        path.display()
    )]
    CannotMapOwner {
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("host: the domain's root cannot be built: {step:?}: {errno}{advice}")]
    BuildRoot {
        step: Step,
        #[source]
        errno: Errno,
        advice: &'static str,
    },
    #[error(
        "host: cannot bound what the guest takes of its starter's inotify instances and watches, and of user namespaces: {errno}; /proc/sys/user must be \
         writable in a user namespace, which in a container takes a /proc of its own"
    )]
    BoundQuotas {
        #[source]
        errno: Errno,
    },
    #[error("{fault}: {what}: {errno}")]
    Build {
        fault: &'static str,
        what: String,
        #[source]
        errno: Errno,
    },
    #[error(
        "host: another supervisor around palisade answers network calls already, and the kernel allows one; leave \
         --connect, --listen and --ipc out, or pass sockets in ready-made (--listen ADDRESS,ready, --listen inherited)"
    )]
    AnsweredOutside,
    #[error(
        "host: the guest cannot be confined ({step:?}): {errno}; `palisade doctor` says what this machine lacks"
    )]
    Confine {
        step: Step,
        #[source]
        errno: Errno,
    },
    #[error("host: {what} cannot be held: {errno}{}", hide_advice(*errno))]
    Hide {
        what: String,
        #[source]
        errno: Errno,
    },
    #[error("policy: the guest's working directory {} cannot be entered: {errno}; see --cwd", path.display())]
    ChangeDirectory {
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("guest: '{program}' was not found inside the domain")]
    NotFound { program: String },
    #[error("guest: '{program}' cannot be executed: {errno}")]
    CannotExecute {
        program: String,
        #[source]
        errno: Errno,
    },
    #[error(
        "guest: '{program}' cannot be executed: {}: the guest can write there, and what it can write is executed with --exec {} \
         only",
        Errno::ACCESS, place.display()
    )]
    IsWritable { program: String, place: PathBuf },
}

const NAMESPACE_ADVICE: &str =
    "; this host seems to restrict user namespaces: `palisade doctor` says how to allow them";

impl LaunchError {
    /// Whether the same launch could work with less of a wall: the host refuses namespaces.
    pub fn is_for_lack_of_namespaces(&self) -> bool {
        match self {
            _ if self.is_of_domain() => true,
            Self::BuildRoot { errno, .. } => matches!(*errno, Errno::PERM | Errno::ACCESS),
            Self::BoundQuotas { .. } => true,
            _ => false,
        }
    }

    /// Whether the domain could not be made.
    pub(crate) fn is_of_domain(&self) -> bool {
        matches!(self, Self::Keeper(KeeperError::Park { .. }))
    }

    /// What of it concerns every front end.
    pub fn cause(&self) -> Cause {
        match self {
            Self::NotFound { .. } => Cause::NotFound,
            Self::CannotExecute { .. } | Self::IsWritable { .. } => Cause::CannotExecute,
            _ if self.is_for_lack_of_namespaces() => Cause::NoNamespaces,
            _ => Cause::Other,
        }
    }

    /// Names the failure of a step that init reports.
    pub(crate) fn of_step(step: Step, item: usize, errno: Errno, plan: &Plan) -> Self {
        let program = || plan.command.first().cloned().unwrap_or_default();
        match step {
            Step::Execute if errno == Errno::NOENT => Self::NotFound { program: program() },
            Step::Execute
                if errno == Errno::ACCESS
                    && let Some(place) = plan.exec_grant() =>
            {
                Self::IsWritable {
                    program: program(),
                    place,
                }
            }
            Step::Execute => Self::CannotExecute {
                program: program(),
                errno,
            },
            Step::ChangeDirectory => Self::ChangeDirectory {
                path: plan.cwd.clone(),
                errno,
            },
            Step::SourceChanged | Step::OpenSource => of_source(step, item, errno, plan),
            Step::Watch => Self::Watch {
                path: watched(plan, item),
                errno,
            },
            Step::Guard if errno == Errno::AGAIN => Self::GuardedChanged,
            Step::MakeRoot
            | Step::SetPropagation
            | Step::PivotRoot
            | Step::DetachOldRoot
            | Step::MountProc => {
                let advice = if matches!(errno, Errno::PERM | Errno::ACCESS) {
                    NAMESPACE_ADVICE
                } else {
                    ""
                };
                Self::BuildRoot {
                    step,
                    errno,
                    advice,
                }
            }
            Step::MakeDir
            | Step::Symlink
            | Step::WriteFile
            | Step::OpenTarget
            | Step::AttachMount
            | Step::CloneMount
            | Step::SetMountAttributes
            | Step::SealRoot
            | Step::MountDevpts
            | Step::HostName => {
                let what = plan
                    .steps
                    .get(item)
                    .map_or_else(|| format!("{step:?}"), |item| format!("{item} ({step:?})"));
                Self::Build {
                    fault: "host",
                    what,
                    errno,
                }
            }
            Step::Hide => Self::Hide {
                what: plan
                    .steps
                    .get(item)
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                errno,
            },
            Step::BoundQuotas => Self::BoundQuotas { errno },
            Step::ReopenStream => Self::ReopenInput { errno },
            Step::PairStreams => Self::PairStreams { errno },
            Step::Seccomp if errno == Errno::BUSY => Self::AnsweredOutside,
            // Init waits for no other process that it began.
            Step::CloneGuest if errno == Errno::CHILD => Self::GuestKilled,
            step => Self::Confine { step, errno },
        }
    }
}

fn watched(plan: &Plan, item: usize) -> PathBuf {
    match plan.steps.get(item) {
        Some(steps::Step::Watch { target }) => target.clone(),
        _ => PathBuf::new(),
    }
}

fn hide_advice(errno: Errno) -> &'static str {
    match errno {
        Errno::NODEV => "; this kernel has no overlayfs: modprobe overlay",
        Errno::PERM | Errno::INVAL => {
            "; to hide in a folder that is read takes an overlay in a user namespace: Linux 5.11, as root 5.19, and a file system \
             that overlayfs can lie over"
        }
        _ => "",
    }
}

fn watch_advice(errno: Errno) -> &'static str {
    match errno {
        Errno::MFILE => {
            "; this user's programs use all that fs.inotify.max_user_instances allows: raise it, or end some of them"
        }
        Errno::NOSPC => "; raise fs.inotify.max_user_watches",
        Errno::ACCESS => {
            "; the guest may read neither it nor its folder: open the permissions of one"
        }
        _ => "",
    }
}

fn listen_advice(errno: Errno) -> &'static str {
    match errno {
        Errno::ADDRNOTAVAIL => {
            "; no interface of this machine has the address: `ip address` lists those there are"
        }
        Errno::ADDRINUSE => "; another program listens there: end it or grant another port",
        Errno::ACCESS => {
            "; ports below net.ipv4.ip_unprivileged_port_start are root's: grant a higher one"
        }
        _ => "",
    }
}

fn of_source(step: Step, item: usize, errno: Errno, plan: &Plan) -> LaunchError {
    let path = match plan.steps.get(item) {
        Some(steps::Step::Mount { source, .. }) => source.clone(),
        _ => PathBuf::new(),
    };
    match step {
        Step::SourceChanged => LaunchError::SourceChanged { path },
        _ => LaunchError::OpenSource { path, errno },
    }
}
