//! Reports and runs that were kept, from whoever wrote them: `palisade why` and `bench --from` end soon, in little
//! memory, and say nothing that a terminal would act on.

use super::fixture::{Fixture, Outcome, cases};
use palisade_policy::acts_on_terminal;
use std::{
    fs::{self, File},
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::ExitStatusExt,
    },
    path::Path,
};

cases![
    reports_of_any_shape,
    reports_that_are_deep_or_long,
    runs_of_any_shape,
    runs_with_numbers_that_are_no_figures,
    rounds_of_any_number,
    tables_of_any_width,
    runs_that_are_no_files,
    runs_that_are_large,
    a_folder_of_many_files,
];

/// More than either takes for what it reads, and less than one of the numbers here would take as a length.
const ADDRESS_SPACE_BYTES: u64 = 3 << 30;

/// Palisade with these words neither panics nor is killed, and what it says is plain.
#[track_caller]
fn is_calm(fixture: &Fixture, words: &[&str]) -> Outcome {
    let script = "ulimit -v \"$1\"; shift; exec \"$0\" \"$@\"";
    let limit = (ADDRESS_SPACE_BYTES >> 10).to_string();
    let program = fixture.program().to_str().unwrap();
    let bounded = ["-c", script, program, &limit].into_iter();
    let call = fixture.call(Path::new("/bin/sh"), bounded.chain(words.iter().copied()));
    let outcome = call.run();
    let said = |text: &str| text.chars().take(2000).collect::<String>();
    let (stdout, stderr) = (outcome.text(), &outcome.stderr);
    assert!(
        matches!(outcome.code(), 0 | 1 | 125),
        "{}: {}",
        outcome.code(),
        said(stderr)
    );
    assert_eq!(outcome.status.signal(), None, "{}", said(stderr));
    assert!(!stderr.contains("panicked"), "{}", said(stderr));
    for text in [&stdout, stderr] {
        let acts = |c: char| c != '\n' && acts_on_terminal(c);
        assert!(!text.contains(acts), "{:?}", said(text));
    }
    outcome
}

fn calm_why(fixture: &Fixture, text: &str) -> Outcome {
    fixture.write("report.json", text);
    is_calm(fixture, &["why", "report.json"])
}

/// All forms in which a run is shown, and compared with itself.
fn calm_bench(fixture: &Fixture) -> Vec<Outcome> {
    let forms = [
        &["--from", "run"][..],
        &["--from", "run", "--json"],
        &["--from", "run", "--markdown"],
        &["--from", "run", "--html", "page.html"],
        &["--from", "run/row"],
        &["--compare", "run", "run"],
    ];
    let call = |form: &&[&str]| is_calm(fixture, &[&["bench"], *form].concat());
    forms.iter().map(call).collect()
}

/// A run of one row.
fn write_run(fixture: &Fixture, environment: &str, summary: &str, samples: &str) {
    fixture.write("run/environment.json", environment);
    fixture.write("run/row/summary.json", summary);
    fixture.write("run/row/samples.jsonl", samples);
}

/// What acts on a terminal, in JSON.
const NASTY: &str = r#""\u001b]52;c;x\u0007\u009b2J\u202e\npalisade forged""#;

/// Values that are not what belongs there.
fn oddities() -> Vec<String> {
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let long = format!("\"{}\"", "x".repeat(100_000));
    let plain = [
        "null",
        "-1",
        "1e999",
        "1e308",
        "5e-324",
        "18446744073709551615",
        "99999999999999999999999999",
        "true",
        "[]",
        "{}",
        "\"\\u0000\"",
        "[[[]]]",
        "{\"a\": {\"b\": []}}",
        NASTY,
    ];
    plain
        .map(str::to_owned)
        .into_iter()
        .chain([deep, long])
        .collect()
}

fn reports_of_any_shape(fixture: &Fixture) {
    fixture
        .script(&["--report", "real.json"], "exit 3")
        .run()
        .is(3);
    let real: serde_json::Value = serde_json::from_str(&fixture.read("real.json")).unwrap();
    let keys: Vec<String> = real.as_object().unwrap().keys().cloned().collect();
    for odd in oddities() {
        calm_why(fixture, &odd);
        for key in &keys {
            let mut report = real.clone();
            report[key] = "ODD".into();
            calm_why(fixture, &report.to_string().replace("\"ODD\"", &odd));
        }
    }
}

