//! Facts: what is true of the host, as a guest that knows it would say it.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::Scene;
use super::effect::host_name;

/// See [`super::Witness::Fact`]. Paths are templates.
#[derive(Clone, Copy, Debug)]
pub enum Fact {
    /// The file's inode number.
    Inode(&'static str),
    /// The arena's host name.
    HostName,
    /// The kernel's name for its present run.
    BootId,
    /// A port that a server of the arena listens at and that the guest was not told.
    HiddenPort,
}

impl Fact {
    pub(super) fn look_up(self, scene: &Scene<'_>) -> String {
        match self {
            Self::Inode(file) => {
                let about = scene.layout.path(file).symlink_metadata();
                format!("inode {}\n", about.map_or(0, |about| about.ino()))
            }
            Self::HiddenPort => format!("socket at {}\n", scene.fixtures.hidden_port()),
            Self::BootId => {
                let name = fs::read_to_string("/proc/sys/kernel/random/boot_id");
                format!("boot {}", name.unwrap_or_default())
            }
            Self::HostName => format!("host name {}\n", host_name()),
        }
    }
}
