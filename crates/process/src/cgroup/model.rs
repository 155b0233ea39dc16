//! A model of the kernel's cgroup trees, for tests: groups come with their files, and the rules
//! that a plan must respect are kept.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    process,
    time::Instant,
};

use super::{detect::Version, tree::Tree};

/// Trees of groups. Those of one hierarchy share a top.
#[derive(Default)]
pub(super) struct Model {
    groups: RefCell<BTreeMap<PathBuf, Group>>,
    /// Files that new groups lack.
    without: Vec<&'static str>,
    /// Files that refuse every value.
    broken: Vec<&'static str>,
    /// How often a removal was waited for.
    pub(super) waits: RefCell<u32>,
}

struct Group {
    version: Version,
    writable: bool,
    /// What it has, by name: `cgroup.controllers` of version 2, the mount's of version 1.
    controllers: Vec<String>,
    files: BTreeMap<String, String>,
    pids: Vec<u32>,
    /// How many removals fail before one succeeds.
    busy: u32,
}

const V1_FILES: &[(&str, &[(&str, &str)])] = &[
    (
        "memory",
        &[
            ("memory.limit_in_bytes", "9223372036854771712"),
            ("memory.memsw.limit_in_bytes", "9223372036854771712"),
            ("memory.max_usage_in_bytes", "4096\n"),
            (
                "memory.oom_control",
                "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            ),
        ],
    ),
    (
        "cpu",
        &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "-1")],
    ),
    (
        "cpuacct",
        &[
            ("cpuacct.usage", "1500000\n"),
            ("cpuacct.usage_sys", "400000\n"),
        ],
    ),
    (
        "pids",
        &[
            ("pids.max", "max"),
            ("pids.events", "max 7\n"),
            ("pids.peak", "9\n"),
        ],
    ),
];

const V2_FILES: &[(&str, &[(&str, &str)])] = &[
    (
        "memory",
        &[
            ("memory.max", "max"),
            ("memory.swap.max", "max"),
            ("memory.oom.group", "0"),
            ("memory.peak", "8192\n"),
            (
                "memory.events",
                "low 0\nhigh 0\nmax 9\noom 4\noom_kill 2\noom_group_kill 1\n",
            ),
        ],
    ),
    ("cpu", &[("cpu.max", "max 100000")]),
    (
        "pids",
        &[
            ("pids.max", "max"),
            ("pids.events", "max 5\n"),
            ("pids.peak", "6\n"),
        ],
    ),
];

const V2_CORE_FILES: &[(&str, &str)] = &[
    ("cgroup.procs", ""),
    ("cgroup.kill", ""),
    ("cgroup.type", "domain\n"),
    ("cgroup.controllers", ""),
    ("cgroup.subtree_control", ""),
    (
        "cpu.stat",
        "usage_usec 2500\nuser_usec 2000\nsystem_usec 500\n",
    ),
];

impl Model {
    /// Adds the top of a hierarchy.
    pub(super) fn mount(self, top: &str, version: Version, controllers: &str) -> Self {
        let words = controllers.split_whitespace().map(str::to_owned).collect();
        let mut group = self.new_group(version, words);
        group.files.remove("cgroup.type");
        self.groups.borrow_mut().insert(top.into(), group);
        self
    }

    /// Adds a group whose parent is there. On version 2 its parent hands the controllers on.
    pub(super) fn group(self, dir: &str, controllers: &str) -> Self {
        let dir = Path::new(dir);
        let plus: Vec<String> = controllers
            .split_whitespace()
            .map(|c| format!("+{c}"))
            .collect();
        let control = dir.parent().unwrap().join("cgroup.subtree_control");
        if !plus.is_empty() {
            self.write(&control, &plus.join(" ")).unwrap();
        }
        self.make(dir).unwrap();
        self
    }

    /// Puts processes into a group.
    pub(super) fn populate(self, dir: &str, pids: &[u32]) -> Self {
        self.change(dir, |group| group.pids = pids.to_vec());
        self
    }

