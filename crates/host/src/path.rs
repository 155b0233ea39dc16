//! Paths as every part of the server understands them.
//!
//! A request's path is brought into one form before anything looks at it, so that a filter that guards `/admin`,
//! the route that leads there and the service that opens it all see the same characters. In a normal path
//!
//! - no segment is empty, `.` or `..`, also where it was written with escapes (`/a//./%2e%2E/b` is `/b`);
//! - letters, digits, `-`, `.`, `_` and `~` are not escaped, and the escapes of others have capital
//!   letters ([RFC 3986, section 6.2.2](https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2));
//! - escaped slashes and backslashes stay escaped, and are never the border of a segment.
//!
//! Refused is what two readers could take for two things: see [`BadPath`]. The query is kept as it is.

use bytes::Bytes;
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
            b'.' if matches!(before, b'/' | b';') && may_be_dots(after) => return false,
            b'%' if !is_normal_escape(after) => return false,
            b'\\' => return false,
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

/// Whether an escape stays as it is, and is neither a slash nor a backslash.
fn is_normal_escape(digits: &[u8]) -> bool {
    let capital = |digit: &u8| digit.is_ascii_digit() || (b'A'..=b'F').contains(digit);
    let Some(pair) = digits.get(..2).filter(|pair| pair.iter().all(capital)) else {
        return false;
    };
    match unescape(pair) {
        Some(byte) => !is_unreserved(byte) && !byte.is_ascii_control() && !is_border(byte),
        None => false,
    }
}

/// The byte that two hexadecimal digits stand for.
fn unescape(digits: &[u8]) -> Option<u8> {
    let [high, low] = digits else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// Whether RFC 3986 says that escaping it changes nothing.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn is_border(byte: u8) -> bool {
    matches!(byte, b'/' | b'\\')
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

/// Escapes what must be and nothing else, with capital letters.
fn escape_alike(path: &[u8]) -> Result<Vec<u8>, BadPath> {
    let mut alike = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'\\' => return Err(BadPath::Backslash),
            b'%' => {
                let digits = after.get(..2).ok_or(BadPath::Escape)?;
                let byte = unescape(digits).ok_or(BadPath::Escape)?;
                if byte.is_ascii_control() {
                    return Err(BadPath::Control);
                }
                if is_unreserved(byte) {
                    alike.push(byte);
                } else {
                    alike.push(b'%');
                    alike.extend(digits.iter().map(u8::to_ascii_uppercase));
                }
                rest = &after[2..];
            }
            byte => alike.push(*byte),
        }
    }
    Ok(alike)
}

/// Refuses `..%2Fx`, `x%5C..`, `..;x` and the like: a segment here, more than one to others.
fn check_hidden_dots(mut segment: &[u8]) -> Result<(), BadPath> {
    let end_of_part = |segment: &[u8]| {
        (0..segment.len()).find_map(|at| match &segment[at..] {
            [b';', ..] => Some((at, at + 1)),
            [b'%', b'2', b'F', ..] | [b'%', b'5', b'C', ..] => Some((at, at + 3)),
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
