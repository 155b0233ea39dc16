//! Plain numbers: counts and processor shares.

use std::num::IntErrorKind;

use super::{Reason, ValueError, ValueKind};

/// More than any machine that Linux runs on has (`CONFIG_NR_CPUS` ends at 8192 on x86).
pub(crate) const MAX_CORES: f64 = 4096.0;

impl ValueKind {
    /// A number of processors.
    pub(crate) const CORES: &'static Self =
        &Self::of_form("number of cores", "a number above 0 and up to 4096", "1.5");

    /// A number of things.
    pub(crate) const COUNT: &'static Self =
        &Self::of_form("count", "a whole number of at least 1", "64");
}

/// Parses a number of processors, fractions allowed: above 0 and up to 4096.
///
/// # Errors
/// Anything else, infinity and NaN included.
pub fn parse_cores(text: &str) -> Result<f64, ValueError> {
    let refuse = |reason| Err(ValueError::new(ValueKind::CORES, text, reason));
    match text.trim().parse::<f64>() {
        _ if text.trim().is_empty() => refuse(Reason::Empty),
        Err(_) => refuse(Reason::NotANumber),
        Ok(cores) if cores.is_nan() || cores < 0.0 => refuse(Reason::NotANumber),
        Ok(0.0) => refuse(Reason::Zero),
        Ok(cores) if cores > MAX_CORES => refuse(Reason::TooLarge("4096")),
        Ok(cores) => Ok(cores),
    }
}

/// Parses a number of things, as `u32` or `u64`: whole and at least 1.
///
/// # Errors
/// Anything else, or more than `T` holds.
pub fn parse_count<T: TryFrom<u64>>(text: &str) -> Result<T, ValueError> {
    let count = match text.trim().parse::<u64>() {
        Ok(0) => Err(Reason::Zero),
        Ok(count) => T::try_from(count).map_err(|_| Reason::TooManyDigits),
        Err(error) => Err(explain(text.trim(), error.kind())),
    };
    count.map_err(|reason| ValueError::new(ValueKind::COUNT, text, reason))
}

fn explain(text: &str, kind: &IntErrorKind) -> Reason {
    match kind {
        IntErrorKind::Empty => Reason::Empty,
        IntErrorKind::PosOverflow => Reason::TooManyDigits,
        _ if text.parse::<f64>().is_ok_and(|number| number > 0.0) => Reason::NotWhole,
        _ => Reason::NotANumber,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores() {
        assert_eq!(parse_cores("1.5"), Ok(1.5));
        assert_eq!(parse_cores(" 4096 "), Ok(4096.0));
        let reason = |text: &str| parse_cores(text).unwrap_err().reason().clone();
        assert_eq!(reason(""), Reason::Empty);
        assert_eq!(reason("0"), Reason::Zero);
        assert_eq!(reason("-0"), Reason::Zero);
        assert_eq!(reason("-1"), Reason::NotANumber);
        assert_eq!(reason("NaN"), Reason::NotANumber);
        assert_eq!(reason("two"), Reason::NotANumber);
        assert_eq!(reason("4097"), Reason::TooLarge("4096"));
        assert_eq!(reason("inf"), Reason::TooLarge("4096"));
        assert_eq!(reason("1e400"), Reason::TooLarge("4096"));
    }

    #[test]
    fn counts() {
        assert_eq!(parse_count::<u32>("64"), Ok(64));
        assert_eq!(parse_count::<u64>("18446744073709551615"), Ok(u64::MAX));
        let reason = |text: &str| parse_count::<u32>(text).unwrap_err().reason().clone();
        assert_eq!(reason(""), Reason::Empty);
        assert_eq!(reason("0"), Reason::Zero);
        assert_eq!(reason("-1"), Reason::NotANumber);
        assert_eq!(reason("1.5"), Reason::NotWhole);
        assert_eq!(reason("many"), Reason::NotANumber);
        assert_eq!(reason("4294967296"), Reason::TooManyDigits);
    }

    #[test]
    fn message() {
        insta::assert_snapshot!(parse_cores("0").unwrap_err(), @"`0` is not a valid number of cores: it comes to zero (leave it out for no limit); accepted is a number above 0 and up to 4096, as in `1.5`");
        insta::assert_snapshot!(parse_count::<u32>("1.5").unwrap_err(), @"`1.5` is not a valid count: it is not a whole number; accepted is a whole number of at least 1, as in `64`");
    }
}
