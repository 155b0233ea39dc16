//! The filters of a route, one after the other.
//!
//! ```text
//!  request ──▶ station 0 ──▶ station 1 ──▶ service
//!  answer  ◀── station 0 ◀── station 1 ◀──┘
//! ```
//!
//! A [`Flow`] is one request on its way. Its exchange lies with the station that had it last: handing it on
//! moves a pointer, and what a paused filter is told later — the answer to a call of its own — finds the
//! exchange where the filter left it.

mod body;
mod whole;

use crate::{
    body::Body,
    config::OnFailure,
    filters::{HandOver, Lease, Live, NoInstance},
    path::{self, Ambiguities},
    responses,
};
use body::{Begun, FilteredBody, body_of};
use http::{
    HeaderValue, Request, Response,
    header::{CONTENT_LENGTH, TRAILER},
    request,
};
use http_body::Body as _;
use palisade_engine::places::{Place, Places};
use palisade_filter::{
    Action, Direction, Exchange, Filter, LocalResponse, Message, Part, StreamId,
};
use smallvec::SmallVec;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::poll_fn,
    mem,
    ops::Range,
    pin::{Pin, pin},
    rc::{Rc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// How long an answer is held to tell its length again. One that comes more slowly goes on as it comes.
const LONGEST_HOLD: Duration = Duration::from_secs(1);

/// How often a callback is made again whose instance went down under another request.
const TRIES: usize = 3;

/// A filter of the route, and its stream for this request.
struct Station {
    slot: Rc<Lease>,
    stream: Option<(Rc<Live>, StreamId)>,
    /// How many streams it has had: what waits for one does not wait for the next, which the request's other
    /// direction may have opened.
    opened: u32,
    /// Of the instance that is to be started.
    place: Option<Place>,
    /// It failed, and requests go on without it.
    is_passed_by: bool,
    /// Most filters have nothing.
    own: Option<Box<Own>>,
}

/// What of an exchange is one filter's alone: it is in the exchange while that filter has it, and no other one
/// meets it.
#[derive(Default)]
struct Own {
    /// What it holds of each direction, if it looks at that body.
    rests: [Option<Message>; 2],
    /// What it answers.
    local_response: Option<Box<LocalResponse>>,
}

/// What of requests the filters of a route look at, all of them together: most look at few of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looks {
    /// At bodies or trailers, of each direction.
    bodies: [bool; 2],
    /// At the exchange when it is over, for its log.
    log: bool,
    /// At when a request began, how long its bodies were, and the like. To look at the clock costs as much as a small
    /// callback.
    pub(crate) properties: bool,
}

impl Looks {
    pub(crate) fn of(filters: &[Rc<Lease>]) -> Self {
        let any = |looks: fn(&Filter) -> bool| {
            let mut filters = filters.iter();
            filters.any(|lease| looks(&lease.loaded.filter))
        };
        Self {
            bodies: [
                any(|filter| filter.has(Part::RequestBody) || filter.has(Part::RequestTrailers)),
                any(|filter| filter.has(Part::ResponseBody) || filter.has(Part::ResponseTrailers)),
            ],
            log: any(Filter::has_log),
            properties: any(Filter::reads_properties),
        }
    }
}

/// One request on its way through the filters of its route. Dropping it closes the filters' streams.
pub(crate) struct Flow {
    looks: Looks,
    /// What paths may have that others read otherwise.
    ambiguous_paths: Ambiguities,
    stations: SmallVec<[Station; 2]>,
    /// With nobody, or on its way from one station to the next.
    exchange: Option<Box<Exchange>>,
    /// The station that has it.
    holder: Option<usize>,
    /// An answer in place of the service's, from a filter that saw the request's body.
    early: Option<(usize, Verdict)>,
    /// Filters look at the answer's body, and have not seen any of it.
    has_body_to_come: bool,
    /// How much of each direction's body is held to tell its length again, where a filter may change it.
    whole_bytes: [Option<usize>; 2],
    /// Itself, for the calls that its filters make.
    me: Weak<dyn HandOver>,
}

/// A flow, shared by the two directions of its request. One thread has it, and borrows it for one callback.
pub(crate) type SharedFlow = Rc<RefCell<Flow>>;

/// What comes of a callback.
#[derive(Debug)]
enum Step {
    Continue,
    Pause,
    /// Of a head whose body is to come meanwhile.
    HoldHead,
    Stop(Verdict),
}

/// What becomes of a head at one station.
enum Head {
    Passed,
    /// It waits for its body.
    Held,
}

