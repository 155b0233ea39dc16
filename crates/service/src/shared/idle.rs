//! Kept instances that wait for a request, and how they give way.
//!
//! ```text
//!  request over ──keep──▶ Idle ──take──▶ next request
//!                          │
//!            watch: one that nobody wants for long goes,
//!                   the oldest of all when the pool is full
//! ```
//!
//! All services of a process share one pool. An instance that waits holds a slot of it as one that runs does, and may
//! be another thread's. So whoever finds the pool full asks the thread that has the oldest waiting one to give it up.

use super::Shared;
use crate::{code::Code, state::State};
use palisade_engine::{growth::MemoryPool, lock::lock};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::{Rc, Weak},
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, Weak as SharedWeak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{sync::Notify, time::timeout_at};
use wasmtime::Store;
use wasmtime_wasi_http::p2::bindings::Proxy;

/// Instances of one service and thread that wait at most.
const MOST: usize = 64;
/// How long one waits beside another: what a burst has left goes, and one stays.
const TIME: Duration = Duration::from_secs(60);

/// An instance that waits for its next request.
pub(crate) struct Kept {
    pub(crate) store: Store<State>,
    pub(crate) proxy: Proxy,
    /// What it is an instance of: loaded as long as this is.
    pub(crate) code: Code,
}

/// Everybody's, of all threads.
static WAITING: Mutex<Vec<SharedWeak<Waiting>>> = Mutex::new(Vec::new());
/// Some have given way.
static GONE: Notify = Notify::const_new();
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What other threads see of those who wait here.
struct Waiting {
    engine: wasmtime::Engine,
    /// What they have their memory of.
    pool: Option<Arc<MemoryPool>>,
    count: AtomicUsize,
    /// Since when the oldest waits, in ns since [`START`].
    since_ns: AtomicU64,
    /// How many of them are to go.
    wanted: AtomicUsize,
    ring: Notify,
}

/// Instances of one service and thread that wait, the oldest first.
pub(crate) struct Idle {
    kept: RefCell<VecDeque<(Instant, Kept)>>,
    is_watched: Cell<bool>,
    waiting: Arc<Waiting>,
}

fn everybody() -> MutexGuard<'static, Vec<SharedWeak<Waiting>>> {
    lock(&WAITING)
}

impl Idle {
    pub(crate) fn new(engine: &wasmtime::Engine, pool: Option<Arc<MemoryPool>>) -> Self {
        let waiting = Arc::new(Waiting {
            engine: engine.clone(),
            pool,
            count: AtomicUsize::new(0),
            since_ns: AtomicU64::new(0),
            wanted: AtomicUsize::new(0),
            ring: Notify::new(),
        });
        let mut all = everybody();
        // Not each time: that would be the square of their number.
        if all.len() == all.capacity() {
            all.retain(|waiting| waiting.strong_count() > 0);
        }
        all.push(Arc::downgrade(&waiting));
        Self {
            kept: RefCell::default(),
            is_watched: Cell::new(false),
            waiting,
        }
    }

    /// The one that waits least: of those that nobody needs the others get old.
    pub(crate) fn take(&self) -> Option<Kept> {
        let (_, kept) = self.kept.borrow_mut().pop_back()?;
        self.tell();
        Some(kept)
    }

    /// Whether somebody is to watch those who wait, from now on.
    fn put(&self, kept: Kept) -> bool {
        let mut waiting = self.kept.borrow_mut();
        if waiting.len() < MOST {
            waiting.push_back((Instant::now(), kept));
        }
        drop(waiting);
        self.tell();
        !self.is_watched.replace(true)
    }

    fn tell(&self) {
        let kept = self.kept.borrow();
        let since = kept.front().map_or(0, |(since, _)| nanos(*since));
        self.waiting.since_ns.store(since, Ordering::Relaxed);
        self.waiting.count.store(kept.len(), Ordering::Release);
    }

