//! From a request's path to the name of a file.

use percent_encoding::percent_decode_str;
use std::ffi::CString;

/// The only name with a dot at its beginning that is served, at the root
/// ([RFC 8615](https://www.rfc-editor.org/rfc/rfc8615)).
const WELL_KNOWN: &[u8] = b".well-known";

/// The file below the folder that a normal path names; `None` where there can be none: escaped slashes
/// and NULs, names that begin with a dot, `*`. A path that ends with a slash names the folder's index.
pub fn file_name(path: &str, index: &str) -> Option<CString> {
    let segments = path.strip_prefix('/')?;
    let mut name = Vec::with_capacity(segments.len() + index.len());
    let (folders, last) = match segments.rsplit_once('/') {
        Some((folders, last)) => (Some(folders), last),
        None => (None, segments),
    };
    for folder in folders.into_iter().flat_map(|folders| folders.split('/')) {
        push(&mut name, folder)?;
        name.push(b'/');
    }
    match last {
        "" => name.extend_from_slice(index.as_bytes()),
        last => push(&mut name, last)?,
    }
    CString::new(name).ok()
}

/// Adds a segment without its escapes.
fn push(name: &mut Vec<u8>, segment: &str) -> Option<()> {
    let start = name.len();
    name.extend(percent_decode_str(segment));
    let added = &name[start..];
    let is_hidden = added.first() == Some(&b'.') && (start > 0 || added != WELL_KNOWN);
    (!added.is_empty() && !added.contains(&b'/') && !is_hidden).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_file_or_nothing() {
        let name = |path| file_name(path, "index.html").map(|name| name.into_string().unwrap());
        for (path, expected) in [
            ("/", "index.html"),
            ("/a", "a"),
            ("/a/", "a/index.html"),
            ("/a/b.c", "a/b.c"),
            ("/a%20b%25/%C3%A4", "a b%/ä"),
            ("/a..b/c.", "a..b/c."),
            ("/a\\b%5C", "a\\b\\"),
            ("/.well-known/x", ".well-known/x"),
            ("/.well-known", ".well-known"),
        ] {
            assert_eq!(name(path).as_deref(), Some(expected), "{path}");
        }
        for path in [
            "",
            "*",
            "host:1",
            "//",
            "//a",
            "/a//b",
            "/.",
            "/..",
            "/../a",
            "/a/../b",
            "/%2e%2e/a",
            "/.git/config",
            "/a/.htaccess",
            "/%2Ehidden",
            "/a%2Fb",
            "/a%2F",
            "/%2F",
            "/a%00",
            "/a/.well-known/x",
            "/.well-known/.x",
            "/.well-knownx",
        ] {
            assert_eq!(name(path), None, "{path}");
        }
    }
}
