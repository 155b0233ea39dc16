//! One call: what it asks for, whether that is granted, and doing it.

use super::{
    Shared,
    ask::{Ticket, Wish},
    guest::{self, Threads},
    local::{self, Request},
    pending::Wait,
    request::Source,
};
use crate::{
    address::{self, Address},
    file_calls, seen,
    sys::notify::Notification,
    wire::perform,
};
use palisade_network::{Call, Refusal, Target, address::canonical};
use palisade_policy::Transport;
use rustix::{
    event::PollFlags,
    fs::OFlags,
    io::Errno,
    net::{AddressFamily, Protocol, SocketFlags, SocketType, sockopt},
};
use std::{
    cell::Cell,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

/// What becomes of a call.
pub(super) enum Answer {
    /// It returns this.
    Result(Result<i64, Errno>),
    /// It returns a descriptor of this socket, close-on-exec or not.
    Socket(OwnedFd, bool),
    /// It waits.
    Later(Wait),
    /// It goes on, as if nobody had been told: only what the filter would allow otherwise.
    Continue,
    /// Init looks at it and lets it go on.
    Passed,
    /// It is decided anew when this is known.
    Held(Ticket),
}

impl From<Result<Answer, Errno>> for Answer {
    fn from(answer: Result<Answer, Errno>) -> Self {
        answer.unwrap_or_else(|errno| Self::Result(Err(errno)))
    }
}

pub(super) type Outcome = Result<Answer, Errno>;

pub(super) const DONE: Outcome = Ok(Answer::Result(Ok(0)));

/// One call under decision.
pub(super) struct Brokered<'a> {
    pub(super) shared: &'a Shared,
    pub(super) threads: &'a mut Threads,
    pub(super) call: &'a Notification,
    /// What is to be known first, of a call that fails without.
    pub(super) ticket: Cell<Option<Ticket>>,
    /// What somebody has allowed this one call.
    pub(super) allowed: &'a [Wish],
}

