//! The domain's root file system: a `tmpfs` with the granted parts of the host mounted into it.
//!
//! Everything is reached by descriptor. A source on the host is opened without following any link
//! and compared with the file that the policy was resolved to, so that exchanging a path while a
//! domain starts (CVE-2021-30465) fails instead of mounting something else. A target is resolved
//! inside the new root, also without links.

use super::launch::Setup;
use crate::{During, Failure, kernel, message::Reader, text::Text, wire::Step};
use kernel::{CStr, Errno, Fd, MountAttr, c};

pub(crate) const RESOLVE_HOST: u64 = kernel::RESOLVE_NO_SYMLINKS | kernel::RESOLVE_NO_MAGICLINKS;
const RESOLVE_ROOT: u64 = RESOLVE_HOST | kernel::RESOLVE_IN_ROOT;

pub(crate) fn root_of(setup: &Setup, item: u32) -> Result<Fd, Failure> {
    setup
        .root
        .ok_or(Errno::INVAL)
        .during(Step::DecodeLaunch, item)
}

/// Creates the `tmpfs` and puts it on top of the current root, where submounts can be attached:
/// before Linux 6.15 nothing can be attached to a mount that is not in a namespace.
pub(crate) fn make(reader: &mut Reader, setup: &mut Setup, item: u32) -> Result<(), Failure> {
    let size_kib = reader.u64().during(Step::DecodeLaunch, item)?;
    let inodes = reader.u64().during(Step::DecodeLaunch, item)?;
    forget_host_propagation().during(Step::SetPropagation, item)?;
    let root = make_tmpfs(size_kib, inodes).during(Step::MakeRoot, item)?;
    let place = kernel::open(
        kernel::AT_FDCWD,
        c!("/"),
        kernel::O_PATH | kernel::O_DIRECTORY,
        0,
    )
    .during(Step::OpenTarget, item)?;
    kernel::move_mount(root, place).during(Step::AttachMount, item)?;
    kernel::close(place);
    let about = kernel::statx_fd(root).during(Step::MakeRoot, item)?;
    setup.own_device = Some((about.device_major, about.device_minor));
    setup.root = Some(root);
    Ok(())
}

/// Mounts made on the host later must not appear inside.
fn forget_host_propagation() -> kernel::Result<()> {
    let host = kernel::open(
        kernel::AT_FDCWD,
        c!("/"),
        kernel::O_PATH | kernel::O_DIRECTORY,
        0,
    )?;
    let private = MountAttr {
        attr_set: 0,
        attr_clr: 0,
        propagation: kernel::MS_PRIVATE,
        userns_fd: 0,
    };
    let outcome = kernel::set_mount_attributes(host, kernel::AT_RECURSIVE, &private);
    kernel::close(host);
    outcome
}

fn make_tmpfs(size_kib: u64, inodes: u64) -> kernel::Result<Fd> {
    let fs = kernel::fsopen(c!("tmpfs"))?;
    let mut size = Text::default();
    size.number(size_kib).text(b"k\0");
    let mut count = Text::default();
    count.number(inodes).text(b"\0");
    kernel::fsconfig_string(fs, c!("size"), CStr::new(size.bytes()).ok_or(Errno::INVAL)?)?;
    kernel::fsconfig_string(
        fs,
        c!("nr_inodes"),
        CStr::new(count.bytes()).ok_or(Errno::INVAL)?,
    )?;
    kernel::fsconfig_string(fs, c!("mode"), c!("755"))?;
    let mount = kernel::fsmount(fs, kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NODEV);
    kernel::close(fs);
    mount
}

