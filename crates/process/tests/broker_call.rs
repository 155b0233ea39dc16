//! The fuzz target `broker_call`, over a fixed number of edits of its seeds, the same in each run.

#[path = "../../../fuzz/checks/broker_call.rs"]
mod broker_call;
#[path = "../../../fuzz/checks/edits.rs"]
mod edits;

use broker_call::check;

const ROUNDS: usize = 30_000;

/// Families, lengths and offsets.
const PIECES: &[&[u8]] = &[
    &[2, 0],
    &[10, 0],
    &[1, 0],
    &[0, 0],
    &[16, 0, 0, 0, 0, 0, 0, 0],
    &[20, 0, 0, 0, 0, 0, 0, 0],
    &[56, 0, 0, 0, 0, 0, 0, 0],
    &[0; 8],
    &[0xff; 8],
    &[0, 0, 0, 0, 0, 0, 0, 0x80],
    &[1, 0, 0, 0, 1, 0, 0, 0],
    &[0, 4, 0, 0, 0, 0, 0, 0],
];

#[test]
fn each_seed_is_read_as_what_it_is_named_for() {
    let seeds = edits::seeds("broker_call");
    let taken = seeds.iter().filter(|seed| check(seed) > 0).count();
    assert!(
        seeds.len() >= 13 && taken >= 11,
        "{taken} of {}",
        seeds.len()
    );
}

#[test]
fn edited_seeds_keep_the_rules() {
    let seeds = edits::seeds("broker_call");
    let (taken, refused) = edits::check_edits(&seeds, PIECES, ROUNDS, check);
    assert!(
        taken > 3_000 && refused > 300,
        "{taken} taken, {refused} refused"
    );
}
