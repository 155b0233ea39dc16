//! Requests of tenants whose filters take long, on a thread beside the workers.
//!
//! ```text
//!  worker ── has the tenant been slow? ──no──▶ its filters, here
//!                    │ yes
//!                    ▼
//!            head, body ──▶ the thread aside: its filters, its service ──▶ head, body ──▶ worker
//! ```
//!
//! A callback of a filter runs to its end: it does not yield, as a component does. On a worker it holds up everybody for as
//! long as `limits.time` lets it. So a tenant whose callbacks have taken long has its requests on a thread from which the
//! kernel takes the processor whenever somebody else wants it (`SCHED_IDLE`), until they have been quick for a while.
//! All such tenants share the one thread, by turns.
//!
//! The thread is a worker without listeners: it has instances of its own, and counts for itself. It is started by the first
//! worker that needs it, and is confined as that one is.

mod carried;
mod sys;

use crate::{
    body::Body,
    generation::Generation,
    responses,
    worker_state::{self, WorkerState},
};
use carried::Carried;
use http::{Request, Response, request, response};
use palisade_engine::{guest, lock::lock};
use palisade_filter::Peer;
use std::{
    cell::Cell,
    fmt, io,
    rc::Rc,
    sync::{Arc, Mutex, Weak},
    thread::JoinHandle,
};
use tokio::{
    sync::{
        mpsc::{self, UnboundedReceiver, UnboundedSender},
        oneshot,
    },
    task::LocalSet,
};

/// By its metrics it is the worker of this number.
const WORKER: usize = usize::MAX;
/// Threads of its own that wait for disks and name servers.
const BLOCKING_THREADS: usize = 4;
/// So many times the time that a callback may take by the clock: most of it the thread may be without a processor.
const TIMES_LIMIT: u32 = 10;

thread_local! {
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is the thread aside.
pub(crate) fn is_here() -> bool {
    IS_HERE.get()
}

/// The thread of one server, once there is one.
#[derive(Default)]
pub struct Aside(Mutex<State>);

#[derive(Default)]
struct State {
    /// The one that serves: who has it has this.
    generation: Weak<Generation>,
    thread: Option<Thread>,
    is_over: bool,
}

struct Thread {
    commands: UnboundedSender<Command>,
    handle: JoinHandle<()>,
}

enum Command {
    Ask(Box<Asked>),
    Swap(Arc<Generation>),
}

/// A request, on its way there.
struct Asked {
    peer: Peer,
    head: request::Parts,
    body: Carried,
    reply: oneshot::Sender<(response::Parts, Carried)>,
}

impl Aside {
    /// Requests are served with this one from now on.
    pub(crate) fn swap(&self, generation: &Arc<Generation>) {
        let mut state = lock(&self.0);
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
        let Some(commands) = self.commands() else {
            return responses::busy();
        };
        let (body, carry) = carried::split(body);
        let (reply, replied) = oneshot::channel();
        let asked = Asked {
            peer: peer.clone(),
            head,
            body,
            reply,
        };
        if commands.send(Command::Ask(Box::new(asked))).is_err() {
            return responses::busy();
        }
        carry.spawn();
        match replied.await {
            Ok((head, body)) => Response::from_parts(head, body.into()),
            // The thread is gone.
            Err(_) => responses::busy(),
        }
    }

    /// Where requests go. The thread is started if there is none; `None`: it can't be, or the server ends.
    fn commands(&self) -> Option<UnboundedSender<Command>> {
        let mut state = lock(&self.0);
        // One that panicked is gone.
        if let Some(thread) = &state.thread
            && !thread.commands.is_closed()
        {
            return Some(thread.commands.clone());
        }
        if state.is_over {
            return None;
        }
        let thread = Thread::start(state.generation.upgrade()?).ok()?;
        let commands = thread.commands.clone();
        state.thread = Some(thread);
        Some(commands)
    }

    /// Ends the thread, once no request is under way any more.
    pub(crate) fn stop(&self) {
        let thread = {
            let mut state = lock(&self.0);
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

impl fmt::Debug for Aside {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Aside")
            .field("is_started", &lock(&self.0).thread.is_some())
            .finish_non_exhaustive()
    }
}

impl Thread {
    fn start(generation: Arc<Generation>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .build()?;
        let (commands, inbox) = mpsc::unbounded_channel();
        let thread = std::thread::Builder::new().name("aside".into());
        let handle = thread.spawn(move || {
            IS_HERE.set(true);
            guest::stretch(TIMES_LIMIT);
            // Where it may not be, it competes with the workers.
            let _ = sys::give_way();
            LocalSet::new().block_on(&runtime, serve(generation, inbox));
            runtime.shutdown_background();
        })?;
        Ok(Self { commands, handle })
    }
}

/// Serves until nobody can ask any more.
async fn serve(generation: Arc<Generation>, mut inbox: UnboundedReceiver<Command>) {
    let mut state = Rc::new(WorkerState::new(&generation, WORKER));
    drop(generation);
    while let Some(command) = inbox.recv().await {
        match command {
            Command::Swap(generation) => state = Rc::new(WorkerState::new(&generation, WORKER)),
            Command::Ask(asked) => {
                let state = Rc::clone(&state);
                tokio::task::spawn_local(answer(state, asked));
            }
        }
    }
    drop(state);
    worker_state::end().await;
}

/// Answers one request, unless nobody waits for that any more.
async fn answer(state: Rc<WorkerState>, asked: Box<Asked>) {
    let Asked {
        peer,
        head,
        body,
        mut reply,
    } = *asked;
    let request = Request::from_parts(head, body.into());
    let peer = Rc::new(peer);
    let response = tokio::select! {
        response = state.respond_aside(&peer, request) => response,
        () = reply.closed() => return,
    };
    let (head, body) = response.into_parts();
    let (body, carry) = carried::split(body);
    // Whoever does not take it takes no body either, and that ends.
    let _ = reply.send((head, body));
    carry.run().await;
}
