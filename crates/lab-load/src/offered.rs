//! An open loop: requests are due at fixed times, whatever comes back.

use crate::{
    address::Address,
    busy::{PART_BYTES, PATIENCE},
    connection::Connection,
    failures::{Expected, Failure, Failures},
    figures::Spread,
    watch::{Wait, Watch},
};
use serde::Serialize;
use std::time::{Duration, Instant};

/// How to ask.
#[derive(Clone, Debug)]
pub(crate) struct How {
    /// Requests in a second, one rate after the other.
    pub(crate) rates: Vec<usize>,
    /// For each rate.
    pub(crate) time: Duration,
    /// At most: a request that finds all of them busy is sent when the first is free, and was due before.
    pub(crate) connections: usize,
    pub(crate) wait: Wait,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    pub(crate) url: String,
    /// In the order of the rates.
    pub(crate) rates: Vec<RateTold>,
}

/// What came of one rate.
#[derive(Debug, Serialize)]
pub(crate) struct RateTold {
    /// Requests in a second.
    pub(crate) offered_per_s: usize,
    pub(crate) seconds: f64,
    pub(crate) sent: usize,
    /// Due and not sent, for want of a free connection.
    pub(crate) unsent: usize,
    /// Right answers within the time, in a second.
    pub(crate) replies_per_s: f64,
    /// From the time at which a request was due to the end of its answer; of those that were sent.
    pub(crate) latency: Option<Spread>,
    /// Between one answer and the next.
    pub(crate) gap: Option<Spread>,
    /// How much later than it was due a request was sent although a connection was free: what this program itself
    /// adds to latencies.
    pub(crate) late: Option<Spread>,
    pub(crate) failures: Failures,
}

/// Offers each rate in turn.
///
/// # Errors
///
/// When this machine fails. What the server does is counted.
pub(crate) fn ask(address: &Address, how: &How) -> anyhow::Result<Told> {
    let mut lines = Lines::new(address, how)?;
    let rates = how.rates.iter();
    let rates = rates.map(|rate| offer(&mut lines, *rate, how.time));
    Ok(Told {
        url: address.url.clone(),
        rates: rates.collect::<anyhow::Result<_>>()?,
    })
}

fn offer(lines: &mut Lines<'_>, rate: usize, time: Duration) -> anyhow::Result<RateTold> {
    let began = Instant::now();
    let end = began + time;
    let mut offer = Offer {
        began,
        rate,
        next: 0,
        was_free: true,
        sums: Sums::default(),
    };
    let mut now = began;
    while let Some(end) = offer.sums.goes_on_until(end, now) {
        offer.send_what_is_due(lines, now)?;
        let idle_until = match lines.free.is_empty() {
            // Nothing can be sent before an answer comes.
            true => end,
            false => offer.due(offer.next).min(end),
        };
        lines.look(Some(idle_until), &mut offer.sums)?;
        now = Instant::now();
    }
    let answers = offer.sums.answers;
    let seconds = began.elapsed().as_secs_f64();
    let due = (seconds * rate as f64) as usize;
    lines.wait_for_the_rest(&mut offer.sums)?;
    Ok(RateTold {
        offered_per_s: rate,
        seconds,
        sent: offer.next,
        unsent: due.saturating_sub(offer.next),
        replies_per_s: answers as f64 / seconds,
        latency: Spread::of(offer.sums.latencies_ns),
        gap: Spread::of(offer.sums.gaps_ns),
        late: Spread::of(offer.sums.late_ns),
        failures: offer.sums.failures,
    })
}

/// One rate under way.
struct Offer {
    began: Instant,
    rate: usize,
    /// The next request, counted from 0 on.
    next: usize,
    /// Whether a connection was free when the last look was taken.
    was_free: bool,
    sums: Sums,
}

#[derive(Default)]
struct Sums {
    /// Right ones.
    answers: usize,
    latencies_ns: Vec<u64>,
    gaps_ns: Vec<u64>,
    late_ns: Vec<u64>,
    failures: Failures,
    last_answer: Option<Instant>,
}

impl Offer {
    /// When a request is due.
    fn due(&self, request: usize) -> Instant {
        self.began + Duration::from_secs(1).mul_f64(request as f64 / self.rate as f64)
    }

    fn send_what_is_due(&mut self, lines: &mut Lines<'_>, now: Instant) -> anyhow::Result<()> {
        loop {
            let due = self.due(self.next);
            if due > now {
                break;
            }
            let Some(place) = lines.free.pop() else {
                self.was_free = false;
                return Ok(());
            };
            if self.was_free {
                let late = Instant::now().saturating_duration_since(due);
                self.sums.late_ns.push(late.as_nanos() as u64);
            }
            lines.send(place, due, &mut self.sums)?;
            self.next += 1;
        }
        // Everything that is due is sent: what is late from now on is late by this program's own doing.
        self.was_free = true;
        Ok(())
    }
}

