//! Time of calls: one thread for all guests of the process, which sleeps while none of them is called.
//!
//! ```text
//!              a call with a limit begins                    100 ms without one
//!  asleep ────────────────────────────────▶ ticking, 1 ms ────────────────────▶ asleep
//!     └───────────── no guest with a limit left: the thread ends ◀──┘
//! ```
//!
//! A call costs two atomic operations on a counter of its guest's own and a look at the clock, and makes a system call only where
//! the thread has to be woken.

use rustix::time::{ClockId, clock_gettime};
use std::{
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use wasmtime::Engine;

/// How often the counter goes on that guests look at.
const TICK: Duration = Duration::from_millis(1);
const TICK_NS: u64 = TICK.as_nanos() as u64;

/// Ticks without a call after which the thread sleeps. A server under load never lets it.
const IDLE_TICKS: u32 = 100;

static TICKER: Ticker = Ticker {
    state: Mutex::new(State {
        clocks: Vec::new(),
        is_running: false,
    }),
    wake: Condvar::new(),
    is_asleep: AtomicBool::new(false),
    last_ns: AtomicU64::new(0),
};

/// Limits the time of a guest's calls.
pub(super) struct Timer {
    clock: Arc<Clock>,
    ticks: u64,
}

/// What the ticker knows of a guest.
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
pub(super) struct Running<'a>(&'a Clock);

impl Timer {
    /// The first of the process starts a thread, which can fail.
    pub(super) fn new(engine: &Engine, time: Duration) -> io::Result<Self> {
        let timer = Self {
            clock: Arc::new(Clock::new(engine)),
            ticks: ticks(time),
        };
        TICKER.add(Arc::clone(&timer.clock));
        TICKER.run()?;
        Ok(timer)
    }

    /// One of the same limit, for another guest.
    pub(super) fn beside(&self) -> Self {
        let clock = Arc::new(Clock::new(&self.clock.engine));
        // The thread runs: `self` is one that it runs for.
        TICKER.add(Arc::clone(&clock));
        Self {
            clock,
            ticks: self.ticks,
        }
    }

    /// Ticks from now at which the time of a call is up that has started. Those that are due and not made yet
    /// are no part of its time: a ticker that is late makes them all at once.
    pub(super) fn ticks(&self) -> u64 {
        let late_ns = now_ns().saturating_sub(TICKER.last_ns.load(Ordering::Acquire));
        self.ticks + late_ns / TICK_NS
    }

    /// Keeps the ticker awake while a call runs.
    pub(super) fn start(&self) -> Running<'_> {
        // In one order with the ticker's own store and load: either it sees this call, or this call sees
        // that it sleeps.
        self.clock.running.fetch_add(1, Ordering::SeqCst);
        if TICKER.is_asleep.load(Ordering::SeqCst) {
            TICKER.wake();
        }
        Running(&self.clock)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        TICKER.remove(&self.clock);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Release);
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

struct Ticker {
    state: Mutex<State>,
    /// A call begins, or a guest goes.
    wake: Condvar,
    is_asleep: AtomicBool,
    /// When the last tick that was made was due: [`now_ns`].
    last_ns: AtomicU64,
}

/// Of the monotonic clock.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

struct State {
    clocks: Vec<Arc<Clock>>,
    is_running: bool,
}

impl Ticker {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, clock: Arc<Clock>) {
        self.lock().clocks.push(clock);
    }

    /// Starts the thread, unless it runs.
    fn run(&'static self) -> io::Result<()> {
        let mut state = self.lock();
        if !state.is_running {
            self.last_ns.store(now_ns(), Ordering::SeqCst);
            std::thread::Builder::new()
                .name("palisade-ticker".into())
                .spawn(|| self.tick_until_unused())?;
            state.is_running = true;
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
            self.last_ns.store(now_ns(), Ordering::SeqCst);
            self.is_asleep.store(false, Ordering::SeqCst);
            self.wake.notify_one();
        }
    }

    fn tick_until_unused(&self) {
        let mut state = self.lock();
        let mut idle = 0;
        while !state.clocks.is_empty() {
            idle = if state.has_calls() { 0 } else { idle + 1 };
            if idle > IDLE_TICKS {
                state = self.sleep(state);
                idle = 0;
                continue;
            }
            let due_ns = self.last_ns.load(Ordering::Relaxed) + TICK_NS;
            let wait_ns = due_ns.saturating_sub(now_ns());
            if wait_ns > 0 {
                let wait = Duration::from_nanos(wait_ns);
                let waited = self.wake.wait_timeout(state, wait);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            self.make_due_ticks(&state);
        }
        state.is_running = false;
    }

    /// As many ticks as are due: a thread that came late must not make calls longer.
    fn make_due_ticks(&self, state: &State) {
        let mut last_ns = self.last_ns.load(Ordering::Relaxed);
        while last_ns + TICK_NS <= now_ns() {
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

    /// One tick of each engine, however many guests it has.
    fn tick(&self) {
        for (place, clock) in self.clocks.iter().enumerate() {
            let is_first = !self.clocks[..place]
                .iter()
                .any(|other| Engine::same(&other.engine, &clock.engine));
            if is_first {
                clock.engine.increment_epoch();
            }
        }
    }
}
