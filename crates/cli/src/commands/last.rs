//! The report of the last run at a terminal that failed and was denied something: `palisade why` explains it when it is told no other.
//!
//! It lies where a user's programs keep what is not to outlive the session, and in no folder that others may write to.

use crate::say;
use palisade_wall::Report;
use rustix::{
    fs::{CWD, FlockOperation, Mode, OFlags, flock, ftruncate, openat},
    process::geteuid,
};
use std::{
    fs::{self, DirBuilder, File, Metadata},
    io::{IsTerminal, Write, stderr},
    os::{
        fd::AsFd,
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
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

/// Whether a guest could be granted the place: without a session there is none.
pub(super) fn has_session(place: &Path) -> bool {
    session_of(place).is_some_and(Path::exists)
}

fn session_of(place: &Path) -> Option<&Path> {
    place.parent()?.parent()
}

fn is_own(about: &Metadata) -> bool {
    about.uid() == geteuid().as_raw() && about.mode() & 0o022 == 0
}

/// The same where there is a session, in a folder of this user's alone.
fn place_in_session() -> Option<PathBuf> {
    let place = place(geteuid().as_raw());
    let session = fs::symlink_metadata(session_of(&place)?).ok()?;
    (session.is_dir() && is_own(&session)).then_some(place)
}

/// Opens the file itself, which no link leads to, and which is this user's alone, as its folder is.
fn open_itself(place: &Path, flags: OFlags) -> Option<File> {
    let itself = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |folder, path: &Path, flags| {
        let opened = openat(folder, path, itself | flags, Mode::RUSR | Mode::WUSR);
        opened.ok().map(File::from)
    };
    let folder = open(CWD, place.parent()?, OFlags::DIRECTORY)?;
    let file = open(folder.as_fd(), Path::new(NAME), flags)?;
    let about = file.metadata().ok()?;
    let is_it = about.is_file() && is_own(&about) && is_own(&folder.metadata().ok()?);
    is_it.then_some(file)
}

/// Where it will be written, which is opened before the guest is there: palisade itself opens nothing beside one. Only for a person
/// at a terminal, and behind a view that does not reach it (`request.rs`).
pub(super) fn open_at_terminal() -> Option<File> {
    let place = stderr().is_terminal().then(place_in_session).flatten()?;
    // It is there, or cannot be made: then it cannot be opened either.
    let _ = DirBuilder::new().mode(0o700).create(place.parent()?);
    open_itself(&place, OFlags::WRONLY | OFlags::CREATE)
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

/// What was written, if there is something.
pub(super) fn open() -> Option<File> {
    let file = open_itself(&place_in_session()?, OFlags::RDONLY)?;
    (file.metadata().ok()?.len() > 0).then_some(file)
}
