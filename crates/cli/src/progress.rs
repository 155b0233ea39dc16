//! How far a measurement is: one bar on a terminal, nothing elsewhere.
//!
//! It is drawn between runs only: a thread of its own would run beside what is measured.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use palisade_lab::Progress;

/// What follows is at most 80 columns wide for every row.
const TEMPLATE: &str = "{prefix:<22} [{bar:24}] {msg}";

/// Draws how far each of `rows` is, one after the other.
pub(crate) fn bar(rows: Vec<&'static str>) -> Box<dyn Fn(Progress)> {
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(TEMPLATE);
    bar.set_style(
        style
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> "),
    );
    Box::new(move |progress| {
        if progress.is_last {
            bar.finish_and_clear();
            bar.reset();
            return;
        }
        let row = rows
            .iter()
            .position(|row| *row == progress.row)
            .unwrap_or(0);
        bar.set_prefix(prefix(progress.row, row + 1, rows.len()));
        bar.set_length(progress.budget.as_millis() as u64);
        bar.set_position(progress.elapsed.min(progress.budget).as_millis() as u64);
        bar.set_message(message(&progress));
    })
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
        0 => "warming up".to_owned(),
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
            "warming up"
        );
        assert_eq!(prefix("sva-t3", 3, 8), "sva-t3 (3 of 8)");
        assert_eq!(prefix("cost", 1, 1), "cost");
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
