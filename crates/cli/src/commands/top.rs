//! `palisade top`: what running domains use, again and again.

use super::domains::{self, age, command, name, short_bytes, short_duration};
use crate::{args::TopArgs, say};
use palisade_process::running::RunningDomain;
use rustix::termios::{Winsize, tcgetwinsize};
use std::{
    collections::HashMap,
    io::{IsTerminal, stdout},
    thread,
    time::{Duration, Instant},
};

/// Prints a table each so many seconds, until a signal ends it.
pub(crate) fn top(args: &TopArgs) -> anyhow::Result<u8> {
    let screen = stdout().is_terminal();
    let mut before = Seen::default();
    loop {
        let now = Seen::now(domains::list()?);
        let table = table(&now, &before);
        match screen && !args.once {
            true => show(&table)?,
            false => say::print(&table, "the domains")?,
        };
        if args.once {
            return Ok(0);
        }
        before = now;
        thread::sleep(Duration::from_secs_f64(args.every));
        if !screen {
            say::print("\n", "the domains")?;
        }
    }
}

/// Domains, and when they were looked at.
#[derive(Default)]
struct Seen {
    at: Option<Instant>,
    all: Vec<RunningDomain>,
}

impl Seen {
    fn now(all: Vec<RunningDomain>) -> Self {
        Self {
            at: Some(Instant::now()),
            all,
        }
    }

    fn processor_times(&self) -> HashMap<u32, (Duration, std::time::SystemTime)> {
        let all = self.all.iter();
        all.map(|domain| (domain.id, (domain.usage.cpu, domain.started)))
            .collect()
    }
}

/// In % of one processor: since the last look, at first since the domain's start.
fn loads(now: &Seen, before: &Seen) -> HashMap<u32, f64> {
    let earlier = before.processor_times();
    let between = now
        .at
        .zip(before.at)
        .map(|(now, before)| now.duration_since(before));
    let load = |domain: &RunningDomain| {
        // The id may have been another domain's.
        let earlier = earlier
            .get(&domain.id)
            .filter(|(_, started)| *started == domain.started);
        let (used, time) = match (earlier, between) {
            (Some((cpu, _)), Some(between)) => (domain.usage.cpu.saturating_sub(*cpu), between),
            _ => (domain.usage.cpu, age(domain)),
        };
        100.0 * used.as_secs_f64() / time.as_secs_f64().max(0.01)
    };
    now.all
        .iter()
        .map(|domain| (domain.id, load(domain)))
        .collect()
}

/// Who uses most comes first.
fn table(now: &Seen, before: &Seen) -> String {
    let loads = loads(now, before);
    let mut all: Vec<_> = now.all.iter().collect();
    all.sort_by(|one, other| {
        loads[&other.id]
            .total_cmp(&loads[&one.id])
            .then(one.id.cmp(&other.id))
    });
    let head = [
        "ID", "NAME", "CPU%", "CPU", "MEMORY", "PROCS", "AGE", "COMMAND",
    ];
    let rows = all.iter().map(|domain| {
        [
            domain.id.to_string(),
            name(domain),
            format!("{:.1}", loads[&domain.id]),
            format!("{:.2}s", domain.usage.cpu.as_secs_f64()),
            short_bytes(domain.usage.memory_bytes),
            domain.usage.processes.to_string(),
            short_duration(age(domain)),
            command(domain),
        ]
    });
    format!(
        "{}\n{}",
        summary(now),
        domains::table(head, rows.collect(), 2)
    )
}

fn summary(now: &Seen) -> String {
    let memory: u64 = now.all.iter().map(|domain| domain.usage.memory_bytes).sum();
    let processes: usize = now.all.iter().map(|domain| domain.usage.processes).sum();
    format!(
        "{} domains, {processes} processes, {} of memory",
        now.all.len(),
        short_bytes(memory)
    )
}

/// In the place of what was shown before, as much as there is room for.
fn show(table: &str) -> anyhow::Result<u8> {
    const TO_TOP_AND_CLEAR: &str = "\x1b[H\x1b[J";
    let size = tcgetwinsize(stdout()).unwrap_or(Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    });
    let (rows, columns) = (
        usize::from(size.ws_row.max(2)),
        usize::from(size.ws_col.max(20)),
    );
    let lines = table.lines().take(rows - 1);
    let cut = lines.map(|line| line.chars().take(columns).collect::<String>());
    let cut = cut.collect::<Vec<_>>().join("\n");
    say::print_own(
        format!("{TO_TOP_AND_CLEAR}{cut}\n").as_bytes(),
        "the domains",
    )
}
