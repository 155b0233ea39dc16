//! A body that goes from one thread to another.

use crate::body::{Body, BodyError};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::sync::{
    mpsc::{self, Receiver, Sender},
    oneshot,
};

/// Parts of a body that wait on their way.
const MOST_PARTS: usize = 4;

/// `None`: the end. A body that breaks off has none, whatever becomes of the thread that it comes from.
type Part = Option<Result<Frame<Bytes>, BodyError>>;

/// The far end: it can go to another thread.
pub(crate) enum Carried {
    Empty,
    Whole(Bytes),
    Parts(Parts),
}

/// The near end, which gives what a body brings to the far end once that is asked for it: who reads a request's body tells its
/// client to send it.
pub(crate) struct Carry(Option<(Body, Sender<Part>, oneshot::Receiver<()>)>);

pub(crate) struct Parts {
    parts: Receiver<Part>,
    /// Of what was not taken yet.
    size: SizeHint,
    /// Until it is asked for.
    want: Option<oneshot::Sender<()>>,
    is_over: bool,
}

/// Both ends of a body's way.
pub(crate) fn split(body: Body) -> (Carried, Carry) {
    match body {
        Body::Empty => (Carried::Empty, Carry(None)),
        Body::Whole(bytes) => (Carried::Whole(bytes), Carry(None)),
        body if body.is_end_stream() => (Carried::Empty, Carry(None)),
        body => {
            let (sender, parts) = mpsc::channel(MOST_PARTS);
            let (want, wanted) = oneshot::channel();
            let size = body.size_hint();
            let parts = Parts {
                parts,
                size,
                want: Some(want),
                is_over: false,
            };
            (Carried::Parts(parts), Carry(Some((body, sender, wanted))))
        }
    }
}

impl Carry {
    /// Until the body ends, breaks off, or nobody takes it any more.
    pub(crate) async fn run(self) {
        let Some((mut body, sender, wanted)) = self.0 else {
            return;
        };
        // Nobody wants it who is gone.
        if wanted.await.is_err() {
            return;
        }
        loop {
            let part = tokio::select! {
                part = body.frame() => part,
                () = sender.closed() => return,
            };
            let is_over = !matches!(part, Some(Ok(_)));
            if sender.send(part).await.is_err() || is_over {
                return;
            }
        }
    }

    /// The same, beside whoever calls this.
    pub(crate) fn spawn(self) {
        if self.0.is_some() {
            tokio::task::spawn_local(self.run());
        }
    }
}

impl From<Carried> for Body {
    fn from(carried: Carried) -> Self {
        match carried {
            Carried::Empty => Self::Empty,
            Carried::Whole(bytes) => Self::Whole(bytes),
            Carried::Parts(parts) => Self::Other(Box::pin(parts)),
        }
    }
}

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(want) = self.want.take() {
            // Who has the body may be gone, which shows below.
            let _ = want.send(());
        }
        let part = match ready!(self.parts.poll_recv(context)) {
            Some(part) => part,
            None => Some(Err("host: the thread that had the body is gone".into())),
        };
        match &part {
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                self.size = less(&self.size, bytes);
            }
            Some(Err(_)) | None => self.is_over = true,
        }
        Poll::Ready(part)
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}

fn less(size: &SizeHint, bytes: u64) -> SizeHint {
    let mut left = SizeHint::new();
    left.set_lower(size.lower().saturating_sub(bytes));
    if let Some(upper) = size.upper() {
        left.set_upper(upper.saturating_sub(bytes).max(left.lower()));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use tokio::task::LocalSet;

    /// Brings these parts; an empty one breaks off.
    struct Script(VecDeque<&'static str>);

    impl HttpBody for Script {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            Poll::Ready(self.0.pop_front().map(|part| match part {
                "" => Err("broken off".into()),
                part => Ok(Frame::data(Bytes::from_static(part.as_bytes()))),
            }))
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0.iter().map(|part| part.len() as u64).sum())
        }
    }

    /// What arrives of these parts, and how it ends. `is_cut`: whoever gives them is gone before the end.
    async fn carried(parts: &[&'static str], is_cut: bool) -> (String, Result<(), String>) {
        let body = Body::new(Script(parts.iter().copied().collect()));
        let whole: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let (carried, carry) = split(body);
        match is_cut {
            true => drop(carry),
            false => carry.spawn(),
        }
        let mut body = Body::from(carried);
        assert_eq!(body.size_hint().exact(), Some(whole));
        let mut text = String::new();
        while let Some(part) = body.frame().await {
            match part {
                Ok(frame) => text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap()),
                Err(error) => return (text, Err(error.to_string())),
            }
            let left = body.size_hint().exact().unwrap();
            assert_eq!(left, whole - text.len() as u64);
        }
        (text, Ok(()))
    }

    #[tokio::test]
    async fn a_body_arrives_whole_or_is_seen_to_break_off() {
        let tasks = async {
            let many = ["a", "bc", "d", "e", "f", "g"];
            assert_eq!(carried(&many, false).await, ("abcdefg".into(), Ok(())));
            let (text, end) = carried(&["a", "", "b"], false).await;
            assert_eq!((&*text, &*end.unwrap_err()), ("a", "broken off"));
            let (text, end) = carried(&["a"], true).await;
            assert!(text.is_empty() && end.unwrap_err().contains("is gone"));
        };
        LocalSet::new().run_until(tasks).await;
    }

    #[tokio::test]
    async fn a_body_that_nobody_takes_is_not_carried_on() {
        let endless = Body::new(Script(std::iter::repeat_n("a", 100).collect()));
        let (carried, carry) = split(endless);
        drop(carried);
        carry.run().await;
    }
}
