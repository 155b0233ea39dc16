//! The filters of one worker: their instances, and what these ask of the server.
//!
//! ```text
//!  Slot ──────────▶ Live ◀──── Station ◀──── Flow
//!  a filter on      an         a filter's    a request
//!  this worker      instance   stream        on its way
//!    ▲                            │
//!    └──────────── Lease ◀────────┘
//! ```
//!
//! An instance that faulted is out of use from then on. The request that it faulted over is treated as
//! `on-failure` says. Others that have a stream in it go on in a new instance: what a filter had begun to do with
//! their headers it does once more, and what it had finished stays done.

mod leave;
mod pace;
pub(crate) mod reach;
mod surroundings;
pub(crate) mod trial;

pub(crate) use leave::{Lease, left};
pub(crate) use pace::Pace;

use crate::{
    budget::Budget,
    client::Client,
    config::{Isolation, OnFailure, Server},
    kinds::Level,
    log::{Line, Log},
    metrics::{GuestMetrics, State},
};
use palisade_engine::places::{NoPlace, Place, Places, Share};
use palisade_filter::{
    Action, Direction, Exchange, Fault, FaultKind, Filter, Instance, LocalResponse, Notify, Part,
    StreamId,
};
use palisade_network::{Network, SystemResolver};
use std::{
    cell::{Cell, OnceCell, RefCell, RefMut},
    collections::BTreeMap,
    rc::{Rc, Weak},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use surroundings::{Asked, Calls, Mail, Surroundings};
use tokio::task::AbortHandle;

/// A filter as the configuration has it: the same for all workers.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Code and settings.
    pub(crate) filter: Filter,
    /// What a request finds of those before it.
    pub(crate) isolation: Isolation,
    /// Its instances on each worker, if it is not kept.
    pub(crate) share: Share,
    /// What a request gets when it fails.
    pub(crate) on_failure: OnFailure,
    /// How often it may fail.
    pub(crate) budget: Budget,
    /// Percent of a worker's time that its slow callbacks may take.
    pub(crate) slow_share: u32,
    /// Bytes of a body that are held for it at one time.
    pub(crate) body_bytes: usize,
    /// The servers that it may call, by the names that it calls them.
    pub(crate) upstreams: BTreeMap<String, Server>,
    /// What its connections to them are judged by.
    pub(crate) rules: Network,
    /// Its lines.
    pub(crate) log: Log,
}

/// A filter on one worker.
pub(crate) struct Slot {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) figures: Arc<GuestMetrics>,
    pub(crate) client: Client,
    live: RefCell<Option<Rc<Live>>>,
    /// Of instances that requests have for themselves.
    places: Rc<Places>,
    pub(crate) pace: Rc<Pace>,
    has_started: Cell<bool>,
    notifier: OnceCell<Arc<dyn Notify>>,
    calls: Calls,
}

/// Why there is no instance for a request. The log has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoInstance {
    /// The filter can't start, or failed too often.
    Failed,
    /// All that it may have, or all that the engine has, are in use; or it has taken more time than it may.
    Busy,
}

impl Slot {
    fn new(loaded: &Arc<Loaded>, figures: Arc<GuestMetrics>) -> Rc<Self> {
        let resolver = Arc::new(SystemResolver::default());
        Rc::new(Self {
            loaded: Arc::clone(loaded),
            figures,
            // Of its own: no other guest's connections, and no names but those that are granted.
            client: Client::new(reach::settings(&loaded.rules, resolver)),
            live: RefCell::default(),
            places: Places::new(loaded.share),
            pace: Rc::new(Pace::new(loaded.slow_share)),
            has_started: Cell::new(false),
            notifier: OnceCell::new(),
            calls: Calls::default(),
        })
    }

    /// The instance for a stream that begins. `place`: what was waited for, if there was.
    pub(crate) fn live(self: &Rc<Self>, place: Option<Place>) -> Result<Rc<Live>, NoInstance> {
        if self.pace.rest().is_some() {
            self.say_busy(self.pace.why());
            return Err(NoInstance::Busy);
        }
        if self.loaded.isolation == Isolation::Fresh {
            if self.loaded.budget.is_at_rest() {
                return Err(NoInstance::Failed);
            }
            let Some(place) = place.or_else(|| self.places.take_free()) else {
                self.say_busy(NoPlace(self.loaded.share));
                return Err(NoInstance::Busy);
            };
            return self.start(Some(place));
        }
        if let Some(live) = &*self.live.borrow() {
            return Ok(Rc::clone(live));
        }
        if self.loaded.budget.is_at_rest() {
            return Err(NoInstance::Failed);
        }
        let live = self.start(None)?;
        *self.live.borrow_mut() = Some(Rc::clone(&live));
        Ok(live)
    }

