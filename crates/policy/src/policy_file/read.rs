//! Policy file → layer.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    str::FromStr,
};

use toml::{
    Spanned,
    de::{DeInteger, DeString, DeTable, DeValue},
};

use super::error::{Located, Place, TomlError, TomlProblem};
use crate::{
    Access, ConnectGrant, FileGrant, Limits, PolicyLayer, ValueError,
    quote::quote,
    value::{parse_cores, parse_count, parse_cwd, parse_duration, parse_size},
};

impl PolicyLayer {
    /// Reads a policy file's text. `source_name` is what errors call it; relative paths are joined
    /// to `base_dir`, which should be the file's folder, absolute and free of symlinks.
    ///
    /// # Errors
    /// The first thing in `text` that is not a policy.
    pub fn from_toml(text: &str, source_name: &str, base_dir: &Path) -> Result<Self, TomlError> {
        read_document(text, base_dir).map_err(|located| TomlError::new(source_name, text, located))
    }
}

type Key<'a> = Spanned<DeString<'a>>;
type Value<'a> = Spanned<DeValue<'a>>;
type Read<T> = Result<T, Located>;

fn read_document(text: &str, base_dir: &Path) -> Read<PolicyLayer> {
    let document = DeTable::parse(text).map_err(|error| Located {
        span: error.span().unwrap_or(0..0),
        problem: TomlProblem::Syntax(error.message().to_owned()),
    })?;
    let mut layer = PolicyLayer::default();
    for (key, value) in in_written_order(document.get_ref()) {
        read_top(&mut layer, key, value, base_dir)?;
    }
    layer.files.sort_by_key(|file| file.access);
    Ok(layer)
}

/// The tree is sorted by key; errors are wanted in the order of the text.
fn in_written_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<(&'a Key<'i>, &'a Value<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn read_top(layer: &mut PolicyLayer, key: &Key, value: &Value, base_dir: &Path) -> Read<()> {
    match key.get_ref().as_ref() {
        "wall" => layer.wall = Some(word(key, value)?),
        "profiles" => layer.profiles = list(key, value, str::parse)?,
        "system" => layer.system = Some(boolean(key, value)?),
        "cwd" => layer.cwd = Some(directory(key, value, base_dir)?),
        "allow-degraded" => layer.allow_degraded = list(key, value, str::parse)?,
        "grants" => {
            for (key, value) in in_written_order(table(key, value)?) {
                read_grants(layer, key, value, base_dir)?;
            }
        }
        "limits" => {
            for (key, value) in in_written_order(table(key, value)?) {
                read_limit(&mut layer.limits, key, value)?;
            }
        }
        _ => return Err(unknown_key(key, Place::Top)),
    }
    Ok(())
}

fn read_grants(layer: &mut PolicyLayer, key: &Key, value: &Value, base_dir: &Path) -> Read<()> {
    let name = key.get_ref().as_ref();
    if let Ok(access) = name.parse::<Access>() {
        let parse = |text: &str| FileGrant::parse(access, text, base_dir);
        layer.files.append(&mut list(key, value, parse)?);
        return Ok(());
    }
    match name {
        "env" => layer.env = list(key, value, str::parse)?,
        "device" => layer.devices = list(key, value, str::parse)?,
        "connect" => {
            let parse = |text: &str| ConnectGrant::parse(text, base_dir);
            layer.connect = list(key, value, parse)?;
        }
        "listen" => layer.listen = list(key, value, str::parse)?,
        _ => return Err(unknown_key(key, Place::Grants)),
    }
    Ok(())
}

