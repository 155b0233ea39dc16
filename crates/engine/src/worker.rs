//! The worker: one program from its first instruction to its end.
//!
//! ```text
//!  order ─▶ engine ─▶ loaded ─▶ linked ─▶ started ─▶ Ended
//!                                            │         └─ exit code, or the signal that the same fault
//!                                            │            gives a native program
//!                                            └─ the phases are told here, in one write
//! ```

use crate::{
    component,
    ended::Ended,
    p1::{self, LinkError},
    status_pipe::StatusPipe,
    sys::{self, code::Code},
};
use palisade_compiler::{settings, shorten};
use palisade_wasm::{order::Order, status::Status};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{fs::File, mem::ManuallyDrop};
use wasmtime::{Config, Engine, Module, Store};

/// The exit code of a guest that could not be run.
pub const REFUSED: u8 = 125;

/// What host functions need of the stack below a guest's own part.
const HOST_STACK_BYTES: u64 = 1 << 20;

/// Runs the guest of an order to its end, and gives its exit code.
///
/// Where a native program would have been ended by a signal, this process is.
pub fn run(order: &Order) -> u8 {
    let mut status = StatusPipe::of(order);
    match run_to_end(order, &mut status) {
        Ended::Exited(code) => code,
        Ended::Trapped { signal, text } => {
            status.tell(&Status::Trap(text));
            sys::signal::end_by(signal)
        }
        // Cut: nobody reads from the pipe before this process has ended, and names in it are the guest's.
        Ended::Refused(text) => {
            status.tell(&Status::Refused(shorten(text)));
            REFUSED
        }
        Ended::Stale(text) => {
            status.tell(&Status::Stale(shorten(text)));
            REFUSED
        }
    }
}

fn run_to_end(order: &Order, status: &mut StatusPipe) -> Ended {
    let code = File::from(sys::adopt(order.code));
    let settings = match sys::code::is_component(&code) {
        true => settings::command_component(),
        false => settings::command(),
    };
    let engine = match Engine::new(&config(settings)) {
        Ok(engine) => engine,
        Err(error) => return Ended::Refused(format!("host: no engine can be made: {error:#}")),
    };
    status.phase("engine");
    let code = match sys::code::load(&engine, code) {
        Ok(code) => code,
        Err(error) => return Ended::Stale(format!("{error:#}")),
    };
    status.phase("loaded");
    match code {
        Code::Module(module) => run_module(&engine, &module, order, status),
        Code::Component(component) => component::run(&engine, component, order, status),
    }
}

/// The settings of the compiler, with as much stack as this process can have.
fn config(mut config: Config) -> Config {
    #[cfg(feature = "compiler")]
    config.enable_compiler(false);
    let stack = grow_stack(settings::STACK_BYTES as u64 + HOST_STACK_BYTES);
    let guest = stack.saturating_sub(HOST_STACK_BYTES).max(HOST_STACK_BYTES) as usize;
    config.max_wasm_stack(guest.min(settings::STACK_BYTES));
    config
}

/// The kernel grows the main thread's stack up to the limit of the moment, so a limit that is raised
/// counts at once. Gives what the limit is then.
fn grow_stack(wanted_bytes: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Stack);
    let (current, maximum) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    let raised = wanted_bytes.min(maximum);
    if current >= raised {
        return current;
    }
    let limit = Rlimit {
        current: Some(raised),
        maximum: (maximum != u64::MAX).then_some(maximum),
    };
    setrlimit(Resource::Stack, limit).map_or(current, |()| raised)
}

fn run_module(engine: &Engine, module: &Module, order: &Order, status: &mut StatusPipe) -> Ended {
    let context = match p1::Context::of_order(order) {
        Ok(context) => context,
        Err(error) => return Ended::Refused(error.to_string()),
    };
    // Never dropped: the process ends next, and the kernel takes memory back faster than we unmap it.
    let mut store = ManuallyDrop::new(Store::new(engine, context));
    let program = match p1::link(&mut store, module) {
        Ok(program) => program,
        Err(LinkError::Ended(error)) => return Ended::of(Err(error)),
        Err(error) => return Ended::Refused(error.to_string()),
    };
    status.phase("linked");
    status.started();
    Ended::of(program.run(&mut store))
}
