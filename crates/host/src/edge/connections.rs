//! What all connections of one worker share.

use super::{connection::Protocols, watch::Sweep};
use crate::{config::Limits, serve::Serve};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// What serves a worker's connections now, how they are spoken with, and who watches them.
pub(crate) struct Connections<S> {
    state: RefCell<Rc<S>>,
    protocols: RefCell<Rc<Protocols>>,
    sweep: Rc<Sweep>,
    /// The next connection's number.
    next_number: Cell<u64>,
    workers: u64,
}

impl<S: Serve> Connections<S> {
    /// Those of worker `index` of so many `workers`.
    pub(crate) fn new(
        state: Rc<S>,
        limits: &Limits,
        sweep: Rc<Sweep>,
        (index, workers): (usize, usize),
    ) -> Rc<Self> {
        Rc::new(Self {
            state: RefCell::new(state),
            protocols: RefCell::new(Rc::new(Protocols::new(limits))),
            sweep,
            next_number: Cell::new(index as u64),
            workers: workers as u64,
        })
    }

    /// Serves requests with another state from now on, and connections by other limits. Gives the old state.
    pub(crate) fn replace(&self, state: Rc<S>, limits: &Limits) -> Rc<S> {
        self.protocols.replace(Rc::new(Protocols::new(limits)));
        self.sweep.set_limits(limits);
        self.state.replace(state)
    }

    pub(crate) fn sweep(&self) -> &Rc<Sweep> {
        &self.sweep
    }

    pub(super) fn protocols(&self) -> Rc<Protocols> {
        Rc::clone(&self.protocols.borrow())
    }

    /// The next connection's number, which no other worker's has.
    pub(super) fn next_number(&self) -> u64 {
        let number = self.next_number.get();
        self.next_number.set(number + self.workers);
        number
    }

    /// Looks at the present state.
    pub(super) fn with_state<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.state.borrow())
    }

    /// The present state, for as long as a request takes.
    pub(super) fn state(&self) -> Rc<S> {
        Rc::clone(&self.state.borrow())
    }
}