    /// The places, where a request is to wait for one before it asks for an instance.
    pub(crate) fn full_places(&self) -> Option<Rc<Places>> {
        let waits = self.loaded.isolation == Isolation::Fresh
            && !self.places.has_free()
            && self.pace.rest().is_none()
            && !self.loaded.budget.is_at_rest();
        waits.then(|| Rc::clone(&self.places))
    }

    #[cold]
    fn say_busy(&self, why: impl std::fmt::Display) {
        if let Some(requests) = self.places.refuse() {
            let text = format!("{why} (requests refused: {requests})");
            self.loaded.log.write(Line::new(Level::Warn, text));
        }
    }

    /// Starts an instance.
    fn start(self: &Rc<Self>, place: Option<Place>) -> Result<Rc<Live>, NoInstance> {
        let mail = Rc::new(Mail::default());
        let surroundings = Rc::new(Surroundings::new(&self.loaded, &mail, &self.calls));
        let notifier = self.notifier.get_or_init(|| surroundings::notifier(self));
        if self.has_started.replace(true) && self.loaded.isolation == Isolation::Kept {
            self.figures.restarts.add(1);
        }
        let notify = Some(Arc::clone(notifier));
        let started = self
            .pace
            .measure(|| Instance::start(&self.loaded.filter, surroundings, notify));
        match started {
            Ok(instance) => {
                self.figures.set_state(State::Ready);
                Ok(Live::new(self, instance, place, mail))
            }
            // The server's own lack of instances is none of the filter's doing.
            Err(fault) if fault.kind == FaultKind::Host => {
                self.say_busy(&fault.message);
                Err(NoInstance::Busy)
            }
            Err(fault) => {
                self.note(&fault);
                Err(NoInstance::Failed)
            }
        }
    }

    /// A fault: counted, logged, and spent of the budget.
    fn note(&self, fault: &Fault) {
        self.figures.fault(fault.to_string());
        let log = &self.loaded.log;
        log.write(Line::new(Level::Error, fault.to_string()));
        // What the host could not do is none of the filter's doing.
        if fault.kind == FaultKind::Host {
            return;
        }
        if let Some(rest) = self.loaded.budget.spend() {
            let why = format!("more faults than its budget allows: out of use for {rest:?}");
            log.write(Line::new(Level::Error, why));
            self.figures.set_state(State::Resting);
        }
    }

    /// Tells the instance that a queue of its has something in it.
    fn queue_ready(self: &Rc<Self>, queue: u32) {
        let live = self.live.borrow().clone();
        if let Some(live) = live {
            live.tell(|instance| instance.on_queue_ready(queue));
        }
    }
}

/// Who has the exchange of a stream while its filter waits for a call of its own: a request under way.
pub(crate) trait HandOver {
    /// Hands the exchange to the instance whose stream this is: it is about to be told something.
    fn hand_over(&self, instance: &Rc<Live>, stream: StreamId);
}

/// Nobody, where no stream waits.
type Owner = Option<Weak<dyn HandOver>>;

/// An instance, and what it has asked for.
pub(crate) struct Live {
    slot: Weak<Slot>,
    /// The slot's.
    figures: Arc<GuestMetrics>,
    /// The slot's.
    pace: Rc<Pace>,
    instance: RefCell<Instance>,
    /// For as long as it is alive: the request over which it died wants another one.
    place: Cell<Option<Place>>,
    is_alive: Cell<bool>,
    mail: Rc<Mail>,
    /// What calls it at its period.
    ticks: RefCell<Option<AbortHandle>>,
    /// HTTP calls of its that are under way.
    calls: RefCell<Vec<Call>>,
    /// Who waits for the end of its work, when it leaves.
    leaving: Cell<Option<Waker>>,
    /// What of the instance's own figures is in its filter's.
    counted: Cell<palisade_filter::Figures>,
}

/// An HTTP call that is under way.
struct Call {
    token: u32,
    stream: Option<StreamId>,
    task: AbortHandle,
}

