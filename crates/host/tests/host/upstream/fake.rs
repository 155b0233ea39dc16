//! Servers that do what a test says, and no more.

use super::Stream;
use palisade_host::config::Server;
use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

/// Runs what a worker would, on this thread.
pub(crate) fn on_worker<T>(act: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let limit = Duration::from_secs(120);
    let act = async { tokio::time::timeout(limit, act).await.expect("in time") };
    tokio::task::LocalSet::new().block_on(&runtime, act)
}

/// An address that refuses connections.
pub(super) fn nobody() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    internet(listener.local_addr().unwrap().port())
}

fn internet(port: u16) -> Server {
    Server::Internet {
        host: "127.0.0.1".into(),
        port,
        tls: false,
    }
}

/// What was seen of all connections.
#[derive(Debug, Default)]
struct Seen {
    heads: String,
    requests: usize,
    connections: usize,
    ended: usize,
    poured: usize,
    may_go: bool,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().unwrap());
        self.changed.notify_all();
    }

    fn wait(&self, until: impl Fn(&Seen) -> bool) {
        let seen = self.seen.lock().unwrap();
        let limit = Duration::from_secs(60);
        let (_seen, waited) = self
            .changed
            .wait_timeout_while(seen, limit, |seen| !until(seen))
            .unwrap();
        assert!(!waited.timed_out(), "the server is stuck");
    }
}

/// A server, with a thread for each connection.
pub(super) struct Fake {
    shared: Arc<Shared>,
    address: Server,
    _folder: Option<tempfile::TempDir>,
}

impl Fake {
    pub(super) fn start(act: impl Fn(Connection) + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = internet(listener.local_addr().unwrap().port());
        let accept = move || listener.accept().map(|(stream, _)| stream);
        Self::run(address, None, accept, act)
    }

    pub(super) fn start_local(act: impl Fn(Connection) + Clone + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let accept = move || listener.accept().map(|(stream, _)| stream);
        Self::run(Server::Unix(path), Some(folder), accept, act)
    }

    fn run<S: Peer>(
        address: Server,
        folder: Option<tempfile::TempDir>,
        accept: impl Fn() -> std::io::Result<S> + Send + 'static,
        act: impl Fn(Connection) + Clone + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        // It ends with the test's process.
        thread::spawn(move || {
            while let Ok(stream) = accept() {
                stream.bound();
                of_thread.change(|seen| seen.connections += 1);
                let connection = Connection {
                    stream: Box::new(stream),
                    shared: Arc::clone(&of_thread),
                    held: Vec::new(),
                };
                let act = act.clone();
                thread::spawn(move || act(connection));
            }
        });
        Self {
            shared,
            address,
            _folder: folder,
        }
    }

    pub(super) fn address(&self) -> Server {
        self.address.clone()
    }

    fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.shared.seen.lock().unwrap())
    }

    /// How many connections there were.
    pub(super) fn connections(&self) -> usize {
        self.look(|seen| seen.connections)
    }

    /// Waits until none is open, while the worker goes on.
    pub(super) async fn ends(&self) {
        while self.look(|seen| seen.connections > seen.ended) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(super) fn requests(&self) -> usize {
        self.look(|seen| seen.requests)
    }

    /// All heads of requests, one behind the other.
    pub(super) fn seen(&self) -> String {
        self.look(|seen| seen.heads.clone())
    }

    /// Bytes that [`Connection::pour`] got rid of.
    pub(super) fn poured(&self) -> usize {
        self.look(|seen| seen.poured)
    }

    /// Waits until the server has closed all its connections, and keeps the worker from being told.
    pub(super) fn wait_for_ends(&self) {
        self.shared.wait(|seen| seen.ended == seen.connections);
    }

    /// Lets connections go on that wait for it.
    pub(super) fn go(&self) {
        self.shared.change(|seen| seen.may_go = true);
    }
}

/// What a stream must do for a test.
trait Peer: Stream + 'static {
    /// No test waits for ever.
    fn bound(&self);
}

const LIMIT: Option<Duration> = Some(Duration::from_secs(60));

impl Peer for TcpStream {
    fn bound(&self) {
        self.set_read_timeout(LIMIT).unwrap();
        self.set_write_timeout(LIMIT).unwrap();
    }
}

impl Peer for UnixStream {
    fn bound(&self) {
        self.set_read_timeout(LIMIT).unwrap();
        self.set_write_timeout(LIMIT).unwrap();
    }
}

/// One connection, from the server's end.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    shared: Arc<Shared>,
    held: Vec<u8>,
}

impl Connection {
    /// The next request's head, with the body that its `content-length` tells of read too; `None` at the end.
    pub(super) fn head(&mut self) -> Option<String> {
        let length = loop {
            let end = self.held.windows(4).position(|four| four == b"\r\n\r\n");
            match end {
                Some(end) => break end + 4,
                None => self.read()?,
            }
        };
        let head = String::from_utf8(self.held.drain(..length).collect()).unwrap();
        let field = head.to_lowercase();
        let field = field
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let body: usize = field.map_or(0, |length| length.parse().unwrap());
        while self.held.len() < body {
            self.read()?;
        }
        self.held.drain(..body);
        self.shared.change(|seen| {
            seen.heads += &head;
            seen.requests += 1;
        });
        Some(head)
    }

    fn read(&mut self) -> Option<()> {
        let mut bytes = [0; 16 << 10];
        match self.stream.read(&mut bytes) {
            Ok(0) => None,
            Ok(length) => {
                self.held.extend_from_slice(&bytes[..length]);
                Some(())
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Whether the client is still there; one that is gone does not mind.
    pub(super) fn say(&mut self, text: &str) -> bool {
        self.stream.write_all(text.as_bytes()).is_ok()
    }

    /// Waits until the client has closed its end.
    pub(super) fn wait_for_end(&mut self) {
        while self.read().is_some() {
            self.held.clear();
        }
    }

    pub(super) fn wait_for_go(&self) {
        self.shared.wait(|seen| seen.may_go);
    }

    /// Reads a chunked body to its end.
    pub(super) fn read_chunks(&mut self) {
        while !self.held.ends_with(b"0\r\n\r\n") {
            let kept = self.held.len().saturating_sub(8);
            self.held.drain(..kept);
            self.read().expect("the rest of the body");
        }
        self.held.clear();
    }

    /// Reads what is there.
    pub(super) fn read_some(&mut self) {
        self.read();
        self.held.clear();
    }

    /// Writes so many bytes, as fast as somebody takes them.
    pub(super) fn pour(&mut self, bytes: usize) {
        static PART: [u8; 64 << 10] = [b'y'; 64 << 10];
        let mut left = bytes;
        while left > 0 {
            let part = left.min(PART.len());
            if self.stream.write_all(&PART[..part]).is_err() {
                return;
            }
            left -= part;
            self.shared.change(|seen| seen.poured += part);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The stream first: whoever sees the count finds it closed.
        self.stream = Box::new(std::io::Cursor::new(Vec::new()));
        self.shared.change(|seen| seen.ended += 1);
    }
}
