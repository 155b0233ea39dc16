//! Decimal numbers, exact and without overflow.

use super::Reason;

/// A number as it was written, `digits / 10^scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: u128,
    scale: u32,
}

impl Decimal {
    /// Splits `1.5GiB` into 1.5 and `GiB`.
    pub(super) fn split_from(text: &str) -> Result<(Self, &str), Reason> {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let end = text.find(|c| !is_number(c)).unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        Ok((Self::parse(number)?, rest))
    }

    fn parse(number: &str) -> Result<Self, Reason> {
        let (whole, fraction) = match number.split_once('.') {
            Some((_, "")) => return Err(Reason::NotANumber),
            Some(parts) => parts,
            None => (number, ""),
        };
        if whole.is_empty() || fraction.contains('.') {
            return Err(Reason::NotANumber);
        }
        // 18 digits either side stay far below u128's 38 and above any limit a machine has.
        let whole = whole.trim_start_matches('0');
        let fraction = fraction.trim_end_matches('0');
        if whole.len() > 20 || fraction.len() > 18 {
            return Err(Reason::TooManyDigits);
        }
        let digits = format!("0{whole}{fraction}").parse();
        Ok(Self {
            digits: digits.map_err(|_| Reason::TooManyDigits)?,
            scale: fraction.len() as u32,
        })
    }

    pub(super) fn is_whole(self) -> bool {
        self.scale == 0
    }

    /// The number times `unit`, rounded down; `None` beyond `u128`.
    pub(super) fn times(self, unit: u128) -> Option<u128> {
        Some(self.digits.checked_mul(unit)? / 10_u128.pow(self.scale))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_number_and_rest() {
        let (number, rest) = Decimal::split_from("1.50GiB").unwrap();
        assert_eq!((number.digits, number.scale, rest), (15, 1, "GiB"));
        let (number, rest) = Decimal::split_from("007").unwrap();
        assert_eq!((number.digits, number.scale, rest), (7, 0, ""));
    }

    #[test]
    fn refuses_what_is_no_number() {
        for text in ["", ".", "1.", ".5", "1..2", "1.2.3", "-1", "+1", "x1", " 1"] {
            assert_eq!(
                Decimal::split_from(text),
                Err(Reason::NotANumber),
                "{text:?}"
            );
        }
    }

    #[test]
    fn never_overflows() {
        let long = "9".repeat(60);
        assert_eq!(Decimal::split_from(&long), Err(Reason::TooManyDigits));
        let fine = format!("0.{}", "1".repeat(60));
        assert_eq!(Decimal::split_from(&fine), Err(Reason::TooManyDigits));
        let widest = format!("{}.{}", "9".repeat(20), "9".repeat(18));
        let (number, _) = Decimal::split_from(&widest).unwrap();
        assert_eq!(number.times(u128::MAX), None);
        assert!(number.times(1).is_some());
    }
}
