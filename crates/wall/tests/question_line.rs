//! The fuzz target `question_line`, over answers and words of guests, and over a fixed number of edits of them, the same in each run.

#[path = "../../../fuzz/checks/edits.rs"]
mod edits;
#[path = "../../../fuzz/checks/question_line.rs"]
mod question_line;

use question_line::check;

const ROUNDS: usize = 4_000;

/// Pieces that mean something to one reader or another.
const PIECES: &[&[u8]] = &[
    b"\"question\":1",
    b"\"verdict\":\"always\"",
    b"\n",
    b"\r",
    b"\x1b[2J",
    b"{",
    b"},",
    b"\\u0022",
    b"\xe2\x80\xae",
    b"\xc2\x9b",
    &[0],
    &[0xff],
];

#[test]
fn edited_seeds_keep_the_rules() {
    let seeds = edits::seeds("question_line");
    let answers = seeds.iter().filter(|seed| check(seed)).count();
    assert_eq!(answers, 2);
    let (taken, refused) =
        edits::check_edits(&seeds, PIECES, ROUNDS, |bytes| usize::from(check(bytes)));
    assert!(taken > ROUNDS / 40 && refused > ROUNDS / 40, "{taken}");
}
