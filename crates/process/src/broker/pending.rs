//! Calls that wait: a second thread waits for all of them at once, and is there only while there are any.

use super::{Shared, small_thread};
use crate::sys::notify::{self, Notification};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec},
    io::Errno,
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// How often to ask whether a caller still waits. A signal takes a call back, and nothing tells of
/// that.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

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
    pub(super) again: Again,
}

/// Tries again; `None` to wait on.
type Again = Box<dyn FnMut(&OwnedFd) -> Option<Result<i64, Errno>> + Send>;

/// The calls that wait.
pub(super) struct Pending {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
}

/// Calls on their way to the thread that waits for them.
struct Queue {
    arrived: Mutex<Arrived>,
    /// Readable when there are some.
    bell: OwnedFd,
}

#[derive(Default)]
struct Arrived {
    calls: Vec<(Notification, Wait)>,
    /// Waits for what has arrived; `None` once it has nothing left to wait for.
    thread: Option<JoinHandle<()>>,
    /// Nobody waits for an answer any more.
    is_over: bool,
}

impl Pending {
    pub(super) fn new(shared: Arc<Shared>) -> io::Result<Self> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let queue = Queue {
            arrived: Mutex::default(),
            bell,
        };
        Ok(Self {
            shared,
            queue: Arc::new(queue),
        })
    }

    /// Has this call answered later.
    pub(super) fn push(&self, call: &Notification, wait: Wait) {
        self.shared.unheard().begin_wait(call, wait.is_begun);
        let mut arrived = self.queue.lock();
        arrived.calls.push((*call, wait));
        if arrived.thread.is_some() {
            self.queue.ring();
            return;
        }
        let (shared, queue) = (Arc::clone(&self.shared), Arc::clone(&self.queue));
        match small_thread("palisade-wait", move || wait_for_all(&shared, &queue)) {
            Ok(thread) => arrived.thread = Some(thread),
            Err(_) => {
                for (call, _) in arrived.calls.drain(..) {
                    self.shared.unheard().end_wait(&call);
                    let listener = self.shared.listener.as_fd();
                    let _ = notify::answer(listener, call.id, Err(Errno::AGAIN));
                }
            }
        }
    }

    /// Lets go of all of them: nothing of the domain is left.
    pub(super) fn finish(&self) {
        let mut arrived = self.queue.lock();
        arrived.is_over = true;
        let thread = arrived.thread.take();
        drop(arrived);
        self.queue.ring();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn ring(&self) {
        // It cannot be full: a count of 2^64 - 1.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, Arrived> {
        // A panic elsewhere leaves the list whole.
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what has arrived; `false` when there is nothing to wait for and the thread may end.
    fn take_into(&self, waiting: &mut Vec<(Notification, Wait)>) -> bool {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
        let mut arrived = self.lock();
        waiting.append(&mut arrived.calls);
        if waiting.is_empty() {
            arrived.thread = None;
        }
        arrived.thread.is_some() && !arrived.is_over
    }
}

fn wait_for_all(shared: &Shared, queue: &Queue) {
    let mut waiting = Vec::new();
    let mut looked = Instant::now();
    while queue.take_into(&mut waiting) {
        let ready = wait_for_any(queue, &waiting);
        let now = Instant::now();
        let look = now.duration_since(looked) >= LOOK_AGAIN;
        if look {
            looked = now;
        }
        let mut index = 0;
        waiting.retain_mut(|(call, wait)| {
            let is_ready = ready.get(index).copied().unwrap_or(false);
            index += 1;
            still_waits(shared, call, wait, is_ready, now, look)
        });
    }
}

/// Which of the sockets are ready.
fn wait_for_any(queue: &Queue, waiting: &[(Notification, Wait)]) -> Vec<bool> {
    let mut fds = vec![PollFd::new(&queue.bell, PollFlags::IN)];
    let waits = waiting.iter().map(|(_, wait)| wait);
    fds.extend(waits.map(|wait| PollFd::new(&wait.socket, wait.until)));
    let timeout = Timespec::try_from(LOOK_AGAIN).ok();
    let _ = rustix::event::poll(&mut fds, timeout.as_ref());
    let ready = fds[1..].iter().map(|fd| !fd.revents().is_empty());
    ready.collect()
}

/// Nothing arrives from its thread meanwhile: the other thread asks what is unheard first.
fn still_waits(
    shared: &Shared,
    call: &Notification,
    wait: &mut Wait,
    is_ready: bool,
    now: Instant,
    look: bool,
) -> bool {
    let listener = shared.listener.as_fd();
    let mut unheard = shared.unheard();
    let Some(id) = unheard.answer_to(call) else {
        return false;
    };
    let is_wanted = || notify::is_waiting(listener, id);
    let result = match wait.deadline {
        _ if is_ready && !wait.is_begun && !is_wanted() => None,
        _ if is_ready => (wait.again)(&wait.socket),
        Some((deadline, errno)) if now >= deadline => Some(Err(errno)),
        _ => None,
    };
    let asks = look || (is_ready && !wait.is_begun);
    let goes_on = result.is_none() && (!asks || is_wanted());
    if !goes_on {
        unheard.end_wait(call);
    }
    if let Some(result) = result
        && notify::answer(listener, id, result) == Err(Errno::NOENT)
    {
        unheard.put(call, result);
    }
    goes_on
}
