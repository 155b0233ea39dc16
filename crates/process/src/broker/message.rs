//! Calls that send to an address: `sendto`, and `sendmsg` and `sendmmsg`, which keep theirs in memory.
//!
//! The data is copied too: what is sent is sent from the copy. Without a UDP grant only `sendto` with an
//! address gets here, for the report: what a domain does over TCP alone is never slowed.

use super::{
    Shared,
    call::{Answer, Brokered, Outcome, own_address, refuse_internet, send_deadline, transport},
    guest,
    local::Request,
    observe::NAME_SERVERS,
    pending::Wait,
    request::{MOST_DATA, Message, Source, controls},
};
use crate::{
    address::{self, Address},
    sys::{
        is_process,
        message::{self, RawMessage},
        notify::{self, Notification},
    },
    wire::perform,
};
use palisade_network::{Asked, Call, Target};
use palisade_policy::Transport;
use rustix::{
    event::PollFlags,
    fs::OFlags,
    io::Errno,
    net::{AddressFamily, SocketType, sockopt},
};
use std::{
    cell::Cell,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
};

/// Flags that change how one message goes, but not by which interface. `MSG_ZEROCOPY` would send from the
/// copy after it is gone.
const FLAGS: i32 = libc::MSG_CONFIRM
    | libc::MSG_EOR
    | libc::MSG_MORE
    | libc::MSG_OOB
    | libc::MSG_DONTWAIT
    | libc::MSG_NOSIGNAL;

/// Where a call says what is sent.
#[derive(Clone, Copy)]
enum Given {
    /// In its arguments, as `sendto`.
    InArguments,
    /// In a `struct msghdr` at this place of the guest's memory, with these flags.
    InHeader(u64, i32),
}

/// A message that may go.
struct Granted {
    name: Vec<u8>,
    data: Vec<u8>,
    control: Vec<u8>,
    flags: i32,
}

