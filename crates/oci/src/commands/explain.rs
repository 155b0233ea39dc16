//! `explain`: a bundle's plan, and nothing else.

use crate::{
    bundle::{self, Making},
    cgroup::Groups,
    cli, policy,
    surroundings::Surroundings,
    wasm,
};
use std::path::Path;

pub(super) fn run(asked: &cli::Explain) -> anyhow::Result<()> {
    let mut bundle = bundle::load(&asked.bundle.bundle)?;
    let own = policy::Asked::of(&bundle.spec)?;
    own.narrow(&mut bundle.spec)?;
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
    let network = own.network()?;
    let kept = own.kept(network.as_ref(), Path::new("FOLDER"));
    let surroundings = Surroundings::probe();
    let with = (&groups, &kept);
    let planned = wasm::plan(program.as_ref(), &bundle, with, &making, &surroundings)?;
    let mut document = serde_json::to_value(&planned)?;
    if let Some(broker) = &kept.broker {
        document["granted"] = broker.granted.clone().into();
    }
    super::print(&document)
}
