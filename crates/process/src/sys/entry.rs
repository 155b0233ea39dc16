//! The keeper's start before the C library's own, of a program whose linker is told to enter it at `palisade_entry`.
//!
//! A static program begins with the C library's asking the processor what it is (`init_cpu_features` in glibc). In a virtual
//! machine each of these sixty questions ends in the hypervisor, 0.3 ms in all, in which the keeper can start on another
//! processor. Nothing is set up by then: no storage of threads, no handler, and not even memcpy(3), which is chosen by what the
//! processor is. So there are system calls here, a few words in memory, and no more.

use super::{
    KEEPER, NAME_WITH_ROOM,
    spawn::{Birth, PLACE_BYTES, Spawned, call, clone_at, let_go},
};
use crate::{
    standing::{NOBODY, ParkOrder, Standing, Tier},
    wire,
};
use rustix::process::Pid;
use std::{
    arch::global_asm,
    os::fd::{FromRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering},
};

/// What was begun before the C library.
pub(crate) struct Begun {
    /// The socket to it.
    pub(crate) control: OwnedFd,
    pub(crate) process: Spawned,
    /// The stream to the init of a domain that was ordered of it, when that was, in ns of the monotonic clock, and for whom.
    pub(crate) ordered: Option<(OwnedFd, u64, Standing)>,
}

/// Of the child that was begun; 0 if none was, or it is somebody's.
static PROCESS: AtomicI32 = AtomicI32::new(0);
static PLACE: AtomicPtr<Birth> = AtomicPtr::new(ptr::null_mut());
static CONTROL: AtomicI32 = AtomicI32::new(-1);

/// The stream to an init, if one was ordered.
static INIT: AtomicI32 = AtomicI32::new(-1);
static ORDERED_NS: AtomicU64 = AtomicU64::new(0);
static IS_PRIVILEGED: AtomicBool = AtomicBool::new(false);
static UID: AtomicU32 = AtomicU32::new(0);
static GID: AtomicU32 = AtomicU32::new(0);

/// The order, which is all zero but for what is written there.
static mut ORDER: [u64; wire::RECORD_BYTES / 8] = [0; wire::RECORD_BYTES / 8];

/// The keeper that was begun so, if it runs; once.
pub(crate) fn take() -> Option<Begun> {
    let pid = Pid::from_raw(PROCESS.swap(0, Ordering::Relaxed))?;
    // SAFETY: `begin` left these, and they are taken once.
    let (control, process, init) = unsafe {
        let init = INIT.load(Ordering::Relaxed);
        (
            OwnedFd::from_raw_fd(CONTROL.load(Ordering::Relaxed)),
            Spawned::begun(pid, PLACE.load(Ordering::Relaxed)),
            (init >= 0).then(|| OwnedFd::from_raw_fd(init)),
        )
    };
    // What keeps it is told by who starts it again.
    process.confirm().ok()?;
    let standing = Standing {
        tier: match IS_PRIVILEGED.load(Ordering::Relaxed) {
            true => Tier::Privileged,
            false => Tier::UserNamespace,
        },
        uid: UID.load(Ordering::Relaxed),
        gid: GID.load(Ordering::Relaxed),
    };
    let ordered_ns = ORDERED_NS.load(Ordering::Relaxed);
    Some(Begun {
        control,
        process,
        ordered: init.map(|init| (init, ordered_ns, standing)),
    })
}

// The stack has the arguments; `rdx` is the C library's.
global_asm!(
    ".globl palisade_entry",
    ".type palisade_entry, @function",
    ".weak _start",
    "palisade_entry:",
    "xor ebp, ebp",
    "mov r12, rdx",
    "mov r13, rsp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {begin}",
    "mov rsp, r13",
    "mov rdx, r12",
    "jmp _start",
    ".size palisade_entry, . - palisade_entry",
    begin = sym begin,
);

/// Begins the keeper where the arguments are of a guest that it may be begun for. Whatever fails is left to be found out later.
///
/// # Safety
///
/// The program has just begun, with this stack.
unsafe extern "C" fn begin(stack: *const usize) {
    // SAFETY: the number of arguments stands there, and then their addresses and null (psABI 3.4.1).
    let arguments = unsafe { stack.add(1).cast::<*const u8>() };
    // SAFETY: they are the program's.
    if unsafe { *stack >= 2 && starts_a_guest(arguments) } && has_all_streams() {
        // SAFETY: nothing else runs.
        unsafe { begin_keeper() }
    }
}

