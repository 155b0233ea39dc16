//! One guest's permits in its engine's pool, on one thread.
//!
//! ```text
//!          free
//!  take ────────▶ Permit ──dropped──▶ to whoever has waited longest, or free again
//!    │ none                              ▲
//!    └──▶ wait, in order, for a time ────┘
//! ```
//!
//! A pool is for all guests of a process. One whose instances are held for long, by its own slowness or its
//! clients', would take the whole of it; so each has a share. The sum of all shares may be more than the pool.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

/// How often it is told that there was no permit.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// What one guest may have of a pool on one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Instances at one time.
    pub instances: usize,
    /// How long a request waits for one of them to be free.
    pub wait_time: Duration,
}

impl Default for Share {
    /// 64 instances, 5 s.
    fn default() -> Self {
        Self {
            instances: 64,
            wait_time: Duration::from_secs(5),
        }
    }
}

/// The permits of one guest.
pub struct Permits {
    share: Share,
    taken: Cell<usize>,
    /// Those who wait; there are none while a permit is free.
    queue: RefCell<VecDeque<Rc<Waiting>>>,
    refused: Cell<u64>,
    told: Cell<Option<Instant>>,
}

/// The permit of one instance, until this is dropped.
#[derive(Debug)]
pub struct Permit(Rc<Permits>);

/// All permits were taken for longer than somebody was to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "policy: all {} instances that it may have were in use for {:?}: raise `instances`, or make it answer sooner",
    .0.instances, .0.wait_time
)]
pub struct NoPermit(pub Share);

impl Permits {
    /// All of them free.
    pub fn new(share: Share) -> Rc<Self> {
        Rc::new(Self {
            share,
            taken: Cell::new(0),
            queue: RefCell::default(),
            refused: Cell::new(0),
            told: Cell::new(None),
        })
    }

    /// A permit that is free now.
    pub fn take_free(self: &Rc<Self>) -> Option<Permit> {
        self.has_free().then(|| {
            self.taken.set(self.taken.get() + 1);
            Permit(Rc::clone(self))
        })
    }

    /// Whether one is free now.
    pub fn has_free(&self) -> bool {
        self.taken.get() < self.share.instances
    }

    /// A permit, as soon as those who came before have had theirs. To be waited for below a tokio runtime with
    /// its clock on.
    ///
    /// # Errors
    ///
    /// When there was none within [`Share::wait_time`].
    pub async fn take(self: &Rc<Self>) -> Result<Permit, NoPermit> {
        if let Some(permit) = self.take_free() {
            return Ok(permit);
        }
        // A box: those who find a permit have no room for a clock in their futures.
        let turn = tokio::time::timeout(self.share.wait_time, Turn::new(self));
        Box::pin(turn).await.map_err(|_| NoPermit(self.share))
    }

    /// Counts a request that had no instance. `Some` when that is to be told: how many had none since it was
    /// told last.
    pub fn refuse(&self) -> Option<u64> {
        let refused = self.refused.get() + 1;
        let now = Instant::now();
        let told = self.told.get();
        if told.is_some_and(|told| now.duration_since(told) < TOLD_EVERY) {
            self.refused.set(refused);
            return None;
        }
        self.told.set(Some(now));
        self.refused.set(0);
        Some(refused)
    }

    /// A permit is free: it is handed on, and stays taken then.
    fn give_back(&self) {
        while let Some(first) = self.next_in_turn() {
            if first.state.get() == State::Gone {
                continue;
            }
            first.state.set(State::Given);
            if let Some(waker) = first.waker.take() {
                waker.wake();
            }
            return;
        }
        self.taken.set(self.taken.get() - 1);
    }

    fn next_in_turn(&self) -> Option<Rc<Waiting>> {
        self.queue.borrow_mut().pop_front()
    }

    /// Those who gave up leave the queue when they are its first: most give up in the order in which they came.
    fn forget_gone(&self) {
        let mut queue = self.queue.borrow_mut();
        while queue
            .front()
            .is_some_and(|first| first.state.get() == State::Gone)
        {
            queue.pop_front();
        }
    }
}

impl std::fmt::Debug for Permits {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Permits")
            .field("share", &self.share)
            .field("taken", &self.taken.get())
            .finish_non_exhaustive()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// Somebody who waits.
struct Waiting {
    state: Cell<State>,
    waker: Cell<Option<Waker>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waits,
    /// A permit is kept for it.
    Given,
    /// It does not want one any more.
    Gone,
}

/// A permit to come.
struct Turn {
    permits: Rc<Permits>,
    waiting: Rc<Waiting>,
}

impl Turn {
    fn new(permits: &Rc<Permits>) -> Self {
        let waiting = Rc::new(Waiting {
            state: Cell::new(State::Waits),
            waker: Cell::new(None),
        });
        permits.queue.borrow_mut().push_back(Rc::clone(&waiting));
        Self {
            permits: Rc::clone(permits),
            waiting,
        }
    }
}

impl Future for Turn {
    type Output = Permit;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        if self.waiting.state.get() != State::Given {
            self.waiting.waker.set(Some(context.waker().clone()));
            return Poll::Pending;
        }
        self.waiting.state.set(State::Gone);
        Poll::Ready(Permit(Rc::clone(&self.permits)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        match self.waiting.state.replace(State::Gone) {
            State::Waits => self.permits.forget_gone(),
            State::Given => self.permits.give_back(),
            State::Gone => {}
        }
    }
}

#[cfg(test)]
mod tests;
