//! The response to a request: its head, then the body as the guest writes it.

use crate::{
    Fault,
    drive::{Drive, Head},
    host::BodyError,
};
use bytes::Bytes;
use http::{HeaderMap, Response, header::CONTENT_LENGTH};
use http_body::{Body, Frame, SizeHint};
use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll},
};
use tokio::sync::oneshot;
use wasmtime_wasi_http::{Error, WasiBody};

/// Parts that are taken before the head goes out, to know how long a short body is.
const TAKEN_FIRST: usize = 2;

/// Drives a guest until it has set its response's head, and to its end if that is near.
pub(crate) async fn respond(
    mut drive: Drive,
    mut head: oneshot::Receiver<Head>,
) -> Result<Response<ResponseBody>, Fault> {
    let head = poll_fn(|context| {
        let has_ended = drive.poll(context).is_ready();
        match head.try_recv() {
            Ok(head) => Poll::Ready(Some(head)),
            Err(_) if has_ended => Poll::Ready(None),
            Err(_) => Poll::Pending,
        }
    })
    .await;
    let fault = match head {
        Some(Ok(head)) => {
            let (head, body) = head.into_parts();
            let mut streaming = Streaming::new(drive, body, &head.headers);
            poll_fn(|context| Poll::Ready(streaming.begin(context))).await?;
            return Ok(Response::from_parts(head, streaming.begun()));
        }
        Some(Err(fault)) => fault,
        None => drive.exit().map_or(Fault::NoResponse, Fault::Exit),
    };
    let fault = drive.fail(fault).clone();
    drive.rest();
    Err(fault)
}

/// The body of a response. It stays on its worker's thread. Dropping one that is not at its end ends the
/// guest.
#[derive(Default)]
pub enum ResponseBody {
    /// Nothing.
    #[default]
    Empty,
    /// All of it.
    Whole(Bytes),
    /// What the guest goes on writing.
    Streaming(Box<Streaming>),
}

/// What a guest goes on writing.
pub struct Streaming {
    /// `None` when the guest is of no concern any more.
    drive: Option<Drive>,
    body: WasiBody,
    ready: VecDeque<Frame<Bytes>>,
    /// What the head announces.
    announced_bytes: Option<u64>,
    written_bytes: u64,
    is_at_end: bool,
}

impl Streaming {
    fn new(drive: Drive, body: WasiBody, headers: &HeaderMap) -> Self {
        let announced = headers.get(CONTENT_LENGTH);
        Self {
            drive: Some(drive),
            body,
            ready: VecDeque::new(),
            announced_bytes: announced
                .and_then(|length| length.to_str().ok())
                .and_then(|length| length.parse().ok()),
            written_bytes: 0,
            is_at_end: false,
        }
    }

    /// Takes what there is of the body before the head goes out: all of a short one, so that its length can be
    /// announced.
    ///
    /// # Errors
    ///
    /// When it breaks off already: nothing of the response has gone out.
    fn begin(&mut self, context: &mut Context<'_>) -> Result<(), Fault> {
        while self.ready.len() < TAKEN_FIRST {
            match self.poll_next(context) {
                Poll::Ready(Some(Ok(frame))) => self.ready.push_back(frame),
                Poll::Ready(Some(Err(fault))) => return Err(fault),
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// A short body that is all there needs no guest any more.
    fn begun(self) -> ResponseBody {
        match self.is_at_end {
            true => self.whole(),
            false => ResponseBody::Streaming(Box::new(self)),
        }
    }

    fn whole(mut self) -> ResponseBody {
        match self.ready.pop_front().map(Frame::into_data) {
            None => ResponseBody::Empty,
            Some(Ok(bytes)) if self.ready.is_empty() => ResponseBody::Whole(bytes),
            Some(part) => {
                let frame = part.map_or_else(|frame| frame, Frame::data);
                self.ready.push_front(frame);
                ResponseBody::Streaming(Box::new(self))
            }
        }
    }

    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let Some(drive) = &mut self.drive else {
            return Poll::Ready(None);
        };
        let has_ended = drive.poll(context).is_ready();
        let body = &mut self.body;
        let polled = match has_ended {
            // What is there is all there will be: no turn is given to others in place of it.
            true => {
                let next = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
                pin!(tokio::task::unconstrained(next)).poll(context)
            }
            false => Pin::new(body).poll_frame(context),
        };
        match polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.written_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                drive.is_taken_from();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => self.break_off(Fault::Broken(tell(&error))),
            Poll::Ready(None) => match drive.fault().cloned() {
                Some(fault) => self.break_off(fault),
                None => {
                    self.finish(Some(context));
                    Poll::Ready(None)
                }
            },
            // Its other end is left over, and nobody will write to it.
            Poll::Pending if has_ended => self.break_off(Fault::Unfinished),
            Poll::Pending => Poll::Pending,
        }
    }

    fn break_off(&mut self, fault: Fault) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let fault = match self.drive.take() {
            // What it failed of before, if it did, is why.
            Some(mut drive) => drive.fail(fault).clone(),
            None => fault,
        };
        Poll::Ready(Some(Err(fault)))
    }

    /// The guest may have more to do than answer.
    fn finish(&mut self, context: Option<&mut Context<'_>>) {
        self.is_at_end = true;
        // A guest of WASI 0.3 is told by this that its body was taken.
        self.body = WasiBody::default();
        if let Some(mut drive) = self.drive.take() {
            let has_ended = context.is_some_and(|context| drive.poll(context).is_ready());
            if !has_ended {
                drive.rest();
            }
        }
    }
}

fn tell(error: &Error) -> String {
    match error {
        Error::HttpProtocolError => "it gave the body up before its end".into(),
        error => error.to_string(),
    }
}

impl Drop for Streaming {
    /// A connection has no reason to ask for the end of a body whose length it knows.
    fn drop(&mut self) {
        if !self.is_at_end && self.announced_bytes == Some(self.written_bytes) {
            self.finish(None);
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Self::Streaming(streaming) => match streaming.ready.pop_front() {
                Some(frame) => Poll::Ready(Some(Ok(frame))),
                None => streaming
                    .poll_next(context)
                    .map(|next| next.map(|frame| frame.map_err(BodyError::from))),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Streaming(streaming) => streaming.is_at_end && streaming.ready.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Streaming(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Self::Empty => "Empty",
            Self::Whole(_) => "Whole",
            Self::Streaming(_) => "Streaming",
        };
        formatter.write_str(kind)
    }
}
