//! The code of one filter or component.
//!
//! ```text
//!           ┌──────────── evicted ───────────┐
//!           ▼                                │
//!  Absent ──first──▶ OnItsWay ──────────▶ Loaded
//!    ▲                  │
//!    └─ after a while ─ Broken
//! ```
//!
//! Whoever comes first loads it, the others wait. What is in the cache is loaded by the worker that needs it: opened, checked,
//! mapped and linked, which takes less than to hand it to another thread and wait. It takes as long as many requests, though,
//! and so is its tenant's turn. What is not in the cache is for the queue. A long module is read by a thread for that, once,
//! to tell which it is.

use super::{
    CodeError, CodeStore, Preload,
    budget::{Charge, Taken, Unload, Unloaded},
    queue::Compile,
};
use crate::{beneath, stamp::Stamp};
use palisade_engine::{handles::Handles, lock::lock};
use palisade_policy::Capability;
use palisade_wall::Purpose;
use palisade_wasm::{cache::EntryName, code::Code, code::Identified, module::Module};
use rustix::fs::{Mode, OFlags};
use std::{
    any::Any,
    cell::Cell,
    collections::BTreeSet,
    fmt,
    path::PathBuf,
    pin::pin,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{sync::Notify, time::timeout_at};

/// A module up to this length is read and hashed by a worker, to find its code by: half a millisecond.
const MOST_READ_AT_ONCE: u64 = 1 << 20;
/// Requests that wait for one module.
const MOST_WAITING: usize = 64;
/// How long one waits.
const MOST_WAIT: Duration = Duration::from_secs(10);
/// When a module that there is no code of is looked at again.
const BROKEN_FOR: Duration = Duration::from_secs(10);

thread_local! {
    static LOADS: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread has loaded code, or looked for it.
pub(crate) fn loads_of_thread() -> u64 {
    LOADS.get()
}

/// What is made of compiled code.
pub(crate) trait Link: Send + Sync + 'static {
    /// It.
    type Linked: Clone + Send + Sync + 'static;

    /// What the engine keeps in memory beside the code of a small guest: types, imports, tables of functions.
    const HEAP_BYTES: u64;

    /// Maps the code and gives it its imports.
    ///
    /// # Errors
    ///
    /// When it is no code for this purpose.
    fn link(&self, code: &Code) -> Result<Self::Linked, CodeError>;

    /// What it takes of what a process has few of.
    fn handles(linked: &Self::Linked) -> Handles;

    /// Whether somebody else has it.
    fn is_in_use(linked: &Self::Linked) -> bool;

    /// It is to go, and somebody has it: whoever only waits with it gives it up.
    fn ask_to_leave(linked: &Self::Linked) {
        let _ = linked;
    }

    /// There is no code, and that is new.
    fn tell_broken(&self, error: &CodeError);
}

/// Where code comes from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Whose it is; the main file's name is empty.
    pub(crate) tenant: Arc<str>,
    /// What it is, in words.
    pub(crate) guest: String,
    /// The module.
    pub(crate) path: PathBuf,
    /// A folder that it must lie below, whenever it is opened.
    pub(crate) within: Option<PathBuf>,
    pub(crate) purpose: Purpose,
    /// Of its compiler.
    pub(crate) allow_degraded: BTreeSet<Capability>,
}

/// There is no code for a request.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NotReady {
    /// There is none. The log has been told.
    #[error("{0}")]
    Broken(Arc<CodeError>),
    /// It is being compiled, or waits for that.
    #[error("host: it is still being compiled")]
    Compiling,
}

/// The code of one filter or component, for all workers.
pub(crate) struct OnDemand<L: Link> {
    me: Weak<Self>,
    source: Source,
    link: L,
    store: Arc<CodeStore>,
    state: Mutex<State<L::Linked>>,
    /// The state is another one.
    changed: Notify,
    waiting: AtomicUsize,
    /// Since it was asked to go last.
    is_used: AtomicBool,
    /// Its place in the cache.
    name: Mutex<Option<EntryName>>,
}

enum State<T> {
    Absent,
    OnItsWay,
    Loaded {
        code: T,
        /// What it takes of the budget as long as it is.
        _charge: Charge,
    },
    Broken(Broken),
}

struct Broken {
    error: Arc<CodeError>,
    /// The file that it was.
    stamp: Option<Stamp>,
    until: Instant,
}

/// What the cache has of a module.
enum Found {
    Code(Code),
    Nothing,
    /// That is not known.
    Unread,
}

/// One that is to be read first.
struct Unread<L: Link>(Arc<OnDemand<L>>);

/// What a request has to do.
enum Next<T> {
    Have(T),
    Fail(NotReady),
    Load,
    Wait,
}

