//! What is loaded at one time, and who goes when it is too much.
//!
//! ```text
//!  oldest ──▶ asked for since? ──yes──▶ once more to the end
//!                  │ no
//!                  ├─ an instance of it lives ──▶ once more to the end
//!                  └─ it goes
//! ```
//!
//! So what is asked for again and again stays, and a request marks what it uses by one store (the clock of operating systems,
//! which comes near to least recently used). What goes is dropped by a thread of its own: to unmap a module takes longer
//! than many a request.

use super::limits::CodeLimits;
use palisade_engine::{handles::Handles, lock::lock};
use std::{
    any::Any,
    collections::VecDeque,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Sender},
    },
    time::Duration,
};

/// Beyond the budget by one part of so many, whoever loads more drops something first.
const SLACK: u64 = 8;
/// One part of so many goes at once, so that not each load is followed by a drop.
const AT_ONCE: u64 = 32;

fn all(limit: u64) -> u64 {
    limit
}

fn a_little_less(limit: u64) -> u64 {
    limit - limit / AT_ONCE
}

fn much_more(limit: u64) -> u64 {
    limit.saturating_add(limit / SLACK)
}

/// How often it is tried again when everything is in use, and after how long.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Something that is loaded.
pub(super) trait Unload: Send + Sync {
    /// What becomes of it when it is asked to go.
    fn unload(&self) -> Unloaded;
}

pub(super) enum Unloaded {
    /// It was used since it was asked last.
    Used,
    /// Somebody has it.
    InUse,
    /// To be dropped where it hurts nobody.
    Gone(Box<dyn Any + Send>),
    /// It was not loaded any more.
    Absent,
}

/// What loaded code may take, and takes.
#[derive(Debug)]
pub(super) struct CodeBudget {
    limits: Mutex<CodeLimits>,
    loaded: Mutex<VecDeque<Weak<dyn Unload>>>,
    modules: AtomicU64,
    bytes: AtomicU64,
    heap_bytes: AtomicU64,
    mappings: AtomicU64,
    files: AtomicU64,
    evictions: AtomicU64,
    loads: AtomicU64,
    is_evicting: AtomicBool,
    evictor: OnceLock<Option<Sender<Arc<Self>>>>,
}

/// What a loaded module takes of the budget, until this is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<CodeBudget>,
    taken: Taken,
}

/// What loaded code takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Of its file, mapped.
    pub(super) mapped_bytes: u64,
    /// What the engine keeps beside it.
    pub(super) heap_bytes: u64,
    pub(super) handles: Handles,
}

/// What code is loaded, for people and programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeFigures {
    /// Modules that are loaded.
    pub modules: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Those of these that the engine keeps beside the code, which is mapped.
    pub heap_bytes: u64,
    /// Their mappings.
    pub mappings: u64,
    /// Their descriptors.
    pub files: u64,
    /// The most of each.
    pub limits: CodeLimits,
    /// Times that a module was loaded.
    pub loads: u64,
    /// Times that one went for others.
    pub evictions: u64,
    /// Modules that wait to be compiled, or are.
    pub compiling: u64,
    /// Modules that were compiled.
    pub compiled: u64,
    /// Modules that there is no code of, for a reason that the log tells.
    pub broken: u64,
}

impl CodeBudget {
    pub(super) fn new(limits: CodeLimits) -> Self {
        Self {
            limits: Mutex::new(limits),
            loaded: Mutex::default(),
            modules: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            heap_bytes: AtomicU64::new(0),
            mappings: AtomicU64::new(0),
            files: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            loads: AtomicU64::new(0),
            is_evicting: AtomicBool::new(false),
            evictor: OnceLock::new(),
        }
    }

    pub(super) fn set_limits(self: &Arc<Self>, limits: CodeLimits) {
        *lock(&self.limits) = limits;
        if self.exceeds(all) {
            self.want_eviction();
        }
    }

    pub(super) fn limits(&self) -> CodeLimits {
        *lock(&self.limits)
    }

    /// Counts what is loaded now: from the next look on it may have to go.
    pub(super) fn charge(self: &Arc<Self>, taken: Taken) -> Charge {
        let Taken {
            mapped_bytes,
            heap_bytes,
            handles: Handles { mappings, files },
        } = taken;
        let add = |sum: &AtomicU64, more| sum.fetch_add(more, Ordering::Relaxed);
        add(&self.modules, 1);
        add(&self.bytes, mapped_bytes + heap_bytes);
        add(&self.heap_bytes, heap_bytes);
        add(&self.mappings, mappings);
        add(&self.files, files);
        add(&self.loads, 1);
        Charge {
            budget: Arc::clone(self),
            taken,
        }
    }

