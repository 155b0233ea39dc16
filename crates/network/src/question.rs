//! What a guest asks a name server, read from the message that it sent: bytes of its own choice.

use palisade_policy::HostName;

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
