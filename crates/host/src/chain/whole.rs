//! Bodies that are held until their length is known.
//!
//! A filter that may change a body takes its `content-length` away: nobody knows the new one before the filter has seen all
//! of it. Servers that know no chunks (Python's `http.server`, much that speaks CGI) would take such a request for an
//! empty one. So where the other side had said a length, and the filter's `body-size` has room for it, the filtered body is
//! held whole, and goes on with the length that it has then. What had none goes on piece by piece as it comes.

use crate::body::{Body, BodyError};
use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame};
use std::{
    cell::Cell,
    future::poll_fn,
    mem,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// Bytes that a worker holds so at one time: what comes beyond goes on in pieces.
const MOST_BYTES: usize = 64 << 20;

thread_local! {
    static HELD_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// A body on its way to be held whole.
pub(super) struct Gathered {
    body: Body,
    held: Bytes,
    /// What comes behind that is held.
    next: Option<Result<Frame<Bytes>, BodyError>>,
    most_bytes: usize,
}

/// Room for one.
struct Room(usize);

impl Room {
    fn take(bytes: usize) -> Option<Self> {
        let held = HELD_BYTES.get().saturating_add(bytes);
        (held <= MOST_BYTES).then(|| {
            HELD_BYTES.set(held);
            Self(bytes)
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        HELD_BYTES.set(HELD_BYTES.get().saturating_sub(self.0));
    }
}

/// The body as a whole, if it ends before there is more than `most_bytes` of it, and before `limit` if there is one; else
/// what of it has come, and the rest behind.
pub(super) async fn gather(body: Body, most_bytes: usize, limit: Option<Duration>) -> Body {
    let Some(_room) = Room::take(most_bytes) else {
        return body;
    };
    let mut gathered = Gathered {
        body,
        held: Bytes::new(),
        next: None,
        most_bytes,
    };
    let end = poll_fn(|context| gathered.poll_end(context));
    let is_whole = match limit {
        None => end.await,
        Some(limit) => tokio::time::timeout(limit, end).await.unwrap_or(false),
    };
    match is_whole {
        true => Body::Whole(gathered.held),
        false => Body::new(gathered),
    }
}

impl Gathered {
    /// Whether all of it is held once nothing more is to be waited for.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        loop {
            let frame = match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(true),
                Poll::Ready(Some(frame)) => frame,
            };
            let has_room = |data: &Bytes| self.held.len() + data.len() <= self.most_bytes;
            match frame.as_ref().map(Frame::data_ref) {
                Ok(Some(data)) if has_room(data) => self.hold(data.clone()),
                _ => {
                    self.next = Some(frame);
                    return Poll::Ready(false);
                }
            }
        }
    }

    fn hold(&mut self, data: Bytes) {
        if self.held.is_empty() {
            self.held = data;
            return;
        }
        let mut held = match mem::take(&mut self.held).try_into_mut() {
            Ok(held) => held,
            Err(held) => {
                let mut copy = BytesMut::with_capacity(self.most_bytes);
                copy.extend_from_slice(&held);
                copy
            }
        };
        held.extend_from_slice(&data);
        self.held = held.freeze();
    }
}

impl HttpBody for Gathered {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if !self.held.is_empty() {
            let held = mem::take(&mut self.held);
            return Poll::Ready(Some(Ok(Frame::data(held))));
        }
        match self.next.take() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => Pin::new(&mut self.body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.next.is_none() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::{collections::VecDeque, convert::Infallible};

    /// A body of these pieces, each there at once.
    fn body(pieces: &[&'static str]) -> Body {
        let pieces: VecDeque<_> = pieces.iter().copied().collect();
        Body::new(Pieces(pieces))
    }

    struct Pieces(VecDeque<&'static str>);

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let piece = self.0.pop_front();
            Poll::Ready(piece.map(|piece| Ok(Frame::data(piece.into()))))
        }
    }

    fn run<F: Future>(future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(future)
    }

    #[test]
    fn a_body_is_whole_up_to_the_bound() {
        let gathered = run(gather(body(&["abc", "def", "g"]), 7, None));
        assert!(matches!(gathered, Body::Whole(bytes) if bytes == "abcdefg"));
    }

    #[test]
    fn a_longer_one_loses_nothing() {
        run(async {
            let gathered = gather(body(&["abc", "def", "g"]), 6, None).await;
            assert!(matches!(gathered, Body::Other(_)));
            assert_eq!(gathered.collect().await.unwrap().to_bytes(), "abcdefg");
        });
    }

    #[test]
    fn room_is_given_back_and_has_an_end() {
        let all = Room::take(MOST_BYTES).unwrap();
        assert!(Room::take(1).is_none());
        let passed = run(gather(body(&["a"]), 1, None));
        assert!(matches!(passed, Body::Other(_)));
        drop(all);
        let passed = run(gather(body(&["a"]), 1, None));
        assert!(matches!(passed, Body::Whole(_)));
        assert!(Room::take(MOST_BYTES).is_some());
    }
}