/// A name in an open folder.
pub(crate) type Place = (Fd, CStr<'static>);

/// Where something is made or mounted, by its path.
pub(crate) trait Places {
    /// Where there is nothing yet, or what lies there is no link.
    fn find(&mut self, path: CStr<'static>) -> kernel::Result<Place>;
    /// What lies there.
    fn open(&mut self, path: CStr<'static>) -> kernel::Result<Fd>;
}

/// The root, in which init makes what it makes by its path.
pub(crate) struct InRoot(Fd);

impl InRoot {
    pub(crate) fn of(setup: &Setup, item: u32) -> Result<Self, Failure> {
        root_of(setup, item).map(Self)
    }
}

impl Places for InRoot {
    fn find(&mut self, path: CStr<'static>) -> kernel::Result<Place> {
        Ok((self.0, relative(path)))
    }

    fn open(&mut self, path: CStr<'static>) -> kernel::Result<Fd> {
        open_in(self.0, path)
    }
}

pub(crate) fn make_dir(
    reader: &mut Reader,
    places: &mut impl Places,
    item: u32,
) -> Result<(), Failure> {
    let path = reader.text().during(Step::DecodeLaunch, item)?;
    let mode = reader.u32().during(Step::DecodeLaunch, item)?;
    let (folder, name) = places.find(path).during(Step::OpenTarget, item)?;
    kernel::make_dir(folder, name, mode).during(Step::MakeDir, item)
}

pub(crate) fn symlink(
    reader: &mut Reader,
    places: &mut impl Places,
    item: u32,
) -> Result<(), Failure> {
    let path = reader.text().during(Step::DecodeLaunch, item)?;
    let target = reader.text().during(Step::DecodeLaunch, item)?;
    let (folder, name) = places.find(path).during(Step::OpenTarget, item)?;
    kernel::symlink(target, folder, name).during(Step::Symlink, item)
}

/// Makes a file; gives its path.
pub(crate) fn write_file(
    reader: &mut Reader,
    places: &mut impl Places,
    item: u32,
) -> Result<CStr<'static>, Failure> {
    let path = reader.text().during(Step::DecodeLaunch, item)?;
    let mode = reader.u32().during(Step::DecodeLaunch, item)?;
    let mut content = reader.bytes().during(Step::DecodeLaunch, item)?;
    let flags = kernel::O_WRONLY | kernel::O_CREAT | kernel::O_EXCL | kernel::O_NOFOLLOW;
    let (folder, name) = places.find(path).during(Step::OpenTarget, item)?;
    let fd = kernel::open(folder, name, flags, mode).during(Step::WriteFile, item)?;
    while !content.is_empty() {
        let written = kernel::write(fd, content).during(Step::WriteFile, item)?;
        content = &content[written..];
    }
    kernel::close(fd);
    Ok(path)
}

/// Makes a file and opens it again through a mount of its own: the root's mount becomes read-only,
/// which the kernel refuses while anything on that mount is open for writing.
pub(crate) fn keep_file(reader: &mut Reader, setup: &mut Setup, item: u32) -> Result<(), Failure> {
    let path = write_file(reader, &mut InRoot::of(setup, item)?, item)?;
    let root = kernel::open_tree(root_of(setup, item)?, 0).during(Step::CloneMount, item)?;
    let flags = kernel::O_WRONLY | kernel::O_NOFOLLOW;
    let opened = kernel::open(root, relative(path), flags, 0).during(Step::WriteFile, item);
    kernel::close(root);
    setup.kept_file = Some(opened?);
    Ok(())
}

/// Paths of the new root are absolute in messages; the `*at` calls want them relative to it.
fn relative(path: CStr) -> CStr {
    path.without_leading_slash()
}

pub(crate) fn bind(
    reader: &mut Reader,
    places: &mut impl Places,
    item: u32,
) -> Result<(), Failure> {
    let source = reader.text().during(Step::DecodeLaunch, item)?;
    let device = (
        reader.u32().during(Step::DecodeLaunch, item)?,
        reader.u32().during(Step::DecodeLaunch, item)?,
    );
    let inode = reader.u64().during(Step::DecodeLaunch, item)?;
    let attributes = u64::from(reader.u32().during(Step::DecodeLaunch, item)?);
    let is_own_place = reader.u32().during(Step::DecodeLaunch, item)? != 0;
    let target = reader.text().during(Step::DecodeLaunch, item)?;
    let file = kernel::open_resolved(kernel::AT_FDCWD, source, kernel::O_PATH, RESOLVE_HOST)
        .during(Step::OpenSource, item)?;
    if !is_file(file, device, inode).during(Step::OpenSource, item)? {
        return Err(Errno::ACCESS).during(Step::SourceChanged, item);
    }
    let mount = clone_mount(file, (attributes, 0), item)?;
    kernel::close(file);
    if is_own_place {
        let (folder, name) = places.find(target).during(Step::OpenTarget, item)?;
        kernel::move_mount_below(mount, folder, name).during(Step::AttachMount, item)?;
    } else {
        let place = places.open(target).during(Step::OpenTarget, item)?;
        kernel::move_mount(mount, place).during(Step::AttachMount, item)?;
        kernel::close(place);
    }
    kernel::close(mount);
    Ok(())
}

/// A mount of its own of an open file or folder, with these attributes set and those cleared.
fn clone_mount(file: Fd, (set, clear): (u64, u64), item: u32) -> Result<Fd, Failure> {
    let wanted = MountAttr {
        attr_set: set,
        attr_clr: clear,
        propagation: kernel::MS_PRIVATE,
        userns_fd: 0,
    };
    let flags = kernel::AT_RECURSIVE;
    if let Ok(mount) = kernel::open_tree_with(file, flags, &wanted) {
        return Ok(mount);
    }
    let mount = kernel::open_tree(file, flags).during(Step::CloneMount, item)?;
    kernel::set_mount_attributes(mount, flags, &wanted).during(Step::SetMountAttributes, item)?;
    Ok(mount)
}

/// Whether this is the file that the message means.
pub(crate) fn is_file(fd: Fd, device: (u32, u32), inode: u64) -> kernel::Result<bool> {
    let found = kernel::statx_fd(fd)?;
    Ok((found.device_major, found.device_minor) == device && found.inode == inode)
}

/// Attaches a mount that the supervisor cloned and mapped while it had the privilege to.
pub(crate) fn attach(reader: &mut Reader, setup: &Setup, item: u32) -> Result<(), Failure> {
    let index = reader.u32().during(Step::DecodeLaunch, item)?;
    let target = reader.text().during(Step::DecodeLaunch, item)?;
    let mount = *setup
        .fds()
        .get(index as usize)
        .ok_or(Errno::INVAL)
        .during(Step::DecodeLaunch, item)?;
    put(setup, mount, target, item)
}

pub(crate) fn put(setup: &Setup, mount: Fd, target: CStr, item: u32) -> Result<(), Failure> {
    let place = open_target(setup, target, item)?;
    kernel::move_mount(mount, place).during(Step::AttachMount, item)?;
    kernel::close(place);
    Ok(())
}

pub(crate) fn open_target(setup: &Setup, target: CStr, item: u32) -> Result<Fd, Failure> {
    open_in(root_of(setup, item)?, target).during(Step::OpenTarget, item)
}

/// What lies at a path in a root, by whatever way but links: those may be the guest's.
pub(crate) fn open_in(root: Fd, path: CStr) -> kernel::Result<Fd> {
    kernel::open_resolved(root, path, kernel::O_PATH, RESOLVE_ROOT)
}

/// Mounts a path of the new root on itself: it gets attributes of its own, and while it is a mount
/// point nobody in the domain can rename or remove it.
pub(crate) fn remount(
    reader: &mut Reader,
    places: &mut impl Places,
    item: u32,
) -> Result<(), Failure> {
    let set = u64::from(reader.u32().during(Step::DecodeLaunch, item)?);
    let clear = u64::from(reader.u32().during(Step::DecodeLaunch, item)?);
    let target = reader.text().during(Step::DecodeLaunch, item)?;
    let file = places.open(target).during(Step::OpenTarget, item)?;
    let mount = clone_mount(file, (set, clear), item)?;
    kernel::move_mount(mount, file).during(Step::AttachMount, item)?;
    kernel::close(mount);
    kernel::close(file);
    Ok(())
}

/// Mounts something of the new root a second time, into a folder that is mounted there and will be the root
/// instead.
pub(crate) fn show(reader: &mut Reader, setup: &Setup, item: u32) -> Result<(), Failure> {
    let source = reader.text().during(Step::DecodeLaunch, item)?;
    let set = u64::from(reader.u32().during(Step::DecodeLaunch, item)?);
    let target = reader.text().during(Step::DecodeLaunch, item)?;
    let file = open_target(setup, source, item)?;
    let mount = kernel::open_tree(file, kernel::AT_RECURSIVE).during(Step::CloneMount, item)?;
    kernel::close(file);
    let wanted = MountAttr {
        attr_set: set,
        attr_clr: 0,
        propagation: kernel::MS_PRIVATE,
        userns_fd: 0,
    };
    kernel::set_mount_attributes(mount, 0, &wanted).during(Step::SetMountAttributes, item)?;
    put(setup, mount, target, item)?;
    kernel::close(mount);
    Ok(())
}

/// The pid namespace's own `/proc`, read-only: a guest has no business writing there, and sysrq,
/// `core_pattern` and their kind are out of reach whoever it runs as.
pub(crate) fn mount_proc(reader: &mut Reader, setup: &Setup, item: u32) -> Result<(), Failure> {
    let target = reader.text().during(Step::DecodeLaunch, item)?;
    let mount = make_proc().during(Step::MountProc, item)?;
    put(setup, mount, target, item)?;
    kernel::close(mount);
    Ok(())
}

/// User and mounts, as long as the host's `/proc` is there.
pub(crate) fn open_namespaces(setup: &mut Setup, item: u32) -> Result<(), Failure> {
    let open = |path| kernel::open(kernel::AT_FDCWD, path, 0, 0);
    let user = open(c!("/proc/self/ns/user")).during(Step::Enter, item)?;
    let mounts = open(c!("/proc/self/ns/mnt")).during(Step::Enter, item)?;
    setup.namespaces = Some([user, mounts]);
    Ok(())
}

/// A `/proc` that no path leads to, for init alone.
pub(crate) fn open_proc(setup: &mut Setup, item: u32) -> Result<(), Failure> {
    setup.own_proc = Some(make_proc().during(Step::MountProc, item)?);
    Ok(())
}

fn make_proc() -> kernel::Result<Fd> {
    let fs = kernel::fsopen(c!("proc"))?;
    let attributes = kernel::MOUNT_ATTR_RDONLY
        | kernel::MOUNT_ATTR_NOSUID
        | kernel::MOUNT_ATTR_NODEV
        | kernel::MOUNT_ATTR_NOEXEC;
    let mount = kernel::fsmount(fs, attributes);
    kernel::close(fs);
    mount
}

/// A private set of terminals: no terminal of the host is visible.
pub(crate) fn mount_devpts(
    reader: &mut Reader,
    setup: &mut Setup,
    item: u32,
) -> Result<(), Failure> {
    let target = reader.text().during(Step::DecodeLaunch, item)?;
    let mount = make_devpts().during(Step::MountDevpts, item)?;
    put(setup, mount, target, item)?;
    setup.devpts = Some(mount);
    Ok(())
}

pub(crate) fn make_devpts() -> kernel::Result<Fd> {
    let fs = kernel::fsopen(c!("devpts"))?;
    // Before Linux 4.7 an instance was private only if asked; the flag is accepted ever since.
    kernel::fsconfig_flag(fs, c!("newinstance"))?;
    kernel::fsconfig_string(fs, c!("ptmxmode"), c!("0666"))?;
    kernel::fsconfig_string(fs, c!("mode"), c!("0620"))?;
    // All instances but the host's own share one bound (`devpts_new_index` in fs/devpts/inode.c).
    kernel::fsconfig_string(fs, c!("max"), c!("256"))?;
    let mount = kernel::fsmount(fs, kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NOEXEC);
    kernel::close(fs);
    mount
}

/// Moves into the new root and lets the host's file system go.
pub(crate) fn pivot(reader: &mut Reader, setup: &mut Setup, item: u32) -> Result<(), Failure> {
    let granted = reader.text().during(Step::DecodeLaunch, item)?;
    setup.root_ns = kernel::monotonic_ns();
    if granted.is_empty() {
        seal(root_of(setup, item)?, item)?;
    } else {
        enter(setup, granted, item)?;
    }
    let root = root_of(setup, item)?;
    kernel::change_directory_fd(root).during(Step::PivotRoot, item)?;
    kernel::pivot_root_here().during(Step::PivotRoot, item)?;
    kernel::detach_here().during(Step::DetachOldRoot, item)?;
    if !granted.is_empty() {
        // The `tmpfs` lay on top of the host's root, and was the first to go.
        kernel::detach_here().during(Step::DetachOldRoot, item)?;
        check_alone(root).during(Step::DetachOldRoot, item)?;
    }
    kernel::change_directory(c!("/")).during(Step::PivotRoot, item)?;
    setup.pivot_ns = kernel::monotonic_ns();
    Ok(())
}

/// Nothing may be mounted on top of the root: paths begin below that, but `/..` leads onto it.
fn check_alone(root: Fd) -> kernel::Result<()> {
    let above = kernel::open(kernel::AT_FDCWD, c!("/.."), kernel::O_PATH, 0)?;
    let (found, wanted) = (kernel::statx_fd(above)?, kernel::statx_fd(root)?);
    kernel::close(above);
    let place = |file: &kernel::Statx| (file.device_major, file.device_minor, file.inode);
    match place(&found) == place(&wanted) {
        true => Ok(()),
        false => Err(Errno::BUSY),
    }
}

/// Nothing is written here any more, nor when somebody came through a link such as `/bin`: with a time of access that is due
/// the kernel would leave its fast walk (RCU) at each of them, to find that it may not write it, and looks that must not wait
/// (`RESOLVE_CACHED`) would never come through. What was mounted of the root before, for the guest to write to, keeps times as ever.
fn seal(root: Fd, item: u32) -> Result<(), Failure> {
    let sealed = MountAttr {
        attr_set: kernel::MOUNT_ATTR_RDONLY | kernel::MOUNT_ATTR_NOATIME,
        attr_clr: kernel::MOUNT_ATTR__ATIME,
        propagation: 0,
        userns_fd: 0,
    };
    kernel::set_mount_attributes(root, 0, &sealed).during(Step::SealRoot, item)
}

/// Takes a folder that is mounted in the `tmpfs` for the root. The `tmpfs` goes with the host's file system;
/// what of it was mounted into the folder stays.
fn enter(setup: &mut Setup, folder: CStr, item: u32) -> Result<(), Failure> {
    let own = root_of(setup, item)?;
    let root = open_target(setup, folder, item)?;
    kernel::close(own);
    setup.root = Some(root);
    Ok(())
}
