//! Limits of a whole container. An ordinary user has none to give here.

use super::fixture::{Bundle, User, is_root, wait_for};
use serde_json::{Value, json};

fn started(script: &str, resources: Value) -> Option<Bundle> {
    if !is_root() {
        return None;
    }
    let mut bundle = Bundle::new(User::Root, script);
    bundle.config["linux"]["resources"] = resources;
    bundle.write();
    bundle.ask(&["create", &bundle.id]).succeeded();
    bundle.ask(&["start", &bundle.id]).succeeded();
    Some(bundle)
}

fn usage(bundle: &Bundle) -> Value {
    let line = bundle.ask(&["events", "--stats", &bundle.id]).succeeded();
    serde_json::from_str(&line).unwrap()
}

#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn limits_are_set_and_changed_while_it_runs() {
    let resources = json!({
        "memory": { "limit": 64 << 20 },
        "pids": { "limit": 20 },
        "cpu": { "quota": 50000, "period": 100000, "shares": 512 },
    });
    let Some(bundle) = started("sleep 1000", resources) else {
        return;
    };
    let data = &usage(&bundle)["data"];
    assert_eq!(data["memory"]["usage"]["limit"], 64 << 20);
    assert_eq!(data["pids"]["limit"], 20);
    // Init, the shell and its child.
    wait_for(
        || usage(&bundle)["data"]["pids"]["current"] == 3,
        "the child",
    );
    bundle
        .ask(&[
            "update",
            "--memory",
            "33554432",
            "--pids-limit",
            "10",
            &bundle.id,
        ])
        .succeeded();
    let data = &usage(&bundle)["data"];
    assert_eq!(data["memory"]["usage"]["limit"], 32 << 20);
    assert_eq!(data["pids"]["limit"], 10);
}

#[test]
fn a_limit_on_processes_holds() {
    let script = "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done";
    if !is_root() {
        return;
    }
    let mut bundle = Bundle::new(User::Root, script);
    bundle.config["linux"]["resources"] = json!({ "pids": { "limit": 5 } });
    let outcome = bundle.run();
    assert!(outcome.stderr.contains("Cannot fork"), "{outcome:?}");
}

/// Its first process would stand still, and who creates it would wait for it for ever.
#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn a_frozen_control_group_is_refused_and_left() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::new(User::Root, "true");
    let folder = std::path::Path::new("/sys/fs/cgroup/freezer").join(&bundle.id);
    if std::fs::create_dir(&folder).is_err() {
        eprintln!("ignored: there is no freezer of version 1");
        return;
    }
    std::fs::write(folder.join("freezer.state"), "FROZEN").unwrap();
    bundle.run().refused_with("is frozen");
    let state = std::fs::read_to_string(folder.join("freezer.state"));
    std::fs::remove_dir(&folder).unwrap();
    assert_eq!(state.unwrap(), "FROZEN\n");
}

#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn a_process_enters_a_group_below_and_none_beside() {
    let Some(bundle) = started("sleep 1000", json!({})) else {
        return;
    };
    let below = std::path::Path::new("/sys/fs/cgroup/pids")
        .join(&bundle.id)
        .join("below");
    if std::fs::create_dir(&below).is_err() {
        eprintln!("ignored: there is no pids hierarchy of version 1");
        return;
    }
    let enter = |place: &str| {
        bundle.ask(&[
            "exec",
            "--cgroup",
            place,
            &bundle.id,
            "cat",
            "/proc/self/cgroup",
        ])
    };
    let said = enter("pids:below").succeeded();
    assert!(
        said.contains(&format!(":pids:/{}/below\n", bundle.id)),
        "{said}"
    );
    assert!(
        said.contains(&format!(":memory:/{}\n", bundle.id)),
        "{said}"
    );
    for (place, words) in [
        ("..", "is not a sub cgroup path"),
        ("pids:nosuch", "No such file"),
        ("nosuch:below", "there is no control group"),
    ] {
        let refused = enter(place);
        refused.refused_with(words);
        assert_eq!(refused.code, Some(255), "{place}");
    }
}

