//! A fixed number of edits of a target's seeds, the same in each run: what an ordinary test tries.

use std::{env, fs, path::Path};

/// `xorshift64*` (Vigna 2016): a sequence of numbers that is the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    /// Cuts, drops, overwrites, splices with another seed, or puts in a piece that means something.
    fn edit(&mut self, bytes: &mut Vec<u8>, other: &[u8], pieces: &[&[u8]]) {
        let from = self.below(bytes.len() + 1);
        let to = bytes.len().min(from + self.below(8));
        match self.below(6) {
            0 => bytes.truncate(to),
            1 => drop(bytes.drain(from..to)),
            2 => {
                let byte = self.below(256) as u8;
                bytes.splice(from..to, [byte]);
            }
            3 => {
                bytes.truncate(from);
                bytes.extend_from_slice(&other[self.below(other.len())..]);
            }
            _ => {
                let piece = pieces[self.below(pieces.len())];
                bytes.splice(from..from, piece.iter().copied());
            }
        }
    }
}

/// The seeds of a target, by name.
pub(crate) fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut paths: Vec<_> = fs::read_dir(folder.join(target))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Checks this many edits of the seeds, or `PALISADE_EDITS` times as many; gives how many were taken and how many refused,
/// of which the check says zero.
pub(crate) fn check_edits(
    seeds: &[Vec<u8>],
    pieces: &[&[u8]],
    rounds: usize,
    mut check: impl FnMut(&[u8]) -> usize,
) -> (usize, usize) {
    let times = env::var("PALISADE_EDITS").map_or(1, |times| {
        times.parse().expect("PALISADE_EDITS is a number")
    });
    let rounds: usize = rounds * times;
    let mut random = Random(0x5eed);
    let edited = (0..rounds).map(|round| {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=random.below(3) {
            let other = &seeds[random.below(seeds.len())];
            random.edit(&mut bytes, other, pieces);
        }
        usize::from(check(&bytes) > 0)
    });
    let taken = edited.sum();
    (taken, rounds - taken)
}
