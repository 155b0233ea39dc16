//! `watch`: what it costs to be told which files a program asks for.
//!
//! The worst there is, a program that does nothing but name files; and a build, in which compilers are started, look for
//! headers and write. Beside them strace(1), by which people look at the same without any wall, and the floor: somebody who is told of each
//! name and does nothing with it.

use super::{
    BARE, Extent, Method, PALISADE, Prepared, TO_BE_SET, Tools, policies, ratio_cell, watch_all,
};
use crate::{
    Warning,
    figure::{Figure, Target},
    floor::Floor,
    measure::Schedule,
    network::Network,
    notation::milliseconds,
    program::Program,
    sample::{Contender, Samples, Unit},
    subjects::{Bare, Subject, on_path, version_by},
    table::Table,
    trial::TimedProgram,
    workloads::Workloads,
};
use palisade_policy::Policy;
use palisade_wall::Command;
use std::{ffi::OsString, path::Path};

pub(super) struct Watching;

pub(super) const WALL: &str = "wall";
pub(super) const MEASURE: (&str, Unit) = (WALL, Unit::Microseconds);
const WATCHED: &str = "palisade run --watch";
pub(super) const STRACE: &str = "strace -f";
const STRACE_PROGRAM: &str = "strace";
/// The most that a build may take.
pub(super) const MOST: f64 = 3.0;

/// One line of the table.
struct Job {
    title: &'static str,
    program: &'static str,
    /// How often what it does is done, in full.
    times: usize,
    /// Lays out so many; gives the arguments.
    lay_out: fn(&Workloads, usize) -> anyhow::Result<Vec<OsString>>,
    target: Option<Target>,
}

const JOBS: [Job; 2] = [
    Job {
        title: "stat, again and again",
        program: "perl",
        times: 100_000,
        lay_out: |_, times| {
            let code = format!("for (1..{times}) {{ stat '/usr/bin/env' or die }}");
            Ok(vec!["-e".into(), code.into()])
        },
        target: None,
    },
    Job {
        title: "a build in C",
        program: "sh",
        times: 40,
        lay_out: lay_out_build,
        target: Some(Target::AtMostTimesBare(MOST)),
    },
];

/// Compiles so many files and links them.
pub(super) fn lay_out_build(workloads: &Workloads, files: usize) -> anyhow::Result<Vec<OsString>> {
    let folder = workloads.files_folder();
    for number in 0..files {
        let code = format!(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
             int part_{number}(const char *text) {{ return printf(\"%zu %d\\n\", strlen(text), getpid()); }}\n"
        );
        workloads.add_source(&format!("{number}.c"), &code)?;
    }
    let folder = folder.display();
    let script = format!(
        "export PATH=/usr/bin:/bin; set -e; cd {folder}; for one in *.c; do gcc -O1 -c -o ${{one%.c}}.o $one; done; \
         gcc -shared -o all.so *.o; rm -f *.o all.so"
    );
    Ok(vec!["-c".into(), script.into()])
}

/// Writes down each call that names a file, of all processes.
struct Strace;

impl Subject for Strace {
    fn name(&self) -> &'static str {
        STRACE
    }

    fn command_line(
        &self,
        policy: &Policy,
        command: &Command,
        network: &Network,
        room: &Path,
    ) -> anyhow::Result<Vec<OsString>> {
        let strace = [
            STRACE_PROGRAM,
            "-f",
            "-qq",
            "-e",
            "trace=file",
            "-o",
            "/dev/null",
        ];
        let bare = Bare.command_line(policy, command, network, room)?;
        Ok(strace.into_iter().map(Into::into).chain(bare).collect())
    }
}

impl Method for Watching {
    fn floor(&self) -> Floor {
        Floor::Names
    }

    fn prepare(&self, tools: &Tools, _budget: std::time::Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        workloads.add_files(0)?;
        let mut prepared = Prepared::new(schedule(), workloads);
        let watched = tools.palisade.with_watch();
        let floor = prepared.workloads.add_floor(self.floor())?;
        let mut subjects: Vec<&dyn Subject> = vec![&Bare, &tools.palisade, &watched];
        subjects.extend(floor.iter().map(|floor| floor as &dyn Subject));
        for job in &JOBS {
            let arguments = (job.lay_out)(&prepared.workloads, job.times_of(tools.extent))?;
            add_trials(&mut prepared, job.title, &subjects, job.program, arguments)?;
        }
        Ok(prepared)
    }

    fn versions(&self) -> Vec<(&'static str, Option<String>)> {
        versions()
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders().iter();
        let to_floor = contenders.clone().filter(|one| one.subject == WATCHED);
        let to_floor = to_floor.filter_map(|one| Figure::to_own_floor(samples, one, MEASURE, None));
        let figures = contenders.map(|one| figure(samples, one));
        let figures: Vec<_> = figures.chain(to_floor).collect();
        let title =
            "ms with no wall, and times as much behind it, watched, and under strace:".to_owned();
        let table = table(&figures);
        (figures, vec![(title, table)])
    }
}

impl Job {
    fn times_of(&self, extent: Extent) -> usize {
        let part = match extent {
            Extent::Full => 1,
            Extent::Quick => 4,
            Extent::Tiny => 20,
        };
        self.times / part
    }
}

/// Has each of them run this program, and strace where it is installed.
pub(super) fn add_trials(
    prepared: &mut Prepared,
    title: &'static str,
    subjects: &[&dyn Subject],
    program: &'static str,
    arguments: Vec<OsString>,
) -> anyhow::Result<()> {
    let found = on_path(program);
    let found = found.ok_or_else(|| anyhow::anyhow!("host: {program} is not installed"))?;
    let command = Command {
        program: found.into(),
        arguments,
    };
    let strace = on_path(STRACE_PROGRAM).map(|_| &Strace as &dyn Subject);
    let without = Warning::ProgramAbsent {
        program: STRACE_PROGRAM,
        install: "apt-get install strace",
    };
    if strace.is_none() && !prepared.warnings.contains(&without) {
        prepared.warnings.push(without);
    }
    let policy = policies::writing(&prepared.workloads);
    for subject in subjects.iter().copied().chain(strace) {
        let trial = TimedProgram(Program::in_subject(subject, &policy, &command)?);
        let contender = Contender::new(title, subject.name());
        prepared.trials.push((contender, Box::new(trial)));
    }
    let contenders = prepared.trials.iter().map(|(contender, _)| contender);
    prepared.schedule.watched = watch_all(contenders, WALL);
    Ok(())
}

pub(super) fn versions() -> Vec<(&'static str, Option<String>)> {
    let version = |program: &'static str| {
        let found = on_path(program);
        let version = found.and_then(|path| version_by(&path, "--version"));
        (program, version)
    };
    [STRACE_PROGRAM, "gcc"].map(version).into()
}

pub(super) fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 1,
        least_rounds: 6,
        most_rounds: 500,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.01,
        watched: Vec::new(),
    }
}

