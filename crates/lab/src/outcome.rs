//! What came out of a row: for people, for programs, and to be read again.

use crate::{
    Warning,
    conditions::Conditions,
    environment::Environment,
    figure::{Figure, Verdict},
    rows::ChartFacts,
    table::{MOST_COLUMNS, Table},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
};

/// A row's result. Its `Display` is for people, its `Serialize` for programs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
// A run that an older palisade kept lacks what was added since.
#[serde(default)]
pub struct Outcome {
    /// The row's name.
    pub row: String,
    /// What it runs.
    pub about: String,
    /// Why there are no figures, where there are none.
    pub failed: Option<String>,
    /// How many rounds were counted.
    pub rounds: usize,
    /// Who took part in the first of them alone, by how many: past the row's time those go on alone whose targets are
    /// undecided.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sat_out: BTreeMap<usize, BTreeSet<String>>,
    /// How long the measuring took, in s.
    pub took_s: f64,
    /// The processor that everything was kept on, where the row does that.
    pub pinned_to: Option<usize>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Doubts about them.
    pub warnings: Vec<Doubt>,
    /// What else happened meanwhile.
    pub conditions: Conditions,
    /// The figures, shown: tables with their titles.
    pub tables: Vec<(String, Table)>,
    /// What the row's floor is, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<String>,
    /// What its chart shows beside the figures.
    pub chart: ChartFacts,
    /// The machine. It is kept once for all rows of a run.
    #[serde(skip)]
    pub environment: Environment,
    /// Where the samples are.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// A [`Warning`] that was written down: its words, and what they were made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// For people.
    pub text: String,
    /// For programs.
    #[serde(flatten)]
    pub details: serde_json::Map<String, serde_json::Value>,
}

impl From<&Warning> for Doubt {
    fn from(warning: &Warning) -> Self {
        let details = match serde_json::to_value(warning) {
            Ok(serde_json::Value::Object(details)) => details,
            _ => serde_json::Map::new(),
        };
        Self {
            text: warning.to_string(),
            details,
        }
    }
}

impl Outcome {
    /// How many of the targets ended with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        let verdicts = self.figures.iter().filter_map(|figure| figure.verdict);
        verdicts.filter(|one| *one == verdict).count()
    }

    /// `5 pass, 1 short`, or why there is nothing to judge.
    pub fn verdicts(&self) -> String {
        if let Some(reason) = &self.failed {
            return format!("failed: {reason}");
        }
        let counted = Verdict::ALL.map(|verdict| (self.count(verdict), verdict));
        let told: Vec<_> = counted
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, verdict)| format!("{count} {verdict}"))
            .collect();
        if told.is_empty() {
            "no target".to_owned()
        } else {
            told.join(", ")
        }
    }

    /// Each target that lies below the floor, with what the floor reaches of it; `None` where there is none.
    pub fn below_floor(&self) -> Option<String> {
        let told = self.figures.iter().filter_map(Figure::below_floor);
        let told: Vec<_> = told.collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// How, where and with what was measured, in two lines or more.
    pub(crate) fn circumstances(&self, columns: usize) -> String {
        let machine = &self.environment;
        let processor = machine.processor.as_deref();
        let processor = processor.unwrap_or(&machine.architecture);
        let kernel = machine
            .kernel
            .as_deref()
            .and_then(|kernel| kernel.split(' ').next())
            .unwrap_or("?");
        let tools = machine.tools.values();
        let tools: Vec<_> = tools.map(|tool| tool.replace(" version ", " ")).collect();
        let sat_out = self.sat_out.iter().map(|(rounds, subjects)| {
            let subjects: Vec<_> = subjects.iter().map(String::as_str).collect();
            let text = format!("in the first {rounds} alone: {}", subjects.join(", "));
            format!("{}\n", wrapped_to(columns, "", &text))
        });
        format!(
            "{} rounds in {:.0} s, in turn · Linux {kernel} · {} × {processor}\n{}{}",
            self.rounds,
            self.took_s,
            machine.processors,
            sat_out.collect::<String>(),
            wrapped_to(columns, "", &tools.join(" · "))
        )
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}: {}", self.row, self.about)?;
        match &self.failed {
            Some(reason) => writeln!(formatter, "{}", wrapped("failed:", reason))?,
            None => writeln!(formatter, "{}", self.circumstances(MOST_COLUMNS))?,
        }
        if let Some(floor) = self.floor.as_ref().filter(|_| self.failed.is_none()) {
            writeln!(formatter, "{}", wrapped("floor:", floor))?;
        }
        for (title, table) in &self.tables {
            write!(formatter, "\n{title}\n{table}")?;
        }
        writeln!(formatter)?;
        if let Some(below) = self.below_floor() {
            writeln!(formatter, "{}", wrapped("below the floor:", &below))?;
        }
        for warning in &self.warnings {
            writeln!(formatter, "{}", wrapped("warning:", &warning.text))?;
        }
        writeln!(formatter, "samples: {}", self.folder.display())
    }
}

