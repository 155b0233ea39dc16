//! Layer → policy file.

use std::{
    fmt::{Display, Write},
    path::{Path, PathBuf},
};

use crate::{
    Access, ConnectGrant, Limits, PolicyLayer,
    quote::quote_path,
    value::{format_duration, format_size},
};

/// A path that a policy file cannot hold, because TOML is UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is not UTF-8, which a policy file must be: pass this path as a flag",
    quote_path(path)
)]
pub struct NotUnicode {
    /// The path.
    pub path: PathBuf,
}

impl PolicyLayer {
    /// Writes the layer as a policy file that reads back as the same layer. Paths are absolute in
    /// it, so the folder where it is read does not matter.
    ///
    /// # Errors
    /// TOML is UTF-8: a path that is not cannot be written.
    pub fn to_toml(&self) -> Result<String, NotUnicode> {
        self.require_unicode()?;
        let tables = [
            ("", self.top_entries()),
            ("[grants]\n", self.grant_entries()),
            ("[limits]\n", limit_entries(&self.limits)),
        ];
        let tables = tables
            .into_iter()
            .filter(|(_, entries)| !entries.is_empty());
        let tables: Vec<String> = tables
            .map(|(head, entries)| format!("{head}{entries}"))
            .collect();
        Ok(tables.join("\n"))
    }

    fn require_unicode(&self) -> Result<(), NotUnicode> {
        let files = self
            .files
            .iter()
            .flat_map(|file| [Some(&file.host), file.guest.as_ref()]);
        let devices = self.devices.iter().map(|device| Some(&device.path));
        let sockets = self.connect.iter().flat_map(|grant| match grant {
            ConnectGrant::Unix(socket) => [Some(&socket.host), socket.guest.as_ref()],
            ConnectGrant::Internet { .. } | ConnectGrant::Public { .. } => [None, None],
        });
        let mut paths = files
            .chain(devices)
            .chain(sockets)
            .chain(self.env_files.iter().map(Some))
            .chain([self.cwd.as_ref()])
            .flatten();
        match paths.find(|path| path.to_str().is_none()) {
            Some(path) => Err(NotUnicode { path: path.clone() }),
            None => Ok(()),
        }
    }

    fn top_entries(&self) -> String {
        let mut entries = Entries::default();
        entries.one("wall", self.wall.map(|wall| toml_string(wall.name())));
        entries.list("profiles", &self.profiles);
        entries.one("system", self.system);
        entries.one("guard", self.guard);
        entries.one(
            "cwd",
            self.cwd.as_deref().map(Path::display).map(toml_string),
        );
        entries.list("allow-degraded", &self.allow_degraded);
        entries.text
    }

    fn grant_entries(&self) -> String {
        let mut entries = Entries::default();
        for access in Access::ALL {
            let files = self.files.iter().filter(|file| file.access == *access);
            entries.list(access.name(), files);
        }
        entries.list("env", &self.env);
        entries.list("env-file", self.env_files.iter().map(|path| path.display()));
        entries.list("device", &self.devices);
        entries.list("connect", &self.connect);
        entries.list("listen", &self.listen);
        entries.text
    }
}

fn limit_entries(limits: &Limits) -> String {
    let size = |bytes: Option<u64>| bytes.map(format_size).map(toml_string);
    let time = |duration: Option<_>| duration.map(format_duration).map(toml_string);
    let mut entries = Entries::default();
    entries.one("memory", size(limits.memory_bytes));
    entries.one("cpu", limits.cpu_cores);
    entries.one("processes", limits.processes);
    entries.one("files", limits.files.map(toml_string));
    entries.one("file-size", size(limits.file_size_bytes));
    entries.one("tmp-size", size(limits.tmp_size_bytes));
    entries.one("time", time(limits.time));
    entries.one("cpu-time", time(limits.cpu_time));
    entries.one("output", size(limits.output_bytes));
    entries.text
}

/// The lines of one table.
#[derive(Default)]
struct Entries {
    text: String,
}

impl Entries {
    /// `key = value`, if there is one. The value is written as it is.
    fn one(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.text += &format!("{key} = {value}\n");
        }
    }

    /// `key = ["…", …]`, if there is anything in it.
    fn list(&mut self, key: &str, items: impl IntoIterator<Item = impl Display>) {
        let items: Vec<String> = items.into_iter().map(toml_string).collect();
        if !items.is_empty() {
            self.text += &format!("{key} = [{}]\n", items.join(", "));
        }
    }
}

/// A TOML basic string: quotes, backslashes and control characters are escaped.
fn toml_string(value: impl Display) -> String {
    let mut text = String::from('"');
    for c in value.to_string().chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(text, "\\u{:04X}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}
