//! Places inside, as the container would see them.
//!
//! Links of an image lead nowhere else (`RESOLVE_IN_ROOT` of openat2(2); CVE-2021-30465 exchanged them between check and use), and
//! what lies in `/proc` leads nowhere at all (`RESOLVE_NO_MAGICLINKS`).

use crate::kernel;
use kernel::{CStr, Errno, Fd, c};

pub(super) const IN_ROOT: u64 = kernel::RESOLVE_IN_ROOT | kernel::RESOLVE_NO_MAGICLINKS;
/// Most bytes of a path (limits.h).
pub(super) const PATH_BYTES: usize = 4096;
/// As many as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// What is at a path inside.
pub(super) fn find(root: Fd, path: CStr) -> kernel::Result<Fd> {
    kernel::open_resolved(root, path, kernel::O_PATH, IN_ROOT)
}

/// The same, made if it is not there, with the folders that lead there. So is what a link leads to: `/etc/resolv.conf` of many
/// images leads to where a service would write it.
pub(super) fn find_or_make(root: Fd, path: CStr, folder: bool, mode: u32) -> kernel::Result<Fd> {
    match find(root, path) {
        Err(errno) if errno == Errno::NOENT => {}
        found => return found,
    }
    let mut way = Way::new();
    way.push_all(path.names())?;
    for _ in 0..MOST_LINKS {
        if let Some(found) = way.make(root, folder, mode)? {
            return Ok(found);
        }
    }
    Err(Errno::LOOP)
}

/// A path from the root on.
struct Way {
    text: [u8; PATH_BYTES],
    length: usize,
}

impl Way {
    fn new() -> Self {
        Self {
            text: [0; PATH_BYTES],
            length: 0,
        }
    }

    fn push(&mut self, name: &[u8]) -> kernel::Result<()> {
        let end = self.length + 1 + name.len();
        // With room for a NUL.
        let place = self.text.get_mut(self.length..=end).ok_or(Errno::INVAL)?;
        place[0] = b'/';
        place[1..=name.len()].copy_from_slice(name);
        place[name.len() + 1] = 0;
        self.length = end;
        Ok(())
    }

    fn push_all<'a>(&mut self, names: impl IntoIterator<Item = &'a [u8]>) -> kernel::Result<()> {
        names.into_iter().try_for_each(|name| self.push(name))
    }

    /// From this byte on.
    fn path(&self, from: usize) -> kernel::Result<CStr<'_>> {
        CStr::new(&self.text[from..=self.length]).ok_or(Errno::INVAL)
    }

    /// Makes what is missing. Nothing if a link is in the way whose end is missing: then this leads where that does.
    fn make(&mut self, root: Fd, folder: bool, mode: u32) -> kernel::Result<Option<Fd>> {
        let mut so_far = Self::new();
        let mut parent = find(root, c!("/"))?;
        let mut names = names(&self.text[..self.length]).peekable();
        while let Some(name) = names.next() {
            let before = so_far.length;
            so_far.push(name)?;
            let found = match (find(root, so_far.path(0)?), names.peek()) {
                (Err(errno), None) if errno == Errno::NOENT => {
                    make(parent, so_far.path(before + 1)?, folder, mode)?;
                    find(root, so_far.path(0)?)
                }
                (Err(errno), Some(_)) if errno == Errno::NOENT => {
                    make(parent, so_far.path(before + 1)?, true, 0o755)?;
                    find(root, so_far.path(0)?)
                }
                (found, _) => found,
            };
            match found {
                Err(errno) if errno == Errno::NOENT => {
                    let mut next = so_far.end_of_link(parent, before)?;
                    kernel::close(parent);
                    next.push_all(names)?;
                    *self = next;
                    return Ok(None);
                }
                found => {
                    kernel::close(parent);
                    parent = found?;
                }
            }
        }
        Ok(Some(parent))
    }

    /// Where this leads, whose last name, behind so many bytes, is a link in that folder.
    fn end_of_link(&self, parent: Fd, before: usize) -> kernel::Result<Self> {
        let mut target = [0; PATH_BYTES];
        let length = kernel::read_link(parent, self.path(before + 1)?, &mut target)?;
        let target = &target[..length];
        let mut way = Self::new();
        if target.first() != Some(&b'/') {
            way.push_all(names(&self.text[..before]))?;
        }
        way.push_all(names(target))?;
        Ok(way)
    }
}

fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
}

/// A link whose end is missing counts as there.
fn make(parent: Fd, name: CStr, folder: bool, mode: u32) -> kernel::Result<()> {
    // What cannot be made below a descriptor of the kind O_PATH can be made by it.
    let made = if folder {
        kernel::make_dir(parent, name, mode)
    } else {
        let flags = kernel::O_CREAT | kernel::O_EXCL | kernel::O_NOFOLLOW | kernel::O_WRONLY;
        kernel::open(parent, name, flags, mode).map(kernel::close)
    };
    match made {
        Err(errno) if errno == Errno::EXIST => Ok(()),
        made => made,
    }
}
