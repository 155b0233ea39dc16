//! One thing that is waited for.

use super::{Sweep, Ticks};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Waker},
};

/// Something that a client should send: the next part of a request's body.
pub(in crate::edge) struct Wait {
    sweep: Rc<Sweep>,
    key: Cell<usize>,
    since: Cell<Option<Ticks>>,
    late: Cell<bool>,
    /// How long the first part may take, if not as long as the others.
    first: Cell<Option<Ticks>>,
    waker: RefCell<Option<Waker>>,
}

impl Wait {
    pub(in crate::edge) fn new(sweep: &Rc<Sweep>) -> Rc<Self> {
        let wait = Rc::new(Self {
            sweep: Rc::clone(sweep),
            key: Cell::new(0),
            since: Cell::new(None),
            late: Cell::new(false),
            first: Cell::new(None),
            waker: RefCell::new(None),
        });
        let key = sweep.waits.borrow_mut().insert(Rc::clone(&wait));
        wait.key.set(key);
        wait
    }

    /// No longer waited for by anybody.
    pub(in crate::edge) fn end(&self) {
        self.sweep.waits.borrow_mut().try_remove(self.key.get());
    }

    /// It has not come yet. Says whether that has lasted too long; if not, the task is woken when it has.
    pub(in crate::edge) fn wait(&self, context: &mut Context<'_>) -> bool {
        if self.since.get().is_none() {
            self.since.set(Some(self.sweep.now.get()));
        }
        let mut waker = self.waker.borrow_mut();
        if !waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(context.waker()))
        {
            *waker = Some(context.waker().clone());
        }
        self.late.get()
    }

    /// Gives the first part no longer than this.
    pub(in crate::edge) fn set_first(&self, most: Ticks) {
        self.first.set(Some(most));
    }

    /// Whether the first part has not come, and had a time of its own.
    pub(in crate::edge) fn is_first(&self) -> bool {
        self.first.get().is_some()
    }

    /// It has come.
    pub(in crate::edge) fn came(&self) {
        self.since.set(None);
        self.first.set(None);
    }

    pub(super) fn look(&self, now: Ticks, most: Ticks) {
        let Some(since) = self.since.get() else {
            return;
        };
        let most = self.first.get().unwrap_or(most).min(most);
        if now.wrapping_sub(since) > most && !self.late.replace(true) {
            self.sweep.metrics.timed_out.add(1);
            if let Some(waker) = self.waker.borrow().as_ref() {
                waker.wake_by_ref();
            }
        }
    }
}
