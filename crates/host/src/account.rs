//! One request, from its head to the end of its answer: what its route's figures and its line in the log tell
//! of it.
//!
//! ```text
//!  head ──open──▶ Account ──took──▶ answered ──▶ sent, sent … ──▶ ended │ broke ──drop──▶ figures, line
//! ```
//!
//! An account goes with its request, and then with the answer's body; its end, however it comes, is the request's.
//! Where no line is wanted and the request's time is not looked at, it allocates nothing and reads no clock.

use crate::{kinds::BrokenBy, log::Access, site::Site, turns::Turn};
use http::StatusCode;
use std::{cell::Cell, rc::Rc, time::Instant};

/// One request. Dropping this is its end: one that was not said to be over was broken off by the client.
#[derive(Default)]
pub struct Account(Option<Open>);

struct Open {
    site: Rc<Site>,
    /// The place of its way in the site.
    way: Option<usize>,
    status: Option<StatusCode>,
    bytes: u64,
    end: Option<End>,
    /// When its head was there, and for how many requests its time stands; `None`: nobody asks for its time.
    timed: Option<(Instant, u32)>,
    /// Its line, as far as it is known.
    line: Option<Box<Access>>,
    /// Its place at its service.
    turn: Option<Turn>,
}

#[derive(Clone, Copy)]
enum End {
    Whole,
    Broken(BrokenBy),
}

impl Account {
    /// Of a request whose head is there. `weight`: for how many its time stands.
    pub(crate) fn open(site: Rc<Site>, line: Option<Box<Access>>, weight: Option<u32>) -> Self {
        let weight = if line.is_some() { Some(1) } else { weight };
        Self(Some(Open {
            site,
            way: None,
            status: None,
            bytes: 0,
            end: None,
            timed: weight.map(|weight| (Instant::now(), weight)),
            line,
            turn: None,
        }))
    }

    /// It has this until it is over.
    pub(crate) fn holds(&mut self, turn: Turn) {
        if let Some(open) = &mut self.0 {
            open.turn = Some(turn);
        }
    }

    /// It took this way.
    pub(crate) fn took(&mut self, way: usize) {
        if let Some(open) = &mut self.0 {
            open.way = Some(way);
        }
    }

    /// The answer's head goes out. `is_whole`: and its body with it.
    pub(crate) fn answered(&mut self, status: StatusCode, is_whole: bool) {
        let Some(open) = &mut self.0 else {
            return;
        };
        open.status = Some(status);
        if !is_whole && let (Some(line), Some((since, _))) = (&mut open.line, open.timed) {
            line.first = Some(since.elapsed());
        }
    }

    /// So much of the body was handed to the connection.
    pub(crate) fn sent(&mut self, bytes: usize) {
        if let Some(open) = &mut self.0 {
            open.bytes += bytes as u64;
        }
    }

    /// The whole answer was handed over.
    pub(crate) fn ended(&mut self) {
        self.end(End::Whole);
    }

    /// It was broken off. What is said first holds.
    pub(crate) fn broke(&mut self, by: BrokenBy) {
        self.end(End::Broken(by));
    }

    /// The service began an answer and did not bring it to its end.
    pub(crate) fn service_failed(&mut self) {
        if let Some(open) = &mut self.0
            && open.end.is_none()
            && let Some(way) = open.way.and_then(|way| open.site.way(way))
        {
            way.service.count_broken(open.status);
        }
    }

    fn end(&mut self, end: End) {
        if let Some(open) = &mut self.0 {
            open.end.get_or_insert(end);
        }
    }
}

impl Drop for Account {
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
        let figures = self.site.route_figures(self.way);
        figures.count(self.status, broken);
        if let Some((time, weight)) = time {
            figures.count_time(time, weight);
        }
        if let (Some(mut line), Some((time, _))) = (self.line, time) {
            line.route = self.site.route_name(self.way).into();
            line.status = self.status;
            line.bytes = self.bytes;
            line.time = time;
            line.broken_by = broken;
            self.site.write_line(*line);
        }
    }
}

/// Which requests are timed. To read the clock twice costs more than many a request's filter: while there are
/// few requests each is timed, and of many every sixteenth, which then stands for sixteen.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    tick: Cell<u32>,
    seen: Cell<u32>,
}

/// Requests of one tick that are all timed.
const ALL_TIMED: u32 = 64;
/// Of those behind them, one in so many.
const ONE_TIMED_OF: u32 = 16;

impl Sampler {
    /// For how many requests the next one stands; `None`: it is not timed. `tick` counts quarters of a second.
    pub(crate) fn weight(&self, tick: u32) -> Option<u32> {
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
