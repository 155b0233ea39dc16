//! The way of a request that nobody holds up.
//!
//! Most requests have no body, and most filters look at heads alone and let each pass at once. Where the service has its
//! response at once, too, as files that are kept, nothing of the exchange outlives the turn in which it is answered, so that it
//! needs no [`Flow`]: it goes from hand to hand, and the filter that is alone is called for the response and for the end of
//! its stream in one go.
//!
//! A request that is held up after all, fails, or makes its filter ask for something, gets its flow where it is:
//!
//! ```text
//!  Straight ──every filter──▶ service ──every filter──▶ Response
//!      └────────────────────────┴──────────────────────▶ Flow, HeldRequest or HeldResponse
//! ```

use super::{
    Codes, Flow, HeldRequest, HeldResponse, Inspects, Met, SharedFlow, Stop, flow::is_normal,
};
use crate::{
    body::Body,
    filters::{FilterHandle, FilterInstance, Finished, NoInstance},
    path::Ambiguities,
};
use http::{Response, request};
use http_body::Body as _;
use palisade_filter::{Action, Exchange, Fault, Filter, Part, StreamId};
use smallvec::SmallVec;
use std::rc::Rc;

/// What a route's filters are asked by about a request, of which they inspect no body.
pub(crate) enum Asked {
    /// The instances that are there, one for each filter.
    Kept(Instances),
    /// The code of each filter: an instance is got when its turn comes, as it may be the request's alone.
    Fresh(Codes),
}

type Instances = SmallVec<[Rc<FilterInstance>; 2]>;

impl Asked {
    /// The kept instances of filters that all have one, and inspect no body of a response.
    pub(crate) fn kept(filters: &[Rc<FilterHandle>]) -> Option<Self> {
        let mut instances = Instances::new();
        for filter in filters {
            instances.push(filter.instance_for_heads()?);
        }
        Some(Self::Kept(instances))
    }

    /// The code of filters none of which is passed by, or inspects a body of a response.
    pub(crate) fn fresh(codes: Codes) -> Result<Self, Codes> {
        let inspects_heads = |code: &Option<Filter>| {
            code.as_ref().is_some_and(|code| {
                !code.inspects(Part::ResponseBody) && !code.inspects(Part::ResponseTrailers)
            })
        };
        match codes.iter().all(inspects_heads) {
            true => Ok(Self::Fresh(codes)),
            false => Err(codes),
        }
    }

    /// Whether one of the filters can ask for properties.
    pub(crate) fn reads_properties(&self) -> bool {
        match self {
            Self::Kept(instances) => instances.iter().any(|instance| instance.reads_properties),
            Self::Fresh(codes) => codes.iter().flatten().any(Filter::reads_properties),
        }
    }
}

/// A request without a body, which its filters have let pass.
pub(crate) struct Straight<'a> {
    filters: &'a [Rc<FilterHandle>],
    ambiguous_paths: Ambiguities,
    /// Where instances are got on the way.
    codes: Codes,
    instances: Instances,
    /// One for each instance that has seen the request.
    streams: SmallVec<[StreamId; 2]>,
    /// `None`: the filter has it that is asked.
    exchange: Option<Box<Exchange>>,
}

impl<'a> Straight<'a> {
    /// Shows a request to its filters.
    pub(crate) fn pass_request(
        filters: &'a [Rc<FilterHandle>],
        ambiguous_paths: Ambiguities,
        asked: Asked,
        exchange: Box<Exchange>,
    ) -> Result<Self, (SharedFlow, HeldRequest)> {
        let (codes, instances) = match asked {
            Asked::Kept(instances) => (Codes::new(), instances),
            Asked::Fresh(codes) => (codes, Instances::new()),
        };
        let mut straight = Self {
            filters,
            ambiguous_paths,
            codes,
            instances,
            streams: SmallVec::new(),
            exchange: Some(exchange),
        };
        for (at, filter) in filters.iter().enumerate() {
            if filter.pace.rest().is_some() {
                return Err(straight.leave_request(at));
            }
            if at == straight.instances.len() {
                if filter.exhausted_permits().is_some() {
                    return Err(straight.leave_request(at));
                }
                match straight.instance(at) {
                    Ok(instance) => straight.instances.push(instance),
                    Err(why) => return Err(straight.give_up(at, why)),
                }
            }
            let called = straight.begin(at);
            if !straight.goes_on(at, &called) {
                return Err(straight.hold_request(at, called));
            }
        }
        Ok(straight)
    }

