//! What the host keeps for an instance: its contexts, and what each may do now.

mod loaded;
mod messages;
mod stream;
mod streams;

pub(crate) use loaded::Loaded;
pub(crate) use stream::{Life, Stream};

use crate::{
    Direction, Exchange, Host, HttpCallResponse, LogLevel, Notify, StreamId, abi::Status,
    fields::Known, metrics::Cell, space::Registrant,
};
use palisade_engine::guest::Isolation;
use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use streams::Streams;

/// The number of the root context. Streams have those above, each its own until all are used up.
pub(crate) const ROOT: u32 = 1;

/// Which context is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Root,
    /// The stream of this number.
    Stream(u32),
}

pub(crate) struct State {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) host: Rc<dyn Host>,
    pub(crate) notify: Option<Arc<dyn Notify>>,
    pub(crate) streams: Streams,
    pub(crate) unfinished_streams: usize,
    pub(crate) root: Life,
    /// Whose callback is under way.
    pub(crate) current: At,
    /// Whose fields and bodies host functions mean.
    pub(crate) effective: At,
    /// The callback under way sent a local response or closed a stream.
    pub(crate) stops: bool,
    /// Contexts for which the guest called `proxy_done`, to be finished after its callback.
    pub(crate) done: Vec<At>,
    pub(crate) is_in_vm_start: bool,
    /// A host function has called the guest's allocator.
    pub(crate) is_allocating: bool,
    /// Tokens of HTTP calls that are under way.
    pub(crate) calls: HashSet<u32>,
    last_token: u32,
    /// The response to the call whose callback is under way.
    pub(crate) response: CallResponse,
    pub(crate) tick_period: Option<Duration>,
    pub(crate) metrics: Vec<Arc<Cell>>,
    pub(crate) metric_numbers: HashMap<Box<str>, u32>,
    /// Log lines that this phase may still write.
    pub(crate) lines_left: u32,
    pub(crate) lines_dropped: u64,
    pub(crate) crossings: u64,
    pub(crate) denials: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) phases: u64,
    /// Those of them whose time is in `cpu_ns`.
    counted_phases: u64,
    /// Once it has registered a queue.
    registrant: Option<Arc<Registrant>>,
    /// Kept from call to call, for what is written to guests.
    pub(crate) scratch: Vec<u8>,
    /// Of an instance that is kept from request to request.
    known: Option<Box<Known>>,
}

/// What came of an HTTP call.
#[allow(
    clippy::large_enum_variant,
    reason = "each instance has one, and none is moved about"
)]
#[derive(Debug)]
pub(crate) enum CallResponse {
    /// No callback of a call is under way.
    None,
    Failed,
    Here(HttpCallResponse),
}

impl State {
    pub(crate) fn new(
        loaded: Arc<Loaded>,
        host: Rc<dyn Host>,
        notify: Option<Arc<dyn Notify>>,
    ) -> Self {
        let is_kept = loaded.settings.isolation == Isolation::Kept;
        Self {
            loaded,
            host,
            notify,
            streams: Streams::new(),
            unfinished_streams: 0,
            root: Life::New,
            current: At::Root,
            effective: At::Root,
            stops: false,
            done: Vec::new(),
            is_in_vm_start: false,
            is_allocating: false,
            calls: HashSet::new(),
            last_token: 0,
            response: CallResponse::None,
            tick_period: None,
            metrics: Vec::new(),
            metric_numbers: HashMap::new(),
            lines_left: 0,
            lines_dropped: 0,
            crossings: 0,
            denials: 0,
            cpu_ns: 0,
            phases: 0,
            counted_phases: 0,
            registrant: None,
            scratch: Vec::new(),
            known: is_kept.then(Box::default),
        }
    }

    pub(crate) fn open(&mut self, exchange: Box<Exchange>) -> StreamId {
        let stream = |context| Stream::new(context, Some(exchange));
        StreamId(self.streams.insert(stream))
    }

    /// Puts the exchange of a stream that is over where it can be taken.
    pub(crate) fn give_back(&mut self, id: StreamId, exchange: Box<Exchange>) {
        match self.streams.get_mut(id.0) {
            Some(stream) => stream.exchange = Some(exchange),
            None => self.streams.put_back(Stream::new(id.0, Some(exchange))),
        }
    }

