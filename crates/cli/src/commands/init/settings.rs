//! `palisade init --from`: what the settings of an agent's own sandbox allow, as grants of a policy.
//!
//! ```text
//!  settings ──claude, runtime, codex──▶ Wishes, one at a time ──▶ Settings: grants, and what is none
//! ```
//!
//! Nothing is opened wider than the settings open it: what a policy has no grant for is left out and told. Where theirs
//! allows everything but some, palisade's denies everything but some, and what was to be denied is denied already.

mod claude;
mod codex;
mod runtime;

use crate::commands::{policy_text::path_value, secrets::Secrets};
use anyhow::{Context, anyhow, bail};
use palisade_command_line::{home::home_dir, read};
use palisade_policy::{ConnectGrant, acts_on_terminal, visible};
use palisade_process::{Host, Kind, ThisHost, paths::normalized, places::Advice};
use serde_json::{Map, Value};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use toml_edit::{DocumentMut, Item, TableLike};

/// More than anybody writes by hand.
const MOST_BYTES: u64 = 1 << 20;
/// More would be no policy that anybody reads.
const MOST_GRANTS: usize = 500;

/// What of somebody's settings is a grant, and what is not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// Whose they are.
    pub(super) of: &'static str,
    /// The project is to be read alone.
    pub(super) is_read_only: bool,
    pub(super) write: Vec<String>,
    pub(super) read: Vec<String>,
    pub(super) connect: Vec<String>,
    pub(super) protect: Vec<String>,
    pub(super) hide: Vec<String>,
    /// What was left out, and why.
    pub(super) left: Vec<(String, &'static str)>,
}

impl Settings {
    /// Reads those of a file, for a project.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is none that is known.
    pub(super) fn read(file: &Path, project: &Path) -> anyhow::Result<Self> {
        let shown = visible(&file.to_string_lossy()).into_owned();
        let bytes = read::read_regular_file(file, MOST_BYTES)
            .with_context(|| format!("usage: cannot read {shown}"))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| anyhow!("usage: {shown}: it is no text in UTF-8"))?;
        let secrets = Secrets::of_this_machine()?;
        let mut wishes = Wishes::new(project, home_dir(), secrets);
        let of = interpret(&text, &mut wishes)
            .map_err(|error| anyhow!("usage: {shown}: {}", visible(&error.to_string())))?;
        let settings = wishes.finish(of);
        let count = settings.write.len() + settings.read.len() + settings.connect.len();
        if count + settings.protect.len() + settings.hide.len() > MOST_GRANTS {
            bail!("usage: {shown}: it has more than {MOST_GRANTS} grants");
        }
        Ok(settings)
    }
}

/// Adds all of a text; gives whose settings it has.
fn interpret(text: &str, wishes: &mut Wishes) -> anyhow::Result<&'static str> {
    let Ok(json) = serde_json::from_str::<Value>(text) else {
        let document: DocumentMut = text
            .parse()
            .map_err(|error| anyhow!("it is neither JSON nor TOML: {error}"))?;
        codex::add(&table_of(document.as_table()), wishes)?;
        return Ok("Codex");
    };
    let has = |key: &str| json.get(key).is_some_and(Value::is_object);
    if has("sandbox") || has("permissions") {
        claude::add(&json, wishes);
        Ok("Claude Code")
    } else if has("network") || has("filesystem") {
        runtime::add(&json, wishes);
        Ok("sandbox-runtime")
    } else {
        bail!(
            "it has neither `sandbox` and `permissions` (Claude Code), `network` and `filesystem` (sandbox-runtime), nor \
             `permissions` in TOML (Codex)"
        )
    }
}

/// A table of TOML's, as one of JSON: of what both have.
fn table_of(table: &dyn TableLike) -> Map<String, Value> {
    let entries = table.iter();
    entries
        .map(|(key, item)| (key.to_owned(), value_of(item)))
        .collect()
}

fn value_of(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return table_of(table).into();
    }
    if let Some(list) = item.as_array() {
        let values = list
            .iter()
            .map(|value| value_of(&Item::Value(value.clone())));
        return values.collect();
    }
    let text = item.as_str().map(Value::from);
    text.or_else(|| item.as_bool().map(Value::from))
        .unwrap_or_default()
}

