//! `counts`: how many system calls a start takes, until nothing of it is left. A count depends on the
//! policy, the user and what the machine offers a wall, and on no clock: it can be compared between runs where
//! times cannot.
//!
//! strace(1) sees every process of the tree. Its own cost is in no figure, for only calls are counted.

mod trace;

use super::{BARE, Method, PALISADE, Prepared, TO_BE_SET, Tools, grant, policies, try_peers};
use crate::{
    Trial,
    figure::Figure,
    measure::Schedule,
    network::Network,
    program::Program,
    sample::{Contender, Reading, Samples, Unit},
    subjects::{Bare, Subject, on_path},
    table::Table,
    workloads::Workloads,
};
use anyhow::Context;
use palisade_policy::{Access, Policy};
use palisade_wall::Command;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use trace::{Role, read_trace};

pub(super) struct Counts;

const WORKLOAD: &str = "static true";
const ALL_ON: &str = "palisade run, all on";
const BUBBLEWRAP: &str = "bubblewrap";
/// Each with the title of its column.
const COLUMNS: [(&str, &str); 4] = [
    (BARE, "bare"),
    (PALISADE, "palisade"),
    (ALL_ON, "all on"),
    (BUBBLEWRAP, "bwrap"),
];

/// All that do not vary.
const ALL: &str = "all";
/// Those whose number depends on who is first, and on what the host has: it is a sign of nothing.
pub(crate) const VARYING: &str = "varying";
/// Of the whole tree, the program's own too.
const INSTRUCTIONS: &str = "instructions";
/// Before the name of a system call.
const CALL: &str = "call: ";

impl Method for Counts {
    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let strace = on_path("strace")
            .context("host: strace is not installed, which counts: apt-get install strace")?;
        let workloads = Workloads::new()?;
        workloads.add_files(1)?;
        let command = Command::new(workloads.add_true()?);
        let perf =
            on_path("perf").filter(|perf| count_instructions(perf, &["true".into()]).is_ok());
        let traces = workloads.folder().join("traces");
        let mut default = Policy::default();
        default.grants.files = vec![grant(Access::Read, workloads.folder())];
        let all_on = policies::everything_on(&workloads);
        let mut prepared = Prepared {
            // Fewer races between the wall's own processes.
            pinned: true,
            ..Prepared::new(schedule(), workloads)
        };
        let room = prepared.workloads.folder().to_owned();
        let traced = |subject: &dyn Subject, policy: &Policy| -> anyhow::Result<_> {
            Ok(TracedProgram {
                strace: strace.clone().into(),
                perf: perf.clone(),
                command_line: subject.command_line(policy, &command, &Network::None, &room)?,
                traces: traces.clone(),
            })
        };
        let ours: [(&str, &dyn Subject, &Policy); 3] = [
            (BARE, &Bare, &default),
            (PALISADE, &tools.palisade, &default),
            (ALL_ON, &tools.palisade, &all_on),
        ];
        for (name, subject, policy) in ours {
            let contender = Contender::new(WORKLOAD, name);
            let trial = traced(subject, policy)?;
            prepared.trials.push((contender, Box::new(trial)));
        }
        let tools = &tools.for_long_row();
        try_peers(&mut prepared, tools, WORKLOAD, &command, |peer| {
            traced(peer, &default)
        });
        Ok(prepared)
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders().iter();
        let figures: Vec<Figure> = contenders
            .flat_map(|contender| figures_of(samples, contender))
            .collect();
        let tables = vec![
            (
                "System calls of a start and its end, by who makes them, median of the rounds:"
                    .to_owned(),
                role_table(&figures),
            ),
            (
                "The most frequent of them:".to_owned(),
                call_table(&figures),
            ),
        ];
        (figures, tables)
    }
}

/// Nearly every run is like the other; the median is over those that are not.
fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 1,
        least_rounds: 7,
        most_rounds: 7,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.0,
        watched: Vec::new(),
    }
}

/// A run whose calls are written down, one file a process, and another whose instructions are counted.
struct TracedProgram {
    strace: OsString,
    /// Absent where it is not installed or this user may not count.
    perf: Option<PathBuf>,
    command_line: Vec<OsString>,
    traces: PathBuf,
}

impl Trial for TracedProgram {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        fs::create_dir_all(&self.traces).context("host: no room for traces")?;
        let mut words = vec![self.strace.clone()];
        words.extend(["-ff", "-qq", "-e", "signal=none", "-o"].map(OsString::from));
        words.push(self.traces.join("of").into());
        words.extend(self.command_line.iter().cloned());
        Program::new(&words)?.run()?;
        let mut texts = Vec::new();
        for entry in fs::read_dir(&self.traces).context("strace left no traces")? {
            let path = entry.context("strace left no traces")?.path();
            texts.push(fs::read(&path).context("strace left no traces")?);
        }
        fs::remove_dir_all(&self.traces).context("host: cannot remove traces")?;
        let texts: Vec<_> = texts
            .iter()
            .map(|text| String::from_utf8_lossy(text))
            .collect();
        let mut readings = readings(&texts);
        if let Some(perf) = &self.perf {
            let count = count_instructions(perf, &self.command_line)?;
            readings.push(Reading::one_count(INSTRUCTIONS, count));
        }
        Ok(readings)
    }
}

