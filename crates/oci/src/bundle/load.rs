//! Reading `config.json`.

use anyhow::{Context, bail};
use oci_spec::runtime::Spec;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A bundle as it was read.
pub(crate) struct Bundle {
    /// Its folder, without links.
    pub(crate) folder: PathBuf,
    pub(crate) spec: Spec,
    /// The bytes of it.
    pub(crate) text: Vec<u8>,
}

/// Reads it. A field that nobody here knows is refused: it might be a limit.
pub(crate) fn load(folder: &Path) -> anyhow::Result<Bundle> {
    let folder = folder
        .canonicalize()
        .with_context(|| format!("policy: there is no bundle {folder:?}"))?;
    let path = folder.join("config.json");
    let text = fs::read(&path).with_context(|| format!("policy: cannot read {path:?}"))?;
    let spec = parse(&text).with_context(|| format!("policy: {path:?}"))?;
    Ok(Bundle { folder, spec, text })
}

fn parse(text: &[u8]) -> anyhow::Result<Spec> {
    let mut unknown = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(text);
    let spec: Spec = serde_ignored::deserialize(&mut reader, |path| unknown.push(name(&path)))?;
    reader.end()?;
    // Of other systems, which engines write for all.
    unknown.retain(|path| !path.starts_with("windows.") && !path.starts_with("solaris."));
    if let Some(field) = unknown.first() {
        bail!("the field {field} is not known to this version of palisade-oci");
    }
    refuse(&spec)?;
    Ok(spec)
}

/// As it is written: serde_ignored puts a `?` for each field that may be missing.
fn name(path: &serde_ignored::Path<'_>) -> String {
    path.to_string().replace(".?", "")
}

/// What is known and cannot be had, by its name.
fn refuse(spec: &Spec) -> anyhow::Result<()> {
    let version = spec.version();
    let major = version.split('.').next().unwrap_or_default();
    if major != "1" {
        bail!("ociVersion {version:?} is not one of 1.x");
    }
    if spec.solaris().is_some() || spec.vm().is_some() || spec.zos().is_some() {
        bail!("solaris, vm and zos are for other systems");
    }
    let Some(linux) = spec.linux() else {
        bail!("there is no linux, and with it no namespace");
    };
    let given = [
        ("linux.intelRdt", linux.intel_rdt().is_some()),
        ("linux.memoryPolicy", linux.memory_policy().is_some()),
        (
            "linux.netDevices",
            linux
                .net_devices()
                .as_ref()
                .is_some_and(|all| !all.is_empty()),
        ),
        (
            "linux.timeOffsets",
            linux
                .time_offsets()
                .as_ref()
                .is_some_and(|all| !all.is_empty()),
        ),
    ];
    if let Some((field, _)) = given.iter().find(|(_, is_given)| *is_given) {
        bail!("{field} is not supported: docs/containers.md has what is");
    }
    Ok(())
}
