//! What openat2(2) does with `RESOLVE_BENEATH`, by one openat(2) for each component, where a filter refuses
//! the former: somebody else's, or the process wall's own without namespaces.
//!
//! No component is ever followed by the kernel: links are read and their text is walked in turn. `..` goes
//! back to the folder that the walk came from, which is still open, so that a folder that is moved
//! meanwhile leads nowhere else.

use super::Unresolved;
use crate::sys::open_how;
use rustix::{
    fs::{Mode, OFlags, openat, readlinkat},
    io::Errno as Kernel,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The kernel's `MAXSYMLINKS`.
const MOST_LINKS: usize = 40;

/// Opens what a path leads to below a folder, as openat2(2) would.
pub(super) fn open(
    folder: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
) -> Result<OwnedFd, Unresolved> {
    let mode = Mode::from_raw_mode(open_how::MODE as u32);
    // To look only, there is no flag about opening.
    let flags = match flags.contains(OFlags::PATH) {
        true => flags | OFlags::CLOEXEC,
        false => flags | OFlags::CLOEXEC | OFlags::NOCTTY,
    };
    if path.is_empty() {
        return Err(Kernel::NOENT.into());
    }
    let mut walk = Walk {
        folder,
        way: Vec::new(),
        rest: relative(path)?.to_vec(),
        links: 0,
    };
    loop {
        let step = walk.next_step();
        match step.name.as_slice() {
            b".." => walk.go_back()?,
            b"." | b"" => {}
            name if step.is_last => {
                if let Some(opened) = walk.open_last(name, step.names_folder, flags, mode)? {
                    return Ok(opened);
                }
                continue;
            }
            name => {
                walk.enter(name)?;
                continue;
            }
        }
        if step.is_last {
            return Ok(openat(walk.here(), c".", flags, mode)?);
        }
    }
}

/// A component of a path.
struct Step {
    name: Vec<u8>,
    is_last: bool,
    /// A slash stands behind it.
    names_folder: bool,
}

struct Walk<'folder> {
    folder: BorrowedFd<'folder>,
    /// The folders that were entered, the deepest last.
    way: Vec<OwnedFd>,
    /// What is left of the path.
    rest: Vec<u8>,
    links: usize,
}

impl Walk<'_> {
    fn here(&self) -> BorrowedFd<'_> {
        self.way.last().map_or(self.folder, AsFd::as_fd)
    }

    fn next_step(&mut self) -> Step {
        let end = self.rest.iter().position(|byte| *byte == b'/');
        let name: Vec<u8> = self.rest.drain(..end.unwrap_or(self.rest.len())).collect();
        let slashes = self.rest.iter().take_while(|byte| **byte == b'/').count();
        self.rest.drain(..slashes);
        Step {
            name,
            is_last: self.rest.is_empty(),
            names_folder: slashes > 0,
        }
    }

    fn go_back(&mut self) -> Result<(), Unresolved> {
        self.way.pop().map(drop).ok_or(Unresolved::Outside)
    }

    /// Goes into a folder, or puts a link's text in front of what is left.
    fn enter(&mut self, name: &[u8]) -> Result<(), Unresolved> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(self.here(), name, flags, Mode::empty()) {
            Ok(folder) => self.way.push(folder),
            Err(Kernel::NOTDIR) => self.take_link(name, true, Kernel::NOTDIR)?,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Opens the last component; `None` when it is a link whose text is to be walked instead.
    fn open_last(
        &mut self,
        name: &[u8],
        names_folder: bool,
        flags: OFlags,
        mode: Mode,
    ) -> Result<Option<OwnedFd>, Unresolved> {
        if names_folder && flags.contains(OFlags::CREATE) {
            return Err(Kernel::ISDIR.into());
        }
        let follows = names_folder
            || !(flags.contains(OFlags::NOFOLLOW) || flags.contains(OFlags::CREATE | OFlags::EXCL));
        let flags = match names_folder {
            true => flags | OFlags::DIRECTORY,
            false => flags,
        };
        match openat(self.here(), name, flags | OFlags::NOFOLLOW, mode) {
            // To look only, a link opens as itself.
            Ok(opened) if follows && flags.contains(OFlags::PATH) => {
                match readlinkat(&opened, c"", Vec::new()) {
                    Ok(text) => self.walk_text(text.as_bytes(), names_folder).map(|()| None),
                    Err(_) => Ok(Some(opened)),
                }
            }
            Err(error @ (Kernel::LOOP | Kernel::NOTDIR)) if follows => {
                self.take_link(name, names_folder, error).map(|()| None)
            }
            opened => Ok(Some(opened?)),
        }
    }

    /// Where the name is no link, what its opening had said is the answer.
    fn take_link(
        &mut self,
        name: &[u8],
        names_folder: bool,
        error: Kernel,
    ) -> Result<(), Unresolved> {
        match readlinkat(self.here(), name, Vec::new()) {
            Ok(text) => self.walk_text(text.as_bytes(), names_folder),
            Err(Kernel::INVAL) => Err(error.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn walk_text(&mut self, text: &[u8], names_folder: bool) -> Result<(), Unresolved> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Kernel::LOOP.into());
        }
        let mut path = relative(text)?.to_vec();
        if names_folder {
            path.push(b'/');
        }
        path.append(&mut self.rest);
        self.rest = path;
        Ok(())
    }
}

fn relative(path: &[u8]) -> Result<&[u8], Unresolved> {
    match path.first() {
        Some(b'/') => Err(Unresolved::Outside),
        _ => Ok(path),
    }
}
