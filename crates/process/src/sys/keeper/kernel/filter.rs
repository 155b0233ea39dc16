//! Landlock and seccomp: putting a process behind them, and the calls that a filter leaves to somebody.

use super::{
    Errno, Fd, Result, call6,
    file::{O_EXCL, close, ioctl, ioctl_number},
    number,
    socket::{IoVec, SOL_SOCKET},
};

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
