//! The files that a watched guest asks for: what it names is noted, and the call goes on.
//!
//! Nothing is decided by what is read here, and no path is looked up: this thread is behind a wall of its own, and what a
//! guest names is not to reach anybody outside while it runs. What a note comes to is found out when all is over
//! (`denials::files`).

use super::{
    call::{Answer, Brokered, Outcome},
    request::Source,
};
use crate::{
    file_calls::{FileCall, Named, Purpose, Use},
    layout::{Layout, Place},
    lock::lock,
    paths::normalized,
    sys::notify,
};
use palisade_network::Process;
use palisade_wall::{
    Had, HadFor,
    journal::{Entry, Judgement},
};
use rustix::io::Errno;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::Mutex,
};

/// Different paths that notes are kept of, of each kind: a guest may name many that nobody has.
const MOST: usize = 8192;
/// Their bytes.
const MOST_BYTES: usize = 1 << 20;
/// As long as a path can be.
const PATH_MAX: usize = 4096;
/// Not files of anybody's: what of it a domain has is its own. Nor is a file of name servers missed: names are granted otherwise.
const NOBODYS: [&str; 4] = ["/dev", "/proc", "/sys", "/etc/resolv.conf"];
/// Links of the domain's own on one path.
const MOST_LINKS: usize = 8;

/// All that was asked for and is worth a look.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    notes: BTreeMap<PathBuf, Note>,
    /// Paths of granted places: a link there may lead elsewhere.
    shown: BTreeMap<PathBuf, Use>,
    /// What the guest made in folders of its own.
    made: BTreeSet<PathBuf>,
    /// What it had of granted places, and who was the first.
    had: BTreeMap<HadFor, BTreeMap<PathBuf, Process>>,
    /// Of all paths.
    bytes: usize,
    /// Calls beside those.
    pub(crate) more: u64,
}

/// What was asked of one path.
#[derive(Debug)]
pub(crate) struct Note {
    /// Which of the different ones it was.
    pub(crate) at: usize,
    /// The most of it.
    pub(crate) wanted: Use,
    /// Some call would have followed a link there.
    pub(crate) follows: bool,
    /// As it was named, if that was from the root as the working folder on: where a guest stands whose own is not granted.
    pub(crate) relative: Option<PathBuf>,
    /// The first call, by the kernel's name.
    pub(crate) call: &'static str,
    /// Who made that.
    pub(crate) process: Process,
    pub(crate) count: u64,
}

impl Note {
    pub(super) fn of(at: usize, asked: Asked, process: Process) -> Self {
        Self {
            at,
            wanted: asked.wanted,
            follows: asked.follows,
            relative: asked.relative,
            call: asked.call,
            process,
            count: 1,
        }
    }
}

impl Notes {
    /// What was asked of which path, and from which granted place it may lead elsewhere.
    pub(crate) fn take(self) -> (BTreeMap<PathBuf, Note>, BTreeMap<PathBuf, Use>) {
        (self.notes, self.shown)
    }

    /// What the guest had of granted places.
    pub(crate) fn take_had(&mut self) -> Vec<Had> {
        let all = std::mem::take(&mut self.had).into_iter();
        let told = |purpose| {
            move |(place, process): (PathBuf, Process)| Had {
                place: place.to_string_lossy().into_owned(),
                purpose,
                process: palisade_wall::Process::new(process.pid, process.name.as_bytes()),
            }
        };
        all.flat_map(|(purpose, had)| had.into_iter().map(told(purpose)))
            .collect()
    }

    /// Takes room for one more beside so many, of so many bytes.
    fn takes(&mut self, count: usize, bytes: usize) -> bool {
        let has_room = count < MOST && self.bytes + bytes <= MOST_BYTES;
        match has_room {
            true => self.bytes += bytes,
            false => self.more += 1,
        }
        has_room
    }

    /// Of a path that is there. `false` if there is no note of it yet.
    fn again(&mut self, path: &Path, asked: &Asked) -> bool {
        let Some(note) = self.notes.get_mut(path) else {
            return false;
        };
        note.wanted = note.wanted.max(asked.wanted);
        note.follows |= asked.follows;
        note.count += 1;
        true
    }

