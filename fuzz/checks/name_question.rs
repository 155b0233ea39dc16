//! What must hold of whatever a guest asks a name server.
//!
//! The fuzz target and an ordinary test call the same function.

use palisade_network::{Asked, answer_question};
use std::net::Ipv4Addr;

const STANDS_FOR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const HEADER_BYTES: usize = 12;
const ADDRESS_RECORD_BYTES: usize = 16;

/// Checks reading and answering. Tells whether an address was given.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let asked = Asked::read(bytes);
    // Without a name there is nothing that anything could stand for.
    let name = asked.clone().and_then(Asked::into_name);
    if let Some(name) = &name {
        assert_eq!(name.as_str().parse().as_ref(), Ok(name));
    }
    let Some(answer) =
        asked.and_then(|_| answer_question(bytes, name.as_ref().map(|_| STANDS_FOR)))
    else {
        return false;
    };
    let records = answer[7];
    let question_bytes = answer.len() - HEADER_BYTES - usize::from(records) * ADDRESS_RECORD_BYTES;
    assert!(records <= u8::from(name.is_some()));
    assert_eq!(answer[..2], bytes[..2], "another question's");
    assert_eq!(answer[2] & 0xfe, 0x80, "an answer to a plain question");
    assert_eq!(answer[4..7], [0, 1, 0]);
    assert_eq!(answer[8..HEADER_BYTES], [0; 4]);
    let question = &bytes[HEADER_BYTES..HEADER_BYTES + question_bytes];
    assert_eq!(
        &answer[HEADER_BYTES..HEADER_BYTES + question_bytes],
        question
    );
    if records == 1 {
        assert!(answer.ends_with(&STANDS_FOR.octets()));
        assert_eq!(&question[question_bytes - 4..], [0, 1, 0, 1], "A, IN");
    }
    assert!(Asked::read(&answer).is_none(), "an answer is no question");
    records == 1
}
