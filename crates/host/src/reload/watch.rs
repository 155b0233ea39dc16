//! Files that may change: seen by their folders, so that it does not matter whether somebody writes to a
//! file, puts another in its place, or turns a link on the way to it (as editors, installers and Kubernetes
//! do).
//!
//! An event only says which files to look at. Whether one is another one is told by its [`ExactStamp`]. So what a change
//! takes does not grow with the number of files.

use crate::{
    config::Include,
    generation::{Stamped, Suspects},
    stamp::ExactStamp,
};
use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    ffi::{OsStr, OsString},
    io, mem,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{net::unix::pipe::Receiver, time::Instant};

/// How long nothing may happen before it is looked at what has.
const QUIET: Duration = Duration::from_millis(100);
/// How long something may go on happening until then.
const LONGEST: Duration = Duration::from_secs(2);
/// The kernel's own bound of links in a path.
const MOST_LINKS: usize = 40;
/// What happens to names in a folder, and to the folder itself.
const OF_NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE);
const OF_ITSELF: WatchFlags = WatchFlags::DELETE_SELF.union(WatchFlags::MOVE_SELF);
/// Bytes of an event before its name: inotify(7).
const EVENT_BYTES: usize = 16;

/// Stamps of files; `None` for one that is not there.
pub(super) type Stamps = BTreeMap<PathBuf, Option<ExactStamp>>;

/// A name in a watched folder.
type Entry = (i32, OsString);

/// Files that are watched: those of the main file, and of each tenant.
#[derive(Debug)]
pub(super) struct Watch {
    /// Read and polled as a pipe is.
    inotify: Receiver,
    files: HashMap<Arc<Path>, Watched>,
    /// The files that an event of this name in this folder is about.
    by_entry: HashMap<Entry, BTreeSet<Arc<Path>>>,
    /// The folders, by how many of these there are.
    folders: HashMap<i32, usize>,
    /// Files by whose they are; the main file's have no name.
    groups: HashMap<Arc<str>, Vec<Arc<Path>>>,
    /// Folders of whose files some are tenants'.
    includes: Vec<(i32, Include)>,
    /// To be looked at.
    touched: BTreeSet<Arc<Path>>,
    /// Files of several, of which one has been told that they are others.
    others: HashSet<Arc<Path>>,
    /// A tenant has come.
    has_come: bool,
    /// A folder could not be watched, since that was asked last.
    is_short: bool,
    /// The same, since the beginning.
    is_partial: bool,
    /// Something has happened: when that began, and when it is looked at.
    stirred: Option<(Instant, Instant)>,
}

#[derive(Debug)]
struct Watched {
    stamp: Option<ExactStamp>,
    entries: Vec<Entry>,
    /// Groups that have it.
    users: usize,
}

