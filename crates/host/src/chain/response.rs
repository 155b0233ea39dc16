//! The part behind the service: filters, from the last to the first.

use super::{
    Head, Met, SharedFlow, Stop,
    body::{Begun, FilteredBody},
    head::{pass_headers, pass_met, wait_for_body},
    whole,
};
use crate::body::Body;
use http::{
    Response,
    header::{CONTENT_LENGTH, TRAILER},
};
use http_body::Body as _;
use palisade_filter::{Direction, Part};
use std::{
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// How long a response is held to tell its length again. One that comes more slowly goes on as it comes.
const LONGEST_HOLD: Duration = Duration::from_secs(1);

/// A response whose head has not passed all slots at once.
pub(crate) struct HeldResponse {
    /// Slots, from the first on, that it has not passed.
    pub(super) left: usize,
    /// What it has met at the last of them; `None`: that one has not seen it.
    pub(super) met: Option<Met>,
    /// Stations from here on do not see it.
    pub(super) end: usize,
    pub(super) body: Body,
}

/// The response with its length, where filters have taken that away from its body and it is short enough to be told
/// again; or the response of a filter that inspects it.
pub(crate) async fn whole_response(flow: &SharedFlow, response: Response<Body>) -> Response<Body> {
    let Some(most_bytes) = flow.borrow_mut().whole_bytes[Direction::Response as usize].take()
    else {
        return response;
    };
    let (parts, body) = response.into_parts();
    let body = whole::gather(body, most_bytes, Some(LONGEST_HOLD)).await;
    let early = flow.borrow_mut().early.take();
    let Some((at, stop)) = early else {
        return Response::from_parts(parts, body);
    };
    let (parts, body) = stop.into_response().into_parts();
    flow.borrow_mut().exchange().response = Some(parts);
    give_response(flow, body, at, at)
}

/// Whether a response is to be held first.
pub(crate) fn holds_response(flow: &SharedFlow) -> bool {
    flow.borrow().whole_bytes[Direction::Response as usize].is_some()
}

/// Shows a response to its filters, as long as each lets the head pass at once.
pub(crate) fn pass_response_at_once(
    flow: &SharedFlow,
    response: Response<Body>,
) -> Result<Response<Body>, HeldResponse> {
    let count = flow.borrow().slots.len();
    pass_response_below(flow, count, response)
}

/// The same of a response that may have to wait.
pub(crate) async fn pass_response(flow: &SharedFlow, response: Response<Body>) -> Response<Body> {
    let count = flow.borrow().slots.len();
    let is_sized = response.headers().contains_key(CONTENT_LENGTH);
    let passed = pass_response_from(flow, count, response).await;
    // One that was held whole has been seen.
    let is_to_come = flow.borrow().has_body_to_come && matches!(passed.body(), Body::Other(_));
    match is_to_come {
        true => Box::pin(begin_body(flow, passed, is_sized)).await,
        false => passed,
    }
}

/// Has filters see the first part of a body, which is about to come where its length is known; of another one what came
/// with its head, which whoever brings it hands over at its next turn.
async fn begin_body(flow: &SharedFlow, response: Response<Body>, is_sized: bool) -> Response<Body> {
    let (head, mut body) = response.into_parts();
    body = match is_sized {
        true => match poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            None => Body::Empty,
            Some(first) => Begun::body(first, body),
        },
        false => {
            tokio::task::yield_now().await;
            begin_at_once(flow, body)
        }
    };
    let Some((at, stop)) = flow.borrow_mut().early.take() else {
        return Response::from_parts(head, body);
    };
    let (head, body) = stop.into_response().into_parts();
    flow.borrow_mut().exchange().response = Some(head);
    give_response(flow, body, at, at)
}

/// Has filters see what is there of a body already, before its head goes out: nothing can take that back. Whoever is
/// given the body polls it again, and is woken then.
fn begin_at_once(flow: &SharedFlow, mut body: Body) -> Body {
    if !matches!(body, Body::Other(_)) {
        return body;
    }
    let context = &mut Context::from_waker(Waker::noop());
    let polled = Pin::new(&mut body).poll_frame(context);
    flow.borrow_mut().has_body_to_come = polled.is_pending();
    match polled {
        Poll::Pending => body,
        Poll::Ready(None) => Body::Empty,
        Poll::Ready(Some(first)) => Begun::body(first, body),
    }
}

/// The response of slot `at`, through those before it.
pub(super) async fn pass_back(flow: &SharedFlow, at: usize, stop: Stop) -> Response<Body> {
    pass_response_from(flow, at, stop.into_response()).await
}

/// The response, through the slots below `end`.
async fn pass_response_from(
    flow: &SharedFlow,
    end: usize,
    response: Response<Body>,
) -> Response<Body> {
    match pass_response_below(flow, end, response) {
        Ok(response) if !holds_response(flow) => response,
        Ok(response) => Box::pin(whole_response(flow, response)).await,
        Err(held) => Box::pin(pass_response_on(flow, held)).await,
    }
}

