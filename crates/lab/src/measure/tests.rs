use super::*;
use std::collections::VecDeque;

/// Gives back a script, and lets its clock run by what it gives.
struct Mock {
    /// Per contender, its values in µs in order; the last one repeats.
    scripts: Vec<VecDeque<f64>>,
    elapsed_us: f64,
    ran: Vec<usize>,
}

impl Mock {
    fn new(scripts: &[&[f64]]) -> Self {
        let scripts = scripts
            .iter()
            .map(|script| script.iter().copied().collect())
            .collect();
        Self {
            scripts,
            elapsed_us: 0.0,
            ran: Vec::new(),
        }
    }
}

impl Executor for Mock {
    fn contenders(&self) -> Vec<Contender> {
        (0..self.scripts.len()).map(contender).collect()
    }

    fn run_once(&mut self, contender: usize) -> anyhow::Result<Vec<Reading>> {
        let script = &mut self.scripts[contender];
        let value = if script.len() > 1 {
            script.pop_front()
        } else {
            script.front().copied()
        };
        let value_us = value
            .filter(|value| value.is_finite())
            .ok_or_else(|| anyhow::anyhow!("broken"))?;
        self.elapsed_us += value_us;
        self.ran.push(contender);
        Ok(vec![Reading::one_us("wall", value_us)])
    }

    /// The last of three is a tool to compare with.
    fn leave_out(&mut self, contender: usize, _why: &anyhow::Error) -> bool {
        let is_peer = contender == 2;
        if is_peer {
            self.scripts.remove(contender);
        }
        is_peer
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos((self.elapsed_us * 1000.0) as u64)
    }
}

#[derive(Default)]
struct Notebook {
    runs: Vec<Run>,
    interrupt_after: Option<usize>,
    /// So many rounds decide.
    decided_by: usize,
}

impl Observer for Notebook {
    fn record(&mut self, run: &Run) -> anyhow::Result<()> {
        self.runs.push(run.clone());
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt_after
            .is_some_and(|runs| self.runs.len() >= runs)
    }

    fn undecided(&self, samples: &Samples) -> Vec<Contender> {
        let is_decided = samples.rounds() >= self.decided_by;
        let these = [contender(0), contender(1)];
        these.into_iter().filter(|_| !is_decided).collect()
    }
}

fn contender(index: usize) -> Contender {
    Contender::new("true", ["bare", "palisade", "bubblewrap"][index])
}

fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 1,
        least_rounds: 4,
        most_rounds: 100,
        budget: Duration::from_secs(1),
        patience: Duration::from_secs(1),
        relative_width: 0.02,
        watched: vec![Watched {
            measure: "wall".into(),
            contender: contender(1),
            baseline: contender(0),
        }],
    }
}

#[test]
fn contenders_take_turns_after_the_warm_up() {
    let mut mock = Mock::new(&[&[9.0, 1.0], &[9.0, 2.0]]);
    let mut notebook = Notebook::default();
    let samples = measure(&mut mock, &schedule(), &mut notebook).unwrap();
    assert_eq!(mock.ran, [0, 1, 0, 1, 1, 0, 1, 0, 0, 1]);
    assert_eq!(
        samples.rounds(),
        4,
        "values that never differ are certain at the first look"
    );
    assert_eq!(
        samples.series(&contender(1), "wall"),
        [2.0; 4],
        "the warm-up is not counted"
    );
    let warm_up: Vec<_> = notebook.runs.iter().map(|run| run.warm_up).collect();
    assert_eq!(
        warm_up,
        [
            true, true, false, false, false, false, false, false, false, false
        ]
    );
    assert_eq!(notebook.runs[3].at_us, 21);
}

#[test]
fn rounds_go_on_while_the_interval_is_wide() {
    let noisy: Vec<f64> = (0..40)
        .map(|round| 1.0 + f64::from(round % 2))
        .chain([1.5])
        .collect();
    let mut mock = Mock::new(&[&[1.0], &noisy]);
    let samples = measure(&mut mock, &schedule(), &mut Notebook::default()).unwrap();
    assert!(
        (41..=100).contains(&samples.rounds()),
        "{}",
        samples.rounds()
    );
}

#[test]
fn the_budget_ends_it_but_not_before_two_rounds() {
    let noisy: Vec<f64> = (0..90)
        .map(|round| 1000.0 * (1.0 + f64::from(round % 3)))
        .collect();
    let budget = |ms| Schedule {
        budget: Duration::from_millis(ms),
        patience: Duration::ZERO,
        ..schedule()
    };
    let samples = measure(
        &mut Mock::new(&[&[1000.0], &noisy]),
        &budget(30),
        &mut Notebook::default(),
    )
    .unwrap();
    assert!((8..=12).contains(&samples.rounds()), "{}", samples.rounds());
    let samples = measure(
        &mut Mock::new(&[&[1000.0], &noisy]),
        &budget(0),
        &mut Notebook::default(),
    )
    .unwrap();
    assert_eq!(samples.rounds(), 2);
}

