//! Files that a watched guest asked for, which the host has and the guest may not have.
//!
//! The guest chose the paths. So they are looked up where nobody hears of it ([`LocalMounts`]), once nothing of the guest
//! runs any more; what they lead to is told, and a flag only for what opens no more than was asked for ([`Kept::judge`]).

use crate::{
    broker::{Advisor, Note, Notes},
    file_calls::Use,
    grants::files::{Advised, LayThere},
    host::{Found, Kind, LocalMounts, Missed},
    layout::{Layout, Place},
    paths::join,
    places::{Advice, IN_PART, Kept, NAMED, runs_outside},
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
    let look = Look::new(layout, watched, mounts);
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
            "more files, or names of none",
            "only so many are told apart",
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

/// Says what of the host's files would be granted.
#[derive(Debug)]
pub(crate) struct FileAdvisor(pub(crate) Watched);

impl Advisor for FileAdvisor {
    fn advise(&self, path: &Path, note: Note, layout: &Layout) -> Option<Advised> {
        let mounts = &LocalMounts::here();
        let look = Look::new(layout, &self.0, mounts);
        // What stands beside a folder that the guest does not have would be mounted where it does not look.
        let asked = Asked {
            relative: None,
            ..Asked::of(note)
        };
        let lost = look.at(path, asked).ok()??;
        let mut grant = lost.grant.filter(|_| !lost.probe)?;
        let is_found =
            grant.guest.is_some() || grant.host == path || Some(&*grant.host) == path.parent();
        // By a link of the host's, which the guest does not have.
        if !is_found && grant.access == Access::Read {
            grant.guest = Some(path.into());
        }
        let is_text = |path: &Path| path.to_str().is_some();
        let can_be_said = is_text(&grant.host) && grant.guest.as_deref().is_none_or(is_text);
        let is_led_to = is_found || grant.access == Access::Read;
        let (advised, _) = (can_be_said && is_led_to).then(|| look.advise(grant))??;
        Some(advised)
    }

    fn advise_around(&self, grant: &FileGrant, layout: &Layout) -> Option<Advised> {
        let mounts = &LocalMounts::here();
        let look = Look::new(layout, &self.0, mounts);
        let folder = grant.host.parent().filter(|_| grant.guest.is_none())?;
        let wide = FileGrant {
            host: folder.into(),
            ..grant.clone()
        };
        let (advised, inside) = look.advise(wide)?;
        (inside.is_whole && inside.secret.is_none()).then_some(advised)
    }

    fn advise_place(&self, grant: &FileGrant, layout: &Layout) -> Option<Advised> {
        let mounts = &LocalMounts::here();
        let place = layout.granted_place(grant.guest_path())?;
        let host = layout.host_path(place)?;
        let (advised, _) = Look::new(layout, &self.0, mounts).advise(FileGrant {
            access: grant.access,
            guest: (host != place).then(|| place.into()),
            host,
        })?;
        Some(advised)
    }
}

/// What was found in a folder, however deep.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Inside {
    /// The first that may be a key.
    secret: Option<PathBuf>,
    /// Something that is executed outside of the wall.
    runs_outside: bool,
    /// All of it was looked at.
    is_whole: bool,
}

impl Default for Inside {
    fn default() -> Self {
        Self {
            secret: None,
            runs_outside: false,
            is_whole: true,
        }
    }
}

/// What was asked of one path.
struct Asked {
    at: usize,
    wanted: Use,
    follows: bool,
    relative: Option<PathBuf>,
    call: Option<&'static str>,
    process: Option<Caller>,
    count: u64,
}

impl Asked {
    fn of(note: Note) -> Self {
        Self {
            at: note.at,
            wanted: note.wanted,
            follows: note.follows,
            relative: note.relative,
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
            follows: true,
            relative: None,
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
            known.asked.at = known.asked.at.min(lost.asked.at);
            known.asked.wanted = known.asked.wanted.max(lost.asked.wanted);
        }
        None => drop(found.insert(key, lost)),
    }
}

/// Where things lie.
struct Look<'a> {
    layout: &'a Layout,
    watched: &'a Watched,
    /// What its user keeps.
    kept: Kept,
    mounts: &'a LocalMounts,
}

impl<'a> Look<'a> {
    fn new(layout: &'a Layout, watched: &'a Watched, mounts: &'a LocalMounts) -> Self {
        let home = watched.home.as_deref();
        let home = home.and_then(|home| Some(mounts.find(home).ok()?.canonical));
        Self {
            layout,
            watched,
            kept: Kept::new(home, &watched.sensitive, |path| mounts.find(path).ok()),
            mounts,
        }
    }

