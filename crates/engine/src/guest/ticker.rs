//! Time of calls: one thread for all guests of the process, which sleeps while none of them is called.
//!
//! ```text
//!              a call with a limit begins                    100 ms without one
//!  asleep ────────────────────────────────▶ ticking, 1 ms ────────────────────▶ asleep
//!     └───────────── no guest with a limit left: the thread ends ◀──┘
//! ```
//!
//! Ticks are made several at once where every limit is so long that it makes no difference: each time that the thread
//! wakes up costs whoever has the processor some µs.
//!
//! Where somebody computes for longer than others should wait for their turns, each tick is made by itself for a while.
//!
//! A call costs two atomic operations on a counter of its thread's own and a look at a clock, and makes a system call
//! only where the thread has to be woken.

use crate::lock::lock;
use rustix::time::{ClockId, clock_getres, clock_gettime};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use wasmtime::Engine;

/// How often the counter goes on that guests look at.
const TICK: Duration = Duration::from_millis(1);
const TICK_NS: u64 = TICK.as_nanos() as u64;
/// How many times a call of the shortest limit sees the thread wake up, at least.
const WAKES: u64 = 16;
/// Ticks that are made at once at most.
const MOST_AT_ONCE: u64 = 8;
/// How long ticks are made one by one after somebody has asked for it.
const FINE_NS: u64 = 200_000_000;

/// Ticks without a call after which the thread sleeps. A server under load never lets it.
const IDLE_TICKS: u64 = 100;

static TICKER: Ticker = Ticker {
    state: Mutex::new(State {
        clocks: Vec::new(),
        limits: BTreeMap::new(),
        is_running: false,
    }),
    wake: Condvar::new(),
    is_asleep: AtomicBool::new(true),
    last_ns: AtomicU64::new(0),
    fine_until_ns: AtomicU64::new(0),
};

thread_local! {
    /// The clock of this thread's calls, for each engine.
    static OF_THREAD: RefCell<Vec<Weak<Registered>>> = const { RefCell::new(Vec::new()) };
}

/// Limits the time of a guest's calls.
pub struct Timer {
    clock: Arc<Registered>,
    limit: Arc<Limit>,
    /// So many times the limit.
    times: u64,
    /// Which clock tells how late the ticker is.
    watch: ClockId,
}

/// How long calls may take, as the ticker knows until this goes.
struct Limit {
    ticks: u64,
}

/// A clock that the ticker knows, until this goes.
struct Registered(Arc<Clock>);

/// What the ticker knows of the guests of a thread.
struct Clock {
    engine: Engine,
    /// Calls that run now.
    running: AtomicUsize,
}

impl Clock {
    fn new(engine: &Engine) -> Self {
        Self {
            engine: engine.clone(),
            running: AtomicUsize::new(0),
        }
    }
}

/// A call that runs.
pub struct Running<'a>(&'a Clock);

thread_local! {
    static STRETCH: Cell<u64> = const { Cell::new(1) };
}

/// Gives calls of instances that this thread makes from now on so many times their limit by the clock: for a thread that is
/// without a processor for most of the time.
pub fn stretch(times: u32) {
    STRETCH.set(times.max(1).into());
}

impl Timer {
    /// A limit of so much time for each call of a guest of this engine.
    ///
    /// # Errors
    ///
    /// The first of the process starts a thread, which can fail.
    pub fn new(engine: &Engine, time: Duration) -> io::Result<Self> {
        let (watch, slack) = watch_for(ticks(time));
        let timer = Self {
            clock: Arc::new(Registered::new(engine)),
            limit: Arc::new(Limit::new(ticks(time) + slack)),
            times: 1,
            watch,
        };
        TICKER.run()?;
        Ok(timer)
    }

    /// One of the same limit, for an instance that this thread calls: it counts where the thread's other
    /// instances do, and no other thread writes.
    pub fn of_thread(&self) -> Self {
        // The ticker's thread runs: `self` is one that it runs for.
        let engine = &self.clock.0.engine;
        let clock = OF_THREAD
            // `Err` only while the thread ends.
            .try_with(|clocks| find_or_register(&mut clocks.borrow_mut(), engine))
            .unwrap_or_else(|_| Arc::new(Registered::new(engine)));
        Self {
            clock,
            limit: Arc::clone(&self.limit),
            times: STRETCH.get(),
            watch: self.watch,
        }
    }

    /// Ticks from now at which the time of a call is up that has started. Those that are due and not made yet
    /// are no part of its time: a ticker that is late makes them all at once.
    pub fn ticks(&self) -> u64 {
        let last_ns = TICKER.last_ns.load(Ordering::Acquire);
        let late_ns = now_ns(self.watch).saturating_sub(last_ns);
        self.limit.ticks.saturating_mul(self.times) + late_ns / TICK_NS
    }

