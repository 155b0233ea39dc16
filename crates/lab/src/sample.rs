//! Samples: what was measured, as it was measured.

use crate::statistics::median;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One line of a comparison: a workload, and what it runs in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Contender {
    /// What is run.
    pub workload: String,
    /// What it is run by: no wall, palisade in some form, or a peer.
    pub subject: String,
}

impl Contender {
    /// This workload in this subject.
    pub fn new(workload: &str, subject: &str) -> Self {
        Self {
            workload: workload.to_owned(),
            subject: subject.to_owned(),
        }
    }
}

/// Units of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// How many, of whatever is counted.
    #[serde(rename = "count")]
    Count,
    /// How a test ended: 0 passed, 1 skipped, 2 failed.
    #[serde(rename = "outcome")]
    Outcome,
    /// How many in a second, of whatever is done: more is better.
    #[serde(rename = "/s")]
    PerSecond,
    /// Millions of bytes in a second: more is better.
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
}

impl Unit {
    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Microseconds => "µs",
            Self::Nanoseconds => "ns",
            Self::Bytes => "B",
            Self::Count | Self::Outcome => "",
            Self::PerSecond => "/s",
            Self::MegabytesPerSecond => "MB/s",
        }
    }

    /// Whether it is a rate: the more, the better.
    pub fn is_rate(self) -> bool {
        matches!(self, Self::PerSecond | Self::MegabytesPerSecond)
    }
}

/// What one run tells about one measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// What was measured: `wall`, a phase, an operation.
    pub measure: String,
    /// Of the values.
    pub unit: Unit,
    /// Several where the run repeats the measurement within itself.
    pub values: Vec<f64>,
}

impl Reading {
    /// A reading of one value in µs.
    pub fn one_us(measure: &str, value_us: f64) -> Self {
        Self {
            measure: measure.to_owned(),
            unit: Unit::Microseconds,
            values: vec![value_us],
        }
    }

    /// A reading of one value in bytes.
    pub fn one_bytes(measure: &str, bytes: u64) -> Self {
        Self {
            measure: measure.to_owned(),
            unit: Unit::Bytes,
            values: vec![bytes as f64],
        }
    }

    /// A reading of how many there were.
    pub fn one_count(measure: &str, count: u64) -> Self {
        Self {
            measure: measure.to_owned(),
            unit: Unit::Count,
            values: vec![count as f64],
        }
    }
}

/// One run of one contender: a line of the samples file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Counted from 0 on; the warm-up has a count of its own.
    pub round: usize,
    /// When within the round.
    pub turn: usize,
    /// Kept, but not counted.
    pub warm_up: bool,
    /// Whose run it was.
    #[serde(flatten)]
    pub contender: Contender,
    /// When it was over, in µs after the measuring began.
    pub at_us: u64,
    /// What it told; nothing where it sits out from this round on.
    pub readings: Vec<Reading>,
}

/// All complete rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    contenders: Vec<Contender>,
    /// Who takes part in no more rounds, by contender.
    sit_out: Vec<bool>,
    /// By round, then by contender in the order of `contenders`; of those who sit out there is nothing.
    rounds: Vec<Vec<Vec<Reading>>>,
}

impl Samples {
    /// No rounds yet.
    pub fn new(contenders: Vec<Contender>) -> Self {
        Self {
            sit_out: vec![false; contenders.len()],
            contenders,
            rounds: Vec::new(),
        }
    }

    /// Adds a round: the readings of each contender, in the order of the contenders. Of those who sit out none count.
    ///
    /// # Panics
    ///
    /// When a contender is missing.
    pub fn push_round(&mut self, mut round: Vec<Vec<Reading>>) {
        assert_eq!(
            round.len(),
            self.contenders.len(),
            "a round has a run of each contender"
        );
        for (readings, sits_out) in round.iter_mut().zip(&self.sit_out) {
            if *sits_out {
                readings.clear();
            }
        }
        self.rounds.push(round);
    }

    /// Forgets a contender, by its place among them.
    pub(crate) fn leave_out(&mut self, contender: usize) {
        self.contenders.remove(contender);
        self.sit_out.remove(contender);
        for round in &mut self.rounds {
            round.remove(contender);
        }
    }

    /// Counts no more rounds of a contender, by its place among them: what it told so far stays.
    pub(crate) fn sit_out(&mut self, contender: usize) {
        self.sit_out[contender] = true;
    }

    /// Whether a contender, by its place among them, takes part in no more rounds.
    pub(crate) fn sits_out(&self, contender: usize) -> bool {
        self.sit_out[contender]
    }

    /// Those who do, by how many rounds they took part in.
    pub(crate) fn who_sat_out(&self) -> BTreeMap<usize, BTreeSet<String>> {
        let mut sat_out: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        let contenders = self.contenders.iter().zip(&self.sit_out);
        for (contender, _) in contenders.filter(|(_, sits_out)| **sits_out) {
            let subjects = sat_out.entry(self.runs(contender).count()).or_default();
            subjects.insert(contender.subject.clone());
        }
        sat_out
    }

