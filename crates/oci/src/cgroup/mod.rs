//! Control groups of a container: where the engine says, in the version that the machine has.
//!
//! They are made by who creates the container and joined by its first process itself, and removed by `delete`. What an engine
//! asks for and the version has no file for is refused by name.

mod devices;
mod place;
mod settings;
mod systemd;
mod usage;
mod v1;
mod v2;

use crate::wait::wait_a_moment;
use anyhow::{Context, bail};
use oci_spec::runtime::LinuxResources;
use palisade_process::kernel_file;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::ErrorKind,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Which interface they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Version {
    /// There are none, or none that this user may make.
    #[default]
    None,
    One,
    Two,
}

/// One group: a folder, of the hierarchy with these controllers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    /// As `/proc/self/cgroup` names them; nothing in version 2.
    pub(crate) controllers: String,
    pub(crate) folder: PathBuf,
    /// Where the hierarchy is mounted.
    pub(crate) mount: PathBuf,
    /// It was not there, or nothing was in it: what is in it is the container's, and it goes with that.
    #[serde(default)]
    pub(crate) is_ours: bool,
}

/// Those of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Groups {
    pub(crate) version: Version,
    pub(crate) all: Vec<Group>,
    /// The unit of systemd's that they are, if it makes them.
    #[serde(default)]
    pub(crate) unit: Option<Unit>,
}

/// A transient unit (org.freedesktop.systemd1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unit {
    pub(crate) name: String,
    pub(crate) slice: String,
    /// Of the user's own instance.
    pub(crate) of_user: bool,
}

/// How long a group may take to be empty once its processes have ended.
const PATIENCE: Duration = Duration::from_secs(10);

impl Groups {
    /// Where the engine's path leads.
    pub(crate) fn plan(path: Option<&Path>, id: &str) -> anyhow::Result<Self> {
        place::find(path, id)
    }

    /// The same where systemd makes them: `SLICE:PREFIX:NAME`.
    pub(crate) fn plan_unit(path: Option<&Path>, id: &str, of_user: bool) -> anyhow::Result<Self> {
        let unit = systemd::unit(path, id, of_user)?;
        let mut groups = place::find(Some(&systemd::place(&unit)?), id)?;
        groups.unit = Some(unit);
        Ok(groups)
    }

    /// Makes sure that they are nobody else's. What is in use is not taken: at the end it would be ended.
    pub(crate) fn claim(&mut self) -> anyhow::Result<()> {
        self.refuse_frozen()?;
        for group in &self.all {
            let is_root = group.folder == group.mount;
            let mut pids = Vec::new();
            list(&group.folder, &mut pids)?;
            if is_root || !pids.is_empty() {
                bail!(
                    "policy: linux.cgroupsPath: the control group {:?} is in use",
                    group.folder
                );
            }
        }
        // Only now: of what is refused nothing is removed.
        for group in &mut self.all {
            group.is_ours = true;
        }
        Ok(())
    }

    /// In a frozen group the container's first process would stand still, and who creates it wait for that for ever.
    fn refuse_frozen(&self) -> anyhow::Result<()> {
        let Some(folder) = self.folder_of("freezer") else {
            return Ok(());
        };
        let there = folder.ancestors().find(|folder| folder.exists());
        match there {
            Some(there) if self.stands_still(there) => bail!(
                "policy: linux.cgroupsPath: the control group {there:?} is frozen, and nothing can be started in it"
            ),
            _ => Ok(()),
        }
    }

    /// Has systemd make them around a process. What they hold is set by [`Groups::make`] then.
    pub(crate) fn adopt(&self, pid: u32) -> anyhow::Result<()> {
        match &self.unit {
            Some(unit) => systemd::start(unit, pid, &self.all, PATIENCE),
            None => Ok(()),
        }
    }

    /// Makes them, and sets what the engine asks for. An ordinary user does without those that nobody lets him make, unless
    /// there is something to hold.
    pub(crate) fn make(
        &mut self,
        resources: Option<&LinuxResources>,
        lenient: bool,
    ) -> anyhow::Result<()> {
        let mut made = Vec::new();
        for group in &self.all {
            match self.version {
                Version::Two => v2::make(group),
                _ => v1::make(group),
            }
            .map_or_else(
                |error| match error.kind() {
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem if lenient => {
                        Ok(())
                    }
                    _ => {
                        Err(error).with_context(|| format!("host: cannot make {:?}", group.folder))
                    }
                },
                |()| {
                    made.push(group.clone());
                    Ok(())
                },
            )?;
        }
        self.all = made;
        if self.all.is_empty() {
            self.version = Version::None;
        }
        let rules = resources.and_then(|resources| resources.devices().as_deref());
        self.allow_devices(rules.unwrap_or_default(), lenient)?;
        match resources {
            Some(resources) => self.set(resources, lenient),
            None => Ok(()),
        }
    }

