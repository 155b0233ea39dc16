//! A domain's groups: made, entered, read and removed.
//!
//! ```text
//!   create ──▶ entered ──▶ usage ──▶ remove
//!                │
//!                ├─ version 2: born into it, clone3(CLONE_INTO_CGROUP) with open_v2_dir
//!                └─ version 1: the process writes "0" into each of open_tasks itself
//! ```
//!
//! How a process gets in matters. Whoever writes another's id into `cgroup.procs`, or `tasks`,
//! takes `cgroup_threadgroup_rwsem` for writing and waits for an RCU grace period: 7 ms on an
//! otherwise idle machine, and every fork on the machine waits with it. A single-threaded process
//! that writes `0` into `tasks` moves without that lock (commit 9a3284fad42f): 4 µs per group.
//! The permission is that of whoever opened the file, so the supervisor opens and the child writes.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    process::Pid,
};
use thiserror::Error;

use super::{
    detect::{Controller, Version},
    freezer::Freezer,
    meter::MemoryMeter,
    name::LeafName,
    plan::{Enable, Placement, Plan, freezes},
    settings::Setting,
    tree::{Kernel, Tree},
    usage::Usage,
};

/// How long a group may stay busy after its last process has exited.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The groups of one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a leaf stays until it is removed"]
pub struct Leaf {
    groups: Vec<Group>,
    skipped: Vec<Setting>,
}

/// One group of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) version: Version,
    pub(super) controllers: Vec<Controller>,
    pub(super) dir: PathBuf,
}

/// What a group is called below a leaf that can be frozen. The domain lives there, and what of ours is charged to the leaf
/// beside it: that must run to end.
pub(super) const FROZEN: &str = "guest";

impl Group {
    /// The group that is frozen, if one is.
    fn frozen(&self) -> Option<PathBuf> {
        freezes(self.version, &self.controllers).then(|| self.dir.join(FROZEN))
    }

    /// Where the domain's processes are.
    fn place(&self) -> PathBuf {
        self.frozen().unwrap_or_else(|| self.dir.clone())
    }
}

/// A file of a leaf that tells the processor time of all its processes, those included that ended and
/// that nobody waited for.
#[derive(Debug)]
pub struct CpuCounter {
    /// Open for reading. The first number in it counts.
    pub file: OwnedFd,
    /// What the number counts, in ns.
    pub unit_ns: u32,
}

