//! A server that does as little as one can around a filter: one answer, whatever is asked for, with nothing around it,
//! with the calls of a filter by the engine alone, or with those of one that adds a field.
//!
//! What its answers take more behind a filter is the floor of what they take more in `palisade serve`: both have one
//! thread, and between two requests the kernel's network code has the caches.

use crate::engine::{self, Started, told};
use anyhow::Context;
use rustix::{
    event::epoll::{self, CreateFlags, Event, EventData, EventFlags},
    io::Errno,
};
use std::{
    convert::Infallible,
    io::{ErrorKind, Read, Write},
    mem::MaybeUninit,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::fd::OwnedFd,
};

/// Of each answer, as the files have that the lab asks servers for.
const BODY_BYTES: usize = 1 << 10;
const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 1024\r\netag: \"6b02df79-400\"\r\n";
/// The longest request that is understood; the lab's are a tenth of it.
const MOST_REQUEST_BYTES: usize = 4 << 10;
/// Stands for the listener, where connections have their place.
const LISTENER: u64 = u64::MAX;

/// Instances that are kept, each asked for by a path that begins with its name; by another one nobody is.
struct Filters {
    null: Started,
    header: Started,
}

const NULL: &[u8] = b"/null";
const HEADER: &[u8] = b"/header";

/// Listens at a port of 127.0.0.1 and answers until it is ended.
pub(crate) fn serve(port: u16, null: &[u8], header: &[u8]) -> anyhow::Result<Infallible> {
    let filters = Filters {
        null: told(engine::load(null)?.start())?,
        header: told(engine::load(header)?.start())?,
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).context("host: cannot listen")?;
    Server::new(listener, filters)?.run()
}

struct Server {
    epoll: OwnedFd,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    filters: Filters,
    answer: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    /// What is there of the next request.
    request: Vec<u8>,
}

impl Server {
    fn new(listener: TcpListener, filters: Filters) -> anyhow::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).context("host: epoll_create1(2)")?;
        listener.set_nonblocking(true)?;
        epoll::add(
            &epoll,
            &listener,
            EventData::new_u64(LISTENER),
            EventFlags::IN,
        )?;
        Ok(Self {
            epoll,
            listener,
            connections: Vec::new(),
            filters,
            answer: Vec::new(),
        })
    }

    fn run(mut self) -> anyhow::Result<Infallible> {
        let mut room = [MaybeUninit::<Event>::uninit(); 64];
        loop {
            let (events, _) = match epoll::wait(&self.epoll, &mut room, None) {
                Err(Errno::INTR) => continue,
                waited => waited.context("host: epoll_wait(2)")?,
            };
            for event in events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    place => self.answer(place as usize)?,
                }
            }
        }
    }

    fn accept(&mut self) -> anyhow::Result<()> {
        let (stream, _) = match self.listener.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            accepted => accepted.context("host: accept(2)")?,
        };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let free = self.connections.iter().position(Option::is_none);
        let place = free.unwrap_or(self.connections.len());
        if free.is_none() {
            self.connections.push(None);
        }
        epoll::add(
            &self.epoll,
            &stream,
            EventData::new_u64(place as u64),
            EventFlags::IN,
        )?;
        self.connections[place] = Some(Connection {
            stream,
            request: Vec::new(),
        });
        Ok(())
    }

    /// A connection that fails is the client's affair.
    fn answer(&mut self, place: usize) -> anyhow::Result<()> {
        let Some(connection) = &mut self.connections[place] else {
            return Ok(());
        };
        let goes_on = match connection.read() {
            Ok(Arrival::All) => {
                self.filters.answer(&connection.request, &mut self.answer)?;
                let closes = contains(&connection.request, b"onnection: close");
                connection.request.clear();
                connection.stream.write_all(&self.answer).is_ok() && !closes
            }
            Ok(Arrival::Part) => true,
            Ok(Arrival::End) | Err(_) => false,
        };
        if !goes_on {
            self.connections[place] = None;
        }
        Ok(())
    }
}

