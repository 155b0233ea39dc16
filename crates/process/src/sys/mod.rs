//! The system calls that rustix lacks. This and the keeper below it are the only `unsafe` code of
//! the crate.
#![allow(unsafe_code, reason = "system calls without a wrapper")]

pub(crate) mod confine;
pub(crate) mod ended;
pub(crate) mod entry;
mod fork;
pub(crate) mod maps;
pub(crate) mod message;
pub(crate) mod notify;
mod spawn;

pub(crate) use fork::{Forked, fork, fork_apart};
pub(crate) use spawn::{Spawned, spawn, with_signals_blocked};

use crate::wire;
use rustix::io::Errno;
use std::{
    ffi::CStr,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};

/// The keeper program, built by `build.rs` from the folder beside this file.
pub(crate) static KEEPER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keeper"));

/// What the keeper is started as: its name, and room for the title of an init ([`wire::op::TITLE`]).
pub(crate) const NAME_WITH_ROOM: &CStr = {
    const NAME: &[u8] = wire::KEEPERS_TITLE;
    const BYTES: [u8; wire::TITLE_BYTES + 1] = {
        let mut bytes = [b' '; wire::TITLE_BYTES + 1];
        let mut at = 0;
        while at < NAME.len() {
            bytes[at] = NAME[at];
            at += 1;
        }
        bytes[wire::TITLE_BYTES] = 0;
        bytes
    };
    match CStr::from_bytes_with_nul(&BYTES) {
        Ok(name) => name,
        Err(_) => panic!(),
    }
};

/// The same for a container: `sys/keeper/containers.rs`.
pub(crate) static CONTAINER_KEEPER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/containers"));

/// `struct mount_attr` of mount_setattr(2).
#[repr(C)]
#[derive(Default)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// Whether the filters that this process is under let it load one with a listener. Palisade's own answers
/// `EBUSY`, as the kernel does where there is a listener already.
pub(crate) fn may_have_listener() -> bool {
    takes_filters_with(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)
}

/// Whether this kernel can keep signals from taking back a call that is attended to.
pub(crate) fn keeps_calls() -> bool {
    const WAIT_KILLABLE_RECV: libc::c_ulong = 1 << 5;
    takes_filters_with(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE_RECV)
}

fn takes_filters_with(flags: libc::c_ulong) -> bool {
    // SAFETY: a program at a null pointer cannot be read: the call fails with EFAULT at the latest
    // (`seccomp_prepare_user_filter`) and changes nothing.
    let refused = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            std::ptr::null::<u8>(),
        )
    };
    refused < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// Whether it is a process that is open (pidfd_open(2)).
pub(crate) fn is_process(file: BorrowedFd<'_>) -> bool {
    const NO_SIGNAL: libc::c_int = 0;
    // SAFETY: without a signal the kernel looks whether one could be sent; the structure is optional.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            file.as_raw_fd(),
            NO_SIGNAL,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    outcome == 0 || last_errno() != Errno::BADF
}

/// Which network namespace a socket belongs to: a number that no other has (`SO_NETNS_COOKIE`, since Linux 5.14).
pub(crate) fn network_cookie(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to a word that is borrowed for the call, and the length.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    match outcome {
        0 => Ok(cookie),
        _ => Err(last_errno()),
    }
}

/// The newest Landlock interface of this kernel; `None` where there is no Landlock.
pub(crate) fn landlock_abi() -> Option<u32> {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with the version flag the call takes a null pointer and a size of zero
    // (landlock_create_ruleset(2)).
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(abi).ok().filter(|abi| *abi > 0)
}

/// Sets attributes of a detached mount and all below it, optionally mapping ids by a user namespace. It is no
/// peer of the mount that it was cloned from any more: what is mounted there later would appear here, too, with
/// attributes of its own (mount_namespaces(7)).
pub(crate) fn set_mount_attributes(
    mount: BorrowedFd<'_>,
    attributes: u64,
    id_map: Option<BorrowedFd<'_>>,
) -> rustix::io::Result<()> {
    let wanted = MountAttr {
        attr_set: attributes
            | if id_map.is_some() {
                MOUNT_ATTR_IDMAP
            } else {
                0
            },
        propagation: libc::MS_PRIVATE,
        userns_fd: id_map.map_or(0, |fd| fd.as_raw_fd() as u64),
        ..MountAttr::default()
    };
    change_mount(mount, &wanted, libc::AT_RECURSIVE)
}

/// Shows the files of a detached mount as those of the users that this namespace maps theirs to, and changes nothing else.
pub(crate) fn map_mount(
    mount: BorrowedFd<'_>,
    users: BorrowedFd<'_>,
    and_below: bool,
) -> rustix::io::Result<()> {
    let wanted = MountAttr {
        attr_set: MOUNT_ATTR_IDMAP,
        userns_fd: users.as_raw_fd() as u64,
        ..MountAttr::default()
    };
    change_mount(
        mount,
        &wanted,
        if and_below { libc::AT_RECURSIVE } else { 0 },
    )
}

fn change_mount(
    mount: BorrowedFd<'_>,
    wanted: &MountAttr,
    flags: libc::c_int,
) -> rustix::io::Result<()> {
    // SAFETY: the path is an empty literal, and the kernel reads `size_of::<MountAttr>()` bytes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | flags,
            std::ptr::from_ref(wanted),
            size_of::<MountAttr>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(last_errno())
    }
}

/// As many sockets as can be passed on.
pub(crate) const MOST_INHERITED: usize = wire::MAX_FDS / 2;

/// How many descriptors this process was started with by socket activation (sd_listen_fds(3)), as its starter
/// says; none if they are meant for another process.
pub(crate) fn count_inherited() -> usize {
    let number = |name| std::env::var(name).ok()?.parse::<i32>().ok();
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let count = number("LISTEN_FDS").filter(|_| number("LISTEN_PID") == Some(own));
    usize::try_from(count.unwrap_or(0)).unwrap_or(0)
}

/// Copies of these descriptors, [`MOST_INHERITED`] of them at most, and their names.
pub(crate) fn inherited_descriptors() -> rustix::io::Result<Vec<(OwnedFd, String)>> {
    const FIRST: i32 = 3;
    let count = count_inherited().min(MOST_INHERITED) as i32;
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    (FIRST..FIRST + count)
        .map(|number| {
            // SAFETY: by the protocol the descriptor was opened for this process and nobody else in it
            // closes it; one that is not open gives EBADF below.
            let fd = unsafe { BorrowedFd::borrow_raw(number) };
            let copy = rustix::io::fcntl_dupfd_cloexec(fd, FIRST + count)?;
            Ok((
                copy,
                names
                    .next()
                    .filter(|name| !name.is_empty())
                    .unwrap_or("unknown")
                    .to_owned(),
            ))
        })
        .collect()
}

fn last_errno() -> Errno {
    let code = std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO);
    Errno::from_raw_os_error(code)
}
