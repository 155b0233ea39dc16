//! The part before the service: filters, from the first to the last.

use super::{
    Head, Met, SharedFlow, Stop,
    body::FilteredBody,
    empty_request,
    head::{pass_headers, pass_met, wait_for_body},
    response::{pass_back, pass_response},
    whole,
};
use crate::body::Body;
use http::{Response, header::CONTENT_LENGTH, request};
use http_body::Body as _;
use palisade_filter::{Direction, Part};
use std::{
    cell::Cell,
    future::poll_fn,
    mem,
    pin::{Pin, pin},
    task::Poll,
};

/// A request whose head has not passed all slots at once.
pub(crate) struct HeldRequest {
    /// The slot whose turn it is.
    pub(super) at: usize,
    /// `None`: it has not seen the head.
    pub(super) met: Option<Met>,
    pub(super) body: Body,
}

impl HeldRequest {
    /// One that no slot has seen.
    pub(crate) fn new(body: Body) -> Self {
        let (at, met) = (0, None);
        Self { at, met, body }
    }
}

/// Shows a request to the filters that it has not passed, as long as each lets the head pass at once. Gives the request's body as they
/// leave it; its head is in the flow.
pub(crate) fn pass_request_at_once(
    flow: &SharedFlow,
    held: HeldRequest,
) -> Result<Body, HeldRequest> {
    if held.met.is_some() {
        return Err(held);
    }
    let HeldRequest { at, body, .. } = held;
    let is_whole = body.is_end_stream();
    let met = flow.borrow_mut().show_request(at, is_whole);
    match met {
        None => Ok(pass_request_body(flow, body, 0)),
        Some((at, met)) => Err(HeldRequest {
            at,
            met: Some(met),
            body,
        }),
    }
}

/// The same from the slot on that did not let the head pass at once. Gives the response that one of them gives
/// in the service's place, if it does.
pub(crate) async fn pass_request_on(
    flow: &SharedFlow,
    held: HeldRequest,
) -> Result<Body, Response<Body>> {
    let HeldRequest {
        mut at,
        mut met,
        mut body,
    } = held;
    let count = flow.borrow().slots.len();
    // Stations below have their place in `body` already.
    let mut wrapped = 0;
    while at < count || met.is_some() {
        let is_whole = body.is_end_stream();
        let passed = match met.take() {
            Some(met) => pass_met(flow, at, Part::RequestHeaders, is_whole, met).await,
            None => pass_headers(flow, at, Part::RequestHeaders, is_whole).await,
        };
        match passed {
            Err(stop) => return Err(pass_back(flow, at, stop).await),
            Ok(Head::Passed) => {}
            Ok(Head::Held) => {
                body = FilteredBody::wrap(flow, body, Direction::Request, wrapped..at + 1);
                body = match wait_for_body(flow, body).await {
                    Err((at, stop)) => return Err(pass_back(flow, at, stop).await),
                    Ok(body) => body,
                };
                wrapped = at + 1;
                let stop = flow.borrow_mut().release_head(at, Direction::Request);
                if let Some(stop) = stop {
                    return Err(pass_back(flow, at, stop).await);
                }
            }
        }
        let has_one_form = flow.borrow_mut().normalize_path();
        if !has_one_form {
            return Err(pass_back(flow, at + 1, Stop::BadPath).await);
        }
        at += 1;
        flow.borrow_mut().passed = at;
    }
    Ok(pass_request_body(flow, body, wrapped))
}

/// The request's body, through the slots from `wrapped` on.
fn pass_request_body(flow: &SharedFlow, mut body: Body, wrapped: usize) -> Body {
    let count = flow.borrow().slots.len();
    match body.is_end_stream() {
        false => body = FilteredBody::wrap(flow, body, Direction::Request, wrapped..count),
        true if wrapped == 0 => return body,
        // Filters have made it empty.
        true => {}
    }
    let mut flow = flow.borrow_mut();
    if flow.may_change_length(Direction::Request, 0..count) {
        let told = flow.exchange().request.headers.remove(CONTENT_LENGTH);
        flow.hold_whole(Direction::Request, told, &body);
    }
    body
}

/// The request's body with its length, where filters have taken that away and it is short enough to be told again; or
/// the response of a filter that inspects it.
pub(crate) async fn whole_request(flow: &SharedFlow, body: Body) -> Result<Body, Response<Body>> {
    let Some(most_bytes) = flow.borrow_mut().whole_bytes[Direction::Request as usize].take() else {
        return Ok(body);
    };
    let body = whole::gather(body, most_bytes, None).await;
    let early = flow.borrow_mut().early.take();
    if let Some((at, stop)) = early {
        return Err(pass_back(flow, at, stop).await);
    }
    if let Body::Whole(bytes) = &body {
        let mut flow = flow.borrow_mut();
        let headers = &mut flow.exchange().request.headers;
        headers.insert(CONTENT_LENGTH, bytes.len().into());
    }
    Ok(body)
}

/// Waits for the service's response, and for that of a filter that inspects the request's body. Once one is there,
/// the service is not asked any more.
pub(crate) async fn respond_or_early<F: Future<Output = Response<Body>>>(
    flow: &SharedFlow,
    mut response: Pin<&mut F>,
    is_asked: &Cell<bool>,
) -> Response<Body> {
    let outcome = poll_fn(|context| {
        let polled = response.as_mut().poll(context);
        // The service sees a body that breaks off: what it makes of that is no response.
        match flow.borrow_mut().early.take() {
            Some(early) => Poll::Ready(Err(early)),
            None => polled.map(Ok),
        }
    })
    .await;
    is_asked.set(false);
    match outcome {
        Ok(response) => pass_response(flow, response).await,
        Err((at, stop)) => Box::pin(pass_back(flow, at, stop)).await,
    }
}

/// Has a service look at the request's head that keeps nothing of it: it is lent. Where the service has to wait,
/// filters that are told something meanwhile find a copy.
pub(crate) async fn lend_request<T>(
    flow: &SharedFlow,
    look: impl AsyncFnOnce(&request::Parts) -> T,
) -> T {
    let request = mem::replace(&mut flow.borrow_mut().exchange().request, empty_request());
    let outcome = {
        let mut look = pin!(look(&request));
        match poll_fn(|context| Poll::Ready(look.as_mut().poll(context))).await {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => {
                flow.borrow_mut().exchange().request = request.clone();
                look.await
            }
        }
    };
    flow.borrow_mut().exchange().request = request;
    outcome
}
