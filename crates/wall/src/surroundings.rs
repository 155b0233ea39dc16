//! The circumstances of a launch.

use palisade_policy::Policy;
use serde::Serialize;
use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    time::Duration,
};

/// Variables of palisade's own that every guest gets: language and looks, locale(7). They say nothing about the host that output
/// would not.
pub const PASSED_ON: [&str; 19] = [
    "LANG",
    "LANGUAGE",
    "LC_ADDRESS",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NAME",
    "LC_NUMERIC",
    "LC_PAPER",
    "LC_TELEPHONE",
    "LC_TIME",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
];

/// Those that a plan reads itself: where what profiles grant lies, and who commits.
const READ: [&str; 9] = [
    "HOME",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOMODCACHE",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
];

/// Where and as what palisade itself was started, as far as a plan depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The working directory, if it can be told.
    pub cwd: Option<PathBuf>,
    /// The environment, or what of it a plan asks for.
    pub environment: Vec<(OsString, OsString)>,
    /// What files of variables say ([`palisade_policy::Grants::env_files`]). Values are not printed.
    pub file_variables: Vec<(OsString, OsString)>,
    /// What the guest is called among those that run (`palisade ps`), where its starter has a name for it.
    pub name: Option<String>,
    /// The guest gets a terminal of its own.
    pub terminal: bool,
    /// Sockets that the launch hands over, as the first of [`crate::Streams::passed`].
    pub handed: Vec<HandedListener>,
    /// A TCP port of the domain's own loopback at which the guest serves whoever starts it:
    /// [`crate::Domain::inner_network`].
    pub inner_port: Option<u16>,
    /// Whoever starts it may stop it as a whole: [`crate::Domain::freezer`].
    pub can_freeze: bool,
    /// The report tells of the host's files that the guest asks for and is not granted. Each call that names a file takes
    /// longer for it.
    pub watch: bool,
    /// Whoever starts it is asked about what the guest tries on the network and no grant covers, by
    /// [`crate::Streams::questions`]; one that is not answered in this time means no.
    pub asks: Option<Duration>,
    /// And about files that no grant covers, which takes as long as `watch`.
    pub asks_files: bool,
    /// It may be granted more while it runs, by whoever may operate it.
    pub grantable: bool,
    /// The host's paths that are used outside of the wall: no such grant lets it change what they lead to.
    pub relied: Vec<PathBuf>,
    /// What nobody is asked about and nothing is advised for, beside what palisade knows of: paths and patterns, as
    /// `palisade_process::places` reads them.
    pub sensitive: Vec<String>,
    /// What happens is written down ([`crate::Streams::journal`]).
    pub tells: bool,
}

/// A listening socket that a guest finds open because whoever starts it hands it over, and no grant is
/// needed: sd_listen_fds(3). Such sockets come before those of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HandedListener {
    /// What it is called in `LISTEN_FDNAMES`.
    pub name: String,
    /// A TCP socket rather than a local one.
    pub internet: bool,
}

impl Surroundings {
    /// Those of this process.
    pub fn here(terminal: bool) -> Self {
        Self {
            cwd: std::env::current_dir().ok(),
            environment: std::env::vars_os().collect(),
            terminal,
            ..Self::default()
        }
    }

    /// The same, with no more of the environment than a plan of this policy asks for: to copy all of it takes longer.
    pub fn asked_for_by(policy: &Policy) -> Self {
        let names = names_asked_for(policy);
        let set = names.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
        Self {
            cwd: std::env::current_dir().ok(),
            environment: set.collect(),
            ..Self::default()
        }
    }

    /// What a variable says that a plan reads itself, one of a fixed list.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        debug_assert!(READ.contains(&name), "{name} may not be there");
        self.value_of(name)
    }

    /// What a variable says that every guest gets, or that the policy passes on.
    pub fn passed(&self, name: &str) -> Option<&OsStr> {
        self.value_of(name)
    }

    /// Of one that is there twice the first, as getenv(3).
    fn value_of(&self, name: &str) -> Option<&OsStr> {
        let mut all = self.environment.iter();
        let found = all.find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_os_str())
    }
}

fn names_asked_for(policy: &Policy) -> impl Iterator<Item = &str> {
    let granted = policy.grants.env.iter().filter(|env| env.value.is_none());
    let granted = granted.map(|env| env.name.as_str());
    PASSED_ON.into_iter().chain(READ).chain(granted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::EnvGrant;

    #[test]
    fn no_more_is_asked_for_than_a_policy_passes_on() {
        let mut policy = Policy::default();
        let fixed = names_asked_for(&policy).count();
        assert_eq!(fixed, PASSED_ON.len() + READ.len());
        for (name, value) in [("PATH", None), ("TOKEN", Some("x")), ("=", None)] {
            policy.grants.env.push(EnvGrant {
                name: name.into(),
                value: value.map(str::to_owned),
            });
        }
        let granted: Vec<_> = names_asked_for(&policy).skip(fixed).collect();
        assert_eq!(granted, ["PATH", "="]);
        let (whole, part) = (
            Surroundings::here(false),
            Surroundings::asked_for_by(&policy),
        );
        assert!(part.passed("PATH").is_some());
        for name in names_asked_for(&policy) {
            assert_eq!(whole.passed(name), part.passed(name), "{name}");
        }
        assert_eq!(part.cwd, whole.cwd);
    }

    #[test]
    fn of_a_variable_that_is_there_twice_the_first_counts() {
        let twice = ["1", "2"].map(|value| ("HOME".into(), value.into()));
        let surroundings = Surroundings {
            environment: twice.into(),
            ..Surroundings::default()
        };
        assert_eq!(surroundings.variable("HOME"), Some("1".as_ref()));
    }
}
