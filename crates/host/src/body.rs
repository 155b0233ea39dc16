//! Bodies of requests and responses, whatever they come from.

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// Why a body broke off.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Why a body broke off that filters inspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BrokenByFilter {
    #[error("guest: a filter failed over this body")]
    Failed,
    #[error("guest: a filter answered in place of the rest of this body")]
    Answered,
    #[error("guest: a filter broke this stream off")]
    Reset,
    #[error("guest: a filter holds back more of this body than its `body-size` allows")]
    TooLarge,
}

/// A body. It stays on its worker's thread.
#[derive(Default)]
pub enum Body {
    /// Nothing.
    #[default]
    Empty,
    /// What is there already.
    Whole(Bytes),
    /// What a connection brings.
    Incoming(Incoming),
    /// Anything else.
    Other(Pin<Box<dyn HttpBody<Data = Bytes, Error = BodyError>>>),
}

impl Body {
    /// Holds a body of another kind.
    pub fn new<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + 'static,
        B::Error: Into<BodyError>,
    {
        use http_body_util::BodyExt;
        Self::Other(Box::pin(body.map_err(Into::into)))
    }

    /// Whether all of it is there already.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self, Self::Empty | Self::Whole(_))
    }
}

impl HttpBody for Body {
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
            Self::Incoming(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            Self::Other(body) => body.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Incoming(body) => body.is_end_stream(),
            Self::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Incoming(body) => body.size_hint(),
            Self::Other(body) => body.size_hint(),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::Whole(Bytes::from_static(text.as_bytes()))
    }
}

impl From<Incoming> for Body {
    fn from(body: Incoming) -> Self {
        Self::Incoming(body)
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Self::Empty => "Empty",
            Self::Whole(_) => "Whole",
            Self::Incoming(_) => "Incoming",
            Self::Other(_) => "Other",
        };
        formatter.write_str(kind)
    }
}
