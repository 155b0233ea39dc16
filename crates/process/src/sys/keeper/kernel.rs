//! The system calls the keeper makes, without a C library.
//!
//! Each wrapper is one call and returns its errno. Structures and numbers are the kernel's own
//! (`include/uapi/linux`), named as the kernel names them.

use core::{
    arch::{asm, global_asm},
    sync::atomic::{AtomicU32, Ordering},
};

/// An errno of the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) u32);

pub(crate) type Result<T> = core::result::Result<T, Errno>;
pub(crate) type Fd = i32;

impl Errno {
    pub(crate) const PERM: Self = Self(1);
    pub(crate) const NOENT: Self = Self(2);
    pub(crate) const INTR: Self = Self(4);
    pub(crate) const NOEXEC: Self = Self(8);
    pub(crate) const CHILD: Self = Self(10);
    pub(crate) const AGAIN: Self = Self(11);
    pub(crate) const ACCESS: Self = Self(13);
    pub(crate) const BUSY: Self = Self(16);
    pub(crate) const NOTDIR: Self = Self(20);
    pub(crate) const INVAL: Self = Self(22);
    pub(crate) const NOSYS: Self = Self(38);
    pub(crate) const LOOP: Self = Self(40);
    pub(crate) const OVERFLOW: Self = Self(75);
    pub(crate) const CONNREFUSED: Self = Self(111);
}

mod number {
    pub(super) const READ: usize = 0;
    pub(super) const WRITE: usize = 1;
    pub(super) const CLOSE: usize = 3;
    pub(super) const LSEEK: usize = 8;
    pub(super) const MMAP: usize = 9;
    pub(super) const MUNMAP: usize = 11;
    pub(super) const RT_SIGACTION: usize = 13;
    pub(super) const RT_SIGPROCMASK: usize = 14;
    pub(super) const IOCTL: usize = 16;
    pub(super) const PREAD64: usize = 17;
    pub(super) const GETPID: usize = 39;
    pub(super) const SOCKET: usize = 41;
    pub(super) const CONNECT: usize = 42;
    pub(super) const SENDMSG: usize = 46;
    pub(super) const RECVMSG: usize = 47;
    pub(super) const BIND: usize = 49;
    pub(super) const LISTEN: usize = 50;
    pub(super) const SOCKETPAIR: usize = 53;
    pub(super) const CLONE: usize = 56;
    pub(super) const EXECVE: usize = 59;
    pub(super) const WAIT4: usize = 61;
    pub(super) const KILL: usize = 62;
    pub(super) const FCNTL: usize = 72;
    pub(super) const FLOCK: usize = 73;
    pub(super) const CHDIR: usize = 80;
    pub(super) const FCHDIR: usize = 81;
    pub(super) const CHROOT: usize = 161;
    pub(super) const UMASK: usize = 95;
    pub(super) const GETSOCKOPT: usize = 55;
    pub(super) const READLINKAT: usize = 267;
    pub(super) const PROCESS_VM_READV: usize = 310;
    pub(super) const PIDFD_OPEN: usize = 434;
    pub(super) const PIDFD_GETFD: usize = 438;
    pub(super) const GETRUSAGE: usize = 98;
    pub(super) const SETPGID: usize = 109;
    pub(super) const SETSID: usize = 112;
    pub(super) const SETGROUPS: usize = 116;
    pub(super) const SETRESUID: usize = 117;
    pub(super) const SETRESGID: usize = 119;
    pub(super) const CAPSET: usize = 126;
    pub(super) const FSTATFS: usize = 138;
    pub(super) const PIVOT_ROOT: usize = 155;
    pub(super) const PRCTL: usize = 157;
    pub(super) const UMOUNT2: usize = 166;
    pub(super) const SETHOSTNAME: usize = 170;
    pub(super) const FUTEX: usize = 202;
    pub(super) const SCHED_SETAFFINITY: usize = 203;
    pub(super) const GETDENTS64: usize = 217;
    pub(super) const UNSHARE: usize = 272;
    pub(super) const CLOCK_GETTIME: usize = 228;
    pub(super) const EXIT_GROUP: usize = 231;
    pub(super) const KEYCTL: usize = 250;
    pub(super) const INOTIFY_ADD_WATCH: usize = 254;
    pub(super) const OPENAT: usize = 257;
    pub(super) const MKDIRAT: usize = 258;
    pub(super) const UNLINKAT: usize = 263;
    pub(super) const SYMLINKAT: usize = 266;
    pub(super) const PPOLL: usize = 271;
    pub(super) const SIGNALFD4: usize = 289;
    pub(super) const DUP3: usize = 292;
    pub(super) const PIPE2: usize = 293;
    pub(super) const INOTIFY_INIT1: usize = 294;
    pub(super) const PRLIMIT64: usize = 302;
    pub(super) const SECCOMP: usize = 317;
    pub(super) const STATX: usize = 332;
    pub(super) const PIDFD_SEND_SIGNAL: usize = 424;
    pub(super) const OPEN_TREE: usize = 428;
    pub(super) const MOVE_MOUNT: usize = 429;
    pub(super) const FSOPEN: usize = 430;
    pub(super) const FSCONFIG: usize = 431;
    pub(super) const FSMOUNT: usize = 432;
    pub(super) const CLONE3: usize = 435;
    pub(super) const CLOSE_RANGE: usize = 436;
    pub(super) const OPENAT2: usize = 437;
    pub(super) const MOUNT_SETATTR: usize = 442;
    pub(super) const LANDLOCK_CREATE_RULESET: usize = 444;
    pub(super) const LANDLOCK_ADD_RULE: usize = 445;
    pub(super) const LANDLOCK_RESTRICT_SELF: usize = 446;
    pub(super) const OPEN_TREE_ATTR: usize = 467;
}

pub(crate) const AT_FDCWD: Fd = -100;
pub(crate) const AT_EMPTY_PATH: u32 = 0x1000;
pub(crate) const AT_RECURSIVE: u32 = 0x8000;
pub(crate) const AT_REMOVEDIR: u32 = 0x200;
pub(crate) const AT_SYMLINK_NOFOLLOW: u32 = 0x100;

pub(crate) const O_RDONLY: u32 = 0o0;
pub(crate) const O_WRONLY: u32 = 0o1;
pub(crate) const O_RDWR: u32 = 0o2;
pub(crate) const O_CREAT: u32 = 0o100;
pub(crate) const O_EXCL: u32 = 0o200;
pub(crate) const O_NOCTTY: u32 = 0o400;
pub(crate) const O_NONBLOCK: u32 = 0o4_000;
pub(crate) const O_DIRECTORY: u32 = 0o200_000;
pub(crate) const O_NOFOLLOW: u32 = 0o400_000;
pub(crate) const O_CLOEXEC: u32 = 0o2_000_000;
pub(crate) const O_PATH: u32 = 0o10_000_000;

pub(crate) const CLONE_VM: u64 = 0x100;
pub(crate) const CLONE_FILES: u64 = 0x400;
pub(crate) const CLONE_PIDFD: u64 = 0x1000;
pub(crate) const CLONE_CHILD_CLEARTID: u64 = 0x0020_0000;
pub(crate) const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
pub(crate) const CLONE_NEWNS: u64 = 0x0002_0000;
pub(crate) const CLONE_NEWCGROUP: u64 = 0x0200_0000;
pub(crate) const CLONE_NEWUTS: u64 = 0x0400_0000;
pub(crate) const CLONE_NEWIPC: u64 = 0x0800_0000;
pub(crate) const CLONE_NEWUSER: u64 = 0x1000_0000;
pub(crate) const CLONE_NEWPID: u64 = 0x2000_0000;
pub(crate) const CLONE_NEWNET: u64 = 0x4000_0000;

