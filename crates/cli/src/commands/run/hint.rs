//! Notes for a guest that failed: what it may have missed, and the flags that would grant it.
//!
//! A flag is advised only where it opens no more than what is missing ([`palisade_process::places`]), and as a shell reads it. It is
//! looked at what lies where, and no file is opened: the guest may have run.

mod interpreter;
mod libraries;
mod program;

pub(super) use interpreter::name_interpreter;
pub(super) use libraries::Folders;

use crate::{say, shell};
use palisade_policy::visible;
use palisade_process::{
    Host, ThisHost,
    paths::normalized,
    places::{Advice, IN_PART, Kept},
};
use palisade_wall::{Cause, ChromiumFlags, Command, Error, Report, Surroundings, View};
use palisade_walls::Plan;
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// As many as a person reads.
const MOST_NOTES: usize = 4;

/// Prints what may help, and gives whether anything does. `outcome` is how the guest ended, or why there was none.
pub(super) fn print(
    command: &Command,
    plan: &Plan,
    surroundings: &Surroundings,
    outcome: Result<(&Report, &Folders), &anyhow::Error>,
) -> bool {
    let outcome = outcome.map_err(|error| error.downcast_ref::<Error>().map(Error::cause));
    let notes = find(command, plan, surroundings, outcome);
    for note in notes.iter().take(MOST_NOTES) {
        say::line(&format!("note: {note}"));
    }
    !notes.is_empty()
}

fn find(
    command: &Command,
    plan: &Plan,
    surroundings: &Surroundings,
    outcome: Result<(&Report, &Folders), Option<Cause>>,
) -> Vec<String> {
    let mut notes = Vec::new();
    let view = plan.view();
    if let Err(Some(Cause::NotFound)) = outcome {
        notes.extend(program::describe(&command.program, view, surroundings));
    }
    // A module is read for the guest, which need not see it; a name without a slash is no path.
    let is_path = |word: &OsStr| word.as_encoded_bytes().contains(&b'/');
    let program = Some(&command.program).filter(|word| plan.is_native() && is_path(word));
    let words = program.into_iter().chain(&command.arguments);
    notes.extend(describe_hidden(words, view, surroundings));
    if let Ok((report, folders)) = outcome {
        notes.extend(libraries::describe(view, report, folders));
        notes.extend(describe_sockets(view));
        notes.extend(describe_guard(&command.program, view).map(str::to_owned));
        notes.extend(describe_chromium(command, view));
    }
    notes
}

/// Git says that its settings are busy, and not why.
fn describe_guard(program: &OsStr, view: &dyn View) -> Option<&'static str> {
    let is_git = Path::new(program).file_name() == Some(OsStr::new("git"));
    let is_guarded = is_git && !view.kept_for_git().is_empty();
    is_guarded.then_some(
        "git's hooks and settings in a writable checkout stay as they are, for they are executed outside later: \
         --no-guard leaves them to the guest",
    )
}

/// Chromium ends where it cannot confine its own parts, and advises what is no use inside.
fn describe_chromium(command: &Command, view: &dyn View) -> Option<String> {
    let is_chromium = Path::new(&command.program).file_name() == Some(OsStr::new("chromium"));
    let is_told = command.arguments.iter().any(|word| word == "--no-sandbox")
        || view.chromium_flags() == Some(ChromiumFlags::Set);
    if !is_chromium || is_told {
        return None;
    }
    let has_profile = view.chromium_flags().is_some();
    let advice = match !has_profile && view.shows(Path::new("/etc/chromium.d")) {
        true => "--profile chromium runs it without",
        false => "tell it --no-sandbox",
    };
    Some(format!(
        "chromium's own sandbox needs user namespaces, which no guest makes: {advice}, for the wall is around all of it"
    ))
}

/// Words that name what is on the host and not inside; one note a path.
fn describe_hidden<'a>(
    words: impl Iterator<Item = &'a std::ffi::OsString>,
    view: &dyn View,
    surroundings: &Surroundings,
) -> Vec<String> {
    let Some(cwd) = &surroundings.cwd else {
        return Vec::new();
    };
    let kept = kept(surroundings);
    let mut told: BTreeSet<PathBuf> = BTreeSet::new();
    let notes = words.filter_map(|word| {
        let found = find_hidden(word, cwd, view)?;
        if !told.insert(found.canonical.clone()) {
            return None;
        }
        let shown = visible(&word.to_string_lossy()).into_owned();
        if view.hides(&cwd.join(word)) {
            return Some(format!("'{shown}' is hidden by the policy"));
        }
        let is_named = kept.is_named(&normalized(&cwd.join(word)));
        match kept.judge(&found) {
            _ if is_named => None,
            Advice::Grant => {
                let flag = shell::read_flag(word, cwd)?;
                Some(format!(
                    "'{shown}' exists on the host but is not granted: {flag}"
                ))
            }
            Advice::Refuse(why) => Some(format!(
                "'{shown}' exists on the host but is not granted, and {why}: {IN_PART}"
            )),
            Advice::Nothing => None,
        }
    });
    notes.take(MOST_NOTES).collect()
}

fn find_hidden(word: &OsStr, cwd: &Path, view: &dyn View) -> Option<palisade_process::Found> {
    let looks_like_a_path = !word.is_empty() && !word.as_bytes().starts_with(b"-");
    let path = cwd.join(word);
    if !looks_like_a_path || is_visible(&path, cwd, view) {
        return None;
    }
    ThisHost.find(&path).ok()
}

/// A path is found inside if it is shown there, and a relative one only from the same folder.
fn is_visible(path: &Path, cwd: &Path, view: &dyn View) -> bool {
    view.shows(path) && (view.cwd() == cwd || !path.starts_with(cwd))
}

fn variable<'a>(surroundings: &'a Surroundings, name: &str) -> Option<&'a OsStr> {
    let mut variables = surroundings.environment.iter().rev();
    let found = variables.find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_os_str())
}

/// What is not advised to be granted.
fn kept(surroundings: &Surroundings) -> Kept {
    Kept::new(home(surroundings), &surroundings.sensitive, |path| {
        ThisHost.find(path).ok()
    })
}

fn home(surroundings: &Surroundings) -> Option<PathBuf> {
    let home = Path::new(variable(surroundings, "HOME")?);
    home.is_absolute()
        .then(|| ThisHost.find(home).ok())?
        .map(|found| found.canonical)
}

/// A rule that lets sockets be made in /tmp would let them be made below it as well, where others find them: with a
/// write grant there, none may be.
fn describe_sockets(view: &dyn View) -> Option<String> {
    let is_refused = |folder: &str| view.refuses_sockets_in(Path::new(folder));
    let has_place = view
        .environment()
        .iter()
        .any(|variable| variable.as_bytes().starts_with(b"TMPDIR="));
    if has_place || is_refused("/tmp") != Some(true) {
        return None;
    }
    let advice = match is_refused("/dev/shm") {
        Some(false) => {
            "a program that makes some in its temporary folder takes --env TMPDIR=/dev/shm"
        }
        _ => "--ipc /tmp allows them, in that folder too",
    };
    Some(format!(
        "no socket or FIFO can be made in /tmp, because a folder below it is granted for writing: {advice}"
    ))
}
