//! Bodies of requests that have filters, on their way to a component.
//!
//! A component reads on a stack of its own, where no other guest can be called. So a task beside it lets the filters do
//! their work, and only when the component asks for what comes next: what nobody reads is not fetched.

use crate::body::{Body, BodyError};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::sync::mpsc;

/// What comes next; `None`: it is at its end.
type Next = Option<Result<Frame<Bytes>, BodyError>>;

/// The task was ended before the body was.
#[derive(Debug, thiserror::Error)]
#[error("host: the server stops")]
struct CutOff;

/// What the component reads. Dropping it ends the task, which has the body itself.
struct Read {
    ask: mpsc::Sender<()>,
    nexts: mpsc::Receiver<Next>,
    is_asked: bool,
    is_at_end: bool,
    hint: SizeHint,
}

/// To be called in the worker's `LocalSet`. A body that no filter looks at stays what it is.
pub(super) fn read_beside(body: Body) -> Body {
    if !matches!(body, Body::Other(_)) || body.is_end_stream() {
        return body;
    }
    let (ask, asked) = mpsc::channel(1);
    let (give, nexts) = mpsc::channel(1);
    let hint = body.size_hint();
    tokio::task::spawn_local(fetch(body, asked, give));
    Body::new(Read {
        ask,
        nexts,
        is_asked: false,
        is_at_end: false,
        hint,
    })
}

async fn fetch(mut body: Body, mut asked: mpsc::Receiver<()>, give: mpsc::Sender<Next>) {
    while asked.recv().await.is_some() {
        let next = tokio::select! {
            biased;
            // Nobody waits for it any more.
            () = give.closed() => return,
            next = body.frame() => next,
        };
        let is_at_end = next.is_none();
        if give.send(next).await.is_err() || is_at_end {
            return;
        }
    }
}

impl HttpBody for Read {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.is_at_end {
            return Poll::Ready(None);
        }
        if !self.is_asked {
            // There is room: the last one was taken before its response came. Without a task there is no response either.
            let _ = self.ask.try_send(());
            self.is_asked = true;
        }
        let next = ready!(self.nexts.poll_recv(context));
        self.is_asked = false;
        let next = next.unwrap_or_else(|| Some(Err(CutOff.into())));
        self.is_at_end = !matches!(next, Some(Ok(_)));
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        self.is_at_end
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}
