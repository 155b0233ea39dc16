//! Allocators that call the host back while it waits for their memory.

use crate::{harness::*, load};
use palisade_filter::{Host, Instance, LogLevel, Settings};
use std::rc::Rc;

/// A filter whose allocator does something before it gives memory, and which has the host give it something in a
/// body's callback: `$check` ends it unless a status is as it should be.
fn filter(allocate: &str, body: &str) -> String {
    format!(
        r#"(module
        (import "env" "proxy_get_property" (func $property (param i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_get_buffer_bytes" (func $body (param i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_set_buffer_bytes"
          (func $set_body (param i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_register_shared_queue" (func $register (param i32 i32 i32) (result i32)))
        (import "env" "proxy_enqueue_shared_queue" (func $enqueue (param i32 i32 i32) (result i32)))
        (import "env" "proxy_dequeue_shared_queue" (func $dequeue (param i32 i32 i32) (result i32)))
        (import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 64) "plugin_name")
        (global $allocations (mut i32) (i32.const 0))
        (func (export "proxy_abi_version_0_2_1"))
        (func $check (param $is i32) (param $should_be i32)
          (if (i32.ne (local.get $is) (local.get $should_be)) (then unreachable)))
        (func $show
          (call $check (i32.const {OK})
            (call $log (i32.const 2) (i32.load (i32.const 8)) (i32.load (i32.const 12)))))
        (func (export "proxy_on_memory_allocate") (param i32) (result i32)
          (global.set $allocations (i32.add (global.get $allocations) (i32.const 1)))
          {allocate}
          (i32.const 1024))
        (func (export "proxy_on_request_body") (param i32 i32 i32) (result i32)
          {body}
          (i32.const 0)))"#
    )
}

/// The lines of the body's callback.
fn lines(allocate: &str, body: &str) -> Vec<String> {
    let (filter, _) = load::filter(&filter(allocate, body), Settings::new("name")).unwrap();
    let lines = Rc::new(load::Lines::default());
    let host = Rc::clone(&lines) as Rc<dyn Host>;
    let mut instance = Instance::start(&filter, host, None).unwrap();
    let id = instance.open(crate::guest::exchange());
    let _ = instance.on_request_body(id, true).unwrap();
    let lines = lines.0.take().into_iter();
    lines
        .map(|(level, line)| {
            assert_eq!(level, LogLevel::Info);
            line
        })
        .collect()
}

#[test]
fn an_allocator_is_not_called_from_within_itself() {
    let nested = format!(
        "(call $check (i32.const {INTERNAL_FAILURE})
           (call $property (i32.const 64) (i32.const 11) (i32.const 16) (i32.const 20)))
         (call $check (i32.const {INTERNAL_FAILURE})
           (call $body (i32.const 0) (i32.const 0) (i32.const 9) (i32.const 16) (i32.const 20)))"
    );
    let body = format!(
        "(call $check (i32.const {OK})
           (call $property (i32.const 64) (i32.const 11) (i32.const 8) (i32.const 12)))
         (call $check (i32.const 1) (global.get $allocations))
         (call $show)
         (call $check (i32.const {OK})
           (call $body (i32.const 0) (i32.const 0) (i32.const 9) (i32.const 8) (i32.const 12)))
         (call $check (i32.const 2) (global.get $allocations))
         (call $show)"
    );
    assert_eq!(lines(&nested, &body), ["name", "body"]);
}

#[test]
fn a_body_that_the_allocator_cuts_is_given_as_it_is_then() {
    let cut = format!(
        "(call $check (i32.const {OK})
           (call $set_body (i32.const 0) (i32.const 2) (i32.const 9) (i32.const 0) (i32.const 0)))"
    );
    let body = format!(
        "(call $check (i32.const {OK})
           (call $body (i32.const 0) (i32.const 0) (i32.const 9) (i32.const 8) (i32.const 12)))
         (call $check (i32.const 2) (i32.load (i32.const 12)))
         (call $show)"
    );
    assert_eq!(lines(&cut, &body), ["bo"]);
}

#[test]
fn nothing_is_taken_out_of_a_queue_that_could_not_be_given() {
    let nested = format!(
        "(call $check (i32.const {INTERNAL_FAILURE})
           (call $dequeue (i32.const 1) (i32.const 16) (i32.const 20)))"
    );
    let dequeue = format!(
        "(call $check (i32.const {OK})
           (call $dequeue (i32.const 1) (i32.const 8) (i32.const 12)))
         (call $show)"
    );
    let body = format!(
        "(call $check (i32.const {OK})
           (call $register (i32.const 64) (i32.const 11) (i32.const 24)))
         (call $check (i32.const {OK}) (call $enqueue (i32.const 1) (i32.const 64) (i32.const 6)))
         (call $check (i32.const {OK}) (call $enqueue (i32.const 1) (i32.const 71) (i32.const 4)))
         {dequeue}
         {dequeue}"
    );
    assert_eq!(lines(&nested, &body), ["plugin", "name"]);
}
