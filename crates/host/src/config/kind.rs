//! What the values of keys can be.

use super::{
    ConfigProblem,
    error::Found,
    keys::{Kind, Section},
    read::{Named, Placed, Reader},
    value::{self, Refusal, Word},
};
use palisade_policy::{
    document::{self, Key, Value, in_written_order},
    value::{parse_count, parse_duration, parse_path, parse_size},
};
use serde_json::json;
use std::{marker::PhantomData, num::NonZeroUsize, ops::Range, path::PathBuf, time::Duration};
use toml::de::DeTable;

/// More would only wait for each other.
const MOST_WORKERS: u32 = 1024;

/// Of a thousand processors.
const MOST_PROCESSOR_NS: u64 = 1_000_000_000_000;
const MOST_WEIGHT: u32 = 10_000;

pub(super) fn string() -> serde_json::Value {
    json!({ "type": "string" })
}

/// A number, or a string that is read as one.
fn amount() -> serde_json::Value {
    json!({ "type": ["string", "number"] })
}

fn boolean() -> serde_json::Value {
    json!({ "type": "boolean" })
}

/// `items`, or one of them alone.
pub(super) fn some(items: &serde_json::Value) -> serde_json::Value {
    json!({ "anyOf": [items, { "type": "array", "items": items }] })
}

/// Defines kinds: what each is read as, its schema, and how it is read.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $(<$t:ident: $($bound:path),+>)? is $value:ty, $schema:expr,
        |$key:pat_param, $given:pat_param, $reader:pat_param| $read:expr;)*) => {$(
        $(#[$doc])*
        pub(super) struct $kind $(<$t>(PhantomData<$t>))?;

        impl $(<$t: $($bound +)+>)? Kind for $kind $(<$t>)? {
            type Value = $value;

            fn read($key: &Key, $given: &Value, $reader: &Reader<'_>) -> Result<$value, Found> {
                $read
            }

            fn schema() -> serde_json::Value {
                $schema
            }
        }
    )*};
}
pub(super) use kinds;

