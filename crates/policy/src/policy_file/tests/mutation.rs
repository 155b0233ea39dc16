//! Whatever the text, reading it ends in a layer or in an error that can be shown.
//!
//! A fixed number of random edits of real policies, the same in each run.

use super::{FULL, read};

const SEEDS: &[&str] = &[
    FULL,
    "grants = { read = ['/a:/b'], env = [\"A=\\u00e9\"] } # é\nlimits.cpu = 1e-3 # \t🦀",
    "\u{feff}[limits]\r\nmemory = '''512M'''\r\ntime = 1.5\r\n\r\n# a comment of some length\r\n",
    "cwd = \"\"\"\n/a\\\n  b\"\"\"\n[grants]\nread=[\n\n'a'  ,  \n]\n",
    "a.b.c = { d = [{}, inf, nan, -0, 0x7fff_ffff], e = 1979-05-27T07:32:00Z }\n\u{0}\u{1b}🦀é",
];

/// Pieces that mean something to TOML or to a value.
const PIECES: &[&str] = &[
    "[",
    "]",
    "[[",
    "=",
    "\"",
    "'",
    "\"\"\"",
    "'''",
    "{",
    "}",
    ",",
    ".",
    "#",
    "\n",
    "\r",
    "\\",
    "\\u",
    ":",
    "\\:",
    "..",
    "~",
    "\0",
    "\u{202e}",
    "🦀",
    "9",
    "99999999999999999999",
    "K",
    "1e999",
    "grants",
    "limits",
    "read",
    "connect",
    "tcp://",
    "[::1]",
    "/0",
    "*.",
    "%",
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

    fn edit(&mut self, text: &mut Vec<char>) {
        let (from, to) = (self.below(text.len() + 1), self.below(text.len() + 1));
        let (from, to) = (from.min(to), from.max(to).min(from.min(to) + 12));
        match self.below(5) {
            0 => text.truncate(to),
            1 => drop(text.drain(from..to)),
            2 => {
                let copied = text[from..to].to_vec();
                text.splice(from..from, copied);
            }
            _ => {
                let piece = PIECES[self.below(PIECES.len())];
                text.splice(from..from, piece.chars());
            }
        }
    }
}

#[test]
fn no_text_makes_reading_panic() {
    let mut random = Random(0x5eed);
    let (mut read_count, mut refused_count) = (0, 0);
    for round in 0..10_000 {
        let mut text: Vec<char> = SEEDS[round % SEEDS.len()].chars().collect();
        for _ in 0..=random.below(3) {
            random.edit(&mut text);
        }
        let text: String = text.into_iter().collect();
        match read(&text) {
            Ok(layer) => {
                read_count += 1;
                assert_eq!(read(&layer.to_toml().unwrap()), Ok(layer), "{text:?}");
            }
            Err(error) => {
                refused_count += 1;
                let shown = error.to_string();
                assert!(shown.contains("policy.toml"), "{text:?}: {shown}");
            }
        }
    }
    assert!(
        read_count > 500 && refused_count > 500,
        "{read_count} read, {refused_count} refused"
    );
}

#[test]
fn deep_nesting_does_not_exhaust_the_stack() {
    for text in [
        "cwd = ".to_owned() + &"[".repeat(100_000),
        "a.".repeat(100_000) + "b = 1",
    ] {
        assert!(read(&text).is_err());
    }
}