fn read_limit(limits: &mut Limits, key: &Key, value: &Value) -> Read<()> {
    let text = scalar(key, value)?;
    let text = text.as_ref();
    match key.get_ref().as_ref() {
        "memory" => limits.memory_bytes = Some(parsed(text, value, parse_size)?),
        "cpu" => limits.cpu_cores = Some(parsed(text, value, parse_cores)?),
        "processes" => limits.processes = Some(parsed(text, value, parse_count)?),
        "files" => limits.files = Some(parsed(text, value, parse_count)?),
        "file-size" => limits.file_size_bytes = Some(parsed(text, value, parse_size)?),
        "tmp-size" => limits.tmp_size_bytes = Some(parsed(text, value, parse_size)?),
        "time" => limits.time = Some(parsed(text, value, parse_duration)?),
        "cpu-time" => limits.cpu_time = Some(parsed(text, value, parse_duration)?),
        "output" => limits.output_bytes = Some(parsed(text, value, parse_size)?),
        _ => return Err(unknown_key(key, Place::Limits)),
    }
    Ok(())
}

fn unknown_key(key: &Key, place: Place) -> Located {
    Located {
        span: key.span(),
        problem: TomlProblem::UnknownKey {
            key: key.get_ref().as_ref().to_owned(),
            place,
        },
    }
}

fn wrong_type(key: &Key, value: &Value, expected: &'static str) -> Located {
    Located {
        span: value.span(),
        problem: TomlProblem::WrongType {
            what: quote(key.get_ref()),
            expected,
            found: type_name(value.get_ref()),
        },
    }
}

fn wrong_item_type(key: &Key, item: &Value) -> Located {
    Located {
        span: item.span(),
        problem: TomlProblem::WrongType {
            what: format!("each entry of {}", quote(key.get_ref())),
            expected: "a string",
            found: type_name(item.get_ref()),
        },
    }
}

fn type_name(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn table<'a, 'i>(key: &Key, value: &'a Value<'i>) -> Read<&'a DeTable<'i>> {
    let table = value.get_ref().as_table();
    table.ok_or_else(|| wrong_type(key, value, "a table"))
}

fn boolean(key: &Key, value: &Value) -> Read<bool> {
    let boolean = value.get_ref().as_bool();
    boolean.ok_or_else(|| wrong_type(key, value, "true or false"))
}

fn string<'a>(key: &Key, value: &'a Value) -> Read<&'a str> {
    let string = value.get_ref().as_str();
    string.ok_or_else(|| wrong_type(key, value, "a string"))
}

fn word<T: FromStr<Err = ValueError>>(key: &Key, value: &Value) -> Read<T> {
    parsed(string(key, value)?, value, str::parse)
}

fn directory(key: &Key, value: &Value, base_dir: &Path) -> Read<PathBuf> {
    parsed(string(key, value)?, value, |text| parse_cwd(text, base_dir))
}

/// A list of strings, each one a value of its own.
fn list<T, L: FromIterator<T>>(
    key: &Key,
    value: &Value,
    parse: impl Fn(&str) -> Result<T, ValueError>,
) -> Read<L> {
    let Some(items) = value.get_ref().as_array() else {
        return Err(wrong_type(key, value, "a list of strings"));
    };
    let parse_item = |item: &Value| match item.get_ref().as_str() {
        Some(text) => parsed(text, item, &parse),
        None => Err(wrong_item_type(key, item)),
    };
    items.iter().map(parse_item).collect()
}

/// The text of a limit: a number is read as if it had been written as a string.
fn scalar<'a>(key: &Key, value: &'a Value) -> Read<Cow<'a, str>> {
    match value.get_ref() {
        DeValue::String(text) => Ok(Cow::Borrowed(text)),
        DeValue::Integer(number) => Ok(decimal_text(number)),
        DeValue::Float(number) => Ok(Cow::Borrowed(number.as_str())),
        _ => Err(wrong_type(key, value, "a string or a number")),
    }
}

/// The number in base 10, whatever base it was written in.
fn decimal_text<'a>(number: &'a DeInteger) -> Cow<'a, str> {
    match i128::from_str_radix(number.as_str(), number.radix()) {
        Ok(number) => Cow::Owned(number.to_string()),
        Err(_) => Cow::Borrowed(number.as_str()),
    }
}

fn parsed<T>(
    text: &str,
    value: &Value,
    parse: impl FnOnce(&str) -> Result<T, ValueError>,
) -> Read<T> {
    parse(text).map_err(|error| Located {
        span: value.span(),
        problem: TomlProblem::Value(error),
    })
}
