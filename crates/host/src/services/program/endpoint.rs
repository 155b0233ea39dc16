//! The socket by which workers reach a program, and who is inside.

use crate::{
    client::{Inside, Pool, Tally, coarse_ms},
    config::Server,
};
use palisade_engine::lock::lock;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{AtFlags, CWD, Mode, OFlags},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt},
    rand::GetRandomFlags,
};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// A listening socket without a name.
///
/// It is bound in a folder of its own, and name and folder are gone before anybody could connect. Workers
/// get in through `/proc/self/fd`, by a descriptor of the file (unix(7), proc(5)): nobody but this process
/// reaches the program, and nothing stays behind whatever ends the server.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// Given to one process of the program after the other: what is queued in it when one dies is the
    /// next one's. `None`: it is shut.
    listener: Mutex<Option<OwnedFd>>,
    /// The socket's file, to be connected to. It is open for as long as anybody could be on the way in: its
    /// number stands in `path`, and would lead elsewhere once it is another file's. `None`: it is walled up.
    file: Mutex<Option<OwnedFd>>,
    /// Where workers connect to.
    path: PathBuf,
    /// Where they do instead, if the program has a port of its own.
    inside: Option<Arc<Inside>>,
    /// What of [`Access`] the supervisor has set: never [`Access::Proven`], for that is `has_answered`.
    state: AtomicU8,
    /// How often the process has stood still.
    stands: AtomicU64,
    /// The process that has the listener has answered: it may do so before the supervisor has opened the endpoint, and
    /// so this is no part of `state`. Nobody may go in at a moment between the two as if it had not.
    has_answered: AtomicBool,
    tallies: Mutex<Tallies>,
    /// Tells who looks after the program of what it cannot wait for: one who waits for a first response, and one who
    /// was refused.
    told: Notify,
}

/// What workers have under way.
#[derive(Debug, Default)]
struct Tallies {
    of_workers: Vec<Arc<Tally>>,
    /// All that those have begun who are gone.
    of_gone: u64,
    /// When the last of them came or left, by [`coarse_ms`]; before that, when the endpoint was made.
    used_ms: u64,
}

impl Tallies {
    fn begin() -> Mutex<Self> {
        Mutex::new(Self {
            used_ms: coarse_ms(),
            ..Self::default()
        })
    }
}

/// What a worker may do at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Access {
    /// Go in: the program was started and has not answered yet.
    Started,
    /// Go in: the program has answered.
    Proven,
    /// Wait until it is started again.
    Closed,
    /// Find another endpoint: whoever is inside is waited for, and then the program is ended.
    Retired,
}