pub(crate) const SIGKILL: i32 = 9;
pub(crate) const SIGPIPE: i32 = 13;
pub(crate) const SIGCHLD: i32 = 17;
pub(crate) const SIGCONT: i32 = 18;

pub(crate) const MOUNT_ATTR_RDONLY: u64 = 1;
pub(crate) const MOUNT_ATTR_NOSUID: u64 = 2;
pub(crate) const MOUNT_ATTR_NODEV: u64 = 4;
pub(crate) const MOUNT_ATTR_NOEXEC: u64 = 8;
pub(crate) const MS_PRIVATE: u64 = 1 << 18;

pub(crate) const RESOLVE_NO_MAGICLINKS: u64 = 0x02;
pub(crate) const RESOLVE_NO_SYMLINKS: u64 = 0x04;
pub(crate) const RESOLVE_IN_ROOT: u64 = 0x10;
/// Only as far as the kernel knows by heart: no file system is asked (Linux 5.12).
pub(crate) const RESOLVE_CACHED: u64 = 0x20;

pub(crate) const POLLIN: i16 = 1;
/// `AT_STATX_DONT_SYNC`: what the kernel knows, without asking a server.
const AT_STATX_DONT_SYNC: u32 = 0x4000;
pub(crate) const POLLPRI: i16 = 2;

/// An attribute of statx(2): the file is the root of a mount.
pub(crate) const STATX_ATTR_MOUNT_ROOT: u64 = 0x2000;

/// # Safety
///
/// The arguments must be what call `n` of the kernel's ABI takes: every pointer among them valid for
/// the access that the call makes, for as long as it makes it.
#[inline(always)]
unsafe fn call6(
    n: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> Result<usize> {
    let result: isize;
    // SAFETY: the registers are those of the x86-64 system call ABI (psABI, A.2.1): rcx and r11
    // are overwritten by the kernel, memory only as the caller's contract allows.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") n as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    if (-4095..0).contains(&result) {
        Err(Errno(-result as u32))
    } else {
        Ok(result as usize)
    }
}

macro_rules! call {
    ($n:expr $(, $argument:expr)* $(,)?) => { call!(@ $n; $($argument,)*; 0, 0, 0, 0, 0, 0) };
    (@ $n:expr; ; $($zero:expr),*) => { call6($n, 0, 0, 0, 0, 0, 0) };
    (@ $n:expr; $a:expr,; $($zero:expr),*) => { call6($n, $a as usize, 0, 0, 0, 0, 0) };
    (@ $n:expr; $a:expr, $b:expr,; $($zero:expr),*) => { call6($n, $a as usize, $b as usize, 0, 0, 0, 0) };
    (@ $n:expr; $a:expr, $b:expr, $c:expr,; $($zero:expr),*) => { call6($n, $a as usize, $b as usize, $c as usize, 0, 0, 0) };
    (@ $n:expr; $a:expr, $b:expr, $c:expr, $d:expr,; $($zero:expr),*) => { call6($n, $a as usize, $b as usize, $c as usize, $d as usize, 0, 0) };
    (@ $n:expr; $a:expr, $b:expr, $c:expr, $d:expr, $e:expr,; $($zero:expr),*) => { call6($n, $a as usize, $b as usize, $c as usize, $d as usize, $e as usize, 0) };
    (@ $n:expr; $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr,; $($zero:expr),*) => { call6($n, $a as usize, $b as usize, $c as usize, $d as usize, $e as usize, $f as usize) };
}

/// A NUL-terminated string in a message or a literal.
#[derive(Clone, Copy)]
pub(crate) struct CStr<'a>(&'a [u8]);

impl<'a> CStr<'a> {
    /// `None` if the last byte is not the only NUL.
    pub(crate) fn new(bytes_with_nul: &'a [u8]) -> Option<Self> {
        let (last, rest) = bytes_with_nul.split_last()?;
        (*last == 0 && !rest.contains(&0)).then_some(Self(bytes_with_nul))
    }

    pub(crate) fn pointer(self) -> *const u8 {
        self.0.as_ptr()
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.len() == 1
    }

    pub(crate) fn is_absolute(self) -> bool {
        self.0.first() == Some(&b'/')
    }

    /// What stands between its slashes.
    pub(crate) fn names(self) -> impl Iterator<Item = &'a [u8]> {
        let separators = |byte: &u8| *byte == b'/' || *byte == 0;
        self.0.split(separators).filter(|name| !name.is_empty())
    }

    pub(crate) fn without_leading_slash(self) -> Self {
        match self.0 {
            [b'/', rest @ ..] => Self(rest),
            _ => self,
        }
    }
}

macro_rules! c {
    ($text:literal) => {
        match $crate::kernel::CStr::new(concat!($text, "\0").as_bytes()) {
            Some(text) => text,
            None => $crate::exit(125),
        }
    };
}
pub(crate) use c;

/// What `openat2` takes.
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// What `mount_setattr` takes.
#[repr(C)]
pub(crate) struct MountAttr {
    pub(crate) attr_set: u64,
    pub(crate) attr_clr: u64,
    pub(crate) propagation: u64,
    pub(crate) userns_fd: u64,
}

/// `struct statx`, of which only these fields are read.
#[repr(C)]
pub(crate) struct Statx {
    mask: u32,
    block_size: u32,
    pub(crate) attributes: u64,
    between_attributes_and_mode: [u8; 12],
    pub(crate) mode: u16,
    spare: u16,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    between: [u8; 88],
    pub(crate) device_major: u32,
    pub(crate) device_minor: u32,
    /// Since Linux 5.8.
    pub(crate) mount: u64,
    rest: [u8; 104],
}

const STATX_BYTES: usize = 256;
const _: () = assert!(size_of::<Statx>() == STATX_BYTES);

#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

