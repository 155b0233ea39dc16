//! The thread that answers requests of tenants whose filters take long.
//!
//! It is a worker without listeners: it has instances of its own, and counts for itself. The kernel takes the processor from
//! it whenever somebody else wants it (`SCHED_IDLE`). It is started by the first worker that [needs it](crate::aside), and is confined as that
//! one is.

mod sys;

use crate::{
    aside::{self, Asked, Command, Inbox},
    generation::Generation,
    turns,
    worker_state::{self, WorkerState},
};
use http::Request;
use palisade_engine::guest;
use std::{io, rc::Rc, sync::Arc, thread::JoinHandle};
use tokio::task::LocalSet;

/// By its metrics it is the worker of this number.
const WORKER: usize = usize::MAX;
/// Threads of its own that wait for disks and name servers.
const BLOCKING_THREADS: usize = 4;
/// So many times the time that a callback may take by the clock: most of it the thread may be without a processor.
const TIMES_LIMIT: u32 = 10;

/// Starts it.
///
/// # Errors
///
/// When the kernel has no room for it.
pub(crate) fn start(
    generation: Arc<Generation>,
    inbox: Inbox<Generation>,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()?;
    let thread = std::thread::Builder::new().name("aside".into());
    thread.spawn(move || {
        turns::enter_aside();
        guest::stretch(TIMES_LIMIT);
        // Where it may not be, it competes with the workers.
        let _ = sys::give_way();
        LocalSet::new().block_on(&runtime, serve(generation, inbox));
        runtime.shutdown_background();
    })
}

/// Serves until nobody can ask any more.
async fn serve(generation: Arc<Generation>, mut inbox: Inbox<Generation>) {
    let mut state = Rc::new(WorkerState::new(&generation, WORKER));
    drop(generation);
    while let Some(command) = inbox.recv().await {
        match command {
            Command::Swap(generation) => state = Rc::new(WorkerState::new(&generation, WORKER)),
            // Nobody waits for it any more.
            Command::Ask(asked) if asked.reply.is_closed() => {}
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
        // Until it is answered whole.
        place: _place,
    } = *asked;
    let request = Request::from_parts(head, body.into());
    let peer = Rc::new(peer);
    let response = tokio::select! {
        biased;
        () = reply.closed() => return,
        response = state.respond_aside(&peer, request) => response,
    };
    let (head, body) = response.into_parts();
    let (body, carry) = aside::split(body);
    // Whoever does not take it takes no body either, and that ends.
    let _ = reply.send((head, body));
    carry.run().await;
}
