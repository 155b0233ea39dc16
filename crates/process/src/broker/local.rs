//! Calls on sockets of the domain's own: local ones, and netlink's where a profile has it.
//!
//! The filter cannot tell them from internet sockets, for it sees a descriptor's number only. Letting
//! them through would let another thread put an internet socket under that number meanwhile, and
//! carrying them out here would show the supervisor's credentials to the other end and look for paths
//! in the host's file system. So a child of init's does it, in the domain, as the guest's user, on the same
//! open socket. Where the guest connects to a path, it is the socket that is there then, and it must be the
//! domain's own or granted: a folder is not granted with the services in it. The child's pid is what `SO_PEERCRED` and `SCM_CREDENTIALS` show to the other end. It ends when
//! its caller does not wait any more.

use super::{Callers, Shared, caller, guest, room::Room};
use crate::{
    inside,
    layout::Layout,
    plan::Plan,
    record::record_bytes,
    sys::notify::{self, Notification},
    wire::{self, perform},
};
use rustix::{
    fs::MemfdFlags,
    io::Errno,
    net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags},
    pipe::PipeFlags,
};
use std::{
    io::IoSlice,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

/// `AF_UNIX`, as it begins an address.
pub(super) const LOCAL: [u8; 2] = (libc::AF_UNIX as u16).to_ne_bytes();

/// Has calls carried out inside the domain.
#[derive(Debug)]
pub(super) struct Performer {
    /// Stream to init.
    pub(super) socket: Arc<OwnedFd>,
    /// What is refused: see [`crate::seccomp::Groups`].
    refused: Refused,
    room: Room,
    /// Where the guest's files come from.
    pub(super) layout: Option<Arc<Layout>>,
}

/// What a domain without namespaces may not do even with sockets of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refused {
    /// Connecting to a name, and sending to one.
    connect: bool,
    /// Taking a name.
    bind: bool,
}

impl Refused {
    /// What the filter of such a domain would refuse if it did not leave it to the supervisor.
    pub(super) fn of(plan: &Plan) -> Self {
        let groups = plan.seccomp.unwrap_or_default();
        Self {
            connect: groups.host_sockets_visible,
            bind: groups.no_named_sockets,
        }
    }

    /// Only what names somebody else's socket, or makes a name.
    fn refuses(self, request: &Request<'_>) -> bool {
        let is_local = request.address.starts_with(&LOCAL);
        match request.call {
            perform::BIND => self.bind && is_local,
            _ => self.connect && is_local,
        }
    }
}

/// A call to carry out.
pub(super) struct Request<'a> {
    /// Which: one of `perform`'s.
    pub(super) call: u64,
    /// The backlog of `listen`, the flags of a message, the mode of a node.
    pub(super) number: i32,
    /// None of a message that goes where the socket is connected.
    pub(super) address: &'a [u8],
    /// A folder that the caller has open under this number, through which the path leads.
    pub(super) open: Option<(i32, &'a OwnedFd)>,
    /// What is sent.
    pub(super) data: &'a [u8],
    /// What goes with it.
    pub(super) rights: &'a [OwnedFd],
}

impl Performer {
    pub(super) fn new(
        socket: Arc<OwnedFd>,
        callers: &Callers,
        layout: Option<Arc<Layout>>,
    ) -> Self {
        Self {
            socket,
            refused: callers.refused,
            room: Room::of(callers.memory_bytes),
            layout,
        }
    }

