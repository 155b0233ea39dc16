//! What must hold of any text that is read as a grant of files, and of the pattern that it may be.
//!
//! The fuzz target and an ordinary test call the same function.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Component, Path, PathBuf},
};

use palisade_policy::{Access, FileGrant, Pattern};

/// A folder whose name would be a pattern itself.
const BASE: &str = "/base/a*b?";

/// How many kinds of grants took the text.
pub(crate) fn check(text: &[u8]) -> usize {
    let text = OsStr::from_bytes(text);
    let taken = Access::ALL.iter().filter(|access| check_as(**access, text));
    taken.count()
}

fn check_as(access: Access, text: &OsStr) -> bool {
    let grant = match FileGrant::parse(access, text, Path::new(BASE)) {
        Ok(grant) => grant,
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains(char::is_control), "{message:?}");
            return false;
        }
    };
    for path in [Some(&grant.host), grant.guest.as_ref()]
        .into_iter()
        .flatten()
    {
        let is_clean = |part| matches!(part, Component::RootDir | Component::Normal(_));
        assert!(path.components().all(is_clean), "{path:?}");
    }
    if text.to_str().is_some() {
        let again = FileGrant::parse(access, grant.to_string(), Path::new("/elsewhere"));
        assert_eq!(again.as_ref(), Ok(&grant), "{grant}");
    }
    if access == Access::Hide {
        check_pattern(&grant.host);
    }
    true
}

fn check_pattern(path: &Path) {
    let plain = Pattern::plain(path);
    let escaped = Pattern::escape(&plain);
    assert_eq!(Pattern::of(&escaped), None, "{escaped:?}");
    assert_eq!(Pattern::plain(&escaped), plain);
    let Some(pattern) = Pattern::of(path) else {
        return;
    };
    let wanted = names(path);
    for (number, folders) in [(0, 0), (1, 1), (2, 3)] {
        let found = instance(&wanted, number, folders);
        assert!(pattern.finds(&found), "{path:?} finds {found:?}");
        for around in found.ancestors().skip(1) {
            assert!(pattern.may_find_below(around), "{path:?} below {around:?}");
        }
        // One byte less, one name less, one more.
        let bytes = found.as_os_str().as_bytes();
        let cut = PathBuf::from(OsString::from_vec(bytes[..bytes.len() - 1].to_vec()));
        let others = [
            cut,
            found.parent().unwrap_or(&found).into(),
            found.join("x"),
        ];
        for other in others.iter().filter(|other| other.is_absolute()) {
            let expected = matches(&wanted, &names(other));
            assert_eq!(pattern.finds(other), expected, "{path:?} finds {other:?}");
        }
    }
}

fn names(path: &Path) -> Vec<Vec<u8>> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.as_bytes().to_vec()),
        _ => None,
    });
    names.collect()
}

/// A path that a pattern finds: so many bytes for a `*`, so many folders for a `**`.
fn instance(wanted: &[Vec<u8>], bytes: usize, folders: usize) -> PathBuf {
    let mut path = PathBuf::from("/");
    for name in wanted {
        if name == b"**" {
            (0..folders).for_each(|_| path.push("any"));
            continue;
        }
        let made = match expanded(name, bytes) {
            // No name of a file.
            made if [&b""[..], b".", b".."].contains(&&made[..]) => expanded(name, bytes + 1),
            made => made,
        };
        path.push(OsString::from_vec(made));
    }
    path
}

fn expanded(mut name: &[u8], bytes: usize) -> Vec<u8> {
    let mut made = Vec::new();
    while let Some((sign, after)) = sign(name) {
        match sign {
            Sign::Any => made.extend(std::iter::repeat_n(b'y', bytes)),
            Sign::One => made.push(b'z'),
            Sign::Byte(byte) => made.push(byte),
        }
        name = after;
    }
    made
}

enum Sign {
    Any,
    One,
    Byte(u8),
}

fn sign(rest: &[u8]) -> Option<(Sign, &[u8])> {
    Some(match rest {
        [] => return None,
        [b'\\', byte @ (b'*' | b'?' | b'\\'), after @ ..] => (Sign::Byte(*byte), after),
        [b'*', after @ ..] => (Sign::Any, after),
        [b'?', after @ ..] => (Sign::One, after),
        [byte, after @ ..] => (Sign::Byte(*byte), after),
    })
}

/// By trying everything.
fn matches(wanted: &[Vec<u8>], names: &[Vec<u8>]) -> bool {
    match (wanted, names) {
        ([], names) => names.is_empty(),
        ([first, rest @ ..], names) if first == b"**" => {
            // Of two in a row one says it all.
            let rest = match rest {
                [next, after @ ..] if next == b"**" => [&[next.clone()][..], after].concat(),
                rest => rest.to_vec(),
            };
            (0..=names.len()).any(|skipped| matches(&rest, &names[skipped..]))
        }
        ([first, rest @ ..], [name, names @ ..]) => is_named(first, name) && matches(rest, names),
        (_, []) => false,
    }
}

fn is_named(wanted: &[u8], name: &[u8]) -> bool {
    match (sign(wanted), name) {
        (None, name) => name.is_empty(),
        (Some((Sign::Any, after)), name) => {
            (0..=name.len()).any(|taken| is_named(after, &name[taken..]))
        }
        (Some((Sign::One, after)), [_, name @ ..]) => is_named(after, name),
        (Some((Sign::Byte(byte), after)), [first, name @ ..]) => {
            byte == *first && is_named(after, name)
        }
        (_, []) => false,
    }
}
