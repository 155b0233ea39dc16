//! The date of a run, in UTC.

use jiff::Timestamp;
use std::time::SystemTime;

/// `2026-01-31`.
pub(crate) fn format_date(time: SystemTime) -> String {
    timestamp(time).strftime("%Y-%m-%d").to_string()
}

/// `2026-01-31T23:59:59Z`.
pub(crate) fn format_time(time: SystemTime) -> String {
    format!("{:.0}", timestamp(time))
}

/// 1970 where the clock shows a year that no calendar has.
fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn dates_are_those_of_date_1() {
        let at = |seconds| format_time(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_772_323_200), "2026-03-01T00:00:00Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59Z", "no leap year");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
