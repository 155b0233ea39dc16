//! What `palisade-lab-load` and wrk tell.

use crate::{
    program::{Program, ending_with_the_lab},
    sample::{Reading, Unit},
    statistics::median,
    subjects::on_path,
};
use anyhow::{Context, ensure};
use serde::Deserialize;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

/// The lab's own clients, which lie beside `palisade`.
pub(super) const LOAD: &str = "palisade-lab-load";
/// Somebody else's, for throughput.
pub(super) const WRK: &str = "wrk";

/// The median of latencies.
pub(super) const REPLY: &str = "reply";
/// The mean of the fastest tenth, as the kernel plugins told it.
pub(super) const FASTEST: &str = "fastest";
/// All but a hundredth are below it.
pub(super) const SLOW: &str = "p99";
/// Answers in a second.
pub(super) const REQUESTS: &str = "requests";

/// A client that has not ended by then never will.
const PATIENCE: Duration = Duration::from_secs(120);

/// Requests in turn take their server's connections in turn.
const CONNECTIONS_IN_TURN: usize = 1;
/// Connections of a closed loop.
pub(super) const BUSY_CONNECTIONS: &str = "16";
/// Those of an open one: more than servers answer at one time, so that what waits does so at the server.
pub(super) const OFFERED_CONNECTIONS: &str = "128";

/// Clients, at their place.
#[derive(Clone, Debug)]
pub(in crate::rows) struct Load {
    pub(super) program: PathBuf,
    /// One processor is all there is: a client that spins would keep the server from it.
    pub(super) sleeps: bool,
    /// It has what processor time another client leaves.
    pub(super) yields: bool,
}

/// What came of requests one by one, of one address.
#[derive(Debug, Deserialize)]
pub(super) struct Paired {
    latencies_ns: Vec<f64>,
    /// Of each answer.
    body_bytes: Option<u64>,
    failures: Failures,
}

#[derive(Debug, Deserialize)]
struct AllPaired {
    subjects: Vec<Paired>,
}

/// What came of one rate.
#[derive(Debug, Deserialize)]
pub(super) struct Offered {
    pub(super) offered_per_s: u32,
    pub(super) replies_per_s: f64,
    pub(super) latency: Option<Spread>,
    failures: Failures,
}

#[derive(Debug, Deserialize)]
struct AllOffered {
    rates: Vec<Offered>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Spread {
    pub(super) p50_ns: f64,
    pub(super) p99_ns: f64,
}

/// What came of each of many once.
#[derive(Debug, Deserialize)]
pub(super) struct Each {
    pub(super) latencies_ns: Vec<f64>,
    failures: Failures,
}

/// What came of clients that ask at a pace.
#[derive(Debug, Deserialize)]
pub(super) struct Paced {
    pub(super) latency: Option<Spread>,
    pub(super) jitter: Option<Spread>,
    failures: Failures,
}

/// How often each of many is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Popularity {
    /// As often as any other.
    Even,
    /// By Zipf's law.
    Zipf,
}

/// What came of a closed loop.
#[derive(Debug, Deserialize)]
pub(super) struct Busy {
    pub(super) answers: u64,
    pub(super) replies_per_s: f64,
    failures: Failures,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Failures {
    connect: u64,
    broken: u64,
    status: u64,
    length: u64,
}

impl Failures {
    fn all(&self) -> u64 {
        self.connect + self.broken + self.status + self.length
    }

    /// An answer that is refused would be a fast one.
    fn check(&self) -> anyhow::Result<()> {
        let Self {
            connect,
            broken,
            status,
            length,
        } = self;
        ensure!(
            self.all() == 0,
            "{connect} connections were refused, {broken} requests not answered, {status} refused, {length} answered \
             with something else"
        );
        Ok(())
    }
}

impl Busy {
    /// Requests that were not answered as they should have been.
    pub(super) fn lost(&self) -> u64 {
        self.failures.all()
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.failures.check()
    }
}

impl Offered {
    /// Requests that were not answered as they should have been.
    pub(super) fn lost(&self) -> u64 {
        self.failures.all()
    }
}

impl Popularity {
    fn word(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Zipf => "zipf",
        }
    }
}

impl Load {
    /// Asks addresses in turn, each so often and with a file as the body, if there is one; gives what came of it in
    /// their order.
    pub(super) fn ask_in_turn(
        &self,
        requests: usize,
        posted: Option<&Path>,
        urls: &[&str],
    ) -> anyhow::Result<Vec<Paired>> {
        let posted = posted
            .into_iter()
            .flat_map(|file| ["--post".into(), file.into()]);
        let numbers = [requests, CONNECTIONS_IN_TURN].map(|number| number.to_string().into());
        let urls = urls.iter().map(OsString::from);
        let lead = ["paired".into()].into_iter();
        let said = self.run(lead.chain(posted).chain(numbers).chain(urls))?;
        let told: AllPaired = serde_json::from_str(&said).context(UNREADABLE)?;
        Ok(told.subjects)
    }

