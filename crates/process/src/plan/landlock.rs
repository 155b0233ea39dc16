//! The Landlock domain of a guest.
//!
//! Beside namespaces it adds what mounts can't say: no signal and no abstract socket leaves the
//! domain, and no TCP. Rights on files are handled only where they add something, because any of
//! them costs 53 ns of every open (measured: 15 %):
//!
//! - where the guest can write to the host's disk, nothing but files, folders and links is made
//!   there: somebody else would meet a FIFO or socket of the guest's. Where somebody answers the guest's calls, its own process
//!   is not under these rules ([`Landlock::without_files`]): the few calls that make such files are carried out by a child of
//!   init's, which is;
//! - where an output is a file, which lies on a mount of the host's: opened anew through `/proc/self/fd`
//!   it must be neither read nor executed. (An input is opened through a read-only mount.)
//!
//! Without namespaces it is the file wall itself, and every right is handled.

use super::{PlanError, StreamFiles};
use crate::{
    host::Host,
    layout::Layout,
    machine::{Machine, Tier},
};
use palisade_policy::{Access, Capability, FileGrant, Policy};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// `LANDLOCK_ACCESS_FS_*`.
mod right {
    pub(super) const EXECUTE: u64 = 1;
    pub(super) const WRITE_FILE: u64 = 1 << 1;
    pub(super) const READ_FILE: u64 = 1 << 2;
    pub(super) const READ_DIR: u64 = 1 << 3;
    pub(super) const MAKE_CHAR: u64 = 1 << 6;
    pub(super) const MAKE_SOCK: u64 = 1 << 9;
    pub(super) const MAKE_FIFO: u64 = 1 << 10;
    pub(super) const MAKE_BLOCK: u64 = 1 << 11;
    pub(super) const REFER: u64 = 1 << 13;
    /// All of them, as of interface 5.
    pub(super) const ALL: u64 = (1 << 16) - 1;
    /// What only makes sense for a folder.
    pub(super) const OF_FOLDERS: u64 = READ_DIR | 0b11_1111_1111_0000 | REFER;
}

const READ: u64 = right::EXECUTE | right::READ_FILE | right::READ_DIR;
const SPECIAL: u64 = right::MAKE_CHAR | right::MAKE_BLOCK | right::MAKE_SOCK | right::MAKE_FIFO;
const WRITE: u64 = right::ALL & !right::EXECUTE & !SPECIAL;
/// What an output must not give. Reading is the dear one, for Landlock then walks the path at every open;
/// but mmap(2) executes what can be read, and Landlock is not asked then.
const BEYOND_OUTPUT: u64 = right::EXECUTE | right::READ_FILE;
/// Signals and abstract sockets are scoped from this interface on.
const SCOPES_ABI: u32 = 6;

/// Files of `/proc` that runtimes read to learn about the machine, and that tell nothing of other
/// processes.
const MACHINE_FILES: [&str; 6] = [
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/filesystems",
    "/proc/version",
    "/proc/sys/kernel/osrelease",
];

/// The Landlock domain of the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Landlock {
    /// The interface version it was made for.
    pub abi: u32,
    /// File rights that are denied unless a rule allows them (`LANDLOCK_ACCESS_FS_*`).
    pub files: u64,
    /// TCP rights, denied altogether (`LANDLOCK_ACCESS_NET_*`).
    pub network: u64,
    /// What may not reach outside (`LANDLOCK_SCOPE_*`).
    pub scopes: u64,
    /// Rights below paths.
    pub rules: Vec<LandlockRule>,
}

/// File rights below one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LandlockRule {
    /// The path, as the guest's process finds it.
    pub path: PathBuf,
    /// `LANDLOCK_ACCESS_FS_*`.
    pub rights: u64,
}

pub(super) fn domain(
    policy: &Policy,
    machine: &Machine,
    layout: &Layout,
    host: &dyn Host,
) -> Result<Option<Landlock>, PlanError> {
    let Some(abi) = machine.landlock_abi else {
        let accepted =
            policy.allow_degraded.contains(&Capability::Landlock) && machine.tier != Tier::Bare;
        return if accepted {
            Ok(None)
        } else {
            Err(PlanError::NoLandlock)
        };
    };
    let (files, rules) = match machine.tier {
        Tier::Bare if abi < SCOPES_ABI => return Err(PlanError::LandlockTooOld { abi }),
        Tier::Bare => (right::ALL, rules_of_files(policy, layout, host)?),
        _ => rules_beside_mounts(policy, layout, abi),
    };
    Ok(Some(Landlock {
        abi,
        files,
        network: if abi >= 4 { 0b11 } else { 0 },
        scopes: if abi >= SCOPES_ABI { 0b11 } else { 0 },
        rules,
    }))
}

/// Rights that are denied, and where they are not.
fn rules_beside_mounts(policy: &Policy, layout: &Layout, abi: u32) -> (u64, Vec<LandlockRule>) {
    if !layout.makes_files_on_host() {
        return (0, Vec::new());
    }
    let granted = ipc_grants(policy);
    let places = layout.ipc_folders();
    let rights = right::MAKE_SOCK | right::MAKE_FIFO;
    let mut rules: Vec<_> = places
        .chain(granted.map(|grant| grant.guest_path()))
        .map(|path| LandlockRule {
            path: path.into(),
            rights,
        })
        .collect();
    let refer = refer(abi);
    rules.push(LandlockRule {
        path: "/".into(),
        rights: refer,
    });
    (SPECIAL | refer, rules)
}

