//! What the host keeps for an instance: its contexts, and what each may do now.

mod streams;

use crate::{
    Action, Bounds, Direction, Exchange, Host, HttpCallAnswer, LocalResponse, LogLevel, Notify,
    Part, StreamId,
    abi::{Buffer, Map, Status},
    fields::{Change, View},
    filter::Loaded,
    shared::{Cell, Registrant},
};
use bytes::{Buf, BytesMut};
use http::{HeaderMap, header};
use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
    sync::Arc,
    task::{Poll, Waker},
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

/// How far a context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The guest does not know it yet.
    New,
    /// It is at work.
    Created,
    /// It is over, and the guest said that it has to do with it still.
    Unfinished,
    /// It is over, and the guest said meanwhile that it is done.
    Finished,
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
    /// The answer to the call whose callback is under way.
    pub(crate) answer: CallAnswer,
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
}

/// What came of an HTTP call.
#[allow(
    clippy::large_enum_variant,
    reason = "each instance has one, and none is moved about"
)]
#[derive(Debug)]
pub(crate) enum CallAnswer {
    /// No callback of a call is under way.
    None,
    Failed,
    Here(HttpCallAnswer),
}

/// Parts of an exchange that the guest may change now: a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(u8);

impl Parts {
    pub(crate) const fn of(part: Part) -> Self {
        Self(1 << part as u8)
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn has(self, part: Part) -> bool {
        self.0 & Self::of(part).0 != 0
    }

    /// Those that go this way.
    const fn in_direction(direction: Direction) -> Self {
        match direction {
            Direction::Request => Self(0b000_111),
            Direction::Response => Self(0b111_000),
        }
    }
}

pub(crate) struct Stream {
    pub(crate) context: u32,
    pub(crate) life: Life,
    pub(crate) exchange: Option<Box<Exchange>>,
    changeable: Parts,
    resumed: [bool; 2],
    wakers: [Option<Waker>; 2],
    /// One that was sent while the exchange was elsewhere.
    local_response: Option<Box<LocalResponse>>,
    pub(crate) is_closed: bool,
    /// Bytes that the guest has set of each map.
    written: [usize; 4],
}

impl State {
    pub(crate) fn new(
        loaded: Arc<Loaded>,
        host: Rc<dyn Host>,
        notify: Option<Arc<dyn Notify>>,
    ) -> Self {
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
            answer: CallAnswer::None,
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
        }
    }

    pub(crate) fn open(&mut self, exchange: Box<Exchange>) -> StreamId {
        let stream = |context| Stream::new(context, Some(exchange));
        StreamId(self.streams.insert(stream))
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

    /// The fields of a map. Those of the exchange can be read as long as it is here.
    pub(crate) fn view(&self, map: Map) -> Result<View<'_>, Status> {
        match (map, &self.answer) {
            (Map::CallHeaders | Map::CallTrailers, CallAnswer::None) => Err(Status::BadArgument),
            (Map::CallHeaders | Map::CallTrailers, CallAnswer::Failed) => Ok(View::Nothing),
            (Map::CallHeaders, CallAnswer::Here(answer)) => Ok(View::of_answer(answer)),
            (Map::CallTrailers, CallAnswer::Here(answer)) => Ok(View::Trailers(&answer.trailers)),
            _ => view_exchange(self.exchange().ok_or(Status::BadArgument)?, map),
        }
    }

    /// The fields of a map, to be changed with the count of bytes that the guest has written to it: while
    /// its callback is under way, and as long as it has the stream wait.
    pub(crate) fn change(
        &mut self,
        map: Map,
        change: impl FnOnce(&mut Change<'_>, &Bounds, &mut usize) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let (part, count) = match map {
            Map::RequestHeaders => (Part::RequestHeaders, 0),
            Map::RequestTrailers => (Part::RequestTrailers, 1),
            Map::ResponseHeaders => (Part::ResponseHeaders, 2),
            Map::ResponseTrailers => (Part::ResponseTrailers, 3),
            Map::CallHeaders | Map::CallTrailers => return Err(Status::BadArgument),
        };
        let At::Stream(context) = self.effective else {
            return Err(Status::BadArgument);
        };
        let stream = self.streams.get_mut(context).ok_or(Status::BadArgument)?;
        if !stream.changeable.has(part) {
            return Err(Status::BadArgument);
        }
        let exchange = stream.exchange.as_deref_mut().ok_or(Status::BadArgument)?;
        let mut fields = change_exchange(exchange, part).ok_or(Status::BadArgument)?;
        let bounds = &self.loaded.settings.bounds;
        let changed = change(&mut fields, bounds, &mut stream.written[count]);
        forget_empty_trailers(exchange, part);
        changed
    }

