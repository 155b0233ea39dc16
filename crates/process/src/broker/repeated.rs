//! Calls that come again.
//!
//! A signal takes a call back while it is answered, and the kernel may then begin it anew (`SA_RESTART`,
//! signal(7)). What was done for it must not be done twice: a second `bind` would fail, a second `sendto`
//! be a second datagram.
//!
//! | the first one | the same call again |
//! |---|---|
//! | is answered, and was taken back before it heard | gets that answer |
//! | was begun and still waits | is the one that is answered |
//! | only waits (a connection goes on by itself) | is begun as any other |

use crate::lock::lock;
use crate::sys::notify::{self, Notification};
use rustix::io::Errno;
use std::{
    collections::HashMap,
    os::fd::BorrowedFd,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How long an answer is kept that nobody heard. Kernels begin a call anew when its handler returns.
const KEPT: Duration = Duration::from_secs(1);
/// Of how many threads.
const MOST: usize = 256;

/// The last calls of a domain's threads, as far as they may come again.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    last: Mutex<HashMap<u32, Last>>,
}

#[derive(Debug)]
struct Last {
    what: What,
    state: State,
}

/// Number and arguments of a call.
type What = (i32, [u64; 6]);

#[derive(Debug)]
enum State {
    Waits(Caller),
    Unheard(Result<i64, Errno>, Instant),
}

/// Who waits for an answer: the kernel's name for the call, which changes when it begins anew.
pub(super) type Caller = Arc<AtomicU64>;

impl Repeated {
    /// Whether this is the last call of its thread again, and is taken care of.
    pub(super) fn takes(&self, listener: BorrowedFd<'_>, call: &Notification) -> bool {
        let mut last = self.lock();
        if last.is_empty() {
            return false;
        }
        let Some(before) = last.remove(&call.thread) else {
            return false;
        };
        if before.what != what(call) {
            return false;
        }
        match before.state {
            State::Waits(caller) => {
                caller.store(call.id, Ordering::Release);
                let state = State::Waits(caller);
                last.insert(call.thread, Last { state, ..before });
                true
            }
            State::Unheard(result, since) if since.elapsed() < KEPT => {
                answer(&mut last, listener, call, result);
                true
            }
            State::Unheard(..) => false,
        }
    }

    /// Answers a call at once.
    pub(super) fn answer(
        &self,
        listener: BorrowedFd<'_>,
        call: &Notification,
        result: Result<i64, Errno>,
    ) {
        // It was taken back before anything was done for it.
        let was_begun = result != Err(Errno::SRCH);
        if notify::answer(listener, call.id, result) == Err(Errno::NOENT) && was_begun {
            keep(&mut self.lock(), call, result);
        }
    }

    /// Takes note of a call that is answered later. One for which nothing was done yet may be begun anew:
    /// the guest can have made its socket one that does not block.
    pub(super) fn waits(&self, call: &Notification, is_begun: bool) -> Caller {
        let caller = Arc::new(AtomicU64::new(call.id));
        if is_begun {
            let state = State::Waits(Arc::clone(&caller));
            let what = what(call);
            self.lock().insert(call.thread, Last { what, state });
        }
        caller
    }

    /// Has nothing come again until this is dropped.
    pub(super) fn hold(&self) -> Held<'_> {
        Held(self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Last>> {
        // A panic elsewhere leaves the table whole.
        lock(&self.last)
    }
}

/// While it is there, nothing comes again between a deed and the note of it.
pub(super) struct Held<'a>(MutexGuard<'a, HashMap<u32, Last>>);

impl Held<'_> {
    /// Answers a call that waited.
    pub(super) fn answer(
        &mut self,
        listener: BorrowedFd<'_>,
        call: &Notification,
        caller: &Caller,
        result: Result<i64, Errno>,
    ) {
        forget(&mut self.0, call, caller);
        let mut call = *call;
        call.id = caller.load(Ordering::Acquire);
        answer(&mut self.0, listener, &call, result);
    }

    /// Nobody waits for it any more.
    pub(super) fn forget(&mut self, call: &Notification, caller: &Caller) {
        forget(&mut self.0, call, caller);
    }
}

fn what(call: &Notification) -> What {
    (call.call, call.arguments)
}

fn answer(
    last: &mut HashMap<u32, Last>,
    listener: BorrowedFd<'_>,
    call: &Notification,
    result: Result<i64, Errno>,
) {
    if notify::answer(listener, call.id, result) == Err(Errno::NOENT) {
        keep(last, call, result);
    }
}

fn keep(last: &mut HashMap<u32, Last>, call: &Notification, result: Result<i64, Errno>) {
    if last.len() >= MOST {
        last.retain(|_, last| matches!(last.state, State::Waits(_)));
    }
    let state = State::Unheard(result, Instant::now());
    let what = what(call);
    last.insert(call.thread, Last { what, state });
}

/// Unless its thread has called something else since.
fn forget(last: &mut HashMap<u32, Last>, call: &Notification, caller: &Caller) {
    let is_it = last.get(&call.thread).is_some_and(
        |last| matches!(&last.state, State::Waits(waiting) if Arc::ptr_eq(waiting, caller)),
    );
    if is_it {
        last.remove(&call.thread);
    }
}
