//! What must hold of whatever a filter hands to the host functions of proxy-wasm.
//!
//! The bytes are calls, one after the other, each to be made in one of the callbacks: a guest reads them as its
//! configuration and makes them, with its memory and its exchange as the calls before have left them. The fuzz
//! target and ordinary tests use the same guest.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response, header};
use palisade_engine::guest::{Engine, Limits, Program};
use palisade_filter::{
    Action, Bounds, CallRefused, Exchange, FaultKind, Filter, Finish, Host, HttpCall,
    HttpCallResponse, Instance, LogLevel, Message, Part, Peer, Properties, Settings, Shared,
    SharedBounds, StreamId,
};
use std::{
    cell::RefCell,
    fmt::Write as _,
    rc::Rc,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// What registers the functions that a filter can import, a row each: `"name" => function [argument: u32, …];`, and
/// without the function where there is nothing behind the name.
const REGISTERED: [&str; 2] = [
    include_str!("../../crates/filter/src/imports.rs"),
    include_str!("../../crates/filter/src/imports/wasi.rs"),
];

/// Each function with its parameters: `i` for 32 bits, `I` for 64. Those of `wasi_snapshot_preview1` do not begin
/// with `proxy_`. Not among them is what ends the guest, and what C++ imports and does nothing.
pub(crate) fn functions() -> &'static [(&'static str, String)] {
    static FUNCTIONS: OnceLock<Vec<(&'static str, String)>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        let rows = REGISTERED.iter().flat_map(|source| source.split(';'));
        rows.filter_map(registered).collect()
    })
}

fn registered(row: &'static str) -> Option<(&'static str, String)> {
    let (name, rest) = row.trim().strip_prefix('"')?.split_once('"')?;
    // What stands behind the arguments is the host's own.
    let (function, rest) = rest.split_once('[').expect("a row has arguments");
    let (arguments, _) = rest.split_once(']').expect("a row has arguments");
    let function = function.trim();
    assert!(function.is_empty() || function.starts_with("=> "), "{row}");
    let types = arguments.split(',').filter_map(|one| one.split_once(": "));
    let kinds = types.map(|(_, kind)| match kind {
        "u32" => 'i',
        "u64" | "i64" => 'I',
        other => panic!("a parameter of {name} is {other}"),
    });
    Some((name, kinds.collect()))
}

/// What the guest does by itself, numbered behind the functions: ends by a trap, by `proc_exit`, by `abort`; loops,
/// recurses, grows by so many pages; gives this number from the callback.
pub(crate) const OWN: [&str; 7] = ["trap", "exit", "abort", "loop", "recurse", "grow", "return"];

/// The number of `return`.
fn return_number() -> usize {
    functions().len() + OWN.len() - 1
}

/// The callbacks that calls can be made in, by number, each with how many parameters it has.
pub(crate) const CALLBACKS: [(&str, usize); 17] = [
    ("proxy_on_context_create", 2),
    ("proxy_on_vm_start", 2),
    ("proxy_on_configure", 2),
    // Of a stream.
    ("proxy_on_context_create", 2),
    ("proxy_on_request_headers", 3),
    ("proxy_on_request_body", 3),
    ("proxy_on_request_trailers", 2),
    ("proxy_on_response_headers", 3),
    ("proxy_on_response_body", 3),
    ("proxy_on_response_trailers", 2),
    ("proxy_on_done", 1),
    ("proxy_on_log", 1),
    ("proxy_on_delete", 1),
    ("proxy_on_tick", 1),
    ("proxy_on_queue_ready", 2),
    ("proxy_on_http_call_response", 5),
    ("proxy_on_memory_allocate", 1),
];

/// A call is its function's number, its callback's, and 12 arguments of 8 bytes.
pub(crate) const CALL_BYTES: usize = 104;
/// How many bytes of calls a guest takes.
pub(crate) const MOST_BYTES: usize = 0x4000;
/// Where the guest has what follows the calls in its configuration.
pub(crate) const IMAGE_AT: u32 = 0x10000;
/// Where its allocator's memory begins and ends.
const HEAP_AT: u32 = 0x20000;
const HEAP_END: u32 = 0x40000;
/// Where it keeps what it logs of itself.
const NOTE_AT: u32 = 0xff00;
/// An argument with this bit is the number that stands at the address, within the first page.
pub(crate) const LOAD: u64 = 1 << 32;

