//! Servers on the arena's network, in two kinds that differ only in what policies say of them:
//! *witnesses*, which no policy of an attack grants, and *doors*, which
//! [`crate::attack::Policy::doors`] grants. Witnesses keep what they receive, doors forget it.
//! Beside them a listener sees every packet on the loopback device, whoever it is for.

use std::collections::HashSet;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket,
};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_passcred};
use rustix::net::{
    AddressFamily, Protocol, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags,
    SocketType, bind, connect, getsockname, ipproto, listen, recv, recvmsg, socket_with,
};

/// `ETH_P_ALL` in network order, linux/if_ether.h.
const EVERY_PROTOCOL: u32 = 3_u16.to_be() as u32;

/// Ports that nobody listens at, out of the range that the kernel chooses from
/// (`net.ipv4.ip_local_port_range`). An arena's network has no other users.
pub(super) const FREE_PORTS: [(&str, u16); 3] =
    [("closed", 20_001), ("listen", 20_002), ("other", 20_003)];
/// How often a server is asked before it counts as silent, and how long an answer may take.
const QUESTIONS: usize = 24;
const ANSWER_TIME: Duration = Duration::from_millis(150);

/// What the witnesses got, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbox(Arc<Mutex<Vec<u8>>>);

/// The servers of one arena.
#[derive(Debug, Default)]
pub(super) struct Servers {
    inbox: Inbox,
    /// Where packets went.
    destinations: Arc<Mutex<HashSet<IpAddr>>>,
    /// The guest's names of the ports.
    ports: Vec<(&'static str, u16)>,
    /// Listeners that nobody takes connections from, and who waits there.
    queue: Vec<OwnedFd>,
}

impl Inbox {
    pub(super) fn bytes(&self) -> Vec<u8> {
        lock(&self.0).clone()
    }

    fn keep(&self, bytes: &[u8]) {
        lock(&self.0).extend_from_slice(bytes);
    }

    /// Keeps what every connection sends first.
    pub(super) fn serve<S: Read + Send + 'static>(
        &self,
        accept: impl Fn() -> io::Result<S> + Send + 'static,
    ) {
        let inbox = self.clone();
        thread::spawn(move || {
            while let Ok(mut stream) = accept() {
                let inbox = inbox.clone();
                thread::spawn(move || {
                    let mut bytes = [0; 256];
                    if let Ok(length) = stream.read(&mut bytes) {
                        inbox.keep(&bytes[..length]);
                    }
                });
            }
        });
    }

    /// Keeps each message with the uid of its sender, as the kernel tells it.
    pub(super) fn serve_named_datagrams(&self, receiver: UnixDatagram) -> io::Result<()> {
        set_socket_passcred(&receiver, true)?;
        let inbox = self.clone();
        thread::spawn(move || {
            let mut bytes = [0; 256];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
            loop {
                let mut about = RecvAncillaryBuffer::new(&mut space);
                let mut parts = [IoSliceMut::new(&mut bytes)];
                let Ok(got) = recvmsg(&receiver, &mut parts, &mut about, RecvFlags::empty()) else {
                    return;
                };
                let length = got.bytes;
                for entry in about.drain() {
                    if let RecvAncillaryMessage::ScmCredentials(who) = entry {
                        let from = format!(" from uid {};", who.uid.as_raw());
                        inbox.keep(&[&bytes[..length], from.as_bytes()].concat());
                    }
                }
            }
        });
        Ok(())
    }

    pub(super) fn serve_datagrams(
        &self,
        receive: impl Fn(&mut [u8]) -> io::Result<usize> + Send + 'static,
    ) {
        let inbox = self.clone();
        thread::spawn(move || {
            let mut bytes = [0; 256];
            while let Ok(length) = receive(&mut bytes) {
                inbox.keep(&bytes[..length]);
            }
        });
    }
}