    fn add(&mut self, path: PathBuf, asked: Asked, process: Process) {
        let note = Note::of(self.notes.len(), asked, process);
        self.notes.insert(path, note);
    }

    fn show(&mut self, path: PathBuf, wanted: Use) {
        if let Some(known) = self.shown.get_mut(&path) {
            *known = (*known).max(wanted);
        } else if self.takes(self.shown.len(), path.as_os_str().len()) {
            self.shown.insert(path, wanted);
        }
    }

    /// Of a place that was granted, or is the domain's own and executed from.
    fn have(&mut self, (place, purpose): (&Path, HadFor), who: impl FnOnce() -> Option<Process>) {
        let had = self.had.entry(purpose).or_default();
        let count = had.len();
        if !had.contains_key(place)
            && self.takes(count, place.as_os_str().len())
            && let Some(process) = who()
        {
            let had = self.had.entry(purpose).or_default();
            had.insert(place.to_owned(), process);
        }
    }

    fn make(&mut self, path: PathBuf) {
        if !self.made.contains(&path) && self.takes(self.made.len(), path.as_os_str().len()) {
            self.made.insert(path);
        }
    }

    fn has_made(&self, path: &Path) -> bool {
        path.ancestors().any(|path| self.made.contains(path))
    }
}

/// What becomes of a path, by its words.
#[derive(Debug, PartialEq, Eq)]
enum Sorted {
    /// It is there, and may be had.
    Had,
    /// The same, if no link leads elsewhere.
    Shown,
    /// It may be missed.
    Missed,
    /// The guest makes it in a folder of its own.
    Made,
    /// It lies in such a folder.
    Own,
}

fn sort(layout: &Layout, path: &Path, wanted: Use) -> Sorted {
    let changes = wanted >= Use::Make;
    match layout.place(path) {
        Place::System if changes => Sorted::Missed,
        Place::System => Sorted::Had,
        Place::Granted { writable } if changes && !writable => Sorted::Missed,
        Place::Granted { .. } => Sorted::Shown,
        Place::Own if layout.is_of_the_domain(path) => Sorted::Had,
        Place::Own if wanted == Use::Make => Sorted::Made,
        Place::Own => Sorted::Own,
        Place::Hidden | Place::None => Sorted::Missed,
    }
}

/// What a guest that gets what it asks for has of which place. Whether it does is not seen.
fn had<'a>(layout: &'a Layout, path: &'a Path, wanted: Use) -> Option<(&'a Path, HadFor)> {
    let is_written = || layout.exec_grant(path).is_some() || layout.is_executable(path);
    let purpose = match wanted {
        Use::Look => return None,
        Use::Execute if is_written() => return Some((path.parent()?, HadFor::Execute)),
        Use::Read if is_library(path) && is_written() => return Some((path, HadFor::Load)),
        wanted if wanted < Use::Make => HadFor::Read,
        _ if layout.is_read_only(path) => return None,
        _ => {
            let place = layout.granted_place(path)?;
            let folder = path.parent().filter(|folder| folder.starts_with(place));
            return Some((folder.unwrap_or(place), HadFor::Write));
        }
    };
    Some((layout.granted_place(path)?, purpose))
}

/// `libz.so`, `libz.so.1`, and what Node.js and Python load.
fn is_library(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.as_encoded_bytes());
    name.is_some_and(|name| {
        name.ends_with(b".node") || name.ends_with(b".so") || contains(name, b".so.")
    })
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// What a call asks of a path.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    wanted: Use,
    /// A link there is followed.
    follows: bool,
    /// See [`Note::relative`].
    relative: Option<PathBuf>,
    /// The kernel's name.
    pub(super) call: &'static str,
}

impl Asked {
    pub(super) fn changes(&self) -> bool {
        self.wanted >= Use::Make
    }
}

/// A path that the guest may miss: without links of the domain's own. `None` where it has it, or makes it in a folder of its own.
pub(super) fn missed(layout: &Layout, path: &Path, asked: &Asked) -> Option<PathBuf> {
    let path = without_links(layout, path);
    let is_nobodys = NOBODYS.iter().any(|place| path.starts_with(place));
    let is_missed = match sort(layout, &path, asked.wanted) {
        Sorted::Missed => true,
        Sorted::Own => !asked.changes(),
        Sorted::Had | Sorted::Shown | Sorted::Made => false,
    };
    (is_missed && !is_nobodys).then_some(path)
}

