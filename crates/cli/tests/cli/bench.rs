//! `palisade bench`: what it leaves behind, and what can be done with that. Figures are not looked at:
//! a machine that runs tests is not one to measure on.

use super::fixture::{Fixture, cases};
use serde_json::Value;
use std::fs;

cases![
    a_run_is_kept_and_shown_again,
    a_run_is_compared,
    a_row_that_fails_does_not_end_the_others,
    rows_are_listed_with_their_times,
    what_does_not_fit_together_is_refused,
    a_folder_without_a_run_is_refused,
    a_page_that_cannot_be_written_is_told_before_anything_is_measured,
];

/// Measures two rows, hardly, below `runs`; gives the folder's name.
fn measure(fixture: &Fixture) -> String {
    let words = [
        "bench", "mk-7", "mk-2", "mk-7", "--time", "10ms", "--peers", "none",
    ];
    let outcome = fixture.palisade(words).run();
    outcome.is_silent(0);
    let text = outcome.text();
    assert!(text.contains("mk-7: open 500 and 1000"), "{text}");
    let mut folders = fs::read_dir(fixture.path("runs")).unwrap();
    let folder = folders.next().unwrap().unwrap();
    assert!(folders.next().is_none(), "one folder for all rows");
    format!("runs/{}", folder.file_name().to_string_lossy())
}

fn a_run_is_kept_and_shown_again(fixture: &Fixture) {
    let run = measure(fixture);
    let readme = fixture.read(&format!("{run}/README.md"));
    assert!(
        readme.contains("\npalisade bench mk-7 mk-2 mk-7 --time 10ms --peers none\n"),
        "{readme}"
    );
    for row in ["mk-2", "mk-7"] {
        assert!(readme.contains(&format!("| [{row}]({row}) |")), "{readme}");
        let table = fixture.read(&format!("{run}/{row}/table.txt"));
        let shown = fixture
            .palisade(["bench", "--from", &format!("{run}/{row}")])
            .run();
        shown.prints(&format!("{table}\n"));
    }
    let markdown = fixture
        .palisade(["bench", "--from", &run, "--markdown"])
        .run();
    let markdown = markdown.is_silent(0).text();
    assert!(markdown.contains("\n| open 500 files |"), "{markdown}");
    let json = fixture.palisade(["bench", "--from", &run, "--json"]).run();
    let json: Value = serde_json::from_str(&json.is_silent(0).text()).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), 2);
    assert_eq!(json["rows"][0]["rounds"], 2);

    let page = fixture
        .palisade(["bench", "--from", &run, "--html", "page.html"])
        .run();
    assert_eq!(page.code(), 0);
    assert!(page.stderr.contains("the page is page.html"), "{page:?}");
    let page = fixture.read("page.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"));
}

fn a_run_is_compared(fixture: &Fixture) {
    let run = measure(fixture);
    let same = fixture.palisade(["bench", "--compare", &run, &run]).run();
    let text = same.is_silent(0).text();
    assert!(text.contains("Nothing got worse: 0 worse"), "{text}");

    make_slower(fixture, &format!("{run}/mk-2/samples.jsonl.gz"), "slower");
    fs::copy(
        fixture.path(&format!("{run}/mk-2/summary.json")),
        fixture.path("slower/mk-2/summary.json"),
    )
    .unwrap();
    fs::copy(
        fixture.path(&format!("{run}/environment.json")),
        fixture.path("slower/environment.json"),
    )
    .unwrap();
    let slower = fixture
        .palisade(["bench", "--compare", &run, "slower"])
        .run();
    slower.is_silent(1);
    let text = slower.text();
    for words in ["SLOWER", "Something got worse: 2 worse", "(mk-7)"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let json = fixture
        .palisade(["bench", "--json", "--compare", &run, "slower/mk-2"])
        .run();
    json.is_silent(1);
    let json: Value = serde_json::from_str(&json.text()).unwrap();
    let bare = &json["compared"][1];
    assert_eq!(
        (&bare["subject"], &bare["ratio"]["value"]),
        (&"bare".into(), &1.0.into())
    );
}

/// Copies samples of mk-2 into another run, with palisade a thousand times as slow.
fn make_slower(fixture: &Fixture, samples: &str, run: &str) {
    let mut slower = String::new();
    for line in fixture.read_packed(samples).lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["subject"] == "palisade run" {
            for reading in line["readings"].as_array_mut().unwrap() {
                for value in reading["values"].as_array_mut().unwrap() {
                    *value = (value.as_f64().unwrap() * 1000.0).into();
                }
            }
        }
        slower += &format!("{line}\n");
    }
    fixture.make_folder(run);
    fixture.make_folder(&format!("{run}/mk-2"));
    fixture.write(&format!("{run}/mk-2/samples.jsonl"), &slower);
}

fn a_row_that_fails_does_not_end_the_others(fixture: &Fixture) {
    let outcome = fixture
        .palisade([
            "bench",
            "mk-2",
            "mk-7",
            "--palisade",
            "/nowhere/palisade",
            "--peers",
            "none",
        ])
        .run();
    assert_eq!(outcome.code(), 1);
    for words in [
        "bench: mk-2 failed: ",
        "bench: mk-7 failed: ",
        "/nowhere/palisade",
    ] {
        assert!(outcome.stderr.contains(words), "{words}: {outcome:?}");
    }
    assert!(outcome.text().contains("\nfailed: "), "{outcome:?}");
}

fn rows_are_listed_with_their_times(fixture: &Fixture) {
    let text = fixture
        .palisade(["bench", "--list"])
        .run()
        .is_silent(0)
        .text();
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert!(text.contains("start             20 s  run"), "{text}");
    let long = text.split("\nOnly by name").nth(1).unwrap();
    assert!(
        long.contains("\nsva-t3 ") && !long.contains("\nmk-2 "),
        "{text}"
    );
}

fn what_does_not_fit_together_is_refused(fixture: &Fixture) {
    for words in [
        &["--all", "mk-2"][..],
        &["--json", "--markdown"],
        &["--from", "x", "mk-2"],
        &["--compare", "x"],
        &["--compare", "x", "y", "--html", "page.html"],
        &["no-such-row"],
    ] {
        let words = ["bench"].iter().chain(words);
        fixture.palisade(words).run().refuses(&["usage: "]);
    }
}

fn a_folder_without_a_run_is_refused(fixture: &Fixture) {
    fixture.make_folder("empty");
    for words in [&["--from", "empty"][..], &["--compare", "empty", "empty"]] {
        let words = ["bench"].iter().chain(words);
        fixture
            .palisade(words)
            .run()
            .refuses(&["empty is no folder of a run"]);
    }
}

fn a_page_that_cannot_be_written_is_told_before_anything_is_measured(fixture: &Fixture) {
    fixture
        .palisade(["bench", "mk-2", "--html", "nowhere/page.html"])
        .run()
        .refuses(&["--html: cannot write nowhere/page.html"]);
    assert!(!fixture.exists("runs"));
}
