//! Comparing two kept runs: did something get slower?
//!
//! Two runs on one machine are never the same: it was warmer, another program ran, pages lay
//! elsewhere. Most of that is in the figures of no wall too, so the *ratio to bare* is compared where
//! there is one, round by round within each run. What is left is a difference between runs that no
//! number of rounds within a run shows; [`TOLERANCE`] allows for it.
//!
//! ```text
//!            median of ours in B / median of bare in B
//!  change =  ─────────────────────────────────────────
//!            median of ours in A / median of bare in A
//! ```
//!
//! The rounds of A and B are drawn anew apart from each other: the runs are independent. Pure.

use crate::{
    KeptRow, KeptRun,
    environment::Environment,
    figure::{Figure, is_ours},
    notation::four_figures,
    outcome::{Doubt, wrapped},
    rows::{BARE, VARYING},
    sample::{Contender, Samples, Unit},
    statistics::{Estimate, estimate_change, median, ratios_by_round},
    table::Table,
    warning::list,
};
use serde::Serialize;
use std::fmt;

/// How much the ratio to bare of two runs of the same may differ, as a part of it.
pub const TOLERANCE: f64 = 0.05;

/// More than this is no count of calls but of instructions, which go with how often a loop goes round.
const MOST_CALLS: f64 = 100_000.0;

/// What became of a figure from one run to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The whole interval lies below what two runs may differ by.
    Faster,
    /// The whole interval lies within it.
    Same,
    /// The whole interval lies above it.
    Slower,
    /// The interval reaches over its end: more rounds would tell.
    CannotTell,
}

/// One figure in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The row's name.
    pub row: String,
    /// Whose.
    #[serde(flatten)]
    pub contender: Contender,
    /// What was measured.
    pub measure: String,
    /// What tables call it.
    pub title: String,
    /// What is compared.
    pub basis: Basis,
    /// In the first run.
    pub before: f64,
    /// In the second run.
    pub after: f64,
    /// The second to the first.
    pub ratio: Estimate,
    /// What that means.
    pub change: Change,
    /// Whether it is palisade's, and so decides.
    pub is_ours: bool,
}

/// What of a figure is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Its ratio to bare.
    RatioToBare,
    /// Itself, for it is no time: any more is more.
    Count,
    /// Itself: it is bare, or there is no bare.
    Itself,
}

/// Two runs compared.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Comparison {
    /// Facts in which the machines differ: name, first run, second run.
    pub differences: Vec<(&'static str, String, String)>,
    /// Each figure that both have.
    pub compared: Vec<Compared>,
    /// Why a run may mislead: what disturbed the machine.
    pub doubts: Vec<String>,
    /// What could not be compared: why, and what.
    pub left_out: Vec<(String, Vec<String>)>,
}

/// Compares each figure that both runs have.
pub fn compare(before: &KeptRun, after: &KeptRun) -> Comparison {
    let differences = differences(&before.environment, &after.environment);
    let mut comparison = Comparison {
        compared: Vec::new(),
        doubts: Vec::new(),
        left_out: Vec::new(),
        differences,
    };
    for row in &before.rows {
        let name = &row.outcome.row;
        match after.rows.iter().find(|other| other.outcome.row == *name) {
            Some(other) => comparison.add_row(row, other),
            None => comparison.leave_out(name, "the second run does not have it"),
        }
    }
    let is_new = |row: &&KeptRow| {
        let mut known = before.rows.iter();
        !known.any(|other| other.outcome.row == row.outcome.row)
    };
    for row in after.rows.iter().filter(is_new) {
        comparison.leave_out(&row.outcome.row, "the first run does not have it");
    }
    comparison
}

/// Kinds of [`Warning`](crate::Warning) after which not even ratios of two runs can be trusted: bare and
/// palisade do not suffer alike.
const DISTURBANCES: [&str; 6] = [
    "machine-busy",
    "time-stolen",
    "swapped",
    "frequency-changed",
    "throttled",
    "debug-build",
];

