//! What a suite says of its tests: a list of names, each with how the test ended.

use anyhow::{Context, ensure};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::{Path, PathBuf},
};

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    Passed,
    Skipped,
    Failed,
    /// Not in the list at all.
    Absent,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Passed, Self::Skipped, Self::Failed, Self::Absent];

    /// The number that stands for it in samples: 0 passed, 1 skipped, 2 failed.
    pub(super) fn code(self) -> f64 {
        f64::from(self as u8)
    }

    pub(super) fn of_code(code: f64) -> Self {
        let is_it = |one: &Self| one.code().total_cmp(&code).is_eq();
        Self::ALL.into_iter().find(is_it).unwrap_or(Self::Absent)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Passed => "passed",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Absent => "absent",
        })
    }
}

/// Each test, by name.
pub(super) type Results = BTreeMap<String, Outcome>;

/// A name that is there already gets a number: both tests count.
fn insert(results: &mut Results, name: &str, outcome: Outcome) {
    let numbered = (2..).map(|number| format!("{name} ({number})"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    if let Some(free) = names.find(|name| !results.contains_key(name)) {
        results.insert(free, outcome);
    }
}

/// Files as JUnit writes them, and many others: a `testcase` each, with what went wrong within.
pub(super) fn junit_results(files: &[PathBuf]) -> anyhow::Result<Results> {
    let mut results = Results::new();
    for file in files {
        let text = fs::read_to_string(file)
            .with_context(|| format!("the suite left no results in {}", file.display()))?;
        read_junit(&text, &mut results).with_context(|| format!("in {}", file.display()))?;
    }
    ensure!(!results.is_empty(), "the suite ran no test");
    Ok(results)
}

fn read_junit(text: &str, results: &mut Results) -> anyhow::Result<()> {
    let document = roxmltree::Document::parse(text)?;
    for case in document
        .descendants()
        .filter(|node| node.has_tag_name("testcase"))
    {
        let name = case.attribute("name").unwrap_or_default();
        let name = match case.attribute("classname") {
            Some(class) if !class.is_empty() => format!("{class}.{name}"),
            _ => name.to_owned(),
        };
        let has = |tag: &str| case.children().any(|child| child.has_tag_name(tag));
        let outcome = match () {
            () if has("failure") || has("error") => Outcome::Failed,
            () if has("skipped") => Outcome::Skipped,
            () => Outcome::Passed,
        };
        insert(results, &name, outcome);
    }
    Ok(())
}

/// What tests of Go print, with a line `package NAME` before those of each package.
pub(super) fn go_results(file: &Path) -> anyhow::Result<Results> {
    let text = fs::read(file).with_context(|| format!("the suite left no {}", file.display()))?;
    let results = read_go(&String::from_utf8_lossy(&text));
    ensure!(!results.is_empty(), "the suite ran no test");
    Ok(results)
}

/// A test that began and never ended is one that failed: the whole package died with it.
fn read_go(text: &str) -> Results {
    let mut results = Results::new();
    let mut package = "";
    let mut begun = BTreeSet::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("package ") {
            package = name;
        } else if let Some(name) = line.strip_prefix("=== RUN ") {
            begun.insert(format!("{package}.{}", name.trim()));
        } else if let Some((outcome, name)) = go_outcome(line) {
            let name = format!("{package}.{name}");
            begun.remove(&name);
            insert(&mut results, &name, outcome);
        }
    }
    for name in begun {
        insert(&mut results, &name, Outcome::Failed);
    }
    results
}

/// `    --- PASS: TestName/part (0.00s)`.
fn go_outcome(line: &str) -> Option<(Outcome, &str)> {
    let (word, rest) = line.trim_start().strip_prefix("--- ")?.split_once(": ")?;
    let outcome = match word {
        "PASS" => Outcome::Passed,
        "SKIP" => Outcome::Skipped,
        "FAIL" => Outcome::Failed,
        _ => return None,
    };
    Some((
        outcome,
        rest.rsplit_once(" (").map_or(rest, |(name, _)| name),
    ))
}

/// What several runs of a suite outside and inside say together.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Comparison {
    /// Tests that always ended in one way outside, and in another inside.
    pub(super) differences: Vec<(String, Outcome, Outcome)>,
    /// Tests that did not even end alike outside, with all the ways in which they did.
    pub(super) unstable: Vec<(String, Vec<Outcome>)>,
}

