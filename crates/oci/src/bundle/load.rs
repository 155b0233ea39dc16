//! Reading `config.json`.

use super::{mounts, process};
use crate::surroundings::Surroundings;
use anyhow::{Context, bail};
use oci_spec::runtime::Spec;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::Value;
use std::{
    borrow::Cow,
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
    /// What of it means nothing here.
    pub(crate) warnings: Vec<String>,
}

impl Bundle {
    pub(crate) fn has_terminal(&self) -> bool {
        let process = self.spec.process().as_ref();
        process.is_some_and(|process| process.terminal().unwrap_or(false))
    }
}

/// Reads it. A field that the specification does not have is no error (config.md, "Extensibility"), but it is told of: it might
/// be a limit of a later version.
pub(crate) fn load(folder: &Path) -> anyhow::Result<Bundle> {
    let folder = folder
        .canonicalize()
        .with_context(|| format!("policy: there is no bundle {folder:?}"))?;
    let path = folder.join("config.json");
    let text = fs::read(&path).with_context(|| format!("policy: cannot read {path:?}"))?;
    let mut warnings = Vec::new();
    let spec = parse(&text, &mut warnings).with_context(|| format!("policy: {path:?}"))?;
    let linux = spec.linux().as_ref();
    // In a user namespace of its own a container has them all.
    let has_own_users = linux.is_some_and(|linux| linux.uid_mappings().is_some());
    if let Some(process) = spec.process().as_ref().filter(|_| !has_own_users) {
        warnings.extend(process::lacking(process));
    }
    let label = linux.and_then(|linux| linux.mount_label().as_deref());
    if label.is_some_and(|label| !label.is_empty()) && !Surroundings::probe().has_selinux {
        warnings.push(
            "host: linux.mountLabel: this kernel has no SELinux, and nothing comes of it".into(),
        );
    }
    let mounts = spec.mounts().iter().flatten();
    warnings.extend(mounts.filter_map(mounts::meaningless));
    Ok(Bundle {
        folder,
        spec,
        text,
        warnings,
    })
}

fn parse(text: &[u8], warnings: &mut Vec<String>) -> anyhow::Result<Spec> {
    let spec: Spec = known(text, "config.json", |warning| warnings.push(warning))?;
    refuse(&spec)?;
    Ok(spec)
}

/// What is written in a file of the specification's, telling `warn` of each field that the specification does not have.
pub(crate) fn known<T: DeserializeOwned>(
    text: &[u8],
    file: &str,
    mut warn: impl FnMut(String),
) -> anyhow::Result<T> {
    let text = with_user(text)?;
    let mut reader = serde_json::Deserializer::from_slice(&text);
    let read = serde_ignored::deserialize(&mut reader, |path| {
        let name = name(&path);
        warn(format!(
            "policy: {file}: the field {name} is not known to this version of palisade-oci, and nothing comes of it"
        ));
    })?;
    reader.end()?;
    Ok(read)
}

/// A process of nobody in particular is root's, as with other runtimes: the specification's schema lets `user` and what is in it be
/// left out, which the types of oci-spec do not. Where all of it is there the text stays, and with it where an error is.
fn with_user(text: &[u8]) -> anyhow::Result<Cow<'_, [u8]>> {
    if !may_lack_user(text) {
        return Ok(Cow::Borrowed(text));
    }
    let mut value: Value = serde_json::from_slice(text)?;
    let process = match value.get("process") {
        Some(_) => &mut value["process"],
        None => &mut value,
    };
    let lacking: Vec<_> = ["uid", "gid"]
        .into_iter()
        .filter(|name| process["user"].get(name).is_none())
        .collect();
    if process.get("args").is_none() || lacking.is_empty() {
        return Ok(Cow::Borrowed(text));
    }
    for name in lacking {
        process["user"][name] = 0.into();
    }
    Ok(Cow::Owned(serde_json::to_vec(&value)?))
}

/// Whether some of it is not there, as far as can be told without keeping anything of the text: most have it all.
fn may_lack_user(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Ids {
        uid: Option<IgnoredAny>,
        gid: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Process {
        user: Option<Ids>,
    }
    /// A configuration, or a process by itself.
    #[derive(Deserialize)]
    struct Either {
        process: Option<Process>,
        user: Option<Ids>,
    }
    let Ok(either) = serde_json::from_slice::<Either>(text) else {
        return true;
    };
    let user = match either.process {
        Some(process) => process.user,
        None => either.user,
    };
    user.is_none_or(|ids| ids.uid.is_none() || ids.gid.is_none())
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