#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn a_container_stops_where_it_is_and_goes_on() {
    let Some(bundle) = started("while :; do echo x >> /work/log; done", json!({})) else {
        return;
    };
    let log = bundle.rootfs().join("work/log");
    let length = || std::fs::metadata(&log).map_or(0, |about| about.len());
    wait_for(|| length() > 0, "the program");
    bundle.ask(&["pause", &bundle.id]).succeeded();
    assert_eq!(bundle.status(), "paused");
    let before = length();
    bundle
        .ask(&["exec", &bundle.id, "/bin/true"])
        .refused_with("paused");
    assert_eq!(length(), before);
    bundle.ask(&["resume", &bundle.id]).succeeded();
    assert_eq!(bundle.status(), "running");
    wait_for(|| length() > before, "the program again");
    // What is frozen ends all the same.
    bundle.ask(&["pause", &bundle.id]).succeeded();
    bundle.ask(&["delete", "--force", &bundle.id]).succeeded();
}

#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn its_processes_are_listed() {
    let Some(bundle) = started("sleep 1000", json!({})) else {
        return;
    };
    let listed = || -> Vec<i32> {
        let text = bundle.ask(&["ps", "-f", "json", &bundle.id]).succeeded();
        serde_json::from_str(&text).unwrap()
    };
    wait_for(|| listed().len() == 3, "the child");
    let pids = listed();
    assert!(pids.contains(&bundle.pid()));
    let table = bundle.ask(&["ps", &bundle.id]).succeeded();
    assert!(table.contains("sleep 1000"), "{table}");
}

#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn devices_are_those_that_were_allowed() {
    if !is_root() {
        return;
    }
    // The device of loop 0, which a machine need not have: what counts is who refuses.
    let script = "mknod /work/disk b 7 0 && cat /work/disk; head -c 1 /dev/zero | wc -c";
    let mut bundle = Bundle::new(User::Root, script);
    let set = json!(["CAP_MKNOD"]);
    bundle.config["process"]["capabilities"] =
        json!({ "bounding": set, "effective": set, "permitted": set });
    bundle.config["linux"]["resources"] =
        json!({ "devices": [{ "allow": false, "access": "rwm" }] });
    let outcome = bundle.run();
    assert!(
        outcome.stderr.contains("Operation not permitted"),
        "{outcome:?}"
    );
    assert_eq!(outcome.stdout, "1\n", "{outcome:?}");
}

#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn a_report_says_what_was_asked_for_and_what_the_kernel_holds() {
    let resources = json!({ "memory": { "limit": 64 << 20 }, "pids": { "limit": 20 } });
    let Some(bundle) = started("sleep 1000", resources) else {
        return;
    };
    let report: Value =
        serde_json::from_str(&bundle.ask(&["report", &bundle.id]).succeeded()).unwrap();
    let row = |capability: &str| {
        let rows = report["enforcement"].as_array().unwrap().iter();
        let mut found = rows.filter(|row| row["capability"] == capability);
        let row = found
            .next()
            .unwrap_or_else(|| panic!("{capability}: {report}"));
        (row["requested"].clone(), row["actual"].clone())
    };
    assert_eq!(
        row("memory"),
        (json!(64 << 20), json!((64 << 20).to_string()))
    );
    assert_eq!(row("processes"), (json!(20), json!("20")));
    assert_eq!(
        row("namespace pid"),
        (json!("its own"), json!("not the host's"))
    );
    assert_eq!(
        row("namespace user"),
        (json!("the host's"), json!("the host's"))
    );
    assert_eq!(row("capabilities"), (json!([]), json!([])));
    assert_eq!(row("no new privileges"), (json!(true), json!(true)));
    assert_eq!(
        row("system calls"),
        (json!("palisade's filter"), json!("filters: 1"))
    );
}

/// Without a rule a container has no device but those that every container has.
#[test]
#[cfg_attr(not(built_by_root), ignore = "takes root")]
fn without_a_rule_no_device_is_allowed() {
    if !is_root() {
        return;
    }
    let script = "mknod /work/fuse c 10 229 && head -c 0 /work/fuse; head -c 1 /dev/zero | wc -c";
    let mut bundle = Bundle::new(User::Root, script);
    let set = json!(["CAP_MKNOD"]);
    bundle.config["process"]["capabilities"] =
        json!({ "bounding": set, "effective": set, "permitted": set });
    let outcome = bundle.run();
    assert!(
        outcome.stderr.contains("Operation not permitted"),
        "{outcome:?}"
    );
    assert_eq!(outcome.stdout, "1\n", "{outcome:?}");
}
