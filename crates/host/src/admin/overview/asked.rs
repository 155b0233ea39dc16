//! What somebody wants to see: a view, an order, a part of a name, a page.

use super::rows::Row;
use percent_encoding::percent_decode_str;
use std::cmp::Ordering;

/// Rows of one answer, where no number is asked for.
const ROWS: usize = 25;
/// The most of them.
const MOST_ROWS: usize = 100;
/// Bytes of what is searched for.
const MOST_SEARCH: usize = 256;

/// What somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::admin) struct Asked {
    pub(super) view: View,
    pub(super) sort: Sort,
    /// What names have in them, in small letters.
    pub(super) search: String,
    pub(super) from: usize,
    pub(super) count: usize,
}

/// Something in a query that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::admin) enum Wrong {
    #[error("there is no parameter of this name: there are view, sort, search, from and count")]
    Name,
    #[error("`{0}` cannot be that")]
    Value(&'static str),
}

/// What rows are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Guests,
    Tenants,
    Routes,
}

/// What rows are sorted by, the most first; by name the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Requests,
    Errors,
    Latency,
    Cpu,
    Memory,
    Denials,
    Faults,
    Restarts,
    Name,
}

const VIEWS: [(&str, View); 3] = [
    ("guests", View::Guests),
    ("tenants", View::Tenants),
    ("routes", View::Routes),
];

const SORTS: [(&str, Sort); 9] = [
    ("requests", Sort::Requests),
    ("errors", Sort::Errors),
    ("latency", Sort::Latency),
    ("cpu", Sort::Cpu),
    ("memory", Sort::Memory),
    ("denials", Sort::Denials),
    ("faults", Sort::Faults),
    ("restarts", Sort::Restarts),
    ("name", Sort::Name),
];

fn name_of<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    let found = words.iter().find(|(_, known)| *known == value);
    found.map_or("", |(word, _)| word)
}

impl View {
    pub(super) fn name(self) -> &'static str {
        name_of(&VIEWS, self)
    }
}

impl Sort {
    pub(super) fn name(self) -> &'static str {
        name_of(&SORTS, self)
    }

    /// By how much a row stands before others: what it does now, and where that is the same what it has done.
    fn weight(self, row: &Row) -> (f64, f64) {
        let count = |count: Option<u64>| (count.unwrap_or_default() as f64, 0.0);
        let now = |now: Option<f64>, ever: u64| (now.unwrap_or_default(), ever as f64);
        match self {
            Self::Requests => now(row.requests_s, row.requests),
            Self::Errors => now(row.errors_s, row.errors),
            Self::Latency => now(row.p99_s, 0),
            Self::Cpu => now(row.cpu, row.cpu_us.unwrap_or_default()),
            Self::Memory => count(row.memory_bytes),
            Self::Denials => count(row.denials),
            Self::Faults => count(row.faults),
            Self::Restarts => count(row.restarts),
            Self::Name => (0.0, 0.0),
        }
    }

    fn compare(self, one: &Row, other: &Row) -> Ordering {
        let (now, ever) = self.weight(one);
        let (other_now, other_ever) = self.weight(other);
        let by_weight = other_now.total_cmp(&now).then(other_ever.total_cmp(&ever));
        by_weight.then_with(|| (&one.name, one.kind).cmp(&(&other.name, other.kind)))
    }
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            view: View::Guests,
            sort: Sort::Requests,
            search: String::new(),
            from: 0,
            count: ROWS,
        }
    }
}

impl Asked {
    /// What a query asks for.
    ///
    /// # Errors
    /// The first part of it that means nothing.
    pub(in crate::admin) fn read(query: &str) -> Result<Self, Wrong> {
        let mut asked = Self::default();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.replace('+', " ");
            let value = percent_decode_str(&value).decode_utf8_lossy();
            asked.set(name, &value)?;
        }
        Ok(asked)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Wrong> {
        fn word<T: Copy>(words: &[(&str, T)], value: &str) -> Option<T> {
            let found = words.iter().find(|(word, _)| *word == value);
            found.map(|(_, known)| *known)
        }
        match name {
            "view" => self.view = word(&VIEWS, value).ok_or(Wrong::Value("view"))?,
            "sort" => self.sort = word(&SORTS, value).ok_or(Wrong::Value("sort"))?,
            "from" => self.from = value.parse().map_err(|_| Wrong::Value("from"))?,
            "count" => {
                let count: usize = value.parse().map_err(|_| Wrong::Value("count"))?;
                self.count = count.min(MOST_ROWS);
            }
            "search" if value.len() <= MOST_SEARCH => self.search = value.trim().to_lowercase(),
            "search" => return Err(Wrong::Value("search")),
            _ => return Err(Wrong::Name),
        }
        Ok(())
    }

    /// Those that fit, in order.
    pub(super) fn choose(&self, mut rows: Vec<Row>) -> Vec<Row> {
        let words: Vec<_> = self.search.split_whitespace().collect();
        rows.retain(|row| words.iter().all(|word| row.has(word)));
        rows.sort_by(|one, other| self.sort.compare(one, other));
        rows
    }
}
