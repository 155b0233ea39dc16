//! One instance of a filter: its streams, its callbacks, and the calls that it has under way.

use super::{
    Pace, WorkerFilter, spent,
    surroundings::{self, Asked, Mail},
};
use crate::{config::Isolation, metrics::GuestMetrics};
use palisade_engine::permits::Permit;
use palisade_filter::{
    Action, Direction, Exchange, Fault, FaultKind, Filter, Finish, Instance, LocalResponse, Part,
    StreamId,
};
use std::{
    cell::{Cell, RefCell, RefMut},
    rc::{Rc, Weak},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::task::AbortHandle;

/// Who has the exchange of a stream while its filter waits for a call of its own: a request under way.
pub(crate) trait HandOver {
    /// Hands the exchange to the instance whose stream this is: it is about to be told something.
    fn hand_over(&self, instance: &Rc<FilterInstance>, stream: StreamId);
}

/// `None`: no stream waits.
type Owner = Option<Weak<dyn HandOver>>;

/// What comes of [`FilterInstance::finish`].
pub(crate) enum Finished {
    /// The stream is over; its exchange.
    Over(Option<Box<Exchange>>),
    /// The response does not go on at once.
    Held(Action),
}

/// An instance, and what it has asked for.
pub(crate) struct FilterInstance {
    filter: Weak<WorkerFilter>,
    /// It is one request's.
    is_fresh: bool,
    /// Its code inspects what of a response comes behind the head.
    pub(super) inspects_response_body: bool,
    /// Its code can ask for properties.
    pub(crate) reads_properties: bool,
    /// The filter's.
    metrics: Arc<GuestMetrics>,
    /// The filter's.
    pub(super) pace: Rc<Pace>,
    guest: RefCell<Instance>,
    /// For as long as its request is under way and it is alive: the request over which it died wants another one.
    pub(super) permit: Cell<Option<Permit>>,
    is_alive: Cell<bool>,
    mail: Rc<Mail>,
    /// What calls it at its period.
    ticks: RefCell<Option<AbortHandle>>,
    /// HTTP calls of its that are under way.
    calls: RefCell<Vec<Call>>,
    /// Who waits for the end of its work, when it leaves.
    leaving: Cell<Option<Waker>>,
    /// What of the instance's own metrics is in its filter's.
    pub(super) counted: Cell<palisade_filter::InstanceMetrics>,
}

/// An HTTP call that is under way.
struct Call {
    token: u32,
    stream: Option<StreamId>,
    task: AbortHandle,
}

impl FilterInstance {
    pub(super) fn new(
        filter: &Rc<WorkerFilter>,
        guest: Instance,
        permit: Option<Permit>,
        mail: Rc<Mail>,
    ) -> Rc<Self> {
        let code = guest.filter();
        let instance = Rc::new(Self {
            filter: Rc::downgrade(filter),
            is_fresh: filter.loaded.isolation == Isolation::Fresh,
            inspects_response_body: code.inspects(Part::ResponseBody)
                || code.inspects(Part::ResponseTrailers),
            reads_properties: code.reads_properties(),
            metrics: Arc::clone(&filter.metrics),
            pace: Rc::clone(&filter.pace),
            guest: RefCell::new(guest),
            permit: Cell::new(permit),
            is_alive: Cell::new(true),
            mail,
            ticks: RefCell::default(),
            calls: RefCell::default(),
            leaving: Cell::default(),
            counted: Cell::default(),
        });
        instance.deliver(None);
        instance.count();
        instance
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.is_alive.get()
    }

    pub(crate) fn code(&self) -> Filter {
        self.guest.borrow().filter().clone()
    }

    /// Opens a stream with its exchange.
    pub(crate) fn open(&self, exchange: Box<Exchange>) -> StreamId {
        self.metrics.requests.add(1);
        self.guest.borrow_mut().open(exchange)
    }

    /// Makes a callback about a stream.
    pub(crate) fn call(
        self: &Rc<Self>,
        owner: &Weak<dyn HandOver>,
        stream: StreamId,
        part: Part,
        end_of_stream: bool,
    ) -> Result<Action, Fault> {
        let result = self.ask(stream, part, end_of_stream);
        self.deliver(Some(owner));
        result
    }

    /// The same, where nobody owns the stream yet. What the guest asks for meanwhile is to be delivered.
    pub(crate) fn ask(
        &self,
        stream: StreamId,
        part: Part,
        end_of_stream: bool,
    ) -> Result<Action, Fault> {
        self.measure(|guest| guest.on_part(stream, part, end_of_stream))
    }

    /// Shows a stream its response, and ends it if that goes on at once: as [`FilterInstance::ask`] and
    /// [`FilterInstance::close`].
    pub(crate) fn finish(
        self: &Rc<Self>,
        stream: StreamId,
        end_of_stream: bool,
        passed_bytes: u64,
    ) -> Result<Finished, Fault> {
        let finish = self.measure(|guest| guest.finish(stream, end_of_stream, passed_bytes))?;
        let exchange = match finish {
            Finish::Held(action) => return Ok(Finished::Held(action)),
            Finish::Over(exchange) => exchange,
            Finish::Failed(exchange, fault) => {
                self.go_down(&fault);
                exchange
            }
        };
        self.end(stream);
        Ok(Finished::Over(exchange))
    }

    /// Calls the guest, and counts the time. A fault is the instance's end.
    fn measure<T>(&self, call: impl FnOnce(&mut Instance) -> Result<T, Fault>) -> Result<T, Fault> {
        self.end_if_overdrawn()?;
        let result = self.pace.measure(|| call(&mut self.guest.borrow_mut()));
        if let Err(fault) = &result {
            self.go_down(fault);
        }
        result
    }

    /// Tells the instance something that no stream waits for.
    pub(super) fn tell(self: &Rc<Self>, tell: impl FnOnce(&mut Instance) -> Result<(), Fault>) {
        self.tell_owner(None, tell);
    }

    /// The same, where further calls are for the `owner` of a stream. One that has left is told nothing more.
    fn tell_owner(
        self: &Rc<Self>,
        owner: Option<&Weak<dyn HandOver>>,
        tell: impl FnOnce(&mut Instance) -> Result<(), Fault>,
    ) {
        if !self.is_alive() || self.guest.borrow().is_done() {
            return;
        }
        // A fault has been noted.
        let _ = self.measure(tell);
        self.deliver(owner);
        self.count();
        self.wake_leaving();
    }

    pub(crate) fn take(&self, stream: StreamId) -> Option<Box<Exchange>> {
        self.guest.borrow_mut().take(stream)
    }

    /// Puts an exchange back; gives it back where the stream is none any more.
    pub(crate) fn put(
        &self,
        stream: StreamId,
        exchange: Box<Exchange>,
    ) -> Result<(), Box<Exchange>> {
        self.guest.borrow_mut().put(stream, exchange)
    }

    /// The exchange of a stream, if it is here.
    pub(crate) fn exchange(&self, stream: StreamId) -> Option<RefMut<'_, Exchange>> {
        let guest = self.guest.borrow_mut();
        RefMut::filter_map(guest, |guest| guest.exchange(stream)).ok()
    }

    /// A head has passed: the filter may change it no more.
    pub(crate) fn pass_head(&self, stream: StreamId, direction: Direction) {
        self.guest.borrow_mut().pass_head(stream, direction);
    }

    /// What the filter responds in place of the service, if it does.
    pub(crate) fn local_response(&self, stream: StreamId) -> Option<Box<LocalResponse>> {
        self.guest
            .borrow_mut()
            .exchange(stream)?
            .local_response
            .take()
    }

    /// Whether the filter lets a stream go on that it has held.
    pub(crate) fn poll_resumed(
        &self,
        stream: StreamId,
        direction: Direction,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        self.guest
            .borrow_mut()
            .poll_resumed(stream, direction, context)
    }

    /// Ends a stream; gives its exchange back.
    pub(crate) fn close(self: &Rc<Self>, stream: StreamId) -> Option<Box<Exchange>> {
        let closed = self.measure(|guest| guest.close(stream));
        let exchange = closed.unwrap_or_else(|_| self.take(stream));
        self.end(stream);
        exchange
    }

    /// Lets go of an instance whose stream is over. To end one that is nobody else's is its filter's work.
    pub(crate) fn release(self: Rc<Self>) {
        if self.is_fresh && Rc::strong_count(&self) == 1 {
            let pace = Rc::clone(&self.pace);
            pace.measure(|| drop(self));
        }
    }

    /// A stream is over.
    fn end(self: &Rc<Self>, stream: StreamId) {
        self.deliver(None);
        if !self.calls.borrow().is_empty() {
            self.give_up_calls_of(stream);
        }
        self.count();
        if self.is_fresh && self.calls.borrow().is_empty() {
            // Not even these are told to it any more.
            self.end_ticks();
            spent::note(self);
        }
    }

    /// Gives up the calls made for a stream that is over; those of a fresh instance all are. A filter that says it is
    /// not done with the stream keeps them.
    fn give_up_calls_of(&self, stream: StreamId) {
        let mut guest = self.guest.borrow_mut();
        if guest.has_stream(stream) {
            return;
        }
        self.calls.borrow_mut().retain(|call| {
            let is_over = self.is_fresh || call.stream == Some(stream);
            if is_over {
                guest.forget_call(call.token);
                call.task.abort();
            }
            !is_over
        });
    }

    /// Whether the filter wants the connection broken off.
    pub(crate) fn is_closed(&self, stream: StreamId) -> bool {
        self.guest.borrow().is_closed(stream)
    }

    /// Ends an instance that would go on holding up everybody on this worker, with requests that it has met before its
    /// tenant was asked aside.
    fn end_if_overdrawn(&self) -> Result<(), Fault> {
        if !self.pace.is_overdrawn() {
            return Ok(());
        }
        let fault = Fault {
            kind: FaultKind::Time,
            callback: "callbacks that take long, of requests begun before its tenant was asked aside",
            message: "it has taken too much of the worker's time".into(),
        };
        self.go_down(&fault);
        Err(fault)
    }

    /// Takes the instance out of use. Whoever waits for it is woken by the instance itself.
    fn go_down(&self, fault: &Fault) {
        if !self.is_alive.replace(false) {
            return;
        }
        drop(self.permit.take());
        self.give_up_calls();
        if let Some(filter) = self.filter.upgrade() {
            filter.note(fault);
            // A fresh one is not the kept one, and another may be there already.
            filter
                .instance
                .borrow_mut()
                .take_if(|instance| !instance.is_alive());
        }
    }

    /// Whether the guest has asked for nothing that is to be delivered.
    pub(crate) fn asks_nothing(&self) -> bool {
        self.mail.is_empty()
    }

    /// Sees to what the guest asked for during a callback. Most ask for nothing.
    #[inline]
    pub(crate) fn deliver(self: &Rc<Self>, owner: Option<&Weak<dyn HandOver>>) {
        if !self.mail.is_empty() {
            self.deliver_mail(owner);
        }
    }

    #[cold]
    fn deliver_mail(self: &Rc<Self>, owner: Option<&Weak<dyn HandOver>>) {
        for asked in self.mail.take_calls() {
            // Of one that went down nobody waits for responses.
            if self.is_alive() {
                self.begin_call(asked, owner.cloned());
            }
        }
        if let Some(period) = self.mail.take_new_period() {
            self.tick_every(period);
        }
    }

    /// Ends the ticks that there are, and begins others.
    fn tick_every(self: &Rc<Self>, period: Option<Duration>) {
        let begin =
            |period| tokio::task::spawn_local(tick(Rc::downgrade(self), period)).abort_handle();
        self.end_ticks();
        *self.ticks.borrow_mut() = period.map(begin);
    }

    fn end_ticks(&self) {
        if let Some(ticks) = self.ticks.take() {
            ticks.abort();
        }
    }

    fn begin_call(self: &Rc<Self>, asked: Asked, owner: Owner) {
        let (token, stream) = (asked.call.token, asked.call.stream);
        let work = Rc::clone(self).make_call(asked, owner);
        let task = tokio::task::spawn_local(work).abort_handle();
        self.calls.borrow_mut().push(Call {
            token,
            stream,
            task,
        });
    }

    /// One HTTP call of the guest's, from its asking to the response.
    async fn make_call(self: Rc<Self>, asked: Asked, owner: Owner) {
        let (token, stream) = (asked.call.token, asked.call.stream);
        let Some(filter) = self.filter.upgrade() else {
            return;
        };
        let response = surroundings::make_call(&filter, asked).await;
        drop(filter);
        // Given up meanwhile, if it is not wanted any more.
        self.pace.has_rested().await;
        self.calls.borrow_mut().retain(|call| call.token != token);
        // The callback may look at the exchange that it was made for.
        let owned = owner.as_ref().and_then(Weak::upgrade);
        if let (Some(owned), Some(stream)) = (owned, stream) {
            owned.hand_over(&self, stream);
        }
        self.tell_owner(owner.as_ref(), |guest| {
            guest.on_http_call_response(token, response)
        });
        self.wake_leaving();
    }

    /// Whether nobody waits for it, and nothing will tell it anything but a request.
    pub(super) fn is_resting(&self) -> bool {
        let Ok(guest) = self.guest.try_borrow() else {
            return false;
        };
        let is_told = self.ticks.borrow().is_some() || !self.calls.borrow().is_empty();
        !is_told && !guest.has_queues() && guest.metrics().streams == 0
    }

    pub(super) fn wake_leaving(&self) {
        if let Some(waker) = self.leaving.take() {
            waker.wake();
        }
    }

    pub(super) fn give_up_calls(&self) {
        for call in self.calls.take() {
            call.task.abort();
        }
    }

    /// Adds what the instance has done since the last time to its filter's metrics.
    fn count(&self) {
        let now = self.guest.borrow().metrics();
        let before = self.counted.replace(now);
        let metrics = &self.metrics;
        metrics.cpu_ns.add(now.cpu_ns - before.cpu_ns);
        metrics.crossings.add(now.crossings - before.crossings);
        metrics.denials.add(now.denials - before.denials);
        metrics
            .memory_bytes
            .add(now.memory_bytes.wrapping_sub(before.memory_bytes));
    }
}

