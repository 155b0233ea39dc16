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
    event::{EventfdFlags, Timespec, epoll, eventfd},
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
    fn wait(&self, events: &mut Vec<epoll::Event>, most: Option<Duration>) -> Vec<u64> {
        events.clear();
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        let _ = rustix::io::retry_on_intr(|| {
            epoll::wait(&self.epoll, spare_capacity(events), most.as_ref())
        });
        events.iter().map(|event| event.data.u64()).collect()
    }
}

fn wait_for_calls(watched: &Watched) {
    let _last_words = LastWords;
    let mut events = Vec::with_capacity(MOST_EVENTS);
    // Those who call and have no thread yet: others are not kept waiting for that.
    let mut late = Vec::new();
    loop {
        let numbers = watched.wait(&mut events, (!late.is_empty()).then_some(PAUSE));
        let mut lot = lot();
        let Some(open) = &mut *lot else { break };
        let called = numbers
            .iter()
            .filter_map(|number| open.take_called(*number));
        late.extend(called);
        let is_over = open.waiting.is_empty();
        if is_over {
            *lot = None;
        } else if numbers.contains(&BELL) {
            let _ = rustix::io::read(&watched.bell, &mut [0; 8]);
        }
        drop(lot);
        late = begin(late);
        if is_over {
            break;
        }
    }
    // Nobody else waits here any more.
    while !late.is_empty() {
        thread::sleep(PAUSE);
        late = begin(late);
    }
}

/// Has each answered by a thread of its own; gives those for whom there can be none now.
fn begin(called: Vec<Answering>) -> Vec<Answering> {
    let begin_one = |answering| {
        let spawn = |run| small_thread(THREAD_NAME, run).map(drop);
        hand_over(answering, Answering::run, spawn)
    };
    called.into_iter().filter_map(begin_one).collect()
}

/// What a thread is to run.
type Run = Box<dyn FnOnce() + Send>;

/// Has what `spawn` begins run with the value; gives it back where nothing could be begun.
fn hand_over<T: Send + 'static>(
    value: T,
    run: impl FnOnce(T) + Send + 'static,
    spawn: impl FnOnce(Run) -> io::Result<()>,
) -> Option<T> {
    let handed = Arc::new(Mutex::new(Some(value)));
    let theirs = Arc::clone(&handed);
    let take = |handed: &Mutex<Option<T>>| lock(handed).take();
    let begun = spawn(Box::new(move || {
        if let Some(value) = take(&theirs) {
            run(value);
        }
    }));
    match begun {
        Ok(()) => None,
        Err(_) => take(&handed),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Who was given to a thread is not taken back before that runs, and who has none is not lost.
    #[test]
    fn who_calls_is_handed_over_once_or_given_back() {
        let (said, hears) = std::sync::mpsc::channel();
        let run = move |value: u32| said.send(value).unwrap();
        let mut begun: Option<Run> = None;
        let keep = |thread| {
            begun = Some(thread);
            Ok(())
        };
        assert_eq!(hand_over(7, run.clone(), keep), None);
        assert!(hears.try_recv().is_err(), "it has not run yet");
        begun.unwrap()();
        assert_eq!(hears.try_recv(), Ok(7));
        let refuse = |_| Err(io::ErrorKind::WouldBlock.into());
        assert_eq!(hand_over(8, run, refuse), Some(8));
        assert!(hears.try_recv().is_err());
    }
}
