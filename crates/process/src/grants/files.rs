//! Files and folders that are granted while the guest runs.

use super::holder::Holder;
use crate::{
    host::Host,
    layout::{Growth, Layout},
    lock::lock,
};
use palisade_policy::{Access, FileGrant};
use palisade_wall::{
    Granted,
    journal::{Entry, Journal},
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Instant,
};

/// Grants that the report tells apart.
const MOST_TOLD: usize = 1024;

/// What was granted so, and who mounts it.
#[derive(Debug)]
pub(crate) struct Files {
    state: Mutex<State>,
    relied: Vec<PathBuf>,
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
    guest: PathBuf,
    /// Where the guest's files came from before.
    before: Layout,
}

impl Files {
    pub(crate) fn new(
        holder: Holder,
        layout: &Layout,
        relied: &[PathBuf],
        journal: Option<&Arc<Journal>>,
    ) -> Self {
        Self {
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
        let grant = parse(flag)?;
        let flag = flag_of(&grant);
        let mut state = lock(&self.state);
        let grown = state.layout.grown(&grant, &self.relied, host);
        let (layout, growth) = grown.map_err(|error| without_fault(&error.to_string()))?;
        let number = state.hold(&growth)?;
        let before = std::mem::replace(&mut state.layout, layout);
        state.held.push(Held {
            flag: flag.clone(),
            number,
            guest: growth.guest,
            before,
        });
        if let Some(journal) = &self.journal {
            journal.write(Entry::Granted {
                grant: flag.clone(),
                process: None,
                answer: None,
            });
        }
        if state.granted.len() < MOST_TOLD {
            state.granted.push(Granted {
                grant: flag,
                process: None,
                verdict: None,
                count: 1,
                at_us: self.now_us(),
                revoked_at_us: None,
            });
        }
        Ok(())
    }

    /// Takes back what was granted so.
    pub(crate) fn take_back(&self, flag: &str) -> Result<(), String> {
        let flag = flag_of(&parse(flag)?);
        let mut state = lock(&self.state);
        let at = state.held.iter().position(|held| held.flag == flag);
        let at = at.ok_or("it was not granted while the guest runs")?;
        // Each of the later ones was decided with this one there.
        let later = state.held[at + 1..].iter();
        let mut within = later.filter(|later| is_within(&later.guest, &state.held[at].guest));
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
        let Held { guest, before, .. } = state.held.remove(at);
        state.layout.put_back(&guest, &before);
        let now = self.now_us();
        let granted = state.granted.iter_mut();
        for granted in granted.filter(|one| one.grant == flag && one.revoked_at_us.is_none()) {
            granted.revoked_at_us = Some(now);
        }
        if let Some(journal) = &self.journal {
            journal.write(Entry::Revoked { grant: flag });
        }
        Ok(())
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
    fn hold(&mut self, growth: &Growth) -> Result<u64, String> {
        self.holder.hold(growth).map_err(|error| error.to_string())
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

fn flag_of(grant: &FileGrant) -> String {
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
