//! A call of the guest's on a socket of the domain's own, carried out by a child of init's.
//!
//! The socket is the guest's, shared; user, namespaces and Landlock rules are too. A child, because
//! such a call can wait as long as it likes.

use super::guest::Running;
use crate::{
    kernel, privileges, send_record,
    text::Text,
    wire::{self, perform},
};
use kernel::{CStr, Errno, Fd, Result, c};
use wire::{RECORD_WORDS, Record};

/// `AF_UNIX`, as it begins an address.
const LOCAL: [u8; 2] = 1u16.to_ne_bytes();

/// Begins it; the result goes into the second descriptor. None is left open here: whoever closes a
/// guest's file last may have to wait for it (`SO_LINGER`), and that must not be init.
pub(crate) fn begin(running: &Running, words: &[u64; RECORD_WORDS], fds: &[Fd]) {
    let gate = kernel::pipe();
    if let (Ok([closed, open]), [_, result, ..]) = (gate, fds) {
        match kernel::fork(0, None) {
            Ok(None) => {
                kernel::close(open);
                // Nothing is written: the end comes when init has let go of everything.
                let _ = kernel::read(closed, &mut [0]);
                say(*result, carry_out(running, words, fds));
                crate::exit(0)
            }
            Ok(Some((_, pidfd))) => kernel::close(pidfd),
            Err(errno) => say(*result, Err(errno)),
        }
    }
    for fd in fds.iter().chain(gate.iter().flatten()) {
        kernel::close(*fd);
    }
}

/// Makes a socket in the domain's network, for who is outside. What is bound to the loopback there is reached by nobody
/// else. Nothing here waits: the other end asked over a socket that nothing was sent on yet.
pub(crate) fn make_socket(words: &[u64; RECORD_WORDS], fds: &[Fd]) {
    let [family, kind, protocol] = [0, 1, 2].map(|at| words[at] as u32);
    let made = kernel::socket(family, kind, protocol).and_then(|socket| {
        let is_up = kernel::bring_loopback_up(socket);
        is_up
            .map(|()| socket)
            .inspect_err(|_| kernel::close(socket))
    });
    let mut answer = Record {
        kind: wire::MADE,
        ..Record::default()
    };
    if let Err(errno) = &made {
        answer.kind = wire::KEEPER_FAILED;
        answer.words[2] = u64::from(errno.0);
    }
    let made = made.ok();
    if let [place, ..] = fds {
        send_record(*place, &answer, made.as_slice());
    }
    for fd in fds.iter().chain(made.as_slice()) {
        kernel::close(*fd);
    }
}

fn say(result: Fd, outcome: Result<usize>) {
    let number = match outcome {
        Ok(value) => value as i64,
        Err(errno) => -i64::from(errno.0),
    };
    let _ = kernel::write(result, &number.to_ne_bytes());
}

fn carry_out(running: &Running, words: &[u64; RECORD_WORDS], fds: &[Fd]) -> Result<usize> {
    let [socket, result, attached @ ..] = fds else {
        return Err(Errno::INVAL);
    };
    kernel::end_when_unread(*result)?;
    let (attached, rights) = attached
        .split_at_checked(attached.len().wrapping_sub(words[perform::RIGHTS] as usize))
        .ok_or(Errno::INVAL)?;
    let mut attached = attached.iter().copied();
    let mut take = |bit| match words[perform::ATTACHED] & bit {
        0 => None,
        _ => attached.next(),
    };
    let (folder, data) = (take(perform::ATTACHED_FOLDER), take(perform::ATTACHED_DATA));
    let mut bytes = [0; perform::MOST_ADDRESS];
    let address = address(words, &mut bytes)?;
    privileges::drop_all().map_err(|failure| failure.errno)?;
    if let Some(ruleset) = running.landlock.filter(|_| names_path(address)) {
        kernel::landlock_restrict_self(ruleset)?;
    }
    if let Some(folder) = folder {
        kernel::change_directory_fd(folder)?;
    }
    kernel::set_umask(words[perform::UMASK] as u32);
    let number = words[perform::NUMBER] as i32;
    let mut found = Text::default();
    let address = match words[perform::CALL] {
        perform::CONNECT | perform::SEND if names_path(address) => {
            find(running, address, &mut found)?
        }
        perform::CONNECT | perform::SEND | perform::BIND if names_abstract(address) => {
            check_network(*socket)?;
            address
        }
        _ => address,
    };
    match words[perform::CALL] {
        perform::CONNECT => kernel::connect(*socket, address),
        perform::BIND => kernel::bind(*socket, address),
        perform::LISTEN => kernel::listen(*socket, number),
        perform::SEND => {
            let data = data.map(contents).transpose()?.unwrap_or(&[]);
            kernel::send_to(*socket, address, data, rights, number)
        }
        _ => Err(Errno::NOSYS),
    }
}

