//! What a process is and may: identity, groups, signals, limits, children.

use super::{CStr, Fd, Result, call6, number};

pub(crate) const SIGKILL: i32 = 9;
pub(crate) const SIGPIPE: i32 = 13;
pub(crate) const SIGCHLD: i32 = 17;
pub(crate) const SIGCONT: i32 = 18;

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

/// Ignores a signal. Whoever ignores SIGCHLD has no children to wait for (wait(2)).
pub(crate) fn ignore(signal: i32) {
    // SIG_IGN is one.
    let ignored = [1u64, 0, 0, 0];
    // SAFETY: as in `set_default_action`.
    let _ = unsafe { call!(number::RT_SIGACTION, signal, ignored.as_ptr(), 0, 8) };
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

/// Whose files this process makes from here on, and as whom it is asked for rights on them (setfsuid(2)). Of another id than
/// root's it has no right beyond those of that user.
pub(crate) fn set_file_ids(uid: u32, gid: u32) {
    // SAFETY: takes numbers only; both give the former id and never fail.
    unsafe {
        let _ = call!(number::SETFSGID, gid);
        let _ = call!(number::SETFSUID, uid);
    }
}

/// Does something with no other capability than to mount.
pub(crate) fn with_admin_alone<T>(does: impl FnOnce() -> Result<T>) -> Result<T> {
    const SYS_ADMIN: u32 = 1 << 21;
    let header: [u32; 2] = [0x2008_0522, 0];
    // Effective, permitted and inheritable, of two words each.
    let mut all = [0u32; 6];
    // SAFETY: version 3 of capget reads a header of 8 bytes and writes two sets of 12 bytes.
    unsafe { call!(number::CAPGET, header.as_ptr(), all.as_mut_ptr())? };
    let mut few = all;
    (few[0], few[3]) = (all[0] & SYS_ADMIN, 0);
    // SAFETY: capset reads as much, and the arrays are borrowed for the calls.
    let set = |sets: &[u32; 6]| unsafe {
        call!(number::CAPSET, header.as_ptr(), sets.as_ptr()).map(drop)
    };
    set(&few)?;
    let done = does();
    set(&all)?;
    done
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

pub(crate) fn process_group(pid: i32) -> Result<i32> {
    // SAFETY: no pointer.
    unsafe { call!(number::GETPGID, pid).map(|group| group as i32) }
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

/// Reaps what of this process's children was told of by `children`, a signalfd that does not wait; `each` gets its pid and status.
/// Says whether there may be more: chains of processes that each make another one and end can be faster than whoever reaps them, who
/// has clocks and others to look at in between.
pub(crate) fn reap_some(children: Fd, options: u32, mut each: impl FnMut(i32, u32)) -> bool {
    const WNOHANG: u32 = 1;
    const AT_ONCE: usize = 64;
    let _ = super::read(children, &mut [0; 128]);
    for _ in 0..AT_ONCE {
        match wait_any(WNOHANG | options) {
            Ok(Some((pid, status))) => each(pid, status),
            _ => return false,
        }
    }
    true
}

/// Waits for the end of this child, and reaps it; gives how it ended.
pub(crate) fn wait_for(pid: i32) -> Result<u32> {
    let mut status = 0u32;
    // SAFETY: the kernel writes four bytes of status; no rusage is asked for.
    unsafe { call!(number::WAIT4, pid, &raw mut status, 0, 0)? };
    Ok(status)
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

/// Marked as a call of one's own, for who looks at the guest's.
pub(crate) fn change_directory(path: CStr) -> Result<()> {
    let own = crate::wire::OWN_CALL;
    // SAFETY: the path is NUL-terminated and borrowed for the call; what stands behind it the kernel does not read.
    unsafe { call!(number::CHDIR, path.pointer(), 0, 0, own).map(drop) }
}

pub(crate) fn change_directory_fd(fd: Fd) -> Result<()> {
    // SAFETY: no pointer.
    unsafe { call!(number::FCHDIR, fd).map(drop) }
}

pub(crate) fn clear_umask() {
    // SAFETY: no pointer; umask can't fail.
    let _ = unsafe { call!(number::UMASK, 0) };
}

pub(crate) fn set_umask(mask: u32) {
    // SAFETY: no pointer; umask can't fail.
    let _ = unsafe { call!(number::UMASK, mask) };
}

pub(crate) fn set_host_name(name: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads `len` bytes of a borrowed slice.
    unsafe { call!(number::SETHOSTNAME, name.as_ptr(), name.len()).map(drop) }
}

/// `struct sched_attr` as it was first: sched_setattr(2).
#[repr(C)]
#[derive(Default)]
struct Scheduling {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// Under the fair policies the slice, since Linux 6.12; before, nothing.
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Lets this process run soon after it wakes, and not for long: of processes that had no more than their share, who
/// asks for short slices is due first. Children have slices as before.
pub(crate) fn ask_for_short_slices() -> Result<()> {
    const SHORTEST_NS: u64 = 100_000;
    const RESET_ON_FORK: u64 = 1;
    const FAIR: [u32; 3] = [0, 3, 5]; // SCHED_OTHER, SCHED_BATCH, SCHED_IDLE
    let mut own = Scheduling::default();
    let size = size_of::<Scheduling>();
    // SAFETY: the kernel writes at most `size` bytes to a structure of that size.
    unsafe { call!(number::SCHED_GETATTR, 0, &raw mut own, size, 0) }?;
    // Elsewhere the field means something else, and nobody fair is in the way.
    if !FAIR.contains(&own.policy) {
        return Ok(());
    }
    own.runtime = SHORTEST_NS;
    own.flags |= RESET_ON_FORK;
    // SAFETY: the kernel reads `size` bytes, as the structure itself says.
    unsafe { call!(number::SCHED_SETATTR, 0, &raw const own, 0).map(drop) }
}

/// Lets whoever waits for this processor have it first.
pub(crate) fn let_others_run() {
    // SAFETY: it takes no arguments (sched_yield(2)).
    let _ = unsafe { call!(number::SCHED_YIELD) };
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
