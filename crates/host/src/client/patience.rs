//! How long a response may take: counted from the last part of the request that the server took.

use crate::body::{Body, BodyError};
use bytes::Bytes;
use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::{
    cell::Cell,
    future::Future,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::Instant;

/// A request's body, and when a part of it was taken last.
#[derive(Debug)]
pub(super) struct PatientBody {
    body: Body,
    /// `None`: there is nothing to wait for.
    progress: Option<Rc<Progress>>,
}

/// When the last part of a body was taken.
#[derive(Debug)]
pub(super) struct Progress(Cell<Instant>);

/// What became of a response.
pub(super) enum Waited<T> {
    /// It came, or its connection failed.
    Responded(T),
    /// It did not come in time.
    TooLong,
}

/// Follows a request's body, if it has one that is not there as a whole.
pub(super) fn watch(request: Request<Body>) -> (Request<PatientBody>, Option<Rc<Progress>>) {
    let is_whole = request.body().is_there();
    let progress = (!is_whole && !request.body().is_end_stream())
        .then(|| Rc::new(Progress(Cell::new(Instant::now()))));
    let request = request.map(|body| PatientBody {
        body,
        progress: progress.clone(),
    });
    (request, progress)
}

/// The request as it was.
pub(super) fn unwatch(request: Request<PatientBody>) -> Request<Body> {
    request.map(|patient| patient.body)
}

/// Waits for a response, for at most `limit` after the last part of the request was taken.
pub(super) async fn within<F: Future>(
    limit: Duration,
    progress: Option<Rc<Progress>>,
    response: F,
) -> Waited<F::Output> {
    let mut response = pin!(response);
    let mut deadline = Instant::now() + limit;
    loop {
        if let Ok(response) = tokio::time::timeout_at(deadline, response.as_mut()).await {
            return Waited::Responded(response);
        }
        let last = progress.as_ref().map(|progress| progress.0.get());
        match last.map(|last| last + limit) {
            Some(later) if later > deadline => deadline = later,
            _ => return Waited::TooLong,
        }
    }
}

impl HttpBody for PatientBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let (Some(progress), true) = (&self.progress, polled.is_ready()) {
            progress.0.set(Instant::now());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