/// Why a leaf could not be made. What had been made of it is gone again.
#[derive(Debug, Error)]
pub enum CreateError {
    /// The supervisor could not leave its group.
    #[error("host: cannot move palisade itself into cgroup {}; is it delegated?", dir.display())]
    MoveSelf {
        /// Where to.
        dir: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// A group would not hand its controllers on.
    #[error("host: cgroup {} does not hand on {value}; is it delegated and empty?", dir.display())]
    Enable {
        /// The group.
        dir: PathBuf,
        /// What was written into its `cgroup.subtree_control`.
        value: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// A group could not be made.
    #[error("host: cannot make cgroup {}; `palisade doctor` says what is missing", dir.display())]
    MakeGroup {
        /// The group.
        dir: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// A limit could not be set.
    #[error("host: cannot write {value} to {}; is the limit within this machine?", file.display())]
    Set {
        /// The file.
        file: PathBuf,
        /// The value.
        value: String,
        /// What the kernel says.
        source: io::Error,
    },
}

/// Why a process could not be put into a leaf.
#[derive(Debug, Error)]
#[error("host: cannot enter cgroup {}; was it removed from outside?", path.display())]
pub struct EnterError {
    path: PathBuf,
    source: io::Error,
}

/// Why a leaf is still there.
#[derive(Debug, Error)]
#[error("host: cannot remove cgroup {}; does a process still live in it?", dir.display())]
pub struct RemoveError {
    dir: PathBuf,
    source: io::Error,
}

impl Leaf {
    /// Makes every group of the plan and writes its limits.
    ///
    /// # Errors
    ///
    /// When the kernel refuses a step. Nothing of the leaf is left then; groups that leaves are
    /// collected in may be.
    pub fn create(plan: &Plan, name: &LeafName) -> Result<Self, CreateError> {
        Self::create_in(&Kernel, plan, name)
    }

    pub(super) fn create_in(
        tree: &impl Tree,
        plan: &Plan,
        name: &LeafName,
    ) -> Result<Self, CreateError> {
        let mut leaf = Self {
            groups: Vec::new(),
            skipped: Vec::new(),
        };
        for placement in &plan.placements {
            if let Err(error) = leaf.add(tree, placement, name) {
                leaf.undo(tree);
                return Err(error);
            }
        }
        Ok(leaf)
    }

    fn add(
        &mut self,
        tree: &impl Tree,
        placement: &Placement,
        name: &LeafName,
    ) -> Result<(), CreateError> {
        if let Some(dir) = &placement.move_self {
            move_self(tree, dir)?;
        }
        for enable in &placement.enable {
            hand_on(tree, enable)?;
        }
        let dir = placement.leaf_dir(name);
        make_leaf(tree, &dir)?;
        self.groups.push(Group {
            version: placement.version,
            controllers: placement.controllers.clone(),
            dir: dir.clone(),
        });
        for setting in &placement.settings {
            self.set(tree, &dir, setting)?;
        }
        match self.groups.last().and_then(Group::frozen) {
            Some(frozen) => tree.make(&frozen).map_err(make_error(&frozen)),
            None => Ok(()),
        }
    }

    fn set(&mut self, tree: &impl Tree, dir: &Path, setting: &Setting) -> Result<(), CreateError> {
        let file = dir.join(setting.file);
        match tree.write(&file, &setting.value) {
            Err(error) if setting.optional && error.kind() == io::ErrorKind::NotFound => {
                self.skipped.push(setting.clone());
                Ok(())
            }
            written => written.map_err(|source| CreateError::Set {
                file,
                value: setting.value.clone(),
                source,
            }),
        }
    }

    /// Nothing has entered yet, so nothing can be busy; a group that stays all the same is swept
    /// later.
    fn undo(&self, tree: &impl Tree) {
        for group in self.groups.iter().rev() {
            for dir in group.frozen().iter().chain([&group.dir]) {
                let _ = tree.remove(dir);
            }
        }
    }

    /// The groups' directories, for whoever must remove them when this process cannot.
    pub fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.groups.iter().map(|group| group.dir.as_path())
    }

    /// Optional settings that this kernel has no file for: swap that is not bounded, say.
    #[must_use]
    pub fn skipped(&self) -> &[Setting] {
        &self.skipped
    }

    /// The group of version 2, if there is one, for `clone3(CLONE_INTO_CGROUP)`.
    ///
    /// # Errors
    ///
    /// When the group is gone.
    pub fn open_v2_dir(&self) -> Result<Option<OwnedFd>, EnterError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let places = self.of_version(Version::V2).map(Group::place);
        let mut opened = places.map(|place| open_file(place, flags));
        opened.next().transpose()
    }

    /// The `tasks` file of each group of version 1, for a single-threaded process to write `0`
    /// into. It may be of any user.
    ///
    /// # Errors
    ///
    /// When a group is gone.
    pub fn open_tasks(&self) -> Result<Vec<OwnedFd>, EnterError> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        self.of_version(Version::V1)
            .map(|group| open_file(group.dir.join("tasks"), flags))
            .collect()
    }

    /// The part of the leaf that is there for one of these: as [`Leaf::open_v2_dir`] and [`Leaf::open_tasks`]
    /// give the whole. Nothing in it is frozen with the domain.
    ///
    /// # Errors
    ///
    /// When a group is gone.
    pub fn open_part(
        &self,
        controllers: &[Controller],
    ) -> Result<(Option<OwnedFd>, Vec<OwnedFd>), EnterError> {
        let is_for = |group: &&Group| {
            group
                .controllers
                .iter()
                .any(|one| controllers.contains(one))
        };
        let mut groups: Vec<_> = self.groups.iter().filter(is_for).cloned().collect();
        for group in &mut groups {
            group
                .controllers
                .retain(|controller| *controller != Controller::Freezer);
        }
        let part = Self {
            groups,
            skipped: Vec::new(),
        };
        Ok((part.open_v2_dir()?, part.open_tasks()?))
    }

