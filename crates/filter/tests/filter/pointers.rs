//! Every pointer and every length of every function, out of the guest's memory.

use crate::{guest::functions, harness::*};

/// Which arguments are an address with the length behind it, and which the address of a result, by
/// function. Of a result the bytes.
const POINTERS: [(&str, &[Kind]); 29] = [
    ("proxy_log", &[N(2), In]),
    ("proxy_get_log_level", &[Out(4)]),
    ("proxy_get_current_time_nanoseconds", &[Out(8)]),
    ("proxy_get_configuration", &[Out(4), Out(4)]),
    ("proxy_get_property", &[Text("plugin_name"), Out(4), Out(4)]),
    ("proxy_set_property", &[In, In]),
    ("proxy_get_status", &[Out(4), Out(4), Out(4)]),
    ("proxy_call_foreign_function", &[In, In, N(8), N(12)]),
    ("proxy_get_header_map_size", &[N(0), Out(4)]),
    ("proxy_get_header_map_pairs", &[N(0), Out(4), Out(4)]),
    ("proxy_set_header_map_pairs", &[N(0), Empty]),
    (
        "proxy_get_header_map_value",
        &[N(0), Text(":path"), Out(4), Out(4)],
    ),
    ("proxy_add_header_map_value", &[N(0), In, In]),
    ("proxy_replace_header_map_value", &[N(0), In, In]),
    ("proxy_remove_header_map_value", &[N(0), In]),
    (
        "proxy_get_buffer_bytes",
        &[N(0), N(0), N(9), Out(4), Out(4)],
    ),
    ("proxy_get_buffer_status", &[N(0), Out(4), Out(4)]),
    ("proxy_set_buffer_bytes", &[N(0), N(0), N(0), In]),
    ("proxy_send_local_response", &[N(200), In, In, Empty, N(0)]),
    (
        "proxy_http_call",
        &[Text("upstream"), Head, In, Empty, N(1), Out(4)],
    ),
    ("proxy_set_shared_data", &[In, In, N(0)]),
    (
        "proxy_get_shared_data",
        &[Text("x"), Out(4), Out(4), Out(4)],
    ),
    ("proxy_register_shared_queue", &[In, Out(4)]),
    ("proxy_resolve_shared_queue", &[Empty, Text("x"), Out(4)]),
    ("proxy_enqueue_shared_queue", &[N(1), In]),
    ("proxy_dequeue_shared_queue", &[N(1), Out(4), Out(4)]),
    ("proxy_define_metric", &[N(0), In, Out(4)]),
    ("proxy_get_metric", &[N(0), Out(8)]),
    ("proxy_set_tick_period_milliseconds", &[N(1)]),
];

