//! Files of a folder, as a service.
//!
//! ```text
//!  path ──▶ name ──▶ entry ──▶ variant ──▶ plan ──▶ response
//!           name.rs  cache,    encoding    condition, body from memory
//!                    load.rs   .rs         range.rs   or stream.rs
//! ```
//!
//! What does not lie below the folder is not served, whatever links say: every file is opened by openat2(2) with
//! `RESOLVE_BENEATH`. Links that stay inside are followed. FIFOs, devices and sockets are never opened, names that
//! begin with a dot are not there (but for `/.well-known/`), and folders are not listed.
//!
//! # Changes
//!
//! Files of up to 128 KiB are kept in memory, headers of all: 4096 paths at most, and about 32 MiB. What is kept is
//! compared with the file's metadata at most every 100 ms, so a change shows within that. Another folder in the place of
//! the root is opened and checked as at a reload first, and shows some 100 ms later. A response is of one state of a file: what is replaced or removed is sent on as it was,
//! and where a file is changed in its place while it is sent, the connection is broken off. To change files under
//! load, write a new one and rename(2) it. What a program writes through a shared mapping (mmap(2)) moves a file's
//! times only now and then, and can be missed.
//!
//! A compressed sibling that is older than its file is not used.
//!
//! One `Files` belongs to one worker. It opens nothing itself (`readers.rs`), and keeps the folder open and for a moment
//! big files that were asked for (`held.rs`).

mod cache;
mod condition;
mod encoding;
mod entry;
mod folders;
mod held;
mod load;
mod name;
mod range;
mod readers;
mod respond;
mod stream;

pub use folders::{Check, Served, Tell};
pub use name::file_name;
pub use readers::ReadersError;

