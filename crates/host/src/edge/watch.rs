//! What takes too long: one sweep a worker, four times a second, looks at every connection and every body
//! that is waited for.
//!
//! Time is counted in ticks, sweeps made: the time that the worker's thread was busy with something else,
//! and could not have read what a client sent, is not charged to the client. A request costs a few stores,
//! no timer.

mod client;
mod connection;
mod customer;
mod held;
mod wait;

pub(super) use connection::{Closing, OpenRequest, Watch, Watched};
pub(crate) use customer::ClientRates;
pub(super) use customer::Customer;
pub(super) use held::{Held, Known, Stream};
pub(super) use wait::Wait;

use super::{EdgeMetrics, Notice, Shared};
use crate::{
    config::Limits,
    permits::{Descriptors, Permits},
};
use customer::{ClientRate, Customers};
use slab::Slab;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::sync::Notify;

/// Time between two sweeps.
const TICK: Duration = Duration::from_millis(250);

/// How long a connection without a request is kept once the server stops, or others wait for room: long
/// enough for a request that was sent before the client could know.
const LAST_CALL: Ticks = 4;

/// How long a response may wait for a client that takes nothing of it, once there is little room left for requests.
const SCARCE: Ticks = 8;

type Ticks = u32;

/// Between two notices of the same want: a minute.
const NOTICE_AGAIN: Ticks = 240;

/// Called with what an operator should know.
pub(crate) type Noticed = Arc<dyn Fn(Notice) + Send + Sync>;

/// Bounds as the request path wants them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    header: Ticks,
    idle: Ticks,
    body: Ticks,
    pub(super) headers: usize,
    pub(super) underscores: bool,
    pub(super) body_bytes: u64,
    pub(super) connections: usize,
    client_rate: Option<ClientRate>,
    /// There would be room for more of them if the process might have more descriptors.
    pub(super) has_few_descriptors: bool,
}

impl Bounds {
    /// Makes room for the requests of one of so many workers, too.
    fn of_worker(limits: &Limits, workers: usize) -> Self {
        let descriptors = Descriptors::of_process(limits.connections);
        Permits::here().set_most(descriptors.requests / workers);
        Self {
            header: ticks(limits.header_time),
            idle: ticks(limits.idle_time),
            body: ticks(limits.body_time),
            headers: limits.headers,
            underscores: limits.underscores,
            body_bytes: limits.body_bytes,
            connections: descriptors.clients,
            client_rate: ClientRate::of(limits),
            has_few_descriptors: descriptors.clients < limits.connections,
        }
    }
}

fn ticks(time: Duration) -> Ticks {
    let count = time.as_nanos().div_ceil(TICK.as_nanos());
    Ticks::try_from(count).unwrap_or(Ticks::MAX)
}

/// Everything of one worker that time passes for.
pub(crate) struct Sweep {
    now: Cell<Ticks>,
    bounds: Cell<Bounds>,
    stopping: Cell<bool>,
    connections: RefCell<Slab<Rc<Watch>>>,
    customers: Customers,
    workers: usize,
    waits: RefCell<Slab<Rc<Wait>>>,
    /// There is something to look at again.
    begun: Notify,
    /// A connection ended, or a tick has passed: whoever waited for room looks again.
    room: Notify,
    waiting_for_room: Cell<usize>,
    pub(super) shared: Arc<Shared>,
    pub(super) metrics: Arc<EdgeMetrics>,
    noticed: Noticed,
    /// When a want of room was last told.
    told: Cell<Option<Ticks>>,
}

impl Sweep {
    pub(crate) fn new(
        limits: &Limits,
        workers: usize,
        shared: Arc<Shared>,
        metrics: Arc<EdgeMetrics>,
        noticed: Noticed,
    ) -> Rc<Self> {
        Rc::new(Self {
            now: Cell::new(0),
            bounds: Cell::new(Bounds::of_worker(limits, workers)),
            stopping: Cell::new(false),
            connections: RefCell::default(),
            customers: Customers::default(),
            workers,
            waits: RefCell::default(),
            begun: Notify::new(),
            room: Notify::new(),
            waiting_for_room: Cell::new(0),
            shared,
            metrics,
            noticed,
            told: Cell::new(None),
        })
    }

    pub(crate) fn set_limits(&self, limits: &Limits) {
        self.bounds.set(Bounds::of_worker(limits, self.workers));
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds.get()
    }

    /// Whether connections are to end after the request that they are at.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Lets no connection begin another request than the one it is at or that is on its way.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        for (_, watch) in self.connections.borrow().iter() {
            watch.stop();
        }
    }

    /// Connections now.
    fn connections(&self) -> usize {
        self.connections.borrow().len()
    }

    /// Ends the connections that are left, and says how many these are.
    pub(crate) fn cut_off(&self) -> usize {
        for (_, watch) in self.connections.borrow().iter() {
            watch.cut_off();
        }
        self.connections()
    }

    /// Sweeps made, and so quarters of a second that requests were served in.
    pub(crate) fn tick(&self) -> u32 {
        self.now.get()
    }

    /// Tells an operator, unless a moment ago there was something to tell.
    pub(super) fn tell(&self, notice: Notice) {
        let is_old = |told| self.elapsed(told) > NOTICE_AGAIN;
        if self.told.get().is_none_or(is_old) {
            self.told.set(Some(self.now.get()));
            (self.noticed)(notice);
        }
    }

    /// Returns once there is no connection.
    pub(crate) async fn emptied(&self) {
        while self.connections() > 0 {
            let _waiting = Waiting::new(&self.waiting_for_room);
            self.room.notified().await;
        }
    }

    /// Returns once a connection has ended or a tick has passed.
    pub(super) async fn room(&self) {
        self.metrics.waits.add(1);
        let _waiting = Waiting::new(&self.waiting_for_room);
        self.begun.notify_one();
        self.room.notified().await;
    }

    /// Sweeps for ever.
    pub(crate) async fn run(&self) {
        loop {
            if self.is_idle() {
                self.begun.notified().await;
            }
            tokio::time::sleep(TICK).await;
            self.now.set(self.now.get().wrapping_add(1));
            self.look();
            self.room.notify_waiters();
        }
    }

    fn is_idle(&self) -> bool {
        self.connections.borrow().is_empty()
            && self.waits.borrow().is_empty()
            && self.waiting_for_room.get() == 0
    }

    fn look(&self) {
        let bounds = self.bounds.get();
        let idle = if self.stopping.get() || self.is_full(bounds) {
            bounds.idle.min(LAST_CALL)
        } else {
            bounds.idle
        };
        let body = match Permits::here().are_scarce() {
            true => bounds.body.min(SCARCE),
            false => bounds.body,
        };
        let bounds = Bounds {
            idle,
            body,
            ..bounds
        };
        for (_, watch) in self.connections.borrow().iter() {
            watch.look(bounds);
        }
        for (_, wait) in self.waits.borrow().iter() {
            wait.look(self.now.get(), bounds.body);
        }
    }

    fn is_full(&self, bounds: Bounds) -> bool {
        self.shared.starved.load(Ordering::Relaxed)
            || self.shared.connections.load(Ordering::Relaxed) >= bounds.connections
    }

    fn elapsed(&self, since: Ticks) -> Ticks {
        self.now.get().wrapping_sub(since)
    }
}

/// Counts as long as it lives.
struct Waiting<'a>(&'a Cell<usize>);

impl<'a> Waiting<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}
