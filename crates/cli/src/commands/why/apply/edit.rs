//! Values that are added to the text of a policy. All else in it stays as it stands, comments and order too.

use anyhow::{Context, anyhow, bail};
use palisade_policy::visible;
use std::fmt;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

/// A policy's own list, beside those of `[grants]`.
pub(crate) const PROFILES: &str = "profiles";

/// What is to stand in a list of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) key: &'static str,
    pub(crate) text: String,
    /// Said of it behind it, on a line of its own.
    pub(crate) why: Option<String>,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = if self.key == PROFILES { "" } else { "grants." };
        write!(
            f,
            "{table}{} = [{}]",
            self.key,
            toml_edit::Value::from(&self.text)
        )?;
        let why = self.why.as_deref();
        why.map_or(Ok(()), |why| write!(f, " # {why}"))
    }
}

/// Whether a policy has this value, by the letter.
pub(crate) fn has(document: &DocumentMut, value: &Value) -> bool {
    let grants = document.get("grants").and_then(Item::as_table_like);
    let list = match value.key {
        PROFILES => document.get(PROFILES),
        key => grants.and_then(|grants| grants.get(key)),
    };
    let list = list.and_then(Item::as_array);
    list.is_some_and(|list| holds(list, &value.text))
}

/// A policy's text, which is called `shown`.
pub(crate) fn parse(text: &str, shown: &str) -> anyhow::Result<DocumentMut> {
    text.parse()
        .map_err(|error| anyhow!("policy: {shown}: {}", visible(&format!("{error}"))))
}

fn holds(list: &Array, value: &str) -> bool {
    list.iter().any(|held| held.as_str() == Some(value))
}

/// The text with these values in it.
pub(crate) fn edit(text: &str, wanted: &[Value], shown: &str) -> anyhow::Result<String> {
    let mut document = parse(text, shown)?;
    let (profiles, wanted): (Vec<_>, Vec<_>) =
        (wanted.iter()).partition(|value| value.key == PROFILES);
    for profile in profiles {
        add(document.as_table_mut(), profile)
            .with_context(|| format!("policy: {shown}: `{PROFILES}`"))?;
    }
    if wanted.is_empty() {
        return Ok(document.to_string());
    }
    let grants = document
        .entry("grants")
        .or_insert_with(|| Item::Table(Table::new()));
    let Some(table) = grants.as_table_like_mut() else {
        bail!("policy: {shown}: `grants` is no table");
    };
    for value in wanted {
        add(table, value).with_context(|| format!("policy: {shown}: `grants.{}`", value.key))?;
    }
    if let Some(table) = grants.as_inline_table_mut() {
        set_spaces(table);
    }
    Ok(document.to_string())
}

fn add(table: &mut dyn TableLike, value: &Value) -> anyhow::Result<()> {
    let list = table.entry(value.key).or_insert(Array::new().into());
    let list = list.as_array_mut().context("it is no list")?;
    let mut new = toml_edit::Value::from(&value.text);
    let is_new = list.is_empty() && value.why.is_some();
    // A line of its own, where the others have one, behind what is said of the last.
    let end = take_end(list).or_else(|| is_new.then(String::new));
    let Some(end) = end else {
        list.push(new);
        return Ok(());
    };
    let first = list.iter().next().and_then(|first| first.decor().prefix());
    let first = first.and_then(|prefix| prefix.as_str()).unwrap_or("\n    ");
    let indent = first.rsplit_once('\n').map_or("", |(_, indent)| indent);
    let prefix = format!("{}\n{indent}", end.trim_end());
    new.decor_mut().set_prefix(prefix);
    list.push_formatted(new);
    list.set_trailing_comma(true);
    list.set_trailing(match &value.why {
        Some(why) => format!(" # {why}\n"),
        None => "\n".to_owned(),
    });
    Ok(())
}

/// What stands between the last value of a list and the bracket, where that is on another line.
fn take_end(list: &mut Array) -> Option<String> {
    let behind_comma = list.trailing().as_str().unwrap_or_default().to_owned();
    if behind_comma.contains('\n') {
        return Some(behind_comma);
    }
    let last = list.iter_mut().last()?.decor_mut();
    let behind_value = last.suffix().and_then(|suffix| suffix.as_str());
    let behind_value = behind_value
        .filter(|suffix| suffix.contains('\n'))?
        .to_owned();
    last.set_suffix("");
    Some(behind_value)
}

/// One space before the bracket, and none before commas.
fn set_spaces(table: &mut InlineTable) {
    let count = table.len();
    for (place, (_, value)) in table.iter_mut().enumerate() {
        let decor = value.decor_mut();
        let suffix = decor.suffix().and_then(|suffix| suffix.as_str());
        if matches!(suffix, None | Some("" | " ")) {
            decor.set_suffix(if place + 1 == count { " " } else { "" });
        }
    }
}
