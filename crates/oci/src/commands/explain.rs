//! `explain`: a bundle's plan, and nothing else.

use crate::{
    bundle::{self, Making, Surroundings},
    cgroup::Groups,
    cli,
};

pub(super) fn run(asked: &cli::Explain) -> anyhow::Result<()> {
    let bundle = bundle::load(&asked.bundle.bundle)?;
    let linux = bundle.spec.linux().as_ref();
    let path = linux.and_then(|linux| linux.cgroups_path().as_deref());
    let id = "ID";
    let groups = Groups::plan(path, id)?;
    let making = Making {
        id: id.into(),
        ..Making::default()
    };
    let planned = bundle::plan(&bundle, &groups, &making, &Surroundings::probe())?;
    super::print(&serde_json::to_value(&planned)?)
}
