//! Which devices a container may use.
//!
//! The later of two rules that fit decides. Beside the engine's there are always those that every container has
//! (the specification, "Default Devices").

use crate::sys::bpf;
use anyhow::Context;
use oci_spec::runtime::{LinuxDeviceCgroup, LinuxDeviceType};
use std::{fs, path::Path};

/// Kind, major and minor number; a number that is not said is any.
const ALWAYS: [(char, Option<i64>, Option<i64>); 9] = [
    ('c', Some(1), Some(3)),
    ('c', Some(1), Some(5)),
    ('c', Some(1), Some(7)),
    ('c', Some(1), Some(8)),
    ('c', Some(1), Some(9)),
    ('c', Some(5), Some(0)),
    ('c', Some(5), Some(1)),
    ('c', Some(5), Some(2)),
    ('c', Some(136), None),
];

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    allow: bool,
    /// `a` is all kinds.
    kind: char,
    major: Option<i64>,
    minor: Option<i64>,
    access: String,
}

fn rules(asked: &[LinuxDeviceCgroup]) -> Vec<Rule> {
    let of_engine = asked.iter().map(|rule| Rule {
        allow: rule.allow(),
        kind: match rule.typ().unwrap_or_default() {
            LinuxDeviceType::B => 'b',
            LinuxDeviceType::C | LinuxDeviceType::U => 'c',
            _ => 'a',
        },
        major: rule.major().filter(|number| *number >= 0),
        minor: rule.minor().filter(|number| *number >= 0),
        access: rule.access().clone().unwrap_or_else(|| "rwm".into()),
    });
    let always = ALWAYS.iter().map(|(kind, major, minor)| Rule {
        allow: true,
        kind: *kind,
        major: *major,
        minor: *minor,
        access: "rwm".into(),
    });
    // A node gives nothing that may not be opened.
    let nodes = ['b', 'c'].into_iter().map(|kind| Rule {
        allow: true,
        kind,
        major: None,
        minor: None,
        access: "m".into(),
    });
    of_engine.chain(nodes).chain(always).collect()
}

/// Version 1 (devices.rst).
pub(super) fn hold_by_list(folder: &Path, asked: &[LinuxDeviceCgroup]) -> anyhow::Result<()> {
    for rule in rules(asked) {
        let file = match rule.allow {
            true => "devices.allow",
            false => "devices.deny",
        };
        let number = |number: Option<i64>| number.map_or("*".into(), |number| number.to_string());
        let line = match rule.kind {
            'a' if rule.major.is_none() && rule.minor.is_none() => "a".to_owned(),
            kind => format!(
                "{kind} {}:{} {}",
                number(rule.major),
                number(rule.minor),
                rule.access
            ),
        };
        let path = folder.join(file);
        fs::write(&path, &line).with_context(|| {
            format!("policy: resources.devices: {line:?} is refused at {path:?}")
        })?;
    }
    Ok(())
}

/// Version 2: a program of the kernel's (`BPF_PROG_TYPE_CGROUP_DEVICE`). All that are attached must allow it.
pub(super) fn hold_by_program(folder: &Path, asked: &[LinuxDeviceCgroup]) -> anyhow::Result<()> {
    let program: Vec<bpf::DeviceRule> = rules(asked)
        .iter()
        .map(|rule| bpf::DeviceRule {
            allow: rule.allow,
            kind: match rule.kind {
                'b' => Some(bpf::BLOCK),
                'c' => Some(bpf::CHARACTER),
                _ => None,
            },
            major: rule.major.map(|number| number as i32),
            minor: rule.minor.map(|number| number as i32),
            access: rule.access.bytes().fold(0, |access, letter| {
                access
                    | match letter {
                        b'm' => bpf::MAKE,
                        b'r' => bpf::READ,
                        b'w' => bpf::WRITE,
                        _ => 0,
                    }
            }),
        })
        .collect();
    let group = fs::File::open(folder)?;
    bpf::hold_devices(&group, &program).context("host: resources.devices cannot be held")
}