pub(super) fn compare(outside: &[Results], inside: &[Results]) -> Comparison {
    let names: BTreeSet<&String> = outside
        .iter()
        .chain(inside)
        .flat_map(BTreeMap::keys)
        .collect();
    let outcomes = |runs: &[Results], name: &String| {
        let of_run = |run: &Results| run.get(name).copied().unwrap_or(Outcome::Absent);
        runs.iter().map(of_run).collect::<BTreeSet<_>>()
    };
    let mut comparison = Comparison::default();
    for name in names {
        let (out, within) = (outcomes(outside, name), outcomes(inside, name));
        match out.iter().next() {
            Some(&expected) if out.len() == 1 => {
                if let Some(&other) = within.iter().find(|one| **one != expected) {
                    comparison.differences.push((name.clone(), expected, other));
                }
            }
            _ => comparison
                .unstable
                .push((name.clone(), out.into_iter().collect())),
        }
    }
    comparison
}

#[cfg(test)]
mod tests {
    use super::{Outcome::*, *};

    fn results(list: &[(&str, Outcome)]) -> Results {
        list.iter()
            .map(|(name, outcome)| ((*name).to_owned(), *outcome))
            .collect()
    }

    #[test]
    fn junit_s_cases_are_named_by_their_class() {
        let text = r#"<?xml version="1.0"?><testsuites><testsuite>
            <testcase classname="a.B" name="c()" time="0"/>
            <testcase classname="a.B" name="c()"><failure message="x">y</failure></testcase>
            <testcase name="test_os.T.d"><skipped/></testcase>
            <testcase name="e"><error type="E"/><system-out>&lt;skipped/></system-out></testcase>
            </testsuite></testsuites>"#;
        let mut read = Results::new();
        read_junit(text, &mut read).unwrap();
        let expected = [
            ("a.B.c()", Passed),
            ("a.B.c() (2)", Failed),
            ("e", Failed),
            ("test_os.T.d", Skipped),
        ];
        assert_eq!(read, results(&expected));
        assert!(read_junit("<testsuite><testcase>", &mut read).is_err());
    }

    #[test]
    fn go_s_tests_are_named_by_their_package() {
        let text = "package os\n=== RUN   TestA\n=== RUN   TestA/b\n--- PASS: TestA (0.10s)\n    --- FAIL: TestA/b (0.00s)\n\
            package os/exec\n=== RUN   TestA\n--- SKIP: TestA (0.00s)\n=== RUN   TestDead\npanic: no\n";
        let expected = [
            ("os.TestA", Passed),
            ("os.TestA/b", Failed),
            ("os/exec.TestA", Skipped),
            ("os/exec.TestDead", Failed),
        ];
        assert_eq!(read_go(text), results(&expected));
    }

    #[test]
    fn a_suite_that_ran_nothing_is_no_suite_without_differences() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(
            go_results(file.path()).unwrap_err().to_string(),
            "the suite ran no test"
        );
        assert!(junit_results(&["/nowhere/results.xml".into()]).is_err());
    }

    #[test]
    fn only_tests_that_are_stable_outside_can_differ() {
        let outside = [
            results(&[
                ("same", Passed),
                ("worse", Passed),
                ("flaky", Passed),
                ("gone", Failed),
            ]),
            results(&[
                ("same", Passed),
                ("worse", Passed),
                ("flaky", Failed),
                ("gone", Failed),
            ]),
        ];
        let inside = [
            results(&[
                ("same", Passed),
                ("worse", Passed),
                ("flaky", Passed),
                ("new", Skipped),
            ]),
            results(&[
                ("same", Passed),
                ("worse", Skipped),
                ("flaky", Failed),
                ("new", Skipped),
            ]),
        ];
        let comparison = compare(&outside, &inside);
        assert_eq!(
            comparison.differences,
            [
                ("gone".to_owned(), Failed, Absent),
                ("new".to_owned(), Absent, Skipped),
                ("worse".to_owned(), Passed, Skipped),
            ]
        );
        assert_eq!(
            comparison.unstable,
            [("flaky".to_owned(), vec![Passed, Failed])]
        );
    }

    #[test]
    fn outcomes_survive_the_samples() {
        assert!(
            Outcome::ALL
                .iter()
                .all(|&one| Outcome::of_code(one.code()) == one)
        );
    }
}
