//! What the figures come to, in a line, as far as their intervals allow.

use super::{
    COLUMNS,
    present::{START, WALL, subject},
    wrapped,
};
use crate::{
    rows::{BARE, PALISADE},
    sample::{Contender, Samples},
    statistics::{Estimate, estimate_added_part, estimate_difference, median},
};
use serde::Serialize;
use std::fmt;

/// The interval of a median cannot be a 95 % one with fewer: all of five values lie on one side of the
/// true median in 6 cases of 100.
const FEWEST_ROUNDS: usize = 6;
/// An interval wider than this part of the run leaves the question open.
const TOO_WIDE: f64 = 0.05;

/// How well a start is known that is to be taken from a whole: other programs have other libraries to
/// map and other memory to give back, and that takes other times behind a wall.
const START_KNOWN_TO: f64 = 0.2;
/// A start that is more than this part of the command leaves nothing to tell apart.
const MOST_START: f64 = 0.2;

/// What palisade costs the command, and how to use it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The program's name.
    pub program: String,
    /// What the start takes longer than one with no wall, in µs.
    pub start: Estimate,
    /// What the rest takes longer.
    pub running: Effect,
    /// The command line that was measured.
    pub command_line: String,
}

/// A difference, as a part of the time that the command takes with no wall. Its interval decides, with
/// room for what is not known of the start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It may be none, and it is small.
    Nothing(Estimate),
    /// It takes longer.
    Costs(Estimate),
    /// It takes less long.
    Saves(Estimate),
    /// It may be none, and it may be large.
    Unclear(Estimate),
    /// It is over before its running can be told from its start, which is this part of it.
    TooShort {
        /// Palisade's start to the whole command with no wall.
        start: f64,
    },
    /// There were too few rounds to say anything.
    TooFew {
        /// How many.
        rounds: usize,
    },
}

impl Effect {
    /// Of what is added, and of palisade's start, both as parts of the whole command with no wall.
    fn of(added: Estimate, start: f64, rounds: usize) -> Self {
        let margin = START_KNOWN_TO * start;
        let part = Estimate {
            low: added.low - margin,
            high: added.high + margin,
            ..added
        };
        if rounds < FEWEST_ROUNDS {
            Self::TooFew { rounds }
        } else if start > MOST_START {
            Self::TooShort { start }
        } else if part.low > 0.0 {
            Self::Costs(part)
        } else if part.high < 0.0 {
            Self::Saves(part)
        } else if part.high - part.low <= TOO_WIDE {
            Self::Nothing(part)
        } else {
            Self::Unclear(part)
        }
    }
}

impl Advice {
    /// From samples of `program` with no wall and behind palisade's, if both are there.
    pub(super) fn of(samples: &Samples, program: &str, command_line: String) -> Option<Self> {
        let series = |one: &Contender| [WALL, START].map(|measure| samples.series(one, measure));
        let [whole, start] = series(subject(samples, PALISADE)?);
        let [bare_whole, bare_start] = series(subject(samples, BARE)?);
        Some(Self {
            program: program.to_owned(),
            start: estimate_difference(&start, &bare_start),
            running: Effect::of(
                estimate_added_part([&whole, &start], [&bare_whole, &bare_start]),
                median(&start) / median(&bare_whole),
                samples.rounds(),
            ),
            command_line,
        })
    }

    fn start_words(&self) -> String {
        let Estimate { value, low, high } = self.start;
        let ms = |us: f64| brief(us / 1000.0);
        match self.running {
            Effect::TooFew { .. } => format!("about {} ms to start", ms(value)),
            _ if low > 0.0 => format!("{} ms to start ({}–{})", ms(value), ms(low), ms(high)),
            _ => format!(
                "nothing measurable to start (at most {} ms)",
                ms(high.max(0.0))
            ),
        }
    }

    fn running_words(&self) -> String {
        let name = &self.program;
        let percent = |part: f64| brief(part.abs() * 100.0);
        match self.running {
            Effect::Nothing(part) => format!(
                " and nothing measurable while {name} runs (at most {} %)",
                percent(part.high)
            ),
            Effect::Costs(Estimate { value, low, high }) => format!(
                " and {} % while {name} runs ({}–{})",
                percent(value),
                percent(low),
                percent(high)
            ),
            Effect::Saves(Estimate { value, low, high }) => format!(
                ", and {name} then runs {} % faster ({}–{})",
                percent(value),
                percent(high),
                percent(low)
            ),
            Effect::Unclear(Estimate { low, high, .. }) => format!(
                "; what it costs while {name} runs cannot be told, from −{} to +{} % is possible: give more --time",
                percent(low),
                percent(high)
            ),
            Effect::TooShort { .. } => {
                format!("; {name} is over too soon to tell what it costs while it runs")
            }
            Effect::TooFew { rounds } => format!(
                "; what it costs while {name} runs cannot be told from {rounds} rounds: give more --time or --runs"
            ),
        }
    }
}

