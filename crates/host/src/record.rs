//! One request, from its head to the end of its response: what its route's metrics and its line in the access log
//! tell of it.
//!
//! ```text
//!  head ──open──▶ RequestRecord ──set_route──▶ responded ──▶ sent, sent … ──▶ ended │ broke ──drop──▶ metrics, line
//! ```
//!
//! A record goes with its request, and then with the response's body; its end, however it comes, is the request's.
//! Where no line is wanted and the request's time is not looked at, it allocates nothing and reads no clock.

use crate::{
    kinds::BrokenBy,
    log::{Access, Log},
    metrics::{GuestMetrics, RouteMetrics},
    permits::Permit,
    quota::InFlight,
};
use http::{StatusCode, request};
use palisade_filter::Peer;
use std::{cell::Cell, rc::Rc, sync::Arc, time::Instant};

/// Where the requests of one worker are recorded.
pub(crate) struct Recorder {
    log: Log,
    /// For requests that no route takes.
    unrouted: Rc<RouteRecorder>,
    sampler: Sampler,
    /// The next request's number.
    next_number: Rc<Cell<u64>>,
}

/// Where the requests of one route are recorded.
pub(crate) struct RouteRecorder {
    /// The route's name; empty without one.
    pub(crate) name: Rc<str>,
    pub(crate) metrics: Arc<RouteMetrics>,
    /// The metrics of its service.
    pub(crate) service: Option<Arc<GuestMetrics>>,
}

impl Recorder {
    /// `next_number` goes on from one generation to the next.
    pub(crate) fn new(log: Log, unrouted: Rc<RouteRecorder>, next_number: Rc<Cell<u64>>) -> Self {
        Self {
            log,
            unrouted,
            sampler: Sampler::default(),
            next_number,
        }
    }

    /// The record of a request whose head is there. `tick` counts quarters of a second.
    pub(crate) fn open(
        self: &Rc<Self>,
        peer: &Peer,
        head: &request::Parts,
        tick: u32,
    ) -> RequestRecord {
        let line = self.log.wants_access().then(|| {
            let client = peer.address.map(|address| address.ip());
            let method = head.method.clone();
            Box::new(Access::new(self.number(), client, method, head.uri.path()))
        });
        let weight = self.sampler.weight(tick);
        RequestRecord::open(Rc::clone(self), line, weight)
    }

    fn number(&self) -> u64 {
        let number = self.next_number.get();
        self.next_number.set(number.wrapping_add(1));
        number
    }
}

/// One request. Dropping this is its end: one that was not said to be over was broken off by the client.
#[derive(Default)]
pub struct RequestRecord(Option<Open>);

struct Open {
    recorder: Rc<Recorder>,
    /// Where those of its route are recorded.
    route: Option<Rc<RouteRecorder>>,
    status: Option<StatusCode>,
    bytes: u64,
    end: Option<End>,
    /// When its head was there, and for how many requests its time stands; `None`: nobody asks for its time.
    timed: Option<(Instant, u32)>,
    /// Its line, as far as it is known.
    line: Option<Box<Access>>,
    /// Its permit for its service.
    permit: Option<Permit>,
    /// Its place among those of its tenant.
    in_flight: Option<InFlight>,
}

#[derive(Clone, Copy)]
enum End {
    Whole,
    Broken(BrokenBy),
}

impl RequestRecord {
    /// `weight`: for how many requests its time stands.
    fn open(recorder: Rc<Recorder>, line: Option<Box<Access>>, weight: Option<u32>) -> Self {
        let weight = if line.is_some() { Some(1) } else { weight };
        Self(Some(Open {
            recorder,
            route: None,
            status: None,
            bytes: 0,
            end: None,
            timed: weight.map(|weight| (Instant::now(), weight)),
            line,
            permit: None,
            in_flight: None,
        }))
    }

    /// Holds this until the request is over.
    pub(crate) fn hold(&mut self, permit: Permit) {
        if let Some(open) = &mut self.0 {
            open.permit = Some(permit);
        }
    }

