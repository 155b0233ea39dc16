//! The report of the last run at a terminal that failed and was denied something: `palisade why` explains it when it is told no other.
//!
//! It lies where a user's programs keep what is not to outlive the session, and in no folder that others may write to.

use crate::say;
use palisade_wall::{Report, View};
use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, ftruncate, openat},
    process::geteuid,
};
use std::{
    fs::{self, DirBuilder, File, Metadata},
    io::{IsTerminal, Write, stderr},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::PathBuf,
};

const FOLDER: &str = "palisade-last";
const NAME: &str = "last-report.json";

/// Where that of this user would lie, by words alone: each start asks.
pub(super) fn place(uid: u32) -> PathBuf {
    let told = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let session = told.filter(|told| told.is_absolute());
    let session = session.unwrap_or_else(|| format!("/run/user/{uid}").into());
    session.join(FOLDER).join(NAME)
}

/// The same where there is a session, in a folder of this user's alone.
fn place_in_session() -> Option<PathBuf> {
    let uid = geteuid().as_raw();
    let place = place(uid);
    let session = fs::symlink_metadata(place.parent()?.parent()?).ok()?;
    let is_own = session.is_dir() && session.uid() == uid && session.mode() & 0o022 == 0;
    is_own.then_some(place)
}

/// Where it will be written, which is opened before the guest is there: palisade itself opens nothing beside one. Only for a person
/// at a terminal, and behind this view.
pub(super) fn open_at_terminal(view: &dyn View) -> Option<File> {
    let place = stderr().is_terminal().then(place_in_session).flatten()?;
    // What a guest has written is explained to nobody: where there is one already, it is refused (`request.rs`).
    if view.can_change(&place) {
        return None;
    }
    let folder = place.parent()?;
    // It is there, or cannot be made: then it cannot be opened either.
    let _ = DirBuilder::new().mode(0o700).create(folder);
    let itself = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, itself | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let folder = File::from(folder);
    let about = folder.metadata().ok()?;
    (about.uid() == geteuid().as_raw() && about.mode() & 0o022 == 0).then_some(())?;
    let flags = itself | OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK;
    let file = File::from(openat(&folder, NAME, flags, Mode::RUSR | Mode::WUSR).ok()?);
    file.metadata().ok()?.is_file().then_some(file)
}

/// Writes it in the place of the one before, or nothing where there is nothing to explain. Whether it is there then.
pub(super) fn write(mut file: &File, report: Option<&Report>) -> bool {
    let text = report.map(say::json).transpose();
    let Ok(text) = text else { return false };
    // Of two that end at once one stays. Whoever else holds it is not waited for: a guest that may read it can.
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && ftruncate(file, 0).is_ok()
        && text.is_none_or(|text| file.write_all(text.as_bytes()).is_ok())
}

/// What was written, if there is something: of this user's alone.
pub(super) fn open() -> Option<File> {
    let place = place_in_session()?;
    let itself = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = File::from(
        rustix::fs::open(place.parent()?, itself | OFlags::DIRECTORY, Mode::empty()).ok()?,
    );
    let flags = itself | OFlags::RDONLY | OFlags::NONBLOCK;
    let file = File::from(openat(&folder, NAME, flags, Mode::empty()).ok()?);
    let is_own = |about: &Metadata| about.uid() == geteuid().as_raw() && about.mode() & 0o022 == 0;
    let about = file.metadata().ok()?;
    let is_it = is_own(&folder.metadata().ok()?) && is_own(&about) && about.is_file();
    (is_it && about.len() > 0).then_some(file)
}
