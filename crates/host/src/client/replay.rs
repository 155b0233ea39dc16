//! What is kept of a request that may be sent twice.

use crate::body::Body;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use std::cell::RefCell;

/// A request that does no harm when it is done twice (RFC 9110, 9.2.2) and whose body is there as a whole.
#[derive(Debug)]
pub(super) struct Replay {
    method: Method,
    target: Uri,
    fields: Vec<(HeaderName, HeaderValue)>,
    body: bytes::Bytes,
}

/// Lists of fields that were used before: keeping a request allocates nothing then.
#[derive(Debug, Default)]
pub(crate) struct Spares(RefCell<Vec<Vec<(HeaderName, HeaderValue)>>>);

/// More are not worth their memory.
const MOST_SPARES: usize = 64;

impl Replay {
    /// Keeps what is needed of `request`.
    pub(super) fn of(request: &Request<Body>, spares: &Spares) -> Option<Self> {
        let body = match request.body() {
            Body::Empty => bytes::Bytes::new(),
            Body::Whole(bytes) => bytes.clone(),
            body if http_body::Body::is_end_stream(body) => bytes::Bytes::new(),
            _ => return None,
        };
        if !request.method().is_idempotent() {
            return None;
        }
        let mut fields = spares.0.borrow_mut().pop().unwrap_or_default();
        let entries = request.headers().iter();
        fields.extend(entries.map(|(name, value)| (name.clone(), value.clone())));
        Some(Self {
            method: request.method().clone(),
            target: request.uri().clone(),
            fields,
            body,
        })
    }

    /// The request, once more.
    pub(super) fn again(&self) -> Request<Body> {
        let body = match self.body.is_empty() {
            true => Body::Empty,
            false => Body::Whole(self.body.clone()),
        };
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.target.clone();
        let fields = self.fields.iter().cloned();
        for (name, value) in fields {
            request.headers_mut().append(name, value);
        }
        request
    }
}

impl Spares {
    /// Keeps the list for the next request.
    pub(super) fn take_back(&self, mut replay: Replay) {
        replay.fields.clear();
        let mut spares = self.0.borrow_mut();
        if spares.len() < MOST_SPARES {
            spares.push(replay.fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_effects_is_kept_whole() {
        let spares = Spares::default();
        let request = Request::put("/a?b")
            .header("x-many", "1")
            .header("x-many", "2")
            .body(Body::from("text"))
            .unwrap();
        let replay = Replay::of(&request, &spares).unwrap();
        let again = replay.again();
        assert_eq!(again.method(), Method::PUT);
        assert_eq!(again.uri(), "/a?b");
        assert_eq!(again.headers(), request.headers());
        assert!(matches!(again.body(), Body::Whole(text) if text == "text"));
        spares.take_back(replay);
        assert_eq!(spares.0.borrow().len(), 1);
    }

    #[test]
    fn what_could_do_harm_is_not_kept() {
        let spares = Spares::default();
        let post = Request::post("/").body(Body::Empty).unwrap();
        assert!(Replay::of(&post, &spares).is_none());
        let put = Request::put("/").body(Body::new(Endless)).unwrap();
        assert!(Replay::of(&put, &spares).is_none());
    }

    struct Endless;

    impl http_body::Body for Endless {
        type Data = bytes::Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
            std::task::Poll::Pending
        }
    }
}
