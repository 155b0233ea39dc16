//! The body of a request, on its way to the guest.
//!
//! A guest is started when the first part is there, or the end: a client that sends a head and nothing more
//! holds no instance. One that waits to be told to go on (`Expect: 100-continue`) is told by this.
//!
//! From then on it is measured how long the guest waits for more: what a client takes is not the guest's fault.

use crate::{Fault, host::BodyError, outgoing::guests_body};
use bytes::Bytes;
use http_body::{Body, Frame};
use std::{
    cell::Cell,
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};
use wasmtime_wasi_http::WasiBody;

/// Waits for the body's first part. What is to come is waited for by the guest.
///
/// # Errors
///
/// When it breaks off before.
pub(crate) async fn receive<B>(body: B) -> Result<(WasiBody, Option<Rc<Wait>>), Fault>
where
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<BodyError>,
{
    if body.is_end_stream() {
        return Ok((WasiBody::default(), None));
    }
    let mut rest = Box::pin(body);
    match poll_fn(|context| rest.as_mut().poll_frame(context)).await {
        None => Ok((WasiBody::default(), None)),
        Some(Ok(first)) => {
            let wait = Rc::<Wait>::default();
            let body = guests_body(Begun {
                first: Some(first),
                rest,
                wait: Rc::clone(&wait),
            });
            Ok((body, Some(wait)))
        }
        Some(Err(error)) => Err(Fault::Request(format!(
            "its body broke off: {}",
            error.into()
        ))),
    }
}

/// A body whose first part is there.
struct Begun<B> {
    first: Option<Frame<Bytes>>,
    rest: Pin<Box<B>>,
    wait: Rc<Wait>,
}

impl<B: Body<Data = Bytes>> Body for Begun<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        let polled = self.rest.as_mut().poll_frame(context);
        match polled {
            Poll::Pending => self.wait.begin(),
            Poll::Ready(_) => self.wait.end(),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }
}

/// How long a guest has waited for its request's body.
#[derive(Default)]
pub(crate) struct Wait {
    total: Cell<Duration>,
    since: Cell<Option<Instant>>,
    /// The guest has asked for more since it was run last.
    is_asked: Cell<bool>,
}

impl Wait {
    fn begin(&self) {
        self.is_asked.set(true);
        if self.since.get().is_none() {
            self.since.set(Some(Instant::now()));
        }
    }

    fn end(&self) {
        self.total.set(self.total());
        self.since.set(None);
    }

    /// The guest runs: it will ask again if it still waits.
    pub(crate) fn forget_asked(&self) {
        self.is_asked.set(false);
    }

    /// The guest has run. What it waits for is something else, if it did not ask.
    pub(crate) fn end_unless_asked(&self) {
        if !self.is_asked.get() {
            self.since.set(None);
        }
    }

    /// Until now.
    pub(crate) fn total(&self) -> Duration {
        let now = self.since.get().map(|since| since.elapsed());
        self.total.get() + now.unwrap_or_default()
    }
}
