//! The fuzz target `network_grant`, over a fixed number of edits of its seeds, the same in each run.

#[path = "../../../fuzz/checks/edits.rs"]
mod edits;
#[path = "../../../fuzz/checks/network_grant.rs"]
mod network_grant;

use network_grant::check;

const ROUNDS: usize = 30_000;

/// Pieces that mean something in a grant.
const PIECES: &[&[u8]] = &[
    b"tcp://",
    b"udp://",
    b"unix:",
    b"[",
    b"]",
    b"%",
    b"/",
    b":",
    b".",
    b"*",
    b"*.",
    b"-",
    b",",
    b"\\",
    b"@",
    b"::",
    b"0",
    b"0x",
    b"255",
    b"65535",
    b"/32",
    b"/128",
    b",ready",
    b",host-port=1",
    b"ffff",
    b"localhost",
    b"xn--",
    b"_",
    "é".as_bytes(),
    b"\0",
    "\u{1b}".as_bytes(),
    "\u{202e}".as_bytes(),
    b"..",
    b"~",
    b" ",
    b"\n",
];

#[test]
fn most_seeds_are_grants() {
    let seeds = edits::seeds("network_grant");
    let taken = seeds.iter().filter(|seed| check(seed) > 0).count();
    assert!(seeds.len() > 20 && taken > 15, "{taken} of {}", seeds.len());
}

#[test]
fn edited_seeds_keep_the_rules() {
    let seeds = edits::seeds("network_grant");
    let (taken, refused) = edits::check_edits(&seeds, PIECES, ROUNDS, check);
    assert!(
        taken > 3_000 && refused > 3_000,
        "{taken} taken, {refused} refused"
    );
}
