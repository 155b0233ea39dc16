//! Heads of HTTP/1 as they come, before hyper parses them.
//!
//! hyper is more lenient than a server behind may be, and keeps no trace of it: it ends a line at a bare LF, and
//! takes `content-length` away where `transfer-encoding` stands too, or where the same length stands twice. Each has
//! been a way to have two servers see two requests (RFC 9112, sections 2.2, 6.3 and 11.2). So each line is looked at
//! on its way to hyper. To know where heads begin, bodies are counted here as well; whoever counts otherwise misses
//! a refusal, and never changes where hyper sees a request end.
//!
//! ```text
//!         ┌──────────────────── no body ──────────────────┐
//!  line ──┴▶ empty line ─┬▶ length: so many bytes ────────┤
//!  ▲                     └▶ chunked: size, bytes … fields ─┤
//!  └───────────────────────────────────────────────────────┘
//! ```
//!
//! The other way round, hyper knows no minor version above 1, of which RFC 9110, section 6.2, says that it is to be
//! taken as the highest one known: that digit is replaced.

// It looks for a line's end with the processor's vectors: every byte of every head is looked at.
use memchr::memchr;

/// What follows the last byte that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A line of a head.
    Head(Head),
    /// So many bytes of a body.
    Body(u64),
    /// The line of a chunk's size.
    Size,
    /// So many bytes of a chunk, and of the line's end behind it.
    Chunk(u64),
    /// Fields behind the last chunk.
    Trailers,
    /// Nothing that is looked at: hyper refuses what has come, and ends the connection.
    Refused,
}

/// What of a head has been seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Head {
    has_begun: bool,
    length: Option<u64>,
    is_chunked: bool,
    /// A length or a coding that hyper refuses.
    is_odd: bool,
}

/// The heads of one connection.
#[derive(Debug)]
pub(super) struct Heads {
    next: Next,
    /// What has come of a line whose end has not.
    begun: Vec<u8>,
}

/// A head that no two readers need understand alike: it must not go on from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unclear {
    /// Bytes before.
    pub(super) at: usize,
}

impl Heads {
    /// What hyper is given in the place of what is unclear: no head goes on so, and its end is in sight.
    pub(super) const REFUSED: &[u8] = b"\0\r\n\r\n";

    pub(super) fn new() -> Self {
        Self {
            next: Next::Head(Head::default()),
            begun: Vec::new(),
        }
    }

    /// Looks at what comes next.
    pub(super) fn look(&mut self, bytes: &mut [u8]) -> Result<(), Unclear> {
        let mut at = 0;
        while at < bytes.len() {
            at += match self.next {
                Next::Body(rest) | Next::Chunk(rest) => self.skip(rest, bytes.len() - at),
                Next::Refused => return Ok(()),
                _ => match self.look_at_line(&mut bytes[at..]) {
                    Ok(count) => count,
                    Err(Unclear { at: place }) => {
                        self.next = Next::Refused;
                        return Err(Unclear { at: at + place });
                    }
                },
            };
        }
        Ok(())
    }

    fn skip(&mut self, rest: u64, there: usize) -> usize {
        let count = usize::try_from(rest).map_or(there, |rest| rest.min(there));
        let left = rest - count as u64;
        self.next = match self.next {
            Next::Chunk(_) if left == 0 => Next::Size,
            Next::Chunk(_) => Next::Chunk(left),
            _ if left == 0 => Next::Head(Head::default()),
            _ => Next::Body(left),
        };
        count
    }

    /// Looks at a line, or at as much of it as has come.
    fn look_at_line(&mut self, bytes: &mut [u8]) -> Result<usize, Unclear> {
        let end = memchr(b'\n', bytes);
        let line_end = end.unwrap_or(bytes.len());
        let line = &mut bytes[..line_end];
        if matches!(self.next, Next::Head(head) if !head.has_begun) {
            lower_version(&self.begun, line);
        }
        let Some(end) = end else {
            self.begun.extend_from_slice(line);
            return Ok(line.len());
        };
        let begun = std::mem::take(&mut self.begun);
        let is_clear = match begun.is_empty() {
            true => self.take_line(line),
            false => self.take_line(&[&begun, &*line].concat()),
        };
        match is_clear {
            true => Ok(end + 1),
            false => Err(Unclear { at: end }),
        }
    }

