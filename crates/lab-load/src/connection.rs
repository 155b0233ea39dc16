//! A connection that is kept, and the answers on it.

use crate::{
    address::Address,
    failures::{Expected, Failure},
};
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    os::fd::{AsFd, BorrowedFd},
};

/// One connection. Requests on it are one at a time.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    answer: Answer,
    /// Bytes of the request that are sent.
    sent: usize,
}

/// An answer that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    /// The server closes the connection.
    pub(crate) is_last: bool,
}

impl Connection {
    pub(crate) fn open(address: &Address) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address.server).map_err(|_| Failure::Connect)?;
        let is_set = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_nonblocking(true));
        is_set.map_err(|_| Failure::Connect)?;
        Ok(Self {
            stream,
            answer: Answer::default(),
            sent: 0,
        })
    }

    /// Asks. A request is small: it is sent whole, or the server has stopped to read.
    pub(crate) fn send(&mut self, address: &Address) -> Result<(), Failure> {
        match self.begin(address)? {
            true => Ok(()),
            false => Err(Failure::Broken),
        }
    }

    /// Begins to ask with a request of any size; whether it is sent whole.
    pub(crate) fn begin(&mut self, address: &Address) -> Result<bool, Failure> {
        self.answer = Answer::default();
        self.sent = 0;
        self.send_more(address)
    }

    /// Goes on with it, as far as there is room; whether it is sent whole now.
    pub(crate) fn send_more(&mut self, address: &Address) -> Result<bool, Failure> {
        while let rest @ [_, ..] = &address.request[self.sent..] {
            match self.stream.write(rest) {
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Failure::Broken),
            }
        }
        Ok(true)
    }

    /// Takes what has come; gives the answer once it is over.
    pub(crate) fn receive(&mut self, part: &mut [u8]) -> Result<Option<Answered>, Failure> {
        loop {
            match self.stream.read(part) {
                Ok(0) => return self.answer.end().map(Some),
                Ok(length) => {
                    if let Some(answered) = self.answer.take(&part[..length])? {
                        return Ok(Some(answered));
                    }
                    // Less than there was room for: more would have to come first.
                    if length < part.len() {
                        return Ok(None);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Failure::Broken),
            }
        }
    }
}

impl Answered {
    /// Whether it is right.
    pub(crate) fn check(&self, expected: &mut Expected) -> Result<(), Failure> {
        expected.check(self.status, self.body_bytes)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// An answer that comes in, in parts of any size.
#[derive(Debug, Default)]
struct Answer {
    /// What came and is not understood yet: a head, or the line before a chunk.
    pending: Vec<u8>,
    status: u16,
    is_last: bool,
    body_bytes: u64,
    rest: Rest,
}

/// What is to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rest {
    #[default]
    Head,
    /// So many bytes of the body.
    Sized(u64),
    /// The line before a chunk.
    ChunkLine,
    /// So many bytes of a chunk, and the end of its line.
    Chunk(u64),
    /// Lines after the last chunk, up to an empty one.
    Trailers,
    /// The body, up to the end of the connection.
    ToEnd,
}

/// A head longer than this is no answer of a server that is measured.
const MOST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;

impl Answer {
    /// Takes a part; gives the answer once it is over.
    fn take(&mut self, mut part: &[u8]) -> Result<Option<Answered>, Failure> {
        loop {
            let (taken, is_over) = match self.rest {
                Rest::Head => self.take_head(part)?,
                Rest::Sized(left) => {
                    let taken = self.take_body(part, left);
                    self.rest = Rest::Sized(left - taken as u64);
                    (taken, left == taken as u64)
                }
                Rest::ChunkLine => self.take_chunk_line(part)?,
                Rest::Chunk(left) => {
                    let body = self.take_body(part, left.saturating_sub(LINE_END));
                    // Of the end of the line as much as is there.
                    let end = (left - body as u64).min((part.len() - body) as u64);
                    let taken = match left - body as u64 <= LINE_END {
                        true => body + end as usize,
                        false => body,
                    };
                    self.rest = match left - taken as u64 {
                        0 => Rest::ChunkLine,
                        left => Rest::Chunk(left),
                    };
                    (taken, false)
                }
                Rest::Trailers => self.take_trailer(part)?,
                Rest::ToEnd => (self.take_body(part, u64::MAX), false),
            };
            part = &part[taken..];
            if is_over {
                // Nobody asked for more than one answer.
                return match part.is_empty() {
                    true => Ok(Some(self.answered())),
                    false => Err(Failure::Broken),
                };
            }
            if part.is_empty() {
                return Ok(None);
            }
        }
    }

    /// The connection has ended.
    fn end(&mut self) -> Result<Answered, Failure> {
        match self.rest {
            Rest::ToEnd => Ok(self.answered()),
            _ => Err(Failure::Broken),
        }
    }

    fn answered(&self) -> Answered {
        Answered {
            status: self.status,
            body_bytes: self.body_bytes,
            is_last: self.is_last,
        }
    }

    /// At most `left` bytes of a body; gives how many.
    fn take_body(&mut self, part: &[u8], left: u64) -> usize {
        let taken = left.min(part.len() as u64);
        self.body_bytes += taken;
        taken as usize
    }