/// All connections. They stay from one rate to the next.
struct Lines<'a> {
    address: &'a Address,
    watch: Watch,
    lines: Vec<Line>,
    /// The places of those that nothing is asked on. The one that was used last comes first: an idle one stays
    /// idle, as it does with clients that come and go.
    free: Vec<usize>,
    expected: Expected,
    part: Vec<u8>,
    ready: Vec<usize>,
}

/// A connection, and when what is asked on it was due.
#[derive(Default)]
struct Line {
    connection: Option<Connection>,
    due: Option<Instant>,
}

impl<'a> Lines<'a> {
    fn new(address: &'a Address, how: &How) -> anyhow::Result<Self> {
        let mut lines = Vec::new();
        lines.resize_with(how.connections, Line::default);
        Ok(Self {
            address,
            watch: Watch::new(how.wait)?,
            lines,
            free: (0..how.connections).rev().collect(),
            expected: Expected::default(),
            part: vec![0; PART_BYTES],
            ready: Vec::new(),
        })
    }

    fn send(&mut self, place: usize, due: Instant, sums: &mut Sums) -> anyhow::Result<()> {
        let line = &mut self.lines[place];
        if line.connection.is_none() {
            match Connection::open(self.address) {
                Ok(connection) => {
                    self.watch.add(&connection, place)?;
                    line.connection = Some(connection);
                }
                Err(failure) => {
                    self.fail(place, failure, sums);
                    return Ok(());
                }
            }
        }
        let Some(connection) = &mut line.connection else {
            return Ok(());
        };
        line.due = Some(due);
        if let Err(failure) = connection.send(self.address) {
            self.fail(place, failure, sums);
        }
        Ok(())
    }

    fn look(&mut self, until: Option<Instant>, sums: &mut Sums) -> anyhow::Result<()> {
        let mut ready = std::mem::take(&mut self.ready);
        self.watch.look(until, &mut ready)?;
        for place in ready.drain(..) {
            self.receive(place, sums);
        }
        self.ready = ready;
        Ok(())
    }

    fn receive(&mut self, place: usize, sums: &mut Sums) {
        let line = &mut self.lines[place];
        let Some(connection) = &mut line.connection else {
            return;
        };
        let Some(due) = line.due else {
            // The server closes a connection that nobody asks on: it may.
            line.connection = None;
            return;
        };
        let received = connection.receive(&mut self.part);
        let checked = received.and_then(|answered| match answered {
            Some(answered) => answered.check(&mut self.expected).map(|()| Some(answered)),
            None => Ok(None),
        });
        match checked {
            Ok(None) => {}
            Ok(Some(answered)) => {
                sums.answer(due, Instant::now());
                line.due = None;
                if answered.is_last {
                    line.connection = None;
                }
                self.free.push(place);
            }
            Err(failure) => self.fail(place, failure, sums),
        }
    }

    /// Waits until nothing is under way: a rate shall not find what the one before it left.
    fn wait_for_the_rest(&mut self, sums: &mut Sums) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        while self.free.len() < self.lines.len() && Instant::now() < end {
            self.look(Some(end), sums)?;
        }
        for place in 0..self.lines.len() {
            if self.lines[place].due.is_some() {
                self.fail(place, Failure::Broken, sums);
            }
        }
        Ok(())
    }

    fn fail(&mut self, place: usize, failure: Failure, sums: &mut Sums) {
        sums.failures.count(failure);
        self.lines[place] = Line::default();
        self.free.push(place);
    }
}

impl Sums {
    /// Until when there is something to do; `None` once it is over. It goes on until there is an answer or a failure:
    /// none at all is no rate.
    fn goes_on_until(&self, end: Instant, now: Instant) -> Option<Instant> {
        let has_nothing = self.answers == 0 && self.failures == Failures::default();
        let last = if has_nothing { end + PATIENCE } else { end };
        [end, last].into_iter().find(|end| now < *end)
    }

    fn answer(&mut self, due: Instant, now: Instant) {
        self.answers += 1;
        let ns = |since: Instant| now.saturating_duration_since(since).as_nanos() as u64;
        self.latencies_ns.push(ns(due));
        if let Some(last) = self.last_answer.replace(now) {
            self.gaps_ns.push(ns(last));
        }
    }
}
