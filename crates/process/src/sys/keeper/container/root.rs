//! A container's files: the image as its root, and what is mounted there.
//!
//! Targets are found as `place.rs` says.

use super::{
    During, Failure, copy,
    message::Setup,
    place::{IN_ROOT, PATH_BYTES, find, find_or_make},
};
use crate::{kernel, message::Reader, wire::container};
use container::Step;
use kernel::{CStr, Errno, Fd, MountAttr, c};

const NO_LINKS: u64 = kernel::RESOLVE_NO_SYMLINKS | kernel::RESOLVE_NO_MAGICLINKS;

const S_IFMT: u16 = 0o170_000;
const S_IFDIR: u16 = 0o040_000;

fn attributes(set: u64, clear: u64, propagation: u64) -> MountAttr {
    MountAttr {
        attr_set: set,
        attr_clr: clear,
        propagation,
        userns_fd: 0,
    }
}

fn root_of(setup: &Setup) -> Result<Fd, Failure> {
    setup.root.ok_or(Errno::INVAL).during(Step::Root, 9)
}

/// How the copies of the host's mounts hear of its later ones.
pub(super) fn set_propagation(reader: &mut Reader) -> Result<(), Failure> {
    let propagation = reader.u64().during(Step::Decode, 10)?;
    let host = open_folder(kernel::AT_FDCWD, c!("/")).during(Step::Root, 0)?;
    let wanted = attributes(0, 0, propagation);
    let outcome = kernel::set_mount_attributes(host, kernel::AT_RECURSIVE, &wanted);
    kernel::close(host);
    outcome.during(Step::Root, 1)
}

fn open_folder(at: Fd, path: CStr) -> kernel::Result<Fd> {
    kernel::open(at, path, kernel::O_PATH | kernel::O_DIRECTORY, 0)
}

/// A detached mount of what the message means.
fn source(reader: &mut Reader, setup: &Setup, recursive: bool, item: u32) -> Result<Fd, Failure> {
    let mut number = || reader.u32().during(Step::Decode, 11);
    let index = number()?;
    if index != container::BY_PATH {
        return setup.fd(index).during(Step::Decode, 12);
    }
    let path = reader.text().during(Step::Decode, 11)?;
    let mut number = || reader.u32().during(Step::Decode, 11);
    let device = (number()?, number()?);
    let inode = reader.u64().during(Step::Decode, 11)?;
    let flags = kernel::O_PATH;
    let file =
        kernel::open_resolved(kernel::AT_FDCWD, path, flags, NO_LINKS).during(Step::Bind, item)?;
    let found = kernel::statx_fd(file).during(Step::Bind, item)?;
    if (found.device_major, found.device_minor) != device || found.inode != inode {
        return Err(Errno::ACCESS).during(Step::SourceChanged, item);
    }
    let flags = if recursive { kernel::AT_RECURSIVE } else { 0 };
    let mount = kernel::open_tree(file, flags).during(Step::Bind, item);
    kernel::close(file);
    mount
}

/// Mounts the image where it lies, so that hooks which enter the container's mount namespace find it there, among the host's
/// files; on top of everything, if it is asked for or the image's own place cannot be reached. Somewhere it has to be: before
/// Linux 6.15 nothing can be attached to a mount that is in no namespace.
pub(super) fn take(reader: &mut Reader, setup: &mut Setup) -> Result<(), Failure> {
    let root = source(reader, setup, true, u32::MAX)?;
    let wanted = attributes(0, 0, kernel::MS_PRIVATE);
    kernel::set_mount_attributes(root, kernel::AT_RECURSIVE, &wanted).during(Step::Root, 2)?;
    let path = reader.text().during(Step::Decode, 11)?;
    let place = open_folder(kernel::AT_FDCWD, path)
        .or_else(|_| open_folder(kernel::AT_FDCWD, c!("/")))
        .during(Step::Root, 3)?;
    kernel::move_mount(root, place).during(Step::Root, 4)?;
    kernel::close(place);
    setup.root = Some(root);
    Ok(())
}