#[repr(C)]
pub(crate) struct PollFd {
    pub(crate) fd: Fd,
    pub(crate) events: i16,
    pub(crate) revents: i16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Timespec {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct Rusage {
    pub(crate) user: [i64; 2],
    pub(crate) system: [i64; 2],
    pub(crate) max_rss_kib: i64,
    unmaintained: [i64; 3],
    pub(crate) minor_faults: i64,
    pub(crate) major_faults: i64,
    swaps: i64,
    pub(crate) blocks_in: i64,
    pub(crate) blocks_out: i64,
    messages: [i64; 3],
    pub(crate) voluntary_switches: i64,
    pub(crate) involuntary_switches: i64,
}

#[repr(C)]
struct IoVec {
    base: *mut u8,
    length: usize,
}

#[repr(C)]
struct MsgHdr {
    name: *const u8,
    name_length: u32,
    iov: *mut IoVec,
    iov_length: usize,
    control: *mut u8,
    control_length: usize,
    flags: i32,
}

/// `struct cmsghdr` and room for the most descriptors of one message.
#[repr(C, align(8))]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
    fds: [Fd; crate::wire::MAX_FDS],
}

const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const CMSG_HEADER_BYTES: usize = 16;
const MSG_CMSG_CLOEXEC: i32 = 0x4000_0000;
const MSG_NOSIGNAL: i32 = 0x4000;
const MSG_DONTWAIT: i32 = 0x40;
const MSG_CTRUNC: i32 = 8;

pub(crate) fn exit(code: i32) -> ! {
    loop {
        // SAFETY: exit_group takes no pointer and does not return.
        let _ = unsafe { call!(number::EXIT_GROUP, code) };
    }
}

pub(crate) fn read(fd: Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most `len` bytes into a buffer borrowed for the call.
    unsafe { call!(number::READ, fd, buffer.as_mut_ptr(), buffer.len()) }
}

pub(crate) fn read_at(fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    // SAFETY: as in `read`.
    unsafe {
        call!(
            number::PREAD64,
            fd,
            buffer.as_mut_ptr(),
            buffer.len(),
            offset
        )
    }
}

pub(crate) fn write(fd: Fd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads `len` bytes of a slice borrowed for the call.
    unsafe { call!(number::WRITE, fd, bytes.as_ptr(), bytes.len()) }
}

pub(crate) fn close(fd: Fd) {
    // SAFETY: no pointer; a descriptor closed twice answers EBADF, which changes nothing.
    let _ = unsafe { call!(number::CLOSE, fd) };
}

/// Anonymous private memory that is given back when the process ends.
pub(crate) fn allocate(length: usize) -> Result<&'static mut [u8]> {
    const PROT_READ_WRITE: usize = 3;
    const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let address = unsafe {
        call!(
            number::MMAP,
            0,
            length,
            PROT_READ_WRITE,
            MAP_PRIVATE_ANONYMOUS,
            -1isize,
            0
        )?
    };
    // SAFETY: the mapping is `length` zeroed bytes, aligned to a page, and nothing else points to it.
    Ok(unsafe { core::slice::from_raw_parts_mut(address as *mut u8, length) })
}

/// Gives memory of [`allocate`] back.
pub(crate) fn release(memory: &'static mut [u8]) {
    // SAFETY: the slice is a whole mapping of `allocate` and this was its only reference.
    let _ = unsafe { call!(number::MUNMAP, memory.as_mut_ptr(), memory.len()) };
}

pub(crate) fn set_signal_mask(mask: u64) -> Result<()> {
    const SIG_SETMASK: usize = 2;
    // SAFETY: the kernel reads the eight bytes of the mask during the call.
    unsafe { call!(number::RT_SIGPROCMASK, SIG_SETMASK, &raw const mask, 0, 8).map(drop) }
}

/// Gives a signal its default action. SIGKILL and SIGSTOP have no other, and say so.
pub(crate) fn set_default_action(signal: i32) {
    // `struct sigaction` of the kernel: handler, flags, restorer, mask; SIG_DFL is zero.
    let default = [0u64; 4];
    // SAFETY: the kernel reads 32 bytes; no old action is asked for; the mask has eight bytes.
    let _ = unsafe { call!(number::RT_SIGACTION, signal, default.as_ptr(), 0, 8) };
}

/// A descriptor that becomes readable when a signal of `mask` is pending.
pub(crate) fn signalfd(mask: u64) -> Result<Fd> {
    const SFD_CLOEXEC_NONBLOCK: usize = 0o2_004_000;
    // SAFETY: the kernel reads the eight bytes of the mask during the call.
    unsafe {
        call!(
            number::SIGNALFD4,
            -1isize,
            &raw const mask,
            8,
            SFD_CLOEXEC_NONBLOCK
        )
        .map(|fd| fd as Fd)
    }
}

pub(crate) fn set_session() -> Result<()> {
    // SAFETY: no pointer.
    unsafe { call!(number::SETSID).map(drop) }
}

/// Makes the calling process the leader of a group of its own.
pub(crate) fn set_own_group() -> Result<()> {
    // SAFETY: no pointer.
    unsafe { call!(number::SETPGID, 0, 0).map(drop) }
}

pub(crate) fn prctl(option: u32, argument: u64) -> Result<()> {
    // SAFETY: the options used here (`PR_SET_*` of `main.rs`) take numbers, not pointers.
    unsafe { call!(number::PRCTL, option, argument, 0, 0, 0).map(drop) }
}

pub(crate) fn set_ids(uid: u32, gid: u32) -> Result<()> {
    // SAFETY: setgroups with a count of zero reads no memory; the others take no pointer.
    unsafe {
        // Denied once `setgroups` is "deny", as it is for an unprivileged user: there is nothing to drop then.
        let _ = call!(number::SETGROUPS, 0, 0);
        call!(number::SETRESGID, gid, gid, gid)?;
        call!(number::SETRESUID, uid, uid, uid).map(drop)
    }
}

pub(crate) fn drop_capabilities() -> Result<()> {
    let header: [u32; 2] = [0x2008_0522, 0];
    let none = [0u32; 6];
    // SAFETY: version 3 of capset reads a header of 8 bytes and two sets of 12 bytes.
    unsafe { call!(number::CAPSET, header.as_ptr(), none.as_ptr()).map(drop) }
}

pub(crate) fn process_id() -> i32 {
    // SAFETY: no pointer; getpid can't fail.
    unsafe { call!(number::GETPID) }.unwrap_or(0) as i32
}

pub(crate) fn kill(pid: i32, signal: i32) -> Result<()> {
    // SAFETY: no pointer.
    unsafe { call!(number::KILL, pid, signal).map(drop) }
}

pub(crate) fn pidfd_kill(pidfd: Fd) {
    // SAFETY: a null siginfo is allowed and means the default.
    let _ = unsafe { call!(number::PIDFD_SEND_SIGNAL, pidfd, SIGKILL, 0, 0) };
}

/// Reaps one child if one has changed; `None` if none has.
pub(crate) fn wait_any(options: u32) -> Result<Option<(i32, u32)>> {
    let mut status = 0u32;
    // SAFETY: the kernel writes four bytes of status; no rusage is asked for.
    let pid = unsafe { call!(number::WAIT4, -1isize, &raw mut status, options, 0)? };
    Ok((pid != 0).then_some((pid as i32, status)))
}

/// Usage of all children that were reaped.
pub(crate) fn children_usage() -> Rusage {
    const RUSAGE_CHILDREN: isize = -1;
    usage(RUSAGE_CHILDREN)
}

/// Usage of this process.
pub(crate) fn own_usage() -> Rusage {
    const RUSAGE_SELF: isize = 0;
    usage(RUSAGE_SELF)
}

fn usage(whose: isize) -> Rusage {
    let mut usage = Rusage::default();
    // SAFETY: the kernel writes one `struct rusage`, whose layout `Rusage` has.
    let _ = unsafe { call!(number::GETRUSAGE, whose, &raw mut usage) };
    usage
}

pub(crate) fn monotonic_ns() -> u64 {
    const CLOCK_MONOTONIC: usize = 1;
    let mut now = Timespec::default();
    // SAFETY: the kernel writes one timespec.
    let _ = unsafe { call!(number::CLOCK_GETTIME, CLOCK_MONOTONIC, &raw mut now) };
    now.seconds as u64 * 1_000_000_000 + now.nanoseconds as u64
}

/// Waits until a descriptor is ready or `timeout_ns` have passed (`None` waits for ever).
pub(crate) fn poll(fds: &mut [PollFd], timeout_ns: Option<u64>) -> Result<usize> {
    let timeout = timeout_ns.map(|ns| Timespec {
        seconds: (ns / 1_000_000_000) as i64,
        nanoseconds: (ns % 1_000_000_000) as i64,
    });
    let pointer = timeout
        .as_ref()
        .map_or(core::ptr::null(), |timeout| &raw const *timeout);
    // SAFETY: `fds` and the timeout live for the call; a null timeout and mask are allowed.
    unsafe { call!(number::PPOLL, fds.as_mut_ptr(), fds.len(), pointer, 0, 8) }
}

