//! How many requests guests have sent that are not over: their own bodies taken, and their responses read.
//!
//! Each takes a task, buffers and a connection of the server's.

use std::{cell::Cell, rc::Rc};

/// Of one instance, at one time.
pub(crate) const INSTANCE: usize = 32;
/// Of all instances of a component on one worker.
pub(crate) const WORKER: usize = 256;

/// Requests under way, of whoever shares this.
#[derive(Clone, Default)]
pub(crate) struct Sends(Rc<Cell<usize>>);

/// One request, until its body and its response's are done with or given up.
pub(crate) struct Sent(Rc<Cell<usize>>);

impl Sends {
    /// One more, unless there are `most` already.
    pub(crate) fn begin(&self, most: usize) -> Option<Sent> {
        let now = self.0.get();
        (now < most).then(|| {
            self.0.set(now + 1);
            Sent(Rc::clone(&self.0))
        })
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
