//! `mk-1`: a suite of somebody else's tests, run with no wall and behind it. The two lists of results must
//! be equal.
//!
//! What the wall denies on purpose is denied outside too: there is no network on either side. Inside, the
//! policy is what the suite's own user would grant: its files to read, one folder to write, execute and
//! make sockets in, sockets in the private `/tmp`, and terminals of its own.

mod results;
mod suites;

use super::{BARE, Method, PALISADE, Prepared, TO_BE_SET, Tools, grant};
use crate::{
    Trial, Warning,
    figure::{Figure, Target, Verdict},
    measure::Schedule,
    program::Program,
    sample::{Contender, Reading, Samples, Unit},
    statistics::Summary,
    subjects::{Bare, Palisade},
    table::Table,
    workloads::Workloads,
};
use anyhow::{Context, ensure};
use palisade_policy::{Access, DeviceGrant, Policy};
use palisade_wall::Command;
use results::{Comparison, Outcome, Results, compare};
use rustix::process::geteuid;
use std::{
    ffi::OsString,
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};
use suites::{SAID, SUITES, Suite};

pub(super) struct Conformance;

const TESTS: &str = "tests";
const PASSED: &str = "passed";
const DIFFERENCES: &str = "differences";
const UNSTABLE: &str = "unstable";
/// Before the name of a test, in samples.
const TEST: &str = "test: ";

/// A run that takes longer than that hangs.
const MOST_SECONDS: &str = "120";

/// Who guests of root are outside, and the program that is run with no wall.
const NOBODY: u32 = 65534;

impl Method for Conformance {
    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let mut prepared = Prepared::new(schedule(), Workloads::new()?);
        let offline = Rc::new(prepared.workloads.add_offline()?);
        let in_time = |suite: &&Suite| tools.extent <= suite.least;
        for suite in SUITES.iter().filter(in_time) {
            let Some(script) = (suite.script)(&prepared.workloads, tools.extent)? else {
                prepared.warnings.push(Warning::ProgramAbsent {
                    program: suite.title,
                    install: suite.install,
                });
                continue;
            };
            let script = prepared.workloads.add_script(suite.title, &script)?;
            for wall in [None, Some(tools.palisade.clone())] {
                let subject = wall.as_ref().map_or(BARE, |_| PALISADE);
                let run = SuiteRun {
                    suite,
                    script: script.clone(),
                    wall,
                    offline: Rc::clone(&offline),
                    homes: prepared.workloads.folder().join("h"),
                    number: 0,
                };
                prepared
                    .trials
                    .push((Contender::new(suite.title, subject), Box::new(run)));
            }
        }
        ensure!(
            !prepared.trials.is_empty(),
            "none of the row's suites is installed"
        );
        Ok(prepared)
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let (mut figures, mut compared) = (Vec::new(), Vec::new());
        for suite in &SUITES {
            let [bare, ours] = [BARE, PALISADE].map(|one| Contender::new(suite.title, one));
            if !samples.contenders().contains(&bare) {
                continue;
            }
            let comparison = compare(&lists(samples, &bare), &lists(samples, &ours));
            for contender in [&bare, &ours] {
                let figure =
                    |measure| Figure::of(samples, contender, None, (measure, Unit::Count), None);
                figures.extend([TESTS, PASSED].map(figure));
            }
            figures.extend(comparison_figures(&ours, &comparison));
            compared.push((suite.title, comparison));
        }
        let tables = vec![
            (
                "Tests that pass, of all, with no wall and behind palisade; neither has a network:"
                    .to_owned(),
                table(&figures, &compared),
            ),
            (
                "Tests that end otherwise behind palisade:".to_owned(),
                differences_table(&compared),
            ),
            (
                "Tests that do not always end alike with no wall, and say nothing:".to_owned(),
                unstable_table(&compared),
            ),
        ];
        (figures, tables)
    }
}

/// Each suite twice on each side: what differs outside alone is no difference.
fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 0,
        least_rounds: 2,
        most_rounds: 2,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.0,
        watched: Vec::new(),
    }
}

