;; A filter: a proxy-wasm module, ABI 0.2.1.
;;
;; Of each answer it sets three header fields that keep browsers from guessing, and it counts the answers.
;; Filters are written in Rust, C++, Go and AssemblyScript too, by SDKs; this one is short enough to be read.
;; `wat2wasm headers.wat` makes headers.wasm of it, and the server takes the new one by itself.
(module
  ;; map, name, value: 0 on success. Map 2 is the answer's header fields.
  (import "env" "proxy_replace_header_map_value"
    (func $replace (param i32 i32 i32 i32 i32) (result i32)))
  ;; kind (0: a counter), name, where its number shall be written.
  (import "env" "proxy_define_metric" (func $define (param i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_increment_metric" (func $increment (param i32 i64) (result i32)))

  (memory (export "memory") 1)
  (data (i32.const 16) "x-content-type-options")  ;; 22 bytes
  (data (i32.const 48) "nosniff")                 ;; 7
  (data (i32.const 64) "x-frame-options")         ;; 15
  (data (i32.const 80) "DENY")                    ;; 4
  (data (i32.const 96) "referrer-policy")         ;; 15
  (data (i32.const 112) "same-origin")            ;; 11
  (data (i32.const 128) "answers")                ;; 7

  (func (export "proxy_abi_version_0_2_1"))

  ;; Where the server may put what it hands over. This filter asks it for nothing.
  (func (export "proxy_on_memory_allocate") (param $bytes i32) (result i32) i32.const 1024)

  (func (export "proxy_on_configure") (param $context i32) (param $bytes i32) (result i32)
    (drop (call $define (i32.const 0) (i32.const 128) (i32.const 7) (i32.const 8)))
    i32.const 1)

  (func (export "proxy_on_response_headers")
    (param $stream i32) (param $fields i32) (param $is_end i32) (result i32)
    (drop (call $replace (i32.const 2) (i32.const 16) (i32.const 22) (i32.const 48) (i32.const 7)))
    (drop (call $replace (i32.const 2) (i32.const 64) (i32.const 15) (i32.const 80) (i32.const 4)))
    (drop (call $replace (i32.const 2) (i32.const 96) (i32.const 15) (i32.const 112) (i32.const 11)))
    (drop (call $increment (i32.load (i32.const 8)) (i64.const 1)))
    i32.const 0)  ;; Go on.
)