    /// Where processor time is counted, if the leaf is there to count it.
    ///
    /// # Errors
    ///
    /// When the group is gone.
    #[doc(alias = "cpuacct.usage")]
    pub fn open_cpu_counter(&self) -> Result<Option<CpuCounter>, EnterError> {
        let Some((path, unit_ns)) = self.cpu_counter() else {
            return Ok(None);
        };
        let file = open_file(path, OFlags::RDONLY | OFlags::CLOEXEC)?;
        Ok(Some(CpuCounter { file, unit_ns }))
    }

    /// Its path, and the ns in its unit: `cpu.stat` begins with `usage_usec`.
    pub(super) fn cpu_counter(&self) -> Option<(PathBuf, u32)> {
        let counts = |group: &&Group| group.controllers.contains(&Controller::Cpuacct);
        let group = self.groups.iter().find(counts)?;
        Some(match group.version {
            Version::V2 => (group.dir.join("cpu.stat"), 1000),
            Version::V1 => (group.dir.join("cpuacct.usage"), 1),
        })
    }

    /// Moves a process with all its threads into every group from outside: the slow way in, for
    /// one that exists already.
    ///
    /// # Errors
    ///
    /// When a group or the process is gone, or the process is another user's.
    pub fn add_process(&self, pid: Pid) -> Result<(), EnterError> {
        self.add_process_in(&Kernel, pid)
    }

    pub(super) fn add_process_in(&self, tree: &impl Tree, pid: Pid) -> Result<(), EnterError> {
        let pid = pid.as_raw_nonzero().to_string();
        self.groups.iter().try_for_each(|group| {
            let path = group.place().join("cgroup.procs");
            tree.write(&path, &pid)
                .map_err(|source| EnterError { path, source })
        })
    }

    /// What tells the memory of all its processes, if the leaf is there to bound it.
    #[must_use]
    pub fn memory_meter(&self) -> Option<MemoryMeter> {
        let bounds = |group: &&Group| group.controllers.contains(&Controller::Memory);
        let group = self.groups.iter().find(bounds)?;
        Some(MemoryMeter::new(group.version, group.dir.clone()))
    }

    /// What stops all its processes as one, if the leaf is there for that, and descriptors are left.
    #[must_use]
    pub fn freezer(&self) -> Option<Freezer> {
        let frozen = self.groups.iter().find_map(Group::frozen)?;
        Freezer::open(&frozen).ok()
    }

    fn of_version(&self, version: Version) -> impl Iterator<Item = &Group> {
        let groups = self.groups.iter();
        groups.filter(move |group| group.version == version)
    }

    /// Ends every process in the leaf at once, where the kernel can (version 2, Linux 5.14);
    /// `false` where it cannot.
    #[must_use]
    #[doc(alias = "cgroup.kill")]
    pub fn kill(&self) -> bool {
        self.kill_in(&Kernel)
    }

    pub(super) fn kill_in(&self, tree: &impl Tree) -> bool {
        self.of_version(Version::V2)
            .any(|group| tree.write(&group.dir.join("cgroup.kill"), "1").is_ok())
    }

