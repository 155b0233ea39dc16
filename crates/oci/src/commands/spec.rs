//! `spec`: a `config.json` to begin with.

use crate::cli;
use anyhow::bail;
use oci_spec::runtime::{Linux, LinuxDeviceCgroup, LinuxNamespaceType, Process, Spec};
use std::path::Path;

pub(super) fn run(asked: &cli::Spec) -> anyhow::Result<()> {
    let path = asked.bundle.bundle.join("config.json");
    if path.exists() {
        bail!("policy: {path:?} exists");
    }
    let mut spec = match asked.rootless {
        true => Spec::rootless(
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        ),
        false => Spec::default(),
    };
    as_engines_begin(&mut spec);
    spec.save(&path)?;
    Ok(())
}

/// What people know of runc's: a shell on a terminal, no device that is not named, no capability that programs inherit.
fn as_engines_begin(spec: &mut Spec) {
    spec.set_hostname(Some("palisade".to_owned()));
    spec.set_annotations(None);
    if let Some(linux) = spec.linux_mut() {
        share_old_groups(linux);
    }
    if let Some(process) = spec.process_mut() {
        process.set_terminal(Some(true));
        inherit_nothing(process);
    }
    let resources = spec
        .linux_mut()
        .as_mut()
        .and_then(|linux| linux.resources_mut().as_mut());
    if let Some(resources) = resources {
        let mut none = LinuxDeviceCgroup::default();
        none.set_access(Some("rwm".to_owned()));
        resources.set_devices(Some(vec![none]));
    }
}

/// In version 1 of control groups engines make no namespace of theirs, and their users add one.
fn share_old_groups(linux: &mut Linux) {
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        return;
    }
    if let Some(namespaces) = linux.namespaces_mut() {
        namespaces.retain(|one| one.typ() != LinuxNamespaceType::Cgroup);
    }
}

/// CVE-2022-24769: inheritable capabilities come back with a file that has inheritable ones.
fn inherit_nothing(process: &mut Process) {
    let mut capabilities = process.capabilities().clone();
    if let Some(capabilities) = &mut capabilities {
        capabilities.set_inheritable(None);
    }
    process.set_capabilities(capabilities);
}