/// How it leaves.
impl FilterInstance {
    /// Ready when a filter that leaves is no longer at this.
    pub(super) fn poll_leaving(
        &self,
        context: &mut Context<'_>,
        is_at: impl Fn(&Self) -> bool,
    ) -> Poll<()> {
        if !is_at(self) {
            return Poll::Ready(());
        }
        self.leaving.set(Some(context.waker().clone()));
        Poll::Pending
    }

    pub(super) fn has_call_of_stream(&self) -> bool {
        let calls = self.calls.borrow();
        calls.iter().any(|call| call.stream.is_some())
    }

    pub(super) fn has_work(&self) -> bool {
        !self.guest.borrow().is_done() || !self.calls.borrow().is_empty()
    }
}

impl Drop for FilterInstance {
    fn drop(&mut self) {
        self.end_ticks();
        let held = self.counted.get().memory_bytes;
        self.metrics.memory_bytes.add(held.wrapping_neg());
    }
}

/// Calls the guest at its period, until it is aborted or the instance is gone.
async fn tick(instance: Weak<FilterInstance>, period: Duration) {
    let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let Some(pace) = instance.upgrade().map(|instance| Rc::clone(&instance.pace)) else {
            return;
        };
        pace.has_rested().await;
        let Some(instance) = instance.upgrade().filter(|instance| instance.is_alive()) else {
            return;
        };
        instance.tell(Instance::on_tick);
    }
}