/// What changes a count of system calls besides palisade itself.
const FOR_COUNTS: [&str; 6] = [
    "build",
    "architecture",
    "user",
    "wall",
    "control groups",
    "system view",
];

fn differences(before: &Environment, after: &Environment) -> Vec<(&'static str, String, String)> {
    let facts = |environment: &Environment| {
        let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "not known".to_owned());
        let user = if environment.uid == 0 {
            "root"
        } else {
            "ordinary"
        };
        [
            ("machine", environment.machine()),
            ("processor", known(&environment.processor)),
            ("processors", environment.processors.to_string()),
            ("kernel", known(&environment.kernel)),
            ("kernel options", environment.kernel_options.join(" ")),
            ("build", environment.build.clone()),
            ("architecture", environment.architecture.clone()),
            ("user", user.to_owned()),
            ("wall", known(&environment.tier)),
            ("control groups", known(&environment.cgroups)),
            ("system view", known(&environment.system_view)),
        ]
    };
    let pairs = facts(before).into_iter().zip(facts(after));
    pairs
        .filter(|((_, before), (_, after))| before != after)
        .map(|((name, before), (_, after))| (name, before, after))
        .collect()
}

impl Comparison {
    /// Whether something of palisade's got slower, or more.
    pub fn is_worse(&self) -> bool {
        self.count(Change::Slower) > 0
    }

    /// How many of palisade's figures changed so.
    pub fn count(&self, change: Change) -> usize {
        let ours = self.compared.iter().filter(|one| one.is_ours);
        ours.filter(|one| one.change == change).count()
    }

    fn leave_out(&mut self, what: &str, why: &str) {
        let known = self.left_out.iter_mut().find(|(other, _)| other == why);
        match known {
            Some((_, all)) => all.push(what.to_owned()),
            None => self.left_out.push((why.to_owned(), vec![what.to_owned()])),
        }
    }

    fn add_row(&mut self, before: &KeptRow, after: &KeptRow) {
        let name = before.outcome.row.clone();
        for (row, which) in [(before, "first"), (after, "second")] {
            if let Some(reason) = &row.outcome.failed {
                self.leave_out(&name, &format!("it failed in the {which} run: {reason}"));
                return;
            }
        }
        let known = after.outcome.figures.iter();
        self.add_doubts("first", before);
        self.add_doubts("second", after);
        for figure in &before.outcome.figures {
            let is_same = |other: &&Figure| {
                other.contender == figure.contender && other.measure == figure.measure
            };
            // One without samples is made of the others.
            if figure.summary.is_none() || figure.measure == VARYING {
                continue;
            }
            let whose = format!("{name}: {}, {}", figure.contender.subject, figure.title());
            if !known.clone().any(|other| is_same(&other)) {
                self.leave_out(&whose, "the second run does not have it");
                continue;
            }
            self.add_figure(&name, &whose, figure, &before.samples, &after.samples);
        }
    }

    /// Nothing disturbs a count.
    fn add_doubts(&mut self, which: &str, row: &KeptRow) {
        if row
            .outcome
            .figures
            .iter()
            .all(|figure| figure.unit == Unit::Count)
        {
            return;
        }
        let disturbs = |doubt: &&Doubt| {
            let kind = doubt.details.get("warning").and_then(|kind| kind.as_str());
            kind.is_some_and(|kind| DISTURBANCES.contains(&kind))
        };
        for doubt in row.outcome.warnings.iter().filter(disturbs) {
            let text = format!("{which} run: {}", doubt.text);
            if !self.doubts.contains(&text) {
                self.doubts.push(text);
            }
        }
    }

