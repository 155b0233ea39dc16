//! One connection, as the sweep sees it, and its requests.

use super::{
    super::io::Stream, Bounds, Customer, Sweep, Ticks, client::Client, held::HeldResponses,
};
use crate::{memory, permits::Permit};
use http::Version;
use std::{
    cell::{Cell, RefCell},
    io,
    rc::{Rc, Weak},
    sync::atomic::Ordering,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// How long is waited for the client to close, once everything was sent.
const LINGER: Ticks = 8;

/// Requests given up by the client within one tick that end an HTTP/2 connection: a client that asks and
/// resets makes work without ever waiting for it (CVE-2023-44487).
const MOST_ABORTS: u32 = 256;

/// Bytes of one connection that are read and written before the others have their turn: PINGs alone, and their
/// answers, could keep a worker busy for as long as they come.
const MOST_READ: usize = 64 << 10;
const MOST_WRITTEN: usize = 512 << 10;

/// What a connection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// TLS.
    Handshake,
    /// No request.
    Idle,
    /// Part of a request's head has come.
    Head,
    /// Requests.
    Busy,
    /// Everything was sent; the client is to close.
    Lingering,
}

/// What is to become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::edge) enum Closing {
    /// It goes on.
    Keep,
    /// No other request is begun.
    Finish,
    /// The client was told nothing for too long: a response that says so, and the end.
    HeadLate,
    /// The end, now.
    Drop,
    /// The end, and what was not sent yet is thrown away.
    Reset,
}

/// One connection, as the sweep sees it.
pub(in crate::edge) struct Watch {
    sweep: Rc<Sweep>,
    customer: Rc<Customer>,
    key: Cell<usize>,
    phase: Cell<Phase>,
    since: Cell<Ticks>,
    http2: Cell<bool>,
    requests: Cell<u32>,
    /// The socket takes nothing, since then.
    stalled: Cell<Option<Ticks>>,
    pub(super) held: HeldResponses,
    aborts: Cell<u32>,
    client: Client,
    closing: Cell<Closing>,
    waker: RefCell<Option<Waker>>,
    /// Bytes that may still be read and written before others have their turn.
    left: (Left, Left),
}

/// Keeps a connection in its worker's books. Dropping it takes it out.
pub(in crate::edge) struct Watched(pub(in crate::edge) Rc<Watch>);

impl Watched {
    /// Begins to watch a connection. `shared.connections` has counted it.
    pub(in crate::edge) fn new(sweep: &Rc<Sweep>, customer: Rc<Customer>, handshake: bool) -> Self {
        Sweep::customer_came(&customer);
        let now = sweep.now.get();
        let watch = Rc::new(Watch {
            sweep: Rc::clone(sweep),
            customer,
            key: Cell::new(0),
            phase: Cell::new(if handshake {
                Phase::Handshake
            } else {
                Phase::Idle
            }),
            since: Cell::new(now),
            http2: Cell::new(false),
            requests: Cell::new(0),
            stalled: Cell::new(None),
            held: HeldResponses::default(),
            aborts: Cell::new(0),
            client: Client::default(),
            closing: Cell::new(Closing::Keep),
            waker: RefCell::new(None),
            left: (Left(Cell::new(MOST_READ)), Left(Cell::new(MOST_WRITTEN))),
        });
        let key = sweep.connections.borrow_mut().insert(Rc::clone(&watch));
        watch.key.set(key);
        sweep.metrics.accepted.add(1);
        sweep.metrics.connections.set(key_count(sweep));
        sweep.begun.notify_one();
        Self(watch)
    }
}

fn key_count(sweep: &Sweep) -> u64 {
    sweep.connections.borrow().len() as u64
}

impl Drop for Watched {
    fn drop(&mut self) {
        let sweep = &self.0.sweep;
        sweep.connections.borrow_mut().try_remove(self.0.key.get());
        sweep.customer_went(&self.0.customer);
        sweep.metrics.connections.set(key_count(sweep));
        sweep.shared.connections.fetch_sub(1, Ordering::Relaxed);
        sweep.room.notify_waiters();
        memory::has_ended();
    }
}

impl Watch {
    pub(in crate::edge) fn sweep(&self) -> &Rc<Sweep> {
        &self.sweep
    }

    pub(in crate::edge) fn is_http2(&self) -> bool {
        self.http2.get()
    }

    /// The socket that it comes by.
    pub(in crate::edge) fn connect(&self, socket: Weak<RefCell<Stream>>) {
        let has_tls = self.phase.get() == Phase::Handshake;
        self.client.connect(socket, has_tls);
    }

