//! Files that a watched guest asked for, which the host has and the guest may not have.
//!
//! The guest chose the paths. So they are looked up where nobody hears of it ([`LocalMounts`]), once nothing of the guest
//! runs any more; what they lead to is told, and a flag only for what opens no more than was asked for ([`judge`]).

use crate::{
    broker::{Note, Notes},
    file_calls::Use,
    host::{Found, Kind, LocalMounts, Missed},
    layout::{Layout, Place},
    places::{Advice, IN_PART, judge},
    plan::Watched,
};
use palisade_network::Process as Caller;
use palisade_policy::{Access, FileGrant};
use palisade_wall::{Denial, Process};
use rustix::io::Errno;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// As many as a report tells apart.
const MOST: usize = 256;

/// Looks at each.
pub(super) fn denied(
    notes: Notes,
    layout: &Layout,
    watched: &Watched,
    mounts: &LocalMounts,
) -> Vec<Denial> {
    let look = Look {
        layout,
        watched,
        mounts,
    };
    let mut more = notes.more;
    let mut elsewhere = 0;
    let (notes, shown) = notes.take();
    let mut found: BTreeMap<(PathBuf, bool), Lost> = BTreeMap::new();
    let noted = notes
        .into_iter()
        .map(|(path, note)| (path, Asked::of(note)));
    let through_links = shown
        .into_iter()
        .map(|(path, wanted)| (path, Asked::in_passing(wanted)));
    for (path, asked) in noted.chain(through_links) {
        let count = asked.count;
        match look.at(&path, asked) {
            Ok(Some(lost)) => add(&mut found, lost),
            Ok(None) | Err(Missed::Errno(_)) => {}
            Err(Missed::Elsewhere) => elsewhere += count,
        }
    }
    let mut lost: Vec<_> = found.into_values().collect();
    lost.sort_by_key(|lost| lost.asked.at);
    let untold = lost.split_off(lost.len().min(MOST));
    more += untold.iter().map(|lost| lost.asked.count).sum::<u64>();
    let told = lost.into_iter().map(Lost::told);
    let beside = [
        (
            "more files, all different",
            "the report tells only so many apart",
            more,
        ),
        (
            "files on servers, or that programs serve",
            "their names would be sent there to see whether they exist",
            elsewhere,
        ),
    ];
    let beside = beside.into_iter().filter(|(_, _, count)| *count > 0);
    told.chain(beside.map(|(what, reason, count)| Denial {
        what: what.into(),
        reason: Some(reason.into()),
        count: Some(count),
        ..Denial::default()
    }))
    .collect()
}

/// What was asked of one path.
struct Asked {
    at: usize,
    wanted: Use,
    call: Option<&'static str>,
    process: Option<Caller>,
    count: u64,
}

impl Asked {
    fn of(note: Note) -> Self {
        Self {
            at: note.at,
            wanted: note.wanted,
            call: Some(note.call),
            process: Some(note.process),
            count: note.count,
        }
    }

    /// Of a path that is shown: nobody noted who asked.
    fn in_passing(wanted: Use) -> Self {
        Self {
            at: usize::MAX,
            wanted,
            call: None,
            process: None,
            count: 1,
        }
    }

    fn changes(&self) -> bool {
        self.wanted >= Use::Make
    }
}

/// Something that the guest asked for and did not get.
struct Lost {
    /// On the host, without links.
    path: PathBuf,
    kind: Kind,
    asked: Asked,
    reason: String,
    grant: Option<FileGrant>,
    probe: bool,
}

impl Lost {
    fn told(self) -> Denial {
        let path = self.path.to_string_lossy();
        let noun = match self.kind {
            Kind::Folder => "the folder",
            _ => "the file",
        };
        Denial {
            what: match self.asked.changes() {
                true => format!("write access to {path}"),
                false => format!("{noun} {path}"),
            },
            call: self.asked.call.map(Into::into),
            process: (self.asked.process)
                .map(|process| Process::new(process.pid, process.name.as_bytes())),
            reason: Some(self.reason),
            count: Some(self.asked.count),
            // A path that cannot be written down is no advice.
            grant: self
                .grant
                .filter(|grant| grant.host.to_str().is_some())
                .map(|grant| format!("--{} {grant}", grant.access)),
            probe: self.probe,
            ..Denial::default()
        }
    }
}

/// The same by two paths is told once.
fn add(found: &mut BTreeMap<(PathBuf, bool), Lost>, lost: Lost) {
    let key = (lost.path.clone(), lost.asked.changes());
    match found.get_mut(&key) {
        Some(known) => {
            known.asked.count += lost.asked.count;
            known.asked.wanted = known.asked.wanted.max(lost.asked.wanted);
        }
        None => drop(found.insert(key, lost)),
    }
}

/// Where things lie.
struct Look<'a> {
    layout: &'a Layout,
    watched: &'a Watched,
    mounts: &'a LocalMounts,
}

