//! What is wrong in a TOML file, before anything in it is looked at together.

use crate::{
    quote::quote,
    value::{ValueError, advise_name},
};

/// What can be wrong in a TOML file.
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
        /// The table it stands in, as `in [limits]`.
        place: String,
        /// The keys that mean something there.
        known: Vec<&'static str>,
        /// The table where it belongs, as `in [grants]`.
        elsewhere: Option<&'static str>,
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
            Self::UnknownKey {
                key,
                elsewhere: Some(table),
                ..
            } => Some(format!("`{key}` belongs {table}")),
            Self::UnknownKey { key, known, .. } => Some(advise_name(key, known)),
            Self::Value(error) => Some(error.advice()),
            Self::Syntax(_) | Self::WrongType { .. } => None,
        }
    }
}
