//! What is wrong in `host.toml`, shown with the line where it is.

use palisade_policy::{
    Contradiction, TomlError,
    document::{self, Excerpt, TomlProblem},
    quote,
    value::advise_name,
};
use std::{fmt, ops::Range, path::PathBuf};

/// The first thing in the file that can't be meant, and where.
///
/// Displayed as several lines without colour: what is wrong, the line with a mark below it, and what to
/// write instead.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigError {
    source_name: Box<str>,
    text: Box<str>,
    found: Box<Found>,
}

impl ConfigError {
    pub(super) fn new(source_name: &str, text: &str, found: Found) -> Self {
        Self {
            source_name: source_name.into(),
            text: text.into(),
            found: Box::new(found),
        }
    }

    /// What is wrong.
    pub fn problem(&self) -> &ConfigProblem {
        &self.found.problem
    }

    /// Where it is, in bytes from the start of the text; `None` where it is no place's fault.
    pub fn span(&self) -> Option<Range<usize>> {
        self.found.span.clone()
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { span, problem } = self.found.as_ref();
        let Some(span) = span else {
            write!(
                f,
                "{}: {problem}",
                palisade_policy::visible(&self.source_name)
            )?;
            return match problem.advice() {
                Some(advice) => write!(f, ": {}", palisade_policy::visible(&advice)),
                None => Ok(()),
            };
        };
        Excerpt {
            title: problem.to_string(),
            source_name: &self.source_name,
            text: &self.text,
            span: span.clone(),
            label: problem.label(),
            advice: problem.advice(),
        }
        .fmt(f)?;
        match problem {
            ConfigProblem::PolicyFile(error) => write!(f, "\n\n{error}"),
            _ => Ok(()),
        }
    }
}

