//! The fuzz target `file_grant`, over a fixed number of edits of its seeds, the same in each run.

#[path = "../../../fuzz/checks/edits.rs"]
mod edits;
#[path = "../../../fuzz/checks/file_grant.rs"]
mod file_grant;

use file_grant::check;

const ROUNDS: usize = 20_000;

/// Pieces that mean something in a path.
const PIECES: &[&[u8]] = &[
    b"/", b"*", b"?", b"**", b"/**/", b"\\", b"\\*", b"\\\\", b":", b"\\:", b".", b"..", b"~",
    b"//", b"\0", b"\n", b"\xff", b"a", b"[", b"{",
];

#[test]
fn most_seeds_are_grants() {
    let seeds = edits::seeds("file_grant");
    let taken = seeds.iter().filter(|seed| check(seed) > 0).count();
    assert!(seeds.len() > 10 && taken > 8, "{taken} of {}", seeds.len());
}

#[test]
fn edited_seeds_keep_the_rules() {
    let seeds = edits::seeds("file_grant");
    let (taken, refused) = edits::check_edits(&seeds, PIECES, ROUNDS, check);
    assert!(
        taken > 3_000 && refused > 1_000,
        "{taken} taken, {refused} refused"
    );
}