impl Brokered<'_> {
    /// `sendto(fd, data, length, flags, address, address length)`.
    pub(super) fn sendto(&mut self) -> Outcome {
        let message = self.copy(Given::InArguments)?;
        let socket = self.descriptor()?;
        self.send(socket, message, Given::InArguments, None)
    }

    /// `sendmsg(fd, message, flags)`.
    pub(super) fn sendmsg(&mut self) -> Outcome {
        let [_, at, flags, ..] = self.call.arguments;
        let given = Given::InHeader(at, flags as i32);
        let message = self.copy(given)?;
        let socket = self.descriptor()?;
        self.send(socket, message, given, None)
    }

    /// `sendmmsg(fd, messages, count, flags)`: as many as go without waiting, or the first.
    pub(super) fn sendmmsg(&mut self) -> Outcome {
        /// `struct mmsghdr`: a `struct msghdr`, then how much of it was sent.
        const ENTRY_BYTES: u64 = 64;
        const LENGTH_AT: u64 = 56;
        /// So many at a time: one call must not keep the domain's others waiting.
        const MOST: u64 = 64;
        let [_, list, count, flags, ..] = self.call.arguments;
        let memory = guest::Memory::of(&self.shared.maker, self.call.thread)?;
        let mut sent = 0;
        for index in 0..u64::from(count as u32).min(MOST) {
            let at = list.wrapping_add(index * ENTRY_BYTES);
            let given = Given::InHeader(at, flags as i32);
            let outcome = self.copy(given).and_then(|message| {
                let socket = self.descriptor()?;
                let length_at = at.wrapping_add(LENGTH_AT);
                self.send(socket, message, given, Some((memory.clone(), length_at)))
            });
            match outcome {
                Ok(Answer::Result(Ok(_))) => sent += 1,
                // What the others come to, the next call tells.
                _ if sent > 0 => break,
                first => return first,
            }
        }
        Ok(Answer::Result(Ok(sent)))
    }

    fn copy(&self, given: Given) -> Result<Message, Errno> {
        match given {
            Given::InHeader(at, flags) => Message::copy(self.call, at, flags),
            Given::InArguments => self.copy_arguments(),
        }
    }

    /// The message of a `sendto`.
    pub(super) fn copy_arguments(&self) -> Result<Message, Errno> {
        let [_, at, length, flags, ..] = self.call.arguments;
        Ok(Message {
            name: match self.call.arguments[5] as i32 {
                0 => None,
                _ => Some(self.address(4, 5)?),
            },
            data: self.call.read(at, length.min(MOST_DATA as u64) as usize)?,
            length,
            control: Vec::new(),
            flags: flags as i32,
        })
    }

    /// Sends what is granted. Of one of many messages the guest keeps the length, at this place of its
    /// memory.
    fn send(
        &mut self,
        socket: OwnedFd,
        message: Message,
        given: Given,
        keep_length: Option<(guest::Memory, u64)>,
    ) -> Outcome {
        let done = move |sent: i64| match &keep_length {
            None => Ok(sent),
            Some((memory, at)) => {
                memory.write(*at, &(sent as u32).to_ne_bytes())?;
                Ok(1)
            }
        };
        let Ok(transport) = transport(&socket) else {
            return self.send_inside(&socket, &message, done);
        };
        if transport == Transport::Udp {
            self.refuse_question(&socket, message.name.as_ref(), &message.data)?;
        }
        let granted = self.grant(&socket, transport, message)?;
        let call = *self.call;
        match granted.send(&socket) {
            Err(Errno::AGAIN) if granted.waits(&socket)? => Ok(Answer::Later(Wait {
                deadline: send_deadline(&socket, Errno::AGAIN)?,
                socket,
                until: PollFlags::OUT,
                is_begun: false,
                is_brief: false,
                again: Box::new(move |shared, socket| {
                    match send_anew(shared, &call, given, transport, socket) {
                        // Or it was taken back: that is found by who asks whether it waits.
                        Err(Errno::AGAIN | Errno::SRCH) => None,
                        sent => Some(sent.and_then(&done)),
                    }
                }),
            })),
            sent => Ok(Answer::Result(sent.and_then(done))),
        }
    }

    /// Sends on a socket of the domain's own: inside, where the other end sees the guest's user.
    fn send_inside(
        &mut self,
        socket: &OwnedFd,
        message: &Message,
        told: impl Fn(i64) -> Result<i64, Errno> + Send + 'static,
    ) -> Outcome {
        refuse_internet(socket)?;
        let is_whole = message.data.len() as u64 == message.length;
        let is_stream = sockopt::socket_type(socket)? == SocketType::STREAM;
        if !is_whole && !is_stream {
            return Err(Errno::MSGSIZE);
        }
        let address = match &message.name {
            Some(Address::Inside(name)) => name.as_slice(),
            Some(_) => return Err(Errno::INVAL),
            None => &[],
        };
        let request = Request {
            call: perform::SEND,
            number: message.flags & FLAGS,
            address,
            data: &message.data,
            open: None,
            rights: &self.rights(&message.control)?,
        };
        self.perform(socket, &request, told)
    }

    /// Decides by the message's address and what goes with it.
    fn grant(
        &self,
        socket: &OwnedFd,
        transport: Transport,
        message: Message,
    ) -> Result<Granted, Errno> {
        if message.data.len() as u64 != message.length && transport == Transport::Udp {
            return Err(Errno::MSGSIZE);
        }
        let entries = controls(&message.control)?;
        if !entries
            .iter()
            .all(|entry| entry.is_harmless(&message.control))
        {
            return Err(Errno::PERM);
        }
        let name = match message.name {
            // A stream goes where it is connected to, whatever the address says (tcp_sendmsg_locked).
            Some(Address::Internet(asked)) if transport == Transport::Udp => {
                let target = self.destination(socket, asked, &message.data)?;
                raw_address(address::in_family_of(asked, target))
            }
            Some(Address::Unspecified | Address::Inside(_)) => return Err(Errno::AFNOSUPPORT),
            _ => Vec::new(),
        };
        Ok(Granted {
            name,
            data: message.data,
            control: message.control,
            flags: message.flags & FLAGS,
        })
    }

    /// Where a datagram goes. From where the guest may listen it may answer anyone.
    fn destination(
        &self,
        socket: &OwnedFd,
        asked: SocketAddr,
        data: &[u8],
    ) -> Result<SocketAddr, Errno> {
        let gate = &self.shared.gate;
        if let Some(asking) = &self.shared.asking
            && !own_address(socket)?.is_some_and(|bound| gate.may_answer_from(bound))
            && !is_lookup(asked, data)
        {
            return self.find_way(asking, socket, (Transport::Udp, asked));
        }
        match gate.send(asked) {
            Err(_) if own_address(socket)?.is_some_and(|bound| gate.may_answer_from(bound)) => {
                Ok(asked)
            }
            Err(_) if self.shared.callers.is_observed && is_lookup(asked, data) => {
                Asked::read(data)
                    .into_iter()
                    .for_each(|asked| self.tell_of_question(asked));
                Err(Errno::ACCESS)
            }
            verdict => {
                let target = self.granted(Transport::Udp, asked, verdict)?;
                let told = || Target::Address(Transport::Udp, target);
                self.tell_of_allowed(Call::Send, told);
                Ok(target)
            }
        }
    }

    /// The open files that a control block passes on.
    fn rights(&mut self, control: &[u8]) -> Result<Vec<OwnedFd>, Errno> {
        /// `SCM_MAX_FD`.
        const MOST: usize = 253;
        let mut numbers = Vec::new();
        for entry in controls(control)? {
            if (entry.level, entry.kind) != (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                return Err(Errno::PERM);
            }
            let data = control.get(entry.data).ok_or(Errno::INVAL)?;
            let (words, _) = data.as_chunks::<4>();
            numbers.extend(words.iter().map(|word| u32::from_ne_bytes(*word)));
        }
        if numbers.len() > MOST {
            return Err(Errno::INVAL);
        }
        let own = |number: u32| self.own_descriptor(number.into());
        let files: Vec<_> = numbers.into_iter().map(own).collect::<Result<_, _>>()?;
        match files.iter().all(|file| self.may_be_passed_on(file)) {
            true => Ok(files),
            false => Err(Errno::PERM),
        }
    }

    /// Whoever gets a datagram socket sends to whom it likes, and that may be another guest, whose messages
    /// nobody looks at. So only one goes by which this guest may answer anyone, too. What can be done with a
    /// stream is judged at each call wherever it goes.
    ///
    /// Other containers have a network, and no filter that leaves calls to somebody: they get no socket of the host's from one that has
    /// none, nor a process from which they could take it.
    fn may_be_passed_on(&self, file: &OwnedFd) -> bool {
        // None for what is no socket.
        let family = sockopt::socket_domain(file).ok();
        let is_internet =
            family == Some(AddressFamily::INET) || family == Some(AddressFamily::INET6);
        if self.shared.callers.container.is_some() {
            return match is_internet {
                true => self.shared.callers.inner.is_inside(file),
                false => !is_process(file.as_fd()),
            };
        }
        if !is_internet {
            return true;
        }
        let may_answer = |bound| self.shared.gate.may_answer_from(bound);
        transport(file) == Ok(Transport::Tcp)
            || own_address(file).is_ok_and(|bound| bound.is_some_and(may_answer))
    }
}

