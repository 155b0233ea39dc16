//! The policy itself: everything a user asked for, as one value.

mod of_layer;

use std::{collections::BTreeSet, path::Path};

use crate::{
    Capability, Contradiction, Grants, Limits, NotUnicode, PolicyLayer, TomlError, WallKind,
    contradiction::{find_contradiction, find_unacceptable},
};

/// Everything a user asked for: where the guest runs, what it may reach, how much it may use.
///
/// The default is the read-only system view, no limit and no other grant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The wall asked for; `None` lets palisade choose by the kind of guest.
    pub wall: Option<WallKind>,
    /// What the guest may reach.
    pub grants: Grants,
    /// How much the guest may use.
    pub limits: Limits,
    /// Capabilities whose weaker enforcement the user accepted in writing.
    pub allow_degraded: BTreeSet<Capability>,
}

impl Policy {
    /// The policy that grants nothing at all, not even the read-only system view.
    pub fn nothing() -> Self {
        Self {
            grants: Grants::nothing(),
            ..Self::default()
        }
    }

    /// Lays layers over each other, the lowest first: the policy file, then the flags.
    ///
    /// Lists add up (an exact repetition counts once, the last value of an environment variable
    /// wins), anything single is taken from the highest layer that sets it, and what no layer
    /// sets is as in [`Policy::default`]. A path that ends up granted both for reading and for
    /// writing is writable.
    pub fn from_layers(layers: impl IntoIterator<Item = PolicyLayer>) -> Self {
        let layers = layers.into_iter();
        Self::of_layer(layers.fold(PolicyLayer::default(), PolicyLayer::overlaid_with))
    }

    /// Reads a policy file's text. `source_name` is what errors call it; relative paths are joined
    /// to `base_dir`, which should be the file's folder, absolute and free of symlinks.
    ///
    /// # Errors
    /// The first thing in `text` that is not a policy, shown with its line. Contradictions are
    /// left to [`Policy::validate`].
    pub fn from_toml(text: &str, source_name: &str, base_dir: &Path) -> Result<Self, PolicyError> {
        let layer = PolicyLayer::from_toml(text, source_name, base_dir)?;
        Ok(Self::from_layers([layer]))
    }

    /// Writes the policy as a policy file that reads back as the same policy.
    ///
    /// # Errors
    /// TOML is UTF-8: a path that is not cannot be written.
    pub fn to_toml(&self) -> Result<String, NotUnicode> {
        PolicyLayer::from(self.clone()).to_toml()
    }

    /// Finds mistakes, without looking at the machine.
    ///
    /// After `Ok`, every path is absolute and free of `..`, each guest path comes from one host
    /// path with one of read and write, each exec, ipc and protect path lies below a writable one,
    /// each network grant reads back from its text, each of the guest's ports is published once,
    /// and each limit is large enough for a program to start.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn validate(&self) -> Result<(), PolicyError> {
        let unaccepted = || find_unacceptable(&self.allow_degraded);
        match find_contradiction(&self.grants, &self.limits).or_else(unaccepted) {
            Some(found) => Err(found.into()),
            None => Ok(()),
        }
    }
}

/// Why a policy cannot be used. The fault is the policy's, never the guest's or the machine's.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// The policy file's text is not a policy.
    #[error(transparent)]
    Toml(#[from] TomlError),
    /// Two parts of the policy exclude each other, or one makes no sense.
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
}