pub(crate) fn open(at: Fd, path: CStr, flags: u32, mode: u32) -> Result<Fd> {
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(number::OPENAT, at, path.pointer(), flags | O_CLOEXEC, mode).map(|fd| fd as Fd) }
}

/// `openat2` with limits on how the path may be resolved.
pub(crate) fn open_resolved(at: Fd, path: CStr, flags: u32, resolve: u64) -> Result<Fd> {
    let how = OpenHow {
        flags: u64::from(flags | O_CLOEXEC),
        mode: 0,
        resolve,
    };
    // SAFETY: path and `how` (24 bytes, as said) are borrowed for the call.
    unsafe {
        call!(
            number::OPENAT2,
            at,
            path.pointer(),
            &raw const how,
            size_of::<OpenHow>()
        )
        .map(|fd| fd as Fd)
    }
}

/// An absolute path in which no part is a symlink, for who cannot call `openat2`: inside another domain where modes
/// are guarded the filter around refuses it (`ENOSYS`). Each folder is opened by name in the one before.
fn open_without_links(path: CStr) -> Result<Fd> {
    const NAME_BYTES: usize = 256;
    const S_IFMT: u16 = 0o170_000;
    const S_IFLNK: u16 = 0o120_000;
    let each = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    let mut found = open(AT_FDCWD, c!("/"), each | O_DIRECTORY, 0)?;
    for name in path.names() {
        let mut text = [0; NAME_BYTES];
        let opened = match text.get_mut(..name.len() + 1) {
            Some([place @ .., _]) if name != b".." => {
                place.copy_from_slice(name);
                CStr::new(&text[..=name.len()])
                    .ok_or(Errno::INVAL)
                    .and_then(|name| open(found, name, each, 0))
            }
            _ => Err(Errno::INVAL),
        };
        close(found);
        found = opened?;
        if statx_fd(found)?.mode & S_IFMT == S_IFLNK {
            close(found);
            return Err(Errno::LOOP);
        }
    }
    Ok(found)
}

/// The same by whichever call there is.
pub(crate) fn open_plain(path: CStr) -> Result<Fd> {
    match open_resolved(AT_FDCWD, path, O_PATH, RESOLVE_NO_SYMLINKS) {
        Err(errno) if errno == Errno::NOSYS => open_without_links(path),
        outcome => outcome,
    }
}

pub(crate) fn statx_fd(fd: Fd) -> Result<Statx> {
    statx(fd, c!(""), AT_EMPTY_PATH)
}

/// Of what has this name in a folder, which may be a symlink.
pub(crate) fn statx_at(folder: Fd, name: CStr) -> Result<Statx> {
    statx(folder, name, AT_SYMLINK_NOFOLLOW)
}

/// As [`statx_fd`], without waiting for a file system.
pub(crate) fn statx_known(fd: Fd) -> Result<Statx> {
    statx(fd, c!(""), AT_EMPTY_PATH | AT_STATX_DONT_SYNC)
}

fn statx(at: Fd, path: CStr, flags: u32) -> Result<Statx> {
    const STATX_BASIC: usize = 0x7ff;
    const STATX_MNT_ID: usize = 0x1000;
    let mut result = core::mem::MaybeUninit::<Statx>::zeroed();
    // SAFETY: the kernel writes at most 256 bytes, the size asserted above; the path is NUL-terminated and
    // borrowed for the call.
    unsafe {
        call!(
            number::STATX,
            at,
            path.pointer(),
            flags,
            STATX_BASIC | STATX_MNT_ID,
            result.as_mut_ptr()
        )?;
        Ok(result.assume_init())
    }
}

pub(crate) fn make_dir(at: Fd, path: CStr, mode: u32) -> Result<()> {
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(number::MKDIRAT, at, path.pointer(), mode).map(drop) }
}

pub(crate) fn symlink(target: CStr, at: Fd, path: CStr) -> Result<()> {
    // SAFETY: both strings are NUL-terminated and borrowed for the call.
    unsafe { call!(number::SYMLINKAT, target.pointer(), at, path.pointer()).map(drop) }
}

pub(crate) fn unlink(at: Fd, path: CStr, flags: u32) -> Result<()> {
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(number::UNLINKAT, at, path.pointer(), flags).map(drop) }
}

/// An instance of inotify(7) whose reads do not wait.
pub(crate) fn inotify() -> Result<Fd> {
    const IN_NONBLOCK_CLOEXEC: usize = 0o2_004_000;
    // SAFETY: no pointer.
    unsafe { call!(number::INOTIFY_INIT1, IN_NONBLOCK_CLOEXEC).map(|fd| fd as Fd) }
}

pub(crate) fn inotify_watch(inotify: Fd, path: CStr, events: u32) -> Result<()> {
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(number::INOTIFY_ADD_WATCH, inotify, path.pointer(), events).map(drop) }
}

pub(crate) fn directory_entries(fd: Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most `len` bytes into the borrowed buffer.
    unsafe { call!(number::GETDENTS64, fd, buffer.as_mut_ptr(), buffer.len()) }
}

pub(crate) fn change_directory(path: CStr) -> Result<()> {
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(number::CHDIR, path.pointer()).map(drop) }
}

pub(crate) fn change_directory_fd(fd: Fd) -> Result<()> {
    // SAFETY: no pointer.
    unsafe { call!(number::FCHDIR, fd).map(drop) }
}

pub(crate) fn change_root(path: CStr) -> Result<()> {
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(number::CHROOT, path.pointer()).map(drop) }
}

pub(crate) fn clear_umask() {
    // SAFETY: no pointer; umask can't fail.
    let _ = unsafe { call!(number::UMASK, 0) };
}

pub(crate) fn set_umask(mask: u32) {
    // SAFETY: no pointer; umask can't fail.
    let _ = unsafe { call!(number::UMASK, mask) };
}

/// The exclusive lock of flock(2), if nobody holds any.
pub(crate) fn lock_exclusively(fd: Fd) -> Result<()> {
    const LOCK_EX_NB: usize = 2 | 4;
    // SAFETY: no pointer.
    unsafe { call!(number::FLOCK, fd, LOCK_EX_NB).map(drop) }
}

/// How the descriptor was opened: `O_RDONLY`, `O_WRONLY` or `O_RDWR`.
pub(crate) fn access_mode(fd: Fd) -> Result<u32> {
    const F_GETFL: usize = 3;
    const O_ACCMODE: usize = 3;
    // SAFETY: no pointer.
    let flags = unsafe { call!(number::FCNTL, fd, F_GETFL)? };
    Ok((flags & O_ACCMODE) as u32)
}

pub(crate) fn duplicate_to(from: Fd, to: Fd) -> Result<()> {
    // SAFETY: no pointer.
    unsafe { call!(number::DUP3, from, to, 0).map(drop) }
}

/// Takes close-on-exec off a descriptor.
pub(crate) fn keep_on_exec(fd: Fd) -> Result<()> {
    const F_SETFD: u32 = 2;
    // SAFETY: no pointer.
    unsafe { call!(number::FCNTL, fd, F_SETFD, 0).map(drop) }
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: Fd) -> Result<()> {
    // SAFETY: no pointer.
    unsafe { call!(number::CLOSE_RANGE, first, u32::MAX, 0).map(drop) }
}

