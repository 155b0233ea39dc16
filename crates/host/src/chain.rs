//! The filters of a route, one after the other.
//!
//! ```text
//!  request ──▶ slot 0 ──▶ slot 1 ──▶ service
//!  response ◀─ slot 0 ◀── slot 1 ◀──┘
//! ```
//!
//! A [`Flow`] is one request on its way. Its exchange lies with the slot that had it last: handing it on
//! moves a pointer, and what a paused filter is told later — the response to a call of its own — finds the
//! exchange where the filter left it.

mod body;
mod callback;
mod codes;
mod flow;
mod head;
mod request;
mod response;
mod straight;
mod whole;

pub(crate) use codes::{Codes, codes, codes_at_once};
pub(crate) use request::{
    HeldRequest, lend_request, pass_request_at_once, pass_request_on, respond_or_early,
    whole_request,
};
pub(crate) use response::{
    HeldResponse, holds_response, pass_held_at_once, pass_response, pass_response_at_once,
    pass_response_on, whole_response,
};

pub(crate) use straight::{Asked, Straight};

use crate::{
    body::Body,
    filters::{FilterHandle, FilterInstance, HandOver, NoInstance},
    path::Ambiguities,
    responses,
};
use http::{Request, Response, request::Parts};
use palisade_engine::permits::Permit;
use palisade_filter::{
    Direction, Exchange, Filter, LocalResponse, Message, Part, Properties, StreamId,
};
use smallvec::SmallVec;
use std::{
    cell::RefCell,
    rc::{Rc, Weak},
};

/// A filter of the route, and its stream for this request.
struct Slot {
    filter: Rc<FilterHandle>,
    /// Its code, in use as long as the request is; `None`: requests go on without it.
    code: Option<Filter>,
    stream: Option<(Rc<FilterInstance>, StreamId)>,
    /// How many streams it has had: what waits for one does not wait for the next, which the request's other
    /// direction may have opened.
    opened: u32,
    /// Of the instance that is to be started.
    permit: Option<Permit>,
    /// It failed, and requests go on without it.
    is_passed_by: bool,
    /// Most filters have nothing.
    own: Option<Box<Own>>,
}

/// What of an exchange is one filter's alone: it is in the exchange while that filter has it, and no other one
/// meets it.
#[derive(Default)]
struct Own {
    /// What it holds of each direction, if it inspects that body.
    rests: [Option<Message>; 2],
    /// What it responds with.
    local_response: Option<Box<LocalResponse>>,
}

/// What of requests the filters of a route inspect, all of them together: most inspect little.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inspects {
    /// Bodies or trailers, of each direction.
    bodies: [bool; 2],
    /// The exchange when it is over, for its log.
    log: bool,
    /// When a request began, how long its bodies were, and the like. To look at the clock costs as much as a small
    /// callback.
    pub(crate) properties: bool,
}

impl Inspects {
    pub(crate) fn of(codes: &Codes) -> Self {
        let any = |inspects: fn(&Filter) -> bool| codes.iter().flatten().any(inspects);
        Self {
            bodies: [
                any(|filter| {
                    filter.inspects(Part::RequestBody) || filter.inspects(Part::RequestTrailers)
                }),
                any(|filter| {
                    filter.inspects(Part::ResponseBody) || filter.inspects(Part::ResponseTrailers)
                }),
            ],
            log: any(Filter::inspects_ends),
            properties: any(Filter::reads_properties),
        }
    }
}

/// One request on its way through the filters of its route. Dropping it closes the filters' streams.
pub(crate) struct Flow {
    inspects: Inspects,
    /// What paths may have that others read otherwise.
    ambiguous_paths: Ambiguities,
    slots: SmallVec<[Slot; 2]>,
    /// With nobody, or on its way from one slot to the next.
    exchange: Option<Box<Exchange>>,
    /// The slot that has it.
    holder: Option<usize>,
    /// Slots, from the first on, that the request's head has passed.
    passed: usize,
    /// A response in place of the service's, from a filter that saw the request's body.
    early: Option<(usize, Stop)>,
    /// Filters inspect the response's body, and have not seen any of it.
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
    Stop(Stop),
}

/// What becomes of a head at one slot.
enum Head {
    Passed,
    /// It waits for its body.
    Held,
}

/// Why a head does not pass a slot at once.
enum Met {
    /// It waits for its body.
    Held,
    /// The filter has it wait.
    Paused,
    /// All instances that the filter may have are in use.
    Full,
    Stopped(Stop),
}

/// Why a request or a response goes no further.
#[derive(Debug)]
enum Stop {
    /// A filter wants the connection broken off.
    Reset,
    /// A filter has set a path that has no one form.
    BadPath,
    /// A filter responds.
    Local(Box<LocalResponse>),
    /// A filter failed that requests must not go without.
    Failed,
    /// A filter holds more of a body than it may.
    TooLarge(Direction),
    /// There is no instance of such a filter.
    Busy,
}

impl From<NoInstance> for Stop {
    fn from(why: NoInstance) -> Self {
        match why {
            NoInstance::Failed => Self::Failed,
            NoInstance::Busy => Self::Busy,
        }
    }
}

impl Stop {
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

fn empty_request() -> Parts {
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
        properties: Properties::default(),
        local_response: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::poll_fn, mem, task::Poll};

    #[test]
    fn a_head_that_is_lent_is_there_while_its_service_waits() {
        let mut exchange = empty_exchange();
        exchange.request.uri = "/lent".parse().unwrap();
        let flow = Flow::new(
            &[],
            Codes::new(),
            Inspects::default(),
            Ambiguities::default(),
            Some(Box::new(exchange)),
        );
        let look = async |lent: &Parts| {
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
