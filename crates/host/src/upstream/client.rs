//! Sending requests, over connections that are kept.
//!
//! ```text
//!                    ┌────────── idle, newest on top ◀────────┐ the answer's body has been read
//!  send ──take──▶ link ──request──▶ driver ──bytes──▶ server  │
//!            └ none: connect, spawn the driver ───────────────┘
//! ```
//!
//! A connection has one task, its driver, for all its life. The driver puts the connection back when hyper
//! says that it could take another request, so that an answer needs no wrapper for that.
//!
//! Servers that guests name are forgotten again: a guest may name as many as it likes.

use super::{
    Times, UpstreamError,
    fields::{self, ForwardedCache},
    names::Names,
    patience::{self, PatientBody, Waited},
    replay::{Replay, Spares},
    tally::Tally,
    tls::Roots,
    wire::{MOST_HEAD, SharedWire, Wire},
};
use crate::{body::Body, config::Server, upstream::Inside};
use http::{Request, Response, StatusCode};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, Connection, SendRequest},
};
use palisade_network::{Gate, Resolve, SystemResolver};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::Future,
    path::PathBuf,
    pin::Pin,
    rc::{Rc, Weak},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// Servers that are remembered for the sake of connections that may be used again. Those of services, and
/// those that a request is under way to, come on top.
const MOST_POOLS: usize = 128;

/// What a worker's connections to other servers have in common.
#[derive(Clone)]
pub struct Settings {
    /// Connections without a request that are kept for a server that nobody said more about.
    pub idle_connections: usize,
    /// They are kept no longer than this, and at least half as long.
    pub idle_time: Duration,
    /// Who knows the addresses of names.
    pub resolver: Arc<dyn Resolve>,
    /// Whom certificates must come from.
    pub roots: Roots,
    /// Whose verdict each connection needs. `None`: the operator has named all servers.
    pub gate: Option<Arc<Gate>>,
}

impl Default for Settings {
    /// 8 connections, for 60 s; the system's resolver and the system's roots; no gate.
    fn default() -> Self {
        Self {
            idle_connections: 8,
            idle_time: Duration::from_secs(60),
            resolver: Arc::new(SystemResolver::default()),
            roots: Roots::default(),
            gate: None,
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("idle_connections", &self.idle_connections)
            .field("idle_time", &self.idle_time)
            .finish_non_exhaustive()
    }
}

/// Sends requests to other servers. One for each worker, in whose `LocalSet` it must be used; clones are
/// the same client.
#[derive(Clone, Debug)]
pub struct Client(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    names: Names,
    pools: RefCell<HashMap<Server, Rc<Pool>>>,
    /// Counts the times that a pool was asked for.
    asked: Cell<u64>,
    spares: Spares,
    forwarded: ForwardedCache,
}

impl Client {
    /// A client without connections.
    pub fn new(settings: Settings) -> Self {
        Self(Rc::new(Inner {
            names: Names::new(Arc::clone(&settings.resolver)),
            pools: RefCell::default(),
            asked: Cell::new(0),
            spares: Spares::default(),
            forwarded: ForwardedCache::default(),
            settings,
        }))
    }

    /// Sends a request as its sender made it: to what its target says it is, with the `Host` that it has,
    /// else the one of its target, else the server's name. Fields of one connection only are taken out, and
    /// the body's framing is made anew. Nothing tells for whom it is sent.
    ///
    /// It is sent once more where the connection turned out to be closed and nothing was lost by that: the
    /// request had not been sent, or is idempotent and has no body that has been read.
    ///
    /// # Errors
    ///
    /// When there was no answer.
    pub async fn send(
        &self,
        server: &Server,
        request: Request<Body>,
        times: &Times,
    ) -> Result<Response<Body>, UpstreamError> {
        let (mut parts, body) = request.into_parts();
        fields::prepare(&mut parts, &body, server)?;
        let pool = self.pool(server, self.0.settings.idle_connections);
        let mut attempt = Attempt::new(Request::from_parts(parts, body), &self.0.spares);
        loop {
            match pool.send(self, &mut attempt, times).await {
                Err(_) if attempt.may_go_on() => {}
                done => return done,
            }
        }
    }

