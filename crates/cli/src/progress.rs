//! How far a measurement is: one bar on a terminal, nothing elsewhere.
//!
//! It is drawn between runs only: a thread of its own would run beside what is measured.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use palisade_lab::Progress;
use std::cell::Cell;

/// Narrower than 80 columns for every row and any time.
const TEMPLATE: &str = "{prefix:<16} [{bar:20}] {msg}";

/// Draws how far each of `rows` is, one after the other.
pub(crate) fn bar(rows: Vec<&'static str>) -> Box<dyn Fn(Progress)> {
    let current: Cell<Option<ProgressBar>> = Cell::new(None);
    Box::new(move |progress| {
        let bar = current.take().unwrap_or_else(new_bar);
        if progress.is_last {
            bar.finish_and_clear();
            return;
        }
        let row = rows.iter().position(|row| *row == progress.row);
        bar.set_prefix(prefix(progress.row, row.unwrap_or(0) + 1, rows.len()));
        bar.set_length(progress.budget.as_millis() as u64);
        bar.set_position(progress.elapsed.min(progress.budget).as_millis() as u64);
        bar.set_message(message(&progress));
        current.set(Some(bar));
    })
}

/// Nothing of it stays when it is dropped.
fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_finish(ProgressFinish::AndClear)
}

fn prefix(row: &str, number: usize, rows: usize) -> String {
    match rows {
        1 => row.to_owned(),
        _ => format!("{row} ({number} of {rows})"),
    }
}

fn message(progress: &Progress) -> String {
    let (elapsed, budget) = (progress.elapsed.as_secs(), progress.budget.as_secs());
    match progress.round {
        0 => format!("warming up, {elapsed} s"),
        round => format!("round {round}, {elapsed} s of at most {budget} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bar_tells_row_round_and_time() {
        let progress = Progress {
            row: "sva-t3",
            round: 12,
            elapsed: Duration::from_secs(61),
            budget: Duration::from_secs(420),
            is_last: false,
        };
        assert_eq!(message(&progress), "round 12, 61 s of at most 420 s");
        assert_eq!(
            message(&Progress {
                round: 0,
                ..progress
            }),
            "warming up, 61 s"
        );
        assert_eq!(prefix("sva-t3", 3, 8), "sva-t3 (3 of 8)");
        assert_eq!(prefix("cost", 1, 1), "cost");
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
