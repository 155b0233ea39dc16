//! From a listening socket to connections.

use super::{Notice, connection, connections::Connections, io::Stream, tls::Secured, watch::Sweep};
use crate::{config::Address, serve::Serve};
use rustix::io::Errno;
use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io,
    net::SocketAddr,
    os::fd::OwnedFd,
    rc::Rc,
    sync::atomic::Ordering,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::Notify,
    task::JoinHandle,
};

/// How long clients whose connection was half made when an address went away have to make it.
const HALF_MADE: Duration = Duration::from_millis(100);

/// What a worker needs to listen at an address.
pub(crate) struct Bound {
    /// With the port that it really is.
    pub(crate) address: Address,
    pub(crate) socket: OwnedFd,
    pub(crate) tls: Option<Secured>,
}

/// An address that a worker accepts connections at.
pub(crate) struct Accepting {
    shared: Rc<AcceptingShared>,
    task: JoinHandle<()>,
}

struct AcceptingShared {
    address: Address,
    tls: RefCell<Option<Secured>>,
    draining: Cell<bool>,
    drain: Notify,
}

impl Accepting {
    /// Begins to accept. Must be called on a worker's thread, inside its tasks.
    pub(crate) fn begin<S: Serve>(
        bound: Bound,
        connections: Rc<Connections<S>>,
    ) -> io::Result<Self> {
        let listener = Listener::new(bound.socket, &bound.address)?;
        let shared = Rc::new(AcceptingShared {
            address: bound.address,
            tls: RefCell::new(bound.tls),
            draining: Cell::new(false),
            drain: Notify::new(),
        });
        let task = tokio::task::spawn_local(accept(listener, Rc::clone(&shared), connections));
        Ok(Self { shared, task })
    }

    /// What new connections speak.
    pub(crate) fn set_tls(&self, tls: Option<Secured>) {
        *self.shared.tls.borrow_mut() = tls;
    }

    /// Begins to end: what is queued is accepted, then the socket is closed. The socket lets nobody in any
    /// more.
    pub(crate) fn drain(self) -> JoinHandle<()> {
        self.shared.draining.set(true);
        self.shared.drain.notify_one();
        self.task
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn new(socket: OwnedFd, address: &Address) -> io::Result<Self> {
        match address {
            Address::Internet(_) => {
                TcpListener::from_std(std::net::TcpListener::from(socket)).map(Self::Tcp)
            }
            Address::Unix(_) => {
                UnixListener::from_std(std::os::unix::net::UnixListener::from(socket))
                    .map(Self::Unix)
            }
        }
    }

    fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(Stream, Option<SocketAddr>)>> {
        match self {
            Self::Tcp(listener) => listener
                .poll_accept(context)
                .map_ok(|(stream, address)| (Stream::Tcp(stream), Some(address))),
            Self::Unix(listener) => listener
                .poll_accept(context)
                .map_ok(|(stream, _)| (Stream::Unix(stream), None)),
        }
    }

    /// Past tokio, which does not know of clients that the kernel queued since it last asked.
    fn accept_now(&self) -> io::Result<(Stream, Option<SocketAddr>)> {
        use rustix::net::{SocketFlags, accept_with, acceptfrom_with};
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match self {
            Self::Tcp(listener) => {
                let (socket, address) = acceptfrom_with(listener, flags)?;
                let stream = tokio::net::TcpStream::from_std(socket.into())?;
                let address = address.and_then(|address| SocketAddr::try_from(address).ok());
                Ok((Stream::Tcp(stream), address))
            }
            Self::Unix(listener) => {
                let socket = accept_with(listener, flags)?;
                Ok((
                    Stream::Unix(tokio::net::UnixStream::from_std(socket.into())?),
                    None,
                ))
            }
        }
    }
}

/// Accepts until the address goes away, then what is queued.
async fn accept<S: Serve>(
    listener: Listener,
    shared: Rc<AcceptingShared>,
    connections: Rc<Connections<S>>,
) {
    while !shared.draining.get() {
        tokio::select! {
            () = shared.drain.notified() => {}
            () = accept_one(&listener, &shared, &connections) => {}
        }
    }
    accept_queued(&listener, &shared, &connections);
    if matches!(shared.address, Address::Internet(_)) {
        tokio::time::sleep(HALF_MADE).await;
        accept_queued(&listener, &shared, &connections);
    }
}

async fn accept_one<S: Serve>(
    listener: &Listener,
    shared: &AcceptingShared,
    connections: &Rc<Connections<S>>,
) {
    let sweep = connections.sweep();
    wait_for_limit(sweep).await;
    match poll_fn(|context| listener.poll_accept(context)).await {
        Ok((stream, client)) => {
            sweep.shared.starved.store(false, Ordering::Relaxed);
            admit(stream, client, shared, connections);
        }
        Err(error) => recover(&error, shared, sweep).await,
    }
}

fn accept_queued<S: Serve>(
    listener: &Listener,
    shared: &AcceptingShared,
    connections: &Rc<Connections<S>>,
) {
    loop {
        match listener.accept_now() {
            Ok((stream, client)) => admit(stream, client, shared, connections),
            Err(error) if is_clients(&error) => {}
            Err(_) => return,
        }
    }
}

fn admit<S: Serve>(
    stream: Stream,
    client: Option<SocketAddr>,
    shared: &AcceptingShared,
    connections: &Rc<Connections<S>>,
) {
    connections
        .sweep()
        .shared
        .connections
        .fetch_add(1, Ordering::Relaxed);
    let tls = shared.tls.borrow().clone();
    connection::begin(stream, client, &shared.address, tls, connections);
}

/// Clients wait in the kernel's queue while every connection is taken. (Each worker may take one more at each
/// address: the one that it was already waiting for.)
async fn wait_for_limit(sweep: &Sweep) {
    let is_full = || {
        let most = sweep.bounds().connections;
        (sweep.shared.connections.load(Ordering::Relaxed) >= most).then_some(most)
    };
    let Some(most) = is_full() else { return };
    sweep.tell(match sweep.bounds().has_few_descriptors {
        true => Notice::DescriptorsExhausted,
        false => Notice::ConnectionsFull(most),
    });
    while is_full().is_some() {
        sweep.room().await;
    }
}

/// Waits as long as it takes until accepting makes sense again.
async fn recover(error: &io::Error, shared: &AcceptingShared, sweep: &Sweep) {
    if is_clients(error) {
        return;
    }
    if is_starvation(error) {
        sweep.shared.starved.store(true, Ordering::Relaxed);
        sweep.tell(Notice::DescriptorsExhausted);
    } else {
        let source = io::Error::from(error.kind());
        sweep.tell(Notice::accept(&shared.address, source));
    }
    sweep.room().await;
}

/// The client's own doing, before it was accepted: accept(2), "Error handling".
fn is_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
    )
}

fn is_starvation(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
    )
}