    /// Bytes of a buffer.
    pub(crate) fn buffer(&self, buffer: Buffer) -> Result<&[u8], Status> {
        match buffer {
            Buffer::RequestBody => {
                let exchange = self.exchange().ok_or(Status::NotFound)?;
                Ok(&exchange.request_rest.body)
            }
            Buffer::ResponseBody => {
                let exchange = self.exchange().ok_or(Status::NotFound)?;
                Ok(&exchange.response_rest.body)
            }
            Buffer::CallBody => match &self.answer {
                CallAnswer::Here(answer) => Ok(answer.response.body()),
                CallAnswer::Failed => Ok(&[]),
                CallAnswer::None => Err(Status::NotFound),
            },
            Buffer::VmConfiguration => Ok(&self.loaded.settings.vm_configuration),
            Buffer::PluginConfiguration => Ok(&self.loaded.settings.configuration),
        }
    }

    /// Puts bytes in place of some of a body.
    pub(crate) fn set_buffer(
        &mut self,
        buffer: Buffer,
        start: u32,
        length: u32,
        bytes: &[u8],
    ) -> Result<(), Status> {
        let part = match buffer {
            Buffer::RequestBody => Part::RequestBody,
            Buffer::ResponseBody => Part::ResponseBody,
            _ => return Err(Status::BadArgument),
        };
        let most = self.loaded.settings.bounds.body_bytes;
        let stream = self.effective_stream_mut().ok_or(Status::NotFound)?;
        if !stream.changeable.has(part) {
            return Err(Status::NotFound);
        }
        let exchange = stream.exchange.as_deref_mut().ok_or(Status::NotFound)?;
        let (message, headers) = match part {
            Part::RequestBody => (
                &mut exchange.request_rest,
                Some(&mut exchange.request.headers),
            ),
            _ => {
                let response = exchange.response.as_mut();
                (
                    &mut exchange.response_rest,
                    response.map(|parts| &mut parts.headers),
                )
            }
        };
        let (start, length) = (start as usize, length as usize);
        splice(&mut message.body, start, length, bytes, most)?;
        if let Some(headers) = headers {
            // The length that was said is not the body's any more.
            headers.remove(header::CONTENT_LENGTH);
        }
        Ok(())
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

    /// The instance is to be told of no queue any more.
    pub(crate) fn unregister_queues(&self) {
        if let Some(registrant) = &self.registrant {
            self.loaded.space.queues.unregister(registrant);
        }
    }

    /// Counts the time of this phase, for itself and for those before it that were not measured. What was counted stays:
    /// figures only grow.
    pub(crate) fn count_time(&mut self, took_ns: u64) {
        self.cpu_ns += took_ns * (self.phases - self.counted_phases);
        self.counted_phases = self.phases;
    }

    /// Has the callback under way pause, if it is of the stream that host functions mean: another one's end
    /// would leave this one waiting for ever.
    pub(crate) fn stop_current(&mut self) {
        self.stops |= self.effective == self.current;
    }

    /// Writes a log line, if somebody looks at its level and the phase has not written its share.
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

impl Stream {
    fn new(context: u32, exchange: Option<Box<Exchange>>) -> Self {
        Self {
            context,
            life: Life::New,
            exchange,
            changeable: Parts::default(),
            resumed: [false; 2],
            wakers: [None, None],
            local_response: None,
            is_closed: false,
            written: [0; 4],
        }
    }

    pub(crate) fn put(&mut self, mut exchange: Box<Exchange>) {
        if let Some(response) = self.local_response.take() {
            exchange.local_response = Some(response);
        }
        self.exchange = Some(exchange);
    }

    /// Gives the exchange back and keeps a copy of the heads for the log.
    pub(crate) fn leave_unfinished(&mut self) -> Option<Box<Exchange>> {
        self.life = Life::Unfinished;
        self.changeable = Parts::default();
        let exchange = self.exchange.take()?;
        self.exchange = Some(Box::new(exchange.heads()));
        Some(exchange)
    }

    /// A callback of a part begins.
    pub(crate) fn begin(&mut self, part: Part, changeable: Parts) {
        self.changeable = self.changeable.and(changeable);
        self.resumed[part.direction() as usize] = false;
    }

    /// It is over, and wants this.
    pub(crate) fn end(&mut self, part: Part, action: Action) {
        if action == Action::Continue {
            let passed = Parts::in_direction(part.direction());
            self.changeable = self.changeable.without(passed);
        }
    }

    /// What was paused goes on, and is out of the guest's reach with that.
    pub(crate) fn resume(&mut self, direction: Direction) {
        let passed = Parts::in_direction(direction);
        self.changeable = self.changeable.without(passed);
        self.resumed[direction as usize] = true;
        if let Some(waker) = self.wakers[direction as usize].take() {
            waker.wake();
        }
    }

    pub(crate) fn poll_resumed(&mut self, direction: Direction, waker: &Waker) -> Poll<()> {
        let direction = direction as usize;
        if std::mem::take(&mut self.resumed[direction]) {
            self.wakers[direction] = None;
            return Poll::Ready(());
        }
        match &mut self.wakers[direction] {
            Some(present) => present.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        Poll::Pending
    }

    /// Answers in place of the service; nothing of the exchange is to be looked at any more.
    pub(crate) fn respond(&mut self, response: LocalResponse) {
        let response = Box::new(response);
        match &mut self.exchange {
            Some(exchange) => exchange.local_response = Some(response),
            None => self.local_response = Some(response),
        }
        self.resume(Direction::Request);
        self.resume(Direction::Response);
    }

    pub(crate) fn has_answered(&self) -> bool {
        let exchange = self.exchange.as_deref();
        self.is_closed || exchange.is_some_and(|exchange| exchange.local_response.is_some())
    }

    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.resume(Direction::Request);
        self.resume(Direction::Response);
    }
}

fn view_exchange(exchange: &Exchange, map: Map) -> Result<View<'_>, Status> {
    Ok(match map {
        Map::RequestHeaders => View::of_request(exchange),
        Map::RequestTrailers => view_trailers(exchange.request_rest.trailers.as_deref()),
        Map::ResponseHeaders => match &exchange.response {
            Some(parts) => View::Response(parts.status, &parts.headers),
            None => return Err(Status::BadArgument),
        },
        Map::ResponseTrailers => view_trailers(exchange.response_rest.trailers.as_deref()),
        Map::CallHeaders | Map::CallTrailers => View::Nothing,
    })
}

fn view_trailers(trailers: Option<&HeaderMap>) -> View<'_> {
    trailers.map_or(View::Nothing, View::Trailers)
}

