//! The supervisor's end of the keeper: starting it, parking domains, id maps, what to clean.

use crate::lock::lock;
use crate::{
    clock::monotonic_ns,
    record::{receive_record, record_bytes},
    standing::{NOBODY, ParkOrder, Standing},
    sys::{self, NAME_WITH_ROOM, Spawned},
    wire,
};
use rustix::{
    fs::{MemfdFlags, Mode, OFlags, SealFlags, StatVfsMountFlags},
    io::Errno,
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType,
    },
    process::{PidfdFlags, Resource, WaitId, WaitIdOptions},
};
use std::{
    fs::File,
    io::{IoSlice, Read},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::Mutex,
};
use wire::{Record, Step};

/// A domain that was ordered. The kernel may still be making it.
#[derive(Debug)]
pub(crate) struct Ordered {
    /// Stream to init, which reads what is sent here as soon as it lives.
    pub(crate) socket: OwnedFd,
    /// When, in ns of the monotonic clock.
    pub(crate) ordered_ns: u64,
    parked: Option<Parked>,
    /// Its init has carried the prelude out, and said so.
    is_ready: bool,
}

/// A domain that exists.
#[derive(Debug)]
pub(crate) struct Parked {
    /// Readable when nothing of the domain runs any more.
    pub(crate) pidfd: OwnedFd,
    /// Init's pid on the host.
    pub(crate) pid: u32,
    /// The host uid the guest runs as.
    pub(crate) host_uid: u32,
    /// When the keeper began and finished making it, in ns of the monotonic clock.
    pub(crate) made_ns: (u64, u64),
    /// Stream to the init of a domain like it, which the keeper makes when nothing of this one runs any more.
    pub(crate) next: Option<OwnedFd>,
}

impl Ordered {
    /// One whose order the keeper has.
    pub(crate) fn by_keeper(socket: OwnedFd) -> Self {
        Self {
            socket,
            ordered_ns: monotonic_ns(),
            parked: None,
            is_ready: false,
        }
    }

    /// Waits until the domain exists.
    pub(crate) fn parked(&mut self) -> Result<&Parked, KeeperError> {
        let parked = match self.parked.take() {
            Some(parked) => parked,
            None => receive_parked(self.socket.as_fd())?,
        };
        Ok(self.parked.insert(parked))
    }

    /// Waits until init has carried the prelude out; whether it could.
    pub(crate) fn wait_until_ready(&mut self) -> Result<bool, KeeperError> {
        if !self.is_ready {
            let said = receive_record(self.socket.as_fd()).map_err(talk_error)?;
            self.is_ready = said.is_some_and(|(record, _)| record.kind == wire::INIT_READY);
        }
        Ok(self.is_ready)
    }

    /// Whether init has said that the prelude is carried out.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// The stream to init, and the domain.
    pub(crate) fn into_parts(mut self) -> Result<(OwnedFd, Parked), KeeperError> {
        self.parked()?;
        self.parked
            .map(|parked| (self.socket, parked))
            .ok_or(KeeperError::Gone)
    }
}

fn receive_parked(socket: BorrowedFd<'_>) -> Result<Parked, KeeperError> {
    let (record, mut fds) = receive_record(socket)
        .map_err(talk_error)?
        .ok_or(KeeperError::Gone)?;
    let [pid, host_uid, began_ns, done_ns, ..] = record.words;
    match (record.kind, fds.pop_front()) {
        (wire::KEEPER_PARKED, Some(pidfd)) => Ok(Parked {
            pidfd,
            pid: pid as u32,
            host_uid: host_uid as u32,
            made_ns: (began_ns, done_ns),
            next: fds.pop_front(),
        }),
        (wire::KEEPER_FAILED, _) => Err(failure(&record)),
        _ => Err(KeeperError::Gone),
    }
}

