//! The README of a run folder.

use crate::{beyond::beyond_floors, environment::Environment, markdown::cell, outcome::Outcome};
use std::fmt::Write;

/// What stands in the folder, for who finds it. Rows that are still to come never came, where the
/// measuring was ended.
pub(crate) fn readme(environment: &Environment, outcomes: &[Outcome], to_come: &[&str]) -> String {
    let mut text = format!(
        "# What the wall cost on {}\n\n\
         Taken by `palisade bench` on {}. Each row has a folder: `samples.jsonl.gz` has every\n\
         run as it was taken, `summary.json` the figures that were made of them, `table.txt` what was printed.\n\n\
         To make it again:\n\n```sh\n{}\n```\n\n",
        environment.machine(),
        environment.time.get(..10).unwrap_or("a day not known"),
        environment.command(),
    );
    let facts = environment.facts();
    let facts = facts
        .into_iter()
        .map(|(name, fact)| (name.to_owned(), fact));
    table(&mut text, "## The machine", ["", ""], facts);
    let rows = outcomes
        .iter()
        .map(|one| (format!("[{0}]({0})", one.row), summary(one)));
    table(
        &mut text,
        "## The rows",
        ["row", "against its targets"],
        rows,
    );
    if let Some(beyond) = beyond_floors(outcomes) {
        let _ = writeln!(
            text,
            "## Beyond what the kernel charges anybody\n\n{beyond}"
        );
    }
    if !to_come.is_empty() {
        let _ = writeln!(text, "Not measured: {}.\n", to_come.join(", "));
    }
    warnings(&mut text, outcomes);
    text
}

fn summary(outcome: &Outcome) -> String {
    let verdicts = outcome.verdicts();
    match outcome.failed {
        Some(_) => verdicts,
        None => format!("{verdicts}; {} rounds", outcome.rounds),
    }
}

fn table(
    text: &mut String,
    title: &str,
    headings: [&str; 2],
    lines: impl IntoIterator<Item = (String, String)>,
) {
    let _ = writeln!(
        text,
        "{title}\n\n| {} | {} |\n|---|---|",
        headings[0], headings[1]
    );
    for (name, value) in lines {
        let _ = writeln!(text, "| {name} | {} |", cell(&value));
    }
    text.push('\n');
}

/// Each warning once, with the rows that it is about.
fn warnings(text: &mut String, outcomes: &[Outcome]) {
    let mut told: Vec<(&str, Vec<&str>)> = Vec::new();
    for outcome in outcomes {
        for warning in &outcome.warnings {
            match told.iter_mut().find(|(words, _)| *words == warning.text) {
                Some((_, rows)) => rows.push(&outcome.row),
                None => told.push((&warning.text, vec![&outcome.row])),
            }
        }
    }
    if told.is_empty() {
        return;
    }
    text.push_str("## Warnings\n\n");
    for (words, rows) in told {
        let _ = writeln!(text, "- {}: {}", rows.join(", "), cell(words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Warning, outcome::Doubt};

    #[test]
    fn a_readme_has_machine_rows_and_warnings() {
        let environment = Environment {
            time: "2026-01-31T10:00:00Z".into(),
            host: Some("thinkpad".into()),
            processor: Some("EPYC".into()),
            processors: 2,
            architecture: "x86_64".into(),
            build: "release".into(),
            command_line: vec!["palisade".into(), "bench".into()],
            ..Environment::default()
        };
        let outcome = |row: &str, failed: Option<&str>| Outcome {
            row: row.into(),
            rounds: 3,
            failed: failed.map(ToOwned::to_owned),
            warnings: vec![Doubt::from(&Warning::FewRounds { rounds: 3 })],
            ..Outcome::default()
        };
        let outcomes = [
            outcome("start", None),
            outcome("sva-t3", Some("no lame | no cry")),
        ];
        insta::assert_snapshot!(readme(&environment, &outcomes, &["mk-2"]));
    }
}
