//! How much each tenant may use of what all have together, and what it uses now.
//!
//! ```text
//!  [tenants.quotas] ──▶ Quota of one tenant, for all workers
//!                         │ a request begins ──admit──▶ InFlight, until it is over
//!                         │                        └──▶ Refused: 429 or 503, when to come again
//!                         │ code has run ──use_processor──▶ paid back as time passes
//!                         └ a line is written ──allows_line──▶ or dropped
//! ```
//!
//! A quota lives as long as its tenant and goes on through reloads, which change its bounds and not what is counted.
//! Nothing of it is shared between tenants, so that whoever is past his own delays nobody else's requests.

pub(crate) mod bucket;
mod slow;
#[cfg(test)]
mod tests;

use crate::{
    config::{DEFAULT_WEIGHT, Quotas as Bounds},
    responses,
};
use bucket::Bucket;
use http::{Response, StatusCode};
use palisade_engine::{growth::MemoryPool, lock::lock};
use rustix::time::{ClockId, clock_gettime};
use slow::Slow;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Tenants that have series of their own in the metrics of refusals: the first that were refused anything.
const MOST_SERIES: usize = 64;
/// A log's burst, in bytes: one line of the greatest length, whatever the rate is.
const LEAST_LOG_BURST: u64 = 64 << 10;

/// What can be bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// Requests under way.
    Requests,
    /// Requests begun in a second.
    Rate,
    /// Time of processors.
    Processor,
    /// Memory of instances.
    Memory,
    /// Programs alive.
    Domains,
    /// Log lines.
    Logs,
}

impl What {
    pub(crate) const ALL: [Self; 6] = [
        Self::Requests,
        Self::Rate,
        Self::Processor,
        Self::Memory,
        Self::Domains,
        Self::Logs,
    ];

    /// The key of the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Rate => "rate",
            Self::Processor => "processor",
            Self::Memory => "memory",
            Self::Domains => "domains",
            Self::Logs => "logs",
        }
    }
}

/// Whoever asks has as much as he may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) what: What,
    /// When it is worth to come again.
    pub(crate) wait: Duration,
}

impl Refused {
    pub(crate) fn response(self) -> Response<crate::body::Body> {
        let (status, text) = match self.what {
            What::Rate => (StatusCode::TOO_MANY_REQUESTS, "too many requests\n"),
            _ => (
                StatusCode::SERVICE_UNAVAILABLE,
                "what is asked for has used as much as it may for now\n",
            ),
        };
        let seconds = self.wait.as_millis().div_ceil(1000).clamp(1, 3600);
        responses::with_retry_after(responses::plain(status, text), seconds as u64)
    }
}

/// One tenant's, for all workers.
#[derive(Debug)]
pub(crate) struct Quota {
    tenant: Arc<str>,
    /// Whether requests are looked at when they begin.
    is_bounded: AtomicBool,
    requests: AtomicU32,
    most_requests: AtomicU32,
    rate: Bucket,
    processor: Bucket,
    logs: Bucket,
    weight: AtomicU32,
    most_domains: AtomicUsize,
    memory: Arc<MemoryPool>,
    /// Time of processors that was used, in ns.
    used_ns: AtomicU64,
    /// By [`What::ALL`]; of memory its pool knows.
    refused: [AtomicU64; What::ALL.len()],
    has_series: OnceLock<bool>,
    series: Arc<Series>,
    /// What of its lines waits to be written, in bytes.
    queued_bytes: AtomicUsize,
    slow: Slow,
}