/// `text` after `lead`, in lines that are no wider than a table.
pub(crate) fn wrapped(lead: &str, text: &str) -> String {
    wrapped_to(MOST_COLUMNS, lead, text)
}

/// `text` after `lead`, in lines of so many columns.
pub(crate) fn wrapped_to(columns: usize, lead: &str, text: &str) -> String {
    let width_of = |text: &str| text.chars().count();
    let mut lines = vec![lead.to_owned()];
    for word in text.split_whitespace() {
        let fits = |line: &String| width_of(line) + 1 + width_of(word) <= columns;
        if !lines.last().is_some_and(fits) {
            lines.push(" ".repeat(lead.len()));
        }
        if let Some(line) = lines.last_mut() {
            let gap = if line.is_empty() { "" } else { " " };
            line.push_str(gap);
            line.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Contender, Samples};

    #[test]
    fn long_warnings_are_wrapped_under_their_lead() {
        let text = ["word"; 25].join(" ");
        let wrapped = wrapped("warning:", &text);
        let widths: Vec<_> = wrapped.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths, [98, 43]);
        assert!(wrapped.lines().all(|line| line[8..].starts_with(" word")));
    }

    #[test]
    fn what_is_written_down_is_read_again() {
        let (samples, [bare, ours]) = Samples::of_two("palisade run", &[4.0; 5], &[5.0; 5]);
        let unit = crate::sample::Unit::Microseconds;
        let target = Some(crate::figure::Target::AtMostTimesBare(1.5));
        let mut table = Table::new(["", "ms"]);
        table.section("static");
        table.line(["bare", "4"]);
        let outcome = Outcome {
            row: "start".into(),
            figures: vec![
                Figure::of(&samples, &bare, None, ("wall", unit), None),
                Figure::of(&samples, &ours, Some(&bare), ("wall", unit), target),
                Figure::mean_ratio(&samples, &ours, &bare, (&["wall"], unit), None),
            ],
            warnings: vec![Doubt::from(&Warning::FewRounds { rounds: 3 })],
            tables: vec![("Times".into(), table)],
            ..Outcome::default()
        };
        let text = serde_json::to_string(&outcome).unwrap();
        let read: Outcome = serde_json::from_str(&text).unwrap();
        assert_eq!(read.figures, outcome.figures);
        assert_eq!(
            (&read.warnings, &read.tables),
            (&outcome.warnings, &outcome.tables)
        );
        assert_eq!(read.warnings[0].details["rounds"], 3);
        assert_eq!(read.verdicts(), "1 pass");
        assert_eq!((read.floor, outcome.below_floor()), (None, None));
    }

    #[test]
    fn what_lies_below_the_floor_is_counted_apart_and_told() {
        let (samples, [bare, ours]) = Samples::of_two("palisade run", &[4.0; 5], &[5.0; 5]);
        let measure = ("wall", crate::sample::Unit::Microseconds);
        let target = Some(crate::figure::Target::AtMostTimesBare(1.2));
        let figure = Figure::of(&samples, &ours, Some(&bare), measure, target);
        let floor = Contender::new("true", "palisade run");
        let below = figure.clone().beside_floor(&samples, &floor, Some(&bare));
        let outcome = Outcome {
            row: "start".into(),
            floor: Some("a launcher".into()),
            figures: vec![figure, below],
            ..Outcome::default()
        };
        assert_eq!(outcome.verdicts(), "1 below the floor, 1 short");
        let text = outcome.to_string();
        let told =
            "\nbelow the floor: true, palisade run: ≤ 1.2 × bare, floor 1.250 (1.250–1.250)\n";
        assert!(
            text.contains("\nfloor: a launcher\n") && text.contains(told),
            "{text}"
        );
    }

    #[test]
    fn a_figure_of_nothing_can_be_read_again() {
        let (samples, [bare, ours]) = Samples::of_two("palisade run", &[], &[]);
        let measure = ("wall", crate::sample::Unit::Microseconds);
        let figure = Figure::of(&samples, &ours, Some(&bare), measure, None);
        let text = serde_json::to_string(&figure).unwrap();
        let read: Figure = serde_json::from_str(&text).unwrap();
        assert!(read.ratio.is_some_and(|ratio| ratio.value.is_nan()));
    }

    #[test]
    fn who_took_part_in_fewer_rounds_is_told() {
        let outcome = Outcome {
            row: "start".into(),
            rounds: 447,
            sat_out: BTreeMap::from([(71, ["runc", "bubblewrap"].map(str::to_owned).into())]),
            ..Outcome::default()
        };
        let text = outcome.to_string();
        let told = "\nin the first 71 alone: bubblewrap, runc\n";
        assert!(
            text.contains("\n447 rounds") && text.contains(told),
            "{text}"
        );
    }

    #[test]
    fn a_row_that_failed_says_why() {
        let outcome = Outcome {
            row: "start".into(),
            failed: Some("no room".into()),
            ..Outcome::default()
        };
        assert_eq!(outcome.verdicts(), "failed: no room");
        assert!(outcome.to_string().contains("\nfailed: no room\n"));
    }
}