/// A file system of the container's own.
pub(super) fn mount(reader: &mut Reader, setup: &mut Setup, item: u32) -> Result<(), Failure> {
    let decode = |text: kernel::Result<CStr<'static>>| text.during(Step::Decode, 13);
    let kind = decode(reader.text())?;
    let from = decode(reader.text())?;
    let target = decode(reader.text())?;
    let set = reader.u64().during(Step::Decode, 13)?;
    let propagation = reader.u64().during(Step::Decode, 13)?;
    let copies = reader.u32().during(Step::Decode, 13)? != 0;
    let made = make_file_system(reader, kind, from, set);
    let mount = match setup.sysfs.take() {
        Some(ahead) if kind.with_nul() == b"sysfs\0" => {
            kernel::set_mount_attributes(ahead, 0, &attributes(set, 0, 0))
                .during(Step::Mount, item)?;
            ahead
        }
        kept => {
            setup.sysfs = kept;
            made.during(Step::Mount, item)?
        }
    };
    if propagation != 0 {
        let wanted = attributes(0, 0, propagation);
        kernel::set_mount_attributes(mount, 0, &wanted).during(Step::Mount, item)?;
    }
    if copies {
        copy::fill(root_of(setup)?, target, mount).during(Step::Mount, item)?;
    }
    if matches!(kind.with_nul(), b"proc\0" | b"sysfs\0") {
        refuse_links(root_of(setup)?, target).during(Step::Mount, item)?;
    }
    attach(setup, mount, target, true).during(Step::Mount, item)?;
    if kind.with_nul() == b"devpts\0" && setup.devpts.is_none() {
        setup.devpts = Some(mount);
    } else {
        kernel::close(mount);
    }
    Ok(())
}

/// Where a link of the image leads, the image could show something else as `/proc` later, which labels are set by and masks are for
/// (CVE-2019-19921, CVE-2023-28642).
fn refuse_links(root: Fd, target: CStr) -> kernel::Result<()> {
    match kernel::open_resolved(root, target, kernel::O_PATH, IN_ROOT | NO_LINKS) {
        Err(errno) if errno == Errno::NOENT => Ok(()),
        found => found.map(kernel::close),
    }
}

/// Reads all options, whatever becomes of them.
fn make_file_system(reader: &mut Reader, kind: CStr, from: CStr, set: u64) -> kernel::Result<Fd> {
    let opened = kernel::fsopen(kind);
    let mut outcome = opened.map(drop);
    let fs = opened.unwrap_or(-1);
    let count = reader.u32()?;
    for _ in 0..count {
        let key = reader.text()?;
        let configured = match reader.u32()? {
            0 => kernel::fsconfig_flag(fs, key),
            _ => kernel::fsconfig_string(fs, key, reader.text()?),
        };
        outcome = outcome.and(configured);
    }
    if outcome.is_ok() && !from.is_empty() {
        // What is shown as the device; not every kind takes one.
        let _ = kernel::fsconfig_string(fs, c!("source"), from);
    }
    let mount = outcome.and_then(|()| kernel::fsmount(fs, set));
    kernel::close(fs);
    mount
}

fn attach(setup: &Setup, mount: Fd, target: CStr, folder: bool) -> kernel::Result<()> {
    let root = setup.root.ok_or(Errno::INVAL)?;
    let place = find_or_make(root, target, folder, if folder { 0o755 } else { 0o644 })?;
    let outcome = kernel::move_mount(mount, place);
    kernel::close(place);
    outcome
}

/// A mount over a file inside.
pub(super) fn attach_file(root: Fd, mount: Fd, target: CStr) -> kernel::Result<()> {
    let place = find_or_make(root, target, false, 0o620)?;
    let outcome = kernel::move_mount(mount, place);
    kernel::close(place);
    outcome
}

/// Something of the host's.
pub(super) fn bind(reader: &mut Reader, setup: &mut Setup, item: u32) -> Result<(), Failure> {
    let at = *reader;
    let recursive = {
        let mut ahead = at;
        skip_source(&mut ahead).during(Step::Decode, 14)?;
        ahead.u32().during(Step::Decode, 14)? != 0
    };
    let mount = source(reader, setup, recursive, item)?;
    let mut number = || reader.u32().during(Step::Decode, 14);
    number()?;
    let mut word = || reader.u64().during(Step::Decode, 14);
    let [set, clear, set_below, clear_below, propagation] =
        [word()?, word()?, word()?, word()?, word()?];
    let target = reader.text().during(Step::Decode, 14)?;
    let folder = reader.u32().during(Step::Decode, 14)? != 0;
    // Below first: what is asked of the mount itself is the last word about it.
    if set_below | clear_below != 0 {
        let wanted = attributes(set_below, clear_below, 0);
        kernel::set_mount_attributes(mount, kernel::AT_RECURSIVE, &wanted)
            .during(Step::Bind, item)?;
    }
    let flags = if recursive { kernel::AT_RECURSIVE } else { 0 };
    kernel::set_mount_attributes(mount, flags, &attributes(0, 0, propagation))
        .during(Step::Bind, item)?;
    if set | clear != 0 {
        kernel::set_mount_attributes(mount, 0, &attributes(set, clear, 0))
            .during(Step::Bind, item)?;
    }
    attach(setup, mount, target, folder).during(Step::Bind, item)
}

