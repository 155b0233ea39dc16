//! `/dev` of a container.

use anyhow::bail;
use oci_spec::runtime::{LinuxDevice, LinuxDeviceType};
use palisade_process::container::{Bind, Step};
use std::path::{Path, PathBuf};

/// Every container's (the specification, "Default Devices"): name and minor number beside major 1, but for the terminal.
const DEFAULT: [(&str, (u32, u32)); 6] = [
    ("/dev/null", (1, 3)),
    ("/dev/zero", (1, 5)),
    ("/dev/full", (1, 7)),
    ("/dev/random", (1, 8)),
    ("/dev/urandom", (1, 9)),
    ("/dev/tty", (5, 0)),
];

const LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];

/// `may_make` where nodes can be made; elsewhere the host's are mounted.
pub(super) fn steps(asked: &[LinuxDevice], may_make: bool) -> anyhow::Result<Vec<Step>> {
    let mut steps = Vec::new();
    for (path, number) in DEFAULT {
        if asked.iter().all(|device| device.path() != Path::new(path)) {
            steps.push(step(
                path.into(),
                libc::S_IFCHR | 0o666,
                number,
                (0, 0),
                may_make,
            ));
        }
    }
    for device in asked {
        steps.push(of_device(device, may_make)?);
    }
    for (path, target) in LINKS {
        steps.push(Step::Link {
            path: path.into(),
            target: target.into(),
        });
    }
    if Path::new("/proc/kcore").exists() {
        steps.push(Step::Link {
            path: "/dev/core".into(),
            target: "/proc/kcore".into(),
        });
    }
    Ok(steps)
}

fn of_device(device: &LinuxDevice, may_make: bool) -> anyhow::Result<Step> {
    let path = device.path();
    if !path.is_absolute() {
        bail!("policy: linux.devices: {path:?} is not absolute");
    }
    let kind = match device.typ() {
        LinuxDeviceType::B => libc::S_IFBLK,
        LinuxDeviceType::C | LinuxDeviceType::U => libc::S_IFCHR,
        LinuxDeviceType::P => libc::S_IFIFO,
        LinuxDeviceType::A => bail!("policy: linux.devices: {path:?} is of all kinds"),
    };
    let number = |number: i64| u32::try_from(number);
    let (Ok(major), Ok(minor)) = (number(device.major()), number(device.minor())) else {
        bail!("policy: linux.devices: {path:?} has no device number");
    };
    let mode = kind | device.file_mode().unwrap_or(0o666) & 0o7777;
    let owner = (device.uid().unwrap_or(0), device.gid().unwrap_or(0));
    Ok(step(path.clone(), mode, (major, minor), owner, may_make))
}

fn step(path: PathBuf, mode: u32, number: (u32, u32), owner: (u32, u32), may_make: bool) -> Step {
    match may_make {
        true => Step::Device {
            path,
            mode,
            number,
            owner,
        },
        false => Step::Bind(Bind {
            source: path.clone(),
            target: path,
            propagation: super::mounts::PRIVATE,
            ..Bind::default()
        }),
    }
}