/// The keeper did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The memory file for the keeper's program.
    #[error(
        "host: cannot create a memory file for the keeper: {0}; vm.memfd_noexec must not be 2, and a domain that is to \
         run palisade inside needs `--profile palisade` of the same version"
    )]
    CreateProgram(#[source] Errno),
    /// The file for the keeper's program would be larger than any that this process may write.
    #[error(
        "host: the limit on the size of files (`ulimit -f`) is {most_bytes} bytes, and the keeper's program has {needed_bytes}: \
         raise it for palisade, and give the guest a limit of its own with --file-size"
    )]
    FileSize {
        /// `RLIMIT_FSIZE` of this process.
        most_bytes: u64,
        /// The size of the program.
        needed_bytes: usize,
    },
    /// There is no `/proc`.
    #[error(
        "host: /proc is not mounted here, and nothing can be confined without it: mount -t proc proc /proc"
    )]
    NoProc,
    /// Its start.
    #[error(
        "host: cannot start the keeper: {0}; /proc must be mounted and memory files executable"
    )]
    Start(#[source] Errno),
    /// The socket to it.
    #[error("wall: the keeper does not answer: {0}")]
    Talk(#[source] Errno),
    /// It ended.
    #[error("wall: the keeper ended unexpectedly")]
    Gone,
    /// A domain could not be made.
    #[error(
        "host: cannot make the domain's namespaces ({step:?}): {errno}; `palisade doctor` says how to get them, \
         --allow-degraded namespaces goes on with Landlock and seccomp alone"
    )]
    Park {
        /// The step that failed.
        step: Step,
        /// The kernel's answer.
        #[source]
        errno: Errno,
    },
    /// A user namespace for an id-mapped mount could not be made.
    #[error("host: cannot map file owners for a grant: {0}")]
    MapIds(#[source] Errno),
}

/// A running keeper. Dropping it ends every domain it made.
#[derive(Debug)]
pub(crate) struct Keeper {
    control: OwnedFd,
    /// It is waited for when everything else is dropped: by then the keeper has been told to leave.
    process: Spawned,
    /// What was ordered from it when it was begun with this program.
    begun: Mutex<Option<(Ordered, Standing)>>,
    /// Held from a request to its reply.
    asking: Mutex<()>,
    /// Waited for after it: until then they are its children.
    adopted: Adopted,
}

/// The init that the keeper leaves behind, if it ends before it.
#[derive(Debug, Default)]
struct Adopted {
    init: Mutex<Option<OwnedFd>>,
    /// Its network namespace. The kernel takes that down in a thread of its own, which shall not hold up init's end.
    network: Mutex<Option<OwnedFd>>,
}

impl Drop for Adopted {
    fn drop(&mut self) {
        if let Some(pidfd) = lock(&self.init).take() {
            // If the keeper has waited for it, it is no child of this process.
            let _ = rustix::io::retry_on_intr(|| {
                rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)
            });
            let _ = rustix::process::set_child_subreaper(None);
        }
    }
}

impl Keeper {
    /// Starts the keeper, or takes the one that was begun with this program. The calling process is not forked: the program is
    /// spawned.
    pub(crate) fn start() -> Result<Self, KeeperError> {
        let (control, process, begun) = match sys::entry::take() {
            Some(begun) => (begun.control, begun.process, begun.ordered),
            None => {
                let (control, process) = spawn(program_file()?)?;
                (control, process, None)
            }
        };
        let begun = begun.map(|(socket, ordered_ns, standing)| {
            let ordered = Ordered {
                socket,
                ordered_ns,
                parked: None,
                is_ready: false,
            };
            (ordered, standing)
        });
        Ok(Self {
            control,
            process,
            begun: Mutex::new(begun),
            asking: Mutex::default(),
            adopted: Adopted::default(),
        })
    }

    /// The domain that was ordered when the keeper was begun with this program, for a process of this standing; once.
    pub(crate) fn take_begun(&self) -> Option<(Ordered, Standing)> {
        lock(&self.begun).take()
    }

    /// Waits until the keeper's program runs, which [`Keeper::start`] does not.
    pub(crate) fn confirm(&self) -> Result<(), KeeperError> {
        self.process.confirm().map_err(KeeperError::Start)
    }

    /// Asks for a domain without waiting for it. The prelude is what its init does at once.
    pub(crate) fn order(
        &self,
        order: &ParkOrder,
        cgroup: Option<BorrowedFd<'_>>,
        prelude: &[u8],
    ) -> Result<Ordered, KeeperError> {
        self.order_after(NOBODY, order, cgroup, prelude)
    }

