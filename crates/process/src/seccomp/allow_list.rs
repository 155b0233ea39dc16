//! Palisade's own policy: which system calls a guest may make.
//!
//! Everything that ordinary programs and language runtimes use is allowed. Refused calls return
//! `EPERM`, unknown ones `ENOSYS`. A check stands on a call only where one of its arguments reaches
//! past the domain; hot calls (`read`, `write`, `futex`, …) never carry one.

use serde::Serialize;

use super::{
    filter::{Action, Check, Filter, Rule, Test, int, long},
    open_how, prctl,
    sockets::{self, HostNetwork},
    syscalls,
};
use crate::{
    file_calls::{self, FileCall},
    wire,
};

/// What the plan needs of the filter beyond the fixed part. The default is for a domain with all
/// its namespaces and nothing of the host's disk to write to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Groups {
    /// Refuse to make setuid and setgid files. Needed where the guest can write to the host's
    /// disk: such a file would belong to whoever started palisade, and on the host it works.
    pub guard_setuid: bool,
    /// Where setuid files are refused, allow openat2 with the constants of [`super::open_how`]. Only where
    /// no other program than the one that has them can be executed.
    pub constant_open_how: bool,
    /// Refuse to give setuid and setgid bits to what exists. Needed where a standard stream is a file
    /// of the user's that the guest runs as.
    pub guard_chmod: bool,
    /// Refuse `sched_setaffinity`. Needed where the processor limit is an affinity mask.
    pub cpu_affinity_fixed: bool,
    /// Refuse internet sockets altogether. Needed without a network namespace of one's own, because
    /// Landlock alone passes UDP, MPTCP and TCP Fast Open.
    pub no_network_sockets: bool,
    /// Internet sockets of the host's network come into the guest's hands.
    pub host_network: Option<HostNetwork>,
    /// Allow `AF_NETLINK` for `NETLINK_ROUTE`, through which programs list network interfaces
    /// (`getifaddrs`, `os.networkInterfaces`).
    pub netlink_route: bool,
    /// Refuse to change how other processes are scheduled and limited. Needed without a pid
    /// namespace, because the kernel asks only for the same user id there and Landlock has no say.
    pub foreign_processes_visible: bool,
    /// Refuse System V IPC and POSIX message queues. Needed without an ipc namespace.
    pub host_ipc_visible: bool,
    /// Refuse to change mode, owner, attributes and, by path, times of files, to read attributes by
    /// path, and to watch files. Needed without a mount namespace: every path of the host can be
    /// named there, and Landlock has no say over these calls (landlock(7), "LIMITATIONS").
    pub host_files_visible: bool,
    /// Refuse to connect sockets, and those that send without being connected. Needed without
    /// namespaces: any service of the host could be asked to do what the guest may not, and before
    /// its interface 9 Landlock does not look at the path of a socket.
    pub host_sockets_visible: bool,
    /// Leave connecting to the supervisor, which has a name of a file looked at before. Needed where folders of
    /// the host are granted: neither a read-only mount nor, before its interface 9, Landlock keeps anybody
    /// from the sockets in them.
    pub host_sockets_in_sight: bool,
    /// Refuse local sockets that send without being connected. Needed beside `host_sockets_in_sight`: the
    /// name that sendmsg(2) sends to is behind a pointer, and too many calls to ask about each.
    pub no_local_datagrams: bool,
    /// Leave making sockets and FIFOs to the supervisor, by name. Needed where Landlock's rules about them do not hold the
    /// guest's own process.
    pub special_files_ruled: bool,
    /// Allow clone3. Where no user namespace can be made inside, and nothing that a flag of it takes is in sight.
    pub clone3: bool,
    /// Refuse to watch files (inotify(7)). Needed where no folder is granted: what is left is the system view,
    /// whose files the host and every other domain use too, and a watch tells who starts which program.
    pub no_watching: bool,
    /// Allow requests of ioctl(2) that nobody here knows, for a device that was granted.
    pub devices: bool,
    /// Refuse to give a socket a name that others can connect to. Needed without a network namespace
    /// where no place for sockets was granted: abstract names would be the host's.
    pub no_named_sockets: bool,
    /// Refuse to make executable memory files (`MFD_EXEC`). Needed where nothing writable may be
    /// executed; together with `vm.memfd_noexec=1`, which changes only the default.
    pub no_executable_memfd: bool,
    /// Refuse memory files that do not ask to be unexecutable (`MFD_NOEXEC_SEAL`). Needed beside
    /// `no_executable_memfd` where `vm.memfd_noexec` can't be set: only the host's root may, and
    /// only since Linux 6.3. An older kernel makes no such files: there are none then.
    pub memfd_must_be_sealed: bool,
    /// Refuse to reserve space behind a file's end. Needed under a limit on the size of files, which file systems
    /// hold against the end alone (`inode_newsize_ok`).
    pub no_space_behind_files: bool,
    /// Tell of executions and of calls on addresses, whoever listens: they go on, and are refused by what stands behind the
    /// filter if they are. For the report's sake.
    pub observed: bool,
    /// Tell of calls that name files, which go on. The supervisor listens then.
    pub watched: bool,
    /// Refuse huge pages from the host's reserve. Needed under a memory limit where the host has
    /// such a reserve, because the memory controller does not count them.
    pub no_huge_pages: bool,
}