impl Live {
    fn new(slot: &Rc<Slot>, instance: Instance, place: Option<Place>, mail: Rc<Mail>) -> Rc<Self> {
        let live = Rc::new(Self {
            slot: Rc::downgrade(slot),
            figures: Arc::clone(&slot.figures),
            pace: Rc::clone(&slot.pace),
            instance: RefCell::new(instance),
            place: Cell::new(place),
            is_alive: Cell::new(true),
            mail,
            ticks: RefCell::default(),
            calls: RefCell::default(),
            leaving: Cell::default(),
            counted: Cell::default(),
        });
        live.deliver(None);
        live.count();
        live
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.is_alive.get()
    }

    /// Opens a stream with its exchange.
    pub(crate) fn open(&self, exchange: Box<Exchange>) -> StreamId {
        self.figures.requests.add(1);
        self.instance.borrow_mut().open(exchange)
    }

    /// Makes a callback about a stream.
    pub(crate) fn call(
        self: &Rc<Self>,
        owner: &Weak<dyn HandOver>,
        stream: StreamId,
        part: Part,
        end_of_stream: bool,
    ) -> Result<Action, Fault> {
        let result = self.pace.measure(|| {
            make_callback(&mut self.instance.borrow_mut(), stream, part, end_of_stream)
        });
        if let Err(fault) = &result {
            self.go_down(fault);
        }
        self.deliver(Some(owner));
        result
    }

    /// Tells the instance something that no stream waits for.
    fn tell(self: &Rc<Self>, tell: impl FnOnce(&mut Instance) -> Result<(), Fault>) {
        self.tell_owner(None, tell);
    }

    /// The same, where further calls are for the `owner` of a stream. One that has left is told nothing more.
    fn tell_owner(
        self: &Rc<Self>,
        owner: Option<&Weak<dyn HandOver>>,
        tell: impl FnOnce(&mut Instance) -> Result<(), Fault>,
    ) {
        if !self.is_alive() || self.instance.borrow().is_done() {
            return;
        }
        let result = self.pace.measure(|| tell(&mut self.instance.borrow_mut()));
        if let Err(fault) = &result {
            self.go_down(fault);
        }
        self.deliver(owner);
        self.count();
        self.wake_leaving();
    }

    pub(crate) fn take(&self, stream: StreamId) -> Option<Box<Exchange>> {
        self.instance.borrow_mut().take(stream)
    }

    /// Puts an exchange back; gives it back where the stream is none any more.
    pub(crate) fn put(
        &self,
        stream: StreamId,
        exchange: Box<Exchange>,
    ) -> Result<(), Box<Exchange>> {
        self.instance.borrow_mut().put(stream, exchange)
    }

