//! Files that the kernel makes up when they are read. Nobody tells their size beforehand: the standard library asks
//! for it in vain and then reads by 32 bytes and doubles, so that how often a start reads would hang on how much a
//! machine has mounted.

use rustix::{
    buffer::spare_capacity,
    fs::{Mode, OFlags},
};
use std::{
    ffi::OsString,
    io::{self, ErrorKind},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

/// As much as most of them have.
const TEXT_BYTES: usize = 4 << 10;

/// As much as a table of mounts has on most machines.
pub(crate) const MOUNTINFO_BYTES: usize = 16 << 10;

/// The content of a file of about this size.
pub(crate) fn read(path: &Path, about_bytes: usize) -> rustix::io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let mut content = Vec::with_capacity(about_bytes + 1);
    while rustix::io::read(&file, spare_capacity(&mut content))? != 0 {
        content.reserve(1);
    }
    Ok(content)
}

/// A text such as there are in `/proc` and among the files of control groups.
///
/// # Errors
///
/// When it cannot be read, or is no UTF-8.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    text_of_about(path.as_ref(), TEXT_BYTES)
}

/// The mounts that this process sees (proc_pid_mountinfo(5)).
///
/// # Errors
///
/// When it cannot be read, or is no UTF-8.
pub fn own_mounts() -> io::Result<String> {
    text_of_about(Path::new("/proc/self/mountinfo"), MOUNTINFO_BYTES)
}

/// A path as mountinfo has it, with octal escapes for space, tab, newline and backslash.
#[must_use]
pub fn mount_path(field: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let byte = octal
            .and_then(|octal| std::str::from_utf8(octal).ok())
            .and_then(|octal| u8::from_str_radix(octal, 8).ok());
        plain.push(byte.unwrap_or(*first));
        rest = match byte {
            Some(_) => &after[3..],
            None => after,
        };
    }
    OsString::from_vec(plain).into()
}

fn text_of_about(path: &Path, about_bytes: usize) -> io::Result<String> {
    let content = read(path, about_bytes)?;
    String::from_utf8(content).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_mounts() {
        assert_eq!(
            mount_path(b"/mnt/with\\040space\\134"),
            Path::new("/mnt/with space\\")
        );
        assert_eq!(mount_path(b"a\\134\\x\\"), Path::new("a\\\\x\\"));
    }
}