impl<L: Link> OnDemand<L> {
    pub(crate) fn new(source: Source, link: L, store: &Arc<CodeStore>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            source,
            link,
            store: Arc::clone(store),
            state: Mutex::new(State::Absent),
            changed: Notify::new(),
            waiting: AtomicUsize::new(0),
            is_used: AtomicBool::new(false),
            name: Mutex::new(None),
        })
    }

    /// Whether the file is one that code can be made of, as far as eight bytes of it tell.
    ///
    /// # Errors
    ///
    /// Why not.
    pub(crate) fn look_at_file(&self) -> Result<(), CodeError> {
        self.open().map(drop)
    }

    /// The code, if it is loaded.
    pub(crate) fn get_loaded(&self) -> Option<L::Linked> {
        match &*lock(&self.state) {
            State::Loaded { code, .. } => Some(self.used(code)),
            _ => None,
        }
    }

    /// The code, if that takes no waiting: it is loaded, or comes from the cache now. `None`: wait for it.
    pub(crate) fn get_at_once(&self) -> Option<Result<L::Linked, NotReady>> {
        match self.next() {
            Next::Have(code) => Some(Ok(code)),
            Next::Fail(why) => Some(Err(why)),
            Next::Wait => None,
            Next::Load => self.load(),
        }
    }

    /// The code, loaded if it is not, and waited for within bounds if it has to be compiled.
    ///
    /// # Errors
    ///
    /// When there is none, or not soon.
    pub(crate) async fn get(&self) -> Result<L::Linked, NotReady> {
        if let Some(ready) = self.get_at_once() {
            return ready;
        }
        let until = Instant::now() + MOST_WAIT;
        let _waiting = Waiting::new(&self.waiting).ok_or(NotReady::Compiling)?;
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(ready) = self.get_at_once() {
                return ready;
            }
            let waited = timeout_at(until.into(), changed).await;
            waited.map_err(|_| NotReady::Compiling)?;
        }
    }

    fn next(&self) -> Next<L::Linked> {
        let mut state = lock(&self.state);
        if let State::Broken(broken) = &mut *state {
            if !broken.is_over(&self.source) {
                return Next::Fail(NotReady::Broken(Arc::clone(&broken.error)));
            }
            self.store.broken.fetch_sub(1, Ordering::Relaxed);
            *state = State::Absent;
        }
        match &*state {
            State::Loaded { code, .. } => Next::Have(self.used(code)),
            State::Absent => {
                *state = State::OnItsWay;
                Next::Load
            }
            State::OnItsWay | State::Broken(_) => Next::Wait,
        }
    }

    fn used(&self, code: &L::Linked) -> L::Linked {
        self.note_used();
        code.clone()
    }

    /// It is not the one to go next.
    pub(crate) fn note_used(&self) {
        // Written to once between two looks: other workers read it.
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Loads it from the cache, for whoever found it absent; has it compiled if it is not there.
    fn load(&self) -> Option<Result<L::Linked, NotReady>> {
        LOADS.set(LOADS.get().wrapping_add(1));
        self.load_within(MOST_READ_AT_ONCE)
    }

    /// The same, for a module that is read for that if it is not longer.
    fn load_within(&self, most_bytes: u64) -> Option<Result<L::Linked, NotReady>> {
        let me = self.me.upgrade()?;
        match self.find(most_bytes) {
            Ok(Found::Code(code)) => return Some(self.settle(self.link(&code))),
            Err(error) => return Some(self.settle(Err(error))),
            Ok(Found::Nothing) => self.store.want(me),
            Ok(Found::Unread) => self.store.want_read(Arc::new(Unread(me))),
        }
        None
    }

    /// Its code in the cache. The module is read for the first, and its place is known then.
    fn find(&self, most_bytes: u64) -> Result<Found, CodeError> {
        let known = *lock(&self.name);
        if let Some(code) = known.and_then(|name| self.store.find(name)) {
            return Ok(Found::Code(code));
        }
        let module = self.open()?;
        if module.file_bytes()? > most_bytes {
            return Ok(Found::Unread);
        }
        let code = self.store.find(self.identify(&module)?.name);
        Ok(code.map_or(Found::Nothing, Found::Code))
    }

    fn open(&self) -> Result<Module, CodeError> {
        let Source { path, within, .. } = &self.source;
        // Without waiting for anybody: it may be a FIFO.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let module = match beneath::open(within.as_deref(), path, flags, Mode::empty()) {
            Ok(file) => Module::of_file(path, file)?,
            Err(_) => None,
        };
        module.ok_or_else(|| CodeError::no_module(path))
    }

    fn identify(&self, module: &Module) -> Result<Identified, CodeError> {
        let compiler = self.store.compiler();
        let identified = palisade_wasm::code::identify(module, self.source.purpose, compiler)?;
        self.remember(identified.name);
        Ok(identified)
    }

    fn remember(&self, name: EntryName) {
        let before = lock(&self.name).replace(name);
        if before != Some(name) {
            self.store.spare(name, true);
            if let Some(before) = before {
                self.store.spare(before, false);
            }
        }
    }

    /// Its code, compiled if it is not in the cache.
    fn obtain(&self) -> Result<Code, CodeError> {
        let module = self.identify(&self.open()?)?;
        if let Some(code) = self.store.find(module.name) {
            return Ok(code);
        }
        let Source {
            path,
            purpose,
            allow_degraded,
            ..
        } = &self.source;
        self.store.make(&module, path, *purpose, allow_degraded)
    }

    /// What is loaded, and what that takes.
    fn link(&self, code: &Code) -> Result<(L::Linked, Charge), CodeError> {
        let mapped_bytes = code.bytes()?;
        let linked = self.link.link(code)?;
        let charge = self.store.budget.charge(Taken {
            mapped_bytes,
            heap_bytes: L::HEAP_BYTES,
            handles: L::handles(&linked),
        });
        Ok((linked, charge))
    }

    /// Says what became of it, to all who wait.
    fn settle(
        &self,
        linked: Result<(L::Linked, Charge), CodeError>,
    ) -> Result<L::Linked, NotReady> {
        let (state, result) = match linked {
            Ok((code, charge)) => {
                let loaded = State::Loaded {
                    code: code.clone(),
                    _charge: charge,
                };
                (loaded, Ok(code))
            }
            Err(error) => {
                self.link.tell_broken(&error);
                self.store.broken.fetch_add(1, Ordering::Relaxed);
                let broken = Broken::new(error, &self.source);
                let why = NotReady::Broken(Arc::clone(&broken.error));
                (State::Broken(broken), Err(why))
            }
        };
        *lock(&self.state) = state;
        self.changed.notify_waiters();
        if result.is_ok() {
            self.is_used.store(true, Ordering::Relaxed);
            self.store.budget.admit(self.unload());
        }
        result
    }

    fn unload(&self) -> Weak<dyn Unload> {
        let me: Weak<Self> = Weak::clone(&self.me);
        me
    }
}

