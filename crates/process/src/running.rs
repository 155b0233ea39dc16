//! Domains that run, whoever of this user started them: finding them, ending one, entering one.
//!
//! Nothing is registered anywhere, so a start costs nothing for it and a crash leaves nothing. What there is to know the
//! kernel tells of processes that are there anyway:
//!
//! ```text
//!  supervisor ─▶ keeper  executes the keeper's program, a sealed memory file
//!                  └─▶ init   PID 1 of a pid namespace of its own; its title says wall, name and command
//!                        └─▶ everything of the domain
//! ```
//!
//! Each of these is a fact that a guest cannot make: it lives in a pid namespace further in, so no process of it
//! can pass for a keeper, and only a keeper has an init for a child. Without namespaces what descends from a domain is
//! told by that. A title is written by init into memory of its own before there is a guest. What is asked for goes to the
//! keeper's door (`wire.rs`), which has neither a name nor an address.
//!
//! It does not see domains in another pid namespace (of a container), nor those of other users.

mod door;
mod session;
mod table;

pub use crate::grants::{Change, Changed};
pub use door::OperateError;
pub use session::{Further, Session, SessionEvent};
pub use table::own_memory_bytes;

use crate::wire;
use std::{
    io,
    time::{Duration, SystemTime},
};
use table::{Entry, Table};

/// A domain whose guest has been launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningDomain {
    /// Its id: the pid of its first process, as the host counts.
    pub id: u32,
    /// What its starter calls it.
    pub name: Option<String>,
    /// The wall around the guest.
    pub wall: String,
    /// Program and arguments as the user wrote them; the last one may be cut.
    pub command: Vec<String>,
    /// The process that started it.
    pub supervisor: u32,
    /// When it was made.
    pub started: SystemTime,
    /// What its processes use.
    pub usage: Usage,
    init: Known,
    keeper: Known,
}

/// What the living processes of a domain use, as `/proc` tells (proc(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processes, without init.
    pub processes: usize,
    /// Processor time, that of ended children included.
    pub cpu: Duration,
    /// Resident memory that is theirs alone.
    pub memory_bytes: u64,
}

/// A process as it was found. Its pid may be another's by now, but not with the same start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    pid: u32,
    parent: u32,
    started_ticks: u64,
}

impl Known {
    fn of(entry: &Entry) -> Self {
        Self {
            pid: entry.pid,
            parent: entry.parent,
            started_ticks: entry.started_ticks,
        }
    }

    /// Whether the process with this pid is still the one that was found. For a keeper its parent may have changed:
    /// whoever started it may be dead.
    fn is_there(self) -> bool {
        Entry::read(self.pid).is_some_and(|entry| entry.started_ticks == self.started_ticks)
    }
}

/// Those of this user, oldest first.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn list() -> io::Result<Vec<RunningDomain>> {
    let table = Table::read()?;
    let boot = table::boot_time()?;
    let mut found: Vec<_> = keepers(&table)
        .flat_map(|keeper| inits(&table, keeper).map(move |init| (keeper, init)))
        .filter_map(|(keeper, init)| describe(&table, keeper, init, boot))
        .collect();
    found.sort_by_key(|domain| (domain.init.started_ticks, domain.id));
    Ok(found)
}

/// Processes that execute the keeper's program, outside every domain.
fn keepers(table: &Table) -> impl Iterator<Item = &Entry> {
    let looks_like_one = |pid| table::title(pid).is_some_and(|title| title[0] == KEEPER);
    // What a stranger's memory says is not even read.
    let own = table
        .parents()
        .filter(|entry| table::is_own_keeper(entry.pid));
    let all: Vec<_> = own.filter(|entry| looks_like_one(entry.pid)).collect();
    let pids: Vec<_> = all.iter().map(|entry| entry.pid).collect();
    all.into_iter().filter(move |entry| {
        let mut around = table.ancestors(entry);
        !around.any(|pid| pids.contains(&pid))
    })
}

const KEEPER: &[u8] = wire::KEEPERS_TITLE;

fn inits<'a>(table: &'a Table, keeper: &Entry) -> impl Iterator<Item = &'a Entry> + use<'a> {
    table
        .children(keeper.pid)
        .filter(|entry| table::is_first(entry.pid))
}

/// `None` for a domain that waits for its guest, or has ended meanwhile.
fn describe(
    table: &Table,
    keeper: &Entry,
    init: &Entry,
    boot: SystemTime,
) -> Option<RunningDomain> {
    let title = table::title(init.pid)?;
    let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
    let [kind, version, wall, name, command @ ..] = &*title else {
        return None;
    };
    let is_one = kind == wire::INITS_TITLE && version == wire::TITLE_VERSION;
    is_one.then(|| RunningDomain {
        id: init.pid,
        name: Some(text(name)).filter(|name| !name.is_empty()),
        wall: text(wall),
        command: command.iter().map(text).collect(),
        supervisor: keeper.parent,
        started: boot + table::duration_of(init.started_ticks),
        usage: table.usage_below(init),
        init: Known::of(init),
        keeper: Known::of(keeper),
    })
}

#[cfg(test)]
mod tests;