    /// A request's head was read.
    pub(in crate::edge) fn asked(&self, version: Version) {
        self.client.asked(version);
    }

    /// The response's head goes out.
    pub(in crate::edge) fn responded(&self) {
        self.client.responded();
    }

    /// The protocol is known: requests may come.
    pub(in crate::edge) fn begin(&self, http2: bool) {
        self.http2.set(http2);
        if http2 || self.phase.get() == Phase::Handshake {
            self.enter(Phase::Idle);
        }
        if self.sweep.stopping.get() {
            self.stop();
        }
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(self.sweep.now.get());
    }

    /// Bytes came from the client.
    pub(in crate::edge) fn read(&self) {
        // HTTP/2 has frames that belong to no request.
        if self.phase.get() == Phase::Idle && !self.http2.get() {
            self.enter(Phase::Head);
        }
    }

    /// The socket took something.
    pub(in crate::edge) fn wrote(&self) {
        self.stalled.set(None);
        // In HTTP/2 it may be no more than the answer to a PING.
        if self.phase.get() == Phase::Idle && !self.http2.get() {
            self.enter(Phase::Idle);
        }
    }

    /// The socket takes nothing more for now.
    pub(in crate::edge) fn write_stalled(&self) {
        if self.stalled.get().is_none() {
            self.stalled.set(Some(self.sweep.now.get()));
            self.held.socket_is_full();
        }
    }

    /// Everything was sent.
    pub(in crate::edge) fn linger(&self) {
        self.enter(Phase::Lingering);
    }

    /// HTTP/2 has a part of a response less.
    pub(super) fn has_let_go(&self) {
        if self.phase.get() == Phase::Idle {
            self.enter(Phase::Idle);
        }
    }

    fn open_request(&self) {
        self.requests.set(self.requests.get() + 1);
        self.phase.set(Phase::Busy);
        self.sweep.metrics.requests.add(1);
    }

    fn close_request(&self, has_responded: bool) {
        let requests = self.requests.get().saturating_sub(1);
        self.requests.set(requests);
        memory::has_ended();
        if requests == 0 && self.phase.get() == Phase::Busy {
            self.enter(Phase::Idle);
        }
        if !has_responded && self.http2.get() {
            self.abort();
        }
    }

    fn abort(&self) {
        self.aborts.set(self.aborts.get() + 1);
        if self.aborts.get() > MOST_ABORTS {
            self.close(Closing::Reset);
        }
    }

    /// Ends the connection once the requests that it is at are has_responded.
    pub(super) fn stop(&self) {
        if self.http2.get() {
            self.close(Closing::Finish);
        }
        // HTTP/1 is told with its next response; the sweep ends it if there is no request on the way.
        if self.phase.get() == Phase::Idle {
            self.since.set(self.sweep.now.get());
        }
    }

    /// Ends the connection with whatever it is at.
    pub(super) fn cut_off(&self) {
        self.close(Closing::Drop);
    }

    pub(super) fn look(&self, bounds: Bounds) {
        self.aborts.set(0);
        let (late_responses, is_without_task) =
            self.held.look(self.stalled.get().is_some(), bounds.body);
        self.sweep.metrics.timed_out.add(late_responses);
        if is_without_task {
            self.close(Closing::Reset);
            return;
        }
        if self.is_stalled(bounds) {
            self.close_slow(Closing::Reset);
            return;
        }
        let elapsed = self.sweep.elapsed(self.since.get());
        match self.phase.get() {
            Phase::Handshake if elapsed > bounds.header => self.close_slow(Closing::Drop),
            Phase::Head if elapsed > bounds.header => self.close_slow(Closing::HeadLate),
            // What is still being sent has the time of a body.
            Phase::Idle if self.stalled.get().is_some() || self.held.is_any() => {}
            Phase::Idle if elapsed > bounds.idle => self.end_idle(elapsed - bounds.idle),
            Phase::Lingering if elapsed > LINGER => self.close(Closing::Drop),
            // HTTP/2 tells by itself.
            Phase::Busy if !self.http2.get() && self.is_abandoned() => self.close(Closing::Drop),
            _ => {}
        }
    }

    /// Nobody waits for the response.
    fn is_abandoned(&self) -> bool {
        self.client.is_gone(self.stalled.get().is_some())
    }

    /// A client that takes nothing of the socket.
    fn is_stalled(&self, bounds: Bounds) -> bool {
        let since = self.stalled.get();
        since.is_some_and(|since| self.sweep.elapsed(since) > bounds.body)
    }