/// What the processor says: of programs and libraries of the whole tree, without the kernel's.
fn count_instructions(perf: &Path, command_line: &[OsString]) -> anyhow::Result<u64> {
    let report = tempfile::NamedTempFile::new().context("host: no room for a report")?;
    let mut words: Vec<OsString> = vec![perf.into()];
    words.extend(["stat", "-x,", "-e", "instructions:u", "-o"].map(OsString::from));
    words.push(report.path().into());
    words.push("--".into());
    words.extend(command_line.iter().cloned());
    Program::new(&words)?.run()?;
    let text = fs::read_to_string(report.path()).context("perf left no report")?;
    read_instructions(&text).with_context(|| format!("perf counted nothing: {text}"))
}

/// `570996,,instructions:u,…`, after remarks.
fn read_instructions(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("instructions"))?;
    line.split(',').next()?.parse().ok()
}

/// Calls that are made once more or not at all, as it happens: the keeper's waiting for two ends of which
/// either comes first, an end that comes before the call for it, and the growth of the command's heap, which goes by how much
/// the host has: one mount more is two calls.
fn varies(role: Role, call: &str) -> bool {
    match call {
        "exit_group" | "exit" | "restart_syscall" => true,
        "brk" => role == Role::Command,
        "kill" | "ppoll" | "read" | "wait4" => role == Role::Keeper,
        _ => false,
    }
}

fn readings(texts: &[impl AsRef<str>]) -> Vec<Reading> {
    let is_alone = texts.len() == 1;
    let mut of_role: BTreeMap<Role, u64> = BTreeMap::new();
    let mut of_call: BTreeMap<&str, u64> = BTreeMap::new();
    let mut varying = 0;
    for text in texts {
        let trace = read_trace(text.as_ref(), is_alone);
        for call in trace.calls {
            if varies(trace.role, call) {
                varying += 1;
            } else {
                *of_role.entry(trace.role).or_default() += 1;
                *of_call.entry(call).or_default() += 1;
            }
        }
    }
    let mut readings = vec![Reading::one_count(ALL, of_role.values().sum())];
    readings.extend(
        of_role
            .iter()
            .map(|(role, count)| Reading::one_count(role.key(), *count)),
    );
    readings.push(Reading::one_count(VARYING, varying));
    readings.extend(
        of_call
            .iter()
            .map(|(call, count)| Reading::one_count(&format!("{CALL}{call}"), *count)),
    );
    readings
}

fn figures_of(samples: &Samples, contender: &Contender) -> Vec<Figure> {
    let figure =
        |measure: &&str| Figure::of(samples, contender, None, (measure, Unit::Count), None);
    samples.measures(contender).iter().map(figure).collect()
}

fn role_table(figures: &[Figure]) -> Table {
    let columns = columns(figures);
    let mut table = new_table(&columns);
    let roles = Role::ALL.map(|role| (role.key(), role.title()));
    let sums = [
        (ALL, "all of them"),
        (VARYING, "and such as vary, about"),
        (INSTRUCTIONS, "instructions, the program's too"),
    ];
    for (key, title) in roles.into_iter().chain(sums) {
        let cells = columns
            .iter()
            .map(|(subject, _)| cell(figures, subject, key));
        table.line(std::iter::once(title.to_owned()).chain(cells));
    }
    table
}

/// How many calls the table names; all of them are in the samples.
const MOST_CALLS: usize = 15;

fn call_table(figures: &[Figure]) -> Table {
    let columns = columns(figures);
    let mut table = new_table(&columns);
    let of_palisade = figures
        .iter()
        .filter(|figure| figure.contender.subject == PALISADE);
    let mut calls: Vec<(f64, &str)> = of_palisade
        .filter_map(|figure| Some((figure.summary?.median, figure.measure.strip_prefix(CALL)?)))
        .collect();
    calls.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
    for (_, call) in calls.into_iter().take(MOST_CALLS) {
        let key = format!("{CALL}{call}");
        let cells = columns
            .iter()
            .map(|(subject, _)| cell(figures, subject, &key));
        table.line(std::iter::once(call.to_owned()).chain(cells));
    }
    table
}

/// Those who took part.
fn columns(figures: &[Figure]) -> Vec<(&'static str, &'static str)> {
    let takes_part = |subject: &str| figures.iter().any(|one| one.contender.subject == subject);
    let columns = COLUMNS.into_iter();
    columns.filter(|(subject, _)| takes_part(subject)).collect()
}

fn new_table(columns: &[(&'static str, &'static str)]) -> Table {
    Table::new(std::iter::once("").chain(columns.iter().map(|(_, title)| *title)))
}

fn cell(figures: &[Figure], subject: &str, measure: &str) -> String {
    let is_it = |one: &&Figure| one.contender.subject == subject && one.measure == measure;
    let summary = figures.iter().find(is_it).and_then(|figure| figure.summary);
    summary.map_or_else(String::new, |summary| format!("{:.0}", summary.median))
}

#[cfg(test)]
mod tests;
