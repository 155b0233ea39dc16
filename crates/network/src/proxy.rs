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
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    Gate, HelloFault, Observations, Process, ProxyRefusal, RequestFault, Resolve,
    datagrams::receive_now, wait::until_ready,
};
use admission::Admission;
use apart::News;
use rustix::event::{PollFd, PollFlags};
use tunnel::Idle;

/// How long each step may take, and how many connections there may be.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// For the whole request, however slowly it comes.
    request: Duration,
    /// For all addresses of a host.
    connect: Duration,
    /// For the whole ClientHello.
    hello: Duration,
    /// Silence in a tunnel.
    idle: Idle,
    /// Connections that are served.
    served: usize,
}

const LIMITS: Limits = Limits {
    request: Duration::from_secs(10),
    connect: Duration::from_secs(15),
    hello: Duration::from_secs(10),
    idle: Idle {
        open: Duration::from_secs(15 * 60),
        half_closed: Duration::from_secs(2 * 60),
    },
    served: 128,
};

/// More than any kernel's `net.core.somaxconn`, which bounds it.
const MOST_QUEUED: i32 = 1 << 16;

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
        // Others of this host can fill the queue as well: it is as long as the kernel lets it be.
        rustix::net::listen(&listener, MOST_QUEUED)?;
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
        Self::serve_with(LIMITS, listening, gate, resolver, observations, None)
    }

    /// What comes by `news` is heard by the thread that accepts, for an announcement may still be there.
    fn serve_with(
        limits: Limits,
        listening: &Listening,
        gate: Arc<Gate>,
        resolver: Arc<dyn Resolve>,
        observations: Arc<Observations>,
        news: Option<OwnedFd>,
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
            served: AtomicUsize::new(0),
            _alive: alive,
        });
        let accepts = Arc::clone(&shared);
        let builder = thread::Builder::new().name("proxy".into());
        Ok(Self {
            shared,
            lifeline: Some(ours),
            accepting: Some(builder.spawn(move || accepts.accept_all(&listener, news.as_ref()))?),
            over: Mutex::new(Some(over)),
        })
    }

    /// Closes every connection, and waits until nothing more can be refused on them, no longer than so.
    fn end(mut self, patience: Duration) {
        let over = self.over.get_mut().ok().and_then(Option::take);
        drop(self);
        let _ = over.map(|over| over.recv_timeout(patience));
    }

    /// Waits until there is no more news.
    fn wait(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }

    /// Announces a connection that will be made for a guest: `peer` is that socket's own address. One
    /// that was not announced when it was begun is closed.
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
    /// Accepts until the lifeline is cut, or there is no more news. Each connection of the guest's has a thread.
    fn accept_all(self: &Arc<Self>, listener: &TcpListener, news: Option<&OwnedFd>) {
        loop {
            let mut sources = vec![
                PollFd::new(&self.lifeline, PollFlags::IN),
                PollFd::new(listener, PollFlags::IN),
            ];
            sources.extend(news.map(|news| PollFd::new(news, PollFlags::IN)));
            // Far away: there is nothing to do at that time.
            let deadline = Instant::now() + Duration::from_secs(24 * 60 * 60);
            let _ = until_ready(&mut sources, deadline);
            if !sources[0].revents().is_empty() {
                return;
            }
            // Accepted before the news is heard: what is said of it was said before it was begun.
            let accepted = listener.accept();
            if news.is_some_and(|news| self.hear_all(news) == Heard::TheEnd) {
                return;
            }
            if let Ok((stream, peer)) = accepted
                && let Some(process) = self.admission.take(peer)
            {
                self.start_thread(stream, process);
            }
        }
    }

    /// All that has come, without waiting.
    fn hear_all(&self, news: &OwnedFd) -> Heard {
        loop {
            match receive_now(news.as_fd()) {
                Ok(Some(bytes)) => self.hear(&bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Heard::All,
                Ok(None) | Err(_) => return Heard::TheEnd,
            }
        }
    }

    fn hear(&self, bytes: &[u8]) {
        match News::decode(bytes) {
            Some(News::Connection(from, process)) => self.admission.announce(from, process),
            Some(News::Addresses(name, addresses)) => drop(self.gate.pin(&name, &addresses)),
            None => {}
        }
    }

    fn start_thread(self: &Arc<Self>, stream: TcpStream, process: Process) {
        let shared = Arc::clone(self);
        let run = move || {
            // Nobody is told how that ended: a broken connection is the client's to notice.
            let _ = shared.serve(&stream, &process);
        };
        // Without a thread the connection is closed here.
        let _ = thread::Builder::new().name("proxy".into()).spawn(run);
    }
}

/// What has become of a supervisor.
#[derive(PartialEq, Eq)]
enum Heard {
    All,
    TheEnd,
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
