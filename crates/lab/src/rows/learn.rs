//! `learn`: how much longer than a build it takes to have its policy written.
//!
//! `palisade learn` runs the build at least twice, in copies of its folder: once watched, and once behind the policy that came of
//! it. Its floor is to be told which files the build names, in one run. Beside it strace(1), by which people look at what a build needs, and which writes no policy, and `sandlock learn`, which runs the
//! build once where it is, with no wall, and writes what it saw.

use super::{
    BARE, Extent, Method, Prepared, Tools, ratio_cell,
    watch::{MEASURE, MOST, STRACE, add_trials, lay_out_build, schedule, versions},
};
use crate::{
    Warning,
    figure::{Figure, Target},
    floor::Floor,
    network::Network,
    notation::milliseconds,
    sample::{Contender, Samples},
    subjects::{Bare, Palisade, Subject, on_path, version_by},
    table::Table,
    workloads::Workloads,
};
use palisade_policy::Policy;
use palisade_wall::Command;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

pub(super) struct Learning;

const LEARNT: &str = "palisade learn";
const BUILD: &str = "a build in C";
/// Files that are compiled, in full.
const FILES: usize = 40;

/// The command, learned in the folder that it works in.
struct Learn {
    palisade: Palisade,
    project: PathBuf,
}

impl Subject for Learn {
    fn name(&self) -> &'static str {
        LEARNT
    }

    fn command_line(
        &self,
        _policy: &Policy,
        command: &Command,
        _network: &Network,
        room: &Path,
    ) -> anyhow::Result<Vec<OsString>> {
        let script = "cd \"$1\"; out=$2; shift 2; exec \"$@\"";
        let mut words: Vec<OsString> = ["sh", "-c", script, "sh"].map(Into::into).into();
        words.push(self.project.clone().into());
        words.push(room.into());
        words.push(self.palisade.program().into());
        words.extend(["learn", "--yes", "--force", "--out"].map(Into::into));
        words.push(room.join("learned.toml").into());
        words.push("--".into());
        words.push(command.program.clone());
        words.extend(command.arguments.iter().cloned());
        Ok(words)
    }
}

/// The same by sandlock, which lies there.
struct SandlockLearn(PathBuf);

const SANDLOCK: &str = "sandlock learn";
const SANDLOCK_PROGRAM: &str = "sandlock";

impl Subject for SandlockLearn {
    fn name(&self) -> &'static str {
        SANDLOCK
    }

    fn command_line(
        &self,
        policy: &Policy,
        command: &Command,
        network: &Network,
        room: &Path,
    ) -> anyhow::Result<Vec<OsString>> {
        let mut words: Vec<OsString> = vec![self.0.clone().into(), "learn".into(), "-o".into()];
        words.push(room.join("learned-by-sandlock.toml").into());
        words.push("--".into());
        words.extend(Bare.command_line(policy, command, network, room)?);
        Ok(words)
    }
}

impl Method for Learning {
    fn floor(&self) -> Floor {
        Floor::Names
    }

    fn prepare(&self, tools: &Tools, _budget: std::time::Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        workloads.add_files(0)?;
        let files = match tools.extent {
            Extent::Full => FILES,
            Extent::Quick => FILES / 4,
            Extent::Tiny => 2,
        };
        let arguments = lay_out_build(&workloads, files)?;
        let learn = Learn {
            palisade: tools.palisade.clone(),
            project: workloads.files_folder(),
        };
        let mut prepared = Prepared::new(schedule(), workloads);
        let floor = prepared.workloads.add_floor(self.floor())?;
        let mut subjects: Vec<&dyn Subject> = vec![&Bare, &learn];
        subjects.extend(floor.iter().map(|floor| floor as &dyn Subject));
        let sandlock = on_path(SANDLOCK_PROGRAM).map(SandlockLearn);
        match &sandlock {
            Some(sandlock) => subjects.push(sandlock),
            None => prepared.warnings.push(Warning::ProgramAbsent {
                program: SANDLOCK_PROGRAM,
                install: "cargo install sandlock-cli",
            }),
        }
        add_trials(&mut prepared, BUILD, &subjects, "sh", arguments)?;
        Ok(prepared)
    }

    fn versions(&self) -> Vec<(&'static str, Option<String>)> {
        let mut versions = versions();
        let sandlock = on_path(SANDLOCK_PROGRAM);
        versions.push((
            SANDLOCK_PROGRAM,
            sandlock.and_then(|path| version_by(&path, "--version")),
        ));
        versions
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let learnt = Contender::new(BUILD, LEARNT);
        let to_floor = Figure::to_own_floor(samples, &learnt, MEASURE, None);
        let figures = (samples.contenders().iter()).map(|one| figure(samples, one));
        let figures: Vec<_> = figures.chain(to_floor).collect();
        let title =
            "ms with no wall, and times as much to learn it, under strace, and by sandlock:"
                .to_owned();
        let table = table(&figures);
        (figures, vec![(title, table)])
    }
}

fn figure(samples: &Samples, contender: &Contender) -> Figure {
    let bare = Contender::new(BUILD, BARE);
    let baseline = (*contender != bare).then_some(&bare);
    let target = (contender.subject == LEARNT).then_some(Target::AtMostTimesBare(MOST));
    Figure::of(samples, contender, baseline, MEASURE, target)
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new([
        "", "bare ms", "learn", "95 %", "× floor", "target", "", STRACE, SANDLOCK,
    ]);
    let find = |subject: &str| {
        let contender = Contender::new(BUILD, subject);
        let is_it = |one: &&Figure| one.contender == contender && !one.is_to_floor();
        figures.iter().find(is_it)
    };
    let bare = find(BARE).and_then(|figure| figure.summary.as_ref());
    let learnt = find(LEARNT);
    table.line([
        BUILD.to_owned(),
        bare.map_or_else(String::new, |summary| milliseconds(summary.median)),
        ratio_cell(learnt),
        learnt.map_or_else(String::new, Figure::ratio_interval),
        ratio_cell(figures.iter().find(|one| one.is_to_floor())),
        format!("≤ {MOST}"),
        learnt.map_or_else(String::new, Figure::verdict_cell),
        ratio_cell(find(STRACE)),
        ratio_cell(find(SANDLOCK)),
    ]);
    table
}
