//! One line, and how it is written.

use super::{Access, LEAST_BYTES_OF_TENANT, sink::Sink};
use crate::{
    kinds::{GuestKind, Level},
    quota::Quota,
};
use jiff::Timestamp;
use palisade_policy::{acts_on_terminal, visible, visible_json};
use palisade_wall::journal::{self, Entry as Event};
use std::{
    borrow::Cow,
    fmt::Write,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

/// Of a message, and of each field that is text.
const MOST_TEXT_BYTES: usize = 8 << 10;
/// What a line takes beside its text, about.
const LINE_BYTES: usize = 192;
/// Fields of a request's line.
const MOST_ACCESS_FIELDS: usize = 9;

/// A field of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// One of the server's own words.
    Word(&'static str),
    /// Text, whosever.
    Text(Box<str>),
    /// An address of the network.
    Address(IpAddr),
    /// What people are told by the message.
    Json(Box<str>),
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<IpAddr> for Value {
    fn from(address: IpAddr) -> Self {
        Self::Address(address)
    }
}

impl From<Box<str>> for Value {
    fn from(text: Box<str>) -> Self {
        match cut(&text).len() == text.len() {
            true => Self::Text(text),
            false => Self::from(&*text),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(cut(text).into())
    }
}

/// One thing to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub(super) level: Level,
    pub(super) message: Cow<'static, str>,
    pub(super) request: Option<u64>,
    pub(super) fields: Vec<(&'static str, Value)>,
}

impl Line {
    /// A line without fields. What of the message is above 8 KiB is cut off.
    pub fn new(level: Level, message: impl Into<String>) -> Self {
        let mut message = message.into();
        message.truncate(cut(&message).len());
        Self {
            level,
            message: message.into(),
            request: None,
            fields: Vec::new(),
        }
    }

    /// The line of a request that is over. Without a broken response, `time_first_us` of one that came at once, or a
    /// client on the network, the fields for them are not there.
    pub(super) fn of_access(access: Access) -> Self {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let mut line = Self {
            level: Level::Info,
            message: "request".into(),
            request: Some(access.request),
            fields: Vec::with_capacity(MOST_ACCESS_FIELDS),
        };
        line.add("client", access.client);
        line.add("method", Some(access.method.as_str()));
        line.add("path", Some(access.path));
        let status = access.status.map(|status| u64::from(status.as_u16()));
        line.add("status", status);
        line.add("bytes", Some(access.bytes));
        line.add("time_us", Some(us(access.time)));
        line.add("time_first_us", access.first.map(us));
        line.add("route", Some(access.route));
        line.add(
            "broken_by",
            access.broken_by.map(|by| Value::Word(by.name())),
        );
        line
    }

    /// The line of what has happened to a guest, with all of it in the field `event`, as `palisade run --events` has it.
    pub(super) fn of_event(event: &journal::Line) -> Self {
        let level = match event.entry {
            Event::Verdict { .. } | Event::Limit { .. } | Event::Lost { .. } => Level::Warn,
            Event::Start { .. }
            | Event::Granted { .. }
            | Event::Revoked { .. }
            | Event::End { .. } => Level::Info,
        };
        let mut line = Self::new(level, event.entry.describe());
        // What a guest chose may be long.
        if let Ok(json) = serde_json::to_string(event)
            && json.len() <= MOST_TEXT_BYTES
        {
            line.fields.push(("event", Value::Json(json.into())));
        }
        line
    }

    fn add(&mut self, name: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.fields.push((name, value.into()));
        }
    }

    /// Says which request it is about.
    #[must_use]
    pub fn of_request(mut self, number: u64) -> Self {
        self.request = Some(number);
        self
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// What it takes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let text = |value: &Value| match value {
            Value::Text(text) | Value::Json(text) => text.len(),
            Value::Number(_) | Value::Word(_) | Value::Address(_) => 0,
        };
        let fields: usize = self.fields.iter().map(|(_, value)| 40 + text(value)).sum();
        LINE_BYTES + self.message.len() + fields
    }
}

/// The beginning of `text` that a line takes.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_TEXT_BYTES)]
}

/// Whose lines they are and where they go.
#[derive(Debug)]
pub(super) struct Origin {
    guest: Option<(GuestKind, Box<str>)>,
    pub(super) sink: Arc<Sink>,
    pub(super) queued_bytes: AtomicUsize,
    /// Of whom it is a guest.
    quota: Option<Arc<Quota>>,
}

