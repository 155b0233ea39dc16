//! Answers that the server gives itself.

use crate::{body::Body, component::Unanswered, upstream::UpstreamError};
use http::{
    HeaderValue, Response, StatusCode,
    header::{CONTENT_TYPE, LOCATION, RETRY_AFTER},
};
use palisade_service::Fault;

/// Plain text, one line.
fn answer(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

pub(crate) fn bad_path() -> Response<Body> {
    answer(
        StatusCode::BAD_REQUEST,
        "the path of this request is malformed\n",
    )
}

pub(crate) fn ambiguous_path() -> Response<Body> {
    answer(
        StatusCode::BAD_REQUEST,
        "the path of this request could be understood in more than one way\n",
    )
}

pub(crate) fn no_route() -> Response<Body> {
    answer(StatusCode::NOT_FOUND, "nothing is served here\n")
}

pub(crate) fn redirect(target: &str) -> Response<Body> {
    let mut response = answer(StatusCode::PERMANENT_REDIRECT, "");
    match HeaderValue::try_from(target) {
        Ok(target) => {
            response.headers_mut().insert(LOCATION, target);
            response
        }
        Err(_) => bad_path(),
    }
}

pub(crate) fn filter_failed() -> Response<Body> {
    answer(
        StatusCode::INTERNAL_SERVER_ERROR,
        "a filter of this route failed\n",
    )
}

/// A filter holds more of the request's body than it may.
pub(crate) fn request_too_large() -> Response<Body> {
    answer(
        StatusCode::PAYLOAD_TOO_LARGE,
        "the body of this request is too long for a filter of this route\n",
    )
}

/// The same, of the answer's.
pub(crate) fn answer_too_large() -> Response<Body> {
    answer(
        StatusCode::INTERNAL_SERVER_ERROR,
        "the body of this answer is too long for a filter of this route\n",
    )
}

pub(crate) fn too_late() -> Response<Body> {
    answer(StatusCode::GATEWAY_TIMEOUT, "there was no answer in time\n")
}

/// The service has more requests than are left for all others.
pub(crate) fn busy() -> Response<Body> {
    let mut response = answer(
        StatusCode::SERVICE_UNAVAILABLE,
        "the service has too many requests under way\n",
    );
    let later = HeaderValue::from_static("1");
    response.headers_mut().insert(RETRY_AFTER, later);
    response
}

pub(crate) fn service_missing() -> Response<Body> {
    answer(
        StatusCode::SERVICE_UNAVAILABLE,
        "the service is not there\n",
    )
}

/// What comes of a component that did not answer.
pub(crate) fn component(error: &Unanswered) -> Response<Body> {
    if matches!(error, Unanswered::Fault(Fault::Time(_))) {
        return too_late();
    }
    let text = match error.status() {
        StatusCode::BAD_REQUEST => "the request names no host, or broke off\n",
        StatusCode::REQUEST_TIMEOUT => "the request took too long\n",
        StatusCode::SERVICE_UNAVAILABLE => "the service is not ready\n",
        StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
            "a server that the service asked did not answer\n"
        }
        _ => "the service failed\n",
    };
    let answer = answer(error.status(), text);
    match error.is_want_of_instances() {
        true => come_again(answer),
        false => answer,
    }
}

/// What comes of a filter that there was no instance of.
pub(crate) fn filter_busy() -> Response<Body> {
    come_again(answer(
        StatusCode::SERVICE_UNAVAILABLE,
        "a filter of this route is not ready\n",
    ))
}

/// The client may try again once others have had their answers.
fn come_again(mut answer: Response<Body>) -> Response<Body> {
    answer
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// What comes of a server or a program that did not answer.
pub(crate) fn upstream(error: &UpstreamError) -> Response<Body> {
    let text = match error.status() {
        StatusCode::GATEWAY_TIMEOUT => "the service did not answer in time\n",
        StatusCode::SERVICE_UNAVAILABLE => "the service is not ready\n",
        StatusCode::BAD_REQUEST => "the request broke off\n",
        StatusCode::NOT_IMPLEMENTED => "this is not passed through\n",
        _ => "the service could not be reached\n",
    };
    let mut response = answer(error.status(), text);
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// No answer: the edge breaks the connection or the stream off that this is for.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("broken off")]
pub(crate) struct Reset;

pub(crate) fn reset() -> Response<Body> {
    let mut response = answer(StatusCode::INTERNAL_SERVER_ERROR, "broken off\n");
    response.extensions_mut().insert(Reset);
    response
}