#[derive(Clone, Copy)]
enum Kind {
    /// A number.
    N(u64),
    /// An address and a length; any text.
    In,
    /// This text.
    Text(&'static str),
    /// An empty map.
    Empty,
    /// A map with a request's head.
    Head,
    /// The address of a result of so many bytes.
    Out(u64),
}
use Kind::{Empty, Head, In, N, Out, Text};

/// The guest's memory.
const MEMORY_BYTES: u64 = 4 * 65536;

/// What makes each function succeed.
fn arguments(script: &mut Script, kinds: &[Kind]) -> Vec<u64> {
    let mut results = (0..).map(|at| 64 + 16 * at);
    let text = script.text("x");
    let mut arguments = Vec::new();
    for kind in kinds {
        match kind {
            N(number) => arguments.push(*number),
            In => arguments.extend(text),
            Text(text) => arguments.extend(script.text(text)),
            Empty => arguments.extend([text[0], 0]),
            Head => {
                let head = [(":method", "GET"), (":path", "/"), (":authority", "a")];
                arguments.extend(script.map(&head));
            }
            Out(_) => arguments.extend(results.next()),
        }
    }
    arguments
}

/// The status that a function gives in the request's body callback, after what it needs has been made.
fn status(script: &mut Script, name: &str, arguments: &[u64]) -> u32 {
    let text = script.text("x");
    call!(script, CONFIGURE, "proxy_set_shared_data", text, text, 0);
    call!(
        script,
        CONFIGURE,
        "proxy_register_shared_queue",
        text,
        NUMBER
    );
    call!(script, CONFIGURE, "proxy_enqueue_shared_queue", 1, text);
    call!(script, CONFIGURE, "proxy_define_metric", 0, text, NUMBER);
    call!(script, REQUEST_HEADERS, "return", 1);
    let mut padded = [0; 12];
    padded[..arguments.len()].copy_from_slice(arguments);
    script.call(REQUEST_BODY, name, padded.map(Argument::One));
    let mut fixture = script.start();
    let id = fixture.open();
    let _ = fixture.instance.on_request_headers(id, false).unwrap();
    fixture.events();
    let _ = fixture.instance.on_request_body(id, false).unwrap();
    match fixture.statuses().first() {
        Some(status) => *status,
        // A line is one of those that show something: it was written.
        None => OK,
    }
}

#[test]
fn every_pointer_and_length_is_checked() {
    for (name, kinds) in POINTERS {
        let right = arguments(&mut Script::new(), kinds);
        let expected = if name.contains("foreign") {
            NOT_FOUND
        } else {
            OK
        };
        let mut script = Script::new();
        let same = arguments(&mut script, kinds);
        assert_eq!(same, right);
        assert_eq!(status(&mut script, name, &right), expected, "{name}");
        for (at, wrong) in wrong(kinds) {
            let mut script = Script::new();
            let mut arguments = arguments(&mut script, kinds);
            arguments[at] = wrong;
            let given = status(&mut script, name, &arguments);
            assert_eq!(given, INVALID_MEMORY, "{name}: argument {at} is {wrong:#x}");
        }
    }
}

/// Places of arguments, with what makes them point outside.
fn wrong(kinds: &[Kind]) -> Vec<(usize, u64)> {
    let mut cases = Vec::new();
    let mut at = 0;
    for kind in kinds {
        match kind {
            N(_) => at += 1,
            Out(bytes) => {
                let outside = [MEMORY_BYTES - bytes + 1, MEMORY_BYTES, u64::from(u32::MAX)];
                cases.extend(outside.map(|outside| (at, outside)));
                at += 1;
            }
            Empty => {
                cases.extend([(at + 1, MEMORY_BYTES), (at + 1, u64::from(u32::MAX))]);
                at += 2;
            }
            In | Text(_) | Head => {
                let lengths = [MEMORY_BYTES, 0x7fff_ffff, u64::from(u32::MAX)];
                cases.extend(lengths.map(|length| (at + 1, length)));
                cases.extend([MEMORY_BYTES, u64::from(u32::MAX)].map(|outside| (at, outside)));
                at += 2;
            }
        }
    }
    cases
}

#[test]
fn every_function_that_takes_a_pointer_is_tried() {
    // Without those that take numbers alone, those of gRPC, which look at nothing, and those of WASI, which have
    // tests of their own.
    let numbers = [
        "proxy_set_effective_context",
        "proxy_done",
        "proxy_continue_stream",
        "proxy_close_stream",
        "proxy_continue_request",
        "proxy_continue_response",
        "proxy_clear_route_cache",
        "proxy_increment_metric",
        "proxy_record_metric",
    ];
    for (name, _) in functions() {
        let is_tried = POINTERS.iter().any(|(tried, _)| tried == name);
        let is_other = numbers.contains(name)
            || name.starts_with("proxy_grpc_")
            || !name.starts_with("proxy_");
        assert!(is_tried != is_other, "{name}");
    }
}

#[test]
fn an_allocator_that_gives_nothing_or_nonsense_is_told_so() {
    for at in [0, 65535, 65536, u32::MAX] {
        let text = format!(
            r#"(module
            (import "env" "proxy_get_property" (func $get (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 64) "plugin_name")
            (func (export "proxy_abi_version_0_2_1"))
            (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const {at}))
            (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
              (if (i32.ne (call $get (i32.const 64) (i32.const 11) (i32.const 8) (i32.const 12))
                    (i32.const {INVALID_MEMORY}))
                (then unreachable))
              (i32.load (i32.const 12))))"#
        );
        let settings = palisade_filter::Settings::new("name");
        let (filter, _) = crate::load::filter(&text, settings).unwrap();
        let mut instance = crate::load::start(&filter).unwrap();
        let id = instance.open(crate::guest::exchange());
        let action = instance.on_request_headers(id, true).unwrap();
        // Nothing was written.
        assert_eq!(action, palisade_filter::Action::Continue, "{at}");
    }
}

#[test]
fn a_module_without_memory_is_told_so() {
    let text = r#"(module
        (import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
        (func (export "proxy_abi_version_0_2_1"))
        (func (export "malloc") (param i32) (result i32) (i32.const 0))
        (func (export "proxy_on_vm_start") (param i32 i32) (result i32)
          (i32.eq (call $log (i32.const 2) (i32.const 0) (i32.const 0)) (i32.const 6))))"#;
    let (filter, _) = crate::load::filter(text, palisade_filter::Settings::new("f")).unwrap();
    crate::load::start(&filter).unwrap();
}
