//! Policies of guests, and what of a policy each kind of guest can have.

use super::{
    ConfigProblem,
    error::Found,
    keys::Kind,
    kind::{HostPath, string},
    read::Reader,
};
use palisade_policy::{
    Access, ConnectGrant, ListenGrant, Policy, PolicyError, PolicyLayer, WallKind,
    document::{self, Key, Value},
};
use serde_json::json;
use std::{ops::Range, path::Path};
use toml::de::DeValue;

/// What a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuestKind {
    /// A proxy-wasm module in the server's process.
    Filter,
    /// A component in the server's process.
    Component,
    /// A program behind the process wall, or the server's own.
    Program,
}

/// `policy`: the path of a policy file, or a table with a policy file's keys.
pub(super) struct GuestPolicy {
    policy: Policy,
    /// What it says, where that is what is left out, too.
    layer: PolicyLayer,
    key: Range<usize>,
}

impl Kind for GuestPolicy {
    type Value = Self;

    fn read(key: &Key, value: &Value, reader: &Reader<'_>) -> Result<Self, Found> {
        let layer = match value.get_ref() {
            DeValue::Table(table) => {
                if let Some(room) = reader.room() {
                    room.take_policy(table, &key.span())?;
                }
                PolicyLayer::from_table(table, reader.base_dir)?
            }
            DeValue::String(_) => {
                let path = HostPath::read(key, value, reader)?;
                read_policy_file(&path, value, reader)?
            }
            _ => {
                let expected = "a policy file's path, or a table with its keys";
                return Err(document::wrong_type(key, value, expected).into());
            }
        };
        let policy = Policy::from_layers([layer.clone()]);
        let found = |problem| Err(Found::at(key.span(), problem));
        match policy.validate() {
            Ok(()) => Ok(Self {
                policy,
                layer,
                key: key.span(),
            }),
            Err(PolicyError::Contradiction(contradiction)) => {
                found(ConfigProblem::Contradiction(contradiction))
            }
            Err(PolicyError::Toml(error)) => found(ConfigProblem::PolicyFile(error)),
        }
    }

    fn schema() -> serde_json::Value {
        json!({ "anyOf": [string(), { "$ref": "#/definitions/policy" }] })
    }
}

impl GuestPolicy {
    /// The policy, if a guest of this kind can have it.
    pub(super) fn of(self, kind: GuestKind, name: &str) -> Result<Policy, Found> {
        match find_ungrantable(&self.policy, &self.layer, kind) {
            None => Ok(self.policy),
            Some((what, advice)) => {
                let problem = ConfigProblem::NotGrantable {
                    guest: kind.describe(name),
                    what: what.into(),
                    advice,
                };
                Err(Found::at(self.key, problem))
            }
        }
    }
}

fn read_policy_file(path: &Path, value: &Value, reader: &Reader<'_>) -> Result<PolicyLayer, Found> {
    let text = reader.read_file(path, value)?;
    let base_dir = path.parent().unwrap_or(Path::new("/"));
    if let (Some(room), Ok(document)) = (reader.room(), document::parse(&text)) {
        room.take_policy(document.get_ref(), &value.span())?;
    }
    PolicyLayer::from_toml(&text, &path.to_string_lossy(), base_dir)
        .map_err(|error| Found::at(value.span(), ConfigProblem::PolicyFile(error)))
}

impl GuestKind {
    fn describe(self, name: &str) -> String {
        match self {
            Self::Filter => format!("filter `{name}`"),
            Self::Component => format!("component `{name}`"),
            Self::Program => format!("program `{name}`"),
        }
    }
}

const NO_FILES: &str =
    "a filter sees no files: what it needs to know goes into its `configuration`";
const NO_DOMAIN: &str = "it runs in the server's own process, one call at a time: `memory` bounds an instance, `time` a call";
const NO_SYSTEM: &str =
    "it sees no programs and libraries of the system, whatever this says: leave the key out";
