//! `list` and `ps`.

use crate::{
    cli::{self, Form, Global},
    state::{self, Folder, State},
};
use anyhow::Context;
use std::{
    io::Write as _,
    process::{Command, ExitCode},
};

pub(super) fn run(global: &Global, asked: &cli::List) -> anyhow::Result<()> {
    let states = state::all(global)?;
    let mut out = std::io::stdout().lock();
    if asked.quiet {
        for state in &states {
            writeln!(out, "{}", state.id)?;
        }
        return Ok(());
    }
    if asked.format == Form::Json {
        let documents: Vec<_> = states
            .iter()
            .map(|state| state.document(state.status_word(), state.pid()))
            .collect();
        serde_json::to_writer(&mut out, &documents)?;
        writeln!(out)?;
        return Ok(());
    }
    let most = |length: fn(&State) -> usize| states.iter().map(length).max().unwrap_or(0);
    let wide = most(|state| state.id.len()).max("ID".len());
    let far = most(|state| state.bundle.as_os_str().len()).max("BUNDLE".len());
    writeln!(
        out,
        "{:<wide$}  {:<8}  {:<8}  {:<far$}  CREATED",
        "ID", "PID", "STATUS", "BUNDLE"
    )?;
    for state in &states {
        writeln!(
            out,
            "{:<wide$}  {:<8}  {:<8}  {:<far$}  {}",
            state.id,
            state.pid().unwrap_or(0),
            state.status_word(),
            // Padding is of text, not of what is displayed.
            state.bundle.display().to_string(),
            state.created
        )?;
    }
    Ok(())
}

/// By ps(1), whose lines those of other processes are left out of.
pub(super) fn processes(global: &Global, asked: &cli::Ps) -> anyhow::Result<ExitCode> {
    let state = Folder::of(global, &asked.id)?.read()?;
    let mut pids = state.groups.processes()?;
    if pids.is_empty() {
        pids.extend(state.pid());
    }
    let mut out = std::io::stdout().lock();
    if asked.format == Form::Json {
        serde_json::to_writer(&mut out, &pids)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = match asked.options.as_slice() {
        [] => vec!["-ef".to_owned()],
        options => options.to_vec(),
    };
    let listed = Command::new("ps")
        .args(&options)
        .output()
        .context("host: cannot execute ps")?;
    let text = String::from_utf8_lossy(&listed.stdout);
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let column = head.split_ascii_whitespace().position(|word| word == "PID");
    let column = column.context("policy: these options of ps show no PID")?;
    writeln!(out, "{head}")?;
    for line in lines {
        let pid = line.split_ascii_whitespace().nth(column);
        let pid = pid.and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| pids.contains(&pid)) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
