//! What guests go on with when their responses have gone out: tasks of the worker's.

use palisade_service::Errand;
use std::cell::RefCell;
use tokio::sync::mpsc;

/// To a task of the worker's, which is where tasks can be spawned.
pub(super) type Errands = mpsc::UnboundedSender<Errand>;

thread_local! {
    static OF_THREAD: RefCell<Option<Errands>> = const { RefCell::new(None) };
}

/// Of all components of this thread. Called in its `LocalSet`.
pub(super) fn of_thread() -> Errands {
    OF_THREAD.with_borrow_mut(|errands| {
        let known = errands.as_ref().filter(|errands| !errands.is_closed());
        if let Some(errands) = known {
            return errands.clone();
        }
        errands.insert(begin()).clone()
    })
}

fn begin() -> Errands {
    let (sender, mut errands) = mpsc::unbounded_channel();
    tokio::task::spawn_local(async move {
        while let Some(errand) = errands.recv().await {
            tokio::task::spawn_local(errand);
        }
    });
    sender
}