    /// HTTP/2 may still hold what the client does not take: it gets a while to let go.
    fn end_idle(&self, over: Ticks) {
        if over > LINGER {
            self.close(Closing::Drop);
        } else {
            self.close(Closing::Finish);
        }
    }

    fn close_slow(&self, closing: Closing) {
        if self.closing.get() != closing {
            self.sweep.metrics.timed_out.add(1);
        }
        self.close(closing);
    }

    fn close(&self, closing: Closing) {
        self.closing.set(closing);
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// The connection has its turn.
    pub(in crate::edge) fn begin_turn(&self) {
        self.left.0.0.set(MOST_READ);
        self.left.1.0.set(MOST_WRITTEN);
    }

    /// Whether this connection may read; if its turn is over, it has another one after all others.
    pub(in crate::edge) fn may_read(&self, context: &Context<'_>) -> bool {
        self.left.0.is_some(context)
    }

    /// So many bytes came.
    pub(in crate::edge) fn read_bytes(&self, count: usize) {
        self.left.0.spend(count);
    }

    /// Writes, as far as this connection's turn goes.
    pub(in crate::edge) fn write_in_turn(
        &self,
        context: &mut Context<'_>,
        write: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if !self.left.1.is_some(context) {
            return Poll::Pending;
        }
        let written = write(context);
        if let Poll::Ready(Ok(count)) = &written {
            self.left.1.spend(*count);
        }
        written
    }

    /// The closing, also of those to come: the connection's task is woken.
    pub(in crate::edge) fn closing(&self, context: &mut Context<'_>) -> Closing {
        let mut waker = self.waker.borrow_mut();
        if !waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(context.waker()))
        {
            *waker = Some(context.waker().clone());
        }
        self.closing.get()
    }

    /// The closing so far.
    pub(in crate::edge) fn present_closing(&self) -> Closing {
        self.closing.get()
    }

    /// Takes back the closing `Finish`, and says whether it still holds.
    pub(in crate::edge) fn take_finish(&self) -> bool {
        self.closing.replace(Closing::Keep) == Closing::Finish
            && (self.http2.get() || self.phase.get() == Phase::Idle)
    }

    /// A future's result, or `None` if the connection was to end first.
    pub(in crate::edge) async fn unless_ended<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|context| match self.closing(context) {
            Closing::Keep => future.as_mut().poll(context).map(Some),
            _ => Poll::Ready(None),
        })
        .await
    }
}

/// Bytes that are left of a turn.
struct Left(Cell<usize>);

impl Left {
    /// Else its task is woken for the next turn.
    fn is_some(&self, context: &Context<'_>) -> bool {
        let is_some = self.0.get() > 0;
        if !is_some {
            context.waker().wake_by_ref();
        }
        is_some
    }

    fn spend(&self, count: usize) {
        self.0.set(self.0.get().saturating_sub(count));
    }
}

/// A request under way. Dropping it ends it.
pub(in crate::edge) struct OpenRequest {
    watch: Rc<Watch>,
    has_responded: bool,
    /// `None`: its client has too many of them, or all have.
    permit: Option<Permit>,
    /// When it is worth to come again, for a client that asks too often.
    too_soon: Option<Duration>,
}

impl OpenRequest {
    pub(in crate::edge) fn new(watch: &Rc<Watch>) -> Self {
        watch.open_request();
        Self {
            watch: Rc::clone(watch),
            has_responded: false,
            permit: watch.customer.permit(),
            too_soon: watch.sweep.count_request(&watch.customer).err(),
        }
    }

    /// Whether there is room for it.
    pub(in crate::edge) fn has_permit(&self) -> bool {
        self.permit.is_some()
    }

    /// How long its client is to wait, which asks too often.
    pub(in crate::edge) fn too_soon(&self) -> Option<Duration> {
        self.too_soon
    }

    pub(in crate::edge) fn watch(&self) -> &Rc<Watch> {
        &self.watch
    }

    /// The whole answer was handed over.
    pub(in crate::edge) fn set_responded(&mut self) {
        self.has_responded = true;
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.watch.close_request(self.has_responded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    struct Woken(AtomicU32);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// However much there is to read: others come in between, and then it goes on by itself.
    #[test]
    fn a_connection_has_its_turn_and_no_more() {
        let woken = Arc::new(Woken(AtomicU32::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let context = Context::from_waker(&waker);
        let left = Left(Cell::new(MOST_READ));
        let mut bytes = 0;
        while left.is_some(&context) {
            left.spend(16 << 10);
            bytes += 16 << 10;
        }
        assert_eq!((bytes, woken.0.load(Ordering::Relaxed)), (MOST_READ, 1));
    }
}
