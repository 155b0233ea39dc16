//! The memory that a domain has now, as its group counts it.

use std::path::{Path, PathBuf};

use super::{
    detect::Version,
    tree::{Kernel, Tree},
};

/// Tells the memory of one domain: all its processes, its own file systems, and what the kernel keeps for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryMeter {
    version: Version,
    dir: PathBuf,
}

impl MemoryMeter {
    pub(super) fn new(version: Version, dir: PathBuf) -> Self {
        Self { version, dir }
    }

    /// In bytes, without pages of files that nobody has used for a while: the kernel lets those go before anybody goes
    /// without memory. `None` once the group is gone.
    #[must_use]
    #[doc(alias = "memory.current")]
    pub fn bytes(&self) -> Option<u64> {
        self.bytes_in(&Kernel)
    }

    pub(super) fn bytes_in(&self, tree: &impl Tree) -> Option<u64> {
        let (all, pages) = match self.version {
            Version::V2 => ("memory.current", "inactive_file "),
            Version::V1 => ("memory.usage_in_bytes", "total_inactive_file "),
        };
        let read = |file: &str| {
            let path: &Path = &self.dir.join(file);
            tree.read(path).ok()
        };
        let all: u64 = read(all)?.trim().parse().ok()?;
        let stat = read("memory.stat")?;
        let pages = stat.lines().find_map(|line| line.strip_prefix(pages));
        let pages: u64 = pages?.trim().parse().ok()?;
        Some(all.saturating_sub(pages))
    }
}