/// The levels at which the guest logs a call's status and a callback's beginning.
pub(crate) const STATUS_LEVEL: LogLevel = LogLevel::Trace;
pub(crate) const CALLBACK_LEVEL: LogLevel = LogLevel::Debug;

/// One call, as bytes.
pub(crate) fn call(callback: usize, name: &str, arguments: &[u64]) -> Vec<u8> {
    let names = functions().iter().map(|(name, _)| *name).chain(OWN);
    let number = names.into_iter().position(|other| other == name);
    let number = number.unwrap_or_else(|| panic!("no function {name}")) as u32;
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((callback as u32).to_le_bytes());
    for argument in arguments {
        bytes.extend(argument.to_le_bytes());
    }
    bytes.resize(CALL_BYTES, 0);
    bytes
}

/// The configuration of a guest that makes these calls and has these bytes at [`IMAGE_AT`].
pub(crate) fn configuration(calls: &[u8], image: &[u8]) -> Bytes {
    let length = (calls.len() as u32).to_le_bytes();
    [&length, calls, image].concat().into()
}

/// The guest, compiled once.
pub(crate) fn program() -> Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM
        .get_or_init(|| {
            let binary = wat::parse_str(source()).expect("the guest's source is right");
            let engine = Engine::shared().expect("an engine");
            engine.compile(&binary).expect("the guest is a module")
        })
        .clone()
}

fn source() -> String {
    let imports: String = functions().iter().map(import).collect();
    let count = functions().len() + OWN.len();
    let blocks = "(block ".repeat(count);
    let labels: String = (0..count).fold(String::new(), |mut labels, at| {
        let _ = write!(labels, "{at} ");
        labels
    });
    let cases: String = (0..count).map(case).collect();
    let callbacks: String = (0..CALLBACKS.len()).map(callback).collect();
    format!(
        r#"(module
{imports}
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (import "env" "abort" (func $abort (param i32 i32 i32 i32)))
  (memory (export "memory") 4)
  (global $heap (mut i32) (i32.const {HEAP_AT}))
  (global $base (mut i32) (i32.const {HEAP_AT}))
  (global $calls (mut i32) (i32.const 0))
  (global $end (mut i32) (i32.const 0))
  (global $return (mut i32) (i32.const 0))
  (global $is_noting (mut i32) (i32.const 0))
  (func (export "proxy_abi_version_0_2_1"))

  ;; An argument: itself, or what stands there.
  (func $value (param $at i32) (result i32)
    (if (result i32) (i32.eq (i32.load offset=4 (local.get $at)) (i32.const 1))
      (then (i32.load (i32.and (i32.load (local.get $at)) (i32.const 0xfffc))))
      (else (i32.load (local.get $at)))))

  (func $note (param $at i32) (param $status i32)
    (i32.store (i32.const {NOTE_AT}) (i32.load (local.get $at)))
    (i32.store (i32.const {note_status_at}) (local.get $status))
    (drop (call $proxy_log (i32.const {status_level}) (i32.const {NOTE_AT}) (i32.const 8))))

  (func $recurse (call $recurse))

  (func $make (param $at i32)
{blocks}
    (br_table {labels}{last} (i32.load (local.get $at)))
{cases}
  )

  (func $run (param $callback i32) (local $at i32)
    (local.set $at (global.get $calls))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (global.get $end)))
        (if (i32.eq (i32.load offset=4 (local.get $at)) (local.get $callback))
          (then (call $make (local.get $at))))
        (local.set $at (i32.add (local.get $at) (i32.const {CALL_BYTES})))
        (br $next))))

  ;; Reads its calls, and puts what follows them in its place.
  (func $load (local $from i32) (local $length i32)
    (drop (call $proxy_get_buffer_bytes (i32.const 7) (i32.const 0) (i32.const 0xffffff)
      (i32.const 8) (i32.const 12)))
    (local.set $from (i32.load (i32.const 8)))
    (local.set $length (i32.load (i32.const 12)))
    (if (i32.eqz (local.get $length)) (then (return)))
    (global.set $base (global.get $heap))
    (global.set $calls (i32.add (local.get $from) (i32.const 4)))
    (global.set $end (i32.add (global.get $calls) (i32.load (local.get $from))))
    (memory.copy (i32.const {IMAGE_AT}) (global.get $end)
      (i32.sub (i32.add (local.get $from) (local.get $length)) (global.get $end)))
    (i64.store (i32.const 8) (i64.const 0)))
{callbacks}
)"#,
        note_status_at = NOTE_AT + 4,
        status_level = STATUS_LEVEL as u32,
        last = count - 1,
    )
}