impl Endpoint {
    /// Makes one, open to nobody.
    pub(super) fn make() -> io::Result<Self> {
        let (listener, file) = in_private_folder(|folder| {
            let listener = rustix::net::socket_with(
                AddressFamily::UNIX,
                SocketType::STREAM,
                SocketFlags::CLOEXEC,
                None,
            )?;
            // Short, whatever the folder is called: a socket's path has 107 bytes at most.
            let path = format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd());
            rustix::net::bind(&listener, &SocketAddrUnix::new(path)?)?;
            let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = rustix::fs::openat(&folder, NAME, flags, Mode::empty());
            rustix::fs::unlinkat(&folder, NAME, AtFlags::empty())?;
            rustix::net::listen(&listener, BACKLOG)?;
            Ok((listener, file?))
        })?;
        Ok(Self {
            path: PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
            listener: Mutex::new(Some(listener)),
            file: Mutex::new(Some(file)),
            inside: None,
            state: AtomicU8::new(Access::Closed as u8),
            stands: AtomicU64::new(0),
            has_answered: AtomicBool::new(false),
            tallies: Tallies::begin(),
            told: Notify::new(),
        })
    }

    /// One to a port of a program that runs. It is no other process's later.
    pub(super) fn to_port(inside: Arc<Inside>) -> Self {
        Self {
            path: PathBuf::new(),
            listener: Mutex::default(),
            file: Mutex::default(),
            inside: Some(inside),
            state: AtomicU8::new(Access::Closed as u8),
            stands: AtomicU64::new(0),
            has_answered: AtomicBool::new(false),
            tallies: Tallies::begin(),
            told: Notify::new(),
        }
    }

    /// Whether the next process of the program can have it.
    pub(super) fn may_be_kept(&self) -> bool {
        self.inside.is_none() && self.is_sound()
    }

    /// What the program accepts connections from.
    pub(super) fn listener(&self) -> io::Result<OwnedFd> {
        match &*lock(&self.listener) {
            Some(listener) => {
                // A program may have made the queue of those who wait shorter.
                rustix::net::listen(listener, BACKLOG)?;
                listener.try_clone()
            }
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Whether it still accepts connections: a program may have shut its socket down for good.
    pub(super) fn is_sound(&self) -> bool {
        self.inside.is_some() || lock(&self.listener).as_ref().is_some_and(still_listens)
    }

    /// Refuses whoever is still on the way in, once the program has ended too.
    pub(super) fn shut(&self) {
        drop(lock(&self.listener).take());
    }

    /// Closes what it holds. It must be retired, shut and left: nobody is on the way to a descriptor's number then
    /// that is another's afterwards. A worker may keep what is left until it finds another endpoint.
    pub(super) fn wall_up(&self) {
        self.shut();
        drop(lock(&self.file).take());
    }

    /// Waits until nobody is inside.
    pub(super) async fn is_left(&self) {
        while self.inside().0 > 0 {
            tokio::time::sleep(DRAIN_STEP).await;
        }
    }

    /// One worker's connections through it, `keeps` of them without a request.
    pub(super) fn pool(
        &self,
        name: Arc<str>,
        keeps: (usize, Duration),
        tally: Option<Arc<Tally>>,
    ) -> Rc<Pool> {
        match &self.inside {
            Some(inside) => Pool::inside(Arc::clone(inside), name, keeps, tally),
            None => Pool::new(self.server(), name, keeps, tally, None),
        }
    }

    /// Where workers connect to.
    fn server(&self) -> Server {
        Server::Unix(self.path.clone())
    }

    /// For one more worker to count its visits.
    pub(super) fn add_tally(&self) -> Arc<Tally> {
        let tally = Arc::new(Tally::default());
        lock(&self.tallies).of_workers.push(Arc::clone(&tally));
        tally
    }

    pub(super) fn access(&self) -> Access {
        const ALL: [Access; 4] = [
            Access::Started,
            Access::Proven,
            Access::Closed,
            Access::Retired,
        ];
        match ALL[usize::from(self.state.load(Ordering::SeqCst)).min(3)] {
            Access::Started if self.has_answered() => Access::Proven,
            access => access,
        }
    }

    fn set(&self, access: Access) {
        self.state.store(access as u8, Ordering::SeqCst);
    }

    /// The program runs.
    pub(super) fn open(&self) {
        self.set(Access::Started);
    }

    /// Its process has ended. Answers that it left may still be read.
    pub(super) fn close(&self) {
        self.set(Access::Closed);
    }

    /// Its process has stood still: it may be about to close connections that have waited for too long meanwhile.
    pub(super) fn has_stood(&self) {
        self.stands.fetch_add(1, Ordering::SeqCst);
    }

    /// How often it has.
    pub(super) fn stands(&self) -> u64 {
        self.stands.load(Ordering::SeqCst)
    }

    /// Counts as if somebody had used it now.
    pub(super) fn note_use(&self) {
        lock(&self.tallies).used_ms = coarse_ms();
    }

    /// The listener is about to be another process's: what was answered so far proves nothing of that one.
    pub(super) fn begin(&self) {
        self.has_answered.store(false, Ordering::SeqCst);
        self.note_use();
    }

    /// Its process is to end, once who is inside has left.
    pub(super) fn retire(&self) {
        self.set(Access::Retired);
    }

    /// The program has answered.
    pub(super) fn prove(&self) {
        self.has_answered.store(true, Ordering::SeqCst);
    }

    /// Whether the process that has the listener has.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::SeqCst)
    }

    /// It refused a connection: whoever comes waits until the supervisor has seen to it.
    pub(super) fn refused(&self) {
        // Whoever ends the program at the same time has the last word.
        let (open, closed) = (Access::Started as u8, Access::Closed as u8);
        let order = Ordering::SeqCst;
        let _ = self.state.compare_exchange(open, closed, order, order);
        self.told.notify_one();
    }

    /// Somebody has gone in who waits for the first response of its process.
    pub(super) fn is_asked_first(&self) {
        self.told.notify_one();
    }

    /// Waits for somebody who is refused, or waits for a first response.
    pub(super) async fn tells(&self) {
        self.told.notified().await;
    }

    /// When a request came or left last, or the process began, by [`coarse_ms`].
    pub(super) fn used_ms(&self) -> u64 {
        let tallies = lock(&self.tallies);
        let of_workers = tallies.of_workers.iter().map(|tally| tally.used_ms());
        of_workers.fold(tallies.used_ms, u64::max)
    }

    /// Requests that are at the endpoint now, and all that ever were.
    pub(super) fn inside(&self) -> (u64, u64) {
        let mut tallies = lock(&self.tallies);
        let (mut now, mut ever, mut gone) = (0, 0u64, 0u64);
        let mut used_ms = tallies.used_ms;
        tallies.of_workers.retain(|tally| {
            // Looked at before what it counts: nobody can begin anything who is gone.
            let is_gone = Arc::strong_count(tally) == 1;
            let (begun, ended) = tally.counts();
            now += begun.wrapping_sub(ended);
            let of = if is_gone { &mut gone } else { &mut ever };
            *of = of.wrapping_add(begun);
            used_ms = used_ms.max(tally.used_ms());
            !is_gone
        });
        tallies.of_gone = tallies.of_gone.wrapping_add(gone);
        tallies.used_ms = used_ms;
        (now, ever.wrapping_add(tallies.of_gone))
    }
}