/// A request under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Quota>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Quota {
    fn new(tenant: Arc<str>, series: Arc<Series>) -> Self {
        Self {
            tenant,
            is_bounded: AtomicBool::new(false),
            requests: AtomicU32::new(0),
            most_requests: AtomicU32::new(u32::MAX),
            rate: Bucket::default(),
            processor: Bucket::default(),
            logs: Bucket::default(),
            weight: AtomicU32::new(DEFAULT_WEIGHT),
            most_domains: AtomicUsize::new(usize::MAX),
            memory: Arc::default(),
            used_ns: AtomicU64::new(0),
            refused: Default::default(),
            has_series: OnceLock::new(),
            series,
            queued_bytes: AtomicUsize::new(0),
            slow: Slow::default(),
        }
    }

    /// Sets other bounds. Whatever is counted goes on.
    pub(crate) fn set(&self, bounds: &Bounds) {
        let requests = bounds.requests.unwrap_or(u32::MAX);
        self.most_requests.store(requests, Ordering::Relaxed);
        self.rate.set(bounds.rate, bounds.burst.or(bounds.rate));
        // A second's worth may be used at once.
        self.processor.set(bounds.processor_ns, bounds.processor_ns);
        let log_burst = bounds.log_bytes.map(|bytes| bytes.max(LEAST_LOG_BURST));
        self.logs.set(bounds.log_bytes, log_burst);
        let weight = bounds.weight.unwrap_or(DEFAULT_WEIGHT);
        self.weight.store(weight, Ordering::Relaxed);
        let domains = bounds.domains.unwrap_or(usize::MAX);
        self.most_domains.store(domains, Ordering::Relaxed);
        self.memory
            .set_most(bounds.memory_bytes.unwrap_or(usize::MAX));
        let is_bounded =
            bounds.requests.is_some() || bounds.rate.is_some() || bounds.processor_ns.is_some();
        self.is_bounded.store(is_bounded, Ordering::Relaxed);
    }

    /// Lets a request begin; `None`: nothing about requests is bounded, and none is counted.
    ///
    /// # Errors
    /// The tenant has as much as it may have.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Option<InFlight>, Refused> {
        if !self.is_bounded.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.admit_at(now_ns())
            .map(Some)
            .inspect_err(|refused| self.count_refused(refused.what))
    }

    fn admit_at(self: &Arc<Self>, now_ns: u64) -> Result<InFlight, Refused> {
        let refuse = |what, wait| Refused { what, wait };
        let before = self.requests.fetch_add(1, Ordering::Relaxed);
        let in_flight = InFlight(Arc::clone(self));
        if before >= self.most_requests.load(Ordering::Relaxed) {
            return Err(refuse(What::Requests, Duration::from_secs(1)));
        }
        let busy = self.processor.wait_at(now_ns);
        if let Some(wait) = busy {
            return Err(refuse(What::Processor, wait));
        }
        // The last: who is refused for something else has not spent it.
        self.rate
            .take_at(1, now_ns)
            .map_err(|wait| refuse(What::Rate, wait))?;
        Ok(in_flight)
    }

    /// Its code has used so much time of a processor.
    pub(crate) fn use_processor(&self, ns: u64) {
        self.used_ns.fetch_add(ns, Ordering::Relaxed);
        if self.processor.is_bounded() {
            self.processor.charge_at(ns, now_ns());
        }
    }

    #[cfg(test)]
    pub(crate) fn used_ns(&self) -> u64 {
        self.used_ns.load(Ordering::Relaxed)
    }

    /// How long its code is to wait for a processor because it has used more than it may; `None`: it may go on.
    pub(crate) fn processor_wait(&self) -> Option<Duration> {
        self.processor.wait_at_now()
    }

    /// Whether the time of processors is bounded, and so to be measured by what was really used.
    pub(crate) fn measures_processor(&self) -> bool {
        self.processor.is_bounded()
    }

    /// Whether a line of so many bytes may be written.
    pub(crate) fn allows_line(&self, bytes: usize) -> bool {
        if !self.logs.is_bounded() {
            return true;
        }
        let may = self.logs.take_at(bytes as u64, now_ns()).is_ok();
        if !may {
            self.count_refused(What::Logs);
        }
        may
    }

    /// A callback of its filters took long: so much of a processor. The main file's are the operator's own, and stay where they are.
    #[cold]
    pub(crate) fn note_slow(&self, used: Duration) {
        if !self.tenant.is_empty() {
            let used_us = u64::try_from(used.as_micros()).unwrap_or(u64::MAX);
            self.slow.note_at(used_us, ticked_ms());
        }
    }

    /// Whether its filters are to be asked aside.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow.ever_was() && self.slow.is_at(ticked_ms())
    }

    /// How much of a processor it has where others want it too.
    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed).max(1)
    }

    /// What its instances have their memory of.
    pub(crate) fn memory(&self) -> &Arc<MemoryPool> {
        &self.memory
    }

    /// Programs that may be alive at one time.
    pub(crate) fn most_domains(&self) -> usize {
        self.most_domains.load(Ordering::Relaxed)
    }

    pub(crate) fn tenant(&self) -> &Arc<str> {
        &self.tenant
    }

    /// Something was not given.
    #[cold]
    pub(crate) fn count_refused(&self, what: What) {
        self.refused[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// What of its lines waits to be written, in bytes.
    pub(crate) fn queued_bytes(&self) -> &AtomicUsize {
        &self.queued_bytes
    }

    fn refused(&self) -> Counts {
        What::ALL.map(|what| match what {
            What::Memory => self.memory.refused(),
            what => self.refused[what as usize].load(Ordering::Relaxed),
        })
    }

    /// How it stands now.
    pub(crate) fn standing(&self) -> Standing {
        let refused = self.refused();
        // Once it has been told one way it stays so: no counter goes down.
        let has_series = refused.iter().any(|count| *count > 0)
            && *self.has_series.get_or_init(|| self.series.take());
        Standing {
            tenant: Arc::clone(&self.tenant),
            requests: self.requests.load(Ordering::Relaxed),
            used_ns: self.used_ns.load(Ordering::Relaxed),
            memory_bytes: self.memory.used_bytes() as u64,
            refused,
            has_series,
        }
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        match self.has_series.get() {
            Some(true) => self.series.give_back(),
            _ => self.series.keep(self.refused()),
        }
    }
}

/// How often something was refused, by [`What::ALL`].
pub(crate) type Counts = [u64; What::ALL.len()];

/// What one tenant uses now and was refused so far.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) tenant: Arc<str>,
    /// Requests under way, if anything about requests is bounded.
    pub(crate) requests: u32,
    /// Time of processors that its filters and components used, in ns.
    pub(crate) used_ns: u64,
    /// Memory of their instances.
    pub(crate) memory_bytes: u64,
    /// By [`What::ALL`].
    pub(crate) refused: Counts,
    /// It has series of its own.
    pub(crate) has_series: bool,
}

