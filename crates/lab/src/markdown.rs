//! Tables as Markdown, for an issue or a document.

use crate::{
    outcome::Outcome,
    table::{Line, Table},
};
use std::fmt::Write;

/// A row's tables and warnings as Markdown.
pub fn markdown(outcome: &Outcome) -> String {
    let mut text = format!("## {}\n\n{}\n", outcome.row, cell(&outcome.about));
    if let Some(reason) = &outcome.failed {
        let _ = writeln!(text, "\nFailed: {}", cell(reason));
    }
    if let Some(floor) = &outcome.floor {
        let _ = writeln!(text, "\nFloor: {}", cell(floor));
    }
    for (title, table) in &outcome.tables {
        let _ = write!(text, "\n{}\n\n{}", cell(title), table_lines(table));
    }
    let below = outcome.below_floor();
    if !outcome.warnings.is_empty() || below.is_some() {
        text.push('\n');
    }
    if let Some(below) = below {
        let _ = writeln!(text, "- below the floor: {}", cell(&below));
    }
    for warning in &outcome.warnings {
        let _ = writeln!(text, "- warning: {}", cell(&warning.text));
    }
    text
}

fn table_lines(table: &Table) -> String {
    let columns = table.headings().len();
    let alignments = (0..columns).map(|column| if column == 0 { ":--" } else { "--:" });
    let mut text = line(table.headings().iter().map(|heading| cell(heading)));
    text += &line(alignments.map(ToOwned::to_owned));
    for below in table.lines() {
        text += &match below {
            Line::Section(title) => {
                let title = format!("**{}**", cell(title));
                let rest = (1..columns).map(|_| String::new());
                line(std::iter::once(title).chain(rest))
            }
            Line::Cells(cells) => line(cells.iter().map(|text| cell(text.trim()))),
        };
    }
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<_> = cells.collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Text that means nothing to Markdown, whoever wrote it.
pub(crate) fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '|' | '<' | '>' | '*' | '`' | '[' | ']' | '\\' => safe.extend(['\\', letter]),
            letter if letter.is_control() => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_keep_their_parts() {
        let mut table = Table::new(["", "median ms", "× bare"]);
        table.section("static true");
        table.line(["  bare", "0.392"]);
        table.line(["  palisade run", "1.310", "3.342"]);
        let outcome = Outcome {
            row: "start".into(),
            about: "run `true`".into(),
            tables: vec![("Times:".into(), table)],
            ..Outcome::default()
        };
        insta::assert_snapshot!(markdown(&outcome), @r"
        ## start

        run \`true\`

        Times:

        |  | median ms | × bare |
        | :-- | --: | --: |
        | **static true** |  |  |
        | bare | 0.392 |  |
        | palisade run | 1.310 | 3.342 |
        ");
    }

    #[test]
    fn nothing_in_a_cell_is_markup() {
        assert_eq!(cell("a|b<i>\nc"), r"a\|b\<i\> c");
    }
}