pub(crate) fn set_host_name(name: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads `len` bytes of a borrowed slice.
    unsafe { call!(number::SETHOSTNAME, name.as_ptr(), name.len()).map(drop) }
}

pub(crate) fn set_affinity(mask: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads `len` bytes of a borrowed slice.
    unsafe { call!(number::SCHED_SETAFFINITY, 0, mask.len(), mask.as_ptr()).map(drop) }
}

pub(crate) fn set_limit(resource: u32, soft: u64, hard: u64) -> Result<()> {
    let limit = [soft, hard];
    // SAFETY: the kernel reads one `struct rlimit64` of 16 bytes; no old value is asked for.
    unsafe { call!(number::PRLIMIT64, 0, resource, limit.as_ptr(), 0).map(drop) }
}

/// The most that this process may set its limit to: setrlimit(2).
pub(crate) fn hard_limit(resource: u32) -> Result<u64> {
    let mut limit = [0u64; 2];
    // SAFETY: the kernel writes one `struct rlimit64` of 16 bytes; no new value is given.
    unsafe { call!(number::PRLIMIT64, 0, resource, 0, limit.as_mut_ptr()) }?;
    Ok(limit[1])
}

/// An anonymous session keyring instead of the one the starter has.
pub(crate) fn join_new_keyring() -> Result<()> {
    const KEYCTL_JOIN_SESSION_KEYRING: usize = 1;
    // SAFETY: a null name is allowed and means an anonymous keyring.
    unsafe { call!(number::KEYCTL, KEYCTL_JOIN_SESSION_KEYRING, 0).map(drop) }
}

/// `ioctl` whose argument is a number or a structure of the caller's.
pub(crate) fn ioctl<T>(fd: Fd, request: u32, argument: &mut T) -> Result<()> {
    // SAFETY: each request takes a pointer to the type it is given where it is used.
    unsafe { call!(number::IOCTL, fd, request, &raw mut *argument).map(drop) }
}

pub(crate) fn ioctl_number(fd: Fd, request: u32, argument: usize) -> Result<usize> {
    // SAFETY: the requests used with this form take a number.
    unsafe { call!(number::IOCTL, fd, request, argument) }
}

const OPEN_TREE_CLONE_CLOEXEC: u32 = 0o2_000_001;

/// [`open_tree`] and [`set_mount_attributes`] in one, of Linux 6.15.
pub(crate) fn open_tree_with(fd: Fd, flags: u32, attributes: &MountAttr) -> Result<Fd> {
    // SAFETY: the kernel reads 32 bytes, the size of `MountAttr`; the path is an empty literal.
    unsafe {
        call!(
            number::OPEN_TREE_ATTR,
            fd,
            c!("").pointer(),
            OPEN_TREE_CLONE_CLOEXEC | AT_EMPTY_PATH | flags,
            &raw const *attributes,
            size_of::<MountAttr>()
        )
        .map(|fd| fd as Fd)
    }
}

pub(crate) fn open_tree(fd: Fd, flags: u32) -> Result<Fd> {
    // SAFETY: the path is an empty literal.
    unsafe {
        call!(
            number::OPEN_TREE,
            fd,
            c!("").pointer(),
            OPEN_TREE_CLONE_CLOEXEC | AT_EMPTY_PATH | flags
        )
        .map(|fd| fd as Fd)
    }
}

/// Attaches the detached mount `mount` at the place `target`.
pub(crate) fn move_mount(mount: Fd, target: Fd) -> Result<()> {
    const T_EMPTY_PATH: usize = 0x40;
    move_mount_to(mount, target, c!(""), T_EMPTY_PATH)
}

/// Attaches it at a path below a folder. Its last part may not be a link.
pub(crate) fn move_mount_below(mount: Fd, folder: Fd, path: CStr) -> Result<()> {
    move_mount_to(mount, folder, path, 0)
}

fn move_mount_to(mount: Fd, folder: Fd, path: CStr, flags: usize) -> Result<()> {
    const F_EMPTY_PATH: usize = 0x04;
    // SAFETY: both paths end with a NUL and are borrowed for the call.
    unsafe {
        call!(
            number::MOVE_MOUNT,
            mount,
            c!("").pointer(),
            folder,
            path.pointer(),
            F_EMPTY_PATH | flags
        )
        .map(drop)
    }
}

pub(crate) fn set_mount_attributes(mount: Fd, flags: u32, attributes: &MountAttr) -> Result<()> {
    // SAFETY: the kernel reads 32 bytes, the size of `MountAttr`; the path is an empty literal.
    unsafe {
        call!(
            number::MOUNT_SETATTR,
            mount,
            c!("").pointer(),
            AT_EMPTY_PATH | flags,
            &raw const *attributes,
            size_of::<MountAttr>()
        )
        .map(drop)
    }
}

pub(crate) fn fsopen(kind: CStr) -> Result<Fd> {
    const FSOPEN_CLOEXEC: usize = 1;
    // SAFETY: the name is NUL-terminated and borrowed for the call.
    unsafe { call!(number::FSOPEN, kind.pointer(), FSOPEN_CLOEXEC).map(|fd| fd as Fd) }
}

pub(crate) fn fsconfig_string(fd: Fd, key: CStr, value: CStr) -> Result<()> {
    const FSCONFIG_SET_STRING: usize = 1;
    // SAFETY: both strings are NUL-terminated and borrowed for the call.
    unsafe {
        call!(
            number::FSCONFIG,
            fd,
            FSCONFIG_SET_STRING,
            key.pointer(),
            value.pointer(),
            0
        )
        .map(drop)
    }
}

pub(crate) fn fsconfig_flag(fd: Fd, key: CStr) -> Result<()> {
    const FSCONFIG_SET_FLAG: usize = 0;
    // SAFETY: the key is NUL-terminated and borrowed for the call.
    unsafe { call!(number::FSCONFIG, fd, FSCONFIG_SET_FLAG, key.pointer(), 0, 0).map(drop) }
}

/// Creates the configured file system and gives a detached mount of it.
pub(crate) fn fsmount(fd: Fd, attributes: u64) -> Result<Fd> {
    const FSCONFIG_CMD_CREATE: usize = 6;
    const FSMOUNT_CLOEXEC: usize = 1;
    // SAFETY: no pointer.
    unsafe {
        call!(number::FSCONFIG, fd, FSCONFIG_CMD_CREATE, 0, 0, 0)?;
        call!(number::FSMOUNT, fd, FSMOUNT_CLOEXEC, attributes).map(|fd| fd as Fd)
    }
}

/// `pivot_root(".", ".")`: the old root ends up on top of the new one (pivot_root(2), NOTES).
pub(crate) fn pivot_root_here() -> Result<()> {
    let here = c!(".").pointer();
    // SAFETY: both paths are literals.
    unsafe { call!(number::PIVOT_ROOT, here, here).map(drop) }
}

pub(crate) fn detach_here() -> Result<()> {
    const MNT_DETACH: usize = 2;
    // SAFETY: the path is a literal.
    unsafe { call!(number::UMOUNT2, c!(".").pointer(), MNT_DETACH).map(drop) }
}

pub(crate) fn landlock_create_ruleset(attributes: &[u64; 3]) -> Result<Fd> {
    // SAFETY: the kernel reads 24 bytes, the size of the array.
    unsafe { call!(number::LANDLOCK_CREATE_RULESET, attributes.as_ptr(), 24, 0).map(|fd| fd as Fd) }
}

