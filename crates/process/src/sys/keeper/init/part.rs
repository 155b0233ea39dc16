//! What the guest's process makes of the root, while init makes mounts ([`op::GUEST_BESIDE`]).
//!
//! Each thing is made by its name in a folder that is open, and in folders of the root's own `tmpfs` alone: whatever is mounted
//! over one meanwhile, nothing is made in what lies there, which may be the host's.

use super::root::{self, Place, Places};
use crate::{
    During, Failure, kernel,
    message::Reader,
    wire::{Step, op},
};
use kernel::{CStr, Errno, Fd};

/// Carries out these instructions.
pub(crate) fn make(mut reader: Reader, root: Fd) -> Result<(), Failure> {
    let mut folders = Folders::new(root).during(Step::MakeRoot, 0)?;
    let mut item = 0;
    while !reader.is_empty() {
        match reader.u32().during(Step::DecodeLaunch, item)? {
            op::ITEM => item = reader.u32().during(Step::DecodeLaunch, item)?,
            op::MAKE_DIR => root::make_dir(&mut reader, &mut folders, item)?,
            op::SYMLINK => root::symlink(&mut reader, &mut folders, item)?,
            op::FILE => drop(root::write_file(&mut reader, &mut folders, item)?),
            op::BIND => root::bind(&mut reader, &mut folders, item)?,
            op::REMOUNT => root::remount(&mut reader, &mut folders, item)?,
            _ => return Err(Errno::NOSYS).during(Step::DecodeLaunch, item),
        }
    }
    folders.leave();
    Ok(())
}

/// Folders of the root's own file system.
struct Folders {
    root: Fd,
    device: (u32, u32),
    /// The one that the last name was in, if it is not the root: most have the same.
    last: Option<(&'static [u8], Fd)>,
}

impl Folders {
    fn new(root: Fd) -> kernel::Result<Self> {
        Ok(Self {
            root,
            device: device_of(root)?,
            last: None,
        })
    }

    /// The folder of this path, without a slash at its end.
    fn folder(&mut self, path: &'static [u8]) -> kernel::Result<Fd> {
        if path.is_empty() {
            return Ok(self.root);
        }
        if let Some((_, folder)) = self.last.filter(|(last, _)| *last == path) {
            return Ok(folder);
        }
        self.leave();
        let names = path.split(|byte| *byte == b'/');
        let folder = kernel::open_folder_below(self.root, names.filter(|name| !name.is_empty()))?;
        if device_of(folder) != Ok(self.device) {
            kernel::close(folder);
            return Err(Errno::XDEV);
        }
        self.last = Some((path, folder));
        Ok(folder)
    }

    fn leave(&mut self) {
        if let Some((_, folder)) = self.last.take() {
            kernel::close(folder);
        }
    }
}

impl Places for Folders {
    fn find(&mut self, path: CStr<'static>) -> kernel::Result<Place> {
        let (folder, name) = path.last_name().ok_or(Errno::INVAL)?;
        Ok((self.folder(folder)?, name))
    }

    fn open(&mut self, path: CStr<'static>) -> kernel::Result<Fd> {
        let (folder, name) = self.find(path)?;
        kernel::open(folder, name, kernel::O_PATH | kernel::O_NOFOLLOW, 0)
    }
}

fn device_of(folder: Fd) -> kernel::Result<(u32, u32)> {
    kernel::statx_fd(folder).map(|about| (about.device_major, about.device_minor))
}
