//! Clients that ask at a steady pace, as those of a game do: each has a connection of its own and asks so many times a
//! second. What matters is not how long an answer takes but how evenly answers come.

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
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// Requests of each client in a second.
    pub(crate) hertz: usize,
    pub(crate) time: Duration,
    /// Of each address.
    pub(crate) clients: usize,
    pub(crate) wait: Wait,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    /// Right ones.
    pub(crate) answers: usize,
    /// From the time at which a request was due to the end of its answer.
    pub(crate) latency: Option<Spread>,
    /// How much the time between two answers of one client differs from that between two requests.
    pub(crate) jitter: Option<Spread>,
    pub(crate) body_bytes: Option<u64>,
    pub(crate) failures: Failures,
}

/// Asks at that pace, the clients spread evenly over one period.
///
/// # Errors
///
/// When this machine fails. What the servers do is counted.
pub(crate) fn ask(addresses: &[Address], how: &How) -> anyhow::Result<Told> {
    let mut pacing = Pacing::new(addresses, how)?;
    let began = Instant::now();
    pacing.begin(began);
    let end = began + how.time;
    pacing.ask_until(end)?;
    pacing.take_the_rest(end + PATIENCE)?;
    Ok(Told {
        answers: pacing.latencies_ns.len(),
        latency: Spread::of(pacing.latencies_ns),
        jitter: Spread::of(pacing.jitters_ns),
        body_bytes: pacing.expected.body_bytes(),
        failures: pacing.failures,
    })
}

struct Pacing<'a> {
    clients: Vec<Client<'a>>,
    period: Duration,
    watch: Watch,
    part: Vec<u8>,
    expected: Expected,
    latencies_ns: Vec<u64>,
    jitters_ns: Vec<u64>,
    failures: Failures,
}

struct Client<'a> {
    address: &'a Address,
    connection: Option<Connection>,
    /// When the next request is.
    due: Instant,
    /// When the one was that is not answered yet.
    asked: Option<Instant>,
    last_answer: Option<Instant>,
}

impl<'a> Pacing<'a> {
    fn new(addresses: &'a [Address], how: &How) -> anyhow::Result<Self> {
        let now = Instant::now();
        let client = |address: &'a Address| Client {
            address,
            connection: None,
            due: now,
            asked: None,
            last_answer: None,
        };
        // Neighbours in time are of different servers.
        let rounds = (0..how.clients).flat_map(|_| addresses.iter().map(client));
        let mut pacing = Self {
            clients: rounds.collect(),
            period: Duration::from_secs(1) / how.hertz as u32,
            watch: Watch::new(how.wait)?,
            part: vec![0; PART_BYTES],
            expected: Expected::default(),
            latencies_ns: Vec::new(),
            jitters_ns: Vec::new(),
            failures: Failures::default(),
        };
        // Nobody's first answer waits for a connection.
        (0..pacing.clients.len()).try_for_each(|place| pacing.connect(place))?;
        Ok(pacing)
    }

    fn begin(&mut self, began: Instant) {
        let count = self.clients.len() as u32;
        for (place, client) in self.clients.iter_mut().enumerate() {
            client.due = began + self.period * place as u32 / count;
        }
    }

    fn connect(&mut self, place: usize) -> anyhow::Result<()> {
        let client = &mut self.clients[place];
        match Connection::open(client.address) {
            Ok(connection) => {
                self.watch.add(&connection, place)?;
                client.connection = Some(connection);
            }
            Err(failure) => self.failures.count(failure),
        }
        Ok(())
    }

    fn ask_until(&mut self, end: Instant) -> anyhow::Result<()> {
        loop {
            let now = Instant::now();
            if now >= end {
                return Ok(());
            }
            for place in 0..self.clients.len() {
                let client = &self.clients[place];
                if client.due <= now && client.asked.is_none() {
                    self.ask(place)?;
                }
            }
            let free = self.clients.iter().filter(|one| one.asked.is_none());
            let next = free.map(|one| one.due).min().unwrap_or(end).min(end);
            self.look(next)?;
        }
    }

    /// A client that was not answered in time asks at once, and its latency counts from when it was due.
    fn ask(&mut self, place: usize) -> anyhow::Result<()> {
        if self.clients[place].connection.is_none() {
            self.connect(place)?;
        }
        let client = &mut self.clients[place];
        let due = client.due;
        client.due += self.period;
        let address = client.address;
        let Some(connection) = &mut client.connection else {
            return Ok(());
        };
        match connection.send(address) {
            Ok(()) => client.asked = Some(due),
            Err(failure) => self.fail(place, failure),
        }
        Ok(())
    }

    fn take_the_rest(&mut self, end: Instant) -> anyhow::Result<()> {
        while self.clients.iter().any(|one| one.asked.is_some()) && Instant::now() < end {
            self.look(end)?;
        }
        for place in 0..self.clients.len() {
            if self.clients[place].asked.is_some() {
                self.fail(place, Failure::Broken);
            }
        }
        Ok(())
    }

    fn look(&mut self, until: Instant) -> anyhow::Result<()> {
        let mut ready = Vec::new();
        self.watch.look(Some(until), &mut ready)?;
        for place in ready {
            self.receive(place);
        }
        Ok(())
    }

    fn receive(&mut self, place: usize) {
        let client = &mut self.clients[place];
        let Some(connection) = &mut client.connection else {
            return;
        };
        let Some(asked) = client.asked else {
            // The server closes a connection that nobody asks on: it may.
            client.connection = None;
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
                self.count_answer(place, asked);
                if answered.is_last {
                    self.clients[place].connection = None;
                }
            }
            Err(failure) => self.fail(place, failure),
        }
    }

    fn count_answer(&mut self, place: usize, asked: Instant) {
        let now = Instant::now();
        let client = &mut self.clients[place];
        client.asked = None;
        let nanoseconds = |time: Duration| time.as_nanos() as u64;
        self.latencies_ns
            .push(nanoseconds(now.saturating_duration_since(asked)));
        if let Some(last) = client.last_answer.replace(now) {
            let gap = now.saturating_duration_since(last);
            self.jitters_ns.push(nanoseconds(gap.abs_diff(self.period)));
        }
    }

    fn fail(&mut self, place: usize, failure: Failure) {
        self.failures.count(failure);
        let client = &mut self.clients[place];
        client.connection = None;
        client.asked = None;
        client.last_answer = None;
    }
}
