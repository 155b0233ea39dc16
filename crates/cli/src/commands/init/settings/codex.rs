//! Settings of Codex: the permission profile that its `config.toml` chooses, or the older `sandbox_mode`.

use super::Wishes;
use anyhow::{Context, bail};
use serde_json::{Map, Value};

type Table = Map<String, Value>;

/// Profiles that one extends, which extends another one.
const MOST_EXTENDED: usize = 8;

pub(super) fn add(settings: &Table, wishes: &mut Wishes) -> anyhow::Result<()> {
    if let Some(mode) = settings.get("sandbox_mode").and_then(Value::as_str) {
        return add_mode(mode, settings, wishes);
    }
    let chosen = settings.get("default_permissions").and_then(Value::as_str);
    let chosen = chosen.context("it has neither `default_permissions` nor `sandbox_mode`")?;
    add_profile(chosen, settings, wishes, MOST_EXTENDED)
}

/// What it was before there were profiles.
fn add_mode(mode: &str, settings: &Table, wishes: &mut Wishes) -> anyhow::Result<()> {
    match mode {
        "read-only" => return Ok(()),
        "workspace-write" => wishes.write_project(),
        _ => bail!("`sandbox_mode = \"{mode}\"` is no sandbox: nothing can be made of it"),
    }
    let Some(more) = settings
        .get("sandbox_workspace_write")
        .and_then(Value::as_object)
    else {
        return Ok(());
    };
    let roots = more.get("writable_roots").and_then(Value::as_array);
    for root in roots.into_iter().flatten().filter_map(Value::as_str) {
        wishes.write(root);
    }
    if more.get("network_access").and_then(Value::as_bool) == Some(true) {
        wishes.internet("network_access");
    }
    Ok(())
}

/// What it extends comes first.
fn add_profile(
    name: &str,
    settings: &Table,
    wishes: &mut Wishes,
    most: usize,
) -> anyhow::Result<()> {
    match name {
        ":read-only" => return Ok(()),
        ":workspace" => {
            wishes.write_project();
            return Ok(());
        }
        _ if name.starts_with(':') => bail!("`{name}` is no sandbox: nothing can be made of it"),
        _ => {}
    }
    let profiles = settings.get("permissions").and_then(Value::as_object);
    let profile = profiles
        .and_then(|profiles| profiles.get(name)?.as_object())
        .with_context(|| format!("it has no profile `permissions.{name}`"))?;
    if let Some(base) = profile.get("extends").and_then(Value::as_str) {
        let most = most
            .checked_sub(1)
            .with_context(|| format!("`permissions.{name}.extends` has no end"))?;
        add_profile(base, settings, wishes, most)?;
    }
    let roots = profile.get("workspace_roots").and_then(Value::as_object);
    for (root, _) in roots
        .into_iter()
        .flatten()
        .filter(|(_, value)| value.as_bool() == Some(true))
    {
        wishes.leave(
            root,
            "a further project: add it to `write` if it is to be worked on here",
        );
    }
    let files = profile.get("filesystem").and_then(Value::as_object);
    for (path, access) in files.into_iter().flatten() {
        add_file(path, access, wishes);
    }
    if let Some(network) = profile.get("network").and_then(Value::as_object) {
        add_network(network, wishes);
    }
    Ok(())
}

fn add_file(path: &str, access: &Value, wishes: &mut Wishes) {
    match (path, access) {
        (":workspace_roots" | ":project_roots" | ":cwd", Value::String(access)) => {
            grant(".", access, wishes);
        }
        (":workspace_roots" | ":project_roots" | ":cwd", Value::Object(below)) => {
            for (path, access) in below {
                grant(path, access.as_str().unwrap_or_default(), wishes);
            }
        }
        // The system, and temporary folders: every guest has these.
        (":minimal" | ":tmpdir" | ":slash_tmp", _) => {}
        _ if path.starts_with(':') => wishes.leave(path, "no place that a grant names"),
        (_, Value::String(access)) => grant(path, access, wishes),
        (_, Value::Object(below)) => {
            for (name, access) in below {
                let path = format!("{path}/{name}");
                grant(&path, access.as_str().unwrap_or_default(), wishes);
            }
        }
        _ => wishes.leave(path, "no grant of palisade's says this"),
    }
}

fn grant(path: &str, access: &str, wishes: &mut Wishes) {
    match access {
        "write" => wishes.write(path),
        "read" => {
            wishes.read(path);
            // In what is written to, it is the exception.
            wishes.deny_write(path);
        }
        "deny" | "none" => {
            wishes.deny_read(path);
            wishes.deny_write(path);
        }
        _ => wishes.leave(path, "no access that is known here"),
    }
}

fn add_network(network: &Table, wishes: &mut Wishes) {
    let is_enabled = network.get("enabled").and_then(Value::as_bool) == Some(true);
    let rules = |key: &str| {
        let rules = network.get(key).and_then(Value::as_object);
        rules.into_iter().flatten()
    };
    for (domain, rule) in rules("domains") {
        match rule.as_str() {
            Some("allow") => wishes.connect(domain),
            _ => wishes.deny_domain(domain),
        }
    }
    for (path, _) in rules("unix_sockets").filter(|(_, rule)| rule.as_str() == Some("allow")) {
        wishes.socket(path);
    }
    if is_enabled && rules("domains").next().is_none() {
        wishes.internet("network.enabled");
    }
    let known = ["enabled", "domains", "unix_sockets"];
    for (key, _) in network
        .iter()
        .filter(|(key, _)| !known.contains(&key.as_str()))
    {
        wishes.leave(format!("network.{key}"), "no grant of palisade's says this");
    }
}
