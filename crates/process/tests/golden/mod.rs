//! A user, a machine and a host that are made up, for plans that are the same everywhere.
//!
//! Of both walls' tests: those of the wasm wall take this file by its path.

use palisade_policy::{Policy, PolicyLayer};
use palisade_process::{
    Entry, EntryKind, Found, Host, Identity, Kind, Machine, Mount, Quotas, Tier, plan::Plan,
};
use palisade_wall::Surroundings;
use std::{path::Path, sync::OnceLock};

#[path = "../../src/host/table.rs"]
#[allow(dead_code, reason = "the crate's own tests use the rest of the table")]
mod table;
pub(crate) use table::{HOME, Table};

pub(crate) fn user() -> Machine {
    Machine {
        tier: Tier::UserNamespace,
        uid: 1001,
        gid: 1002,
        landlock_abi: Some(6),
        memfd_noexec: true,
        quotas: Quotas::default(),
        processors: 4,
        cgroups: OnceLock::new(),
        filtered: false.into(),
        seccomp: true.into(),
        stays: true.into(),
    }
}

pub(crate) fn surroundings() -> Surroundings {
    Surroundings {
        cwd: Some(HOME.into()),
        environment: [("LANG", "C.UTF-8"), ("SECRET", "hunter2")]
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
        ..Surroundings::default()
    }
}

/// A policy as a file says it.
pub(crate) fn policy(text: &str) -> Policy {
    let layer = PolicyLayer::from_toml(text, "policy.toml", Path::new(HOME)).unwrap();
    Policy::from_layers([layer])
}

pub(crate) fn steps(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(ToString::to_string).collect()
}