    fn instance(&self, at: usize) -> Result<Rc<FilterInstance>, NoInstance> {
        let code = self.codes[at].as_ref().ok_or(NoInstance::Failed)?;
        self.filters[at].instance(code, None)
    }

    /// Opens a stream in an instance, and shows it the request.
    fn begin(&mut self, at: usize) -> Result<Action, Fault> {
        let instance = &self.instances[at];
        if let Some(exchange) = self.exchange.take() {
            self.streams.push(instance.open(exchange));
        }
        instance.ask(self.streams[at], Part::RequestHeaders, true)
    }

    /// Whether a filter has let its head pass, and wants nothing. The exchange is back then.
    fn goes_on(&mut self, at: usize, called: &Result<Action, Fault>) -> bool {
        let instance = &self.instances[at];
        if !matches!(called, Ok(Action::Continue)) || !instance.asks_nothing() {
            return false;
        }
        self.exchange = instance.take(self.streams[at]);
        let exchange = self.exchange.as_deref_mut();
        exchange.is_some_and(|exchange| is_normal(exchange, self.ambiguous_paths))
    }

    /// The request's head, for a service that looks at it and does not wait.
    pub(crate) fn request(&self) -> Option<&request::Parts> {
        let exchange = self.exchange.as_deref()?;
        Some(&exchange.request)
    }

    /// Shows a response to its filters that is there with its body, and ends their streams.
    pub(crate) fn pass_response(
        mut self,
        response: Response<Body>,
    ) -> Result<Response<Body>, (SharedFlow, HeldResponse)> {
        let (parts, body) = response.into_parts();
        let end_of_stream = body.is_end_stream();
        let passed_bytes = match &body {
            Body::Whole(bytes) => bytes.len() as u64,
            _ => 0,
        };
        if let Some(exchange) = &mut self.exchange {
            exchange.response = Some(parts);
        }
        if self.filters.len() == 1 {
            self.put(0);
            let finished = self.instances[0].finish(self.streams[0], end_of_stream, passed_bytes);
            self.exchange = match finished {
                Ok(Finished::Over(exchange)) => exchange,
                Ok(Finished::Held(action)) => return Err(self.hold_response(0, Ok(action), body)),
                Err(fault) => return Err(self.hold_response(0, Err(fault), body)),
            };
        } else {
            for at in (0..self.filters.len()).rev() {
                self.put(at);
                let stream = self.streams[at];
                let called = self.instances[at].ask(stream, Part::ResponseHeaders, end_of_stream);
                if !self.goes_on(at, &called) {
                    return Err(self.hold_response(at, called, body));
                }
            }
            self.close(passed_bytes);
        }
        self.instances.into_iter().for_each(FilterInstance::release);
        let parts = self.exchange.and_then(|exchange| exchange.response);
        let parts = parts.unwrap_or_else(|| Response::new(()).into_parts().0);
        Ok(Response::from_parts(parts, body))
    }

    /// Ends all streams, once each filter has let the response pass.
    fn close(&mut self, passed_bytes: u64) {
        if let Some(exchange) = &mut self.exchange {
            exchange.response_rest.passed_bytes = passed_bytes;
        }
        for at in (0..self.filters.len()).rev() {
            self.put(at);
            self.exchange = self.instances[at].close(self.streams[at]);
            // What it had to say then is nobody's to see.
            if let Some(exchange) = &mut self.exchange {
                exchange.local_response = None;
            }
        }
    }

