//! What supervisor and workers know of one program.

use super::{
    Check, Output, ProgramError, Settings, consumption::Consumption, endpoint::Endpoint,
    guest::Recipe, supervisor::Order,
};
use crate::metrics::Fault;
use palisade_engine::lock::lock;
use palisade_wall::Report;
use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};
use tokio::sync::{Notify, watch};

/// One program.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) output: Arc<dyn Output>,
    /// Who is asked about each start.
    check: Mutex<Option<Arc<dyn Check>>>,
    /// How to get in. Only who has no open endpoint looks.
    pub(super) view: watch::Sender<View>,
    /// Requests that wait for an endpoint.
    waiting: AtomicUsize,
    /// Tells whoever looks after the program that one does.
    pub(super) wanted: Notify,
    /// What the supervisor is told once one does. Until then the program is nothing but this value.
    order: Mutex<Option<Order>>,
    /// It waits until other programs have made room for it.
    is_crowded: AtomicBool,
    /// What it had when it was looked at last.
    last_memory_bytes: AtomicU64,
    /// The running domain's first process; 0: none runs.
    pid: AtomicU32,
    /// Ends that it brought about itself, and starts that failed.
    deaths: AtomicU64,
    totals: Mutex<Totals>,
}

/// What was counted so far, less what runs now.
#[derive(Debug, Default)]
struct Totals {
    metrics: ProgramMetrics,
    /// The program in whose place this one is, until all of it has ended: counts go on through reloads.
    before: Option<Arc<Shared>>,
}

/// How to get in.
#[derive(Clone, Debug)]
pub(super) enum View {
    /// The program does not run; who wants it started says so.
    Idle,
    /// It is being started.
    Starting,
    /// By this endpoint.
    Open(Arc<Endpoint>),
    /// Not before this moment.
    Resting {
        until: Instant,
        /// Why it does not run.
        reason: Arc<str>,
        /// There is no point in waiting: it did not start, dies before it answers, or is left alone for long.
        is_hopeless: bool,
    },
    /// Never again.
    Gone,
}

/// What a program does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nobody needs it.
    #[default]
    Idle,
    /// It is being started.
    Starting,
    /// It runs.
    Running,
    /// It stands still: nobody needs it now.
    Frozen,
    /// It died or could not be started, and is started again in a while.
    Resting,
    /// Its service is gone.
    Ended,
}

/// What a program does, has done and has cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramMetrics {
    /// What it does now.
    pub state: State,
    /// Times that it was started.
    pub starts: u64,
    /// Those of them that came after an end which nobody asked for.
    pub restarts: u64,
    /// Ends that nobody asked for, and starts that failed.
    pub faults: u64,
    /// What it asked for and was not granted, as far as the reports of its ended processes tell.
    pub denials: u64,
    /// Processor time of all its processes in µs, those that run included.
    pub cpu_us: u64,
    /// Memory that is its own now, in bytes.
    pub memory_bytes: u64,
    /// The pid of its domain's first process on the host, while it runs.
    pub pid: Option<u32>,
    /// How it ended last, or why it did not start.
    pub last_end: Option<String>,
    /// The last end that nobody asked for, or start that failed.
    pub last_fault: Option<Fault>,
}

impl ProgramMetrics {
    /// Adds what the program before this one has done and has cost.
    fn add_earlier(&mut self, earlier: Self) {
        self.starts += earlier.starts;
        self.restarts += earlier.restarts;
        self.faults += earlier.faults;
        self.denials += earlier.denials;
        self.cpu_us += earlier.cpu_us;
        self.memory_bytes += earlier.memory_bytes;
        self.last_end = self.last_end.take().or(earlier.last_end);
        self.last_fault = self.last_fault.take().or(earlier.last_fault);
    }

    fn fail(&mut self, how: &str) {
        self.faults += 1;
        self.last_end = Some(how.to_owned());
        self.last_fault = Some(Fault {
            time: SystemTime::now(),
            message: how.to_owned(),
        });
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Shared")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(settings: Settings, output: Arc<dyn Output>) -> Self {
        Self {
            settings,
            output,
            check: Mutex::default(),
            view: watch::Sender::new(View::Idle),
            waiting: AtomicUsize::new(0),
            wanted: Notify::new(),
            order: Mutex::default(),
            is_crowded: AtomicBool::new(false),
            last_memory_bytes: AtomicU64::new(0),
            pid: AtomicU32::new(0),
            deaths: AtomicU64::new(0),
            totals: Mutex::default(),
        }
    }

    /// Whose it is; empty for the main file.
    pub(super) fn tenant(&self) -> &str {
        let name = self.settings.name.split_once('/');
        name.map_or("", |(tenant, _)| tenant)
    }

    /// Every step of a start, each time made anew: nothing of it is kept for a program that does not run.
    pub(super) fn recipe(&self) -> Result<Recipe, ProgramError> {
        Recipe::new(&self.settings, lock(&self.check).clone())
    }

    /// Whether somebody is asked about each start.
    pub(super) fn is_checked(&self) -> bool {
        lock(&self.check).is_some()
    }

    /// Has this one asked about each start from now on.
    pub(super) fn set_check(&self, check: Option<Arc<dyn Check>>) {
        *lock(&self.check) = check;
    }

