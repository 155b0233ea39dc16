//! Files of variables that a policy names.

use crate::read;
use anyhow::{Context, bail};
use palisade_policy::{EnvGrant, Policy};
use palisade_wall::View;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Such a file is written by hand.
const MOST_BYTES: u64 = 1 << 20;

/// What the files say that a policy named, and where they lie.
pub struct EnvFiles {
    paths: Vec<PathBuf>,
    grants: Vec<EnvGrant>,
}

impl EnvFiles {
    /// Reads a policy's files, once each, and takes them out of it.
    pub fn take(policy: &mut Policy) -> anyhow::Result<Self> {
        let paths = std::mem::take(&mut policy.grants.env_files);
        let mut grants = Vec::new();
        for path in &paths {
            let variables = read_file(path);
            let fault = || {
                format!(
                    "policy: cannot use the file of variables {}",
                    path.display()
                )
            };
            grants.append(&mut variables.with_context(fault)?);
        }
        Ok(Self { paths, grants })
    }

    /// Where they lie.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Each name and its value.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        let pairs = self.grants.iter().filter_map(|grant| {
            let value = grant.value.as_ref()?;
            Some((OsString::from(&grant.name), OsString::from(value)))
        });
        pairs.collect()
    }

    /// The policy with what they say as grants of `env`, of which those that the policy has win, and without their
    /// paths. For a plan: whoever prints it as flags would print values.
    #[must_use]
    pub fn read_into(&self, policy: &Policy) -> Policy {
        let mut policy = policy.clone();
        policy.grants.env_files.clear();
        policy.grants.env.splice(0..0, self.grants.iter().cloned());
        policy
    }

    /// A guest that can write such a file chooses the variables of the next.
    pub fn refuse_in_reach(&self, view: &dyn View) -> anyhow::Result<()> {
        if let Some(path) = view.find_changeable(&mut self.paths.iter().cloned()) {
            bail!(
                "policy: the guest could rewrite the file of variables {}: keep it outside the granted folder",
                path.display()
            );
        }
        Ok(())
    }
}

fn read_file(path: &Path) -> anyhow::Result<Vec<EnvGrant>> {
    let text = read::text_of(read::read_regular_file(path, MOST_BYTES)?)?;
    Ok(palisade_policy::parse_env_file(&text)?)
}