fn skip_source(reader: &mut Reader) -> kernel::Result<()> {
    if reader.u32()? == container::BY_PATH {
        reader.text()?;
        reader.u64()?;
        reader.u64()?;
    }
    Ok(())
}

pub(super) fn make_device(reader: &mut Reader, setup: &Setup, item: u32) -> Result<(), Failure> {
    let path = reader.text().during(Step::Decode, 15)?;
    let mut number = || reader.u32().during(Step::Decode, 15);
    let [mode, major, minor, uid, gid] = [number()?, number()?, number()?, number()?, number()?];
    let make = || {
        let (parent, name) = parent_of(root_of_plain(setup)?, path)?;
        match kernel::make_node(parent, name, mode, (major, minor)) {
            Ok(()) => kernel::set_owner(parent, name, uid, gid)?,
            // The image may have it already. Whatever else lies there is not removed: it may be the host's.
            Err(errno) if errno == Errno::EXIST => {
                let found = kernel::statx_at(parent, name)?;
                let is_it = u32::from(found.mode & S_IFMT) == mode & u32::from(S_IFMT)
                    && (found.number_major, found.number_minor) == (major, minor);
                if !is_it {
                    return Err(errno);
                }
            }
            Err(errno) => return Err(errno),
        }
        kernel::close(parent);
        Ok(())
    };
    make().during(Step::Device, item)
}

fn root_of_plain(setup: &Setup) -> kernel::Result<Fd> {
    setup.root.ok_or(Errno::INVAL)
}

/// The folder that a path inside lies in, made if it is not there, and the path's last name. No link leads there: an image's
/// `/dev` may be one into a folder of the host's that is mounted.
fn parent_of(root: Fd, path: CStr<'static>) -> kernel::Result<(Fd, CStr<'static>)> {
    let bytes = path.with_nul();
    let slash = bytes.iter().rposition(|byte| *byte == b'/');
    let slash = slash.ok_or(Errno::INVAL)?;
    let name = CStr::new(&bytes[slash + 1..]).ok_or(Errno::INVAL)?;
    let mut text = [0u8; PATH_BYTES];
    let place = text.get_mut(..=slash + 1).ok_or(Errno::INVAL)?;
    place[..=slash].copy_from_slice(&bytes[..=slash]);
    let folder = CStr::new(place).ok_or(Errno::INVAL)?;
    kernel::close(find_or_make(root, folder, true, 0o755)?);
    let plain = IN_ROOT | kernel::RESOLVE_NO_SYMLINKS;
    let found = kernel::open_resolved(root, folder, kernel::O_PATH, plain)?;
    Ok((found, name))
}

pub(super) fn link(reader: &mut Reader, setup: &Setup, item: u32) -> Result<(), Failure> {
    let target = reader.text().during(Step::Decode, 16)?;
    let path = reader.text().during(Step::Decode, 16)?;
    let make = || {
        let (parent, name) = parent_of(root_of_plain(setup)?, path)?;
        let made = kernel::symlink(target, parent, name);
        kernel::close(parent);
        match made {
            Err(errno) if errno == Errno::EXIST => Ok(()),
            made => made,
        }
    };
    make().during(Step::Link, item)
}

pub(super) fn folder(reader: &mut Reader, setup: &Setup, item: u32) -> Result<(), Failure> {
    let path = reader.text().during(Step::Decode, 17)?;
    let mode = reader.u32().during(Step::Decode, 17)?;
    let made = find_or_make(root_of(setup)?, path, true, mode).during(Step::Folder, item)?;
    kernel::close(made);
    Ok(())
}

/// What is not there need not be restricted.
pub(super) fn restrict(reader: &mut Reader, setup: &Setup, item: u32) -> Result<(), Failure> {
    let path = reader.text().during(Step::Decode, 18)?;
    let set = reader.u64().during(Step::Decode, 18)?;
    let recursive = reader.u32().during(Step::Decode, 18)? != 0;
    let flags = if recursive { kernel::AT_RECURSIVE } else { 0 };
    let restrict = || {
        let place = match find(root_of_plain(setup)?, path) {
            Err(errno) if errno == Errno::NOENT || errno == Errno::NOTDIR => return Ok(()),
            found => found?,
        };
        let wanted = attributes(set, 0, 0);
        // What is a mount already needs no other.
        if kernel::statx_fd(place)?.attributes & kernel::STATX_ATTR_MOUNT_ROOT != 0 {
            kernel::set_mount_attributes(place, flags, &wanted)?;
        } else {
            let mount = kernel::open_tree(place, flags)?;
            kernel::set_mount_attributes(mount, flags, &wanted)?;
            kernel::move_mount(mount, place)?;
            kernel::close(mount);
        }
        kernel::close(place);
        Ok(())
    };
    restrict().during(Step::Restrict, item)
}

