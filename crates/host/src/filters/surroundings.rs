//! What an instance asks of the server: lines, calls, ticks.
//!
//! It asks while it runs, and nobody may call it then: what it wants is noted, and seen to when it has come back.

use super::{Loaded, WorkerFilter};
use crate::{
    body::Body,
    client::{Times, UpstreamError},
    kinds::Level,
    log::{Line, denied_request},
};
use bytes::BytesMut;
use http::{HeaderMap, Request, Response};
use http_body::Body as _;
use palisade_filter::{CallRefused, Host, HttpCall, HttpCallResponse, LogLevel, Notify};
use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    mem,
    pin::Pin,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};
use tokio::sync::mpsc;

/// Bytes of a response's body that a filter gets of its calls.
const RESPONSE_BYTES: usize = 1 << 20;

/// HTTP calls of a filter that are under way at one time on a worker, of all its instances: as many as Envoy lets
/// there be to one cluster.
const MOST_CALLS: usize = 1024;

/// Queues that a worker can be told about before it has heard of the first.
const TELLINGS: usize = 1024;

/// How many HTTP calls of a filter's are under way on this worker.
#[derive(Clone, Default)]
pub(super) struct Calls(Rc<Cell<usize>>);

/// An HTTP call that was asked for. It counts until this is dropped.
pub(super) struct Asked {
    pub(super) call: HttpCall,
    counted: Calls,
}

impl Asked {
    fn new(call: HttpCall, calls: &Calls) -> Self {
        calls.0.update(|count| count + 1);
        Self {
            call,
            counted: calls.clone(),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.counted.0.update(|count| count - 1);
    }
}

/// What an instance has asked for and was not seen to yet.
#[derive(Default)]
pub(super) struct Mail {
    has_any: Cell<bool>,
    calls: RefCell<Vec<Asked>>,
    tick_period: Cell<Option<Duration>>,
    has_new_period: Cell<bool>,
}

impl Mail {
    pub(super) fn is_empty(&self) -> bool {
        !self.has_any.get()
    }

    pub(super) fn take_calls(&self) -> Vec<Asked> {
        self.has_any.set(false);
        self.calls.take()
    }

    /// The period that was asked for since the last time; `None` in it: no more ticks.
    pub(super) fn take_new_period(&self) -> Option<Option<Duration>> {
        let is_new = self.has_new_period.replace(false);
        is_new.then(|| self.tick_period.get())
    }
}

/// The server, as an instance sees it.
pub(super) struct Surroundings {
    loaded: Arc<Loaded>,
    mail: Rc<Mail>,
    calls: Calls,
}

impl Surroundings {
    pub(super) fn new(loaded: &Arc<Loaded>, mail: &Rc<Mail>, calls: &Calls) -> Self {
        Self {
            loaded: Arc::clone(loaded),
            mail: Rc::clone(mail),
            calls: calls.clone(),
        }
    }
}

impl Host for Surroundings {
    fn log(&self, level: LogLevel, line: &[u8]) {
        let level = log_level(level);
        if self.loaded.log.wants(level) {
            let line = String::from_utf8_lossy(line).into_owned();
            self.loaded.log.write(Line::new(level, line));
        }
    }

    fn log_level(&self) -> LogLevel {
        use LogLevel::{Critical, Error, Info, Trace, Warn};
        let levels = [Trace, Info, Warn, Error];
        let wants = |level: &LogLevel| self.loaded.log.wants(log_level(*level));
        levels.into_iter().find(wants).unwrap_or(Critical)
    }

    fn call(&self, call: HttpCall) -> Result<(), CallRefused> {
        if !self.loaded.upstreams.contains_key(&call.upstream) {
            return Err(CallRefused);
        }
        let asked = Asked::new(call, &self.calls);
        self.mail.calls.borrow_mut().push(asked);
        self.mail.has_any.set(true);
        Ok(())
    }

    fn has_room_for_call(&self) -> bool {
        self.calls.0.get() < MOST_CALLS
    }

    fn set_tick_period(&self, period: Option<Duration>) {
        if self.mail.tick_period.replace(period) != period {
            self.mail.has_new_period.set(true);
            self.mail.has_any.set(true);
        }
    }
}

fn log_level(level: LogLevel) -> Level {
    match level {
        LogLevel::Trace | LogLevel::Debug => Level::Debug,
        LogLevel::Info => Level::Info,
        LogLevel::Warn => Level::Warn,
        LogLevel::Error | LogLevel::Critical => Level::Error,
    }
}

/// Makes a call; `None`: there was no response.
pub(super) async fn make_call(filter: &WorkerFilter, mut asked: Asked) -> Option<HttpCallResponse> {
    let call = &mut asked.call;
    let server = filter.loaded.upstreams.get(&call.upstream)?;
    let upstream = call.upstream.clone();
    let (parts, body) = mem::take(&mut call.request).into_parts();
    let request = Request::from_parts(parts, Body::Whole(body));
    let response = async {
        let times = Times {
            connect: call.timeout,
            answer: call.timeout,
        };
        match filter.client.send(server, request, &times).await {
            Ok(response) => whole(response).await,
            Err(error) => {
                note(filter, &upstream, &error);
                None
            }
        }
    };
    tokio::time::timeout(call.timeout, response).await.ok()?
}

/// That nobody answers is the guest's to tell; that it may not ask is its owner's to know.
fn note(filter: &WorkerFilter, upstream: &str, error: &UpstreamError) {
    if error.is_denial() {
        filter.metrics.denials.add(1);
        let log = &filter.loaded.log;
        log.write(Line::new(Level::Warn, error.to_string()));
        log.event(denied_request(upstream.into(), error.to_string()));
    }
}

async fn whole(response: Response<Body>) -> Option<HttpCallResponse> {
    let (parts, mut body) = response.into_parts();
    let (mut bytes, mut trailers) = (BytesMut::new(), HeaderMap::new());
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        match frame.ok()?.into_data() {
            Ok(data) if bytes.len() + data.len() > RESPONSE_BYTES => return None,
            Ok(data) => bytes.extend_from_slice(&data),
            Err(frame) => trailers = frame.into_trailers().unwrap_or_default(),
        }
    }
    Some(HttpCallResponse {
        response: Response::from_parts(parts, bytes.freeze()),
        trailers,
    })
}

/// Tells this worker's instance about its queues, from whatever thread.
struct Notifier(mpsc::Sender<u32>);

impl Notify for Notifier {
    fn queue_ready(&self, queue: u32) {
        // Full: it will be told often enough. Closed: there is nobody to tell.
        let _ = self.0.try_send(queue);
    }
}

/// A notifier for the instances of a filter. What it starts ends with it.
pub(super) fn notifier(filter: &Rc<WorkerFilter>) -> Arc<dyn Notify> {
    let (sender, mut receiver) = mpsc::channel(TELLINGS);
    let filter: Weak<WorkerFilter> = Rc::downgrade(filter);
    tokio::task::spawn_local(async move {
        while let Some(queue) = receiver.recv().await {
            let Some(pace) = filter.upgrade().map(|filter| Rc::clone(&filter.pace)) else {
                return;
            };
            pace.has_rested().await;
            let Some(filter) = filter.upgrade() else {
                return;
            };
            filter.queue_ready(queue);
            drop(filter);
            // A callback may take all its time, and fill the queue again.
            tokio::task::yield_now().await;
        }
    });
    Arc::new(Notifier(sender))
}
