//! Policy file → layer.

use std::{ffi::OsStr, path::Path};

use toml::de::DeTable;

use super::error::TomlError;
use crate::{
    PolicyLayer,
    document::{
        Key, Located, Read, Value, boolean, in_written_order, list, parse, parsed, scalar, string,
        table,
    },
    setting::{TABLES, Table, Takes},
};

impl PolicyLayer {
    /// Reads a policy file's text. `source_name` is what errors call it; relative paths are joined
    /// to `base_dir`, which should be the file's folder, absolute and free of symlinks.
    ///
    /// # Errors
    /// The first thing in `text` that is not a policy.
    pub fn from_toml(text: &str, source_name: &str, base_dir: &Path) -> Result<Self, TomlError> {
        parse(text)
            .and_then(|document| Self::from_table(document.get_ref(), base_dir))
            .map_err(|located| TomlError::new(source_name, text, located))
    }

    /// Reads a table whose keys are a policy file's. Relative paths are joined to `base_dir`.
    ///
    /// # Errors
    /// The first thing in it that is not a policy.
    pub fn from_table(document: &DeTable, base_dir: &Path) -> Read<Self> {
        let mut layer = Self::default();
        let [top, inner @ ..] = TABLES;
        for (key, value) in in_written_order(document) {
            match inner.iter().find(|inner| inner.name == key.get_ref()) {
                Some(inner) => {
                    for (key, value) in in_written_order(table(key, value)?) {
                        read_setting(&mut layer, inner, key, value, base_dir)?;
                    }
                }
                None => read_setting(&mut layer, top, key, value, base_dir)?,
            }
        }
        layer.files.sort_by_key(|file| file.access);
        Ok(layer)
    }
}

fn read_setting(
    layer: &mut PolicyLayer,
    table: &Table,
    key: &Key,
    value: &Value,
    base_dir: &Path,
) -> Read<()> {
    let Some(setting) = table.setting(key.get_ref()) else {
        return Err(unknown_key(key, table));
    };
    let set = |text: &str| setting.set(layer, OsStr::new(text), base_dir);
    match setting.takes {
        Takes::Switch => parsed(&boolean(key, value)?.to_string(), value, set),
        Takes::One => parsed(string(key, value)?, value, set),
        Takes::Amount | Takes::Number => parsed(&scalar(key, value)?, value, set),
        Takes::List => list(key, value, set),
    }
}

fn unknown_key(key: &Key, table: &Table) -> Located {
    let owner = TABLES.iter().find(|other| other.has(key.get_ref()));
    Located::unknown_key(
        key,
        table.place,
        table.keys().collect(),
        owner.map(|other| other.place),
    )
}
