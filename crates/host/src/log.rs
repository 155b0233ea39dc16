//! Lines for people and machines to read.
//!
//! ```text
//!  workers, guests ──try──▶ bounded queue ──▶ one thread ──▶ stderr, the server's file, guests' own files
//! ```
//!
//! Nobody waits for a log: what the queue or a sink does not take is dropped and counted, whether the disk
//! is full, nobody reads the pipe, or somebody holds the terminal. Once a sink takes lines again, it is told
//! how many it lost. A guest's text can neither end a line nor act on a terminal.

mod line;
mod sink;
#[cfg(test)]
mod tests;
mod writer;

pub use line::{Line, Value};

use crate::{
    config,
    kinds::{BrokenBy, Format, GuestKind, Level},
    quota::Quota,
};
use http::{Method, StatusCode};
use line::Origin;
pub(crate) use line::Rfc3339;
use palisade_wall::{
    Process,
    journal::{self, Entry as Event, Judgement},
};
use sink::Sink;
use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, SyncSender, TrySendError},
    },
    time::{Duration, Instant, SystemTime},
};

/// Lines that wait at one time.
const MOST_LINES: usize = 8192;
/// Bytes that wait at one time, about.
const MOST_BYTES: usize = 8 << 20;
/// Of these, what one guest's lines may take: a noisy one loses its own.
const MOST_BYTES_OF_GUEST: usize = 1 << 20;
/// What a tenant's line counts at least: those of all tenants together are bounded by their bytes, and never by the
/// places of the queue, which are the server's lines', too.
const LEAST_BYTES_OF_TENANT: usize = MOST_BYTES / MOST_LINES;

/// What is told of a request that a filter or a component may not send.
pub(crate) fn denied_request(target: String, why: String) -> Event {
    Event::Verdict {
        verdict: Judgement::Deny,
        call: "http".into(),
        target,
        process: Process::new(0, b""),
        reason: Some(why),
        grant: None,
        probe: false,
        count: 1,
    }
}

/// A sink for lines can't be opened.
#[derive(Debug, thiserror::Error)]
#[error("host: cannot write the log {}: {source}", path.display())]
pub struct LogError {
    path: PathBuf,
    source: std::io::Error,
}

/// Where the lines of the server, or of one guest, go. Clones write to the same sink.
#[derive(Clone, Debug)]
pub struct Log {
    queue: SyncSender<Order>,
    common: Arc<Common>,
    origin: Arc<Origin>,
}

/// Settings of a log whose file is open.
#[derive(Debug)]
pub struct Prepared {
    settings: config::Log,
    opened: Option<sink::Opened>,
}

/// What all logs of a server have in common.
#[derive(Debug)]
struct Common {
    queued_bytes: AtomicUsize,
    dropped: AtomicU64,
    level: AtomicU8,
    access: AtomicBool,
    events: AtomicBool,
    /// What events are counted from.
    begun: Instant,
    /// Files shall be opened anew.
    reopen: AtomicBool,
    /// Where lines go that have no sink of their own.
    server: Arc<Sink>,
    /// Every other file that is open, by its path and the folder that it must lie in.
    files: Mutex<BTreeMap<Place, Weak<Sink>>>,
    /// How many of them there were when those that are gone were last forgotten.
    open_files: AtomicUsize,
}

/// A file's path, and the folder that it must lie in.
type Place = (PathBuf, Option<PathBuf>);

/// What the writer is asked to do.
#[derive(Debug)]
enum Order {
    Write(Box<Entry>),
    /// To open files anew.
    Reopen,
    /// To answer once what stands before this is passed on, and whether all was taken.
    Flush(SyncSender<bool>),
}

/// A line on its way.
#[derive(Debug)]
struct Entry {
    time: SystemTime,
    origin: Arc<Origin>,
    line: Line,
    bytes: usize,
}

/// A request that is over, as the access log tells it.
#[derive(Clone, Debug)]
pub struct Access {
    /// The request's number.
    pub request: u64,
    /// Who asked; nothing for clients of a Unix socket.
    pub client: Option<IpAddr>,
    /// What was asked for.
    pub method: Method,
    /// The path as it was asked for, without the query, which may hold what nobody else should read.
    pub path: Box<str>,
    /// The response's status, if its head went out.
    pub status: Option<StatusCode>,
    /// Bytes of the response's body that were handed to the connection.
    pub bytes: u64,
    /// From the request's head to the response's end.
    pub time: Duration,
    /// From the request's head to the response's, where the two were not there at one time.
    pub first: Option<Duration>,
    /// The route's name; empty without one.
    pub route: Box<str>,
    /// Who broke it off; nothing if it was answered as a whole.
    pub(crate) broken_by: Option<BrokenBy>,
}