fn import((name, parameters): &(&str, String)) -> String {
    let types: String = parameters
        .chars()
        .map(|kind| if kind == 'i' { " i32" } else { " i64" })
        .collect();
    let module = match name.starts_with("proxy_") {
        true => "env",
        false => "wasi_snapshot_preview1",
    };
    format!("  (import \"{module}\" \"{name}\" (func ${name} (param{types}) (result i32)))\n")
}

/// What follows the end of the block that the function's number leaves.
fn case(number: usize) -> String {
    let act = match functions().get(number) {
        Some((name, parameters)) => {
            let arguments: String = parameters
                .chars()
                .enumerate()
                .map(|(at, kind)| argument(at, kind))
                .collect();
            format!("(call $note (local.get $at) (call ${name}{arguments}))")
        }
        None => own(OWN[number - functions().len()]),
    };
    format!(") {act} (return)\n")
}

fn argument(at: usize, kind: char) -> String {
    let offset = 8 + 8 * at;
    match kind {
        'i' => format!(" (call $value (i32.add (local.get $at) (i32.const {offset})))"),
        _ => format!(" (i64.load offset={offset} (local.get $at))"),
    }
}

fn own(name: &str) -> String {
    let first = argument(0, 'i');
    match name {
        "trap" => "(unreachable)".to_owned(),
        "exit" => format!("(call $proc_exit {first})"),
        "abort" => {
            let rest: String = (1..4).map(|at| argument(at, 'i')).collect();
            format!("(call $abort {first}{rest})")
        }
        "loop" => "(loop (br 0))".to_owned(),
        "recurse" => "(call $recurse)".to_owned(),
        "grow" => format!("(drop (memory.grow {first}))"),
        "return" => format!("(global.set $return {first})"),
        other => panic!("the guest can't {other}"),
    }
}

/// A callback: logs its parameters and makes its calls.
fn callback(number: usize) -> String {
    let (name, parameters) = CALLBACKS[number];
    if name == "proxy_on_memory_allocate" {
        return allocator(number);
    }
    if name == "proxy_on_context_create" && number == 3 {
        return String::new();
    }
    let types = " i32".repeat(parameters);
    let gives = matches!(
        name,
        "proxy_on_vm_start" | "proxy_on_configure" | "proxy_on_done"
    );
    let is_action = name.contains("request") || name.contains("_response_");
    let has_result = gives || is_action && name != "proxy_on_http_call_response";
    let (result, give) = match has_result {
        true => ("(result i32)", "(global.get $return)"),
        false => ("", ""),
    };
    let stores: String = (0..parameters)
        .map(|at| {
            let to = NOTE_AT as usize + 4 + 4 * at;
            format!("(i32.store (i32.const {to}) (local.get {at}))")
        })
        .collect();
    let (begin, number) = match name {
        // With a parent it is a stream's.
        "proxy_on_context_create" => (
            "(if (i32.eqz (local.get 1)) (then (call $load)))",
            "(select (i32.const 3) (i32.const 0) (local.get 1))".to_owned(),
        ),
        _ => ("", format!("(i32.const {number})")),
    };
    format!(
        r#"
  (func (export "{name}") (param{types}) {result}
    {begin}
    (global.set $heap (global.get $base))
    (global.set $return (i32.const {default}))
    (i32.store (i32.const {NOTE_AT}) {number})
    {stores}
    (drop (call $proxy_log (i32.const {level}) (i32.const {NOTE_AT}) (i32.const {length})))
    (call $run {number})
    {give})
"#,
        default = u32::from(gives),
        level = CALLBACK_LEVEL as u32,
        length = 4 + 4 * parameters,
    )
}

