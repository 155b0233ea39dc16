//! Settings of sandbox-runtime (`srt`), which Claude Code's `sandbox` has too: `network` and `filesystem`.

use super::{Wishes, texts};
use serde_json::Value;

const KNOWN: [&str; 2] = ["network", "filesystem"];
const OF_FILES: [&str; 4] = ["allowWrite", "denyWrite", "denyRead", "allowRead"];
const OF_NETWORK: [&str; 5] = [
    "allowedDomains",
    "deniedDomains",
    "allowUnixSockets",
    "allowLocalBinding",
    "allowAllUnixSockets",
];

pub(super) fn add(settings: &Value, wishes: &mut Wishes) {
    add_files(settings, wishes);
    add_network(settings, wishes);
    leave_unknown(settings, &KNOWN, wishes);
}

pub(super) fn add_files(settings: &Value, wishes: &mut Wishes) {
    let of = |key| texts(settings, &["filesystem", key]);
    of("allowWrite").for_each(|path| wishes.write(path));
    of("denyWrite").for_each(|path| wishes.deny_write(path));
    of("allowRead").for_each(|path| wishes.read(path));
    of("denyRead").for_each(|path| wishes.deny_read(path));
    if let Some(files) = settings.get("filesystem") {
        leave_unknown(files, &OF_FILES, wishes);
    }
}

pub(super) fn add_network(settings: &Value, wishes: &mut Wishes) {
    let of = |key| texts(settings, &["network", key]);
    of("allowedDomains").for_each(|domain| wishes.connect(domain));
    of("deniedDomains").for_each(|domain| wishes.deny_domain(domain));
    of("allowUnixSockets").for_each(|path| wishes.socket(path));
    let Some(network) = settings.get("network") else {
        return;
    };
    let is_set = |key: &str| network.get(key).and_then(Value::as_bool) == Some(true);
    if is_set("allowLocalBinding") {
        wishes.leave(
            "allowLocalBinding",
            "a port is named: `listen = [\"tcp://127.0.0.1:0\"]` is one that the kernel picks",
        );
    }
    if is_set("allowAllUnixSockets") {
        wishes.leave(
            "allowAllUnixSockets",
            "a socket is named: `connect = [\"unix:PATH\"]`",
        );
    }
    leave_unknown(network, &OF_NETWORK, wishes);
}

/// Keys that nobody here knows, unless they say no to something.
pub(super) fn leave_unknown(settings: &Value, known: &[&str], wishes: &mut Wishes) {
    let all = settings.as_object().into_iter().flatten();
    let unknown = all.filter(|(key, _)| !known.contains(&key.as_str()));
    for (key, _) in unknown.filter(|(_, value)| !matches!(value, Value::Bool(false) | Value::Null))
    {
        wishes.leave(key, "no grant of palisade's says this");
    }
}
