//! Domains that call nobody: one thread waits for the next call of any of them.
//!
//! ```text
//!  answers ──nothing for a while──▶ parked ──a call──▶ a thread of its own, which answers
//!     ▲                             one thread for all             │
//!     └────────────────────────────────────────────────────────────┘
//! ```
//!
//! It answers nobody itself. All that a guest can have it do is to begin a thread, and not more than once in the time that
//! a thread waits for a further call: so none holds up another, and what a call costs is counted where it is
//! answered. The thread is begun by one that answers, and has the same walls; it ends when nobody is parked any more.

use super::{Answering, LastWord, Shared, THREAD_NAME, small_thread};
use crate::lock::lock;
use rustix::{
    buffer::spare_capacity,
    event::{EventfdFlags, epoll, eventfd},
};
use std::{
    collections::HashMap,
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// Those of this process that wait, while there are any.
static LOT: Mutex<Option<Lot>> = Mutex::new(None);

/// Stands for the bell among those that are watched.
const BELL: u64 = 0;
/// Calls that are looked at at a time.
const MOST_EVENTS: usize = 64;
/// Before a thread is begun again that could not be.
const PAUSE: Duration = Duration::from_millis(5);

/// Where a domain waits.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// Its number; [`NOWHERE`] while it is answered, [`LEFT`] once it never will be again.
    number: AtomicU64,
}

const NOWHERE: u64 = 0;
const LEFT: u64 = u64::MAX;

struct Lot {
    watched: Arc<Watched>,
    last: u64,
    waiting: HashMap<u64, Answering>,
}

struct Watched {
    epoll: OwnedFd,
    /// Readable when there may be nobody left to wait for.
    bell: OwnedFd,
}

/// Has the thread wait for the domain's next call.
///
/// # Errors
///
/// The same again, where it is over or cannot be waited for: it is to be answered as before.
pub(super) fn park(answering: Answering) -> Result<(), Answering> {
    let mut lot = lot();
    if answering.shared.place.number.load(Ordering::Acquire) == LEFT {
        return Err(answering);
    }
    if lot.is_none() {
        *lot = Lot::open().ok();
    }
    match &mut *lot {
        Some(open) => open.add(answering),
        None => Err(answering),
    }
}

/// Lets go of a domain that waits, and of one that would. Nobody answers it any more.
pub(super) fn release(shared: &Shared) {
    let mut lot = lot();
    let number = shared.place.number.swap(LEFT, Ordering::AcqRel);
    let Some(open) = &mut *lot else { return };
    let released = open.take(shared, number);
    if open.waiting.is_empty() {
        open.watched.ring();
    }
    drop(lot);
    drop(released);
}

fn lot() -> MutexGuard<'static, Option<Lot>> {
    // A panic elsewhere leaves the table whole.
    lock(&LOT)
}

impl Lot {
    /// With a thread that waits.
    fn open() -> io::Result<Self> {
        let watched = Arc::new(Watched {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let bell = epoll::EventData::new_u64(BELL);
        epoll::add(&watched.epoll, &watched.bell, bell, epoll::EventFlags::IN)?;
        let theirs = Arc::clone(&watched);
        // It waits for the lock until whoever opens this has added somebody.
        small_thread("palisade-parked", move || wait_for_calls(&theirs))?;
        Ok(Self {
            watched,
            last: BELL,
            waiting: HashMap::new(),
        })
    }

    fn add(&mut self, answering: Answering) -> Result<(), Answering> {
        self.last += 1;
        let shared = Arc::clone(&answering.shared);
        self.waiting.insert(self.last, answering);
        shared.place.number.store(self.last, Ordering::Release);
        let number = epoll::EventData::new_u64(self.last);
        let flags = epoll::EventFlags::IN;
        match epoll::add(&self.watched.epoll, &shared.listener, number, flags) {
            Ok(()) => Ok(()),
            Err(_) => match self.waiting.remove(&self.last) {
                Some(answering) => {
                    shared.place.number.store(NOWHERE, Ordering::Release);
                    self.watched.ring();
                    Err(answering)
                }
                None => Ok(()),
            },
        }
    }

    /// Whoever waits under this number, if anybody does.
    fn take(&mut self, shared: &Shared, number: u64) -> Option<Answering> {
        let answering = self.waiting.remove(&number)?;
        // A listener that is not watched any more is not told of either.
        let _ = epoll::delete(&self.watched.epoll, &shared.listener);
        Some(answering)
    }

    fn take_called(&mut self, number: u64) -> Option<Answering> {
        let shared = Arc::clone(&self.waiting.get(&number)?.shared);
        let answering = self.take(&shared, number);
        shared.place.number.store(NOWHERE, Ordering::Release);
        answering
    }
}

impl Watched {
    fn ring(&self) {
        // It cannot be full: a count of 2^64 - 1.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Numbers of those who call, or whose domain has ended.
    fn wait(&self, events: &mut Vec<epoll::Event>) -> Vec<u64> {
        events.clear();
        let _ =
            rustix::io::retry_on_intr(|| epoll::wait(&self.epoll, spare_capacity(events), None));
        events.iter().map(|event| event.data.u64()).collect()
    }
}

fn wait_for_calls(watched: &Watched) {
    let _last_words = LastWords;
    let mut events = Vec::with_capacity(MOST_EVENTS);
    loop {
        let numbers = watched.wait(&mut events);
        let mut lot = lot();
        let Some(open) = &mut *lot else { return };
        let called: Vec<_> = numbers
            .iter()
            .filter_map(|number| open.take_called(*number))
            .collect();
        let is_over = open.waiting.is_empty();
        if is_over {
            *lot = None;
        } else if numbers.contains(&BELL) {
            let _ = rustix::io::read(&watched.bell, &mut [0; 8]);
        }
        drop(lot);
        called.into_iter().for_each(begin);
        if is_over {
            return;
        }
    }
}

/// Has it answered by a thread of its own. Where there can be none now, it waits again.
fn begin(answering: Answering) {
    let mut waiting = answering;
    loop {
        let handed = Arc::new(Mutex::new(Some(waiting)));
        let theirs = Arc::clone(&handed);
        let take = |handed: &Mutex<Option<Answering>>| lock(handed).take();
        let begun = small_thread(THREAD_NAME, move || {
            if let Some(answering) = take(&theirs) {
                answering.run();
            }
        });
        match (begun, take(&handed)) {
            (Ok(_), None) | (Err(_), None) => return,
            (Ok(_), Some(answering)) => waiting = answering,
            (Err(_), Some(answering)) => {
                thread::sleep(PAUSE);
                waiting = answering;
            }
        }
    }
}

/// Has all domains end that wait if their thread panics: nobody would answer their calls.
struct LastWords;

impl Drop for LastWords {
    fn drop(&mut self) {
        if thread::panicking()
            && let Some(lot) = lot().take()
        {
            for answering in lot.waiting.into_values() {
                LastWord(Arc::clone(&answering.shared.performer.socket)).say();
            }
        }
    }
}