    /// Sets what the engine asks for.
    pub(crate) fn set(&self, resources: &LinuxResources, lenient: bool) -> anyhow::Result<()> {
        let all = settings::of(resources, self.version)?;
        let has_quota = all.iter().any(|setting| setting.name == "cpu.quota");
        // With the quota of before, a shorter period can be more than the group above has: the kernel takes it after the new quota.
        let mut period = None;
        for setting in all {
            let Some(folder) = self.folder_of(setting.controller) else {
                if setting.may_be_missing || lenient && setting.controller == "devices" {
                    continue;
                }
                bail!(
                    "policy: resources.{} takes the {} controller, which this machine does not have or this user may not use",
                    setting.name,
                    setting.controller
                );
            };
            match settings::write(folder, &setting) {
                Err(_) if has_quota && setting.name == "cpu.period" => period = Some(setting),
                written => written?,
            }
        }
        match (period, self.folder_of("cpu")) {
            (Some(period), Some(folder)) => settings::write(folder, &period),
            _ => Ok(()),
        }
    }

    /// Without a rule those that every container has.
    fn allow_devices(
        &self,
        rules: &[oci_spec::runtime::LinuxDeviceCgroup],
        lenient: bool,
    ) -> anyhow::Result<()> {
        let Some(folder) = self.folder_of("devices") else {
            // Nobody but who may make devices needs to be kept from them.
            return match lenient || self.version == Version::None {
                true => Ok(()),
                false => bail!(
                    "host: there is no devices controller, and resources.devices cannot be held"
                ),
            };
        };
        let held = match self.version {
            Version::Two => devices::hold_by_program(folder, rules),
            _ => devices::hold_by_list(folder, rules),
        };
        match held {
            Err(error) if lenient => {
                let refused = error
                    .downcast_ref::<std::io::Error>()
                    .is_some_and(|error| error.kind() == ErrorKind::PermissionDenied);
                if refused { Ok(()) } else { Err(error) }
            }
            held => held,
        }
    }

    /// Of the hierarchy that has this controller.
    pub(crate) fn folder_of(&self, controller: &str) -> Option<&Path> {
        let mut groups = self.all.iter();
        let group = match self.version {
            Version::Two => groups.next(),
            _ => groups.find(|group| group.controllers.split(',').any(|one| one == controller)),
        };
        group.map(|group| group.folder.as_path())
    }

    /// Files by which a process joins them by itself.
    pub(crate) fn open(&self) -> anyhow::Result<Vec<OwnedFd>> {
        let file = match self.version {
            Version::Two => "cgroup.procs",
            _ => "tasks",
        };
        let open = |group: &Group| {
            let path = group.folder.join(file);
            File::options()
                .write(true)
                .open(&path)
                .map(OwnedFd::from)
                .with_context(|| format!("host: cannot open {path:?}"))
        };
        self.all.iter().map(open).collect()
    }

    /// Where one of them lists its processes.
    pub(crate) fn processes_file(&self) -> Option<PathBuf> {
        let group = self.all.first()?;
        Some(group.folder.join("cgroup.procs"))
    }

    /// All processes in them, those of groups below included.
    pub(crate) fn processes(&self) -> anyhow::Result<Vec<u32>> {
        let mut pids = Vec::new();
        if let Some(group) = self.all.first() {
            list(&group.folder, &mut pids)?;
        }
        pids.sort_unstable();
        Ok(pids)
    }