/// Whether connections still come in by a socket. A Unix socket that was shut down says that it listens, and
/// that nothing will come.
pub(super) fn still_listens(socket: &OwnedFd) -> bool {
    let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let is_closed = rustix::event::poll(&mut fds, Some(&at_once)).is_ok()
        && fds[0].revents().intersects(closed);
    !is_closed && sockopt::socket_acceptconn(socket).unwrap_or(false)
}

const NAME: &str = "socket";
/// The kernel takes less where `net.core.somaxconn` says so.
const BACKLOG: i32 = 4096;
/// How often whoever waits for an endpoint to be left looks.
const DRAIN_STEP: Duration = Duration::from_millis(5);

/// Has `act` work in a new folder that nobody else can enter, and removes the folder.
fn in_private_folder<T>(act: impl FnOnce(OwnedFd) -> rustix::io::Result<T>) -> io::Result<T> {
    let mut failure = Errno::NOENT;
    for base in bases() {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = match rustix::fs::openat(CWD, &base, flags, Mode::empty()) {
            Ok(base) => base,
            Err(errno) => {
                failure = errno;
                continue;
            }
        };
        let name = unknown_name()?;
        match rustix::fs::mkdirat(&base, &name, Mode::RWXU) {
            Ok(()) => return act_in(&base, &name, act),
            Err(errno) => failure = errno,
        }
    }
    Err(failure.into())
}

/// Nobody can take it ahead in a folder of everybody's.
fn unknown_name() -> rustix::io::Result<String> {
    let mut number = [0; 16];
    // So few bytes are never given in part, getrandom(2).
    rustix::rand::getrandom(&mut number, GetRandomFlags::empty())?;
    Ok(format!("palisade-{:032x}", u128::from_ne_bytes(number)))
}

/// Folders to make private ones in, in this order.
fn bases() -> impl Iterator<Item = PathBuf> {
    let run = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let all = run.into_iter().chain(["/run".into(), std::env::temp_dir()]);
    all.filter(|base| base.is_absolute())
}

/// Where endpoints are made. A guest that could rename a folder there would be let in by another guest's endpoint.
pub(crate) fn paths() -> impl Iterator<Item = PathBuf> {
    bases().map(|base| base.join("palisade"))
}

