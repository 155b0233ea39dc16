//! What would have allowed what was denied: flags for a command line, lines for a policy.
//!
//! A guest chose what it tried. So each value is read as a policy reads it; what cannot be read so, or acts on a terminal, is no
//! remedy.

use super::opens;
use crate::denial;
use palisade_policy::{ConnectGrant, ListenGrant, visible};
use palisade_wall::Report;
use std::path::Path;

/// A flag, the key of a policy's `[grants]` that says the same, and whether it has such a value.
type Kind = (&'static str, &'static str, fn(&str) -> bool);

const KINDS: [Kind; 3] = [
    ("--connect", "connect", |value| {
        value.parse::<ConnectGrant>().is_ok()
    }),
    ("--listen", "listen", |value| {
        value.parse::<ListenGrant>().is_ok()
    }),
    ("--exec", "exec", |value| Path::new(value).is_absolute()),
];

/// A grant that a guest missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missed<'a> {
    /// As the report has it: flag and value.
    grant: &'a str,
    pub(super) key: &'static str,
    pub(super) value: &'a str,
}

impl<'a> Missed<'a> {
    fn read(grant: &'a str) -> Option<Self> {
        let (flag, value) = grant.split_once(' ')?;
        let (_, key, is_one) = KINDS.iter().find(|(known, _, _)| *known == flag)?;
        (is_one(value) && visible(value) == value).then_some(Self { grant, key, value })
    }

    /// What it would open.
    pub(super) fn opened(&self) -> String {
        opens::describe(self.grant).unwrap_or_else(|| self.value.to_owned())
    }
}

/// The grants that would have allowed what a report tells of, each once. What costs a guest nothing is none.
pub(super) fn missed(report: &Report) -> Vec<Missed<'_>> {
    let lost = report.denials.iter().filter(|denial| !denial.probe);
    let grants = lost.filter_map(|denial| Missed::read(denial.grant.as_deref()?));
    let mut all: Vec<Missed<'_>> = Vec::new();
    for grant in grants {
        if !all.contains(&grant) {
            all.push(grant);
        }
    }
    all
}

/// All of it on two lines, as it can be copied; nothing where there is no remedy.
pub(super) fn describe(missed: &[Missed<'_>]) -> String {
    if missed.is_empty() {
        return String::new();
    }
    let flags: Vec<_> = missed.iter().map(|one| denial::flag(one.grant)).collect();
    format!(
        "To allow it: palisade run {} …\n{}",
        flags.join(" "),
        lines(missed)
    )
}

/// A line for each key.
fn lines(missed: &[Missed<'_>]) -> String {
    let line = |key: &str| {
        let values = missed.iter().filter(|one| one.key == key);
        let values: Vec<_> = values
            .map(|one| toml_edit::Value::from(one.value).to_string())
            .collect();
        (!values.is_empty())
            .then(|| format!("In a policy: grants.{key} = [{}]\n", values.join(", ")))
    };
    KINDS.iter().filter_map(|(_, key, _)| line(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::denial::tests::refused;
    use palisade_wall::{Command, Denial, Exit, mock::MockWall};

    fn report(denials: Vec<Denial>) -> Report {
        let report = MockWall::new(Exit::Code(7)).report(&Command::new("guest"));
        Report { denials, ..report }
    }

    #[test]
    fn each_is_told_once_as_flags_and_as_lines() {
        let report = report(vec![
            refused("connect", "tcp://a.example:443", "--connect"),
            refused("listen", "tcp://*:80", "--listen"),
            refused("connect", "tcp://a.example:443", "--connect"),
            refused("connect", "unix:/run/a \"b\".sock", "--connect"),
        ]);
        insta::assert_snapshot!(describe(&missed(&report)), @r#"
        To allow it: palisade run --connect tcp://a.example:443 --listen 'tcp://*:80' --connect 'unix:/run/a "b".sock' …
        In a policy: grants.connect = ["tcp://a.example:443", 'unix:/run/a "b".sock']
        In a policy: grants.listen = ["tcp://*:80"]
        "#);
    }

    #[test]
    fn what_is_no_grant_is_no_remedy() {
        let no_grants = [
            "--time",
            "--connect tcp://a.example",
            "--connect unix:/\u{1b}[2J",
            "--connect tcp://a.example:443\n[grants]",
            "--exec relative",
            "--read /",
            "--frobnicate y",
        ];
        let of = |grant: &str| Denial {
            grant: Some(grant.to_owned()),
            ..refused("connect", "x", "--connect")
        };
        assert_eq!(missed(&report(no_grants.map(of).into())), []);
        let probe = Denial {
            probe: true,
            ..refused("connect", "tcp://a.example:443", "--connect")
        };
        assert_eq!(describe(&missed(&report(vec![probe]))), "");
    }
}
