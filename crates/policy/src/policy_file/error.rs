//! What is wrong in a policy file, shown with the line where it is.

use std::{fmt, ops::Range};

use crate::document::{Excerpt, Located, TomlProblem};

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