pub(crate) fn landlock_add_path(ruleset: Fd, rights: u64, parent: Fd) -> Result<()> {
    const LANDLOCK_RULE_PATH_BENEATH: usize = 1;
    #[repr(C, packed)]
    struct PathBeneath {
        rights: u64,
        parent: Fd,
    }
    let rule = PathBeneath { rights, parent };
    // SAFETY: the kernel reads the 12 bytes of the packed rule.
    unsafe {
        call!(
            number::LANDLOCK_ADD_RULE,
            ruleset,
            LANDLOCK_RULE_PATH_BENEATH,
            &raw const rule,
            0
        )
        .map(drop)
    }
}

pub(crate) fn landlock_restrict_self(ruleset: Fd) -> Result<()> {
    // SAFETY: no pointer.
    unsafe { call!(number::LANDLOCK_RESTRICT_SELF, ruleset, 0).map(drop) }
}

/// Loads a classic BPF program of 8-byte instructions as a seccomp filter, with these flags
/// (`SECCOMP_FILTER_FLAG_*`). Gives the listener, if they ask for one.
pub(crate) fn seccomp(program: &[u8], flags: u32) -> Result<Option<Fd>> {
    const SECCOMP_SET_MODE_FILTER: usize = 1;
    #[repr(C)]
    struct Program {
        length: u16,
        instructions: *const u8,
    }
    let length = u16::try_from(program.len() / 8).map_err(|_| Errno::INVAL)?;
    let program = Program {
        length,
        instructions: program.as_ptr(),
    };
    // SAFETY: `length` instructions of 8 bytes lie behind the pointer for the call.
    unsafe {
        call!(
            number::SECCOMP,
            SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program
        )
    }
    .map(|listener| (flags & NEW_LISTENER != 0).then_some(listener as Fd))
}

/// `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
pub(crate) const NEW_LISTENER: u32 = 1 << 3;
/// `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV` (Linux 5.19): a call that is looked at is taken back by no signal but one that
/// ends its process.
pub(crate) const WAIT_KILLABLE: u32 = 1 << 5;

/// `struct seccomp_notif`: a call that waits.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Notified {
    pub(crate) id: u64,
    /// As this process's pid namespace numbers it.
    pub(crate) thread: i32,
    flags: u32,
    pub(crate) number: i32,
    architecture: u32,
    instruction: u64,
    pub(crate) arguments: [u64; 6],
}
const _: () = assert!(size_of::<Notified>() == 80);

/// Numbers of calls that are looked at.
pub(crate) mod looked_at {
    pub(crate) const CONNECT: i32 = 42;
    pub(crate) const SENDTO: i32 = 44;
    pub(crate) const EXECVE: i32 = 59;
    pub(crate) const SENDMMSG: i32 = 307;
    pub(crate) const EXECVEAT: i32 = 322;
}

/// What a call that waits comes to.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// It goes on, and the kernel decides.
    Continue,
    /// It returns 0, and nothing was done.
    Done,
    /// It fails.
    Failed(Errno),
}

/// Has the kernel hand the processor over to who looks, and back (Linux 6.6).
pub(crate) fn hand_over_processor(listener: Fd) {
    const SET_FLAGS: u32 = 0x4008_2104;
    const SYNC_WAKE_UP: usize = 1;
    let _ = ioctl_number(listener, SET_FLAGS, SYNC_WAKE_UP);
}

/// The next call that waits; it is there if the listener is readable, or was taken back.
pub(crate) fn notified(listener: Fd) -> Result<Notified> {
    const RECEIVE: u32 = 0xc050_2100;
    let mut call = Notified::default();
    ioctl(listener, RECEIVE, &mut call)?;
    Ok(call)
}

/// Answers one. It fails only if nobody waits any more.
pub(crate) fn answer_notified(listener: Fd, id: u64, answer: Answer) {
    const SEND: u32 = 0xc018_2101;
    const CONTINUE: u64 = 1;
    let (error, flags) = match answer {
        Answer::Continue => (0, CONTINUE),
        Answer::Done => (0, 0),
        Answer::Failed(errno) => (-(errno.0 as i32), 0),
    };
    // `struct seccomp_notif_resp`: id, value, then error and flags in a word.
    let mut response = [id, 0, u64::from(error as u32) | flags << 32];
    let _ = ioctl(listener, SEND, &mut response);
}

/// Copies from another process's memory, at most a page, and as much as there is.
pub(crate) fn read_memory(thread: i32, address: u64, buffer: &mut [u8]) -> Result<usize> {
    const PAGE: u64 = 4096;
    let length = buffer.len().min(PAGE as usize);
    let local = IoVec {
        base: buffer.as_mut_ptr(),
        length,
    };
    // In two, for the kernel copies a part wholly or not at all.
    let first = ((PAGE - address % PAGE) as usize).min(length);
    let remote = [
        IoVec {
            base: address as *mut u8,
            length: first,
        },
        IoVec {
            base: address.wrapping_add(first as u64) as *mut u8,
            length: length - first,
        },
    ];
    // SAFETY: the kernel writes at most `length` bytes into the borrowed buffer; it checks the other addresses against the
    // other process's mappings.
    unsafe {
        call!(
            number::PROCESS_VM_READV,
            thread,
            &raw const local,
            1,
            remote.as_ptr(),
            2,
            0
        )
    }
}

/// What a symlink says, as far as there is room.
pub(crate) fn read_link(at: Fd, path: CStr, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the path is NUL-terminated, and the kernel writes at most `len` bytes into the borrowed buffer.
    unsafe {
        call!(
            number::READLINKAT,
            at,
            path.pointer(),
            buffer.as_mut_ptr(),
            buffer.len()
        )
    }
}

/// The type of another thread's socket (`SO_TYPE`). Before Linux 6.9 only a process's first thread can be asked.
pub(crate) fn socket_type(thread: i32, fd: u64) -> Result<u32> {
    const PIDFD_THREAD: u32 = O_EXCL;
    const SO_TYPE: i32 = 3;
    let open = |flags: u32| {
        // SAFETY: takes numbers only.
        unsafe { call!(number::PIDFD_OPEN, thread, flags) }
    };
    let pidfd = open(PIDFD_THREAD).or_else(|_| open(0))? as Fd;
    // SAFETY: takes numbers only.
    let socket = unsafe { call!(number::PIDFD_GETFD, pidfd, fd as u32, 0) };
    close(pidfd);
    let socket = socket? as Fd;
    let (mut kind, mut length) = (0u32, size_of::<u32>() as u32);
    // SAFETY: the kernel writes at most `length` bytes to a word that is borrowed for the call, and the length.
    let asked = unsafe {
        call!(
            number::GETSOCKOPT,
            socket,
            SOL_SOCKET,
            SO_TYPE,
            &raw mut kind,
            &raw mut length
        )
    };
    close(socket);
    asked.map(|_| kind)
}

/// # Safety
///
/// `arguments` and `environment` must point to arrays of string pointers that end with null.
pub(crate) unsafe fn execute(
    path: CStr,
    arguments: *const *const u8,
    environment: *const *const u8,
) -> Errno {
    // SAFETY: the path is NUL-terminated; the arrays are the caller's promise. On success the
    // call does not return.
    match unsafe {
        call!(
            number::EXECVE,
            path.pointer(),
            arguments,
            environment,
            crate::wire::OWN_EXECUTION
        )
    } {
        Err(errno) => errno,
        Ok(_) => Errno(0),
    }
}

