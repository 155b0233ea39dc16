//! The system view: what a program needs to start, read-only, and nothing personal.

use crate::host::{Found, Host, Kind};
use std::path::{Path, PathBuf};

/// Folders that hold programs and libraries. A symlink among them stays a symlink (merged `/usr`).
const PROGRAM_FOLDERS: [&str; 8] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
];

/// What of `/etc` programs read when they start: the dynamic linker, time zones, TLS roots, names of
/// protocols, alternatives, fonts, settings of language runtimes. No accounts, hosts or keys: those
/// files are made for the domain.
const SETTINGS: [&str; 26] = [
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "magic",
    "mime.types",
    "npmrc",
    "os-release",
    "perl",
    "pki",
    "profile",
    "protocols",
    "services",
    "ssl",
    "terminfo",
    "timezone",
];

/// Runtimes whose folder in `/etc` carries a version in its name.
const VERSIONED_SETTINGS: [&str; 3] = ["java", "python", "php"];

/// The device nodes that give nothing away and take nothing.
pub(crate) const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Settings up to this size are copied: cheaper than a mount, and a mount costs at the end too.
const COPIED_BYTES: u64 = 8 * 1024;

/// One piece of the system view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A symlink as on the host.
    Symlink { path: PathBuf, target: PathBuf },
    /// A small file, copied.
    Copy { path: PathBuf, content: Vec<u8> },
    /// A file or folder, mounted read-only.
    Mount { path: PathBuf, found: Found },
}

/// The pieces of the system view that this host has.
pub(crate) fn system_view(host: &dyn Host) -> Vec<Piece> {
    let programs = PROGRAM_FOLDERS
        .iter()
        .filter_map(|path| program_folder(host, Path::new(path)));
    let settings = setting_names(host)
        .into_iter()
        .filter_map(|path| setting(host, &path));
    programs.chain(settings).collect()
}

fn program_folder(host: &dyn Host, path: &Path) -> Option<Piece> {
    if let Some(target) = host.link(path) {
        return Some(Piece::Symlink {
            path: path.into(),
            target,
        });
    }
    let found = host
        .find(path)
        .ok()
        .filter(|found| found.kind == Kind::Folder)?;
    Some(Piece::Mount {
        path: path.into(),
        found,
    })
}

fn setting_names(host: &dyn Host) -> Vec<PathBuf> {
    let etc = Path::new("/etc");
    let versioned = host.names(etc).into_iter().filter(|name| {
        VERSIONED_SETTINGS
            .iter()
            .any(|runtime| is_version_of(&name.to_string_lossy(), runtime))
    });
    SETTINGS
        .iter()
        .map(|name| etc.join(name))
        .chain(versioned.map(|name| etc.join(name)))
        .collect()
}

/// `java-17-openjdk`, `python3`, `python3.11`; not `javascript-common`.
fn is_version_of(name: &str, runtime: &str) -> bool {
    name.strip_prefix(runtime)
        .is_some_and(|rest| rest.starts_with(['-', '.']) || rest.starts_with(char::is_numeric))
}

fn setting(host: &dyn Host, path: &Path) -> Option<Piece> {
    if let Some(target) = host.link(path) {
        let absolute = path.parent().unwrap_or(Path::new("/")).join(&target);
        if normalized(&absolute).starts_with("/usr") {
            return Some(Piece::Symlink {
                path: path.into(),
                target,
            });
        }
    }
    if let Some(content) = host.content(path, COPIED_BYTES) {
        return Some(Piece::Copy {
            path: path.into(),
            content,
        });
    }
    let found = host
        .find(path)
        .ok()
        .filter(|found| matches!(found.kind, Kind::File | Kind::Folder))?;
    Some(Piece::Mount {
        path: path.into(),
        found,
    })
}

/// The path with `.` and `..` taken out by the letter.
pub(crate) fn normalized(path: &Path) -> PathBuf {
    use std::path::Component;
    path.components()
        .fold(PathBuf::new(), |mut clean, component| {
            match component {
                Component::ParentDir => drop(clean.pop()),
                Component::CurDir => {}
                other => clean.push(other),
            }
            clean
        })
}
