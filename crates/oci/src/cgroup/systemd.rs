//! Control groups that systemd makes: a scope around the container's first process, delegated, so that what it holds is ours to
//! set (org.freedesktop.systemd1, "Control Group Interface").
//!
//! It is asked by busctl(1), which is there where systemd is.

use super::{Group, Unit};
use crate::wait::wait_a_moment;
use anyhow::{Context, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// `SLICE:PREFIX:NAME`, each of which may be empty.
pub(super) fn unit(path: Option<&Path>, id: &str, of_user: bool) -> anyhow::Result<Unit> {
    let path = path
        .map(|path| path.to_string_lossy().into_owned())
        .unwrap_or_default();
    let parts: Vec<&str> = path.split(':').collect();
    let (slice, prefix, name) = match parts[..] {
        [""] => ("", "palisade", id),
        [slice, prefix, name] => (slice, prefix, name),
        _ => bail!(
            "policy: linux.cgroupsPath {path:?} is not SLICE:PREFIX:NAME, which --systemd-cgroup takes"
        ),
    };
    let slice = match slice {
        "" if of_user => "user.slice",
        "" => "system.slice",
        slice => slice,
    };
    if name.is_empty() || name.contains('/') || prefix.contains('/') {
        bail!("policy: linux.cgroupsPath {path:?} names no unit");
    }
    let name = match (prefix, name.ends_with(".slice")) {
        (_, true) => name.to_owned(),
        ("", _) => format!("{name}.scope"),
        (prefix, _) => format!("{prefix}-{name}.scope"),
    };
    Ok(Unit {
        name,
        slice: slice.into(),
        of_user,
    })
}

/// Where the unit's group is, from the root on.
pub(super) fn place(unit: &Unit) -> anyhow::Result<PathBuf> {
    let own = match unit.of_user {
        true => of_user_manager()?,
        false => PathBuf::from("/"),
    };
    let place = own.join(folder_of(&unit.slice)?);
    Ok(place.join(&unit.name))
}

/// The folders of a slice: `a-b.slice` lies in `a.slice` (systemd.slice(5)).
fn folder_of(slice: &str) -> anyhow::Result<PathBuf> {
    if slice == "-.slice" {
        return Ok(PathBuf::new());
    }
    let name = slice.strip_suffix(".slice").filter(|name| {
        let is_fine = !name.is_empty() && !name.contains('/');
        is_fine && name.split('-').all(|part| !part.is_empty())
    });
    let name = name.with_context(|| format!("policy: linux.cgroupsPath: {slice:?} is no slice"))?;
    let mut folder = PathBuf::new();
    let mut so_far = String::new();
    for part in name.split('-') {
        if !so_far.is_empty() {
            so_far.push('-');
        }
        so_far.push_str(part);
        folder.push(format!("{so_far}.slice"));
    }
    Ok(folder)
}

/// The group that the user's own instance has: `user@UID.service`, which this process is below as a rule.
fn of_user_manager() -> anyhow::Result<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let place = own.lines().find_map(|line| line.strip_prefix("0::"));
    let place = Path::new(place.unwrap_or("/"));
    if let Some(service) = place.ancestors().find(|above| {
        let name = above.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("user@") && name.ends_with(".service")
    }) {
        return Ok(service.into());
    }
    let uid = host_uid()?;
    Ok(format!("/user.slice/user-{uid}.slice/user@{uid}.service").into())
}

/// Whom root of this user namespace is outside.
fn host_uid() -> anyhow::Result<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").context("host: there is no /proc")?;
    let own = rustix::process::geteuid().as_raw();
    let rows = map.lines().filter_map(|line| {
        let numbers: Vec<u32> = line
            .split_ascii_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        <[u32; 3]>::try_from(numbers).ok()
    });
    let mut rows =
        rows.filter(|[inside, _, count]| (*inside..inside.saturating_add(*count)).contains(&own));
    let [inside, outside, _] = rows.next().context("host: this user is not mapped")?;
    Ok(outside + (own - inside))
}

