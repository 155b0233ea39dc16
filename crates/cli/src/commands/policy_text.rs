//! Parts of policies that are written for people.

use palisade_policy::{Access, FileGrant};
use std::{fmt, path::Path};

/// A value of a list, and why it is there.
pub(super) type Line = (String, String);

/// A value as TOML has it.
pub(super) fn quoted(value: &str) -> String {
    toml_edit::Value::from(value).to_string()
}

/// A path as lists of files have it: a colon would begin the guest's.
pub(super) fn path_value(path: &Path) -> String {
    let grant = FileGrant {
        access: Access::Write,
        host: path.into(),
        guest: None,
    };
    grant.to_string()
}

/// One value a line, comments in one column.
pub(super) fn write_list(f: &mut impl fmt::Write, key: &str, lines: &[Line]) -> fmt::Result {
    let width = lines
        .iter()
        .map(|(value, _)| value.len())
        .max()
        .unwrap_or(0)
        + 3;
    writeln!(f, "{key} = [")?;
    for (value, why) in lines {
        let value = format!("{},", quoted(value));
        writeln!(f, "    {value:<width$} # {why}")?;
    }
    writeln!(f, "]")
}
