//! Standard streams of which the guest must not get what the supervisor holds.

use super::{guest, launch::Setup, root};
use crate::{During, Failure, kernel, message::Reader, wire::Step};
use kernel::{Errno, MountAttr};

/// Opens the file of a stream anew, through a mount of its own that nothing can be changed or executed
/// on: as its owner the guest could otherwise set mode, times, attributes and flags by the descriptor
/// alone (`mnt_want_write` in fs/namespace.c is what refuses that).
///
/// The mount is attached where the file lies, so that it goes with the host's file system: closing a
/// detached one waits for an RCU grace period (`dissolve_on_fput` in fs/namespace.c).
pub(crate) fn reopen(reader: &mut Reader, setup: &mut Setup, item: u32) -> Result<(), Failure> {
    let mut number = || reader.u32().during(Step::DecodeLaunch, item);
    let (stream, device) = (number()?, (number()?, number()?));
    let inode = reader.u64().during(Step::DecodeLaunch, item)?;
    let offset = reader.u64().during(Step::DecodeLaunch, item)?;
    let path = reader.text().during(Step::DecodeLaunch, item)?;
    let open = |flags| kernel::open_resolved(kernel::AT_FDCWD, path, flags, root::RESOLVE_HOST);
    let place = open(kernel::O_PATH).during(Step::ReopenStream, 0)?;
    if !root::is_file(place, device, inode).during(Step::ReopenStream, 0)? {
        return Err(Errno::ACCESS).during(Step::ReopenStream, 1);
    }
    let mount = kernel::open_tree(place, 0).during(Step::ReopenStream, 2)?;
    kernel::set_mount_attributes(mount, 0, &READ_ONLY).during(Step::ReopenStream, 3)?;
    kernel::move_mount(mount, place).during(Step::ReopenStream, 4)?;
    let file = open(kernel::O_RDONLY | kernel::O_CLOEXEC).during(Step::ReopenStream, 5)?;
    // The path may lead elsewhere by now.
    let is_same = root::is_file(file, device, inode).during(Step::ReopenStream, 6)?;
    let flags = kernel::mount_flags(file).during(Step::ReopenStream, 7)?;
    if !is_same || flags & READ_ONLY.attr_set != READ_ONLY.attr_set {
        return Err(Errno::ACCESS).during(Step::ReopenStream, 8);
    }
    if offset != 0 {
        kernel::seek(file, offset).during(Step::ReopenStream, 9)?;
    }
    kernel::close(mount);
    kernel::close(place);
    setup.input |= stream == 0;
    setup
        .replace(stream as usize, file)
        .during(Step::DecodeLaunch, item)
}

/// The bits of `MOUNT_ATTR_*` are those of `ST_*` for these four.
const READ_ONLY: MountAttr = MountAttr {
    attr_set: kernel::MOUNT_ATTR_RDONLY
        | kernel::MOUNT_ATTR_NOSUID
        | kernel::MOUNT_ATTR_NODEV
        | kernel::MOUNT_ATTR_NOEXEC,
    attr_clr: 0,
    propagation: kernel::MS_PRIVATE,
    userns_fd: 0,
};

/// Makes a pair of sockets in the domain's own network, where a name that the guest gives one is
/// nobody else's, and puts one end in the place of these streams.
pub(crate) fn pair(reader: &mut Reader, setup: &mut Setup, item: u32) -> Result<(), Failure> {
    let mask = reader.u32().during(Step::DecodeLaunch, item)?;
    let pair = kernel::socket_pair().during(Step::PairStreams, 0)?;
    let [_, guests] = pair;
    for stream in (0..guest::STANDARD_STREAMS).filter(|stream| mask & (1 << stream) != 0) {
        setup
            .replace(stream, guests)
            .during(Step::DecodeLaunch, item)?;
    }
    let place = setup.pairs.get_mut(setup.pair_count).ok_or(Errno::INVAL);
    *place.during(Step::DecodeLaunch, item)? = pair;
    setup.pair_count += 1;
    Ok(())
}
