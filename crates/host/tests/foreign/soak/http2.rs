//! As much of HTTP/2 (RFC 9113) as the soak says and hears: frames, byte by byte.

use crate::raw_http::Answer;
use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Frames and their flags.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// CANCEL.
const NOT_NEEDED: u32 = 8;

/// A connection of HTTP/2, known by its preface.
pub(super) struct Http2 {
    stream: UnixStream,
    /// The number of the next request's stream.
    next: u32,
    is_ending: bool,
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Http2 {
    pub(super) fn connect(socket: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(300)))?;
        let window = frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
        stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[]), &window].concat())?;
        Ok(Self {
            stream,
            next: 1,
            is_ending: false,
        })
    }

    /// The server takes no more requests here.
    pub(super) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Asks, and gives it up before the answer.
    pub(super) fn give_up(&mut self, path: &str) -> io::Result<()> {
        let stream = self.begin(path)?;
        self.stream.write_all(&give_up(stream))
    }

    pub(super) fn get(&mut self, path: &str) -> io::Result<Answer> {
        let stream = self.begin(path)?;
        self.hear(stream)
    }

    fn hear(&mut self, stream: u32) -> io::Result<Answer> {
        let mut answer = Answer::new(0, "");
        loop {
            let frame = self.read()?;
            if frame.stream != stream {
                continue;
            }
            match frame.kind {
                // `:status: 200` of HPACK's static table, RFC 7541; another status is not looked at.
                HEADERS if frame.payload.first() == Some(&0x88) => answer.status = 200,
                DATA => answer.body.extend(frame.payload),
                RST_STREAM => return Err(io::ErrorKind::ConnectionReset.into()),
                _ => {}
            }
            if matches!(frame.kind, HEADERS | DATA) && frame.flags & END_STREAM != 0 {
                return Ok(answer);
            }
        }
    }

    fn begin(&mut self, path: &str) -> io::Result<u32> {
        let stream = self.next;
        self.next += 2;
        self.stream.write_all(&ask(path, stream))?;
        Ok(stream)
    }

    /// The next frame that is no matter of the connection's.
    fn read(&mut self) -> io::Result<Frame> {
        loop {
            let frame = self.read_any()?;
            match (frame.kind, frame.flags & ACK) {
                (SETTINGS, 0) => self.stream.write_all(&self::frame(SETTINGS, ACK, 0, &[]))?,
                (PING, 0) => {
                    let pong = self::frame(PING, ACK, 0, &frame.payload);
                    self.stream.write_all(&pong)?;
                }
                (GOAWAY, _) => self.is_ending = true,
                _ => return Ok(frame),
            }
        }
    }

    fn read_any(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head)?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload)?;
        Ok(Frame {
            kind,
            flags,
            stream: u32::from_be_bytes(stream),
            payload,
        })
    }
}

/// Asks with these fields, written out, on a connection of its own.
pub(crate) fn ask_with(socket: &Path, fields: &[(&str, &str)]) -> io::Result<Answer> {
    let mut client = Http2::connect(socket)?;
    let mut head = Vec::new();
    for (name, value) in fields {
        head.push(0);
        for text in [name, value] {
            head.push(u8::try_from(text.len()).expect("a short text"));
            head.extend(text.as_bytes());
        }
    }
    let ask = frame(HEADERS, END_STREAM | END_HEADERS, 1, &head);
    client.stream.write_all(&ask)?;
    client.hear(1)
}

/// GET, http, `:authority: a` and `:path`, nothing indexed.
fn ask(path: &str, stream: u32) -> Vec<u8> {
    let length = u8::try_from(path.len()).expect("a short path");
    let head = [&[0x82, 0x86, 0x01, 1, b'a', 0x04, length], path.as_bytes()].concat();
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &head)
}

fn give_up(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &NOT_NEEDED.to_be_bytes())
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame");
    let [_, a, b, c] = length.to_be_bytes();
    let mut frame = vec![a, b, c, kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Requests that are given up at once, more than the server puts up with. Whether it ended the connection.
pub(super) fn flood_with_resets(socket: &Path) -> io::Result<bool> {
    const MOST: u32 = 2_000;
    let mut client = Http2::connect(socket)?;
    let streams = (0..MOST).map(|number| 2 * number + 1);
    let asks: Vec<u8> = streams
        .flat_map(|stream| [ask("/component", stream), give_up(stream)].concat())
        .collect();
    // It may have ended before it has read all of them.
    let is_sent = client.stream.write_all(&asks).is_ok();
    while is_sent && !client.is_ending {
        match client.read() {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(_) => break,
        }
    }
    Ok(true)
}