fn figure(samples: &Samples, contender: &Contender) -> Figure {
    let bare = Contender::new(&contender.workload, BARE);
    let baseline = (*contender != bare).then_some(&bare);
    let job = JOBS.iter().find(|job| job.title == contender.workload);
    let is_watched = contender.subject == WATCHED;
    let target = job.filter(|_| is_watched).and_then(|job| job.target);
    Figure::of(samples, contender, baseline, MEASURE, target)
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new([
        "", "bare ms", "palisade", "watched", "95 %", "× floor", "target", "", STRACE,
    ]);
    for job in &JOBS {
        let find = |subject: &str| {
            let contender = Contender::new(job.title, subject);
            let is_it = move |one: &&Figure| one.contender == contender;
            figures.iter().filter(is_it)
        };
        let find_own = |subject: &str| find(subject).find(|one| !one.is_to_floor());
        let bare = find_own(BARE).and_then(|figure| figure.summary.as_ref());
        let watched = find_own(WATCHED);
        table.line([
            job.title.to_owned(),
            bare.map_or_else(String::new, |summary| milliseconds(summary.median)),
            ratio_cell(find_own(PALISADE)),
            ratio_cell(watched),
            watched.map_or_else(String::new, Figure::ratio_interval),
            ratio_cell(find(WATCHED).find(|one| one.is_to_floor())),
            job.target.map_or_else(String::new, |_| format!("≤ {MOST}")),
            watched.map_or_else(String::new, Figure::verdict_cell),
            ratio_cell(find_own(STRACE)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{figure::FLOOR, rows::present_on_terminal, sample::Reading};

    #[test]
    fn the_table_fits_a_terminal() {
        let subjects = [BARE, PALISADE, WATCHED, FLOOR, STRACE];
        let contenders = JOBS
            .iter()
            .flat_map(|job| subjects.map(|one| Contender::new(job.title, one)));
        let mut samples = Samples::new(contenders.collect());
        for round in 0..20 {
            let of_stat = [90e3, 92e3, 1800e3, 1500e3, 4100e3];
            let of_build = [1210e3, 1250e3, 1600e3, 1480e3, 3100e3];
            let of_round = of_stat.into_iter().chain(of_build);
            let of_round = of_round.map(|us| vec![Reading::one_us(WALL, us + f64::from(round))]);
            samples.push_round(of_round.collect());
        }
        let (_, text) = present_on_terminal(&Watching, &samples);
        insta::assert_snapshot!(text);
    }
}