    /// Takes away every group but these and what is below them.
    pub(super) fn only_writable(self, dirs: &[&str]) -> Self {
        for (dir, group) in self.groups.borrow_mut().iter_mut() {
            group.writable = dirs.iter().any(|writable| dir.starts_with(writable));
        }
        self
    }

    pub(super) fn without(mut self, file: &'static str) -> Self {
        self.without.push(file);
        self
    }

    pub(super) fn broken(mut self, file: &'static str) -> Self {
        self.broken.push(file);
        self
    }

    pub(super) fn busy(&self, dir: &Path, times: u32) {
        self.change(dir, |group| group.busy = times);
    }

    /// The text of a file that must be there.
    pub(super) fn text(&self, file: &str) -> String {
        self.read(Path::new(file)).unwrap()
    }

    /// Every group below a directory, that directory not included.
    pub(super) fn below(&self, dir: &str) -> Vec<String> {
        let groups = self.groups.borrow();
        let inside = groups
            .keys()
            .filter(|group| group.starts_with(dir) && **group != Path::new(dir));
        inside.map(|group| group.display().to_string()).collect()
    }

    fn change(&self, dir: impl AsRef<Path>, change: impl FnOnce(&mut Group)) {
        change(self.groups.borrow_mut().get_mut(dir.as_ref()).unwrap());
    }

    fn new_group(&self, version: Version, controllers: Vec<String>) -> Group {
        let mut group = Group {
            version,
            writable: true,
            controllers: Vec::new(),
            files: BTreeMap::new(),
            pids: Vec::new(),
            busy: 0,
        };
        let core: &[_] = match version {
            Version::V1 => &[("cgroup.procs", ""), ("tasks", "")],
            Version::V2 => V2_CORE_FILES,
        };
        group.add_files(core, &self.without);
        group.give(controllers, &self.without);
        group
    }

    fn control_children(&self, dir: &Path, value: &str) -> io::Result<()> {
        let mut groups = self.groups.borrow_mut();
        let root = !groups[dir].files.contains_key("cgroup.type");
        let group = groups.get_mut(dir).unwrap();
        let names: Vec<String> = value.split(' ').map(|word| word[1..].to_owned()).collect();
        if !names.iter().all(|name| group.controllers.contains(name)) {
            return Err(ErrorKind::NotFound.into());
        }
        if !group.pids.is_empty() && !root {
            return Err(ErrorKind::ResourceBusy.into());
        }
        let control = group.files.get_mut("cgroup.subtree_control").unwrap();
        let mut enabled: Vec<&str> = control.split_whitespace().collect();
        enabled.extend(names.iter().map(String::as_str));
        enabled.sort_unstable();
        enabled.dedup();
        *control = enabled.join(" ");
        for (_, child) in groups
            .iter_mut()
            .filter(|child| child.0.parent() == Some(dir))
        {
            child.give(names.clone(), &self.without);
        }
        Ok(())
    }

    fn move_process(&self, dir: &Path, pid: u32) -> io::Result<()> {
        let mut groups = self.groups.borrow_mut();
        let version = groups[dir].version;
        let top = groups
            .keys()
            .find(|top| dir.starts_with(top))
            .unwrap()
            .clone();
        for (_, other) in groups.iter_mut().filter(|other| other.0.starts_with(&top)) {
            other.pids.retain(|other| *other != pid);
        }
        let group = groups.get_mut(dir).unwrap();
        let hands_on = |group: &Group| !group.files["cgroup.subtree_control"].is_empty();
        if version == Version::V2 && hands_on(group) {
            return Err(ErrorKind::ResourceBusy.into());
        }
        group.pids.push(pid);
        Ok(())
    }
}

impl Group {
    fn add_files(&mut self, files: &[(&str, &str)], without: &[&str]) {
        for (file, text) in files.iter().filter(|file| !without.contains(&file.0)) {
            let text = (*text).to_owned();
            self.files.entry((*file).to_owned()).or_insert(text);
        }
    }