impl Groups {
    /// The filter's program, as seccomp(2) takes it.
    pub(crate) fn program(&self) -> Result<Vec<u8>, super::CompileError> {
        super::program(&allow_list(self))
    }
}

pub(super) const ALLOW: Action = Action::Allow;
pub(super) const EPERM: Action = Action::Errno(libc::EPERM as u16);
pub(super) const EACCES: Action = Action::Errno(libc::EACCES as u16);
const EBUSY: Action = Action::Errno(libc::EBUSY as u16);
const ENOTTY: Action = Action::Errno(libc::ENOTTY as u16);
const EINVAL: Action = Action::Errno(libc::EINVAL as u16);
const ENOMEM: Action = Action::Errno(libc::ENOMEM as u16);
const ENOSYS: Action = Action::Errno(libc::ENOSYS as u16);

/// The filter for a domain.
#[must_use]
pub fn allow_list(groups: &Groups) -> Filter {
    let mut filter = Filter::new(ENOSYS);
    set_all(&mut filter, syscalls::ALLOWED, ALLOW);
    set_all(&mut filter, syscalls::ALLOWED_OLD, ALLOW);
    set_all(&mut filter, syscalls::REFUSED, EPERM);
    set_all(&mut filter, syscalls::REFUSED_OLD, EPERM);
    set_all(&mut filter, syscalls::ABSENT, ENOSYS);
    decide_processes(&mut filter, groups);
    decide_executions(&mut filter, groups);
    decide_scheduling(&mut filter, groups);
    decide_files(&mut filter, groups);
    decide_metadata(&mut filter, groups);
    decide_ipc(&mut filter, groups);
    decide_memory(&mut filter, groups);
    sockets::decide(&mut filter, groups);
    set(&mut filter, libc::SYS_ioctl, ioctl(groups));
    if groups.watched {
        watch_files(&mut filter);
        // Refused as ever, by who is told of it.
        set(&mut filter, libc::SYS_io_uring_setup, Action::Absent);
    }
    filter
}

/// Modes are changed by calls of [`decide_files`], attributes also by [`ioctl`].
fn decide_metadata(filter: &mut Filter, groups: &Groups) {
    let action = if groups.host_files_visible {
        EPERM
    } else {
        ALLOW
    };
    set_all(filter, syscalls::METADATA, action);
    set_all(filter, syscalls::METADATA_OLD, action);
    if groups.host_files_visible {
        set(filter, libc::SYS_utimensat, times_by_descriptor());
    }
    if groups.no_watching {
        set(filter, libc::SYS_inotify_add_watch, EACCES);
    }
}

/// `utimensat(fd, NULL, …)`, what touch(1) and futimens(3) do. The pointer is compared, not what it
/// points to.
fn times_by_descriptor() -> Check {
    Check::otherwise(EPERM).when([long(1).is(0)], ALLOW)
}

pub(super) fn set(filter: &mut Filter, call: libc::c_long, rule: impl Into<Rule>) {
    filter.set(call as u32, rule);
}