impl Servers {
    pub(super) fn start(inbox: &Inbox) -> io::Result<Self> {
        let mut servers = Self {
            inbox: inbox.clone(),
            ..Self::default()
        };
        servers.watch_packets()?;
        servers.add_witnesses()?;
        servers.add_doors()?;
        servers.add_full()?;
        servers.add_deaf()?;
        servers.ports.extend(FREE_PORTS);
        Ok(servers)
    }

    pub(super) fn ports(&self) -> &[(&'static str, u16)] {
        &self.ports
    }

    /// Whether a packet for `address` was on the loopback device.
    pub(super) fn saw_packet_to(&self, address: IpAddr) -> bool {
        lock(&self.destinations).contains(&address)
    }

    fn add_witnesses(&mut self) -> io::Result<()> {
        for (name, host) in [("tcp4", "127.0.0.1"), ("tcp6", "::1")] {
            let listener = TcpListener::bind((host, 0))?;
            self.keep_connections(name, listener)?;
        }
        self.keep_connections("tcp-any", listener_on_every_address()?)?;
        for (name, host) in [("udp4", "127.0.0.1"), ("udp6", "::1"), ("udp-any", "::")] {
            self.keep_datagrams(name, UdpSocket::bind((host, 0))?)?;
        }
        // Port 53 takes privileges; without them the attack is refused, and says so.
        if let Ok(socket) = UdpSocket::bind(("127.0.0.53", 53)) {
            self.keep_datagrams("dns", socket)?;
        }
        match udplite_socket() {
            Ok(socket) => self.keep_datagrams("udplite4", socket),
            // Linux from 7.1 on has no UDP-Lite; the attack is refused then, and says so.
            Err(e) if e.raw_os_error() == Some(Errno::PROTONOSUPPORT.raw_os_error()) => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn keep_connections(&mut self, name: &'static str, listener: TcpListener) -> io::Result<()> {
        self.ports.push((name, listener.local_addr()?.port()));
        self.inbox
            .serve(move || listener.accept().map(|(stream, _)| stream));
        Ok(())
    }

    fn keep_datagrams(&mut self, name: &'static str, socket: UdpSocket) -> io::Result<()> {
        self.ports.push((name, socket.local_addr()?.port()));
        self.inbox.serve_datagrams(move |bytes| socket.recv(bytes));
        Ok(())
    }

    fn add_doors(&mut self) -> io::Result<()> {
        for (name, host) in [
            ("door-tcp4", "127.0.0.1"),
            ("door-tcp6", "::1"),
            ("hidden", "127.0.0.1"),
        ] {
            let listener = TcpListener::bind((host, 0))?;
            self.ports.push((name, listener.local_addr()?.port()));
            thread::spawn(move || forget_connections(&listener));
        }
        for (name, host) in [("door-udp4", "127.0.0.1"), ("door-udp6", "::1")] {
            let socket = UdpSocket::bind((host, 0))?;
            self.ports.push((name, socket.local_addr()?.port()));
            thread::spawn(move || while socket.recv(&mut [0; 256]).is_ok() {});
        }
        Ok(())
    }

    /// A listener that answers no more: its queue is full, and whoever connects waits.
    fn add_full(&mut self) -> io::Result<()> {
        let listener = inet_socket(SocketType::STREAM, SocketFlags::CLOEXEC)?;
        bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        listen(&listener, 0)?;
        let address = SocketAddr::try_from(getsockname(&listener)?)?;
        self.ports.push(("full", address.port()));
        self.queue.push(listener);
        for _ in 0..4 {
            let waiting = inet_socket(
                SocketType::STREAM,
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            )?;
            match connect(&waiting, &address) {
                Ok(()) | Err(Errno::INPROGRESS) => self.queue.push(waiting),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// A listener whose connections nobody takes and reads.
    fn add_deaf(&mut self) -> io::Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        self.ports.push(("deaf", listener.local_addr()?.port()));
        self.queue.push(listener.into());
        Ok(())
    }

    fn watch_packets(&self) -> io::Result<()> {
        let every = NonZeroU32::new(EVERY_PROTOCOL).map(Protocol::from_raw);
        // Without the link's header: a packet begins with its own.
        let socket = socket_with(
            AddressFamily::PACKET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            every,
        )?;
        let destinations = Arc::clone(&self.destinations);
        thread::spawn(move || {
            let mut packet = [0; 128];
            while let Ok((length, _)) = recv(&socket, &mut packet, RecvFlags::empty()) {
                lock(&destinations).extend(destination(&packet[..length]));
            }
        });
        Ok(())
    }
}

/// Where a packet goes that begins with its header of IP.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => {
            let bytes: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            Some(Ipv4Addr::from(bytes).into())
        }
        6 => {
            let bytes: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

/// Takes every connection and reads it to its end.
fn forget_connections(listener: &TcpListener) {
    while let Ok((stream, _)) = listener.accept() {
        thread::spawn(|| forget(stream));
    }
}

fn listener_on_every_address() -> io::Result<TcpListener> {
    let socket = socket_with(
        AddressFamily::INET6,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    set_ipv6_v6only(&socket, false)?;
    bind(&socket, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)))?;
    listen(&socket, 64)?;
    Ok(TcpListener::from(socket))
}

fn inet_socket(kind: SocketType, flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::INET, kind, flags, None)?)
}

fn udplite_socket() -> io::Result<UdpSocket> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(ipproto::UDPLITE),
    )?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    Ok(UdpSocket::from(socket))
}

