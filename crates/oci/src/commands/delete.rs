//! `delete`: what is left of a container.

use super::{kill, report};
use crate::{
    cli::{self, Global},
    hooks,
    log::Log,
    state::{self, Folder, State},
    wait::has_ended_within,
};
use anyhow::bail;
use palisade_process::container::Status;
use rustix::process::Signal;
use std::time::Duration;

/// How long the kernel may take to end a container.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn run(global: &Global, asked: &cli::Delete, log: &Log) -> anyhow::Result<()> {
    let folder = match Folder::of(global, &asked.id) {
        Err(_) if asked.force && !state::root(global).join(&asked.id).exists() => return Ok(()),
        folder => folder?,
    };
    let _lock = match asked.force {
        true => folder.lock()?,
        false => folder.try_lock()?,
    };
    let state = match folder.read() {
        // Whoever made it was ended before it had written anything.
        Err(_) if asked.force => return folder.remove(),
        state => state?,
    };
    match state.status() {
        Status::Stopped => {}
        Status::Created => end(&state)?,
        Status::Running if asked.force => end(&state)?,
        Status::Running => bail!(
            "policy: cannot delete container {} that is not stopped: {}",
            asked.id,
            state.status_word()
        ),
    }
    delete(&folder, &state, log)
}

fn end(state: &State) -> anyhow::Result<()> {
    let Some(process) = state.init.and_then(|init| kill::hold(&init).ok()) else {
        return Ok(());
    };
    match kill::send(state, Signal::KILL) {
        Err(_) if state.status() == Status::Stopped => return Ok(()),
        sent => sent?,
    }
    match has_ended_within(&process, PATIENCE)? {
        true => Ok(()),
        false => bail!("host: the container does not end"),
    }
}

/// What was denied, for whoever reads the engine's log when the container is gone.
fn told(denial: &serde_json::Value) -> String {
    if denial["event"] == "lost" {
        return "guest: more was denied than is told here".into();
    }
    let text = |key: &str| denial[key].as_str().unwrap_or("?").to_owned();
    let program = denial["process"]["name"].as_str().unwrap_or("?");
    let advice = match (denial["annotation"].as_str(), denial["flags"].as_str()) {
        (Some(annotation), _) => format!("; the annotation {annotation} would allow it"),
        (None, Some(flags)) => format!("; {flags} would allow it"),
        (None, None) => String::new(),
    };
    let target = match denial["target"].as_str() {
        None | Some("") => String::new(),
        Some(target) => format!(" {target}"),
    };
    format!(
        "guest: {program:?}: {}{target} was denied: {}{advice}",
        text("call"),
        text("reason")
    )
}

pub(super) fn delete(folder: &Folder, state: &State, log: &Log) -> anyhow::Result<()> {
    state.groups.remove()?;
    let hooks = folder.hooks();
    for denial in report::denied(folder) {
        log.warning(&told(&denial));
    }
    folder.remove()?;
    let Ok(hooks) = hooks else { return Ok(()) };
    let document = state.document("stopped", None);
    let after = hooks.poststop().as_ref();
    hooks::run_all("poststop", after, &document, &state.bundle, log);
    Ok(())
}