/// Narrow intervals are not enough, and neither is the usual time.
#[test]
fn an_undecided_target_goes_on_while_there_is_patience() {
    let rounds = |decided_by, budget_ms, patience_ms| {
        let mut notebook = Notebook {
            decided_by,
            ..Notebook::default()
        };
        let schedule = Schedule {
            budget: Duration::from_millis(budget_ms),
            patience: Duration::from_millis(patience_ms),
            ..schedule()
        };
        let mut mock = Mock::new(&[&[1000.0], &[2000.0]]);
        let samples = measure(&mut mock, &schedule, &mut notebook).unwrap();
        samples.rounds()
    };
    assert_eq!(
        rounds(0, 1000, 1000),
        4,
        "decided and narrow at the first look"
    );
    assert_eq!(
        rounds(30, 1000, 1000),
        30,
        "looked at after 4, 5, 7, 9, 12, 15, 19, 24 and 30"
    );
    assert_eq!(rounds(30, 15, 1000), 30, "the budget is 5 rounds");
    assert_eq!(rounds(0, 15, 1000), 4);
    assert_eq!(rounds(90, 15, 60), 19, "patience has an end");
}

#[test]
fn past_the_budget_those_take_turns_whose_target_is_undecided() {
    let mut notebook = Notebook {
        decided_by: 9,
        ..Notebook::default()
    };
    let schedule = Schedule {
        budget: Duration::from_micros(30),
        patience: Duration::from_secs(1),
        ..schedule()
    };
    let mut mock = Mock::new(&[&[1.0], &[2.0], &[3.0, 3.0, 3.0, 3.0, 3.0, 3.0, f64::NAN]]);
    let samples = measure(&mut mock, &schedule, &mut notebook).unwrap();
    let told = [0, 1, 2].map(|one| samples.series(&contender(one), "wall").len());
    assert_eq!(
        told,
        [9, 9, 4],
        "a round takes 6 µs, and the first is the warm-up"
    );
    let silent = notebook.runs.iter().filter(|run| run.readings.is_empty());
    let silent: Vec<_> = silent.map(|run| (run.round, &run.contender)).collect();
    assert_eq!(silent, [(4, &contender(2))]);
    assert_eq!(mock.ran[15..], [0, 1, 1, 0, 1, 0, 0, 1, 0, 1]);
}

#[test]
fn most_rounds_is_an_end() {
    let noisy: Vec<f64> = (0..90).map(|round| 1.0 + f64::from(round % 3)).collect();
    let schedule = Schedule {
        most_rounds: 7,
        ..schedule()
    };
    let samples = measure(
        &mut Mock::new(&[&[1.0], &noisy]),
        &schedule,
        &mut Notebook::default(),
    )
    .unwrap();
    assert_eq!(samples.rounds(), 7);
}

#[test]
fn an_interruption_keeps_the_complete_rounds() {
    let mut notebook = Notebook {
        interrupt_after: Some(7),
        ..Notebook::default()
    };
    let noisy: Vec<f64> = (0..90).map(|round| 1.0 + f64::from(round % 3)).collect();
    let samples = measure(
        &mut Mock::new(&[&[1.0], &noisy]),
        &schedule(),
        &mut notebook,
    )
    .unwrap();
    assert_eq!(
        (samples.rounds(), notebook.runs.len()),
        (2, 7),
        "2 of warm-up, 4 complete, 1 recorded"
    );
}

#[test]
fn an_interruption_before_the_first_round_is_an_error() {
    let mut notebook = Notebook {
        interrupt_after: Some(1),
        ..Notebook::default()
    };
    let error = measure(
        &mut Mock::new(&[&[1.0], &[1.0]]),
        &schedule(),
        &mut notebook,
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "interrupted before the first round was complete"
    );
}

#[test]
fn a_run_that_fails_ends_everything() {
    let mut mock = Mock::new(&[&[1.0], &[2.0, 2.0, f64::NAN]]);
    let error = measure(&mut mock, &schedule(), &mut Notebook::default()).unwrap_err();
    assert_eq!(error.to_string(), "broken");
}

#[test]
fn a_tool_that_fails_on_the_way_is_left_out_of_all_rounds() {
    let mut mock = Mock::new(&[&[1.0], &[2.0], &[3.0, 3.0, 3.0, f64::NAN]]);
    let mut notebook = Notebook::default();
    let samples = measure(&mut mock, &schedule(), &mut notebook).unwrap();
    assert_eq!(samples.contenders(), [contender(0), contender(1)]);
    assert_eq!(samples.series(&contender(1), "wall"), [2.0; 4]);
    assert_eq!(samples.series(&contender(2), "wall"), [0.0; 0]);
    let of_tool = notebook
        .runs
        .iter()
        .filter(|run| run.contender == contender(2));
    assert_eq!(of_tool.count(), 3, "what it did is kept");
}
