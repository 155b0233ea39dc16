//! `NAME[=VALUE]`.

use std::{fmt, str::FromStr};

use super::{Reason, ValueError, ValueKind};
use crate::EnvGrant;

impl FromStr for EnvGrant {
    type Err = ValueError;

    /// Parses `NAME`, which passes the host's value on, or `NAME=VALUE`; VALUE may be empty.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let refuse = |reason| Err(ValueError::new(ValueKind::Env, text, reason));
        match name {
            _ if text.is_empty() => refuse(Reason::Empty),
            _ if text.contains('\0') => refuse(Reason::Nul),
            "" => refuse(Reason::NoName),
            _ => Ok(Self {
                name: name.to_owned(),
                value: value.map(str::to_owned),
            }),
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
    fn refusals() {
        let reason = |text: &str| text.parse::<EnvGrant>().unwrap_err().reason().clone();
        assert_eq!(reason(""), Reason::Empty);
        assert_eq!(reason("=x"), Reason::NoName);
        assert_eq!(reason("A\0=x"), Reason::Nul);
        assert_eq!(reason("A=x\0"), Reason::Nul);
    }

    #[test]
    fn message() {
        insta::assert_snapshot!("=x".parse::<EnvGrant>().unwrap_err(), @"`=x` is not a valid environment grant: there is no name before the `=`; accepted is NAME or NAME=VALUE, as in `LANG=C.UTF-8`");
    }
}
