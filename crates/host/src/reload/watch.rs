//! Files that may change: seen by their folders, so that it does not matter whether somebody writes to a
//! file, puts another in its place, or turns a link on the way to it (as editors, installers and Kubernetes
//! do).
//!
//! An event only says that it is time to look. Whether a file is another one is told by its
//! [`Stamp`].

use rustix::fs::{
    Stat,
    inotify::{self, CreateFlags, WatchFlags},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ffi::OsString,
    io,
    path::{Component, Path, PathBuf},
    time::Duration,
};
use tokio::{net::unix::pipe::Receiver, time::Instant};

/// How long nothing may happen before it is looked at what has.
const QUIET: Duration = Duration::from_millis(100);
/// How long something may go on happening until then.
const LONGEST: Duration = Duration::from_secs(2);
/// The kernel's own bound of links in a path.
const MOST_LINKS: usize = 40;

/// A file as it was: one in its place, or one that was written to, has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp([i128; 7]);

/// Stamps of files; `None` for one that is not there.
pub(super) type Stamps = BTreeMap<PathBuf, Option<Stamp>>;

/// Files that are watched.
#[derive(Debug)]
pub(super) struct Watch {
    /// Read and polled as a pipe is.
    inotify: Receiver,
    folders: BTreeMap<PathBuf, i32>,
    stamps: Stamps,
    /// Something has happened: when that began, and when it is looked at.
    stirred: Option<(Instant, Instant)>,
}

impl Watch {
    /// Watches nothing yet.
    pub(super) fn open() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Self {
            inotify: Receiver::from_owned_fd_unchecked(inotify)?,
            folders: BTreeMap::new(),
            stamps: Stamps::new(),
            stirred: None,
        })
    }

    /// Watches these files, as they are now, in place of those before.
    pub(super) fn follow(&mut self, files: Vec<PathBuf>) {
        let known = Stamps::new();
        self.follow_on(Some(files), known);
    }

    /// The present stamps of what is watched.
    pub(super) fn stamps(&self) -> Stamps {
        let paths = self.stamps.keys();
        paths.map(|path| (path.clone(), Stamp::of(path))).collect()
    }

    /// Watches these files, or those before, in place of those before. What is in `known` was seen before it
    /// was read: changes since then count.
    pub(super) fn follow_on(&mut self, files: Option<Vec<PathBuf>>, known: Stamps) {
        let files = files.unwrap_or_else(|| self.stamps.keys().cloned().collect());
        self.watch_folders_of(&files);
        let stamp = |path: &PathBuf| known.get(path).copied().unwrap_or_else(|| Stamp::of(path));
        self.stamps = files
            .iter()
            .map(|path| (path.clone(), stamp(path)))
            .collect();
        if self.stamps() != self.stamps {
            let now = Instant::now();
            self.stirred = Some((now, now + QUIET));
        }
    }

    /// Watches the folders of these files, as their paths lead there now.
    fn watch_folders_of<'a>(&mut self, files: impl IntoIterator<Item = &'a PathBuf>) {
        let folders: BTreeSet<_> = files
            .into_iter()
            .flat_map(|file| folders_of(file))
            .collect();
        let watched = folders.into_iter().filter_map(|folder| self.watch(folder));
        let watched: BTreeMap<_, _> = watched.collect();
        for (_, old) in std::mem::take(&mut self.folders) {
            if !watched.values().any(|new| *new == old) {
                // It may be gone, and the watch with it.
                let _ = inotify::remove_watch(&self.inotify, old);
            }
        }
        self.folders = watched;
    }

    /// Looks whether a file is another one than it was. Folders may have come that were not there.
    fn look(&mut self) -> bool {
        let files: Vec<_> = self.stamps.keys().cloned().collect();
        self.watch_folders_of(&files);
        self.stamps() != self.stamps
    }

    /// Watches a folder, or the nearest above it that there is.
    fn watch(&self, folder: PathBuf) -> Option<(PathBuf, i32)> {
        const EVENTS: WatchFlags = WatchFlags::CREATE
            .union(WatchFlags::CLOSE_WRITE)
            .union(WatchFlags::MOVE)
            .union(WatchFlags::DELETE)
            .union(WatchFlags::DELETE_SELF)
            .union(WatchFlags::MOVE_SELF)
            .union(WatchFlags::ONLYDIR);
        folder.ancestors().find_map(|folder| {
            let watch = inotify::add_watch(&self.inotify, folder, EVENTS).ok()?;
            Some((folder.to_owned(), watch))
        })
    }

    /// Waits until a file is another one than it was. May be called again after it was dropped.
    pub(super) async fn changed(&mut self) {
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
                            if self.look() {
                                return;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Waits for an event and notes it.
    async fn stir(&mut self) {
        if self.inotify.readable().await.is_err() || !drain(&self.inotify) {
            return std::future::pending().await;
        }
        let now = Instant::now();
        let (began, _) = self.stirred.unwrap_or((now, now));
        self.stirred = Some((began, (now + QUIET).min(began + LONGEST)));
    }
}

/// Reads all events away: which ones does not matter. Says whether inotify still works.
fn drain(inotify: &Receiver) -> bool {
    let mut events = [0; 4096];
    loop {
        match inotify.try_read(&mut events) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let Stat {
            st_dev,
            st_ino,
            st_size,
            st_mtime,
            st_mtime_nsec,
            st_ctime,
            st_ctime_nsec,
            ..
        } = rustix::fs::stat(path).ok()?;
        Some(Self([
            st_dev.into(),
            st_ino.into(),
            st_size.into(),
            st_mtime.into(),
            st_mtime_nsec.into(),
            st_ctime.into(),
            st_ctime_nsec.into(),
        ]))
    }
}

/// The folders in which something happens if `path` comes to mean another file: its own, and that of each
/// link on the way.
fn folders_of(path: &Path) -> Vec<PathBuf> {
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
                folders.push(at.clone());
                if target.is_absolute() {
                    at = "/".into();
                }
                let mut before = parts(&target);
                before.append(&mut rest);
                rest = before;
            }
            None => {
                if rest.is_empty() {
                    folders.push(at.clone());
                }
                at = next;
            }
        }
    }
    folders
}
