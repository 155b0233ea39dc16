//! The filters of one worker: their instances, and what these ask of the server.
//!
//! ```text
//!  WorkerFilter ──▶ FilterInstance ◀── Slot of a Flow (`chain`)
//!  a filter on      what runs          a filter's stream
//!  this worker      its code           of one request
//!    ▲                                  │
//!    └────────── FilterHandle ◀─────────┘
//! ```
//!
//! A fresh instance whose request is over is [`spent`].
//!
//! An instance that faulted is out of use from then on. The request that it faulted over is treated as
//! `on-failure` says. Others that have a stream in it go on in a new instance: what a filter had begun to do with
//! their headers it does once more, and what it had finished stays done.

mod handle;
mod instance;
mod link;
mod pace;
pub(crate) mod reach;
mod resting;
pub(crate) mod spent;
mod surroundings;
mod trial;

pub(crate) use handle::{FilterHandle, left};
pub(crate) use instance::{FilterInstance, Finished, HandOver};
pub(crate) use link::FilterLink;
pub(crate) use pace::Pace;

use crate::{
    budget::Budget,
    client::Client,
    code::{NotReady, OnDemand},
    config::{Isolation, OnFailure, Server},
    kinds::Level,
    log::{Line, Log},
    metrics::{GuestMetrics, State},
    turns::Party,
};
use palisade_engine::permits::{NoPermit, Permit, Permits, Share};
use palisade_filter::{Fault, FaultKind, Filter, Instance, Notify};
use palisade_network::{Network, SystemResolver};
use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    sync::Arc,
};
use surroundings::{Calls, Mail, Surroundings};

/// A filter as the configuration has it: the same for all workers.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Code and settings.
    pub(crate) code: Arc<OnDemand<FilterLink>>,
    /// What a request finds of those before it.
    pub(crate) isolation: Isolation,
    /// Its instances on each worker, if it is not kept.
    pub(crate) share: Share,
    /// Kept instances of all filters on a worker.
    pub(crate) most_kept: usize,
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
pub(crate) struct WorkerFilter {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) metrics: Arc<GuestMetrics>,
    pub(crate) client: Client,
    /// The kept one.
    instance: RefCell<Option<Rc<FilterInstance>>>,
    /// Of instances that requests have for themselves.
    permits: Rc<Permits>,
    pub(crate) pace: Rc<Pace>,
    has_started: Cell<bool>,
    /// When the kept instance was asked for last, as `resting` counts.
    used: Cell<u64>,
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

impl WorkerFilter {
    fn new(loaded: &Arc<Loaded>, metrics: Arc<GuestMetrics>, party: &Rc<Party>) -> Rc<Self> {
        let resolver = Arc::new(SystemResolver::default());
        Rc::new(Self {
            loaded: Arc::clone(loaded),
            metrics,
            // Of its own: no other guest's connections, and no names but those that are granted.
            client: Client::new(reach::settings(&loaded.rules, resolver)),
            instance: RefCell::default(),
            permits: Permits::new(loaded.share),
            pace: Rc::new(Pace::new(loaded.slow_share, party)),
            has_started: Cell::new(false),
            used: Cell::new(0),
            notifier: OnceCell::new(),
            calls: Calls::default(),
        })
    }

    /// Its code, if that takes no waiting; else it is to be waited for by [`WorkerFilter::code`].
    pub(crate) fn code_at_once(&self) -> Option<Result<Filter, NoInstance>> {
        // It is loaded for as long as an instance of it is there, and takes no lock that other workers take.
        if let Some(instance) = &*self.instance.borrow() {
            self.loaded.code.note_used();
            return Some(Ok(instance.code()));
        }
        let code = self.loaded.code.get_at_once()?;
        Some(code.map_err(|why| self.note_not_ready(&why)))
    }

    /// Its code, loaded or compiled if need be.
    pub(crate) async fn code(&self) -> Result<Filter, NoInstance> {
        self.metrics.set_state(State::Starting);
        let code = self.loaded.code.get().await;
        code.map_err(|why| self.note_not_ready(&why))
    }

