//! What can be said in a policy, each thing described once: its key in a policy file, its flag, its help and how its
//! values are read and written.
//!
//! From these tables follow the reading and writing of policy files, their schema (`docs/policy.schema.json`), the
//! flags of the command line and the check that `docs/policy.md` explains all of them. A new grant is a field of
//! [`PolicyLayer`], the type with its parser, and an entry here.

mod tables;

pub use tables::{GRANTS, LIMITS, TABLES, TOP};

use std::{ffi::OsStr, fmt, path::Path};

use crate::{
    PolicyLayer, ValueError,
    value::{Accepted, ValueKind},
};

/// One table of a policy file.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name; empty for the top of the file.
    pub name: &'static str,
    /// Where its keys stand, as messages say it.
    pub place: &'static str,
    /// Its keys, in the order of the reference.
    pub settings: &'static [Setting],
}

impl Table {
    /// The setting of this key.
    pub fn setting(&self, key: &str) -> Option<&'static Setting> {
        self.settings.iter().find(|setting| setting.key == key)
    }

    /// All keys, of which those at the top have the other tables' names.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        let tables = TABLES.iter().filter(|_| self.name.is_empty());
        let tables = tables
            .map(|table| table.name)
            .filter(|name| !name.is_empty());
        let settings = self.settings.iter();
        settings.map(|setting| setting.key).chain(tables)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys().any(|known| known == key)
    }
}

/// One thing that can be said in a policy.
pub struct Setting {
    /// Its key in a policy file.
    pub key: &'static str,
    /// Its flag, without `--`.
    pub flag: &'static str,
    /// The flag as one letter.
    pub short: Option<char>,
    /// What the flag takes, as its help shows it; empty for a [`Takes::Switch`].
    pub value_name: &'static str,
    /// What the flag does, in one line.
    pub help: &'static str,
    /// How many values there can be.
    pub takes: Takes,
    /// What each value is.
    kind: &'static ValueKind,
    /// Which part of a value is a path of the host's, which may be relative.
    host_path: fn(&OsStr) -> Option<&OsStr>,
    set: Set,
    texts: fn(&PolicyLayer) -> Vec<String>,
}

type Set = fn(&mut PolicyLayer, &OsStr, &Path) -> Result<(), ValueError>;

/// How many values a setting has, and how a policy file writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// `true` or `false`; the flag means `false`.
    Switch,
    /// One string.
    One,
    /// One string; a plain number is taken too.
    Amount,
    /// One number; a string is taken too.
    Number,
    /// A list of strings; the flag can be repeated.
    List,
}

impl Setting {
    /// What a value accepts.
    pub fn accepted(&self) -> Accepted {
        self.kind.accepted()
    }

    /// The path of the host's in a value, where it has one: what is relative of it is joined to a folder.
    pub fn host_path<'a>(&self, value: &'a OsStr) -> Option<&'a OsStr> {
        (self.host_path)(value)
    }

    /// Whether its values have paths of the host's.
    pub fn has_host_path(&self) -> bool {
        self.host_path(OsStr::new("unix:a")).is_some()
    }

    /// Adds a value to `layer`, or takes it in the place of the one that is there. A relative path is joined to
    /// `base`.
    ///
    /// # Errors
    /// It means nothing.
    pub fn set(
        &self,
        layer: &mut PolicyLayer,
        value: &OsStr,
        base: &Path,
    ) -> Result<(), ValueError> {
        (self.set)(layer, value, base)
    }

    /// The values that `layer` has of it, each as its flag takes it.
    pub fn texts(&self, layer: &PolicyLayer) -> Vec<String> {
        (self.texts)(layer)
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}", self.flag)
    }
}
