//! How a filter leaves: its root context is told, and gets some time for what it has still to do.
//!
//! That is not done on a request's way: whoever has a lease last only begins it.

use super::{Live, Loaded, Slot};
use crate::metrics::GuestMetrics;
use std::{
    cell::RefCell,
    future::poll_fn,
    mem,
    ops::Deref,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{task::JoinHandle, time::timeout};

/// How long a filter that leaves may wait for the HTTP calls of its streams; and as long again for all others, and for
/// what it says that it is not done with.
const LEAVE_TIME: Duration = Duration::from_secs(2);

thread_local! {
    /// Filters of this worker's that are leaving.
    static LEAVING: RefCell<Vec<JoinHandle<()>>> = const { RefCell::new(Vec::new()) };
}

/// A filter on one worker, for routes and for requests under way. With the last of it the filter leaves.
pub(crate) struct Lease(Rc<Slot>);

impl Lease {
    pub(crate) fn new(loaded: &Arc<Loaded>, figures: Arc<GuestMetrics>) -> Rc<Self> {
        Rc::new(Self(Slot::new(loaded, figures)))
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
///
/// Streams that it is not done with come first: the guest hears of no call's answer once its root context is done.
async fn leave(slot: Rc<Slot>, live: Rc<Live>) {
    let finished = poll_fn(|context| live.poll_leaving(context, Live::has_call_of_stream));
    let _ = timeout(LEAVE_TIME, finished).await;
    live.tell(|instance| instance.stop().map(drop));
    let done = poll_fn(|context| live.poll_leaving(context, Live::has_work));
    let _ = timeout(LEAVE_TIME, done).await;
    live.give_up_calls();
    drop(slot);
}

impl Live {
    /// Ready when a filter that leaves is no longer at this.
    fn poll_leaving(&self, context: &mut Context<'_>, is_at: impl Fn(&Self) -> bool) -> Poll<()> {
        if !is_at(self) {
            return Poll::Ready(());
        }
        self.leaving.set(Some(context.waker().clone()));
        Poll::Pending
    }

    fn has_call_of_stream(&self) -> bool {
        let calls = self.calls.borrow();
        calls.iter().any(|call| call.stream.is_some())
    }

    fn has_work(&self) -> bool {
        !self.instance.borrow().is_done() || !self.calls.borrow().is_empty()
    }
}
