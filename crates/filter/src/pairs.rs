//! Maps as guests give and get them.
//!
//! ```text
//!  count │ key bytes, value bytes │ … │ key NUL value NUL │ …      numbers of 32 bits, little-endian
//! ```
//!
//! An empty map is nothing at all, one zero byte, or a count of 0.

/// Bytes of a number.
const NUMBER: usize = 4;

/// A map that a guest has given is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The pairs of a map, read where they lie.
#[derive(Debug)]
pub(crate) struct Pairs<'a> {
    lengths: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Pairs<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if matches!(bytes, [] | [0]) {
            return Ok(Self {
                lengths: &[],
                rest: &[],
            });
        }
        let (count, rest) = take_number(bytes)?;
        let lengths = (count as usize).checked_mul(2 * NUMBER).ok_or(Malformed)?;
        let (lengths, rest) = rest.split_at_checked(lengths).ok_or(Malformed)?;
        Ok(Self { lengths, rest })
    }

    /// How many there are, if the rest is as the lengths say.
    pub(crate) fn len(&self) -> usize {
        self.lengths.len() / (2 * NUMBER)
    }

    fn take_pair(&mut self) -> Result<(&'a [u8], &'a [u8]), Malformed> {
        let (key, lengths) = take_number(self.lengths)?;
        let (value, lengths) = take_number(lengths)?;
        self.lengths = lengths;
        Ok((self.take_text(key)?, self.take_text(value)?))
    }

    /// A text and the NUL behind it.
    fn take_text(&mut self, length: u32) -> Result<&'a [u8], Malformed> {
        let (text, rest) = self
            .rest
            .split_at_checked(length as usize)
            .ok_or(Malformed)?;
        self.rest = rest.strip_prefix(&[0]).ok_or(Malformed)?;
        Ok(text)
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.lengths.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return (!rest.is_empty()).then_some(Err(Malformed));
        }
        let pair = self.take_pair();
        if pair.is_err() {
            (self.lengths, self.rest) = (&[], &[]);
        }
        Some(pair)
    }
}

fn take_number(bytes: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    let (number, rest) = bytes.split_first_chunk().ok_or(Malformed)?;
    Ok((u32::from_le_bytes(*number), rest))
}

/// Writes a map behind what is there. `visit` is called twice, and gives the same pairs each time.
pub(crate) fn write(out: &mut Vec<u8>, visit: impl Fn(&mut dyn FnMut(&[u8], &[u8]))) {
    let start = out.len();
    let mut count = 0u32;
    out.extend([0; NUMBER]);
    visit(&mut |key, value| {
        count += 1;
        out.extend((key.len() as u32).to_le_bytes());
        out.extend((value.len() as u32).to_le_bytes());
    });
    if count == 0 {
        return out.truncate(start);
    }
    out[start..start + NUMBER].copy_from_slice(&count.to_le_bytes());
    visit(&mut |key, value| {
        for text in [key, value] {
            out.extend_from_slice(text);
            out.push(0);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pairs: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, |visit| {
            for (key, value) in pairs {
                visit(key.as_bytes(), value.as_bytes());
            }
        });
        out
    }

    type Read<'a> = Vec<(&'a [u8], &'a [u8])>;

    fn read(bytes: &[u8]) -> Result<Read<'_>, Malformed> {
        Pairs::new(bytes)?.collect()
    }

    #[test]
    fn what_is_written_reads_back() {
        let bytes = written(&[("a", "1"), ("b", "22"), ("", "")]);
        assert_eq!(bytes.len(), 4 + 3 * 8 + 4 + 5 + 2);
        let pairs = Pairs::new(&bytes).unwrap();
        assert_eq!(pairs.len(), 3);
        assert_eq!(
            read(&bytes).unwrap(),
            [(&b"a"[..], &b"1"[..]), (b"b", b"22"), (b"", b"")]
        );
        assert_eq!(written(&[]), b"");
        for empty in [&b""[..], &[0], &[0; 4]] {
            assert_eq!(read(empty).unwrap(), []);
        }
    }

    #[test]
    fn every_cut_and_every_other_length_is_refused() {
        let bytes = written(&[("key", "value"), ("k", "v")]);
        for length in 2..bytes.len() {
            assert_eq!(read(&bytes[..length]), Err(Malformed), "{length}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(read(&longer), Err(Malformed));
        for at in 0..4 + 4 * NUMBER {
            let mut other = bytes.clone();
            other[at] ^= 0x81;
            assert_eq!(read(&other), Err(Malformed), "{at}");
        }
        assert_eq!(read(&[0xff; 40]), Err(Malformed));
    }
}