    /// The exchange of a stream, if it is here.
    pub(crate) fn exchange(&self, stream: StreamId) -> Option<RefMut<'_, Exchange>> {
        let instance = self.instance.borrow_mut();
        RefMut::filter_map(instance, |instance| instance.exchange(stream)).ok()
    }

    /// Whether the filter answers in place of the service, or wants the connection broken off.
    pub(crate) fn has_answered(&self, stream: StreamId) -> bool {
        self.instance.borrow().has_answered(stream)
    }

    /// What the filter answers in place of the service, if it does.
    pub(crate) fn local_response(&self, stream: StreamId) -> Option<Box<LocalResponse>> {
        self.instance
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
        self.instance
            .borrow_mut()
            .poll_resumed(stream, direction, context)
    }

    /// Ends a stream; gives its exchange back.
    pub(crate) fn close(self: &Rc<Self>, stream: StreamId) -> Option<Box<Exchange>> {
        let result = self
            .pace
            .measure(|| self.instance.borrow_mut().close(stream));
        let exchange = result.unwrap_or_else(|fault| {
            self.go_down(&fault);
            self.take(stream)
        });
        self.deliver(None);
        if !self.calls.borrow().is_empty() {
            self.give_up_calls_of(stream);
        }
        self.count();
        exchange
    }

    /// Gives up the calls made for a stream that is over; those of a fresh instance all are. A filter that says it is
    /// not done with the stream keeps them.
    fn give_up_calls_of(&self, stream: StreamId) {
        let mut instance = self.instance.borrow_mut();
        if instance.has_stream(stream) {
            return;
        }
        let is_fresh = self
            .slot
            .upgrade()
            .is_none_or(|slot| slot.loaded.isolation == Isolation::Fresh);
        self.calls.borrow_mut().retain(|call| {
            let is_over = is_fresh || call.stream == Some(stream);
            if is_over {
                instance.forget_call(call.token);
                call.task.abort();
            }
            !is_over
        });
    }

    /// Whether the filter wants the connection broken off.
    pub(crate) fn is_closed(&self, stream: StreamId) -> bool {
        self.instance.borrow().is_closed(stream)
    }

    /// Takes the instance out of use. Whoever waits for it is woken by the instance itself.
    fn go_down(&self, fault: &Fault) {
        if !self.is_alive.replace(false) {
            return;
        }
        drop(self.place.take());
        self.give_up_calls();
        if let Some(slot) = self.slot.upgrade() {
            slot.note(fault);
            // A fresh one is in no slot, and another may be there already.
            slot.live.borrow_mut().take_if(|live| !live.is_alive());
        }
    }

    /// Sees to what the guest asked for during a callback. Most ask for nothing.
    #[inline]
    fn deliver(self: &Rc<Self>, owner: Option<&Weak<dyn HandOver>>) {
        if !self.mail.is_empty() {
            self.deliver_mail(owner);
        }
    }

    #[cold]
    fn deliver_mail(self: &Rc<Self>, owner: Option<&Weak<dyn HandOver>>) {
        for asked in self.mail.take_calls() {
            // Of one that went down nobody waits for answers.
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
        let ticks = self.ticks.replace(period.map(begin));
        if let Some(ticks) = ticks {
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

    /// One HTTP call of the guest's, from its asking to the answer.
    async fn make_call(self: Rc<Self>, asked: Asked, owner: Owner) {
        let (token, stream) = (asked.call.token, asked.call.stream);
        let Some(slot) = self.slot.upgrade() else {
            return;
        };
        let answer = surroundings::make_call(&slot, asked).await;
        drop(slot);
        // Given up meanwhile, if it is not wanted any more.
        self.pace.has_rested().await;
        self.calls.borrow_mut().retain(|call| call.token != token);
        // The callback may look at the exchange that it was made for.
        let owned = owner.as_ref().and_then(Weak::upgrade);
        if let (Some(owned), Some(stream)) = (owned, stream) {
            owned.hand_over(&self, stream);
        }
        self.tell_owner(owner.as_ref(), |instance| {
            instance.on_http_call_response(token, answer)
        });
        self.wake_leaving();
    }

    fn wake_leaving(&self) {
        if let Some(waker) = self.leaving.take() {
            waker.wake();
        }
    }

    fn give_up_calls(&self) {
        for call in self.calls.take() {
            call.task.abort();
        }
    }

    /// Adds what the instance has done since the last time to its filter's figures.
    fn count(&self) {
        let now = self.instance.borrow_mut().figures();
        let before = self.counted.replace(now);
        let figures = &self.figures;
        figures.cpu_ns.add(now.cpu_ns - before.cpu_ns);
        figures.crossings.add(now.crossings - before.crossings);
        figures.denials.add(now.denials - before.denials);
        figures
            .memory_bytes
            .add(now.memory_bytes.wrapping_sub(before.memory_bytes));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(ticks) = self.ticks.take() {
            ticks.abort();
        }
        let held = self.counted.get().memory_bytes;
        self.figures.memory_bytes.add(held.wrapping_neg());
    }
}

fn make_callback(
    instance: &mut Instance,
    stream: StreamId,
    part: Part,
    end_of_stream: bool,
) -> Result<Action, Fault> {
    match part {
        Part::RequestHeaders => instance.on_request_headers(stream, end_of_stream),
        Part::RequestBody => instance.on_request_body(stream, end_of_stream),
        Part::RequestTrailers => instance.on_request_trailers(stream),
        Part::ResponseHeaders => instance.on_response_headers(stream, end_of_stream),
        Part::ResponseBody => instance.on_response_body(stream, end_of_stream),
        Part::ResponseTrailers => instance.on_response_trailers(stream),
    }
}

/// Calls the guest at its period, until it is aborted or the instance is gone.
async fn tick(live: Weak<Live>, period: Duration) {
    let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let Some(pace) = live.upgrade().map(|live| Rc::clone(&live.pace)) else {
            return;
        };
        pace.has_rested().await;
        let Some(live) = live.upgrade().filter(|live| live.is_alive()) else {
            return;
        };
        live.tell(Instance::on_tick);
    }
}
