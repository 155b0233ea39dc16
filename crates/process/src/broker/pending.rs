//! Calls that wait: a second thread waits for all of them at once, and is there only while there are any.

use super::{Shared, budget::Meter, guest, repeated::Caller, small_thread};
use crate::lock::lock;
use crate::sys::notify::{self, Notification};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec},
    io::Errno,
    net::sockopt,
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, atomic::Ordering},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// How often to ask whether a caller still waits. A signal takes a call back, and nothing tells of
/// that.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Calls of one domain that wait at a time: each holds up to three descriptors of the supervisor's. What one sends stays
/// with the guest meanwhile, or has its [`Room`](super::room::Room).
const MOST: usize = 256;

/// What a call waits for, and what is done then.
pub(super) struct Wait {
    /// Becomes ready.
    pub(super) socket: OwnedFd,
    /// For this.
    pub(super) until: PollFlags,
    /// When the call gives up (`SO_SNDTIMEO`), and its error then.
    pub(super) deadline: Option<(Instant, Errno)>,
    /// Something was done already, and what comes of it is waited for. What was not begun is not done
    /// for a caller that has gone.
    pub(super) is_begun: bool,
    /// No signal interrupts what the kernel does for this call.
    pub(super) is_brief: bool,
    pub(super) again: Again,
}

/// Tries again; `None` to wait on.
type Again = Box<dyn FnMut(&Shared, &OwnedFd) -> Option<Result<i64, Errno>> + Send>;

/// A call that waits.
struct Waiting {
    call: Notification,
    caller: Caller,
    wait: Wait,
}

/// The calls that wait.
pub(super) struct Pending {
    shared: Arc<Shared>,
    /// There once a call has waited.
    queue: Option<Arc<Queue>>,
}

/// Calls on their way to the thread that waits for them.
struct Queue {
    arrived: Mutex<Arrived>,
    /// Readable when there are some.
    bell: OwnedFd,
}

#[derive(Default)]
struct Arrived {
    calls: Vec<Waiting>,
    /// How many the thread has.
    waiting: usize,
    /// Waits for what has arrived; `None` once it has nothing left to wait for.
    thread: Option<JoinHandle<()>>,
    /// Nobody waits for an answer any more.
    is_over: bool,
}

impl Pending {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            queue: None,
        }
    }

    /// Whether no call waits.
    pub(super) fn is_empty(&self) -> bool {
        let queue = self.queue.as_ref();
        queue.is_none_or(|queue| queue.lock().thread.is_none())
    }

    /// Has this call answered later. Where too many wait it fails at once (`EAGAIN`).
    pub(super) fn push(&mut self, call: &Notification, wait: Wait) {
        let queue = match self.queue.take().map_or_else(Queue::make, Ok) {
            Ok(queue) => Arc::clone(self.queue.insert(queue)),
            Err(_) => return self.refuse(call),
        };
        let mut arrived = queue.lock();
        arrived
            .calls
            .retain(|before| before.call.thread != call.thread);
        let is_full = arrived.waiting + arrived.calls.len() >= MOST;
        if is_full || (arrived.thread.is_none() && !self.start_thread(&queue, &mut arrived)) {
            return self.refuse(call);
        }
        arrived.calls.push(Waiting {
            caller: self.shared.repeated.waits(call, wait.is_begun),
            call: *call,
            wait,
        });
        drop(arrived);
        queue.ring();
    }

    fn refuse(&self, call: &Notification) {
        let listener = self.shared.listener.as_fd();
        let refused = Err(Errno::AGAIN);
        self.shared.repeated.answer(listener, call, refused);
    }

    fn start_thread(&self, queue: &Arc<Queue>, arrived: &mut Arrived) -> bool {
        let (shared, queue) = (Arc::clone(&self.shared), Arc::clone(queue));
        let started = small_thread("palisade-wait", move || wait_for_all(&shared, &queue));
        arrived.thread = started.ok();
        arrived.thread.is_some()
    }

    /// Lets go of all of them: nothing of the domain is left.
    pub(super) fn finish(&self) {
        let Some(queue) = &self.queue else { return };
        let mut arrived = queue.lock();
        arrived.is_over = true;
        let thread = arrived.thread.take();
        drop(arrived);
        queue.ring();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn make() -> io::Result<Arc<Self>> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self {
            arrived: Mutex::default(),
            bell,
        }))
    }

    fn ring(&self) {
        // It cannot be full: a count of 2^64 - 1.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, Arrived> {
        // A panic elsewhere leaves the list whole.
        lock(&self.arrived)
    }

    /// Takes what has arrived; `false` when there is nothing to wait for and the thread may end.
    fn take_into(&self, waiting: &mut Vec<Waiting>) -> bool {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
        let mut arrived = self.lock();
        // A thread waits in one call: what it called before was taken back by a signal.
        let has_called = |before: &Waiting| {
            let mut calls = arrived.calls.iter();
            calls.any(|call| call.call.thread == before.call.thread)
        };
        waiting.retain(|before| !has_called(before));
        waiting.append(&mut arrived.calls);
        arrived.waiting = waiting.len();
        if waiting.is_empty() {
            arrived.thread = None;
        }
        !waiting.is_empty() && !arrived.is_over
    }
}

