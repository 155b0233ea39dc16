//! Each of many once, one after the other, on one connection: what the first request for something costs.

use crate::{
    address::Address,
    busy::{PART_BYTES, PATIENCE},
    connection::{Answered, Connection},
    failures::{Expected, Failure, Failures},
    watch::{Wait, Watch},
};
use serde::Serialize;
use std::time::Instant;

/// What came of it.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    /// Of right answers, in the order of the addresses.
    pub(crate) latencies_ns: Vec<u64>,
    pub(crate) body_bytes: Option<u64>,
    pub(crate) failures: Failures,
}

/// Asks for each, in this order. Addresses of one server have one connection, which is opened before its first request.
///
/// # Errors
///
/// When this machine fails. What the server does is counted.
pub(crate) fn ask(addresses: &[Address], wait: Wait) -> anyhow::Result<Told> {
    let mut told = Told {
        latencies_ns: Vec::with_capacity(addresses.len()),
        body_bytes: None,
        failures: Failures::default(),
    };
    let mut expected = Expected::default();
    let mut line = Line::new(wait);
    for address in addresses {
        let answered = line.ask(address)?.and_then(|(answered, ns)| {
            answered.check(&mut expected)?;
            Ok(ns)
        });
        match answered {
            Ok(ns) => told.latencies_ns.push(ns),
            Err(failure) => told.failures.count(failure),
        }
    }
    told.body_bytes = expected.body_bytes();
    Ok(told)
}

/// The connection to who was asked last.
struct Line {
    wait: Wait,
    open: Option<(std::net::SocketAddr, Connection, Watch)>,
    part: Vec<u8>,
    ready: Vec<usize>,
}

impl Line {
    fn new(wait: Wait) -> Self {
        Self {
            wait,
            open: None,
            part: vec![0; PART_BYTES],
            ready: Vec::new(),
        }
    }

    /// The answer and how long it took, in ns.
    fn ask(&mut self, address: &Address) -> anyhow::Result<Result<(Answered, u64), Failure>> {
        if let Err(failure) = self.open(address)? {
            return Ok(Err(failure));
        }
        let answered = self.ask_on_open(address)?;
        if !matches!(&answered, Ok((answered, _)) if !answered.is_last) {
            self.open = None;
        }
        Ok(answered)
    }

    fn open(&mut self, address: &Address) -> anyhow::Result<Result<(), Failure>> {
        if matches!(&self.open, Some((server, ..)) if *server == address.server) {
            return Ok(Ok(()));
        }
        let connection = match Connection::open(address) {
            Ok(connection) => connection,
            Err(failure) => return Ok(Err(failure)),
        };
        let watch = Watch::new(self.wait)?;
        watch.add(&connection, 0)?;
        self.open = Some((address.server, connection, watch));
        Ok(Ok(()))
    }

    fn ask_on_open(
        &mut self,
        address: &Address,
    ) -> anyhow::Result<Result<(Answered, u64), Failure>> {
        let Some((_, connection, watch)) = &mut self.open else {
            return Ok(Err(Failure::Connect));
        };
        let asked = Instant::now();
        if let Err(failure) = connection.send(address) {
            return Ok(Err(failure));
        }
        while asked.elapsed() < PATIENCE {
            watch.look(Some(asked + PATIENCE), &mut self.ready)?;
            if self.ready.is_empty() {
                continue;
            }
            match connection.receive(&mut self.part) {
                Ok(None) => {}
                Ok(Some(answered)) => {
                    return Ok(Ok((answered, asked.elapsed().as_nanos() as u64)));
                }
                Err(failure) => return Ok(Err(failure)),
            }
        }
        Ok(Err(Failure::Broken))
    }
}
