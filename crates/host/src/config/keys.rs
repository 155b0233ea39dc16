//! Tables of the file: each key is described once, and from that follow its reading, the list of keys that messages
//! show, and the schema.

use super::{ConfigProblem, error::Found, read::Reader};
use palisade_policy::document::{Key, Located, Value, in_written_order};
use serde_json::{Map, json};
use std::ops::Range;
use toml::de::DeTable;

/// One key of a table that becomes a `T`.
pub(super) struct Entry<T> {
    /// The key.
    pub(super) name: &'static str,
    /// What it is, in one line.
    pub(super) help: &'static str,
    /// What to write if it is missing, for a key that must be there.
    pub(super) example: Option<&'static str>,
    pub(super) read: ReadEntry<T>,
    pub(super) schema: fn() -> serde_json::Value,
}

type ReadEntry<T> = fn(&mut T, &Key<'_>, &Value<'_>, &Reader<'_>) -> Result<(), Found>;

/// What the value of a key can be.
pub(super) trait Kind {
    /// What it is read as.
    type Value;

    /// Reads it.
    fn read(key: &Key, value: &Value, reader: &Reader<'_>) -> Result<Self::Value, Found>;

    /// The schema of what is taken.
    fn schema() -> serde_json::Value;
}

/// Makes the entries of a table:
///
/// ```text
/// /// Help.
/// "key": Kind => |target, value| target.field = value;
/// "key" must be as "key = 1": Kind => …
/// ```
macro_rules! keys {
    ($(
        $(#[doc = $help:literal])+
        $name:literal $(must be as $example:literal)? :
        $kind:ty => |$target:ident, $value:ident| $body:expr;
    )*) => {
        &[$(Entry {
            name: $name,
            help: concat!($($help),+),
            example: keys!(@example $($example)?),
            read: |$target, key, value, reader| {
                let $value = <$kind as Kind>::read(key, value, reader)?;
                $body;
                Ok(())
            },
            schema: <$kind as Kind>::schema,
        }),*]
    };
    (@example) => { None };
    (@example $example:literal) => { Some($example) };
}
pub(super) use keys;

/// A table of the file.
pub(super) trait Section: Sized + 'static {
    /// Its keys.
    const KEYS: &'static [Entry<Self>];

    /// Keys that it shares with other tables.
    const SHARED_KEYS: &'static [Entry<Self>] = &[];

    /// Where its keys stand, as in `in [log]`.
    const PLACE: &'static str = "";

    /// The same, for a table that has a name of its own.
    fn place(&self) -> String {
        Self::PLACE.into()
    }

    /// Another answer to this key, which means nothing here, than that it is unknown.
    fn refuse(&self, _key: &Key) -> Option<Found> {
        None
    }

    /// Keys that do not go together.
    fn check(&self, _table: &DeTable) -> Result<(), Found> {
        Ok(())
    }

    /// All its keys.
    fn entries() -> impl Iterator<Item = &'static Entry<Self>> {
        Self::KEYS.iter().chain(Self::SHARED_KEYS)
    }

    /// Reads a table. `whole` is what is marked where something is missing.
    fn read(
        mut self,
        table: &DeTable,
        whole: Range<usize>,
        reader: &Reader<'_>,
    ) -> Result<Self, Found> {
        for (key, value) in in_written_order(table) {
            let name = key.get_ref().as_ref();
            match Self::entries().find(|entry| entry.name == name) {
                Some(entry) => (entry.read)(&mut self, key, value, reader)?,
                None => return Err(self.refuse(key).unwrap_or_else(|| self.unknown_key(key))),
            }
        }
        for entry in Self::entries() {
            if let (Some(example), None) = (entry.example, find_key(table, entry.name)) {
                return Err(Found::at(whole, self.missing_key(entry.name, example)));
            }
        }
        self.check(table)?;
        Ok(self)
    }

    /// The problem of a key that means nothing in this table.
    fn unknown_key(&self, key: &Key) -> Found {
        const TOP: &str = "at the top, before any table";
        let place = self.place();
        let elsewhere = match key.get_ref().as_ref() {
            _ if place == TOP => None,
            "workers" | "admin" => Some(TOP),
            "address" | "tls" => Some("in [[listen]]"),
            "strip" | "methods" => Some("in [[route]]"),
            _ => None,
        };
        let known = Self::entries().map(|entry| entry.name).collect();
        Located::unknown_key(key, &place, known, elsewhere).into()
    }

    /// The problem of a key that must be there.
    fn missing_key(&self, key: &'static str, example: &'static str) -> ConfigProblem {
        let place = self.place();
        let place = place.strip_prefix("in ").unwrap_or(&place);
        ConfigProblem::MissingKey {
            place: match place.starts_with("[[") {
                true => format!("this {place}"),
                false => place.to_owned(),
            },
            key,
            example,
        }
    }

    /// The schema of such a table.
    fn schema() -> serde_json::Value {
        let properties: Map<_, _> = Self::entries()
            .map(|entry| (entry.name.to_owned(), entry_schema(entry)))
            .collect();
        let required: Vec<_> = Self::entries()
            .filter(|entry| entry.example.is_some())
            .map(|entry| entry.name)
            .collect();
        let mut schema =
            json!({ "type": "object", "properties": properties, "additionalProperties": false });
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        schema
    }
}

fn entry_schema<T>(entry: &Entry<T>) -> serde_json::Value {
    let mut schema = (entry.schema)();
    schema["description"] = entry.help.trim().into();
    schema
}

/// Where a key of the table stands.
pub(super) fn find_key<'a, 'i>(table: &'a DeTable<'i>, name: &str) -> Option<&'a Key<'i>> {
    let mut keys = table.keys();
    keys.find(|key| key.get_ref() == name)
}
