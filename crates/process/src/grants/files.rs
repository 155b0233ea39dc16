//! Files and folders that are granted while the guest runs.

use super::{
    decision::decide,
    holder::{HoldError, Holder},
};
use crate::{
    host::{Found, Host, Identity, Mount},
    layout::{Growth, Layout, Place},
    lock::lock,
    paths::join,
    wire::hold::MOST_HELD,
};
use palisade_policy::{Access, FileGrant};
use palisade_wall::{
    Granted, Process,
    ask::Verdict,
    journal::{Entry, Journal},
};
use rustix::fs::{AtFlags, StatxFlags};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Instant,
};

/// Grants that the report tells apart.
const MOST_TOLD: usize = 1024;

/// What would be granted, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Advised {
    pub(crate) grant: FileGrant,
    /// Nothing else is granted in its place.
    pub(crate) lay_there: LayThere,
    /// Something in it that may be a key or a password.
    pub(crate) secret: Option<PathBuf>,
    /// With all that lies in it.
    pub(crate) is_folder: bool,
}

/// What lay at a path when somebody was asked about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayThere {
    identity: Identity,
    /// When it was made, where the file system says so: its number may be another file's by then.
    born: Option<(i64, u32)>,
}

impl LayThere {
    pub(crate) fn of(found: &Found) -> Self {
        let about = rustix::fs::statx(
            rustix::fs::CWD,
            &found.canonical,
            AtFlags::SYMLINK_NOFOLLOW,
            StatxFlags::BTIME,
        );
        let about = about
            .ok()
            .filter(|about| about.stx_mask & StatxFlags::BTIME.bits() != 0);
        Self {
            identity: found.identity,
            born: about.map(|about| (about.stx_btime.tv_sec, about.stx_btime.tv_nsec)),
        }
    }
}

/// What was granted so, and who mounts it.
#[derive(Debug)]
pub(crate) struct Files {
    state: Mutex<State>,
    relied: Vec<PathBuf>,
    /// Mounts of the host's that lie in what is granted are not held together.
    is_root: bool,
    journal: Option<Arc<Journal>>,
    begun: Instant,
}

#[derive(Debug)]
struct State {
    holder: Holder,
    /// With all that is granted now.
    layout: Layout,
    held: Vec<Held>,
    granted: Vec<Granted>,
}

#[derive(Debug)]
struct Held {
    flag: String,
    number: u64,
    grant: FileGrant,
    /// Where the guest's files came from before.
    before: Layout,
    /// Flags of what was granted before, and is a part of it.
    parts: Vec<String>,
}

impl Files {
    pub(crate) fn new(
        holder: Holder,
        layout: &Layout,
        relied: &[PathBuf],
        journal: Option<&Arc<Journal>>,
    ) -> Self {
        Self {
            is_root: holder.is_root(),
            state: Mutex::new(State {
                holder,
                layout: layout.without_contents(),
                held: Vec::new(),
                granted: Vec::new(),
            }),
            relied: relied.into(),
            journal: journal.cloned(),
            begun: Instant::now(),
        }
    }

    /// Grants what the flag says.
    pub(crate) fn give(&self, flag: &str, host: &dyn Host) -> Result<(), String> {
        self.give_as(&parse(flag)?, None, host)
    }

    /// Grants what somebody was asked about, and nothing that lies there since.
    pub(crate) fn give_asked(
        &self,
        grant: &FileGrant,
        (lay_there, process, verdict): (LayThere, Process, Verdict),
        host: &dyn Host,
    ) -> Result<(), String> {
        self.give_as(grant, Some((lay_there, process, verdict)), host)
    }