    /// Offers each rate for so long.
    pub(super) fn offer(
        &self,
        rates: &[u32],
        time: Duration,
        url: &str,
    ) -> anyhow::Result<Vec<Offered>> {
        let told = self.offer_in_vain(rates, time, url)?;
        for rate in &told {
            let at = || format!("at {} requests a second", rate.offered_per_s);
            rate.failures.check().with_context(at)?;
        }
        Ok(told)
    }

    /// The same, and what is lost is told.
    pub(super) fn offer_in_vain(
        &self,
        rates: &[u32],
        time: Duration,
        url: &str,
    ) -> anyhow::Result<Vec<Offered>> {
        let rates: Vec<_> = rates.iter().map(u32::to_string).collect();
        let ms = time.as_millis().to_string();
        let words = ["offered", &rates.join(","), &ms, OFFERED_CONNECTIONS, url];
        let said = self.run(words.map(OsString::from))?;
        let told: AllOffered = serde_json::from_str(&said).context(UNREADABLE)?;
        Ok(told.rates)
    }

    /// As many as come back.
    pub(super) fn keep_busy(&self, time: Duration, url: &str) -> anyhow::Result<Busy> {
        let ms = time.as_millis().to_string();
        let said = self.run(["busy", &ms, BUSY_CONNECTIONS, url].map(OsString::from))?;
        serde_json::from_str(&said).context(UNREADABLE)
    }

    /// As many as come back, of any of the addresses that a file lists.
    pub(super) fn keep_busy_among(
        &self,
        time: Duration,
        popularity: Popularity,
        list: &Path,
    ) -> anyhow::Result<Busy> {
        let ms = time.as_millis().to_string();
        let words = ["among", &ms, BUSY_CONNECTIONS, popularity.word()].map(OsString::from);
        let said = self.run(words.into_iter().chain([list.into()]))?;
        serde_json::from_str(&said).context(UNREADABLE)
    }

    /// Each address of a list once.
    pub(super) fn ask_each(&self, list: &Path) -> anyhow::Result<Each> {
        let said = self.run(["each".into(), list.into()])?;
        let each: Each = serde_json::from_str(&said).context(UNREADABLE)?;
        each.failures.check()?;
        Ok(each)
    }

    /// So many clients of each address of a list, each asking so often in a second.
    pub(super) fn pace(
        &self,
        (hertz, clients): (u32, u32),
        time: Duration,
        list: &Path,
    ) -> anyhow::Result<Paced> {
        let [hertz, clients] = [hertz, clients].map(|number| number.to_string());
        let ms = time.as_millis().to_string();
        let words = ["paced", &hertz, &ms, &clients].map(OsString::from);
        let said = self.run(words.into_iter().chain([list.into()]))?;
        let paced: Paced = serde_json::from_str(&said).context(UNREADABLE)?;
        paced.failures.check()?;
        Ok(paced)
    }

    fn run(&self, words: impl IntoIterator<Item = OsString>) -> anyhow::Result<String> {
        let flag = self.sleeps.then(|| OsString::from("--sleep"));
        let words = flag.into_iter().chain(words);
        let nice = self.yields.then_some(["nice", "-n19"]);
        let nice = nice.into_iter().flatten().map(OsString::from);
        let line = nice.chain([OsString::from(&self.program)]).chain(words);
        let mut program = Program::new(&ending_with_the_lab(line.collect()))?;
        program.run_for_output_within(PATIENCE)
    }
}

const UNREADABLE: &str = "host: palisade-lab-load is of another version";

impl Paired {
    /// The median, the mean of the fastest tenth, and the 99th percentile.
    ///
    /// # Errors
    ///
    /// When a request was not answered as it should have been, or with another length than `answer_bytes`.
    pub(super) fn readings(&self, answer_bytes: Option<u64>) -> anyhow::Result<Vec<Reading>> {
        self.failures.check()?;
        ensure!(
            answer_bytes.is_none() || self.body_bytes == answer_bytes,
            "answers have {:?} bytes, not {answer_bytes:?}",
            self.body_bytes
        );
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_by(f64::total_cmp);
        ensure!(!sorted.is_empty(), "nothing was answered");
        let fastest = &sorted[..sorted.len().div_ceil(10)];
        let mean = fastest.iter().sum::<f64>() / fastest.len() as f64;
        let slow = sorted[(sorted.len() - 1) * 99 / 100];
        let readings = [(REPLY, median(&sorted)), (FASTEST, mean), (SLOW, slow)];
        let us = readings.map(|(measure, ns)| Reading::one_us(measure, ns / 1e3));
        Ok(us.to_vec())
    }
}