/// Texts of a list; of anything else none.
fn texts<'a>(value: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a str> + use<'a> {
    let found = path.iter().try_fold(value, |value, key| value.get(key));
    let list = found.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str)
}

/// What settings ask for, as it is collected.
pub(super) struct Wishes {
    project: PathBuf,
    home: Option<PathBuf>,
    /// What is granted to nobody.
    secrets: Secrets,
    /// Where the project can be written to.
    writes_project: bool,
    write: BTreeSet<PathBuf>,
    read: BTreeSet<PathBuf>,
    connect: BTreeSet<String>,
    deny_write: BTreeSet<PathBuf>,
    deny_read: BTreeSet<PathBuf>,
    deny_domains: BTreeSet<String>,
    left: Vec<(String, &'static str)>,
}

const PATTERN: &str = "a pattern; palisade grants files and folders by name";
const NO_PATH: &str = "no path that a grant can have";

impl Wishes {
    fn new(project: &Path, home: Option<PathBuf>, secrets: Secrets) -> Self {
        Self {
            project: project.into(),
            secrets,
            home,
            writes_project: false,
            write: BTreeSet::new(),
            read: BTreeSet::new(),
            connect: BTreeSet::new(),
            deny_write: BTreeSet::new(),
            deny_read: BTreeSet::new(),
            deny_domains: BTreeSet::new(),
            left: Vec::new(),
        }
    }

    /// The project can be written to.
    fn write_project(&mut self) {
        self.writes_project = true;
    }

    fn write(&mut self, text: &str) {
        match self.path(text) {
            Ok(path) if self.project.starts_with(&path) && path != self.project => {
                self.leave(text, "it holds the project and more: name what is needed");
            }
            Ok(path) if path == self.project => self.writes_project = true,
            Ok(path) if is_of_the_guest(&path) => {}
            Ok(path) => drop(self.write.insert(path)),
            Err(why) => self.leave(text, why),
        }
    }

    fn read(&mut self, text: &str) {
        match self.path(text) {
            Ok(path) if path.starts_with(&self.project) || is_of_everybody(&path) => {}
            Ok(path) if is_of_the_guest(&path) => {}
            Ok(path) => drop(self.read.insert(path)),
            Err(why) => self.leave(text, why),
        }
    }

    fn deny_write(&mut self, text: &str) {
        match self.path(text) {
            Ok(path) => drop(self.deny_write.insert(path)),
            Err(why) => self.leave(text, why),
        }
    }

    fn deny_read(&mut self, text: &str) {
        match self.path(text) {
            Ok(path) => drop(self.deny_read.insert(path)),
            Err(why) => self.leave(text, why),
        }
    }

    /// A name, as `example.com`, `*.example.com` or `example.com:8080`.
    fn connect(&mut self, domain: &str) {
        let has_port = domain
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = match has_port {
            true => format!("tcp://{domain}"),
            false => format!("tcp://{domain}:443"),
        };
        match address.parse::<ConnectGrant>() {
            Ok(_) => drop(self.connect.insert(address)),
            Err(_) if domain == "*" => self.internet(domain),
            Err(_) => self.leave(domain, "no name that a grant can have"),
        }
    }

    fn internet(&mut self, text: &str) {
        self.leave(
            text,
            "all of the network: `connect = [\"internet\"]` grants what is public of it",
        );
    }

    fn deny_domain(&mut self, domain: &str) {
        self.deny_domains.insert(domain.to_owned());
    }

    /// Theirs are heeded on macOS alone, and who can connect may be able to do all that a service can.
    fn socket(&mut self, text: &str) {
        self.leave(
            text,
            "a socket, by which a service can be told what to do: `connect = [\"unix:PATH\"]` grants one",
        );
    }

    fn leave(&mut self, text: impl Into<String>, why: &'static str) {
        let text = text.into();
        if !self
            .left
            .iter()
            .any(|(known, of)| *known == text && *of == why)
        {
            self.left.push((text, why));
        }
    }

