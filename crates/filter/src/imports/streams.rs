//! What becomes of an exchange.

use super::memory::slice;
use crate::{
    Direction, LocalResponse,
    abi::{Outcome, Status},
    fields::{Collected, final_status},
    state::State,
};
use bytes::Bytes;
use palisade_engine::guest::Caller;

/// `proxy_stream_type_t`, those of HTTP.
fn direction(stream: u32) -> Result<Direction, Status> {
    match stream {
        0 => Ok(Direction::Request),
        1 => Ok(Direction::Response),
        // Connections below HTTP.
        2 | 3 => Err(Status::Unimplemented),
        _ => Err(Status::BadArgument),
    }
}

pub(super) fn continue_stream(caller: &mut Caller<'_, State>, stream: u32) -> Outcome {
    resume(caller, direction(stream)?)
}

pub(super) fn resume(caller: &mut Caller<'_, State>, direction: Direction) -> Outcome {
    let stream = caller.state_mut().effective_stream_mut();
    stream.ok_or(Status::BadArgument)?.resume(direction);
    Ok(())
}

/// Both directions: HTTP knows no other way to break an exchange off.
pub(super) fn close_stream(caller: &mut Caller<'_, State>, stream: u32) -> Outcome {
    direction(stream)?;
    let state = caller.state_mut();
    let stream = state.effective_stream_mut().ok_or(Status::BadArgument)?;
    stream.close();
    state.stop_current();
    Ok(())
}

/// Of 0.1.0: a route is chosen before filters see the request, and once.
pub(super) fn clear_route_cache(_caller: &mut Caller<'_, State>) -> Outcome {
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "the function is the ABI's")]
pub(super) fn send_local_response(
    caller: &mut Caller<'_, State>,
    status: u32,
    details: u32,
    details_length: u32,
    body: u32,
    body_length: u32,
    headers: u32,
    headers_length: u32,
    grpc_status: u32,
) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    let details = slice(memory, details, details_length)?;
    let body = slice(memory, body, body_length)?;
    let headers = slice(memory, headers, headers_length)?;
    let bounds = &state.loaded.settings.bounds;
    if body.len() > bounds.body_bytes {
        return Err(Status::InternalFailure.into());
    }
    let status = u16::try_from(status).map_err(|_| Status::BadArgument)?;
    let status = final_status(status.to_string().as_bytes())?;
    let collected = Collected::of(headers, bounds)?;
    let details = &details[..details.len().min(bounds.line_bytes)];
    let response = LocalResponse {
        status,
        headers: collected.headers,
        body: Bytes::copy_from_slice(body),
        grpc_status: grpc_status.cast_signed(),
        details: String::from_utf8_lossy(details).into_owned(),
    };
    let stream = state.effective_stream_mut().ok_or(Status::BadArgument)?;
    stream.respond(response);
    state.stop_current();
    Ok(())
}
