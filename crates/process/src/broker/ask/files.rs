//! Files that are asked about. Who answers a guest's calls looks nothing up and mounts nothing: a thread beside it does, behind
//! the supervisor's walls.
//!
//! ```text
//!  open("/data/x")      what has the host there?          question              mounts it
//!  broker ──────held──▶ this thread ──a grant, or none──▶ broker ──▶ asker ──▶ this thread ──▶ broker lets the call go on
//! ```
//!
//! No answer is a call's: what goes on is looked up by the kernel, among what is mounted by then.

use super::{Asking, How, Judged, Ticket, Tried, Wish};
use crate::{
    broker::{
        Note, Shared,
        budget::Meter,
        call::Brokered,
        files::{self, Asked},
        small_thread,
    },
    confine::{Kept, Target, Use},
    file_calls,
    grants::files::{Advised, Files, LayThere},
    host::ThisHost,
    layout::Layout,
    lock::lock,
    seccomp,
};
use palisade_network::Process as Caller;
use palisade_policy::FileGrant;
use palisade_wall::{Process, ask::Verdict};
use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    time::{Duration, Instant},
};

/// Paths of which it is known what the host has there, and their bytes.
const MOST_KNOWN: usize = 8192;
const MOST_KNOWN_BYTES: usize = 1 << 20;
/// After so long it is looked anew whether the host has something by now.
const HOLDS: Duration = Duration::from_secs(5);

/// What a guest seeks, by the path that it named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::broker) struct Sought {
    path: PathBuf,
    /// To write there.
    changes: bool,
}

/// What is known of it.
#[derive(Clone, Debug)]
enum Known {
    /// Nothing yet.
    Looking,
    /// Nobody is asked about it, as it was then.
    Nothing(Instant),
    /// Each of these would grant it; the widest first.
    Wanted(Vec<Advised>),
}

/// Knows what the host has, and what of it may be granted.
pub(crate) trait Advisor: Send {
    /// What would be granted, so that a guest has what it asks for at a path: nothing where it may have it, or nobody would be
    /// advised to.
    fn advise(&self, path: &Path, note: Note, layout: &Layout) -> Option<Advised>;

    /// The folder around that, where it may be granted as a whole, appears at its own path, and holds nothing that may be a key.
    fn advise_around(&self, grant: &FileGrant, layout: &Layout) -> Option<Advised>;

    /// The granted place that it lies in.
    fn advise_place(&self, grant: &FileGrant, layout: &Layout) -> Option<Advised>;
}

/// What the thread is to do.
enum Job {
    Look(Sought, Box<Note>),
    Give(FileGrant, LayThere, (Process, Verdict)),
}

/// What is known of files, and who finds it out.
#[derive(Debug, Default)]
pub(super) struct FileDesk(Mutex<Desk>);

#[derive(Debug, Default)]
struct Desk {
    /// `None` where nobody is asked about files, or no more.
    jobs: Option<Sender<Job>>,
    known: HashMap<Sought, Known>,
    /// Of their paths.
    bytes: usize,
    /// What lay there when it was looked at: nothing else is granted.
    lay_there: HashMap<FileGrant, LayThere>,
    /// What could not be mounted when it had been agreed to.
    failed: HashSet<FileGrant>,
}

impl Desk {
    /// For one more. What nobody is asked about is forgotten first; `None` if there is none even so.
    fn make_room(&mut self, sought: &Sought) -> Option<()> {
        let bytes = sought.path.as_os_str().len();
        let has_room =
            |desk: &Self| desk.known.len() < MOST_KNOWN && desk.bytes + bytes <= MOST_KNOWN_BYTES;
        if !has_room(self) {
            self.known
                .retain(|_, known| !matches!(known, Known::Nothing(_)));
            let left = self.known.keys().map(|one| one.path.as_os_str().len());
            self.bytes = left.sum();
        }
        has_room(self).then(|| self.bytes += bytes)
    }
}

impl FileDesk {
    /// Whether it is known by now.
    pub(super) fn knows(&self, sought: &Sought) -> bool {
        let desk = lock(&self.0);
        desk.jobs.is_none() || !matches!(desk.known.get(sought), Some(Known::Looking))
    }