/// Linux 5.19 brought REFER; with any right handled and no rule for this one, no file moves between
/// folders.
fn refer(abi: u32) -> u64 {
    if abi >= 2 { right::REFER } else { 0 }
}

impl Landlock {
    /// Whether there is no right, no port and no scope that it takes away.
    #[must_use]
    pub fn denies_nothing(&self) -> bool {
        self.files | self.network | self.scopes == 0
    }

    /// The same with no right on files handled, which costs no open: for a guest whose sockets and FIFOs are made for it.
    /// What lies in a folder already it can move there, whatever it is.
    #[must_use]
    pub fn without_files(mut self) -> Self {
        self.files = 0;
        self.rules.clear();
        self
    }

    /// Whether no socket can be made in this folder.
    pub(super) fn denies_sockets_in(&self, folder: &Path) -> bool {
        let is_handled = self.files & right::MAKE_SOCK != 0;
        let mut rules = self.rules.iter();
        is_handled
            && !rules
                .any(|rule| folder.starts_with(&rule.path) && rule.rights & right::MAKE_SOCK != 0)
    }

    /// The same, with nothing executed but `program`; `false`, and unchanged, where no right on files is
    /// handled: it would cost every open.
    pub(super) fn execute_only(&mut self, program: &Path) -> bool {
        if self.files == 0 {
            return false;
        }
        self.files |= right::EXECUTE;
        for rule in &mut self.rules {
            rule.rights &= !right::EXECUTE;
        }
        self.rules.push(LandlockRule {
            path: program.into(),
            rights: right::EXECUTE,
        });
        true
    }

    /// The domain of a guest with these files for standard streams. What is more than a stream gives
    /// is handled, and allowed in the domain's own root, where no stream lies. A right that is handled
    /// anyway keeps its own rules.
    #[must_use]
    pub fn with_streams(mut self, files: StreamFiles) -> Self {
        let wanted = if files.output { BEYOND_OUTPUT } else { 0 };
        let beyond = wanted & !self.files;
        if beyond == 0 {
            return self;
        }
        let inside = beyond | refer(self.abi);
        self.files |= inside;
        self.rules.retain(|rule| rule.path != Path::new("/"));
        self.rules.push(LandlockRule {
            path: "/".into(),
            rights: inside,
        });
        self
    }

    /// Whether it has to do with what lies at a path: then it cannot be made before that is there.
    pub fn names_paths(&self) -> bool {
        self.files != 0 || !self.rules.is_empty()
    }

    /// The same with a folder in which the guest may do what it may in one granted for writing.
    #[must_use]
    pub fn with_temporary(mut self, folder: Option<&Path>) -> Self {
        self.rules.extend(folder.map(|folder| LandlockRule {
            path: folder.into(),
            rights: WRITE,
        }));
        self
    }
}

fn rules_of_files(
    policy: &Policy,
    layout: &Layout,
    host: &dyn Host,
) -> Result<Vec<LandlockRule>, PlanError> {
    refuse_devices(policy)?;
    let granted = layout.without_mounts()?.into_iter().map(|open| {
        let rights = if open.writable { WRITE } else { READ };
        let executable = if open.executable { right::EXECUTE } else { 0 };
        let mask = if open.is_folder {
            right::ALL
        } else {
            !right::OF_FOLDERS & right::ALL
        };
        LandlockRule {
            path: open.path,
            rights: (rights | executable) & mask,
        }
    });
    let machine = MACHINE_FILES
        .iter()
        .filter(|path| host.identify(Path::new(path)).is_ok());
    let machine = machine.map(|path| LandlockRule {
        path: path.into(),
        rights: right::READ_FILE,
    });
    Ok(granted
        .chain(ipc_rules(policy, layout))
        .chain(machine)
        .collect())
}

/// A device is of use for its requests, and the filter refuses most of them: it cannot see what they
/// are made of.
fn refuse_devices(policy: &Policy) -> Result<(), PlanError> {
    let Some(device) = policy.grants.devices.first() else {
        return Ok(());
    };
    Err(PlanError::NeedsMounts {
        path: device.path.clone(),
        why: if device.is_pts() {
            "it is a set of terminals of the guest's own"
        } else {
            "requests to a device cannot be told from those that change files"
        },
    })
}

fn ipc_grants(policy: &Policy) -> impl Iterator<Item = &FileGrant> {
    let files = policy.grants.files.iter();
    files.filter(|grant| grant.access == Access::Ipc)
}

/// Where sockets and FIFOs may be made, as far as that is on the host's disk.
fn ipc_rules(policy: &Policy, layout: &Layout) -> impl Iterator<Item = LandlockRule> {
    ipc_grants(policy)
        .filter(|grant| layout.can_write(grant.guest_path()))
        .map(|grant| LandlockRule {
            path: grant.guest_path().into(),
            rights: right::MAKE_SOCK | right::MAKE_FIFO,
        })
}

/// Without mounts, `WRITE_FILE` on a device is all it takes to use it.
const _: () = assert!(WRITE & right::WRITE_FILE != 0);
