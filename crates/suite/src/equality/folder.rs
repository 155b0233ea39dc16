//! What a case finds: the same files behind both walls.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// What only files hold that no policy grants.
pub(super) const HIDDEN_TEXT: &str = "hidden text";
/// What the others hold.
const TEXT: &str = "content of a file\n";
/// Folders with the same in each.
const FOLDERS: &[&str] = &[
    "readable",
    "readable/writable",
    "writable",
    "writable/readable",
    "writable/protected",
    "hidden",
    "single",
    "other",
    "there/readable",
    "there/writable",
];
/// Links in `links`, and where they lead.
const LINKS: &[(&str, &str)] = &[
    ("readable", "../readable"),
    ("writable", "../writable"),
    ("hidden", "../hidden"),
    ("absolute", "{base}/readable"),
    ("absolute-hidden", "{base}/hidden"),
];

pub(super) fn open(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Lays the same into every folder, but for the text of what is hidden.
pub(super) fn lay(base: &Path, fill: impl Fn(&str) -> String) -> io::Result<()> {
    open(base)?;
    for name in FOLDERS {
        let folder = base.join(name);
        fs::create_dir_all(folder.join("sub"))?;
        fs::create_dir_all(folder.join("empty"))?;
        let is_hidden = *name == "hidden";
        fs::write(
            folder.join("file"),
            if is_hidden { HIDDEN_TEXT } else { TEXT },
        )?;
        fs::write(
            folder.join("sub/inner"),
            if is_hidden { HIDDEN_TEXT } else { "inner\n" },
        )?;
        symlink("file", folder.join("link"))?;
        symlink("nowhere", folder.join("dangling"))?;
        symlink("..", folder.join("up"))?;
    }
    fs::create_dir(base.join("links"))?;
    for (name, target) in LINKS {
        symlink(fill(target), base.join("links").join(name))?;
    }
    Ok(())
}
