//! What only containers need: see `sys/keeper/containers.rs`.

use super::{
    CLONE_NEWCGROUP, CLONE_PIDFD, CStr, Errno, Fd, Result, SIGCHLD, birth::CloneArgs, call6, number,
};

/// Numbers beside those of [`number`].
mod own {
    pub(super) const GETCWD: usize = 79;
    pub(super) const SETDOMAINNAME: usize = 171;
    pub(super) const FCHOWNAT: usize = 260;
    pub(super) const IOPRIO_SET: usize = 251;
    pub(super) const PERSONALITY: usize = 135;
    pub(super) const EXECVEAT: usize = 322;
}

/// The child's parent is the caller's.
const CLONE_PARENT: u64 = 0x8000;

/// Forks with new namespaces; the child is a child of this process's parent, who is to wait for it. `Ok(None)` in the child.
///
/// By clone(2): clone3(2) refuses `CLONE_PARENT` nowhere, but filters of engines hide it.
pub(crate) fn fork_sibling(namespaces: u64) -> Result<Option<(i32, Fd)>> {
    let mut pidfd: Fd = -1;
    let flags = namespaces | CLONE_PARENT | CLONE_PIDFD | SIGCHLD as u64;
    // SAFETY: as in `fork_by_clone`: without CLONE_VM the child works on a copy of all memory, and the third argument is where
    // CLONE_PIDFD stores (clone(2)).
    let pid = unsafe { call!(number::CLONE, flags, 0usize, &raw mut pidfd)? };
    Ok((pid != 0).then_some((pid as i32, pidfd)))
}

/// `CLONE_NEWTIME`, which clone(2) has no room for.
pub(crate) const CLONE_NEWTIME: u64 = 0x80;

/// A child like any other, with a pidfd.
pub(crate) fn fork_child() -> Result<Option<(i32, Fd)>> {
    let mut pidfd: Fd = -1;
    let arguments = CloneArgs {
        flags: CLONE_PIDFD,
        pidfd: &raw mut pidfd as u64,
        exit_signal: SIGCHLD as u64,
        ..CloneArgs::default()
    };
    // The structure as of Linux 5.3.
    const BYTES: usize = 64;
    // SAFETY: as in `fork`.
    let forked = unsafe { call!(number::CLONE3, &raw const arguments, BYTES) };
    let pid = match forked {
        Err(errno) if errno == Errno::NOSYS => {
            // SAFETY: as in `fork_sibling`.
            unsafe {
                call!(
                    number::CLONE,
                    CLONE_PIDFD | SIGCHLD as u64,
                    0usize,
                    &raw mut pidfd
                )?
            }
        }
        forked => forked?,
    };
    Ok((pid != 0).then_some((pid as i32, pidfd)))
}

/// From here on this process sees its control groups as the root of all.
pub(crate) fn own_cgroup_namespace() -> Result<()> {
    // SAFETY: takes a number only.
    unsafe { call!(number::UNSHARE, CLONE_NEWCGROUP).map(drop) }
}

pub(crate) fn set_domain_name(name: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads `len` bytes of a borrowed slice.
    unsafe { call!(own::SETDOMAINNAME, name.as_ptr(), name.len()).map(drop) }
}

/// Of what is open, by `O_PATH` too.
pub(crate) fn set_owner(fd: Fd, path: CStr, uid: u32, gid: u32) -> Result<()> {
    let flags = super::AT_EMPTY_PATH | super::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(own::FCHOWNAT, fd, path.pointer(), uid, gid, flags).map(drop) }
}

/// Which file system a descriptor lies in (statfs(2)).
pub(crate) fn file_system(fd: Fd) -> Result<u64> {
    let mut answer = [0u64; 15];
    // SAFETY: the kernel writes one `struct statfs` of 120 bytes.
    unsafe { call!(number::FSTATFS, fd, answer.as_mut_ptr())? };
    Ok(answer[0])
}

pub(crate) fn set_groups(groups: &[u32]) -> Result<()> {
    // SAFETY: the kernel reads as many words of a borrowed slice.
    unsafe { call!(number::SETGROUPS, groups.len(), groups.as_ptr()).map(drop) }
}

pub(crate) fn set_group(gid: u32) -> Result<()> {
    // SAFETY: no pointer.
    unsafe { call!(number::SETRESGID, gid, gid, gid).map(drop) }
}

pub(crate) fn set_user(uid: u32) -> Result<()> {
    // SAFETY: no pointer.
    unsafe { call!(number::SETRESUID, uid, uid, uid).map(drop) }
}

