//! One thread's share of a service: its instances, its contexts, its clock.

use crate::{
    Fault,
    answer::{self, Request},
    body::AnswerBody,
    component::{Component, LoadError, Loaded},
    context::Context,
    drive::Drive,
    host::{Host, Stream},
    idle::{self, Idle},
    limits::{Held, Until},
    request_body,
    sends::Sends,
    state::State,
};
use bytes::Bytes;
use http::Response;
use palisade_engine::{
    places::{Place, Places},
    service::Timer,
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};
use wasmtime::Store;
use wasmtime_wasi_http::p2::bindings::Proxy;

/// Contexts that wait for a request.
const MOST_IDLE: usize = 64;

/// What answers the requests of one thread. It is to be used below a tokio runtime of that thread alone
/// (`current_thread`), with its clock on.
pub struct Worker {
    shared: Rc<Shared>,
}

/// What the requests of a worker share.
pub(crate) struct Shared {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) host: Rc<dyn Host>,
    pub(crate) timer: Timer,
    pub(crate) until: Arc<Until>,
    pub(crate) held: Held,
    places: Rc<Places>,
    /// Requests of all its instances.
    pub(crate) sends: Sends,
    /// What [`Host::memory`] was told last.
    told_held: Cell<u64>,
    contexts: RefCell<Vec<Context>>,
    pub(crate) idle: Idle,
}

/// An instance that waits for its next request.
pub(crate) struct Kept {
    pub(crate) store: Store<State>,
    pub(crate) proxy: Proxy,
}

impl Worker {
    /// For the calling thread.
    ///
    /// # Errors
    ///
    /// When a granted folder can't be opened.
    pub fn new(component: &Component, host: Rc<dyn Host>) -> Result<Self, LoadError> {
        let loaded = Arc::clone(component.loaded());
        let context = Context::new(&loaded.reach, Rc::clone(&host))
            .map_err(|error| LoadError::Folder(format!("{error:#}")))?;
        let idle = Idle::new(loaded.pre.engine());
        let shared = Shared {
            timer: loaded.timer.of_thread(),
            places: Places::new(loaded.share),
            sends: Sends::default(),
            loaded,
            host,
            until: Arc::new(Until::new()),
            held: Held::default(),
            told_held: Cell::new(0),
            contexts: RefCell::new(vec![context]),
            idle,
        };
        Ok(Self {
            shared: Rc::new(shared),
        })
    }

    /// Answers a request, once the first part of its body is there: the head as soon as the guest has set it; the
    /// answer's body comes as the guest writes it, driven by whoever polls it. Dropping either ends the guest.
    ///
    /// `is_secure`: whether it came by TLS.
    ///
    /// # Errors
    ///
    /// When the guest failed before it answered; the log has been told. [`Fault::status`] is for the client.
    pub async fn answer<B>(
        &self,
        request: http::Request<B>,
        is_secure: bool,
    ) -> Result<Response<AnswerBody>, Fault>
    where
        B: http_body::Body<Data = Bytes> + 'static,
        B::Error: Into<crate::BodyError>,
    {
        let (head, body) = request.into_parts();
        answer::check(&head)?;
        let (body, wait) = request_body::receive(body).await?;
        let request = Request {
            head,
            body,
            is_secure,
        };
        let place = self.shared.place().await?;
        let (send_head, head) = tokio::sync::oneshot::channel();
        let run = answer::run(Rc::clone(&self.shared), request, send_head);
        Drive::new(run, Rc::clone(&self.shared), place, wait)
            .answer(head)
            .await
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Worker")
            .field("memory_bytes", &self.shared.held.get())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// For one more instance.
    async fn place(&self) -> Result<Place, Fault> {
        self.places.take().await.map_err(|none| {
            let fault = Fault::from(none);
            self.log(&fault);
            fault
        })
    }

    /// Says why a guest failed, or had no chance to.
    #[cold]
    pub(crate) fn log(&self, fault: &Fault) {
        let line = match fault.is_want_of_instances() {
            false => fault.to_string(),
            true => match self.places.refuse() {
                Some(requests) => format!("{fault} (requests refused: {requests})"),
                None => return,
            },
        };
        self.host.log(Stream::Wall, &line);
    }

    /// One that a request left, or a new one.
    pub(crate) fn context(&self) -> wasmtime::Result<Context> {
        match self.contexts.borrow_mut().pop() {
            Some(context) => Ok(context),
            None => Context::new(&self.loaded.reach, Rc::clone(&self.host)),
        }
    }

    /// Its request is over.
    pub(crate) fn give_back(&self, context: Context) {
        context.journal.finish();
        let mut contexts = self.contexts.borrow_mut();
        if contexts.len() < MOST_IDLE {
            contexts.push(context);
        }
    }

    /// An instance that waits.
    pub(crate) fn take_kept(&self) -> Option<Kept> {
        self.idle.take()
    }

    /// Its request is over, without a fault.
    pub(crate) fn keep(self: &Rc<Self>, kept: Kept) {
        kept.store.data().context.journal.finish();
        idle::keep(self, kept);
    }

    /// Tells the server what instances hold, if that changed.
    pub(crate) fn tell_memory(&self) {
        let held = self.held.get();
        if self.told_held.replace(held) != held {
            self.host.memory(held);
        }
    }
}
