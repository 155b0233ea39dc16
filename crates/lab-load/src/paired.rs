//! One request at a time, subject by subject.
//!
//! Each subject is asked a few times in a row: what a server answers often finds its code and data in the
//! processor's caches, and does not depend on who was asked before.

use crate::{
    address::Address,
    connection::{Answered, Connection},
    failures::{Expected, Failure, Failures},
    watch::{Wait, Watch},
};
use anyhow::Context;
use serde::Serialize;
use std::time::{Duration, Instant};

/// How to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// To each subject.
    pub(crate) requests: usize,
    /// To each subject; requests take them in turn.
    pub(crate) connections: usize,
    pub(crate) wait: Wait,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    /// In the order of the addresses.
    pub(crate) subjects: Vec<SubjectTold>,
}

/// What came of the requests to one of them.
#[derive(Debug, Serialize)]
pub(crate) struct SubjectTold {
    pub(crate) url: String,
    /// Of each right answer, in the order of the requests: from before a request is sent until the last byte of
    /// its answer is read.
    pub(crate) latencies_ns: Vec<u64>,
    pub(crate) body_bytes: Option<u64>,
    pub(crate) failures: Failures,
}

/// Requests to a subject before the next one's turn.
const IN_A_ROW: usize = 8;
/// A tenth as many requests come first and are not counted, at least as many as connections.
const WARM_UP_PART: usize = 10;
/// An answer that has not come by then never will.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of a body at a time.
const PART_BYTES: usize = 64 << 10;

/// Asks each address `how.requests` times.
///
/// # Errors
///
/// When this machine fails. What a server does is counted.
pub(crate) fn ask(addresses: &[Address], how: &How) -> anyhow::Result<Told> {
    let subjects = addresses.iter().map(|address| Subject::new(address, how));
    let mut subjects: Vec<Subject<'_>> = subjects.collect::<anyhow::Result<_>>()?;
    let warm_up = (how.requests / WARM_UP_PART).max(how.connections);
    let mut part = vec![0; PART_BYTES];
    let all = warm_up + how.requests;
    for (cycle, first) in (0..all).step_by(IN_A_ROW).enumerate() {
        for place in order(cycle, subjects.len()) {
            for request in first..all.min(first + IN_A_ROW) {
                subjects[place].ask(request % how.connections, request >= warm_up, &mut part)?;
            }
        }
    }
    let told = subjects.into_iter().map(|subject| subject.told);
    Ok(Told {
        subjects: told.collect(),
    })
}

/// Who comes after whom: each goes first equally often, and every second cycle goes the other way.
fn order(cycle: usize, subjects: usize) -> impl Iterator<Item = usize> {
    let first = cycle / 2 % subjects;
    let at = move |turn: usize| match cycle.is_multiple_of(2) {
        true => (first + turn) % subjects,
        false => (first + subjects - 1 - turn) % subjects,
    };
    (0..subjects).map(at)
}

/// One of those that are asked.
struct Subject<'a> {
    address: &'a Address,
    connections: Vec<Line>,
    expected: Expected,
    told: SubjectTold,
    wait: Wait,
}

/// A connection with a watch of its own: nothing else can come in between.
struct Line {
    connection: Option<Connection>,
    watch: Watch,
}

impl<'a> Subject<'a> {
    fn new(address: &'a Address, how: &How) -> anyhow::Result<Self> {
        let line = |_| {
            Ok(Line {
                connection: None,
                watch: Watch::new(how.wait)?,
            })
        };
        let lines: anyhow::Result<_> = (0..how.connections).map(line).collect();
        Ok(Self {
            address,
            connections: lines?,
            expected: Expected::default(),
            told: SubjectTold {
                url: address.url.clone(),
                latencies_ns: Vec::with_capacity(how.requests),
                body_bytes: None,
                failures: Failures::default(),
            },
            wait: how.wait,
        })
    }

    /// Asks once. A failure costs the connection.
    fn ask(&mut self, line: usize, counts: bool, part: &mut [u8]) -> anyhow::Result<()> {
        let line = &mut self.connections[line];
        let asked = line.ask(self.address, self.wait, part)?;
        let checked = asked.and_then(|(took, answered)| {
            answered.check(&mut self.expected)?;
            Ok((took, answered))
        });
        match checked {
            Ok((took, answered)) => {
                if counts {
                    let took_ns =
                        u64::try_from(took.as_nanos()).context("host: a time too long")?;
                    self.told.latencies_ns.push(took_ns);
                }
                self.told.body_bytes = self.expected.body_bytes();
                if answered.is_last {
                    line.connection = None;
                }
            }
            Err(failure) => {
                self.told.failures.count(failure);
                line.connection = None;
            }
        }
        Ok(())
    }
}

impl Line {
    /// Asks and waits for the answer. The connection is there before the clock starts.
    fn ask(
        &mut self,
        address: &Address,
        wait: Wait,
        part: &mut [u8],
    ) -> anyhow::Result<Result<(Duration, Answered), Failure>> {
        if self.connection.is_none() {
            match Connection::open(address) {
                Ok(connection) => {
                    self.watch = Watch::new(wait)?;
                    self.watch.add(&connection, 0)?;
                    self.connection = Some(connection);
                }
                Err(failure) => return Ok(Err(failure)),
            }
        }
        let Some(connection) = &mut self.connection else {
            return Ok(Err(Failure::Connect));
        };
        let mut ready = Vec::with_capacity(1);
        let began = Instant::now();
        let mut is_sent = connection.begin(address);
        if is_sent == Ok(false) {
            self.watch.set_sending(connection, 0, true)?;
        }
        let mut answered = is_sent.map(|_| None);
        while answered == Ok(None) {
            if began.elapsed() > PATIENCE {
                return Ok(Err(Failure::Broken));
            }
            self.watch.look(Some(began + PATIENCE), &mut ready)?;
            if ready.is_empty() {
                continue;
            }
            if is_sent == Ok(false) {
                is_sent = connection.send_more(address);
                if is_sent == Ok(true) {
                    self.watch.set_sending(connection, 0, false)?;
                }
            }
            // A server may answer before it has read all.
            answered = is_sent.and_then(|_| connection.receive(part));
        }
        let took = began.elapsed();
        Ok(answered.and_then(|answered| Ok((took, answered.ok_or(Failure::Broken)?))))
    }
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn everybody_is_asked_once_a_cycle_and_goes_first_as_often() {
        let cycles: Vec<Vec<usize>> = (0..6).map(|cycle| order(cycle, 3).collect()).collect();
        assert_eq!(
            cycles,
            [
                [0, 1, 2],
                [2, 1, 0],
                [1, 2, 0],
                [0, 2, 1],
                [2, 0, 1],
                [1, 0, 2]
            ]
        );
    }
}
