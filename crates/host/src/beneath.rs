//! Files that must lie below a folder, whatever names and links say.
//!
//! A tenant's file names paths, and its guests may write in its folder: what is named is opened below that folder by
//! openat2(2), and a link that leads out of it leads nowhere. Links that stay inside are followed.

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    os::fd::OwnedFd,
    path::{Component, Path},
};

/// How often something may be renamed while a link with `..` is followed.
const TRIES: usize = 8;

/// Whether `path` lies below `folder` by its letters, or is that folder.
pub(crate) fn is_beneath(folder: &Path, path: &Path) -> bool {
    let is_plain = |path: &Path| !path.components().any(|part| part == Component::ParentDir);
    path.starts_with(folder) && is_plain(path)
}

/// Opens `path`: as it is, or only if it lies below a folder that it must be `within`.
///
/// # Errors
/// [`Errno::XDEV`]: it lies elsewhere.
pub(crate) fn open(
    within: Option<&Path>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let Some(folder) = within else {
        return rustix::fs::openat(CWD, path, flags, mode);
    };
    if !is_beneath(folder, path) {
        return Err(Errno::XDEV);
    }
    let rest = path.strip_prefix(folder).map_err(|_| Errno::XDEV)?;
    let rest = match rest.as_os_str().is_empty() {
        true => Path::new("."),
        false => rest,
    };
    let above = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, folder, above, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES {
        match rustix::fs::openat2(&folder, rest, flags, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens an absolute path of which no part is a link: it lies where its letters say.
///
/// # Errors
/// [`Errno::LOOP`]: there is a link.
pub(crate) fn open_without_links(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn what_lies_elsewhere_is_not_opened_whatever_it_is_called() {
        let above = tempfile::tempdir().unwrap();
        let above = above.path().canonicalize().unwrap();
        let folder = above.join("acme");
        fs::create_dir_all(folder.join("site")).unwrap();
        fs::write(above.join("secret"), "x").unwrap();
        fs::write(folder.join("site/page"), "x").unwrap();
        symlink("../../secret", folder.join("site/out")).unwrap();
        symlink(above.join("secret"), folder.join("absolute")).unwrap();
        symlink("..", folder.join("up")).unwrap();
        symlink("site", folder.join("current")).unwrap();
        symlink("/proc/self/root", folder.join("magic")).unwrap();
        let open = |name: &str| {
            let path = match name.is_empty() {
                true => folder.clone(),
                false => folder.join(name),
            };
            open(Some(&folder), &path, OFlags::RDONLY, Mode::empty()).map(drop)
        };
        for name in ["", "site/page", "current/page"] {
            assert_eq!(open(name), Ok(()), "{name}");
        }
        for name in [
            "site/out",
            "absolute",
            "up/secret",
            "../secret",
            "magic/etc",
            "../acme/../secret",
        ] {
            assert!(open(name).is_err(), "{name}");
        }
        let other = super::open(
            Some(&folder),
            &above.join("secret"),
            OFlags::RDONLY,
            Mode::empty(),
        );
        assert_eq!(other.map(drop), Err(Errno::XDEV));
    }
}