/// What can be wrong in `host.toml`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigProblem {
    /// The file itself can't be read.
    #[error("the file cannot be read: {0}")]
    File(String),
    /// Not TOML, or a key that is defined twice.
    #[error("this is not valid TOML: {0}")]
    Syntax(String),
    /// A key without which the rest means nothing.
    #[error("{place} has no {}", quote(key))]
    MissingKey {
        /// The table.
        place: String,
        /// The key.
        key: &'static str,
        /// What to write.
        example: &'static str,
    },
    /// An unknown key, a value of another type, or of a policy's kind that means nothing.
    #[error(transparent)]
    Toml(TomlProblem),
    /// A value that means nothing.
    #[error("{} is not a valid {noun}", quote(given))]
    Value {
        /// What kind of value was expected.
        noun: &'static str,
        /// What was given.
        given: String,
        /// Why it is refused.
        reason: String,
        /// What is taken, with an example.
        accepted: String,
    },
    /// A service that is nothing, or two things.
    #[error("{}", is_what(name, found))]
    Kind {
        /// The service.
        name: String,
        /// The keys of kinds that it has.
        found: Vec<&'static str>,
    },
    /// A filter or service that a route names and nobody defines.
    #[error("there is no {kind} {}", quote(name))]
    UnknownName {
        /// `filter` or `service`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The same twice, where there can be one.
    #[error("{what} is defined twice")]
    Twice {
        /// What.
        what: String,
        /// What to do.
        advice: &'static str,
    },
    /// Something that this kind of guest can't have.
    #[error("policy: {guest} cannot have {what}")]
    NotGrantable {
        /// `filter` and its name.
        guest: String,
        /// The grant or limit, by its key.
        what: String,
        /// What to do.
        advice: &'static str,
    },
    /// A policy that contradicts itself.
    #[error("policy: {0}")]
    Contradiction(Contradiction),
    /// A policy file that is none; its own error follows.
    #[error("policy: the file is not a policy")]
    PolicyFile(TomlError),
    /// A file that the configuration names can't be read.
    #[error("{} cannot be read: {reason}", quote(&path.to_string_lossy()))]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A list that needs an entry.
    #[error("`{0}` is empty")]
    Empty(&'static str),
    /// Two keys that exclude each other.
    #[error("{first} and {second} exclude each other")]
    Exclusive {
        /// One.
        first: String,
        /// The other.
        second: String,
        /// What to do.
        advice: &'static str,
    },
    /// A key of a tenant's file that is the site's to say.
    #[error("{} is the main file's alone to say", quote(.0))]
    OfTheSite(&'static str),
    /// What a tenant's file claims and is not given.
    #[error("the {kind} {} is not given to this file", quote(claimed))]
    NotGiven {
        /// `host` or `path`.
        kind: &'static str,
        /// What is claimed.
        claimed: String,
        /// What is given.
        given: Vec<String>,
    },
    /// A path that leads out of a tenant's folder.
    #[error("{guest} has {}, which does not lie below its tenant's folder", quote(&path.to_string_lossy()))]
    Outside {
        /// `filter` and its name.
        guest: String,
        /// The path.
        path: PathBuf,
        /// The folder.
        folder: PathBuf,
    },
    /// What a tenant's file can have only where the main file says so.
    #[error("{guest} has {what}, which its tenant may not have")]
    Forbidden {
        /// `filter` and its name.
        guest: String,
        /// What.
        what: &'static str,
        /// The word of `may`.
        word: &'static str,
    },
    /// More of something than there may be.
    #[error("there are too many {what}: {count}, and {most} are the most")]
    TooMany {
        /// Of what.
        what: String,
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// A tenant that can't be.
    #[error("{0}")]
    Tenant(String),
    /// Nothing comes in, or nothing goes anywhere.
    #[error("nothing would be served: {missing}")]
    Nothing {
        /// What is missing.
        missing: &'static str,
        /// What to write.
        advice: &'static str,
    },
}

fn is_what(name: &str, found: &[&str]) -> String {
    match found {
        [] => format!("it is not said what service {} is", quote(name)),
        _ => format!("service {} is said to be several things", quote(name)),
    }
}

impl ConfigProblem {
    /// What stands beside the mark.
    fn label(&self) -> Option<String> {
        match self {
            Self::Toml(problem) => problem.label(),
            Self::Value { reason, .. } => Some(reason.clone()),
            Self::Kind { found, .. } if !found.is_empty() => Some(format!("by {}", list(found))),
            _ => None,
        }
    }

    /// What to write instead.
    fn advice(&self) -> Option<String> {
        match self {
            Self::Toml(problem) => problem.advice(),
            Self::MissingKey { example, .. } => Some(format!("write {example}")),
            Self::Value { accepted, .. } => Some(format!("accepted is {accepted}")),
            Self::Kind { .. } => Some(format!("one of {} decides it", list(super::service::KINDS))),
            Self::UnknownName { kind, known, .. } if known.is_empty() => {
                Some(format!("define it in a table [{kind}s.NAME]"))
            }
            Self::UnknownName { name, known, .. } => {
                let known: Vec<_> = known.iter().map(String::as_str).collect();
                Some(advise_name(name, &known))
            }
            Self::Twice { advice, .. }
            | Self::NotGrantable { advice, .. }
            | Self::Exclusive { advice, .. }
            | Self::Nothing { advice, .. } => Some((*advice).into()),
            Self::OfTheSite(_) => {
                Some("a tenant's file has [filters.NAME], [services.NAME] and [[route]]".into())
            }
            Self::NotGiven { kind, given, .. } => Some(format!(
                "it has {}; more is given by `{kind}s` in [tenants] or [tenant.NAME] of the main file",
                super::tenant::shown(given)
            )),
            Self::Outside { folder, .. } => Some(format!(
                "relative paths start at {}, and none may leave it",
                folder.display()
            )),
            Self::Forbidden { word, .. } => Some(format!(
                "`may = [\"{word}\"]` in [tenants] or [tenant.NAME] of the main file allows it"
            )),
            Self::Empty("program") => {
                Some("name a program, as in `[\"./server\", \"--flag\"]`".into())
            }
            Self::Empty(_) => Some("name a server, as in `\"http://127.0.0.1:3000\"`".into()),
            Self::File(_)
            | Self::TooMany { .. }
            | Self::Tenant(_)
            | Self::Syntax(_)
            | Self::Contradiction(_)
            | Self::PolicyFile(_)
            | Self::Unreadable { .. } => None,
        }
    }
}

fn list(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}

/// A problem and where it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) span: Option<Range<usize>>,
    pub(super) problem: ConfigProblem,
}

impl Found {
    pub(super) fn at(span: Range<usize>, problem: ConfigProblem) -> Self {
        Self {
            span: Some(span),
            problem,
        }
    }

    pub(super) fn nowhere(problem: ConfigProblem) -> Self {
        Self {
            span: None,
            problem,
        }
    }
}

impl From<document::Located> for Found {
    fn from(located: document::Located) -> Self {
        Self::at(located.span, ConfigProblem::Toml(located.problem))
    }
}
