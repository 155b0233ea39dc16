//! The functions that a filter can import.
//!
//! Each checks all that the guest has given before it does anything: pointers and lengths against the
//! memory, numbers against what they may be. What does not fit is a status, never a trap. Only a guest that
//! traps while it is called back, to allocate what it asked for, and one that exits are ended.

mod buffers;
mod calls;
mod general;
mod maps;
mod memory;
mod shared;
mod streams;
mod wasi;

use crate::{Direction, abi::number, fields::Mode, state::State};
use palisade_engine::guest::{Caller, Engine, HostError, Imports, LoadError};

/// Registers functions: each takes the caller and its numbers, and its outcome becomes a number of the ABI. Where
/// the ABI has several for what is one here, what they differ in stands behind the numbers.
macro_rules! register {
    ($imports:ident, $module:expr;
     $($name:literal => $function:path [$($argument:ident: $type:ty),*] $(, $kind:expr)?;)*) => {$(
        $imports.function(
            $module,
            $name,
            |mut caller: Caller<'_, State>, $($argument: $type),*| -> Result<u32, HostError> {
                caller.state_mut().crossings += 1;
                number($function(&mut caller, $($argument,)* $($kind)?))
            },
        )?;
    )*};
}

pub(crate) fn all(engine: &Engine) -> Result<Imports<State>, LoadError> {
    let mut imports = Imports::new(engine);
    register_general(&mut imports)?;
    register_exchange(&mut imports)?;
    register_calls(&mut imports)?;
    register_shared(&mut imports)?;
    wasi::register(&mut imports, "wasi_snapshot_preview1")?;
    // What toolchains called it before; the functions that filters use are the same.
    wasi::register(&mut imports, "wasi_unstable")?;
    register_runtimes(&mut imports)?;
    Ok(imports)
}

fn register_general(imports: &mut Imports<State>) -> Result<(), LoadError> {
    register!(imports, "env";
        "proxy_log" => general::log [level: u32, at: u32, length: u32];
        "proxy_get_log_level" => general::get_log_level [to: u32];
        "proxy_get_current_time_nanoseconds" => general::get_current_time [to: u32];
        "proxy_set_tick_period_milliseconds" => general::set_tick_period [period: u32];
        "proxy_get_configuration" => general::get_configuration [data_to: u32, length_to: u32];
        "proxy_get_property" => general::get_property
            [path: u32, path_length: u32, data_to: u32, length_to: u32];
        "proxy_set_property" => general::set_property
            [path: u32, path_length: u32, value: u32, value_length: u32];
        "proxy_get_status" => general::get_status [code_to: u32, data_to: u32, length_to: u32];
        "proxy_set_effective_context" => general::set_effective_context [context: u32];
        "proxy_done" => general::done [];
        "proxy_call_foreign_function" => general::call_foreign_function
            [name: u32, name_length: u32, at: u32, length: u32, data_to: u32, length_to: u32];
    );
    Ok(())
}

fn register_exchange(imports: &mut Imports<State>) -> Result<(), LoadError> {
    register!(imports, "env";
        "proxy_get_header_map_size" => maps::get_size [map: u32, to: u32];
        "proxy_get_header_map_pairs" => maps::get_pairs [map: u32, data_to: u32, length_to: u32];
        "proxy_set_header_map_pairs" => maps::set_pairs [map: u32, at: u32, length: u32];
        "proxy_get_header_map_value" => maps::get_value
            [map: u32, key: u32, key_length: u32, data_to: u32, length_to: u32];
        "proxy_add_header_map_value" => maps::set_value
            [map: u32, key: u32, key_length: u32, value: u32, value_length: u32], Mode::Add;
        "proxy_replace_header_map_value" => maps::set_value
            [map: u32, key: u32, key_length: u32, value: u32, value_length: u32], Mode::Replace;
        "proxy_remove_header_map_value" => maps::remove_value [map: u32, key: u32, key_length: u32];
        "proxy_get_buffer_bytes" => buffers::get_bytes
            [buffer: u32, start: u32, length: u32, data_to: u32, length_to: u32];
        "proxy_get_buffer_status" => buffers::get_status [buffer: u32, length_to: u32, flags_to: u32];
        "proxy_set_buffer_bytes" => buffers::set_bytes
            [buffer: u32, start: u32, length: u32, at: u32, bytes: u32];
        "proxy_continue_stream" => streams::continue_stream [stream: u32];
        "proxy_close_stream" => streams::close_stream [stream: u32];
        "proxy_continue_request" => streams::resume [], Direction::Request;
        "proxy_continue_response" => streams::resume [], Direction::Response;
        "proxy_clear_route_cache" => streams::clear_route_cache [];
        "proxy_send_local_response" => streams::send_local_response
            [status: u32, details: u32, details_length: u32, body: u32, body_length: u32,
             headers: u32, headers_length: u32, grpc_status: u32];
    );
    Ok(())
}

