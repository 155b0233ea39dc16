//! From a configuration to what can serve: every module looked at, and compiled and loaded where they are few; every
//! folder looked at.
//!
//! Nothing here changes what serves now. A main file that can't be loaded is an error, and that is all; of a tenant whose
//! file can't, the version serves on that does now.

use super::{
    ByName, Generation,
    relied_on::Site,
    suspects::Suspects,
    tenant::Tenant,
    tenants::{self, Tenants},
};
use crate::{
    aside::Aside,
    code::{CodeError, CodeStore},
    config::Config,
    log::{Log, LogError},
    metrics::Registry,
    quota::Quota,
    services::{
        component::ComponentError,
        files::FilesError,
        program::{ProgramError, Supervisor},
    },
    stamp::Stamp,
};
use palisade_engine::{guest::Engine, permits::Share};
use palisade_filter::Shared;
use palisade_network::NetworkError;
use palisade_process::{Machine, plan::PlanError};
use palisade_wasm::programs::Programs;
use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A configuration can't be served.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum LoadError {
    #[error("{guest}: {source}")]
    Code { guest: String, source: CodeError },
    #[error(
        "{guest}: policy: it could change {}, which the server reads or runs again outside the wall: keep it out of what \
         is granted for writing, or protect it",
        path.display()
    )]
    ReliedOn { guest: String, path: PathBuf },
    #[error(
        "{guest}: policy: it could put another folder or a link in the place of {}, which {user} uses outside the wall: \
         grant that folder itself for writing, keep it out of what is granted, or protect it",
        path.display()
    )]
    Movable {
        guest: String,
        path: PathBuf,
        user: String,
    },
    #[error(
        "{guest}: policy: the folder {} has {} in it, which is the server's own: serve a folder without it",
        root.display(), path.display()
    )]
    Served {
        guest: String,
        root: PathBuf,
        path: PathBuf,
    },
    #[error(
        "{guest}: policy: {} does not lie below {}, which is all that its tenant has: it is a link, or lies behind one",
        path.display(), folder.display()
    )]
    Outside {
        guest: String,
        path: PathBuf,
        folder: PathBuf,
    },
    #[error(
        "{guest}: policy: it {how}, and {address} is where this server's operators ask (`admin`): {advice}"
    )]
    Operators {
        guest: String,
        how: String,
        address: String,
        advice: &'static str,
    },
    #[error("policy: cannot read the folder {} of `include`: {source}", folder.display())]
    Include {
        folder: PathBuf,
        source: std::io::Error,
    },
    #[error("{guest}: {source}")]
    Grants { guest: String, source: PlanError },
    #[error("{guest}: {source}")]
    Network { guest: String, source: NetworkError },
    #[error("{guest}: {source}")]
    Files { guest: String, source: FilesError },
    #[error(
        "host: this kernel has no Landlock, which holds those who read what is served to the folders they serve: \
         `allow-degraded = [\"landlock\"]` at the top of the file goes on without"
    )]
    NoLandlock,
    #[error("{guest}: {source}")]
    Service { guest: String, source: ProgramError },
    #[error("{guest}: {source}")]
    Component {
        guest: String,
        source: ComponentError,
    },
    #[error(
        "{guest}: policy: a filter of a tenant may take 100 ms for a callback (`limits.time`) and half of its worker's time \
         (`slow-share`) at most, for others wait for the same worker: ask for less"
    )]
    HoldsOthersUp { guest: String },
    #[error(transparent)]
    Log(#[from] LogError),
}

impl LoadError {
    /// Whether it is the machine's fault, as far as can be told: then it may be over, and nothing tells of that.
    pub(super) fn is_of_host(&self) -> bool {
        let cause = match self {
            Self::Code { source, .. } => source.to_string(),
            Self::Grants { source, .. } => source.to_string(),
            Self::Network { source, .. } => source.to_string(),
            Self::Files { source, .. } => source.to_string(),
            Self::Service { source, .. } => source.to_string(),
            Self::Component { source, .. } => source.to_string(),
            Self::Log(source) => source.to_string(),
            Self::NoLandlock => return true,
            _ => return false,
        };
        cause.starts_with("host:")
    }

    pub(super) fn of_service(name: &str, source: ProgramError) -> Self {
        Self::Service {
            guest: format!("service {name}"),
            source,
        }
    }
}