impl Broken {
    fn new(error: CodeError, source: &Source) -> Self {
        Self {
            error: Arc::new(error),
            stamp: Stamp::of(&source.path),
            until: Instant::now() + BROKEN_FOR,
        }
    }

    /// Whether it may be better now: the same module fails again if it was at fault.
    fn is_over(&mut self, source: &Source) -> bool {
        let now = Instant::now();
        if now < self.until {
            return false;
        }
        self.until = now + BROKEN_FOR;
        !self.error.is_guests() || Stamp::of(&source.path) != self.stamp
    }
}

impl<L: Link> Compile for OnDemand<L> {
    fn tenant(&self) -> &Arc<str> {
        &self.source.tenant
    }

    fn compile(&self) {
        let is_wanted = match &*lock(&self.state) {
            State::OnItsWay => true,
            State::Absent => false,
            // Somebody else was sooner.
            State::Loaded { .. } | State::Broken(_) => return,
        };
        if is_wanted {
            // Who waits is told by the state.
            let _ = self.settle(self.obtain().and_then(|code| self.link(&code)));
            return;
        }
        let Err(error) = self.obtain() else { return };
        let mut state = lock(&self.state);
        if matches!(*state, State::Absent) {
            self.link.tell_broken(&error);
            self.store.broken.fetch_add(1, Ordering::Relaxed);
            *state = State::Broken(Broken::new(error, &self.source));
        }
    }
}

impl<L: Link> Compile for Unread<L> {
    fn tenant(&self) -> &Arc<str> {
        self.0.tenant()
    }

    /// Loads it, or has it compiled. Who waits is told by the state.
    fn compile(&self) {
        let is_wanted = matches!(*lock(&self.0.state), State::OnItsWay);
        if is_wanted {
            let _ = self.0.load_within(u64::MAX);
        }
    }
}

impl<L: Link> Preload for OnDemand<L> {
    fn preload(&self) -> Result<(), CodeError> {
        let linked = self.obtain().and_then(|code| self.link(&code))?;
        // Nobody has met its configuration yet, and so nobody waits.
        let _ = self.settle(Ok(linked));
        Ok(())
    }

    fn later(&self) -> Weak<dyn Compile> {
        let me: Weak<Self> = Weak::clone(&self.me);
        me
    }

    fn guest(&self) -> &str {
        &self.source.guest
    }
}

impl<L: Link> Unload for OnDemand<L> {
    fn unload(&self) -> Unloaded {
        if self.is_used.swap(false, Ordering::Relaxed) {
            return Unloaded::Used;
        }
        let mut state = lock(&self.state);
        match &*state {
            // Nobody has it but this, and nobody gets it while this is looked at.
            State::Loaded { code, .. } if L::is_in_use(code) => {
                L::ask_to_leave(code);
                Unloaded::InUse
            }
            State::Loaded { .. } => Unloaded::Gone(unloaded(&mut state)),
            _ => Unloaded::Absent,
        }
    }
}

fn unloaded<T: Send + 'static>(state: &mut State<T>) -> Box<dyn Any + Send> {
    Box::new(std::mem::replace(state, State::Absent))
}

impl<L: Link> Drop for OnDemand<L> {
    fn drop(&mut self) {
        if let Some(name) = lock(&self.name).take() {
            self.store.spare(name, false);
        }
        if matches!(*lock(&self.state), State::Broken(_)) {
            self.store.broken.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl<L: Link> fmt::Debug for OnDemand<L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OnDemand")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// One of few who may wait.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Option<Self> {
        let waiting = Self(count);
        // Counted first, so that two who come at once are not both the last.
        (count.fetch_add(1, Ordering::Relaxed) < MOST_WAITING).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
