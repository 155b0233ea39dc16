//! Environment variables: `NAME[=VALUE]`.

use std::{fmt, str::FromStr};

use crate::{
    quote::acts_on_terminal,
    value::{Reason, ValueError, ValueKind},
};

/// One environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvGrant {
    /// The variable's name.
    pub name: String,
    /// Its value; `None` passes the host's value on.
    pub value: Option<String>,
}

impl ValueKind {
    /// An [`EnvGrant`].
    pub(crate) const ENV: &'static Self =
        &Self::of_form("environment grant", "NAME or NAME=VALUE", "LANG=C.UTF-8");
}

impl FromStr for EnvGrant {
    type Err = ValueError;

    /// Parses `NAME`, which passes the host's value on, or `NAME=VALUE`; VALUE may be empty.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let grant = Self {
            name: name.to_owned(),
            value: value.map(str::to_owned),
        };
        let fault = match text {
            "" => Some(Reason::Empty),
            _ => grant.fault(),
        };
        match fault {
            Some(reason) => Err(ValueError::new(ValueKind::ENV, text, reason)),
            None => Ok(grant),
        }
    }
}

impl EnvGrant {
    /// Why no variable can be like this.
    ///
    /// execve(2) takes any string, and POSIX (XBD 8.1) lets names be more than the letters, digits
    /// and underscores of its own: Java's have dots, npm's slashes, exported functions `%%`. Only
    /// what no program reads back as one name is refused.
    pub(crate) fn fault(&self) -> Option<Reason> {
        let blank = |c: char| c.is_whitespace() || acts_on_terminal(c);
        let value = self.value.as_deref().unwrap_or_default();
        match self.name.as_str() {
            "" => Some(Reason::NoName),
            name if name.contains('\0') || value.contains('\0') => Some(Reason::Nul),
            name if name.contains('=') => Some(Reason::EqualsInName),
            name if name.contains(blank) => Some(Reason::BlankInName),
            _ => None,
        }
    }
}

/// Writes the grant as its flag takes it.
impl fmt::Display for EnvGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(name: &str, value: Option<&str>) -> EnvGrant {
        EnvGrant {
            name: name.into(),
            value: value.map(str::to_owned),
        }
    }

    #[test]
    fn name_and_value() {
        assert_eq!("LANG".parse(), Ok(grant("LANG", None)));
        assert_eq!("EMPTY=".parse(), Ok(grant("EMPTY", Some(""))));
        assert_eq!("A=b=c\n".parse(), Ok(grant("A", Some("b=c\n"))));
        assert_eq!(grant("A", Some("b=c")).to_string(), "A=b=c");
        assert_eq!(grant("A", None).to_string(), "A");
    }

    #[test]
    fn names_of_other_programs_own() {
        for name in [
            "_",
            "a.b-c",
            "1ST",
            "npm_config_//host/:_key",
            "BASH_FUNC_f%%",
            "GRÖSSE",
        ] {
            assert_eq!(name.parse(), Ok(grant(name, None)));
        }
    }

    #[test]
    fn a_grant_that_was_not_parsed() {
        assert_eq!(grant("A=B", None).fault(), Some(Reason::EqualsInName));
        assert_eq!(grant("A", Some("x\0")).fault(), Some(Reason::Nul));
        assert_eq!(grant("", Some("x")).fault(), Some(Reason::NoName));
    }

    #[test]
    fn refusals() {
        let reason = |text: &str| text.parse::<EnvGrant>().unwrap_err().reason().clone();
        assert_eq!(reason(""), Reason::Empty);
        assert_eq!(reason("=x"), Reason::NoName);
        assert_eq!(reason("A\0=x"), Reason::Nul);
        assert_eq!(reason("A=x\0"), Reason::Nul);
        for name in [
            "BAD NAME",
            " A",
            "A\t",
            "A\n",
            "A\x1b",
            "\u{a0}",
            "A\u{202e}",
            " ",
        ] {
            assert_eq!(reason(name), Reason::BlankInName, "{name:?}");
            assert_eq!(reason(&format!("{name}=1")), Reason::BlankInName);
        }
    }

    #[test]
    fn message() {
        insta::assert_snapshot!("BAD NAME=1".parse::<EnvGrant>().unwrap_err(), @"`BAD NAME=1` is not a valid environment grant: the name has a space or an unprintable character in it; accepted is NAME or NAME=VALUE, as in `LANG=C.UTF-8`");
        insta::assert_snapshot!("=x".parse::<EnvGrant>().unwrap_err(), @"`=x` is not a valid environment grant: there is no name before the `=`; accepted is NAME or NAME=VALUE, as in `LANG=C.UTF-8`");
    }
}
