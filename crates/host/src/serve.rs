//! What responds to requests: the one trait between connections and what they are served with.

use crate::{body::Body, record::RequestRecord};
use http::{Request, Response, request};
use palisade_filter::Peer;
use std::{rc::Rc, sync::Arc};

/// What responds to requests on a worker's thread.
pub trait Serve: Sized + 'static {
    /// What every worker makes its own state from.
    type Generation: Send + Sync + 'static;

    /// Makes a worker's state of a generation, on its thread.
    fn state(generation: &Arc<Self::Generation>, worker: usize) -> Rc<Self>;

    /// Opens the record of a request whose head is there, also of one that is refused. `tick` counts quarters of a
    /// second.
    fn open(&self, peer: &Peer, head: &request::Parts, tick: u32) -> RequestRecord {
        let _ = (peer, head, tick);
        RequestRecord::default()
    }

    /// Responds to a request. Errors are responses.
    fn respond(
        self: Rc<Self>,
        peer: &Rc<Peer>,
        request: Request<Body>,
        record: &mut RequestRecord,
    ) -> impl Future<Output = Response<Body>>;

    /// What is to be done on a worker's thread when it has nothing else to do. It is called before each wait.
    fn before_wait() {}

    /// What is to be done on a worker's thread before it ends, once requests have ended.
    fn end() -> impl Future<Output = ()> {
        std::future::ready(())
    }
}
