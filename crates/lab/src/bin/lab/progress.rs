//! How far a measurement is: one bar on a terminal, nothing elsewhere.
//!
//! It is drawn between runs only: a thread of its own would run beside what is measured.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use palisade_lab::Progress;
use std::{cell::Cell, time::Duration};

/// Narrower than 80 columns for every row and any time.
const TEMPLATE: &str = "{prefix:<16} [{bar:20}] {msg}";

/// Draws how far the rows are, one after the other.
pub(crate) fn bar() -> Box<dyn Fn(Progress)> {
    let current: Cell<Option<ProgressBar>> = Cell::new(None);
    Box::new(move |progress| {
        let bar = current.take().unwrap_or_else(new_bar);
        if progress.is_last {
            bar.finish_and_clear();
            return;
        }
        let budget = progress.budget_in_all.max(progress.elapsed_in_all);
        bar.set_prefix(prefix(&progress));
        bar.set_length(milliseconds(budget));
        bar.set_position(milliseconds(progress.elapsed_in_all));
        bar.set_message(message(&progress));
        current.set(Some(bar));
    })
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Nothing of it stays when it is dropped.
fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_finish(ProgressFinish::AndClear)
}

fn prefix(progress: &Progress) -> String {
    match progress.rows {
        1 => progress.row.to_owned(),
        rows => format!("{} ({} of {rows})", progress.row, progress.number),
    }
}

fn message(progress: &Progress) -> String {
    let elapsed = clock(progress.elapsed_in_all);
    let budget = clock(progress.budget_in_all.max(progress.elapsed_in_all));
    match progress.round {
        0 => format!("warming up; {elapsed}"),
        round => format!("round {round}; {elapsed} of at most {budget}"),
    }
}

/// `4:05`, minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_tells_row_round_and_time() {
        let progress = Progress {
            row: "sva-t3",
            round: 12,
            elapsed: Duration::from_secs(61),
            budget: Duration::from_secs(420),
            is_last: false,
            number: 3,
            rows: 8,
            elapsed_in_all: Duration::from_secs(125),
            budget_in_all: Duration::from_secs(1420),
        };
        assert_eq!(message(&progress), "round 12; 2:05 of at most 23:40");
        assert_eq!(prefix(&progress), "sva-t3 (3 of 8)");
        let alone = Progress {
            row: "cost",
            round: 0,
            rows: 1,
            ..progress
        };
        assert_eq!(message(&alone), "warming up; 2:05");
        assert_eq!(prefix(&alone), "cost");
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
