//! The fuzz target `request_path`, over paths that meant two things to somebody once, and over a fixed number of
//! edits of them, the same in each run.

#[path = "../../../../fuzz/checks/request_path.rs"]
mod request_path;

use request_path::{Taken, check};
use std::{fs, path::Path};

const ROUNDS: usize = 20_000;

/// Pieces that mean something to one reader or another.
const PIECES: &[&[u8]] = &[
    b"/",
    b"//",
    b".",
    b"..",
    b"/../",
    b"/./",
    b"%",
    b"%2e",
    b"%2E",
    b"%2f",
    b"%2F",
    b"%5c",
    b"%25",
    b"%00",
    b"%0a",
    b"%61",
    b"%40me",
    b"%ff",
    b"\\",
    b";",
    b"?",
    b"#",
    b"*",
    b"@",
    b":",
    b"admin",
    b"/a/b",
    b"http://h",
    b".well-known",
    "ä".as_bytes(),
    &[0xff],
];

#[test]
fn paths_lead_where_they_say() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/request_path");
    let taken = |name: &str| check(&fs::read(seeds.join(name)).unwrap());
    let of = |path, file, route| Taken { path, file, route };
    for (name, expected) in [
        ("root", of(true, true, false)),
        ("plain", of(true, true, true)),
        ("dots", of(true, true, false)),
        ("escapes", of(true, true, true)),
        ("sub-delimiters", of(true, true, true)),
        ("borders", of(true, false, false)),
        ("absolute", of(true, true, false)),
        ("well-known", of(true, true, false)),
        ("dot-file", of(true, false, false)),
        ("twice", of(true, true, false)),
        ("utf-8", of(true, true, false)),
        ("slashes", of(true, true, false)),
        ("hidden-dots", Taken::default()),
        ("parameters", Taken::default()),
        ("nul", Taken::default()),
        ("every", Taken::default()),
        ("authority", Taken::default()),
    ] {
        assert_eq!(taken(name), expected, "{name}");
    }
}

#[test]
fn edited_seeds_keep_the_rules() {
    let (mut paths, mut files, mut routes) = (0, 0, 0);
    crate::edits::check_edits(
        &crate::edits::seeds("request_path"),
        PIECES,
        ROUNDS,
        |bytes| {
            let taken = check(bytes);
            paths += usize::from(taken.path);
            files += usize::from(taken.file);
            routes += usize::from(taken.route);
            1
        },
    );
    let some = ROUNDS / 50..ROUNDS - ROUNDS / 50;
    let counts = [paths, files, routes];
    assert!(
        counts.iter().all(|count| some.contains(count)),
        "{counts:?}"
    );
}
