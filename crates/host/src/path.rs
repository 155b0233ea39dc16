//! Paths as every part of the server understands them.
//!
//! A request's path is brought into one form before anything looks at it, so that a filter that guards `/admin`,
//! the route that leads there, the log and the service that opens it all see the same characters. In a normal path
//!
//! - no segment is empty, `.` or `..`, also where it was written with escapes (`/a//./%2e%2E/b` is `/b`);
//! - what may stand in a path as it is
//!   ([`pchar` of RFC 3986, section 3.3](https://www.rfc-editor.org/rfc/rfc3986#section-3.3)) is not escaped,
//!   everything else is, with capital letters. A program decodes `%40` and `@` to the same;
//! - escaped slashes, backslashes and semicolons stay escaped, and are never the border of a segment.
//!
//! Refused is what two readers could take for two things: see [`BadPath`]. What some readers take otherwise, and
//! others have good use for, is told by [`Ambiguities`]: a route may take it. The query is kept as it is.

mod ambiguous;
mod escape;

pub use ambiguous::{Ambiguities, Ambiguity};

use bytes::Bytes;
use escape::{escape_alike, is_normal_escape, is_plain};
use http::{Uri, uri::PathAndQuery};

/// Why a path is refused: the client's fault, to be answered with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// A `%` without two hexadecimal digits.
    #[error("the client's path has a % that is no escape: write % as %25")]
    Escape,
    /// An escaped control character, NUL among them: some readers end there, or begin another line.
    #[error("the client's path has an escaped control character")]
    Control,
    /// A backslash: to some readers a slash.
    #[error("the client's path has a backslash: write it as %5C")]
    Backslash,
    /// `..` at the root.
    #[error("the client's path leads above the root")]
    AboveRoot,
    /// `.` or `..` next to `%2F`, `%5C` or `;`, which some readers take for the end of a segment.
    #[error("the client's path hides . or .. beside an escaped slash or a semicolon")]
    HiddenDots,
    /// UTF-8 that is longer than it may be: to readers that do not check, `%C0%AF` is a slash.
    #[error("the client's path has overlong UTF-8")]
    Overlong,
    /// It does not begin with a slash.
    #[error("the client's path does not begin with a slash")]
    NoSlash,
}

/// Brings the path of a request's target into its normal form: `None` if it has it already, which costs one look at
/// each byte and no allocation.
///
/// An absolute target (`http://host/path`) keeps its scheme and host. `*` and the target of CONNECT (`host:port`)
/// have no path, and so nothing to change.
///
/// # Errors
///
/// For a path that could be understood in two ways.
pub fn normalize(uri: &Uri) -> Result<Option<Uri>, BadPath> {
    let Some(target) = uri.path_and_query() else {
        return Ok(None);
    };
    let path = target.path();
    // `path()` says "/" also where nothing stands before the query.
    let is_written = !target.as_str().starts_with('?');
    if path == "*" || is_written && is_normal(path.as_bytes()) {
        return Ok(None);
    }
    let mut normal = resolve(path.as_bytes())?;
    if is_written && normal == path.as_bytes() {
        return Ok(None);
    }
    if let Some(query) = target.query() {
        normal.push(b'?');
        normal.extend_from_slice(query.as_bytes());
    }
    with_target(uri.clone(), Bytes::from(normal)).map(Some)
}

/// The same address without what a route has taken of its normal path, of which the last `rest_bytes` are left.
///
/// # Errors
///
/// None, for a path that is normal.
pub(crate) fn strip(uri: Uri, rest_bytes: usize) -> Result<Uri, BadPath> {
    let Some(target) = uri.path_and_query() else {
        return Ok(uri);
    };
    let taken_bytes = target.path().len().saturating_sub(rest_bytes);
    let left = target.as_str().get(taken_bytes..).unwrap_or_default();
    let target = match left.starts_with('/') {
        true => Bytes::copy_from_slice(left.as_bytes()),
        false => Bytes::from(format!("/{left}")),
    };
    with_target(uri, target)
}

/// The same address with another path and query.
fn with_target(uri: Uri, target: Bytes) -> Result<Uri, BadPath> {
    let mut parts = uri.into_parts();
    // Nothing is in it that was not in an address before, and it has not become longer by more than a slash.
    let target = PathAndQuery::from_maybe_shared(target);
    parts.path_and_query = Some(target.map_err(|_| BadPath::NoSlash)?);
    Uri::from_parts(parts).map_err(|_| BadPath::NoSlash)
}

/// Whether there is surely nothing to do. Says no where it would have to look closer.
fn is_normal(path: &[u8]) -> bool {
    let mut before = 0;
    let mut rest = path;
    if rest.first() != Some(&b'/') {
        return false;
    }
    while let [byte, after @ ..] = rest {
        match byte {
            b'/' if before == b'/' => return false,
            b'/' => {}
            b'.' if matches!(before, b'/' | b';') && may_be_dots(after) => return false,
            b'%' if !is_normal_escape(after) => return false,
            b'%' => {}
            byte if !is_plain(*byte) => return false,
            _ => {}
        }
        before = *byte;
        rest = after;
    }
    true
}

/// Whether what begins with a dot and goes on so could be `.` or `..`.
fn may_be_dots(after: &[u8]) -> bool {
    let after = after.strip_prefix(b".").unwrap_or(after);
    matches!(after.first(), None | Some(b'/' | b';' | b'%'))
}

/// The normal form.
fn resolve(path: &[u8]) -> Result<Vec<u8>, BadPath> {
    let path = escape_alike(path)?;
    let segments = path.strip_prefix(b"/").ok_or(BadPath::NoSlash)?;
    let mut normal = Vec::with_capacity(path.len());
    // Whether the last segment, if it is an empty one, says that a folder is meant.
    let mut ends_in_slash = true;
    for segment in segments.split(|byte| *byte == b'/') {
        ends_in_slash = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => {
                let parent = normal.iter().rposition(|byte| *byte == b'/');
                normal.truncate(parent.ok_or(BadPath::AboveRoot)?);
            }
            name => {
                check_hidden_dots(name)?;
                normal.push(b'/');
                normal.extend_from_slice(name);
            }
        }
    }
    if ends_in_slash {
        normal.push(b'/');
    }
    Ok(normal)
}

/// Refuses `..%2Fx`, `x%5C..`, `..;x`, `..%3Bx` and the like: a segment here, more than one to others.
fn check_hidden_dots(mut segment: &[u8]) -> Result<(), BadPath> {
    let end_of_part = |segment: &[u8]| {
        (0..segment.len()).find_map(|at| match &segment[at..] {
            [b';', ..] => Some((at, at + 1)),
            [b'%', b'2', b'F', ..] | [b'%', b'5', b'C', ..] | [b'%', b'3', b'B', ..] => {
                Some((at, at + 3))
            }
            _ => None,
        })
    };
    loop {
        let (end, next) = end_of_part(segment).unwrap_or((segment.len(), segment.len()));
        if matches!(&segment[..end], b"." | b"..") {
            return Err(BadPath::HiddenDots);
        }
        if end == segment.len() {
            return Ok(());
        }
        segment = &segment[next..];
    }
}

#[cfg(test)]
mod tests;
