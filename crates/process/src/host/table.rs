//! A host that is a table: what a plan asks is answered without a machine.

use super::{Entry, EntryKind, Found, Host, Identity, Kind, Mount};
use palisade_network::{Answer, Resolve, ResolveError};
use palisade_policy::HostName;
use rustix::io::Errno;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Component, Path, PathBuf},
    time::Duration,
};

/// More links than any honest path has; the kernel's own bound is 40.
const MOST_LINKS: usize = 40;

/// The folder of the user whom most plans of tests are for.
pub(crate) const HOME: &str = "/home/ada";

/// Paths and what lies there. Inodes are numbered in the order in which they were put in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    entries: BTreeMap<PathBuf, Node>,
    owner: (u32, u32),
    /// Folders and where else they are mounted.
    binds: Vec<Bind>,
    /// Nobody may read what is mounted where.
    hides_mounts: bool,
}

#[derive(Clone, Debug)]
struct Bind {
    from: PathBuf,
    to: PathBuf,
    /// The table of mounts shows it.
    is_told: bool,
}

#[derive(Clone, Debug)]
struct Node {
    thing: Thing,
    inode: u64,
    owner: (u32, u32),
    mode: u32,
}

#[derive(Clone, Debug)]
enum Thing {
    Folder,
    /// A folder where a file system of this kind is mounted.
    Mounted(&'static str),
    File(Vec<u8>),
    Device,
    Fifo,
    Socket,
    Link(PathBuf),
}

impl Table {
    /// Root's folders and device nodes of every Linux host.
    pub(crate) fn bare() -> Self {
        let devices = ["null", "zero", "full", "random", "urandom", "tty", "fuse"];
        let table = Self::default().folder("/").folder("/tmp").folder("/dev");
        devices.into_iter().fold(table, |table, name| {
            table.put(&format!("/dev/{name}"), Thing::Device, 0o666)
        })
    }

    /// Debian since 12: `/bin` and its like are links into `/usr`.
    pub(crate) fn merged_usr() -> Self {
        let table = Self::bare()
            .folder("/usr")
            .folder("/usr/bin")
            .folder("/usr/lib");
        let links = ["bin", "sbin", "lib", "lib64"];
        let table = links.into_iter().fold(table, |table, name| {
            table.link(&format!("/{name}"), &format!("usr/{name}"))
        });
        table.settings()
    }

    /// The same with a [`HOME`] that belongs to 1001:1002, and all that is put in later.
    pub(crate) fn with_home() -> Self {
        Self::merged_usr()
            .folder("/home")
            .owned_by(1001, 1002)
            .folder(HOME)
    }

    /// The same with two folders, and folders in one of them.
    pub(crate) fn with_work() -> Self {
        Self::with_home()
            .folder("/home/ada/work")
            .folder("/home/ada/work/a")
            .folder("/home/ada/work/a/b")
            .folder("/home/ada/work/a/b/c")
            .file("/home/ada/work/a/b/file", "")
            .folder("/home/ada/data")
    }

    /// Older and smaller distributions: `/bin` and its like are folders.
    pub(crate) fn split_usr() -> Self {
        let folders = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];
        folders
            .into_iter()
            .fold(Self::bare(), Self::folder)
            .settings()
    }

    fn settings(self) -> Self {
        self.folder("/etc")
            .file("/etc/os-release", "ID=table\n")
            .file("/etc/shadow", "root:!:1::::::\n")
            .folder("/etc/ssl")
            .folder("/etc/ssl/certs")
            .folder("/etc/ssl/private")
            .folder("/etc/alternatives")
            .link("/etc/localtime", "/usr/share/zoneinfo/UTC")
            .folder("/etc/python3.11")
            .folder("/etc/javascript-common")
    }

    /// What is put in from here on belongs to this user and group.
    pub(crate) fn owned_by(mut self, uid: u32, gid: u32) -> Self {
        self.owner = (uid, gid);
        self
    }

    pub(crate) fn folder(self, path: &str) -> Self {
        self.put(path, Thing::Folder, 0o755)
    }

    pub(crate) fn proc(self, path: &str) -> Self {
        self.put(path, Thing::Mounted("proc"), 0o555)
    }