/// What busctl(1) is told, after its options.
fn request(unit: &Unit, pid: u32) -> Vec<String> {
    let mut words: Vec<String> = [
        "call",
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
        "StartTransientUnit",
        "ssa(sv)a(sa(sv))",
        &unit.name,
        "replace",
    ]
    .map(String::from)
    .into();
    let is_slice = unit.name.ends_with(".slice");
    let mut properties = vec![
        format!("Description s {}", unit.name),
        "DefaultDependencies b false".into(),
    ];
    match is_slice {
        true => properties.push(format!("Wants as 1 {}", unit.slice)),
        false => {
            properties.push(format!("Slice s {}", unit.slice));
            properties.push("Delegate b true".into());
            properties.push(format!("PIDs au 1 {pid}"));
        }
    }
    for accounting in [
        "CPUAccounting",
        "MemoryAccounting",
        "TasksAccounting",
        "IOAccounting",
    ] {
        properties.push(format!("{accounting} b true"));
    }
    words.push(properties.len().to_string());
    for property in properties {
        words.extend(property.split(' ').map(String::from));
    }
    words.push("0".into());
    words
}

fn busctl(unit: &Unit) -> Command {
    let mut command = Command::new("busctl");
    command.args(["--no-pager", "--quiet"]);
    if unit.of_user {
        command.arg("--user");
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Starts it, and waits until the process is in all of its groups: a job of systemd's goes on when it has answered.
pub(super) fn start(
    unit: &Unit,
    pid: u32,
    groups: &[Group],
    patience: Duration,
) -> anyhow::Result<()> {
    let output = busctl(unit)
        .args(request(unit, pid))
        .stderr(Stdio::piped())
        .output()
        .context("host: cannot execute busctl, by which systemd is asked for control groups")?;
    if !output.status.success() {
        bail!(
            "host: systemd makes no unit {}: {}",
            unit.name,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let began = Instant::now();
    let is_there = |group: &Group| {
        let listed = fs::read_to_string(group.folder.join("cgroup.procs")).unwrap_or_default();
        listed.lines().any(|line| line.parse() == Ok(pid))
    };
    // Version 1 has hierarchies that systemd leaves alone: of those that it does not, one is enough to know that it is done.
    while !groups.iter().any(is_there) {
        if began.elapsed() > patience {
            bail!("host: systemd did not put the container into {}", unit.name);
        }
        wait_a_moment();
    }
    Ok(())
}

/// A scope goes with its last process; one that failed stays to be looked at, by nobody here.
pub(super) fn stop(unit: &Unit) {
    for method in ["StopUnit", "ResetFailedUnit"] {
        let mut command = busctl(unit);
        command.args([
            "call",
            "org.freedesktop.systemd1",
            "/org/freedesktop/systemd1",
            "org.freedesktop.systemd1.Manager",
            method,
        ]);
        match method {
            "StopUnit" => command.args(["ss", &unit.name, "replace"]),
            _ => command.args(["s", &unit.name]),
        };
        let _ = command.stderr(Stdio::null()).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit_of(path: &str) -> Option<Unit> {
        unit(Some(Path::new(path)), "ID", false).ok()
    }

    #[test]
    fn paths_of_engines_name_units() {
        let podman = unit_of("machine.slice:libpod:1234").unwrap();
        assert_eq!(podman.name, "libpod-1234.scope");
        assert_eq!(
            place(&podman).unwrap(),
            Path::new("/machine.slice/libpod-1234.scope")
        );
        let kubelet = unit_of("kubepods-burstable-pod7.slice:cri-containerd:1234").unwrap();
        assert_eq!(
            place(&kubelet).unwrap(),
            Path::new(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7.slice/cri-containerd-1234.scope"
            )
        );
        assert_eq!(unit_of("").unwrap().name, "palisade-ID.scope");
        assert_eq!(unit_of("::x").unwrap().name, "x.scope");
        for wrong in ["/a/b", "a:b", "a.slice:b:", "a.slice:b:../c"] {
            assert_eq!(unit_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn slices_lie_in_slices() {
        assert_eq!(folder_of("-.slice").unwrap(), Path::new(""));
        assert_eq!(
            folder_of("a-b.slice").unwrap(),
            Path::new("a.slice/a-b.slice")
        );
        for wrong in ["a", "a--b.slice", ".slice", "a/b.slice"] {
            assert!(folder_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_scope_is_asked_for_around_the_process() {
        let words = request(&unit_of("machine.slice:libpod:1").unwrap(), 42).join(" ");
        assert!(words.contains("libpod-1.scope replace 9 "), "{words}");
        assert!(
            words.contains("Slice s machine.slice Delegate b true PIDs au 1 42"),
            "{words}"
        );
        assert!(words.ends_with(" 0"), "{words}");
    }
}
