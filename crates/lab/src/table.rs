//! Tables for a terminal of 100 columns.
//!
//! By hand: a crate for tables would replace the twenty lines of `Display`. The rest is data that is kept in summaries,
//! has titles across all columns, and is asked how wide it is before it is drawn.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The widest a table of the lab may become.
pub const MOST_COLUMNS: usize = 100;

const GAP: &str = "  ";

/// Rows of cells under headings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    headings: Vec<String>,
    lines: Vec<Line>,
}

/// A line below the headings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// The title of a part.
    Section(String),
    /// A cell for each heading.
    Cells(Vec<String>),
}

impl Table {
    /// A table with these headings. The first column is words and stands to the left; the others are
    /// figures and stand to the right.
    pub fn new(headings: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            headings: headings.into_iter().map(Into::into).collect(),
            lines: Vec::new(),
        }
    }

    /// Begins a part with a title of its own.
    pub fn section(&mut self, title: &str) {
        self.lines.push(Line::Section(title.to_owned()));
    }

    /// Adds a line; cells that are missing at its end are empty.
    pub fn line(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.headings.len(), String::new());
        self.lines.push(Line::Cells(cells));
    }

    /// How many columns of a terminal it takes.
    pub fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
    }

    /// The headings.
    pub fn headings(&self) -> &[String] {
        &self.headings
    }

    /// What stands below them.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    fn widths(&self) -> Vec<usize> {
        let cells = self.lines.iter().filter_map(|line| match line {
            Line::Cells(cells) => Some(cells),
            Line::Section(_) => None,
        });
        let mut widths = vec![0; self.headings.len()];
        for line in cells.chain([&self.headings]) {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(width_of(cell));
            }
        }
        widths
    }
}

/// Every character that the lab writes takes one column.
fn width_of(cell: &str) -> usize {
    cell.chars().count()
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        writeln!(formatter, "{}", joined(&self.headings, &widths))?;
        writeln!(formatter, "{}", "─".repeat(self.width()))?;
        for line in &self.lines {
            match line {
                Line::Section(title) => writeln!(formatter, "{title}")?,
                Line::Cells(cells) => writeln!(formatter, "{}", joined(cells, &widths))?,
            }
        }
        Ok(())
    }
}

fn joined(cells: &[String], widths: &[usize]) -> String {
    let padded =
        cells
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
    padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn words_stand_left_and_figures_right() {
        let mut table = Table::new(["", "median ms", "× bare"]);
        table.section("static true");
        table.line(["  bare", "0.392", "1"]);
        table.line(["  palisade run", "1.310", "3.342"]);
        table.line(["  bubblewrap"]);
        insta::assert_snapshot!(table, @"
                        median ms  × bare
        ─────────────────────────────────
        static true
          bare              0.392       1
          palisade run      1.310   3.342
          bubblewrap
        ");
    }
}