kinds! {
    /// `true` or `false`.
    Switch is bool, boolean(), |key, value, _| Ok(document::boolean(key, value)?);

    /// A number of things, at least 1.
    Count<T: TryFrom<u64>> is T, amount(), |key, value, _| {
        let text = document::scalar(key, value)?;
        Ok(document::parsed(&text, value, parse_count)?)
    };

    /// A number of things that may be none.
    CountOrNone<T: TryFrom<u64>, Default> is T, amount(), |key, value, reader| {
        match document::scalar(key, value)?.trim() {
            "0" => Ok(T::default()),
            _ => Count::read(key, value, reader),
        }
    };

    /// Threads.
    Workers is NonZeroUsize, amount(), |key, value, reader| {
        let count: u32 = Count::read(key, value, reader)?;
        let workers = NonZeroUsize::new(count as usize).filter(|_| count <= MOST_WORKERS);
        workers.ok_or_else(|| {
            let reason = "each is a thread, and one a processor is enough";
            let accepted = format!("1 to {MOST_WORKERS}");
            wrong(value, "number of workers", count.to_string(), reason, accepted)
        })
    };

    /// A part of a whole, in percent.
    Percent is u32, amount(), |key, value, reader| {
        let share: u32 = Count::read(key, value, reader)?;
        if share <= 100 {
            return Ok(share);
        }
        let accepted = "a number from 1 to 100, which is percent";
        Err(wrong(value, "share", share.to_string(), "nobody has more than all of it", accepted))
    };

    /// What may be used of processors in a second, in ns: percent of one, or a length of time.
    Processor is u64, string(), |key, value, _| {
        let text = document::string(key, value)?;
        let refuse = |reason: &str| {
            let accepted = "a share of one processor, as in `\"50%\"`, or a time each second, as in `\"500ms\"`";
            wrong(value, "processor time", text, reason, accepted)
        };
        let used_ns = match text.trim().strip_suffix('%') {
            Some(percent) => percent.trim().parse::<u64>().ok().and_then(|percent| percent.checked_mul(10_000_000)),
            // A plain number would be seconds, and is more likely meant as percent.
            None if text.trim().parse::<f64>().is_ok() => return Err(refuse("it has no unit")),
            None => u64::try_from(document::parsed(text, value, parse_duration)?.as_nanos()).ok(),
        };
        let is_possible = |ns: &u64| (10_000..=MOST_PROCESSOR_NS).contains(ns);
        used_ns.filter(is_possible).ok_or_else(|| refuse("that is less than 10 µs, or more than any machine has"))
    };

    /// How much somebody has where others want it too.
    Weight is u32, amount(), |key, value, reader| {
        let weight: u32 = Count::read(key, value, reader)?;
        if weight <= MOST_WEIGHT {
            return Ok(weight);
        }
        Err(wrong(value, "weight", weight.to_string(), "nobody needs that much", "a number from 1 to 10000"))
    };

    /// A port that a program binds.
    Port is u16, amount(), |key, value, _| {
        let text = document::scalar(key, value)?;
        let port = text.trim().parse().ok().filter(|port| *port > 0);
        port.ok_or_else(|| {
            let accepted = "a number from 1 to 65535, as in `8000`";
            wrong(value, "port", text, "no program can bind it", accepted)
        })
    };

    /// A number of bytes, as the policy writes it.
    Size<T: TryFrom<u64>> is T, amount(), |key, value, _| {
        let text = document::scalar(key, value)?;
        let bytes = document::parsed(&text, value, parse_size)?;
        T::try_from(bytes)
            .map_err(|_| wrong(value, "size", text, "this machine has no such memory", "less"))
    };

    /// A length of time, as the policy writes it.
    Time is Duration, amount(), |key, value, _| {
        let text = document::scalar(key, value)?;
        Ok(document::parsed(&text, value, parse_duration)?)
    };

    /// A length of time, or `"never"`.
    TimeOrNever is Option<Duration>, amount(), |key, value, reader| {
        match value.get_ref().as_str() {
            Some("never") => Ok(None),
            _ => Time::read(key, value, reader).map(Some),
        }
    };

    /// A string that may be anything.
    Text is String, string(), |key, value, _| Ok(document::string(key, value)?.into());

    /// A path, joined to the file's folder.
    HostPath is PathBuf, string(), |key, value, reader| {
        let text = document::string(key, value)?;
        let parse = |text: &str| parse_path(text, reader.base_dir);
        Ok(document::parsed(text, value, parse)?)
    };
}

fn wrong(
    value: &Value,
    noun: &'static str,
    given: impl Into<String>,
    reason: &str,
    accepted: impl Into<String>,
) -> Found {
    let problem = ConfigProblem::Value {
        noun,
        given: given.into(),
        reason: reason.into(),
        accepted: accepted.into(),
    };
    Found::at(value.span(), problem)
}

/// A string with a form of its own.
pub(super) trait Form {
    /// What it is read as.
    type Value;

