//! One request through the server.
//!
//! ```text
//!  head ──▶ route ──▶ filters ──▶ service ──▶ filters ──▶ response
//! ```
//!
//! The edge has brought the head into the form that all of them see. Whatever goes wrong is a response: it has no
//! error.

use crate::{
    body::Body,
    chain::{self, Asked, Codes, Flow, HeldRequest, HeldResponse, Inspects, SharedFlow, Straight},
    filters,
    generation::{Generation, Place},
    path,
    record::RequestRecord,
    responses,
    serve::Serve,
    worker_state::{self, RouteTarget, WorkerState},
};
use http::{Request, Response, request};
use http_body::Body as _;
use palisade_filter::{Exchange, Message, Peer, Properties};
use std::{
    cell::Cell,
    future::poll_fn,
    mem,
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::{Duration, SystemTime},
};

impl Serve for WorkerState {
    type Generation = Generation;

    fn state(generation: &Arc<Generation>, worker: usize) -> Rc<Self> {
        Rc::new(Self::new(generation, worker))
    }

    fn open(&self, peer: &Peer, head: &request::Parts, tick: u32) -> RequestRecord {
        self.recorder.open(peer, head, tick)
    }

    async fn respond(
        self: Rc<Self>,
        peer: &Rc<Peer>,
        request: Request<Body>,
        record: &mut RequestRecord,
    ) -> Response<Body> {
        let pending = match respond_at_once(&self, peer, request, record) {
            Ok(response) => return response,
            Err(pending) => pending,
        };
        let target = &*pending.target;
        let Some(permit) = target.service.permit() else {
            return responses::busy();
        };
        record.hold(permit);
        if let Progress::Aside(head, body) = *pending.progress {
            return Box::pin(self.respond_beside(peer, head, body)).await;
        }
        Box::pin(respond_later(&self, target, peer, pending.progress)).await
    }

    fn before_wait() {
        filters::spent::end();
    }

    async fn end() {
        worker_state::end().await;
    }
}

impl WorkerState {
    /// Has a request answered by the thread aside. It is recorded here.
    async fn respond_beside(
        &self,
        peer: &Peer,
        head: request::Parts,
        body: Body,
    ) -> Response<Body> {
        let response = pin!(self.aside().respond(peer, head, body));
        let response = within(self.answer_time(), response).await;
        response.unwrap_or_else(responses::too_late)
    }

    /// Responds to a request that a worker has let in and records.
    pub(crate) async fn respond_aside(
        self: &Rc<Self>,
        peer: &Rc<Peer>,
        request: Request<Body>,
    ) -> Response<Body> {
        let (parts, body) = request.into_parts();
        // The configuration may be another one by now.
        let found = match self.find(&parts) {
            Ok(found) => found,
            Err(answer) => return answer(),
        };
        let pending = match respond_admitted(self, found, peer, parts, body) {
            Ok(response) => return response,
            Err(pending) => pending,
        };
        let Some(_permit) = pending.target.service.permit() else {
            return responses::busy();
        };
        let target = &*pending.target;
        respond_later(self, target, peer, pending.progress).await
    }
}

/// A request that has to wait. Most have not: a box takes no room in every request's future.
struct Pending {
    /// Its route's target.
    target: Rc<RouteTarget>,
    progress: Box<Progress>,
}

/// How far a request has come that has to wait.
enum Progress {
    /// There are no filters: its service is to respond.
    Unfiltered(request::Parts, Body),
    /// Its tenant's filters take long: they are asked elsewhere.
    Aside(request::Parts, Body),
    /// Code of its filters is to be waited for, or their turn.
    Unloaded(request::Parts, Body),
    /// A filter has its head wait.
    Held(SharedFlow, HeldRequest),
    /// All filters have let its head pass.
    Passed(SharedFlow, Body),
    /// A filter has its response's head wait.
    Responded(SharedFlow, HeldResponse),
    /// Its response's body is held to tell its length.
    Whole(SharedFlow, Response<Body>),
}

/// Responds to a request for which nothing has to be waited, and notes in its record which route it took.
fn respond_at_once(
    state: &WorkerState,
    peer: &Rc<Peer>,
    request: Request<Body>,
    record: &mut RequestRecord,
) -> Result<Response<Body>, Pending> {
    let (parts, body) = request.into_parts();
    let (place, target) = match state.find(&parts) {
        Ok(found) => found,
        Err(answer) => return Ok(answer()),
    };
    record.set_route(&target.recorder);
    let quota = target.party.quota();
    match quota.admit() {
        Ok(in_flight) => record.hold_place(in_flight),
        Err(refused) => return Ok(refused.response()),
    }
    if !target.filters.is_empty() && quota.is_slow() {
        let progress = Box::new(Progress::Aside(parts, body));
        return Err(Pending { target, progress });
    }
    respond_admitted(state, (place, target), peer, parts, body)
}

