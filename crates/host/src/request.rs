//! The way of one request.
//!
//! ```text
//!  head ──▶ route ──▶ filters ──▶ service ──▶ filters ──▶ answer
//! ```
//!
//! The edge has brought the head into the form that all of them see. Whatever goes wrong on the way is an answer: it
//! has no error.

use crate::{
    account::Account,
    body::Body,
    chain::{self, Flow, HeldAnswer, HeldRequest, SharedFlow},
    path, responses,
    site::{Kind, Site, Way},
};
use http::{Request, Response, request};
use palisade_filter::{Exchange, Message, Peer};
use std::{
    cell::Cell,
    collections::BTreeMap,
    future::poll_fn,
    mem,
    pin::{Pin, pin},
    rc::Rc,
    task::Poll,
    time::{Duration, SystemTime},
};

/// What of a request's way is left after the first look. Most requests have nothing left: a box takes no room in every
/// request's future.
pub(crate) struct Later {
    /// The place of its way in the site.
    pub(crate) way: usize,
    stage: Box<Stage>,
}

enum Stage {
    /// There are no filters: its service is to answer.
    Unfiltered(request::Parts, Body),
    /// A filter has its head wait.
    Held(SharedFlow, HeldRequest),
    /// All filters have let its head pass.
    Passed(SharedFlow, Body),
    /// A filter has its answer's head wait.
    Answered(SharedFlow, HeldAnswer),
    /// Its answer's body is held to tell its length.
    Whole(SharedFlow, Response<Body>),
}

/// Answers a request for which nothing has to be waited, and says in its account which way it took.
pub(crate) fn answer_at_once(
    site: &Site,
    peer: &Rc<Peer>,
    request: Request<Body>,
    account: &mut Account,
) -> Result<Response<Body>, Later> {
    let (mut parts, body) = request.into_parts();
    let Some((at, way)) = site.find(&parts) else {
        return Ok(responses::no_route());
    };
    account.took(at);
    if !site.takes((at, way), &parts) {
        return Ok(responses::ambiguous_path());
    }
    if way.is_stripped {
        let rest = site.rest(at, parts.uri.path());
        if let Some(target) = way.redirect_to_folder(rest, &parts.uri) {
            return Ok(responses::redirect(&target));
        }
        let rest_bytes = rest.len();
        match path::strip(mem::take(&mut parts.uri), rest_bytes) {
            Ok(uri) => parts.uri = uri,
            Err(_) => return Ok(responses::bad_path()),
        }
    }
    let outcome = match way.filters.is_empty() {
        true => ask_at_once(way, parts, body),
        false => pass_at_once(way, peer, parts, body),
    };
    outcome.map_err(|stage| Later { way: at, stage })
}

fn ask_at_once(way: &Way, parts: request::Parts, body: Body) -> Result<Response<Body>, Box<Stage>> {
    if let Kind::Files(files) = &way.service.kind
        && let Some(answer) = way.service.answer_at_once(files, &parts)
    {
        return Ok(answer);
    }
    Err(Box::new(Stage::Unfiltered(parts, body)))
}

fn pass_at_once(
    way: &Way,
    peer: &Rc<Peer>,
    parts: request::Parts,
    body: Body,
) -> Result<Response<Body>, Box<Stage>> {
    let exchange = exchange(way, peer, parts);
    let flow = Flow::new(&way.filters, way.looks, way.ambiguous_paths, exchange);
    let body = match chain::pass_request_at_once(&flow, body) {
        Ok(body) => body,
        Err(held) => return Err(Box::new(Stage::Held(flow, held))),
    };
    let Kind::Files(files) = &way.service.kind else {
        return Err(Box::new(Stage::Passed(flow, body)));
    };
    let answer = flow
        .borrow_mut()
        .look_at_request(|request| way.service.answer_at_once(files, request));
    let Some(answer) = answer else {
        return Err(Box::new(Stage::Passed(flow, body)));
    };
    match chain::pass_response_at_once(&flow, answer) {
        Ok(answer) if chain::holds_answer(&flow) => Err(Box::new(Stage::Whole(flow, answer))),
        Ok(answer) => Ok(answer),
        Err(held) => Err(Box::new(Stage::Answered(flow, held))),
    }
}

/// The answer to a request for which [`answer_at_once`] had none.
pub(crate) async fn answer_later(site: &Site, peer: &Rc<Peer>, later: Later) -> Response<Body> {
    let Some(way) = site.way(later.way) else {
        return responses::no_route();
    };
    let is_asked = Cell::new(false);
    let answer = pin!(go_on(way, peer, *later.stage, &is_asked));
    let answer = within(site.answer_time(), answer).await;
    answer.unwrap_or_else(|| {
        // Nobody is left in it to say so.
        if is_asked.get() {
            way.service.count_late();
        }
        responses::too_late()
    })
}

/// `is_asked` says whether the service has the request, for whoever gives its answer up.
async fn go_on(way: &Way, peer: &Rc<Peer>, stage: Stage, is_asked: &Cell<bool>) -> Response<Body> {
    let (flow, body) = match stage {
        Stage::Unfiltered(parts, body) => {
            is_asked.set(true);
            return way.service.answer(parts, body, peer).await;
        }
        Stage::Answered(flow, held) => return chain::pass_response_on(&flow, held).await,
        Stage::Whole(flow, answer) => return chain::whole_answer(&flow, answer).await,
        Stage::Passed(flow, body) => (flow, body),
        Stage::Held(flow, held) => match chain::pass_request_on(&flow, held).await {
            Ok(body) => (flow, body),
            Err(answer) => return answer,
        },
    };
    is_asked.set(true);
    if let Kind::Files(files) = &way.service.kind {
        let look = async |parts: &request::Parts| way.service.answer_lent(files, parts).await;
        let answer = Box::pin(chain::lend_request(&flow, look)).await;
        is_asked.set(false);
        return chain::pass_response(&flow, answer).await;
    }
    is_asked.set(false);
    let body = match Box::pin(chain::whole_request(&flow, body)).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    is_asked.set(true);
    let parts = flow.borrow_mut().copy_request();
    let answer = pin!(way.service.answer(parts, body, peer));
    chain::answer_or_early(&flow, answer, is_asked).await
}

fn exchange(way: &Way, peer: &Rc<Peer>, request: request::Parts) -> Box<Exchange> {
    Box::new(Exchange {
        request,
        is_request_changed: false,
        request_rest: Message::default(),
        started: way.looks.properties.then(SystemTime::now),
        response: None,
        response_rest: Message::default(),
        peer: Rc::clone(peer),
        route: Rc::clone(&way.name),
        service: Rc::clone(&way.service.name),
        properties: BTreeMap::new(),
        local_response: None,
    })
}

/// An answer that takes longer is given up. Most are there at the first look, and cost no timer.
///
/// (The caller pins it, here and elsewhere: a future that is handed on has its place twice.)
async fn within<F: Future<Output = Response<Body>>>(
    time: Duration,
    mut answer: Pin<&mut F>,
) -> Option<Response<Body>> {
    let first = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
    if let Poll::Ready(response) = first {
        return Some(response);
    }
    tokio::time::timeout(time, answer).await.ok()
}
