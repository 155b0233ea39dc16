//! What a wall costs beyond what the kernel charges anybody: all that a run measured beside floors, in one table.

use crate::{
    figure::{Figure, TO_FLOOR},
    markdown::cell,
    notation::{short, signed},
    outcome::Outcome,
    statistics::Estimate,
};
use std::fmt::Write;

const HEADINGS: &str = "| row | what | wall | the floor | beyond it | 95 % | × floor | verdict |\n\
                        |---|---|---|--:|--:|--:|--:|---|\n";

/// The table as Markdown; `None` where nothing was measured beside a floor.
pub(crate) fn beyond_floors(outcomes: &[Outcome]) -> Option<String> {
    let mut text = HEADINGS.to_owned();
    let lines = outcomes.iter().flat_map(lines_of);
    let written = lines.map(|line| writeln!(text, "{line}")).count();
    (written > 0).then_some(text)
}

fn lines_of(outcome: &Outcome) -> impl Iterator<Item = String> {
    let to_floor = outcome.figures.iter().filter(|one| one.is_to_floor());
    to_floor.filter_map(|figure| line(outcome, figure))
}

/// `None` of a mean, which has no difference, and of others' walls.
fn line(outcome: &Outcome, figure: &Figure) -> Option<String> {
    let subject = &figure.contender.subject;
    let is_ours = subject.starts_with("palisade") || subject.starts_with("library");
    let over = figure.difference.filter(|_| is_ours)?;
    let measure = figure.measure.strip_suffix(TO_FLOOR)?;
    let is_own = |one: &&Figure| one.contender == figure.contender && one.measure == measure;
    let own = outcome.figures.iter().find(is_own)?;
    let floor = own.summary?.median - over.value;
    let verdict = match figure.verdict {
        Some(_) => figure.verdict_cell(),
        None => "not judged".to_owned(),
    };
    let cells = [
        format!("`{}`", outcome.row),
        cell(own.title()),
        cell(subject),
        format!("{} {}", short(floor), figure.unit.symbol()),
        signed(over.value),
        interval(over),
        figure
            .ratio
            .map_or_else(String::new, |ratio| format!("{:.3}", ratio.value)),
        verdict,
    ];
    Some(format!("| {} |", cells.join(" | ")))
}

fn interval(over: Estimate) -> String {
    format!("{} … {}", signed(over.low), signed(over.high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        figure::{FLOOR, Target},
        sample::{Contender, Reading, Samples, Unit},
    };

    #[test]
    fn all_that_is_ours_stands_beside_its_floor() {
        let contender = |subject| Contender::new("true", subject);
        let all = ["bare", FLOOR, "palisade run", "bubblewrap"].map(contender);
        let mut samples = Samples::new(all.to_vec());
        for round in 0..20 {
            let of = |us: f64| vec![Reading::one_us("wall", us + f64::from(round % 3))];
            samples.push_round([70.0, 400.0, 500.0, 900.0].map(of).to_vec());
        }
        let measure = ("wall", Unit::Microseconds);
        let own = |one: &Contender| Figure::of(&samples, one, None, measure, None);
        let beside =
            |one: &Contender, target| Figure::to_floor(&samples, one, &all[1], measure, target);
        let outcome = Outcome {
            row: "start".into(),
            figures: vec![
                own(&all[2]),
                own(&all[3]),
                beside(&all[2], Some(Target::AtMostTimesFloor(1.3))),
                beside(&all[3], None),
            ],
            ..Outcome::default()
        };
        insta::assert_snapshot!(beyond_floors(&[Outcome::default(), outcome]).unwrap());
        assert_eq!(beyond_floors(&[Outcome::default()]), None);
    }
}
