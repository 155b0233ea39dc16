//! Bodies on their way in and out, with the edge's bounds on them.

use super::watch::{Closing, Held, OpenRequest, Stream, Wait, Watch};
use crate::{
    body::{Body, BodyError, BrokenByFilter},
    kinds::BrokenBy,
    record::RequestRecord,
};
use bytes::{Buf, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use std::{
    cell::Cell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

/// Why a request's body was cut off. The edge answers with this in place of whatever is made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceivedFault {
    /// More came than `limits.body-size`.
    #[error("the request's body is longer than `limits.body-size`")]
    TooLong,
    /// Nothing came for `limits.body-time`.
    #[error("no part of the request's body came within `limits.body-time`")]
    TooLate,
    /// Nothing came at all of an HTTP/2 body whose client waits to be told to go on.
    #[error("the client waits to be told to send its body, which is not done in HTTP/2")]
    NotToldToGoOn,
}

/// How long a client of HTTP/2 with `expect: 100-continue` may wait before it is told that nobody will say so: clients
/// that go on by themselves do so after a second (curl), and need none.
const GO_ON: u32 = 4;

/// Where a request's body says why it was cut off, if it was.
pub(super) type Fault = Rc<Cell<Option<ReceivedFault>>>;

/// A request's body, with the bounds on its length and on the time between two parts.
pub struct Received {
    body: Incoming,
    rest: u64,
    wait: Rc<Wait>,
    fault: Fault,
}

impl Received {
    /// `expects`: its client may wait to be told to go on, which no library says in HTTP/2.
    pub(super) fn new(body: Incoming, expects: bool, watch: &Watch) -> Self {
        let sweep = watch.sweep();
        let wait = Wait::new(sweep);
        if expects {
            wait.set_first(GO_ON);
        }
        Self {
            body,
            rest: sweep.bounds().body_bytes,
            wait,
            fault: Rc::default(),
        }
    }

    /// Where it will say why it was cut off.
    pub(super) fn fault(&self) -> Fault {
        Rc::clone(&self.fault)
    }

    fn break_off(&self, fault: ReceivedFault) -> BodyError {
        self.fault.set(Some(fault));
        fault.into()
    }

    fn count(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, BodyError> {
        let length = frame.data_ref().map_or(0, |data| data.len() as u64);
        match self.rest.checked_sub(length) {
            Some(rest) => {
                self.rest = rest;
                Ok(frame)
            }
            None => Err(self.break_off(ReceivedFault::TooLong)),
        }
    }
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(fault) = self.fault.get() {
            return Poll::Ready(Some(Err(fault.into())));
        }
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending if self.wait.wait(context) => {
                let fault = match self.wait.is_first() {
                    true => ReceivedFault::NotToldToGoOn,
                    false => ReceivedFault::TooLate,
                };
                Poll::Ready(Some(Err(self.break_off(fault))))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(frame) => {
                self.wait.came();
                Poll::Ready(frame.map(|frame| self.count(frame?)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.wait.end();
    }
}

/// A response's body. Its end is the end of the request.
pub struct Sent {
    body: Body,
    /// HTTP/2, once a part of it was handed over.
    stream: Option<Stream>,
    /// Once a part did not come at once.
    wait: Option<Rc<Wait>>,
    /// Bytes to come, where that is known: with the last of them nobody asks for the body's end.
    rest: Option<u64>,
    /// Why the request's body was cut off, if it has one and was.
    fault: Option<Fault>,
    request: OpenRequest,
    record: RequestRecord,
}

/// What responses broke off in the middle.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the service has sent no part of its response for longer than `body-time`")]
struct ResponseLate;

impl Sent {
    /// `length`: bytes that it will have, where that is known. `fault`: of the request's body.
    pub(super) fn new(
        body: Body,
        length: Option<u64>,
        fault: Option<Fault>,
        request: OpenRequest,
        record: RequestRecord,
    ) -> Self {
        Self {
            body,
            stream: None,
            rest: length,
            fault,
            wait: None,
            request,
            record,
        }
    }

    /// A part of it, or its trailers, which are its end.
    fn pass(&mut self, frame: &Frame<Bytes>) {
        let Some(data) = frame.data_ref() else {
            return self.end();
        };
        self.record.sent(data.len());
        let bytes = data.len() as u64;
        self.rest = self.rest.map(|rest| rest.saturating_sub(bytes));
    }

    fn end(&mut self) {
        self.request.set_responded();
        self.record.ended();
    }

    fn break_off(&mut self, error: &BodyError) {
        let by = self.broken_by(error);
        if matches!(by, BrokenBy::Service | BrokenBy::Limit) {
            self.record.service_failed();
        }
        self.record.broke(by);
    }

    /// Whose doing an error of it is.
    fn broken_by(&self, error: &BodyError) -> BrokenBy {
        if error.is::<BrokenByFilter>() {
            BrokenBy::Filter
        } else if self.is_request_cut_off() || is_clients(error) {
            BrokenBy::Client
        } else if error.is::<ResponseLate>() {
            BrokenBy::Limit
        } else {
            BrokenBy::Service
        }
    }

    /// Whoever answered has not got the request that was announced, and can't be blamed for what it makes of that.
    fn is_request_cut_off(&self) -> bool {
        self.fault
            .as_ref()
            .is_some_and(|fault| fault.get().is_some())
    }

    /// Whether the next part has not come for too long. Neither the client's end nor its going away would end
    /// such a response.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let sweep = self.request.watch().sweep();
        self.wait
            .get_or_insert_with(|| Wait::new(sweep))
            .wait(context)
    }

    /// HTTP/2 keeps a part until the client's windows let it go. (HTTP/1 is watched at the socket.)
    fn hand_over(&mut self, bytes: Bytes) -> Part {
        let watch = self.request.watch();
        if !watch.is_http2() || bytes.is_empty() {
            return Part { bytes, held: None };
        }
        let stream = self.stream.get_or_insert_with(|| Stream::new(watch));
        Part {
            bytes,
            held: Some(stream.hand_over()),
        }
    }
}

/// A part of a response's body, which tells how far it has been sent.
pub struct Part {
    bytes: Bytes,
    held: Option<Held>,
}

impl Buf for Part {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let (Some(held), 1..) = (&self.held, count) {
            held.moved();
        }
    }
}

impl HttpBody for Sent {
    type Data = Part;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Part>, BodyError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_pending() {
            if !self.is_late(context) {
                return Poll::Pending;
            }
            let late = ResponseLate.into();
            self.break_off(&late);
            return Poll::Ready(Some(Err(late)));
        }
        if let Some(wait) = &self.wait {
            wait.came();
        }
        match &frame {
            Poll::Ready(Some(Ok(frame))) => self.pass(frame),
            Poll::Ready(Some(Err(error))) => self.break_off(error),
            Poll::Ready(None) => self.end(),
            Poll::Pending => {}
        }
        frame.map_ok(|frame| frame.map_data(|bytes| self.hand_over(bytes)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let Some(wait) = &self.wait {
            wait.end();
        }
        if self.body.is_end_stream() || self.rest == Some(0) {
            self.end();
        }
        if self.is_request_cut_off() {
            self.record.broke(BrokenBy::Client);
        }
        let closing = self.request.watch().present_closing();
        let is_late = self.stream.as_ref().is_some_and(Stream::is_late);
        if is_late || matches!(closing, Closing::Drop | Closing::Reset) {
            self.record.broke(BrokenBy::Limit);
        }
    }
}

/// Whether a component was ended for what its client did not do.
fn is_clients(error: &BodyError) -> bool {
    let fault = error.downcast_ref();
    matches!(fault, Some(palisade_service::Fault::Client))
}