impl Watch {
    /// Watches nothing yet.
    pub(super) fn open() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Self {
            inotify: Receiver::from_owned_fd_unchecked(inotify)?,
            files: HashMap::new(),
            by_entry: HashMap::new(),
            folders: HashMap::new(),
            groups: HashMap::new(),
            includes: Vec::new(),
            touched: BTreeSet::new(),
            others: HashSet::new(),
            has_come: false,
            is_short: false,
            is_partial: false,
            stirred: None,
        })
    }

    /// Watches these files of the main file, as they are now, in place of those before.
    pub(super) fn follow(&mut self, files: Vec<PathBuf>) {
        self.follow_on(Some(files), &Stamps::new());
    }

    /// The present stamps of the main file's.
    pub(super) fn stamps(&self) -> Stamps {
        let paths = self.groups.get("").into_iter().flatten();
        paths
            .map(|path| (path.to_path_buf(), ExactStamp::of(path)))
            .collect()
    }

    /// Watches these files, or those before, in place of the main file's before. What is in `known` was seen before it
    /// was read: changes since then count.
    pub(super) fn follow_on(&mut self, files: Option<Vec<PathBuf>>, known: &Stamps) {
        let before = self.groups.get("").into_iter().flatten();
        let before = before.map(|path| path.to_path_buf());
        let files = files.unwrap_or_else(|| before.collect());
        let stamp = |path: PathBuf| {
            let known = known.get(&path).copied();
            let stamp = known.unwrap_or_else(|| ExactStamp::of(&path));
            (path, stamp)
        };
        let files = files.into_iter().map(stamp);
        self.follow_group(&"".into(), files.collect());
    }

    /// Watches the files of a tenant, in place of those before: changes since they had these stamps count.
    pub(super) fn follow_group(&mut self, name: &Arc<str>, files: Vec<Stamped>) {
        let mut paths = Vec::with_capacity(files.len());
        for (path, stamp) in files {
            paths.push(self.add(&path, stamp));
        }
        let before = match paths.is_empty() {
            true => self.groups.remove(name),
            false => self.groups.insert(Arc::clone(name), paths),
        };
        for path in before.into_iter().flatten() {
            self.remove(&path);
        }
    }

    /// Watches for files that come to these folders, in place of those before.
    pub(super) fn follow_includes(&mut self, includes: &[Include]) {
        let before = mem::take(&mut self.includes);
        for include in includes {
            if let Ok(folder) = self.watch(&include.folder, OF_NAMES.union(OF_ITSELF)) {
                *self.folders.entry(folder).or_default() += 1;
                self.includes.push((folder, include.clone()));
            }
        }
        for (folder, _) in before {
            self.release(folder);
        }
    }

    /// Whether a folder could not be watched, since this was asked last.
    pub(super) fn take_shortage(&mut self) -> bool {
        mem::take(&mut self.is_short)
    }

    fn add(&mut self, path: &Path, stamp: Option<ExactStamp>) -> Arc<Path> {
        if let Some((known, watched)) = self.files.get_key_value(path) {
            let known = Arc::clone(known);
            // The others' who have it are told as well.
            if watched.users > 1 && watched.stamp != stamp {
                self.others.insert(Arc::clone(&known));
            }
            if let Some(watched) = self.files.get_mut(path) {
                watched.users += 1;
                watched.stamp = stamp;
            }
            // What leads there may be other folders by now, with nobody having seen that.
            self.touch(&known);
            return known;
        }
        let path: Arc<Path> = path.into();
        let entries = self.enter(&path);
        let watched = Watched {
            stamp,
            entries,
            users: 1,
        };
        self.files.insert(Arc::clone(&path), watched);
        // Looked at once its folder is watched: nothing that happens since then is missed.
        if ExactStamp::of(&path) != stamp {
            self.touch(&path);
        }
        path
    }

    fn remove(&mut self, path: &Path) {
        let Some(watched) = self.files.get_mut(path) else {
            return;
        };
        watched.users -= 1;
        if watched.users == 0
            && let Some(watched) = self.files.remove(path)
        {
            self.leave(path, watched.entries);
        }
    }

    /// Watches the folders in which something happens if a path comes to mean another file.
    fn enter(&mut self, path: &Arc<Path>) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (folder, name) in folders_of(path) {
            let Some(entry) = self.watch_entry(&folder, &name) else {
                continue;
            };
            *self.folders.entry(entry.0).or_default() += 1;
            self.by_entry
                .entry(entry.clone())
                .or_default()
                .insert(Arc::clone(path));
            entries.push(entry);
        }
        entries
    }

    fn leave(&mut self, path: &Path, entries: Vec<Entry>) {
        for entry in entries {
            if let Some(files) = self.by_entry.get_mut(&entry) {
                files.remove(path);
                if files.is_empty() {
                    self.by_entry.remove(&entry);
                }
            }
            self.release(entry.0);
        }
    }

    fn release(&mut self, folder: i32) {
        let Some(count) = self.folders.get_mut(&folder) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.folders.remove(&folder);
            // It may be gone, and the watch with it.
            let _ = inotify::remove_watch(&self.inotify, folder);
        }
    }

    /// Watches a name in a folder, or what leads there from the nearest folder above that there is. Without a name: whether it is moved itself,
    /// so that nobody is woken up by what happens in it.
    fn watch_entry(&mut self, folder: &Path, name: &OsStr) -> Option<Entry> {
        let mut name = name;
        for folder in folder.ancestors() {
            let events = match name.is_empty() {
                true => OF_ITSELF,
                false => OF_NAMES.union(OF_ITSELF),
            };
            match self.watch(folder, events) {
                Ok(watch) => return Some((watch, name.to_owned())),
                Err(Errno::NOSPC | Errno::NOMEM) => {
                    self.is_short = true;
                    self.is_partial = true;
                    return None;
                }
                Err(errno) => {
                    // One that is there and cannot be read.
                    self.is_partial |= !matches!(errno, Errno::NOENT | Errno::NOTDIR);
                    if name.is_empty() {
                        return None;
                    }
                    name = folder.file_name()?;
                }
            }
        }
        None
    }

    /// For these events, and those for which it is watched already.
    fn watch(&self, folder: &Path, events: WatchFlags) -> Result<i32, Errno> {
        const HOW: WatchFlags = WatchFlags::ONLYDIR.union(WatchFlags::MASK_ADD);
        inotify::add_watch(&self.inotify, folder, events.union(HOW))
    }

    /// Looks which of the files that something has happened to are others than they were, and gives the tenants whose they are. Folders may
    /// have come that were not there. `None`: they are all as they were.
    fn look(&mut self) -> Option<Suspects> {
        let has_come = mem::take(&mut self.has_come);
        let mut others = mem::take(&mut self.others);
        for path in mem::take(&mut self.touched) {
            let Some(watched) = self.files.get_mut(&path) else {
                continue;
            };
            let before = mem::take(&mut watched.entries);
            // First the new ones: a folder that stays is watched all the time.
            let entries = self.enter(&path);
            self.leave_others(&path, before, &entries);
            let stamp = ExactStamp::of(&path);
            if let Some(watched) = self.files.get_mut(&path) {
                watched.entries = entries;
                if mem::replace(&mut watched.stamp, stamp) != stamp {
                    others.insert(path);
                }
            }
        }
        (has_come || !others.is_empty()).then(|| self.users_of(&others))
    }

    /// Whose files these are. Everybody's, where some are not seen.
    fn users_of(&self, files: &HashSet<Arc<Path>>) -> Suspects {
        if self.is_partial {
            return Suspects::All;
        }
        let groups = self.groups.iter();
        let users = groups.filter(|(_, paths)| paths.iter().any(|path| files.contains(path)));
        users.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Leaves entries of which some are still those of the file.
    fn leave_others(&mut self, path: &Path, before: Vec<Entry>, now: &[Entry]) {
        for entry in before {
            match now.contains(&entry) {
                true => self.release(entry.0),
                false => self.leave(path, vec![entry]),
            }
        }
    }

    /// Waits until a file is another one than it was, or a tenant has come; gives the tenants whose files are others. May be called again after it
    /// was dropped.
    pub(super) async fn changed(&mut self) -> Suspects {
        loop {
            match self.stirred {
                None => {
                    self.stir().await;
                }
                Some((_, look_at)) => {
                    tokio::select! {
                        () = self.stir() => {}
                        () = tokio::time::sleep_until(look_at) => {
                            self.stirred = None;
                            if let Some(suspects) = self.look() {
                                return suspects;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Waits for an event and notes it.
    async fn stir(&mut self) {
        if self.inotify.readable().await.is_err() || !self.drain() {
            return std::future::pending().await;
        }
        self.note();
    }

    fn note(&mut self) {
        let now = Instant::now();
        let (began, _) = self.stirred.unwrap_or((now, now));
        self.stirred = Some((began, (now + QUIET).min(began + LONGEST)));
    }

    fn touch(&mut self, path: &Arc<Path>) {
        self.touched.insert(Arc::clone(path));
        self.note();
    }

    /// Reads all events. Says whether inotify still works.
    fn drain(&mut self) -> bool {
        let mut events = [0; 4096];
        loop {
            match self.inotify.try_read(&mut events) {
                Ok(0) => return false,
                Ok(count) => self.take(&events[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Notes what events are about: `struct inotify_event` of inotify(7), whole ones.
    fn take(&mut self, mut events: &[u8]) {
        while let Some((head, rest)) = events.split_at_checked(EVENT_BYTES) {
            let number = |at: usize| {
                let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
                u32::from_ne_bytes(bytes)
            };
            let (folder, flags, length) = (number(0).cast_signed(), number(4), number(12) as usize);
            let (name, next) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            let end = name
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(name.len());
            let flags = ReadFlags::from_bits_retain(flags);
            self.take_event(folder, flags, OsStr::from_bytes(&name[..end]));
            events = next;
        }
    }

    fn take_event(&mut self, folder: i32, flags: ReadFlags, name: &OsStr) {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.touched.extend(self.files.keys().cloned());
            self.has_come = !self.includes.is_empty();
        } else if name.is_empty() {
            // The folder itself.
            let entries = self.by_entry.iter();
            let of_folder = entries.filter(|((one, _), _)| *one == folder);
            let files = of_folder.flat_map(|(_, files)| files.iter().cloned());
            self.touched.extend(files);
        } else if let Some(files) = self.by_entry.get(&(folder, name.to_owned())) {
            self.touched.extend(files.iter().cloned());
        } else {
            let mut includes = self.includes.iter().filter(|(one, _)| *one == folder);
            self.has_come |= includes.any(|(_, include)| include.tenant(name).is_some());
        }
    }
}

/// The folders in which something happens if `path` comes to mean another file, each with the name to which it does: its
/// own, and that of each link on the way. Without a name: those that would be moved themselves.
fn folders_of(path: &Path) -> Vec<(PathBuf, OsString)> {
    let parts = |path: &Path| -> VecDeque<OsString> {
        path.components()
            .filter(|part| !matches!(part, Component::RootDir | Component::CurDir))
            .map(|part| part.as_os_str().to_owned())
            .collect()
    };
    let (mut rest, mut at) = (parts(path), PathBuf::from("/"));
    let (mut folders, mut links) = (Vec::new(), 0);
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let target = std::fs::read_link(&next)
            .ok()
            .filter(|_| links < MOST_LINKS);
        match target {
            Some(target) => {
                links += 1;
                folders.push((at.clone(), part));
                if target.is_absolute() {
                    at = "/".into();
                }
                let mut before = parts(&target);
                before.append(&mut rest);
                rest = before;
            }
            None => {
                match rest.len() {
                    0 => folders.push((at.clone(), part)),
                    // It is watched for what is in it.
                    1 => {}
                    _ => folders.push((next.clone(), OsString::new())),
                }
                at = next;
            }
        }
    }
    folders
}