/// What has come.
enum Arrival {
    /// A request, to its end.
    All,
    Part,
    /// No more will.
    End,
}

impl Connection {
    fn read(&mut self) -> std::io::Result<Arrival> {
        let mut room = [0; MOST_REQUEST_BYTES];
        let bytes = match self.stream.read(&mut room) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Arrival::Part),
            read => read?,
        };
        self.request.extend_from_slice(&room[..bytes]);
        Ok(match bytes {
            0 => Arrival::End,
            _ if self.request.ends_with(b"\r\n\r\n") => Arrival::All,
            _ if self.request.len() > MOST_REQUEST_BYTES => Arrival::End,
            _ => Arrival::Part,
        })
    }
}

impl Filters {
    /// Writes the whole answer to a request.
    fn answer(&mut self, request: &[u8], answer: &mut Vec<u8>) -> anyhow::Result<()> {
        answer.clear();
        answer.extend_from_slice(HEAD);
        if let Some(filter) = self.asked_by(request) {
            told(filter.pass())?;
            answer.append(&mut filter.head_mut().added);
        }
        answer.extend_from_slice(b"\r\n");
        answer.resize(answer.len() + BODY_BYTES, b'x');
        Ok(())
    }

    fn asked_by(&mut self, request: &[u8]) -> Option<&mut Started> {
        let path = request.strip_prefix(b"GET ")?;
        match path {
            _ if path.starts_with(NULL) => Some(&mut self.null),
            _ if path.starts_with(HEADER) => Some(&mut self.header),
            _ => None,
        }
    }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn module(text: &str) -> Vec<u8> {
        wat::parse_str(text).unwrap()
    }

    fn filters() -> Filters {
        let null = module(crate::NULL_FILTER);
        let header = module(crate::HEADER_FILTER);
        Filters {
            null: told(engine::load(&null).unwrap().start()).unwrap(),
            header: told(engine::load(&header).unwrap().start()).unwrap(),
        }
    }

    /// All but the header filter's are the same, and each request has its own.
    #[test]
    fn a_filter_is_asked_by_its_path() {
        let mut filters = filters();
        let mut answer = Vec::new();
        for (path, adds) in [
            ("/plain/1", false),
            ("/null/1", false),
            ("/header/1", true),
            ("/header/1", true),
            ("/1", false),
        ] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: lab\r\n\r\n");
            filters.answer(request.as_bytes(), &mut answer).unwrap();
            let said = String::from_utf8(answer.clone()).unwrap();
            let fields = said.matches("x-filter: palisade\r\n").count();
            assert_eq!(fields, usize::from(adds), "{path}: {said}");
            let (head, body) = said.split_once("\r\n\r\n").unwrap();
            assert!(
                head.starts_with("HTTP/1.1 200 OK\r\n") && body.len() == BODY_BYTES,
                "{said}"
            );
        }
    }

    /// A request may come in parts, connections are kept, and one that asks so is closed.
    #[test]
    fn connections_are_answered_for_as_long_as_they_want() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let filters = filters();
        // It ends with the test's process.
        thread::spawn(move || Server::new(listener, filters).unwrap().run());
        let mut client = TcpStream::connect(address).unwrap();
        let mut other = TcpStream::connect(address).unwrap();
        let mut answer = vec![0; HEAD.len() + 2 + BODY_BYTES];
        for parts in [
            &["GET /null/1 HTT", "P/1.1\r\n\r\n"][..],
            &["GET / HTTP/1.1\r\n\r\n"],
        ] {
            for part in parts {
                client.write_all(part.as_bytes()).unwrap();
            }
            client.read_exact(&mut answer).unwrap();
            assert!(answer.starts_with(HEAD));
        }
        let closing = b"GET /1 HTTP/1.1\r\nConnection: close\r\n\r\n";
        other.write_all(closing).unwrap();
        let mut all = Vec::new();
        other.read_to_end(&mut all).unwrap();
        assert_eq!(all, answer);
    }
}
