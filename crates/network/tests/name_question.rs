//! The fuzz target `name_question`, over what real resolvers send, and over a fixed number of edits of that, the same in each run.

#[path = "../../../fuzz/checks/edits.rs"]
mod edits;
#[path = "../../../fuzz/checks/name_question.rs"]
mod name_question;

use name_question::check;

const ROUNDS: usize = 4_000;

/// Pieces that mean something to one reader or another.
const PIECES: &[&[u8]] = &[
    &[0],
    &[0, 1, 0, 1],
    &[0, 28, 0, 1],
    &[0, 12, 0, 1],
    &[0xc0, 12],
    &[63],
    &[64],
    b"\x04test",
    b"\x07example",
    &[0x81, 0x80],
    &[0xff, 0xff],
];

#[test]
fn edited_seeds_keep_the_rules() {
    let seeds = edits::seeds("name_question");
    assert!(seeds.iter().any(|seed| check(seed)));
    let mut given = 0;
    edits::check_edits(&seeds, PIECES, ROUNDS, |bytes| {
        given += usize::from(check(bytes));
        1
    });
    assert!(
        (ROUNDS / 40..ROUNDS - ROUNDS / 40).contains(&given),
        "{given}"
    );
}