/// Trailers that are not there begin with the first field.
fn change_exchange(exchange: &mut Exchange, part: Part) -> Option<Change<'_>> {
    Some(match part {
        Part::RequestHeaders => {
            exchange.is_request_changed = true;
            Change::Request(&mut exchange.request)
        }
        Part::ResponseHeaders => Change::Response(exchange.response.as_mut()?),
        Part::RequestTrailers => {
            Change::Trailers(exchange.request_rest.trailers.get_or_insert_default())
        }
        Part::ResponseTrailers => {
            Change::Trailers(exchange.response_rest.trailers.get_or_insert_default())
        }
        Part::RequestBody | Part::ResponseBody => return None,
    })
}

/// Trailers without a field are none: a message that ends without does not end with empty ones because somebody
/// tried to make some.
fn forget_empty_trailers(exchange: &mut Exchange, part: Part) {
    let trailers = match part {
        Part::RequestTrailers => &mut exchange.request_rest.trailers,
        Part::ResponseTrailers => &mut exchange.response_rest.trailers,
        _ => return,
    };
    trailers.take_if(|trailers| trailers.is_empty());
}

/// Puts bytes in place of `length` bytes from `start` on, both cut to what there is. The body grows up to
/// `most` bytes.
fn splice(
    body: &mut BytesMut,
    start: usize,
    length: usize,
    bytes: &[u8],
    most: usize,
) -> Result<(), Status> {
    let start = start.min(body.len());
    let length = length.min(body.len() - start);
    let after = body.len() - length + bytes.len();
    if after > most && after > body.len() {
        return Err(Status::InternalFailure);
    }
    let mut tail = body.split_off(start);
    tail.advance(length);
    body.extend_from_slice(bytes);
    body.extend_from_slice(&tail);
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(start: usize, length: usize, bytes: &str) -> Result<String, Status> {
        let mut body = BytesMut::from("012345");
        splice(&mut body, start, length, bytes.as_bytes(), 10)?;
        Ok(String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn bodies_are_prepended_to_appended_to_replaced_and_bounded() {
        let max = u32::MAX as usize;
        assert_eq!(spliced(0, 0, "ab").unwrap(), "ab012345");
        assert_eq!(spliced(max, 0, "ab").unwrap(), "012345ab");
        assert_eq!(spliced(max, max, "ab").unwrap(), "012345ab");
        assert_eq!(spliced(0, max, "ab").unwrap(), "ab");
        assert_eq!(spliced(2, 2, "ab").unwrap(), "01ab45");
        assert_eq!(spliced(3, 0, "ab").unwrap(), "012ab345");
        assert_eq!(spliced(1, 4, "").unwrap(), "05");
        assert_eq!(spliced(0, 0, "abcd").unwrap(), "abcd012345");
        assert_eq!(spliced(0, 0, "abcde"), Err(Status::InternalFailure));
        assert_eq!(spliced(0, 6, "0123456789a"), Err(Status::InternalFailure));
    }

    #[test]
    fn what_is_longer_than_the_bound_may_be_cut() {
        let mut body = BytesMut::from("0123456789");
        splice(&mut body, 0, 1, b"ab", 4).unwrap_err();
        splice(&mut body, 0, 1, b"a", 4).unwrap();
        splice(&mut body, 0, 8, b"", 4).unwrap();
        assert_eq!(&body[..], b"89");
    }
}
