//! Parts of policies that are written for people.

use std::fmt;

/// A value of a list, and why it is there.
pub(super) type Line = (String, String);

/// A value as TOML has it.
pub(super) fn quoted(value: &str) -> String {
    toml_edit::Value::from(value).to_string()
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