impl Brokered<'_> {
    /// Decides and carries out.
    pub(super) fn decide(&mut self) -> Answer {
        let outcome = self.carry_out();
        match (outcome, self.ticket.take()) {
            (Err(_), Some(ticket)) => Answer::Held(ticket),
            (outcome, _) => outcome.into(),
        }
    }

    fn carry_out(&mut self) -> Outcome {
        match i64::from(self.call.call) {
            libc::SYS_bind => self.bind(),
            _ if self.shared.callers.makes_for(self.call) => self.make_node(),
            libc::SYS_socket => self.socket(),
            libc::SYS_connect => self.connect(),
            libc::SYS_listen => self.listen(),
            libc::SYS_sendto if self.shared.callers.decides.sends => self.sendto(),
            libc::SYS_sendto => self.observe_datagram(),
            libc::SYS_sendmsg => self.sendmsg(),
            libc::SYS_sendmmsg if self.shared.callers.decides.messages => self.sendmmsg(),
            libc::SYS_sendmmsg => self.observe_datagrams(),
            libc::SYS_execve | libc::SYS_execveat => self.execution(),
            libc::SYS_setsockopt => self.linger(),
            libc::SYS_io_uring_setup => self.ring(),
            number if self.shared.watch.is_some() => match file_calls::find(number) {
                Some(call) => self.ask_for_files(call),
                None => Err(Errno::NOSYS),
            },
            _ => Err(Errno::NOSYS),
        }
    }

    /// `socket(family, type, protocol)`: the filter lets TCP and UDP through to here only.
    fn socket(&self) -> Outcome {
        const TYPE_MASK: u32 = 0xf;
        let [family, kind, protocol] = [0, 1, 2].map(|at| self.call.arguments[at] as u32);
        let flags = SocketFlags::from_bits(kind & !TYPE_MASK)
            .filter(|flags| (SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).contains(*flags))
            .ok_or(Errno::INVAL)?;
        let made_with = flags | SocketFlags::CLOEXEC;
        let maker = &self.shared.maker;
        let socket = match maker.makes_sockets() {
            true => maker.make(family, kind & TYPE_MASK | made_with.bits(), protocol)?,
            false => rustix::net::socket_with(
                AddressFamily::from_raw(family as u16),
                SocketType::from_raw(kind & TYPE_MASK),
                made_with,
                std::num::NonZeroU32::new(protocol).map(Protocol::from_raw),
            )?,
        };
        Ok(Answer::Socket(socket, flags.contains(SocketFlags::CLOEXEC)))
    }

    /// `connect(fd, address, length)`.
    fn connect(&mut self) -> Outcome {
        let address = self.address(1, 2)?;
        let socket = self.descriptor()?;
        match address {
            Address::Internet(asked) => self.connect_to(socket, asked),
            Address::Unspecified => {
                rustix::net::connect_unspec(&socket)?;
                DONE
            }
            Address::Inside(bytes) => self.inside(&socket, perform::CONNECT, &bytes, 0),
        }
    }

    fn connect_to(&mut self, socket: OwnedFd, asked: SocketAddr) -> Outcome {
        let transport = transport(&socket)?;
        if self.shared.callers.inner.is_own_affair(&socket, asked) {
            return match transport {
                Transport::Tcp => self.reach(socket, asked),
                Transport::Udp => {
                    rustix::net::connect(&socket, &asked)?;
                    DONE
                }
            };
        }
        if !self.shared.callers.has_network {
            return self.connect_to_nobody(&socket, transport, asked);
        }
        let target = match &self.shared.asking {
            Some(asking) => {
                let is_datagram = transport == Transport::Udp;
                if let Some(done) = is_datagram
                    .then(|| self.connect_for_lookup(asking, &socket, asked))
                    .flatten()
                {
                    return done;
                }
                self.find_way(asking, &socket, (transport, asked))?
            }
            None => match self.shared.gate.connect(transport, asked) {
                Ok(target) => {
                    self.tell_of_allowed(Call::Connect, || Target::Address(transport, target));
                    target
                }
                Err(_) if self.shared.callers.inner.takes(transport, asked) => {
                    return self.connect_inside(&socket, asked);
                }
                Err(refusal) => {
                    return self.refuse_connection(&socket, transport, asked, Some(refusal));
                }
            },
        };
        let to = address::in_family_of(asked, target);
        if transport == Transport::Udp {
            rustix::net::connect(&socket, &to)?;
            return DONE;
        }
        self.reach(socket, to)
    }

    /// Connects a stream.
    pub(super) fn reach(&self, socket: OwnedFd, to: SocketAddr) -> Outcome {
        // A socket of the domain's own network reaches nobody of the host's, and the proxy least.
        if !self.shared.callers.inner.has(&socket) {
            self.shared.announce(to, &socket, self.call.thread)?;
        }
        let (begun, blocks) = try_connect(&socket, to)?;
        match begun {
            Err(Errno::INPROGRESS | Errno::ALREADY) if blocks => wait_for_connection(socket, to),
            begun => begun.map(|()| Answer::Result(Ok(0))),
        }
    }

    /// `bind(fd, address, length)`.
    fn bind(&mut self) -> Outcome {
        let address = self.address(1, 2)?;
        let socket = self.descriptor()?;
        let asked = match address {
            Address::Internet(asked) => asked,
            Address::Unspecified => {
                // What local sockets say, and all others but UDP's of version 4.
                refuse_internet(&socket)?;
                return Err(Errno::INVAL);
            }
            Address::Inside(bytes) => {
                self.note_socket(&bytes);
                return self.inside(&socket, perform::BIND, &bytes, 0);
            }
        };
        let transport = transport(&socket)?;
        if !self.shared.callers.has_network {
            return self.bind_to_nobody(&socket, transport, asked);
        }
        if self.shared.callers.inner.is_own_affair(&socket, asked) {
            rustix::net::bind(&socket, &asked)?;
            return DONE;
        }
        if self.shared.callers.inner.is_meant(transport, asked) {
            return self.bind_inside(&socket, asked);
        }
        // A socket of version 4 has no such option; the kernel refuses it an address of version 6.
        let one_family = asked.is_ipv4() || sockopt::ipv6_v6only(&socket).unwrap_or(true);
        let verdict = self.shared.gate.bind(transport, asked, one_family);
        if verdict.is_err() && self.shared.callers.inner.takes(transport, asked) {
            return self.bind_inside(&socket, asked);
        }
        let place = self.granted(transport, asked, verdict)?;
        self.tell_of_allowed(Call::Bind, || Target::Address(transport, canonical(place)));
        rustix::net::bind(&socket, &address::in_family_of(asked, place))?;
        DONE
    }

    /// `listen(fd, backlog)`.
    fn listen(&mut self) -> Outcome {
        let socket = self.descriptor()?;
        let backlog = self.call.arguments[1] as i32;
        let Ok(transport) = transport(&socket) else {
            return self.inside(&socket, perform::LISTEN, &[], backlog);
        };
        if transport == Transport::Udp {
            return Err(Errno::OPNOTSUPP);
        }
        let backlog = self.shared.maker.backlog(backlog);
        if let Some(bound) = self.is_for_inside(&socket)? {
            return self.listen_inside(&socket, bound, backlog);
        }
        self.judge_listening(&socket)?;
        rustix::net::listen(&socket, backlog)?;
        self.tell_of_allowed(Call::Listen, || match own_address(&socket) {
            Ok(Some(bound)) => Target::Address(Transport::Tcp, canonical(bound)),
            _ => Target::Unbound(Transport::Tcp),
        });
        // Another thread of the guest's may have taken its address from it meanwhile.
        self.judge_listening(&socket).inspect_err(|_| {
            let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
        })?;
        DONE
    }

    /// Where a socket of the host's is bound that may not listen there, and may at the domain's own loopback.
    fn is_for_inside(&self, socket: &OwnedFd) -> Result<Option<SocketAddr>, Errno> {
        let inner = &self.shared.callers.inner;
        let bound = own_address(socket)?;
        let asked = bound.unwrap_or(UNBOUND);
        let is_meant = inner.takes(Transport::Tcp, asked)
            && !inner.is_inside(socket)
            && self.shared.gate.listen(bound).is_err();
        Ok(is_meant.then_some(asked))
    }

    fn judge_listening(&self, socket: &OwnedFd) -> Result<(), Errno> {
        if self.shared.callers.inner.has(socket) {
            return Ok(());
        }
        let bound = own_address(socket)?;
        let verdict = self.shared.gate.listen(bound);
        self.granted(Transport::Tcp, bound.unwrap_or(UNBOUND), verdict)
    }

    /// `setsockopt(fd, SOL_SOCKET, SO_LINGER, value, length)`. Whoever closes such a socket last waits for
    /// what was not sent yet, and that may be the supervisor: it does not wait long.
    fn linger(&mut self) -> Outcome {
        const VALUE_BYTES: usize = 8;
        const MOST: Duration = Duration::from_secs(1);
        let [.., value, length, _] = self.call.arguments;
        if (length as i32) < VALUE_BYTES as i32 {
            return Err(Errno::INVAL);
        }
        let value = self.call.read(value, VALUE_BYTES)?;
        let socket = self.descriptor()?;
        let (words, _) = value.as_chunks::<4>();
        let [on, seconds] = [words[0], words[1]].map(i32::from_ne_bytes);
        let time = Duration::from_secs(u64::from(seconds as u32)).min(MOST);
        sockopt::set_socket_linger(&socket, (on != 0).then_some(time))?;
        DONE
    }

    /// The address that argument `at` points to, `length` bytes of it. An `int` to the kernel.
    pub(super) fn address(&self, at: usize, length: usize) -> Result<Address, Errno> {
        let bytes = self.address_bytes(self.call.arguments[at], self.call.arguments[length])?;
        Address::parse(&bytes)
    }

    pub(super) fn address_bytes(&self, address: u64, length: u64) -> Result<Vec<u8>, Errno> {
        let length = usize::try_from(length as i32).map_err(|_| Errno::INVAL)?;
        if length > address::MOST_BYTES {
            return Err(Errno::INVAL);
        }
        self.call.read(address, length)
    }

    /// The open socket behind the first argument. Memory is read before it, never after: the thread
    /// is known to be the caller by then.
    pub(super) fn descriptor(&mut self) -> Result<OwnedFd, Errno> {
        self.own_descriptor(self.call.arguments[0])
    }

    /// The caller's descriptor of this number.
    pub(super) fn own_descriptor(&mut self, number: u64) -> Result<OwnedFd, Errno> {
        let (maker, listener) = (&self.shared.maker, self.shared.listener.as_fd());
        self.threads.descriptor(maker, listener, self.call, number)
    }

    /// What the gate says, and a refusal remembered, or asked about.
    pub(super) fn granted<T>(
        &self,
        transport: Transport,
        asked: SocketAddr,
        verdict: Result<T, Refusal>,
    ) -> Result<T, Errno> {
        verdict.map_err(|refusal| self.ask_or_refuse(transport, asked, refusal))
    }

    pub(super) fn refuse(&self, transport: Transport, asked: SocketAddr, refusal: Refusal) {
        // Who it was is asked of a call that was refused only.
        let process = self.who();
        let call = self.kind();
        let target = match canonical(asked) {
            UNBOUND if call == Call::Listen => Target::Unbound(transport),
            asked => Target::Address(transport, asked),
        };
        // getaddrinfo(3) connects datagram sockets to what it found, to learn the routes.
        let probe = seen::is_probe(call, &target)
            || call == Call::Connect
                && transport == Transport::Udp
                && self.shared.gate.is_granted_for_tcp(asked);
        let observations = &self.shared.observations;
        observations.record(call, target, process, Some(refusal), probe);
    }

    /// Whose call it is that is refused, or may be.
    pub(super) fn who(&self) -> palisade_network::Process {
        let process = guest::identify(&self.shared.maker, self.call.thread);
        self.shared.ends.follow(process.pid);
        process
    }

    /// Where somebody wants to know.
    pub(super) fn tell_of_allowed(&self, call: Call, target: impl FnOnce() -> Target) {
        let observations = &self.shared.observations;
        if observations.wants_allowed() {
            let process = guest::identify(&self.shared.maker, self.call.thread);
            observations.record(call, target(), process, None, false);
        }
    }

    pub(super) fn kind(&self) -> Call {
        match i64::from(self.call.call) {
            libc::SYS_socket => Call::Socket,
            libc::SYS_connect => Call::Connect,
            libc::SYS_bind => Call::Bind,
            libc::SYS_listen => Call::Listen,
            _ => Call::Send,
        }
    }

    /// A call on a socket of the domain's own is carried out in the domain. Internet sockets stay here:
    /// none may reach init, which would then hold them.
    pub(super) fn inside(
        &mut self,
        socket: &OwnedFd,
        call: u64,
        address: &[u8],
        number: i32,
    ) -> Outcome {
        refuse_internet(socket)?;
        let path = match call {
            perform::BIND => address.strip_prefix(&local::LOCAL),
            _ => None,
        };
        let open = self.open_folder_on(path.unwrap_or_default())?;
        let request = Request {
            call,
            number,
            address,
            open: open.as_ref().map(|(number, folder)| (*number, folder)),
            data: &[],
            rights: &[],
        };
        self.perform(socket, &request, Ok)
    }

    /// Has a call carried out in the domain. What the guest is told is made of what it came to.
    pub(super) fn perform(
        &self,
        socket: &OwnedFd,
        request: &Request<'_>,
        told: impl Fn(i64) -> Result<i64, Errno> + Send + 'static,
    ) -> Outcome {
        let performer = &self.shared.performer;
        let result = performer.perform(self.shared, self.call, socket.as_fd(), request)?;
        Ok(Answer::Later(Wait {
            socket: result,
            until: PollFlags::IN,
            deadline: None,
            is_begun: true,
            is_brief: [perform::BIND, perform::MAKE_NODE].contains(&request.call),
            again: Box::new(move |_, result| Some(local::read_result(result).and_then(&told))),
        }))
    }
}

