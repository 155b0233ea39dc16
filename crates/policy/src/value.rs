//! Single values as flags and policy files write them, and what is wrong with one.
//!
//! Every parser here takes the text as typed and returns a value or a [`ValueError`] that says
//! what was given, why it is refused and what is accepted. Grants have their own, with the same error.

mod decimal;
mod duration;
mod network_reason;
mod number;
mod path;
mod size;
mod word;

pub use duration::{format_duration, parse_duration};
pub use network_reason::NetworkReason;
pub(crate) use number::MAX_CORES;
pub use number::{parse_cores, parse_count};
pub(crate) use path::{absolute, parse_mapping, split_colons, write_mapping};
pub use path::{parse_cwd, parse_path};
pub use size::{format_size, parse_size};
pub(crate) use word::words;

use crate::quote::quote;
use word::nearest;

/// A value that was refused: which kind of value, what was given, why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}; {}", self.title(), self.advice())]
pub struct ValueError {
    kind: &'static ValueKind,
    given: String,
    reason: Reason,
}

impl ValueError {
    pub(crate) fn new(kind: &'static ValueKind, given: &str, reason: Reason) -> Self {
        Self {
            kind,
            given: given.to_owned(),
            reason,
        }
    }

    pub(crate) fn unknown_name(kind: &'static ValueKind, given: &str) -> Self {
        let reason = match given {
            "" => Reason::Empty,
            _ => Reason::UnknownName,
        };
        Self::new(kind, given, reason)
    }

    /// What kind of value was expected.
    pub fn kind(&self) -> &'static ValueKind {
        self.kind
    }

    /// The text that was given.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Why it was refused.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// The error's first part: which value is wrong.
    pub(crate) fn title(&self) -> String {
        let noun = self.kind.noun;
        match self.given.as_str() {
            "" => format!("an empty string is not a valid {noun}"),
            given => format!("{} is not a valid {noun}", quote(given)),
        }
    }

    /// The error's last part: what to write instead.
    pub(crate) fn advice(&self) -> String {
        match self.kind.accepted {
            Accepted::Form(form, example) => format!("accepted is {form}, as in `{example}`"),
            Accepted::Names(names) => advise_name(&self.given, names),
        }
    }
}

/// Names the nearest of `known`, and all of them.
pub fn advise_name(given: &str, known: &[&str]) -> String {
    let all = known.join(", ");
    match nearest(&given.to_lowercase(), known) {
        Some(name) => format!("did you mean `{name}`? (known: {all})"),
        None => format!("known: {all}"),
    }
}

/// A kind of value that a policy has: what messages call it, and what it accepts. Each stands beside its parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueKind {
    noun: &'static str,
    accepted: Accepted,
}

/// What a kind of value accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Anything of this form, and an example.
    Form(&'static str, &'static str),
    /// One of these.
    Names(&'static [&'static str]),
}

impl ValueKind {
    pub(crate) const fn of_form(
        noun: &'static str,
        form: &'static str,
        example: &'static str,
    ) -> Self {
        Self {
            noun,
            accepted: Accepted::Form(form, example),
        }
    }

    pub(crate) const fn of_names(noun: &'static str, names: &'static [&'static str]) -> Self {
        Self {
            noun,
            accepted: Accepted::Names(names),
        }
    }

    /// What it accepts.
    pub fn accepted(&self) -> Accepted {
        self.accepted
    }
}

/// Why a value was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Nothing was given.
    #[error("nothing was given")]
    Empty,
    /// Nothing on one side of a colon.
    #[error("nothing stands before or after the colon")]
    EmptyPart,
    /// No path and no environment string can carry a NUL byte.
    #[error("it has a NUL byte")]
    Nul,
    /// The text has no number where one belongs.
    #[error("there is no number where one belongs")]
    NotANumber,
    /// More digits than any sensible number has.
    #[error("the number has more digits than can be held")]
    TooManyDigits,
    /// The unit is not known.
    #[error("the unit {} is not known", quote(.0))]
    UnknownUnit(String),
    /// A number within a sum of units has no unit.
    #[error("{} has no unit", quote(.0))]
    MissingUnit(String),
    /// The units of a duration do not descend.
    #[error("the unit `{0}` does not follow a longer one")]
    UnitOrder(&'static str),
    /// Something that comes in whole pieces only was given a fraction.
    #[error("it is not a whole number")]
    NotWhole,
    /// Zero, or so little that it rounds to zero. A limit that is not wanted is left out.
    #[error("it comes to zero (leave it out for no limit)")]
    Zero,
    /// Above the largest value.
    #[error("it is above the largest possible value, {0}")]
    TooLarge(&'static str),
    /// A shell expands `~`, a policy does not.
    #[error("`~` is not expanded here: write the folder's full path (or `./~` for that name)")]
    Tilde,
    /// `..` after a name, where symlinks make its meaning unsure.
    #[error("`..` may stand only at the start of a relative path")]
    ParentInside,
    /// The path inside the domain is relative.
    #[error("the guest path {} is not absolute", quote(.0))]
    RelativeGuest(String),
    /// The path inside the domain has `..`.
    #[error("the guest path {} has `..` in it", quote(.0))]
    ParentInGuest(String),
    /// `:GUEST` where nothing is mapped.
    #[error("it takes no `:GUEST` part, for it names a path inside the domain")]
    UnexpectedGuest,
    /// More than one unescaped colon.
    #[error(r"it has more than one colon (write `\:` for a colon within a name)")]
    TooManyColons,
    /// A device that is neither absolute nor a known set.
    #[error("it is neither absolute nor `pts`")]
    NotAbsolute,
    /// `=VALUE` without a name.
    #[error("there is no name before the `=`")]
    NoName,
    /// An `=` within a name, which ends it.
    #[error("the name has an `=` in it")]
    EqualsInName,
    /// White space or a control character within a name.
    #[error("the name has a space or an unprintable character in it")]
    BlankInName,
    /// Not one of the known names.
    #[error("there is no such name")]
    UnknownName,
    /// What only a network grant can have wrong.
    #[error(transparent)]
    Network(#[from] NetworkReason),
}
