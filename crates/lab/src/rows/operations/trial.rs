//! Running a program that measures operations itself, and reading what it tells.

use crate::{
    Trial,
    program::Program,
    sample::{Reading, Unit},
};
use anyhow::{Context, ensure};

/// A run of the program, whichever wall is around it.
pub(super) struct MeasuringProgram {
    pub(super) program: Program,
    pub(super) row: &'static str,
    pub(super) unit: Unit,
    /// Of the operations that it measures.
    pub(super) keys: Vec<&'static str>,
}

impl Trial for MeasuringProgram {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let output = self.program.run_for_output()?;
        parse_output(&output, self.unit, &self.keys)
            .with_context(|| format!("the program of {}", self.row))
    }
}

/// `OPERATION NS NS …`, a line for each; one word alone is a remark.
pub(in crate::rows) fn parse_output(
    text: &str,
    unit: Unit,
    keys: &[&str],
) -> anyhow::Result<Vec<Reading>> {
    let readings = parse_lines(text, unit)?;
    let is_there = |key: &str| readings.iter().any(|reading| reading.measure == key);
    let missing = keys.iter().find(|key| !is_there(key));
    ensure!(
        missing.is_none(),
        "it left out {}",
        missing.copied().unwrap_or_default()
    );
    Ok(readings)
}

/// The same, whatever the operations are.
pub(in crate::rows) fn parse_lines(text: &str, unit: Unit) -> anyhow::Result<Vec<Reading>> {
    let lines = text.lines().filter(|line| *line != HOLDING);
    lines.map(|line| parse_line(line, unit)).collect()
}

/// What a program says that keeps what it has until its input ends.
const HOLDING: &str = "holding";

pub(in crate::rows) fn parse_line(line: &str, unit: Unit) -> anyhow::Result<Reading> {
    let mut words = line.split(' ');
    let measure = words.next().unwrap_or_default().to_owned();
    let values: Result<Vec<f64>, _> = words.map(str::parse).collect();
    let values = values.with_context(|| format!("it printed {line:?}"))?;
    ensure!(!values.is_empty(), "it printed {line:?}");
    let in_unit = match unit {
        Unit::Microseconds => 1e-3,
        _ => 1.0,
    };
    Ok(Reading {
        measure,
        unit,
        values: values.into_iter().map(|ns| ns * in_unit).collect(),
    })
}
