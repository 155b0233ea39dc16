//! Connections to other servers: TCP, TLS over TCP, Unix sockets.

use super::{Settings, UpstreamError, names::Names};
use crate::{config::Server, io::poll_read};
use hyper::rt::{Read, ReadBufCursor, Write};
use palisade_policy::Transport;
use rustix::{io::Errno, net::RecvFlags};
use std::{
    cell::RefCell,
    io::{self, IoSlice},
    net::SocketAddr,
    path::Path,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
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

/// One that hyper drives, and that can be looked at in between.
#[derive(Clone, Debug)]
pub(super) struct SharedWire(Rc<RefCell<Wire>>);

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
            Server::Unix(path) => {
                let stream = connect_local(path).await;
                let refused = |source| UpstreamError::Connect {
                    server: Arc::clone(name),
                    source,
                };
                Ok(Self::Unix(stream.map_err(refused)?))
            }
        }
    }
}

async fn connect_to_any(
    name: &Arc<str>,
    names: &Names,
    settings: &Settings,
    (host, port): (&str, u16),
) -> Result<TcpStream, UpstreamError> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in names.addresses(name, host).await?.iter() {
        let address = SocketAddr::new(*address, port);
        // A name may stand for several addresses, not all of them granted at this port.
        let granted = match &settings.gate {
            Some(gate) => gate.connect(Transport::Tcp, address).ok(),
            None => Some(address),
        };
        let Some(address) = granted else { continue };
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

/// A Unix socket whose queue is full answers at once that it is (`EAGAIN`): whoever asks must wait by the
/// clock. The caller bounds how long.
async fn connect_local(path: &Path) -> io::Result<UnixStream> {
    const LONGEST_WAIT: Duration = Duration::from_millis(20);
    let mut wait = Duration::from_millis(1);
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(wait).await;
                wait = LONGEST_WAIT.min(wait * 2);
            }
            connected => return connected,
        }
    }
}

/// What a wire is, whatever it is made of.
trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

impl SharedWire {
    pub(super) fn new(wire: Wire) -> Self {
        Self(Rc::new(RefCell::new(wire)))
    }

    /// Whether the other end has closed it, or said something that nobody asked for. One that hyper has
    /// not been told about yet counts.
    pub(super) fn is_stale(&self) -> bool {
        let mut byte = [0; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let wire = self.0.borrow();
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
        match &mut *self.0.borrow_mut() {
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
        self.with(|stream| poll_read(stream, context, &mut buffer).map_ok(|_| ()))
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
