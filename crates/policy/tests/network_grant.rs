//! The fuzz target `network_grant`, over a fixed number of edits of its seeds, the same in each run.

#[path = "../../../fuzz/checks/network_grant.rs"]
mod network_grant;

use network_grant::check;
use std::{fs, path::Path};

const ROUNDS: usize = 30_000;

/// Pieces that mean something in a grant.
const PIECES: &[&str] = &[
    "tcp://",
    "udp://",
    "unix:",
    "[",
    "]",
    "%",
    "/",
    ":",
    ".",
    "*",
    "*.",
    "-",
    ",",
    "\\",
    "@",
    "::",
    "0",
    "0x",
    "255",
    "65535",
    "/32",
    "/128",
    ",ready",
    ",host-port=1",
    "ffff",
    "localhost",
    "xn--",
    "_",
    "é",
    "\0",
    "\u{1b}",
    "\u{202e}",
    "..",
    "~",
    " ",
    "\n",
];

/// `xorshift64*` (Vigna 2016): a sequence of numbers that is the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    fn edit(&mut self, text: &mut Vec<u8>, other: &[u8]) {
        let (one, two) = (self.below(text.len() + 1), self.below(text.len() + 1));
        let (from, to) = (one.min(two), one.max(two).min(one.min(two) + 8));
        match self.below(6) {
            0 => text.truncate(to),
            1 => drop(text.drain(from..to)),
            2 => {
                let byte = self.below(256) as u8;
                text.splice(from..to, [byte]);
            }
            3 => {
                text.truncate(from);
                text.extend_from_slice(&other[self.below(other.len())..]);
            }
            _ => {
                let piece = PIECES[self.below(PIECES.len())];
                text.splice(from..from, piece.bytes());
            }
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/network_grant");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn most_seeds_are_grants() {
    let seeds = seeds();
    let taken = seeds.iter().filter(|seed| check(seed) > 0).count();
    assert!(seeds.len() > 20 && taken > 15, "{taken} of {}", seeds.len());
}

#[test]
fn edited_seeds_keep_the_rules() {
    let (seeds, mut random) = (seeds(), Random(0x5eed));
    let mut taken = 0;
    for round in 0..ROUNDS {
        let mut text = seeds[round % seeds.len()].clone();
        for _ in 0..=random.below(3) {
            let other = &seeds[random.below(seeds.len())];
            random.edit(&mut text, other);
        }
        taken += usize::from(check(&text) > 0);
    }
    let refused = ROUNDS - taken;
    assert!(
        taken > 3_000 && refused > 3_000,
        "{taken} taken, {refused} refused"
    );
}