/// What the kernel says to a local address on an internet socket.
pub(super) fn refuse_internet(socket: &OwnedFd) -> Result<(), Errno> {
    let family = sockopt::socket_domain(socket)?;
    match family == AddressFamily::INET || family == AddressFamily::INET6 {
        true => Err(Errno::AFNOSUPPORT),
        false => Ok(()),
    }
}

/// What is said of a socket that has no address yet.
const UNBOUND: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// `EINVAL` is what the kernel says to an internet address on a socket of another family.
pub(super) fn transport(socket: &OwnedFd) -> Result<Transport, Errno> {
    match sockopt::socket_protocol(socket)? {
        Some(rustix::net::ipproto::TCP) => Ok(Transport::Tcp),
        Some(rustix::net::ipproto::UDP) => Ok(Transport::Udp),
        _ => Err(Errno::INVAL),
    }
}

/// Where an internet socket is bound; `None` while it is not.
pub(super) fn own_address(socket: &OwnedFd) -> Result<Option<SocketAddr>, Errno> {
    let address = SocketAddr::try_from(rustix::net::getsockname(socket)?).ok();
    Ok(address.filter(|address| address.port() != 0))
}

/// Where the listener at `to` will see a connection of this socket come from, in canonical form. One that has no
/// address yet gets one, as connect(2) would give it; `None` if the kernel has none.
pub(super) fn address_towards(
    socket: &OwnedFd,
    to: SocketAddr,
) -> Result<Option<SocketAddr>, Errno> {
    if own_address(socket)?.is_none() {
        // Another thread of the guest's may be faster; what the kernel refuses here it refuses to connect.
        let _ = rustix::net::bind(socket, &SocketAddr::new(to.ip(), 0));
    }
    Ok(
        own_address(socket)?.map(|own| match own.ip().is_unspecified() {
            true => canonical(SocketAddr::new(to.ip(), own.port())),
            false => canonical(own),
        }),
    )
}