    /// Gives how many bytes of the part were its own, and whether nothing follows.
    fn take_head(&mut self, part: &[u8]) -> Result<(usize, bool), Failure> {
        let before = self.pending.len();
        // A head mostly comes whole: it is copied only if it does not.
        let whole = match before {
            0 => part,
            _ => {
                self.pending.extend_from_slice(part);
                &self.pending
            }
        };
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut head = httparse::Response::new(&mut headers);
        let parsed = head.parse(whole).map_err(|_| Failure::Broken)?;
        let httparse::Status::Complete(length) = parsed else {
            if whole.len() > MOST_HEAD {
                return Err(Failure::Broken);
            }
            if before == 0 {
                self.pending.extend_from_slice(part);
            }
            return Ok((part.len(), false));
        };
        let status = head.code.unwrap_or(0);
        let is_old = head.version == Some(0);
        let (rest, is_last) = framing(head.headers)?;
        self.status = status;
        self.is_last = is_last || is_old || rest == Rest::ToEnd;
        self.rest = rest;
        self.pending.clear();
        Ok((length - before, rest == Rest::Sized(0)))
    }

    /// `SIZE CR LF`, in hexadecimal digits.
    fn take_chunk_line(&mut self, part: &[u8]) -> Result<(usize, bool), Failure> {
        let Some(taken) = self.take_line(part)? else {
            return Ok((part.len(), false));
        };
        let size = httparse::parse_chunk_size(&self.pending);
        let Ok(httparse::Status::Complete((_, size))) = size else {
            return Err(Failure::Broken);
        };
        self.pending.clear();
        self.rest = match size {
            0 => Rest::Trailers,
            size => Rest::Chunk(size + LINE_END),
        };
        Ok((taken, false))
    }

    fn take_trailer(&mut self, part: &[u8]) -> Result<(usize, bool), Failure> {
        let Some(taken) = self.take_line(part)? else {
            return Ok((part.len(), false));
        };
        let is_empty = self.pending.len() as u64 == LINE_END;
        self.pending.clear();
        Ok((taken, is_empty))
    }

    /// Adds what belongs to a line; gives how much once the line is whole.
    fn take_line(&mut self, part: &[u8]) -> Result<Option<usize>, Failure> {
        let end = part.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(part.len(), |end| end + 1);
        self.pending.extend_from_slice(&part[..taken]);
        if self.pending.len() > MOST_HEAD {
            return Err(Failure::Broken);
        }
        Ok(end.map(|_| taken))
    }
}

/// Bytes of CR and LF.
const LINE_END: u64 = 2;

/// How a body is told apart from what follows, and whether the server closes the connection after it.
fn framing(headers: &[httparse::Header<'_>]) -> Result<(Rest, bool), Failure> {
    let mut rest = Rest::ToEnd;
    let mut is_last = false;
    for header in headers {
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = str::from_utf8(header.value).ok();
            let length = length.and_then(|length| length.parse().ok());
            rest = Rest::Sized(length.ok_or(Failure::Broken)?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            rest = Rest::ChunkLine;
        } else if header.name.eq_ignore_ascii_case("connection") {
            is_last = header.value.eq_ignore_ascii_case(b"close");
        }
    }
    Ok((rest, is_last))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
        3\r\nhel\r\nb;name=value\r\nlo, world!!\r\n0\r\nx: y\r\n\r\n";

    /// The same bytes in parts of every size.
    fn taken_in_parts(bytes: &str) -> Vec<Result<Option<Answered>, Failure>> {
        let of_size = |size: usize| {
            let mut answer = Answer::default();
            let mut parts = bytes.as_bytes().chunks(size).peekable();
            let mut last = Ok(None);
            while let Some(part) = parts.next() {
                last = answer.take(part);
                assert!(
                    parts.peek().is_none() || last == Ok(None),
                    "{size}: {last:?} before the end"
                );
            }
            last
        };
        (1..=bytes.len()).map(of_size).collect()
    }

    #[test]
    fn an_answer_is_over_at_its_last_byte_however_it_comes() {
        for (bytes, body_bytes, is_last) in [(SIZED, 5, false), (CHUNKED, 14, true)] {
            let answered = Answered {
                status: 200,
                body_bytes,
                is_last,
            };
            for one in taken_in_parts(bytes) {
                assert_eq!(one, Ok(Some(answered)), "{bytes}");
            }
        }
    }

    #[test]
    fn an_empty_answer_is_over_with_its_head() {
        let mut answer = Answer::default();
        let empty = b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n";
        let answered = answer.take(empty).unwrap().unwrap();
        assert_eq!((answered.status, answered.body_bytes), (204, 0));
    }

    #[test]
    fn an_answer_without_a_length_ends_with_the_connection() {
        let mut answer = Answer::default();
        assert_eq!(answer.take(b"HTTP/1.0 200 OK\r\n\r\nall"), Ok(None));
        let answered = answer.end().unwrap();
        assert!(answered.is_last && answered.body_bytes == 3);
    }

    #[test]
    fn a_connection_that_ends_early_is_no_answer() {
        for whole in [SIZED, CHUNKED] {
            for length in 0..whole.len() {
                let mut answer = Answer::default();
                assert_eq!(answer.take(&whole.as_bytes()[..length]), Ok(None));
                assert_eq!(answer.end(), Err(Failure::Broken), "{length} of {whole}");
            }
        }
    }

    #[test]
    fn what_is_no_answer_is_broken() {
        for bytes in [
            "SSH-2.0-OpenSSH\r\n\r\n".to_owned(),
            "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n".to_owned(),
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n".to_owned(),
            format!("{SIZED}HTTP/1.1"),
        ] {
            let taken = Answer::default().take(bytes.as_bytes());
            assert_eq!(taken, Err(Failure::Broken), "{bytes}");
        }
        let long = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(MOST_HEAD));
        assert_eq!(
            Answer::default().take(long.as_bytes()),
            Err(Failure::Broken)
        );
    }
}
