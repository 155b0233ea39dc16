//! `events`: what a container uses.

use crate::{
    cli::{self, Global},
    state::{Folder, State},
    wait::has_ended_within,
};
use anyhow::{Context, bail};
use palisade_process::container::Status;
use serde::Serialize;
use std::{
    io::Write as _,
    time::{Duration, Instant},
};

pub(super) fn run(global: &Global, asked: &cli::Events) -> anyhow::Result<()> {
    let interval = interval(&asked.interval)?;
    let state = Folder::of(global, &asked.id)?.read()?;
    if state.status() == Status::Stopped {
        bail!("policy: container not running");
    }
    tell(&Event::with_usage(&state))?;
    if asked.stats {
        return Ok(());
    }
    let init = state.init.context("policy: container not running")?;
    let process = super::kill::hold(&init)?;
    let (mut kills, mut told) = (state.groups.kills_for_memory(), Instant::now());
    while !has_ended_within(&process, interval.min(LOOK))? {
        let now = state.groups.kills_for_memory();
        if now > kills {
            tell(&Event::new("oom", &state))?;
        }
        kills = now;
        if told.elapsed() >= interval {
            told = Instant::now();
            tell(&Event::with_usage(&state))?;
        }
    }
    Ok(())
}

/// How soon it is told that memory ran out.
const LOOK: Duration = Duration::from_millis(200);

/// One line. What kind of event it is comes first: who reads them by eye or by pattern looks there.
#[derive(Serialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<serde_json::Value>,
}

impl<'a> Event<'a> {
    fn new(kind: &'a str, state: &'a State) -> Self {
        Self {
            kind,
            id: &state.id,
            data: None,
        }
    }

    fn with_usage(state: &'a State) -> Self {
        let data = Some(state.groups.usage());
        Self {
            data,
            ..Self::new("stats", state)
        }
    }
}

fn tell(event: &Event<'_>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(event)?)?;
    Ok(())
}

fn interval(text: &str) -> anyhow::Result<Duration> {
    let (number, unit) = match text.find(|letter: char| !letter.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let number: u64 = number.parse().unwrap_or(0);
    let interval = match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number * 60),
        _ => Duration::ZERO,
    };
    match interval.is_zero() {
        true => bail!("policy: --interval {text:?} is no time"),
        false => Ok(interval),
    }
}
