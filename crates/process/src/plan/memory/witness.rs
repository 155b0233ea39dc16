//! A host that takes down what it is asked and what it answers.

use crate::{
    host::{Entry, Found, Host, Identity, Kind, Mount},
    paths::is_plain,
};
use palisade_network::{Answer, Resolve, ResolveError};
use palisade_policy::HostName;
use rustix::io::Result;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

/// Of a policy that has more looked at, nothing is remembered: questions, lines of folders and of tables, and pieces of files.
const MOST_LINES: usize = 4096;
/// What of a file counts as a line. A path has up to 4 KiB, and an entry's name up to 255 bytes.
const LINE_BYTES: usize = 64;

/// The host, and what it was asked so far.
pub(super) struct Witness<'a> {
    host: &'a dyn Host,
    record: RefCell<Record>,
    resolver: Resolver<'a>,
}

/// What is taken down, until it is too much: a guest may have left as much to look at as it likes.
#[derive(Default)]
struct Record {
    statements: Vec<Statement>,
    lines: usize,
}

/// What has to hold for a host to answer all that it was asked as it did.
pub(super) struct Testimony(Vec<Statement>);

/// A question and its answer.
enum Statement {
    Found(PathBuf, Result<Found>),
    FoundUnlinked(PathBuf, Result<Found>),
    KindAndMode(PathBuf, Result<(Kind, u32)>),
    Identity(PathBuf, Result<Identity>),
    KernelLacks(PathBuf),
    Link(PathBuf, Option<OsString>),
    User(u32),
    List(PathBuf, Result<Vec<Entry>>),
    Names(PathBuf, Result<(Identity, u64)>),
    OpenToAll(PathBuf, bool),
    Content(PathBuf, u64, Option<Vec<u8>>),
    Mounts(Result<Vec<Mount>>),
}

/// What a name stands for holds for a time of its own: a plan for which somebody was asked is made anew.
struct Resolver<'a> {
    resolver: &'a dyn Resolve,
    was_asked: AtomicBool,
}

impl<'a> Witness<'a> {
    pub(super) fn of(host: &'a dyn Host) -> Self {
        Self {
            host,
            record: RefCell::default(),
            resolver: Resolver {
                resolver: host.resolver(),
                was_asked: AtomicBool::new(false),
            },
        }
    }

    /// What can be asked again; `None` if that is not all, or too much.
    pub(super) fn testify(self) -> Option<Testimony> {
        let record = self.record.into_inner();
        let is_whole = !self.resolver.was_asked.into_inner() && !record.is_too_much();
        is_whole.then(|| Testimony::of(record.statements))
    }

    fn note<T: Clone>(
        &self,
        path: &Path,
        answer: T,
        statement: impl FnOnce(PathBuf, T) -> Statement,
    ) -> T {
        let mut record = self.record.borrow_mut();
        if !record.is_too_much() {
            record.add(statement(path.into(), answer.clone()));
        }
        answer
    }
}

impl Record {
    fn is_too_much(&self) -> bool {
        self.lines > MOST_LINES
    }

    fn add(&mut self, statement: Statement) {
        self.lines += statement.lines();
        match self.is_too_much() {
            true => self.statements = Vec::new(),
            false => self.statements.push(statement),
        }
    }
}

impl Testimony {
    /// Of what was asked, with the answers, no more than it takes to know all of it.
    fn of(statements: Vec<Statement>) -> Self {
        let folders = statements.iter().filter_map(Statement::no_link);
        let folders: BTreeSet<PathBuf> = folders.map(Path::to_path_buf).collect();
        let mut said = BTreeMap::new();
        let fewer = statements.into_iter().map(|one| one.by_less(&folders));
        let fewer = fewer.filter(|one| match one {
            Statement::FoundUnlinked(path, found) if is_plain(path) => {
                said.insert(path.clone(), found.clone()).as_ref() != Some(found)
            }
            _ => true,
        });
        Self(fewer.collect())
    }

    /// Whether the host says the same now.
    pub(super) fn holds(&self, host: &dyn Host) -> bool {
        self.0.iter().all(|statement| statement.holds(host))
    }
}

impl Statement {
    /// A folder that is there itself, and not by a link. Only of a plain path: `/a/.` and `/a/` follow one.
    fn no_link(&self) -> Option<&Path> {
        let folder = match self {
            Self::Found(path, Ok(found)) | Self::FoundUnlinked(path, Ok(found)) => {
                (found.kind == Kind::Folder && found.canonical == *path).then_some(path)
            }
            Self::KindAndMode(path, Ok((Kind::Folder, _))) => Some(path),
            // Nor is it one that is missing: what lies in it was found.
            Self::Link(path, None) => Some(path),
            _ => None,
        };
        folder.map(PathBuf::as_path).filter(|path| is_plain(path))
    }

