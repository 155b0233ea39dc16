//! Programs that the engine has run on the way.

use super::fixture::{Bundle, users, wait_for};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt};

/// Writes down its name, where it is, and what it reads.
fn hook(bundle: &Bundle, name: &str) -> Value {
    let log = bundle.path().join("rootfs/work/log");
    let inside = name == "startContainer";
    let log = if inside { "/work/log".into() } else { log };
    let script = format!(
        "{{ echo {name} $(cat /proc/sys/kernel/hostname) $(test -e /work && echo inside); cat; echo; }} >> {}",
        log.display()
    );
    json!({ "path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/usr/bin:/bin"], "timeout": 20 })
}

#[test]
fn each_kind_runs_where_the_specification_says() {
    for user in users() {
        let mut bundle = Bundle::new(user, "echo program >> /work/log");
        fs::write(bundle.rootfs().join("work/log"), "").unwrap();
        fs::set_permissions(
            bundle.rootfs().join("work/log"),
            fs::Permissions::from_mode(0o666),
        )
        .unwrap();
        let kinds = [
            "prestart",
            "createRuntime",
            "createContainer",
            "startContainer",
            "poststart",
            "poststop",
        ];
        for kind in kinds {
            bundle.config["hooks"][kind] = json!([hook(&bundle, kind)]);
        }
        bundle.run().succeeded();
        let log = fs::read_to_string(bundle.rootfs().join("work/log")).unwrap();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim();
        let order: Vec<_> = log
            .lines()
            .filter(|line| !line.starts_with('{') && !line.is_empty() && *line != "program")
            .map(str::trim)
            .collect();
        let outside = if fs::exists("/work").unwrap() {
            " inside"
        } else {
            ""
        };
        let expected = [
            format!("prestart {host}{outside}"),
            format!("createRuntime {host}{outside}"),
            format!("createContainer inside{outside}"),
            "startContainer inside inside".into(),
            format!("poststart {host}{outside}"),
            format!("poststop {host}{outside}"),
        ];
        assert_eq!(order, expected, "{user:?}: {log}");
        let states: Vec<Value> = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let told: Vec<_> = states
            .iter()
            .map(|state| state["status"].as_str().unwrap())
            .collect();
        assert_eq!(
            told[..4],
            ["creating", "creating", "creating", "created"],
            "{log}"
        );
        assert_eq!(told[5], "stopped", "{log}");
        for state in &states {
            assert_eq!(state["id"], bundle.id.as_str());
            assert_eq!(state["bundle"], bundle.path().to_str().unwrap());
        }
        assert!(states[0]["pid"].as_i64().unwrap() > 0);
    }
}

#[test]
fn one_that_fails_keeps_the_container_from_being() {
    for user in users() {
        for kind in ["createRuntime", "createContainer"] {
            let mut bundle = Bundle::new(user, "echo ran");
            bundle.config["hooks"][kind] =
                json!([{ "path": "/bin/sh", "args": ["sh", "-c", "exit 3"] }]);
            let outcome = bundle.run();
            outcome.refused_with("/bin/sh");
            outcome.refused_with("3");
            assert_eq!(outcome.stdout, "");
            bundle
                .ask(&["state", &bundle.id])
                .refused_with("does not exist");
        }
    }
}

#[test]
fn one_that_takes_too_long_is_ended() {
    for user in users() {
        for kind in ["createRuntime", "createContainer"] {
            let mut bundle = Bundle::new(user, "echo ran");
            bundle.config["hooks"][kind] =
                json!([{ "path": "/bin/sleep", "args": ["sleep", "1000"], "timeout": 1 }]);
            let outcome = bundle.run();
            outcome.refused_with("/bin/sleep");
        }
    }
}

#[test]
fn one_after_the_start_does_not_hold_the_program_up() {
    let mut bundle = Bundle::new(users()[0], "echo program > /work/program; sleep 1000");
    let program = bundle.rootfs().join("work/program");
    let script = format!("until test -s {}; do :; done", program.display());
    bundle.config["hooks"]["poststart"] = json!([{ "path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/usr/bin:/bin"], "timeout": 20 }]);
    bundle.write();
    bundle.ask(&["create", &bundle.id]).succeeded();
    bundle.ask(&["start", &bundle.id]).succeeded();
    wait_for(|| program.exists(), "the program");
}

#[test]
fn after_the_start_and_the_end_all_run_whatever_one_of_them_says() {
    for user in users() {
        let mut bundle = Bundle::new(user, "true");
        let log = bundle.rootfs().join("work/log");
        fs::write(&log, "").unwrap();
        fs::set_permissions(&log, fs::Permissions::from_mode(0o666)).unwrap();
        let second = format!("echo second >> {}", log.display());
        for kind in ["poststart", "poststop"] {
            bundle.config["hooks"][kind] = json!([
                { "path": "/bin/false" },
                { "path": "/bin/sh", "args": ["sh", "-c", second] },
            ]);
        }
        let outcome = bundle.run();
        assert_eq!(outcome.code, Some(0), "{user:?}: {outcome:?}");
        assert_eq!(
            outcome.stderr.matches("/bin/false").count(),
            2,
            "{outcome:?}"
        );
        assert_eq!(fs::read_to_string(&log).unwrap(), "second\nsecond\n");
    }
}

/// The state is larger than a pipe, and nobody reads it.
#[test]
fn one_that_does_not_read_harms_nobody() {
    for user in users() {
        for kind in [
            "createRuntime",
            "createContainer",
            "startContainer",
            "poststart",
        ] {
            let mut bundle = Bundle::new(user, "exit 7");
            bundle.config["annotations"] = json!({ "long": "x".repeat(200_000) });
            bundle.config["hooks"][kind] = json!([{ "path": "/bin/true" }]);
            let outcome = bundle.run();
            assert_eq!(
                outcome.code,
                Some(7),
                "{user:?} {kind}: {:.300}",
                outcome.stderr
            );
        }
    }
}