fn set_all(filter: &mut Filter, calls: &[syscalls::Call], action: Action) {
    for (number, _) in calls {
        filter.set(*number, action);
    }
}

fn decide_processes(filter: &mut Filter, groups: &Groups) {
    set(filter, libc::SYS_clone, clone());
    if groups.clone3 {
        set(filter, libc::SYS_clone3, ALLOW);
    }
    set(filter, libc::SYS_unshare, unshare());
    set(filter, libc::SYS_personality, personality());
    set(filter, libc::SYS_prctl, prctl::check());
    set(filter, libc::SYS_seccomp, seccomp());
}

/// The guest's own program is started while nobody could answer: its call is marked ([`wire::OWN_CALL`]). An open
/// file is executed as it is, without a path to tell of.
fn decide_executions(filter: &mut Filter, groups: &Groups) {
    if !groups.observed {
        return;
    }
    let own = long(3).is(wire::OWN_CALL);
    let open_file = int(4).has_any(libc::AT_EMPTY_PATH as u64);
    let look = |except| Check::otherwise(Action::Look).when([except], ALLOW);
    set(filter, libc::SYS_execve, look(own));
    set(filter, libc::SYS_execveat, look(open_file));
}

/// What is refused stays so, and is not told of: a mode that nobody may set, say.
fn watch_files(filter: &mut Filter) {
    let executions = [libc::SYS_execve, libc::SYS_execveat];
    let looked_at_anyway = |call: &&FileCall| executions.contains(&call.number);
    for call in file_calls::all().filter(|call| !looked_at_anyway(call)) {
        let open_file = call
            .flags
            .map(|at| int(at).has_any(libc::AT_EMPTY_PATH as u64));
        let own = (call.number == libc::SYS_chdir).then(|| long(3).is(wire::OWN_CALL));
        filter.look_at(call.number as u32, open_file.or(own));
    }
}

/// New namespaces open parts of the kernel that need a capability otherwise. `clone` takes the low
/// word of its flags only (`lower_32_bits`), so no flag can hide in the other. `CLONE_NEWTIME`
/// shares its bit with the exit signal here and means that.
fn clone() -> Check {
    Check::otherwise(ALLOW).when([int(0).has_any(NEW_NAMESPACES)], EPERM)
}

/// Flags of clone(2) that make namespaces; `CLONE_NEWTIME` is none of them.
pub const NEW_NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// The flags that only stop sharing something within the process. `unshare` reads all 64 bits, and
/// a flag of a later kernel is refused until it is known.
fn unshare() -> Check {
    let harmless = libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SYSVSEM
        | libc::CLONE_VM
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD;
    Check::otherwise(EPERM).when([long(0).within(harmless as u64)], ALLOW)
}

/// The default personality, the question for the present one, and `linux32`, which changes what
/// `uname` says. `READ_IMPLIES_EXEC` and `ADDR_NO_RANDOMIZE` undo the guest's own protection.
fn personality() -> Check {
    const PER_LINUX: u64 = 0;
    const PER_LINUX32: u64 = 8;
    const QUERY: u64 = 0xffff_ffff;
    Check::otherwise(EPERM).when([int(0).one_of([PER_LINUX, PER_LINUX32, QUERY])], ALLOW)
}

/// A filter of the guest's own is welcome. A listener is not: a chain of filters has room for one
/// (`has_duplicate_listener`), and `EBUSY` is what the kernel says when it is taken.
pub(super) fn seccomp() -> Check {
    let new_listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    Check::otherwise(ALLOW).when([int(1).has_any(new_listener)], EBUSY)
}

