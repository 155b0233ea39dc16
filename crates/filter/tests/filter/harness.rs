//! Scripts of host calls, and what came of them.

use crate::guest::{self, CALLBACK_LEVEL, CALLBACKS, IMAGE_AT, LOAD, OWN, STATUS_LEVEL, functions};
use bytes::Bytes;
use palisade_filter::{
    Bounds, CallRefused, Exchange, Fault, Filter, Host, HttpCall, Instance, Limits, LogLevel,
    Notify, Settings, Shared, StreamId,
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

/// Callbacks, by their numbers.
pub(crate) const CREATE: usize = 0;
pub(crate) const VM_START: usize = 1;
pub(crate) const CONFIGURE: usize = 2;
pub(crate) const CREATE_STREAM: usize = 3;
pub(crate) const REQUEST_HEADERS: usize = 4;
pub(crate) const REQUEST_BODY: usize = 5;
pub(crate) const REQUEST_TRAILERS: usize = 6;
pub(crate) const RESPONSE_HEADERS: usize = 7;
pub(crate) const RESPONSE_BODY: usize = 8;
pub(crate) const RESPONSE_TRAILERS: usize = 9;
pub(crate) const DONE: usize = 10;
pub(crate) const LOG: usize = 11;
pub(crate) const DELETE: usize = 12;
pub(crate) const TICK: usize = 13;
pub(crate) const QUEUE_READY: usize = 14;
pub(crate) const CALL_RESPONSE: usize = 15;
pub(crate) const ALLOCATE: usize = 16;

/// Those at a stream's end.
pub(crate) const ENDS: [(usize, &str); 3] = [
    (DONE, "proxy_on_done"),
    (LOG, "proxy_on_log"),
    (DELETE, "proxy_on_delete"),
];

/// Status codes.
pub(crate) const OK: u32 = 0;
pub(crate) const NOT_FOUND: u32 = 1;
pub(crate) const BAD_ARGUMENT: u32 = 2;
pub(crate) const INVALID_MEMORY: u32 = 6;
pub(crate) const EMPTY: u32 = 7;
pub(crate) const CAS_MISMATCH: u32 = 8;
pub(crate) const INTERNAL_FAILURE: u32 = 10;
pub(crate) const UNIMPLEMENTED: u32 = 12;

/// Where scripts have results put, and beyond all memory.
pub(crate) const DATA: u64 = 8;
pub(crate) const LENGTH: u64 = 12;
pub(crate) const NUMBER: u64 = 16;
pub(crate) const OUT: u64 = 0xffff_fff0;
/// What [`DATA`] and [`LENGTH`] say.
pub(crate) const GIVEN: [u64; 2] = [LOAD | DATA, LOAD | LENGTH];

/// One thing that a guest did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A callback began.
    Callback(&'static str, Vec<u32>),
    /// A host function gave this status.
    Status(&'static str, u32),
    /// It logged a line.
    Line(LogLevel, String),
}

/// A server that notes what it is asked for.
pub(crate) struct Recorder {
    pub(crate) events: RefCell<Vec<Event>>,
    pub(crate) calls: RefCell<Vec<HttpCall>>,
    pub(crate) tick_periods: RefCell<Vec<Option<Duration>>>,
    pub(crate) level: Cell<LogLevel>,
}

impl Recorder {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            events: RefCell::default(),
            calls: RefCell::default(),
            tick_periods: RefCell::default(),
            level: Cell::new(LogLevel::Trace),
        })
    }
}

impl Host for Recorder {
    fn log(&self, level: LogLevel, line: &[u8]) {
        let numbers: Vec<u32> = line
            .chunks_exact(4)
            .map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        let names: Vec<_> = functions()
            .iter()
            .map(|(name, _)| *name)
            .chain(OWN)
            .collect();
        let event = match level {
            STATUS_LEVEL => Event::Status(names[numbers[0] as usize], numbers[1]),
            CALLBACK_LEVEL => {
                Event::Callback(CALLBACKS[numbers[0] as usize].0, numbers[1..].to_vec())
            }
            _ => Event::Line(level, String::from_utf8_lossy(line).into_owned()),
        };
        self.events.borrow_mut().push(event);
    }

    fn log_level(&self) -> LogLevel {
        self.level.get()
    }

    fn call(&self, call: HttpCall) -> Result<(), CallRefused> {
        if call.upstream != "upstream" {
            return Err(CallRefused);
        }
        self.calls.borrow_mut().push(call);
        Ok(())
    }

    fn set_tick_period(&self, period: Option<Duration>) {
        self.tick_periods.borrow_mut().push(period);
    }

    fn property(&self, exchange: Option<&Exchange>, path: &[u8]) -> Option<Bytes> {
        match path {
            b"node\0id" => Some(Bytes::from_static(b"node")),
            b"upstream\0address" => exchange.map(|_| Bytes::from_static(b"192.0.2.9:80")),
            _ => None,
        }
    }
}

/// An argument of a scripted call: one number, or an address and a length.
pub(crate) enum Argument {
    One(u64),
    Two([u64; 2]),
}

impl From<u64> for Argument {
    fn from(number: u64) -> Self {
        Self::One(number)
    }
}

impl From<u32> for Argument {
    fn from(number: u32) -> Self {
        Self::One(number.into())
    }
}

impl From<i32> for Argument {
    fn from(number: i32) -> Self {
        Self::One(u64::from(number.cast_unsigned()))
    }
}

impl From<[u64; 2]> for Argument {
    fn from(range: [u64; 2]) -> Self {
        Self::Two(range)
    }
}

/// Calls that the guest makes in its callbacks.
#[derive(Clone, Default)]
pub(crate) struct Script {
    calls: Vec<u8>,
    image: Vec<u8>,
}