    /// Stops all of them where they are, or lets them go on.
    pub(crate) fn freeze(&self, frozen: bool) -> anyhow::Result<()> {
        let (file, word) = match (self.version, frozen) {
            (Version::Two, true) => ("cgroup.freeze", "1"),
            (Version::Two, false) => ("cgroup.freeze", "0"),
            (_, true) => ("freezer.state", "FROZEN"),
            (_, false) => ("freezer.state", "THAWED"),
        };
        let folder = self
            .folder_of("freezer")
            .context("host: there is no freezer, and the container cannot be paused")?;
        let path = folder.join(file);
        fs::write(&path, word).with_context(|| format!("host: cannot write {path:?}"))?;
        let began = Instant::now();
        while self.is_frozen() != frozen {
            if began.elapsed() > PATIENCE {
                bail!("host: the container's processes do not stop or go on");
            }
            if self.version != Version::Two && frozen {
                // One that forked meanwhile is missed until it is asked again (freezer-subsystem.rst).
                fs::write(&path, word)?;
            }
            wait_a_moment();
        }
        Ok(())
    }

    pub(crate) fn is_frozen(&self) -> bool {
        let Some(folder) = self.folder_of("freezer") else {
            return false;
        };
        self.stands_still(folder)
    }

    fn stands_still(&self, folder: &Path) -> bool {
        match self.version {
            Version::Two => fs::read_to_string(folder.join("cgroup.events"))
                .is_ok_and(|events| events.lines().any(|line| line == "frozen 1")),
            _ => fs::read_to_string(folder.join("freezer.state"))
                .is_ok_and(|state| state.trim() == "FROZEN"),
        }
    }

    /// What it uses.
    pub(crate) fn usage(&self) -> serde_json::Value {
        usage::of(self)
    }

    /// How many of its processes the kernel has ended for want of memory.
    pub(crate) fn kills_for_memory(&self) -> u64 {
        usage::kills_for_memory(self)
    }

    /// Those of a process that is put into groups below: `[CONTROLLER[,CONTROLLER]:]PATH`.
    pub(crate) fn below(&self, places: &[String]) -> anyhow::Result<Self> {
        let mut groups = self.clone();
        for place in places {
            let (controllers, path) = match place.split_once(':') {
                Some((controllers, path)) => (Some(controllers), path),
                None => (None, place.as_str()),
            };
            let below = place::below(path)?;
            let is_meant = |group: &Group| {
                controllers.is_none_or(|named| {
                    named
                        .split(',')
                        .any(|one| group.controllers.split(',').any(|its| its == one))
                })
            };
            let mut found = groups
                .all
                .iter_mut()
                .filter(|group| is_meant(group))
                .peekable();
            if found.peek().is_none() {
                bail!("policy: --cgroup: there is no control group {place:?}");
            }
            found.for_each(|group| group.folder.push(&below));
        }
        Ok(groups)
    }

    /// Ends what is in them and removes them.
    pub(crate) fn remove(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        let ours = || self.all.iter().filter(|group| group.is_ours);
        while let pids @ [_, ..] = &*self.own_processes()? {
            for pid in pids {
                if let Some(pid) = rustix::process::Pid::from_raw(*pid as i32) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
            if self.is_frozen() {
                self.freeze(false)?;
            }
            if began.elapsed() > PATIENCE {
                bail!("host: processes of the container do not end");
            }
            wait_a_moment();
        }
        if let Some(unit) = &self.unit {
            systemd::stop(unit);
        }
        for group in ours() {
            remove_tree(&group.folder, began + PATIENCE)?;
        }
        Ok(())
    }

    fn own_processes(&self) -> anyhow::Result<Vec<u32>> {
        match self.all.first() {
            Some(group) if group.is_ours => self.processes(),
            _ => Ok(Vec::new()),
        }
    }
}

fn list(folder: &Path, pids: &mut Vec<u32>) -> anyhow::Result<()> {
    let text = match kernel_file::text(folder.join("cgroup.procs")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        // A threaded group of version 2 lists none here.
        Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
            String::new()
        }
        text => text?,
    };
    pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    for below in fs::read_dir(folder)?.flatten() {
        if below.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&below.path(), pids)?;
        }
    }
    Ok(())
}

/// The kernel lets a group go a moment after its last process has ended.
fn remove_tree(folder: &Path, until: Instant) -> anyhow::Result<()> {
    // Mostly nobody has made a group below, and a list of its many files is not looked at.
    let below = match fs::remove_dir(folder) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(_) => fs::read_dir(folder)?,
    };
    for entry in below.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path(), until)?;
        }
    }
    loop {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.raw_os_error() == Some(Errno::BUSY.raw_os_error())
                    && Instant::now() < until =>
            {
                wait_a_moment();
            }
            removed => {
                return removed.with_context(|| format!("host: cannot remove {folder:?}"));
            }
        }
    }
}