/// The same, once the quota of its tenant has let it in.
fn respond_admitted(
    state: &WorkerState,
    (place, target): (Place, Rc<RouteTarget>),
    peer: &Rc<Peer>,
    mut parts: request::Parts,
    body: Body,
) -> Result<Response<Body>, Pending> {
    if !state.takes((place, &target), &parts) {
        return Ok(responses::ambiguous_path());
    }
    if target.is_stripped {
        let rest = target.rest(parts.uri.path());
        if let Some(location) = target.redirect_to_folder(rest, &parts.uri) {
            return Ok(responses::redirect(&location));
        }
        let rest_bytes = rest.len();
        match path::strip(mem::take(&mut parts.uri), rest_bytes) {
            Ok(uri) => parts.uri = uri,
            Err(_) => return Ok(responses::bad_path()),
        }
    }
    let outcome = match target.filters.is_empty() {
        true => ask_at_once(&target, parts, body),
        false => filter_at_once(&target, peer, parts, body),
    };
    outcome.map_err(|progress| Pending { target, progress })
}

fn ask_at_once(
    target: &RouteTarget,
    parts: request::Parts,
    body: Body,
) -> Result<Response<Body>, Box<Progress>> {
    match target.service.respond_at_once(&parts) {
        Some(response) => Ok(response),
        None => Err(Box::new(Progress::Unfiltered(parts, body))),
    }
}

fn filter_at_once(
    target: &RouteTarget,
    peer: &Rc<Peer>,
    parts: request::Parts,
    body: Body,
) -> Result<Response<Body>, Box<Progress>> {
    if target.party.has_to_wait() {
        return Err(Box::new(Progress::Unloaded(parts, body)));
    }
    let load_and_filter = || load_at_once_and_filter(target, peer, parts, body);
    target.party.run(false, load_and_filter)
}

/// To load what is in the cache is work as what filters do is.
fn load_at_once_and_filter(
    target: &RouteTarget,
    peer: &Rc<Peer>,
    parts: request::Parts,
    body: Body,
) -> Result<Response<Body>, Box<Progress>> {
    let is_head_alone = body.is_end_stream() && !target.service.takes_body();
    if is_head_alone && let Some(asked) = Asked::kept(&target.filters) {
        return filter_straight(target, asked, peer, parts);
    }
    match chain::codes_at_once(&target.filters) {
        Some(Ok(codes)) if is_head_alone => match Asked::fresh(codes) {
            Ok(asked) => filter_straight(target, asked, peer, parts),
            Err(codes) => filter_by(target, codes, peer, parts, body),
        },
        Some(Ok(codes)) => filter_by(target, codes, peer, parts, body),
        Some(Err(response)) => Ok(response),
        None => Err(Box::new(Progress::Unloaded(parts, body))),
    }
}

/// Shows a request to its filters, whose code is there.
fn filter_by(
    target: &RouteTarget,
    codes: Codes,
    peer: &Rc<Peer>,
    parts: request::Parts,
    body: Body,
) -> Result<Response<Body>, Box<Progress>> {
    let inspects = Inspects::of(&codes);
    let exchange = exchange(target, inspects.properties, peer, parts);
    let flow = Flow::new(
        &target.filters,
        codes,
        inspects,
        target.ambiguous_paths,
        Some(exchange),
    );
    filter_on(target, flow, HeldRequest::new(body))
}

/// Shows a request to the filters that it has not passed.
fn filter_on(
    target: &RouteTarget,
    flow: SharedFlow,
    held: HeldRequest,
) -> Result<Response<Body>, Box<Progress>> {
    let body = match chain::pass_request_at_once(&flow, held) {
        Ok(body) => body,
        Err(held) => return Err(Box::new(Progress::Held(flow, held))),
    };
    if target.service.takes_body() {
        return Err(Box::new(Progress::Passed(flow, body)));
    }
    let response = flow
        .borrow_mut()
        .look_at_request(|head| target.service.respond_at_once(head));
    match response {
        Some(response) => filter_response(flow, response),
        None => Err(Box::new(Progress::Passed(flow, body))),
    }
}

/// The same where nothing but heads is to be shown.
fn filter_straight(
    target: &RouteTarget,
    asked: Asked,
    peer: &Rc<Peer>,
    parts: request::Parts,
) -> Result<Response<Body>, Box<Progress>> {
    let exchange = exchange(target, asked.reads_properties(), peer, parts);
    let passed = Straight::pass_request(&target.filters, target.ambiguous_paths, asked, exchange);
    let straight = match passed {
        Ok(straight) => straight,
        Err((flow, held)) => return filter_on(target, flow, held),
    };
    let response = straight
        .request()
        .and_then(|head| target.service.respond_at_once(head));
    match response {
        None => Err(Box::new(Progress::Passed(
            straight.into_flow(),
            Body::Empty,
        ))),
        // Filters are told of its end when it is sent.
        Some(response) if !response.body().is_there() => {
            filter_response(straight.into_flow(), response)
        }
        Some(response) => match straight.pass_response(response) {
            Ok(response) => Ok(response),
            Err((flow, held)) => {
                let passed = chain::pass_held_at_once(&flow, held);
                respond_passed(flow, passed)
            }
        },
    }
}

