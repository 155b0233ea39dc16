//! Lengths of time: `500ms`, `10s`, `2m`, `1h30m`, `90`.

use std::time::Duration;

use super::{Reason, ValueError, ValueKind, decimal::Decimal};

const MILLISECOND_NS: u128 = 1_000_000;
const SECOND_NS: u128 = 1_000 * MILLISECOND_NS;

/// `timerfd_settime(2)` and the kernel's `ktime_t` end here, 292 years on.
const MAX_NS: u128 = i64::MAX as u128;

/// The longest first. `m` is a minute, as in `sleep(1)` and `systemd.time(7)`.
const UNITS: [(&str, u128); 5] = [
    ("d", 86_400 * SECOND_NS),
    ("h", 3_600 * SECOND_NS),
    ("m", 60 * SECOND_NS),
    ("s", SECOND_NS),
    ("ms", MILLISECOND_NS),
];

impl ValueKind {
    /// A length of time.
    pub(crate) const DURATION: &'static Self = &Self::of_form(
        "length of time",
        "a number of seconds, or numbers with d, h, m, s and ms, the longest first",
        "1h30m",
    );
}

/// Parses a length of time: a number of seconds, or numbers with `d`, `h`, `m`, `s` and `ms`,
/// the longest first.
///
/// # Errors
/// No number, an unknown or misplaced unit, zero, or above 2⁶³−1 ns.
pub fn parse_duration(text: &str) -> Result<Duration, ValueError> {
    parse(text.trim()).map_err(|reason| ValueError::new(ValueKind::DURATION, text, reason))
}

fn parse(text: &str) -> Result<Duration, Reason> {
    if text.is_empty() {
        return Err(Reason::Empty);
    }
    let total_ns = match Decimal::split_from(text)? {
        (seconds, "") => seconds.times(SECOND_NS),
        _ => sum_units(text)?,
    };
    match total_ns {
        Some(0) => Err(Reason::Zero),
        Some(ns) if ns <= MAX_NS => Ok(Duration::from_nanos(ns as u64)),
        _ => Err(Reason::TooLarge("292 years (2^63 - 1 ns)")),
    }
}

/// Adds up `1h30m`; `None` beyond `u128`.
fn sum_units(mut rest: &str) -> Result<Option<u128>, Reason> {
    let mut units = UNITS.iter();
    let mut total_ns = Some(0_u128);
    while !rest.is_empty() {
        let (number, name, after) = split_term(rest)?;
        let (known, unit_ns) = find_unit(name, rest)?;
        if !units.any(|(unit, _)| *unit == known) {
            return Err(Reason::UnitOrder(known));
        }
        let term_ns = number.times(unit_ns);
        total_ns = total_ns
            .zip(term_ns)
            .and_then(|(sum, term)| sum.checked_add(term));
        rest = after.trim_start();
    }
    Ok(total_ns)
}

/// Splits `1.5h30m` into 1.5, `h` and `30m`.
fn split_term(text: &str) -> Result<(Decimal, &str, &str), Reason> {
    let (number, rest) = Decimal::split_from(text)?;
    let rest = rest.trim_start();
    let ends_unit = |c: char| c.is_ascii_digit() || c == '.' || c.is_whitespace();
    let end = rest.find(ends_unit).unwrap_or(rest.len());
    let (unit, after) = rest.split_at(end);
    Ok((number, unit, after))
}

fn find_unit(name: &str, term: &str) -> Result<(&'static str, u128), Reason> {
    if name.is_empty() {
        return Err(Reason::MissingUnit(term.to_owned()));
    }
    let known = UNITS.iter().find(|(unit, _)| *unit == name);
    known
        .copied()
        .ok_or_else(|| Reason::UnknownUnit(name.to_owned()))
}

/// Writes a length of time so that [`parse_duration`] reads exactly it back, as in `1h30m`.
pub fn format_duration(duration: Duration) -> String {
    let mut rest_ns = duration.as_nanos();
    let mut text = String::new();
    for (name, unit_ns) in UNITS {
        let count = rest_ns / unit_ns;
        rest_ns %= unit_ns;
        // What is below a millisecond is written as a fraction of the last unit.
        let fraction_ns = if name == "ms" { rest_ns } else { 0 };
        match (count, fraction_ns) {
            (0, 0) => {}
            (_, 0) => text += &format!("{count}{name}"),
            _ => text += &format!("{count}.{fraction_ns:06}{name}"),
        }
    }
    if text.is_empty() {
        "0s".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        let cases = [
            ("90", 90_000),
            ("0.25", 250),
            ("500ms", 500),
            ("10s", 10_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("1.5 h", 5_400_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("1m500ms", 60_500),
        ];
        for (text, ms) in cases {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(ms)),
                "{text:?}"
            );
        }
    }

    #[test]
    fn refusals() {
        let reason = |text: &str| parse_duration(text).unwrap_err().reason().clone();
        assert_eq!(reason(""), Reason::Empty);
        assert_eq!(reason("0"), Reason::Zero);
        assert_eq!(reason("0h0m"), Reason::Zero);
        assert_eq!(reason("-1s"), Reason::NotANumber);
        assert_eq!(reason("soon"), Reason::NotANumber);
        assert_eq!(reason("12 parsecs"), Reason::UnknownUnit("parsecs".into()));
        assert_eq!(reason("5M"), Reason::UnknownUnit("M".into()));
        assert_eq!(reason("1h30"), Reason::MissingUnit("30".into()));
        assert_eq!(reason("30m1h"), Reason::UnitOrder("h"));
        assert_eq!(reason("1h1h"), Reason::UnitOrder("h"));
        assert_eq!(reason("1h-3m"), Reason::UnknownUnit("h-".into()));
        assert!(matches!(reason("300000d"), Reason::TooLarge(_)));
        assert!(matches!(
            reason("99999999999999999999d"),
            Reason::TooLarge(_)
        ));
    }

    #[test]
    fn message() {
        insta::assert_snapshot!(parse_duration("12 parsecs").unwrap_err(), @"`12 parsecs` is not a valid length of time: the unit `parsecs` is not known; accepted is a number of seconds, or numbers with d, h, m, s and ms, the longest first, as in `1h30m`");
        insta::assert_snapshot!(parse_duration("1h30").unwrap_err(), @"`1h30` is not a valid length of time: `30` has no unit; accepted is a number of seconds, or numbers with d, h, m, s and ms, the longest first, as in `1h30m`");
    }

    #[test]
    fn formats_exactly() {
        let cases = [
            (Duration::from_secs(90), "1m30s"),
            (Duration::from_millis(1_500), "1s500ms"),
            (Duration::from_nanos(1), "0.000001ms"),
            (Duration::from_micros(2_000_250), "2s0.250000ms"),
            (Duration::ZERO, "0s"),
        ];
        for (duration, text) in cases {
            assert_eq!(format_duration(duration), text);
            if !duration.is_zero() {
                assert_eq!(parse_duration(text), Ok(duration));
            }
        }
        let longest = Duration::from_nanos(i64::MAX as u64);
        assert_eq!(parse_duration(&format_duration(longest)), Ok(longest));
    }
}