impl Access {
    /// Of a request of which no more is known than its head.
    pub fn new(request: u64, client: Option<IpAddr>, method: Method, path: &str) -> Self {
        Self {
            request,
            client,
            method,
            path: path.into(),
            status: None,
            bytes: 0,
            time: Duration::ZERO,
            first: None,
            route: Box::default(),
            broken_by: None,
        }
    }
}

impl Log {
    /// Opens the server's log and starts its writer.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn start(settings: &config::Log) -> Result<Self, LogError> {
        let sink = Sink::open(settings.path.as_deref(), None, settings.format)?;
        Ok(Self::to(sink, settings))
    }

    fn to(sink: Sink, settings: &config::Log) -> Self {
        let sink = Arc::new(sink);
        let common = Arc::new(Common {
            queued_bytes: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            level: AtomicU8::new(settings.level as u8),
            access: AtomicBool::new(settings.access),
            events: AtomicBool::new(settings.events),
            begun: Instant::now(),
            reopen: AtomicBool::new(false),
            server: sink.clone(),
            files: Mutex::default(),
            open_files: AtomicUsize::new(0),
        });
        let (queue, orders) = mpsc::sync_channel(MOST_LINES);
        writer::start(orders, common.clone());
        let origin = Arc::new(Origin::new(None, sink));
        Self {
            queue,
            common,
            origin,
        }
    }

    /// The log of a guest, with a file of its own where `path` is given, below a folder that it must be `within`.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn of_guest(
        &self,
        kind: GuestKind,
        name: &str,
        path: Option<&Path>,
        within: Option<&Path>,
    ) -> Result<Self, LogError> {
        let sink = match path {
            Some(path) => self.common.open(path, within)?,
            None => self.common.server.clone(),
        };
        Ok(Self {
            queue: self.queue.clone(),
            common: self.common.clone(),
            origin: Arc::new(Origin::new(Some((kind, name.into())), sink)),
        })
    }

    /// The same log, whose lines count for this tenant.
    #[must_use]
    pub(crate) fn of_tenant(self, quota: &Arc<Quota>) -> Self {
        Self {
            origin: Arc::new(self.origin.of_tenant(quota)),
            ..self
        }
    }

    /// Opens what other settings ask for, and changes nothing yet.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn prepare(&self, settings: &config::Log) -> Result<Prepared, LogError> {
        Ok(Prepared {
            opened: self.common.server.prepare(settings.path.as_deref())?,
            settings: settings.clone(),
        })
    }

    /// Goes on with settings that were prepared.
    pub fn apply(&self, prepared: Prepared) {
        let Prepared { settings, opened } = prepared;
        self.common.server.redirect(opened, settings.format);
        let common = &self.common;
        common.level.store(settings.level as u8, Ordering::Relaxed);
        common.access.store(settings.access, Ordering::Relaxed);
        common.events.store(settings.events, Ordering::Relaxed);
    }

    /// Whether lines of this level are written at all.
    pub fn wants(&self, level: Level) -> bool {
        level as u8 >= self.common.level.load(Ordering::Relaxed)
    }

    /// Whether a line is wanted for each request.
    pub fn wants_access(&self) -> bool {
        self.common.access.load(Ordering::Relaxed)
    }

    /// Writes a line, or drops and counts it.
    pub fn write(&self, line: Line) {
        if !self.wants(line.level) {
            return;
        }
        self.send(line);
    }

    /// Whether a line is wanted for what happens to guests.
    pub fn wants_events(&self) -> bool {
        self.common.events.load(Ordering::Relaxed)
    }

    /// Writes a line for what has happened to the guest, where such lines are wanted.
    pub fn event(&self, entry: Event) {
        if self.wants_events() {
            let at_us = self.common.begun.elapsed().as_micros();
            self.send(Line::of_event(&journal::Line {
                at_us: u64::try_from(at_us).unwrap_or(u64::MAX),
                entry,
            }));
        }
    }

    /// Writes the line of a request, where such lines are wanted.
    pub fn access(&self, access: Access) {
        if self.wants_access() {
            self.send(Line::of_access(access));
        }
    }

    fn send(&self, line: Line) {
        let bytes = self.origin.cost(line.bytes());
        let most_of_all = match self.origin.is_guest() {
            // The server can still say what is wrong when guests have filled the queue.
            true => MOST_BYTES * 3 / 4,
            false => MOST_BYTES,
        };
        let queued = self.common.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let own = self.origin.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        // What is left is everybody's: of those who want it all each has a part.
        let left = most_of_all.saturating_sub(queued);
        let of_tenant = self.origin.queue_of_tenant(bytes);
        let is_noisy =
            self.origin.is_guest() && own + bytes > MOST_BYTES_OF_GUEST || of_tenant > left;
        let entry = Box::new(Entry {
            time: SystemTime::now(),
            origin: self.origin.clone(),
            line,
            bytes,
        });
        let is_refused = || !self.origin.allows_line(bytes);
        if queued + bytes > most_of_all || is_noisy || is_refused() {
            return self.common.drop_entry(&entry);
        }
        if let Err(
            TrySendError::Full(Order::Write(entry))
            | TrySendError::Disconnected(Order::Write(entry)),
        ) = self.queue.try_send(Order::Write(entry))
        {
            self.common.drop_entry(&entry);
        }
    }

    /// Lines of the server and of all guests that were not written.
    pub fn dropped(&self) -> u64 {
        self.common.dropped.load(Ordering::Relaxed)
    }

    /// Opens files anew: somebody has moved them away.
    pub fn reopen(&self) {
        // In its turn: what was written before belongs into the old file.
        if self.queue.try_send(Order::Reopen).is_err() {
            // The queue is full, and the writer at work: it looks here, too.
            self.common.reopen.store(true, Ordering::Release);
        }
    }

    /// Waits until what was written so far has been passed on, at most so long; says whether it was.
    pub fn flush(&self, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        while !self.try_flush(deadline) {
            if Instant::now() >= deadline {
                return false;
            }
            // Whether a pipe or a terminal takes more is its reader's affair, who tells nobody.
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Has the writer try once; whether nothing was left.
    fn try_flush(&self, deadline: Instant) -> bool {
        let (answer, answered) = mpsc::sync_channel(1);
        match self.queue.try_send(Order::Flush(answer)) {
            Ok(()) => {
                let left = deadline.saturating_duration_since(Instant::now());
                answered.recv_timeout(left) == Ok(true)
            }
            Err(_) => false,
        }
    }
}

impl Common {
    /// The sink at `path`, opened once for all that write there.
    fn open(&self, path: &Path, within: Option<&Path>) -> Result<Arc<Sink>, LogError> {
        let mut files = self
            .files
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        // Whoever is held to a folder does not share what somebody else has opened.
        let key = (path.to_owned(), within.map(Path::to_owned));
        if let Some(sink) = files.get(&key).and_then(Weak::upgrade) {
            return Ok(sink);
        }
        let sink = Arc::new(Sink::open(Some(path), within, Format::Json)?);
        // Now and then, so that to open many takes no longer for each.
        if files.len() >= 2 * self.open_files.load(Ordering::Relaxed).max(16) {
            files.retain(|_, sink| sink.strong_count() > 0);
            self.open_files.store(files.len(), Ordering::Relaxed);
        }
        files.insert(key, Arc::downgrade(&sink));
        Ok(sink)
    }

    /// Every sink that is in use.
    fn sinks(&self) -> Vec<Arc<Sink>> {
        let files = self
            .files
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let open = files.values().filter_map(Weak::upgrade);
        open.chain([self.server.clone()]).collect()
    }

    /// The writer's own word, which waits for nothing.
    fn say(&self, message: &str) {
        let entry = Entry {
            time: SystemTime::now(),
            origin: Arc::new(Origin::new(None, self.server.clone())),
            line: Line::new(Level::Error, message),
            bytes: 0,
        };
        self.count_dropped(self.server.put(&entry));
    }

    fn let_go(&self, entry: &Entry) {
        self.queued_bytes.fetch_sub(entry.bytes, Ordering::Relaxed);
        entry.origin.let_go(entry.bytes);
    }

    fn drop_entry(&self, entry: &Entry) {
        self.let_go(entry);
        entry.origin.sink.lose();
        self.count_dropped(1);
    }

    fn count_dropped(&self, lines: u64) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
    }
}