    /// The connections to one server; `idle` of them may be kept, or as many as somebody else wants.
    pub(crate) fn pool(&self, server: &Server, idle: usize) -> Rc<Pool> {
        let asked = self.0.asked.get() + 1;
        self.0.asked.set(asked);
        let mut pools = self.0.pools.borrow_mut();
        if !pools.contains_key(server) {
            make_room(&mut pools);
            let keeps = (idle, self.0.settings.idle_time);
            let pool = Pool::new(server.clone(), super::name_of(server), keeps, None);
            pools.insert(server.clone(), pool);
        }
        let pool = &pools[server];
        pool.asked.set(asked);
        pool.most_idle.set(pool.most_idle.get().max(idle));
        Rc::clone(pool)
    }

    pub(crate) fn spares(&self) -> &Spares {
        &self.0.spares
    }

    pub(crate) fn forwarded(&self) -> &ForwardedCache {
        &self.0.forwarded
    }
}

/// Has one server less than [`MOST_POOLS`] remembered, as far as nobody has their pools. Those without a
/// connection go first, then the one that was asked for longest ago.
fn make_room(pools: &mut HashMap<Server, Rc<Pool>>) {
    let is_free = |pool: &Rc<Pool>| Rc::strong_count(pool) == 1;
    let free = pools.values().filter(|pool| is_free(pool)).count();
    if free < MOST_POOLS {
        return;
    }
    pools.retain(|_, pool| !is_free(pool) || pool.has_idle());
    let mut free: Vec<_> = pools
        .iter()
        .filter(|(_, pool)| is_free(pool))
        .map(|(server, pool)| (pool.asked.get(), server))
        .collect();
    free.sort_unstable_by_key(|(asked, _)| std::cmp::Reverse(*asked));
    let oldest = free.split_off(free.len().min(MOST_POOLS - 1));
    let oldest: Vec<_> = oldest
        .into_iter()
        .map(|(_, server)| server.clone())
        .collect();
    for server in &oldest {
        pools.remove(server);
    }
}

/// A request on its way, as often as it takes.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    request: Option<Request<Body>>,
    replay: Option<Replay>,
    spares: &'a Spares,
    /// It was sent over a connection that had been kept.
    was_kept: bool,
    /// It was cut off on such a connection once.
    was_cut_off: bool,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(request: Request<Body>, spares: &'a Spares) -> Self {
        Self {
            replay: Replay::of(&request, spares),
            request: Some(request),
            spares,
            was_kept: false,
            was_cut_off: false,
        }
    }

    /// Whether the request is there to be sent once more: untouched, or from what was kept of it.
    pub(crate) fn may_be_repeated(&self) -> bool {
        self.request.is_some() || self.replay.is_some()
    }

    /// Whether a kept connection turned out to be closed before anything was sent over it. That counts for
    /// nothing: the server may close one at any moment.
    pub(crate) fn is_untouched(&self) -> bool {
        self.was_kept && self.request.is_some()
    }

    /// The same, or the connection was closed while the request was under way to it: once.
    pub(crate) fn may_go_on(&mut self) -> bool {
        if self.is_untouched() {
            return true;
        }
        self.was_kept && self.may_be_repeated() && !std::mem::replace(&mut self.was_cut_off, true)
    }

    fn take(&mut self) -> Option<Request<Body>> {
        let request = self.request.take();
        request.or_else(|| self.replay.as_ref().map(Replay::again))
    }

    /// Whether doing it twice would do harm, or cannot be done.
    fn is_single(&self) -> bool {
        self.replay.is_none()
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(replay) = self.replay.take() {
            self.spares.take_back(replay);
        }
    }
}

/// The connections of one worker to one server.
#[derive(Debug)]
pub(crate) struct Pool {
    server: Server,
    /// Where the server is, if that is a port of a program's own.
    inside: Option<Arc<Inside>>,
    /// What it is called in messages.
    name: Arc<str>,
    /// Counts requests from their beginning to the end of their answers.
    tally: Option<Arc<Tally>>,
    idle: RefCell<Vec<Idle>>,
    most_idle: Cell<usize>,
    idle_time: Duration,
    /// Counts half idle times, while any connection is idle.
    clock: Cell<u64>,
    is_swept: Cell<bool>,
    /// When its client was last asked for it.
    asked: Cell<u64>,
}

#[derive(Debug)]
struct Idle {
    link: Rc<Link>,
    since: u64,
}