    /// Who was measured.
    pub fn contenders(&self) -> &[Contender] {
        &self.contenders
    }

    /// How many rounds are complete.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// Everything that a contender's runs told, round by round.
    pub fn runs(&self, contender: &Contender) -> impl Iterator<Item = &[Reading]> {
        let index = self.contenders.iter().position(|known| known == contender);
        let rounds = self.rounds.iter();
        let runs = rounds.filter_map(move |round| Some(round[index?].as_slice()));
        runs.filter(|readings| !readings.is_empty())
    }

    /// A measure of a contender, round by round; empty if it has no such measure. Of a run that
    /// repeats the measurement within itself the median stands for the run: runs are independent of
    /// each other, repeats within one are not.
    pub fn series(&self, contender: &Contender, measure: &str) -> Vec<f64> {
        let Some(index) = self.contenders.iter().position(|known| known == contender) else {
            return Vec::new();
        };
        let readings = self.rounds.iter().flat_map(|round| &round[index]);
        readings
            .filter(|reading| reading.measure == measure)
            .map(|reading| median(&reading.values))
            .collect()
    }

    /// The measures of a contender, in the order it gives them.
    pub fn measures(&self, contender: &Contender) -> Vec<&str> {
        let index = self.contenders.iter().position(|known| known == contender);
        let first = self
            .rounds
            .first()
            .zip(index)
            .map(|(round, index)| &round[index]);
        first
            .into_iter()
            .flatten()
            .map(|reading| reading.measure.as_str())
            .collect()
    }
}

#[cfg(test)]
impl Samples {
    /// The readings of a round.
    pub(crate) fn round(&self, index: usize) -> &[Vec<Reading>] {
        &self.rounds[index]
    }

    /// Wall-clock times in µs of `bare` and `subject`, one of each a round, for tests of what reads
    /// samples.
    pub(crate) fn of_two(subject: &str, bare: &[f64], ours: &[f64]) -> (Self, [Contender; 2]) {
        let contenders = ["bare", subject].map(|subject| Contender::new("true", subject));
        let mut samples = Self::new(contenders.to_vec());
        for (&bare, &ours) in bare.iter().zip(ours) {
            let of_round = [bare, ours].map(|value_us| vec![Reading::one_us("wall", value_us)]);
            samples.push_round(of_round.to_vec());
        }
        (samples, contenders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanoseconds(measure: &str, values: &[f64]) -> Reading {
        Reading {
            measure: measure.to_owned(),
            unit: Unit::Nanoseconds,
            values: values.to_vec(),
        }
    }

    #[test]
    fn a_run_counts_once_however_often_it_measured() {
        let [bare, ours] = ["bare", "palisade"].map(|subject| Contender::new("true", subject));
        let mut samples = Samples::new(vec![bare.clone(), ours.clone()]);
        samples.push_round(vec![
            vec![
                nanoseconds("stat", &[9.0, 1.0, 3.0]),
                nanoseconds("poll", &[8.0]),
            ],
            vec![nanoseconds("stat", &[4.0])],
        ]);
        samples.push_round(vec![
            vec![nanoseconds("stat", &[5.0])],
            vec![nanoseconds("stat", &[6.0])],
        ]);
        assert_eq!(samples.series(&bare, "stat"), [3.0, 5.0]);
        assert_eq!(samples.series(&ours, "stat"), [4.0, 6.0]);
        assert_eq!(samples.series(&ours, "poll"), [0.0; 0]);
        assert_eq!(samples.measures(&bare), ["stat", "poll"]);
    }

    #[test]
    fn whoever_sits_out_keeps_what_was_told() {
        let (mut samples, [bare, peer]) = Samples::of_two("bubblewrap", &[1.0; 2], &[3.0; 2]);
        samples.sit_out(1);
        let told = |value_us| vec![Reading::one_us("wall", value_us)];
        samples.push_round(vec![told(2.0), told(9.0)]);
        assert_eq!(samples.series(&bare, "wall"), [1.0, 1.0, 2.0]);
        assert_eq!(samples.series(&peer, "wall"), [3.0, 3.0]);
        assert_eq!([&bare, &peer].map(|one| samples.runs(one).count()), [3, 2]);
        samples.leave_out(0);
        assert!(samples.sits_out(0), "it is the peer's place now");
    }

    #[test]
    fn a_run_is_one_flat_line_of_json() {
        let run = Run {
            round: 3,
            turn: 1,
            warm_up: false,
            contender: Contender::new("static true", "bare"),
            at_us: 1234,
            readings: vec![Reading::one_us("wall", 390.25)],
        };
        let line = serde_json::to_string(&run).unwrap();
        assert_eq!(
            line,
            r#"{"round":3,"turn":1,"warm_up":false,"workload":"static true","subject":"bare","at_us":1234,"readings":[{"measure":"wall","unit":"us","values":[390.25]}]}"#
        );
        assert_eq!(serde_json::from_str::<Run>(&line).unwrap(), run);
    }
}
