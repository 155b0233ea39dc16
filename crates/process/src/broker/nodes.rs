//! FIFOs, and sockets that nobody has open: mknod(2) in the domain, by a child of init's.
//!
//! Landlock's rules about such files would cost each open of the guest's, so that its own process is not under them
//! ([`crate::plan::Landlock::without_files`]). Whoever makes the file for it is.

use super::{
    Callers,
    call::{Brokered, Outcome},
    local::Request,
};
use crate::{
    sys::notify::{self, Notification},
    wire::perform,
};
use rustix::{
    fs::{AtFlags, FileType, StatxFlags},
    io::Errno,
};
use std::os::fd::{AsFd, OwnedFd};

/// As long as a path can be, with its NUL.
const PATH_MAX: usize = 4096;

impl Callers {
    /// Whether a call makes a socket or a FIFO with a name, and is carried out for the guest.
    pub(super) fn makes_for(&self, call: &Notification) -> bool {
        let is_bind = i64::from(call.call) == libc::SYS_bind;
        self.special_files_ruled
            && (is_bind || mode_at(call).is_some_and(|at| is_special(call, at)))
    }
}

/// Which argument of mknod(2) and mknodat(2) is the mode.
fn mode_at(call: &Notification) -> Option<usize> {
    match i64::from(call.call) {
        libc::SYS_mknodat => Some(2),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mknod => Some(1),
        _ => None,
    }
}

/// The descriptor that a path begins with, if something follows: what programs do whose path is longer than a socket's name.
fn number_on(path: &[u8]) -> Option<i32> {
    const OPEN: [&str; 3] = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"];
    let mut places = OPEN.iter();
    let rest = places.find_map(|place| path.strip_prefix(place.as_bytes()))?;
    let end = rest.iter().position(|byte| *byte == b'/')?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

/// The kernel reads 16 bits of a mode.
fn is_special(call: &Notification, mode: usize) -> bool {
    let kind = FileType::from_raw_mode(call.arguments[mode] as u32 & 0xffff);
    matches!(kind, FileType::Fifo | FileType::Socket)
}

impl Brokered<'_> {
    /// `mknodat(folder, path, mode, …)`, or mknod(2) without the folder.
    pub(super) fn make_node(&mut self) -> Outcome {
        if let Some(call) = crate::file_calls::find(self.call.call.into())
            && !self.note_files(call)
        {
            return Err(Errno::ACCESS);
        }
        let at = mode_at(self.call).ok_or(Errno::NOSYS)?;
        let [path, mode] = [at - 1, at].map(|at| self.call.arguments[at]);
        let mut path = notify::read_text(self.call.thread, path, PATH_MAX)?;
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let folder = at.checked_sub(2).map(|at| self.call.arguments[at] as i32);
        let begins_in = match folder {
            Some(number) if path[0] != b'/' && number != libc::AT_FDCWD => {
                self.folder_at(number)?
            }
            _ => self.shared.maker.folder_of(self.call.thread)?,
        };
        let open = self.open_folder_on(&path)?;
        path.push(0);
        let request = Request {
            call: perform::MAKE_NODE,
            number: (mode & 0xffff) as i32,
            address: &[],
            open: open.as_ref().map(|(number, folder)| (*number, folder)),
            data: &path,
            rights: &[],
        };
        self.perform(&begins_in, &request, Ok)
    }

    /// The folder that a path leads through by the number under which the caller has it open. It is looked for by a process
    /// that has other files.
    pub(super) fn open_folder_on(&mut self, path: &[u8]) -> Result<Option<(i32, OwnedFd)>, Errno> {
        match number_on(path) {
            Some(number) => {
                let folder = self.folder_at(number).map_err(|errno| match errno {
                    Errno::BADF => Errno::NOENT,
                    errno => errno,
                });
                Ok(Some((number, folder?)))
            }
            None => Ok(None),
        }
    }

    /// A folder that the caller has open. Nothing else goes to init: whoever closes a file of the guest's last may have to wait
    /// for it.
    fn folder_at(&mut self, number: i32) -> Result<OwnedFd, Errno> {
        let opened = self.own_descriptor(number as u32 as u64)?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let about = rustix::fs::statx(opened.as_fd(), c"", flags, StatxFlags::TYPE)?;
        match FileType::from_raw_mode(about.stx_mode.into()) {
            FileType::Directory => Ok(opened),
            _ => Err(Errno::NOTDIR),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::number_on;

    #[test]
    fn a_path_may_begin_with_what_is_open() {
        for path in [
            "/proc/self/fd/7/a",
            "/dev/fd/7/a/b",
            "/proc/thread-self/fd/7/",
        ] {
            assert_eq!(number_on(path.as_bytes()), Some(7), "{path}");
        }
        for path in [
            "",
            "/proc/self/fd/7",
            "/dev/fd/x/a",
            "/dev/fd//a",
            "/tmp/dev/fd/7/a",
            "/dev/fd/99999999999/a",
        ] {
            assert_eq!(number_on(path.as_bytes()), None, "{path}");
        }
    }
}