/// Forks with new namespaces, into a cgroup if one is given. `Ok(None)` in the child.
pub(crate) fn fork(namespaces: u64, cgroup: Option<Fd>) -> Result<Option<(i32, Fd)>> {
    /// The structure as of Linux 5.3, before cgroups: older kernels know no other.
    const BYTES_WITHOUT_CGROUP: usize = 64;
    let mut pidfd: Fd = -1;
    let arguments = CloneArgs {
        flags: namespaces
            | CLONE_PIDFD
            | if cgroup.is_some() {
                CLONE_INTO_CGROUP
            } else {
                0
            },
        pidfd: &raw mut pidfd as u64,
        exit_signal: SIGCHLD as u64,
        cgroup: cgroup.unwrap_or(0) as u64,
        ..CloneArgs::default()
    };
    let bytes = if cgroup.is_some() {
        size_of::<CloneArgs>()
    } else {
        BYTES_WITHOUT_CGROUP
    };
    // SAFETY: without CLONE_VM the child works on a copy of all memory, this stack included; the
    // kernel writes the pidfd before either side returns.
    let forked = unsafe { call!(number::CLONE3, &raw const arguments, bytes) };
    let pid = match forked {
        Err(Errno::NOSYS) => fork_by_clone(namespaces, cgroup, &mut pidfd)?,
        forked => forked?,
    };
    Ok((pid != 0).then_some((pid as i32, pidfd)))
}

/// Container runtimes hide clone3, whose flags their filters cannot read. Without it the child has
/// to move itself into the cgroup.
fn fork_by_clone(namespaces: u64, cgroup: Option<Fd>, pidfd: &mut Fd) -> Result<usize> {
    let flags = namespaces | CLONE_PIDFD | SIGCHLD as u64;
    // SAFETY: as in `fork`. The third argument is where CLONE_PIDFD stores (clone(2)).
    let pid = unsafe { call!(number::CLONE, flags, 0usize, &raw mut *pidfd)? };
    if pid == 0 && cgroup.is_some_and(|cgroup| enter_cgroup(cgroup).is_err()) {
        crate::exit(125);
    }
    Ok(pid)
}

fn enter_cgroup(cgroup: Fd) -> Result<()> {
    let processes = open(cgroup, c!("cgroup.procs"), O_WRONLY, 0)?;
    let entered = write(processes, b"0");
    close(processes);
    entered.map(drop)
}

/// Runs `run(argument)` in a child that shares this memory, and this process's descriptors too if it
/// says so, and waits until the child has executed a program or ended. Gives the child's pid.
///
/// It is vfork(2) but for the wait, which counts as sleep: a parent in vfork adds to the load
/// average of the machine, and this one may wait for hours.
pub(crate) fn spawn<T>(
    stack: &mut [u8],
    run: extern "C" fn(&mut T) -> !,
    argument: &mut T,
    share_descriptors: bool,
) -> Result<i32> {
    let top = (stack.as_mut_ptr() as usize + stack.len()) & !15;
    let files = if share_descriptors { CLONE_FILES } else { 0 };
    let flags = CLONE_VM | CLONE_CHILD_CLEARTID | files | SIGCHLD as u64;
    let sharing = AtomicU32::new(1);
    // SAFETY: the child runs on `stack` and clears `sharing`; both are there until this returns, and
    // that is after the child has stopped using this memory: the kernel clears the word when the
    // child lets go of it, by execve or exit (mm_release in kernel/fork.c). `run` never returns.
    let result = unsafe {
        palisade_spawn(
            flags,
            top,
            run as usize,
            &raw mut *argument as usize,
            sharing.as_ptr() as usize,
        )
    };
    if result < 0 {
        return Err(Errno(-result as u32));
    }
    while sharing.load(Ordering::Acquire) != 0 {
        wait_while(&sharing, 1);
    }
    Ok(result as i32)
}

/// From here on this process's descriptors are its own: a copy of those it shared.
pub(crate) fn own_descriptors() -> Result<()> {
    // SAFETY: takes a number only.
    unsafe { call!(number::UNSHARE, CLONE_FILES).map(drop) }
}

/// Sleeps while the word has this value; may wake for no reason.
fn wait_while(word: &AtomicU32, value: u32) {
    const FUTEX_WAIT: usize = 0;
    // SAFETY: the kernel reads the word, which is borrowed for the call; no timeout is given.
    let _ = unsafe { call!(number::FUTEX, word.as_ptr(), FUTEX_WAIT, value, 0) };
}

unsafe extern "C" {
    fn palisade_spawn(
        flags: u64,
        stack: usize,
        run: usize,
        argument: usize,
        cleared: usize,
    ) -> isize;
}

global_asm!(
    // The entry point: the kernel leaves argc at the stack pointer and the stack aligned (psABI 3.4.1).
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "and rsp, -16",
    "call {keeper}",
    "ud2",
    // isize palisade_spawn(flags, stack, run, argument, cleared)
    ".globl palisade_spawn",
    "palisade_spawn:",
    "mov r10, r8",
    "mov r8, rdx",
    "mov r9, rcx",
    "xor edx, edx",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jnz 2f",
    "xor ebp, ebp",
    "mov rdi, r9",
    "call r8",
    "ud2",
    "2:",
    "ret",
    // What the compiler may call for copies and comparisons.
    ".globl memcpy",
    ".globl memmove",
    ".globl memset",
    "memmove:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "cmp rdi, rsi",
    "jbe 3f",
    "lea r8, [rsi + rdx]",
    "cmp rdi, r8",
    "jae 3f",
    "lea rdi, [rdi + rdx - 1]",
    "lea rsi, [rsi + rdx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    "memcpy:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "3:",
    "rep movsb",
    "ret",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    ".globl memcmp",
    ".globl bcmp",
    "memcmp:",
    "bcmp:",
    "xor eax, eax",
    "mov rcx, rdx",
    "cmp rcx, rcx",
    "repe cmpsb",
    "je 4f",
    "movzx eax, byte ptr [rdi - 1]",
    "movzx ecx, byte ptr [rsi - 1]",
    "sub eax, ecx",
    "4:",
    "ret",
    keeper = sym crate::start,
);

/// A pipe: the end to read from, the end to write to.
pub(crate) fn pipe() -> Result<[Fd; 2]> {
    let mut ends: [Fd; 2] = [-1; 2];
    // SAFETY: the kernel writes both descriptors into the borrowed array.
    unsafe { call!(number::PIPE2, ends.as_mut_ptr(), O_CLOEXEC)? };
    Ok(ends)
}

/// Two connected local sockets for bytes.
pub(crate) fn socket_pair() -> Result<[Fd; 2]> {
    const AF_UNIX: u32 = 1;
    const SOCK_STREAM_CLOEXEC: u32 = 1 | O_CLOEXEC;
    let mut ends: [Fd; 2] = [-1; 2];
    // SAFETY: the kernel writes both descriptors into the borrowed array.
    unsafe {
        call!(
            number::SOCKETPAIR,
            AF_UNIX,
            SOCK_STREAM_CLOEXEC,
            0,
            ends.as_mut_ptr()
        )?
    };
    Ok(ends)
}

/// Sets where a file is read from.
pub(crate) fn seek(fd: Fd, offset: u64) -> Result<()> {
    const SEEK_SET: u32 = 0;
    // SAFETY: no pointer.
    unsafe { call!(number::LSEEK, fd, offset, SEEK_SET).map(drop) }
}

/// Attributes of the mount that a file was opened through (`ST_*` of statfs(2)).
pub(crate) fn mount_flags(fd: Fd) -> Result<u64> {
    const FLAGS: usize = 10;
    statfs(fd).map(|words| words[FLAGS])
}

