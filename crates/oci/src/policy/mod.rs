//! What palisade's own annotations ask for, beside the specification.
//!
//! ```text
//!  annotations ──Asked::of──▶ Asked ──Kept──▶ plans of the container's processes
//!       │                      ▲
//!  may they? containers.toml   └── policies/NAME.toml      the administrator's folder
//! ```
//!
//! Whoever makes an image can give it annotations, and podman hands them on with the user's. So one that gives a container anything
//! counts only where the administrator says that it may.

mod administrator;
mod limits;

use administrator::Administrator;
use anyhow::{Context, bail};
use oci_spec::runtime::Spec;
use palisade_policy::{ConnectGrant, Limits, ListenGrant};
use palisade_process::{
    container::{Identity, Network, SystemResolver, host_network},
    seccomp::HostNetwork,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// What all of them begin with.
const OWN: &str = "palisade.";
/// `engine` does without palisade's own filter.
const SECCOMP: &str = "palisade.seccomp";
/// `broker` has grants in place of a network.
const NETWORK: &str = "palisade.network";
/// What a container may connect to, as `--connect` of `palisade run` has it; by commas or blanks.
const CONNECT: &str = "palisade.connect";
/// Where it may listen, as `--listen` has it.
const LISTEN: &str = "palisade.listen";
/// The name of a policy file.
const POLICY: &str = "palisade.policy";
/// `calls` has calls told of that the filters refuse.
const WATCH: &str = "palisade.watch";

const ALL: [&str; 6] = [SECCOMP, NETWORK, CONNECT, LISTEN, POLICY, WATCH];

/// What they ask for.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Asked {
    without_own_filter: bool,
    watches_calls: bool,
    grants: Option<Grants>,
    limits: Limits,
}

#[derive(Debug, Default, PartialEq)]
struct Grants {
    connect: Vec<ConnectGrant>,
    listen: Vec<ListenGrant>,
}

/// What each process of a container gets by it, and is kept with its state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Without palisade's own filter.
    #[serde(default)]
    pub(crate) without_own_filter: bool,
    /// What the filters refuse is left to the supervisor, which refuses it and tells of it.
    #[serde(default)]
    pub(crate) watches_calls: bool,
    /// Who answers what the filters leave to it.
    #[serde(default)]
    pub(crate) supervisor: Option<Identity>,
    /// Resources of setrlimit(2) that a policy limits, and to what.
    #[serde(default)]
    pub(crate) limits: Vec<(u32, u64)>,
    /// It has grants in place of a network.
    #[serde(default)]
    pub(crate) broker: Option<Broker>,
}

/// Grants in place of a network, as far as processes are concerned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Broker {
    /// Which calls the filter leaves to the supervisor.
    pub(crate) decides: HostNetwork,
    /// The rules, a line each.
    pub(crate) granted: Vec<String>,
    /// The container is in a user namespace.
    pub(crate) has_users: bool,
    /// Variables that tell of its proxy.
    pub(crate) environment: Vec<String>,
    /// Files of the supervisor's, and what they are in the container.
    pub(crate) files: Vec<(PathBuf, PathBuf)>,
}

impl Kept {
    /// A filter leaves calls to a supervisor.
    pub(crate) fn asks(&self) -> bool {
        self.broker.is_some() || self.watches_calls
    }

    /// It is there.
    pub(crate) fn is_answered(&self) -> bool {
        self.supervisor.is_some_and(|supervisor| supervisor.runs())
    }
}

impl Asked {
    /// Reads them.
    pub(crate) fn of(spec: &Spec) -> anyhow::Result<Self> {
        let Some(annotations) = spec.annotations() else {
            return Ok(Self::default());
        };
        let own: BTreeMap<&str, &str> = annotations
            .iter()
            .filter(|(name, _)| name.starts_with(OWN))
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        if let Some(name) = own.keys().find(|name| !ALL.contains(name)) {
            bail!(
                "policy: the annotation {name:?} is not known: there are {}",
                ALL.join(", ")
            );
        }
        Self::of_values(&own, &Administrator::load)
    }

