;; A proxy-wasm filter that adds a field to the head of each answer, `x-filter: palisade`, and takes another away,
;; `x-powered-by`.
(module
  (import "env" "proxy_add_header_map_value"
    (func $add (param $map i32) (param $name i32) (param $name_bytes i32) (param $value i32) (param $value_bytes i32)
      (result i32)))
  (import "env" "proxy_remove_header_map_value"
    (func $remove (param $map i32) (param $name i32) (param $name_bytes i32) (result i32)))
  (data (i32.const 16) "x-filterpalisadex-powered-by")
  (memory (export "memory") 1)
  (global $free (mut i32) (i32.const 1024))
  (func (export "proxy_abi_version_0_2_1"))
  ;; Nothing is ever given back: it is asked for little, and once.
  (func (export "proxy_on_memory_allocate") (param $bytes i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $free))
    (global.set $free (i32.add (global.get $free) (i32.and (i32.add (local.get $bytes) (i32.const 15)) (i32.const -16))))
    (local.get $at))
  (func (export "proxy_on_context_create") (param $context i32) (param $parent i32))
  (func (export "proxy_on_vm_start") (param $root i32) (param $bytes i32) (result i32) (i32.const 1))
  (func (export "proxy_on_configure") (param $root i32) (param $bytes i32) (result i32) (i32.const 1))
  (func (export "proxy_on_request_headers") (param $context i32) (param $count i32) (param $last i32) (result i32)
    (i32.const 0))
  (func (export "proxy_on_response_headers") (param $context i32) (param $count i32) (param $last i32) (result i32)
    ;; Map 2 is the answer's head.
    (if (call $add (i32.const 2) (i32.const 16) (i32.const 8) (i32.const 24) (i32.const 8)) (then unreachable))
    (if (call $remove (i32.const 2) (i32.const 32) (i32.const 12)) (then unreachable))
    (i32.const 0))
  (func (export "proxy_on_done") (param $context i32) (result i32) (i32.const 1))
  (func (export "proxy_on_log") (param $context i32))
  (func (export "proxy_on_delete") (param $context i32)))
