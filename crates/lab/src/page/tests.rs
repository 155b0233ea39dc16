use super::*;
use crate::{Warning, outcome::Doubt, sample::Unit};

const HOSTILE: &str = "<script>alert('x')</script>\"&`";

/// A run that says something hostile wherever somebody else's words are shown.
fn hostile_run() -> KeptRun {
    let (samples, [bare, ours]) =
        Samples::of_two(HOSTILE, &[4.0, 5.0, 4.0, 5.0], &[8.0, 9.0, 8.0, 9.0]);
    let mut table = Table::new(["", HOSTILE]);
    table.section(HOSTILE);
    table.line([HOSTILE, "pass", HOSTILE]);
    let target = Some(crate::figure::Target::AtMostTimesBare(1.5));
    let unit = Unit::Microseconds;
    let outcome = |row: &str, failed: Option<&str>| Outcome {
        row: row.into(),
        about: HOSTILE.into(),
        failed: failed.map(ToOwned::to_owned),
        figures: vec![
            Figure::of(&samples, &bare, None, ("wall", unit), None),
            Figure::of(&samples, &ours, Some(&bare), ("wall", unit), target),
        ],
        warnings: vec![Doubt::from(&Warning::PeerFailed {
            peer: "bubblewrap".to_owned(),
            reason: HOSTILE.into(),
        })],
        tables: vec![(HOSTILE.into(), table.clone())],
        ..Outcome::default()
    };
    let row = |row, failed| KeptRow {
        outcome: outcome(row, failed),
        samples: samples.clone(),
    };
    KeptRun {
        path: "/nowhere".into(),
        environment: Environment {
            host: Some(HOSTILE.into()),
            processor: Some(HOSTILE.into()),
            kernel: Some(HOSTILE.into()),
            command_line: vec![HOSTILE.into()],
            tools: [(HOSTILE.into(), HOSTILE.into())].into(),
            ..Environment::default()
        },
        rows: vec![row("start", None), row("mk-2", Some(HOSTILE))],
    }
}

#[test]
fn whatever_a_run_says_is_text() {
    let page = page(&hostile_run());
    assert!(!page.contains("<script"), "{page}");
    let escaped = page.matches("&lt;script&gt;").count();
    assert!(escaped > 15, "it was shown only {escaped} times");
}

#[test]
fn a_page_loads_nothing_and_runs_nothing() {
    let page = page(&hostile_run());
    for word in [
        "://",
        "src=",
        "@import",
        "url(",
        "<link",
        "<iframe",
        "<object",
        " style=",
        " onload=",
        " onclick=",
        "javascript:",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("default-src 'none'"));
    let targets = page.split(" href=\"").skip(1);
    assert!(targets.clone().count() > 0);
    assert!(targets.into_iter().all(|target| target.starts_with('#')));
}

/// The tags that are opened are closed, in order. (That `maud` matches them is what this relies on;
/// the test is for what comes in as ready-made text: the style.)
#[test]
fn tags_are_balanced() {
    const VOID: [&str; 2] = ["meta", "!DOCTYPE"];
    let page = page(&hostile_run());
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag
            .split([' ', '/'])
            .find(|word| !word.is_empty())
            .expect("a name");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, [""; 0]);
}

#[test]
fn every_place_is_on_the_picture() {
    let page = page(&hostile_run());
    let places: Vec<f64> = ["x", "x1", "x2", "cx"]
        .into_iter()
        .flat_map(|name| {
            let attribute = format!(" {name}=\"");
            let values = page.split(&attribute).skip(1);
            let values = values.filter_map(|rest| rest.split_once('"')?.0.strip_suffix('%'));
            values
                .map(|value| value.parse().expect("a number"))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(places.len() > 20, "{}", places.len());
    assert!(
        places.iter().all(|place| (0.0..=100.0).contains(place)),
        "{places:?}"
    );
}

#[test]
fn the_headline_counts_verdicts() {
    assert_eq!(
        headline(&hostile_run()),
        "Of 2 targets 0 are reached, 0 are uncertain and 2 are missed."
    );
}

#[test]
fn what_all_rows_warn_of_is_told_once() {
    let mut run = hostile_run();
    let few = Warning::FewRounds { rounds: 3 };
    run.rows[1].outcome.warnings.push(Doubt::from(&few));
    assert_eq!(common_warnings(&run).len(), 1);
    let page = page(&run);
    assert_eq!(page.matches("bubblewrap was left out").count(), 1);
    assert_eq!(page.matches("only 3 rounds").count(), 1);
    run.rows.pop();
    assert_eq!(
        common_warnings(&run),
        [""; 0],
        "of one row there is nothing in common"
    );
}

#[test]
fn what_stands_between_backticks_is_code() {
    let text = with_code("run `true` <b>").into_string();
    assert_eq!(text, "run <code>true</code> &lt;b&gt;");
}
