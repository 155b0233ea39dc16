//! Calls that are told of for the report's sake, and which the filter would allow otherwise: they go on, and are refused
//! by what stands behind it, if they are. So no verdict hangs on what a pointer points to, which another thread could
//! change. The exception is a lookup, whose question is answered here, for nobody else would.

use super::{
    call::{Answer, Brokered, DONE, Outcome, transport},
    local::Performer,
    request::Source,
};
use crate::{address::Address, file_calls, seen, sys::notify, wire};
use palisade_network::{Asked, Call, Reason, Refusal, Target};
use palisade_policy::{HostName, Transport};
use rustix::io::Errno;
use std::{
    ffi::OsStr,
    net::SocketAddr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

/// Where name servers are asked.
pub(super) const NAME_SERVERS: u16 = 53;

impl Brokered<'_> {
    /// `execve(path, …)` and `execveat(folder, path, …)`: the path is looked at inside, for nothing here follows one.
    pub(super) fn execution(&mut self) -> Outcome {
        if let Some(call) = file_calls::find(self.call.call.into())
            && !self.note_files(call)
        {
            return Err(Errno::ACCESS);
        }
        Ok(self.tell_of_execution().unwrap_or(Answer::Continue))
    }

    /// `io_uring_setup(entries, parameters)`, of a guest that is watched: there is none, which is told once by whoever tries.
    pub(super) fn ring(&self) -> Outcome {
        let refusal = Refusal {
            reason: Reason::Ring,
            grant: None,
        };
        let target = Target::Other("io_uring".into());
        let observations = &self.shared.observations;
        observations.record(Call::Ring, target, self.who(), Some(refusal), true);
        Err(Errno::NOSYS)
    }

    /// Nobody misses one that cannot be read, or for which init has no time. Most need nobody to look, by their words; where
    /// init has to know where the caller stands, it is init who lets the call go on.
    fn tell_of_execution(&self) -> Option<Answer> {
        let [first, second, ..] = self.call.arguments;
        let (folder, at) = match i64::from(self.call.call) {
            libc::SYS_execve => (libc::AT_FDCWD, first),
            _ => (first as i32, second),
        };
        let path = notify::read_text(self.call.thread, at, wire::MOST_PATH_BYTES).ok()?;
        let performer = &self.shared.performer;
        match path.first()? {
            _ if self.executes(folder, &path) => {}
            b'/' => drop(performer.look(&path, [0; 2], &[])),
            _ if performer.may_stall() => drop(self.look_from_folder(folder, &path)),
            _ => return self.have_init_answer(folder, &path).ok(),
        }
        None
    }

    /// Whether a path lies where programs are executed, by its words and those of the folder where the caller stands. A link
    /// may lead elsewhere: then a refusal is not told.
    fn executes(&self, folder: i32, path: &[u8]) -> bool {
        let Some(layout) = &self.shared.performer.layout else {
            return false;
        };
        let path = Path::new(OsStr::from_bytes(path));
        if path.is_absolute() {
            return layout.executes(path);
        }
        let is_below = |folder: PathBuf| layout.executes(&folder.join(path));
        folder == libc::AT_FDCWD && self.stands().is_ok_and(is_below)
    }

    /// Has init look, as the calling thread would, and then let the call go on.
    fn have_init_answer(&self, folder: i32, path: &[u8]) -> Result<Answer, Errno> {
        let listener = self.shared.listener.as_fd();
        let caller = notify::owned_by(self.call.thread)?;
        if !notify::is_waiting(listener, self.call.id) {
            return Err(Errno::SRCH);
        }
        let words = [self.call.id, folder as u64];
        let performer = &self.shared.performer;
        performer.look(path, words, &[listener, caller.as_fd()])?;
        Ok(Answer::Passed)
    }

    /// The same where init might have to wait for a file system to learn where a thread stands. None of the guest's own
    /// descriptors may reach init.
    fn look_from_folder(&self, folder: i32, path: &[u8]) -> Result<(), Errno> {
        if folder != libc::AT_FDCWD {
            return Ok(());
        }
        let folder = self.shared.maker.folder_of(self.call.thread)?;
        if !notify::is_waiting(self.shared.listener.as_fd(), self.call.id) {
            return Err(Errno::SRCH);
        }
        let performer = &self.shared.performer;
        performer.look(path, [0; 2], &[folder.as_fd()])
    }

    /// A connection where the network is empty.
    pub(super) fn connect_to_nobody(
        &self,
        socket: &OwnedFd,
        transport: Transport,
        asked: SocketAddr,
    ) -> Outcome {
        let refusal = self.shared.gate.connect(transport, asked).err();
        let refused = self.refuse_connection(socket, transport, asked, refusal);
        // What Landlock says to TCP, and the empty network to all else.
        refused.map_err(|_| match transport {
            Transport::Tcp => Errno::ACCESS,
            Transport::Udp => Errno::NETUNREACH,
        })
    }

    /// An address for a socket where the network is empty: the kernel's own answers, for the supervisor may more than the guest.
    pub(super) fn bind_to_nobody(
        &self,
        socket: &OwnedFd,
        transport: Transport,
        asked: SocketAddr,
    ) -> Outcome {
        const PRIVILEGED: std::ops::Range<u16> = 1..1024;
        let is_ruled = transport == Transport::Tcp && self.shared.callers.tcp_ruled;
        if is_ruled || PRIVILEGED.contains(&asked.port()) {
            return Err(Errno::ACCESS);
        }
        rustix::net::bind(socket, &asked)?;
        DONE
    }

    /// Takes note of a connection that is not granted. One to a name server seems to be made, so that its question comes.
    pub(super) fn refuse_connection(
        &self,
        socket: &OwnedFd,
        transport: Transport,
        asked: SocketAddr,
        refusal: Option<Refusal>,
    ) -> Outcome {
        let is_lookup = self.shared.callers.is_observed
            && (transport, asked.port()) == (Transport::Udp, NAME_SERVERS)
            // Else what follows would go where it is connected now.
            && rustix::net::getpeername(socket).is_err();
        if !is_lookup || !asked.ip().is_loopback() {
            refusal
                .into_iter()
                .for_each(|refusal| self.refuse(transport, asked, refusal));
        }
        if !is_lookup {
            return Err(Errno::ACCESS);
        }
        self.tell_of_lookup(None);
        DONE
    }

    /// `sendto` with an address, where the network is empty.
    pub(super) fn observe_datagram(&self) -> Outcome {
        let Ok(message) = self.copy_arguments() else {
            return Ok(Answer::Continue);
        };
        let Some(Address::Internet(to)) = message.name else {
            return Ok(Answer::Continue);
        };
        match Asked::read(&message.data).filter(|_| to.port() == NAME_SERVERS) {
            Some(asked) => self.tell_of_question(asked),
            None => {
                let refusal = self.shared.gate.send(to).err();
                refusal
                    .into_iter()
                    .for_each(|refusal| self.refuse(Transport::Udp, to, refusal));
            }
        }
        Ok(Answer::Continue)
    }

    /// `sendmmsg(fd, messages, count, flags)`: the C library's questions for a name, of which the first has the name.
    pub(super) fn observe_datagrams(&mut self) -> Outcome {
        if let Ok(question) = self.first_question()
            && let Ok(socket) = self.descriptor()
            && transport(&socket) == Ok(Transport::Udp)
        {
            self.refuse_question(&socket, None, &question)?;
        }
        Ok(Answer::Continue)
    }

    /// What may be one: a `struct msghdr` without an address, whose first part is short.
    fn first_question(&self) -> Result<Vec<u8>, Errno> {
        const MOST_BYTES: u64 = 300;
        let header = self.call.read(self.call.arguments[1], 32)?;
        let (words, _) = header.as_chunks::<8>();
        let [address, _, parts, count] = *words else {
            return Err(Errno::FAULT);
        };
        let [address, parts, count] = [address, parts, count].map(u64::from_ne_bytes);
        if address != 0 || count == 0 {
            return Err(Errno::INVAL);
        }
        let part = self.call.read(parts, 16)?;
        let (words, _) = part.as_chunks::<8>();
        let [base, length] = [words[0], words[1]].map(u64::from_ne_bytes);
        if length > MOST_BYTES {
            return Err(Errno::MSGSIZE);
        }
        self.call.read(base, length as usize)
    }

    /// Fails what is asked on a socket that only seems connected.
    pub(super) fn refuse_question(
        &self,
        socket: &OwnedFd,
        to: Option<&Address>,
        data: &[u8],
    ) -> Result<(), Errno> {
        if to.is_some() || !self.shared.callers.is_observed {
            return Ok(());
        }
        match Asked::read(data) {
            Some(asked) if rustix::net::getpeername(socket).is_err() => {
                self.tell_of_question(asked);
                Err(Errno::CONNREFUSED)
            }
            _ => Ok(()),
        }
    }

    /// A granted name is in the hosts file; who asks for it nevertheless wants what that does not have.
    pub(super) fn tell_of_question(&self, asked: Asked) {
        if let Some(name) = asked.into_name() {
            self.tell_of_lookup(Some(name));
        }
    }

    fn tell_of_lookup(&self, name: Option<HostName>) {
        let is_granted = |name: &HostName| {
            let network = self.shared.gate.network();
            network.pins.iter().any(|pins| pins.name == *name)
        };
        if name.as_ref().is_some_and(is_granted) {
            return;
        }
        let refusal = Refusal::of_lookup(name.as_ref());
        let process = self.who();
        let target = Target::of_lookup(name);
        let probe = seen::is_probe(Call::Lookup, &target);
        let observations = &self.shared.observations;
        observations.record(Call::Lookup, target, process, Some(refusal), probe);
    }
}

impl Performer {
    /// Whether a folder of the guest's may lie where init would have to wait for it: one that was granted, or that came by a
    /// socket of the host's.
    fn may_stall(&self) -> bool {
        let layout = self.layout.as_ref();
        layout.is_none_or(|layout| layout.may_stall() || !layout.meeting_places().is_empty())
    }
}