    fn of_values(
        values: &BTreeMap<&str, &str>,
        load: &dyn Fn() -> anyhow::Result<Administrator>,
    ) -> anyhow::Result<Self> {
        let value = |name| values.get(name).copied();
        let without_own_filter = match value(SECCOMP) {
            None | Some("both") => false,
            Some("engine") => true,
            Some(other) => bail!(
                "policy: the annotation {SECCOMP} is {other:?}, neither \"both\" nor \"engine\""
            ),
        };
        let network = match value(NETWORK) {
            None => None,
            Some("engine") => Some(false),
            Some("broker") => Some(true),
            Some(other) => bail!(
                "policy: the annotation {NETWORK} is {other:?}, neither \"engine\" nor \"broker\""
            ),
        };
        let watches_calls = match value(WATCH) {
            None => false,
            Some("calls") => true,
            Some(other) => bail!("policy: the annotation {WATCH} is {other:?}, and not \"calls\""),
        };
        let mut asked = Self {
            without_own_filter,
            watches_calls,
            ..Self::default()
        };
        let grants = Grants {
            connect: list(value(CONNECT), CONNECT)?,
            listen: list(value(LISTEN), LISTEN)?,
        };
        let has_any = grants != Grants::default();
        let mut used: Vec<&str> = Vec::new();
        used.extend(without_own_filter.then_some(SECCOMP));
        used.extend((network == Some(true)).then_some(NETWORK));
        used.extend(value(CONNECT).map(|_| CONNECT));
        used.extend(value(LISTEN).map(|_| LISTEN));
        used.extend(value(POLICY).map(|_| POLICY));
        used.extend(watches_calls.then_some(WATCH));
        if used.is_empty() {
            return Ok(asked);
        }
        let administrator = load()?;
        for name in used {
            administrator.check(name)?;
        }
        let mut of_policy = None;
        if let Some(name) = value(POLICY) {
            let policy = administrator.policy(name)?;
            asked.limits = policy.limits;
            of_policy = (!policy.connect.is_empty() || !policy.listen.is_empty())
                .then_some((policy.connect, policy.listen));
        }
        match (network, has_any, of_policy) {
            (Some(false), _, Some(_)) => bail!(
                "policy: the policy of {POLICY} grants the network, and {NETWORK} is \"engine\""
            ),
            (None | Some(false), true, _) => {
                bail!("policy: {CONNECT} and {LISTEN} take {NETWORK}=broker")
            }
            (None | Some(false), false, None) => {}
            (_, _, of_policy) => {
                let (connect, listen) = of_policy.unwrap_or_default();
                asked.grants = Some(Grants {
                    connect: [connect, grants.connect].concat(),
                    listen: [listen, grants.listen].concat(),
                });
            }
        }
        if asked.grants.is_some() && without_own_filter {
            bail!(
                "policy: {SECCOMP}=engine takes the filter away that leaves calls to the broker of {NETWORK}"
            );
        }
        if watches_calls && without_own_filter {
            bail!("policy: {WATCH} takes palisade's own filter, which {SECCOMP}=engine takes away");
        }
        Ok(asked)
    }

    /// What the grants come to on this machine: names are looked up.
    pub(crate) fn network(&self) -> anyhow::Result<Option<Network>> {
        let Some(grants) = &self.grants else {
            return Ok(None);
        };
        let resolver = SystemResolver::default();
        let network = Network::resolve(&grants.connect, &grants.listen, &resolver)?;
        Ok(Some(network))
    }

    /// What processes get by it. `folder` is where the supervisor's files will be.
    pub(crate) fn kept(&self, network: Option<&Network>, folder: &Path) -> Kept {
        Kept {
            without_own_filter: self.without_own_filter,
            watches_calls: self.watches_calls,
            supervisor: None,
            limits: limits::of_processes(&self.limits),
            broker: network.map(|network| Broker {
                decides: host_network(network),
                granted: network.to_string().lines().map(str::to_owned).collect(),
                has_users: false,
                environment: Vec::new(),
                files: files(network, folder),
            }),
        }
    }