/// A suite and what is around it.
struct SuiteRun {
    suite: &'static Suite,
    script: PathBuf,
    /// `None` is no wall.
    wall: Option<Palisade>,
    offline: Rc<PathBuf>,
    homes: PathBuf,
    /// How often it has run.
    number: usize,
}

impl Trial for SuiteRun {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        self.number += 1;
        let home = self.make_home()?;
        let mut program = match &self.wall {
            None => Program::in_subject(&Bare, &Policy::default(), &self.offline_command(&home))?,
            Some(palisade) => {
                Program::in_subject(palisade, &self.policy(&home), &self.command(&home))?
            }
        };
        program.run()?;
        let results = (self.suite.results)(&home).with_context(|| last_words(&home))?;
        // Tests leave folders behind that their owner may not read; all goes with the workloads at last.
        let _ = fs::remove_dir_all(&home);
        Ok(readings(&results))
    }
}

impl SuiteRun {
    /// An empty folder. Its path is short and equally long on both sides: sockets have no room for more
    /// than 107 bytes.
    fn make_home(&self) -> anyhow::Result<PathBuf> {
        let side = if self.wall.is_some() { "i" } else { "o" };
        let of_suite = self.suite.title.get(..1).unwrap_or_default();
        let home = self.homes.join(format!("{of_suite}{side}{}", self.number));
        let made = fs::create_dir_all(&home).and_then(|()| {
            fs::set_permissions(&home, fs::Permissions::from_mode(0o755))?;
            match geteuid().is_root() {
                true => chown(&home, Some(NOBODY), Some(NOBODY)),
                false => Ok(()),
            }
        });
        made.with_context(|| format!("host: cannot make {}", home.display()))?;
        Ok(home)
    }

    fn policy(&self, home: &Path) -> Policy {
        let mut policy = Policy::default();
        let folder = self.homes.parent().unwrap_or(&self.homes);
        policy.grants.files = vec![
            grant(Access::Read, folder),
            grant(Access::Write, home),
            grant(Access::Exec, home),
            grant(Access::Ipc, home),
            // The private one takes sockets by itself, but not where a folder of the host lies below it, as
            // the suite's does. Java attaches to itself by one.
            grant(Access::Ipc, Path::new("/tmp")),
        ];
        policy.grants.devices = vec![DeviceGrant { path: "pts".into() }];
        policy
    }

    /// The same environment on both sides, and nothing but a file to write to.
    fn command(&self, home: &Path) -> Command {
        let run =
            format!("cd \"$HOME\"; timeout -k 5 {MOST_SECONDS} /bin/sh \"$1\" >{SAID} 2>&1; true");
        Command {
            program: "/usr/bin/env".into(),
            arguments: vec![
                "-i".into(),
                "PATH=/usr/bin:/bin".into(),
                "LANG=C.UTF-8".into(),
                assignment("HOME", home),
                assignment("TMPDIR", home),
                "/bin/sh".into(),
                "-c".into(),
                run.into(),
                "sh".into(),
                self.script.clone().into(),
            ],
        }
    }

    fn offline_command(&self, home: &Path) -> Command {
        let inner = self.command(home);
        let mut arguments = vec![inner.program];
        arguments.extend(inner.arguments);
        Command {
            program: self.offline.as_os_str().to_owned(),
            arguments,
        }
    }
}

/// `NAME=VALUE`.
fn assignment(name: &str, value: &Path) -> OsString {
    let mut word = OsString::from(format!("{name}="));
    word.push(value);
    word
}

fn last_words(home: &Path) -> String {
    let said = fs::read(home.join(SAID)).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().last().unwrap_or("nothing");
    format!("the suite said last: {last}")
}

fn readings(results: &Results) -> Vec<Reading> {
    let passed = results
        .values()
        .filter(|one| **one == Outcome::Passed)
        .count();
    let mut readings = vec![
        Reading::one_count(TESTS, results.len() as u64),
        Reading::one_count(PASSED, passed as u64),
    ];
    readings.extend(results.iter().map(|(name, outcome)| Reading {
        measure: format!("{TEST}{name}"),
        unit: Unit::Outcome,
        values: vec![outcome.code()],
    }));
    readings
}