/// Gives what is left from one callback to the next, and makes its own calls once in each.
fn allocator(number: usize) -> String {
    format!(
        r#"
  (func (export "proxy_on_memory_allocate") (param $length i32) (result i32) (local $at i32)
    (local.set $at (global.get $heap))
    (if (i32.gt_u (local.get $length) (i32.sub (i32.const {HEAP_END}) (global.get $heap)))
      (then (return (i32.const 0))))
    (global.set $heap (i32.and (i32.add (i32.add (local.get $at) (local.get $length)) (i32.const 7))
      (i32.const -8)))
    (if (i32.eqz (global.get $is_noting))
      (then
        (global.set $is_noting (i32.const 1))
        (call $run (i32.const {number}))
        (global.set $is_noting (i32.const 0))))
    (local.get $at))
"#
    )
}

/// An exchange of everything: headers, bodies and trailers both ways.
pub(crate) fn exchange() -> Box<Exchange> {
    let request = Request::builder()
        .uri("/path/file?query=1")
        .header("host", "example.com:8080")
        .header("user-agent", "test/1")
        .header("x-one", "1")
        .header("x-two", "a")
        .header("x-two", "b")
        .header("content-length", "4")
        .body(())
        .expect("a request");
    let response = Response::builder()
        .status(200)
        .header("server", "upstream")
        .header("content-length", "6")
        .body(())
        .expect("a response");
    let trailers = |value: &'static str| {
        let value = header::HeaderValue::from_static(value);
        HeaderMap::from_iter([(HeaderName::from_static("x-trailer"), value)])
    };
    Box::new(Exchange {
        request: request.into_parts().0,
        is_request_changed: false,
        request_rest: Message {
            body: b"body"[..].into(),
            trailers: Some(Box::new(trailers("request"))),
            passed_bytes: 0,
        },
        response: Some(response.into_parts().0),
        response_rest: Message {
            body: b"answer"[..].into(),
            trailers: Some(Box::new(trailers("answer"))),
            passed_bytes: 0,
        },
        peer: Rc::new(Peer {
            address: Some(([192, 0, 2, 1], 40000).into()),
            local_address: Some(([192, 0, 2, 2], 8080).into()),
            number: 7,
            tls_version: Some("TLSv1.3"),
            server_name: Some("example.com".to_owned()),
        }),
        route: "route".into(),
        service: "service".into(),
        properties: Properties::default(),
        local_response: None,
        started: None,
    })
}

/// The parts of an exchange, in order.
const PARTS: [Part; 6] = [
    Part::RequestHeaders,
    Part::RequestBody,
    Part::RequestTrailers,
    Part::ResponseHeaders,
    Part::ResponseBody,
    Part::ResponseTrailers,
];

fn bounds() -> Bounds {
    Bounds {
        body_bytes: 256,
        header_bytes: 1024,
        headers: 20,
        property_bytes: 512,
        calls: 3,
        call_time: Duration::from_secs(1),
        unfinished_streams: 1,
        line_bytes: 64,
        lines: 10_000,
        metrics: 4,
    }
}

fn shared() -> Shared {
    Shared::new(SharedBounds {
        data_bytes: 1024,
        data_keys: 4,
        key_bytes: 100,
        queues: 2,
        queue_bytes: 64,
        queue_length: 3,
        metrics: 4,
        name_bytes: 16,
    })
}

/// What the guest was told, and what it asked for.
#[derive(Default)]
struct Witness {
    succeeded: RefCell<usize>,
    calls: RefCell<Vec<HttpCall>>,
}

impl Host for Witness {
    fn log(&self, level: LogLevel, line: &[u8]) {
        assert!(line.len() <= bounds().line_bytes);
        if let (STATUS_LEVEL, &[_, _, _, _, 0, 0, 0, 0]) = (level, line) {
            *self.succeeded.borrow_mut() += 1;
        }
    }

    fn log_level(&self) -> LogLevel {
        LogLevel::Trace
    }

    fn call(&self, call: HttpCall) -> Result<(), CallRefused> {
        if call.upstream == "refused" {
            return Err(CallRefused);
        }
        check_fields(call.request.headers());
        assert!(call.request.body().len() <= bounds().body_bytes);
        self.calls.borrow_mut().push(call);
        Ok(())
    }
}