    pub(crate) fn socket(self, path: &str) -> Self {
        self.put(path, Thing::Socket, 0o755)
    }

    pub(crate) fn control_groups(self, path: &str) -> Self {
        self.put(path, Thing::Mounted("cgroup2"), 0o755)
    }

    /// Those of version 1.
    pub(crate) fn old_control_groups(self, path: &str) -> Self {
        self.put(path, Thing::Mounted("cgroup"), 0o755)
    }

    /// The table of mounts cannot be read from here on.
    pub(crate) fn without_mount_table(mut self) -> Self {
        self.hides_mounts = true;
        self
    }

    /// Shows the folder `from` at `to` too.
    pub(crate) fn bind(self, from: &str, to: &str) -> Self {
        self.shown_at(from, to, true)
    }

    fn shown_at(self, from: &str, to: &str, is_told: bool) -> Self {
        let mut table = self.folder(to);
        table.binds.push(Bind {
            from: from.into(),
            to: to.into(),
            is_told,
        });
        table
    }

    pub(crate) fn file(self, path: &str, content: &str) -> Self {
        self.put(path, Thing::File(content.into()), 0o644)
    }

    /// A file or folder with other permission bits than usual.
    pub(crate) fn with_mode(mut self, path: &str, mode: u32) -> Self {
        let entry = self.entries.get_mut(Path::new(path));
        entry.expect("it was put in before").mode = mode;
        self
    }

    pub(crate) fn link(self, path: &str, target: &str) -> Self {
        self.put(path, Thing::Link(target.into()), 0o777)
    }

    pub(crate) fn fifo(self, path: &str) -> Self {
        self.put(path, Thing::Fifo, 0o600)
    }

    /// Another name of a folder: a bind mount of it, which no table of mounts shows.
    pub(crate) fn alias(self, path: &str, of: &str) -> Self {
        self.shown_at(of, path, false)
    }

    /// What lies at a path without links.
    fn entry(&self, path: &Path) -> Option<&Node> {
        let mut bound = path.ancestors().filter_map(|around| {
            let bind = self.binds.iter().find(|bind| bind.to == around)?;
            Some((bind, path.strip_prefix(around).ok()?))
        });
        match bound.next() {
            Some((bind, below)) => self.entry(&bind.from.join(below)),
            None => self.entries.get(path),
        }
    }

    fn put(mut self, path: &str, thing: Thing, mode: u32) -> Self {
        let inode = self.entries.len() as u64 + 1;
        let entry = Node {
            thing,
            inode,
            owner: self.owner,
            mode,
        };
        self.entries.insert(path.into(), entry);
        self
    }

    /// The path without links.
    fn resolve(&self, path: &Path) -> rustix::io::Result<PathBuf> {
        let mut left: Vec<OsString> = components(path).rev().collect();
        let mut resolved = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = left.pop() {
            let next = resolved.join(&name);
            match self.entry(&next).map(|entry| &entry.thing) {
                Some(Thing::Link(target)) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(Errno::LOOP);
                    }
                    if target.is_absolute() {
                        resolved = PathBuf::from("/");
                    }
                    left.extend(components(target).rev());
                }
                Some(Thing::Folder | Thing::Mounted(_)) => resolved = next,
                Some(_) if left.is_empty() => resolved = next,
                Some(_) => return Err(Errno::NOTDIR),
                None => return Err(Errno::NOENT),
            }
        }
        Ok(resolved)
    }
}

fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        _ => None,
    })
}

/// Every name below `example.com` has the same address; the loopback interface is the first.
impl Resolve for Table {
    fn addresses(&self, name: &HostName) -> Result<Answer, ResolveError> {
        let is_known = name.as_str().ends_with("example.com");
        let answer = is_known.then(|| Answer {
            addresses: vec![IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34))],
            ttl: Duration::from_secs(300),
        });
        answer.ok_or(ResolveError::NotFound)
    }

    fn interface(&self, zone: &str) -> Option<u32> {
        (zone == "lo").then_some(1)
    }

    fn name_servers(&self) -> Vec<SocketAddr> {
        vec![SocketAddr::new(Ipv4Addr::new(127, 0, 0, 53).into(), 53)]
    }

    fn files(&self) -> Vec<PathBuf> {
        ["/etc/hosts", "/usr/bin/lookup"].map(PathBuf::from).into()
    }
}