    fn give_as(
        &self,
        grant: &FileGrant,
        asked: Option<(LayThere, Process, Verdict)>,
        host: &dyn Host,
    ) -> Result<(), String> {
        let flag = flag_of(grant);
        let mut state = lock(&self.state);
        let within = state.within(grant);
        let before = state.without(&within);
        let (layout, growth) = self.grown(&before, grant, host)?;
        if asked
            .as_ref()
            .is_some_and(|(lay_there, ..)| *lay_there != LayThere::of(&growth.found))
        {
            return Err(HoldError::Replaced.to_string());
        }
        if asked.is_some() && !state.holder.is_free(&growth) {
            return Err("the guest has something of its own there".into());
        }
        let number = state.holder.hold(&growth);
        let number = number.map_err(|error| error.to_string())?;
        // They lie beneath it by now.
        let mut parts = within.clone();
        for held in within {
            parts.extend(state.let_go(&held));
        }
        state.layout = layout;
        state.held.push(Held {
            flag: flag.clone(),
            number,
            grant: grant.clone(),
            before,
            parts,
        });
        let (process, verdict) = asked
            .map(|(_, process, verdict)| (process, verdict))
            .unzip();
        if let Some(journal) = &self.journal {
            journal.write(Entry::Granted {
                grant: flag.clone(),
                process: process.clone(),
                answer: verdict,
            });
        }
        if state.granted.len() < MOST_TOLD {
            state.granted.push(Granted {
                grant: flag,
                process,
                verdict,
                count: 1,
                at_us: self.now_us(),
                revoked_at_us: None,
            });
        }
        Ok(())
    }

    fn grown(
        &self,
        layout: &Layout,
        grant: &FileGrant,
        host: &dyn Host,
    ) -> Result<(Layout, Growth), String> {
        let grown = decide(layout, grant, &self.relied, host);
        let (layout, growth) = grown.map_err(|error| without_fault(&error.to_string()))?;
        // Taken back, they would go by themselves, and show what they lie on.
        let folder = &growth.found.canonical;
        let is_below = |mount: &Mount| is_within(&mount.point, folder);
        let mounts = host.mounts().unwrap_or_default();
        match mounts.iter().find(|mount| is_below(mount)) {
            Some(mount) if self.is_root => Err(format!(
                "{} is mounted in it: grant what the guest needs of it by itself, or at a start",
                mount.point.display()
            )),
            _ => Ok((layout, growth)),
        }
    }

    /// Takes back what was granted so.
    pub(crate) fn take_back(&self, flag: &str) -> Result<(), String> {
        let flag = flag_of(&parse(flag)?);
        let mut state = lock(&self.state);
        let at = state.held.iter().rposition(|held| held.flag == flag);
        let Some(at) = at else {
            let mut around = state.held.iter();
            let around = around.find(|held| held.parts.contains(&flag));
            return Err(match around {
                Some(around) => format!("it is a part of {:?}: take that back", around.flag),
                None => "it was not granted while the guest runs".into(),
            });
        };
        // Each of the later ones was decided with this one there.
        let later = state.held[at + 1..].iter();
        let guest = state.held[at].guest();
        let mut within = later.filter(|later| later.guest().starts_with(guest));
        if let Some(within) = within.next() {
            return Err(format!(
                "{:?} lies in it: take that back before",
                within.flag
            ));
        }
        let number = state.held[at].number;
        state
            .holder
            .release(number)
            .map_err(|error| error.to_string())?;
        let held = state.held.remove(at);
        state.layout.put_back(held.guest(), &held.before);
        let now = self.now_us();
        for flag in held.parts.iter().chain([&flag]) {
            let is_it = |one: &&mut Granted| one.grant == *flag && one.revoked_at_us.is_none();
            if let Some(granted) = state.granted.iter_mut().rev().find(is_it) {
                granted.revoked_at_us = Some(now);
            }
        }
        if let Some(journal) = &self.journal {
            journal.write(Entry::Revoked { grant: flag });
        }
        Ok(())
    }

    /// Whether the guest has this by now.
    pub(crate) fn grants(&self, grant: &FileGrant) -> bool {
        let state = lock(&self.state);
        let guest = grant.guest_path();
        let is_there = state.layout.host_path(guest).as_ref() == Some(&grant.host);
        let is_granted = match state.layout.place(guest) {
            Place::Granted { writable } => writable || grant.access == Access::Read,
            _ => false,
        };
        is_there && is_granted
    }

