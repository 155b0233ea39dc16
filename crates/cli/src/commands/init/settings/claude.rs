//! Settings of Claude Code: `permissions` and `sandbox` of its `settings.json`.

use super::{Wishes, runtime, texts};
use serde_json::Value;

/// Keys of `sandbox` that change nothing which a policy could say.
const OF_ITS_OWN: [&str; 6] = [
    "enabled",
    "failIfUnavailable",
    "autoAllowBashIfSandboxed",
    "filesystem",
    "network",
    "excludedCommands",
];

pub(super) fn add(settings: &Value, wishes: &mut Wishes) {
    // Its sandbox has the folder that it was started in to write to, whatever else is said.
    wishes.write_project();
    for folder in texts(settings, &["permissions", "additionalDirectories"]) {
        wishes.write(folder);
    }
    for rule in texts(settings, &["permissions", "allow"]) {
        allow(rule, wishes);
    }
    for rule in texts(settings, &["permissions", "deny"]) {
        deny(rule, wishes);
    }
    for rule in texts(settings, &["permissions", "ask"]) {
        wishes.leave(rule, "nobody is asked: what is granted is granted");
    }
    let Some(sandbox) = settings.get("sandbox") else {
        return;
    };
    runtime::add_files(sandbox, wishes);
    runtime::add_network(sandbox, wishes);
    for command in texts(sandbox, &["excludedCommands"]) {
        wishes.leave(command, "nothing runs outside of the wall");
    }
    runtime::leave_unknown(sandbox, &OF_ITS_OWN, wishes);
}

/// `Tool(what)`, or the tool alone.
fn split(rule: &str) -> (&str, Option<&str>) {
    let inside = rule
        .split_once('(')
        .and_then(|(tool, rest)| Some((tool, rest.strip_suffix(')')?)));
    inside.map_or((rule, None), |(tool, what)| (tool, Some(what)))
}

const OF_COMMANDS: &str = "a rule for commands: the wall is around whatever runs";
const OF_A_TOOL: &str = "a rule for a tool of the agent's own";

fn allow(rule: &str, wishes: &mut Wishes) {
    match split(rule) {
        ("Read", Some(path)) => wishes.read(&of_rule(path)),
        ("Edit" | "Write" | "MultiEdit" | "NotebookEdit", Some(path)) => {
            wishes.write(&of_rule(path));
        }
        ("WebFetch", Some(what)) => match what.strip_prefix("domain:") {
            Some(domain) => wishes.connect(domain),
            None => wishes.leave(rule, OF_A_TOOL),
        },
        ("Read" | "Edit" | "Write" | "Glob" | "Grep" | "LS", None) => {}
        ("Bash", _) => wishes.leave(rule, OF_COMMANDS),
        _ => wishes.leave(rule, OF_A_TOOL),
    }
}

fn deny(rule: &str, wishes: &mut Wishes) {
    match split(rule) {
        ("Read", Some(path)) => wishes.deny_read(&of_rule(path)),
        ("Edit" | "Write" | "MultiEdit" | "NotebookEdit", Some(path)) => {
            wishes.deny_write(&of_rule(path));
        }
        ("WebFetch", Some(what)) => match what.strip_prefix("domain:") {
            Some(domain) => wishes.deny_domain(domain),
            None => wishes.leave(rule, OF_A_TOOL),
        },
        ("Bash", _) => wishes.leave(rule, OF_COMMANDS),
        _ => wishes.leave(rule, OF_A_TOOL),
    }
}

/// In rules a path from the root begins with two slashes, and one slash is the project.
fn of_rule(path: &str) -> String {
    match path.strip_prefix('/') {
        Some(absolute) if absolute.starts_with('/') => absolute.to_owned(),
        Some(below) => format!("./{below}"),
        None => path.to_owned(),
    }
}