fn reports_that_are_deep_or_long(fixture: &Fixture) {
    let denial = format!("{{\"what\": {NASTY}, \"count\": 18446744073709551615}}");
    let denials = vec![denial; 20_000].join(",");
    let report = format!(
        r#"{{"version": 1, "wall": "x", "command": [{NASTY}], "exit": {{"signal": 99}}, "ending": "guest",
            "exit_code": 1, "enforcement": [], "denials": [{denials}], "phases": [], "usage": {{"wall_us": 1,
            "user_us": 1, "system_us": 1, "peak_process_bytes": 1, "minor_faults": 1, "major_faults": 0, "read_bytes": 0,
            "written_bytes": 0, "voluntary_switches": 1, "involuntary_switches": 0, "left_behind": 0}}}}"#
    );
    assert_eq!(calm_why(fixture, &report).code(), 0);
    // Held as a tree, this would take thirty times its size.
    let many = format!("{{\"version\": 1, \"x\": [{}[]]}}", "[],".repeat(5_000_000));
    assert_eq!(calm_why(fixture, &many).code(), 125);
    for open in ["[", "{\"a\":", "{\"version\":"] {
        assert_eq!(calm_why(fixture, &open.repeat(1_000_000)).code(), 125);
    }
}

fn runs_of_any_shape(fixture: &Fixture) {
    let line = r#"{"round":0,"turn":0,"warm_up":false,"workload":"w","subject":"bare","at_us":1,"readings":[]}"#;
    for odd in oddities() {
        for files in [
            [odd.as_str(), "{}", ""],
            ["{}", &odd, ""],
            ["{}", "{\"row\": \"x\"}", &format!("{odd}\n")],
            [
                "{}",
                &format!("{{\"row\": {NASTY}, \"about\": {NASTY}, \"figures\": {odd}}}"),
                &format!("{line}\n"),
            ],
            ["{}", &format!("{{\"row\": \"x\", \"tables\": {odd}}}"), ""],
            [
                "{}",
                &format!("{{\"row\": \"x\", \"warnings\": [{{\"text\": {NASTY}, \"x\": {odd}}}]}}"),
                "",
            ],
            ["{}", &format!("{{\"row\": \"x\", \"chart\": {odd}}}"), ""],
            [
                "{}",
                &format!("{{\"row\": \"x\", \"failed\": {NASTY}, \"took_s\": {odd}}}"),
                "",
            ],
        ] {
            let [environment, summary, samples] = files;
            write_run(fixture, environment, summary, samples);
            calm_bench(fixture);
        }
    }
}

/// A figure whose numbers no axis can hold.
fn figure(number: &str, other: &str) -> String {
    let estimate = format!("{{\"value\": {number}, \"low\": {other}, \"high\": {number}}}");
    format!(
        r#"{{"workload": "w", "subject": "palisade run", "measure": "open-4096", "unit": "us", "count": 3, "median": {number},
            "p10": {other}, "p90": {number}, "p99": {number}, "ratio": {estimate},
            "difference": {estimate}, "target": {{"at-most-times-bare": {other}}}, "verdict": "short"}}"#
    )
}

fn runs_with_numbers_that_are_no_figures(fixture: &Fixture) {
    let pairs = [
        ("1e308", "-1e308"),
        ("1e308", "1e308"),
        ("5e-324", "0"),
        ("1e-300", "2e-300"),
        ("0", "0"),
        ("-1", "1"),
        ("1.0000000000000002", "1"),
    ];
    for (number, other) in pairs {
        let sample = |subject: &str, round: usize, value: &str| {
            format!(
                "{{\"round\":{round},\"turn\":0,\"warm_up\":false,\"workload\":\"w\",\"subject\":\"{subject}\",\
                 \"at_us\":1,\"readings\":[{{\"measure\":\"open-4096\",\"unit\":\"us\",\"values\":[{value}]}}]}}\n"
            )
        };
        let samples = [
            sample("bare", 0, other),
            sample("palisade run", 0, number),
            sample("bare", 1, number),
            sample("palisade run", 1, other),
        ];
        let published = format!("{{\"by\": {NASTY}, \"low\": {number}, \"high\": {other}}}");
        let axis = "{\"title\": \"x\", \"bytes\": 18446744073709551615}";
        for (axis, style) in [
            ("null", "usual"),
            (axis, "usual"),
            (axis, "lines"),
            ("null", "absolute"),
        ] {
            let chart = format!(
                ", \"chart\": {{\"axis\": {axis}, \"published\": [{published}], \"style\": \"{style}\"}}"
            );
            let figures = format!("[{0}, {0}]", figure(number, other));
            let summary =
                format!("{{\"row\": \"x\", \"rounds\": 2, \"figures\": {figures}{chart}}}");
            write_run(fixture, "{}", &summary, &samples.concat());
            for outcome in &calm_bench(fixture)[..4] {
                outcome.is(0);
            }
        }
    }
}

