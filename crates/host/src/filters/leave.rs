//! How a filter leaves: its root context is told, and gets some time for what it has still to do.
//!
//! That is not done on a request's way: whoever has a lease last only begins it.

use super::{Live, Loaded, Slot};
use crate::{figures::GuestFigures, upstream::Client};
use std::{
    cell::RefCell,
    future::poll_fn,
    mem,
    ops::Deref,
    rc::{Rc, Weak},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::task::JoinHandle;

/// How long a filter that leaves may wait for its HTTP calls, and for what it says that it is not done with.
const LEAVE_TIME: Duration = Duration::from_secs(2);

thread_local! {
    /// Filters of this worker's that are leaving.
    static LEAVING: RefCell<Vec<JoinHandle<()>>> = const { RefCell::new(Vec::new()) };
}

/// A filter on one worker, for routes and for requests under way. With the last of it the filter leaves.
pub(crate) struct Lease(Rc<Slot>);

impl Lease {
    pub(crate) fn new(
        loaded: &Arc<Loaded>,
        figures: Arc<GuestFigures>,
        client: &Client,
    ) -> Rc<Self> {
        Rc::new(Self(Slot::new(loaded, figures, client)))
    }

    /// Has the filter leave, if it has a kept instance: on a task of its own.
    pub(crate) fn end(&self) {
        let Some(live) = self.0.live.take() else {
            return;
        };
        let task = tokio::task::spawn_local(leave(Rc::clone(&self.0), live));
        LEAVING.with_borrow_mut(|leaving| {
            leaving.retain(|task| !task.is_finished());
            leaving.push(task);
        });
    }
}

impl Deref for Lease {
    type Target = Rc<Slot>;

    fn deref(&self) -> &Rc<Slot> {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until every filter of this worker's that is leaving has left.
pub(crate) async fn left() {
    for task in LEAVING.with_borrow_mut(mem::take) {
        // One that panicked has said so on stderr.
        let _ = task.await;
    }
}

/// Its calls and faults need the slot for as long as it takes.
async fn leave(slot: Rc<Slot>, live: Rc<Live>) {
    live.tell(&Weak::new(), |instance| instance.stop().map(drop));
    let done = poll_fn(|context| live.poll_done(context));
    let _ = tokio::time::timeout(LEAVE_TIME, done).await;
    live.give_up_calls();
    drop(slot);
}

impl Live {
    /// Ready when a filter that was told to stop has nothing more to do.
    fn poll_done(&self, context: &mut Context<'_>) -> Poll<()> {
        let is_done = self.instance.borrow().is_done() && self.calls.borrow().is_empty();
        if is_done {
            return Poll::Ready(());
        }
        self.leaving.set(Some(context.waker().clone()));
        Poll::Pending
    }
}