impl Host for Table {
    fn find(&self, path: &Path) -> rustix::io::Result<Found> {
        let canonical = self.resolve(path)?;
        let entry = self.entry(&canonical).ok_or(Errno::NOENT)?;
        Ok(Found {
            kind: match entry.thing {
                Thing::Folder | Thing::Mounted(_) | Thing::Link(_) => Kind::Folder,
                Thing::File(_) => Kind::File,
                Thing::Device => Kind::Device,
                Thing::Fifo => Kind::Fifo,
                Thing::Socket => Kind::Socket,
            },
            identity: Identity {
                device_major: 8,
                device_minor: 1,
                inode: entry.inode,
            },
            uid: entry.owner.0,
            gid: entry.owner.1,
            mode: entry.mode,
            size_bytes: match &entry.thing {
                Thing::File(content) => content.len() as u64,
                _ => 0,
            },
            canonical,
        })
    }

    fn link(&self, path: &Path) -> Option<PathBuf> {
        match &self.entry(path)?.thing {
            Thing::Link(target) => Some(target.clone()),
            _ => None,
        }
    }

    fn resolver(&self) -> &dyn Resolve {
        self
    }

    fn list(&self, folder: &Path) -> rustix::io::Result<Vec<Entry>> {
        let entries = self.entries.iter();
        let entries = entries.filter(|(path, _)| path.parent() == Some(folder));
        let told = entries.filter_map(|(path, entry)| {
            Some(Entry {
                name: path.file_name()?.into(),
                kind: match entry.thing {
                    Thing::Link(_) => EntryKind::Link,
                    Thing::Folder | Thing::Mounted(_) => EntryKind::Folder,
                    Thing::File(_) | Thing::Device | Thing::Fifo | Thing::Socket => EntryKind::File,
                },
            })
        });
        Ok(told.collect())
    }

    fn is_open_to_all(&self, folder: &Path) -> bool {
        let below = self.entries.iter();
        let mut below = below.filter(|(path, _)| path.starts_with(folder));
        below.all(|(_, entry)| match entry.thing {
            Thing::Link(_) => true,
            Thing::Folder | Thing::Mounted(_) => entry.mode & 0o5 == 0o5,
            Thing::File(_) => entry.mode & 0o4 == 0o4,
            Thing::Device | Thing::Fifo | Thing::Socket => false,
        })
    }

    fn content(&self, path: &Path, most_bytes: u64) -> Option<Vec<u8>> {
        let canonical = self.resolve(path).ok()?;
        let entry = self.entry(&canonical)?;
        match &entry.thing {
            Thing::File(content) if content.len() as u64 <= most_bytes && entry.mode & 0o4 != 0 => {
                Some(content.clone())
            }
            _ => None,
        }
    }

    fn mounts(&self) -> rustix::io::Result<Vec<Mount>> {
        if self.hides_mounts {
            return Err(Errno::ACCESS);
        }
        let mount = |point: &Path, kind: &str| Mount {
            id: 0,
            device: "0:32".into(),
            root: "/".into(),
            point: point.into(),
            kind: kind.into(),
        };
        let things = self.entries.iter();
        let mounted = things.filter_map(|(path, entry)| match entry.thing {
            Thing::Mounted(kind) => Some(mount(path, kind)),
            _ => None,
        });
        let disk = |root: &Path, point: &Path| Mount {
            id: 0,
            device: "8:1".into(),
            root: root.into(),
            point: point.into(),
            kind: "ext4".into(),
        };
        let root = disk(Path::new("/"), Path::new("/"));
        let binds = self.binds.iter().filter(|bind| bind.is_told);
        let binds = binds.map(|bind| disk(&bind.from, &bind.to));
        let proc = [mount(Path::new("/proc"), "proc")];
        let all = [root].into_iter().chain(binds).chain(mounted).chain(proc);
        Ok(all.collect())
    }
}
