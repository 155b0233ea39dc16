//! What of a normal path other readers take for something else.
//!
//! Each kind has readers that this server cannot know: `/admin%2Fsecret` is one name by RFC 3986 and `/admin/secret`
//! to every program of WSGI, `/admin;x` is `/admin` to servlets. So the edge refuses it, unless the route says that its
//! filters and its service know. A route never takes what another reading would lead to another route: whatever
//! guards that one would have been passed by.
//!
//! The words are those of Jetty's `UriCompliance`, which has the same list.

use super::{escape::unescape, resolve};
use std::fmt;

/// One kind of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ambiguity {
    /// `%2F`, `%5C`: part of a name, or the border of two.
    Separators = 1,
    /// `;` and `%3B`: some take what follows away.
    Parameters = 2,
    /// `%25` before what would be another escape: some decode twice.
    Encodings = 4,
    /// Escapes that are no UTF-8: some replace them, some take them for Latin-1.
    Bytes = 8,
    /// A name that ends in a dot or a space, which some file systems take away.
    Dots = 16,
}

/// Kinds, none or some.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Ambiguities(u8);

/// How often somebody may decode what was encoded more than once.
const MOST_ENCODINGS: usize = 8;

impl Ambiguity {
    /// All, as the file writes them.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("separators", Self::Separators),
        ("parameters", Self::Parameters),
        ("encodings", Self::Encodings),
        ("bytes", Self::Bytes),
        ("dots", Self::Dots),
    ];
}

impl Ambiguities {
    const ALL: Self = Self(31);

    /// Those of a path that is normal. Most have none: that is one look at each byte.
    pub fn of(path: &str) -> Self {
        let path = path.as_bytes();
        let mut found = Self::default();
        let may_be = |byte: &u8| matches!(byte, b'%' | b';' | b'.');
        if !path.iter().any(may_be) {
            return found;
        }
        for (at, byte) in path.iter().enumerate() {
            match byte {
                b';' => found.add(Ambiguity::Parameters),
                b'.' if is_end_of_name(path, at + 1) => found.add(Ambiguity::Dots),
                b'%' => found.add_escape(path, at),
                _ => {}
            }
        }
        if found.has(Ambiguity::Bytes) && std::str::from_utf8(&decode(path)).is_ok() {
            found.0 &= !(Ambiguity::Bytes as u8);
        }
        found
    }

    fn add_escape(&mut self, path: &[u8], at: usize) {
        let after = at + 3;
        match path.get(at + 1..after).and_then(unescape) {
            Some(b'/' | b'\\') => self.add(Ambiguity::Separators),
            Some(b';') => self.add(Ambiguity::Parameters),
            Some(b'%') if nested(&path[after..]).is_some() => self.add(Ambiguity::Encodings),
            Some(b' ') if is_end_of_name(path, after) => self.add(Ambiguity::Dots),
            // Whether it is UTF-8, the whole path shows.
            Some(0x80..) => self.add(Ambiguity::Bytes),
            _ => {}
        }
    }

    /// Adds a kind.
    pub fn add(&mut self, kind: Ambiguity) {
        self.0 |= kind as u8;
    }

    fn has(self, kind: Ambiguity) -> bool {
        self.0 & kind as u8 != 0
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether there are none but those.
    pub fn is_within(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }

    /// What readers make of a normal path who take one of the kinds otherwise, and one who takes all of them so: normal
    /// paths. `None` for a reading that has no path, or no end.
    pub fn readings(self, path: &str) -> impl Iterator<Item = Option<String>> {
        let kinds = Ambiguity::WORDS.iter().map(|(_, kind)| *kind);
        let alone = kinds.filter(move |kind| self.has(*kind));
        let alone = alone.map(|kind| Self(kind as u8));
        alone.chain([Self::ALL]).map(move |kinds| kinds.read(path))
    }

    fn read(self, path: &str) -> Option<String> {
        let mut path = path.as_bytes().to_vec();
        if self.has(Ambiguity::Encodings) {
            path = unnest(path)?;
        }
        if self.has(Ambiguity::Separators) {
            path = replace(&path, &[b"%2F", b"%2f", b"%5C", b"%5c"], b"/");
        }
        if self.has(Ambiguity::Parameters) {
            path = replace(&path, &[b"%3B", b"%3b"], b";");
            path = each_name(&path, |name| name.split(|byte| *byte == b';').next());
        }
        if self.has(Ambiguity::Dots) {
            path = each_name(&path, |name| Some(trim(name)));
        }
        String::from_utf8(resolve(&path).ok()?).ok()
    }
}

impl fmt::Debug for Ambiguities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = Ambiguity::WORDS.iter().filter(|(_, kind)| self.has(*kind));
        formatter
            .debug_set()
            .entries(kinds.map(|(word, _)| word))
            .finish()
    }
}

fn is_end_of_name(path: &[u8], at: usize) -> bool {
    matches!(path.get(at), None | Some(b'/'))
}

/// What of this would be the digits of an escape if a `%` stood before it, and what follows: also of `%u002F`, which some
/// know.
fn nested(after: &[u8]) -> Option<(&[u8], &[u8])> {
    let wide = after.strip_prefix(b"u00").or(after.strip_prefix(b"U00"));
    let (digits, rest) = wide.unwrap_or(after).split_at_checked(2)?;
    let is_escape = digits.iter().all(u8::is_ascii_hexdigit);
    is_escape.then_some((digits, rest))
}

fn decode(path: &[u8]) -> Vec<u8> {
    percent_encoding::percent_decode(path).collect()
}

/// Escapes of escapes made escapes, until there are none.
fn unnest(mut path: Vec<u8>) -> Option<Vec<u8>> {
    for _ in 0..MOST_ENCODINGS {
        let mut next = Vec::with_capacity(path.len());
        let mut rest = &*path;
        while let [byte, after @ ..] = rest {
            next.push(*byte);
            rest = match rest.strip_prefix(b"%25").and_then(nested) {
                Some((digits, after)) => {
                    next.extend_from_slice(digits);
                    after
                }
                None => after,
            };
        }
        if next.len() == path.len() {
            return Some(path);
        }
        path = next;
    }
    None
}

fn replace(path: &[u8], what: &[&[u8]], with: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [byte, after @ ..] = rest {
        match what.iter().find_map(|what| rest.strip_prefix(*what)) {
            Some(after) => {
                replaced.extend_from_slice(with);
                rest = after;
            }
            None => {
                replaced.push(*byte);
                rest = after;
            }
        }
    }
    replaced
}

fn each_name<'a>(path: &'a [u8], change: impl Fn(&'a [u8]) -> Option<&'a [u8]>) -> Vec<u8> {
    let names = path.split(|byte| *byte == b'/');
    let names: Vec<_> = names.map(|name| change(name).unwrap_or_default()).collect();
    names.join(&b'/')
}

/// `.` and `..` stay what they are.
fn trim(mut name: &[u8]) -> &[u8] {
    while !matches!(name, b"." | b"..") {
        let shorter = name
            .strip_suffix(b".")
            .or_else(|| name.strip_suffix(b"%20"));
        match shorter {
            Some(shorter) => name = shorter,
            None => break,
        }
    }
    name
}

#[cfg(test)]
mod tests;