/// Notes of one domain.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<Notes>);

impl Watch {
    pub(super) fn finish(&self) -> Notes {
        std::mem::take(&mut *lock(&self.0))
    }

    /// A socket or a FIFO that is made at a path.
    fn note_meeting(&self, layout: &Layout, path: &Path, who: impl Fn() -> Option<Process>) {
        let path = without_links(layout, path);
        if layout.granted_place(&path).is_some()
            && let Some(folder) = path.parent()
        {
            lock(&self.0).have((folder, HadFor::Meet), who);
        }
    }

    /// Who called is asked for a path that there is no note of yet; it is `None` if nobody waits there any more.
    fn note(&self, layout: &Layout, path: &Path, asked: Asked, who: impl Fn() -> Option<Process>) {
        let path = without_links(layout, path);
        if NOBODYS.iter().any(|place| path.starts_with(place)) {
            return;
        }
        let mut notes = lock(&self.0);
        if let Some(had) = had(layout, &path, asked.wanted) {
            notes.have(had, &who);
        }
        match sort(layout, &path, asked.wanted) {
            Sorted::Had => {}
            Sorted::Shown if asked.follows => notes.show(path, asked.wanted),
            Sorted::Shown => {}
            Sorted::Made => notes.make(path),
            Sorted::Own if notes.has_made(&path) => {}
            Sorted::Own | Sorted::Missed => {
                if notes.again(&path, &asked) {
                    return;
                }
                // A long way round may lead to a short path.
                let named = asked
                    .relative
                    .as_ref()
                    .map_or(0, |path| path.as_os_str().len());
                let count = notes.notes.len();
                if notes.takes(count, path.as_os_str().len() + named)
                    && let Some(process) = who()
                {
                    notes.add(path, asked, process);
                }
            }
        }
    }
}

/// Where the domain's own links lead, such as `/bin`.
fn without_links(layout: &Layout, path: &Path) -> PathBuf {
    let mut path = normalized(path);
    for _ in 0..MOST_LINKS {
        match layout.follow(&path) {
            Some(next) => path = next,
            None => break,
        }
    }
    path
}