    /// What its user has named is kept by whatever name it was asked for.
    fn at(&self, path: &Path, asked: Asked) -> Result<Option<Lost>, Missed> {
        let lost = self.looked_at(path, asked)?;
        Ok(lost.map(|lost| match (self.kept.is_named(path), NAMED) {
            (true, Advice::Refuse(why)) => Lost {
                reason: format!("it is not granted, and {why}: {IN_PART}"),
                grant: None,
                ..lost
            },
            _ => lost,
        }))
    }

    fn looked_at(&self, path: &Path, asked: Asked) -> Result<Option<Lost>, Missed> {
        let changes = asked.changes();
        match self.layout.place(path) {
            Place::System if changes => self.read_only(path, asked),
            Place::Granted { .. } if changes && self.layout.is_read_only(path) => {
                self.read_only(path, asked)
            }
            Place::System => Ok(None),
            Place::Granted { .. } => self.through_link(path, asked),
            Place::Hidden => self.hidden(path, asked),
            Place::Own | Place::None => self.absent(path, asked),
        }
    }

    /// What is known of a path without links, if it may be granted whole.
    fn advise(&self, grant: FileGrant) -> Option<(Advised, Inside)> {
        let found = self.mounts.find(&grant.host).ok()?;
        let changes = grant.access == Access::Write;
        let is_advised = self.kept.judge(&found) == Advice::Grant
            && !(changes && runs_outside(&found.canonical, self.kept.home()))
            && may_have(&found, changes)
            && found.canonical == grant.host;
        if !is_advised {
            return None;
        }
        let is_folder = found.kind == Kind::Folder;
        let inside = match is_folder {
            true => self.look_through(&grant.host),
            false => Inside::default(),
        };
        // What nobody has looked at may be run outside, too.
        if changes && (inside.runs_outside || !inside.is_whole) {
            return None;
        }
        let advised = Advised {
            grant,
            lay_there: LayThere::of(&found),
            secret: inside.secret.clone(),
            is_folder,
        };
        Some((advised, inside))
    }