    fn give(&mut self, controllers: Vec<String>, without: &[&str]) {
        let files = match self.version {
            Version::V1 => V1_FILES,
            Version::V2 => V2_FILES,
        };
        for controller in controllers {
            let known = files.iter().filter(|known| known.0 == controller);
            known.for_each(|(_, files)| self.add_files(files, without));
            if !self.controllers.contains(&controller) {
                self.controllers.push(controller);
            }
        }
        if self.version == Version::V2 {
            let text = self.controllers.join(" ");
            self.files.insert("cgroup.controllers".to_owned(), text);
        }
    }

    /// Version 1 refuses a bound on memory and swap together that is below the one on memory.
    fn accepts(&self, file: &str, value: &str) -> bool {
        let number = |text: &str| text.parse::<u64>().unwrap();
        file != "memory.memsw.limit_in_bytes"
            || number(value) >= number(&self.files["memory.limit_in_bytes"])
    }
}

/// The group that a file is in, and the file's name.
fn split(file: &Path) -> (&Path, &str) {
    (
        file.parent().unwrap(),
        file.file_name().unwrap().to_str().unwrap(),
    )
}

impl Tree for Model {
    fn read(&self, file: &Path) -> io::Result<String> {
        let (dir, name) = split(file);
        let groups = self.groups.borrow();
        let group = groups.get(dir).ok_or(ErrorKind::NotFound)?;
        match name {
            "cgroup.procs" => Ok(group.pids.iter().map(|pid| format!("{pid}\n")).collect()),
            _ => group
                .files
                .get(name)
                .cloned()
                .ok_or(ErrorKind::NotFound.into()),
        }
    }

    fn write(&self, file: &Path, value: &str) -> io::Result<()> {
        self.read(file)?;
        if !self.may_write(file) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let (dir, name) = split(file);
        match name {
            "cgroup.subtree_control" => self.control_children(dir, value),
            "cgroup.procs" | "tasks" => match value {
                "0" => self.move_process(dir, process::id()),
                pid => self.move_process(dir, pid.parse().unwrap()),
            },
            _ => {
                let mut groups = self.groups.borrow_mut();
                let group = groups.get_mut(dir).unwrap();
                if self.broken.contains(&name) || !group.accepts(name, value) {
                    return Err(ErrorKind::InvalidInput.into());
                }
                group.files.insert(name.to_owned(), value.to_owned());
                Ok(())
            }
        }
    }

    /// What is there already is found before permissions are looked at.
    fn make(&self, dir: &Path) -> io::Result<()> {
        let mut groups = self.groups.borrow_mut();
        if groups.contains_key(dir) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let parent = groups
            .get(dir.parent().unwrap())
            .ok_or(ErrorKind::NotFound)?;
        if !parent.writable {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let controllers = match parent.version {
            Version::V1 => parent.controllers.clone(),
            Version::V2 => {
                let handed_on = parent.files["cgroup.subtree_control"].split_whitespace();
                handed_on.map(str::to_owned).collect()
            }
        };
        let group = self.new_group(parent.version, controllers);
        groups.insert(dir.to_owned(), group);
        Ok(())
    }

    fn remove(&self, dir: &Path) -> io::Result<()> {
        let mut groups = self.groups.borrow_mut();
        let children = groups.keys().any(|group| group.parent() == Some(dir));
        let group = groups.get_mut(dir).ok_or(ErrorKind::NotFound)?;
        if children || !group.pids.is_empty() || group.busy > 0 {
            group.busy = group.busy.saturating_sub(1);
            return Err(ErrorKind::ResourceBusy.into());
        }
        groups.remove(dir);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let groups = self.groups.borrow();
        let group = groups.get(dir).ok_or(ErrorKind::NotFound)?;
        let children = groups.keys().filter(|child| child.parent() == Some(dir));
        let names = children.map(|child| split(child).1.to_owned());
        Ok(names.chain(group.files.keys().cloned()).collect())
    }

    fn may_write(&self, path: &Path) -> bool {
        let groups = self.groups.borrow();
        let group = groups.get(path).or_else(|| groups.get(path.parent()?));
        group.is_some_and(|group| group.writable)
    }

    fn wait_for_exit(&self, _: &Path, _: u32, _: Instant) {
        *self.waits.borrow_mut() += 1;
    }
}