/// Nothing can be read there, nor written: a file is shown as an empty device, a folder as an empty one.
pub(super) fn mask(reader: &mut Reader, setup: &Setup, item: u32) -> Result<(), Failure> {
    let path = reader.text().during(Step::Decode, 19)?;
    let mask = || {
        let root = root_of_plain(setup)?;
        let place = match find(root, path) {
            Err(errno) if errno == Errno::NOENT || errno == Errno::NOTDIR => return Ok(()),
            found => found?,
        };
        let is_folder = kernel::statx_fd(place)?.mode & S_IFMT == S_IFDIR;
        let cover = match is_folder {
            true => empty_folder()?,
            // The host's, not the image's, which may be something else.
            false => nothing()?,
        };
        kernel::move_mount(cover, place)?;
        kernel::close(cover);
        kernel::close(place);
        Ok(())
    };
    mask().during(Step::Mask, item)
}

fn empty_folder() -> kernel::Result<Fd> {
    let fs = kernel::fsopen(c!("tmpfs"))?;
    let configured = kernel::fsconfig_string(fs, c!("nr_inodes"), c!("2"))
        .and_then(|()| kernel::fsconfig_string(fs, c!("size"), c!("4k")));
    let set = kernel::MOUNT_ATTR_RDONLY
        | kernel::MOUNT_ATTR_NOSUID
        | kernel::MOUNT_ATTR_NODEV
        | kernel::MOUNT_ATTR_NOEXEC;
    let mount = configured.and_then(|()| kernel::fsmount(fs, set));
    kernel::close(fs);
    mount
}

/// `/dev/null`, by the descriptor that was opened for the keeper, while the host's files are in reach.
fn nothing() -> kernel::Result<Fd> {
    let place = kernel::open(kernel::AT_FDCWD, c!("/dev/null"), kernel::O_PATH, 0)?;
    let mount = kernel::open_tree(place, 0);
    kernel::close(place);
    mount
}

pub(super) fn set_attributes(reader: &mut Reader, setup: &Setup) -> Result<(), Failure> {
    let set = reader.u64().during(Step::Decode, 20)?;
    let propagation = reader.u64().during(Step::Decode, 20)?;
    let wanted = attributes(set, 0, propagation);
    kernel::set_mount_attributes(root_of(setup)?, 0, &wanted).during(Step::Seal, 0)
}

/// Lets the host's files go.
pub(super) fn enter(reader: &mut Reader, setup: &mut Setup) -> Result<(), Failure> {
    let without_pivot = reader.u32().during(Step::Decode, 21)? != 0;
    open_namespaces(setup).during(Step::EnterRoot, 5)?;
    kernel::change_directory_fd(root_of(setup)?).during(Step::EnterRoot, 0)?;
    if without_pivot {
        // All of the image's mounts lie on top of the host's root already; this makes them what `/` is.
        kernel::change_root(c!(".")).during(Step::EnterRoot, 4)?;
    } else {
        kernel::pivot_root_here().during(Step::EnterRoot, 1)?;
        kernel::detach_here().during(Step::EnterRoot, 2)?;
    }
    kernel::change_directory(c!("/")).during(Step::EnterRoot, 3)
}

/// For who enters the container later, and may not open them: this process's files in `/proc` will be root's. An older kernel
/// lacks some.
fn open_namespaces(setup: &mut Setup) -> kernel::Result<()> {
    let all = [
        (kernel::CLONE_NEWUSER, c!("/proc/self/ns/user")),
        (kernel::CLONE_NEWCGROUP, c!("/proc/self/ns/cgroup")),
        (kernel::CLONE_NEWIPC, c!("/proc/self/ns/ipc")),
        (kernel::CLONE_NEWUTS, c!("/proc/self/ns/uts")),
        (kernel::CLONE_NEWNET, c!("/proc/self/ns/net")),
        (kernel::CLONE_NEWPID, c!("/proc/self/ns/pid")),
        (kernel::CLONE_NEWTIME, c!("/proc/self/ns/time")),
        (kernel::CLONE_NEWNS, c!("/proc/self/ns/mnt")),
    ];
    for (kind, path) in all {
        match kernel::open(kernel::AT_FDCWD, path, 0, 0) {
            Err(errno) if errno == Errno::NOENT => {}
            namespace => setup.namespaces.push((kind, namespace?))?,
        }
    }
    Ok(())
}