/// One connection.
#[derive(Debug)]
struct Link {
    /// `None`: it is to be closed.
    sender: RefCell<Option<SendRequest<PatientBody>>>,
    wire: SharedWire,
    /// A request has it, or its answer's body.
    is_busy: Cell<bool>,
    tally: Option<Arc<Tally>>,
}

impl Pool {
    /// One for `server`, called `name` in messages, that keeps `idle` connections at most and counts in
    /// `tally`.
    pub(crate) fn new(
        server: Server,
        name: Arc<str>,
        keeps: (usize, Duration),
        tally: Option<Arc<Tally>>,
    ) -> Rc<Self> {
        Self::make(server, None, name, keeps, tally)
    }

    fn make(
        server: Server,
        inside: Option<Arc<Inside>>,
        name: Arc<str>,
        (idle, idle_time): (usize, Duration),
        tally: Option<Arc<Tally>>,
    ) -> Rc<Self> {
        Rc::new(Self {
            server,
            inside,
            name,
            tally,
            idle: RefCell::default(),
            most_idle: Cell::new(idle),
            idle_time,
            clock: Cell::new(0),
            is_swept: Cell::new(false),
            asked: Cell::new(0),
        })
    }

    /// One for a port of a program's own.
    pub(crate) fn inside(
        inside: Arc<Inside>,
        name: Arc<str>,
        keeps: (usize, Duration),
        tally: Option<Arc<Tally>>,
    ) -> Rc<Self> {
        let nowhere = Server::Unix(PathBuf::new());
        Self::make(nowhere, Some(inside), name, keeps, tally)
    }

    /// Closes the connections that wait: whoever they lead to is gone.
    pub(crate) fn forget_idle(&self) {
        self.idle.borrow_mut().clear();
    }

    fn has_idle(&self) -> bool {
        !self.idle.borrow().is_empty()
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Sends the attempt's request. After an error the attempt tells what may be done.
    pub(crate) async fn send(
        self: &Rc<Self>,
        client: &Client,
        attempt: &mut Attempt<'_>,
        times: &Times,
    ) -> Result<Response<Body>, UpstreamError> {
        let kept = self.take(attempt.is_single());
        attempt.was_kept = kept.is_some();
        let link = match kept {
            Some(link) => link,
            None => self.connect(client, times).await?,
        };
        let Some(request) = attempt.take() else {
            return Err(self.closed(None));
        };
        let (request, body_end) = patience::watch(request);
        link.wire.expect_head();
        let answer = link
            .sender
            .borrow_mut()
            .as_mut()
            .map(|sender| sender.try_send_request(request));
        let Some(answer) = answer else {
            return Err(self.closed(None));
        };
        match patience::within(times.answer, body_end, answer).await {
            Waited::Answered(Ok(response)) => {
                link.wire.has_head();
                self.accept(response)
            }
            Waited::Answered(Err(_)) if link.wire.is_overrun() => Err(UpstreamError::Heads {
                server: Arc::clone(&self.name),
            }),
            Waited::Answered(Err(mut error)) => {
                attempt.request = error.take_message().map(patience::unwatch);
                Err(self.failed(error.into_error()))
            }
            Waited::TooLong => {
                // Whatever it is doing, it is not to be done twice.
                if let Some(replay) = attempt.replay.take() {
                    attempt.spares.take_back(replay);
                }
                Err(UpstreamError::AnswerTime {
                    server: Arc::clone(&self.name),
                })
            }
        }
    }

    /// The connection used last. The server is asked whether it still holds, where a request that gets
    /// lost could not be sent again.
    fn take(&self, must_hold: bool) -> Option<Rc<Link>> {
        loop {
            let link = self.idle.borrow_mut().pop()?.link;
            let is_ready = link
                .sender
                .borrow()
                .as_ref()
                .is_some_and(|sender| sender.is_ready() && !sender.is_closed());
            if is_ready && !(must_hold && link.wire.is_stale()) {
                link.begin();
                return Some(link);
            }
            link.close();
        }
    }

    async fn connect(
        self: &Rc<Self>,
        client: &Client,
        times: &Times,
    ) -> Result<Rc<Link>, UpstreamError> {
        let Inner {
            names, settings, ..
        } = &*client.0;
        let connected = async {
            match &self.inside {
                Some(inside) => Wire::connect_inside(inside, &self.name).await,
                None => Wire::connect(&self.server, &self.name, names, settings).await,
            }
        };
        let wire = tokio::time::timeout(times.connect, connected).await;
        let wire = wire.map_err(|_| UpstreamError::ConnectTime {
            server: Arc::clone(&self.name),
        })??;
        let wire = SharedWire::new(wire);
        let made = http1::Builder::new()
            .max_buf_size(MOST_HEAD)
            .handshake(wire.clone())
            .await;
        let (sender, connection) = made.map_err(|error| self.failed(error))?;
        let link = Rc::new(Link {
            sender: RefCell::new(Some(sender)),
            wire,
            is_busy: Cell::new(false),
            tally: self.tally.clone(),
        });
        link.begin();
        tokio::task::spawn_local(Driver {
            connection,
            link: Rc::clone(&link),
            pool: Rc::downgrade(self),
        });
        Ok(link)
    }

    fn accept(&self, response: Response<Incoming>) -> Result<Response<Body>, UpstreamError> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // Nobody asked for it: `upgrade` was taken out of the request.
            return Err(UpstreamError::Switched {
                server: Arc::clone(&self.name),
            });
        }
        let (mut parts, body) = response.into_parts();
        fields::clean_answer(&mut parts);
        Ok(Response::from_parts(parts, Body::Incoming(body)))
    }

    /// What hyper's error means. A body that broke off is the client's doing.
    fn failed(&self, error: hyper::Error) -> UpstreamError {
        let server = Arc::clone(&self.name);
        if error.is_user() && std::error::Error::source(&error).is_some() {
            return UpstreamError::RequestBody { source: error };
        }
        if error.is_parse() {
            return UpstreamError::Malformed {
                server,
                source: error,
            };
        }
        self.closed(Some(error))
    }

    fn closed(&self, source: Option<hyper::Error>) -> UpstreamError {
        UpstreamError::Closed {
            server: Arc::clone(&self.name),
            source,
        }
    }

    fn put(self: &Rc<Self>, link: Rc<Link>) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.most_idle.get() {
            link.close();
            return;
        }
        idle.push(Idle {
            link,
            since: self.clock.get(),
        });
        drop(idle);
        if !self.is_swept.replace(true) {
            tokio::task::spawn_local(sweep(Rc::downgrade(self), self.idle_time / 2));
        }
    }

    /// Closes what has been idle for too long; `false` when nothing is left.
    fn expire(&self) -> bool {
        let now = self.clock.get() + 1;
        self.clock.set(now);
        let mut idle = self.idle.borrow_mut();
        idle.retain(|idle| {
            let is_kept = now - idle.since < 2 && !idle.link.is_gone();
            if !is_kept {
                idle.link.close();
            }
            is_kept
        });
        self.is_swept.set(!idle.is_empty());
        !idle.is_empty()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for idle in self.idle.get_mut() {
            idle.link.close();
        }
    }
}