fn register_calls(imports: &mut Imports<State>) -> Result<(), LoadError> {
    register!(imports, "env";
        "proxy_http_call" => calls::http_call
            [upstream: u32, upstream_length: u32, headers: u32, headers_length: u32, body: u32,
             body_length: u32, trailers: u32, trailers_length: u32, timeout: u32, token_to: u32];
        "proxy_grpc_call" => calls::grpc_call
            [a: u32, b: u32, c: u32, d: u32, e: u32, f: u32, g: u32, h: u32, i: u32, j: u32, k: u32, l: u32];
        "proxy_grpc_stream" => calls::grpc_stream
            [a: u32, b: u32, c: u32, d: u32, e: u32, f: u32, g: u32, h: u32, i: u32];
        "proxy_grpc_send" => calls::grpc_send [token: u32, at: u32, length: u32, end_of_stream: u32];
        "proxy_grpc_cancel" => calls::grpc_cancel [token: u32];
        "proxy_grpc_close" => calls::grpc_close [token: u32];
    );
    Ok(())
}

fn register_shared(imports: &mut Imports<State>) -> Result<(), LoadError> {
    register!(imports, "env";
        "proxy_get_shared_data" => shared::get_data
            [key: u32, key_length: u32, data_to: u32, length_to: u32, cas_to: u32];
        "proxy_set_shared_data" => shared::set_data
            [key: u32, key_length: u32, value: u32, value_length: u32, cas: u32];
        "proxy_register_shared_queue" => shared::register_queue [name: u32, name_length: u32, to: u32];
        "proxy_resolve_shared_queue" => shared::resolve_queue
            [vm_id: u32, vm_id_length: u32, name: u32, name_length: u32, to: u32];
        "proxy_enqueue_shared_queue" => shared::enqueue [queue: u32, at: u32, length: u32];
        "proxy_dequeue_shared_queue" => shared::dequeue [queue: u32, data_to: u32, length_to: u32];
        "proxy_define_metric" => shared::define_metric
            [kind: u32, name: u32, name_length: u32, to: u32];
        "proxy_increment_metric" => shared::increment_metric [metric: u32, offset: i64];
        "proxy_record_metric" => shared::record_metric [metric: u32, value: u64];
        "proxy_get_metric" => shared::get_metric [metric: u32, to: u32];
    );
    Ok(())
}

/// What run-time libraries of languages import beside the ABI.
fn register_runtimes(imports: &mut Imports<State>) -> Result<(), LoadError> {
    // AssemblyScript's.
    imports.function("env", "abort", wasi::abort)?;
    // Emscripten's, which the C++ SDK is built with.
    imports.function(
        "env",
        "emscripten_notify_memory_growth",
        |_: Caller<'_, State>, _memory: u32| {},
    )?;
    imports.function(
        "env",
        "pthread_equal",
        |_: Caller<'_, State>, left: u32, right: u32| u32::from(left == right),
    )?;
    Ok(())
}