    pub(crate) fn next_token(&mut self) -> u32 {
        loop {
            self.last_token = self.last_token.wrapping_add(1).max(1);
            if self.calls.insert(self.last_token) {
                return self.last_token;
            }
        }
    }

    pub(crate) fn remove(&mut self, context: u32) -> Option<Stream> {
        let stream = self.streams.remove(context)?;
        let was_unfinished = matches!(stream.life, Life::Unfinished | Life::Finished);
        self.unfinished_streams -= usize::from(was_unfinished);
        Some(stream)
    }

    /// The stream of an ID, unless it is over.
    pub(crate) fn stream(&self, id: StreamId) -> Option<&Stream> {
        self.streams.get(id.0)
    }

    pub(crate) fn stream_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.streams.get_mut(id.0)
    }

    pub(crate) fn exchange_mut(&mut self, id: StreamId) -> Option<&mut Exchange> {
        self.stream_mut(id)?.exchange.as_deref_mut()
    }

    /// The context of a number that a guest gave.
    pub(crate) fn context(&self, number: u32) -> Option<At> {
        match number {
            // None of the module's: Envoy has it mean the context whose callback is under way.
            0 => Some(self.current),
            ROOT => Some(At::Root),
            _ => self.streams.get(number).map(|_| At::Stream(number)),
        }
    }

    /// The stream that host functions mean.
    pub(crate) fn effective_stream(&self) -> Option<&Stream> {
        match self.effective {
            At::Root => None,
            At::Stream(context) => self.streams.get(context),
        }
    }

    pub(crate) fn effective_stream_mut(&mut self) -> Option<&mut Stream> {
        match self.effective {
            At::Root => None,
            At::Stream(context) => self.streams.get_mut(context),
        }
    }

    pub(crate) fn effective_id(&self) -> Option<StreamId> {
        match self.effective {
            At::Root => None,
            At::Stream(context) => self.streams.get(context).map(|_| StreamId(context)),
        }
    }

    /// The exchange that host functions mean.
    pub(crate) fn exchange(&self) -> Option<&Exchange> {
        self.effective_stream()?.exchange.as_deref()
    }

    /// Registers a queue: this instance is told of it from now on, if it can be told.
    pub(crate) fn register_queue(&mut self, name: &[u8]) -> Result<u32, Status> {
        if let (None, Some(notify)) = (&self.registrant, &self.notify) {
            self.registrant = Some(Registrant::new(notify));
        }
        let queues = &self.loaded.space.queues;
        queues
            .register(name, self.registrant.as_ref())
            .map_err(|_| Status::InternalFailure)
    }

    pub(crate) fn has_queues(&self) -> bool {
        self.registrant.is_some()
    }

    /// The instance is to be told of no queue any more.
    pub(crate) fn unregister_queues(&self) {
        if let Some(registrant) = &self.registrant {
            self.loaded.space.queues.unregister(registrant);
        }
    }

    /// Counts the time of this phase, for itself and for those before it that were not measured. What was counted stays:
    /// metrics only grow.
    pub(crate) fn count_time(&mut self, took_ns: u64) {
        self.cpu_ns += took_ns * (self.phases - self.counted_phases);
        self.counted_phases = self.phases;
    }

    /// Has the callback under way pause, if it is of the stream that host functions mean: another one's end
    /// would leave this one waiting for ever.
    pub(crate) fn stop_current(&mut self) {
        self.stops |= self.effective == self.current;
    }

    /// Writes a log line, if its level is wanted and the phase has not written its share.
    pub(crate) fn log(&mut self, level: LogLevel, line: &[u8]) {
        if level < self.host.log_level() {
            return;
        }
        let Some(left) = self.lines_left.checked_sub(1) else {
            self.lines_dropped += 1;
            return;
        };
        self.lines_left = left;
        let most = self.loaded.settings.bounds.line_bytes;
        self.host.log(level, &line[..line.len().min(most)]);
    }

    /// Wakes whoever waits for a stream: none goes on.
    pub(crate) fn wake_all(&mut self) {
        for stream in self.streams.iter_mut() {
            stream.resume(Direction::Request);
            stream.resume(Direction::Response);
        }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("State")
            .field("streams", &self.streams.len())
            .field("calls", &self.calls.len())
            .finish_non_exhaustive()
    }
}