/// Adds a call: `call!(script, CALLBACK, "function", 1, text, 2)`.
macro_rules! call {
    ($script:expr, $callback:expr, $name:expr $(, $argument:expr)* $(,)?) => {
        $script.call($callback, $name, [$($crate::harness::Argument::from($argument)),*])
    };
}
pub(crate) use call;

impl Script {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Puts bytes into the guest's memory; where they are, and how many.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> [u64; 2] {
        let at = u64::from(IMAGE_AT) + self.image.len() as u64;
        self.image.extend_from_slice(bytes);
        [at, bytes.len() as u64]
    }

    pub(crate) fn text(&mut self, text: &str) -> [u64; 2] {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn map(&mut self, map: &[(&str, &str)]) -> [u64; 2] {
        self.bytes(&guest::pairs(map))
    }

    pub(crate) fn call<const N: usize>(
        &mut self,
        callback: usize,
        name: &str,
        arguments: [Argument; N],
    ) {
        let arguments: Vec<u64> = arguments
            .into_iter()
            .flat_map(|argument| match argument {
                Argument::One(number) => vec![number],
                Argument::Two(range) => range.to_vec(),
            })
            .collect();
        self.calls.extend(guest::call(callback, name, &arguments));
    }

    /// Has the guest log what it was given at [`DATA`] and [`LENGTH`].
    pub(crate) fn show(&mut self, callback: usize) {
        call!(self, callback, "proxy_log", LogLevel::Info as u32, GIVEN);
    }

    /// Has the guest log the number at [`NUMBER`], as bytes.
    pub(crate) fn show_number(&mut self, callback: usize, bytes: u32) {
        call!(
            self,
            callback,
            "proxy_log",
            LogLevel::Info as u32,
            NUMBER,
            bytes
        );
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            configuration: guest::configuration(&self.calls, &self.image),
            vm_configuration: Bytes::from_static(b"vm configuration"),
            root_id: "root".to_owned(),
            env: vec![("NAME".to_owned(), "value".to_owned())],
            limits: Limits {
                memory_bytes: 1 << 20,
                time: Some(Duration::from_secs(5)),
                ..Limits::default()
            },
            ..Settings::new("filter")
        }
    }

    pub(crate) fn start(&self) -> Fixture {
        self.start_with(self.settings(), &Arc::default(), None)
            .unwrap()
    }

    pub(crate) fn start_bounded(&self, bounds: Bounds) -> Fixture {
        let settings = Settings {
            bounds,
            ..self.settings()
        };
        self.start_with(settings, &Arc::default(), None).unwrap()
    }

    pub(crate) fn start_with(
        &self,
        settings: Settings,
        shared: &Arc<Shared>,
        notify: Option<Arc<dyn Notify>>,
    ) -> Result<Fixture, Fault> {
        let filter = Filter::load(&guest::program(), settings, shared).expect("a filter");
        let recorder = Recorder::new();
        let host = Rc::clone(&recorder) as Rc<dyn Host>;
        let instance = Instance::start(&filter, host, notify)?;
        Ok(Fixture { instance, recorder })
    }

    /// One exchange from its beginning to its end; gives the statuses of all calls, and the exchange.
    pub(crate) fn run(&self) -> (Vec<u32>, Box<Exchange>) {
        let mut fixture = self.start();
        let exchange = fixture.pass();
        (fixture.statuses(), exchange)
    }

    /// The statuses of one exchange.
    pub(crate) fn statuses(&self) -> Vec<u32> {
        self.run().0
    }

    /// The lines of one exchange.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut fixture = self.start();
        fixture.pass();
        fixture.lines()
    }
}

/// An instance and what it asks for.
pub(crate) struct Fixture {
    pub(crate) instance: Instance,
    pub(crate) recorder: Rc<Recorder>,
}

impl Fixture {
    pub(crate) fn open(&mut self) -> StreamId {
        self.instance.open(guest::exchange())
    }

    /// A whole exchange; all parts are called whatever the guest wants.
    pub(crate) fn pass(&mut self) -> Box<Exchange> {
        let id = self.open();
        self.pass_parts(id);
        self.instance.close(id).unwrap().expect("the exchange")
    }

    pub(crate) fn pass_parts(&mut self, id: StreamId) {
        let instance = &mut self.instance;
        let _ = instance.on_request_headers(id, false).unwrap();
        let _ = instance.on_request_body(id, false).unwrap();
        let _ = instance.on_request_trailers(id).unwrap();
        let _ = instance.on_response_headers(id, false).unwrap();
        let _ = instance.on_response_body(id, false).unwrap();
        let _ = instance.on_response_trailers(id).unwrap();
    }

    /// What happened since it was asked last.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.recorder.events.take()
    }

    /// The statuses that host functions gave, without those of lines that show something.
    pub(crate) fn statuses(&self) -> Vec<u32> {
        let events = self.recorder.events.borrow();
        let statuses = events.iter().filter_map(|event| match event {
            Event::Status("proxy_log", OK) => None,
            Event::Status(_, status) => Some(*status),
            _ => None,
        });
        statuses.collect()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let events = self.recorder.events.borrow();
        let lines = events.iter().filter_map(|event| match event {
            Event::Line(_, line) => Some(line.clone()),
            _ => None,
        });
        lines.collect()
    }

    pub(crate) fn callbacks(&self) -> Vec<(&'static str, Vec<u32>)> {
        let events = self.recorder.events.borrow();
        let callbacks = events.iter().filter_map(|event| match event {
            Event::Callback(name, parameters) => Some((*name, parameters.clone())),
            _ => None,
        });
        callbacks.collect()
    }
}