fn wait_for_connection(socket: OwnedFd, to: SocketAddr) -> Outcome {
    Ok(Answer::Later(Wait {
        deadline: send_deadline(&socket, Errno::INPROGRESS)?,
        socket,
        until: PollFlags::OUT,
        // The socket goes on by itself, and tells whoever calls again.
        is_begun: false,
        is_brief: false,
        again: Box::new(move |_, socket| connect_again(socket, to)),
    }))
}

/// Calls connect(2) on a stream without waiting; tells also whether the guest would wait. The socket does
/// not block meanwhile: `FIONBIO` changes no other flag that the guest may set at this time. One that sets this very flag
/// confuses itself alone.
fn try_connect(socket: &OwnedFd, to: SocketAddr) -> Result<(Result<(), Errno>, bool), Errno> {
    if rustix::fs::fcntl_getfl(socket)?.contains(OFlags::NONBLOCK) {
        return Ok((rustix::net::connect(socket, &to), false));
    }
    rustix::io::ioctl_fionbio(socket, true)?;
    let mut begun = rustix::net::connect(socket, &to);
    // On loopback a connection that was begun is there by now, and the second call tells how it went
    // (`__inet_stream_connect`).
    if begun == Err(Errno::INPROGRESS) {
        begun = rustix::net::connect(socket, &to);
    }
    rustix::io::ioctl_fionbio(socket, false)?;
    Ok((begun, true))
}

fn connect_again(socket: &OwnedFd, to: SocketAddr) -> Option<Result<i64, Errno>> {
    match try_connect(socket, to) {
        // Or another thread was told already.
        Ok((Ok(()) | Err(Errno::ISCONN), _)) => Some(Ok(0)),
        Ok((Err(Errno::INPROGRESS | Errno::ALREADY), _)) => None,
        Ok((Err(errno), _)) | Err(errno) => Some(Err(errno)),
    }
}

/// `SO_SNDTIMEO`, which bounds connect(2) too, and what the call says then.
pub(super) fn send_deadline(
    socket: &OwnedFd,
    errno: Errno,
) -> Result<Option<(Instant, Errno)>, Errno> {
    let timeout = sockopt::socket_timeout(socket, sockopt::Timeout::Send)?;
    Ok(timeout.map(|timeout| (Instant::now() + timeout, errno)))
}
