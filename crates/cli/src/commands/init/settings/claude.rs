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
        add_rule(rule, true, wishes);
    }
    for rule in texts(settings, &["permissions", "deny"]) {
        add_rule(rule, false, wishes);
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

fn add_rule(rule: &str, is_allowed: bool, wishes: &mut Wishes) {
    match (split(rule), is_allowed) {
        (("Read", Some(path)), true) => wishes.read(&of_rule(path)),
        (("Read", Some(path)), false) => wishes.deny_read(&of_rule(path)),
        (("Edit" | "Write" | "MultiEdit" | "NotebookEdit", Some(path)), true) => {
            wishes.write(&of_rule(path));
        }
        (("Edit" | "Write" | "MultiEdit" | "NotebookEdit", Some(path)), false) => {
            wishes.deny_write(&of_rule(path));
        }
        (("WebFetch", Some(what)), _) => match (what.strip_prefix("domain:"), is_allowed) {
            (Some(domain), true) => wishes.connect(domain),
            (Some(domain), false) => wishes.deny_domain(domain),
            (None, _) => wishes.leave(rule, OF_A_TOOL),
        },
        (("Read" | "Edit" | "Write" | "Glob" | "Grep" | "LS", None), true) => {}
        (("Bash", _), _) => wishes.leave(rule, OF_COMMANDS),
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
