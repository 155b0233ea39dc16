//! What is wrong in a policy file, shown with the line where it is.

use std::{fmt, ops::Range};

use super::{GRANT_KEYS, LIMIT_KEYS, TOP_KEYS};
use crate::{
    ValueError,
    document::{Excerpt, Located},
    quote::quote,
    value::advise_name,
};

/// The first thing in a policy file that is not a policy, and where.
///
/// Displayed as several lines without colour: what is wrong, the line with a mark below it, and
/// what to write instead.
#[derive(Clone, Debug, PartialEq)]
pub struct TomlError {
    source_name: Box<str>,
    text: Box<str>,
    located: Box<Located>,
}

impl TomlError {
    pub(super) fn new(source_name: &str, text: &str, located: Located) -> Self {
        Self {
            source_name: source_name.into(),
            text: text.into(),
            located: Box::new(located),
        }
    }

    /// What is wrong.
    pub fn problem(&self) -> &TomlProblem {
        &self.located.problem
    }

    /// Where it is, in bytes from the start of the text.
    pub fn span(&self) -> Range<usize> {
        self.located.span.clone()
    }
}

impl std::error::Error for TomlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.problem() {
            TomlProblem::Value(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for TomlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Located { span, problem } = self.located.as_ref();
        Excerpt {
            title: problem.to_string(),
            source_name: &self.source_name,
            text: &self.text,
            span: span.clone(),
            label: problem.label(),
            advice: problem.advice(),
        }
        .fmt(f)
    }
}

/// What can be wrong in a policy file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TomlProblem {
    /// Not TOML, or a key that is defined twice.
    #[error("the policy is not valid TOML: {0}")]
    Syntax(String),
    /// A key that means nothing at this place.
    #[error("unknown key {} {place}", quote(key))]
    UnknownKey {
        /// The key.
        key: String,
        /// The table it stands in.
        place: Place,
    },
    /// A value of another TOML type.
    #[error("{what} must be {expected}, not {found}")]
    WrongType {
        /// What was set.
        what: String,
        /// The types that are accepted.
        expected: &'static str,
        /// The type that was found.
        found: &'static str,
    },
    /// A value that means nothing.
    #[error("{}", .0.title())]
    Value(#[source] ValueError),
}

impl TomlProblem {
    /// What stands beside the mark.
    pub fn label(&self) -> Option<String> {
        match self {
            Self::Value(error) => Some(error.reason().to_string()),
            _ => None,
        }
    }

    /// What to write instead.
    pub fn advice(&self) -> Option<String> {
        match self {
            Self::UnknownKey { key, place } => Some(place.advise(key)),
            Self::Value(error) => Some(error.advice()),
            Self::Syntax(_) | Self::WrongType { .. } => None,
        }
    }
}

/// A table of the policy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Outside every table.
    Top,
    /// `[grants]`.
    Grants,
    /// `[limits]`.
    Limits,
}

impl Place {
    const ALL: [Self; 3] = [Self::Top, Self::Grants, Self::Limits];

    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Top => TOP_KEYS,
            Self::Grants => GRANT_KEYS,
            Self::Limits => LIMIT_KEYS,
        }
    }

    /// Names the nearest key here, or the table where the key belongs.
    fn advise(self, key: &str) -> String {
        if let Some(other) = Self::ALL.iter().find(|place| place.keys().contains(&key)) {
            return format!("`{key}` belongs {other}");
        }
        advise_name(key, self.keys())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Top => "at the top, before any table",
            Self::Grants => "in [grants]",
            Self::Limits => "in [limits]",
        })
    }
}
