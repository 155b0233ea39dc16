//! Escapes of paths: which stay, and how they are written.

use super::BadPath;

/// Whether an escape surely stays as it is.
pub(super) fn is_normal_escape(digits: &[u8]) -> bool {
    let capital = |digit: &u8| digit.is_ascii_digit() || (b'A'..=b'F').contains(digit);
    let Some(pair) = digits.get(..2).filter(|pair| pair.iter().all(capital)) else {
        return false;
    };
    match unescape(pair) {
        Some(byte) => {
            let is_border = matches!(byte, b'/' | b'\\' | b';');
            let is_kept = !is_plain(byte) && !byte.is_ascii_control();
            is_kept && !is_border && !may_be_overlong(byte)
        }
        None => false,
    }
}

/// The byte that two hexadecimal digits stand for.
pub(super) fn unescape(digits: &[u8]) -> Option<u8> {
    let [high, low] = digits else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// Whether a byte stands in a path as it is: `pchar`, but for `%`.
pub(super) fn is_plain(byte: u8) -> bool {
    const PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = 0;
        while byte < 128 {
            plain[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        let others = b"-._~!$&'()*+,;=:@";
        let mut at = 0;
        while at < others.len() {
            plain[others[at] as usize] = true;
            at += 1;
        }
        plain
    };
    PLAIN[usize::from(byte)]
}

/// Whether it may begin UTF-8 that is longer than it has to be.
fn may_be_overlong(byte: u8) -> bool {
    matches!(byte, 0xc0 | 0xc1 | 0xe0 | 0xf0 | 0xf8..)
}

/// Escapes what must be and nothing else, with capital letters.
pub(super) fn escape_alike(path: &[u8]) -> Result<Vec<u8>, BadPath> {
    let mut alike = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'\\' => return Err(BadPath::Backslash),
            b'%' => {
                let digits = after.get(..2).ok_or(BadPath::Escape)?;
                let byte = unescape(digits).ok_or(BadPath::Escape)?;
                if byte.is_ascii_control() {
                    return Err(BadPath::Control);
                }
                match is_plain(byte) && byte != b';' {
                    true => alike.push(byte),
                    false => push_escaped(&mut alike, byte),
                }
                rest = &after[2..];
            }
            b'/' => alike.push(b'/'),
            byte if is_plain(*byte) => alike.push(*byte),
            byte => push_escaped(&mut alike, *byte),
        }
    }
    check_overlong(&alike)?;
    Ok(alike)
}

fn push_escaped(to: &mut Vec<u8>, byte: u8) {
    let digit = |value: u8| b"0123456789ABCDEF"[usize::from(value & 15)];
    to.extend([b'%', digit(byte >> 4), digit(byte)]);
}

/// Refuses what no UTF-8 has and a reader that does not check takes for a character: RFC 3629, section 10.
fn check_overlong(path: &[u8]) -> Result<(), BadPath> {
    let escaped = |at: usize| match path.get(at..at + 3)? {
        [b'%', digits @ ..] => unescape(digits),
        _ => None,
    };
    for at in (0..path.len()).filter(|at| path[*at] == b'%') {
        let is_overlong = matches!(
            (escaped(at), escaped(at + 3)),
            (Some(0xc0 | 0xc1 | 0xf8..), Some(0x80..=0xbf))
                | (Some(0xe0), Some(0x80..=0x9f))
                | (Some(0xf0), Some(0x80..=0x8f))
        );
        if is_overlong {
            return Err(BadPath::Overlong);
        }
    }
    Ok(())
}
