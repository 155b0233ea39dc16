//! `explain`: a bundle's plan, and nothing else.

use crate::{
    bundle::{self, Making, Surroundings},
    cgroup::Groups,
    cli, wasm,
};

pub(super) fn run(asked: &cli::Explain) -> anyhow::Result<()> {
    let mut bundle = bundle::load(&asked.bundle.bundle)?;
    let program = wasm::Program::of_bundle(&bundle)?;
    if program.is_some() {
        wasm::adapt(&mut bundle.spec);
    }
    let linux = bundle.spec.linux().as_ref();
    let path = linux.and_then(|linux| linux.cgroups_path().as_deref());
    let id = "ID";
    let groups = Groups::plan(path, id)?;
    let making = Making {
        id: id.into(),
        ..Making::default()
    };
    let surroundings = Surroundings::probe();
    let planned = wasm::plan(program.as_ref(), &bundle, &groups, &making, &surroundings)?;
    super::print(&serde_json::to_value(&planned)?)
}
