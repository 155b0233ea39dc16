//! `spec`: a `config.json` to begin with.

use crate::cli;
use anyhow::bail;
use oci_spec::runtime::Spec;

pub(super) fn run(asked: &cli::Spec) -> anyhow::Result<()> {
    let path = asked.bundle.bundle.join("config.json");
    if path.exists() {
        bail!("policy: {path:?} exists");
    }
    let spec = match asked.rootless {
        true => Spec::rootless(
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        ),
        false => Spec::default(),
    };
    spec.save(&path)?;
    Ok(())
}