    fn add_figure(
        &mut self,
        row: &str,
        whose: &str,
        figure: &Figure,
        before: &Samples,
        after: &Samples,
    ) {
        let basis = basis_of(figure, before, after);
        if let Some(why) = self.why_not(basis) {
            self.leave_out(whose, &why);
            return;
        }
        let series = [before, after].map(|samples| series_of(figure, basis, samples));
        let [before, after] = &series;
        let of = |(ours, bare): &(Vec<f64>, Vec<f64>)| median(&ratios_by_round(ours, bare));
        let ratio = match grown_from_nothing(of(before), of(after)) {
            Some(ratio) => ratio,
            None => estimate_change((&before.0, &before.1), (&after.0, &after.1)),
        };
        if ratio.value.is_nan() {
            self.leave_out(whose, "one of the runs has no rounds of it");
            return;
        }
        self.compared.push(Compared {
            row: row.to_owned(),
            contender: figure.contender.clone(),
            measure: figure.measure.clone(),
            title: figure.title().to_owned(),
            basis,
            before: of(before),
            after: of(after),
            ratio,
            change: match figure.unit.is_rate() {
                true => change_of(&ratio, basis).reversed(),
                false => change_of(&ratio, basis),
            },
            is_ours: is_ours(&figure.contender.subject),
        });
    }

    /// Why figures of that kind say nothing on these two machines.
    fn why_not(&self, basis: Basis) -> Option<String> {
        let matters = |name: &str| match basis {
            Basis::RatioToBare => false,
            Basis::Count => FOR_COUNTS.contains(&name),
            Basis::Itself => true,
        };
        let mut differing = self.differences.iter();
        let (name, before, after) = differing.find(|(name, ..)| matters(name))?;
        let what = match basis {
            Basis::Count => "counts differ by nature",
            Basis::RatioToBare | Basis::Itself => "only ratios to bare can be compared",
        };
        Some(format!(
            "{what}, for {name} was `{before}` and is `{after}`"
        ))
    }
}

/// A call that was never made has no ratio.
fn grown_from_nothing(before: f64, after: f64) -> Option<Estimate> {
    let value = if after > 0.0 { f64::INFINITY } else { 1.0 };
    let is_known = before == 0.0 && after >= 0.0;
    is_known.then_some(Estimate {
        value,
        low: value,
        high: value,
    })
}

fn basis_of(figure: &Figure, before: &Samples, after: &Samples) -> Basis {
    let is_small = figure
        .summary
        .is_none_or(|summary| summary.median < MOST_CALLS);
    if figure.unit == Unit::Count {
        return match is_small {
            true => Basis::Count,
            false => Basis::Itself,
        };
    }
    let bare = bare_of(figure);
    let has_bare = |samples: &Samples| !samples.series(&bare, &figure.measure).is_empty();
    if figure.contender != bare && has_bare(before) && has_bare(after) {
        Basis::RatioToBare
    } else {
        Basis::Itself
    }
}

fn bare_of(figure: &Figure) -> Contender {
    Contender::new(&figure.contender.workload, BARE)
}

/// The figure round by round, and what it is divided by.
fn series_of(figure: &Figure, basis: Basis, samples: &Samples) -> (Vec<f64>, Vec<f64>) {
    let ours = samples.series(&figure.contender, &figure.measure);
    let bare = match basis {
        Basis::RatioToBare => samples.series(&bare_of(figure), &figure.measure),
        Basis::Count | Basis::Itself => vec![1.0; ours.len()],
    };
    (ours, bare)
}

fn change_of(ratio: &Estimate, basis: Basis) -> Change {
    let most = match basis {
        Basis::RatioToBare | Basis::Itself => 1.0 + TOLERANCE,
        // The same program makes the same calls, or it has changed.
        Basis::Count => 1.0,
    };
    let least = 1.0 / most;
    if ratio.low > most {
        Change::Slower
    } else if ratio.high < least {
        Change::Faster
    } else if ratio.low >= least && ratio.high <= most {
        Change::Same
    } else {
        Change::CannotTell
    }
}

