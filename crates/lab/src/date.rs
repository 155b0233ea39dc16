//! The date of a run, in UTC. A calendar crate would be the lab's largest dependency.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 86_400;

/// `2026-01-31`.
pub(crate) fn format_date(time: SystemTime) -> String {
    let (year, month, day) = civil_date(seconds_since_1970(time) / SECONDS_PER_DAY);
    format!("{year:04}-{month:02}-{day:02}")
}

/// `2026-01-31T23:59:59Z`.
pub(crate) fn format_time(time: SystemTime) -> String {
    let seconds = seconds_since_1970(time) % SECONDS_PER_DAY;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}Z", format_date(time))
}

fn seconds_since_1970(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Year, month and day of a day counted from 1970-01-01, by Howard Hinnant's `civil_from_days`: years
/// begin in March, so that the leap day is the last one.
fn civil_date(days_since_1970: u64) -> (u64, u64, u64) {
    const DAYS_PER_ERA: u64 = 146_097;
    let days = days_since_1970 + 719_468;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524
        - day_of_era / (DAYS_PER_ERA - 1))
        / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