    /// What is known. If nothing is, it is found out; `None` if there is no room for that.
    fn look(&self, sought: &Sought, note: impl FnOnce() -> Note) -> Option<Known> {
        let mut desk = lock(&self.0);
        let Some(jobs) = desk.jobs.clone() else {
            return Some(Known::Nothing(Instant::now()));
        };
        match desk.known.get(sought) {
            Some(Known::Nothing(since)) if since.elapsed() >= HOLDS => {}
            Some(known) => return Some(known.clone()),
            None => desk.make_room(sought)?,
        }
        jobs.send(Job::Look(sought.clone(), Box::new(note())))
            .ok()?;
        desk.known.insert(sought.clone(), Known::Looking);
        Some(Known::Looking)
    }

    fn found(&self, sought: Sought, advised: Vec<Advised>) {
        let mut desk = lock(&self.0);
        for one in &advised {
            desk.lay_there.insert(one.grant.clone(), one.lay_there);
        }
        let known = match advised.is_empty() {
            true => Known::Nothing(Instant::now()),
            false => Known::Wanted(advised),
        };
        desk.known.insert(sought, known);
    }

    /// Has it mounted. `false` if nobody does.
    pub(super) fn give(&self, wish: &Wish, asked: (Process, Verdict)) -> bool {
        let Wish::File(grant) = wish else {
            return false;
        };
        let desk = lock(&self.0);
        let lay_there = desk.lay_there.get(&**grant);
        let job = lay_there.map(|lay_there| Job::Give(grant.as_ref().clone(), *lay_there, asked));
        let jobs = desk.jobs.as_ref();
        jobs.zip(job)
            .is_some_and(|(jobs, job)| jobs.send(job).is_ok())
    }

    /// Forgets what was found: something else may be granted by now. Gives what was wanted.
    pub(super) fn forget(&self) -> Vec<Wish> {
        let mut desk = lock(&self.0);
        desk.known
            .retain(|_, known| matches!(known, Known::Looking));
        let wanted = desk.lay_there.keys().cloned();
        wanted.map(|grant| Wish::File(Box::new(grant))).collect()
    }

    /// What this would have granted is looked at anew. `false` if that was done before.
    fn look_again(&self, grant: &FileGrant) -> bool {
        let mut desk = lock(&self.0);
        let is_it = |known: &Known| matches!(known, Known::Wanted(all) if all.iter().any(|one| one.grant == *grant));
        desk.known.retain(|_, known| !is_it(known));
        desk.lay_there.remove(grant);
        desk.failed.insert(grant.clone())
    }

    /// Nobody is asked any more.
    pub(super) fn finish(&self) {
        lock(&self.0).jobs = None;
    }
}

/// Begins to ask about files.
pub(in crate::broker) fn begin(
    shared: &Arc<Shared>,
    asking: &Arc<Asking>,
    files: Arc<Files>,
    advisor: Box<dyn Advisor>,
    landlock_abi: Option<u32>,
) -> io::Result<()> {
    let (jobs, arrived) = mpsc::channel();
    lock(&asking.files.0).jobs = Some(jobs);
    let kept = Kept {
        files: vec![
            (Target::Path("/proc".into()), Use::Read),
            // Whether something in a folder may be a key.
            (Target::Path("/".into()), Use::List),
        ],
        connects: false,
        calls: seccomp::supervisor(),
    };
    let walls = kept.walls(landlock_abi).map_err(io::Error::other)?;
    let (shared, last) = (Arc::clone(shared), Last(Arc::clone(asking)));
    small_thread("palisade-files", move || {
        // Without its walls nothing is looked at, and nobody is asked.
        if walls.around_this_thread().is_ok() {
            serve(&arrived, (&shared, &last.0), &files, &*advisor);
        }
    })?;
    Ok(())
}

/// However it ends, no call waits for it.
struct Last(Arc<Asking>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.no_more_files();
    }
}