fn wait_for_all(shared: &Shared, queue: &Queue) {
    let mut meter = Meter::of_this_thread(&shared.budget);
    let mut waiting = Vec::new();
    let mut looked = Instant::now();
    while queue.take_into(&mut waiting) {
        let ready = wait_for_any(queue, &waiting);
        let now = Instant::now();
        let look = now.duration_since(looked) >= LOOK_AGAIN;
        if look {
            looked = now;
        }
        let mut ready = ready.into_iter();
        waiting
            .retain_mut(|waiting| waiting.goes_on(shared, ready.next() == Some(true), now, look));
        meter.keep();
    }
    for waiting in waiting {
        // Nobody is left who would want to wait for what was not sent.
        let _ = sockopt::set_socket_linger(&waiting.wait.socket, None);
    }
}

/// Which of them are ready.
fn wait_for_any(queue: &Queue, waiting: &[Waiting]) -> Vec<bool> {
    let mut fds = vec![PollFd::new(&queue.bell, PollFlags::IN)];
    let waits = waiting.iter().map(|waiting| &waiting.wait);
    fds.extend(waits.map(|wait| PollFd::new(&wait.socket, wait.until)));
    let deadlines = waiting.iter().filter_map(|waiting| waiting.wait.deadline);
    let now = Instant::now();
    let patience = deadlines
        .map(|(deadline, _)| deadline.saturating_duration_since(now))
        .fold(LOOK_AGAIN, Duration::min);
    let timeout = Timespec::try_from(patience).ok();
    let _ = rustix::event::poll(&mut fds, timeout.as_ref());
    let ready = fds[1..].iter().map(|fd| !fd.revents().is_empty());
    ready.collect()
}

impl Waiting {
    /// Answers if it can; `true` to wait on.
    fn goes_on(&mut self, shared: &Shared, is_ready: bool, now: Instant, look: bool) -> bool {
        let listener = shared.listener.as_fd();
        // Else the same call again could find done what nobody was told of.
        let mut repeated = shared.repeated.hold();
        let is_wanted = notify::is_waiting(listener, self.caller.load(Ordering::Acquire));
        let wait = &mut self.wait;
        if !is_wanted && (look || (is_ready && !wait.is_begun)) {
            repeated.forget(&self.call, &self.caller);
            return false;
        }
        let result = match wait.deadline {
            _ if is_ready => (wait.again)(shared, &wait.socket),
            Some((deadline, errno)) if now >= deadline => Some(Err(errno)),
            // Where no signal takes a call back.
            _ if look && shared.keeps_calls() && !wait.is_brief => {
                guest::interrupted(&shared.maker, self.call.thread).map(Err)
            }
            _ => None,
        };
        if let Some(result) = result {
            repeated.answer(listener, &self.call, &self.caller, result);
        }
        result.is_none()
    }
}