/// Why a head does not pass a station at once.
enum Met {
    /// It waits for its body.
    Held,
    /// The filter has it wait.
    Paused,
    /// All instances that the filter may have are in use.
    Full,
    Stopped(Verdict),
}

/// What ends the way of a request, or of an answer.
#[derive(Debug)]
enum Verdict {
    /// A filter wants the connection broken off.
    Reset,
    /// A filter has set a path that has no one form.
    BadPath,
    /// A filter answers.
    Local(Box<LocalResponse>),
    /// A filter failed that requests must not go without.
    Failed,
    /// A filter holds more of a body than it may.
    TooLarge(Direction),
    /// There is no instance of such a filter.
    Busy,
}

/// A request whose head a station did not let pass at once.
pub(crate) struct HeldRequest {
    at: usize,
    met: Met,
    body: Body,
}

/// An answer whose head a station did not let pass at once.
pub(crate) struct HeldAnswer {
    at: usize,
    met: Met,
    /// Stations from here on do not see it.
    end: usize,
    body: Body,
}

/// How a wait for a filter ends.
enum Woken {
    /// It says that the stream goes on.
    Resumed,
    /// Its instance is gone.
    Died,
}

/// The part before the service: filters, from the first to the last.
///
/// Gives the request's body as they leave it; its head is in the flow.
pub(crate) fn pass_request_at_once(flow: &SharedFlow, body: Body) -> Result<Body, HeldRequest> {
    let is_whole = body.is_end_stream();
    let met = flow.borrow_mut().show_request(is_whole);
    match met {
        None => Ok(pass_request_body(flow, body, 0)),
        Some((at, met)) => Err(HeldRequest { at, met, body }),
    }
}

/// The same from the station on that did not let the head pass at once. Gives the answer that one of them gives
/// in the service's place, if it does.
pub(crate) async fn pass_request_on(
    flow: &SharedFlow,
    held: HeldRequest,
) -> Result<Body, Response<Body>> {
    let HeldRequest {
        mut at,
        met,
        mut body,
    } = held;
    let count = flow.borrow().stations.len();
    let mut met = Some(met);
    // Stations below have their place in `body` already.
    let mut placed = 0;
    while at < count || met.is_some() {
        let is_whole = body.is_end_stream();
        let passed = match met.take() {
            Some(met) => pass_met(flow, at, Part::RequestHeaders, is_whole, met).await,
            None => pass_headers(flow, at, Part::RequestHeaders, is_whole).await,
        };
        match passed {
            Err(verdict) => return Err(pass_back(flow, at, verdict).await),
            Ok(Head::Passed) => {}
            Ok(Head::Held) => {
                body = FilteredBody::wrap(flow, body, Direction::Request, placed..at + 1);
                body = match wait_for_body(flow, body).await {
                    Err((at, verdict)) => return Err(pass_back(flow, at, verdict).await),
                    Ok(body) => body,
                };
                placed = at + 1;
            }
        }
        let has_one_form = flow.borrow_mut().normalize_path();
        if !has_one_form {
            return Err(pass_back(flow, at + 1, Verdict::BadPath).await);
        }
        at += 1;
    }
    Ok(pass_request_body(flow, body, placed))
}

