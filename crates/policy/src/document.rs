//! Parts of reading a TOML file so that each error points at the text it is about.
//!
//! The policy file is read with them, and so is the server's file, in which policies stand as tables.

mod problem;

pub use problem::TomlProblem;

use std::{borrow::Cow, fmt, ops::Range};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use toml::{
    Spanned,
    de::{DeInteger, DeString, DeTable, DeValue},
};

use crate::{
    quote::{quote, visible},
    value::ValueError,
};

/// A key and where it stands.
pub type Key<'a> = Spanned<DeString<'a>>;
/// A value and where it stands.
pub type Value<'a> = Spanned<DeValue<'a>>;
/// What was read, or the first problem.
pub type Read<T> = Result<T, Located>;

/// A problem and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// In bytes from the start of the text.
    pub span: Range<usize>,
    /// What is wrong.
    pub problem: TomlProblem,
}

impl Located {
    /// A key that means nothing in this table, which knows others. `elsewhere` is the table where it belongs.
    pub fn unknown_key(
        key: &Key,
        place: &str,
        known: Vec<&'static str>,
        elsewhere: Option<&'static str>,
    ) -> Self {
        Self {
            span: key.span(),
            problem: TomlProblem::UnknownKey {
                key: key.get_ref().as_ref().to_owned(),
                place: place.to_owned(),
                known,
                elsewhere,
            },
        }
    }
}

/// The text as a tree.
///
/// # Errors
/// It is not TOML, or a key is defined twice.
pub fn parse(text: &str) -> Result<Spanned<DeTable<'_>>, Located> {
    DeTable::parse(text).map_err(|error| Located {
        span: error.span().unwrap_or(0..0),
        problem: TomlProblem::Syntax(error.message().to_owned()),
    })
}

/// An error as several lines without colour.
#[derive(Clone, Debug)]
pub struct Excerpt<'a> {
    /// What is wrong.
    pub title: String,
    /// What the file is called.
    pub source_name: &'a str,
    /// The whole file.
    pub text: &'a str,
    /// What is marked, in bytes from the start of the text.
    pub span: Range<usize>,
    /// What stands beside the mark.
    pub label: Option<String>,
    /// What to write instead.
    pub advice: Option<String>,
}

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = AnnotationKind::Primary.span(self.span.clone());
        let snippet = Snippet::source(self.text)
            .path(visible(self.source_name))
            .annotation(mark.label(self.label.clone()));
        let group = Level::ERROR
            .no_name()
            .primary_title(self.title.clone())
            .element(snippet);
        let group = match &self.advice {
            Some(advice) => group.element(Level::HELP.message(visible(advice).into_owned())),
            None => group,
        };
        f.write_str(&Renderer::plain().render(&[group]))
    }
}

/// The tree is sorted by key; errors are wanted in the order of the text.
pub fn in_written_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<(&'a Key<'i>, &'a Value<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// The problem of a value that is not `expected`.
pub fn wrong_type(key: &Key, value: &Value, expected: &'static str) -> Located {
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

/// What messages call a type.
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

/// The value as a table.
///
/// # Errors
/// It is none.
pub fn table<'a, 'i>(key: &Key, value: &'a Value<'i>) -> Read<&'a DeTable<'i>> {
    let table = value.get_ref().as_table();
    table.ok_or_else(|| wrong_type(key, value, "a table"))
}

/// The value as `true` or `false`.
///
/// # Errors
/// It is neither.
pub fn boolean(key: &Key, value: &Value) -> Read<bool> {
    let boolean = value.get_ref().as_bool();
    boolean.ok_or_else(|| wrong_type(key, value, "true or false"))
}

/// The value as a string.
///
/// # Errors
/// It is none.
pub fn string<'a>(key: &Key, value: &'a Value) -> Read<&'a str> {
    let string = value.get_ref().as_str();
    string.ok_or_else(|| wrong_type(key, value, "a string"))
}

/// A list of strings, each one a value of its own.
///
/// # Errors
/// It is no list, or an entry is no string or means nothing.
pub fn list<T, L: FromIterator<T>>(
    key: &Key,
    value: &Value,
    mut parse: impl FnMut(&str) -> Result<T, ValueError>,
) -> Read<L> {
    let Some(items) = value.get_ref().as_array() else {
        return Err(wrong_type(key, value, "a list of strings"));
    };
    let parse_item = |item: &Value| match item.get_ref().as_str() {
        Some(text) => parsed(text, item, &mut parse),
        None => Err(wrong_item_type(key, item)),
    };
    items.iter().map(parse_item).collect()
}

/// The text of a limit: a number is read as if it had been written as a string.
///
/// # Errors
/// It is neither.
pub fn scalar<'a>(key: &Key, value: &'a Value) -> Read<Cow<'a, str>> {
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

/// Reads `text`, which stands in `value`.
///
/// # Errors
/// It means nothing; the error points at `value`.
pub fn parsed<T>(
    text: &str,
    value: &Value,
    parse: impl FnOnce(&str) -> Result<T, ValueError>,
) -> Read<T> {
    parse(text).map_err(|error| Located {
        span: value.span(),
        problem: TomlProblem::Value(error),
    })
}