    /// A path of the host's, without what says that all below it is meant.
    fn path(&self, text: &str) -> Result<PathBuf, &'static str> {
        let plain = text.strip_suffix("/**").unwrap_or(text);
        let plain = plain.strip_suffix("/*").unwrap_or(plain);
        if plain.contains(['*', '?', '[', '{', '!']) {
            return Err(PATTERN);
        }
        if plain.is_empty() || plain.contains(acts_on_terminal) || plain.contains('\0') {
            return Err(NO_PATH);
        }
        let home = || self.home.clone().ok_or("there is no home to look in");
        let path = match plain.strip_prefix('~') {
            Some("") => home()?,
            Some(below) => {
                let below = below.strip_prefix('/').ok_or("another user's home")?;
                home()?.join(below)
            }
            None => self.project.join(plain),
        };
        Ok(normalized(&path))
    }

    /// Judges what was asked for, once all of it is known.
    fn finish(mut self, of: &'static str) -> Settings {
        // To be read alone wins, as with them.
        self.writes_project &= !self.deny_write.contains(&self.project);
        let mut settings = Settings {
            of,
            is_read_only: !self.writes_project,
            ..Settings::default()
        };
        for path in std::mem::take(&mut self.write) {
            if self.writes_project && path.starts_with(&self.project) {
                continue;
            }
            match self.judge(&path) {
                Ok(()) => settings.write.push(self.shown(&path)),
                Err(why) => self.leave(self.shown(&path), why),
            }
        }
        for path in std::mem::take(&mut self.read) {
            match self.judge(&path) {
                Ok(()) => settings.read.push(self.shown(&path)),
                Err(why) => self.leave(self.shown(&path), why),
            }
        }
        let is_below = |granted: &[String], path: &Path| {
            granted
                .iter()
                .any(|granted| path.starts_with(self.project.join(granted)))
        };
        let project = self.project.clone();
        let is_written = |path: &Path| {
            self.writes_project && path.starts_with(&project) || is_below(&settings.write, path)
        };
        let is_read = |path: &Path| {
            path.starts_with(&project) || is_written(path) || is_below(&settings.read, path)
        };
        let (kept, open): (Vec<_>, Vec<_>) = (
            self.deny_write
                .iter()
                .filter(|path| is_written(path))
                .collect(),
            self.deny_read.iter().filter(|path| is_read(path)).collect(),
        );
        settings.protect = kept
            .into_iter()
            .filter(|path| **path != project)
            .map(|path| self.shown(path))
            .collect();
        let open: Vec<_> = open
            .into_iter()
            .map(|path| (self.shown(path), can_hide(path, is_written(path))))
            .collect();
        for (path, hidden) in open {
            match hidden {
                Ok(()) => settings.hide.push(path),
                Err(why) => self.leave(path, why),
            }
        }
        // Nothing can be said of what is not there.
        let hidden = &settings.hide;
        let is_hidden = |path: &String| {
            hidden
                .iter()
                .any(|hidden| Path::new(path).starts_with(hidden))
        };
        settings.protect.retain(|path| !is_hidden(path));
        let has_wildcard = self.connect.iter().any(|address| address.contains('*'));
        for domain in std::mem::take(&mut self.deny_domains) {
            if has_wildcard {
                self.leave(domain, "a name cannot be taken out of a wildcard");
            }
        }
        settings.connect = std::mem::take(&mut self.connect).into_iter().collect();
        settings.left = self.left;
        settings
    }

    /// Whether a path is granted, and why not.
    fn judge(&self, path: &Path) -> Result<(), &'static str> {
        let Ok(found) = ThisHost.find(path) else {
            return Err("it is not there: make it, and add it");
        };
        // As it is named, too: a link may be.
        if self.secrets.disk.keeps(path) {
            return Err("you keep it from every guest");
        }
        match self.secrets.disk.judge(&found) {
            Advice::Grant if self.secrets.in_way(&found.canonical).is_some() => Err(
                "something lies in it that is kept from everybody, or more than is looked through",
            ),
            Advice::Grant => Ok(()),
            Advice::Refuse(why) => Err(why),
            Advice::Nothing => Err("no file or folder that is granted"),
        }
    }

    /// As a policy has it: from the project's folder on, if it lies there.
    fn shown(&self, path: &Path) -> String {
        path_value(path.strip_prefix(&self.project).unwrap_or(path))
    }
}

