//! The guest's environment: a short list, and what was granted.

use super::profile;
use crate::host::Host;
use palisade_policy::{Policy, Profile};
use palisade_wall::{PASSED_ON, Surroundings};
use serde::{Serialize, Serializer};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fmt,
    ops::Deref,
    os::unix::ffi::OsStrExt,
};

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A guest's variables, `NAME=VALUE` each, sorted by name.
///
/// Values that come from the host's environment by a grant, or from a file, may be secrets: they are not printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<OsString>,
    /// Names whose values are not printed.
    concealed: BTreeSet<OsString>,
}

/// Stands for a value that is not printed.
const CONCEALED: &str = "(not shown)";

impl Environment {
    /// What a variable says.
    pub(crate) fn value_of(&self, name: &str) -> Option<&OsStr> {
        self.variables.iter().find_map(|variable| {
            let value = variable.as_bytes().strip_prefix(name.as_bytes())?;
            value.strip_prefix(b"=").map(OsStr::from_bytes)
        })
    }

    /// The variables as they may be printed.
    pub fn shown(&self) -> impl Iterator<Item = String> + '_ {
        self.variables.iter().map(|variable| {
            let text = variable.to_string_lossy();
            match text.split_once('=') {
                Some((name, _)) if self.concealed.contains(OsStr::new(name)) => {
                    format!("{name}={CONCEALED}")
                }
                _ => text.into_owned(),
            }
        })
    }
}

impl Deref for Environment {
    type Target = [OsString];

    fn deref(&self) -> &[OsString] {
        &self.variables
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.shown()).finish()
    }
}

impl Serialize for Environment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.shown())
    }
}

/// Variables by name, and whether a value may be printed.
type Variables = BTreeMap<OsString, (OsString, bool)>;

/// What a guest has.
pub(super) fn of_guest(
    policy: &Policy,
    surroundings: &Surroundings,
    host: &dyn Host,
) -> Environment {
    let mut variables = Variables::new();
    variables.insert("PATH".into(), (path(policy, surroundings), true));
    for (name, value) in [("HOME", "/tmp"), ("USER", "guest"), ("LOGNAME", "guest")] {
        variables.insert(name.into(), (value.into(), true));
    }
    let passed_on = PASSED_ON.into_iter();
    let passed_on = passed_on.filter_map(|name| Some((name.into(), surroundings.passed(name)?)));
    variables.extend(passed_on.map(|(name, value)| (name, (value.into(), true))));
    variables.extend(granted(policy, surroundings, host));
    texts(variables)
}

/// The same for a guest that gets what was asked for alone: by `env` and `env-file`, and by a profile.
pub(super) fn only_granted(
    policy: &Policy,
    surroundings: &Surroundings,
    host: &dyn Host,
) -> Environment {
    texts(granted(policy, surroundings, host))
}

/// Where programs are looked for: first in what profiles add.
fn path(policy: &Policy, surroundings: &Surroundings) -> OsString {
    let mut path = OsString::new();
    for folder in profile::program_folders(policy, surroundings) {
        path.push(folder);
        path.push(":");
    }
    path.push(PATH);
    path
}

fn granted(policy: &Policy, surroundings: &Surroundings, host: &dyn Host) -> Variables {
    let mut variables = Variables::new();
    for profile in &policy.grants.profiles {
        let of_profile = of_profile(*profile, policy.limits.memory_bytes);
        let found = profile::variables(*profile, surroundings, host);
        let both = of_profile.into_iter().chain(found);
        variables.extend(both.map(|(name, value)| (name, (value, true))));
    }
    let of_files = surroundings.file_variables.iter().cloned();
    variables.extend(of_files.map(|(name, value)| (name, (value, false))));
    for grant in &policy.grants.env {
        let name = OsString::from(&grant.name);
        let host = || surroundings.passed(&grant.name).map(OsStr::to_owned);
        let is_shown = grant.value.is_some();
        if let Some(value) = grant.value.as_ref().map(OsString::from).or_else(host) {
            variables.insert(name, (value, is_shown));
        }
    }
    variables
}

fn texts(variables: Variables) -> Environment {
    let concealed = variables.iter().filter(|(_, (_, is_shown))| !is_shown);
    Environment {
        concealed: concealed.map(|(name, _)| name.clone()).collect(),
        variables: variables
            .into_iter()
            .map(|(name, (value, _))| join(name, &value))
            .collect(),
    }
}

fn join(mut name: OsString, value: &OsStr) -> OsString {
    name.push("=");
    name.push(value);
    name
}

/// What a runtime must be told, because it can't see the domain's cgroup: how much memory there is.
/// The rest of the limit is for what the runtime keeps outside its heap.
fn of_profile(profile: Profile, memory_bytes: Option<u64>) -> Vec<(OsString, OsString)> {
    const MIB: u64 = 1 << 20;
    match (profile, memory_bytes) {
        (Profile::Java, Some(bytes)) => {
            vec![(
                "JDK_JAVA_OPTIONS".into(),
                format!("-XX:MaxRAM={bytes}").into(),
            )]
        }
        (Profile::Node, Some(bytes)) => {
            vec![(
                "NODE_OPTIONS".into(),
                format!("--max-old-space-size={}", (bytes / MIB * 3 / 4).max(16)).into(),
            )]
        }
        (Profile::Python, _) => vec![("PYTHONDONTWRITEBYTECODE".into(), "1".into())],
        _ => Vec::new(),
    }
}