    #[cold]
    fn note_not_ready(&self, why: &NotReady) -> NoInstance {
        match why {
            NotReady::Broken(error) => {
                self.metrics.set_state(State::Broken);
                self.metrics.fault(error.to_string());
                NoInstance::Failed
            }
            NotReady::Compiling => NoInstance::Busy,
        }
    }

    /// The instance of its code for a stream that begins. `permit`: what was waited for, if there was.
    pub(crate) fn instance(
        self: &Rc<Self>,
        code: &Filter,
        permit: Option<Permit>,
    ) -> Result<Rc<FilterInstance>, NoInstance> {
        if self.pace.rest().is_some() {
            self.say_busy(self.pace.why());
            return Err(NoInstance::Busy);
        }
        if self.loaded.isolation == Isolation::Fresh {
            if self.loaded.budget.is_at_rest() {
                return Err(NoInstance::Failed);
            }
            spent::make_room();
            let Some(permit) = permit.or_else(|| self.permits.take_free()) else {
                self.say_busy(NoPermit(self.loaded.share));
                return Err(NoInstance::Busy);
            };
            return self.start(code, Some(permit));
        }
        self.used.set(resting::tick());
        if let Some(instance) = &*self.instance.borrow() {
            return Ok(Rc::clone(instance));
        }
        if self.loaded.budget.is_at_rest() {
            return Err(NoInstance::Failed);
        }
        resting::note(self, self.loaded.most_kept);
        spent::make_room();
        let instance = self.start(code, None)?;
        *self.instance.borrow_mut() = Some(Rc::clone(&instance));
        Ok(instance)
    }

    /// The kept instance, for a request that begins and of which it inspects the heads alone.
    pub(crate) fn instance_for_heads(&self) -> Option<Rc<FilterInstance>> {
        let instance = self.instance.borrow();
        let instance = instance.as_ref()?;
        if instance.inspects_response_body {
            return None;
        }
        self.loaded.code.note_used();
        self.used.set(resting::tick());
        Some(Rc::clone(instance))
    }

    /// The permits, where a request is to wait for one before it asks for an instance.
    pub(crate) fn exhausted_permits(&self) -> Option<Rc<Permits>> {
        let waits = self.loaded.isolation == Isolation::Fresh
            && !self.permits.has_free()
            && self.pace.rest().is_none()
            && !self.loaded.budget.is_at_rest();
        waits.then(|| Rc::clone(&self.permits))
    }

    #[cold]
    fn say_busy(&self, why: impl std::fmt::Display) {
        if let Some(requests) = self.permits.refuse() {
            let text = format!("{why} (requests refused: {requests})");
            self.loaded.log.write(Line::new(Level::Warn, text));
        }
    }

    /// Starts an instance.
    fn start(
        self: &Rc<Self>,
        code: &Filter,
        permit: Option<Permit>,
    ) -> Result<Rc<FilterInstance>, NoInstance> {
        let mail = Rc::new(Mail::default());
        let surroundings = Rc::new(Surroundings::new(&self.loaded, &mail, &self.calls));
        let notifier = self.notifier.get_or_init(|| surroundings::notifier(self));
        if self.has_started.replace(true) && self.loaded.isolation == Isolation::Kept {
            self.metrics.restarts.add(1);
        }
        let notify = Some(Arc::clone(notifier));
        let started = self
            .pace
            .measure(|| Instance::start(code, surroundings, notify));
        match started {
            Ok(guest) => {
                self.metrics.set_state(State::Ready);
                Ok(FilterInstance::new(self, guest, permit, mail))
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
        self.metrics.fault(fault.to_string());
        let log = &self.loaded.log;
        log.write(Line::new(Level::Error, fault.to_string()));
        // What the host could not do is none of the filter's doing.
        if fault.kind == FaultKind::Host {
            return;
        }
        if let Some(rest) = self.loaded.budget.spend() {
            let why = format!("more faults than its budget allows: out of use for {rest:?}");
            log.write(Line::new(Level::Error, why));
            self.metrics.set_state(State::Resting);
        }
    }

    /// Tells the instance that a queue of its has something in it.
    fn queue_ready(self: &Rc<Self>, queue: u32) {
        let instance = self.instance.borrow().clone();
        if let Some(instance) = instance {
            instance.tell(|guest| guest.on_queue_ready(queue));
        }
    }
}
