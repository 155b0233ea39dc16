//! `start`: the program of a container that was created.

use crate::{
    cli::Global,
    hooks,
    log::Log,
    state::{Folder, State},
};
use anyhow::{Context, bail};
use palisade_process::container::{self, Status};

pub(super) fn run(global: &Global, id: &str, log: &Log) -> anyhow::Result<()> {
    let folder = Folder::of(global, id)?;
    let state = folder.read()?;
    match state.status() {
        Status::Created => start(&folder, &state, log),
        Status::Running => bail!("policy: cannot start an already running container"),
        Status::Stopped if state.init.is_none() => {
            bail!("policy: cannot start a container that is being created")
        }
        Status::Stopped => bail!("policy: cannot start a container that has stopped"),
    }
}

pub(super) fn start(folder: &Folder, state: &State, log: &Log) -> anyhow::Result<()> {
    let keeper = state.keeper.context("host: the container is being made")?;
    container::start(keeper.pid, &|| keeper.runs())?;
    let hooks = folder.hooks()?;
    let document = state.document("running", state.pid());
    let after = hooks.poststart().as_ref();
    hooks::run_all("poststart", after, &document, &state.bundle, log);
    Ok(())
}
