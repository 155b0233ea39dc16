//! The report: what is in it, and that it is what its published schema says.

use super::{
    fixture::{Fixture, User, cases},
    published::{is_current, published},
    schema::violations,
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

cases![
    published_schema_is_current,
    schema_tells_right_from_wrong,
    a_real_report_fits_the_schema,
    fields,
    enforcement_of_limits,
    accepted_degradation_is_named,
    exit_by_signal,
    ended_by_a_limit,
    to_a_file,
    to_a_file_that_exists,
    never_where_the_guest_can_write,
    what_was_left_behind,
    used_processor_time,
];

const PUBLISHED: &str = "report.schema.json";

fn published_schema_is_current(fixture: &Fixture) {
    is_current(fixture, PUBLISHED, &palisade_wall::report_schema());
}

fn report(fixture: &Fixture, flags: &[&str], script: &str) -> Value {
    let outcome = fixture
        .script(&[flags, &["--report", "report.json"]].concat(), script)
        .run();
    let text = fixture.read("report.json");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}: {outcome:?}"))
}

/// Wrong values are found, or the check would prove nothing.
fn schema_tells_right_from_wrong(fixture: &Fixture) {
    let schema = published(PUBLISHED);
    let right = report(fixture, &[], "true");
    assert_eq!(violations(&schema, &right), [""; 0]);
    let spoil = |pointer: &str, value: Value| {
        let mut wrong = right.clone();
        *wrong.pointer_mut(pointer).unwrap() = value;
        violations(&schema, &wrong)
    };
    assert_eq!(spoil("/version", json!("1")).len(), 1);
    assert_eq!(spoil("/exit", json!({"crash": 1})).len(), 1);
    assert_eq!(spoil("/exit/code", json!(256)).len(), 1);
    assert_eq!(spoil("/ending", json!("boredom")).len(), 1);
    assert_eq!(spoil("/usage/wall_us", json!(-1)).len(), 1);
    assert_eq!(spoil("/enforcement/0/actual", json!("half")).len(), 1);
    assert_eq!(
        spoil("/phases/0", json!({"name": "x", "done_us": 1, "more": 2})).len(),
        1
    );
    assert_eq!(spoil("/command", json!([1])).len(), 1);
    let mut wrong = right.clone();
    wrong.as_object_mut().unwrap().remove("wall");
    assert_eq!(violations(&schema, &wrong), ["report lacks wall"]);
}

fn a_real_report_fits_the_schema(fixture: &Fixture) {
    let schema = published(PUBLISHED);
    let flags = ["--time", "100ms", "--output", "1M", "--files", "100"];
    for (flags, script) in [
        (&[][..], "exit 3"),
        (&flags[..], "sleep 60"),
        (&[][..], "kill -SEGV $$"),
    ] {
        let outcome = fixture
            .script(&[flags, &["--report", "-"]].concat(), script)
            .run();
        let report: Value = serde_json::from_slice(&outcome.stdout).unwrap();
        assert_eq!(violations(&schema, &report), [""; 0], "{script}");
    }
}

fn fields(fixture: &Fixture) {
    let report = report(fixture, &[], "exit 3");
    assert_eq!(report["version"], 1);
    assert_eq!(report["wall"], "process");
    assert_eq!(report["command"], json!(["/bin/sh", "-c", "exit 3"]));
    assert_eq!(report["exit"], json!({"code": 3}));
    assert_eq!(report["ending"], "guest");
    assert_eq!(report["exit_code"], 3);
    assert_eq!(report["denials"], json!([]));
    let capabilities: Vec<_> = report["enforcement"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["capability"])
        .collect();
    assert_eq!(
        capabilities,
        ["namespaces", "network", "landlock", "seccomp", "uid"]
    );
    assert!(
        report["enforcement"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["actual"] == "full"),
        "{report}"
    );
    // Supervisor and init work side by side: only each one's own steps are in order.
    let of_supervisor = ["plan-sent", "domain-gone"];
    let of_message = ["plan-received", "program-running"];
    let of_init = [
        "order-received",
        "namespaces",
        "root-built",
        "host-left",
        "program-running",
        "guest-ended",
        "all-reaped",
        "domain-gone",
    ];
    for steps in [&of_supervisor[..], &of_message, &of_init] {
        let times: Vec<_> = steps.iter().map(|step| time_of(&report, step)).collect();
        assert!(times[0] > 0.0 && times.is_sorted(), "{steps:?}: {times:?}");
    }
    assert!(report["usage"]["wall_us"].as_u64().unwrap() > 0);
    assert!(report["usage"]["peak_process_bytes"].as_u64().unwrap() > 100_000);
}

fn time_of(report: &Value, phase: &str) -> f64 {
    let phases = report["phases"].as_array().unwrap();
    let found = phases.iter().find(|found| found["name"] == phase);
    found
        .and_then(|found| found["done_us"].as_f64())
        .unwrap_or_else(|| panic!("no {phase}: {report}"))
}

