//! The connections of one worker to one server, and one request on its way over them.

use super::{
    Client, Inner, Inside, Times, UpstreamError, fields,
    patience::{self, PatientBody, Waited},
    replay::{Replay, Spares},
    tally::Tally,
    wire::{MOST_HEAD, SharedWire, Wire},
};
use crate::{body::Body, config::Server};
use http::{Request, Response, StatusCode};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, Connection, SendRequest},
};
use std::{
    any::Any,
    cell::{Cell, RefCell},
    path::PathBuf,
    pin::Pin,
    rc::{Rc, Weak},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

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
    pub(crate) fn may_retry(&mut self) -> bool {
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
    /// Counts requests from their beginning to the end of their responses.
    tally: Option<Arc<Tally>>,
    /// What lives as long as its connections.
    owner: Option<Owner>,
    pub(super) idle: RefCell<Vec<Idle>>,
    pub(super) most_idle: Cell<usize>,
    idle_time: Duration,
    /// Counts half idle times, while any connection is idle.
    clock: Cell<u64>,
    is_swept: Cell<bool>,
    /// When its client was last asked for it.
    pub(super) asked: Cell<u64>,
}

#[derive(Debug)]
pub(super) struct Idle {
    pub(super) link: Rc<Link>,
    pub(super) since: u64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    /// `None`: it is to be closed.
    pub(super) sender: RefCell<Option<SendRequest<PatientBody>>>,
    pub(super) wire: SharedWire,
    /// A request has it, or its response's body.
    pub(super) is_busy: Cell<bool>,
    pub(super) tally: Option<Arc<Tally>>,
    pub(super) _owner: Option<Owner>,
}

/// Something that must not end before a connection does.
pub(crate) type Owner = Arc<dyn Any + Send + Sync>;

impl Pool {
    /// One for `server`, called `name` in messages, that keeps `idle` connections at most and counts in
    /// `tally`. `owner` lives as long as its connections.
    pub(crate) fn new(
        server: Server,
        name: Arc<str>,
        keeps: (usize, Duration),
        tally: Option<Arc<Tally>>,
        owner: Option<Owner>,
    ) -> Rc<Self> {
        Self::make(server, None, name, keeps, (tally, owner))
    }

    fn make(
        server: Server,
        inside: Option<Arc<Inside>>,
        name: Arc<str>,
        (idle, idle_time): (usize, Duration),
        (tally, owner): (Option<Arc<Tally>>, Option<Owner>),
    ) -> Rc<Self> {
        Rc::new(Self {
            server,
            inside,
            name,
            tally,
            owner,
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
        Self::make(nowhere, Some(inside), name, keeps, (tally, None))
    }

    /// Closes the connections that wait: whoever they lead to is gone.
    pub(crate) fn forget_idle(&self) {
        self.idle.borrow_mut().clear();
    }

    pub(super) fn has_idle(&self) -> bool {
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
        let response = link
            .sender
            .borrow_mut()
            .as_mut()
            .map(|sender| sender.try_send_request(request));
        let Some(response) = response else {
            return Err(self.closed(None));
        };
        match patience::within(times.answer, body_end, response).await {
            Waited::Responded(Ok(response)) => {
                link.wire.has_head();
                self.accept(response)
            }
            Waited::Responded(Err(_)) if link.wire.is_overrun() => Err(UpstreamError::Heads {
                server: Arc::clone(&self.name),
            }),
            Waited::Responded(Err(mut error)) => {
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
            _owner: self.owner.clone(),
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
        fields::clean_response(&mut parts);
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