/// Makes the calls in each callback of an exchange; gives how many a guest was told had succeeded.
///
/// # Panics
///
/// When the guest ends otherwise than by itself, what it may change is no message any more, or something has
/// grown beyond its bounds.
pub(crate) fn check(bytes: &[u8]) -> usize {
    let calls = sane(bytes);
    let shared = Arc::new(shared());
    let settings = Settings {
        configuration: configuration(&calls, &image()),
        vm_configuration: Bytes::from_static(b"vm configuration"),
        env: vec![("NAME".to_owned(), "value".to_owned())],
        limits: Limits {
            memory_bytes: 1 << 20,
            ..Limits::default()
        },
        bounds: bounds(),
        ..Settings::new("filter")
    };
    let filter = Filter::load(&program(), settings, &shared).expect("the guest is a filter");
    let witness = Rc::new(Witness::default());
    let result = run(&filter, &witness);
    if let Err(fault) = result {
        // It can end itself, and say that it does not start.
        let is_own = matches!(fault.kind, FaultKind::Exit | FaultKind::Refused);
        assert!(is_own, "the guest ended by {fault}");
    }
    assert!(shared.metrics().len() <= 4);
    *witness.succeeded.borrow()
}

fn run(filter: &Filter, witness: &Rc<Witness>) -> Result<(), palisade_filter::Fault> {
    let mut instance = Instance::start(filter, Rc::clone(witness) as Rc<dyn Host>, None)?;
    let id = instance.open(exchange());
    for part in PARTS {
        let action = instance.on_part(id, part, part == Part::ResponseTrailers)?;
        if let Some(exchange) = instance.exchange(id) {
            check_exchange(exchange, part, action);
        }
        answer_calls(&mut instance, witness)?;
    }
    instance.on_tick()?;
    for queue in 0..3 {
        instance.on_queue_ready(queue)?;
    }
    answer_calls(&mut instance, witness)?;
    let second = instance.open(exchange());
    let _ = instance.on_request_headers(second, true)?;
    instance.close(id)?;
    finish(&mut instance, second)?;
    instance.on_tick()?;
    instance.stop()?;
    assert!(instance.metrics().streams <= bounds().unfinished_streams);
    Ok(())
}

/// Shows a stream its response and ends it, in one go where the guest lets it.
fn finish(instance: &mut Instance, id: StreamId) -> Result<(), palisade_filter::Fault> {
    let part = Part::ResponseHeaders;
    let check_over = |exchange: Option<Box<Exchange>>| {
        if let Some(exchange) = exchange {
            check_exchange(&exchange, part, Action::Continue);
        }
    };
    match instance.finish(id, true, 6)? {
        Finish::Over(exchange) => check_over(exchange),
        Finish::Failed(exchange, fault) => {
            check_over(exchange);
            return Err(fault);
        }
        Finish::Held(action) => {
            if let Some(exchange) = instance.exchange(id) {
                check_exchange(exchange, part, action);
            }
            instance.close(id)?;
        }
    }
    Ok(())
}

/// Two rounds: a call's response may lead to another.
fn answer_calls(instance: &mut Instance, witness: &Witness) -> Result<(), palisade_filter::Fault> {
    for round in 0..2 {
        let calls = witness.calls.take();
        assert!(calls.len() <= bounds().calls);
        for call in calls {
            let response = (round == 0).then(|| HttpCallResponse {
                response: Response::new(Bytes::from_static(b"call answer")),
                trailers: HeaderMap::new(),
            });
            instance.on_http_call_response(call.token, response)?;
        }
    }
    Ok(())
}