    /// Whether a guest that runs can be granted this, and has nothing of its own there.
    pub(crate) fn may_give(&self, grant: &FileGrant, host: &dyn Host) -> bool {
        let mut state = lock(&self.state);
        let within = state.within(grant);
        let before = state.without(&within);
        let has_room = state.held.len() - within.len() < MOST_HELD;
        let growth = self.grown(&before, grant, host);
        growth.is_ok_and(|(_, growth)| has_room && state.holder.is_free(&growth))
    }

    /// Where the guest's files come from by now.
    pub(crate) fn layout(&self) -> Layout {
        lock(&self.state).layout.clone()
    }

    /// What the report tells. Nothing of the domain runs any more.
    pub(crate) fn finish(&self) -> Vec<Granted> {
        let mut state = lock(&self.state);
        state.holder.finish();
        state.granted.clone()
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl State {
    /// Flags of what was granted so and lies in what is to be: the same files, of which no less may be done then.
    fn within(&self, grant: &FileGrant) -> Vec<String> {
        let guest = grant.guest_path();
        let is_part = |held: &&Held| {
            let below = held.guest().strip_prefix(guest).ok();
            let on_host = below.map(|below| join(&grant.host, below));
            let is_no_more = grant.access == Access::Write || held.grant.access == Access::Read;
            is_within(held.guest(), guest)
                && is_no_more
                && on_host.as_ref() == Some(&held.grant.host)
        };
        let parts = self.held.iter().filter(is_part);
        parts.map(|held| held.flag.clone()).collect()
    }

    /// Where the guest's files would come from without these.
    fn without(&self, flags: &[String]) -> Layout {
        let mut layout = self.layout.clone();
        for held in self.held.iter().rev() {
            if flags.contains(&held.flag) {
                layout.put_back(held.guest(), &held.before);
            }
        }
        layout
    }

    /// Takes away what lies beneath another mount. Gives the flags of its parts.
    fn let_go(&mut self, flag: &str) -> Vec<String> {
        let held = self.held.iter().position(|held| held.flag == flag);
        match held {
            Some(at) if self.holder.release(self.held[at].number).is_ok() => {
                self.held.remove(at).parts
            }
            _ => Vec::new(),
        }
    }
}

impl Held {
    fn guest(&self) -> &Path {
        self.grant.guest_path()
    }
}

fn is_within(path: &Path, folder: &Path) -> bool {
    path != folder && path.starts_with(folder)
}

/// Whether a flag grants files.
pub(crate) fn is_of_files(flag: &str) -> bool {
    access_of(flag).is_some()
}

fn access_of(flag: &str) -> Option<(Access, &str)> {
    let (flag, path) = flag.split_once(' ')?;
    match flag {
        "--read" => Some((Access::Read, path)),
        "--write" => Some((Access::Write, path)),
        _ => None,
    }
}

fn parse(flag: &str) -> Result<FileGrant, String> {
    let (access, path) = access_of(flag).ok_or("it is no grant of files")?;
    // Whoever asks stands elsewhere, and names no path that begins there.
    let parsed = FileGrant::parse(access, path, Path::new(""));
    let grant = parsed.map_err(|error| error.to_string())?;
    match grant.host.is_absolute() {
        true => Ok(grant),
        false => Err("its path is not absolute".into()),
    }
}

pub(crate) fn flag_of(grant: &FileGrant) -> String {
    let flag = match grant.access {
        Access::Write => "--write",
        _ => "--read",
    };
    format!("{flag} {grant}")
}

/// Whoever tells it says whose fault it is.
fn without_fault(error: &str) -> String {
    let text = ["policy: ", "host: "];
    let text = text.iter().find_map(|fault| error.strip_prefix(fault));
    text.unwrap_or(error).into()
}