fn pass_response_below(
    flow: &SharedFlow,
    end: usize,
    response: Response<Body>,
) -> Result<Response<Body>, HeldResponse> {
    let (parts, body) = response.into_parts();
    flow.borrow_mut()
        .look(|exchange| exchange.response = Some(parts));
    let held = HeldResponse {
        left: end,
        met: None,
        end,
        body,
    };
    pass_held_at_once(flow, held)
}

/// Shows a response to the filters that it has not passed, as long as each lets the head pass at once.
pub(crate) fn pass_held_at_once(
    flow: &SharedFlow,
    held: HeldResponse,
) -> Result<Response<Body>, HeldResponse> {
    if held.met.is_some() {
        return Err(held);
    }
    let HeldResponse {
        left, end, body, ..
    } = held;
    let is_whole = body.is_end_stream();
    let met = flow.borrow_mut().show_response(left, is_whole);
    match met {
        None => Ok(give_response(flow, body, end, end)),
        Some((at, met)) => Err(HeldResponse {
            left: at + 1,
            met: Some(met),
            end,
            body,
        }),
    }
}

/// The same from the slot on that did not let the head pass at once.
pub(crate) async fn pass_response_on(flow: &SharedFlow, held: HeldResponse) -> Response<Body> {
    let HeldResponse {
        left,
        mut met,
        mut end,
        mut body,
    } = held;
    // Stations from there to `end` have their place in `body` already.
    let mut wrapped = end;
    for at in (0..left).rev() {
        let is_whole = body.is_end_stream();
        let passed = match met.take() {
            Some(met) => pass_met(flow, at, Part::ResponseHeaders, is_whole, met).await,
            None => pass_headers(flow, at, Part::ResponseHeaders, is_whole).await,
        };
        let stop = match passed {
            Ok(Head::Passed) => continue,
            Ok(Head::Held) => {
                body = FilteredBody::wrap(flow, body, Direction::Response, at..wrapped);
                wrapped = at;
                match wait_for_body(flow, body).await {
                    Ok(passed) => {
                        body = passed;
                        let stop = flow.borrow_mut().release_head(at, Direction::Response);
                        match stop {
                            None => continue,
                            Some(stop) => stop,
                        }
                    }
                    Err((_, stop)) => stop,
                }
            }
            Err(stop) => stop,
        };
        let (parts, other) = stop.into_response().into_parts();
        flow.borrow_mut().exchange().response = Some(parts);
        (body, end, wrapped) = (other, at, at);
    }
    let response = give_response(flow, body, wrapped, end);
    whole_response(flow, response).await
}

/// The response, whose head has passed all slots, and whose body those from `wrapped` to `end`.
fn give_response(
    flow: &SharedFlow,
    mut body: Body,
    wrapped: usize,
    mut end: usize,
) -> Response<Body> {
    // Before a filter sees any of it: one that changes a body has its length taken out.
    let told = flow.borrow_mut().told_length();
    if !body.is_end_stream() {
        (body, end) = pass_response_body(flow, body, wrapped, end);
    }
    // Nobody has any of its bodies still: filters may see its end now, and no copy is left for them.
    let is_over = Rc::strong_count(flow) == 1;
    let mut flow = flow.borrow_mut();
    if let Body::Whole(bytes) = &body
        && flow.inspects.properties
    {
        flow.note_passed(Direction::Response, bytes.len() as u64);
    }
    flow.seal_heads();
    if is_over {
        flow.close();
    }
    let is_logged = !is_over && flow.inspects.log;
    let parts = flow.look(|exchange| match is_logged {
        true => exchange.response.clone(),
        false => exchange.response.take(),
    });
    let mut parts = parts.unwrap_or_else(|| Response::new(()).into_parts().0);
    // Trailers, which a filter may make, go out behind chunks alone.
    let may_have_trailers = parts.headers.contains_key(TRAILER);
    if may_have_trailers && flow.inspects.bodies[Direction::Response as usize] {
        parts.headers.remove(CONTENT_LENGTH);
    } else if flow.may_change_length(Direction::Response, 0..end) {
        parts.headers.remove(CONTENT_LENGTH);
        flow.hold_whole(Direction::Response, told, &body);
    }
    Response::from_parts(parts, body)
}

/// The response's body, through the slots below `wrapped`. A filter that sees the whole of it at once, or the part that
/// is there with the head, can still put another response in its place.
fn pass_response_body(
    flow: &SharedFlow,
    mut body: Body,
    mut wrapped: usize,
    mut end: usize,
) -> (Body, usize) {
    loop {
        body = FilteredBody::wrap(flow, body, Direction::Response, 0..wrapped);
        let is_seen = flow.borrow().inspects_body(Direction::Response, 0..wrapped);
        if is_seen {
            body = begin_at_once(flow, body);
        }
        let Some((at, stop)) = flow.borrow_mut().early.take() else {
            return (body, end);
        };
        let (parts, other) = stop.into_response().into_parts();
        flow.borrow_mut().exchange().response = Some(parts);
        (body, wrapped, end) = (other, at, at);
    }
}