fn check_exchange(exchange: &Exchange, part: Part, action: Action) {
    check_fields(&exchange.request.headers);
    let length = exchange.request.headers.get(header::CONTENT_LENGTH);
    assert!(length.is_none_or(|length| length == "4"));
    assert!(exchange.request.headers.contains_key(header::HOST));
    let path = exchange.request.uri.path_and_query().expect("a path");
    assert!(path.as_str().starts_with('/') || path.as_str() == "*");
    if let Some(response) = &exchange.response {
        check_fields(&response.headers);
        let length = response.headers.get(header::CONTENT_LENGTH);
        assert!(length.is_none_or(|length| length == "6"));
        assert!(!response.status.is_informational());
    }
    for message in [&exchange.request_rest, &exchange.response_rest] {
        assert!(message.body.len() <= bounds().body_bytes);
        message
            .trailers
            .as_deref()
            .into_iter()
            .for_each(check_fields);
    }
    if let Some(response) = &exchange.local_response {
        check_fields(&response.headers);
        assert!(!response.headers.contains_key(header::CONTENT_LENGTH));
        assert!(response.body.len() <= bounds().body_bytes);
    }
    let properties = exchange.properties.iter();
    let bytes: usize = properties
        .map(|(path, value)| path.len() + value.len())
        .sum();
    assert!(bytes <= bounds().property_bytes);
    if exchange.local_response.is_some() && part == Part::RequestHeaders {
        assert_eq!(action, Action::Pause);
    }
}

/// Nothing that frames a message, and no more than the bounds.
fn check_fields(headers: &HeaderMap) {
    for name in ["transfer-encoding", "connection", "upgrade", "te"] {
        assert!(!headers.contains_key(name), "{name}");
    }
    // One more that the request came with, and one that the host adds.
    assert!(headers.len() <= bounds().headers + 2);
}

/// Calls of functions, and of what the guest does by itself only that a callback gives a number; so few that
/// each phase is short.
fn sane(bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len().min(MOST_BYTES) / CALL_BYTES * CALL_BYTES;
    let mut calls = bytes[..length].to_vec();
    for call in calls.chunks_exact_mut(CALL_BYTES) {
        let number = usize::from(call[0]);
        if number != return_number() {
            call[0] = (number % functions().len()) as u8;
        }
        call[1..4].fill(0);
        call[4] %= CALLBACKS.len() as u8;
        call[5..8].fill(0);
    }
    calls
}

/// Texts that calls can mean, from [`IMAGE_AT`] on, 32 bytes each.
const TEXTS: [&str; 16] = [
    ":path",
    ":authority",
    ":method",
    ":status",
    "x-one",
    "content-length",
    "transfer-encoding",
    "/other?y",
    "GET",
    "a\r\nb: c",
    "request\0headers\0x-one",
    "plugin_name",
    "upstream",
    "refused",
    "500",
    "host",
];
const TEXT_BYTES: usize = 32;

/// Maps behind the texts, 128 bytes each.
const MAPS: [&[(&str, &str)]; 3] = [
    &[(":method", "GET"), (":path", "/"), (":authority", "a")],
    &[
        ("x-a", "1"),
        ("transfer-encoding", "chunked"),
        ("content-length", "9"),
    ],
    &[("x-b", "2")],
];
const MAP_BYTES: usize = 128;

fn image() -> Vec<u8> {
    let mut image = Vec::new();
    for text in TEXTS {
        image.extend_from_slice(text.as_bytes());
        image.resize(image.len().next_multiple_of(TEXT_BYTES), 0);
    }
    for map in MAPS {
        image.extend(pairs(map));
        image.resize(image.len().next_multiple_of(MAP_BYTES), 0);
    }
    image
}

/// Where a text of the image is, and how long.
#[allow(dead_code, reason = "the fuzz target has its seeds as files")]
pub(crate) fn text(number: usize) -> [u64; 2] {
    let at = u64::from(IMAGE_AT) + (TEXT_BYTES * number) as u64;
    [at, TEXTS[number].len() as u64]
}

/// The same of a map.
#[allow(dead_code, reason = "the fuzz target has its seeds as files")]
pub(crate) fn map(number: usize) -> [u64; 2] {
    let at = TEXT_BYTES * TEXTS.len() + MAP_BYTES * number;
    let length = pairs(MAPS[number]).len() as u64;
    [u64::from(IMAGE_AT) + at as u64, length]
}

/// A map as the ABI has it.
pub(crate) fn pairs(map: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = (map.len() as u32).to_le_bytes().to_vec();
    for (key, value) in map {
        bytes.extend((key.len() as u32).to_le_bytes());
        bytes.extend((value.len() as u32).to_le_bytes());
    }
    for (key, value) in map {
        for text in [key, value] {
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0);
        }
    }
    bytes
}
