//! A file put in another one's place at once, under a name beside it until it is whole.

use anyhow::Context;
use rustix::rand::GetRandomFlags;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Makes a file of this text where there is none. A link there is not followed.
pub(crate) fn make_new(file: &Path, text: &str) -> io::Result<()> {
    let mut made = OpenOptions::new().write(true).create_new(true).open(file)?;
    made.write_all(text.as_bytes())
}

/// Makes a new file by `fill`, and puts it in the place of `file`. A link there is replaced, not followed. Nothing changes where it fails.
pub(crate) fn replace(
    file: &Path,
    fill: impl FnOnce(&mut File) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let beside = name_beside(file)?;
    let mut made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&beside)?;
    fill(&mut made)
        .and_then(|()| Ok(fs::rename(&beside, file)?))
        .inspect_err(|_| drop(fs::remove_file(&beside)))
}

/// A name that nobody can have taken ahead.
fn name_beside(file: &Path) -> anyhow::Result<PathBuf> {
    let mut number = [0; 16];
    // So few bytes are never given in part, getrandom(2).
    rustix::rand::getrandom(&mut number, GetRandomFlags::empty())
        .context("host: no random bytes")?;
    let number = u128::from_ne_bytes(number);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    Ok(file.with_file_name(format!(".{name}.{number:032x}")))
}