impl Origin {
    pub(super) fn new(guest: Option<(GuestKind, Box<str>)>, sink: Arc<Sink>) -> Self {
        Self {
            guest,
            sink,
            queued_bytes: AtomicUsize::new(0),
            quota: None,
        }
    }

    /// The same, as a tenant's. The main file is nobody's.
    pub(super) fn of_tenant(&self, quota: &Arc<Quota>) -> Self {
        let is_of_tenant = !quota.tenant().is_empty();
        Self {
            quota: is_of_tenant.then(|| Arc::clone(quota)),
            ..Self::new(self.guest.clone(), Arc::clone(&self.sink))
        }
    }

    /// What a line of so many bytes counts.
    pub(super) fn cost(&self, bytes: usize) -> usize {
        match self.quota {
            Some(_) => bytes.max(LEAST_BYTES_OF_TENANT),
            None => bytes,
        }
    }

    /// Counts bytes that the tenant has in the queue from now on; gives how many these are.
    pub(super) fn queue_of_tenant(&self, bytes: usize) -> usize {
        self.quota.as_ref().map_or(0, |quota| {
            bytes + quota.queued_bytes().fetch_add(bytes, Ordering::Relaxed)
        })
    }

    /// Whether the tenant may write so much.
    pub(super) fn allows_line(&self, bytes: usize) -> bool {
        self.quota
            .as_ref()
            .is_none_or(|quota| quota.allows_line(bytes))
    }

    /// Bytes have left the queue.
    pub(super) fn let_go(&self, bytes: usize) {
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(quota) = &self.quota {
            quota.queued_bytes().fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn is_guest(&self) -> bool {
        self.guest.is_some()
    }
}

/// Writes one JSON object and a line's end.
pub(super) fn write_json(out: &mut String, time: SystemTime, origin: &Origin, line: &Line) {
    let _ = write!(
        out,
        r#"{{"time":"{}","level":"{}""#,
        Rfc3339(time),
        line.level.name()
    );
    if let Some((kind, name)) = &origin.guest {
        let _ = write!(out, r#","{}":"#, kind.name());
        write_json_text(out, name);
    }
    if let Some(number) = line.request {
        let _ = write!(out, r#","request":{number}"#);
    }
    out.push_str(r#","message":"#);
    write_json_text(out, &line.message);
    for (name, value) in &line.fields {
        let _ = write!(out, r#","{name}":"#);
        match value {
            Value::Number(number) => drop(write!(out, "{number}")),
            Value::Word(word) => write_json_text(out, word),
            Value::Text(text) => write_json_text(out, text),
            Value::Address(address) => drop(write!(out, "\"{address}\"")),
            Value::Json(json) => out.push_str(&visible_json(json)),
        }
    }
    out.push_str("}\n");
}

/// A string of JSON in which nothing acts on a terminal: JSON itself escapes only what is below U+0020.
fn write_json_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // All of these have four digits.
            c if acts_on_terminal(c) || matches!(c, '\u{2028}' | '\u{2029}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Writes a line for people.
pub(super) fn write_text(out: &mut String, time: SystemTime, origin: &Origin, line: &Line) {
    let level = line.level.name();
    let _ = match &origin.guest {
        // Names of guests are one below the other.
        Some((kind, name)) => {
            let (kind, name) = (kind.name(), visible(name));
            write!(out, "{} {level:<5} {kind} {name}", Rfc3339(time))
        }
        None => write!(out, "{} {level}", Rfc3339(time)),
    };
    if let Some(number) = line.request {
        let _ = write!(out, " #{number}");
    }
    let _ = write!(out, ": {}", visible(&line.message));
    for (name, value) in &line.fields {
        match value {
            Value::Number(number) => drop(write!(out, " {name}={number}")),
            Value::Word(word) => drop(write!(out, " {name}={word}")),
            Value::Address(address) => drop(write!(out, " {name}={address}")),
            Value::Json(_) => {}
            Value::Text(text) => {
                let _ = write!(out, " {name}=");
                write_word(out, text);
            }
        }
    }
    out.push('\n');
}

/// Text that cannot be taken for another field.
fn write_word(out: &mut String, text: &str) {
    let is_word = !text.is_empty() && !text.contains([' ', '"', '=', '\\']);
    match is_word {
        true => out.push_str(&visible(text)),
        false => write_json_text(out, text),
    }
}

/// A time in UTC with milliseconds, as in RFC 3339.
pub(crate) struct Rfc3339(pub(crate) SystemTime);

impl std::fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = Timestamp::try_from(self.0).unwrap_or_default();
        write!(f, "{time:.3}")
    }
}
