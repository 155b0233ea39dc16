//! Responses that the server makes itself.

use crate::body::Body;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CONTENT_TYPE, LOCATION, RETRY_AFTER},
};

/// Plain text, one line.
pub(crate) fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

pub(crate) fn bad_path() -> Response<Body> {
    plain(
        StatusCode::BAD_REQUEST,
        "the path of this request is malformed\n",
    )
}

pub(crate) fn ambiguous_path() -> Response<Body> {
    plain(
        StatusCode::BAD_REQUEST,
        "the path of this request could be understood in more than one way\n",
    )
}

pub(crate) fn no_route() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "nothing is served here\n")
}

/// How long a client waits until it asks again for a tenant whose file somebody has to mend, in seconds.
const UNAVAILABLE_S: u64 = 10;

/// It is for a tenant whose file cannot be served.
pub(crate) fn tenant_unavailable() -> Response<Body> {
    let text = "what is asked for cannot be served for now\n";
    with_retry_after(plain(StatusCode::SERVICE_UNAVAILABLE, text), UNAVAILABLE_S)
}

pub(crate) fn redirect(target: &str) -> Response<Body> {
    let mut response = plain(StatusCode::PERMANENT_REDIRECT, "");
    match HeaderValue::try_from(target) {
        Ok(target) => {
            response.headers_mut().insert(LOCATION, target);
            response
        }
        Err(_) => bad_path(),
    }
}

pub(crate) fn filter_failed() -> Response<Body> {
    plain(
        StatusCode::INTERNAL_SERVER_ERROR,
        "a filter of this route failed\n",
    )
}

/// A filter holds more of the request's body than it may.
pub(crate) fn request_too_large() -> Response<Body> {
    plain(
        StatusCode::PAYLOAD_TOO_LARGE,
        "the body of this request is too long for a filter of this route\n",
    )
}

/// The same, of the response's.
pub(crate) fn response_too_large() -> Response<Body> {
    plain(
        StatusCode::INTERNAL_SERVER_ERROR,
        "the body of this response is too long for a filter of this route\n",
    )
}

pub(crate) fn too_late() -> Response<Body> {
    plain(
        StatusCode::GATEWAY_TIMEOUT,
        "there was no response in time\n",
    )
}

/// The service has more requests than are left for all others.
pub(crate) fn busy() -> Response<Body> {
    come_again(plain(
        StatusCode::SERVICE_UNAVAILABLE,
        "the service has too many requests under way\n",
    ))
}

pub(crate) fn service_missing() -> Response<Body> {
    plain(
        StatusCode::SERVICE_UNAVAILABLE,
        "the service is not there\n",
    )
}

/// What comes of a filter that there was no instance of.
pub(crate) fn filter_busy() -> Response<Body> {
    come_again(plain(
        StatusCode::SERVICE_UNAVAILABLE,
        "a filter of this route is not ready\n",
    ))
}

/// The client may try again in a moment.
pub(crate) fn come_again(mut response: Response<Body>) -> Response<Body> {
    let later = HeaderValue::from_static("1");
    response.headers_mut().insert(RETRY_AFTER, later);
    response
}

/// The client may try again after so many seconds.
pub(crate) fn with_retry_after(mut response: Response<Body>, seconds: u64) -> Response<Body> {
    response.headers_mut().insert(RETRY_AFTER, seconds.into());
    response
}

/// No response: the edge breaks the connection or the stream off that this is for.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("broken off")]
pub(crate) struct Reset;

pub(crate) fn reset() -> Response<Body> {
    let mut response = plain(StatusCode::INTERNAL_SERVER_ERROR, "broken off\n");
    response.extensions_mut().insert(Reset);
    response
}