/// What loading needs beside the configuration. One for the life of the server.
#[derive(Debug)]
pub struct Tools {
    /// Where the compiler lies.
    pub programs: Programs,
    /// What this machine offers to domains.
    pub machine: Machine,
    /// Where compiled code is kept; `None`: where the user's caches are.
    pub caches: Option<PathBuf>,
    /// How many threads serve.
    pub workers: NonZeroUsize,
    /// Where code of filters and components comes from.
    pub code: Arc<CodeStore>,
    /// Where filters' instances live.
    pub engine: Engine,
    /// What filters share.
    pub shared: Arc<Shared>,
    /// What starts and ends programs.
    pub supervisor: Supervisor,
    /// The metrics of all guests.
    pub registry: Arc<Registry>,
    /// Where requests of slow filters are answered.
    pub aside: Arc<Aside<Generation>>,
    /// The server's log.
    pub log: Log,
}

impl Tools {
    /// What one guest may have on each worker of a pool of so many: half of the pool on all of them together, so that no
    /// guest and none of its clients takes the whole.
    pub(super) fn bounded(&self, share: Share, instances: u32) -> Share {
        Share {
            instances: share.instances.min(self.half_of(instances)),
            ..share
        }
    }

    /// The quota of whoever has a guest of this name, as logs have it: no name has a slash in it, what stands before one is the
    /// tenant.
    pub(super) fn quota_of(&self, guest: &str) -> Arc<Quota> {
        let tenant = guest.split_once('/').map_or("", |(tenant, _)| tenant);
        self.registry.quotas.of(tenant)
    }

    /// Kept instances of all filters on each worker: half of the pool on all of them, and no more than half of the code that
    /// may be loaded, which they keep loaded.
    pub(super) fn most_kept(&self) -> usize {
        let modules = u32::try_from(self.code.most_modules()).unwrap_or(u32::MAX);
        self.half_of(self.engine.options().instances.min(modules))
    }

    /// One worker's part of half of a pool of so many.
    fn half_of(&self, instances: u32) -> usize {
        (instances as usize / 2 / self.workers).max(1)
    }
}

/// Which file stood behind each name when it was loaded, in the order of these.
#[derive(Debug)]
pub(super) struct Stamps(Box<[(PathBuf, Stamp)]>);

impl Stamps {
    pub(super) fn get(&self, path: &Path) -> Option<&Stamp> {
        let found = self.0.binary_search_by(|(known, _)| (**known).cmp(path));
        found.ok().map(|place| &self.0[place].1)
    }
}

impl From<Vec<(PathBuf, Stamp)>> for Stamps {
    fn from(mut stamps: Vec<(PathBuf, Stamp)>) -> Self {
        stamps.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Self(stamps.into())
    }
}

/// Loads a configuration that was read from these files. What `previous` has loaded of the same file with the same settings is taken over;
/// of tenants who are no `suspects` that is so without a look at their files.
///
/// # Errors
///
/// The first thing of the main file that can't be loaded. What can't be of a tenant's file is told in
/// [`Generation::broken`].
pub fn load(
    config: Config,
    files: Vec<PathBuf>,
    previous: Option<&Generation>,
    suspects: &Suspects,
    tools: &Tools,
) -> Result<Generation, LoadError> {
    let config = Arc::new(config);
    let main_file = files
        .first()
        .map_or_else(String::new, |file| file.display().to_string());
    let site = Site::new(&config, &files, tools);
    let before = previous.map(|previous| &previous.site);
    // Who was checked against it need not be again.
    let site = before
        .filter(|before| ***before == site)
        .map_or_else(|| Arc::new(site), Arc::clone);
    let of_main = previous.map(|previous| &*previous.main);
    let mut new = Vec::new();
    let main = Tenant::load("".into(), &config, &files, of_main, &site, &mut new, tools)?;
    let Tenants {
        tenants,
        directory,
        broken,
    } = tenants::load(&config, &main_file, &site, new, (previous, suspects), tools)?;
    let mut before = ByName::of(previous);
    for tenant in &tenants {
        // Of one that serves already they change once this serves.
        if before.find(&tenant.name).is_none() {
            tenant.quota.set(&config.tenancy.quotas(&tenant.name));
        }
    }
    Ok(Generation {
        number: previous.map_or(1, |previous| previous.number + 1),
        log: tools.log.clone(),
        registry: Arc::clone(&tools.registry),
        aside: Arc::clone(&tools.aside),
        config,
        main: Arc::new(main),
        tenants,
        directory,
        broken,
        site,
    })
}

/// The message, and causes that are not in it.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
