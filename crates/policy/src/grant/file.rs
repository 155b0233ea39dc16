//! Files and devices: `PATH[:GUEST]`, device nodes.

use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use super::Pattern;
use crate::value::{
    Reason, ValueError, ValueKind, absolute, parse_mapping, split_colons, words, write_mapping,
};

/// One path and what may be done with it.
///
/// `Read`, `ReadIfThere` and `Write` bring a host path into the domain. `Exec`, `Ipc`, `Protect` and `Hide` change what
/// may be done at a place that is already there: they name it as the *guest* sees it, in `host`,
/// and have no `guest`. [`FileGrant::guest_path`] is right for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileGrant {
    /// What may be done.
    pub access: Access,
    /// The path on the host (see above for the others), absolute, not yet resolved.
    pub host: PathBuf,
    /// The path inside the domain where it differs from `host`.
    pub guest: Option<PathBuf>,
}

impl FileGrant {
    /// Whether it makes a folder the guest's root.
    pub fn is_root(&self) -> bool {
        self.access.maps_host_path() && self.guest_path() == Path::new("/")
    }

    /// The path inside the domain.
    pub fn guest_path(&self) -> &Path {
        self.guest.as_deref().unwrap_or(&self.host)
    }
}

/// What a [`FileGrant`] allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// Read and execute.
    Read,
    /// The same, and nothing where the path does not exist on the host.
    ReadIfThere,
    /// Read and write, but not execute what was written.
    Write,
    /// Keep read-only inside a writable folder, also when it does not exist yet.
    Protect,
    /// Nothing is there for the guest, inside a granted folder. The path may be a [pattern](crate::Pattern).
    Hide,
    /// Files below this writable path may be executed too.
    Exec,
    /// Sockets and FIFOs may be created below this writable path.
    Ipc,
}

words!(Access, "access", {
    Read => "read",
    ReadIfThere => "read-if-there",
    Write => "write",
    Protect => "protect",
    Hide => "hide",
    Exec => "exec",
    Ipc => "ipc",
});

impl Access {
    /// Whether such a grant brings a host path into the domain, so that `PATH:GUEST` has a meaning.
    pub const fn maps_host_path(self) -> bool {
        matches!(self, Self::Read | Self::ReadIfThere | Self::Write)
    }

    /// What the path of such a grant accepts.
    pub(crate) const fn path_kind(self) -> &'static ValueKind {
        match self {
            Self::Read => const { &mapping("read grant") },
            Self::ReadIfThere => const { &mapping("read-if-there grant") },
            Self::Write => const { &mapping("write grant") },
            Self::Protect => const { &guest_path("protect path") },
            Self::Hide => const { &HIDDEN },
            Self::Exec => const { &guest_path("exec path") },
            Self::Ipc => const { &guest_path("ipc path") },
        }
    }
}

const fn mapping(noun: &'static str) -> ValueKind {
    let form = r"PATH or PATH:GUEST, where GUEST is absolute and `\:` is a colon within a name";
    ValueKind::of_form(noun, form, "./src:/work")
}

const fn guest_path(noun: &'static str) -> ValueKind {
    ValueKind::of_form(noun, "one path as the guest sees it", ".git/hooks")
}

const HIDDEN: ValueKind = ValueKind::of_form(
    "hide path",
    "one path as the guest sees it, in which `*`, `?` and `**` stand for other names",
    "./**/*.pem",
);

/// A device node, such as `/dev/fuse`, or the set named `pts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceGrant {
    /// The node's path on the host, or the word `pts`.
    pub path: PathBuf,
}

impl DeviceGrant {
    /// Whether this is the word `pts`: a private `/dev/pts` and `/dev/ptmx`.
    pub fn is_pts(&self) -> bool {
        self.path == Path::new("pts")
    }
}

impl ValueKind {
    /// A [`DeviceGrant`].
    pub(crate) const DEVICE: &'static Self = &Self::of_form(
        "device grant",
        "an absolute path or the word `pts`",
        "/dev/fuse",
    );
}

impl FileGrant {
    /// Parses `PATH[:GUEST]` (`PATH` alone for those that name it as the guest sees it). A relative PATH is joined
    /// to `base`, which should be absolute and free of symlinks. `\:` is a colon within a name and
    /// `\\` a backslash; before any other character a backslash is itself.
    ///
    /// # Errors
    /// An empty part, a NUL byte, `~`, `..` after a name, a GUEST that is relative or has `..`,
    /// or one where none is taken.
    pub fn parse(access: Access, text: impl AsRef<OsStr>, base: &Path) -> Result<Self, ValueError> {
        let text = text.as_ref();
        parse_file(access, text, base)
            .map_err(|reason| ValueError::new(access.path_kind(), &text.to_string_lossy(), reason))
    }
}

fn parse_file(access: Access, text: &OsStr, base: &Path) -> Result<FileGrant, Reason> {
    if !access.maps_host_path() && split_colons(text).len() == 2 {
        return Err(Reason::UnexpectedGuest);
    }
    let base = match access {
        Access::Hide => &Pattern::escape(base),
        _ => base,
    };
    let (host, guest) = parse_mapping(text, base)?;
    Ok(FileGrant {
        access,
        host,
        guest,
    })
}

/// Writes the grant as its flag takes it; bytes that are not UTF-8 become `�`.
impl fmt::Display for FileGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_mapping(f, &self.host, self.guest.as_deref())
    }
}

impl FromStr for DeviceGrant {
    type Err = ValueError;

    /// Parses an absolute path, or the word `pts`.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let path = match text {
            "pts" => Ok(PathBuf::from(text)),
            _ if text.is_empty() || text.starts_with('/') => {
                absolute(text.as_ref(), Path::new("/"))
            }
            _ => Err(Reason::NotAbsolute),
        };
        path.map(|path| Self { path })
            .map_err(|reason| ValueError::new(ValueKind::DEVICE, text, reason))
    }
}

/// Writes the grant as its flag takes it; bytes that are not UTF-8 become `�`.
impl fmt::Display for DeviceGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

#[cfg(test)]
mod tests;
