//! What a filter costs an exchange: its head there and back, from the stream's opening to its end.

use criterion::{Criterion, criterion_group, criterion_main};
use http::{Request, Response};
use palisade_engine::guest::Engine;
use palisade_filter::{
    Action, CallRefused, Exchange, Filter, Host, HttpCall, Instance, Limits, LogLevel, Message,
    Peer, Properties, Settings, Shared,
};
use std::{rc::Rc, sync::Arc, time::Duration};

/// Every callback of a header filter, none of which does anything: seven crossings.
const NULL: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "proxy_abi_version_0_2_1"))
    (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 1024))
    (func (export "proxy_on_context_create") (param i32 i32))
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32) (i32.const 0))
    (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32) (i32.const 0))
    (func (export "proxy_on_done") (param i32) (result i32) (i32.const 1))
    (func (export "proxy_on_log") (param i32))
    (func (export "proxy_on_delete") (param i32)))"#;

/// Reads the path and a field, adds a field to the request and sets one of the answer.
const HEADERS: &str = r#"(module
    (import "env" "proxy_get_header_map_value"
      (func $get (param i32 i32 i32 i32 i32) (result i32)))
    (import "env" "proxy_add_header_map_value"
      (func $add (param i32 i32 i32 i32 i32) (result i32)))
    (import "env" "proxy_replace_header_map_value"
      (func $replace (param i32 i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 64) ":path" "user-agent" "x-filter" "palisade" "server")
    (func (export "proxy_abi_version_0_2_1"))
    (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 1024))
    (func (export "proxy_on_context_create") (param i32 i32))
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
      (drop (call $get (i32.const 0) (i32.const 64) (i32.const 5) (i32.const 8) (i32.const 12)))
      (drop (call $get (i32.const 0) (i32.const 69) (i32.const 10) (i32.const 8) (i32.const 12)))
      (call $add (i32.const 0) (i32.const 79) (i32.const 8) (i32.const 87) (i32.const 8)))
    (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32)
      (call $replace (i32.const 2) (i32.const 95) (i32.const 6) (i32.const 87) (i32.const 8)))
    (func (export "proxy_on_done") (param i32) (result i32) (i32.const 1))
    (func (export "proxy_on_log") (param i32))
    (func (export "proxy_on_delete") (param i32)))"#;

struct Nothing;

impl Host for Nothing {
    fn log(&self, _level: LogLevel, _line: &[u8]) {}

    fn call(&self, _call: HttpCall) -> Result<(), CallRefused> {
        Err(CallRefused)
    }
}

fn start(text: &str, time: Option<Duration>) -> Instance {
    let engine = Engine::shared().expect("an engine");
    let binary = wat::parse_str(text).expect("read the guest's text");
    let program = engine.compile(&binary).expect("compile the guest");
    let settings = Settings {
        limits: Limits {
            time,
            ..Limits::default()
        },
        ..Settings::new("filter")
    };
    let filter = Filter::load(&program, settings, &Arc::new(Shared::default())).expect("a filter");
    Instance::start(&filter, Rc::new(Nothing), None).expect("an instance")
}

fn exchange() -> Box<Exchange> {
    let request = Request::builder()
        .uri("/path?query")
        .header("host", "example.com")
        .header("user-agent", "bench/1")
        .header("accept", "*/*");
    let response = Response::builder()
        .header("server", "upstream")
        .header("content-type", "text/plain")
        .header("content-length", "1024");
    Box::new(Exchange {
        request: request.body(()).expect("a request").into_parts().0,
        is_request_changed: false,
        request_rest: Message::default(),
        response: Some(response.body(()).expect("an answer").into_parts().0),
        response_rest: Message::default(),
        peer: Rc::new(Peer::default()),
        route: "route".into(),
        service: "service".into(),
        properties: Properties::default(),
        local_response: None,
        started: None,
    })
}

/// The exchange is used again, so that its making is not measured; what the filter added is taken away.
fn pass(instance: &mut Instance, exchange: Box<Exchange>) -> Box<Exchange> {
    let id = instance.open(exchange);
    let action = instance.on_request_headers(id, true).expect("a call");
    assert_eq!(action, Action::Continue);
    let action = instance.on_response_headers(id, false).expect("a call");
    assert_eq!(action, Action::Continue);
    let exchange = instance.close(id).expect("a call");
    let mut exchange = exchange.expect("the exchange");
    exchange.request.headers.remove("x-filter");
    exchange
}

fn requests(criterion: &mut Criterion) {
    let limits = [
        ("", None),
        (", with a limit of time", Some(Duration::from_secs(1))),
    ];
    for (guest, text) in [("null", NULL), ("headers", HEADERS)] {
        for (limit, time) in limits {
            let mut instance = start(text, time);
            let mut kept = Some(exchange());
            criterion.bench_function(&format!("{guest}{limit}"), |bencher| {
                bencher.iter(|| {
                    let exchange = kept.take().expect("the exchange");
                    kept = Some(pass(&mut instance, exchange));
                });
            });
        }
    }
}

criterion_group!(benches, requests);
criterion_main!(benches);
