use super::*;
use palisade_policy::policy_schema;
use std::collections::BTreeSet;

/// Whether a filter, a component and a program can have it: whoever can has a use for it.
const KEYS: [(&str, [bool; 3]); 32] = [
    ("wall = 'process'", [false, false, true]),
    ("profiles = ['java']", [false, false, true]),
    ("system = false", [false, false, true]),
    ("guard = true", [false, false, true]),
    ("cwd = '/data'", [false, true, true]),
    ("allow-degraded = ['landlock']", [true, true, true]),
    ("grants.read = ['/srv']", [false, true, true]),
    ("grants.read-if-there = ['/srv']", [false, false, true]),
    ("grants.write = ['/srv']", [false, true, true]),
    ("grants.exec = ['/srv']", [false, false, true]),
    ("grants.ipc = ['/srv']", [false, false, true]),
    ("grants.protect = ['/srv/x']", [false, false, true]),
    ("grants.env = ['NAME=value']", [true, true, true]),
    ("grants.hide = ['/srv/x']", [false, false, true]),
    ("grants.env = ['NAME']", [false, true, true]),
    ("grants.env-file = ['/srv/env']", [false, false, false]),
    ("grants.device = ['/dev/kvm']", [false, false, true]),
    (
        "grants.connect = ['tcp://192.0.2.1:80']",
        [true, true, true],
    ),
    (
        "grants.connect = ['udp://192.0.2.1:53']",
        [false, false, true],
    ),
    ("grants.connect = ['internet']", [false, false, true]),
    (
        "grants.listen = ['tcp://127.0.0.1:80']",
        [false, false, true],
    ),
    ("grants.listen = ['inherited']", [false, false, false]),
    ("limits.memory = '64M'", [true, true, true]),
    ("limits.cpu = 1", [false, false, true]),
    ("limits.processes = 9", [false, false, true]),
    ("limits.files = 99", [false, false, true]),
    ("limits.file-size = '1M'", [false, false, true]),
    ("limits.tmp-size = '1M'", [false, false, true]),
    ("limits.time = '1s'", [true, true, true]),
    ("limits.cpu-time = '1s'", [false, true, true]),
    ("limits.output = '1M'", [false, true, true]),
    ("wall = 'wasm'", [true, true, true]),
];

fn can_have(kind: GuestKind, line: &str) -> bool {
    // A rule for writable places is one at such a place.
    let is_rule = ["exec", "ipc", "protect", "hide"]
        .iter()
        .any(|rule| line.starts_with(&format!("grants.{rule} ")));
    let around = match is_rule {
        true => "grants.write = ['/srv']\n",
        false => "",
    };
    let text = format!("{around}{line}");
    let layer = PolicyLayer::from_toml(&text, "policy", Path::new("/")).unwrap();
    let policy = Policy::from_layers([layer.clone()]);
    let is_valid = policy.validate().is_ok();
    is_valid && find_ungrantable(&policy, &layer, kind).is_none()
}

/// No key means nothing without a word: it is used, or refused.
#[test]
fn each_kind_of_guest_has_what_it_can_use_and_is_refused_the_rest() {
    for (line, expected) in KEYS {
        let kinds = [GuestKind::Filter, GuestKind::Component, GuestKind::Program];
        assert_eq!(kinds.map(|kind| can_have(kind, line)), expected, "{line}");
    }
}

/// A new key of policies is to be decided on for each kind of guest.
#[test]
fn every_key_of_a_policy_is_decided_on() {
    let schema = policy_schema();
    let names = |table: &str, prefix: &str| {
        let keys = schema.pointer(&format!("{table}/properties")).unwrap();
        let keys = keys.as_object().unwrap().keys();
        let keys: Vec<_> = keys.map(|key| format!("{prefix}{key}")).collect();
        keys
    };
    let mut known: BTreeSet<_> = names("", "").into_iter().collect();
    for table in ["grants", "limits"] {
        assert!(known.remove(table), "{table}");
        known.extend(names(&format!("/properties/{table}"), &format!("{table}.")));
    }
    known.remove("$schema");
    let decided = KEYS.iter().map(|(line, _)| line.split(' ').next().unwrap());
    let decided: BTreeSet<_> = decided.map(str::to_owned).collect();
    assert_eq!(decided, known);
}
