//! The way of one request.
//!
//! ```text
//!  head ──▶ path made normal ──▶ route ──▶ filters ──▶ service ──▶ filters ──▶ answer
//! ```
//!
//! Whatever goes wrong on it is an answer: the way has no error.

use crate::{
    account::Account,
    answers,
    body::Body,
    chain::{self, Flow},
    path,
    site::{Kind, Site, Way},
    upstream::{Head, take_out_connection_fields},
};
use http::{Request, Response, request};
use palisade_filter::{Exchange, Message, Peer};
use std::{
    cell::Cell,
    collections::BTreeMap,
    future::poll_fn,
    pin::{Pin, pin},
    rc::Rc,
    task::Poll,
    time::{Duration, SystemTime},
};

/// Answers a request, and says in its account which way it took.
pub(crate) async fn answer(
    site: &Site,
    peer: &Rc<Peer>,
    request: Request<Body>,
    account: &mut Account,
) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    match path::normalize(&parts.uri) {
        Ok(None) => {}
        Ok(Some(uri)) => parts.uri = uri,
        Err(_) => return answers::bad_path(),
    }
    let Some((at, way)) = site.find(&parts) else {
        return answers::no_route();
    };
    account.took(at);
    if way.is_stripped {
        if let Some(target) = site.redirect_to_folder(at, way, &parts.uri) {
            return answers::redirect(&target);
        }
        match site.strip(at, &parts.uri) {
            Ok(uri) => parts.uri = uri,
            Err(_) => return answers::bad_path(),
        }
    }
    pass(site, way, peer, parts, body).await
}

/// From the route on.
async fn pass(
    site: &Site,
    way: &Way,
    peer: &Rc<Peer>,
    parts: request::Parts,
    body: Body,
) -> Response<Body> {
    let time = site.answer_time();
    let is_asked = Cell::new(false);
    let answer = match way.filters.is_empty() {
        true => {
            is_asked.set(true);
            let answer = pin!(way.service.answer(parts, body, peer));
            within(time, answer).await
        }
        false => {
            let answer = pin!(pass_filters(way, peer, parts, body, &is_asked));
            within(time, answer).await
        }
    };
    answer.unwrap_or_else(|| {
        // Nobody is left in it to say so.
        if is_asked.get() {
            way.service.count_late();
        }
        answers::too_late()
    })
}

async fn pass_filters(
    way: &Way,
    peer: &Rc<Peer>,
    mut parts: request::Parts,
    body: Body,
    is_asked: &Cell<bool>,
) -> Response<Body> {
    // Before filters: a client's `Connection: x-user` takes nothing away that a filter adds.
    take_out_connection_fields(&mut parts.headers, Head::Asked);
    let flow = Flow::new(&way.filters, exchange(way, peer, parts));
    let body = match chain::pass_request(&flow, body).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    if let Kind::Files(files) = &way.service.kind {
        let at_once = way
            .service
            .answer_at_once(files, flow.borrow_mut().request());
        let look = async |parts: &request::Parts| way.service.answer_lent(files, parts).await;
        let answer = match at_once {
            Some(answer) => answer,
            None => Box::pin(chain::lend_request(&flow, look)).await,
        };
        return chain::pass_response(&flow, answer).await;
    }
    let parts = flow.borrow_mut().copy_request();
    let answer = pin!(async {
        is_asked.set(true);
        let answer = way.service.answer(parts, body, peer).await;
        is_asked.set(false);
        answer
    });
    chain::answer_or_early(&flow, answer).await
}

fn exchange(way: &Way, peer: &Rc<Peer>, request: request::Parts) -> Box<Exchange> {
    Box::new(Exchange {
        request,
        request_rest: Message::default(),
        started: way.is_timed.then(SystemTime::now),
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
