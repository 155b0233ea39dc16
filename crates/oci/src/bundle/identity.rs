//! Namespaces and users.

use anyhow::{Context, bail};
use oci_spec::runtime::{Linux, LinuxIdMapping, LinuxNamespaceType};
use palisade_process::container::{IdRange, Namespace, Namespaces};
use std::{fs, os::unix::fs::MetadataExt, path::Path};

fn kind(kind: LinuxNamespaceType) -> Namespace {
    match kind {
        LinuxNamespaceType::Mount => Namespace::Mount,
        LinuxNamespaceType::Cgroup => Namespace::Cgroup,
        LinuxNamespaceType::Uts => Namespace::Uts,
        LinuxNamespaceType::Ipc => Namespace::Ipc,
        LinuxNamespaceType::User => Namespace::User,
        LinuxNamespaceType::Pid => Namespace::Pid,
        LinuxNamespaceType::Network => Namespace::Network,
        LinuxNamespaceType::Time => Namespace::Time,
    }
}

pub(super) fn namespaces(linux: &Linux) -> anyhow::Result<Namespaces> {
    let mut namespaces = Namespaces {
        users: ranges(linux.uid_mappings().as_deref()),
        groups: ranges(linux.gid_mappings().as_deref()),
        ..Namespaces::default()
    };
    for asked in linux.namespaces().iter().flatten() {
        let kind = kind(asked.typ());
        if namespaces.has(kind) {
            bail!("policy: linux.namespaces has {} twice", kind.file());
        }
        match asked
            .path()
            .as_ref()
            .filter(|path| !path.as_os_str().is_empty())
        {
            Some(path) => {
                if !path.is_absolute() {
                    bail!("policy: linux.namespaces: {path:?} is not absolute");
                }
                // One that is this process's is the host's, whatever it is called.
                if !is_own(kind, path) {
                    namespaces.joined.push((kind, path.clone()));
                }
            }
            None => namespaces.made.push(kind),
        }
    }
    if !namespaces.owns(Namespace::Mount) {
        bail!(
            "policy: linux.namespaces has no mount namespace of the container's own, and nothing could be its root"
        );
    }
    if namespaces.owns(Namespace::Time) {
        bail!("policy: linux.namespaces: a time namespace of the container's own is not supported");
    }
    check_users(&namespaces)?;
    Ok(namespaces)
}

/// A network of its own, whichever the engine has made: nothing is in it but a loopback.
pub(super) fn own_network(namespaces: &mut Namespaces) {
    let is_network = |kind: &Namespace| *kind == Namespace::Network;
    namespaces.joined.retain(|(kind, _)| !is_network(kind));
    if !namespaces.owns(Namespace::Network) {
        namespaces.made.push(Namespace::Network);
    }
}

fn is_own(kind: Namespace, path: &Path) -> bool {
    let own = fs::metadata(format!("/proc/self/ns/{}", kind.file()));
    own.ok()
        .zip(fs::metadata(path).ok())
        .is_some_and(|(own, other)| own.ino() == other.ino() && own.dev() == other.dev())
}

fn check_users(namespaces: &Namespaces) -> anyhow::Result<()> {
    let is_mapped = !namespaces.users.is_empty() || !namespaces.groups.is_empty();
    if !namespaces.owns(Namespace::User) {
        return match is_mapped && !namespaces.has(Namespace::User) {
            true => bail!("policy: linux.uidMappings without a user namespace map nobody"),
            false => Ok(()),
        };
    }
    let has_root = |ranges: &[IdRange]| ranges.iter().any(|range| range.inside == 0);
    if !has_root(&namespaces.users) || !has_root(&namespaces.groups) {
        bail!("policy: linux.uidMappings and gidMappings of a user namespace must map 0");
    }
    Ok(())
}

fn ranges(mappings: Option<&[LinuxIdMapping]>) -> Vec<IdRange> {
    mappings
        .into_iter()
        .flatten()
        .map(|mapping| IdRange {
            inside: mapping.container_id(),
            outside: mapping.host_id(),
            count: mapping.size(),
        })
        .collect()
}

/// A setting that belongs to a namespace of the container's own; the host's are the host's.
pub(super) fn setting(name: &str, namespaces: &Namespaces) -> anyhow::Result<String> {
    const OF_IPC: [&str; 9] = [
        "kernel/msgmax",
        "kernel/msgmnb",
        "kernel/msgmni",
        "kernel/sem",
        "kernel/shmall",
        "kernel/shmmax",
        "kernel/shmmni",
        "kernel/shm_rmid_forced",
        "kernel/auto_msgmni",
    ];
    // A name may have its parts divided by either, and then the other in a part (sysctl.d(5)).
    let is_dotted = name
        .find(['.', '/'])
        .is_some_and(|at| name.as_bytes()[at] == b'.');
    let path: String = match is_dotted {
        true => name
            .chars()
            .map(|letter| match letter {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect(),
        false => name.into(),
    };
    if path.split('/').any(|part| part.is_empty() || part == "..") {
        bail!("policy: linux.sysctl: {name:?} is no setting");
    }
    let needed = if OF_IPC.contains(&path.as_str()) || path.starts_with("fs/mqueue/") {
        Namespace::Ipc
    } else if path.starts_with("net/") {
        Namespace::Network
    } else if matches!(path.as_str(), "kernel/domainname" | "kernel/hostname") {
        Namespace::Uts
    } else {
        bail!("policy: linux.sysctl: {name:?} is of the whole machine, not of a namespace");
    };
    match namespaces.has(needed) {
        true => Ok(path),
        false => Err(anyhow::anyhow!("{} is the host's", needed.file()))
            .with_context(|| format!("policy: linux.sysctl: {name:?}")),
    }
}
