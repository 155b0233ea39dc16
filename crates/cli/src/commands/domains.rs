//! Running domains, as `ps`, `top`, `kill` and `exec` show and choose them.

use anyhow::{Context, anyhow, bail};
use palisade_policy::visible;
use palisade_process::running::{self, RunningDomain};
use std::{
    fmt::Write,
    time::{Duration, SystemTime},
};

/// Those of this user.
pub(super) fn list() -> anyhow::Result<Vec<RunningDomain>> {
    running::list().context("host: cannot see which processes run: /proc cannot be read")
}

/// The one that is meant: by its id, or by a name that no other has.
pub(super) fn find(meant: &str) -> anyhow::Result<RunningDomain> {
    let all = list()?;
    let id = meant.parse().ok();
    let is_meant =
        |domain: &RunningDomain| Some(domain.id) == id || domain.name.as_deref() == Some(meant);
    let mut found: Vec<_> = all.into_iter().filter(is_meant).collect();
    match (found.pop(), found.len()) {
        (Some(domain), 0) => Ok(domain),
        (Some(_), _) => bail!(
            "usage: more than one running domain is called {meant}: take an id that `palisade ps` shows"
        ),
        (None, _) => Err(anyhow!(
            "host: no domain of yours with the id or name {meant} runs: `palisade ps` lists them"
        )),
    }
}

/// How old it is.
pub(super) fn age(domain: &RunningDomain) -> Duration {
    let age = SystemTime::now().duration_since(domain.started);
    // The clock may have been set back.
    age.unwrap_or_default()
}

/// Program and arguments in one line that a terminal only shows.
pub(super) fn command(domain: &RunningDomain) -> String {
    visible(&domain.command.join(" ")).into_owned()
}

/// What it is called, for a column.
pub(super) fn name(domain: &RunningDomain) -> String {
    domain
        .name
        .as_deref()
        .map_or_else(|| "-".into(), |name| visible(name).into_owned())
}

/// `59s`, `3m10s`, `2h05m`, `4d07h`.
pub(super) fn short_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// `999K`, `1.5M`, `12G`.
pub(super) fn short_bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["K", "M", "G", "T"];
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit > 0 && value < 9.95 {
        true => format!("{value:.1}{}", UNITS[unit]),
        false => format!("{value:.0}{}", UNITS[unit]),
    }
}

/// Columns as wide as they must be, two blanks apart; the first `to_left` and the last to the left, numbers to the right.
pub(super) fn table<const N: usize>(
    head: [&str; N],
    rows: Vec<[String; N]>,
    to_left: usize,
) -> String {
    let rows: Vec<_> = std::iter::once(head.map(ToOwned::to_owned))
        .chain(rows)
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column < to_left || column + 1 == N {
                true => write!(line, "{cell:<width$}  "),
                false => write!(line, "{cell:>width$}  "),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        for (seconds, shown) in [
            (0, "0s"),
            (59, "59s"),
            (190, "3m10s"),
            (7500, "2h05m"),
            (370_800, "4d07h"),
        ] {
            assert_eq!(short_duration(Duration::from_secs(seconds)), shown);
        }
    }

    #[test]
    fn sizes() {
        for (bytes, shown) in [
            (0, "0K"),
            (700 << 10, "700K"),
            (1536 << 10, "1.5M"),
            (12 << 30, "12G"),
            (1023 << 10, "1.0M"),
        ] {
            assert_eq!(short_bytes(bytes), shown);
        }
    }

    #[test]
    fn columns() {
        let rows = vec![["1".into(), "22".into(), "a b".into()]];
        assert_eq!(
            table(["ID", "N", "WHAT"], rows, 1),
            "ID   N  WHAT\n1   22  a b\n"
        );
    }
}
