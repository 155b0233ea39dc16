//! `events`: what a container uses.

use crate::{
    cli::{self, Global},
    state::{Folder, State},
    wait::has_ended_within,
};
use anyhow::{Context, bail};
use palisade_process::container::Status;
use std::{io::Write as _, time::Duration};

pub(super) fn run(global: &Global, asked: &cli::Events) -> anyhow::Result<()> {
    let interval = interval(&asked.interval)?;
    let state = Folder::of(global, &asked.id)?.read()?;
    if state.status() == Status::Stopped {
        bail!("policy: container not running");
    }
    tell(&state)?;
    if asked.stats {
        return Ok(());
    }
    let init = state.init.context("policy: container not running")?;
    let process = super::kill::hold(&init)?;
    while !has_ended_within(&process, interval)? {
        tell(&state)?;
    }
    Ok(())
}

fn tell(state: &State) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let line = serde_json::json!({
        "type": "stats",
        "id": state.id,
        "data": state.groups.usage(),
    });
    writeln!(out, "{line}")?;
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
