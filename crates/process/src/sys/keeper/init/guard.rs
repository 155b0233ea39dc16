//! What mounts cannot hold: names.
//!
//! A mount stands on a dentry. The guest can neither rename nor remove one that carries a mount
//! (`is_local_mountpoint` in fs/namei.c), but somebody outside can, to whom it is no mount point:
//!
//! | outside | what becomes of the mount |
//! |---|---|
//! | renames a file over it, or removes it | the kernel takes it off in every namespace (`detach_mounts`) |
//! | renames it, or a folder above it | it goes with the file, and the name is free |
//!
//! Both are noticed. The first shows in `mountinfo`, which can be polled (proc_pid_mountinfo(5)): woken
//! before the new file can be seen, for `vfs_rename` takes mounts off before it moves the dentry. The second is
//! an event of inotify(7), a moment after. Init then looks whether every guarded path is still the root of a
//! mount, and ends the domain if one is not.

use super::{launch::Setup, root};
use crate::{During, Failure, kernel, message::Reader, text::Text, wire::Step};
use kernel::{CStr, Errno, Fd, POLLIN, POLLPRI, PollFd, Pool, c};

/// `IN_ATTRIB`, for its count of links, `IN_DELETE_SELF` and `IN_MOVE_SELF`.
const WATCHED: u32 = 0x4 | 0x400 | 0x800;
/// `IN_MOVED_FROM`.
const WATCHED_IN_FOLDER: u32 = 0x40;

/// The guarded paths, and where it shows that one may be lost.
#[derive(Clone, Copy)]
pub(crate) struct Guard {
    moves: Fd,
    mounts: Fd,
    paths: Reader,
    count: u32,
}

/// Watches what lies at a path, before something is mounted on it.
pub(crate) fn watch(reader: &mut Reader, setup: &mut Setup, item: u32) -> Result<(), Failure> {
    let path = reader.text().during(Step::DecodeLaunch, item)?;
    let folder = reader.text().during(Step::DecodeLaunch, item)?;
    let moves = match setup.moves {
        Some(moves) => moves,
        None => *setup
            .moves
            .insert(kernel::inotify().during(Step::Watch, item)?),
    };
    let watched = match watch_one(setup, moves, path, WATCHED, item)? {
        // A file that the guest's user may not read.
        Err(Errno::ACCESS) => watch_one(setup, moves, folder, WATCHED_IN_FOLDER, item)?,
        watched => watched,
    };
    watched.during(Step::Watch, item)
}

fn watch_one(
    setup: &Setup,
    moves: Fd,
    path: CStr,
    events: u32,
    item: u32,
) -> Result<kernel::Result<()>, Failure> {
    let file = root::open_target(setup, path, item)?;
    let mut name = Text::default();
    name.text(b"/proc/self/fd/").number(file as u64).text(b"\0");
    let watched = CStr::new(name.bytes())
        .ok_or(Errno::INVAL)
        .and_then(|name| kernel::inotify_watch(moves, name, events));
    kernel::close(file);
    Ok(watched)
}

/// Begins to guard: all mounts are made, and the root is the domain's own.
pub(crate) fn begin(reader: &mut Reader, setup: &mut Setup, item: u32) -> Result<(), Failure> {
    let count = reader.u32().during(Step::DecodeLaunch, item)?;
    let before = *reader;
    for _ in 0..count {
        reader.text().during(Step::DecodeLaunch, item)?;
    }
    let paths = Reader::new(reader.passed_since(&before));
    let mounts = match setup.own_proc {
        Some(proc) => kernel::open(proc, c!("self/mountinfo"), 0, 0),
        None => kernel::open(kernel::AT_FDCWD, c!("/proc/self/mountinfo"), 0, 0),
    };
    let moves = setup.moves.ok_or(Errno::INVAL);
    let guard = Guard {
        moves: moves.during(Step::DecodeLaunch, item)?,
        mounts: mounts.during(Step::Guard, item)?,
        paths,
        count,
    };
    setup.guard = Some(guard);
    // What was moved between its watch and its mount was not what is mounted now.
    match guard.is_stirred() || guard.lost().is_some() {
        true => Err(Errno::AGAIN).during(Step::Guard, item),
        false => Ok(()),
    }
}

impl Guard {
    /// What it has of the message.
    pub(crate) fn text_bytes(&self) -> usize {
        self.paths.remaining()
    }

    /// The same with a copy of that.
    pub(crate) fn kept(mut self, pool: &mut Pool) -> kernel::Result<Self> {
        self.paths = Reader::new(pool.keep(self.paths.rest())?);
        Ok(self)
    }

    /// What to poll.
    pub(crate) fn polled(&self) -> [PollFd; 2] {
        [(self.moves, POLLIN), (self.mounts, POLLPRI)].map(|(fd, events)| PollFd {
            fd,
            events,
            revents: 0,
        })
    }

    /// Which path is lost, if one is. To be asked when one of the descriptors had something to say.
    pub(crate) fn lost(&self) -> Option<u32> {
        let mut paths = self.paths;
        // Before the look: what comes after it is told anew.
        self.forget_moves();
        (0..self.count).find(|_| !paths.text().is_ok_and(is_mount))
    }

    fn forget_moves(&self) {
        let mut events = [0u8; 1024];
        while matches!(kernel::read(self.moves, &mut events), Ok(1..)) {}
    }

    fn is_stirred(&self) -> bool {
        let mut fds = self.polled();
        !matches!(kernel::poll(&mut fds, Some(0)), Ok(0))
    }
}

/// Whether the path is the root of a mount. Its parents are mounts themselves or the guest's to move, and
/// then it is not where it should be.
fn is_mount(path: CStr) -> bool {
    let flags = kernel::O_PATH;
    let Ok(file) =
        kernel::open_resolved(kernel::AT_FDCWD, path, flags, kernel::RESOLVE_NO_SYMLINKS)
    else {
        return false;
    };
    let stat = kernel::statx_fd(file);
    kernel::close(file);
    stat.is_ok_and(|stat| stat.attributes & kernel::STATX_ATTR_MOUNT_ROOT != 0)
}