/// Whether a path in what is granted can be hidden so that it is held, and why not.
fn can_hide(path: &Path, is_written: bool) -> Result<(), &'static str> {
    let is_plain = ThisHost
        .find(path)
        .is_ok_and(|found| found.canonical == path);
    let kind = ThisHost.kind_and_mode(path).map(|(kind, _)| kind);
    match is_written {
        _ if kind.is_ok() && !is_plain => {
            Err("a link leads there, and can be read: hide what it leads to, or keep it elsewhere")
        }
        true if kind != Ok(Kind::Folder) => Err(
            "it can be read here, for it lies in what is granted for writing, where only folders are hidden: keep it elsewhere",
        ),
        _ => Ok(()),
    }
}

/// Every guest has its own.
fn is_of_the_guest(path: &Path) -> bool {
    ["/tmp", "/private/tmp", "/dev", "/proc"]
        .iter()
        .any(|place| path.starts_with(place))
}

/// Every guest may read it.
fn is_of_everybody(path: &Path) -> bool {
    ["/usr", "/bin", "/sbin", "/lib", "/lib64"]
        .iter()
        .any(|place| path.starts_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::disk::Disk;
    use palisade_process::LocalMounts;

    /// Settings of a text for a project at `PROJECT`, which has `src`, with `other` beside it and a home at `HOME`.
    fn settings(text: &str) -> Settings {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let place = place.path().canonicalize().unwrap();
        for folder in [
            "project/src",
            "project/vault",
            "other",
            "home/.ssh",
            "home/tool",
        ] {
            std::fs::create_dir_all(place.join(folder)).unwrap();
        }
        let [project, home] = ["project", "home"].map(|name| place.join(name));
        let disk = Disk::of(Some(home.clone()), &[], LocalMounts::here());
        let mut wishes = Wishes::new(&project, Some(home), Secrets::of(disk));
        let text = text.replace("PLACE", place.to_str().unwrap());
        let of = interpret(&text, &mut wishes).unwrap();
        let mut settings = wishes.finish(of);
        let place = place.to_str().unwrap();
        for values in [
            &mut settings.write,
            &mut settings.read,
            &mut settings.protect,
            &mut settings.hide,
        ] {
            values
                .iter_mut()
                .for_each(|value| *value = value.replace(place, "PLACE"));
        }
        for (value, _) in &mut settings.left {
            *value = value.replace(place, "PLACE");
        }
        settings
    }

    #[test]
    fn of_claude_code() {
        insta::assert_debug_snapshot!(settings(
            r#"{
              "model": "x", "hooks": {}, "env": {"A": "b"},
              "permissions": {
                "allow": ["Bash(npm run test:*)", "Bash", "Read(~/tool/**)", "Edit(PLACE/other/**)", "Edit(//opt/**/x)",
                          "WebFetch(domain:docs.example)", "WebSearch", "mcp__github"],
                "deny": ["Read(./.env)", "Edit(/src/**)", "Read(~/.ssh/**)", "Bash(curl:*)"],
                "ask": ["Bash(git push:*)"],
                "additionalDirectories": ["../other"],
                "defaultMode": "acceptEdits"
              },
              "sandbox": {
                "enabled": true, "autoAllowBashIfSandboxed": true, "excludedCommands": ["docker"],
                "filesystem": {"allowWrite": ["/tmp/build", "~/.ssh", "~/none"], "denyWrite": ["./ci", "/opt/x"],
                               "denyRead": ["~/.aws"], "allowRead": ["/usr/share"]},
                "network": {"allowedDomains": ["*.example.com", "a.example:8443", "not a name"],
                            "deniedDomains": ["evil.example.com"],
                            "allowUnixSockets": ["/run/x.sock"], "allowLocalBinding": true, "httpProxyPort": 8080}
              }
            }"#
        ));
    }

    #[test]
    fn of_the_sandbox_runtime() {
        insta::assert_debug_snapshot!(settings(
            r#"{
              "network": {"allowedDomains": ["github.com", "*"], "deniedDomains": ["x.example"]},
              "filesystem": {"denyRead": ["~/.ssh", "src/keys"], "allowWrite": ["src/", "PLACE/other"],
                             "denyWrite": ["src/lock", ".env"]},
              "ignoreViolations": {"*": ["/usr/bin"]}, "enableWeakerNestedSandbox": true
            }"#
        ));
    }

    #[test]
    fn of_codex() {
        insta::assert_debug_snapshot!(settings(
            r#"
            default_permissions = "work"
            model = "x"
            [permissions.base]
            extends = ":workspace"
            [permissions.base.network]
            enabled = true
            [permissions.base.network.domains]
            "crates.io" = "allow"
            "evil.example" = "deny"
            [permissions.work]
            extends = "base"
            [permissions.work.filesystem]
            ":minimal" = "read"
            "~/tool" = "read"
            "PLACE/other" = "write"
            "~/.ssh" = "deny"
            glob_scan_max_depth = 3
            [permissions.work.filesystem.":workspace_roots"]
            "." = "write"
            "ci" = "read"
            "**/*.env" = "deny"
            [permissions.work.network.unix_sockets]
            "/run/x.sock" = "allow"
            "#
        ));
        let legacy = settings("sandbox_mode = 'read-only'");
        assert!(legacy.is_read_only && legacy.left.is_empty(), "{legacy:?}");
        let legacy = settings(
            "sandbox_mode = 'workspace-write'\n[sandbox_workspace_write]\nnetwork_access = true\nwritable_roots = ['PLACE/other']",
        );
        assert_eq!(legacy.write, ["PLACE/other"]);
        assert_eq!(legacy.left.len(), 1, "{legacy:?}");
        assert!(!legacy.is_read_only);
    }

    #[test]
    fn what_is_none_of_them() {
        let refused = |text: &str| {
            let disk = Disk::of(None, &[], LocalMounts::here());
            let mut wishes = Wishes::new(Path::new("/project"), None, Secrets::of(disk));
            interpret(text, &mut wishes).unwrap_err().to_string()
        };
        assert!(refused("{}").contains("neither `sandbox`"));
        assert!(refused("[1]").contains("neither `sandbox`"));
        assert!(refused("{").contains("neither JSON nor TOML"));
        assert!(refused("x = 1").contains("default_permissions"));
        assert!(
            refused("default_permissions = 'a'\n[permissions.a]\nextends = 'a'")
                .contains("extends")
        );
        assert!(refused("default_permissions = ':danger-full-access'").contains("no sandbox"));
    }

    /// Nobody's settings open a home, keys or the system by accident.
    #[test]
    fn what_is_too_much_is_left_out() {
        for path in ["/", "~", "/home", "/etc", "..", "~/.ssh", "/run", "~root"] {
            let text = format!(
                r#"{{"filesystem": {{"allowWrite": ["{path}"], "allowRead": ["{path}"]}}}}"#
            );
            let settings = settings(&text);
            assert_eq!(
                settings.write.len() + settings.read.len(),
                0,
                "{path}: {settings:?}"
            );
            assert!(!settings.left.is_empty(), "{path}");
        }
        let control =
            settings("{\"filesystem\": {\"allowWrite\": [\"a\\u001b[2J\", \"a\\u0000\"]}}");
        assert_eq!(
            (control.write.len(), control.left.len()),
            (0, 2),
            "{control:?}"
        );
    }

    #[test]
    fn what_is_denied_to_be_read_is_hidden_where_that_holds() {
        let of = |files: &str| settings(&format!("{{\"filesystem\": {{{files}}}}}"));
        let read = of(r#""denyRead": [".env", "vault"]"#);
        assert_eq!(read.hide, [".env", "vault"]);
        let written = of(
            r#""allowWrite": ["."], "denyRead": [".env", "vault"], "denyWrite": ["vault/x", "ci"]"#,
        );
        assert_eq!(written.hide, ["vault"]);
        assert_eq!(written.protect, ["ci"]);
        assert_eq!(written.left[0].0, ".env");
    }
}