    /// When the oldest one goes; `None`: nobody waits.
    fn next_end(&self) -> Option<Instant> {
        let kept = self.kept.borrow();
        let (since, _) = kept.front()?;
        // A single one stays: only who needs its slot has it go.
        Some(match kept.len() {
            1 => Instant::now() + TIME,
            _ => *since + TIME,
        })
    }

    /// Those go that are wanted, and those that nobody wanted for long.
    fn give_up(&self) {
        let wanted = self.waiting.wanted.swap(0, Ordering::AcqRel);
        for _ in 0..wanted {
            drop(self.pop_oldest());
        }
        let is_old = |&(since, _): &(Instant, Kept)| since.elapsed() >= TIME;
        while self.kept.borrow().len() > 1 && self.kept.borrow().front().is_some_and(is_old) {
            drop(self.pop_oldest());
        }
        self.tell();
        if wanted > 0 {
            GONE.notify_waiters();
        }
    }

    /// Whoever drops it may be asked for memory figures, so that nothing is borrowed meanwhile.
    fn pop_oldest(&self) -> Option<(Instant, Kept)> {
        self.kept.borrow_mut().pop_front()
    }
}

fn nanos(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(*START).as_nanos()).unwrap_or(u64::MAX)
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.waiting.count.store(0, Ordering::Release);
        self.waiting.ring.notify_one();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        GONE.notify_waiters();
    }
}

/// Keeps an instance for the next request.
pub(crate) fn keep(shared: &Rc<Shared>, kept: Kept) {
    let engine = kept.code.engine().clone();
    if shared.idle(&engine).put(kept) {
        let watched = Rc::downgrade(shared);
        shared.host.spawn(Box::pin(watch(watched)));
    }
}

/// For as long as instances wait here.
async fn watch(shared: Weak<Shared>) {
    while let Some((waiting, end)) = begin_wait(&shared) {
        // Asked, or late enough: whichever it is shows then.
        let _ = timeout_at(end.into(), waiting.ring.notified()).await;
    }
}

/// What is due is done; what to wait for next.
fn begin_wait(shared: &Weak<Shared>) -> Option<(Arc<Waiting>, Instant)> {
    let shared = shared.upgrade()?;
    let idle = shared.idle.get()?;
    idle.give_up();
    shared.tell_memory();
    let end = idle.next_end();
    idle.is_watched.set(end.is_some());
    Some((Arc::clone(&idle.waiting), end?))
}

/// Has the oldest of all instances that wait give way, on whatever thread it is; of those of one owner where it is that one's
/// `pool` which is full. Whether one has: there may be room now.
pub(crate) async fn make_room(
    engine: &wasmtime::Engine,
    pool: Option<&MemoryPool>,
    until: Instant,
) -> bool {
    let mut gone = std::pin::pin!(GONE.notified());
    gone.as_mut().enable();
    let asked = match pool {
        None => ask_oldest(engine),
        Some(pool) => ask_oldest_of(|waiting| waiting.pool.as_deref() == Some(pool)),
    };
    if !asked {
        return false;
    }
    timeout_at(until.into(), gone).await.is_ok()
}

/// Asks whoever has the oldest one; whether there is somebody.
pub(crate) fn ask_oldest(engine: &wasmtime::Engine) -> bool {
    ask_oldest_of(|waiting| wasmtime::Engine::same(&waiting.engine, engine))
}

fn ask_oldest_of(is_meant: impl Fn(&Waiting) -> bool) -> bool {
    let all = everybody();
    let waiting = all.iter().filter_map(SharedWeak::upgrade);
    let with_some = waiting.filter(|waiting| {
        waiting.count.load(Ordering::Acquire) > waiting.wanted.load(Ordering::Acquire)
            && is_meant(waiting)
    });
    let oldest = with_some.min_by_key(|waiting| waiting.since_ns.load(Ordering::Relaxed));
    if let Some(oldest) = &oldest {
        oldest.wanted.fetch_add(1, Ordering::AcqRel);
        oldest.ring.notify_one();
    }
    oldest.is_some()
}
