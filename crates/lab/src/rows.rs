//! The rows: what can be measured.

mod boot;
mod conformance;
mod counts;
mod memory;
mod operations;
mod policies;
mod programs;
mod start;
mod sva;
mod syscalls;
mod ukvm;

use crate::{
    Trial, Warning,
    figure::Figure,
    measure::{Schedule, Watched},
    sample::{Contender, Samples},
    subjects::{Bubblewrap, Palisade, Subject},
    table::Table,
    trial::Program,
    workloads::Workloads,
};
use palisade_policy::{Access, FileGrant, Policy};
use palisade_wall::Command;
use std::path::Path;

/// One question about what a wall costs.
pub trait Row: Sync {
    /// What it is called on the command line.
    fn name(&self) -> &'static str;

    /// What it runs, in a line.
    fn about(&self) -> &'static str;

    /// Lays out the workload and makes everyone ready who will run it.
    ///
    /// # Errors
    ///
    /// When palisade does not run here. A peer that does not is left out with a warning.
    fn prepare(&self, tools: &Tools) -> anyhow::Result<Prepared>;

    /// What the samples say, and how to show it. Pure.
    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>);
}

/// Every row there is.
pub fn rows() -> [&'static dyn Row; 13] {
    [
        &start::Start,
        &syscalls::SYSCALLS,
        &conformance::Conformance,
        &ukvm::OPENS,
        &ukvm::BLOCKS,
        &ukvm::THREADS,
        &ukvm::CHECKED_OPENS,
        &ukvm::MEMORY_500,
        &ukvm::MEMORY_1000,
        &sva::BANDWIDTH,
        &sva::APPLICATIONS,
        &boot::Boot,
        &counts::Counts,
    ]
}

/// The row of that name.
pub fn row(name: &str) -> Option<&'static dyn Row> {
    rows().into_iter().find(|row| row.name() == name)
}

/// How much of its work a row does. Less is the same work on smaller inputs, and tables say what was
/// run: figures of different extents are figures of different things. The most comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// What the original did.
    #[default]
    Full,
    /// In a minute at most.
    Quick,
    /// As little as shows that the row runs here: for tests.
    Tiny,
}

/// What rows run workloads in.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The `palisade` that is measured.
    pub palisade: Palisade,
    /// Absent where it is not installed.
    pub bubblewrap: Option<Bubblewrap>,
    /// How much is asked of them.
    pub extent: Extent,
}

/// A row that can begin.
pub struct Prepared {
    /// Who takes part.
    pub trials: Vec<(Contender, Box<dyn Trial>)>,
    /// When to stop.
    pub schedule: Schedule,
    /// Doubts that are there before the first run.
    pub warnings: Vec<Warning>,
    /// The files that the contenders use.
    pub workloads: Workloads,
    /// Keep everything on one processor.
    pub pinned: bool,
}

/// Adds `peer` if it runs here, or the reason why it is left out.
fn try_peer(
    prepared: &mut Prepared,
    contender: Contender,
    peer: Option<&Bubblewrap>,
    make: impl FnOnce(&Bubblewrap) -> anyhow::Result<Box<dyn Trial>>,
) {
    let Some(peer) = peer else {
        let absent = Warning::PeerAbsent {
            peer: "bubblewrap",
            install: Bubblewrap::INSTALL,
        };
        if !prepared.warnings.contains(&absent) {
            prepared.warnings.push(absent);
        }
        return;
    };
    let ran = make(peer).and_then(|mut trial| trial.run_once().map(|_| trial));
    match ran {
        Ok(trial) => {
            prepared.trials.push((contender, trial));
            let lacks = Warning::PeerLacks {
                peer: "bubblewrap",
                lacks: Bubblewrap::LACKS,
            };
            if !prepared.warnings.contains(&lacks) {
                prepared.warnings.push(lacks);
            }
        }
        Err(error) => {
            prepared.warnings.push(Warning::PeerFailed {
                peer: "bubblewrap",
                reason: format!("{error:#}"),
            });
        }
    }
}

/// Watches `measure` of everyone who is not bare.
fn watch_all<'a>(contenders: impl Iterator<Item = &'a Contender>, measure: &str) -> Vec<Watched> {
    contenders
        .filter(|contender| contender.subject != BARE)
        .map(|contender| Watched {
            measure: measure.to_owned(),
            contender: contender.clone(),
            baseline: Contender::new(&contender.workload, BARE),
        })
        .collect()
}

/// The subject that all others are compared with.
const BARE: &str = "bare";

fn program(subject: &dyn Subject, policy: &Policy, command: &Command) -> anyhow::Result<Program> {
    Program::new(&subject.command_line(policy, command))
}

fn grant(access: Access, path: &Path) -> FileGrant {
    FileGrant {
        access,
        host: path.to_owned(),
        guest: None,
    }
}

/// What a row shows of samples, for its tests: the tables as text, which must fit a terminal.
#[cfg(test)]
fn present_on_terminal(row: &dyn Row, samples: &Samples) -> (Vec<Figure>, String) {
    let (figures, tables) = row.present(samples);
    let shown = tables
        .iter()
        .map(|(title, table)| format!("{title}\n{table}\n"));
    let text: String = shown.collect();
    let fits = |line: &str| line.chars().count() <= crate::table::MOST_COLUMNS;
    assert!(text.lines().all(fits), "{text}");
    (figures, text)
}
