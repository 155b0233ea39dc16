//! Paths: `PATH[:GUEST]`, the working directory.
//!
//! Paths are joined and cleaned (`.`, `//`, a trailing `/`) by their text alone. `..` cannot be
//! resolved that way, for the name before it may be a symlink; it is taken only where there is no
//! such name, at the start of a relative path, and refused elsewhere.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Component, Path, PathBuf},
};

use super::{Reason, ValueError, ValueKind};

impl ValueKind {
    /// The guest's working directory.
    pub(crate) const CWD: &'static Self = &Self::of_form(
        "working directory",
        "a folder as the guest sees it",
        "/work",
    );

    /// A path on the host.
    pub(crate) const PATH: &'static Self = &Self::of_form(
        "path",
        "a path, absolute or from the file's own folder",
        "./site",
    );
}

fn refuse(kind: &'static ValueKind, text: &OsStr, reason: Reason) -> ValueError {
    ValueError::new(kind, &text.to_string_lossy(), reason)
}

/// Parses `PATH[:GUEST]` into a host path and the guest's where it is another.
pub(crate) fn parse_mapping(
    text: &OsStr,
    base: &Path,
) -> Result<(PathBuf, Option<PathBuf>), Reason> {
    let (host, guest) = match split_colons(text).as_slice() {
        [host] => (absolute(host, base)?, None),
        [host, guest] if host.is_empty() || guest.is_empty() => return Err(Reason::EmptyPart),
        [host, guest] => (absolute(host, base)?, Some(parse_guest(guest)?)),
        _ => return Err(Reason::TooManyColons),
    };
    let guest = guest.filter(|guest| *guest != host);
    Ok((host, guest))
}

fn parse_guest(guest: &OsStr) -> Result<PathBuf, Reason> {
    let shown = || guest.to_string_lossy().into_owned();
    if Path::new(guest).is_relative() {
        return Err(Reason::RelativeGuest(shown()));
    }
    absolute(guest, Path::new("/")).map_err(|reason| match reason {
        Reason::ParentInside => Reason::ParentInGuest(shown()),
        other => other,
    })
}

/// Splits at colons that have no backslash before them, and takes the escapes out.
pub(crate) fn split_colons(text: &OsStr) -> Vec<OsString> {
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    let mut bytes = text.as_bytes().iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let escaped = (byte == b'\\').then(|| bytes.next_if(|next| matches!(next, b':' | b'\\')));
        match byte {
            b':' => parts.push(std::mem::take(&mut part)),
            _ => part.push(escaped.flatten().unwrap_or(byte)),
        }
    }
    parts.push(part);
    parts.into_iter().map(OsString::from_vec).collect()
}

/// Joins `written` to `base` by text alone and cleans it.
pub(crate) fn absolute(written: &OsStr, base: &Path) -> Result<PathBuf, Reason> {
    match written.as_bytes() {
        b"" => return Err(Reason::Empty),
        bytes if bytes.contains(&0) => return Err(Reason::Nul),
        b"~" | [b'~', b'/', ..] => return Err(Reason::Tilde),
        _ => {}
    }
    let written = Path::new(written);
    let mut named = written.is_absolute();
    let mut joined: PathBuf = if named {
        "/".into()
    } else {
        base.components().collect()
    };
    for part in written.components() {
        match part {
            Component::ParentDir if named => return Err(Reason::ParentInside),
            Component::ParentDir => {
                joined.pop();
            }
            Component::Normal(name) => {
                named = true;
                joined.push(name);
            }
            _ => {}
        }
    }
    Ok(joined)
}

/// Parses the guest's working directory. A relative one is joined to `base`.
///
/// # Errors
/// As for the PATH of [`FileGrant::parse`](crate::FileGrant::parse); a colon has no meaning here.
pub fn parse_cwd(text: impl AsRef<OsStr>, base: &Path) -> Result<PathBuf, ValueError> {
    let text = text.as_ref();
    absolute(text, base).map_err(|reason| refuse(ValueKind::CWD, text, reason))
}

/// Parses a path on the host. A relative one is joined to `base`.
///
/// # Errors
/// As for the PATH of [`FileGrant::parse`](crate::FileGrant::parse); a colon has no meaning here.
pub fn parse_path(text: impl AsRef<OsStr>, base: &Path) -> Result<PathBuf, ValueError> {
    let text = text.as_ref();
    absolute(text, base).map_err(|reason| refuse(ValueKind::PATH, text, reason))
}

/// Writes `PATH[:GUEST]`.
pub(crate) fn write_mapping(
    f: &mut fmt::Formatter<'_>,
    host: &Path,
    guest: Option<&Path>,
) -> fmt::Result {
    f.write_str(&escape_colons(&host.to_string_lossy()))?;
    match guest {
        Some(guest) => write!(f, ":{}", escape_colons(&guest.to_string_lossy())),
        None => Ok(()),
    }
}

fn escape_colons(path: &str) -> String {
    path.replace('\\', r"\\").replace(':', r"\:")
}