/// Connects as soon as somebody listens there, and again when that ends.
pub(super) fn call_often(address: SocketAddr) {
    thread::spawn(move || {
        loop {
            let called = TcpStream::connect(address).and_then(forget);
            // Nothing tells when a port is opened.
            if called.is_err() {
                thread::sleep(Duration::from_millis(5));
            }
        }
    });
}

/// Reads it to its end.
fn forget(mut stream: TcpStream) -> io::Result<u64> {
    io::copy(&mut stream, &mut io::sink())
}

/// Whether a server of the guest at `address` says `nonce`. It asks several times: where two
/// servers share a port, the kernel chooses between them by the port that the question comes from.
pub(super) fn tcp_says(address: SocketAddr, nonce: &str) -> bool {
    (0..QUESTIONS).any(|_| {
        let Ok(mut stream) = TcpStream::connect_timeout(&address, ANSWER_TIME) else {
            return false;
        };
        let mut bytes = [0; 256];
        let answered = stream
            .set_read_timeout(Some(ANSWER_TIME))
            .and_then(|()| stream.read(&mut bytes));
        answered.is_ok_and(|length| String::from_utf8_lossy(&bytes[..length]).contains(nonce))
    })
}

/// The same of a server of datagrams. It may answer from another address than it was asked at.
pub(super) fn udp_says(address: SocketAddr, nonce: &str) -> bool {
    let asked: Vec<_> = (0..QUESTIONS).filter_map(|_| ask(address).ok()).collect();
    let says_it = |socket: &UdpSocket| {
        let mut bytes = [0; 256];
        let answered = socket.recv(&mut bytes);
        answered.is_ok_and(|length| String::from_utf8_lossy(&bytes[..length]).contains(nonce))
    };
    let until = Instant::now() + ANSWER_TIME;
    loop {
        if asked.iter().any(says_it) {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn ask(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    }?;
    socket.set_nonblocking(true)?;
    socket.send_to(b"?", address)?;
    Ok(socket)
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::destination;

    #[test]
    fn a_packet_says_where_it_goes() {
        let mut packet = [0; 40];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&[192, 0, 2, 9]);
        assert_eq!(destination(&packet), "192.0.2.9".parse().ok());
        packet[0] = 0x60;
        packet[24..40].copy_from_slice(&[0; 16]);
        packet[39] = 1;
        assert_eq!(destination(&packet), "::1".parse().ok());
        assert_eq!(destination(&packet[..30]), None);
        assert_eq!(destination(&[]), None);
    }
}