impl Change {
    /// Of what is better the more there is of it.
    fn reversed(self) -> Self {
        match self {
            Self::Faster => Self::Slower,
            Self::Slower => Self::Faster,
            Self::Same | Self::CannotTell => self,
        }
    }

    fn in_words(self, basis: Basis) -> &'static str {
        match (self, basis) {
            (Self::Same, _) => "same",
            (Self::CannotTell, _) => "cannot tell",
            (Self::Faster, Basis::Count) => "fewer",
            (Self::Slower, Basis::Count) => "MORE",
            (Self::Faster, _) => "faster",
            (Self::Slower, _) => "SLOWER",
        }
    }
}

const TITLE: &str =
    "Times bare (×) or itself in both runs, and the second to the first with its 95 % interval:";

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.differences.is_empty() {
            writeln!(formatter, "THE RUNS ARE NOT FROM THE SAME CIRCUMSTANCES:")?;
            for (name, before, after) in &self.differences {
                writeln!(formatter, "  {name}: `{before}`, then `{after}`")?;
            }
            writeln!(formatter)?;
        }
        if !self.compared.is_empty() {
            writeln!(formatter, "{TITLE}\n{}", self.table())?;
        }
        for doubt in &self.doubts {
            writeln!(formatter, "{}", wrapped("warning:", doubt))?;
        }
        for (why, what) in &self.left_out {
            let text = format!("{why} ({})", list(what));
            writeln!(formatter, "{}", wrapped("left out:", &text))?;
        }
        writeln!(formatter, "{}", self.verdict())
    }
}

impl Comparison {
    /// Ours row by row; bare and others come last.
    fn table(&self) -> Table {
        let mut table = Table::new(["", "first", "second", "change", "95 %", ""]);
        let mut row = "";
        for one in self.compared.iter().filter(|one| one.is_ours) {
            if one.row != row {
                row = &one.row;
                table.section(row);
            }
            table.line(one.cells(&format!("  {}", one.name())));
        }
        let mut others = self.compared.iter().filter(|one| !one.is_ours).peekable();
        if others.peek().is_some() {
            table.section("no wall and other tools, which decide nothing");
        }
        for one in others {
            table.line(one.cells(&format!("  {} {}", one.row, one.name())));
        }
        table
    }

    /// In a line.
    fn verdict(&self) -> String {
        let [faster, same, slower, unsure] = [
            Change::Faster,
            Change::Same,
            Change::Slower,
            Change::CannotTell,
        ]
        .map(|change| self.count(change));
        let counted =
            format!("{slower} worse, {faster} better, {same} the same, {unsure} uncertain");
        if slower > 0 {
            format!("Something got worse: {counted}.")
        } else if faster + same + unsure == 0 {
            "Nothing was compared.".to_owned()
        } else {
            format!("Nothing got worse: {counted}.")
        }
    }
}

impl Compared {
    fn name(&self) -> String {
        format!("{}, {}", self.title, self.contender.subject)
    }

    fn cells(&self, name: &str) -> [String; 6] {
        const MOST_LETTERS: usize = 46;
        let name = if name.chars().count() > MOST_LETTERS {
            let cut: String = name.chars().take(MOST_LETTERS - 1).collect();
            format!("{cut}…")
        } else {
            name.to_owned()
        };
        let ratio = &self.ratio;
        [
            name,
            self.shown(self.before),
            self.shown(self.after),
            four_figures(ratio.value),
            format!("{}–{}", four_figures(ratio.low), four_figures(ratio.high)),
            self.change.in_words(self.basis).to_owned(),
        ]
    }

    fn shown(&self, value: f64) -> String {
        match self.basis {
            Basis::RatioToBare => format!("{} ×", four_figures(value)),
            Basis::Count => format!("{value}"),
            Basis::Itself => four_figures(value),
        }
    }
}

#[cfg(test)]
mod tests;
