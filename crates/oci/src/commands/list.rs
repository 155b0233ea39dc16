//! `list` and `ps`.

use crate::{
    cli::{self, Form, Global},
    state::{self, Folder, State},
};
use anyhow::Context;
use serde::Serialize;
use std::{
    collections::HashMap,
    io::Write as _,
    path::Path,
    process::{Command, ExitCode},
};

/// One container of `--format json`, in the order that runc's readers look for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    oci_version: &'a str,
    id: &'a str,
    pid: u32,
    status: &'a str,
    bundle: &'a Path,
    rootfs: &'a Path,
    created: &'a str,
    annotations: &'a HashMap<String, String>,
    owner: &'a str,
}

impl<'a> Listed<'a> {
    fn new(state: &'a State) -> Self {
        Self {
            oci_version: state::VERSION,
            id: &state.id,
            pid: state.pid().unwrap_or(0),
            status: state.status_word(),
            bundle: &state.bundle,
            rootfs: &state.rootfs,
            created: &state.created,
            annotations: &state.annotations,
            owner: "",
        }
    }
}

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
        let listed: Vec<_> = states.iter().map(Listed::new).collect();
        serde_json::to_writer(&mut out, &listed)?;
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