impl Brokered<'_> {
    /// A call that names files, or goes to a folder.
    pub(super) fn ask_for_files(&mut self, call: &FileCall) -> Outcome {
        match self.note_files(call) {
            true => Ok(Answer::Continue),
            // How it ends is the kernel's to say, later.
            false => Err(Errno::ACCESS),
        }
    }

    /// A local socket that takes this address, if it is a path.
    pub(super) fn note_socket(&mut self, address: &[u8]) {
        let name = address.strip_prefix(&super::local::LOCAL);
        let name = name.and_then(|name| name.split(|byte| *byte == 0).next());
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return;
        };
        let path = Path::new(OsStr::from_bytes(name));
        let whole = match path.is_absolute() {
            true => Ok(path.to_owned()),
            false => self.working_folder().map(|folder| folder.join(path)),
        };
        if let (Ok(path), Some(watch), Some(layout)) =
            (whole, &self.shared.watch, &self.shared.performer.layout)
        {
            watch.note_meeting(layout, &path, || self.whoever_waits());
        }
    }

    /// What was read by a thread's number is surely its own only while it waits.
    fn whoever_waits(&self) -> Option<Process> {
        let shared = self.shared;
        notify::is_waiting(shared.listener.as_fd(), self.call.id).then(|| self.who())
    }

    /// Nobody misses a path that cannot be read. `false` if the call waits for an answer first.
    pub(super) fn note_files(&mut self, call: &FileCall) -> bool {
        let shared = self.shared;
        let (Some(watch), Some(layout)) = (&shared.watch, &shared.performer.layout) else {
            return true;
        };
        if [libc::SYS_chdir, libc::SYS_fchdir].contains(&call.number) {
            self.threads.forget_folders();
        }
        let mut read = Vec::new();
        for file in call.files {
            let Ok(Some((path, asked))) = self.read_file(call, file) else {
                continue;
            };
            let is_granted = self.ask_about_file(layout, &path, &asked);
            if let Some(ticket) = self.ticket.take() {
                self.ticket.set(Some(ticket));
                return false;
            }
            read.push((path, asked, is_granted));
        }
        for (path, asked, is_granted) in read {
            if call.makes_nodes() {
                watch.note_meeting(layout, &path, || self.whoever_waits());
            }
            self.tell_of_file(layout, &path, &asked, is_granted);
            watch.note(layout, &path, asked, || self.whoever_waits());
        }
        true
    }

    /// Where somebody wants to know. By its words, as the wall judges it: a link may lead elsewhere.
    fn tell_of_file(&self, layout: &Layout, path: &Path, asked: &Asked, is_granted: bool) {
        let Some(journal) = &self.shared.journal else {
            return;
        };
        let path = without_links(layout, path);
        if NOBODYS.iter().any(|place| path.starts_with(place)) {
            return;
        }
        let verdict = match sort(layout, &path, asked.wanted) {
            _ if is_granted => Judgement::Allow,
            Sorted::Had | Sorted::Shown => Judgement::Allow,
            Sorted::Missed => Judgement::Deny,
            Sorted::Made | Sorted::Own => return,
        };
        journal.write(Entry::Verdict {
            verdict,
            call: asked.call.into(),
            target: path.to_string_lossy().into_owned(),
            process: palisade_wall::Process::new(self.call.thread, b""),
            reason: None,
            grant: None,
            probe: false,
            count: 1,
        });
    }

    /// The path of a file, and what is wanted of it. `None` where it does not matter: below a folder that is open
    /// lies what was granted with it.
    fn read_file(
        &mut self,
        call: &FileCall,
        file: &Named,
    ) -> Result<Option<(PathBuf, Asked)>, Errno> {
        let argument = |at: u8| self.call.arguments[usize::from(at)];
        let (wanted, flags) = match file.purpose {
            Purpose::Is(wanted) | Purpose::Name(wanted) => (wanted, call.flags.map_or(0, argument)),
            Purpose::OpenFlags(at) => (Use::of_open(argument(at)), argument(at)),
            Purpose::OpenHow(at) => {
                let flags = self.call.read(argument(at), size_of::<u64>())?;
                let flags = flags.first_chunk();
                let flags = flags.map_or(0, |flags| u64::from_ne_bytes(*flags));
                (Use::of_open(flags), flags)
            }
        };
        let path = notify::read_text(self.call.thread, argument(file.path), PATH_MAX)?;
        let path = Path::new(OsStr::from_bytes(&path));
        if path.as_os_str().is_empty() {
            return Ok(None);
        }
        let asked = Asked {
            wanted,
            follows: call.follows(file, flags),
            relative: None,
            call: call.name,
        };
        if path.is_absolute() {
            return Ok(Some((path.into(), asked)));
        }
        let folder = file.folder.map(argument).map(|number| number as i32);
        let leaves = || path.iter().any(|part| part == "..");
        let base = match folder.filter(|number| *number != libc::AT_FDCWD) {
            None => self.working_folder()?,
            Some(_) if wanted < Use::Make && !leaves() => return Ok(None),
            Some(number) => self.open_folder(number)?,
        };
        let asked = Asked {
            relative: (base == Path::new("/")).then(|| path.into()),
            ..asked
        };
        Ok(Some((base.join(path), asked)))
    }

    fn working_folder(&mut self) -> Result<PathBuf, Errno> {
        let thread = self.call.thread;
        if let Some(known) = self.threads.folder(thread) {
            return Ok(known.into());
        }
        let path = self.stands()?;
        self.threads.keep_folder(thread, path.clone());
        Ok(path)
    }

    /// The folder where the caller stands, and not one who has its number by now.
    pub(super) fn stands(&self) -> Result<PathBuf, Errno> {
        let folder = crate::host::folder_of(self.call.thread)?;
        match notify::is_waiting(self.shared.listener.as_fd(), self.call.id) {
            true => Ok(folder),
            false => Err(Errno::SRCH),
        }
    }

    fn open_folder(&mut self, number: i32) -> Result<PathBuf, Errno> {
        let number = u64::from(number as u32);
        let (maker, listener) = (&self.shared.maker, self.shared.listener.as_fd());
        let folder = self
            .threads
            .descriptor(maker, listener, self.call, number)?;
        crate::host::path_of(&folder)
    }
}
