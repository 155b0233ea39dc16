//! WebAssembly guests in this process: load one once, call it many times.
//!
//! ```
//! use palisade::wasm::{CallError, Function, Guest, Isolation, Limits, Options};
//! use std::time::Duration;
//!
//! # let module = wat::parse_str(r#"(module
//! #     (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
//! #     (func (export "spin") (loop (br 0))))"#)?;
//! let mut guest = Guest::load(&module, Options {
//!     isolation: Isolation::Kept,
//!     limits: Limits { memory_bytes: 1 << 20, time: Some(Duration::from_millis(10)), ..Limits::default() },
//! })?;
//! let add: Function<(i32, i32), i32> = guest.function("add")?;
//! assert_eq!(guest.call(&add, (1, 2))?, 3);
//!
//! // What loops, traps or asks for too much ends its call, not the host.
//! let spin: Function<(), ()> = guest.function("spin")?;
//! match guest.call(&spin, ()) {
//!     Err(CallError::Ended(end)) => assert_eq!(end.ending, palisade::Ending::TimeLimit),
//!     other => panic!("{other:?}"),
//! }
//! assert_eq!(guest.call(&add, (3, 4))?, 7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Guests see what the host registers for them, and nothing else:
//!
//! ```
//! use palisade::wasm::{Caller, Engine, Function, Guest, HostError, Imports, Options};
//!
//! # let module = wat::parse_str(r#"(module
//! #     (import "host" "log" (func $log (param i32 i32)))
//! #     (memory (export "memory") 1)
//! #     (data (i32.const 0) "hello")
//! #     (func (export "greet") (call $log (i32.const 0) (i32.const 5))))"#)?;
//! let engine = Engine::shared()?;
//! let mut imports = Imports::<Vec<String>>::new(&engine);
//! imports.function("host", "log", |mut caller: Caller<'_, Vec<String>>, at: u32, length: u32| {
//!     let words = String::from_utf8(caller.read(at, length)?.to_vec())?;
//!     caller.state_mut().push(words);
//!     Ok::<_, HostError>(())
//! })?;
//! let mut guest = Guest::link(&engine.compile(&module)?, imports, Options::default(), Vec::new)?;
//! let greet: Function<(), ()> = guest.function("greet")?;
//! guest.call(&greet, ())?;
//! assert_eq!(guest.kept().expect("an instance").state(), &["hello"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! One wall stands round such a guest, the engine's own, and who breaks it is in your process. Where a call
//! may cost a process, [`Domain`](crate::Domain) runs a module with the process wall round the engine.

pub use palisade_engine::guest::*;