    /// Has the stricter of two limits in the specification.
    pub(crate) fn narrow(&self, spec: &mut Spec) -> anyhow::Result<bool> {
        limits::narrow(&self.limits, spec)
    }
}

/// A supervisor's files.
pub(crate) const HOSTS: &str = "hosts";
pub(crate) const RESOLVER: &str = "resolv.conf";

fn files(network: &Network, folder: &Path) -> Vec<(PathBuf, PathBuf)> {
    let hosts = (folder.join(HOSTS), "/etc/hosts".into());
    let resolver = network
        .resolver_file()
        .map(|_| (folder.join(RESOLVER), "/etc/resolv.conf".into()));
    [hosts].into_iter().chain(resolver).collect()
}

/// How a container's `/etc/hosts` begins: with its own names.
pub(crate) fn hosts_head(spec: &Spec) -> String {
    let name = spec.hostname().as_deref().unwrap_or_default();
    format!("127.0.0.1 localhost {name}\n::1 localhost\n")
}

fn list<T>(text: Option<&str>, name: &str) -> anyhow::Result<Vec<T>>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let parts = text
        .unwrap_or_default()
        .split([',', ' ', '\t', '\n'])
        .filter(|part| !part.is_empty());
    parts
        .map(|part| {
            part.parse()
                .with_context(|| format!("policy: the annotation {name}: {part:?}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(annotations: &[(&str, &str)], allowed: &[&str]) -> Result<Asked, String> {
        let values: BTreeMap<&str, &str> = annotations.iter().copied().collect();
        let load = || Ok(Administrator::of(allowed, Path::new("/nowhere")));
        Asked::of_values(&values, &load).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn what_gives_something_is_the_administrators_to_allow() {
        for annotation in [
            (SECCOMP, "engine"),
            (NETWORK, "broker"),
            (CONNECT, "tcp://127.0.0.1:1"),
            (LISTEN, "tcp://127.0.0.1:1"),
            (POLICY, "any"),
            (WATCH, "calls"),
        ] {
            let refused = asked(&[annotation], &[]).unwrap_err();
            assert!(refused.contains("containers.toml"), "{refused}");
            assert!(refused.contains(annotation.0), "{refused}");
        }
        for annotation in [(SECCOMP, "both"), (NETWORK, "engine")] {
            assert_eq!(asked(&[annotation], &[]), Ok(Asked::default()));
        }
    }

    #[test]
    fn grants_take_a_broker() {
        let allowed = [NETWORK, CONNECT, LISTEN, SECCOMP];
        let grant = (CONNECT, "tcp://127.0.0.1:5432, tcp://192.0.2.1:80");
        let refused = asked(&[grant], &allowed).unwrap_err();
        assert!(refused.contains("palisade.network=broker"), "{refused}");
        let granted = asked(&[(NETWORK, "broker"), grant], &allowed).unwrap();
        assert_eq!(granted.grants.unwrap().connect.len(), 2);
        let nothing = asked(&[(NETWORK, "broker")], &allowed).unwrap();
        assert_eq!(nothing.grants, Some(Grants::default()));
        let both = asked(&[(NETWORK, "broker"), (SECCOMP, "engine")], &allowed);
        assert!(both.is_err());
    }

    #[test]
    fn what_is_told_of_takes_a_filter() {
        let allowed = [WATCH, SECCOMP];
        assert!(asked(&[(WATCH, "calls")], &allowed).unwrap().watches_calls);
        assert!(asked(&[(WATCH, "files")], &allowed).is_err());
        assert!(asked(&[(WATCH, "calls"), (SECCOMP, "engine")], &allowed).is_err());
    }

    #[test]
    fn what_is_no_grant_is_refused_with_its_annotation() {
        let allowed = [NETWORK, CONNECT];
        let refused = asked(&[(NETWORK, "broker"), (CONNECT, "http://x")], &allowed);
        let refused = refused.unwrap_err();
        assert!(refused.contains(CONNECT), "{refused}");
    }
}
