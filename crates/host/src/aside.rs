//! The way to the thread that answers requests of tenants whose filters take long.
//!
//! ```text
//!  worker ── has the tenant been slow? ──no──▶ its filters, here
//!                    │ yes
//!                    ▼
//!            head, body ──▶ the thread aside: its filters, its service ──▶ head, body ──▶ worker
//! ```
//!
//! A callback of a filter runs to its end: it does not yield, as a component does. On a worker it holds up everybody for as
//! long as `limits.time` lets it. So a tenant whose callbacks have taken long has its requests on a thread of its own
//! class until they have been quick for a while. All such tenants share the one thread, by turns.

mod carried;

use crate::{body::Body, responses};
use carried::Carried;
pub(crate) use carried::split;
use http::{Response, request, response};
use palisade_engine::lock::lock;
use palisade_filter::Peer;
use std::{
    fmt, io,
    sync::{Arc, Mutex, Weak},
    thread::JoinHandle,
};
use tokio::sync::{
    mpsc::{self, UnboundedReceiver, UnboundedSender},
    oneshot,
};

/// Requests that are there or on their way, those included whose client has left and that have not been looked at since.
const MOST_ASKED: usize = 1024;

/// Starts the thread, which serves with this generation until nobody can ask any more.
pub(crate) type Start<G> = fn(Arc<G>, Inbox<G>) -> io::Result<JoinHandle<()>>;
pub(crate) type Inbox<G> = UnboundedReceiver<Command<G>>;

/// The thread of one server, once there is one.
pub struct Aside<G> {
    start: Option<Start<G>>,
    state: Mutex<State<G>>,
    /// One for each request.
    places: Arc<()>,
}

struct State<G> {
    /// The one that serves: who has it has this.
    generation: Weak<G>,
    thread: Option<Thread<G>>,
    is_over: bool,
}

struct Thread<G> {
    commands: UnboundedSender<Command<G>>,
    handle: JoinHandle<()>,
}

pub(crate) enum Command<G> {
    Ask(Box<Asked>),
    Swap(Arc<G>),
}

/// A request, on its way there.
pub(crate) struct Asked {
    pub(crate) peer: Peer,
    pub(crate) head: request::Parts,
    pub(crate) body: Carried,
    pub(crate) reply: oneshot::Sender<(response::Parts, Carried)>,
    /// Its place among those that are there.
    pub(crate) place: Arc<()>,
}

impl<G> Default for Aside<G> {
    /// Without a thread: who asks is told that it is busy.
    fn default() -> Self {
        Self {
            start: None,
            state: Mutex::new(State {
                generation: Weak::new(),
                thread: None,
                is_over: false,
            }),
            places: Arc::default(),
        }
    }
}

impl<G> Aside<G> {
    pub(crate) fn new(start: Start<G>) -> Self {
        Self {
            start: Some(start),
            ..Self::default()
        }
    }

    /// Requests are served with this one from now on.
    pub(crate) fn swap(&self, generation: &Arc<G>) {
        let mut state = lock(&self.state);
        state.generation = Arc::downgrade(generation);
        if let Some(thread) = &state.thread {
            // A thread that is gone has said so on stderr.
            let _ = thread.commands.send(Command::Swap(Arc::clone(generation)));
        }
    }

    /// Has a request answered there, whose path is normal and which its tenant's quota has let in.
    pub(crate) async fn respond(
        &self,
        peer: &Peer,
        head: request::Parts,
        body: Body,
    ) -> Response<Body> {
        // One reference is this one's own.
        let place = Arc::clone(&self.places);
        if Arc::strong_count(&place) > MOST_ASKED + 1 {
            return responses::filter_busy();
        }
        let Some(commands) = self.commands() else {
            return responses::filter_busy();
        };
        let (body, carry) = split(body);
        let (reply, replied) = oneshot::channel();
        let asked = Asked {
            peer: peer.clone(),
            head,
            body,
            reply,
            place,
        };
        if commands.send(Command::Ask(Box::new(asked))).is_err() {
            return responses::filter_busy();
        }
        carry.spawn();
        match replied.await {
            Ok((head, body)) => Response::from_parts(head, body.into()),
            // The thread is gone.
            Err(_) => responses::filter_busy(),
        }
    }

    /// Where requests go. The thread is started if there is none; `None`: it can't be, or the server ends.
    fn commands(&self) -> Option<UnboundedSender<Command<G>>> {
        let mut state = lock(&self.state);
        // One that panicked is gone.
        if let Some(thread) = &state.thread
            && !thread.commands.is_closed()
        {
            return Some(thread.commands.clone());
        }
        if state.is_over {
            return None;
        }
        let (commands, inbox) = mpsc::unbounded_channel();
        let handle = self.start?(state.generation.upgrade()?, inbox).ok()?;
        state.thread = Some(Thread {
            commands: commands.clone(),
            handle,
        });
        Some(commands)
    }

    /// Ends the thread, once no request is under way any more.
    pub(crate) fn stop(&self) {
        let thread = {
            let mut state = lock(&self.state);
            state.is_over = true;
            state.thread.take()
        };
        if let Some(Thread { commands, handle }) = thread {
            drop(commands);
            // One that panicked has said so on stderr.
            let _ = handle.join();
        }
    }
}

impl<G> fmt::Debug for Aside<G> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Aside")
            .field("is_started", &lock(&self.state).thread.is_some())
            .finish_non_exhaustive()
    }
}
