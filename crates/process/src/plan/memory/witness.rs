//! A host that takes down what it is asked and what it answers.

use crate::host::{Entry, Found, Host, Identity, Kind, Mount};
use palisade_network::{Answer, Resolve, ResolveError};
use palisade_policy::HostName;
use rustix::io::Result;
use std::{
    cell::RefCell,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

/// Of a policy that has more looked at, nothing is remembered: lines of folders and of tables, and pieces of files.
const MOST_LINES: usize = 4096;
/// What of a file counts as a line.
const LINE_BYTES: usize = 64;

/// The host, and what it was asked so far.
pub(super) struct Witness<'a> {
    host: &'a dyn Host,
    statements: RefCell<Vec<Statement>>,
    resolver: Resolver<'a>,
}

/// What the host was asked, and answered, from the first question to the last.
pub(super) struct Testimony(Vec<Statement>);

/// A question and its answer.
enum Statement {
    Found(PathBuf, Result<Found>),
    FoundUnlinked(PathBuf, Result<Found>),
    KindAndMode(PathBuf, Result<(Kind, u32)>),
    Identity(PathBuf, Result<Identity>),
    KernelLacks(PathBuf),
    Link(PathBuf, Option<PathBuf>),
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
            statements: RefCell::default(),
            resolver: Resolver {
                resolver: host.resolver(),
                was_asked: AtomicBool::new(false),
            },
        }
    }

    /// What can be asked again; `None` if that is not all, or too much.
    pub(super) fn testify(self) -> Option<Testimony> {
        let statements = self.statements.into_inner();
        let is_whole = !self.resolver.was_asked.into_inner();
        let lines: usize = statements.iter().map(Statement::lines).sum();
        (is_whole && lines <= MOST_LINES).then_some(Testimony(statements))
    }

    fn note<T: Clone>(&self, answer: T, statement: impl FnOnce(T) -> Statement) -> T {
        let statement = statement(answer.clone());
        self.statements.borrow_mut().push(statement);
        answer
    }
}

impl Testimony {
    /// Whether the host says the same now.
    pub(super) fn holds(&self, host: &dyn Host) -> bool {
        self.0.iter().all(|statement| statement.holds(host))
    }
}

impl Statement {
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
            Self::KernelLacks(path) => !host.kernel_has(path),
            Self::Link(path, target) => host.link(path) == *target,
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
        self.note(self.host.find(path), |found| {
            Statement::Found(path.into(), found)
        })
    }

    fn find_unlinked(&self, path: &Path) -> Result<Found> {
        self.note(self.host.find_unlinked(path), |found| {
            Statement::FoundUnlinked(path.into(), found)
        })
    }

    fn kind_and_mode(&self, path: &Path) -> Result<(Kind, u32)> {
        self.note(self.host.kind_and_mode(path), |both| {
            Statement::KindAndMode(path.into(), both)
        })
    }

    fn identify(&self, path: &Path) -> Result<Identity> {
        self.note(self.host.identify(path), |identity| {
            Statement::Identity(path.into(), identity)
        })
    }

    fn kernel_has(&self, path: &Path) -> bool {
        let is_there = self.host.kernel_has(path);
        if !is_there {
            self.note((), |()| Statement::KernelLacks(path.into()));
        }
        is_there
    }

    fn link(&self, path: &Path) -> Option<PathBuf> {
        self.note(self.host.link(path), |target| {
            Statement::Link(path.into(), target)
        })
    }

    fn list(&self, folder: &Path) -> Result<Vec<Entry>> {
        self.note(self.host.list(folder), |entries| {
            Statement::List(folder.into(), entries)
        })
    }

    fn names(&self, path: &Path) -> Result<(Identity, u64)> {
        self.note(self.host.names(path), |names| {
            Statement::Names(path.into(), names)
        })
    }

    fn is_open_to_all(&self, folder: &Path) -> bool {
        self.note(self.host.is_open_to_all(folder), |is_open| {
            Statement::OpenToAll(folder.into(), is_open)
        })
    }

    fn resolver(&self) -> &dyn Resolve {
        &self.resolver
    }

    fn content(&self, path: &Path, most_bytes: u64) -> Option<Vec<u8>> {
        self.note(self.host.content(path, most_bytes), |content| {
            Statement::Content(path.into(), most_bytes, content)
        })
    }

    fn mounts(&self) -> Result<Vec<Mount>> {
        self.note(self.host.mounts(), Statement::Mounts)
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