    /// What takes one call and says the same of a path that is its only name as long as none of its folders is a link, which
    /// other statements say.
    fn by_less(self, folders: &BTreeSet<PathBuf>) -> Self {
        let is_unlinked = |path: &Path| {
            let mut above = path.ancestors().skip(1);
            is_plain(path) && above.all(|one| one == Path::new("/") || folders.contains(one))
        };
        match self {
            Self::Found(path, Ok(found)) if found.canonical == path && is_unlinked(&path) => {
                Self::FoundUnlinked(path, Ok(found))
            }
            statement => statement,
        }
    }

    fn lines(&self) -> usize {
        1 + match self {
            Self::List(_, Ok(entries)) => entries.len(),
            Self::Mounts(Ok(mounts)) => mounts.len(),
            Self::Content(_, _, Some(content)) => content.len() / LINE_BYTES,
            _ => 0,
        }
    }

    fn holds(&self, host: &dyn Host) -> bool {
        match self {
            Self::Found(path, found) => host.find(path) == *found,
            Self::FoundUnlinked(path, found) => host.find_unlinked(path) == *found,
            Self::KindAndMode(path, both) => host.kind_and_mode(path) == *both,
            Self::Identity(path, identity) => host.identify(path) == *identity,
            Self::KernelLacks(path) => host.kernel_has(path) == Ok(false),
            // As it is written: as paths, `usr/bin/` and `usr/bin` are equal.
            Self::Link(path, target) => host.link(path).map(PathBuf::into_os_string) == *target,
            Self::User(user) => host.user() == *user,
            Self::List(folder, entries) => host.list(folder) == *entries,
            Self::Names(path, names) => host.names(path) == *names,
            Self::OpenToAll(folder, is_open) => host.is_open_to_all(folder) == *is_open,
            Self::Content(path, most_bytes, content) => host.content(path, *most_bytes) == *content,
            Self::Mounts(mounts) => host.mounts() == *mounts,
        }
    }
}

impl Host for Witness<'_> {
    fn find(&self, path: &Path) -> Result<Found> {
        self.note(path, self.host.find(path), Statement::Found)
    }

    fn find_unlinked(&self, path: &Path) -> Result<Found> {
        let found = self.host.find_unlinked(path);
        self.note(path, found, Statement::FoundUnlinked)
    }

    fn kind_and_mode(&self, path: &Path) -> Result<(Kind, u32)> {
        let both = self.host.kind_and_mode(path);
        self.note(path, both, Statement::KindAndMode)
    }

    fn identify(&self, path: &Path) -> Result<Identity> {
        self.note(path, self.host.identify(path), Statement::Identity)
    }

    fn kernel_has(&self, path: &Path) -> Result<bool> {
        let is_there = self.host.kernel_has(path);
        if is_there == Ok(false) {
            self.note(path, (), |path, ()| Statement::KernelLacks(path));
        }
        is_there
    }

    fn link(&self, path: &Path) -> Option<PathBuf> {
        self.note(path, self.host.link(path), |path, target| {
            Statement::Link(path, target.map(PathBuf::into_os_string))
        })
    }

    fn list(&self, folder: &Path) -> Result<Vec<Entry>> {
        self.note(folder, self.host.list(folder), Statement::List)
    }

    fn names(&self, path: &Path) -> Result<(Identity, u64)> {
        self.note(path, self.host.names(path), Statement::Names)
    }

    fn is_open_to_all(&self, folder: &Path) -> bool {
        let is_open = self.host.is_open_to_all(folder);
        self.note(folder, is_open, Statement::OpenToAll)
    }

    fn user(&self) -> u32 {
        self.note(Path::new(""), self.host.user(), |_, user| {
            Statement::User(user)
        })
    }

    fn resolver(&self) -> &dyn Resolve {
        &self.resolver
    }

    fn content(&self, path: &Path, most_bytes: u64) -> Option<Vec<u8>> {
        let content = self.host.content(path, most_bytes);
        self.note(path, content, |path, content| {
            Statement::Content(path, most_bytes, content)
        })
    }

    fn mounts(&self) -> Result<Vec<Mount>> {
        self.note(Path::new(""), self.host.mounts(), |_, mounts| {
            Statement::Mounts(mounts)
        })
    }
}

impl Resolver<'_> {
    fn ask(&self) -> &dyn Resolve {
        self.was_asked.store(true, Ordering::Relaxed);
        self.resolver
    }
}

impl Resolve for Resolver<'_> {
    fn addresses(&self, name: &HostName) -> std::result::Result<Answer, ResolveError> {
        self.ask().addresses(name)
    }

    fn interface(&self, zone: &str) -> Option<u32> {
        self.ask().interface(zone)
    }

    fn name_servers(&self) -> Vec<SocketAddr> {
        self.ask().name_servers()
    }

    /// The same as long as a machine is up.
    fn files(&self) -> Vec<PathBuf> {
        self.resolver.files()
    }
}

#[cfg(test)]
mod tests;
