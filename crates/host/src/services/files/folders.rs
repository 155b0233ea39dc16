//! The folders of one configuration, open, and who reads below them.
//!
//! ```text
//!  worker: the path leads to another folder ──follow──▶ a thread: open all, check all, new readers
//!     ▲                                                    │
//!     └───────────── Folders, put in place ◀───────────────┘   refused: the old ones stay
//! ```

use super::{
    FilesError,
    load::{self, Stamp},
    readers::Readers,
};
use crate::beneath;
use arc_swap::ArcSwap;
use palisade_engine::lock::lock;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    collections::BTreeMap,
    fmt,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

/// How long folders that were refused are not looked at again.
const REST: Duration = Duration::from_secs(1);

/// One folder.
#[derive(Debug)]
pub(super) struct Folder {
    /// Open by `O_PATH`.
    pub(super) open: Arc<OwnedFd>,
    pub(super) stamp: Stamp,
}

/// All of them, as they were at one time.
#[derive(Debug)]
pub(super) struct Folders {
    folders: BTreeMap<PathBuf, Folder>,
    pub(super) readers: Readers,
}

/// Whether what the paths lead to now may be served.
pub type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;
/// Is told why it may not.
pub type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// The folders of one configuration, for all workers.
pub struct Served {
    now: ArcSwap<Folders>,
    /// The folder that all of them must lie in.
    within: Option<PathBuf>,
    landlock_abi: Option<u32>,
    check: Check,
    tell: Tell,
    /// When they may be opened anew next; `None`: that is being done.
    next: Mutex<Option<Instant>>,
}

impl Folder {
    fn open(path: &Path, within: Option<&Path>) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let open = beneath::open(within, path, flags, Mode::empty())?;
        Ok(Self {
            stamp: load::look(&open)?.1,
            open: Arc::new(open),
        })
    }
}

impl Folders {
    fn open(
        paths: impl Iterator<Item = PathBuf>,
        within: Option<&Path>,
        landlock_abi: Option<u32>,
    ) -> Result<Self, FilesError> {
        let folders: Result<BTreeMap<_, _>, _> = paths
            .map(|path| match Folder::open(&path, within) {
                Ok(folder) => Ok((path, folder)),
                Err(errno) => Err(FilesError::Root {
                    path,
                    source: errno.into(),
                }),
            })
            .collect();
        let folders = folders?;
        let open = folders.values().map(|folder| Arc::clone(&folder.open));
        Ok(Self {
            readers: Readers::new(open, landlock_abi)?,
            folders,
        })
    }

    pub(super) fn get(&self, path: &Path) -> Option<&Folder> {
        self.folders.get(path)
    }
}

impl Served {
    /// Opens the folders, below one that they must be `within`. They may be served once somebody has checked them.
    ///
    /// # Errors
    ///
    /// When one can't be opened, or the kernel refuses rules for who reads.
    pub fn open(
        paths: impl Iterator<Item = PathBuf>,
        within: Option<PathBuf>,
        landlock_abi: Option<u32>,
        check: Check,
        tell: Tell,
    ) -> Result<Arc<Self>, FilesError> {
        Ok(Arc::new(Self {
            now: ArcSwap::from_pointee(Folders::open(paths, within.as_deref(), landlock_abi)?),
            within,
            landlock_abi,
            check,
            tell,
            next: Mutex::new(Some(Instant::now())),
        }))
    }

    pub(super) fn now(&self) -> Arc<Folders> {
        self.now.load_full()
    }

    /// Has the folders opened anew, on a thread of its own: a path leads to another one now.
    pub(super) fn follow(self: &Arc<Self>) {
        let mut next = lock(&self.next);
        if next.is_none_or(|next| Instant::now() < next) {
            return;
        }
        let served = Arc::clone(self);
        let thread = thread::Builder::new().name("folders".into());
        // Without a thread it is tried again with a later request.
        if thread.spawn(move || served.open_anew()).is_ok() {
            *next = None;
        }
    }

    fn open_anew(&self) {
        let paths = self.now().folders.keys().cloned().collect::<Vec<_>>();
        // Opened before they are checked: what is put in their place afterwards is not read.
        let opened = Folders::open(paths.into_iter(), self.within.as_deref(), self.landlock_abi);
        let opened = opened.map_err(|error| error.to_string());
        let checked = opened.and_then(|folders| (self.check)().map(|()| folders));
        let rest = match checked {
            Ok(folders) => {
                self.now.store(Arc::new(folders));
                Duration::ZERO
            }
            Err(reason) => {
                (self.tell)(&reason);
                REST
            }
        };
        let mut next = lock(&self.next);
        *next = Some(Instant::now() + rest);
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