fn serve(
    jobs: &Receiver<Job>,
    (shared, asking): (&Shared, &Asking),
    files: &Files,
    advisor: &dyn Advisor,
) {
    // What it takes is the guest's to pay for.
    let mut meter = Meter::of_this_thread(&shared.budget);
    for job in jobs {
        match job {
            Job::Look(sought, note) => {
                let advised = look(&sought.path, *note, asking, files, advisor);
                asking.files.found(sought, advised);
            }
            Job::Give(grant, lay_there, (process, verdict)) => {
                let given = files.give_asked(&grant, (lay_there, process, verdict), &ThisHost);
                let is_over = given.is_err() && !asking.files.look_again(&grant);
                let wish = Wish::File(Box::new(grant));
                asking.given(wish, given.is_ok(), is_over);
            }
        }
        meter.keep();
        asking.ring();
    }
}

/// What would be asked about, the widest first.
fn look(
    path: &Path,
    note: Note,
    asking: &Asking,
    files: &Files,
    advisor: &dyn Advisor,
) -> Vec<Advised> {
    let layout = files.layout();
    let narrow = advisor.advise(path, note, &layout);
    let may_give = |one: &Advised| files.may_give(&one.grant, &ThisHost);
    let wider = narrow.as_ref().and_then(|one| match may_give(one) {
        true if asking.has_agreed_beside(&one.grant) => advisor.advise_around(&one.grant, &layout),
        true => None,
        // A part cannot be written to where the guest executes from the whole.
        false => advisor.advise_place(&one.grant, &layout),
    });
    wider.into_iter().chain(narrow).filter(may_give).collect()
}

impl Brokered<'_> {
    /// Asks about a file that the guest may miss. Whether its call waits shows in its ticket; else whether it was granted is told.
    pub(in crate::broker) fn ask_about_file(
        &self,
        layout: &Layout,
        path: &Path,
        asked: &Asked,
    ) -> bool {
        let Some(asking) = &self.shared.asking else {
            return false;
        };
        let Some(path) = files::missed(layout, path, asked) else {
            return false;
        };
        let named = path.clone();
        let sought = Sought {
            path,
            changes: asked.changes(),
        };
        match asking.files.look(&sought, || asked.note()) {
            Some(Known::Looking) => self.ticket.set(Some(Ticket::Look(sought))),
            Some(Known::Nothing(_)) => {}
            None => asking.count_unasked(),
            Some(Known::Wanted(all)) => return self.ask_for_one(asking, all, (&named, asked)),
        }
        false
    }

    /// Widest first; what was refused as a part of more is asked about by itself.
    fn ask_for_one(
        &self,
        asking: &Asking,
        all: Vec<Advised>,
        (named, asked): (&Path, &Asked),
    ) -> bool {
        for one in all {
            let Advised {
                grant,
                secret,
                is_folder,
                ..
            } = one;
            let is_another = grant.host != named;
            let how = How {
                call: Tried::Files(asked.call),
                found_by: None,
                sought: is_another.then(|| named.to_string_lossy().into_owned()),
                secret: secret.map(|path| path.to_string_lossy().into_owned()),
                is_folder,
            };
            let wish = Wish::File(Box::new(grant));
            match asking.judge(&wish, how, || self.who()) {
                Judged::Waits => {
                    self.ticket.set(Some(Ticket::Answer(wish)));
                    return false;
                }
                Judged::No { .. } if asking.has_agreed(&wish) => return true,
                Judged::No { .. } => {}
            }
        }
        false
    }
}

impl Asking {
    /// Whether another file of the same folder was agreed to for the same.
    fn has_agreed_beside(&self, grant: &FileGrant) -> bool {
        let folder = grant.host.parent();
        let state = lock(&self.state);
        let mut agreed = state.agreed.iter();
        agreed.any(|wish| {
            matches!(wish, Wish::File(other) if other.access == grant.access && other.host.parent() == folder && **other != *grant)
        })
    }
}

impl Asked {
    /// As if it had been noted. Whoever looks at a folder is about to read it.
    fn note(&self) -> Note {
        let nobody = Caller {
            pid: 0,
            name: String::new(),
        };
        let mut note = Note::of(0, self.clone(), nobody);
        note.wanted = note.wanted.max(file_calls::Use::Read);
        note
    }
}
