//! The proxy for wildcards: `--connect tcp://*.example.com:443`.
//!
//! The names below a wildcard are not known beforehand, so that no address can be pinned. A program
//! asks the proxy for a tunnel instead, by name, and the proxy looks the name up:
//!
//! ```text
//!  guest ──connect, by the broker──▶ proxy: is this connection announced?
//!        ──CONNECT name:443────────▶        is the name granted, at this port?
//!                                           which of its addresses are public?  ──connect──▶ server
//!        ◀──200────────────────────
//!        ──ClientHello─────────────▶        does it name the same host?         ──bytes────▶
//!        ◀─────────────────────────────────────────────────────────────────────────bytes──
//! ```
//!
//! It is only a door: the wall is the broker, which lets the guest connect nowhere else. What runs
//! within TLS is encrypted, and not looked at.

mod admission;
pub mod apart;
mod environment;
pub mod hello;
pub mod request;
mod serve;
mod tunnel;

use std::{
    fmt,
    io::{self, PipeReader, PipeWriter},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{Gate, Observations, Process, Resolve, wait::until_ready};
use admission::Admission;
use hello::HelloFault;
use request::RequestFault;
use rustix::event::{PollFd, PollFlags};
use tunnel::Idle;

/// Why the proxy refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyRefusal {
    /// The request is none that it takes.
    Request(RequestFault),
    /// What the tunnel starts with is not TLS to the host that was asked for.
    Hello(HelloFault),
}

impl fmt::Display for ProxyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(fault) => write!(f, "the proxy refuses the request: {fault}"),
            Self::Hello(fault) => write!(f, "the proxy refuses the tunnel: {fault}"),
        }
    }
}

/// How long each step may take, and how many connections there may be.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// From the accept to the broker's announcement.
    announcement: Duration,
    /// For the whole request, however slowly it comes.
    request: Duration,
    /// For all addresses of a host.
    connect: Duration,
    /// For the whole ClientHello.
    hello: Duration,
    /// Silence in a tunnel.
    idle: Idle,
    /// Connections that wait for their announcement.
    waiting: usize,
    /// Connections that are served.
    served: usize,
}

const LIMITS: Limits = Limits {
    announcement: Duration::from_secs(1),
    request: Duration::from_secs(10),
    connect: Duration::from_secs(15),
    hello: Duration::from_secs(10),
    idle: Idle {
        open: Duration::from_secs(15 * 60),
        half_closed: Duration::from_secs(2 * 60),
    },
    waiting: 64,
    served: 128,
};

/// A proxy that listens, and that the guest may connect to, but does not serve yet.
#[derive(Debug)]
pub struct Listening(TcpListener);

