//! Policies of guests, and what of a policy each kind of guest can have.

use super::{ConfigProblem, error::Found, read::Reader, value};
use palisade_policy::{
    Access, ConnectGrant, ListenGrant, Policy, PolicyError, PolicyLayer, WallKind,
    document::{self, Key, Value},
};
use std::path::Path;

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

/// Reads `policy`: the path of a policy file, or a table with a policy file's keys.
pub(super) fn read_policy(
    key: &Key,
    value: &Value,
    name: &str,
    kind: GuestKind,
    reader: &Reader<'_>,
) -> Result<Policy, Found> {
    let layer = match value.get_ref().as_table() {
        Some(table) => PolicyLayer::from_table(table, reader.base_dir)?,
        None if value.get_ref().is_str() => read_policy_file(
            &value::host_path(key, value, reader.base_dir)?,
            value,
            reader,
        )?,
        None => {
            let expected = "a policy file's path, or a table with its keys";
            return Err(document::wrong_type(key, value, expected).into());
        }
    };
    let policy = Policy::from_layers([layer]);
    let found = |problem| Found::at(key.span(), problem);
    match policy.validate() {
        Ok(()) => {}
        Err(PolicyError::Contradiction(contradiction)) => {
            return Err(found(ConfigProblem::Contradiction(contradiction)));
        }
        Err(PolicyError::Toml(error)) => return Err(found(ConfigProblem::PolicyFile(error))),
    }
    match find_ungrantable(&policy, kind) {
        None => Ok(policy),
        Some((what, advice)) => Err(found(ConfigProblem::NotGrantable {
            guest: kind.describe(name),
            what: what.into(),
            advice,
        })),
    }
}

fn read_policy_file(path: &Path, value: &Value, reader: &Reader<'_>) -> Result<PolicyLayer, Found> {
    let text = reader.read_file(path, value)?;
    let base_dir = path.parent().unwrap_or(Path::new("/"));
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
const NOT_ITS_SOCKETS: &str = "the sockets that a service manager passes are the server's own: hand the program one of its own by `direct`, or requests by a route";
const NO_SOCKETS: &str = "it has no sockets: requests come to it by its route";

/// The first thing of a policy that this kind of guest can't have, and what to do.
fn find_ungrantable(policy: &Policy, kind: GuestKind) -> Option<(&'static str, &'static str)> {
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
            is_filter && has(Access::Protect),
            "`protect` grants",
            NO_FILES,
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