    /// Keeps the ticker awake while a call runs.
    pub fn start(&self) -> Running<'_> {
        // In one order with the ticker's own store and load: either it sees this call, or this call sees
        // that it sleeps.
        let clock = &self.clock.0;
        clock.running.fetch_add(1, Ordering::SeqCst);
        if TICKER.is_asleep.load(Ordering::SeqCst) {
            TICKER.wake();
        }
        Running(clock)
    }
}

impl std::fmt::Debug for Timer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Timer")
            .field("ticks", &self.limit.ticks)
            .finish_non_exhaustive()
    }
}

impl Limit {
    fn new(ticks: u64) -> Self {
        TICKER.bound(ticks);
        Self { ticks }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        TICKER.unbound(self.ticks);
    }
}

impl Registered {
    fn new(engine: &Engine) -> Self {
        let clock = Arc::new(Clock::new(engine));
        TICKER.add(Arc::clone(&clock));
        Self(clock)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        TICKER.remove(&self.0);
    }
}

fn find_or_register(clocks: &mut Vec<Weak<Registered>>, engine: &Engine) -> Arc<Registered> {
    let mut found = clocks.iter().filter_map(Weak::upgrade);
    if let Some(clock) = found.find(|clock| Engine::same(&clock.0.engine, engine)) {
        return clock;
    }
    clocks.retain(|clock| clock.strong_count() > 0);
    let clock = Arc::new(Registered::new(engine));
    clocks.push(Arc::downgrade(&clock));
    clock
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Release);
    }
}

/// The clock for a limit of so many ticks, and by how many ticks it can be behind. To look at the exact one costs as
/// much as to call a guest; the other one does where so much more does not matter.
fn watch_for(ticks: u64) -> (ClockId, u64) {
    let resolution = clock_getres(ClockId::MonotonicCoarse);
    let behind = (resolution.tv_nsec as u64).div_ceil(TICK_NS);
    let is_fine = resolution.tv_sec == 0 && ticks >= behind * 16;
    match is_fine {
        true => (ClockId::MonotonicCoarse, behind),
        false => (ClockId::Monotonic, 0),
    }
}

/// The tick under way when a call begins may be all but over, so that one more is due.
fn ticks(time: Duration) -> u64 {
    let whole = time.as_nanos().div_ceil(TICK.as_nanos());
    u64::try_from(whole)
        .unwrap_or(u64::MAX / 2)
        .min(u64::MAX / 2)
        + 1
}

/// The monotonic clock, as of the last tick: two loads while guests are called. What a call takes is measured by it to a
/// few ticks.
pub fn ticked_ns() -> u64 {
    match TICKER.is_asleep.load(Ordering::Acquire) {
        true => now_ns(ClockId::MonotonicCoarse),
        false => TICKER.last_ns.load(Ordering::Acquire),
    }
}

struct Ticker {
    state: Mutex<State>,
    /// A call begins, or a guest goes.
    wake: Condvar,
    /// Nobody makes ticks.
    is_asleep: AtomicBool,
    /// When the last tick that was made was due: [`now_ns`] of the monotonic clock.
    last_ns: AtomicU64,
    /// Until then no two ticks are made at once.
    fine_until_ns: AtomicU64,
}

/// Has ticks made one by one for a while: a guest that computes is to give others their turn soon.
pub fn tick_finely() {
    let until_ns = TICKER.last_ns.load(Ordering::Relaxed) + FINE_NS;
    TICKER.fine_until_ns.store(until_ns, Ordering::Relaxed);
}

fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

struct State {
    clocks: Vec<Arc<Clock>>,
    /// How many timers have a limit of so many ticks.
    limits: BTreeMap<u64, usize>,
    is_running: bool,
}

impl Ticker {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn add(&self, clock: Arc<Clock>) {
        self.lock().clocks.push(clock);
    }

    /// Calls may take so many ticks. The thread may have to wake up sooner than it thought.
    fn bound(&self, ticks: u64) {
        *self.lock().limits.entry(ticks).or_default() += 1;
        self.wake.notify_one();
    }

    fn unbound(&self, ticks: u64) {
        let mut state = self.lock();
        if let Some(count) = state.limits.get_mut(&ticks) {
            *count -= 1;
            if *count == 0 {
                state.limits.remove(&ticks);
            }
        }
    }

    /// Starts the thread, unless it runs.
    fn run(&'static self) -> io::Result<()> {
        let mut state = self.lock();
        if !state.is_running {
            self.last_ns
                .store(now_ns(ClockId::Monotonic), Ordering::SeqCst);
            std::thread::Builder::new()
                .name("palisade-ticker".into())
                .spawn(|| self.tick_until_unused())?;
            state.is_running = true;
            self.is_asleep.store(false, Ordering::SeqCst);
        }
        Ok(())
    }

