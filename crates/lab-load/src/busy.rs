//! A closed loop: each connection asks again as soon as it is answered, for one thing or for any of many.

use crate::{
    address::Address,
    choice::Choice,
    connection::Connection,
    failures::{Expected, Failure, Failures},
    figures::Spread,
    watch::{Wait, Watch},
};
use anyhow::ensure;
use serde::Serialize;
use std::time::{Duration, Instant};

/// How to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) time: Duration,
    pub(crate) connections: usize,
    pub(crate) wait: Wait,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    pub(crate) url: String,
    pub(crate) seconds: f64,
    /// Right ones.
    pub(crate) answers: usize,
    pub(crate) replies_per_s: f64,
    pub(crate) latency: Option<Spread>,
    /// Answers after which the server closed the connection, as it said it would.
    pub(crate) closed: usize,
    pub(crate) body_bytes: Option<u64>,
    pub(crate) failures: Failures,
}

/// How long answers are waited for once the time is over. What has not come by then is lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Of a body at a time.
pub(crate) const PART_BYTES: usize = 64 << 10;
/// A server that is not there is asked again after this time.
const PAUSE: Duration = Duration::from_millis(1);

/// Asks on all connections at once for what is chosen of `addresses`, which are one server's.
///
/// # Errors
///
/// When this machine fails, or the addresses are of several servers. What the server does is counted.
pub(crate) fn ask(addresses: &[Address], choice: Choice, how: &How) -> anyhow::Result<Told> {
    let server = addresses.first().map(|one| one.server);
    let is_elsewhere = |one: &Address| Some(one.server) != server;
    ensure!(
        !addresses.is_empty() && !addresses.iter().any(is_elsewhere),
        "connections are kept: all addresses must be of one server"
    );
    let mut asking = Asking {
        addresses,
        choice,
        watch: Watch::new(how.wait)?,
        lines: Vec::new(),
        expected: Expected::default(),
        latencies_ns: Vec::new(),
        closed: 0,
        failures: Failures::default(),
    };
    let began = Instant::now();
    let end = began + how.time;
    asking.lines.resize_with(how.connections, || Line {
        connection: None,
        asked: None,
        next: began,
    });
    let counted = asking.ask_until(end)?;
    let seconds = began.elapsed().as_secs_f64();
    asking.take_the_rest(end + PATIENCE)?;
    Ok(Told {
        url: addresses[0].url.clone(),
        seconds,
        answers: asking.latencies_ns.len(),
        replies_per_s: counted as f64 / seconds,
        latency: Spread::of(asking.latencies_ns),
        closed: asking.closed,
        body_bytes: asking.expected.body_bytes(),
        failures: asking.failures,
    })
}

struct Asking<'a> {
    addresses: &'a [Address],
    choice: Choice,
    watch: Watch,
    lines: Vec<Line>,
    expected: Expected,
    latencies_ns: Vec<u64>,
    closed: usize,
    failures: Failures,
}

/// A connection, and when it was asked on.
struct Line {
    connection: Option<Connection>,
    asked: Option<Instant>,
    /// Not to be asked on before.
    next: Instant,
}

impl Asking<'_> {
    /// Gives how many right answers there were by then. It goes on until there is one or a failure: none at all is no
    /// rate.
    fn ask_until(&mut self, end: Instant) -> anyhow::Result<usize> {
        let mut part = vec![0; PART_BYTES];
        let mut ready = Vec::new();
        while Instant::now() < end || self.has_nothing_by(end + PATIENCE) {
            self.ask_on_free_lines()?;
            let soon = Instant::now() + PAUSE;
            self.watch.look(Some(soon), &mut ready)?;
            for place in ready.drain(..) {
                self.receive(place, &mut part);
            }
        }
        Ok(self.latencies_ns.len())
    }

    /// Neither an answer nor a failure, and the last moment has not come.
    fn has_nothing_by(&self, last: Instant) -> bool {
        self.latencies_ns.is_empty()
            && self.failures == Failures::default()
            && Instant::now() < last
    }

    /// Takes answers to what was asked, and asks no more.
    fn take_the_rest(&mut self, end: Instant) -> anyhow::Result<()> {
        let mut part = vec![0; PART_BYTES];
        let mut ready = Vec::new();
        while self.lines.iter().any(|line| line.asked.is_some()) && Instant::now() < end {
            self.watch.look(Some(end), &mut ready)?;
            for place in ready.drain(..) {
                self.receive(place, &mut part);
            }
        }
        for place in 0..self.lines.len() {
            if self.lines[place].asked.is_some() {
                self.fail(place, Failure::Broken);
            }
        }
        Ok(())
    }

    fn ask_on_free_lines(&mut self) -> anyhow::Result<()> {
        for place in 0..self.lines.len() {
            let line = &self.lines[place];
            if line.asked.is_none() && line.next <= Instant::now() {
                self.ask(place)?;
            }
        }
        Ok(())
    }

    fn ask(&mut self, place: usize) -> anyhow::Result<()> {
        let address = &self.addresses[self.choice.next()];
        let line = &mut self.lines[place];
        if line.connection.is_none() {
            match Connection::open(address) {
                Ok(connection) => {
                    self.watch.add(&connection, place)?;
                    line.connection = Some(connection);
                }
                Err(failure) => {
                    self.fail(place, failure);
                    return Ok(());
                }
            }
        }
        let Some(connection) = &mut line.connection else {
            return Ok(());
        };
        line.asked = Some(Instant::now());
        if let Err(failure) = connection.send(address) {
            self.fail(place, failure);
        }
        Ok(())
    }

    fn receive(&mut self, place: usize, part: &mut [u8]) {
        let line = &mut self.lines[place];
        let Some(connection) = &mut line.connection else {
            return;
        };
        let Some(asked) = line.asked else {
            // The server closes a connection that nobody asks on: it may.
            line.connection = None;
            return;
        };
        let received = connection.receive(part);
        let checked = received.and_then(|answered| match answered {
            Some(answered) => answered.check(&mut self.expected).map(|()| Some(answered)),
            None => Ok(None),
        });
        match checked {
            Ok(None) => {}
            Ok(Some(answered)) => {
                self.latencies_ns.push(asked.elapsed().as_nanos() as u64);
                line.asked = None;
                if answered.is_last {
                    line.connection = None;
                    self.closed += 1;
                }
            }
            Err(failure) => self.fail(place, failure),
        }
    }

    /// Counts, and begins with a new connection soon.
    fn fail(&mut self, place: usize, failure: Failure) {
        self.failures.count(failure);
        let next = Instant::now() + PAUSE;
        self.lines[place] = Line {
            connection: None,
            asked: None,
            next,
        };
    }
}