/// The request's body, through the stations from `placed` on.
fn pass_request_body(flow: &SharedFlow, mut body: Body, placed: usize) -> Body {
    let count = flow.borrow().stations.len();
    match body.is_end_stream() {
        false => body = FilteredBody::wrap(flow, body, Direction::Request, placed..count),
        true if placed == 0 => return body,
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
/// the answer of a filter that looks at it.
pub(crate) async fn whole_request(flow: &SharedFlow, body: Body) -> Result<Body, Response<Body>> {
    let Some(most_bytes) = flow.borrow_mut().whole_bytes[Direction::Request as usize].take() else {
        return Ok(body);
    };
    let body = whole::gather(body, most_bytes, None).await;
    let early = flow.borrow_mut().early.take();
    if let Some((at, verdict)) = early {
        return Err(pass_back(flow, at, verdict).await);
    }
    if let Body::Whole(bytes) = &body {
        let mut flow = flow.borrow_mut();
        let headers = &mut flow.exchange().request.headers;
        headers.insert(CONTENT_LENGTH, bytes.len().into());
    }
    Ok(body)
}

/// The same of an answer.
pub(crate) async fn whole_answer(flow: &SharedFlow, answer: Response<Body>) -> Response<Body> {
    let Some(most_bytes) = flow.borrow_mut().whole_bytes[Direction::Response as usize].take()
    else {
        return answer;
    };
    let (parts, body) = answer.into_parts();
    let body = whole::gather(body, most_bytes, Some(LONGEST_HOLD)).await;
    let early = flow.borrow_mut().early.take();
    let Some((at, verdict)) = early else {
        return Response::from_parts(parts, body);
    };
    let (parts, body) = verdict.into_response().into_parts();
    flow.borrow_mut().exchange().response = Some(parts);
    give_response(flow, body, at, at)
}

/// Whether an answer is to be held first.
pub(crate) fn holds_answer(flow: &SharedFlow) -> bool {
    flow.borrow().whole_bytes[Direction::Response as usize].is_some()
}

/// The part behind the service: filters, from the last to the first.
pub(crate) fn pass_response_at_once(
    flow: &SharedFlow,
    answer: Response<Body>,
) -> Result<Response<Body>, HeldAnswer> {
    let count = flow.borrow().stations.len();
    pass_response_below(flow, count, answer)
}

/// The same of an answer that may have to wait.
pub(crate) async fn pass_response(flow: &SharedFlow, answer: Response<Body>) -> Response<Body> {
    let count = flow.borrow().stations.len();
    let is_sized = answer.headers().contains_key(CONTENT_LENGTH);
    let passed = pass_response_from(flow, count, answer).await;
    // One that was held whole has been seen.
    let is_to_come = flow.borrow().has_body_to_come && matches!(passed.body(), Body::Other(_));
    match is_to_come {
        true => Box::pin(begin_body(flow, passed, is_sized)).await,
        false => passed,
    }
}

/// Has filters see the first part of a body, which is about to come where its length is known; of another one what came
/// with its head, which whoever brings it hands over at its next turn.
async fn begin_body(flow: &SharedFlow, answer: Response<Body>, is_sized: bool) -> Response<Body> {
    let (head, mut body) = answer.into_parts();
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
    let Some((at, verdict)) = flow.borrow_mut().early.take() else {
        return Response::from_parts(head, body);
    };
    let (head, body) = verdict.into_response().into_parts();
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

/// Waits for the service's answer, and for that of a filter that looks at the request's body. Once one is there,
/// the service is not asked any more.
pub(crate) async fn answer_or_early<F: Future<Output = Response<Body>>>(
    flow: &SharedFlow,
    mut answer: Pin<&mut F>,
    is_asked: &Cell<bool>,
) -> Response<Body> {
    let outcome = poll_fn(|context| {
        let polled = answer.as_mut().poll(context);
        // The service sees a body that breaks off: what it makes of that is no answer.
        match flow.borrow_mut().early.take() {
            Some(early) => Poll::Ready(Err(early)),
            None => polled.map(Ok),
        }
    })
    .await;
    is_asked.set(false);
    match outcome {
        Ok(answer) => pass_response(flow, answer).await,
        Err((at, verdict)) => Box::pin(pass_back(flow, at, verdict)).await,
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

/// The answer of station `at`, through those before it.
async fn pass_back(flow: &SharedFlow, at: usize, verdict: Verdict) -> Response<Body> {
    pass_response_from(flow, at, verdict.into_response()).await
}

/// The answer, through the stations below `end`.
async fn pass_response_from(
    flow: &SharedFlow,
    end: usize,
    answer: Response<Body>,
) -> Response<Body> {
    match pass_response_below(flow, end, answer) {
        Ok(answer) if !holds_answer(flow) => answer,
        Ok(answer) => Box::pin(whole_answer(flow, answer)).await,
        Err(held) => Box::pin(pass_response_on(flow, held)).await,
    }
}

fn pass_response_below(
    flow: &SharedFlow,
    end: usize,
    answer: Response<Body>,
) -> Result<Response<Body>, HeldAnswer> {
    let (parts, body) = answer.into_parts();
    let is_whole = body.is_end_stream();
    let met = {
        let mut flow = flow.borrow_mut();
        flow.look(|exchange| exchange.response = Some(parts));
        flow.show_response(end, is_whole)
    };
    match met {
        None => Ok(give_response(flow, body, end, end)),
        Some((at, met)) => Err(HeldAnswer { at, met, end, body }),
    }
}

/// The same from the station on that did not let the head pass at once.
pub(crate) async fn pass_response_on(flow: &SharedFlow, held: HeldAnswer) -> Response<Body> {
    let HeldAnswer {
        at: from,
        met,
        mut end,
        mut body,
    } = held;
    let mut met = Some(met);
    // Stations from there to `end` have their place in `body` already.
    let mut placed = end;
    for at in (0..=from).rev() {
        let is_whole = body.is_end_stream();
        let passed = match met.take() {
            Some(met) => pass_met(flow, at, Part::ResponseHeaders, is_whole, met).await,
            None => pass_headers(flow, at, Part::ResponseHeaders, is_whole).await,
        };
        let verdict = match passed {
            Ok(Head::Passed) => continue,
            Ok(Head::Held) => {
                body = FilteredBody::wrap(flow, body, Direction::Response, at..placed);
                placed = at;
                match wait_for_body(flow, body).await {
                    Ok(passed) => {
                        body = passed;
                        continue;
                    }
                    Err((_, verdict)) => verdict,
                }
            }
            Err(verdict) => verdict,
        };
        let (parts, other) = verdict.into_response().into_parts();
        flow.borrow_mut().exchange().response = Some(parts);
        (body, end, placed) = (other, at, at);
    }
    let answer = give_response(flow, body, placed, end);
    whole_answer(flow, answer).await
}

/// The answer, whose head has passed all stations, and whose body those from `placed` to `end`.
fn give_response(
    flow: &SharedFlow,
    mut body: Body,
    placed: usize,
    mut end: usize,
) -> Response<Body> {
    // Before a filter sees any of it: one that changes a body has its length taken out.
    let told = flow.borrow_mut().told_length();
    if !body.is_end_stream() {
        (body, end) = pass_response_body(flow, body, placed, end);
    }
    // Nobody has any of its bodies still: filters may see its end now, and no copy is left for them.
    let is_over = Rc::strong_count(flow) == 1;
    let mut flow = flow.borrow_mut();
    if let Body::Whole(bytes) = &body
        && flow.looks.properties
    {
        flow.note_passed(Direction::Response, bytes.len() as u64);
    }
    if is_over {
        flow.close();
    }
    let is_logged = !is_over && flow.looks.log;
    let parts = flow.look(|exchange| match is_logged {
        true => exchange.response.clone(),
        false => exchange.response.take(),
    });
    let mut parts = parts.unwrap_or_else(|| Response::new(()).into_parts().0);
    // Trailers, which a filter may make, go out behind chunks alone.
    let may_have_trailers = parts.headers.contains_key(TRAILER);
    if may_have_trailers && flow.looks.bodies[Direction::Response as usize] {
        parts.headers.remove(CONTENT_LENGTH);
    } else if flow.may_change_length(Direction::Response, 0..end) {
        parts.headers.remove(CONTENT_LENGTH);
        flow.hold_whole(Direction::Response, told, &body);
    }
    Response::from_parts(parts, body)
}

/// The answer's body, through the stations below `placed`. A filter that sees the whole of it at once, or the part that
/// is there with the head, can still put another answer in its place.
fn pass_response_body(
    flow: &SharedFlow,
    mut body: Body,
    mut placed: usize,
    mut end: usize,
) -> (Body, usize) {
    loop {
        body = FilteredBody::wrap(flow, body, Direction::Response, 0..placed);
        let is_seen = flow.borrow().look_at_body(Direction::Response, 0..placed);
        if is_seen {
            body = begin_at_once(flow, body);
        }
        let Some((at, verdict)) = flow.borrow_mut().early.take() else {
            return (body, end);
        };
        let (parts, other) = verdict.into_response().into_parts();
        flow.borrow_mut().exchange().response = Some(parts);
        (body, placed, end) = (other, at, at);
    }
}

/// Waits until a filter that holds its head lets some of the body go on, or all of it is there.
async fn wait_for_body(flow: &SharedFlow, mut body: Body) -> Result<Body, (usize, Verdict)> {
    let first = match body {
        Body::Empty | Body::Whole(_) => None,
        _ => poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await,
    };
    match (flow.borrow_mut().early.take(), first) {
        (Some(early), _) => Err(early),
        (None, Some(first)) => Ok(Begun::body(first, body)),
        (None, None) => Ok(body),
    }
}

/// One station's callback for header fields, and the wait for it.
async fn pass_headers(
    flow: &SharedFlow,
    at: usize,
    part: Part,
    end_of_stream: bool,
) -> Result<Head, Verdict> {
    let met = flow.borrow_mut().show_head(at, part, end_of_stream);
    match met {
        None => Ok(Head::Passed),
        Some(met) => pass_met(flow, at, part, end_of_stream, met).await,
    }
}

/// The way on of a head that did not pass at once.
async fn pass_met(
    flow: &SharedFlow,
    at: usize,
    part: Part,
    end_of_stream: bool,
    met: Met,
) -> Result<Head, Verdict> {
    match met {
        Met::Held => Ok(Head::Held),
        Met::Stopped(verdict) => Err(verdict),
        Met::Paused => wait_for_headers(flow, at, part, end_of_stream, true).await,
        Met::Full => wait_for_headers(flow, at, part, end_of_stream, false).await,
    }
}

/// The same for a callback that has to be waited for: for an instance, or for what the filter does meanwhile.
async fn wait_for_headers(
    flow: &SharedFlow,
    at: usize,
    part: Part,
    end_of_stream: bool,
    mut is_paused: bool,
) -> Result<Head, Verdict> {
    for _ in 0..TRIES {
        if !is_paused {
            wait_for_place(flow, at).await;
            let step = flow.borrow_mut().call(at, part, end_of_stream);
            match step {
                Step::Continue => return Ok(Head::Passed),
                Step::HoldHead => return Ok(Head::Held),
                Step::Stop(verdict) => return Err(verdict),
                Step::Pause => {}
            }
        }
        let opened = flow.borrow().stations[at].opened;
        let direction = part.direction();
        match poll_fn(|context| flow.borrow().poll_resumed(at, opened, direction, context)).await {
            Woken::Resumed => {
                let local = flow.borrow_mut().local_response(at);
                return local.map_or(Ok(Head::Passed), Err);
            }
            Woken::Died => is_paused = false,
        }
    }
    match flow.borrow_mut().give_up(at, Verdict::Failed) {
        Step::Stop(verdict) => Err(verdict),
        _ => Ok(Head::Passed),
    }
}

/// Waits until the station's filter can have an instance, for as long as it may. Whether it can, its callback sees.
async fn wait_for_place(flow: &SharedFlow, at: usize) {
    let Some(places) = flow.borrow().full_places(at) else {
        return;
    };
    let place = places.take().await.ok();
    flow.borrow_mut().stations[at].place = place;
}

impl Flow {
    /// A request that no filter has seen yet.
    pub(crate) fn new(
        slots: &[Rc<Lease>],
        looks: Looks,
        ambiguous_paths: Ambiguities,
        exchange: Box<Exchange>,
    ) -> SharedFlow {
        let station = |slot: &Rc<Lease>| Station {
            slot: Rc::clone(slot),
            stream: None,
            opened: 0,
            place: None,
            is_passed_by: false,
            own: None,
        };
        Rc::new_cyclic(|me: &Weak<RefCell<Self>>| {
            let me: Weak<RefCell<Self>> = Weak::clone(me);
            RefCell::new(Self {
                looks,
                ambiguous_paths,
                stations: slots.iter().map(station).collect(),
                exchange: Some(exchange),
                holder: None,
                early: None,
                has_body_to_come: false,
                whole_bytes: [None; 2],
                me,
            })
        })
    }

    /// The exchange, taken back from whoever has it.
    fn exchange(&mut self) -> &mut Exchange {
        self.take_back();
        // Nobody but a flow's own methods takes it, and each puts it back.
        self.exchange
            .get_or_insert_with(|| Box::new(empty_exchange()))
    }

    /// Looks at the exchange where it lies: to take it back and hand it over again costs as much as a callback. What is
    /// one filter's own is not among what is seen.
    fn look<T>(&mut self, look: impl FnOnce(&mut Exchange) -> T) -> T {
        if let Some(at) = self.holder
            && let Station {
                stream: Some((live, stream)),
                own: None,
                ..
            } = &self.stations[at]
            && let Some(mut exchange) = live.exchange(*stream)
        {
            return look(&mut exchange);
        }
        look(self.exchange())
    }

    /// Brings the path into the one form, where a filter may have set it. Whether it has one.
    fn normalize_path(&mut self) -> bool {
        let taken = self.ambiguous_paths;
        self.look(|exchange| {
            if !mem::take(&mut exchange.is_request_changed) {
                return true;
            }
            let request = &mut exchange.request;
            match path::normalize(&request.uri) {
                Ok(None) => {}
                Ok(Some(uri)) => request.uri = uri,
                Err(_) => return false,
            }
            Ambiguities::of(request.uri.path()).is_within(taken)
        })
    }

    /// The request's head, for a service that looks at it and does not wait.
    pub(crate) fn look_at_request<T>(&mut self, look: impl FnOnce(&request::Parts) -> T) -> T {
        self.look(|exchange| look(&exchange.request))
    }

    /// The request's head, for a service that keeps it.
    pub(crate) fn copy_request(&mut self) -> request::Parts {
        self.exchange().request.clone()
    }

    /// What the station holds of a direction.
    fn rest(&mut self, at: usize, direction: Direction) -> &mut Message {
        self.take_back();
        let own = self.stations[at].own.get_or_insert_default();
        own.rests[direction as usize].get_or_insert_default()
    }

    /// Bytes of a body that all filters have let go: for those that do not look at it.
    fn note_passed(&mut self, direction: Direction, bytes: u64) {
        self.look(|exchange| {
            let rest = match direction {
                Direction::Request => &mut exchange.request_rest,
                Direction::Response => &mut exchange.response_rest,
            };
            rest.passed_bytes = bytes;
        });
    }

    #[inline]
    fn take_back(&mut self) {
        if let Some(at) = self.holder.take() {
            self.take_from(at);
        }
    }

    fn take_from(&mut self, at: usize) {
        if let Some((live, stream)) = &self.stations[at].stream {
            self.exchange = live.take(*stream);
            if let Some(exchange) = &mut self.exchange {
                self.stations[at].swap_own(exchange);
            }
        }
    }

    #[inline]
    fn hand_to(&mut self, at: usize) {
        if self.holder != Some(at) {
            self.hand_over(at);
        }
    }

    fn hand_over(&mut self, at: usize) {
        self.take_back();
        let station = &mut self.stations[at];
        if station.stream.is_none() {
            return;
        }
        if let Some(mut exchange) = self.exchange.take() {
            station.swap_own(&mut exchange);
            match station.put(exchange) {
                Ok(()) => self.holder = Some(at),
                Err(mut exchange) => {
                    station.swap_own(&mut exchange);
                    self.exchange = Some(exchange);
                }
            }
        }
    }

    /// Shows the request's head to one station after the other, as long as each lets it pass at once; else says
    /// which one did not.
    fn show_request(&mut self, end_of_stream: bool) -> Option<(usize, Met)> {
        for at in 0..self.stations.len() {
            if let Some(met) = self.show_head(at, Part::RequestHeaders, end_of_stream) {
                return Some((at, met));
            }
            // The next one, and the service, see no other spelling of a path that this one has set.
            if !self.normalize_path() {
                return Some((at + 1, Met::Stopped(Verdict::BadPath)));
            }
        }
        None
    }

    /// The same of the answer's head, from the last station below `end` to the first.
    fn show_response(&mut self, end: usize, end_of_stream: bool) -> Option<(usize, Met)> {
        (0..end).rev().find_map(|at| {
            let met = self.show_head(at, Part::ResponseHeaders, end_of_stream);
            met.map(|met| (at, met))
        })
    }

    /// Shows a head to a station; `None`: it has passed.
    fn show_head(&mut self, at: usize, part: Part, end_of_stream: bool) -> Option<Met> {
        if self.full_places(at).is_some() {
            return Some(Met::Full);
        }
        match self.call(at, part, end_of_stream) {
            Step::Continue => None,
            Step::HoldHead => Some(Met::Held),
            Step::Pause => Some(Met::Paused),
            Step::Stop(verdict) => Some(Met::Stopped(verdict)),
        }
    }

    /// Makes one callback.
    fn call(&mut self, at: usize, part: Part, end_of_stream: bool) -> Step {
        if self.stations[at].is_passed_by {
            return Step::Continue;
        }
        if let Err(verdict) = self.open(at, part) {
            return self.give_up(at, verdict);
        }
        self.hand_to(at);
        let Some((live, stream)) = &self.stations[at].stream else {
            return self.give_up(at, Verdict::Failed);
        };
        let called = live.call(&self.me, *stream, part, end_of_stream);
        let has_answered = live.has_answered(*stream);
        let Ok(action) = called else {
            return self.give_up(at, Verdict::Failed);
        };
        if has_answered && let Some(verdict) = self.local_response(at) {
            return Step::Stop(verdict);
        }
        match action {
            Action::Continue => Step::Continue,
            Action::HoldHead if !end_of_stream => Step::HoldHead,
            Action::Pause | Action::HoldHead => Step::Pause,
        }
    }

    /// Sees to it that the station has a stream in an instance that lives. A filter that had seen the head of this
    /// request in one that is gone is shown it again, for what it notes of it.
    fn open(&mut self, at: usize, part: Part) -> Result<(), Verdict> {
        let died = match &self.stations[at].stream {
            Some((live, _)) if live.is_alive() => return Ok(()),
            Some(_) => true,
            None => false,
        };
        self.take_back();
        let station = &mut self.stations[at];
        station.stream = None;
        let live = station.slot.live(station.place.take())?;
        let Some(mut exchange) = self.exchange.take() else {
            return Err(Verdict::Failed);
        };
        station.swap_own(&mut exchange);
        let stream = live.open(exchange);
        station.opened += 1;
        self.holder = Some(at);
        let (live, stream) = station.stream.insert((live, stream));
        let has_seen_head = died && part != Part::RequestHeaders;
        match has_seen_head {
            false => Ok(()),
            true => live
                .call(&self.me, *stream, Part::RequestHeaders, false)
                .map(|_| ())
                .map_err(|_| Verdict::Failed),
        }
    }

    /// Where the station's filter has no room for an instance of this request's.
    fn full_places(&self, at: usize) -> Option<Rc<Places>> {
        let station = &self.stations[at];
        let is_there = |(live, _): &(Rc<Live>, _)| live.is_alive();
        if station.is_passed_by || station.stream.as_ref().is_some_and(is_there) {
            return None;
        }
        station.slot.full_places()
    }

    /// The station's filter failed over this request. `verdict`: what becomes of one that must not go without it.
    fn give_up(&mut self, at: usize, verdict: Verdict) -> Step {
        self.take_back();
        let station = &mut self.stations[at];
        station.stream = None;
        // What it holds goes on without it; what it had to say does not.
        if let Some(own) = &mut station.own {
            own.local_response = None;
        }
        station.slot.figures.errors.add(1);
        match station.slot.loaded.on_failure {
            OnFailure::Close => Step::Stop(verdict),
            OnFailure::Open => {
                station.is_passed_by = true;
                Step::Continue
            }
        }
    }

    /// What the station's filter answers, if it does.
    fn local_response(&mut self, at: usize) -> Option<Verdict> {
        self.hand_to(at);
        let (live, stream) = self.stations[at].stream.as_ref()?;
        if live.is_closed(*stream) {
            return Some(Verdict::Reset);
        }
        live.local_response(*stream).map(Verdict::Local)
    }

    /// Whether the station's filter lets the stream go on that was the last of so many `opened`.
    fn poll_resumed(
        &self,
        at: usize,
        opened: u32,
        direction: Direction,
        context: &mut Context<'_>,
    ) -> Poll<Woken> {
        let station = &self.stations[at];
        match &station.stream {
            None => Poll::Ready(Woken::Died),
            Some(_) if station.opened != opened => Poll::Ready(Woken::Died),
            Some((live, _)) if !live.is_alive() => Poll::Ready(Woken::Died),
            Some((live, stream)) => live
                .poll_resumed(*stream, direction, context)
                .map(|()| Woken::Resumed),
        }
    }

    /// Whether one of these filters looks at the body.
    fn look_at_body(&self, direction: Direction, mut stations: Range<usize>) -> bool {
        let part = body_of(direction);
        self.looks.bodies[direction as usize] && stations.any(|at| self.looks_at(at, part))
    }

    /// Whether one of these filters may make the body longer or shorter.
    fn may_change_length(&self, direction: Direction, mut stations: Range<usize>) -> bool {
        self.looks.bodies[direction as usize] && stations.any(|at| self.changes_body(at, direction))
    }

    /// The same, or may have trailers follow it, which only chunks have room for.
    fn may_change_framing(&mut self, direction: Direction, stations: Range<usize>) -> bool {
        let has_trailers = |exchange: &mut Exchange| {
            let response = exchange.response.as_ref();
            response.is_some_and(|response| response.headers.contains_key(TRAILER))
        };
        self.may_change_length(direction, stations)
            || direction == Direction::Response && self.look(has_trailers)
    }

    fn changes_body(&self, at: usize, direction: Direction) -> bool {
        let filter = &self.stations[at].slot.loaded.filter;
        self.looks_at(at, body_of(direction)) && filter.changes_bodies()
    }

    /// The length of the answer that its head tells, if filters look at its body.
    fn told_length(&mut self) -> Option<HeaderValue> {
        if !self.looks.bodies[Direction::Response as usize] {
            return None;
        }
        let response = self.exchange().response.as_ref()?;
        response.headers.get(CONTENT_LENGTH).cloned()
    }

    /// Has a body held whole whose length was told and is not known any more, if there is room for it.
    fn hold_whole(&mut self, direction: Direction, told: Option<HeaderValue>, body: &Body) {
        let told = told.and_then(|told| told.to_str().ok()?.parse::<usize>().ok());
        let (Some(told), Body::Other(_)) = (told, body) else {
            return;
        };
        let changing = (0..self.stations.len()).filter(|at| self.changes_body(*at, direction));
        let bounds = changing.map(|at| self.stations[at].slot.loaded.body_bytes);
        let most_bytes = bounds.min().filter(|most_bytes| told <= *most_bytes);
        self.whole_bytes[direction as usize] = most_bytes;
    }

    /// Whether the station's filter looks at this part.
    fn looks_at(&self, at: usize, part: Part) -> bool {
        let station = &self.stations[at];
        !station.is_passed_by && station.slot.loaded.filter.has(part)
    }

    /// Closes its filters' streams.
    fn close(&mut self) {
        for at in (0..self.stations.len()).rev() {
            if self.stations[at].stream.is_none() {
                continue;
            }
            if self.stations[at].slot.loaded.filter.hears_of_ends() {
                self.hand_to(at);
            }
            let Some((live, stream)) = self.stations[at].stream.take() else {
                continue;
            };
            if let Some(mut exchange) = live.close(stream) {
                self.stations[at].swap_own(&mut exchange);
                self.exchange = Some(exchange);
                self.holder = None;
            }
        }
    }
}

impl HandOver for RefCell<Flow> {
    fn hand_over(&self, instance: &Rc<Live>, stream: StreamId) {
        let is_that = |station: &Station| matches!(&station.stream, Some((at, id)) if Rc::ptr_eq(at, instance) && *id == stream);
        let mut flow = self.borrow_mut();
        if let Some(at) = flow.stations.iter().position(is_that) {
            flow.hand_to(at);
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.close();
    }
}

impl From<NoInstance> for Verdict {
    fn from(why: NoInstance) -> Self {
        match why {
            NoInstance::Failed => Self::Failed,
            NoInstance::Busy => Self::Busy,
        }
    }
}

impl Station {
    /// Puts what is the filter's own into an exchange that it is handed, and takes it out of one that it had.
    fn swap_own(&mut self, exchange: &mut Exchange) {
        if exchange.local_response.is_some() {
            self.own.get_or_insert_default();
        }
        if let Some(own) = &mut self.own {
            own.swap(exchange);
        }
    }

    /// Puts an exchange into its stream; gives it back where there is none.
    fn put(&self, exchange: Box<Exchange>) -> Result<(), Box<Exchange>> {
        match &self.stream {
            Some((live, stream)) => live.put(*stream, exchange),
            None => Err(exchange),
        }
    }
}

impl Own {
    fn swap(&mut self, exchange: &mut Exchange) {
        let [request, response] = &mut self.rests;
        if let Some(rest) = request {
            mem::swap(rest, &mut exchange.request_rest);
        }
        if let Some(rest) = response {
            mem::swap(rest, &mut exchange.response_rest);
        }
        mem::swap(&mut self.local_response, &mut exchange.local_response);
    }
}

impl Verdict {
    fn into_response(self) -> Response<Body> {
        match self {
            Self::Failed => responses::filter_failed(),
            Self::Busy => responses::filter_busy(),
            Self::Reset => responses::reset(),
            Self::BadPath => responses::bad_path(),
            Self::TooLarge(Direction::Request) => responses::request_too_large(),
            Self::TooLarge(Direction::Response) => responses::response_too_large(),
            Self::Local(local) => {
                let mut response = Response::new(Body::Whole(local.body));
                *response.status_mut() = local.status;
                *response.headers_mut() = local.headers;
                response
            }
        }
    }
}

fn empty_request() -> request::Parts {
    Request::new(()).into_parts().0
}

fn empty_exchange() -> Exchange {
    Exchange {
        request: empty_request(),
        is_request_changed: false,
        request_rest: Message::default(),
        started: None,
        response: None,
        response_rest: Message::default(),
        peer: Rc::default(),
        route: Rc::from(""),
        service: Rc::from(""),
        properties: BTreeMap::new(),
        local_response: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_is_lent_is_there_while_its_service_waits() {
        let mut exchange = empty_exchange();
        exchange.request.uri = "/lent".parse().unwrap();
        let flow = Flow::new(
            &[],
            Looks::default(),
            Ambiguities::default(),
            Box::new(exchange),
        );
        let look = async |lent: &request::Parts| {
            let mut is_first = true;
            poll_fn(|context| {
                context.waker().wake_by_ref();
                match mem::take(&mut is_first) {
                    true => Poll::Pending,
                    false => Poll::Ready(()),
                }
            })
            .await;
            let meanwhile = flow.borrow_mut().copy_request().uri;
            (lent.uri.clone(), meanwhile)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let (lent, meanwhile) = runtime.unwrap().block_on(lend_request(&flow, look));
        assert_eq!((lent.path(), meanwhile.path()), ("/lent", "/lent"));
        assert_eq!(flow.borrow_mut().copy_request().uri, "/lent");
    }
}