/// Requests of terminals, of sockets and a few on files; unknown ones get what a file says that does not
/// know them. `TIOCSTI` types into the terminal (CVE-2017-5226), `TIOCLINUX` pastes into a virtual
/// console, `TIOCSETD` loads line disciplines (CVE-2017-2636). The kernel reads the command as
/// `unsigned`: compared as 64 bits, `TIOCSTI` with a bit in the upper half passed Flatpak
/// (CVE-2019-10063).
fn ioctl(groups: &Groups) -> Check {
    let refused = [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD];
    let is_foreign = groups.no_network_sockets || groups.host_network.is_some();
    let of_interfaces = if is_foreign { EACCES } else { ALLOW };
    let otherwise = if groups.devices { ALLOW } else { ENOTTY };
    Check::otherwise(otherwise)
        .when([int(1).one_of(refused)], EPERM)
        .when_if(
            groups.host_network.is_some(),
            [sockets::own_request()],
            ALLOW,
        )
        .when([sockets::interface_request()], of_interfaces)
        .when([of_a_terminal()], ALLOW)
        .when([int(1).one_of(FILE_REQUESTS)], ALLOW)
        .when_if(groups.devices, [int(1).masked(0xff00, 0x6600)], EPERM)
        .when_if(groups.devices, [int(1).masked(0xff00, 0x9400)], EPERM)
        .when_if(groups.devices, [int(1).masked(0xff00, 0x5800)], EPERM)
        .when_if(groups.devices, [int(1).masked(0xff00, 0xf500)], EPERM)
}

/// Requests on files that change none but one open for writing: `FIGETBSZ`, `FICLONE`, `FICLONERANGE`,
/// `FS_IOC_FIEMAP`, `FS_IOC_GETFLAGS`, `FS_IOC_FSGETXATTR` (linux/fs.h), and what a random device has to
/// say (`RNDGETENTCNT`). Others need no more than an open folder to change flags, or on btrfs to make and
/// remove whole subvolumes; `FS_IOC_ENABLE_VERITY` and `FS_IOC_SET_ENCRYPTION_POLICY` take a file or
/// folder away from its owner, for good. Those of file systems begin with `f`, `X`, 0x94 (btrfs) and 0xf5
/// (f2fs): a driver may use the same letters, and is then refused them.
pub(super) const FILE_REQUESTS: [u64; 7] = [
    2,
    0x4004_9409,
    0x4020_940d,
    0xc020_660b,
    0x8008_6601,
    0x801c_581f,
    0x8004_5200,
];

/// Everything of ioctl_tty(2), with `FIONREAD`, `FIONBIO` and `FIOCLEX`.
fn of_a_terminal() -> Test {
    int(1).masked(0xff00, 0x5400)
}

/// With foreign processes in sight only the calling thread may be named, as 0.
fn decide_scheduling(filter: &mut Filter, groups: &Groups) {
    const IOPRIO_WHO_PROCESS: u64 = 1;
    let own_only = |tests: &[Test]| match groups.foreign_processes_visible {
        true => Check::otherwise(EPERM).when(tests, ALLOW),
        false => Check::otherwise(ALLOW),
    };
    let pid = own_only(&[int(0).is(0)]);
    for call in [
        libc::SYS_prlimit64,
        libc::SYS_move_pages,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setaffinity,
    ] {
        set(filter, call, pid.clone());
    }
    let nice = own_only(&[int(0).is(libc::PRIO_PROCESS.into()), int(1).is(0)]);
    set(filter, libc::SYS_setpriority, nice);
    let ioprio = own_only(&[int(0).is(IOPRIO_WHO_PROCESS), int(1).is(0)]);
    set(filter, libc::SYS_ioprio_set, ioprio);
    if groups.cpu_affinity_fixed {
        set(filter, libc::SYS_sched_setaffinity, EPERM);
    }
    if groups.foreign_processes_visible {
        for call in [
            libc::SYS_clock_gettime,
            libc::SYS_clock_getres,
            libc::SYS_clock_nanosleep,
            libc::SYS_timer_create,
        ] {
            set(filter, call, own_clock());
        }
    }
}

/// Of clocks that count the processor time of a process, the caller's own: when somebody else computes, and for
/// how long, is nobody's business. Such an id is negative and has the complement of a pid above three bits: 0 to 2 are
/// kinds of time, 3 is a device, and 4 is added for a thread, which the kernel looks for in the calling process alone
/// (`pid_for_clock` in kernel/time/posix-cpu-timers.c). `EINVAL` is its answer about a process that is not there.
fn own_clock() -> Check {
    const NEGATIVE: u64 = 1 << 31;
    const OF_NO_PID: u64 = 0xffff_fff8;
    const KINDS: std::ops::RangeInclusive<u64> = 0..=2;
    let own: Vec<u64> = KINDS.map(|kind| OF_NO_PID | kind).collect();
    let own = Check::otherwise(ALLOW).when([int(0).one_of(own)], ALLOW);
    KINDS.fold(own, |check, kind| {
        check.when([int(0).masked(NEGATIVE | 7, NEGATIVE | kind)], EINVAL)
    })
}

