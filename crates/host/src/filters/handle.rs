//! How a filter leaves: its root context is told, and gets some time for what it has still to do.
//!
//! That is not done on a request's way: whoever has a handle last only begins it.

use super::{FilterInstance, Loaded, WorkerFilter, spent};
use crate::{metrics::GuestMetrics, turns::Party};
use std::{cell::RefCell, future::poll_fn, mem, ops::Deref, rc::Rc, sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::timeout};

/// How long a filter that leaves may wait for the HTTP calls of its streams; and as long again for all others, and for
/// what it says that it is not done with.
const LEAVE_TIME: Duration = Duration::from_secs(2);

thread_local! {
    /// Filters of this worker's that are leaving.
    static LEAVING: RefCell<Vec<JoinHandle<()>>> = const { RefCell::new(Vec::new()) };
}

/// A filter on one worker, for routes and for requests under way. With the last of it the filter leaves.
pub(crate) struct FilterHandle(Rc<WorkerFilter>);

impl FilterHandle {
    /// `party`: whose it is.
    pub(crate) fn new(
        loaded: &Arc<Loaded>,
        metrics: Arc<GuestMetrics>,
        party: &Rc<Party>,
    ) -> Rc<Self> {
        Rc::new(Self(WorkerFilter::new(loaded, metrics, party)))
    }

    /// Has the filter leave, if it has a kept instance: on a task of its own.
    pub(crate) fn end(&self) {
        Self::end_instance(&self.0);
    }

    /// Has the kept instance leave, if there is one.
    pub(super) fn end_instance(filter: &Rc<WorkerFilter>) {
        let Some(instance) = filter.instance.take() else {
            return;
        };
        let task = tokio::task::spawn_local(leave(Rc::clone(filter), instance));
        LEAVING.with_borrow_mut(|leaving| {
            leaving.retain(|task| !task.is_finished());
            leaving.push(task);
        });
    }
}

impl Deref for FilterHandle {
    type Target = Rc<WorkerFilter>;

    fn deref(&self) -> &Rc<WorkerFilter> {
        &self.0
    }
}

impl Drop for FilterHandle {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until every filter of this worker's that is leaving has left. Instances end at once from then on.
pub(crate) async fn left() {
    for task in LEAVING.with_borrow_mut(mem::take) {
        // One that panicked has said so on stderr.
        let _ = task.await;
    }
    spent::end_for_good();
}

/// Its calls and faults need the filter for as long as it takes.
///
/// Streams that it is not done with come first: the guest hears of no call's response once its root context is done.
async fn leave(filter: Rc<WorkerFilter>, instance: Rc<FilterInstance>) {
    let finished =
        poll_fn(|context| instance.poll_leaving(context, FilterInstance::has_call_of_stream));
    let _ = timeout(LEAVE_TIME, finished).await;
    instance.tell(|guest| guest.stop().map(drop));
    let done = poll_fn(|context| instance.poll_leaving(context, FilterInstance::has_work));
    let _ = timeout(LEAVE_TIME, done).await;
    instance.give_up_calls();
    drop(filter);
}