fn row<'a>(report: &'a Value, capability: &str) -> &'a Value {
    let rows = report["enforcement"].as_array().unwrap();
    rows.iter()
        .find(|row| row["capability"] == capability)
        .unwrap_or_else(|| panic!("no {capability}: {report}"))
}

fn enforcement_of_limits(fixture: &Fixture) {
    let flags = [
        "--processes",
        "50",
        "--files",
        "100",
        "--file-size",
        "1M",
        "--tmp-size",
        "2M",
        "--time",
        "1m",
        "--cpu-time",
        "1m",
        "--allow-degraded",
        "cpu-time",
        "--output",
        "3M",
    ];
    let report = report(fixture, &flags, "true");
    for (capability, requested) in [
        ("processes", "50"),
        ("files", "100"),
        ("file-size", "1048576 bytes"),
        ("tmp-size", "2097152 bytes"),
        ("time", "60s"),
        ("output", "3145728 bytes"),
    ] {
        assert_eq!(row(&report, capability)["requested"], requested);
        assert_eq!(row(&report, capability)["actual"], "full");
    }
    let of_user = match fixture.user {
        User::Root => "full",
        User::Ordinary => "degraded",
    };
    assert_eq!(row(&report, "cpu-time")["requested"], "60s");
    assert_eq!(row(&report, "cpu-time")["actual"], of_user);
    assert_eq!(report["usage"]["output_bytes"], 0);
}

fn accepted_degradation_is_named(fixture: &Fixture) {
    if fixture.user == User::Ordinary {
        let report = report(
            fixture,
            &["--memory", "256M", "--allow-degraded", "memory"],
            "true",
        );
        assert_eq!(row(&report, "memory")["actual"], "degraded");
        assert!(
            row(&report, "memory")["mechanism"]
                .as_str()
                .unwrap()
                .contains("RLIMIT"),
            "{report}"
        );
    }
}

fn exit_by_signal(fixture: &Fixture) {
    let report = report(fixture, &[], "kill -KILL $$");
    assert_eq!(report["exit"], json!({"signal": 9}));
    assert_eq!(
        (&report["ending"], &report["exit_code"]),
        (&json!("guest"), &json!(137))
    );
}

fn ended_by_a_limit(fixture: &Fixture) {
    let timed = report(fixture, &["--time", "100ms"], "sleep 60");
    assert_eq!(
        (&timed["ending"], &timed["exit_code"]),
        (&json!("time-limit"), &json!(124))
    );
    assert_eq!(timed["denials"][0]["grant"], "--time");
    let wordy = report(fixture, &["--output", "1K"], "exec yes");
    assert_eq!(
        (&wordy["ending"], &wordy["exit_code"]),
        (&json!("output-limit"), &json!(153))
    );
    assert_eq!(wordy["usage"]["output_bytes"], 1024);
    let limit = ["--cpu-time", "100ms", "--allow-degraded", "cpu-time"];
    let busy = report(fixture, &limit, "while :; do :; done");
    assert_eq!(
        (&busy["ending"], &busy["exit_code"]),
        (&json!("cpu-time-limit"), &json!(152))
    );
}

fn to_a_file(fixture: &Fixture) {
    fixture
        .script(&["--report", "report.json"], "echo its own")
        .run()
        .prints("its own\n");
    assert!(fixture.read("report.json").ends_with("}\n"));
    let mode = fs::metadata(fixture.path("report.json"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o644);
}

fn to_a_file_that_exists(fixture: &Fixture) {
    fixture.write("report.json", &"x".repeat(100_000));
    report(fixture, &[], "true");
}

/// There the guest could put anything in its place, by whatever name it sees the folder.
fn never_where_the_guest_can_write(fixture: &Fixture) {
    fixture.write("work/target", "kept");
    for grant in ["work", "work:/elsewhere", "."] {
        fixture
            .script(&["--write", grant, "--report", "work/report.json"], "true")
            .run()
            .refuses(&["policy: ", "report", "outside"]);
    }
    symlink("work/target", fixture.path("link")).unwrap();
    fixture
        .script(&["--write", "work", "--report", "link"], "true")
        .run()
        .refuses(&["report"]);
    assert_eq!(fixture.read("work/target"), "kept");
}

fn what_was_left_behind(fixture: &Fixture) {
    let left = |script: &str| report(fixture, &[], script)["usage"]["left_behind"].clone();
    assert_eq!(left("true"), 0);
    assert_eq!(left("sleep 60 & sleep 60 & sleep 60 & true"), 3);
}

fn used_processor_time(fixture: &Fixture) {
    let spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let of = |script: &str| {
        let usage = report(fixture, &[], script)["usage"].clone();
        usage["user_us"].as_u64().unwrap() + usage["system_us"].as_u64().unwrap()
    };
    let (alone, by_child) = (of(spin), of(&format!("sh -c '{spin}'; true")));
    assert!(alone > 20_000 && by_child > 20_000, "{alone} {by_child}");
    assert!(Path::new(&fixture.path("report.json")).exists());
}
