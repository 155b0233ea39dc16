//! A call of the guest's on a socket of its own, carried out by a child of this process.
//!
//! The socket is the guest's, shared; user and namespaces are too. A child, because such a call can wait as long as it
//! likes.

use crate::{
    kernel,
    record::send_record,
    wire::{self, perform},
};
use kernel::{Errno, Fd, Result};
use wire::{RECORD_WORDS, Record};

/// `AF_UNIX`, as it begins an address.
pub(crate) const LOCAL: [u8; 2] = 1u16.to_ne_bytes();

/// What is asked for.
pub(crate) struct Call<'a> {
    /// Which: one of `perform`'s.
    pub(crate) kind: u64,
    pub(crate) socket: Fd,
    /// The backlog, or flags.
    pub(crate) number: i32,
    pub(crate) umask: u32,
    pub(crate) address: &'a [u8],
    pub(crate) folder: Option<Fd>,
    #[cfg_attr(not(container), allow(dead_code, reason = "a domain has one root"))]
    pub(crate) root: Option<Fd>,
    #[cfg_attr(not(container), allow(dead_code, reason = "a domain has one user"))]
    pub(crate) caller: Option<Fd>,
    #[cfg_attr(container, allow(dead_code, reason = "an attendant makes no nodes"))]
    pub(crate) data: Option<Fd>,
    /// A folder, and the number under which the caller has it open.
    #[cfg_attr(
        container,
        allow(dead_code, reason = "an attendant's caller has its own /proc")
    )]
    pub(crate) open: Option<(Fd, Fd)>,
    rights: &'a [Fd],
}

/// Begins it; the result goes into the second descriptor. None is left open here: whoever closes a
/// guest's file last may have to wait for it (`SO_LINGER`), and that must not be this process.
pub(crate) fn begin(
    words: &[u64; RECORD_WORDS],
    fds: &[Fd],
    carry_out: impl FnOnce(&Call<'_>) -> Result<usize>,
) {
    let gate = kernel::pipe();
    if let (Ok([closed, open]), [_, result, ..]) = (gate, fds) {
        match kernel::fork(0, None) {
            Ok(None) => {
                kernel::close(open);
                // Nothing is written: the end comes when the parent has let go of everything.
                let _ = kernel::read(closed, &mut [0]);
                let mut own = [-1; wire::MAX_FDS];
                let own = &mut own[..fds.len()];
                own.copy_from_slice(fds);
                let is_free = free_number(words, own);
                say(
                    own[1],
                    is_free.and_then(|()| understand(words, own, carry_out)),
                );
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

/// Makes a socket in this network, for who is outside. What is bound to the loopback here is reached by nobody
/// else. Nothing here waits: the other end asked over a socket that nothing was sent on yet.
pub(crate) fn make_socket(words: &[u64; RECORD_WORDS], fds: &[Fd]) {
    let [family, kind, protocol] = [0, 1, 2].map(|at| words[at] as u32);
    let made = kernel::socket(family, kind, protocol).and_then(|socket| {
        let is_up = bring_up(socket);
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

/// That of a container is up, and belongs to who made its network.
fn bring_up(socket: Fd) -> Result<()> {
    match cfg!(container) {
        true => Ok(()),
        false => kernel::bring_loopback_up(socket),
    }
}

/// Moves what has the number of a folder that is to be put there.
fn free_number(words: &[u64; RECORD_WORDS], fds: &mut [Fd]) -> Result<()> {
    let number = words[perform::OPEN_NUMBER] as Fd;
    let is_wanted = words[perform::ATTACHED] & perform::ATTACHED_OPEN != 0;
    for fd in fds.iter_mut().filter(|fd| is_wanted && **fd == number) {
        *fd = kernel::duplicate_above(*fd, number)?;
    }
    Ok(())
}

fn say(result: Fd, outcome: Result<usize>) {
    let number = match outcome {
        Ok(value) => value as i64,
        Err(errno) => -i64::from(errno.0),
    };
    let _ = kernel::write(result, &number.to_ne_bytes());
}

fn understand(
    words: &[u64; RECORD_WORDS],
    fds: &[Fd],
    carry_out: impl FnOnce(&Call<'_>) -> Result<usize>,
) -> Result<usize> {
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
    let folder = take(perform::ATTACHED_FOLDER);
    let (root, caller) = (take(perform::ATTACHED_ROOT), take(perform::ATTACHED_CALLER));
    let data = take(perform::ATTACHED_DATA);
    let open = take(perform::ATTACHED_OPEN);
    let mut bytes = [0; perform::MOST_ADDRESS];
    carry_out(&Call {
        kind: words[perform::CALL],
        socket: *socket,
        number: words[perform::NUMBER] as i32,
        umask: words[perform::UMASK] as u32,
        address: address(words, &mut bytes)?,
        folder,
        root,
        caller,
        data,
        open: open.map(|folder| (folder, words[perform::OPEN_NUMBER] as Fd)),
        rights,
    })
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

impl Call<'_> {
    /// The call itself, with this address.
    pub(crate) fn make(&self, address: &[u8]) -> Result<usize> {
        match self.kind {
            perform::CONNECT => kernel::connect(self.socket, address),
            perform::BIND => kernel::bind(self.socket, address),
            perform::LISTEN => kernel::listen(self.socket, self.number),
            perform::SEND => {
                let data = self.data.map(contents).transpose()?.unwrap_or(&[]);
                kernel::send_to(self.socket, address, data, self.rights, self.number)
            }
            _ => Err(Errno::NOSYS),
        }
    }

    /// Whether an abstract name stands for somebody: it belongs to the network namespace of its socket, which
    /// another guest may have passed on. It must be this one.
    pub(crate) fn check_abstract(&self) -> Result<()> {
        let is_concerned = matches!(self.kind, perform::CONNECT | perform::SEND | perform::BIND);
        match is_concerned && names_abstract(self.address) {
            true => check_network(self.socket),
            false => Ok(()),
        }
    }
}

/// Rules about files concern paths. Names without one are the domain's own by its network namespace,
/// and a second Landlock domain beside the guest's would be denied what the guest's own may.
pub(crate) fn names_path(address: &[u8]) -> bool {
    address.starts_with(&LOCAL) && address.get(LOCAL.len()).is_some_and(|first| *first != 0)
}

/// None at all is one that the kernel chooses.
fn names_abstract(address: &[u8]) -> bool {
    address.starts_with(&LOCAL) && !names_path(address)
}

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

/// All of a memory file.
pub(crate) fn contents(file: Fd) -> Result<&'static [u8]> {
    let size = kernel::statx_fd(file)?.size as usize;
    let memory = kernel::allocate(size.max(1))?;
    let length = kernel::read_at(file, &mut memory[..size], 0)?;
    Ok(&memory[..length])
}
