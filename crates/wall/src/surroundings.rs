//! The circumstances of a launch.

use serde::Serialize;
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// Where and as what palisade itself was started, as far as a plan depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The working directory, if it can be told.
    pub cwd: Option<PathBuf>,
    /// The environment.
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
            file_variables: Vec::new(),
            name: None,
            terminal,
            handed: Vec::new(),
            inner_port: None,
            can_freeze: false,
            watch: false,
            asks: None,
            asks_files: false,
            grantable: false,
            relied: Vec::new(),
            sensitive: Vec::new(),
            tells: false,
        }
    }
}
