//! Fresh instances whose request is over.
//!
//! To end one the kernel is asked which pages it has written to, and these are made as they were: half of what a fresh
//! instance costs, and nothing that its answer has to wait for. So it is done once the thread has nothing else to do, or
//! when the next instance is wanted, which takes the place of the one before while that is in the processor's caches.
//!
//! No guest is called any more, and its permit is somebody else's already. A thread that is never without work has no more
//! of them than a few. Where somebody counts what guests use of the worker, and for large ones, it is done at once.

use super::FilterInstance;
use smallvec::SmallVec;
use std::{cell::RefCell, mem, rc::Rc};

/// Bytes from which on an instance is ended at once: that takes longer then than most requests.
const MOST_BYTES: u64 = 2 << 20;

/// So many of a thread's at one time.
const MOST: usize = 8;

/// What a thread does with them.
enum Spent {
    /// It ends them at once: it has not said yet that it has nothing else to do.
    AtOnce,
    /// It ends them when it says so next.
    Later(SmallVec<[Rc<FilterInstance>; 2]>),
    /// It ends them at once: it will not say so any more.
    Over,
}

thread_local! {
    static SPENT: RefCell<Spent> = const { RefCell::new(Spent::AtOnce) };
}

/// The thread has nothing else to do: it ends those that are spent. It will do so again.
pub(crate) fn end() {
    SPENT.with_borrow_mut(|spent| {
        if matches!(spent, Spent::AtOnce) {
            *spent = Spent::Later(SmallVec::new());
        }
    });
    make_room();
}

/// Another instance is wanted: those that are spent give it their places.
pub(super) fn make_room() {
    let ended = SPENT.with_borrow_mut(|spent| match spent {
        Spent::Later(instances) => mem::take(instances),
        Spent::AtOnce | Spent::Over => SmallVec::new(),
    });
    // Not before: whoever waits for the place of one is told, and may come here.
    drop(ended);
}

/// The thread serves no more.
pub(super) fn end_for_good() {
    drop(SPENT.replace(Spent::Over));
}

/// An instance's request is over.
pub(super) fn note(instance: &Rc<FilterInstance>) {
    if instance.counted.get().memory_bytes > MOST_BYTES || instance.pace.is_charged() {
        return;
    }
    let oldest = SPENT.with_borrow_mut(|spent| {
        let Spent::Later(spent) = spent else {
            return None;
        };
        spent.push(Rc::clone(instance));
        (spent.len() > MOST).then(|| spent.remove(0))
    });
    drop((instance.permit.take(), oldest));
}
