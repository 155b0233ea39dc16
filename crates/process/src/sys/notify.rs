//! Calls of a guest that its filter leaves to the supervisor: seccomp_unotify(2).

use super::last_errno;
use rustix::{event::EventfdFlags, io::Errno};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `struct seccomp_notif` (linux/seccomp.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notification {
    /// The kernel's name for this one call.
    pub(crate) id: u64,
    /// The thread that made it, in this process's pid namespace.
    pub(crate) thread: u32,
    flags: u32,
    /// Its number in the native table.
    pub(crate) call: i32,
    architecture: u32,
    instruction: u64,
    pub(crate) arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `struct seccomp_notif_addfd`.
#[repr(C)]
struct AddFd {
    id: u64,
    flags: u32,
    source: u32,
    target: u32,
    target_flags: u32,
}

const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
const ID_VALID: libc::c_ulong = 0x4008_2102;
const ADD_FD: libc::c_ulong = 0x4018_2103;
const SET_FLAGS: libc::c_ulong = 0x4008_2104;

/// Has the kernel hand the processor over from the guest's thread to the one that waits for its
/// call, and back: neither needs another processor to wake up (Linux 6.6; older ones refuse, and
/// calls then take longer).
pub(crate) fn hand_over_processor(listener: BorrowedFd<'_>) -> Result<(), Errno> {
    const SYNC_WAKE_UP: u64 = 1;
    // SAFETY: the argument is a number.
    unsafe { request(listener, SET_FLAGS, SYNC_WAKE_UP as *mut u8) }
}

/// The next call. `ENOENT` when it was taken back meanwhile.
pub(crate) fn receive(listener: BorrowedFd<'_>) -> Result<Notification, Errno> {
    let mut notification = Notification::default();
    // SAFETY: the kernel writes a structure of this layout; it insists that all of it is zero before.
    unsafe { request(listener, RECEIVE, (&raw mut notification).cast())? };
    Ok(notification)
}

/// Lets the call return this. `ENOENT` when its thread does not wait any more.
pub(crate) fn answer(
    listener: BorrowedFd<'_>,
    id: u64,
    result: Result<i64, Errno>,
) -> Result<(), Errno> {
    let (value, error) = match result {
        Ok(value) => (value, 0),
        Err(errno) => (0, -errno.raw_os_error()),
    };
    let response = Response {
        id,
        value,
        error,
        flags: 0,
    };
    respond(listener, response)
}

/// Lets the call go on: the kernel reads all it points to once more, and decides.
pub(crate) fn let_continue(listener: BorrowedFd<'_>, id: u64) -> Result<(), Errno> {
    let response = Response {
        id,
        value: 0,
        error: 0,
        flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
    };
    respond(listener, response)
}

fn respond(listener: BorrowedFd<'_>, mut response: Response) -> Result<(), Errno> {
    // SAFETY: the kernel reads a structure of this layout.
    unsafe { request(listener, SEND, (&raw mut response).cast()) }
}

/// Gives the guest's process this descriptor and lets the call return its number, in one step.
pub(crate) fn answer_with_descriptor(
    listener: BorrowedFd<'_>,
    id: u64,
    fd: BorrowedFd<'_>,
    close_on_exec: bool,
) -> Result<(), Errno> {
    const SEND_TOO: u32 = 2;
    let mut addition = AddFd {
        id,
        flags: SEND_TOO,
        source: fd.as_raw_fd() as u32,
        target: 0,
        target_flags: if close_on_exec {
            libc::O_CLOEXEC as u32
        } else {
            0
        },
    };
    // SAFETY: the kernel reads a structure of this layout.
    unsafe { request(listener, ADD_FD, (&raw mut addition).cast()) }
}

/// Puts a copy of this descriptor in the place of the one of this number in the guest's process (dup2(2)). The call goes
/// on waiting.
pub(crate) fn replace_descriptor(
    listener: BorrowedFd<'_>,
    id: u64,
    fd: BorrowedFd<'_>,
    number: u32,
    close_on_exec: bool,
) -> Result<(), Errno> {
    const SET_NUMBER: u32 = 1;
    let mut addition = AddFd {
        id,
        flags: SET_NUMBER,
        source: fd.as_raw_fd() as u32,
        target: number,
        target_flags: if close_on_exec {
            libc::O_CLOEXEC as u32
        } else {
            0
        },
    };
    // SAFETY: the kernel reads a structure of this layout.
    unsafe { request(listener, ADD_FD, (&raw mut addition).cast()) }
}

/// Whether the thread still waits for its answer. What was learnt by its number before was then
/// learnt about it, and not about a later thread of the same number.
pub(crate) fn is_waiting(listener: BorrowedFd<'_>, id: u64) -> bool {
    let mut id = id;
    // SAFETY: the kernel reads a word.
    unsafe { request(listener, ID_VALID, (&raw mut id).cast()) }.is_ok()
}

/// # Safety
///
/// `argument` must be what the request takes.
unsafe fn request(
    listener: BorrowedFd<'_>,
    request: libc::c_ulong,
    argument: *mut u8,
) -> Result<(), Errno> {
    loop {
        // SAFETY: the descriptor is open; the argument is the caller's promise.
        let result = unsafe { libc::ioctl(listener.as_raw_fd(), request, argument) };
        match last_errno_if(result < 0) {
            // A tracer's stop, say: an answer must not be lost by it.
            Some(Errno::INTR) => {}
            Some(errno) => return Err(errno),
            None => return Ok(()),
        }
    }
}

fn last_errno_if(failed: bool) -> Option<Errno> {
    failed.then(last_errno)
}

/// A descriptor of this thread, also of one that does not lead its process (Linux 6.9; before that
/// `EINVAL` for those).
pub(crate) fn open_thread(thread: u32) -> Result<OwnedFd, Errno> {
    const PIDFD_THREAD: libc::c_int = libc::O_EXCL;
    // SAFETY: takes two numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, thread, PIDFD_THREAD) };
    if fd < 0 {
        return Err(last_errno());
    }
    // SAFETY: the kernel just made it for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// A file whose owner is this thread (`F_SETOWN_EX`): whoever has it reads there what the thread is called in a pid namespace
/// of his own.
pub(crate) fn owned_by(thread: u32) -> Result<OwnedFd, Errno> {
    /// `struct f_owner_ex`.
    #[repr(C)]
    struct Owner {
        kind: libc::c_int,
        pid: libc::pid_t,
    }
    const F_SETOWN_EX: libc::c_int = 15;
    const F_OWNER_TID: libc::c_int = 0;
    let file = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
    let owner = Owner {
        kind: F_OWNER_TID,
        pid: thread as libc::pid_t,
    };
    // SAFETY: the descriptor is open, and the kernel reads a structure of this layout.
    let set = unsafe { libc::fcntl(file.as_raw_fd(), F_SETOWN_EX, &raw const owner) };
    match last_errno_if(set < 0) {
        Some(errno) => Err(errno),
        None => Ok(file),
    }
}

/// The text that begins at an address of the guest's and ends with a NUL, without that.
///
/// # Errors
///
/// `ENAMETOOLONG` when it is longer than this, at most a page.
pub(crate) fn read_text(thread: u32, address: u64, most_bytes: usize) -> Result<Vec<u8>, Errno> {
    const PAGE: u64 = 4096;
    let mut buffer = vec![0; most_bytes.min(PAGE as usize)];
    // In two, for what lies in a page is copied wholly or not at all.
    let first = ((PAGE - address % PAGE) as usize).min(buffer.len());
    let next = address.wrapping_add(first as u64);
    let rest = buffer.len() - first;
    let copied = copy_memory(thread, &[(address, first), (next, rest)], &mut buffer)?;
    buffer.truncate(copied);
    let end = buffer.iter().position(|byte| *byte == 0);
    buffer.truncate(end.ok_or(Errno::NAMETOOLONG)?);
    Ok(buffer)
}

/// Copies pieces of the guest's memory, each an address and a length, one behind the other into
/// `buffer`, which has room for just them: all of it or nothing (`EFAULT`).
pub(crate) fn read_memory(
    thread: u32,
    pieces: &[(u64, usize)],
    buffer: &mut [u8],
) -> Result<(), Errno> {
    match copy_memory(thread, pieces, buffer)? == buffer.len() {
        true => Ok(()),
        false => Err(Errno::FAULT),
    }
}

/// The same, as far as it goes. Gives how far.
fn copy_memory(thread: u32, pieces: &[(u64, usize)], buffer: &mut [u8]) -> Result<usize, Errno> {
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let remote: Vec<_> = pieces
        .iter()
        .map(|(address, length)| libc::iovec {
            iov_base: *address as *mut libc::c_void,
            iov_len: *length,
        })
        .collect();
    // SAFETY: the local part is a borrowed buffer; the remote ones are checked by the kernel against the
    // other process's mappings.
    let copied = unsafe {
        libc::process_vm_readv(
            thread as libc::pid_t,
            &raw const local,
            1,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    if copied < 0 {
        return Err(last_errno());
    }
    Ok(copied as usize)
}

const _: () = assert!(size_of::<Notification>() == 80);
const _: () = assert!(size_of::<Response>() == 24);
const _: () = assert!(size_of::<AddFd>() == 24);
