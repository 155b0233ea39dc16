//! The guest's environment: a short list, and what was granted.

use super::{Surroundings, profile};
use crate::host::Host;
use palisade_policy::{Policy, Profile};
use std::{collections::BTreeMap, ffi::OsString};

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Language and looks: they say nothing about the host that output would not.
const PASSED_ON: [&str; 6] = ["LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR"];

/// `NAME=VALUE` for each variable, sorted by name.
pub(super) fn of_guest(
    policy: &Policy,
    surroundings: &Surroundings,
    host: &dyn Host,
) -> Vec<OsString> {
    let mut variables: BTreeMap<OsString, OsString> = BTreeMap::new();
    variables.insert("PATH".into(), path(policy, surroundings));
    for (name, value) in [("HOME", "/tmp"), ("USER", "guest"), ("LOGNAME", "guest")] {
        variables.insert(name.into(), value.into());
    }
    let passed_on = surroundings.environment.iter().filter(|(name, _)| {
        name.to_str()
            .is_some_and(|name| PASSED_ON.contains(&name) || name.starts_with("LC_"))
    });
    variables.extend(passed_on.cloned());
    variables.extend(granted(policy, surroundings, host));
    texts(variables)
}

/// The same for a guest that gets what was asked for alone: by `env`, and by a profile.
pub(super) fn only_granted(
    policy: &Policy,
    surroundings: &Surroundings,
    host: &dyn Host,
) -> Vec<OsString> {
    texts(granted(policy, surroundings, host))
}

/// Where programs are looked for: first in what profiles add.
fn path(policy: &Policy, surroundings: &Surroundings) -> OsString {
    let mut path = OsString::new();
    for folder in profile::program_folders(policy, surroundings) {
        path.push(folder);
        path.push(":");
    }
    path.push(PATH);
    path
}

fn granted(
    policy: &Policy,
    surroundings: &Surroundings,
    host: &dyn Host,
) -> BTreeMap<OsString, OsString> {
    let mut variables = BTreeMap::new();
    for profile in &policy.grants.profiles {
        variables.extend(of_profile(*profile, policy.limits.memory_bytes));
        variables.extend(profile::variables(*profile, surroundings, host));
    }
    for grant in &policy.grants.env {
        let name = OsString::from(&grant.name);
        let host = || {
            surroundings
                .environment
                .iter()
                .rev()
                .find(|(host, _)| *host == name)
                .map(|(_, value)| value.clone())
        };
        if let Some(value) = grant.value.as_ref().map(OsString::from).or_else(host) {
            variables.insert(name, value);
        }
    }
    variables
}

fn texts(variables: BTreeMap<OsString, OsString>) -> Vec<OsString> {
    variables
        .into_iter()
        .map(|(name, value)| join(name, &value))
        .collect()
}

fn join(mut name: OsString, value: &std::ffi::OsStr) -> OsString {
    name.push("=");
    name.push(value);
    name
}

/// What a runtime must be told, because it can't see the domain's cgroup: how much memory there is.
/// The rest of the limit is for what the runtime keeps outside its heap.
fn of_profile(profile: Profile, memory_bytes: Option<u64>) -> Vec<(OsString, OsString)> {
    const MIB: u64 = 1 << 20;
    match (profile, memory_bytes) {
        (Profile::Java, Some(bytes)) => {
            vec![(
                "JDK_JAVA_OPTIONS".into(),
                format!("-XX:MaxRAM={bytes}").into(),
            )]
        }
        (Profile::Node, Some(bytes)) => {
            vec![(
                "NODE_OPTIONS".into(),
                format!("--max-old-space-size={}", (bytes / MIB * 3 / 4).max(16)).into(),
            )]
        }
        (Profile::Python, _) => vec![("PYTHONDONTWRITEBYTECODE".into(), "1".into())],
        _ => Vec::new(),
    }
}
