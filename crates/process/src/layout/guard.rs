//! What git executes unasked in a checkout that is granted for writing: hooks, and programs that its settings name.
//!
//! A guest that may write them has its own programs run outside the wall, by whoever types `git status` there. So they
//! stay as they are, as if each had been written behind `--protect`, unless the policy says `guard = false`. What the
//! policy itself says of a path decides there.
//!
//! ```text
//!  checkout ─┬─ .git ─┬─ hooks, config, config.worktree
//!            │        ├─ commondir          leads to the settings of another folder
//!            │        └─ worktrees/* ─ commondir, gitdir, config.worktree
//!            └─ .git, a file: of a linked worktree or a submodule, leads to the folder
//! ```
//!
//! This is no wall around git. A repository that the guest makes in a folder of its own is not held, nor is one that it
//! puts into the index as a submodule, nor a `.git/commondir` that was not there: git refuses an empty one, so nothing
//! can keep its place. Nor is what the settings themselves lead to in the checkout, by `core.hooksPath` or `include.path`.

use super::{Layout, MountPoint};
use crate::{
    host::{Entry, Host, Kind},
    paths::join,
};
use palisade_policy::Policy;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Settings of a repository up to this size are read.
const SETTINGS_BYTES: u64 = 64 * 1024;
/// What of a linked worktree's own folder leads elsewhere, or is settings.
const OF_A_WORKTREE: [&str; 3] = ["commondir", "gitdir", "config.worktree"];

impl Layout {
    /// Protects git's own files in what is granted for writing.
    pub(super) fn add_guards(&mut self, policy: &Policy, host: &dyn Host) {
        if !policy.grants.guard {
            return;
        }
        let written = self.write_grants();
        let folders = written.filter(|grant| grant.found.kind == Kind::Folder);
        let found: Vec<PathBuf> = folders
            .flat_map(|grant| of_folder(host, &grant.found.canonical))
            .collect();
        for on_host in found {
            for guest in self.paths_inside(&on_host) {
                self.add_guard(guest);
            }
        }
    }

    /// Where write grants show a path of the host's, by the letter.
    fn paths_inside(&self, on_host: &Path) -> Vec<PathBuf> {
        let shown = self.write_grants().filter_map(|grant| {
            let below = on_host.strip_prefix(&grant.found.canonical).ok()?;
            let inside = join(grant.guest, below);
            (!below.as_os_str().is_empty() && self.is_uncovered(grant, &inside)).then_some(inside)
        });
        shown.collect()
    }

    fn add_guard(&mut self, guest: PathBuf) {
        let is_settled = self.mount_points.contains_key(&guest) || self.ipc.contains(&guest);
        if !is_settled && !self.is_read_only(&guest) {
            self.implied.insert(guest.clone());
            self.mount_points.insert(guest, MountPoint::Protected);
        }
    }

    /// Takes the guards away: without mounts nothing holds them.
    pub(crate) fn drop_guards(&mut self) {
        for guest in std::mem::take(&mut self.implied) {
            self.mount_points.remove(&guest);
        }
    }

    /// Paths that palisade protects of its own accord.
    pub(crate) fn guards(&self) -> impl Iterator<Item = &Path> {
        self.implied.iter().map(PathBuf::as_path)
    }
}

/// What to guard in a folder of the host's: it may be a checkout, or a repository itself.
pub(super) fn of_folder(host: &dyn Host, folder: &Path) -> Vec<PathBuf> {
    let git = folder.join(".git");
    match host.kind_and_mode(&git) {
        Ok((Kind::Folder, _)) => of_repository(host, &git),
        Err(Errno::NOENT | Errno::NOTDIR) if is_repository(host, folder) => {
            of_repository(host, folder)
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Vec::new(),
        // A file that leads to the repository, or a link.
        _ => vec![git],
    }
}

/// As git tells one, `is_git_directory`.
fn is_repository(host: &dyn Host, folder: &Path) -> bool {
    let is_there = |name: &str| host.kind_and_mode(&folder.join(name)).is_ok();
    ["HEAD", "objects", "refs"].into_iter().all(is_there)
}

fn of_repository(host: &dyn Host, repository: &Path) -> Vec<PathBuf> {
    let at = |name: &str| repository.join(name);
    let is_there = |path: &PathBuf| host.kind_and_mode(path) != Err(Errno::NOENT);
    let worktree_settings = at("config.worktree");
    let has_worktree_settings =
        is_there(&worktree_settings) || may_have_worktree_settings(host, &at("config"));
    let commondir = Some(at("commondir")).filter(is_there);
    let worktrees = at("worktrees");
    let of_worktrees = host
        .entries(&worktrees)
        .into_iter()
        .flat_map(|Entry { name, .. }| {
            let own = worktrees.join(name);
            OF_A_WORKTREE.map(|file| own.join(file))
        });
    [at("hooks"), at("config")]
        .into_iter()
        .chain(has_worktree_settings.then_some(worktree_settings))
        .chain(commondir)
        .chain(of_worktrees.filter(is_there))
        .collect()
}

/// Whether git would read a `config.worktree` that comes into being (`extensions.worktreeConfig`).
fn may_have_worktree_settings(host: &dyn Host, settings: &Path) -> bool {
    if host.kind_and_mode(settings) == Err(Errno::NOENT) {
        return false;
    }
    match host.content(settings, SETTINGS_BYTES) {
        Some(content) => content
            .to_ascii_lowercase()
            .windows(b"worktreeconfig".len())
            .any(|word| word == b"worktreeconfig"),
        None => true,
    }
}

#[cfg(test)]
mod tests;
