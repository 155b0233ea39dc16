//! Nothing of a bundle is silently ignored.

use super::fixture::{Bundle, users};
use serde_json::{Value, json};

fn set(config: &mut Value, pointer: &str, value: Value) {
    let mut place = config;
    for part in pointer.split('.') {
        place = &mut place[part];
    }
    *place = value;
}

#[test]
fn what_cannot_be_had_is_refused_by_its_name() {
    let cases: &[(&str, Value, &str)] = &[
        ("ociVersion", json!("2.0.0"), "ociVersion"),
        ("linux.intelRdt", json!({ "closID": "x" }), "linux.intelRdt"),
        (
            "linux.timeOffsets",
            json!({ "monotonic": { "secs": 1 } }),
            "linux.timeOffsets",
        ),
        (
            "linux.sysctl",
            json!({ "kernel.panic": "1" }),
            "of the whole machine",
        ),
        (
            "linux.sysctl",
            json!({ "net/../kernel/panic": "1" }),
            "is no setting",
        ),
        (
            "linux.rootfsPropagation",
            json!("some"),
            "linux.rootfsPropagation",
        ),
        ("process.args", json!([]), "process.args is empty"),
        ("process.cwd", json!("relative"), "process.cwd"),
        ("process.env", json!(["NOVALUE"]), "process.env"),
        (
            "process.apparmorProfile",
            json!("nosuch"),
            "process.apparmorProfile",
        ),
        (
            "process.selinuxLabel",
            json!("nosuch"),
            "process.selinuxLabel",
        ),
        (
            "process.ioPriority",
            json!({ "class": "IOPRIO_CLASS_BE", "priority": 9 }),
            "process.ioPriority",
        ),
        (
            "process.rlimits",
            json!([{ "type": "RLIMIT_CPU", "soft": 2, "hard": 1 }]),
            "process.rlimits",
        ),
        (
            "linux.seccomp",
            json!({ "defaultAction": "SCMP_ACT_NOTIFY" }),
            "SCMP_ACT_NOTIFY",
        ),
        (
            "linux.seccomp",
            json!({ "defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_ARM"] }),
            "linux.seccomp.architectures",
        ),
        ("root.path", json!("nosuch"), "root.path"),
        (
            "annotations",
            json!({ "palisade.seccomp": "off" }),
            "palisade.seccomp",
        ),
        (
            "annotations",
            json!({ "palisade.seccomp": "engine" }),
            "images carry annotations",
        ),
        (
            "annotations",
            json!({ "palisade.secomp": "engine" }),
            "palisade.secomp",
        ),
        (
            "linux.namespaces",
            json!([{ "type": "pid" }]),
            "no mount namespace",
        ),
    ];
    let user = users()[0];
    for (pointer, value, words) in cases {
        let mut bundle = Bundle::new(user, "true");
        set(&mut bundle.config, pointer, value.clone());
        let outcome = bundle.run();
        outcome.refused_with(words);
        assert!(outcome.stderr.contains("policy: "), "{outcome:?}");
        bundle
            .ask(&["state", &bundle.id])
            .refused_with("does not exist");
    }
}

#[test]
fn mounts_that_cannot_be_had_are_refused_by_their_place() {
    let cases = [
        (
            json!({ "destination": "/x", "source": "/nosuch", "options": ["bind"] }),
            "/nosuch",
        ),
        (
            json!({ "destination": "/x", "type": "nosuchfs", "source": "x" }),
            "nosuchfs",
        ),
        (
            json!({ "destination": "/x", "type": "tmpfs", "source": "x", "options": ["nosuch"] }),
            "/x",
        ),
        (
            json!({ "destination": "/x", "source": "x" }),
            "there is no type",
        ),
    ];
    for (mount, words) in cases {
        let mut bundle = Bundle::new(users()[0], "true");
        bundle.mount(mount);
        bundle.run().refused_with(words);
    }
}