    /// Asks for a call on this socket of the caller's; its result can be read when it is there.
    pub(super) fn perform(
        &self,
        shared: &Shared,
        caller: &Notification,
        target: BorrowedFd<'_>,
        request: &Request<'_>,
    ) -> Result<OwnedFd, Errno> {
        if self.refused.refuses(request) {
            return Err(Errno::ACCESS);
        }
        let (result, answer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let folder = begins_here(request.address).then(|| shared.maker.folder_of(caller.thread));
        let folder = folder.transpose()?;
        let container = shared.callers.container.as_ref();
        let has_root = container.is_some() && names_path(request.address);
        let root = has_root.then(|| shared.maker.root_of(caller.thread));
        let root = root.transpose()?;
        let who = container.map(|ids| {
            let who = guest::Status::of(&shared.maker, caller.thread).ok_or(Errno::SRCH)?;
            in_memory(&caller::words(&who, ids)?)
        });
        let who = who.transpose()?;
        let data = (!request.data.is_empty()).then(|| self.in_memory(request.data));
        let (data, room) = data.transpose()?.unzip();
        let umask = match request.call {
            perform::BIND | perform::MAKE_NODE => {
                guest::umask(&shared.maker, caller.thread).ok_or(Errno::SRCH)?
            }
            _ => 0,
        };
        // Folder and umask were found by the caller's number.
        if !notify::is_waiting(shared.listener.as_fd(), caller.id) {
            return Err(Errno::SRCH);
        }
        let mut words = words_of(request);
        words[perform::UMASK] = umask.into();
        words[perform::OPEN_NUMBER] = request.open.map_or(0, |(number, _)| number as u64);
        words[perform::ATTACHED] = [
            (perform::ATTACHED_FOLDER, folder.is_some()),
            (perform::ATTACHED_ROOT, root.is_some()),
            (perform::ATTACHED_CALLER, who.is_some()),
            (perform::ATTACHED_DATA, data.is_some()),
            (perform::ATTACHED_OPEN, request.open.is_some()),
        ]
        .into_iter()
        .filter_map(|(bit, is_there)| is_there.then_some(bit))
        .sum();
        let fds: Vec<_> = [target, answer.as_fd()]
            .into_iter()
            .chain(folder.iter().chain(&root).map(AsFd::as_fd))
            .chain(who.iter().chain(&data).map(AsFd::as_fd))
            .chain(request.open.map(|(_, folder)| folder.as_fd()))
            .chain(room.iter().map(AsFd::as_fd))
            .chain(request.rights.iter().map(AsFd::as_fd))
            .collect();
        self.send(&words, &fds)?;
        Ok(result)
    }

    /// Has init look at a path that the guest is about to execute, if it has time for that. What is `attached`, and these
    /// words, are of a relative one: [`wire::DOMAIN_LOOK`].
    pub(super) fn look(
        &self,
        path: &[u8],
        words: [u64; 2],
        attached: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        // With the NUL that ends it.
        let message = [path, &[0]].concat();
        let [call, folder] = words;
        let record = record_bytes(wire::DOMAIN_LOOK, &[message.len() as u64, call, folder]);
        let parts = [IoSlice::new(&record), IoSlice::new(&message)];
        self.send_parts(&parts, attached, SendFlags::DONTWAIT)
    }

    /// A socket of the domain's own network, for TCP.
    pub(super) fn make_socket(&self, family: AddressFamily) -> Result<OwnedFd, Errno> {
        const PATIENCE: Duration = Duration::from_secs(2);
        let asked = inside::ask(self.socket.as_fd(), family, SocketFlags::empty())?;
        asked.take_within(PATIENCE)
    }

    /// A memory file, and what goes with it for as long as anybody has it.
    fn in_memory(&self, data: &[u8]) -> Result<(OwnedFd, OwnedFd), Errno> {
        let room = self.room.take(data.len())?;
        Ok((in_memory(data)?, room))
    }

    fn send(&self, words: &[u64], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let record = record_bytes(wire::DOMAIN_PERFORM, words);
        self.send_parts(&[IoSlice::new(&record)], fds, SendFlags::empty())
    }

    /// Whole or not at all: so little goes into one buffer of the socket's.
    fn send_parts(
        &self,
        parts: &[IoSlice<'_>],
        fds: &[BorrowedFd<'_>],
        flags: SendFlags,
    ) -> Result<(), Errno> {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(wire::MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let is_too_much = fds.len() > wire::MAX_FDS
            || !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds));
        if is_too_much {
            return Err(Errno::TOOMANYREFS);
        }
        let flags = flags | SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&self.socket, parts, &mut ancillary, flags).map(drop)
    }
}

fn in_memory(data: &[u8]) -> Result<OwnedFd, Errno> {
    let file = rustix::fs::memfd_create("palisade-message", MemfdFlags::CLOEXEC)?;
    let mut rest = data;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&file, rest)?..];
    }
    Ok(file)
}

fn words_of(request: &Request<'_>) -> [u64; wire::RECORD_WORDS] {
    let mut words = [0; wire::RECORD_WORDS];
    words[perform::CALL] = request.call;
    words[perform::NUMBER] = request.number as u64;
    words[perform::ADDRESS_LENGTH] = request.address.len() as u64;
    words[perform::RIGHTS] = request.rights.len() as u64;
    let places = words[perform::ADDRESS..].iter_mut();
    for (word, bytes) in places.zip(request.address.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(whole);
    }
    words
}

/// A path that begins where the caller stands, by itself or as `/proc/self/cwd`. Abstract names begin with a NUL.
fn begins_here(address: &[u8]) -> bool {
    const BY_PROC: [&[u8]; 2] = [b"/proc/self/cwd/", b"/proc/thread-self/cwd/"];
    let path = address.get(LOCAL.len()..).unwrap_or_default();
    let is_relative = path.first() != Some(&b'/');
    names_path(address) && (is_relative || BY_PROC.iter().any(|begin| path.starts_with(begin)))
}

fn names_path(address: &[u8]) -> bool {
    let path = address.strip_prefix(&LOCAL);
    path.and_then(<[u8]>::first)
        .is_some_and(|first| *first != 0)
}

/// What the child wrote: the call's return value, or minus an error number.
pub(super) fn read_result(result: &OwnedFd) -> Result<i64, Errno> {
    let mut bytes = [0; 8];
    if rustix::io::read(result, &mut bytes)? != bytes.len() {
        // It was killed with the domain, or for want of memory.
        return Err(Errno::NOMEM);
    }
    match i64::from_ne_bytes(bytes) {
        value @ 0.. => Ok(value),
        errno => Err(Errno::from_raw_os_error(-errno as i32)),
    }
}