    /// Reads it.
    fn parse(text: &str, reader: &Reader<'_>) -> Result<Self::Value, Refusal>;

    /// The schema of one.
    fn schema() -> serde_json::Value {
        string()
    }
}

/// Gives a form its parser.
macro_rules! forms {
    ($($(#[$doc:meta])* $form:ident => $value:ty, |$text:pat_param, $reader:pat_param| $parse:expr;)*) => {$(
        $(#[$doc])*
        pub(super) struct $form;

        impl Form for $form {
            type Value = $value;

            fn parse($text: &str, $reader: &Reader<'_>) -> Result<$value, Refusal> {
                $parse
            }
        }
    )*};
}

forms! {
    /// Where a socket listens.
    Address => super::Address, |text, reader| value::parse_address(text, reader.base_dir);
    /// Another server.
    Server => super::Server, |text, reader| value::parse_server(text, reader.base_dir);
    /// A route's host.
    Host => String, |text, _| value::parse_host(text);
    /// How a route's path begins.
    Prefix => String, |text, _| value::parse_prefix(text);
    /// What a health check asks for.
    Target => String, |text, _| value::parse_target(text);
    /// A file in a folder.
    FileName => String, |text, _| value::parse_file_name(text);
    /// A name that stands in logs and metrics.
    Name => String, |text, _| value::check_name(text).map(|()| text.to_owned());
    /// What a request asks for.
    Method => http::Method, |text, _| value::parse_method(text);
    /// A header field's value.
    HeaderValue => http::HeaderValue, |text, _| value::parse_header_value(text);
    /// What the server itself may do without.
    Dispensable => palisade_policy::Capability, |text, _| value::parse_dispensable(text);
    /// A part of a command.
    Argument => String, |text, _| Ok(text.to_owned());
}

/// One of a few words.
pub(super) struct OneOf<T>(PhantomData<T>);

impl<T: Word> Form for OneOf<T> {
    type Value = T;

    fn parse(text: &str, _: &Reader<'_>) -> Result<T, Refusal> {
        value::parse_word(text)
    }

    fn schema() -> serde_json::Value {
        let words: Vec<_> = T::WORDS.iter().map(|(word, _)| *word).collect();
        json!({ "enum": words })
    }
}

impl<F: Form> Kind for F {
    type Value = F::Value;

    fn read(key: &Key, value: &Value, reader: &Reader<'_>) -> Result<F::Value, Found> {
        value::text(key, value, |text| F::parse(text, reader))
    }

    fn schema() -> serde_json::Value {
        <F as Form>::schema()
    }
}

kinds! {
    /// A list of strings of one form, or one alone.
    Texts<F: Form> is Vec<F::Value>, some(&<F as Form>::schema()), |key, value, reader| {
        value::texts(key, value, |text| F::parse(text, reader))
    };

    /// A value with its place.
    WithPlace<K: Kind> is (Range<usize>, K::Value), K::schema(), |key, value, reader| {
        Ok((value.span(), K::read(key, value, reader)?))
    };

    /// A table.
    In<T: Section, Default> is T, T::schema(), |key, value, reader| {
        T::default().read(document::table(key, value)?, key.span(), reader)
    };
}

/// A list of tables, as `[[listen]]`, each with its place.
pub(super) struct Items<T>(PhantomData<T>);

impl<T: Section + Default> Kind for Items<T> {
    type Value = Placed<T>;

    fn read(key: &Key, value: &Value, reader: &Reader<'_>) -> Result<Placed<T>, Found> {
        let items = value.get_ref().as_array();
        let items = items.map(|items| items.iter().map(|item| (item.span(), item.get_ref())));
        let tables: Option<Vec<_>> = items.and_then(|items| {
            let tables = items.map(|(span, item)| Some((span, item.as_table()?)));
            tables.collect()
        });
        let Some(tables) = tables else {
            let expected = match key.get_ref().as_ref() {
                "listen" => "a list of tables, each [[listen]]",
                _ => "a list of tables, each [[route]]",
            };
            return Err(document::wrong_type(key, value, expected).into());
        };
        let read = |(span, table): (Range<usize>, &DeTable)| {
            let item = T::default().read(table, span.clone(), reader)?;
            Ok((span, item))
        };
        tables.into_iter().map(read).collect()
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "array", "items": T::schema() })
    }
}

/// A table of tables that have names, as `[filters.NAME]`, each with the place of its name.
pub(super) struct Names<T>(PhantomData<T>);

/// What has a name of its own in the file.
pub(super) trait HasName: Sized {
    /// Reads it. Its name has been looked at.
    fn read_named(name: &str, key: &Key, value: &Value, reader: &Reader<'_>)
    -> Result<Self, Found>;

    /// The schema of one.
    fn schema() -> serde_json::Value;
}

impl<T: HasName> Kind for Names<T> {
    type Value = Named<T>;

    fn read(key: &Key, value: &Value, reader: &Reader<'_>) -> Result<Named<T>, Found> {
        let entries = in_written_order(document::table(key, value)?).into_iter();
        let read = |(key, value): (&Key, &Value)| {
            let name = value::checked_name(key)?;
            let named = T::read_named(&name, key, value, reader)?;
            Ok((name, (key.span(), named)))
        };
        entries.map(read).collect()
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "object", "additionalProperties": T::schema() })
    }
}