/// Shows a response to the filters of its request.
fn filter_response(
    flow: SharedFlow,
    response: Response<Body>,
) -> Result<Response<Body>, Box<Progress>> {
    let passed = chain::pass_response_at_once(&flow, response);
    respond_passed(flow, passed)
}

fn respond_passed(
    flow: SharedFlow,
    passed: Result<Response<Body>, HeldResponse>,
) -> Result<Response<Body>, Box<Progress>> {
    match passed {
        Ok(response) if chain::holds_response(&flow) => {
            Err(Box::new(Progress::Whole(flow, response)))
        }
        Ok(response) => Ok(response),
        Err(held) => Err(Box::new(Progress::Responded(flow, held))),
    }
}

/// The response to a request for which [`respond_at_once`] had none.
async fn respond_later(
    state: &WorkerState,
    target: &RouteTarget,
    peer: &Rc<Peer>,
    progress: Box<Progress>,
) -> Response<Body> {
    let is_asked = Cell::new(false);
    let response = pin!(resume(target, peer, progress, &is_asked));
    let response = within(state.answer_time(), response).await;
    response.unwrap_or_else(|| {
        // Nobody is left in it to say so.
        if is_asked.get() {
            target.service.count_late();
        }
        responses::too_late()
    })
}

/// `is_asked` says whether the service has the request, for whoever gives its response up.
async fn resume(
    target: &RouteTarget,
    peer: &Rc<Peer>,
    progress: Box<Progress>,
    is_asked: &Cell<bool>,
) -> Response<Body> {
    let service = &target.service;
    let progress = match load_and_filter(target, peer, progress).await {
        Ok(response) => return response,
        Err(progress) => *progress,
    };
    let (flow, body) = match progress {
        // `load_and_filter` gives none back.
        Progress::Unloaded(..) | Progress::Aside(..) => return responses::filter_busy(),
        Progress::Unfiltered(parts, body) => {
            is_asked.set(true);
            return service.respond(parts, body, peer).await;
        }
        Progress::Responded(flow, held) => return chain::pass_response_on(&flow, held).await,
        Progress::Whole(flow, response) => return chain::whole_response(&flow, response).await,
        Progress::Passed(flow, body) => (flow, body),
        Progress::Held(flow, held) => match chain::pass_request_on(&flow, held).await {
            Ok(body) => (flow, body),
            Err(response) => return response,
        },
    };
    if !service.takes_body() {
        is_asked.set(true);
        let look = async |head: &request::Parts| service.respond_to_head(head).await;
        let response = Box::pin(chain::lend_request(&flow, look)).await;
        is_asked.set(false);
        return chain::pass_response(&flow, response).await;
    }
    let body = match Box::pin(chain::whole_request(&flow, body)).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    is_asked.set(true);
    let parts = flow.borrow_mut().copy_request();
    let response = pin!(service.respond(parts, body, peer));
    chain::respond_or_early(&flow, response, is_asked).await
}

/// Waits for the code of a request's filters and for their turn, where that is to be waited for, and shows it to them.
async fn load_and_filter(
    target: &RouteTarget,
    peer: &Rc<Peer>,
    progress: Box<Progress>,
) -> Result<Response<Body>, Box<Progress>> {
    if !matches!(*progress, Progress::Unloaded(..)) {
        return Err(progress);
    }
    let Progress::Unloaded(parts, body) = *progress else {
        return Ok(responses::filter_busy());
    };
    let party = &target.party;
    let at_once = || load_at_once_and_filter(target, peer, parts, body);
    let (parts, body) = match Box::pin(party.run_in_turn(at_once)).await {
        Ok(response) => return Ok(response),
        Err(progress) => match *progress {
            Progress::Unloaded(parts, body) => (parts, body),
            _ => return Err(progress),
        },
    };
    // It has to be compiled.
    match Box::pin(chain::codes(&target.filters)).await {
        Ok(codes) => {
            let filter = || filter_by(target, codes, peer, parts, body);
            Box::pin(party.run_in_turn(filter)).await
        }
        Err(response) => Ok(response),
    }
}

fn exchange(
    target: &RouteTarget,
    reads_properties: bool,
    peer: &Rc<Peer>,
    request: request::Parts,
) -> Box<Exchange> {
    Box::new(Exchange {
        request,
        is_request_changed: false,
        request_rest: Message::default(),
        started: reads_properties.then(SystemTime::now),
        response: None,
        response_rest: Message::default(),
        peer: Rc::clone(peer),
        route: Rc::clone(&target.name),
        service: Rc::clone(&target.service.name),
        properties: Properties::default(),
        local_response: None,
    })
}

/// A response that takes longer is given up. Most are there at the first look, and cost no timer.
///
/// (The caller pins it, here and elsewhere: a future that is handed on has its place twice.)
async fn within<F: Future<Output = Response<Body>>>(
    time: Duration,
    mut response: Pin<&mut F>,
) -> Option<Response<Body>> {
    let first = poll_fn(|context| Poll::Ready(response.as_mut().poll(context))).await;
    if let Poll::Ready(response) = first {
        return Some(response);
    }
    tokio::time::timeout(time, response).await.ok()
}
