//! Where a guest meets others: sockets of the host's that it may connect to, and mounts below which they may
//! be. Known by their mounts, which are looked up once, before there is a guest: a path may lead elsewhere by
//! the time that it is used.

use super::launch::Setup;
use crate::{
    During, Failure, kernel,
    message::Reader,
    wire::{MOST_MEETING_PLACES, Step},
};
use kernel::Errno;

/// Numbers of mounts.
#[derive(Clone, Copy)]
pub(crate) struct MeetingPlaces {
    mounts: [u64; MOST_MEETING_PLACES],
    count: usize,
}

impl Default for MeetingPlaces {
    fn default() -> Self {
        Self {
            mounts: [0; MOST_MEETING_PLACES],
            count: 0,
        }
    }
}

impl MeetingPlaces {
    /// No mount has number 0, which a kernel before Linux 5.8 leaves there.
    pub(crate) fn has(&self, mount: u64) -> bool {
        mount != 0 && self.mounts[..self.count].contains(&mount)
    }

    fn add(&mut self, mount: u64) -> kernel::Result<()> {
        let place = self.mounts.get_mut(self.count).ok_or(Errno::INVAL)?;
        *place = mount;
        self.count += 1;
        Ok(())
    }
}

/// Looks them up: a number, and so many paths.
pub(crate) fn look_up(reader: &mut Reader, setup: &mut Setup, item: u32) -> Result<(), Failure> {
    let count = reader.u32().during(Step::DecodeLaunch, item)?;
    for _ in 0..count {
        let path = reader.text().during(Step::DecodeLaunch, item)?;
        let flags = kernel::O_PATH;
        let resolve = kernel::RESOLVE_NO_SYMLINKS;
        let place = kernel::open_resolved(kernel::AT_FDCWD, path, flags, resolve)
            .during(Step::OpenTarget, item)?;
        let about = kernel::statx_fd(place);
        kernel::close(place);
        let about = about.during(Step::OpenTarget, item)?;
        // Else all that is around it would be meant.
        if about.attributes & kernel::STATX_ATTR_MOUNT_ROOT == 0 {
            return Err(Errno::INVAL).during(Step::OpenTarget, item);
        }
        setup
            .meeting_places
            .add(about.mount)
            .during(Step::OpenTarget, item)?;
    }
    Ok(())
}