    /// Has it go when there is too much and it was not used for longer than others.
    pub(super) fn admit(self: &Arc<Self>, loaded: Weak<dyn Unload>) {
        {
            let mut all = lock(&self.loaded);
            all.push_back(loaded);
            // What was dropped with its configuration is still in it.
            let live = self.modules.load(Ordering::Relaxed) as usize;
            if all.len() > 2 * live + 64 {
                all.retain(|loaded| loaded.strong_count() > 0);
            }
        }
        if self.exceeds(all) {
            self.want_eviction();
        }
        while self.exceeds(much_more) {
            match self.evict_one() {
                Some(gone) => drop(gone),
                None => return,
            }
        }
    }

    /// Whether there is more than this much of a bound. One module may be loaded, whatever it takes of what a process has few of.
    fn exceeds(&self, most: fn(u64) -> u64) -> bool {
        let limits = self.limits();
        let exceeds = |taken: &AtomicU64, limit| taken.load(Ordering::Relaxed) > most(limit);
        let Handles { mappings, files } = Handles::MOST;
        exceeds(&self.bytes, limits.memory_bytes)
            || exceeds(&self.mappings, limits.mappings.max(mappings))
            || exceeds(&self.files, limits.files.max(files))
    }

    /// Takes out what was not used for longest. `None`: everything is in use.
    fn evict_one(&self) -> Option<Box<dyn Any + Send>> {
        let mut all = lock(&self.loaded);
        // Each may have one more chance.
        for _ in 0..2 * all.len() {
            let oldest = all.pop_front()?;
            let Some(loaded) = oldest.upgrade() else {
                continue;
            };
            match loaded.unload() {
                Unloaded::Used | Unloaded::InUse => all.push_back(oldest),
                Unloaded::Absent => {}
                Unloaded::Gone(gone) => {
                    self.evictions.fetch_add(1, Ordering::Relaxed);
                    return Some(gone);
                }
            }
        }
        None
    }

    /// Has a thread drop until there is a little less than the most.
    fn want_eviction(self: &Arc<Self>) {
        if self.is_evicting.swap(true, Ordering::AcqRel) {
            return;
        }
        let is_asked = self
            .evictor()
            .is_some_and(|evictor| evictor.send(Arc::clone(self)).is_ok());
        if !is_asked {
            // Whoever loads drops.
            self.is_evicting.store(false, Ordering::Release);
        }
    }

    /// The thread that drops, for as long as this is there. It is to be started by one of the usual priority, which it inherits:
    /// it holds what workers wait for.
    pub(super) fn evictor(&self) -> Option<&Sender<Arc<Self>>> {
        let start = || {
            let (evictor, budgets) = mpsc::channel::<Arc<Self>>();
            let evict = move || budgets.iter().for_each(|budget| budget.evict());
            let thread = std::thread::Builder::new().name("code-evictor".into());
            thread.spawn(evict).ok().map(|_| evictor)
        };
        self.evictor.get_or_init(start).as_ref()
    }

    fn evict(&self) {
        let mut tries = 0;
        loop {
            let has_dropped = self.evict_some();
            if !has_dropped && tries < TRIES {
                // Who only waits with it was asked to give it up, and does so on a thread of its own.
                tries += 1;
                std::thread::sleep(PAUSE);
                continue;
            }
            self.is_evicting.store(false, Ordering::Release);
            // Somebody may have asked meanwhile, and found this at work.
            let is_over = !has_dropped || !self.exceeds(all);
            if is_over || self.is_evicting.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }

    /// Whether there is a little less than the most now.
    fn evict_some(&self) -> bool {
        while self.exceeds(a_little_less) {
            match self.evict_one() {
                Some(gone) => drop(gone),
                None => return false,
            }
        }
        true
    }

    pub(super) fn figures(&self) -> CodeFigures {
        CodeFigures {
            modules: self.modules.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            heap_bytes: self.heap_bytes.load(Ordering::Relaxed),
            mappings: self.mappings.load(Ordering::Relaxed),
            files: self.files.load(Ordering::Relaxed),
            limits: self.limits(),
            loads: self.loads.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            compiling: 0,
            compiled: 0,
            broken: 0,
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let Self { budget, taken } = self;
        let Handles { mappings, files } = taken.handles;
        let less = |sum: &AtomicU64, less| sum.fetch_sub(less, Ordering::Relaxed);
        less(&budget.modules, 1);
        less(&budget.bytes, taken.mapped_bytes + taken.heap_bytes);
        less(&budget.heap_bytes, taken.heap_bytes);
        less(&budget.mappings, mappings);
        less(&budget.files, files);
    }
}

impl std::fmt::Debug for dyn Unload {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Unload")
    }
}

#[cfg(test)]
mod tests;
