//! Kept instances of a worker's filters: one that was not asked for longest gives way when there are too many.
//!
//! All filters share one pool of instances, and a kept instance has its place in it for as long as it is kept. So where there
//! are more filters than places the least used one leaves as if it went with its configuration, and starts anew when it is
//! asked for. One that has a timer, calls or requests under way stays.

use super::{FilterHandle, WorkerFilter};
use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
};

thread_local! {
    /// Filters of this worker's that have a kept instance.
    static KEPT: RefCell<Vec<Weak<WorkerFilter>>> = const { RefCell::new(Vec::new()) };
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// Counts the uses of kept filters on this worker: a clock for who was used last.
pub(super) fn tick() -> u64 {
    NOW.with(|now| {
        now.set(now.get() + 1);
        now.get()
    })
}

/// A filter has a kept instance from now on; another one leaves if there are more than `most`.
pub(super) fn note(filter: &Rc<WorkerFilter>, most: usize) {
    let oldest = KEPT.with_borrow_mut(|kept| {
        kept.retain(|kept| kept.upgrade().is_some_and(|kept| kept.has_kept()));
        let oldest = (kept.len() >= most)
            .then(|| {
                let resting = kept.iter().filter_map(Weak::upgrade);
                let resting = resting.filter(|kept| kept.is_resting());
                resting.min_by_key(|kept| kept.used.get())
            })
            .flatten();
        kept.push(Rc::downgrade(filter));
        oldest
    });
    if let Some(oldest) = oldest {
        oldest.rest();
    }
}

impl WorkerFilter {
    fn has_kept(&self) -> bool {
        self.instance.borrow().is_some()
    }

    /// Whether nothing would be lost but what it remembers.
    fn is_resting(&self) -> bool {
        let instance = self.instance.borrow();
        instance
            .as_ref()
            .is_some_and(|instance| instance.is_resting())
    }

    fn rest(self: &Rc<Self>) {
        self.has_started.set(false);
        FilterHandle::end_instance(self);
    }
}
