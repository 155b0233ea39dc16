//! The report of the last run at a terminal that failed and was denied something: `palisade why` explains it when it is told no other.
//!
//! It lies where a user's programs keep what is not to outlive the session, and in no folder that others may write to.

use crate::say;
use palisade_wall::{Report, View};
use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, ftruncate, open, openat},
    process::geteuid,
};
use std::{
    fs::{self, DirBuilder, File},
    io::{IsTerminal, Write, stderr},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

const FOLDER: &str = "palisade";
const NAME: &str = "last-report.json";

/// The folder of this user's session: who is in none has none.
fn session() -> Option<PathBuf> {
    let told = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let uid = geteuid();
    let usual = || format!("/run/user/{}", uid.as_raw()).into();
    let folder = told.filter(|told| told.is_absolute()).unwrap_or_else(usual);
    let is_own = |folder: &Path| {
        let about = fs::symlink_metadata(folder);
        about.is_ok_and(|about| {
            about.is_dir() && about.uid() == uid.as_raw() && about.mode() & 0o022 == 0
        })
    };
    let places = [folder, "/run".into()];
    places.into_iter().find(|folder| is_own(folder))
}

/// Where it lies, if there is a place for one.
pub(super) fn place() -> Option<PathBuf> {
    Some(session()?.join(FOLDER).join(NAME))
}

/// Where it will be written, which is opened before the guest is there: palisade itself opens nothing beside one. Only for a person
/// at a terminal, and behind this view.
pub(super) fn open_at_terminal(view: &dyn View) -> Option<File> {
    let place = place().filter(|_| stderr().is_terminal())?;
    // What a guest has written is explained to nobody.
    if view.can_change(&place) {
        return None;
    }
    let folder = place.parent()?;
    // It is there, or cannot be made: then it cannot be opened either.
    let _ = DirBuilder::new().mode(0o700).create(folder);
    let itself = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(folder, itself | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let folder = File::from(folder);
    (folder.metadata().ok()?.uid() == geteuid().as_raw()).then_some(())?;
    let flags = itself | OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK;
    let file = File::from(openat(&folder, NAME, flags, Mode::RUSR | Mode::WUSR).ok()?);
    file.metadata().ok()?.is_file().then_some(file)
}

/// Writes it in the place of the one before. Whether it is there then.
pub(super) fn write(mut file: &File, report: &Report) -> bool {
    let Ok(text) = say::json(report) else {
        return false;
    };
    // Of two that end at once the later one stays.
    flock(file, FlockOperation::LockExclusive).is_ok()
        && ftruncate(file, 0).is_ok()
        && file.write_all(text.as_bytes()).is_ok()
}