    /// Takes a line without its LF. Whether it is clear.
    fn take_line(&mut self, line: &[u8]) -> bool {
        let Some(line) = line.strip_suffix(b"\r") else {
            // A chunk's size hyper refuses itself.
            let is_refused = self.next == Next::Size;
            self.next = Next::Refused;
            return is_refused;
        };
        self.next = match self.next {
            // Empty lines before a request are passed over: RFC 9112, section 2.2.
            Next::Head(head) if line.is_empty() && !head.has_begun => Next::Head(head),
            Next::Head(head) if line.is_empty() => head.body(),
            Next::Head(mut head) => match head.take_field(line) {
                true => Next::Head(head),
                false => return false,
            },
            Next::Size => match parse_size(line) {
                Some(0) => Next::Trailers,
                Some(size) => Next::Chunk(size.saturating_add(2)),
                None => Next::Refused,
            },
            Next::Trailers if line.is_empty() => Next::Head(Head::default()),
            next => next,
        };
        true
    }
}

impl Head {
    /// Takes a line of a head, of which the first is no field. Whether it goes with the others.
    fn take_field(&mut self, line: &[u8]) -> bool {
        if !std::mem::replace(&mut self.has_begun, true) {
            return true;
        }
        if let Some(value) = value_of(line, b"content-length:") {
            let length = parse_digits(value, 10);
            self.is_odd |= length.is_none();
            return !self.is_chunked && self.length.replace(length.unwrap_or(0)).is_none();
        }
        if let Some(value) = value_of(line, b"transfer-encoding:") {
            self.is_odd |= self.is_chunked || !value.eq_ignore_ascii_case(b"chunked");
            self.is_chunked = true;
            return self.length.is_none();
        }
        true
    }

    /// What follows the head.
    fn body(self) -> Next {
        match self.length {
            _ if self.is_odd => Next::Refused,
            _ if self.is_chunked => Next::Size,
            None | Some(0) => Next::Head(Self::default()),
            Some(length) => Next::Body(length),
        }
    }
}

/// The value of a field of this name, which is in small letters and has its colon.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    // Nearly every line is told apart by where its colon is.
    if line.get(name.len() - 1) != Some(&b':') {
        return None;
    }
    let (start, value) = line.split_at(name.len());
    start.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

fn parse_digits(text: &[u8], radix: u32) -> Option<u64> {
    let is_number = text.iter().all(|digit| char::from(*digit).is_digit(radix));
    let text = str::from_utf8(text).ok().filter(|_| is_number)?;
    u64::from_str_radix(text, radix).ok()
}

/// The size in a chunk's first line, which may say more behind it.
fn parse_size(line: &[u8]) -> Option<u64> {
    let is_end = |byte: &u8| matches!(byte, b';' | b' ' | b'\t');
    let end = line.iter().position(is_end).unwrap_or(line.len());
    parse_digits(&line[..end], 16)
}

/// Makes `HTTP/1.2` and above `HTTP/1.1`. `begun` is what has come of the line before; the digit is the last that has, or
/// the last but the CR.
fn lower_version(begun: &[u8], line: &mut [u8]) {
    const VERSION: &[u8] = b" HTTP/1.";
    let (before, there) = (begun.len(), line.len());
    let at = |place: usize| match place.checked_sub(before) {
        None => begun.get(place),
        Some(place) => line.get(place),
    };
    let is_version = |digit: usize| {
        let start = digit.checked_sub(VERSION.len());
        start.is_some_and(|start| {
            (start..)
                .zip(VERSION)
                .all(|(place, byte)| at(place) == Some(byte))
        })
    };
    let end = before + there;
    let digits = [end.checked_sub(1), end.checked_sub(2)]
        .into_iter()
        .flatten();
    let mut digits = digits.filter(|digit| matches!(at(*digit), Some(b'2'..=b'9')));
    let digit = digits.find(|digit| is_version(*digit));
    if let Some(digit) = digit.and_then(|digit| digit.checked_sub(before)) {
        line[digit] = b'1';
    }
}

#[cfg(test)]
mod tests;