    /// Counts a request that waits, until the guard is dropped.
    pub(super) fn wait_in_line(&self) -> InLine<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        InLine(self)
    }

    /// Whether requests wait.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// A request needs the program.
    pub(super) fn want(self: &Arc<Self>) {
        let order = lock(&self.order).take();
        match order {
            Some(order) => order.give(Arc::clone(self)),
            None => self.wanted.notify_one(),
        }
    }

    /// Keeps the order until somebody needs the program.
    pub(super) fn begin_with(self: &Arc<Self>, order: Order) {
        *lock(&self.order) = Some(order);
        // One may have come before.
        if self.is_wanted() {
            self.want();
        }
    }

    /// Nobody needs it any more, or will. Whoever looks after it finds that out by itself.
    pub(super) fn give_up(&self) {
        let never_begun = lock(&self.order).take().is_some();
        if never_begun {
            self.show(View::Gone);
            self.set_state(State::Ended);
        }
    }

    pub(super) fn set_crowded(&self, is_crowded: bool) {
        self.is_crowded.store(is_crowded, Ordering::Relaxed);
    }

    /// Whether it waits until other programs have made room.
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }

    pub(super) fn set_last_memory_bytes(&self, bytes: u64) {
        self.last_memory_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What it had when it was looked at last; 0 before that.
    pub(super) fn last_memory_bytes(&self) -> u64 {
        self.last_memory_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn show(&self, view: View) {
        self.view.send_replace(view);
    }

    /// Goes on with what `before` has counted and will.
    pub(super) fn succeed(&self, before: &Arc<Self>) {
        self.totals().before = Some(Arc::clone(before));
    }

    pub(super) fn metrics(&self) -> ProgramMetrics {
        let (mut metrics, before) = self.totals_now();
        metrics.pid = Some(self.pid.load(Ordering::Acquire)).filter(|pid| *pid != 0);
        // A pid that is another's by now is the price of not asking the supervisor: metrics, no verdict.
        if let Some(used) = metrics.pid.and_then(Consumption::of_tree) {
            metrics.cpu_us += used.cpu_us();
            metrics.memory_bytes = used.memory_bytes;
        }
        if let Some(before) = before {
            metrics.add_earlier(before.metrics());
        }
        metrics
    }

    /// What was counted, and who still counts beside this one. Of whom nothing is left, the account is taken over.
    fn totals_now(&self) -> (ProgramMetrics, Option<Arc<Self>>) {
        let mut totals = self.totals();
        if let Some(ended) = totals.before.take_if(|before| before.has_ended()) {
            totals.metrics.add_earlier(ended.metrics());
        }
        (totals.metrics.clone(), totals.before.clone())
    }

    fn has_ended(&self) -> bool {
        self.totals().metrics.state == State::Ended
    }

    pub(super) fn set_state(&self, state: State) {
        self.totals().metrics.state = state;
    }

    /// How often it has died or could not be started.
    pub(super) fn deaths(&self) -> u64 {
        self.deaths.load(Ordering::Acquire)
    }

    /// Why it is not there, as far as is known, and when to come again.
    pub(super) fn reason(&self) -> (Arc<str>, Duration) {
        match &*self.view.borrow() {
            View::Resting { until, reason, .. } => (
                Arc::clone(reason),
                until.saturating_duration_since(Instant::now()),
            ),
            _ => {
                let last_end = self.totals().metrics.last_end.clone();
                let last_end = last_end.unwrap_or_else(|| "does not run".into());
                let reason = format!("guest: {} {last_end}", self.settings.name);
                (reason.into(), Duration::ZERO)
            }
        }
    }

    /// A process was started.
    pub(super) fn started(&self, pid: u32, is_restart: bool) {
        self.pid.store(pid, Ordering::Release);
        let metrics = &mut self.totals().metrics;
        metrics.starts += 1;
        metrics.restarts += u64::from(is_restart);
        metrics.state = State::Running;
    }

    /// It has ended: here is its account.
    pub(super) fn ended(&self, pid: u32, report: Option<&Report>) {
        // A newer one may run already.
        let _ = self
            .pid
            .compare_exchange(pid, 0, Ordering::AcqRel, Ordering::Relaxed);
        let Some(report) = report else {
            return;
        };
        let counts = report.denials.iter();
        let counts = counts.map(|denial| denial.count.unwrap_or(1));
        let metrics = &mut self.totals().metrics;
        metrics.cpu_us += report.usage.user_us + report.usage.system_us;
        metrics.denials += counts.sum::<u64>();
    }

    /// An end came as it was asked for.
    pub(super) fn left(&self, how: &str) {
        self.totals().metrics.last_end = Some(how.to_owned());
    }

    /// An end came that nobody asked for, or it was ended for what it did.
    pub(super) fn failed(&self, how: &str) {
        self.totals().metrics.fail(how);
    }

    /// It died by itself, or could not be started.
    pub(super) fn died(&self, how: &str) {
        self.failed(how);
        self.deaths.fetch_add(1, Ordering::Release);
    }

    fn totals(&self) -> MutexGuard<'_, Totals> {
        // Numbers: a panic elsewhere leaves them whole.
        lock(&self.totals)
    }
}

/// One request that waits.
#[derive(Debug)]
pub(super) struct InLine<'a>(&'a Shared);

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