const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// Effective, permitted and inheritable ones of this process.
pub(crate) fn capabilities() -> Result<[u64; 3]> {
    let header = [CAPABILITY_VERSION, 0];
    let mut words = [0u32; 6];
    // SAFETY: version 3 of capget reads a header of 8 bytes and writes two sets of 12 bytes.
    unsafe { call!(number::CAPGET, header.as_ptr(), words.as_mut_ptr())? };
    Ok([0, 1, 2].map(|set| u64::from(words[set]) | u64::from(words[set + 3]) << 32))
}

/// Sets them.
pub(crate) fn set_capabilities(sets: [u64; 3]) -> Result<()> {
    let header = [CAPABILITY_VERSION, 0];
    let mut words = [0u32; 6];
    for (place, set) in sets.iter().enumerate() {
        words[place] = *set as u32;
        words[place + 3] = (*set >> 32) as u32;
    }
    // SAFETY: version 3 of capset reads a header of 8 bytes and two sets of 12 bytes.
    unsafe { call!(number::CAPSET, header.as_ptr(), words.as_ptr()).map(drop) }
}

/// What this process is called in `/proc/PID/comm`, 15 bytes at most.
pub(crate) fn set_name(name: CStr) {
    const PR_SET_NAME: usize = 15;
    // SAFETY: the name is NUL-terminated and borrowed for the call, which cannot fail.
    let _ = unsafe { call!(number::PRCTL, PR_SET_NAME, name.pointer(), 0, 0, 0) };
}

/// Raises one ambient capability.
pub(crate) fn raise_ambient(capability: u32) -> Result<()> {
    const PR_CAP_AMBIENT: usize = 47;
    const RAISE: usize = 2;
    // SAFETY: takes numbers only.
    unsafe { call!(number::PRCTL, PR_CAP_AMBIENT, RAISE, capability, 0, 0).map(drop) }
}

pub(crate) fn set_scheduler(attributes: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads as many bytes as the structure says at its start, which whoever calls has made its length.
    unsafe { call!(number::SCHED_SETATTR, 0, attributes.as_ptr(), 0).map(drop) }
}

pub(crate) fn set_io_priority(priority: u32) -> Result<()> {
    const OF_PROCESS: usize = 1;
    // SAFETY: no pointer.
    unsafe { call!(own::IOPRIO_SET, OF_PROCESS, 0, priority).map(drop) }
}

pub(crate) fn set_personality(personality: u32) -> Result<()> {
    // SAFETY: no pointer.
    unsafe { call!(own::PERSONALITY, personality).map(drop) }
}

/// Whether this process stands in a folder that its root leads to: getcwd(2) says so at the beginning of its answer.
pub(crate) fn stands_inside() -> Result<bool> {
    let mut path = [0u8; 4096];
    // SAFETY: the kernel writes at most `len` bytes into the borrowed buffer.
    unsafe { call!(own::GETCWD, path.as_mut_ptr(), path.len())? };
    Ok(path[0] == b'/')
}

/// As much as is written to a pipe before anybody reads; as far as the kernel lets this process.
pub(crate) fn set_pipe_size(pipe: Fd, bytes: usize) {
    const F_SETPIPE_SZ: usize = 1031;
    // SAFETY: takes numbers only.
    let _ = unsafe { call!(number::FCNTL, pipe, F_SETPIPE_SZ, bytes) };
}

/// Whatever is open from `first` on is closed when a program is executed.
pub(crate) fn close_on_exec_from(first: Fd) -> Result<()> {
    const CLOSE_RANGE_CLOEXEC: usize = 4;
    // SAFETY: takes numbers only.
    unsafe { call!(number::CLOSE_RANGE, first, u32::MAX, CLOSE_RANGE_CLOEXEC).map(drop) }
}

/// Executes a file that is open, by `O_PATH` too.
///
/// # Safety
///
/// As of [`super::execute`].
pub(crate) unsafe fn execute_open(
    file: Fd,
    arguments: *const *const u8,
    environment: *const *const u8,
) -> Errno {
    // SAFETY: an empty path is a NUL; the arrays are the caller's promise. On success the call does not return.
    match unsafe {
        call!(
            own::EXECVEAT,
            file,
            super::c!("").pointer(),
            arguments,
            environment,
            super::AT_EMPTY_PATH
        )
    } {
        Err(errno) => errno,
        Ok(_) => Errno(0),
    }
}