/// A number says which round it was; it makes no room for as many.
fn rounds_of_any_number(fixture: &Fixture) {
    let line = |round: &str, subject: &str| {
        format!(
            "{{\"round\":{round},\"turn\":0,\"warm_up\":false,\"workload\":\"w\",\"subject\":\"{subject}\",\"at_us\":1,\
             \"readings\":[]}}\n"
        )
    };
    for round in ["1000000000000", "18446744073709551615"] {
        write_run(fixture, "{}", "{\"row\": \"x\"}", &line(round, "bare"));
        for outcome in calm_bench(fixture).iter().take(5) {
            outcome.is(0);
        }
    }
    // As many rounds as contenders: a table of both would have billions of places.
    let many: String = (0..15_000)
        .map(|number| line(&number.to_string(), &format!("s{number}")))
        .collect();
    write_run(fixture, "{}", "{\"row\": \"x\"}", &many);
    calm_bench(fixture);
}

fn tables_of_any_width(fixture: &Fixture) {
    for cell in [70_000, 1_000_000] {
        let wide = "x".repeat(cell);
        let cells = vec!["{\"cells\": [\"a\"]}"; 1000].join(",");
        let table = format!("[[\"title\", {{\"headings\": [\"{wide}\"], \"lines\": [{cells}]}}]]");
        write_run(
            fixture,
            "{}",
            &format!("{{\"row\": \"x\", \"tables\": {table}}}"),
            "",
        );
        for outcome in &calm_bench(fixture)[..5] {
            outcome.refuses(&["is not as the lab wrote it", "wider than"]);
        }
    }
}

fn runs_that_are_no_files(fixture: &Fixture) {
    for name in ["environment.json", "row/summary.json", "row/samples.jsonl"] {
        for target in [
            "/dev/zero",
            "/proc/self/mem",
            "/proc/kmsg",
            "fifo",
            "folder",
            "loop",
            "nowhere",
        ] {
            let _ = fs::remove_dir_all(fixture.path("run"));
            write_run(fixture, "{}", "{\"row\": \"x\"}", "");
            let path = fixture.path("run").join(name);
            fs::remove_file(&path).unwrap();
            match target {
                "fifo" => fixture.make_fifo(&format!("run/{name}")),
                "folder" => fixture.make_folder(&format!("run/{name}")),
                "loop" => symlink(&path, &path).unwrap(),
                target => symlink(target, &path).unwrap(),
            }
            calm_bench(fixture);
        }
    }
}

fn make_sparse(path: &Path) {
    let file = File::options().write(true).truncate(true).open(path);
    file.and_then(|file| file.set_len(1 << 40)).unwrap();
}

fn runs_that_are_large(fixture: &Fixture) {
    for name in ["environment.json", "row/summary.json", "row/samples.jsonl"] {
        write_run(fixture, "{}", "{\"row\": \"x\"}", "");
        make_sparse(&fixture.path("run").join(name));
        for outcome in &calm_bench(fixture)[..5] {
            outcome.refuses(&["cannot read ", "larger than"]);
        }
    }
    write_run(fixture, "{}", "{\"row\": \"x\"}", "");
    for number in 0..1001 {
        fixture.write(&format!("run/row-{number}/samples.jsonl"), "");
    }
    is_calm(fixture, &["bench", "--from", "run"]).refuses(&["more than 1000 rows"]);
}

fn a_folder_of_many_files(fixture: &Fixture) {
    // In memory: it is the reading that counts.
    let run = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::set_permissions(run.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(run.path().join("environment.json"), "{}").unwrap();
    for number in 0..100_000 {
        File::create(run.path().join(format!("file-{number}"))).unwrap();
    }
    let run = run.path().to_str().unwrap();
    is_calm(fixture, &["bench", "--from", run]).is(0);
    is_calm(fixture, &["why", run]).refuses(&["not a regular file"]);
}