    /// Hands the exchange to a filter.
    fn put(&mut self, at: usize) {
        if let Some(exchange) = self.exchange.take() {
            self.exchange = self.instances[at].put(self.streams[at], exchange).err();
        }
    }

    /// The flow of a request that all filters have let pass, and none has.
    #[cold]
    pub(crate) fn into_flow(self) -> SharedFlow {
        let passed = self.filters.len();
        self.into_flow_at(passed, None)
    }

    /// `passed`: how many filters it has passed. `holder`: who has the exchange.
    fn into_flow_at(self, passed: usize, holder: Option<usize>) -> SharedFlow {
        let code = |instance: &Rc<FilterInstance>| Some(instance.code());
        let codes = match self.codes.is_empty() {
            true => self.instances.iter().map(code).collect(),
            false => self.codes,
        };
        let inspects = Inspects::of(&codes);
        let flow = Flow::new(
            self.filters,
            codes,
            inspects,
            self.ambiguous_paths,
            self.exchange,
        );
        {
            let mut flow = flow.borrow_mut();
            flow.holder = holder;
            flow.passed = passed;
            let streams = self.instances.into_iter().zip(self.streams);
            for (slot, stream) in flow.slots.iter_mut().zip(streams) {
                slot.stream = Some(stream);
                slot.opened = 1;
            }
        }
        flow
    }

    /// The flow of a message that a filter has not let pass as others, and what its head meets there; `None`: it has passed.
    /// `passed`: how many filters the request's head has passed.
    fn hold(
        self,
        at: usize,
        passed: usize,
        called: Result<Action, Fault>,
        end_of_stream: bool,
    ) -> (SharedFlow, Option<Met>) {
        let instance = Rc::clone(&self.instances[at]);
        let holder = self.exchange.is_none().then_some(at);
        let shared = self.into_flow_at(passed, holder);
        let mut flow = shared.borrow_mut();
        instance.deliver(Some(&flow.me));
        let met = flow.step(at, called, end_of_stream).of_head();
        drop(flow);
        (shared, met)
    }

    /// A request whose next filter cannot be asked now.
    #[cold]
    fn leave_request(self, at: usize) -> (SharedFlow, HeldRequest) {
        let held = HeldRequest {
            at,
            met: None,
            body: Body::Empty,
        };
        (self.into_flow_at(at, None), held)
    }

    /// A request for which a filter has no instance.
    #[cold]
    fn give_up(self, at: usize, why: NoInstance) -> (SharedFlow, HeldRequest) {
        let shared = self.into_flow_at(at, None);
        let met = shared.borrow_mut().give_up(at, why.into()).of_head();
        held_request(shared, at, met)
    }

    #[cold]
    fn hold_request(self, at: usize, called: Result<Action, Fault>) -> (SharedFlow, HeldRequest) {
        let (shared, met) = self.hold(at, at, called, true);
        held_request(shared, at, met)
    }

    #[cold]
    fn hold_response(
        self,
        at: usize,
        called: Result<Action, Fault>,
        body: Body,
    ) -> (SharedFlow, HeldResponse) {
        let end = self.filters.len();
        let (flow, met) = self.hold(at, end, called, body.is_end_stream());
        let left = at + usize::from(met.is_some());
        let held = HeldResponse {
            left,
            met,
            end,
            body,
        };
        (flow, held)
    }
}

/// A request with what its head has met at one slot.
fn held_request(shared: SharedFlow, at: usize, met: Option<Met>) -> (SharedFlow, HeldRequest) {
    let mut flow = shared.borrow_mut();
    let (at, met) = match met {
        Some(met) => (at, Some(met)),
        None if flow.normalize_path() => {
            flow.passed = at + 1;
            (at + 1, None)
        }
        None => (at + 1, Some(Met::Stopped(Stop::BadPath))),
    };
    drop(flow);
    let body = Body::Empty;
    (shared, HeldRequest { at, met, body })
}
