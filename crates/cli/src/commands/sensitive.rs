//! What a user keeps from every guest beside what palisade knows of: paths and patterns in files, one a line.
//!
//! Read where somebody could be asked about such a thing, or told to grant it.

use anyhow::{Context, bail};
use palisade_command_line::{home::home_dir, read};
use palisade_policy::visible;
use palisade_process::places;
use rustix::io::Errno;
use std::{
    env,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// More than anybody writes by hand.
const MOST_BYTES: u64 = 1 << 20;
/// The administrator's.
const OF_MACHINE: &str = "/etc/palisade/sensitive";

/// Where they are looked for: the administrator's, and the user's own.
pub(super) fn files() -> Vec<PathBuf> {
    let settings = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let settings = settings.filter(|folder| folder.is_absolute());
    let settings = settings.or_else(|| Some(home_dir()?.join(".config")));
    let own = settings.map(|folder| folder.join("palisade/sensitive"));
    [PathBuf::from(OF_MACHINE)].into_iter().chain(own).collect()
}

/// The lines of those that are there.
///
/// # Errors
///
/// When one cannot be read, or a line names nothing.
pub(super) fn read() -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for file in files() {
        lines.extend(read_file(&file)?);
    }
    Ok(lines)
}

fn read_file(file: &Path) -> anyhow::Result<Vec<String>> {
    let shown = visible(&file.to_string_lossy()).into_owned();
    let bytes = match read::read_regular_file(file, MOST_BYTES) {
        Err(error) if is_missing(&error, file) || is_of_another(file) => return Ok(Vec::new()),
        bytes => bytes.with_context(|| {
            format!("usage: cannot read {shown}, which says what is kept from every guest")
        })?,
    };
    let Ok(text) = String::from_utf8(bytes) else {
        bail!("usage: {shown}: it is no text in UTF-8");
    };
    for (line, number) in text.lines().zip(1..) {
        if let Err(why) = places::check_line(line) {
            bail!("usage: {shown}: line {number}: {why}");
        }
    }
    Ok(text.lines().map(str::to_owned).collect())
}

/// Neither is a folder on the way where a file is. A link that leads nowhere is there.
fn is_missing(error: &anyhow::Error, file: &Path) -> bool {
    let errno = error.downcast_ref::<Errno>();
    let is_none = errno.is_some_and(|errno| [Errno::NOENT, Errno::NOTDIR].contains(errno));
    is_none && file.symlink_metadata().is_err()
}

/// Whether it would lie in a home of another user's, as where `HOME` is still that of whoever changed the user.
fn is_of_another(file: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let home = home_dir().filter(|home| file.starts_with(home));
    let home = home.and_then(|home| home.metadata().ok());
    home.is_some_and(|home| home.uid() != own)
}
