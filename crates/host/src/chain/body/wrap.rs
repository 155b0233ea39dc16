//! Bodies that pass through as they are, with something kept or seen before.

use crate::{
    body::{Body, BodyError},
    chain::SharedFlow,
};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use palisade_filter::Direction;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// A body beside the flow that it belongs to.
struct Kept {
    inner: Body,
    passed_bytes: u64,
    flow: SharedFlow,
}

/// The body, which keeps the flow until it is sent.
pub(super) fn keep_flow(inner: Body, flow: &SharedFlow) -> Body {
    Body::new(Kept {
        inner,
        passed_bytes: 0,
        flow: SharedFlow::clone(flow),
    })
}

impl HttpBody for Kept {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.passed_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut flow = self.flow.borrow_mut();
        flow.note_passed(Direction::Response, self.passed_bytes);
    }
}

/// A body whose first part has come.
pub(in crate::chain) struct Begun {
    first: Option<Result<Frame<Bytes>, BodyError>>,
    rest: Body,
}

impl Begun {
    pub(in crate::chain) fn body(first: Result<Frame<Bytes>, BodyError>, rest: Body) -> Body {
        Body::new(Self {
            first: Some(first),
            rest,
        })
    }
}

impl HttpBody for Begun {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let first = match &self.first {
            None => Some(0),
            Some(Ok(frame)) => frame.data_ref().map(Bytes::len),
            Some(Err(_)) => None,
        };
        match (first, self.rest.size_hint().exact()) {
            (Some(first), Some(rest)) => SizeHint::with_exact(first as u64 + rest),
            _ => SizeHint::default(),
        }
    }
}