/// The list of each run.
fn lists(samples: &Samples, contender: &Contender) -> Vec<Results> {
    let test = |reading: &Reading| {
        let name = reading.measure.strip_prefix(TEST)?.to_owned();
        Some((name, Outcome::of_code(*reading.values.first()?)))
    };
    let runs = samples.runs(contender);
    runs.map(|run| run.iter().filter_map(test).collect())
        .collect()
}

fn comparison_figures(contender: &Contender, comparison: &Comparison) -> [Figure; 2] {
    let figure = |measure: &str, count: usize| Figure {
        contender: contender.clone(),
        measure: measure.to_owned(),
        title: None,
        unit: Unit::Count,
        summary: Some(Summary::of(&[count as f64])),
        against: None,
        ratio: None,
        difference: None,
        target: None,
        floor: None,
        verdict: None,
    };
    let differences = comparison.differences.len();
    [
        Figure {
            target: Some(Target::AtMost(0.0)),
            verdict: Some(if differences == 0 {
                Verdict::Pass
            } else {
                Verdict::Short
            }),
            ..figure(DIFFERENCES, differences)
        },
        figure(UNSTABLE, comparison.unstable.len()),
    ]
}

fn table(figures: &[Figure], compared: &[(&str, Comparison)]) -> Table {
    let mut table = Table::new(["", "outside", "inside", "unlike", "target", "", "unstable"]);
    for (title, comparison) in compared {
        let find = |subject: &str, measure: &str| {
            let contender = Contender::new(title, subject);
            figures
                .iter()
                .find(|one| one.contender == contender && one.measure == measure)
        };
        let count = |subject: &str, measure: &str| {
            let summary = find(subject, measure).and_then(|figure| figure.summary);
            summary.map_or_else(String::new, |summary| format!("{:.0}", summary.median))
        };
        let cell = |subject| format!("{} of {}", count(subject, PASSED), count(subject, TESTS));
        table.line([
            (*title).to_owned(),
            cell(BARE),
            cell(PALISADE),
            comparison.differences.len().to_string(),
            "0".to_owned(),
            find(PALISADE, DIFFERENCES).map_or_else(String::new, Figure::verdict_cell),
            comparison.unstable.len().to_string(),
        ]);
    }
    table.line([
        "µKVM: mauve io, net, thread",
        "1109 of 1126",
        "1098 of 1116",
    ]);
    table
}

/// The most tests that a table names; all of them are in the samples.
const MOST_NAMED: usize = 40;
/// The most columns that a name takes.
const NAME_COLUMNS: usize = 72;

fn differences_table(compared: &[(&str, Comparison)]) -> Table {
    let mut table = Table::new(["", "outside", "inside"]);
    for (title, comparison) in compared {
        let line = |(name, outside, inside): &(String, Outcome, Outcome)| {
            vec![name.clone(), outside.to_string(), inside.to_string()]
        };
        add_names(&mut table, title, comparison.differences.iter().map(line));
    }
    table
}

fn unstable_table(compared: &[(&str, Comparison)]) -> Table {
    let mut table = Table::new(["", "outside"]);
    for (title, comparison) in compared {
        let line = |(name, outcomes): &(String, Vec<Outcome>)| {
            let outcomes: Vec<_> = outcomes.iter().map(ToString::to_string).collect();
            vec![name.clone(), outcomes.join(", ")]
        };
        add_names(&mut table, title, comparison.unstable.iter().map(line));
    }
    table
}

fn add_names(table: &mut Table, title: &str, lines: impl ExactSizeIterator<Item = Vec<String>>) {
    let more = lines.len().saturating_sub(MOST_NAMED);
    table.section(&format!(
        "{title}{}",
        if lines.len() == 0 { ": none" } else { "" }
    ));
    for mut line in lines.take(MOST_NAMED) {
        line[0] = format!("  {}", shortened(&line[0]));
        table.line(line);
    }
    if more > 0 {
        table.section(&format!("  and {more} more, which the samples name"));
    }
}

/// The end of a name tells more than its beginning.
fn shortened(name: &str) -> String {
    let length = name.chars().count();
    if length <= NAME_COLUMNS {
        return name.to_owned();
    }
    let end: String = name.chars().skip(length - NAME_COLUMNS + 1).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests;
