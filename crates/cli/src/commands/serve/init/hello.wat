;; A service: the module in a component of wasi:http 0.2.
;;
;; It answers every request with the path that it was asked for. Components are written in Rust, Go, C,
;; JavaScript and Python too; this one is short enough to be read. `wasm-tools component embed` and
;; `wasm-tools component new` make a component of it, with the WIT of wasi:http.
(module
  (import "wasi:http/types@0.2.0" "[method]incoming-request.path-with-query"
    (func $path (param $request i32) (param $answer i32)))
  (import "wasi:http/types@0.2.0" "[constructor]fields" (func $fields (result i32)))
  (import "wasi:http/types@0.2.0" "[method]fields.append"
    (func $append (param i32 i32 i32 i32 i32 i32)))
  (import "wasi:http/types@0.2.0" "[constructor]outgoing-response"
    (func $response (param $fields i32) (result i32)))
  (import "wasi:http/types@0.2.0" "[method]outgoing-response.body"
    (func $body (param $response i32) (param $answer i32)))
  (import "wasi:http/types@0.2.0" "[method]outgoing-body.write"
    (func $stream (param $body i32) (param $answer i32)))
  (import "wasi:http/types@0.2.0" "[static]outgoing-body.finish"
    (func $finish (param $body i32) (param $has_trailers i32) (param $trailers i32) (param $answer i32)))
  (import "wasi:http/types@0.2.0" "[static]response-outparam.set"
    (func $set (param i32 i32 i32 i32 i64 i32 i32 i32 i32)))
  (import "wasi:http/types@0.2.0" "[resource-drop]incoming-request" (func $drop_request (param i32)))
  (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush"
    (func $write (param $stream i32) (param $start i32) (param $bytes i32) (param $answer i32)))
  (import "wasi:io/streams@0.2.0" "[resource-drop]output-stream" (func $drop_stream (param i32)))

  ;; 0: where answers of the host are written; 128: words; 4096: the body; 8192: the heap.
  (memory (export "memory") 4)
  (data (i32.const 128) "content-type")                ;; 12 bytes
  (data (i32.const 144) "text/plain; charset=utf-8")   ;; 25
  (data (i32.const 4096) "Hello from a component. You asked for ")  ;; 38
  (global $heap (mut i32) (i32.const 8192))

  ;; What the host hands over lies one behind the other, and is forgotten after the request.
  (func (export "cabi_realloc")
    (param $old i32) (param $old_bytes i32) (param $align i32) (param $bytes i32) (result i32)
    (local $start i32)
    (local.set $start
      (i32.and
        (i32.add (global.get $heap) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (if (i32.gt_u (i32.add (local.get $start) (local.get $bytes)) (i32.const 0x40000))
      (then unreachable))
    (global.set $heap (i32.add (local.get $start) (local.get $bytes)))
    local.get $start)

  (func (export "wasi:http/incoming-handler@0.2.0#handle") (param $request i32) (param $out i32)
    (local $response i32) (local $sent i32) (local $to i32) (local $bytes i32)
    ;; The path, an option<string>: its first 1024 bytes go behind the words.
    (call $path (local.get $request) (i32.const 0))
    (if (i32.load8_u (i32.const 0))
      (then (local.set $bytes (i32.load (i32.const 8)))))
    (if (i32.gt_u (local.get $bytes) (i32.const 1024))
      (then (local.set $bytes (i32.const 1024))))
    (memory.copy (i32.const 4134) (i32.load (i32.const 4)) (local.get $bytes))
    (i32.store8 (i32.add (i32.const 4134) (local.get $bytes)) (i32.const 10))
    (call $drop_request (local.get $request))

    ;; The head.
    (local.set $response (call $fields))
    (call $append (local.get $response)
      (i32.const 128) (i32.const 12) (i32.const 144) (i32.const 25) (i32.const 0))
    (local.set $response (call $response (local.get $response)))
    (call $body (local.get $response) (i32.const 0))
    (local.set $sent (i32.load (i32.const 4)))
    (call $set (local.get $out) (i32.const 0) (local.get $response)
      (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))

    ;; The body.
    (call $stream (local.get $sent) (i32.const 0))
    (local.set $to (i32.load (i32.const 4)))
    (call $write (local.get $to) (i32.const 4096) (i32.add (i32.const 39) (local.get $bytes)) (i32.const 0))
    (call $drop_stream (local.get $to))
    (call $finish (local.get $sent) (i32.const 0) (i32.const 0) (i32.const 0))
    (global.set $heap (i32.const 8192)))
)
