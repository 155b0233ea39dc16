//! `pause` and `resume`.

use crate::{cli::Global, state::Folder};
use anyhow::bail;
use palisade_process::container::Status;

pub(super) fn run(global: &Global, id: &str, frozen: bool) -> anyhow::Result<()> {
    let state = Folder::of(global, id)?.read()?;
    if state.status() == Status::Stopped {
        bail!("policy: container not running");
    }
    if state.groups.is_frozen() == frozen {
        match frozen {
            true => bail!("policy: container is already paused"),
            false => bail!("policy: container not paused"),
        }
    }
    state.groups.freeze(frozen)
}