const NO_GUARD: &str = "nothing guards a checkout against it: grant it folders in which nobody runs git, and leave the key out";
const NO_VALUE: &str = "the server's own variables are not passed to filters: write NAME=VALUE, or put it into its `configuration`";
const NOT_ITS_SOCKETS: &str = "the sockets that a service manager passes are the server's own: hand the program one of its own by `direct`, or requests by a route";
const NO_SOCKETS: &str = "it has no sockets: requests come to it by its route";

/// The first thing of a policy that this kind of guest can't have, and what to do.
fn find_ungrantable(
    policy: &Policy,
    layer: &PolicyLayer,
    kind: GuestKind,
) -> Option<(&'static str, &'static str)> {
    let (grants, limits) = (&policy.grants, &policy.limits);
    if kind == GuestKind::Program {
        let is_inherited = grants.listen.contains(&ListenGrant::Inherited);
        return is_inherited.then_some(("`listen = [\"inherited\"]`", NOT_ITS_SOCKETS));
    }
    let is_filter = kind == GuestKind::Filter;
    let has = |access| grants.files.iter().any(|file| file.access == access);
    let is_socket_address = |grant: &ConnectGrant| !matches!(grant, ConnectGrant::Internet { transport, .. } if transport.name() == "udp");
    let is_internet = |grant: &ConnectGrant| matches!(grant, ConnectGrant::Public { .. });
    let all_tcp = grants.connect.iter().all(is_socket_address);
    let checks = [
        (
            policy.wall == Some(WallKind::Process),
            "`wall = \"process\"`",
            "it is WebAssembly: drop `wall`",
        ),
        (layer.system.is_some(), "the key `system`", NO_SYSTEM),
        (layer.guard.is_some(), "the key `guard`", NO_GUARD),
        (
            is_filter && grants.env.iter().any(|one| one.value.is_none()),
            "a variable without a value",
            NO_VALUE,
        ),
        (
            !grants.profiles.is_empty(),
            "profiles",
            "they are for native programs",
        ),
        (is_filter && has(Access::Read), "`read` grants", NO_FILES),
        (
            has(Access::ReadIfThere),
            "`read-if-there` grants",
            "grant what is there with `read`",
        ),
        (is_filter && has(Access::Write), "`write` grants", NO_FILES),
        (
            grants.connect.iter().any(is_internet),
            "`internet`",
            "its requests go to servers that are named: grant each name",
        ),
        (has(Access::Exec), "`exec` grants", "it starts no programs"),
        (
            has(Access::Ipc),
            "`ipc` grants",
            "it makes no sockets and FIFOs",
        ),
        (
            has(Access::Protect),
            "`protect` grants",
            match is_filter {
                true => NO_FILES,
                false => "grant the folders beside them for writing, and not what holds them",
            },
        ),
        (
            has(Access::Hide),
            "`hide` grants",
            match is_filter {
                true => NO_FILES,
                false => "grant the folders beside them, and not what holds them",
            },
        ),
        (
            is_filter && grants.cwd.is_some(),
            "a working directory",
            NO_FILES,
        ),
        (
            !grants.devices.is_empty(),
            "`device` grants",
            "it sees no devices",
        ),
        (!grants.listen.is_empty(), "`listen` grants", NO_SOCKETS),
        (
            !all_tcp,
            "udp grants",
            "what it sends are HTTP requests: grant tcp",
        ),
        (limits.cpu_cores.is_some(), "the limit `cpu`", NO_DOMAIN),
        (
            limits.processes.is_some(),
            "the limit `processes`",
            NO_DOMAIN,
        ),
        (limits.files.is_some(), "the limit `files`", NO_DOMAIN),
        (
            limits.file_size_bytes.is_some(),
            "the limit `file-size`",
            NO_DOMAIN,
        ),
        (
            limits.tmp_size_bytes.is_some(),
            "the limit `tmp-size`",
            NO_DOMAIN,
        ),
        (
            is_filter && limits.cpu_time.is_some(),
            "the limit `cpu-time`",
            NO_DOMAIN,
        ),
        (
            is_filter && limits.output_bytes.is_some(),
            "the limit `output`",
            NO_DOMAIN,
        ),
    ];
    let found = checks.into_iter().find(|(is_there, ..)| *is_there);
    found.map(|(_, what, advice)| (what, advice))
}

#[cfg(test)]
mod tests;
