//! The fuzz target `connect_request`, over what real clients send, and over a fixed number of edits
//! of that, the same in each run.

#[path = "../../../fuzz/checks/connect_request.rs"]
mod connect_request;

use connect_request::{Taken, check};
use std::{fs, path::Path};

const ROUNDS: usize = 4_000;

/// Pieces that mean something to one reader or another.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b".",
    b"@",
    b"%",
    b"/",
    b"*",
    b"CONNECT ",
    b"GET ",
    b" HTTP/1.1",
    b" HTTP/2.0",
    b"Host: b.example.com\r\n",
    b"host:a.example.com:443\r\n",
    b"Content-Length: 1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"a.example.com",
    b"127.0.0.1",
    b"[::1]",
    b"443",
    b"http://",
    &[22, 3, 1],
    &[22, 3, 1, 0, 1, 1],
    &[0xfe, 0x0d],
    &[0, 0],
    &[0xff, 0xff],
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

    fn edit(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let end = bytes.len().min(at + self.below(8));
        match self.below(5) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let byte = self.below(256) as u8;
                bytes.splice(at..end, [byte]);
            }
            _ => {
                let piece = PIECES[self.below(PIECES.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }
}

fn seed(name: &str) -> Vec<u8> {
    fs::read(folder().join(name)).unwrap()
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/connect_request")
}

fn seeds() -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Recorded from curl 7.88, git 2.39, wget 1.21, OpenSSL 3.0, Python 3.11, Go and Java 17.
#[test]
fn real_clients_are_taken() {
    let both = Taken {
        request: true,
        hello: true,
    };
    for client in [
        "curl",
        "git",
        "go",
        "java",
        "openssl-tls1_2",
        "python",
        "records",
        "wget",
    ] {
        assert_eq!(check(&seed(client)), both, "{client}");
    }
    for hostile in ["address", "body", "other-host", "plain-http"] {
        assert_eq!(check(&seed(hostile)), Taken::default(), "{hostile}");
    }
    assert!(!check(&seed("two-requests")).hello);
    assert!(check(&seed("hello-alone")).hello);
}

#[test]
fn edited_seeds_keep_the_rules() {
    let (seeds, mut random) = (seeds(), Random(0x5eed));
    let (mut requests, mut hellos) = (0, 0);
    for round in 0..ROUNDS {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=random.below(3) {
            random.edit(&mut bytes);
        }
        let taken = check(&bytes);
        requests += usize::from(taken.request);
        hellos += usize::from(taken.hello);
    }
    let some = ROUNDS / 20..ROUNDS - ROUNDS / 20;
    assert!(
        some.contains(&requests) && some.contains(&hellos),
        "{requests}, {hellos}"
    );
}
