//! What the guest shall not find in a folder that it sees.
//!
//! In a folder that is read, names of nothing lie over it: an overlay of a `tmpfs` that holds whiteouts and the folders which lead
//! to them, and of the folder. Nobody can take a name out of that, whatever becomes of what lies below. Overlayfs is told its
//! layers by paths; both are mounted in a folder of init's alone, which is gone once the overlay has them.
//!
//! ```text
//!  layers ─┬─ names    a tmpfs: folders, whiteouts
//!          └─ below    the folder
//! ```

use super::{launch::Setup, root};
use crate::{During, Failure, kernel, message::Reader, wire::Step};
use kernel::{CStr, Fd, MountAttr, c};

/// Lays names of nothing over a folder that is mounted.
pub(crate) fn hide(reader: &mut Reader, setup: &Setup, item: u32) -> Result<(), Failure> {
    let target = reader.text().during(Step::DecodeLaunch, item)?;
    let attributes = u64::from(reader.u32().during(Step::DecodeLaunch, item)?);
    let names = make_names(reader, item)?;
    let root = root::root_of(setup, item)?;
    let folder = root::open_target(setup, target, item)?;
    let overlay = kernel::inherited_attributes(folder)
        .and_then(|inherited| lay_over(root, folder, names, attributes | inherited));
    kernel::close(names);
    let overlay = overlay.during(Step::Hide, item)?;
    root::put(setup, overlay, target, item)?;
    kernel::close(folder);
    kernel::close(overlay);
    Ok(())
}

/// A `tmpfs` with whiteouts, mounted nowhere.
fn make_names(reader: &mut Reader, item: u32) -> Result<Fd, Failure> {
    let fs = kernel::fsopen(c!("tmpfs")).during(Step::Hide, item)?;
    let attributes = kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NODEV;
    let names = kernel::fsmount(fs, attributes).during(Step::Hide, item);
    kernel::close(fs);
    let names = names?;
    let count = reader.u32().during(Step::DecodeLaunch, item)?;
    let mut folders = *reader;
    for _ in 0..count {
        let (path, _) = folder(reader, item)?;
        if !path.is_empty() {
            kernel::make_dir(names, path, 0o700).during(Step::Hide, item)?;
        }
    }
    for _ in 0..reader.u32().during(Step::DecodeLaunch, item)? {
        let path = reader.text().during(Step::DecodeLaunch, item)?;
        kernel::make_whiteout(names, path).during(Step::Hide, item)?;
    }
    // A mode may keep init itself out.
    for _ in 0..count {
        let (path, mode) = folder(&mut folders, item)?;
        let path = if path.is_empty() { c!(".") } else { path };
        kernel::set_mode(names, path, mode).during(Step::Hide, item)?;
    }
    Ok(names)
}

/// The first is the one that the names lie over itself, and has no path. Those that lead to others come before them; their
/// modes are set from the deepest up.
fn folder(reader: &mut Reader, item: u32) -> Result<(CStr<'static>, u32), Failure> {
    let path = reader.text().during(Step::DecodeLaunch, item)?;
    let mode = reader.u32().during(Step::DecodeLaunch, item)?;
    Ok((path, mode))
}

fn lay_over(root: Fd, folder: Fd, names: Fd, attributes: u64) -> kernel::Result<Fd> {
    kernel::make_dir(root, c!(".palisade-layers"), 0o700)?;
    let overlay = mount_layers(root, folder, names, attributes);
    kernel::unlink(root, c!(".palisade-layers"), kernel::AT_REMOVEDIR)?;
    overlay
}

fn mount_layers(root: Fd, folder: Fd, names: Fd, attributes: u64) -> kernel::Result<Fd> {
    let before = open_path(kernel::AT_FDCWD, c!("."))?;
    let place = open_path(root, c!(".palisade-layers"))?;
    let layers = make_empty_mount(place)?;
    kernel::make_dir(layers, c!("names"), 0o700)?;
    kernel::make_dir(layers, c!("below"), 0o700)?;
    kernel::move_mount_below(names, layers, c!("names"))?;
    let below = kernel::open_tree(folder, 0)?;
    kernel::move_mount_below(below, layers, c!("below"))?;
    kernel::close(below);
    kernel::change_directory_fd(layers)?;
    let overlay = mount_overlay(attributes);
    kernel::detach_here()?;
    kernel::change_directory_fd(before)?;
    for fd in [before, place, layers] {
        kernel::close(fd);
    }
    overlay
}

/// A `tmpfs` mounted at a place.
fn make_empty_mount(place: Fd) -> kernel::Result<Fd> {
    let fs = kernel::fsopen(c!("tmpfs"))?;
    let mount = kernel::fsmount(fs, kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NODEV);
    kernel::close(fs);
    let mount = mount?;
    kernel::move_mount(mount, place)?;
    Ok(mount)
}

/// Of the layers in the working directory. Without one to write to it is read-only. Files are opened with the rights that init
/// has here: no more than the guest's, or the guest could open what has been closed to it since.
fn mount_overlay(attributes: u64) -> kernel::Result<Fd> {
    let fs = kernel::fsopen(c!("overlay"))?;
    let overlay = kernel::fsconfig_string(fs, c!("lowerdir"), c!("names:below"))
        .and_then(|()| kernel::with_admin_alone(|| kernel::fsmount(fs, attributes)));
    kernel::close(fs);
    overlay
}

/// Lays something empty over what is there. What that is itself is removed at once: no path leads to it, and nothing can be
/// made in such a folder.
pub(crate) fn cover(reader: &mut Reader, setup: &Setup, item: u32) -> Result<(), Failure> {
    let target = reader.text().during(Step::DecodeLaunch, item)?;
    let is_folder = reader.u32().during(Step::DecodeLaunch, item)? != 0;
    let root = root::root_of(setup, item)?;
    let removes = match is_folder {
        true => kernel::make_dir(root, c!(".palisade-empty"), 0o555).map(|()| kernel::AT_REMOVEDIR),
        false => {
            let flags = kernel::O_WRONLY | kernel::O_CREAT | kernel::O_EXCL | kernel::O_NOFOLLOW;
            kernel::open(root, c!(".palisade-empty"), flags, 0o444).map(|file| {
                kernel::close(file);
                0
            })
        }
    };
    let removes = removes.during(Step::Hide, item)?;
    let empty = clone_empty(root).during(Step::Hide, item)?;
    root::put(setup, empty, target, item)?;
    kernel::close(empty);
    kernel::unlink(root, c!(".palisade-empty"), removes).during(Step::Hide, item)
}

fn clone_empty(root: Fd) -> kernel::Result<Fd> {
    let wanted = MountAttr {
        attr_set: kernel::MOUNT_ATTR_RDONLY
            | kernel::MOUNT_ATTR_NOSUID
            | kernel::MOUNT_ATTR_NODEV
            | kernel::MOUNT_ATTR_NOEXEC,
        attr_clr: 0,
        propagation: kernel::MS_PRIVATE,
        userns_fd: 0,
    };
    let file = open_path(root, c!(".palisade-empty"))?;
    let mount = kernel::open_tree(file, 0);
    kernel::close(file);
    let mount = mount?;
    kernel::set_mount_attributes(mount, 0, &wanted)?;
    Ok(mount)
}

fn open_path(at: Fd, path: CStr) -> kernel::Result<Fd> {
    kernel::open(at, path, kernel::O_PATH | kernel::O_NOFOLLOW, 0)
}