use crate::{body::Body, config};
use cache::{Bounds, Cache};
use entry::{Entry, Variant};
use folders::Folders;
use held::Held;
use http::{HeaderValue, Method, Response, request::Parts};
use load::{Fault, Found, Loaded, Stamp};
use respond::Plan;
use rustix::fs::CWD;
use std::{
    cell::RefCell,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

/// How long an entry is believed without a look at its file.
const TRUST_MS: u64 = 100;
/// How often a response is begun anew because the file was changed in the meantime.
const TRIES: usize = 4;
/// What a worker keeps of one folder.
const BOUNDS: Bounds = Bounds {
    entries: 4096,
    bytes: 32 << 20,
};

/// Why there is no service of a folder.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The folder can't be opened.
    #[error(
        "cannot open the folder {} of a files service: \
         name one in `files` that exists and that the server may read",
        path.display()
    )]
    Root {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The index is no name of a file.
    #[error("the index {0:?} of a files service is no name of a file: write it without a slash")]
    Index(String),
    /// Nobody reads what lies in it.
    #[error(transparent)]
    Readers(#[from] ReadersError),
}

impl FilesError {
    /// The folder is none of those that are served.
    pub(crate) fn not_served(config: &config::Files) -> Self {
        Self::Root {
            path: config.root.clone(),
            source: io::ErrorKind::NotFound.into(),
        }
    }
}

/// The files of one folder.
#[derive(Debug)]
pub struct Files {
    path: PathBuf,
    served: Arc<Served>,
    root: RefCell<Root>,
    index: Box<str>,
    precompressed: bool,
    cache_control: Option<HeaderValue>,
    cache: RefCell<Cache<Rc<Entry>>>,
    held: Arc<Held>,
    trust_ms: u64,
}

/// The folder.
#[derive(Debug)]
struct Root {
    /// Shared with the threads that read.
    folder: Arc<OwnedFd>,
    stamp: Stamp,
    /// It is one of these.
    folders: Arc<Folders>,
    checked_ms: u64,
}

impl Files {
    /// The files of a folder that is one of those `served`.
    ///
    /// # Errors
    ///
    /// When it is not, or when the index is no name.
    pub fn new(config: &config::Files, served: &Arc<Served>) -> Result<Self, FilesError> {
        let index = &config.index;
        if index.is_empty() || index.contains(['/', '\0']) || matches!(&**index, "." | "..") {
            return Err(FilesError::Index(index.clone()));
        }
        let root =
            Root::of(served.now(), &config.root).ok_or_else(|| FilesError::not_served(config))?;
        Ok(Self {
            path: config.root.clone(),
            served: Arc::clone(served),
            root: RefCell::new(root),
            index: index.as_str().into(),
            precompressed: config.precompressed,
            cache_control: config.cache_control.clone(),
            cache: RefCell::new(Cache::new(BOUNDS)),
            held: Arc::default(),
            trust_ms: TRUST_MS,
        })
    }

    /// Responds to a request whose path is normal ([`path::normalize`](crate::path::normalize)). Needs a Tokio
    /// runtime: what waits for a disk does so on one of its blocking threads.
    pub async fn respond(&self, request: &Parts) -> Response<Body> {
        match self.respond_at_once(request) {
            Some(response) => response,
            // Boxed: what may wait would make every response's future bigger.
            None => Box::pin(self.respond_later(request)).await,
        }
    }

    /// The response with a file that is known and in memory, for which nothing has to be waited; `None`: not here.
    pub(crate) fn respond_at_once(&self, request: &Parts) -> Option<Response<Body>> {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return None;
        }
        let entry = self.kept(request.uri.path(), now_ms())?;
        let variant = entry.choose(&request.headers);
        let plan = Plan::new(variant, request);
        let is_at_once = !plan.needs_file(variant);
        is_at_once.then(|| without_body_of_head(request, plan.carry_out(variant, None)))
    }

    /// The response for which [`Files::respond_at_once`] has none.
    pub(crate) async fn respond_later(&self, request: &Parts) -> Response<Body> {
        let response = match request.method {
            Method::GET | Method::HEAD => self
                .serve(request)
                .await
                .unwrap_or_else(|fault| respond::to_fault(&fault, &request.uri)),
            Method::OPTIONS => respond::to_options(),
            _ => respond::to_other_method(),
        };
        without_body_of_head(request, response)
    }

    async fn serve(&self, request: &Parts) -> Result<Response<Body>, Fault> {
        let path = request.uri.path();
        for _ in 0..TRIES {
            let entry = self.find(path).await?;
            let variant = entry.choose(&request.headers);
            let plan = Plan::new(variant, request);
            let file = match plan.needs_file(variant) {
                false => None,
                true => match self.open(variant).await? {
                    None => {
                        self.cache.borrow_mut().remove(path);
                        continue;
                    }
                    file => file,
                },
            };
            return Ok(plan.carry_out(variant, file));
        }
        Err(Fault::Changing)
    }

    /// What is known of a path's file, if that is still so, or what is found now.
    async fn find(&self, path: &str) -> Result<Rc<Entry>, Fault> {
        let now_ms = now_ms();
        if let Some(entry) = self.kept(path, now_ms) {
            return Ok(entry);
        }
        // Boxed: it is rare, and would make every response's future bigger.
        match Box::pin(self.load(path)).await {
            Ok(loaded) => {
                let entry = Rc::new(Entry::new(loaded, self.cache_control.as_ref(), now_ms));
                let bytes = entry.bytes();
                self.cache
                    .borrow_mut()
                    .insert(path, Rc::clone(&entry), bytes);
                Ok(entry)
            }
            Err(fault) => {
                self.cache.borrow_mut().remove(path);
                Err(fault)
            }
        }
    }

    fn kept(&self, path: &str, now_ms: u64) -> Option<Rc<Entry>> {
        self.follow_root(now_ms);
        let cache = self.cache.borrow();
        let entry = cache.get(path)?;
        let is_current = entry.is_current(&self.root.borrow().folder, now_ms, self.trust_ms);
        is_current.then(|| Rc::clone(entry))
    }

    /// Has the folder opened anew where its path leads to another one now: sites are often replaced by changing one
    /// link. A path that leads nowhere for a moment changes nothing.
    fn follow_root(&self, now_ms: u64) {
        let mut root = self.root.borrow_mut();
        if now_ms.saturating_sub(root.checked_ms) < self.trust_ms {
            return;
        }
        root.checked_ms = now_ms;
        let folders = self.served.now();
        if !Arc::ptr_eq(&folders, &root.folders)
            && let Some(other) = Root::of(folders, &self.path)
        {
            if !other.stamp.is_of_same_file(&root.stamp) {
                self.cache.borrow_mut().clear();
            }
            *root = other;
        }
        let now = load::look_by_name(CWD, &self.path);
        if now.is_ok_and(|stamp| !stamp.is_of_same_file(&root.stamp)) {
            self.served.follow();
        }
    }

    fn root(&self) -> (Arc<OwnedFd>, Arc<Folders>) {
        let root = self.root.borrow();
        (Arc::clone(&root.folder), Arc::clone(&root.folders))
    }

    async fn load(&self, path: &str) -> Result<Loaded, Fault> {
        let name = file_name(path, &self.index).ok_or(Fault::Absent)?;
        let ((folder, folders), precompressed) = (self.root(), self.precompressed);
        if load::is_absent(&folder, &name) {
            return Err(Fault::Absent);
        }
        let load = move || load::load(&folder, &name, precompressed);
        match folders.readers.read(load).await? {
            Found::File(loaded) => Ok(loaded),
            Found::Folder if path.ends_with('/') => Err(Fault::Absent),
            Found::Folder => Err(Fault::Folder),
        }
    }

    /// Opens the file of a variant; `None`: it has changed.
    async fn open(&self, variant: &Variant) -> Result<Option<Arc<OwnedFd>>, Fault> {
        if let Some(file) = self.held.get(&variant.stamp) {
            return Ok(Some(file));
        }
        let ((folder, folders), name) = (self.root(), variant.name.clone());
        let open = move || load::open_file(&folder, &name);
        let (file, stamp) = folders.readers.read(open).await?;
        if stamp != variant.stamp {
            return Ok(None);
        }
        let file = Arc::new(file);
        self.held.put(stamp, &file);
        Ok(Some(file))
    }
}

impl Root {
    fn of(folders: Arc<Folders>, path: &Path) -> Option<Self> {
        let folder = folders.get(path)?;
        Some(Self {
            folder: Arc::clone(&folder.open),
            stamp: folder.stamp,
            folders,
            checked_ms: now_ms(),
        })
    }
}

/// A response to HEAD has no body, an error neither.
fn without_body_of_head(request: &Parts, mut response: Response<Body>) -> Response<Body> {
    if request.method == Method::HEAD {
        *response.body_mut() = Body::Empty;
    }
    response
}

/// Time since some moment, as exact as the kernel's tick: read without a system call.
fn now_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    now.tv_sec.cast_unsigned() * 1000 + now.tv_nsec.cast_unsigned() / 1_000_000
}

#[cfg(test)]
mod tests;