impl Look<'_> {
    fn at(&self, path: &Path, asked: Asked) -> Result<Option<Lost>, Missed> {
        let changes = asked.changes();
        match self.layout.place(path) {
            Place::System if changes => self.read_only(path, asked),
            Place::Granted { .. } if changes && self.layout.is_read_only(path) => {
                self.read_only(path, asked)
            }
            Place::System => Ok(None),
            Place::Granted { .. } => self.through_link(path, asked),
            Place::Own | Place::None => self.absent(path, asked),
        }
    }

    /// Of what is shown for reading.
    fn read_only(&self, path: &Path, asked: Asked) -> Result<Option<Lost>, Missed> {
        let Some(host) = self.layout.host_path(path) else {
            return Ok(None);
        };
        let found = self.find_or_parent(&host, asked.wanted)?;
        if !may_have(&found, true) {
            return Ok(None);
        }
        let is_system = self.layout.place(path) == Place::System;
        let is_protected = self.layout.is_protected(path);
        let (reason, grants) = match (is_system, is_protected) {
            (true, _) => ("the system is shown for reading only", false),
            (_, true) => ("it is protected", false),
            _ => ("it is granted for reading only", true),
        };
        let is_file = found
            .canonical
            .ends_with(path.file_name().unwrap_or_default());
        let guest = match is_file {
            true => Some(path),
            false => path.parent(),
        };
        let grant = guest.filter(|_| grants).map(|guest| FileGrant {
            access: Access::Write,
            host: found.canonical.clone(),
            guest: (guest != found.canonical).then(|| guest.into()),
        });
        Ok(Some(Lost {
            probe: is_system || is_bytecode(path),
            path: host,
            kind: found.kind,
            asked,
            reason: reason.into(),
            grant,
        }))
    }

    /// Of what is granted: whether a link there leads to what is not.
    fn through_link(&self, path: &Path, asked: Asked) -> Result<Option<Lost>, Missed> {
        let Some(host) = self.layout.host_path(path) else {
            return Ok(None);
        };
        let found = self.mounts.find(&host)?;
        let mut places = self.layout.host_mounts();
        let is_shown = self.layout.shows(&found.canonical)
            || places.any(|place| found.canonical.starts_with(&place.found.canonical));
        match is_shown {
            true => Ok(None),
            false => Ok(self.missing(found, None, asked)),
        }
    }

    /// Of what is not there, or is the domain's own.
    fn absent(&self, path: &Path, asked: Asked) -> Result<Option<Lost>, Missed> {
        let changes = asked.changes();
        let found = match self.find_or_parent(path, asked.wanted) {
            Err(Missed::Errno(Errno::NOENT)) if !changes => match self.in_home(path) {
                Ok(found) => return Ok(self.missing(found, Some(path), asked)),
                Err(_) => self.beside(path)?,
            },
            found => found?,
        };
        // A folder that the domain has of its own, to make others in.
        let leads = self.layout.place(&found.canonical) == Place::Own;
        if leads && found.kind == Kind::Folder || self.layout.place(path) == Place::Own && changes {
            return Ok(None);
        }
        let home = self.watched.home.as_deref();
        let is_on_the_way = home.is_some_and(|home| home.starts_with(&found.canonical))
            || found.canonical == Path::new("/");
        if is_on_the_way && asked.wanted == Use::Look {
            return Ok(None);
        }
        Ok(self.missing(found, None, asked))
    }

    /// A path below what the guest takes for its home, as its user has it.
    fn in_home(&self, path: &Path) -> Result<Found, Missed> {
        let Watched {
            home, home_inside, ..
        } = self.watched;
        let below = home_inside
            .as_ref()
            .and_then(|inside| path.strip_prefix(inside).ok());
        match home.as_ref().zip(below) {
            Some((home, below)) if below != Path::new("") => self.mounts.find(&home.join(below)),
            _ => Err(Errno::NOENT.into()),
        }
    }

    /// A relative path of a guest that does not stand where it was started, for that is not granted.
    fn beside(&self, path: &Path) -> Result<Found, Missed> {
        let folder = self.watched.started_in.as_deref();
        let below = path.strip_prefix("/").ok();
        match folder.zip(below) {
            Some((folder, below)) => self.mounts.find(&folder.join(below)),
            None => Err(Errno::NOENT.into()),
        }
    }

    /// `inside` is where the guest looks for it, if not at its path.
    fn missing(&self, found: Found, inside: Option<&Path>, asked: Asked) -> Option<Lost> {
        if !may_have(&found, asked.changes()) {
            return None;
        }
        let (why, is_granted) = match judge(&found, self.watched.home.as_deref()) {
            Advice::Grant => (None, true),
            Advice::Refuse(why) => (Some(why), false),
            Advice::Nothing => return None,
        };
        let reason = match why {
            Some(why) => format!("it is not granted, and {why}: {IN_PART}"),
            None => "it is not granted".into(),
        };
        let access = match asked.changes() {
            true => Access::Write,
            false => Access::Read,
        };
        let grant = is_granted.then(|| FileGrant {
            access,
            host: found.canonical.clone(),
            guest: inside.map(Into::into),
        });
        Some(Lost {
            path: found.canonical,
            kind: found.kind,
            asked,
            reason,
            grant,
            probe: false,
        })
    }

    /// What is there; where something is to be made and is not, its folder.
    fn find_or_parent(&self, path: &Path, wanted: Use) -> Result<Found, Missed> {
        match (self.mounts.find(path), path.parent()) {
            (Err(Missed::Errno(Errno::NOENT)), Some(folder)) if wanted == Use::Make => {
                self.mounts.find(folder)
            }
            (found, _) => found,
        }
    }
}

/// Whether palisade's own user could have it, by its mode: a grant gives nobody what is not his. Of groups it may be one of
/// many.
fn may_have(found: &Found, changes: bool) -> bool {
    let user = rustix::process::geteuid();
    let [owner, others] = match changes {
        true => [0o200, 0o022],
        false => [0o400, 0o044],
    };
    let is_own = found.uid == user.as_raw();
    user.is_root() || found.mode & others != 0 || is_own && found.mode & owner != 0
}

/// Python does without, and says nothing.
fn is_bytecode(path: &Path) -> bool {
    path.iter().any(|part| part == "__pycache__")
}