/// As many digits as say something: `0.42`, `3.1`, `48`.
fn brief(value: f64) -> String {
    match value.abs() {
        size if size < 0.995 => format!("{value:.2}"),
        size if size < 9.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let costs = format!(
            "palisade costs {}{}",
            self.start_words(),
            self.running_words()
        );
        let line = format!("{costs}; use: {}", self.command_line);
        match line.chars().count() <= COLUMNS {
            true => formatter.write_str(&line),
            // Whole, so that it can be copied.
            false => write!(
                formatter,
                "{}\n  use: {}",
                wrapped("", &costs),
                self.command_line
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::present::tests::rounds;

    fn advice(ours: (f64, f64), noise: &[f64]) -> String {
        let walls = [("bare", 500.0, 0.4), ("palisade run", ours.0, ours.1)];
        let samples = rounds(&walls, noise);
        let command_line = "palisade run --write . -- bzip2 -k FILE".to_owned();
        Advice::of(&samples, "bzip2", command_line)
            .unwrap()
            .to_string()
    }

    const QUIET: [f64; 8] = [0.0, 0.1, -0.1, 0.2, 0.0, -0.2, 0.1, 0.0];

    #[test]
    fn what_cannot_be_told_from_nothing_is_called_so() {
        insta::assert_snapshot!(advice((500.9, 1.3), &QUIET), @"
        palisade costs 0.90 ms to start (0.90–0.90) and nothing measurable while bzip2
        runs (at most 0.05 %)
          use: palisade run --write . -- bzip2 -k FILE
        ");
    }

    #[test]
    fn a_cost_has_an_interval() {
        insta::assert_snapshot!(advice((520.9, 1.3), &QUIET), @"
        palisade costs 0.90 ms to start (0.90–0.90) and 4.0 % while bzip2 runs (3.9–4.1)
          use: palisade run --write . -- bzip2 -k FILE
        ");
    }

    #[test]
    fn what_is_faster_is_called_so() {
        insta::assert_snapshot!(advice((480.9, 1.3), &QUIET), @"
        palisade costs 0.90 ms to start (0.90–0.90), and bzip2 then runs 4.0 % faster
        (3.9–4.1)
          use: palisade run --write . -- bzip2 -k FILE
        ");
    }

    /// Noise that only one of the two has.
    #[test]
    fn a_wide_interval_is_no_verdict() {
        let walls = [("bare", 500.0, 0.4), ("palisade run", 501.0, 1.3)];
        let noise: Vec<f64> = (0..9).map(|round| f64::from(round % 3) * 100.0).collect();
        let mut samples = Samples::new(rounds(&walls, &[]).contenders().to_vec());
        for (round, noise_ms) in noise.iter().enumerate() {
            let shifted = noise[(round * 5 + 3) % noise.len()];
            let of = |walls, noise_ms| rounds(&[walls], &[noise_ms]);
            let readings = [of(walls[0], *noise_ms), of(walls[1], shifted)];
            samples.push_round(readings.iter().map(|one| one.round(0)[0].clone()).collect());
        }
        let advice = Advice::of(&samples, "bzip2", "palisade run -- bzip2".to_owned()).unwrap();
        assert!(matches!(advice.running, Effect::Unclear(_)), "{advice:?}");
        insta::assert_snapshot!(advice, @"
        palisade costs 0.90 ms to start (0.90–0.90); what it costs while bzip2 runs
        cannot be told, from −14 to +17 % is possible: give more --time
          use: palisade run -- bzip2
        ");
    }

    /// A saving that only a start of another kind makes.
    #[test]
    fn a_short_command_has_no_running_to_speak_of() {
        let samples = rounds(
            &[("bare", 0.46, 0.16), ("palisade run", 2.7, 2.6)],
            &[0.0; 8],
        );
        let advice = Advice::of(&samples, "cat", "palisade run -- cat".to_owned()).unwrap();
        insta::assert_snapshot!(advice, @"
        palisade costs 2.4 ms to start (2.4–2.4); cat is over too soon to tell what it
        costs while it runs
          use: palisade run -- cat
        ");
    }

    #[test]
    fn few_rounds_are_no_verdict() {
        insta::assert_snapshot!(advice((520.9, 1.3), &QUIET[..5]), @"
        palisade costs about 0.90 ms to start; what it costs while bzip2 runs cannot be
        told from 5 rounds: give more --time or --runs
          use: palisade run --write . -- bzip2 -k FILE
        ");
    }

    #[test]
    fn figures_are_no_longer_than_they_are_sure() {
        assert_eq!(
            [0.424, 0.996, 3.24, 48.4].map(brief),
            ["0.42", "1.0", "3.2", "48"]
        );
    }

    #[test]
    fn without_both_there_is_no_advice() {
        let samples = rounds(&[("wasmtime", 20.0, 5.0)], &QUIET);
        assert_eq!(Advice::of(&samples, "a.wasm", String::new()), None);
    }
}
