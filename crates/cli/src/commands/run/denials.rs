//! What the guest was denied, for a person at a terminal. The report has all of it.

use crate::{commands::last, denial, say};
use palisade_policy::visible;
use palisade_wall::{Denial, Ending, Exit, Report};
use std::{
    fs::File,
    io::{IsTerminal, stderr},
    path::Path,
};

/// As many lines as a person reads.
const MOST_LINES: usize = 5;

/// Where a run's report is afterwards.
pub(super) enum Kept<'a> {
    File(&'a Path),
    /// As that of the last run, which `palisade why` finds.
    Last,
    Nowhere,
}

impl<'a> Kept<'a> {
    /// Of a report that is written to a file or not; as the last one, if it has something to explain.
    pub(super) fn of(report: &Report, file: Option<&'a Path>, last: Option<File>) -> Self {
        let explained = report.denials.iter().any(is_news).then_some(report);
        match (file, last.filter(|_| report.exit_code != 0)) {
            (Some(file), _) => Self::File(file),
            // One that fails for nothing that was denied leaves none: an older one would be taken for its own.
            (None, Some(place)) if last::write(&place, explained) => Self::Last,
            _ => Self::Nowhere,
        }
    }
}

/// Prints the last denials, each with the flag to add, and where they are explained. Nothing if no person reads it and nobody
/// `watched`. Where there is nothing and nobody `hinted` at anything either, what would tell more.
pub(super) fn print(report: &Report, kept: &Kept<'_>, watched: bool, hinted: bool) {
    let is_person = stderr().is_terminal();
    let lines = lines(report, kept);
    if watched || is_person {
        lines.iter().for_each(|text| say::line(text));
    }
    // Whoever has ended it by a signal knows why.
    let has_failed =
        report.ending == Ending::Guest && matches!(report.exit, Exit::Code(code) if code != 0);
    if is_person && has_failed && lines.is_empty() && !watched && !hinted {
        say::line(UNWATCHED);
    }
}

/// Files that a guest did not find are told of where somebody looks.
const UNWATCHED: &str = "note: if it missed a file or folder: palisade run --watch tells which, and palisade learn writes a policy";

fn lines(report: &Report, kept: &Kept<'_>) -> Vec<String> {
    let told: Vec<&Denial> = report
        .denials
        .iter()
        .filter(|denial| is_news(denial))
        .collect();
    let more = told.len().saturating_sub(MOST_LINES);
    let last = told[more..]
        .iter()
        .map(|denial| format!("denied: {}", denial::line(denial)));
    let rest = (more > 0).then(|| match kept {
        Kept::File(_) => format!("denied: and {more} more, which are in the report"),
        Kept::Last => format!("denied: and {more} more"),
        Kept::Nowhere => format!("denied: and {more} more; --report FILE lists them all"),
    });
    let has_failed = !told.is_empty() && report.exit_code != 0;
    last.chain(rest)
        .chain(has_failed.then(|| explained_by(kept)))
        .collect()
}

/// Where all of it is explained.
fn explained_by(kept: &Kept<'_>) -> String {
    let explains = "says what each flag would open, and adds them to a policy";
    match kept {
        Kept::File(file) => {
            let file = denial::quote(&visible(&file.to_string_lossy()));
            format!("`palisade why {file}` {explains}")
        }
        Kept::Last => format!("`palisade why` {explains}"),
        Kept::Nowhere => format!("with --report FILE, `palisade why FILE` {explains}"),
    }
}

/// Limits, which no single process reaches, are told when the guest ends by one; a probe costs the
/// guest nothing.
fn is_news(denial: &Denial) -> bool {
    let is_call = denial.call.is_some() || denial.process.is_some();
    is_call && !denial.probe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::denial::tests::refused;
    use palisade_wall::{Command, Exit, mock::MockWall};

    fn report(denials: Vec<Denial>) -> Report {
        let report = MockWall::new(Exit::Code(7)).report(&Command::new("guest"));
        Report { denials, ..report }
    }

    fn refused_ports(ports: std::ops::Range<u16>) -> Vec<Denial> {
        let refused = |port| refused("connect", &format!("tcp://192.0.2.1:{port}"), "--connect");
        ports.map(refused).collect()
    }

    #[test]
    fn the_last_few_are_printed() {
        assert_eq!(lines(&report(Vec::new()), &Kept::Nowhere), [""; 0]);
        let five = lines(&report(refused_ports(1..6)), &Kept::Nowhere);
        assert_eq!(five.len(), 6);
        let eight = lines(&report(refused_ports(1..9)), &Kept::Nowhere);
        insta::assert_snapshot!(eight.join("\n"), @r"
        denied: a connection to tcp://192.0.2.1:4 (curl): --connect tcp://192.0.2.1:4
        denied: a connection to tcp://192.0.2.1:5 (curl): --connect tcp://192.0.2.1:5
        denied: a connection to tcp://192.0.2.1:6 (curl): --connect tcp://192.0.2.1:6
        denied: a connection to tcp://192.0.2.1:7 (curl): --connect tcp://192.0.2.1:7
        denied: a connection to tcp://192.0.2.1:8 (curl): --connect tcp://192.0.2.1:8
        denied: and 3 more; --report FILE lists them all
        with --report FILE, `palisade why FILE` says what each flag would open, and adds them to a policy
        ");
        let kept = lines(
            &report(refused_ports(1..9)),
            &Kept::File(Path::new("a b.json")),
        );
        assert_eq!(kept[5], "denied: and 3 more, which are in the report");
        insta::assert_snapshot!(kept[6], @"`palisade why 'a b.json'` says what each flag would open, and adds them to a policy");
        let last = lines(&report(refused_ports(1..2)), &Kept::Last);
        assert_eq!(
            last[1],
            "`palisade why` says what each flag would open, and adds them to a policy"
        );
        let well = Report {
            exit_code: 0,
            ..report(refused_ports(1..2))
        };
        assert_eq!(lines(&well, &Kept::Nowhere).len(), 1, "nothing has failed");
    }

    #[test]
    fn limits_and_probes_are_not() {
        let mut denials = refused_ports(1..3);
        denials[0].probe = true;
        denials.push(Denial {
            what: "more time".into(),
            grant: Some("--time".into()),
            ..Denial::default()
        });
        let lines = lines(&report(denials), &Kept::Nowhere);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("192.0.2.1:2"), "{lines:?}");
    }
}
