//! What a journal is told at a domain's end.

use crate::{broker::verdict_on, denials, layout::Layout, seen::Seen};
use palisade_wall::{
    Ending, Process, Report,
    journal::{Entry, Journal, Judgement},
};

/// What nobody could tell of before, and the end.
pub(super) fn tell_of_end(
    journal: &Journal,
    report: &Report,
    (seen, layout): (&Seen, Option<&Layout>),
) {
    seen.network
        .iter()
        .for_each(|one| journal.write(verdict_on(one)));
    for execution in &seen.executions {
        let denial = denials::of_execution(execution, layout);
        journal.write(Entry::Verdict {
            verdict: Judgement::Deny,
            call: "execve".into(),
            target: execution.path.to_string_lossy().into_owned(),
            process: Process::new(0, b""),
            reason: denial.reason,
            grant: denial.grant,
            probe: false,
            count: execution.count,
        });
    }
    for limit in limits(report) {
        let limit = limit.to_owned();
        journal.write(Entry::Limit { limit });
    }
    journal.write(Entry::End {
        exit: report.exit,
        ending: report.ending,
        exit_code: report.exit_code,
    });
}

/// The flags of those that were reached.
fn limits(report: &Report) -> Vec<&str> {
    let ended_by = match report.ending {
        Ending::TimeLimit => Some("--time"),
        Ending::CpuTimeLimit => Some("--cpu-time"),
        Ending::OutputLimit => Some("--output"),
        Ending::MemoryLimit => Some("--memory"),
        Ending::Guest | Ending::Supervisor | Ending::Operator | Ending::Unprotected => None,
    };
    let reached = report.denials.iter();
    let reached = reached.filter_map(|denial| denial.grant.as_deref());
    // A grant has a value behind it.
    let reached = reached.filter(|flag| flag.starts_with("--") && !flag.contains(' '));
    let mut limits: Vec<_> = ended_by.into_iter().collect();
    for limit in reached {
        if !limits.contains(&limit) {
            limits.push(limit);
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_wall::{Command, Denial, Exit, mock::MockWall};

    #[test]
    fn a_limit_is_told_once() {
        let more = |grant: &str| Denial {
            grant: Some(grant.into()),
            ..Denial::default()
        };
        let report = Report {
            ending: Ending::MemoryLimit,
            denials: vec![more("--memory"), more("--read /x"), more("--processes")],
            ..MockWall::new(Exit::Signal(9)).report(&Command::new("guest"))
        };
        assert_eq!(limits(&report), ["--memory", "--processes"]);
    }
}
