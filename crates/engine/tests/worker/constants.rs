//! What the process wall's filter believes of the worker's file.

use palisade_wasm::open_how;
use std::fs;

/// A segment of a program, of elf(5).
struct Segment {
    kind: u32,
    flags: u32,
    from: u64,
    bytes: u64,
}

fn segments(file: &[u8]) -> Vec<Segment> {
    let short = |at: usize| u16::from_le_bytes(file[at..at + 2].try_into().unwrap());
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let (table, size, count) = (long(0x20) as usize, short(0x36), short(0x38));
    (0..count)
        .map(|number| table + usize::from(number * size))
        .map(|at| Segment {
            kind: word(at),
            flags: word(at + 4),
            from: long(at + 16),
            bytes: long(at + 40),
        })
        .collect()
}

#[test]
fn constants_of_openat2_lie_where_the_filter_looks_and_cannot_be_written() {
    const LOAD: u32 = 1;
    const READ_ONLY: u32 = 4;
    let file = fs::read(env!("CARGO_BIN_EXE_palisade-worker")).unwrap();
    let (first, end) = (open_how::AT, open_how::AT + open_how::BYTES);
    let over: Vec<_> = segments(&file)
        .into_iter()
        .filter(|segment| segment.kind == LOAD)
        .filter(|segment| segment.from < end && segment.from + segment.bytes > first)
        .collect();
    let [segment] = over.as_slice() else {
        panic!("{} segments lie there", over.len());
    };
    assert_eq!(segment.flags, READ_ONLY);
    assert!(segment.from <= first && segment.from + segment.bytes >= end);
}
