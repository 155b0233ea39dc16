//! FIFOs, and sockets that nobody has open: mknod(2) in the domain, by a child of init's.
//!
//! Landlock's rules about such files would cost each open of the guest's, so that its own process is not under them
//! ([`crate::plan::Landlock::without_files`]). Whoever makes the file for it is.

use super::{
    call::{Brokered, Outcome},
    local::Request,
};
use crate::{sys::notify, wire::perform};
use rustix::{
    fs::{AtFlags, FileType, StatxFlags},
    io::Errno,
};
use std::os::fd::{AsFd, OwnedFd};

/// As long as a path can be, with its NUL.
const PATH_MAX: usize = 4096;

impl Brokered<'_> {
    /// Whether a node of the mode in this argument is made here. The kernel reads 16 bits of it.
    pub(super) fn is_ruled(&self, mode: usize) -> bool {
        let kind = FileType::from_raw_mode(self.call.arguments[mode] as u32 & 0xffff);
        let is_special = matches!(kind, FileType::Fifo | FileType::Socket);
        self.shared.callers.special_files_ruled && is_special
    }

    /// `mknodat(folder, path, mode, …)`, or without a folder.
    pub(super) fn make_node(&mut self, folder: Option<usize>) -> Outcome {
        if let Some(call) = crate::file_calls::find(self.call.call.into())
            && !self.note_files(call)
        {
            return Err(Errno::ACCESS);
        }
        let first = folder.map_or(0, |at| at + 1);
        let [path, mode] = [first, first + 1].map(|at| self.call.arguments[at]);
        let mut path = notify::read_text(self.call.thread, path, PATH_MAX)?;
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        path.push(0);
        let begins_in = self.begins_in(folder)?;
        let request = Request {
            call: perform::MAKE_NODE,
            number: (mode & 0xffff) as i32,
            address: &[],
            data: &path,
            rights: &[],
        };
        self.perform(&begins_in, &request, Ok)
    }

    /// Where a relative path begins. Nothing but a folder goes to init: whoever closes a file of the guest's last may have to
    /// wait for it.
    fn begins_in(&mut self, folder: Option<usize>) -> Result<OwnedFd, Errno> {
        let number = folder.map(|at| self.call.arguments[at] as i32);
        let number = match number.filter(|number| *number != libc::AT_FDCWD) {
            Some(number) => number,
            None => return self.shared.maker.folder_of(self.call.thread),
        };
        let opened = self.own_descriptor(number as u32 as u64)?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let about = rustix::fs::statx(opened.as_fd(), c"", flags, StatxFlags::TYPE)?;
        match FileType::from_raw_mode(about.stx_mode.into()) {
            FileType::Directory => Ok(opened),
            _ => Err(Errno::NOTDIR),
        }
    }
}