fn act_in<T>(
    base: &OwnedFd,
    name: &str,
    act: impl FnOnce(OwnedFd) -> rustix::io::Result<T>,
) -> io::Result<T> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let done = rustix::fs::openat(base, name, flags, Mode::empty()).and_then(act);
    rustix::fs::unlinkat(base, name, AtFlags::REMOVEDIR)?;
    Ok(done?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        os::unix::net::{UnixListener, UnixStream},
    };

    #[test]
    fn a_door_without_a_name_can_be_entered() {
        let endpoint = Endpoint::make().unwrap();
        let Server::Unix(path) = endpoint.server() else {
            panic!("a Unix socket");
        };
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"hello").unwrap();
        drop(client);
        let listener = UnixListener::from(endpoint.listener().unwrap());
        let (mut inside, _) = listener.accept().unwrap();
        let mut text = String::new();
        inside.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        assert!(endpoint.is_sound());
        rustix::net::shutdown(endpoint.listener().unwrap(), rustix::net::Shutdown::Both).unwrap();
        assert!(UnixStream::connect(&path).is_err());
        assert!(!endpoint.is_sound());
        endpoint.wall_up();
        assert!(endpoint.listener().is_err());
    }

    /// Many endpoints come and go while somebody stands before one that is shut.
    #[test]
    fn a_door_that_is_shut_leads_to_no_other() {
        let endpoint = Endpoint::make().unwrap();
        let Server::Unix(path) = endpoint.server() else {
            panic!("a Unix socket");
        };
        let tally = endpoint.add_tally();
        tally.begin();
        endpoint.retire();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let leaves = async {
                endpoint.shut();
                endpoint.is_left().await;
                endpoint.wall_up();
            };
            tokio::pin!(leaves);
            for _ in 0..200 {
                let other = Endpoint::make().unwrap();
                tokio::select! {
                    biased;
                    () = &mut leaves => panic!("somebody is on the way in"),
                    () = tokio::task::yield_now() => {}
                }
                let error = UnixStream::connect(&path).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
                drop(other);
            }
            tally.end();
            leaves.await;
        });
        assert!(UnixStream::connect(&path).is_err());
    }

    #[test]
    fn who_is_inside_is_counted() {
        let endpoint = Endpoint::make().unwrap();
        let (one, two) = (endpoint.add_tally(), endpoint.add_tally());
        one.begin();
        two.begin();
        two.begin();
        two.end();
        assert_eq!(endpoint.inside(), (2, 3));
        one.end();
        drop(one);
        assert_eq!(endpoint.inside(), (1, 3));
        assert_eq!(endpoint.inside(), (1, 3));
    }

    #[test]
    fn an_answer_is_known_whenever_it_comes() {
        let endpoint = Endpoint::make().unwrap();
        endpoint.open();
        assert_eq!(endpoint.access(), Access::Started);
        endpoint.prove();
        assert_eq!(endpoint.access(), Access::Proven);
        endpoint.refused();
        assert_eq!(endpoint.access(), Access::Closed);
        endpoint.open();
        assert_eq!(endpoint.access(), Access::Proven, "it is the same process");
        endpoint.close();
        endpoint.begin();
        endpoint.open();
        assert_eq!(endpoint.access(), Access::Started, "it is the next one");
        endpoint.close();
        endpoint.prove();
        endpoint.begin();
        endpoint.open();
        assert_eq!(
            endpoint.access(),
            Access::Started,
            "it is the dead one that answered"
        );
        endpoint.close();
        endpoint.begin();
        endpoint.prove();
        endpoint.open();
        assert_eq!(
            endpoint.access(),
            Access::Proven,
            "it was faster than its supervisor"
        );
        endpoint.retire();
        endpoint.prove();
        assert_eq!(endpoint.access(), Access::Retired);
    }

    /// Whoever sees it open, however soon, sees that it has answered.
    #[test]
    fn an_answer_is_known_at_the_moment_of_opening() {
        const TIMES: usize = 10_000;
        let endpoint = Endpoint::make().unwrap();
        let both = std::sync::Barrier::new(2);
        let mut unknown = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..TIMES {
                    both.wait();
                    endpoint.open();
                }
            });
            for _ in 0..TIMES {
                endpoint.close();
                endpoint.begin();
                endpoint.prove();
                both.wait();
                let seen = loop {
                    match endpoint.access() {
                        Access::Closed => std::hint::spin_loop(),
                        seen => break seen,
                    }
                };
                unknown += usize::from(seen != Access::Proven);
            }
        });
        assert_eq!(unknown, 0);
    }
}
