//! Why there is no plan.

use crate::cgroup;
use palisade_policy::{Capability, PolicyError};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// The policy can't be carried out on this machine.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum PlanError {
    #[error("policy: {0}")]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Network(#[from] palisade_network::NetworkError),
    #[error(
        "host: this kernel has no seccomp filters, and a network grant is nothing without: its calls would not be seen; \
         leave --connect and --listen out"
    )]
    NetworkNeedsSeccomp,
    #[error(
        "host: a port of the domain's own takes namespaces, which this machine does not let palisade make; see \
         `palisade doctor`, or let the program take a listening socket instead"
    )]
    PortNeedsNamespaces,
    #[error("host: the files that a guest asks for cannot be watched: {why}; leave --watch out")]
    CannotWatch { why: &'static str },
    #[error(
        "host: nobody can be asked about what a guest tries, nor grant it more: {why}; leave --ask and --grantable out"
    )]
    CannotAsk { why: &'static str },
    #[error("policy: {} does not exist on the host: correct the path or leave the grant out", path.display())]
    Missing { path: PathBuf },
    #[error("policy: {} cannot be looked up on the host: {errno}", path.display())]
    Unreachable {
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error(
        "host: /proc is not mounted here, and palisade cannot tell what lies at a path without it: mount -t proc proc /proc"
    )]
    NoProc,
    #[error(
        "policy: nothing can be hidden at {}: it lies in no folder that is granted; a path is hidden as the guest sees it",
        guest.display()
    )]
    NothingToHide { guest: PathBuf },
    #[error("policy: {} cannot be hidden: {why}; --allow-degraded hide accepts that", guest.display())]
    CannotHide { guest: PathBuf, why: &'static str },
    #[error("policy: {} is hidden, and {} lies there: drop one of them", guest.display(), grant.display())]
    HidesGrant { guest: PathBuf, grant: PathBuf },
    #[error(
        "policy: {} cannot be hidden: {} is a symlink; hide what it leads to, and leave the link",
        guest.display(), link.display()
    )]
    HideBehindLink { guest: PathBuf, link: PathBuf },
    #[error(
        "policy: {} is hidden, and the guest sees the same as {}: hide that too, or drop the grant",
        guest.display(), other.display()
    )]
    SeenByAnotherName { guest: PathBuf, other: PathBuf },
    #[error(
        "policy: nothing can be hidden in {}: something is mounted in it on the host, at {}; grant what the guest needs of it apart",
        guest.display(), mount.display()
    )]
    HidesAmongMounts { guest: PathBuf, mount: PathBuf },
    #[error("policy: {} cannot be looked through for what is hidden: {errno}", path.display())]
    CannotLookThrough {
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error(
        "policy: what is granted holds more than {most} files and folders, too many to look through for a pattern of --hide: name \
         paths, or grant less"
    )]
    TooMuchToLookThrough { most: usize },
    #[error("policy: more than {most} paths are hidden: hide the folders around them")]
    HidesTooMuch { most: usize },
    #[error("policy: {} is a device: grant it with --device {}", path.display(), path.display())]
    IsADevice { path: PathBuf },
    #[error("policy: {} is not a socket: --connect unix:PATH takes the path of one that a server listens at", path.display())]
    NotASocket { path: PathBuf },
    #[error(
        "policy: {count} sockets and folders for sockets are granted (--connect unix:, --ipc), and a guest can have \
         {most} of them: leave some out",
        most = crate::wire::MOST_MEETING_PLACES
    )]
    TooManySockets { count: usize },
    #[error("policy: {} is not a device node: --device takes a path such as /dev/fuse, or pts", path.display())]
    NotADevice { path: PathBuf },
    #[error(
        "policy: {} is a name that the domain has of its own, and no device can appear there; name the device by a \
         path of its own",
        path.display()
    )]
    OwnName { path: PathBuf },
    #[error(
        "policy: {} is {} on the host, which cannot be granted: it would open the host's processes, devices or all of \
         its files; name what the guest needs of it",
        path.display(), is.display()
    )]
    ReservedPath { path: PathBuf, is: PathBuf },
    #[error("policy: {} is no folder, and only a folder can be the guest's root", path.display())]
    RootIsAFile { path: PathBuf },
    #[error(
        "policy: a palisade of its own (profile `palisade`) needs the domain's own root; leave the grant of / out"
    )]
    RootWithoutKeeper,
    #[error(
        "policy: {} cannot be granted to a WebAssembly guest while a proc file system is mounted at {}: it would open \
         the memory of the guest's own engine; unmount it, or name what the guest needs beside it",
        path.display(), mount.display()
    )]
    HoldsProc { path: PathBuf, mount: PathBuf },
    #[error(
        "policy: the guest could change {}, by which palisade looks up the granted names outside the wall: keep it out of \
         what is granted for writing, or add --protect {}",
        path.display(), path.display()
    )]
    ResolverInReach { path: PathBuf },
    #[error(
        "policy: {} cannot appear inside the domain: {} {why}; make a place for it there, or grant it under another path with HOST:GUEST",
        guest.display(), host.display()
    )]
    NoMountPoint {
        guest: PathBuf,
        host: PathBuf,
        why: &'static str,
    },
    #[error(
        "policy: {} lies behind {}, which is a symlink inside the domain: name the path without the link",
        guest.display(), link.display()
    )]
    BehindLink { guest: PathBuf, link: PathBuf },
    #[error(
        "policy: {} cannot be protected: {} is a symlink, which the guest could replace; protect what it points to",
        guest.display(), link.display()
    )]
    ProtectBehindLink { guest: PathBuf, link: PathBuf },
    #[error(
        "policy: {} is executed by git, so palisade keeps it from the guest, but {} is a symlink, which the guest could \
         replace: --no-guard (guard = false) leaves git's hooks and settings to the guest",
        guest.display(), link.display()
    )]
    GuardBehindLink { guest: PathBuf, link: PathBuf },
    #[error(
        "policy: {} is executed by git, so palisade keeps it from the guest, who can write the same files as {}: --protect \
         that too, or --no-guard (guard = false) leaves git's hooks and settings to the guest",
        guest.display(), other.display()
    )]
    GuardOpenByAnotherName { guest: PathBuf, other: PathBuf },
    #[error(
        "policy: --exec {} is not there, and palisade makes only a folder right in one that is there and granted for writing, \
         with nothing protected in it: make it first, with mkdir -p {}",
        guest.display(), host.display()
    )]
    NothingToExecute { guest: PathBuf, host: PathBuf },
    #[error(
        "policy: {} is protected, but the guest can write the same files as {}, which another grant, a link or a mount \
         leads to: protect that too, or leave one of the two grants out",
        guest.display(), other.display()
    )]
    OpenByAnotherName { guest: PathBuf, other: PathBuf },
    #[error(
        "policy: what the guest writes below {} it could execute as {}, where the same files are granted for reading: grant \
         them under one path, or add --exec {}",
        guest.display(), other.display(), guest.display()
    )]
    ExecutableByAnotherName { guest: PathBuf, other: PathBuf },
    #[error(
        "policy: the guest connects to sockets in {}, and could move one of the host's into it by {}, where the same folder \
         is granted for writing: leave that grant out, or add --ipc {}",
        guest.display(), other.display(), other.display()
    )]
    MeetingPlaceByAnotherName { guest: PathBuf, other: PathBuf },
    #[error(
        "host: this kernel has no Landlock (it needs Linux 5.13 with `landlock` in the lsm= list); \
         --allow-degraded landlock goes on without it"
    )]
    NoLandlock,
    #[error(
        "host: without namespaces Landlock must also hold signals (interface 6, Linux 6.12), and this kernel has \
         interface {abi}; `palisade doctor` says how to get namespaces"
    )]
    LandlockTooOld { abi: u32 },
    #[error(
        "policy: {} needs mounts ({why}), and --allow-degraded namespaces goes on without them: leave it out, or see \
         `palisade doctor` for how to get namespaces",
        path.display()
    )]
    NeedsMounts { path: PathBuf, why: &'static str },
    #[error(
        "host: a limit on {capability} cannot be held here: {why}; --allow-degraded {capability} takes an approximation"
    )]
    Unenforceable { capability: Capability, why: String },
    #[error(
        "host: this machine cannot freeze a domain: {0}; or have it end instead (rest = \"stop\")"
    )]
    NoFreezer(cgroup::Unmet),
    #[error(
        "policy: a domain without namespaces cannot be frozen: its processes end by the first of them, which would not run; \
         have it end instead (rest = \"stop\")"
    )]
    FrozenInit,
    #[error(
        "policy: a domain that is frozen cannot have listeners of the host's: whoever connects would wait for ever; take the \
         listen grants away, or have it end instead (rest = \"stop\")"
    )]
    FrozenListener,
    #[error("host: cannot look at control groups: {0}")]
    Cgroups(#[source] std::io::Error),
    #[error(transparent)]
    NoCgroup(cgroup::Refusal),
}

impl PlanError {
    pub(crate) fn missing(path: &Path, errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::Missing { path: path.into() },
            Errno::NOSYS => Self::NoProc,
            errno => Self::Unreachable {
                path: path.into(),
                errno,
            },
        }
    }
}