    /// The same; it is made when the init with this pid has ended, of a domain that the keeper began to make at this time.
    pub(crate) fn order_after(
        &self,
        (init, made_ns): (u32, u64),
        order: &ParkOrder,
        cgroup: Option<BorrowedFd<'_>>,
        prelude: &[u8],
    ) -> Result<Ordered, KeeperError> {
        let (socket, inits_end) = pair(SocketType::STREAM)?;
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let mut words = [0; wire::PARK_AFTER_MADE + 1];
        let ids = (uid.as_raw(), gid.as_raw());
        order.write(ids, (init, made_ns), &mut |at, word| words[at] = word);
        let fds: Vec<_> = [inits_end.as_fd()].into_iter().chain(cgroup).collect();
        let ordered_ns = monotonic_ns();
        self.send(wire::KEEPER_PARK, &words, prelude, &fds)?;
        Ok(Ordered {
            socket,
            ordered_ns,
            parked: None,
            is_ready: false,
        })
    }

    /// Asks for a process that makes descriptors, as a member of these groups: one of version 2 to be born in, or
    /// the `tasks` files of others. Gives the socket to it.
    pub(crate) fn order_maker(
        &self,
        born_in: Option<BorrowedFd<'_>>,
        tasks: &[BorrowedFd<'_>],
    ) -> Result<OwnedFd, KeeperError> {
        let (socket, makers_end) = pair(SocketType::STREAM)?;
        let groups = born_in.into_iter().chain(tasks.iter().copied());
        let fds: Vec<_> = [makers_end.as_fd()].into_iter().chain(groups).collect();
        let words = [born_in.is_some().into()];
        self.send(wire::KEEPER_MAKER, &words, &[], &fds)?;
        Ok(socket)
    }

    /// Asks for a process that mounts more of the host's into the domain with this user and this mount namespace, the former of
    /// which it may have to enter. Gives the socket to it.
    pub(crate) fn order_holder(
        &self,
        [user, mounts]: [BorrowedFd<'_>; 2],
        enters: bool,
    ) -> Result<OwnedFd, KeeperError> {
        let (socket, holders_end) = pair(SocketType::SEQPACKET)?;
        let fds = [holders_end.as_fd(), user, mounts];
        self.send(wire::KEEPER_HOLDER, &[enters.into()], &[], &fds)?;
        Ok(socket)
    }

    /// A user namespace that maps the owner of files on disk to the domain's host uid.
    pub(crate) fn map_ids(
        &self,
        disk_uid: u32,
        disk_gid: u32,
        host_uid: u32,
    ) -> Result<OwnedFd, KeeperError> {
        let words = [disk_uid.into(), disk_gid.into(), host_uid.into()];
        let (record, namespace) = self.ask(wire::KEEPER_MAP_IDS, &words, &[], &[])?;
        match (record.kind, namespace) {
            (wire::KEEPER_IDS_MAPPED, Some(namespace)) => Ok(namespace),
            (wire::KEEPER_FAILED, _) => Err(KeeperError::MapIds(errno_of(&record))),
            _ => Err(KeeperError::Gone),
        }
    }

    /// Has the keeper remove these names in these folders should this process die: see
    /// [`wire::KEEPER_REMEMBER`].
    pub(crate) fn remember(
        &self,
        list: u32,
        folders: &[BorrowedFd<'_>],
        names: &[u8],
    ) -> Result<(), KeeperError> {
        let (record, _) = self.ask(wire::KEEPER_REMEMBER, &[list.into()], names, folders)?;
        match record.kind {
            wire::KEEPER_REMEMBERED => Ok(()),
            wire::KEEPER_FAILED => Err(KeeperError::Talk(errno_of(&record))),
            _ => Err(KeeperError::Gone),
        }
    }

    fn ask(
        &self,
        kind: u64,
        words: &[u64],
        tail: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(Record, Option<OwnedFd>), KeeperError> {
        let _asking = lock(&self.asking);
        self.send(kind, words, tail, fds)?;
        self.confirm()?;
        let (record, mut fds) = receive_record(self.control.as_fd())
            .map_err(talk_error)?
            .ok_or(KeeperError::Gone)?;
        Ok((record, fds.pop_front()))
    }

    /// Tells the keeper that this process has removed everything itself.
    pub(crate) fn forget(&self, list: u32) -> Result<(), KeeperError> {
        self.send(wire::KEEPER_FORGET, &[list.into()], &[], &[])
    }

    /// Has the keeper give up what it needs for further domains: see [`wire::KEEPER_CONFINE`].
    pub(crate) fn confine(
        &self,
        rules: Option<BorrowedFd<'_>>,
        program: &[u8],
    ) -> Result<(), KeeperError> {
        let rules: Vec<_> = rules.into_iter().collect();
        self.send(wire::KEEPER_CONFINE, &[], program, &rules)
    }

    fn send(
        &self,
        kind: u64,
        words: &[u64],
        tail: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), KeeperError> {
        let record = record_bytes(kind, words);
        let parts = [IoSlice::new(&record), IoSlice::new(tail)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(wire::MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        rustix::net::sendmsg(&self.control, &parts, &mut ancillary, SendFlags::NOSIGNAL)
            .map(drop)
            .map_err(talk_error)
    }
}

impl Keeper {
    /// Has the keeper exit while the kernel still takes its domain down, whose init this process adopts from now on, and waits for.
    /// Where that cannot be, it leaves as ever.
    pub(crate) fn leave_to_this(&self, pidfd: BorrowedFd<'_>) {
        // Whoever adopts orphans for reasons of its own may wait for any of them, this one too.
        if let (Ok(None), Ok(pidfd)) = (
            rustix::process::child_subreaper(),
            pidfd.try_clone_to_owned(),
        ) {
            let this = rustix::process::getpid();
            if rustix::process::set_child_subreaper(Some(this)).is_ok() {
                *lock(&self.adopted.init) = Some(pidfd);
                let _ = self.send(wire::KEEPER_LEAVE, &[], &[], &[]);
            }
        }
        self.leave();
    }

    /// Keeps the network namespace of this init's domain until this and the init have ended.
    pub(crate) fn keep_network_of(&self, pidfd: BorrowedFd<'_>) {
        *lock(&self.adopted.network) = sys::ended::network_of(pidfd);
    }

    /// Has the keeper end all its domains, clean and exit.
    pub(crate) fn leave(&self) {
        // It cannot fail on a connected socket; if the keeper is gone already, so much the better.
        let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Both);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // `Spawned` then waits for its end, so that nothing is left when this returns.
        self.leave();
    }
}

/// Starts such a program beside this process; gives the control socket to it.
pub(crate) fn spawn(program: OwnedFd) -> Result<(OwnedFd, Spawned), KeeperError> {
    let (control, keepers_end) = pair(SocketType::SEQPACKET)?;
    let supervisor = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())
        .map_err(KeeperError::Talk)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(KeeperError::Start)?;
    let above = |fd| above_streams(fd).map_err(KeeperError::Start);
    let streams = [above(keepers_end)?, above(supervisor)?, above(null)?];
    let program = above(program)?;
    let process = sys::spawn(
        NAME_WITH_ROOM,
        program.as_fd(),
        streams.each_ref().map(AsFd::as_fd),
    )
    .map_err(KeeperError::Start)?;
    Ok((control, process))
}

fn talk_error(errno: Errno) -> KeeperError {
    match errno {
        Errno::PIPE | Errno::CONNRESET => KeeperError::Gone,
        errno => KeeperError::Talk(errno),
    }
}

fn failure(record: &Record) -> KeeperError {
    KeeperError::Park {
        step: Step::from_number(record.words[0]),
        errno: errno_of(record),
    }
}

fn pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd), KeeperError> {
    let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    rustix::net::socketpair(family, kind, flags, None).map_err(KeeperError::Talk)
}

fn errno_of(record: &Record) -> Errno {
    Errno::from_raw_os_error(record.words[2] as i32)
}

/// Where a domain has the keeper's program for a palisade inside (`--profile palisade`): memory files
/// cannot be executed there.
pub(crate) const PROGRAM_INSIDE: &str = "/run/palisade/keeper";

/// The keeper's program in a file that nobody can change.
fn program_file() -> Result<OwnedFd, KeeperError> {
    refuse_small_files()?;
    memory_file(sys::KEEPER).or_else(|errno| match errno {
        Errno::ACCESS | Errno::PERM => file_inside().ok_or(KeeperError::CreateProgram(errno)),
        // Only the last step opens a path.
        Errno::NOENT => Err(KeeperError::NoProc),
        errno => Err(KeeperError::CreateProgram(errno)),
    })
}

/// Writing beyond the limit ends a process by SIGXFSZ, whose action is that of the program around this library.
fn refuse_small_files() -> Result<(), KeeperError> {
    let most = rustix::process::getrlimit(Resource::Fsize).current;
    match most.filter(|most| *most < sys::KEEPER.len() as u64) {
        Some(most_bytes) => Err(KeeperError::FileSize {
            most_bytes,
            needed_bytes: sys::KEEPER.len(),
        }),
        None => Ok(()),
    }
}

/// The file that a palisade outside left, if it is of the same version, byte by byte. It lies on a
/// read-only mount.
fn file_inside() -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(PROGRAM_INSIDE, flags, Mode::empty()).ok()?;
    let is_fixed = rustix::fs::fstatvfs(&file)
        .ok()?
        .f_flag
        .contains(StatVfsMountFlags::RDONLY);
    let mut content = Vec::new();
    File::from(file.try_clone().ok()?)
        .read_to_end(&mut content)
        .ok()?;
    (is_fixed && content == sys::KEEPER).then_some(file)
}

/// A sealed memory file (CVE-2019-5736 overwrote a runtime through `/proc/self/exe`).
pub(crate) fn memory_file(program: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = match rustix::fs::memfd_create("palisade-keeper", flags | MemfdFlags::EXEC) {
        // Before Linux 6.3 memory files were always executable and the flag unknown.
        Err(Errno::INVAL) => rustix::fs::memfd_create("palisade-keeper", flags)?,
        created => created?,
    };
    let mut rest = program;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&file, rest)?..];
    }
    rustix::fs::fcntl_add_seals(
        &file,
        SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE,
    )?;
    // Executing a file that is open for writing is refused (ETXTBSY): keep a read-only descriptor.
    rustix::fs::open(
        format!("/proc/self/fd/{}", file.as_raw_fd()),
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// The same descriptor under a number above those of the standard streams, which a host may have
/// closed.
fn above_streams(fd: OwnedFd) -> rustix::io::Result<OwnedFd> {
    const FIRST: i32 = 3;
    if fd.as_raw_fd() >= FIRST {
        return Ok(fd);
    }
    rustix::io::fcntl_dupfd_cloexec(fd, FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags};

    /// With no namespaces, so that it is the same on every machine.
    fn bare(ahead: bool) -> ParkOrder {
        ParkOrder {
            bare: true,
            ..ParkOrder::of(Standing::of_this_process(), ahead)
        }
    }

    /// Each is made after the end of the one before, without anybody's asking, as long as somebody waits for it.
    #[test]
    fn domains_follow_one_another() {
        let keeper = Keeper::start().unwrap();
        let mut domain = keeper.order(&bare(true), None, &[]).unwrap();
        let mut inits = Vec::new();
        for _ in 0..3 {
            // Closing its socket lets it go.
            let (_socket, parked) = domain.into_parts().unwrap();
            inits.push(parked.pidfd);
            domain = Ordered::by_keeper(parked.next.unwrap());
        }
        // Of those before nothing runs any more.
        let (socket, last) = domain.into_parts().unwrap();
        assert!(inits.iter().all(has_ended));
        assert!(!has_ended(&last.pidfd));
        drop((socket, last.next));
        drop(keeper);
        assert!(has_ended(&last.pidfd));
    }

    #[test]
    fn a_domain_alone_is_followed_by_none() {
        let keeper = Keeper::start().unwrap();
        let (_, parked) = keeper
            .order(&bare(false), None, &[])
            .unwrap()
            .into_parts()
            .unwrap();
        assert!(parked.next.is_none());
    }

    fn has_ended(init: &OwnedFd) -> bool {
        let mut fds = [PollFd::new(init, PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default())).unwrap() == 1
    }
}