    fn remove(&self, clock: &Arc<Clock>) {
        let mut state = self.lock();
        state.clocks.retain(|other| !Arc::ptr_eq(other, clock));
        if state.clocks.is_empty() {
            self.wake.notify_one();
        }
    }

    /// The first call after a sleep starts the clock anew.
    #[cold]
    fn wake(&self) {
        let _state = self.lock();
        if self.is_asleep.load(Ordering::SeqCst) {
            self.last_ns
                .store(now_ns(ClockId::Monotonic), Ordering::SeqCst);
            self.is_asleep.store(false, Ordering::SeqCst);
            self.wake.notify_one();
        }
    }

    fn tick_until_unused(&self) {
        let mut state = self.lock();
        let mut idle = 0;
        while !state.clocks.is_empty() {
            let is_fine =
                self.last_ns.load(Ordering::Relaxed) < self.fine_until_ns.load(Ordering::Relaxed);
            let at_once = if is_fine { 1 } else { state.at_once() };
            idle = if state.has_calls() { 0 } else { idle + at_once };
            if idle > IDLE_TICKS {
                state = self.sleep(state);
                idle = 0;
                continue;
            }
            let due_ns = self.last_ns.load(Ordering::Relaxed) + at_once * TICK_NS;
            let wait_ns = due_ns.saturating_sub(now_ns(ClockId::Monotonic));
            if wait_ns > 0 {
                let wait = Duration::from_nanos(wait_ns);
                let waited = self.wake.wait_timeout(state, wait);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            self.make_due_ticks(&state);
        }
        self.is_asleep.store(true, Ordering::SeqCst);
        state.is_running = false;
    }

    /// As many ticks as are due: a thread that came late must not make calls longer.
    fn make_due_ticks(&self, state: &State) {
        let mut last_ns = self.last_ns.load(Ordering::Relaxed);
        while last_ns + TICK_NS <= now_ns(ClockId::Monotonic) {
            last_ns += TICK_NS;
            state.tick();
            // After the tick: who sees the old time and the new tick ends late, not early.
            self.last_ns.store(last_ns, Ordering::Release);
        }
    }

    /// Waits for a call, or for the last guest to go.
    fn sleep<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.is_asleep.store(true, Ordering::SeqCst);
        if state.has_calls() {
            // It began before it could see that this thread sleeps: the clock has to go on for it.
            self.is_asleep.store(false, Ordering::SeqCst);
            return state;
        }
        while !state.clocks.is_empty() && self.is_asleep.load(Ordering::SeqCst) {
            let woken = self.wake.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        self.is_asleep.store(false, Ordering::SeqCst);
        state
    }
}

impl State {
    fn has_calls(&self) -> bool {
        self.clocks
            .iter()
            .any(|clock| clock.running.load(Ordering::SeqCst) > 0)
    }

    /// Ticks that may be made at once: few to every limit.
    fn at_once(&self) -> u64 {
        let shortest = self.limits.keys().next().copied().unwrap_or(0);
        (shortest / WAKES).clamp(1, MOST_AT_ONCE)
    }

    /// One tick of each engine, however many guests it has.
    fn tick(&self) {
        for (index, clock) in self.clocks.iter().enumerate() {
            let is_first = !self.clocks[..index]
                .iter()
                .any(|other| Engine::same(&other.engine, &clock.engine));
            if is_first {
                clock.engine.increment_epoch();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_made_at_once_where_every_limit_is_long() {
        let at_once = |limits: &[u64]| {
            let state = State {
                clocks: Vec::new(),
                limits: limits.iter().map(|ticks| (*ticks, 1)).collect(),
                is_running: true,
            };
            state.at_once()
        };
        assert_eq!(at_once(&[]), 1);
        assert_eq!(at_once(&[5, 10_000]), 1, "the shortest decides");
        assert_eq!(at_once(&[105, 10_000]), 6);
        assert_eq!(at_once(&[10_000]), MOST_AT_ONCE);
    }

    #[test]
    fn a_limit_counts_as_long_as_it_is_there() {
        // Of a length that nobody else has in this process.
        const TICKS: u64 = 123_456_789;
        let count = || TICKER.lock().limits.get(&TICKS).copied();
        let one = Limit::new(TICKS);
        let other = Limit::new(TICKS);
        assert_eq!(count(), Some(2));
        drop(one);
        assert_eq!(count(), Some(1));
        drop(other);
        assert_eq!(count(), None);
    }
}
