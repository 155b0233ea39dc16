//! What must hold of whatever path a client asks for.
//!
//! The fuzz target and an ordinary test call the same function.

use http::{Request, Uri};
use palisade_host::{
    config,
    path::{Ambiguities, normalize},
    route::Routes,
    services::files::file_name,
};

/// What became of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// It has a path that is not refused.
    pub(crate) path: bool,
    /// That names a file.
    pub(crate) file: bool,
    /// That a route other than the last one, for everything, fits.
    pub(crate) route: bool,
}

/// Routes by path alone, the last one for the rest.
const ROUTES: [&str; 5] = ["/admin", "/a/b", "/@me", "/a%2Fb", "/"];

/// Checks a target as it stands in a request line.
pub(crate) fn check(bytes: &[u8]) -> Taken {
    let Ok(uri) = Uri::try_from(bytes) else {
        return Taken::default();
    };
    let normal = match normalize(&uri) {
        Ok(None) => uri.clone(),
        Ok(Some(normal)) => normal,
        Err(bad) => {
            assert!(!bad.to_string().contains(char::is_control));
            return Taken::default();
        }
    };
    assert_eq!(normalize(&normal), Ok(None), "{uri} to {normal}");
    assert_same_but_for_path(&uri, &normal);
    if !normal.path().starts_with('/') {
        assert_eq!(file_name(normal.path(), "index"), None);
        return Taken::default();
    }
    let segments = read_plainly(uri.path());
    assert_eq!(segments, decoded(normal.path()), "{uri} to {normal}");
    assert_is_normal(normal.path());
    check_readings(normal.path());
    Taken {
        path: true,
        file: check_file(normal.path(), &segments),
        route: check_route(&normal, &segments),
    }
}

fn assert_same_but_for_path(uri: &Uri, normal: &Uri) {
    assert_eq!(uri.query(), normal.query());
    assert_eq!(uri.scheme(), normal.scheme());
    assert_eq!(uri.authority(), normal.authority());
    // What may not stand there as it is, is escaped.
    assert!(normal.path().len() <= 3 * uri.path().len());
}

/// The names of a path to one who takes its escapes away first and resolves dots then, segment by segment.
fn read_plainly(path: &str) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    for name in decoded(path) {
        match &*name {
            b"" | b"." => {}
            b".." => drop(names.pop().expect("a path above the root is refused")),
            _ => names.push(name),
        }
    }
    names
}

/// The segments of a path without their escapes, but for an empty one at its end.
fn decoded(path: &str) -> Vec<Vec<u8>> {
    let inner = path.strip_prefix('/').unwrap_or(path);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    let segments = inner.split('/').filter(|_| !inner.is_empty());
    segments.map(unescape).collect()
}

fn unescape(segment: &str) -> Vec<u8> {
    let mut pieces = segment.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2).expect("two digits");
        bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
        bytes.extend(rest.as_bytes());
    }
    bytes
}

/// Nothing is left that one reader or another would change.
fn assert_is_normal(path: &str) {
    assert!(
        path.starts_with('/') && !path.contains("//") && !path.contains('\\'),
        "{path}"
    );
    for segment in path.split(['/', ';']) {
        let lower = segment.to_ascii_lowercase();
        let lower = lower.replace("%5c", "%2f").replace("%3b", "%2f");
        for part in lower.split("%2f") {
            assert!(!matches!(part, "." | ".."), "{path}");
        }
        assert!(
            !segment.contains(['"', '[', '{', '|']) && segment.is_ascii(),
            "{path}"
        );
        let bytes = unescape(segment);
        assert!(!bytes.iter().any(u8::is_ascii_control), "{path}");
    }
    for (place, _) in path.match_indices('%') {
        let escape = &path[place + 1..place + 3];
        let byte = u8::from_str_radix(escape, 16).expect("two digits");
        assert_eq!(escape, format!("{byte:02X}"), "{path}");
        assert!(
            !byte.is_ascii_alphanumeric() && !b"-._~!$&'()*+,=:@".contains(&byte),
            "{path}"
        );
    }
}

/// Whoever reads a path otherwise, it is told: what has no ambiguity is the same to one who decodes it twice, takes
/// parameters away or takes a backslash for a slash.
fn check_readings(path: &str) {
    if !Ambiguities::of(path).is_empty() {
        return;
    }
    let names = decoded(path);
    for name in &names {
        let is_border = |byte: &u8| matches!(byte, b'/' | b'\\' | b';');
        assert!(!name.iter().any(is_border), "{path}");
        assert!(!name.ends_with(b".") && !name.ends_with(b" "), "{path}");
        assert!(str::from_utf8(name).is_ok(), "{path}");
        let is_escape =
            |three: &[u8]| three[0] == b'%' && three[1..].iter().all(u8::is_ascii_hexdigit);
        assert!(!name.windows(3).any(is_escape), "{path}");
    }
}

/// A file's name is the path's own names, none of which leads up, is hidden or is more than one name.
fn check_file(path: &str, segments: &[Vec<u8>]) -> bool {
    let Some(file) = file_name(path, "index") else {
        return false;
    };
    let mut expected = segments.to_vec();
    if path.ends_with('/') {
        expected.push(b"index".to_vec());
    }
    assert_eq!(file.as_bytes(), expected.join(&b'/'), "{path}");
    for (place, name) in file.as_bytes().split(|byte| *byte == b'/').enumerate() {
        let is_hidden = name.starts_with(b".") && (place > 0 || name != b".well-known");
        assert!(!name.is_empty() && !is_hidden, "{path}");
    }
    true
}

/// The route is the first whose names the path begins with.
fn check_route(normal: &Uri, segments: &[Vec<u8>]) -> bool {
    let routes = Routes::new(&ROUTES.map(route));
    let request = Request::builder().uri(normal.clone()).body(());
    let request = request
        .expect("an address that was one before")
        .into_parts()
        .0;
    let found = routes
        .find(&request)
        .expect("the last route is for everything");
    let prefixes = ROUTES.map(decoded);
    let expected = prefixes
        .iter()
        .position(|prefix| segments.starts_with(prefix));
    assert_eq!(Some(found), expected, "{normal}");
    let rest = routes.rest(found, normal.path());
    assert!(rest.is_empty() || rest.starts_with('/'), "{normal}: {rest}");
    assert_eq!(
        decoded(rest),
        segments[prefixes[found].len()..],
        "{normal}: {rest}"
    );
    found + 1 < ROUTES.len()
}

fn route(path: &str) -> config::Route {
    config::Route {
        name: String::new(),
        host: None,
        path: path.to_owned(),
        methods: Vec::new(),
        headers: Vec::new(),
        strip: false,
        ambiguous_paths: Ambiguities::default(),
        filters: Vec::new(),
        service: String::new(),
    }
}
