//! `palisade run`: plan, launch, relay, report.

mod ask;
pub(super) mod console;
mod denials;
pub(super) mod events;
mod hint;
mod job;
mod line_ends;
mod output;
mod queries;
mod question;
mod relay;
mod report_file;
pub(super) mod signals;
pub(super) mod terminal;

use super::{last, request::Request};
use crate::{args::RunArgs, early, say};
use anyhow::Context;
use denials::Kept;
use palisade_process::{Launcher, Machine, plan::may_start_early};
use palisade_wall::{
    Called, Cause, Error, Prepared, Report, Streams, Surroundings, journal::Journal,
};
use palisade_walls::Plan;
use report_file::ReportFile;
use rustix::{
    fs::OFlags,
    process::{Signal, set_parent_process_death_signal},
};
use std::{
    fs::{File, OpenOptions},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
    sync::Arc,
};

/// Runs a guest to its end; gives the exit code.
pub(crate) fn run(args: RunArgs, early: Option<Launcher>) -> anyhow::Result<u8> {
    if args.untold {
        // Whoever learns from it has made its copies, and takes them away.
        set_parent_process_death_signal(Some(Signal::KILL))
            .context("host: cannot follow its parent")?;
    }
    let outer = find_terminal()?;
    // Found once: the same is looked at and executed.
    let asked_program = args.ask.program()?;
    // The report's file is opened before the guest runs: later it could have put a link in its place.
    let request = Request::new(&args.policy, args.guest, outer.is_some())?
        .with_report(args.report.as_deref())
        .with_watch(args.watch)
        .with_questions(&args.ask, asked_program.as_deref())
        .with_grants(args.grantable)
        .with_events(args.events.as_deref())
        .with_sensitive()?;
    let mut launcher = early
        .filter(|_| may_start_early(&request.policy.limits))
        .unwrap_or_else(|| Launcher::new(Machine::probe()))
        .serve_apart();
    if args.report.is_none() {
        launcher = launcher.tell_early();
    }
    let mut plan = request.plan_on(launcher.machine())?;
    // Before signals are caught: until then they end palisade, however long the compiler takes.
    let prepared = plan.prepare_in_time(&launcher, None)?;
    if let Some(problem) = &prepared.not_kept {
        say::line(&format!(
            "note: host: {problem}; the module is compiled at every start"
        ));
    }
    if let Some(home) = plan.view().writable_home() {
        say::line(&format!(
            "note: policy: all of {} is granted for writing: what the guest puts into .bashrc, .ssh and the like is used outside \
             the wall; grant a folder of it, or say --no-guard if that is meant",
            home.display()
        ));
    }
    let report_file = args.report.as_deref().map(ReportFile::open).transpose()?;
    let is_kept_elsewhere = args.report.is_some() || args.untold;
    let last = (!is_kept_elsewhere && outer.is_some())
        .then(last::open_at_terminal)
        .flatten();
    let journal = args.events.as_deref();
    let journal = journal.map(|to| events::open(to, args.report.as_deref()));
    let journal = journal.transpose()?;
    let asker = ask::Asker::begin(
        &args.ask,
        asked_program.as_deref(),
        args.policy.file.as_deref(),
    )?;
    let (asker, desk) = asker.unzip();
    let mut talks = Talks {
        questions: asker.as_ref().map(ask::Asker::channel),
        desk: desk.flatten(),
        journal: journal.as_ref(),
    };
    let may_fall_back = request.may_lack_namespaces();
    let mut signals = signals::Signals::catch(launcher.has_keeper() && !may_fall_back)
        .context("host: cannot catch signals")?;
    let mut folders = hint::Folders::default();
    let guest = (&plan, &prepared);
    let mut outcome = guard(
        &launcher,
        guest,
        (outer, &mut talks),
        &mut signals,
        &mut folders,
    );
    if may_fall_back && lacks_namespaces(&outcome) {
        // The keeper that made no domain goes: nothing of palisade's stays unconfined beside a guest.
        launcher = launcher.without_namespaces();
        plan = request.plan_on(launcher.machine())?;
        let guest = (&plan, &prepared);
        let outer = find_terminal()?;
        outcome = guard(
            &launcher,
            guest,
            (outer, &mut talks),
            &mut signals,
            &mut folders,
        );
    }
    let outcome = outcome.map_err(|error| hint::name_interpreter(error, &request.command, &plan));
    let outcome = outcome.map(|report| Report {
        called: called(&report.command, &request.surroundings),
        ..report
    });
    match &outcome {
        Ok(report) => {
            say::ending(report);
            say::limits(report);
            if !args.untold {
                let is_hinted = report.exit_code != 0
                    && hint::print(
                        &request.command,
                        &plan,
                        &request.surroundings,
                        Ok((report, &folders)),
                    );
                let kept = Kept::of(report, args.report.as_deref(), last);
                denials::print(report, &kept, args.watch, is_hinted);
            }
            if let Some(file) = report_file {
                file.write(report)?;
            }
        }
        Err(error) => {
            hint::print(&request.command, &plan, &request.surroundings, Err(error));
        }
    }
    let lost = journal.map_or(0, |journal| journal.finish());
    if lost > 0 {
        say::line(&format!(
            "note: host: {lost} events were lost: their reader was too slow, or the file too long"
        ));
    }
    let report = outcome?;
    if let Some(asker) = asker {
        asker.finish(&report)?;
    }
    // As the runtime does at an end of its own.
    let _ = std::io::Write::flush(&mut std::io::stdout());
    // Nothing of the domain is left then, and the guest's processor time counts as this process's children's. What is left is
    // memory, which goes with this process sooner than piece by piece.
    early::end(launcher, report.exit_code)
}