fn address<'a>(
    words: &[u64; RECORD_WORDS],
    bytes: &'a mut [u8; perform::MOST_ADDRESS],
) -> Result<&'a [u8]> {
    for (to, word) in bytes.chunks_exact_mut(8).zip(&words[perform::ADDRESS..]) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    let length = words[perform::ADDRESS_LENGTH] as usize;
    bytes.get(..length).ok_or(Errno::INVAL)
}

/// Rules about files concern paths. Names without one are the domain's own by its network namespace,
/// and a second Landlock domain beside the guest's would be denied what the guest's own may.
fn names_path(address: &[u8]) -> bool {
    address.starts_with(&LOCAL) && address.get(LOCAL.len()).is_some_and(|first| *first != 0)
}

/// None at all is one that the kernel chooses.
fn names_abstract(address: &[u8]) -> bool {
    address.starts_with(&LOCAL) && !names_path(address)
}

/// The address of the socket that a path leads to now, by a descriptor of it: between a look at a path and
/// its use, the guest could put something else there. The socket must lie in the domain's own `tmpfs`, or at
/// one of these places. `EACCES` for a service of the host's; other errors are those of connect(2).
fn find<'a>(running: &Running, address: &[u8], found: &'a mut Text) -> Result<&'a [u8]> {
    const S_IFMT: u16 = 0o170_000;
    const S_IFSOCK: u16 = 0o140_000;
    let mut path = [0; perform::MOST_ADDRESS];
    let named = address[LOCAL.len()..]
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or(&[]);
    path[..named.len()].copy_from_slice(named);
    let path = CStr::new(&path[..=named.len()]).ok_or(Errno::INVAL)?;
    let socket = kernel::open(kernel::AT_FDCWD, path, kernel::O_PATH, 0)?;
    let about = kernel::statx_fd(socket)?;
    if about.mode & S_IFMT != S_IFSOCK {
        return Err(Errno::CONNREFUSED);
    }
    let is_own = running.own_device == Some((about.device_major, about.device_minor));
    if !is_own && !running.meeting_places.has(about.mount) {
        return Err(Errno::ACCESS);
    }
    let proc = running
        .own_proc
        .map_or_else(|| open_path(c!("/proc")), Ok)?;
    kernel::change_directory_fd(proc)?;
    found
        .text(&LOCAL)
        .text(b"self/fd/")
        .number(socket as u64)
        .text(b"\0");
    Ok(found.bytes())
}

/// Names that are no paths belong to the network namespace of their socket, which another guest may have
/// passed on: it must be this one.
fn check_network(socket: Fd) -> Result<()> {
    const AF_UNIX: u32 = 1;
    const SOCK_STREAM: u32 = 1;
    let own = kernel::socket(AF_UNIX, SOCK_STREAM, 0)?;
    let cookies = kernel::network_cookie(socket)
        .and_then(|theirs| Ok((theirs, kernel::network_cookie(own)?)));
    kernel::close(own);
    match cookies {
        Ok((theirs, own)) if theirs == own => Ok(()),
        // Before Linux 5.14 nothing tells.
        _ => Err(Errno::ACCESS),
    }
}

fn open_path(path: CStr) -> Result<Fd> {
    kernel::open(kernel::AT_FDCWD, path, kernel::O_PATH, 0)
}

fn contents(file: Fd) -> Result<&'static [u8]> {
    let size = kernel::statx_fd(file)?.size as usize;
    let memory = kernel::allocate(size.max(1))?;
    let length = kernel::read_at(file, &mut memory[..size], 0)?;
    Ok(&memory[..length])
}