/// wrk, where it is installed.
pub(super) fn wrk() -> Option<PathBuf> {
    on_path(WRK)
}

/// It counts an answer that takes longer as an error; ours wait as long.
const WRK_TIMEOUT: &str = "--timeout=30s";
/// On a machine that has much else to do a server may have no turn within a run. More often than this it is the
/// server's fault.
const MOST_RUNS: usize = 5;

/// Throughput by wrk: one thread, [`BUSY_CONNECTIONS`].
pub(super) fn ask_by_wrk(wrk: &Path, seconds: u64, url: &str) -> anyhow::Result<f64> {
    let duration = format!("-d{seconds}s");
    let connections = format!("-c{BUSY_CONNECTIONS}");
    let words = ["-t1", &connections, &duration, WRK_TIMEOUT, url].map(OsString::from);
    let line = [OsString::from(wrk)].into_iter().chain(words);
    let mut program = Program::new(&ending_with_the_lab(line.collect()))?;
    for _ in 0..MOST_RUNS {
        let rate = read_wrk(&program.run_for_output_within(PATIENCE)?)?;
        if rate > 0.0 {
            return Ok(rate);
        }
    }
    anyhow::bail!("nothing was answered in {MOST_RUNS} runs of wrk, {seconds} s each")
}

/// It counts errors, and goes on.
fn read_wrk(said: &str) -> anyhow::Result<f64> {
    let after = |title: &str| {
        let line = said
            .lines()
            .map(str::trim)
            .find_map(|line| line.strip_prefix(title));
        line.map(str::trim)
    };
    for title in ["Socket errors:", "Non-2xx or 3xx responses:"] {
        if let Some(errors) = after(title) {
            anyhow::bail!("wrk tells of {title} {errors}");
        }
    }
    let rate = after("Requests/sec:").and_then(|rate| rate.parse().ok());
    rate.context("wrk says no rate")
}

/// A throughput.
pub(super) fn requests(per_second: f64) -> Reading {
    Reading {
        measure: REQUESTS.to_owned(),
        unit: Unit::PerSecond,
        values: vec![per_second],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn latencies_are_summed_up() {
        let told = r#"{"url":"","latencies_ns":[3000,1000,2000],"body_bytes":7,"failures":
            {"connect":0,"broken":0,"status":0,"length":0}}"#;
        let told: Paired = serde_json::from_str(told).unwrap();
        let readings = told.readings(Some(7)).unwrap();
        let values: Vec<_> = readings.iter().map(|one| one.values[0]).collect();
        assert_eq!(values, [2.0, 1.0, 2.0]);
        let error = told.readings(Some(8)).unwrap_err().to_string();
        assert!(error.contains("Some(7) bytes, not Some(8)"), "{error}");
    }

    #[test]
    fn a_refusal_is_no_fast_answer() {
        let told = r#"{"latencies_ns":[3000],"body_bytes":null,"failures":
            {"connect":0,"broken":0,"status":2,"length":0}}"#;
        let told: Paired = serde_json::from_str(told).unwrap();
        let error = told.readings(None).unwrap_err().to_string();
        assert!(error.contains("2 refused"), "{error}");
    }

    /// Somebody who says what wrk says, and takes the line of a file for each time that it is run.
    #[test]
    fn a_run_without_an_answer_is_no_rate() {
        let folder = tempfile::tempdir().unwrap();
        let says = |rates: &str| {
            let program = folder.path().join("wrk");
            let left = folder.path().join("left");
            std::fs::write(&left, rates).unwrap();
            let left = left.display();
            let script =
                format!("#!/bin/sh\necho \"Requests/sec: $(head -n1 {left})\"\nsed -i 1d {left}\n");
            std::fs::write(&program, script).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            ask_by_wrk(&program, 1, "http://127.0.0.1:1/")
        };
        assert_eq!(says("0.00\n0.00\n7.50\n").unwrap(), 7.5);
        let error = says("0.00\n0.00\n0.00\n0.00\n0.00\n7.50\n").unwrap_err();
        assert!(error.to_string().contains("in 5 runs"), "{error}");
    }

    #[test]
    fn wrk_tells_a_rate_and_what_went_wrong() {
        let said = "Running 1s test @ http://127.0.0.1:1/\n  1 threads and 16 connections\n  \
            47304 requests in 1.01s, 57.02MB read\nRequests/sec:  46857.68\nTransfer/sec:     56.48MB\n";
        assert_eq!(read_wrk(said).unwrap(), 46857.68);
        for line in [
            "  Socket errors: connect 0, read 3, write 0, timeout 0\n",
            "  Non-2xx or 3xx responses: 12\n",
        ] {
            let failed = said.replace("Requests/sec", &format!("{line}Requests/sec"));
            assert!(read_wrk(&failed).is_err(), "{failed}");
        }
        assert!(read_wrk("").is_err());
    }
}