/// How many tenants have series of their own, and what those without were refused that are gone.
#[derive(Debug, Default)]
struct Series {
    taken: AtomicUsize,
    gone: Mutex<Counts>,
}

impl Series {
    fn take(&self) -> bool {
        let taken = |count: usize| (count < MOST_SERIES).then_some(count + 1);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken)
            .is_ok()
    }

    fn give_back(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    fn keep(&self, refused: Counts) {
        if refused != Counts::default() {
            add(&mut lock(&self.gone), &refused);
        }
    }
}

fn add(sum: &mut Counts, more: &Counts) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

/// Those of all tenants, by their names.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    all: Mutex<BTreeMap<Arc<str>, Weak<Quota>>>,
    series: Arc<Series>,
}

impl Quotas {
    /// The quota of a tenant, which is the same one for as long as anybody has it. The main file's name is empty.
    pub(crate) fn of(&self, tenant: &str) -> Arc<Quota> {
        let mut all = lock(&self.all);
        if let Some(quota) = all.get(tenant).and_then(Weak::upgrade) {
            return quota;
        }
        let name: Arc<str> = tenant.into();
        let quota = Arc::new(Quota::new(Arc::clone(&name), Arc::clone(&self.series)));
        all.insert(name, Arc::downgrade(&quota));
        quota
    }

    /// How all of them stand, in the order of their names. The main file's is not among them.
    pub(crate) fn standings(&self) -> Vec<Standing> {
        let mut all = lock(&self.all);
        all.retain(|_, quota| quota.strong_count() > 0);
        let quotas = all.iter().filter(|(name, _)| !name.is_empty());
        let quotas: Vec<_> = quotas.filter_map(|(_, quota)| quota.upgrade()).collect();
        drop(all);
        quotas.iter().map(|quota| quota.standing()).collect()
    }

    /// What those were refused that have no series of their own, those that are gone included.
    pub(crate) fn others(&self, standings: &[Standing]) -> Counts {
        let mut sum = *lock(&self.series.gone);
        for standing in standings.iter().filter(|standing| !standing.has_series) {
            add(&mut sum, &standing.refused);
        }
        sum
    }
}

/// As of the last tick: no look at a clock.
fn ticked_ms() -> u64 {
    palisade_engine::guest::ticked_ns() / 1_000_000
}

/// The monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
