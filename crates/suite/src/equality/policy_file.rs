//! The policy of a case, as a file.

use std::collections::BTreeMap;

use crate::tools::FilledGrant;

/// The limit where a case has none.
const WATCHDOG: &str = "time = \"120s\"\n";

/// A policy file in the making.
#[derive(Default)]
pub(super) struct PolicyFile {
    head: String,
    grants: BTreeMap<&'static str, Vec<String>>,
    limits: String,
}

impl PolicyFile {
    pub(super) fn grant(&mut self, key: &'static str, value: &str) {
        self.grants.entry(key).or_default().push(value.to_owned());
    }

    pub(super) fn add(&mut self, grant: &FilledGrant) {
        match grant {
            FilledGrant::NoSystem => self.head += "system = false\n",
            FilledGrant::Cwd(path) => self.head += &format!("cwd = {path:?}\n"),
            FilledGrant::Limit(name, value) => self.limits += &format!("{name} = {value:?}\n"),
            FilledGrant::Read { host, guest } => self.grant("read", &format!("{host}:{guest}")),
            FilledGrant::Write { host, guest } => self.grant("write", &format!("{host}:{guest}")),
            FilledGrant::Exec(path) => self.grant("exec", path),
            FilledGrant::Ipc(path) => self.grant("ipc", path),
            FilledGrant::Protect(path) => self.grant("protect", path),
            FilledGrant::Hide(path) => self.grant("hide", path),
            FilledGrant::NoGuard => self.head += "guard = false\n",
            FilledGrant::Env(entry) => self.grant("env", entry),
            FilledGrant::Connect(address) => self.grant("connect", address),
            FilledGrant::Listen(address) => self.grant("listen", address),
            // A file can't name another.
            FilledGrant::PolicyFile(_) => {}
        }
    }

    pub(super) fn text(&self) -> String {
        let grants: String = self
            .grants
            .iter()
            .map(|(key, values)| format!("{key} = {values:?}\n"))
            .collect();
        // A guest that hangs ends as one that was ended.
        let is_timed = self.limits.contains("time = ");
        let watchdog = if is_timed { "" } else { WATCHDOG };
        format!(
            "{}[grants]\n{grants}[limits]\n{}{watchdog}",
            self.head, self.limits
        )
    }
}