/// Setuid and setgid bits are refused under [`Groups::guard_setuid`], device nodes always. The
/// kernel reads a mode as `umode_t`, 16 bits, and flags as `int`.
fn decide_files(filter: &mut Filter, groups: &Groups) {
    let guarded = groups.guard_setuid;
    set(filter, libc::SYS_openat, open(guarded, 2));
    set(filter, libc::SYS_fchmod, chmod(groups, 1));
    set(filter, libc::SYS_fchmodat, chmod(groups, 2));
    set(filter, syscalls::SYS_fchmodat2, chmod(groups, 2));
    set(filter, libc::SYS_mknodat, mknod(groups, 2));
    set(filter, libc::SYS_openat2, openat2(groups));
    set(filter, libc::SYS_renameat2, renameat2(guarded));
    set(filter, libc::SYS_fcntl, fcntl());
    if groups.no_space_behind_files {
        set(filter, libc::SYS_fallocate, fallocate());
    }
    decide_old_files(filter, groups);
}

/// Space behind the end; holes are punched with the same flag. Programs do without it where a file system does.
fn fallocate() -> Check {
    const KEEP_SIZE: u64 = libc::FALLOC_FL_KEEP_SIZE as u64;
    const PUNCH_HOLE: u64 = libc::FALLOC_FL_PUNCH_HOLE as u64;
    let reserves = int(1).masked(KEEP_SIZE | PUNCH_HOLE, KEEP_SIZE);
    Check::otherwise(ALLOW).when([reserves], Action::Errno(libc::EOPNOTSUPP as u16))
}

/// Leases and delegations make others wait who open the file or change the folder, for
/// `/proc/sys/fs/lease-break-time`; `F_NOTIFY` tells what others do in a folder. All of them need no more
/// than a file that was granted for reading, and some not even that. A command is an `unsigned int`.
fn fcntl() -> Check {
    /// asm-generic/fcntl.h and linux/fcntl.h; the last since Linux 6.19.
    const F_SETLEASE: u64 = 1024;
    const F_NOTIFY: u64 = 1026;
    const F_SETDELEG: u64 = 1040;
    Check::otherwise(ALLOW).when([int(1).one_of([F_SETLEASE, F_NOTIFY, F_SETDELEG])], EPERM)
}

/// A whiteout is a device node: what overlayfs takes for a file that was deleted. File systems without say `EINVAL`.
fn renameat2(guarded: bool) -> Check {
    let leaves_device = int(4).has_any(libc::RENAME_WHITEOUT.into());
    Check::otherwise(ALLOW).when_if(guarded, [leaves_device], EINVAL)
}

/// It keeps its mode in memory, where a filter cannot look.
fn openat2(groups: &Groups) -> Rule {
    match (groups.guard_setuid, groups.constant_open_how) {
        (false, _) => ALLOW.into(),
        (true, false) => ENOSYS.into(),
        (true, true) => open_how::openat2(ENOSYS).into(),
    }
}

#[cfg(target_arch = "x86_64")]
fn decide_old_files(filter: &mut Filter, groups: &Groups) {
    set(filter, libc::SYS_open, open(groups.guard_setuid, 1));
    set(
        filter,
        libc::SYS_creat,
        unless_setuid(groups.guard_setuid, 1),
    );
    set(filter, libc::SYS_chmod, chmod(groups, 1));
    set(filter, libc::SYS_mknod, mknod(groups, 1));
}

#[cfg(target_arch = "aarch64")]
fn decide_old_files(_: &mut Filter, _: &Groups) {}

/// The mode counts only for a new file; otherwise programs leave garbage in it. `O_TMPFILE`
/// contains `O_DIRECTORY`, which makes nothing.
fn open(guarded: bool, flags: u8) -> Check {
    let makes_file = libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY);
    let new_file = int(flags).has_any(makes_file as u64);
    Check::otherwise(ALLOW).when_if(guarded, [new_file, setuid_mode(flags + 1)], EPERM)
}

