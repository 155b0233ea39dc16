//! Layer → policy file.

use std::{fmt::Write, path::PathBuf};

use crate::{
    ConnectGrant, PolicyLayer, Setting,
    quote::quote_path,
    setting::{TABLES, Takes},
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
        let tables = TABLES
            .iter()
            .map(|table| (table.name, entries(self, table.settings)))
            .filter(|(_, entries)| !entries.is_empty());
        let tables: Vec<String> = tables
            .map(|(name, entries)| match name {
                "" => entries,
                _ => format!("[{name}]\n{entries}"),
            })
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
}

/// The lines of one table.
fn entries(layer: &PolicyLayer, settings: &[Setting]) -> String {
    let entries = settings.iter().filter_map(|setting| {
        let value = toml_value(setting.takes, &setting.texts(layer))?;
        Some(format!("{} = {value}\n", setting.key))
    });
    entries.collect()
}

/// What a key is set to, if it has a value at all.
fn toml_value(takes: Takes, texts: &[String]) -> Option<String> {
    let first = texts.first()?;
    Some(match takes {
        Takes::Switch | Takes::Number => first.clone(),
        Takes::One | Takes::Amount => toml_string(first),
        Takes::List => {
            let items: Vec<_> = texts.iter().map(|text| toml_string(text)).collect();
            format!("[{}]", items.join(", "))
        }
    })
}

/// A TOML basic string: quotes, backslashes and control characters are escaped.
fn toml_string(value: &str) -> String {
    let mut text = String::from('"');
    for c in value.chars() {
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