impl Granted {
    /// Without waiting; `EPIPE` without a signal, which would be this process's.
    fn send(&self, socket: &OwnedFd) -> Result<i64, Errno> {
        let message = RawMessage {
            name: &self.name,
            data: &self.data,
            control: &self.control,
            flags: self.flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        };
        message::send(socket.as_fd(), message).map(|sent| sent as i64)
    }

    /// Whether the guest would wait for room.
    fn waits(&self, socket: &OwnedFd) -> Result<bool, Errno> {
        let flags = rustix::fs::fcntl_getfl(socket)?;
        Ok(self.flags & libc::MSG_DONTWAIT == 0 && !flags.contains(OFlags::NONBLOCK))
    }
}

/// A call that waits keeps its message where it is: there may be hundreds, and what they hold would be
/// palisade's and not the domain's. It is copied and judged anew each time.
fn send_anew(
    shared: &Shared,
    call: &Notification,
    given: Given,
    transport: Transport,
    socket: &OwnedFd,
) -> Result<i64, Errno> {
    let brokered = Brokered {
        shared,
        threads: &mut guest::Threads::default(),
        call,
        ticket: Cell::default(),
        allowed: &[],
    };
    let message = brokered.copy(given)?;
    // Whose memory that was is known by its number only.
    if !notify::is_waiting(shared.listener.as_fd(), call.id) {
        return Err(Errno::SRCH);
    }
    brokered.grant(socket, transport, message)?.send(socket)
}

/// A question to a name server where nobody says which: there is none.
fn is_lookup(to: SocketAddr, data: &[u8]) -> bool {
    to.port() == NAME_SERVERS && to.ip().is_loopback() && Asked::read(data).is_some()
}

/// `struct sockaddr_in` or `struct sockaddr_in6`.
fn raw_address(address: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(28);
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    bytes.extend(family.as_raw().to_ne_bytes());
    bytes.extend(address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes.extend(v4.ip().octets());
            bytes.extend([0; 8]);
        }
        SocketAddr::V6(v6) => {
            bytes.extend([0; 4]);
            bytes.extend(v6.ip().octets());
            bytes.extend(v6.scope_id().to_ne_bytes());
        }
    }
    bytes
}