    /// What the domain has used so far. To be read before the leaf is removed.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage_in(&Kernel)
    }

    /// The same with the most processes that there were.
    pub fn usage_with_processes(&self) -> Usage {
        self.usage_with_processes_in(&Kernel)
    }

    pub(super) fn usage_with_processes_in(&self, tree: &impl Tree) -> Usage {
        self.usage_in(tree).with_pids_peak(self.groups.iter(), tree)
    }

    pub(super) fn usage_in(&self, tree: &impl Tree) -> Usage {
        self.groups
            .iter()
            .map(|group| Usage::of(group, tree))
            .fold(Usage::default(), Usage::or)
    }

    /// Removes every group, once the domain's last process has been waited for.
    ///
    /// The kernel may still be unlinking it, so a busy group is tried again for up to a second.
    ///
    /// # Errors
    ///
    /// When a group is still busy then. The others are gone.
    pub fn remove(&self) -> Result<(), RemoveError> {
        self.remove_in(&Kernel, Instant::now() + REMOVE_TIMEOUT)
    }

    pub(super) fn remove_in(&self, tree: &impl Tree, until: Instant) -> Result<(), RemoveError> {
        let groups = self.groups.iter().rev();
        let dirs = groups.flat_map(|group| group.frozen().into_iter().chain([group.dir.clone()]));
        let removed = dirs.map(|dir| {
            remove_when_idle(tree, &dir, until).map_err(|source| RemoveError { dir, source })
        });
        removed.fold(Ok(()), Result::and)
    }
}

/// Where the leaves of this name will be: for each the open group that it stands in, made if it is missing,
/// and its name there. What lies in one comes before it.
///
/// # Errors
///
/// When a group cannot be made or opened.
pub fn places(plan: &Plan, name: &LeafName) -> Result<Vec<(OwnedFd, String)>, CreateError> {
    let mut places = Vec::new();
    for placement in &plan.placements {
        let leaf = placement.leaf_name(name);
        if freezes(placement.version, &placement.controllers) {
            let frozen = format!("{leaf}/{FROZEN}");
            places.push((open_or_make(&placement.parent)?, frozen));
        }
        places.push((open_or_make(&placement.parent)?, leaf));
    }
    Ok(places)
}

fn open_or_make(dir: &Path) -> Result<OwnedFd, CreateError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = match open(dir, flags, Mode::empty()) {
        Err(Errno::NOENT) => {
            make_if_missing(&Kernel, dir)?;
            open(dir, flags, Mode::empty())
        }
        opened => opened,
    };
    opened.map_err(|errno| make_error(dir)(errno.into()))
}

fn move_self(tree: &impl Tree, dir: &Path) -> Result<(), CreateError> {
    make_if_missing(tree, dir)?;
    tree.write(&dir.join("cgroup.procs"), "0")
        .map_err(|source| CreateError::MoveSelf {
            dir: dir.to_owned(),
            source,
        })
}

fn hand_on(tree: &impl Tree, enable: &Enable) -> Result<(), CreateError> {
    let dir = &enable.dir;
    make_if_missing(tree, dir)?;
    let names = enable
        .controllers
        .iter()
        .map(|controller| controller.name());
    let value = names
        .map(|name| format!("+{name}"))
        .collect::<Vec<_>>()
        .join(" ");
    tree.write(&dir.join("cgroup.subtree_control"), &value)
        .map_err(|source| CreateError::Enable {
            dir: dir.clone(),
            value,
            source,
        })
}

/// The group it stands in is there except the first time.
fn make_leaf(tree: &impl Tree, dir: &Path) -> Result<(), CreateError> {
    match (tree.make(dir), dir.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            make_if_missing(tree, parent)?;
            tree.make(dir).map_err(make_error(dir))
        }
        (made, _) => made.map_err(make_error(dir)),
    }
}

fn make_if_missing(tree: &impl Tree, dir: &Path) -> Result<(), CreateError> {
    match tree.make(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(make_error(dir)),
    }
}

fn make_error(dir: &Path) -> impl FnOnce(io::Error) -> CreateError {
    |source| CreateError::MakeGroup {
        dir: dir.to_owned(),
        source,
    }
}

fn open_file(path: PathBuf, flags: OFlags) -> Result<OwnedFd, EnterError> {
    open(&path, flags, Mode::empty()).map_err(|error| EnterError {
        path,
        source: error.into(),
    })
}

fn remove_when_idle(tree: &impl Tree, dir: &Path, until: Instant) -> io::Result<()> {
    for attempt in 0.. {
        match tree.remove(dir) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                tree.wait_for_exit(dir, attempt, until);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => return removed,
        }
    }
    Ok(())
}
