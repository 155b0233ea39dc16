//! Responses that HTTP/2 holds because the client's windows do not let them go.
//!
//! ```text
//!  Sent ──owns──▶ Stream ┐
//!                        ├─▶ Entry of the connection ◀─ sweep: has a byte gone since the last look?
//!  Part ──owns──▶ Held ──┘
//! ```
//!
//! Only bytes of the response itself count. A client that takes none can make the connection's bytes flow as it
//! likes, with PINGs and their answers.

use super::{Ticks, Watch};
use slab::Slab;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Waker},
};

/// All of one connection.
#[derive(Default)]
pub(super) struct HeldResponses {
    entries: RefCell<Slab<Entry>>,
    /// A byte of a response has gone out since the socket was last full.
    has_moved: Cell<bool>,
    /// What the socket is full of are responses.
    fill_socket: Cell<bool>,
    /// The stream whose task is being polled.
    polled: Cell<Option<usize>>,
}

/// One response.
#[derive(Default)]
struct Entry {
    /// Its body is there, and so is the task that hands it over.
    is_open: bool,
    /// Parts of it that HTTP/2 has.
    parts: u32,
    /// Sweeps since a byte of it went out.
    waited: Ticks,
    is_late: bool,
    task: Option<Waker>,
}

impl HeldResponses {
    /// HTTP/2 has parts of responses.
    pub(super) fn is_any(&self) -> bool {
        let entries = self.entries.borrow();
        entries.iter().any(|(_, entry)| entry.parts > 0)
    }

    /// The socket takes nothing more.
    pub(super) fn socket_is_full(&self) {
        self.fill_socket.set(self.has_moved.replace(false));
    }

    /// Has each response ended that was held for longer than `most`. Says how many there are, and whether there is
    /// one that only the connection's end can end: its task has handed everything over.
    pub(super) fn look(&self, socket_is_full: bool, most: Ticks) -> (u64, bool) {
        if socket_is_full && self.fill_socket.get() {
            // They wait for their turn at the socket. How long that may be full is the connection's affair.
            return (0, false);
        }
        let (mut late, mut is_without_task) = (0, false);
        for (_, entry) in self.entries.borrow_mut().iter_mut() {
            if entry.parts == 0 || entry.is_late {
                continue;
            }
            entry.waited += 1;
            if entry.waited > most {
                entry.is_late = true;
                late += 1;
                match &entry.task {
                    Some(task) => task.wake_by_ref(),
                    None => is_without_task = true,
                }
            }
        }
        (late, is_without_task)
    }

    fn change<T>(&self, key: usize, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.entries.borrow_mut().get_mut(key).map(change)
    }

    fn remove_unneeded(&self, key: usize) {
        let mut entries = self.entries.borrow_mut();
        if entries
            .get(key)
            .is_some_and(|entry| !entry.is_open && entry.parts == 0)
        {
            entries.remove(key);
        }
    }
}

/// A response's place in the connection's books, as its body has it.
pub(in crate::edge) struct Stream {
    watch: Rc<Watch>,
    key: usize,
}

impl Stream {
    pub(in crate::edge) fn new(watch: &Rc<Watch>) -> Self {
        let key = watch.held.entries.borrow_mut().insert(Entry {
            is_open: true,
            ..Entry::default()
        });
        Self {
            watch: Rc::clone(watch),
            key,
        }
    }

    /// Whether it was held for too long.
    pub(in crate::edge) fn is_late(&self) -> bool {
        let is_late = self.watch.held.change(self.key, |entry| entry.is_late);
        is_late.unwrap_or(false)
    }

    /// A part goes over to HTTP/2.
    pub(in crate::edge) fn hand_over(&self) -> Held {
        self.watch.held.change(self.key, |entry| {
            if entry.parts == 0 {
                entry.waited = 0;
            }
            entry.parts += 1;
        });
        self.watch.held.polled.set(Some(self.key));
        Held {
            watch: Rc::clone(&self.watch),
            key: self.key,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let held = &self.watch.held;
        let task = held.change(self.key, |entry| {
            entry.is_open = false;
            entry.task.take()
        });
        held.remove_unneeded(self.key);
        // Not while the books are open: with a task goes all that it has.
        drop(task);
    }
}

/// A part of a response that HTTP/2 has. Dropping it: it was sent, or thrown away.
pub(in crate::edge) struct Held {
    watch: Rc<Watch>,
    key: usize,
}

impl Held {
    /// Bytes of it have gone out.
    pub(in crate::edge) fn moved(&self) {
        self.watch.held.has_moved.set(true);
        self.watch.held.change(self.key, |entry| entry.waited = 0);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let held = &self.watch.held;
        held.change(self.key, |entry| entry.parts -= 1);
        held.remove_unneeded(self.key);
        self.watch.has_let_go();
    }
}

/// What the task of a stream knows of its response.
#[derive(Default)]
pub(in crate::edge) struct Known(Option<usize>);

impl Known {
    /// Whether the response was held for too long: its task is to end.
    pub(in crate::edge) fn is_late(&self, watch: &Watch) -> bool {
        let is_late = |key| watch.held.change(key, |entry| entry.is_late);
        self.0.and_then(is_late).unwrap_or(false)
    }

    /// The task was polled. Its response lives no longer than it does, so that the key stays good.
    pub(in crate::edge) fn learn(&mut self, watch: &Watch) {
        self.0 = watch.held.polled.take().or(self.0);
    }

    /// The task goes on: it is woken when its response is held for too long.
    pub(in crate::edge) fn wait(&self, watch: &Watch, context: &Context<'_>) {
        let Some(key) = self.0 else { return };
        let is_known = |task: &Waker| task.will_wake(context.waker());
        let old = watch.held.change(key, |entry| {
            let is_new = !entry.task.as_ref().is_some_and(is_known);
            is_new.then(|| entry.task.replace(context.waker().clone()))
        });
        // Not while the books are open: with a task goes all that it has.
        drop(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Ticks = 3;

    fn held() -> HeldResponses {
        let held = HeldResponses::default();
        held.entries.borrow_mut().insert(Entry {
            parts: 1,
            ..Entry::default()
        });
        held
    }

    /// After how many sweeps a response is late, if it is before the hundredth.
    fn late_after(held: &HeldResponses, socket_is_full: bool) -> Option<usize> {
        (1..100).find(|_| held.look(socket_is_full, MOST) == (1, true))
    }

    #[test]
    fn an_answer_waits_for_its_turn_at_a_socket_that_is_full_of_answers() {
        let held = held();
        held.has_moved.set(true);
        held.socket_is_full();
        assert_eq!(late_after(&held, true), None);
        assert_eq!(late_after(&held, false), Some(4), "it has room again");
    }

    #[test]
    fn a_socket_that_is_full_of_something_else_excuses_nothing() {
        let held = held();
        held.has_moved.set(true);
        held.socket_is_full();
        held.socket_is_full();
        assert_eq!(late_after(&held, true), Some(4));
    }
}
