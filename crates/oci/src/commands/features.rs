//! `features`: what of the specification is there, for engines and for people.

use crate::{
    bundle::{ACTIONS, ARCHITECTURES, MOUNT_OPTIONS, OPERATORS},
    state::VERSION,
};
use palisade_process::{container::CAPABILITIES, seccomp::container_refusals};
use serde_json::{Value, json};

pub(super) fn document() -> Value {
    let capabilities: Vec<String> = CAPABILITIES
        .iter()
        .map(|name| format!("CAP_{name}"))
        .collect();
    let refused: serde_json::Map<String, Value> = container_refusals()
        .map(|(name, reason)| (name.to_owned(), reason.into()))
        .collect();
    json!({
        "ociVersionMin": "1.0.0",
        "ociVersionMax": VERSION,
        "hooks": [
            "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop",
        ],
        "mountOptions": &MOUNT_OPTIONS[..],
        "linux": {
            "namespaces": ["cgroup", "ipc", "mount", "network", "pid", "user", "uts"],
            "capabilities": capabilities,
            "cgroup": {
                "v1": true,
                "v2": true,
                "systemd": true,
                "systemdUser": true,
                "rdma": true,
            },
            "seccomp": {
                "enabled": true,
                "actions": ACTIONS,
                "operators": OPERATORS,
                "archs": ARCHITECTURES,
                "knownFlags": ["SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW", "SECCOMP_FILTER_FLAG_TSYNC"],
                "supportedFlags": ["SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW", "SECCOMP_FILTER_FLAG_TSYNC"],
            },
            "apparmor": { "enabled": true },
            "selinux": { "enabled": true },
            "intelRdt": { "enabled": false },
            "mountExtensions": { "idmap": { "enabled": true } },
            "netDevices": { "enabled": false },
        },
        "annotations": {
            "org.palisade.version": env!("CARGO_PKG_VERSION"),
            "org.palisade.refused-calls": Value::from(refused).to_string(),
        },
        "potentiallyUnsafeConfigAnnotations": ["palisade."],
    })
}