async fn sweep(pool: Weak<Pool>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let is_needed = pool.upgrade().is_some_and(|pool| pool.expire());
        if !is_needed {
            return;
        }
    }
}

impl Link {
    fn begin(&self) {
        if let (Some(tally), false) = (&self.tally, self.is_busy.replace(true)) {
            tally.begin();
        }
    }

    fn end(&self) {
        if let (Some(tally), true) = (&self.tally, self.is_busy.replace(false)) {
            tally.end();
        }
    }

    /// Has the driver close it, once its request is done.
    fn close(&self) {
        drop(self.sender.take());
    }

    fn is_gone(&self) -> bool {
        let sender = self.sender.borrow();
        sender.as_ref().is_none_or(SendRequest::is_closed)
    }

    fn can_take_another(&self) -> bool {
        let sender = self.sender.borrow();
        sender.as_ref().is_some_and(SendRequest::is_ready)
    }
}

/// Moves a connection's bytes until it ends.
struct Driver {
    connection: Connection<SharedWire, PatientBody>,
    link: Rc<Link>,
    pool: Weak<Pool>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.link.end();
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.link.wire.begin_turn();
        // An error is the request's to tell, if there is one.
        if Pin::new(&mut self.connection).poll(context).is_ready() {
            self.link.close();
            return Poll::Ready(());
        }
        if self.link.is_busy.get() && self.link.can_take_another() {
            self.link.end();
            match self.pool.upgrade() {
                Some(pool) => pool.put(Rc::clone(&self.link)),
                None => self.link.close(),
            }
            if self.link.is_gone() {
                // The end of the sender is news for hyper.
                context.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
