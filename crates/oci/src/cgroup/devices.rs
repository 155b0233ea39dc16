//! Which devices a container may use.
//!
//! The later of two rules that fit decides. Beside the engine's there are always those that every container has
//! (the specification, "Default Devices").

use crate::sys::bpf;
use anyhow::{Context, bail};
use oci_spec::runtime::{LinuxDeviceCgroup, LinuxDeviceType};
use std::{fs::File, io::Write as _, path::Path};

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

/// Version 1 (devices.rst), which keeps a list of what is allowed beside nothing, or of what is denied beside all. A rule takes a line
/// of that list or adds one; a part of a line it cannot take.
pub(super) fn hold_by_list(folder: &Path, asked: &[LinuxDeviceCgroup]) -> anyhow::Result<()> {
    let [allow, deny] = ["devices.allow", "devices.deny"].map(|name| folder.join(name));
    let open = |path: &Path| {
        let opened = File::options().write(true).open(path);
        opened.with_context(|| format!("host: cannot open {path:?}"))
    };
    let [mut allowing, mut denying] = [open(&allow)?, open(&deny)?];
    for (is_allowed, line) in lines(&rules(asked))? {
        // The kernel takes a line from each write, wherever it begins.
        let (file, path) = match is_allowed {
            true => (&mut allowing, &allow),
            false => (&mut denying, &deny),
        };
        file.write_all(line.as_bytes()).with_context(|| {
            format!("policy: resources.devices: {line:?} is refused at {path:?}")
        })?;
    }
    Ok(())
}

/// What is written, and whether to allow it.
fn lines(rules: &[Rule]) -> anyhow::Result<Vec<(bool, String)>> {
    // The kernel takes a line of the kind `a` for all there is, whatever else it says.
    let mut lines = vec![(false, "a".to_owned())];
    let mut allows_all = false;
    let mut allowed: Vec<Rule> = Vec::new();
    for rule in rules.iter().flat_map(Rule::of_one_kind) {
        if rule.kind == 'a' {
            lines.push((rule.allow, "a".into()));
            allows_all = rule.allow;
            allowed.clear();
            continue;
        }
        if !rule.allow && !allows_all {
            let overlapping = || allowed.iter().filter(|other| rule.overlaps(other));
            if overlapping().any(|other| !rule.is_of_the_same(other)) {
                bail!(
                    "policy: resources.devices: {:?} is denied, and a wider rule before allows it, of which version 1 of control \
                     groups cannot take a part",
                    rule.line()
                );
            }
            if overlapping().next().is_none() {
                continue;
            }
        }
        if rule.allow {
            allowed.push(rule.clone());
        }
        lines.push((rule.allow, rule.line()));
    }
    Ok(lines)
}

impl Rule {
    /// The same for block and character devices, unless it is about all there is.
    fn of_one_kind(&self) -> Vec<Self> {
        let is_all = self.major.is_none() && self.minor.is_none() && self.has_all_access();
        match self.kind {
            'a' if !is_all => ['b', 'c']
                .map(|kind| Self {
                    kind,
                    ..self.clone()
                })
                .into(),
            _ => vec![self.clone()],
        }
    }

    fn has_all_access(&self) -> bool {
        "rwm".chars().all(|letter| self.access.contains(letter))
    }

    fn is_of_the_same(&self, other: &Self) -> bool {
        (self.kind, self.major, self.minor) == (other.kind, other.major, other.minor)
    }

    fn overlaps(&self, other: &Self) -> bool {
        let meet = |one: Option<i64>, other: Option<i64>| {
            one.zip(other).is_none_or(|(one, other)| one == other)
        };
        self.kind == other.kind
            && meet(self.major, other.major)
            && meet(self.minor, other.minor)
            && self
                .access
                .chars()
                .any(|letter| other.access.contains(letter))
    }

    fn line(&self) -> String {
        let number = |number: Option<i64>| number.map_or("*".into(), |number| number.to_string());
        format!(
            "{} {}:{} {}",
            self.kind,
            number(self.major),
            number(self.minor),
            self.access
        )
    }
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
    let group = File::open(folder)?;
    bpf::hold_devices(&group, &program).context("host: resources.devices cannot be held")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(allow: bool, kind: char, numbers: (Option<i64>, Option<i64>), access: &str) -> Rule {
        Rule {
            allow,
            kind,
            major: numbers.0,
            minor: numbers.1,
            access: access.into(),
        }
    }

    fn written(rules: &[Rule]) -> Option<Vec<String>> {
        let sign = |allow| if allow { '+' } else { '-' };
        let lines = lines(rules).ok()?.into_iter();
        Some(
            lines
                .map(|(allow, line)| format!("{} {line}", sign(allow)))
                .collect(),
        )
    }

    #[test]
    fn nothing_is_allowed_that_no_rule_allows() {
        assert_eq!(written(&[]).unwrap(), ["- a"]);
        let one = rule(true, 'c', (Some(10), Some(200)), "rwm");
        assert_eq!(written(&[one]).unwrap(), ["- a", "+ c 10:200 rwm"]);
    }

    /// The kernel would allow all there is for a line that begins with `a`.
    #[test]
    fn a_rule_of_all_kinds_with_numbers_is_one_of_each() {
        let numbered = rule(true, 'a', (Some(10), Some(229)), "rwm");
        assert_eq!(
            written(&[numbered]).unwrap(),
            ["- a", "+ b 10:229 rwm", "+ c 10:229 rwm"]
        );
        let reading = rule(true, 'a', (None, None), "r");
        assert_eq!(
            written(&[reading]).unwrap(),
            ["- a", "+ b *:* r", "+ c *:* r"]
        );
        let all = rule(true, 'a', (None, None), "rwm");
        assert_eq!(written(&[all]).unwrap(), ["- a", "+ a"]);
    }

    #[test]
    fn a_part_of_what_is_allowed_cannot_be_denied() {
        let wide = rule(true, 'c', (None, None), "rwm");
        let narrow = rule(false, 'c', (Some(10), Some(229)), "rw");
        assert_eq!(written(&[wide, narrow.clone()]), None);
        let same = rule(true, 'c', (Some(10), Some(229)), "rwm");
        assert_eq!(
            written(&[same, narrow.clone()]).unwrap(),
            ["- a", "+ c 10:229 rwm", "- c 10:229 rw"]
        );
        let all = rule(true, 'a', (None, None), "rwm");
        assert_eq!(
            written(&[all, narrow.clone()]).unwrap(),
            ["- a", "+ a", "- c 10:229 rw"]
        );
        assert_eq!(written(&[narrow]).unwrap(), ["- a"]);
    }
}
