//! The tasks of HTTP/2's streams, each of which the sweep can end alone.

use super::watch::{Known, Watch};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

/// Runs what hyper starts for each request of one connection, on the worker's own thread.
#[derive(Clone)]
pub(super) struct Streams(pub(super) Rc<Watch>);

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + 'static,
{
    fn execute(&self, future: F) {
        tokio::task::spawn_local(Task {
            future,
            watch: Rc::clone(&self.0),
            known: Known::default(),
        });
    }
}

pin_project! {
    /// One request and its response. Where it ends before the response does, h2 resets the stream.
    struct Task<F> {
        #[pin]
        future: F,
        watch: Rc<Watch>,
        known: Known,
    }
}

impl<F: Future<Output = ()>> Future for Task<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let task = self.project();
        if task.known.is_late(task.watch) {
            return Poll::Ready(());
        }
        let polled = task.future.poll(context);
        task.known.learn(task.watch);
        if polled.is_pending() {
            task.known.wait(task.watch, context);
        }
        polled
    }
}