    /// By their names. Links lead elsewhere.
    fn look_through(&self, folder: &Path) -> Inside {
        const MOST_ENTRIES: usize = 4096;
        let mut inside = Inside::default();
        let mut folders = vec![folder.to_owned()];
        let mut count = 0;
        while let Some(folder) = folders.pop() {
            let is_local = self.mounts.find_unlinked(&folder).is_ok();
            let entries = is_local.then(|| std::fs::read_dir(&folder).ok()).flatten();
            let Some(entries) = entries else {
                inside.is_whole = false;
                continue;
            };
            for entry in entries.flatten() {
                count += 1;
                if count > MOST_ENTRIES {
                    inside.is_whole = false;
                    return inside;
                }
                let path = entry.path();
                inside.runs_outside |= runs_outside(&path, self.kept.home());
                if inside.secret.is_none() && self.kept.keeps_secrets(&path) {
                    inside.secret = Some(path);
                } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                }
            }
        }
        inside
    }

    /// Of what is shown for reading.
    fn read_only(&self, path: &Path, asked: Asked) -> Result<Option<Lost>, Missed> {
        let Some(host) = self.layout.host_path(path) else {
            return Ok(None);
        };
        let Some(found) = self.target(&host, &asked)? else {
            return Ok(None);
        };
        let is_system = self.layout.place(path) == Place::System;
        if !may_have(&found, true) {
            return Ok(None);
        }
        let Some(inside) = self.inside(&found.canonical) else {
            return Ok(self.missing(found, None, asked));
        };
        // A link may lead to what is granted.
        if !self.layout.is_read_only(&inside) {
            return Ok(None);
        }
        let (reason, is_granted) = match (is_system, self.layout.is_protected(path)) {
            (true, _) => ("the system is shown for reading only", false),
            (_, true) => ("it is protected", false),
            _ => ("it is granted for reading only", true),
        };
        let grant = is_granted.then(|| FileGrant {
            access: Access::Write,
            guest: (inside != found.canonical).then_some(inside),
            host: found.canonical,
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

    /// Of what the host has and the guest does not find.
    fn hidden(&self, path: &Path, asked: Asked) -> Result<Option<Lost>, Missed> {
        let Some(host) = self.layout.hidden_on_host(path) else {
            return Ok(None);
        };
        let found = self.target(&host, &asked)?;
        Ok(found.map(|found| Lost {
            path: host,
            kind: found.kind,
            asked,
            reason: "it is hidden".into(),
            grant: None,
            probe: false,
        }))
    }

    /// Where the guest finds what lies there on the host.
    fn inside(&self, on_host: &Path) -> Option<PathBuf> {
        let places = self.layout.host_mounts();
        let around = places.filter(|place| on_host.starts_with(&place.found.canonical));
        let nearest = around.max_by_key(|place| place.found.canonical.components().count())?;
        let below = on_host.strip_prefix(&nearest.found.canonical).ok()?;
        Some(join(nearest.guest, below))
    }

    /// Of what is granted: whether a link there leads to what is not.
    fn through_link(&self, path: &Path, asked: Asked) -> Result<Option<Lost>, Missed> {
        let Some(host) = self.layout.host_path(path) else {
            return Ok(None);
        };
        let found = self.mounts.find(&host)?;
        let is_shown =
            self.layout.shows(&found.canonical) || self.inside(&found.canonical).is_some();
        match is_shown {
            true => Ok(None),
            false => Ok(self.missing(found, None, asked)),
        }
    }

    /// Of what is not there, or is the domain's own.
    fn absent(&self, path: &Path, asked: Asked) -> Result<Option<Lost>, Missed> {
        let target = match self.target(path, &asked) {
            Err(Missed::Errno(Errno::NOENT)) if !asked.changes() => match self.in_home(path) {
                Ok(found) => return Ok(self.missing(found, Some(path), asked)),
                Err(missed) => match &asked.relative {
                    Some(named) => Some(self.beside(named)?),
                    None => return Err(missed),
                },
            },
            target => target?,
        };
        let Some(found) = target else {
            return Ok(None);
        };
        // A folder that the domain has of its own can be read, and some be written to.
        let is_own = |path: &Path| self.layout.place(path) == Place::Own;
        let is_had = match asked.changes() {
            true => is_own(path),
            false => is_own(&found.canonical) && found.kind == Kind::Folder,
        };
        match is_had {
            true => Ok(None),
            false => Ok(self.missing(found, None, asked)),
        }
    }

    /// A path below what the guest takes for its home, as its user has it.
    fn in_home(&self, path: &Path) -> Result<Found, Missed> {
        let inside = self.watched.home_inside.as_ref();
        let below = inside.and_then(|inside| path.strip_prefix(inside).ok());
        match self.kept.home().zip(below) {
            Some((home, below)) if below != Path::new("") => self.mounts.find(&home.join(below)),
            _ => Err(Errno::NOENT.into()),
        }
    }

    /// A relative path of a guest that does not stand where it was started, for that is not granted.
    fn beside(&self, named: &Path) -> Result<Found, Missed> {
        let folder = self.watched.started_in.as_ref();
        let folder = folder.ok_or(Errno::NOENT)?;
        self.mounts.find(&folder.join(named))
    }

    /// `inside` is where the guest looks for it, if not at its path.
    fn missing(&self, found: Found, inside: Option<&Path>, asked: Asked) -> Option<Lost> {
        if !may_have(&found, asked.changes()) {
            return None;
        }
        let home = self.kept.home();
        let leads_home = home.is_some_and(|home| home.starts_with(&found.canonical));
        let is_look = asked.wanted == Use::Look && found.kind == Kind::Folder;
        if is_look && (leads_home || found.canonical == Path::new("/")) {
            return None;
        }
        let (reason, is_granted) = match self.kept.judge(&found) {
            Advice::Grant if is_look => (format!("it is not granted: {IN_PART}"), false),
            Advice::Grant => ("it is not granted".into(), true),
            Advice::Refuse(why) => (format!("it is not granted, and {why}: {IN_PART}"), false),
            Advice::Nothing => return None,
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

    /// What a call would have to do with: its folder where that is to be changed. None where it would have failed with no
    /// wall, too: to make what is there, or to follow a link that it does not follow.
    fn target(&self, path: &Path, asked: &Asked) -> Result<Option<Found>, Missed> {
        let found = match asked.follows {
            true => self.mounts.find(path),
            false => self.mounts.find_unlinked(path),
        };
        let folder = || -> Result<Option<Found>, Missed> {
            let folder = path.parent().ok_or(Errno::NOENT)?;
            Ok(Some(self.mounts.find(folder)?))
        };
        match (found, asked.wanted) {
            (Err(Missed::Errno(Errno::NOENT)), Use::Make) => folder(),
            (Ok(_) | Err(Missed::Errno(Errno::LOOP)), Use::Remove) => folder(),
            (Err(Missed::Errno(Errno::LOOP)), _) => Ok(None),
            (Ok(found), Use::Make) if found.kind == Kind::Folder => Ok(None),
            (found, _) => Ok(Some(found?)),
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
