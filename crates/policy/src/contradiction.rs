//! What a policy cannot mean.

mod find;
mod network;

pub(crate) use find::{find_contradiction, find_unacceptable};
pub use network::NetworkContradiction;

use std::path::{Path, PathBuf};

use crate::{
    Access, Capability,
    quote::{quote, quote_path, visible},
    value::{MAX_CORES, Reason},
};

/// Two parts of a policy that exclude each other, or one that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Contradiction {
    /// A path that did not come through the parser and is relative or has `..`.
    #[error("the path {} is not absolute and free of `..`: write it in full", quote_path(.0))]
    UncleanPath(PathBuf),
    /// A variable that did not come through the parser and that no environment can hold.
    #[error("the variable {} cannot be granted: {reason}", quote(name))]
    Variable {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: Reason,
    },
    /// A file of variables that nobody has read.
    #[error(
        "the file of variables {} is not read here: only `palisade run`, `explain` and `cost` read such files; name the \
         variables with `env`",
        quote_path(.0)
    )]
    EnvFileUnread(PathBuf),
    /// A capability of which no machine enforces less by itself.
    #[error("`allow-degraded` has no effect on `{capability}`: {advice}")]
    NothingToAccept {
        /// The capability.
        capability: Capability,
        /// What to do instead.
        advice: &'static str,
    },
    /// A grant inside the domain where only palisade itself puts things.
    #[error(
        "nothing can be granted at {} inside the domain: {advice}",
        quote_path(guest)
    )]
    ReservedGuest {
        /// The path inside the domain.
        guest: PathBuf,
        /// What to do instead.
        advice: &'static str,
    },
    /// A host path that would open the host's processes or devices.
    #[error("the host's {} cannot be granted: {advice}", quote_path(host))]
    ReservedHost {
        /// The path on the host.
        host: PathBuf,
        /// What to do instead.
        advice: &'static str,
    },
    /// Two host paths in one place of the domain.
    #[error(
        "{} inside the domain is granted from two host paths, {} and {}: give one of them another \
         guest path, as in `{}:/other`",
        quote_path(guest),
        quote_path(first),
        quote_path(second),
        shown(second)
    )]
    TwoHosts {
        /// The path inside the domain.
        guest: PathBuf,
        /// One path on the host.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// Read and write of one path, in a policy that was not made from layers.
    #[error("{} is granted both for reading and for writing: keep one", quote_path(.0))]
    ReadAndWrite(PathBuf),
    /// A rule for writable places at a place that is not.
    #[error(
        "{access} {} has no effect, for nothing at or above it is writable: {}",
        quote_path(path), advise_writable(*access, path, seen_at.as_deref())
    )]
    NotWritable {
        /// The rule.
        access: Access,
        /// Its path inside the domain.
        path: PathBuf,
        /// Where the guest sees that path, if it was meant as a path on the host.
        seen_at: Option<PathBuf>,
    },
    /// A grant and its withdrawal.
    #[error(
        "{} is granted for writing and protected as a whole: grant it with read instead",
        quote_path(.0)
    )]
    ProtectedWhole(PathBuf),
    /// A protected path that can be written by another name.
    #[error(
        "{} is protected, but the guest can write the same path as {}: protect that too",
        quote_path(path),
        quote_path(other)
    )]
    ProtectedOnce {
        /// The protected path inside the domain.
        path: PathBuf,
        /// Its other name there.
        other: PathBuf,
    },
    /// A path that is hidden, and a grant at it or below.
    #[error(
        "{} is hidden, and {} is granted: drop one of them",
        quote_path(hidden),
        quote_path(grant)
    )]
    HiddenGrant {
        /// The hidden path inside the domain.
        hidden: PathBuf,
        /// What else the policy says of a path there.
        grant: PathBuf,
    },
    /// A network grant, or two.
    #[error(transparent)]
    Network(#[from] NetworkContradiction),
    /// A limit under which no program starts, or which no kernel can hold.
    #[error("the limit {limit} = {given} is too small: the least that makes sense is {least}")]
    LimitTooSmall {
        /// The limit's key.
        limit: &'static str,
        /// What it is.
        given: String,
        /// What it must be at least.
        least: String,
    },
    /// More processors than there can be.
    #[error("the limit cpu = {given} is not a number of cores: accepted is 0.01 to {MAX_CORES}")]
    Cores {
        /// What it is.
        given: String,
    },
}

fn advise_writable(access: Access, path: &Path, seen_at: Option<&Path>) -> String {
    let above = path.parent().unwrap_or(path);
    match (seen_at, access) {
        (Some(guest), _) => {
            format!(
                "name it as the guest sees it, `--{access} {}`",
                shown(guest)
            )
        }
        (None, Access::Exec) => format!(
            "what is readable may be executed without it; drop it, or `--write {}`",
            shown(path)
        ),
        (None, Access::Protect) => {
            format!(
                "drop it, or grant a folder above it with `--write {}`",
                shown(above)
            )
        }
        (None, _) => format!("drop it, or grant the place with `--write {}`", shown(path)),
    }
}

fn shown(path: &Path) -> String {
    visible(&path.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests;