fn chmod(groups: &Groups, mode: u8) -> Rule {
    if groups.host_files_visible {
        EPERM.into()
    } else {
        unless_setuid(groups.guard_setuid || groups.guard_chmod, mode).into()
    }
}

fn unless_setuid(guarded: bool, mode: u8) -> Check {
    Check::otherwise(ALLOW).when_if(guarded, [setuid_mode(mode)], EPERM)
}

fn mknod(groups: &Groups, mode: u8) -> Check {
    let kind = |kind: libc::mode_t| int(mode).masked(libc::S_IFMT.into(), kind.into());
    Check::otherwise(ALLOW)
        .when([kind(libc::S_IFBLK)], EPERM)
        .when([kind(libc::S_IFCHR)], EPERM)
        .when_if(groups.guard_setuid, [setuid_mode(mode)], EPERM)
        .when_if(
            groups.special_files_ruled,
            [kind(libc::S_IFIFO)],
            Action::Ruled,
        )
        .when_if(
            groups.special_files_ruled,
            [kind(libc::S_IFSOCK)],
            Action::Ruled,
        )
}

fn setuid_mode(mode: u8) -> Test {
    int(mode).has_any((libc::S_ISUID | libc::S_ISGID).into())
}

/// Huge pages are refused with `ENOMEM`, as on a host that has none to spare.
fn decide_memory(filter: &mut Filter, groups: &Groups) {
    let memfd_create = huge_pages(memfd_create(groups), groups, 1, libc::MFD_HUGETLB.into())
        .when_if(
            groups.no_executable_memfd,
            [int(1).has_any(libc::MFD_EXEC.into())],
            EACCES,
        )
        .when_if(
            groups.memfd_must_be_sealed,
            [int(1).masked(libc::MFD_NOEXEC_SEAL.into(), 0)],
            EACCES,
        );
    set(filter, libc::SYS_memfd_create, memfd_create);
    let mmap = Check::otherwise(ALLOW);
    let mmap = huge_pages(mmap, groups, 3, libc::MAP_HUGETLB as u64);
    set(filter, libc::SYS_mmap, open_how::mmap(mmap, groups));
    if groups.constant_open_how {
        open_how::hold(filter);
    }
}

/// What the kernel calls invalid stays invalid, whatever else is asked of the flags: programs probe with all
/// bits set, and take another answer for a broken machine (Chromium ends itself). The kernel looks at the flags
/// before it looks at its own rule about execution (`sanitize_flags` in mm/memfd.c).
fn memfd_create(groups: &Groups) -> Check {
    const SIZES: u64 = 0x3f << 26;
    const HUGETLB: u64 = libc::MFD_HUGETLB as u64;
    const EITHER: u64 = (libc::MFD_EXEC | libc::MFD_NOEXEC_SEAL) as u64;
    const KNOWN: u64 = EITHER | HUGETLB | (libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) as u64;
    let judges = groups.no_huge_pages || groups.no_executable_memfd || groups.memfd_must_be_sealed;
    let unknown = int(1).has_any(u64::from(u32::MAX) & !(KNOWN | SIZES));
    let size_of_small = [int(1).masked(HUGETLB, 0), int(1).has_any(SIZES)];
    Check::otherwise(ALLOW)
        .when_if(judges, [unknown], EINVAL)
        .when_if(judges, size_of_small, EINVAL)
        .when_if(judges, [int(1).masked(EITHER, EITHER)], EINVAL)
}

fn huge_pages(check: Check, groups: &Groups, flags: u8, flag: u64) -> Check {
    check.when_if(groups.no_huge_pages, [int(flags).has_any(flag)], ENOMEM)
}

fn decide_ipc(filter: &mut Filter, groups: &Groups) {
    if groups.host_ipc_visible {
        set_all(filter, syscalls::IPC, EPERM);
        set(filter, libc::SYS_shmget, EPERM);
    } else {
        set_all(filter, syscalls::IPC, ALLOW);
        let shmget = Check::otherwise(ALLOW);
        let shmget = huge_pages(shmget, groups, 2, libc::SHM_HUGETLB as u64);
        set(filter, libc::SYS_shmget, shmget);
    }
}
