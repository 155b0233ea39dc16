//! What the safe crates have no call for.
#![allow(unsafe_code, reason = "socket filters, inherited descriptors")]

use std::{
    io,
    mem::size_of_val,
    ops::Range,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd},
};

/// Has the kernel pass over new connections to a listening socket, while those that are being made come
/// through: a client that asks in vain asks again after a second, by when the socket is closed.
pub(super) fn refuse_new_connections(socket: impl AsFd) -> io::Result<()> {
    const FLAGS_OF_SEGMENT: u32 = 13;
    const SYN: u32 = 0x02;
    const WHOLE: u32 = 0xffff;
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf,
        k,
    };
    // The filter of a TCP socket sees segments from their TCP header on.
    let mut steps = [
        step(
            libc::BPF_LD | libc::BPF_B | libc::BPF_ABS,
            0,
            0,
            FLAGS_OF_SEGMENT,
        ),
        step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, SYN),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, WHOLE),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the kernel reads a `sock_fprog` of this size and its four steps, which live here.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            u32::try_from(size_of_val(&program)).unwrap_or_default(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Takes over the listening sockets among descriptors that this process was started with.
///
/// To be called once, before this process listens itself, with numbers that whoever started it says are for it.
pub(super) fn adopt_listening(numbers: Range<RawFd>) -> Vec<OwnedFd> {
    // SAFETY: it is open, and by the protocol of sd_listen_fds(3) nobody else's in this process.
    let own = |number| unsafe { OwnedFd::from_raw_fd(number) };
    numbers.filter(is_listening).map(own).collect()
}

fn is_listening(number: &RawFd) -> bool {
    let mut answer: libc::c_int = 0;
    let mut length = u32::try_from(size_of_val(&answer)).unwrap_or_default();
    // SAFETY: getsockopt(2) takes any number, and writes at most `length` bytes to the integer that lives here.
    let result = unsafe {
        libc::getsockopt(
            *number,
            libc::SOL_SOCKET,
            libc::SO_ACCEPTCONN,
            (&raw mut answer).cast(),
            &raw mut length,
        )
    };
    result == 0 && answer == 1
}
