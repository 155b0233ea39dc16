//! Sizes in bytes: `512M`, `1.5G`, `64KiB`, `10MB`, `4096`.

use super::{Reason, ValueError, ValueKind, decimal::Decimal};

/// The kernel counts file sizes and memory limits in signed 64-bit integers.
const MAX_BYTES: u128 = i64::MAX as u128;

/// Powers of 1024, the largest first. The names follow `head -c` and `dd`: see `units(7)`.
const BINARY_UNITS: [(&str, u64); 4] = [
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
];

impl ValueKind {
    /// A number of bytes.
    pub(crate) const SIZE: &'static Self = &Self::of_form(
        "size",
        "a whole number of bytes, or a number with K, M, G or T (powers of 1024, as are \
         KiB, MiB, GiB and TiB) or with KB, MB, GB or TB (powers of 1000)",
        "512M",
    );
}

/// Parses a size: a whole number of bytes, or a number with a unit in either case.
///
/// `K`, `M`, `G`, `T` and `KiB`, `MiB`, `GiB`, `TiB` are powers of 1024, `KB`, `MB`, `GB`, `TB`
/// powers of 1000. A fraction of a byte is dropped.
///
/// # Errors
/// No number, an unknown unit, zero, or above 2⁶³−1 bytes.
pub fn parse_size(text: &str) -> Result<u64, ValueError> {
    parse(text.trim()).map_err(|reason| ValueError::new(ValueKind::SIZE, text, reason))
}

fn parse(text: &str) -> Result<u64, Reason> {
    if text.is_empty() {
        return Err(Reason::Empty);
    }
    let (number, unit) = Decimal::split_from(text)?;
    let unit = unit.trim_start();
    let unit_bytes = parse_unit(unit)?;
    if unit_bytes == 1 && !number.is_whole() {
        return Err(Reason::NotWhole);
    }
    match number.times(unit_bytes) {
        Some(0) => Err(Reason::Zero),
        Some(bytes) if bytes <= MAX_BYTES => Ok(bytes as u64),
        _ => Err(Reason::TooLarge("8 EiB (2^63 - 1 bytes)")),
    }
}

fn parse_unit(unit: &str) -> Result<u128, Reason> {
    Ok(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(Reason::UnknownUnit(unit.to_owned())),
    })
}

/// Writes a size so that [`parse_size`] reads exactly it back: in the largest of T, G, M and K
/// that divides it, else in bytes.
pub fn format_size(bytes: u64) -> String {
    let divides = |(_, unit): &&(&str, u64)| bytes >= *unit && bytes.is_multiple_of(*unit);
    match BINARY_UNITS.iter().find(divides) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        let cases = [
            ("1", 1),
            ("4096", 4096),
            ("100B", 100),
            ("512M", 512 << 20),
            ("512m", 512 << 20),
            ("512 MiB", 512 << 20),
            ("64KiB", 65_536),
            ("1.5G", 3 << 29),
            ("10MB", 10_000_000),
            ("1kb", 1_000),
            ("2T", 2 << 40),
            ("3TB", 3_000_000_000_000),
            ("0.5K", 512),
            ("1.3K", 1331),
            ("9223372036854775807", i64::MAX as u64),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Ok(bytes), "{text:?}");
        }
    }

    #[test]
    fn refusals() {
        let reason = |text| parse_size(text).unwrap_err().reason().clone();
        assert_eq!(reason(""), Reason::Empty);
        assert_eq!(reason("  "), Reason::Empty);
        assert_eq!(reason("0"), Reason::Zero);
        assert_eq!(reason("0.0000001K"), Reason::Zero);
        assert_eq!(reason("-5"), Reason::NotANumber);
        assert_eq!(reason("M"), Reason::NotANumber);
        assert_eq!(reason("1.5"), Reason::NotWhole);
        assert_eq!(reason("1e3"), Reason::UnknownUnit("e3".into()));
        assert_eq!(reason("1 000"), Reason::UnknownUnit("000".into()));
        assert_eq!(reason("12Ki"), Reason::UnknownUnit("Ki".into()));
    }

    #[test]
    fn no_overflow() {
        for text in [
            "9223372036854775808",
            "8388608T",
            "99999999999999999999T",
            "9999999999.9T",
        ] {
            let error = parse_size(text).unwrap_err();
            assert!(
                matches!(error.reason(), Reason::TooLarge(_)),
                "{text}: {error}"
            );
        }
        let error = parse_size(&"9".repeat(100)).unwrap_err();
        assert_eq!(*error.reason(), Reason::TooManyDigits);
    }

    #[test]
    fn message() {
        insta::assert_snapshot!(parse_size("12 parsecs").unwrap_err(), @"`12 parsecs` is not a valid size: the unit `parsecs` is not known; accepted is a whole number of bytes, or a number with K, M, G or T (powers of 1024, as are KiB, MiB, GiB and TiB) or with KB, MB, GB or TB (powers of 1000), as in `512M`");
        insta::assert_snapshot!(parse_size("0").unwrap_err(), @"`0` is not a valid size: it comes to zero (leave it out for no limit); accepted is a whole number of bytes, or a number with K, M, G or T (powers of 1024, as are KiB, MiB, GiB and TiB) or with KB, MB, GB or TB (powers of 1000), as in `512M`");
    }

    #[test]
    fn formats_exactly() {
        for (bytes, text) in [
            (1, "1"),
            (1000, "1000"),
            (1024, "1K"),
            (3 << 29, "1536M"),
            (1 << 40, "1T"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
        for bytes in [1, 1023, 1025, 1 << 20, 10_000_000, i64::MAX as u64] {
            assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }
    }
}
