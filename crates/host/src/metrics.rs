//! What each guest has done and cost, and how each route's requests fared, counted by the worker that served them.
//!
//! A counter has one writer, its worker's thread, so that counting is an addition and no locked
//! instruction; whoever reads adds the workers' up. Counts go on through reloads: a guest that keeps its
//! kind and name keeps its counters.

mod places;
mod registry;
mod route;

pub(crate) use registry::Shown;
pub use registry::{GuestId, GuestSum, Registry};
pub use route::{RouteMetrics, RouteSum};

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::SystemTime,
};

/// A number that one thread changes and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the counter's own thread may.
    pub fn add(&self, more: u64) {
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(more);
        self.0.store(sum, Ordering::Relaxed);
    }

    /// Puts a value in place of the present one, for what goes up and down.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The present value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a guest is, on one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing has asked for it yet, or it was ended because nothing did.
    #[default]
    Idle,
    /// It stands still, for nothing asks for it, and goes on once something does.
    Frozen,
    /// It answers.
    Ready,
    /// It is being started.
    Starting,
    /// It failed too often and is left alone for a while.
    Resting,
    /// There is no code of it: it can't be compiled, or is not what it is to be.
    Broken,
}

impl State {
    const ALL: [Self; 6] = [
        Self::Idle,
        Self::Frozen,
        Self::Ready,
        Self::Starting,
        Self::Resting,
        Self::Broken,
    ];

    /// The word of `/status`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Frozen => "frozen",
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::Resting => "resting",
            Self::Broken => "broken",
        }
    }
}

/// Why a guest failed, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When.
    pub time: SystemTime,
    /// What it did.
    pub message: String,
}

/// The metrics of one guest on one worker.
#[derive(Debug, Default)]
pub struct GuestMetrics {
    /// Requests that it was asked about.
    pub requests: Counter,
    /// Those of them that it did not answer as it should have: its fault, or that of what it stands for.
    pub errors: Counter,
    /// Time in the guest's code and the host functions that it called, in ns.
    pub cpu_ns: Counter,
    /// Memory that its instances hold now, in bytes.
    pub memory_bytes: Counter,
    /// Calls into a filter, and out of it to host functions. Nothing counts those of other guests.
    pub crossings: Counter,
    /// What it asked for and was not granted.
    pub denials: Counter,
    /// Times that it trapped, ran out of time or memory, or died.
    pub faults: Counter,
    /// Instances or processes started in place of one that ended.
    pub restarts: Counter,
    state: AtomicU8,
    last_fault: Mutex<Option<Fault>>,
}

impl GuestMetrics {
    /// Counts a fault and keeps what it was. Faults are rare, and this takes a lock.
    pub fn fault(&self, message: impl Into<String>) {
        self.faults.add(1);
        let fault = Fault {
            time: SystemTime::now(),
            message: message.into(),
        };
        *self
            .last_fault
            .lock()
            .unwrap_or_else(|poison| poison.into_inner()) = Some(fault);
    }

    /// The last fault, if there was one.
    pub fn last_fault(&self) -> Option<Fault> {
        self.last_fault
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
            .clone()
    }

    /// Says how the guest is now.
    pub fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// How the guest is.
    pub fn state(&self) -> State {
        let state = usize::from(self.state.load(Ordering::Relaxed));
        State::ALL.get(state).copied().unwrap_or_default()
    }
}