/// `run`, and before `--` no flag of a limit that forbids it ([`crate::plan::forbids_early_start`]).
unsafe fn starts_a_guest(arguments: *const *const u8) -> bool {
    // SAFETY: there are two at least; each ends with a NUL, and all of them with null.
    unsafe {
        if !begins(*arguments.add(1), b"run\0") {
            return false;
        }
        let mut next = arguments.add(2);
        while !(*next).is_null() && !begins(*next, b"--\0") {
            if begins(*next, FORBIDDING[0]) || begins(*next, FORBIDDING[1]) {
                return false;
            }
            next = next.add(1);
        }
        true
    }
}

/// How these flags begin, and perhaps others.
const FORBIDDING: [&[u8]; 2] = [b"--mem", b"--cpu"];

unsafe fn begins(text: *const u8, with: &[u8]) -> bool {
    let mut at = 0;
    while at < with.len() {
        // SAFETY: nothing behind a NUL is read, for that is where they differ, or `with` ends.
        if unsafe { *text.add(at) } != with[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// A descriptor that is made now must not take a stream's place.
fn has_all_streams() -> bool {
    let mut stream = 0;
    while stream < 3 {
        // SAFETY: no pointer.
        if unsafe { call!(libc::SYS_fcntl, stream, libc::F_GETFD) } < 0 {
            return false;
        }
        stream += 1;
    }
    true
}

/// As `keeper::spawn`, and the child makes what it executes.
///
/// # Safety
///
/// This is the only thread, and the C library has not begun.
unsafe fn begin_keeper() {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the kernel makes a mapping at an address of its choice; the others take numbers. The birthplace is larger than a
    // `Birth`, aligned to a page, and kept until the child has ended.
    unsafe {
        let (control, keepers_end) = pair(libc::SOCK_SEQPACKET);
        let own = call!(libc::SYS_getpid);
        let supervisor = call!(libc::SYS_pidfd_open, own);
        let place = call!(libc::SYS_mmap, 0, PLACE_BYTES, access, private, -1isize, 0);
        let mut pid = 0;
        if control >= 0 && supervisor >= 0 && place > 0 {
            let place = place as *mut Birth;
            let streams = (keepers_end, supervisor as i32);
            Birth::of_memory(place, NAME_WITH_ROOM, KEEPER, streams, own as i32);
            pid = begin_child(place);
            PLACE.store(place, Ordering::Relaxed);
        }
        close(keepers_end);
        close(supervisor as i32);
        if pid > 0 {
            CONTROL.store(control, Ordering::Relaxed);
            PROCESS.store(pid as i32, Ordering::Relaxed);
            order(control);
        } else {
            close(control);
        }
    }
}

/// Orders a domain, if it is plain what this process may: else that is found out later, and one is ordered then.
///
/// # Safety
///
/// As [`begin_keeper`].
unsafe fn order(control: i32) {
    // SAFETY: no arguments.
    let (uid, gid) = unsafe {
        (
            call!(libc::SYS_geteuid) as u32,
            call!(libc::SYS_getegid) as u32,
        )
    };
    // SAFETY: the caller's promise.
    if uid == 0 && unsafe { !may_give_uids() } {
        return;
    }
    let tier = match uid {
        0 => Tier::Privileged,
        _ => Tier::UserNamespace,
    };
    let order = ParkOrder::of(Standing { tier, uid, gid }, false);
    let record = &raw mut ORDER;
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes two numbers; nobody else uses the order.
    unsafe {
        let (init, inits_end) = pair(libc::SOCK_STREAM);
        if init < 0 {
            return;
        }
        call!(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut now);
        (*record)[0] = wire::KEEPER_PARK;
        order.write((uid, gid), NOBODY, &mut |at, word| (*record)[1 + at] = word);
        let is_sent = send(control, record.cast(), wire::RECORD_BYTES, inits_end);
        close(inits_end);
        if !is_sent {
            close(init);
            return;
        }
        INIT.store(init, Ordering::Relaxed);
    }
    IS_PRIVILEGED.store(tier == Tier::Privileged, Ordering::Relaxed);
    UID.store(uid, Ordering::Relaxed);
    GID.store(gid, Ordering::Relaxed);
    let ordered_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    ORDERED_NS.store(ordered_ns, Ordering::Relaxed);
}

/// As `standing::may_give_uids`, of a process that has every id there is.
unsafe fn may_give_uids() -> bool {
    /// `_LINUX_CAPABILITY_VERSION_3`, of this thread.
    const OF_THIS_THREAD: [u32; 2] = [0x2008_0522, 0];
    const SETGID: u32 = 1 << 6;
    const SETUID: u32 = 1 << 7;
    const SYS_ADMIN: u32 = 1 << 21;
    const NEEDED: u32 = SETGID | SETUID | SYS_ADMIN;
    const EVERY_ID: &[u8] = b"         0          0 4294967295\n";
    const ROOM: usize = 48;
    /// Three sets of two words, and then the map.
    static mut ANSWER: [u32; ROOM / 4] = [0; ROOM / 4];
    let answer = &raw mut ANSWER;
    // SAFETY: the kernel reads a header and a path that ends with a NUL, and writes three sets, and as many bytes as there is
    // room for; nobody else uses what it writes to.
    unsafe {
        let got = call!(libc::SYS_capget, OF_THIS_THREAD.as_ptr(), answer);
        if got < 0 || (*answer)[0] & NEEDED != NEEDED {
            return false;
        }
        let path = c"/proc/self/uid_map".as_ptr();
        let file = call!(libc::SYS_openat, libc::AT_FDCWD, path, libc::O_CLOEXEC);
        let length = call!(libc::SYS_read, file, answer, ROOM);
        close(file as i32);
        length == EVERY_ID.len() as isize && begins(answer.cast(), EVERY_ID)
    }
}

/// Two connected sockets of this kind; below zero if there are none.
unsafe fn pair(kind: libc::c_int) -> (i32, i32) {
    let mut ends = [-1, -1];
    let kind = kind | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes two descriptors.
    let made = unsafe {
        call!(
            libc::SYS_socketpair,
            libc::AF_UNIX,
            kind,
            0,
            ends.as_mut_ptr()
        )
    };
    // It writes them before it makes them.
    if made < 0 {
        return (-1, -1);
    }
    (ends[0], ends[1])
}

unsafe fn close(fd: i32) {
    if fd >= 0 {
        // SAFETY: no pointer.
        unsafe { call!(libc::SYS_close, fd) };
    }
}

/// Sends these bytes and a descriptor (unix(7)).
unsafe fn send(socket: i32, bytes: *mut u8, length: usize, fd: i32) -> bool {
    /// `struct cmsghdr` and one descriptor.
    #[repr(C, align(8))]
    struct Rights {
        length: usize,
        level: libc::c_int,
        kind: libc::c_int,
        fd: libc::c_int,
    }
    let mut part = libc::iovec {
        iov_base: bytes.cast(),
        iov_len: length,
    };
    let mut rights = Rights {
        length: 20,
        level: libc::SOL_SOCKET,
        kind: libc::SCM_RIGHTS,
        fd,
    };
    let message = libc::msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: &raw mut part,
        msg_iovlen: 1,
        msg_control: (&raw mut rights).cast(),
        msg_controllen: size_of::<Rights>(),
        msg_flags: 0,
    };
    let flags = libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads the message and what it points to.
    unsafe { call!(libc::SYS_sendmsg, socket, &raw const message, flags) == length as isize }
}

/// Begins the child of this birthplace; no signal ends it before it waits for the keeper's word.
unsafe fn begin_child(place: *mut Birth) -> isize {
    const SET: usize = size_of::<u64>();
    let (all, mut before) = (u64::MAX, 0u64);
    let (how, before) = (libc::SIG_SETMASK, &raw mut before);
    // SAFETY: both sets are there for the calls; the rest is the caller's promise.
    unsafe {
        call!(libc::SYS_rt_sigprocmask, how, &raw const all, before, SET);
        let pid = clone_at(place);
        if pid > 0 {
            let_go(place, pid);
        }
        call!(libc::SYS_rt_sigprocmask, how, before, 0, SET);
        pid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::forbids_early_start;
    use palisade_policy::Capability;
    use std::ffi::CString;

    fn starts(words: &[&str]) -> bool {
        let words = words.iter().map(|word| CString::new(*word).unwrap());
        let words: Vec<_> = words.collect();
        let pointers = words.iter().map(|word| word.as_ptr().cast());
        let pointers: Vec<*const u8> = pointers.chain([ptr::null()]).collect();
        // SAFETY: they are arguments as a program has them.
        unsafe { starts_a_guest(pointers.as_ptr()) }
    }

    #[test]
    fn a_guest_s_keeper_is_begun_and_nobody_else_s() {
        assert!(starts(&["palisade", "run", "true"]));
        assert!(starts(&[
            "palisade", "run", "--read", ".", "--", "job", "--memory", "1G"
        ]));
        for other in [
            &["palisade", "runs"],
            &["palisade", ""],
            &["palisade", "-run"],
        ] {
            assert!(!starts(other), "{other:?}");
        }
    }

    #[test]
    fn a_limit_that_forbids_it_is_seen_by_its_flag() {
        for capability in Capability::ALL
            .iter()
            .filter(|one| forbids_early_start(**one))
        {
            let flag = format!("--{}", capability.name());
            for flag in [flag.clone(), format!("{flag}=1")] {
                assert!(!starts(&["palisade", "run", &flag, "1", "true"]), "{flag}");
            }
        }
    }

    #[test]
    fn only_a_program_that_is_entered_there_has_begun_one() {
        assert!(take().is_none());
    }
}
