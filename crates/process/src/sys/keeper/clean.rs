//! What is removed when the supervisor dies before it has: groups, placeholders, folders.

use crate::{kernel, wire};
use kernel::{CStr, Errno, Fd, Result};

/// What to remove, in memory of its own: descriptors of folders, then for each a letter, a name, a NUL.
#[derive(Clone, Copy)]
pub(crate) struct List {
    address: *mut u8,
    length: usize,
    folders: usize,
}

impl List {
    pub(crate) fn new(folders: &[Fd], names: &[u8]) -> Result<Self> {
        let length = size_of_val(folders) + names.len();
        let memory = kernel::allocate(length.max(1))?;
        let (numbers, rest) = memory.split_at_mut(size_of_val(folders));
        for (to, folder) in numbers.chunks_exact_mut(size_of::<Fd>()).zip(folders) {
            to.copy_from_slice(&folder.to_ne_bytes());
        }
        rest[..names.len()].copy_from_slice(names);
        Ok(Self {
            address: memory.as_mut_ptr(),
            length: memory.len(),
            folders: folders.len(),
        })
    }

    fn folders_and_names(&self) -> (&[u8], &[u8]) {
        // SAFETY: the mapping was made in `new` and is there until `release`, which takes the list.
        let memory = unsafe { core::slice::from_raw_parts(self.address, self.length) };
        memory.split_at(self.folders * size_of::<Fd>())
    }

    fn folders(&self) -> impl Iterator<Item = Fd> {
        let (numbers, _) = self.folders_and_names();
        let (numbers, _) = numbers.as_chunks();
        numbers.iter().map(|number| Fd::from_ne_bytes(*number))
    }

    /// Removes all of it. A folder is the one that was there when the plan was carried out: what stands at
    /// its path by now does not matter.
    pub(crate) fn clean(&self) {
        let (_, names) = self.folders_and_names();
        let items = names.split_inclusive(|byte| *byte == 0);
        for (folder, item) in self.folders().zip(items) {
            if let Some((kind, name)) = item.split_first()
                && let Some(name) = CStr::new(name)
            {
                clean(folder, *kind, name);
            }
        }
    }

    pub(crate) fn release(self) {
        for folder in self.folders() {
            kernel::close(folder);
        }
        // SAFETY: the mapping came from `allocate` in `new`, and nothing else points to it any more.
        kernel::release(unsafe { core::slice::from_raw_parts_mut(self.address, self.length) });
    }
}

fn clean(folder: Fd, kind: u8, name: CStr) {
    match kind {
        wire::CLEAN_RMDIR => remove_dir(folder, name),
        wire::CLEAN_PLACEHOLDER => remove_placeholder(folder, name, false),
        wire::CLEAN_PLACEHOLDER_FOLDER => remove_placeholder(folder, name, true),
        _ => {}
    }
}

/// A cgroup stays busy for a moment after its last process was reaped: css references are dropped
/// by a work queue (kernel/cgroup/cgroup.c, `cgroup_destroy_locked`). There is no event to wait
/// for in v1, so try again, for two seconds at most.
fn remove_dir(parent: Fd, name: CStr) {
    const BUSY: Errno = Errno(16);
    const PAUSE_NS: u64 = 5_000_000;
    for _ in 0..400 {
        match kernel::unlink(parent, name, kernel::AT_REMOVEDIR) {
            Err(errno) if errno == BUSY => drop(kernel::poll(&mut [], Some(PAUSE_NS))),
            _ => return,
        }
    }
}

/// Removes a placeholder that no other domain holds (see `held/placeholder.rs`) and nobody filled or
/// put another file in the place of: also what others have put there may be empty.
fn remove_placeholder(parent: Fd, name: CStr, is_folder: bool) {
    let flags = kernel::O_NOFOLLOW | kernel::O_NONBLOCK | kernel::O_NOCTTY;
    let Ok(fd) = kernel::open(parent, name, flags, 0) else {
        return;
    };
    if is_unused_placeholder(parent, name, fd, is_folder) && kernel::lock_exclusively(fd).is_ok() {
        let flags = if is_folder { kernel::AT_REMOVEDIR } else { 0 };
        // A folder that was filled stays: rmdir refuses it.
        let _ = kernel::unlink(parent, name, flags);
    }
    kernel::close(fd);
}

fn is_unused_placeholder(parent: Fd, name: CStr, fd: Fd, is_folder: bool) -> bool {
    const FILE: u32 = 0o100_000;
    const FOLDER: u32 = 0o040_000;
    let (Ok(open), Ok(there)) = (kernel::statx_fd(fd), kernel::statx_at(parent, name)) else {
        return false;
    };
    let is_same = (open.device_major, open.device_minor, open.inode)
        == (there.device_major, there.device_minor, there.inode);
    let mode = u32::from(open.mode);
    is_same
        && match is_folder {
            true => mode == FOLDER | wire::PLACEHOLDER_FOLDER_MODE,
            false => mode == FILE | wire::PLACEHOLDER_FILE_MODE && open.size == 0,
        }
}