impl Listening {
    /// For the gate's wildcards; `None` where none is granted.
    ///
    /// # Errors
    /// When it can't listen at the host's loopback.
    pub fn begin(gate: &Gate) -> io::Result<Option<Self>> {
        if !gate.network().needs_proxy() {
            return Ok(None);
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        // A connection that is gone before it is accepted must not make the accept wait.
        listener.set_nonblocking(true)?;
        gate.open_proxy(listener.local_addr()?);
        Ok(Some(Self(listener)))
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The variables by which the guest's programs find the gate's proxy, as (name, value): `HTTPS_PROXY`,
/// `NO_PROXY` and the like; none where there is no proxy. What goes through it is HTTPS only.
pub fn environment(gate: &Gate) -> Vec<(String, String)> {
    let of_proxy = |proxy| environment::environment(proxy, &gate.network());
    gate.proxy().map_or(Vec::new(), of_proxy)
}

/// The proxy of one domain, as threads. Dropping it closes every connection that it has.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    /// Each thread watches the other end: nothing is written, and closing it ends them.
    lifeline: Option<PipeWriter>,
    accepting: Option<JoinHandle<()>>,
    /// Hangs up when no thread is left.
    over: Mutex<Option<Receiver<()>>>,
}

/// What the proxy's threads have in common.
struct Shared {
    gate: Arc<Gate>,
    resolver: Arc<dyn Resolve>,
    observations: Arc<Observations>,
    admission: Admission,
    lifeline: PipeReader,
    limits: Limits,
    waiting: AtomicUsize,
    served: AtomicUsize,
    _alive: Sender<()>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Proxy {
    /// Begins to serve. What it refuses goes to `observations`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn serve(
        listening: &Listening,
        gate: Arc<Gate>,
        resolver: Arc<dyn Resolve>,
        observations: Arc<Observations>,
    ) -> io::Result<Self> {
        Self::serve_with(LIMITS, listening, gate, resolver, observations)
    }

    fn serve_with(
        limits: Limits,
        listening: &Listening,
        gate: Arc<Gate>,
        resolver: Arc<dyn Resolve>,
        observations: Arc<Observations>,
    ) -> io::Result<Self> {
        let listener = listening.0.try_clone()?;
        let (theirs, ours) = io::pipe()?;
        let (alive, over) = mpsc::channel();
        let shared = Arc::new(Shared {
            gate,
            resolver,
            observations,
            admission: Admission::default(),
            lifeline: theirs,
            limits,
            waiting: AtomicUsize::new(0),
            served: AtomicUsize::new(0),
            _alive: alive,
        });
        let accepts = Arc::clone(&shared);
        let builder = thread::Builder::new().name("proxy".into());
        Ok(Self {
            shared,
            lifeline: Some(ours),
            accepting: Some(builder.spawn(move || accepts.accept_all(&listener))?),
            over: Mutex::new(Some(over)),
        })
    }

    /// Closes every connection, and waits until nothing more can be refused on them, no longer than so.
    fn end(mut self, patience: Duration) {
        let over = self.over.get_mut().ok().and_then(Option::take);
        drop(self);
        let _ = over.map(|over| over.recv_timeout(patience));
    }

    /// Announces a connection that was made for a guest: `peer` is that socket's own address. One
    /// that is not announced within a second is closed.
    pub fn admit(&self, peer: SocketAddr, process: Process) {
        self.shared.admission.announce(peer, process);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        if let Some(accepting) = self.accepting.take() {
            // It only waits for the lifeline now.
            let _ = accepting.join();
        }
    }
}

impl Shared {
    /// Accepts until the lifeline is cut. Each connection has a thread.
    fn accept_all(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let mut sources = [
                PollFd::new(&self.lifeline, PollFlags::IN),
                PollFd::new(listener, PollFlags::IN),
            ];
            // Far away: there is nothing to do at that time.
            let deadline = Instant::now() + Duration::from_secs(24 * 60 * 60);
            let _ = until_ready(&mut sources, deadline);
            if !sources[0].revents().is_empty() {
                return;
            }
            if let Ok((stream, peer)) = listener.accept() {
                self.start_thread(stream, peer);
            }
        }
    }

    fn start_thread(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let Some(waiting) = Slot::take(self, |shared| &shared.waiting, self.limits.waiting) else {
            return;
        };
        let shared = Arc::clone(self);
        let run = move || {
            let deadline = Instant::now() + shared.limits.announcement;
            let Some(process) = shared.admission.wait_for(peer, deadline) else {
                return;
            };
            drop(waiting);
            // Nobody is told how that ended: a broken connection is the client's to notice.
            let _ = shared.serve(&stream, &process);
        };
        // Without a thread the connection is closed here.
        let _ = thread::Builder::new().name("proxy".into()).spawn(run);
    }
}

/// One of a limited number of connections.
struct Slot {
    shared: Arc<Shared>,
    counter: fn(&Shared) -> &AtomicUsize,
}

impl Slot {
    fn take(
        shared: &Arc<Shared>,
        counter: fn(&Shared) -> &AtomicUsize,
        limit: usize,
    ) -> Option<Self> {
        let before = counter(shared).fetch_add(1, Ordering::Relaxed);
        let slot = Self {
            shared: Arc::clone(shared),
            counter,
        };
        (before < limit).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        (self.counter)(&self.shared).fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
