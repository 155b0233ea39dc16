//! What a guest asks a name server, read from the message that it sent: bytes of its own choice.

use palisade_policy::HostName;
use std::net::Ipv4Addr;

/// A message of one question (RFC 1035, section 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// For the addresses of a name.
    Name(HostName),
    /// For something else, or for what no grant could name.
    Other,
}

impl Asked {
    /// Reads one; `None` for what is no question.
    pub fn read(message: &[u8]) -> Option<Self> {
        const ANSWER_OR_KIND: u8 = 0xf8;
        const IN: u16 = 1;
        let (header, mut rest) = message.split_first_chunk::<12>()?;
        let [_, _, flags, _, counts @ ..] = *header;
        let [q, w, a, n, s, t, _, extra] = counts;
        if flags & ANSWER_OR_KIND != 0 || [q, w, a, n, s, t] != [0, 1, 0, 0, 0, 0] {
            return None;
        }
        let name = read_name(&mut rest)?;
        let ([k, i, c, d], rest) = rest.split_first_chunk::<4>()?;
        let is_whole = rest.is_empty() || extra > 0;
        if !is_whole || u16::from_be_bytes([*c, *d]) != IN {
            return None;
        }
        let is_of_address = matches!(u16::from_be_bytes([*k, *i]), A | AAAA | HTTPS);
        let name = name.filter(|_| is_of_address);
        Some(name.map_or(Self::Other, Self::Name))
    }
}

/// The answer to a question that [`Asked::read`] has read: a name stands for `address`, and nothing else is known of any.
/// It holds for as long as the guest runs, which may as well ask again.
pub fn answer(question: &[u8], address: Option<Ipv4Addr>) -> Option<Vec<u8>> {
    const RESPONSE: u8 = 0x80;
    const WANTS_RECURSION: u8 = 0x01;
    const HAS_RECURSION: u8 = 0x80;
    const SERVER_FAILED: u8 = 2;
    const TTL_S: u32 = 1;
    /// Where the name of the question stands.
    const POINTER: [u8; 2] = [0xc0, 12];
    let (header, mut rest) = question.split_first_chunk::<12>()?;
    let [i, d, flags, ..] = *header;
    let name = read_name(&mut rest)?;
    let (kind_and_class, rest) = rest.split_first_chunk::<4>()?;
    let is_of_a = kind_and_class[..2] == A.to_be_bytes();
    let address = address.filter(|_| is_of_a && name.is_some());
    let code = match name {
        Some(_) => 0,
        None => SERVER_FAILED,
    };
    let flags = [RESPONSE | flags & WANTS_RECURSION, HAS_RECURSION | code];
    let answers = u8::from(address.is_some());
    let mut message = vec![i, d, flags[0], flags[1], 0, 1, 0, answers, 0, 0, 0, 0];
    message.extend_from_slice(&question[12..question.len() - rest.len()]);
    if let Some(address) = address {
        message.extend(POINTER);
        message.extend(kind_and_class);
        message.extend(TTL_S.to_be_bytes());
        message.extend(4u16.to_be_bytes());
        message.extend(address.octets());
    }
    Some(message)
}

impl Asked {
    /// The name, if it is one.
    pub fn into_name(self) -> Option<HostName> {
        match self {
            Self::Name(name) => Some(name),
            Self::Other => None,
        }
    }
}

const A: u16 = 1;
const AAAA: u16 = 28;
const HTTPS: u16 = 65;

/// Labels up to the empty one. A question has no pointers: there is nothing before it to point to. `Some(None)` for what
/// is no host's name.
fn read_name(rest: &mut &[u8]) -> Option<Option<HostName>> {
    const MOST_LABEL_BYTES: u8 = 63;
    const MOST_BYTES: usize = 255;
    let mut name = String::new();
    loop {
        let (length, after) = rest.split_first()?;
        if *length > MOST_LABEL_BYTES || name.len() > MOST_BYTES {
            return None;
        }
        let (label, after) = after.split_at_checked(usize::from(*length))?;
        *rest = after;
        if label.is_empty() {
            return Some(name.parse().ok());
        }
        if !name.is_empty() {
            name.push('.');
        }
        // What is no letter of a name's is none of these either.
        name.extend(label.iter().map(|byte| char::from(*byte)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(labels: &[&[u8]], kind: u16) -> Vec<u8> {
        let mut message = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            message.push(label.len() as u8);
            message.extend(*label);
        }
        message.push(0);
        message.extend(kind.to_be_bytes());
        message.extend([0, 1]);
        message
    }

    fn name(text: &str) -> Option<Asked> {
        Some(Asked::Name(text.parse().unwrap()))
    }

    #[test]
    fn a_name_is_read() {
        for kind in [A, AAAA, HTTPS] {
            let message = question(&[b"pypi", b"Example", b"com"], kind);
            assert_eq!(Asked::read(&message), name("pypi.example.com"));
        }
        let mut with_options = question(&[b"a", b"b"], A);
        with_options[11] = 1;
        with_options.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Asked::read(&with_options), name("a.b"));
    }

    #[test]
    fn what_no_grant_names_is_a_question_all_the_same() {
        const PTR: u16 = 12;
        for message in [
            question(&[b"1", b"0", b"in-addr", b"arpa"], PTR),
            question(&[b"a", b"\x1b[2J", b"com"], A),
            question(&[b"a.b c", b"com"], A),
            question(&[b"\xff\xfe"], A),
            question(&[], A),
        ] {
            assert_eq!(Asked::read(&message), Some(Asked::Other), "{message:?}");
        }
    }

    #[test]
    fn a_name_is_answered_with_one_address_of_version_4() {
        let stands_for = Some(Ipv4Addr::new(198, 18, 0, 7));
        let asked = question(&[b"a", b"example"], A);
        let message = answer(&asked, stands_for).unwrap();
        let (header, rest) = message.split_at(12);
        assert_eq!(header, [7, 7, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        let (echoed, found) = rest.split_at(asked.len() - 12);
        assert_eq!(echoed, &asked[12..]);
        let expected = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 198, 18, 0, 7];
        assert_eq!(found, expected);
        for nothing in [
            answer(&question(&[b"a", b"example"], AAAA), stands_for),
            answer(&asked, None),
            answer(&question(&[b"a b"], A), stands_for),
        ] {
            let message = nothing.unwrap();
            assert_eq!((message[7], message[2]), (0, 0x81));
        }
        for length in 0..asked.len() {
            assert_eq!(answer(&asked[..length], stands_for), None, "{length}");
        }
    }

    #[test]
    fn anything_else_is_none() {
        let whole = question(&[b"example", b"com"], A);
        for length in 0..whole.len() {
            assert_eq!(Asked::read(&whole[..length]), None, "{length}");
        }
        let changed = |at: usize, byte: u8| {
            let mut message = whole.clone();
            message[at] = byte;
            Asked::read(&message)
        };
        for (at, byte) in [(2, 0x81), (2, 0x28), (5, 2), (7, 1), (12, 0xc0), (12, 64)] {
            assert_eq!(changed(at, byte), None, "{at} {byte}");
        }
        let longer = [whole.as_slice(), b"x"].concat();
        assert_eq!(Asked::read(&longer), None);
        let long: Vec<&[u8]> = vec![&[b'a'; 63]; 5];
        assert_eq!(Asked::read(&question(&long, A)), None);
    }
}