/// Whether a file system has no block left, and no inode.
pub(crate) fn is_used_up(fd: Fd) -> Result<(bool, bool)> {
    const FREE_BLOCKS: usize = 3;
    const FREE_INODES: usize = 6;
    statfs(fd).map(|words| (words[FREE_BLOCKS] == 0, words[FREE_INODES] == 0))
}

/// `struct statfs`, all fifteen fields of which are words.
fn statfs(fd: Fd) -> Result<[u64; 15]> {
    let mut words = [0u64; 15];
    // SAFETY: the kernel writes 120 bytes, the size of the borrowed array.
    unsafe { call!(number::FSTATFS, fd, words.as_mut_ptr())? };
    Ok(words)
}

/// Sends one message with descriptors attached.
pub(crate) fn send(socket: Fd, bytes: &[u8], fds: &[Fd]) -> Result<usize> {
    send_message(socket, bytes, fds, MSG_NOSIGNAL)
}

/// Sends one message if there is room for it.
pub(crate) fn send_at_once(socket: Fd, bytes: &[u8]) -> Result<usize> {
    send_message(socket, bytes, &[], MSG_NOSIGNAL | MSG_DONTWAIT)
}

/// Sends to an address, or where the socket is connected if that is empty.
pub(crate) fn send_to(
    socket: Fd,
    address: &[u8],
    bytes: &[u8],
    fds: &[Fd],
    flags: i32,
) -> Result<usize> {
    send_message_to(socket, address, bytes, fds, flags | MSG_NOSIGNAL)
}

fn send_message(socket: Fd, bytes: &[u8], fds: &[Fd], flags: i32) -> Result<usize> {
    send_message_to(socket, &[], bytes, fds, flags)
}

fn send_message_to(
    socket: Fd,
    address: &[u8],
    bytes: &[u8],
    fds: &[Fd],
    flags: i32,
) -> Result<usize> {
    let mut control = Control {
        length: CMSG_HEADER_BYTES + size_of_val(fds),
        level: SOL_SOCKET,
        kind: SCM_RIGHTS,
        fds: [-1; _],
    };
    let Some(room) = control.fds.get_mut(..fds.len()) else {
        return Err(Errno::INVAL);
    };
    room.copy_from_slice(fds);
    let mut part = IoVec {
        base: bytes.as_ptr().cast_mut(),
        length: bytes.len(),
    };
    let message = MsgHdr {
        name: if address.is_empty() {
            core::ptr::null()
        } else {
            address.as_ptr()
        },
        name_length: address.len() as u32,
        iov: &raw mut part,
        iov_length: 1,
        control: &raw mut control as *mut u8,
        control_length: if fds.is_empty() {
            0
        } else {
            (control.length + 7) & !7
        },
        flags: 0,
    };
    // SAFETY: the header, the address, the part and the control block outlive the call, which only
    // reads them.
    unsafe { call!(number::SENDMSG, socket, &raw const message, flags) }
}

pub(crate) fn socket(family: u32, kind: u32, protocol: u32) -> Result<Fd> {
    // SAFETY: takes numbers only.
    unsafe { call!(number::SOCKET, family, kind, protocol).map(|fd| fd as Fd) }
}

/// Brings up the loopback of a socket's network, netdevice(7): with it come its addresses.
pub(crate) fn bring_loopback_up(socket: Fd) -> Result<()> {
    const SIOCSIFFLAGS: u32 = 0x8914;
    const IFF_UP: u16 = 1;
    /// `struct ifreq`: a name of 16 bytes, and a union of 24 that begins with the flags.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: u16,
        rest: [u8; 22],
    }
    let mut request = Request {
        name: *b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        flags: IFF_UP,
        rest: [0; 22],
    };
    // SAFETY: the kernel reads a `struct ifreq`, of this size and layout on 64-bit machines.
    unsafe { call!(number::IOCTL, socket, SIOCSIFFLAGS, &raw mut request).map(drop) }
}

/// The number of a socket's network namespace, which no other ever has (`SO_NETNS_COOKIE`, Linux 5.14).
pub(crate) fn network_cookie(socket: Fd) -> Result<u64> {
    const SO_NETNS_COOKIE: i32 = 71;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as u32;
    // SAFETY: the kernel writes at most `length` bytes to a word that is borrowed for the call, and the length.
    unsafe {
        call!(
            number::GETSOCKOPT,
            socket,
            SOL_SOCKET,
            SO_NETNS_COOKIE,
            &raw mut cookie,
            &raw mut length
        )?
    };
    Ok(cookie)
}

pub(crate) fn connect(socket: Fd, address: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads an address that is borrowed for the call.
    unsafe { call!(number::CONNECT, socket, address.as_ptr(), address.len()) }
}

pub(crate) fn bind(socket: Fd, address: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads an address that is borrowed for the call.
    unsafe { call!(number::BIND, socket, address.as_ptr(), address.len()) }
}

pub(crate) fn listen(socket: Fd, backlog: i32) -> Result<usize> {
    // SAFETY: takes numbers only.
    unsafe { call!(number::LISTEN, socket, backlog) }
}

/// Has SIGIO end this process when nobody can read any more what it writes into the pipe, or at once if
/// that is so already.
pub(crate) fn end_when_unread(pipe: Fd) -> Result<()> {
    const F_SETFL: u32 = 4;
    const F_SETOWN: u32 = 8;
    const O_ASYNC: u32 = 0x2000;
    const SIGIO: i32 = 29;
    set_default_action(SIGIO);
    // SAFETY: takes numbers only.
    unsafe {
        call!(number::FCNTL, pipe, F_SETOWN, process_id())?;
        call!(number::FCNTL, pipe, F_SETFL, O_ASYNC)?;
    }
    set_signal_mask(!(1 << (SIGIO - 1)))?;
    let mut fds = [PollFd {
        fd: pipe,
        events: 0,
        revents: 0,
    }];
    match poll(&mut fds, Some(0))? {
        0 => Ok(()),
        _ => crate::exit(0),
    }
}

/// Receives bytes and the descriptors attached to them. Gives how many of each; 0 bytes is the end.
pub(crate) fn receive(
    socket: Fd,
    buffer: &mut [u8],
    fds: &mut [Fd; crate::wire::MAX_FDS],
) -> Result<(usize, usize)> {
    let mut control = Control {
        length: 0,
        level: 0,
        kind: 0,
        fds: [-1; _],
    };
    let mut part = IoVec {
        base: buffer.as_mut_ptr(),
        length: buffer.len(),
    };
    let mut message = MsgHdr {
        name: core::ptr::null(),
        name_length: 0,
        iov: &raw mut part,
        iov_length: 1,
        control: &raw mut control as *mut u8,
        control_length: size_of::<Control>(),
        flags: 0,
    };
    // SAFETY: the kernel writes at most `length` bytes into the buffer and at most
    // `control_length` into the control block, both borrowed for the call.
    let bytes = unsafe { call!(number::RECVMSG, socket, &raw mut message, MSG_CMSG_CLOEXEC)? };
    if message.flags & MSG_CTRUNC != 0 {
        return Err(Errno::OVERFLOW);
    }
    if message.control_length < CMSG_HEADER_BYTES || control.kind != SCM_RIGHTS {
        return Ok((bytes, 0));
    }
    let count = ((control.length - CMSG_HEADER_BYTES) / size_of::<Fd>()).min(fds.len());
    fds[..count].copy_from_slice(&control.fds[..count]);
    Ok((bytes, count))
}