/// The specification wants no error then ("Extensibility"), and nobody is to think that something came of it.
#[test]
fn what_is_not_known_is_told_of() {
    for user in users() {
        let mut bundle = Bundle::new(user, "true");
        bundle.config["linux"]["unheardOf"] = json!(1);
        bundle.config["process"]["unheardOf"] = json!(1);
        bundle.mount(json!({
            "destination": "/given", "source": "/usr", "options": ["rbind", "ro", "size=1k"],
        }));
        let outcome = bundle.run();
        assert_eq!(outcome.code, Some(0), "{user:?}: {outcome:?}");
        for told in [
            "the field linux.unheardOf is not known",
            "the field process.unheardOf is not known",
            "\"/given\": nothing comes of size for a bind mount",
        ] {
            assert!(outcome.stderr.contains(told), "{told}: {outcome:?}");
        }
    }
}

/// A file given to a container that is there is read as its config.json was.
#[test]
fn what_is_not_known_in_a_later_file_is_told_of() {
    for user in users() {
        let bundle = Bundle::new(user, "sleep 1000");
        bundle.write();
        bundle.ask(&["create", &bundle.id]).succeeded();
        bundle.ask(&["start", &bundle.id]).succeeded();
        let mut process = bundle.config["process"].clone();
        process["args"] = json!(["/bin/true"]);
        process["unheardOf"] = json!(1);
        let file = bundle.path().join("process.json");
        std::fs::write(&file, process.to_string()).unwrap();
        let file = file.to_str().unwrap();
        let outcome = bundle.ask(&["exec", "--process", file, &bundle.id]);
        assert_eq!(outcome.code, Some(0), "{user:?}: {outcome:?}");
        let told = "the field unheardOf is not known";
        assert!(outcome.stderr.contains(told), "{user:?}: {outcome:?}");
    }
}

/// A namespace of another kind than was said.
#[test]
fn a_path_of_the_wrong_kind_is_refused() {
    for user in users() {
        let mut bundle = Bundle::new(user, "true");
        let namespaces = bundle.config["linux"]["namespaces"].as_array_mut().unwrap();
        let network = namespaces.iter_mut().find(|one| one["type"] == "network");
        network.unwrap()["path"] = json!("/proc/self/ns/uts");
        bundle.run().refused_with("a namespace cannot be joined");
        bundle
            .ask(&["state", &bundle.id])
            .refused_with("does not exist");
    }
}

#[test]
fn names_lead_nowhere_else() {
    let bundle = Bundle::new(users()[0], "true");
    bundle.write();
    for id in ["../escape", "a/b", "..", "", "a b"] {
        bundle
            .ask(&["create", id])
            .refused_with("invalid container ID");
        bundle
            .ask(&["state", id])
            .refused_with("invalid container ID");
    }
}

#[test]
fn engines_find_their_flags_and_read_errors_from_their_log() {
    let bundle = Bundle::new(users()[0], "true");
    bundle.write();
    let log = bundle.path().join("log.json");
    let path = log.to_str().unwrap();
    std::fs::write(&log, "").unwrap();
    let outcome = bundle.ask(&[
        "--log",
        path,
        "--log-format",
        "json",
        "--rootless=auto",
        "state",
        "nosuch",
    ]);
    outcome.refused_with("does not exist");
    let line: Value = serde_json::from_str(&std::fs::read_to_string(&log).unwrap()).unwrap();
    assert_eq!(line["level"], "error");
    assert!(
        line["msg"]
            .as_str()
            .unwrap()
            .contains("\"nosuch\" does not exist"),
        "{line}"
    );
    let features: Value = serde_json::from_str(&bundle.ask(&["features"]).succeeded()).unwrap();
    assert!(features["linux"]["namespaces"].as_array().unwrap().len() >= 7);
    let explained: Value = serde_json::from_str(&bundle.ask(&["explain"]).succeeded()).unwrap();
    assert!(explained["steps"].as_array().unwrap().len() > 10);
}
