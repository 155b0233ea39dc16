//! The steps of building a domain's file system, as data: what a layout comes to, a plan lists and the launch has
//! carried out.

mod attributes;
mod display;

pub use attributes::Attributes;

use crate::host::Identity;
use serde::Serialize;
use std::{path::PathBuf, sync::Arc};

/// One step of building the domain's file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// A `tmpfs` as the domain's root.
    MakeRoot {
        /// Its size in bytes.
        size_bytes: u64,
        /// How many files it can hold.
        inodes: u64,
    },
    /// A folder of the root.
    MakeFolder {
        /// Where.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
    },
    /// A symlink of the root.
    MakeSymlink {
        /// Where.
        path: PathBuf,
        /// What it says.
        target: PathBuf,
    },
    /// A small file of the root.
    WriteFile {
        /// Where.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
        /// What is in it.
        #[serde(serialize_with = "lossy")]
        content: Arc<[u8]>,
    },
    /// A host path, mounted with all below it.
    Mount {
        /// The path on the host, without links.
        source: PathBuf,
        /// The file it must still be.
        identity: Identity,
        /// Whose files the guest shall own inside, where palisade runs as root.
        owner: Option<(u32, u32)>,
        /// Its permission bits let anybody use it.
        open_to_all: bool,
        /// What can't be done through the mount.
        attributes: Attributes,
        /// All that leads there is the domain's own, and no link.
        #[serde(skip)]
        is_own_place: bool,
        /// Where it appears.
        target: PathBuf,
    },
    /// A path mounted on itself, to change what can be done there or to hold it in place.
    Remount {
        /// The path.
        target: PathBuf,
        /// Attributes to add.
        set: Attributes,
        /// Attributes to take away.
        clear: Attributes,
    },
    /// Names at which nothing is found lie over a folder that is mounted for reading (overlayfs).
    Hide {
        /// The folder.
        target: PathBuf,
        /// The folders in it that lead to them, and its own, each with its permission bits.
        folders: Vec<(PathBuf, u32)>,
        /// The names, from there on.
        names: Vec<PathBuf>,
        /// What can't be done through the mount.
        attributes: Attributes,
    },
    /// Something empty and read-only lies over what is there.
    Cover {
        /// The path.
        target: PathBuf,
        /// A folder rather than a file.
        folder: bool,
    },
    /// From now on it is noticed when somebody outside moves what lies at a path, which the next mount is
    /// to stand on.
    Watch {
        /// The path.
        target: PathBuf,
    },
    /// The domain ends when one of these is no mount any more.
    Guard {
        /// The paths.
        targets: Vec<PathBuf>,
    },
    /// Something of the domain's own `tmpfs`, mounted into the folder that becomes the root.
    Show {
        /// Where it lies.
        source: PathBuf,
        /// Attributes to add, not to what is mounted below.
        set: Attributes,
        /// Where it appears.
        target: PathBuf,
    },
    /// `/proc` of the domain's own processes, read-only.
    MountProc {
        /// Where.
        target: PathBuf,
    },
    /// The same for init alone: no path leads there.
    OpenProc,
    /// Terminals of the domain's own.
    MountTerminals {
        /// Where.
        target: PathBuf,
    },
    /// The host's file system becomes unreachable. The root is the domain's `tmpfs`, read-only, or else a granted
    /// folder, as it was mounted.
    LeaveHost {
        /// Where that folder is mounted.
        #[serde(skip_serializing_if = "Option::is_none")]
        root: Option<PathBuf>,
    },
    /// The domain's host name.
    NameHost {
        /// The name.
        name: String,
    },
}

/// An empty file or folder that palisade makes on the host and takes away at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placeholder {
    /// Where, on the host.
    pub path: PathBuf,
    /// The folder it lies in: the launch makes it nowhere else.
    pub parent: Identity,
    /// A folder rather than a file.
    pub folder: bool,
    /// It is for the guest to fill, and stays.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub to_fill: bool,
}

fn lossy<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}