/// Whether any standard stream is a terminal; the guest gets one of its own then.
pub(crate) fn wants_terminal() -> bool {
    terminal::is_wanted()
}

/// The folder, and what stands between `run` and the command.
fn called(command: &[String], surroundings: &Surroundings) -> Option<Called> {
    let words = std::env::args_os().skip(1).skip_while(|word| word != "run");
    let words: Vec<_> = (words.skip(1))
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let count = words.len().checked_sub(command.len())?;
    let mut flags = words[..count].to_vec();
    flags.pop_if(|last| last == "--");
    Some(Called {
        folder: surroundings.cwd.as_ref()?.to_string_lossy().into_owned(),
        flags: without_values(&flags),
    })
}

/// What a variable is set to may be secret.
fn without_values(flags: &[String]) -> Vec<String> {
    let before = std::iter::once("").chain(flags.iter().map(String::as_str));
    let names_one = |before: &str| ["--env", "-e"].contains(&before);
    let words = before.zip(flags).map(|(before, word)| {
        let prefix = match word {
            _ if names_one(before) => "",
            word if word.starts_with("--env=") => "--env=",
            word if word.starts_with("-e") => "-e",
            _ => return word.clone(),
        };
        match word[prefix.len()..].split_once('=') {
            Some((name, _)) => format!("{prefix}{name}=…"),
            None => word.clone(),
        }
    });
    words.collect()
}

fn find_terminal() -> anyhow::Result<Option<terminal::Outer>> {
    terminal::Outer::find().context("host: cannot use the terminal")
}

fn lacks_namespaces(outcome: &anyhow::Result<Report>) -> bool {
    let error = outcome.as_ref().err();
    let error = error.and_then(|error| error.downcast_ref::<Error>());
    error.is_some_and(|error| error.cause() == Cause::NoNamespaces)
}

/// Who is asked about the guest, and told of it.
struct Talks<'a> {
    questions: Option<BorrowedFd<'a>>,
    desk: Option<question::Desk>,
    journal: Option<&'a Arc<Journal>>,
}

fn guard(
    launcher: &Launcher,
    (plan, prepared): (&Plan, &Prepared),
    (outer, talks): (Option<terminal::Outer>, &mut Talks<'_>),
    signals: &mut signals::Signals,
    folders: &mut hint::Folders,
) -> anyhow::Result<Report> {
    let mut output = output::Counted::under(plan.view().output_bytes(), outer.as_ref())
        .context("host: cannot make a pipe")?;
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let streams = Streams {
        stdin: stdin.as_fd(),
        stdout: output.stream(1).unwrap_or_else(|| stdout.as_fd()),
        stderr: output.stream(2).unwrap_or_else(|| stderr.as_fd()),
        terminal: outer.as_ref().map(terminal::Outer::order),
        passed: &[],
        questions: talks.questions,
        journal: talks.journal,
    };
    let domain = plan.launch(prepared, launcher, &streams)?;
    output.let_go_of_guest_ends();
    // The guest runs, and nothing waits for this.
    if plan.is_native() {
        *folders = hint::Folders::open(plan.view());
    }
    domain.confine_supervisor(&folders.iter().collect::<Vec<_>>())?;
    relay::relay(domain, (outer, talks.desk.take()), output, signals)
}

/// A file to be made, a FIFO, or a device.
fn open_output(path: &Path, options: &mut OpenOptions) -> std::io::Result<File> {
    // A guest of an earlier run may have left a link here. Names of open descriptors are links too.
    let is_descriptor = path.starts_with("/dev") || path.starts_with("/proc");
    let no_follow = if is_descriptor {
        OFlags::empty()
    } else {
        OFlags::NOFOLLOW
    };
    // Nor is a FIFO's reader waited for.
    let flags = no_follow | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options
        .write(true)
        .create(true)
        .mode(0o644)
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_are_told_to_nobody() {
        let flags = [
            "--env",
            "A=b=c",
            "-e",
            "D",
            "-eF=g",
            "--env=H=i=j",
            "--read",
            "a=b",
            "--exec=/x",
        ];
        let told = without_values(&flags.map(str::to_owned));
        let expected = [
            "--env",
            "A=…",
            "-e",
            "D",
            "-eF=…",
            "--env=H=…",
            "--read",
            "a=b",
            "--exec=/x",
        ];
        assert_eq!(told, expected);
    }
}
