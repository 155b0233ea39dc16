//! As much of HTTP/1.1 as tests want to say and to hear, byte by byte: no library stands between them and the server.
#![allow(dead_code, reason = "each suite uses its part")]

use std::{
    fmt,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::Duration,
};

/// Longer than the server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(300);

/// A request; names of header fields in small letters. Trailers are among them, with `trailer ` before their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// An answer, as [`Request`].
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.into(),
            path: path.into(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The first value of a field.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        value(&self.headers, name)
    }
}

impl Answer {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The first value of a field.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        value(&self.headers, name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether it is the last of its connection.
    pub(crate) fn closes(&self) -> bool {
        self.value("connection") == Some("close")
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Answer")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .field("body", &self.text())
            .finish()
    }
}

fn value<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(one, _)| one == name)
        .map(|(_, value)| value.as_str())
}

/// Asks once, on a connection of its own.
pub(crate) fn exchange(socket: &Path, request: &Request) -> io::Result<Answer> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let start = start_of(request, "connection: close\r\n");
    // It may answer before it has all of the request, and take no more of that until the answer is read.
    let (headers, body) = (request.headers.clone(), request.body.clone());
    let mut writer = stream.try_clone()?;
    thread::spawn(move || write_message(&mut writer, &start, &headers, &body));
    read_answer(&mut BufReader::new(stream), true)
}

/// The first line, and the fields that a request must have.
fn start_of(request: &Request, more: &str) -> String {
    let host = match request.value("host") {
        Some(_) => "",
        None => "host: localhost\r\n",
    };
    let length = match request.body.len() {
        0 => String::new(),
        bytes => format!("content-length: {bytes}\r\n"),
    };
    let Request { method, path, .. } = request;
    format!("{method} {path} HTTP/1.1\r\n{host}{length}{more}")
}

pub(crate) trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// A connection, over which everything that is sent is written as it is.
pub(crate) struct Client {
    stream: BufReader<Box<dyn Stream>>,
    tcp: Option<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address, PATIENCE).expect("the server accepts")
    }

    pub(crate) fn try_connect(address: SocketAddr, time: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, time)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let tcp = stream.try_clone()?;
        Ok(Self {
            tcp: Some(tcp),
            ..Self::over(stream)
        })
    }

    pub(crate) fn connect_unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self::over(stream))
    }

    pub(crate) fn over(stream: impl Stream + 'static) -> Self {
        Self {
            stream: BufReader::new(Box::new(stream)),
            tcp: None,
        }
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        self.tcp.as_ref().expect("a TCP connection")
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the server reads");
    }

    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes.as_ref())?;
        stream.flush()
    }

    /// Says that nothing more is sent.
    pub(crate) fn end(&self) {
        self.tcp()
            .shutdown(Shutdown::Write)
            .expect("the connection is open");
    }

    /// Asks for a path and reads the answer.
    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.try_get(path).expect("an answer")
    }

    pub(crate) fn try_get(&mut self, path: &str) -> io::Result<Answer> {
        self.try_send(get(path))?;
        self.try_answer()
    }

    /// Asks, and reads the answer.
    pub(crate) fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        let start = start_of(request, "");
        let stream = self.stream.get_mut();
        write_message(stream, &start, &request.headers, &request.body)?;
        stream.flush()?;
        self.try_answer()
    }

    /// Reads an answer that says how long it is.
    pub(crate) fn answer(&mut self) -> Answer {
        self.try_answer().expect("an answer")
    }

    pub(crate) fn try_answer(&mut self) -> io::Result<Answer> {
        read_answer(&mut self.stream, false)
    }

    /// Reads exactly so many bytes.
    pub(crate) fn read_exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Everything until the server closes; an error if it resets.
    pub(crate) fn read_to_end(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A request for a path.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n")
}

fn read_answer(reader: &mut impl BufRead, to_end: bool) -> io::Result<Answer> {
    let (start, mut headers) = read_head(reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(Answer {
        status: status(&start)?,
        body: read_body(reader, &mut headers, to_end)?,
        headers,
    })
}

fn status(start: &str) -> io::Result<u16> {
    let word = start.split(' ').nth(1);
    let status = word.and_then(|word| word.parse().ok());
    status.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

pub(crate) fn write_message(
    to: &mut impl Write,
    start: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> io::Result<()> {
    let mut message = start.to_owned();
    for (name, value) in headers {
        message += &format!("{name}: {value}\r\n");
    }
    message += "\r\n";
    to.write_all(message.as_bytes())?;
    to.write_all(body)
}

pub(crate) type Head = (String, Vec<(String, String)>);

/// `None`: the connection ended before it.
pub(crate) fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Head>> {
    let mut start = String::new();
    if reader.read_line(&mut start)? == 0 {
        return Ok(None);
    }
    Ok(Some((start.trim_end().to_owned(), read_fields(reader)?)))
}

/// To the empty line behind them.
fn read_fields(reader: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        match line.split_once(':') {
            Some((name, value)) => headers.push((name.to_lowercase(), value.trim().to_owned())),
            None if line.is_empty() => return Ok(headers),
            None => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// `to_end`: without a length it is all that comes.
pub(crate) fn read_body(
    reader: &mut impl BufRead,
    headers: &mut Vec<(String, String)>,
    to_end: bool,
) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if value(headers, "transfer-encoding").is_some() {
        while read_chunk(reader, &mut body)? {}
        let trailers = read_fields(reader)?.into_iter();
        headers.extend(trailers.map(|(name, value)| (format!("trailer {name}"), value)));
    } else if let Some(length) = value(headers, "content-length") {
        let length = length.parse().map_err(|_| io::ErrorKind::InvalidData)?;
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
    } else if to_end {
        reader.read_to_end(&mut body)?;
    }
    Ok(body)
}

fn read_chunk(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<bool> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let bytes =
        usize::from_str_radix(line.trim_end(), 16).map_err(|_| io::ErrorKind::InvalidData)?;
    if bytes == 0 {
        return Ok(false);
    }
    let start = body.len();
    body.resize(start + bytes + 2, 0);
    reader.read_exact(&mut body[start..])?;
    body.truncate(start + bytes);
    Ok(true)
}
