//! How many requests guests have sent that are not over: their own bodies taken, and their answers read.
//!
//! Each takes a task, buffers and a connection of the server's.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::{
    cell::Cell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

/// Of one instance, at one time.
pub(crate) const INSTANCE: usize = 32;
/// Of all instances of a component on one worker.
pub(crate) const WORKER: usize = 256;

/// Requests under way, of whoever shares this.
#[derive(Clone, Default)]
pub(crate) struct Sends(Rc<Cell<usize>>);

/// One request, until its body and its answer's are done with or given up.
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

/// The body of a request or of its answer: the request counts as long as either is there.
pub(crate) struct Counted<B> {
    pub(crate) body: B,
    pub(crate) _sent: Rc<[Sent; 2]>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Counted<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