    /// Holds this until the request is over, too.
    pub(crate) fn hold_place(&mut self, in_flight: Option<InFlight>) {
        if let Some(open) = &mut self.0 {
            open.in_flight = in_flight;
        }
    }

    /// The route took it that this one records.
    pub(crate) fn set_route(&mut self, route: &Rc<RouteRecorder>) {
        if let Some(open) = &mut self.0 {
            open.route = Some(Rc::clone(route));
        }
    }

    /// The response's head goes out. `is_whole`: and its body with it.
    pub(crate) fn responded(&mut self, status: StatusCode, is_whole: bool) {
        let Some(open) = &mut self.0 else {
            return;
        };
        open.status = Some(status);
        if !is_whole && let (Some(line), Some((since, _))) = (&mut open.line, open.timed) {
            line.first = Some(since.elapsed());
        }
    }

    /// So many bytes of the body were handed to the connection.
    pub(crate) fn sent(&mut self, bytes: usize) {
        if let Some(open) = &mut self.0 {
            open.bytes += bytes as u64;
        }
    }

    /// The whole response was handed over.
    pub(crate) fn ended(&mut self) {
        self.end(End::Whole);
    }

    /// It was broken off. What is said first holds.
    pub(crate) fn broke(&mut self, by: BrokenBy) {
        self.end(End::Broken(by));
    }

    /// The service began a response and did not bring it to its end. A status of an error was counted with the head.
    pub(crate) fn service_failed(&mut self) {
        if let Some(open) = &mut self.0
            && open.end.is_none()
            && !open.status.is_some_and(|status| status.is_server_error())
            && let Some(service) = open.route.as_ref().and_then(|route| route.service.as_ref())
        {
            service.errors.add(1);
        }
    }

    fn end(&mut self, end: End) {
        if let Some(open) = &mut self.0 {
            open.end.get_or_insert(end);
        }
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            open.close();
        }
    }
}

impl Open {
    fn close(self) {
        let broken = match self.end {
            Some(End::Whole) => None,
            Some(End::Broken(by)) => Some(by),
            None => Some(BrokenBy::Client),
        };
        let time = self.timed.map(|(since, weight)| (since.elapsed(), weight));
        let route = self.route.as_ref().unwrap_or(&self.recorder.unrouted);
        route.metrics.count(self.status, broken);
        if let Some((time, weight)) = time {
            route.metrics.count_time(time, weight);
        }
        if let (Some(mut line), Some((time, _))) = (self.line, time) {
            line.route = (&*route.name).into();
            line.status = self.status;
            line.bytes = self.bytes;
            line.time = time;
            line.broken_by = broken;
            self.recorder.log.access(*line);
        }
    }
}

/// Which requests are timed. To read the clock twice costs more than many a request's filter: while there are
/// few requests each is timed, and of many every sixteenth, which then stands for sixteen.
#[derive(Debug, Default)]
struct Sampler {
    tick: Cell<u32>,
    seen: Cell<u32>,
}

/// Requests of one tick that are all timed.
const ALL_TIMED: u32 = 64;
/// Of those behind them, one in so many.
const ONE_TIMED_OF: u32 = 16;

impl Sampler {
    /// For how many requests the next one stands; `None`: it is not timed. `tick` counts quarters of a second.
    fn weight(&self, tick: u32) -> Option<u32> {
        if self.tick.replace(tick) != tick {
            self.seen.set(0);
        }
        let seen = self.seen.get() + 1;
        self.seen.set(seen);
        match seen {
            0..=ALL_TIMED => Some(1),
            _ if seen.is_multiple_of(ONE_TIMED_OF) => Some(ONE_TIMED_OF),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_are_all_timed_and_many_stand_for_each_other() {
        let sampler = Sampler::default();
        for (tick, requests) in [(7, 10), (8, 64), (9, 6400)] {
            let weights: Vec<_> = (0..requests).map(|_| sampler.weight(tick)).collect();
            let sum: u32 = weights.iter().flatten().sum();
            assert_eq!(sum, requests, "tick {tick}");
            let timed = weights.iter().flatten().count();
            assert!(timed <= 64 + requests as usize / 16, "{timed}");
        }
    }
}
