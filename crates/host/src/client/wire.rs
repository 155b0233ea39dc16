//! Connections to other servers: TCP, TLS over TCP, Unix sockets.

use super::{Inside, Settings, UpstreamError, names::Names};
use crate::{
    beneath,
    config::Server,
    io::poll_read,
    withheld::{File, answers_everybody},
};
use hyper::rt::{Read, ReadBufCursor, Write};
use palisade_network::is_withheld;
use palisade_policy::Transport;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    net::RecvFlags,
};
use std::{
    cell::{Cell, RefCell},
    io::{self, IoSlice},
    net::SocketAddr,
    os::fd::AsRawFd,
    path::Path,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::client::TlsStream;

/// An open connection.
#[derive(Debug)]
pub(super) enum Wire {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Unix(UnixStream),
}

/// Bytes of a server that are read before others have their turn.
const MOST_READ: usize = 128 << 10;

/// Bytes of a response's head, and of all interim ones before it (RFC 9110, section 15.2: any number may come).
pub(super) const MOST_HEAD: usize = 128 << 10;

/// One that hyper drives, and that can be looked at in between.
#[derive(Clone, Debug)]
pub(super) struct SharedWire(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    wire: RefCell<Wire>,
    /// Bytes that may still come of a head; `None`: it is there.
    head: Cell<Option<usize>>,
    /// Bytes that may still be read in this turn.
    turn: Cell<usize>,
}

impl Wire {
    /// Connects.
    pub(super) async fn connect(
        server: &Server,
        name: &Arc<str>,
        names: &Names,
        settings: &Settings,
    ) -> Result<Self, UpstreamError> {
        match server {
            Server::Internet { host, port, tls } => {
                let stream = connect_to_any(name, names, settings, (host, *port)).await?;
                // Without it the last part of a request waits for an acknowledgement (Nagle).
                let _ = stream.set_nodelay(true);
                if !tls {
                    return Ok(Self::Tcp(stream));
                }
                let stream = settings.roots.secure(stream, host).await;
                let refused = |source| UpstreamError::Tls {
                    server: Arc::clone(name),
                    source,
                };
                Ok(Self::Tls(Box::new(stream.map_err(refused)?)))
            }
            Server::Unix(path) | Server::UnixWithoutLinks(path) => {
                let may_be_link = matches!(server, Server::Unix(_));
                let stream = connect_local(path, may_be_link).await;
                let refused = |source| UpstreamError::Connect {
                    server: Arc::clone(name),
                    source,
                };
                Ok(Self::Unix(stream.map_err(refused)?))
            }
        }
    }

    /// Connects to a port of a program's own.
    pub(super) async fn connect_inside(
        inside: &Inside,
        name: &Arc<str>,
    ) -> Result<Self, UpstreamError> {
        let stream = inside.connect().await;
        let stream = stream.map_err(|source| UpstreamError::Connect {
            server: Arc::clone(name),
            source,
        })?;
        let _ = stream.set_nodelay(true);
        Ok(Self::Tcp(stream))
    }
}

async fn connect_to_any(
    name: &Arc<str>,
    names: &Names,
    settings: &Settings,
    (host, port): (&str, u16),
) -> Result<TcpStream, UpstreamError> {
    // Unless one of them is tried.
    let mut failure = io::Error::from(io::ErrorKind::PermissionDenied);
    for address in names.addresses(name, host).await?.iter() {
        let address = SocketAddr::new(*address, port);
        // A name may stand for several addresses, not all of them granted at this port.
        let granted = match &settings.gate {
            Some(gate) => gate.connect(Transport::Tcp, address).ok(),
            None => Some(address),
        };
        let Some(address) = granted else { continue };
        if is_withheld(address) {
            failure = operators_alone();
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(UpstreamError::Connect {
        server: Arc::clone(name),
        source: failure,
    })
}

/// What a name or a link leads to that no grant may.
fn operators_alone() -> io::Error {
    let why = "it is where this server's operators ask";
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// A Unix socket whose queue is full answers at once that it is (`EAGAIN`): whoever asks must wait by the
/// clock. The caller bounds how long.
async fn connect_local(path: &Path, may_be_link: bool) -> io::Result<UnixStream> {
    const LONGEST_WAIT: Duration = Duration::from_millis(20);
    let mut wait = Duration::from_millis(1);
    loop {
        match connect_to_file(path, may_be_link).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(wait).await;
                wait = LONGEST_WAIT.min(wait * 2);
            }
            connected => return connected,
        }
    }
}

/// connect(2) follows links, knows no flag against it, and does not say where it came to: the socket is opened, without
/// any link where there may be none, looked at, and connected to by its descriptor.
async fn connect_to_file(path: &Path, may_be_link: bool) -> io::Result<UnixStream> {
    let socket = match may_be_link {
        true => rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()),
        false => beneath::open_without_links(path, OFlags::PATH),
    }?;
    if File::opened(&socket).is_none_or(answers_everybody) {
        return Err(operators_alone());
    }
    UnixStream::connect(format!("/proc/self/fd/{}", socket.as_raw_fd())).await
}

/// What a wire is, whatever it is made of.
trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

impl SharedWire {
    pub(super) fn new(wire: Wire) -> Self {
        Self(Rc::new(Shared {
            wire: RefCell::new(wire),
            head: Cell::new(None),
            turn: Cell::new(MOST_READ),
        }))
    }

    /// A request goes out: a head is to come.
    pub(super) fn expect_head(&self) {
        self.0.head.set(Some(MOST_HEAD));
    }

    /// It is there.
    pub(super) fn has_head(&self) {
        self.0.head.set(None);
    }

    /// Whether more came than a head may have.
    pub(super) fn is_overrun(&self) -> bool {
        self.0.head.get() == Some(0)
    }

    /// The connection has its turn.
    pub(super) fn begin_turn(&self) {
        self.0.turn.set(MOST_READ);
    }

    fn read(&self, count: usize) {
        let Shared { head, turn, .. } = &*self.0;
        turn.set(turn.get().saturating_sub(count));
        head.set(head.get().map(|left| left.saturating_sub(count)));
    }

    /// Whether the other end has closed it, or said something that nobody asked for. One that hyper has
    /// not been told about yet counts.
    pub(super) fn is_stale(&self) -> bool {
        let mut byte = [0; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let wire = self.0.wire.borrow();
        let peeked = match &*wire {
            Wire::Tcp(stream) => rustix::net::recv(stream, &mut byte[..], flags),
            Wire::Tls(stream) => rustix::net::recv(stream.get_ref().0, &mut byte[..], flags),
            Wire::Unix(stream) => rustix::net::recv(stream, &mut byte[..], flags),
        };
        match peeked {
            // Tickets for the next session, or an alert: hyper finds out.
            Ok((_, length)) => length == 0 || !matches!(*wire, Wire::Tls(_)),
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(_) => true,
        }
    }

    fn with<T>(&self, act: impl FnOnce(Pin<&mut dyn Stream>) -> T) -> T {
        match &mut *self.0.wire.borrow_mut() {
            Wire::Tcp(stream) => act(Pin::new(stream)),
            Wire::Tls(stream) => act(Pin::new(stream)),
            Wire::Unix(stream) => act(Pin::new(stream)),
        }
    }
}

impl Read for SharedWire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_overrun() {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        if self.0.turn.get() == 0 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let count = ready!(self.with(|stream| poll_read(stream, context, &mut buffer)))?;
        self.read(count);
        Poll::Ready(Ok(()))
    }
}

impl Write for SharedWire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(context))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write_vectored(context, parts))
    }
}
