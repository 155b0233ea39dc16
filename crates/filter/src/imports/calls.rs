//! Calls to other servers.

use super::memory::{put, slice};
use crate::{
    HttpCall,
    abi::{Outcome, Status},
    fields::Collected,
    state::State,
};
use bytes::Bytes;
use http::Request;
use palisade_engine::guest::Caller;
use std::time::Duration;

#[allow(clippy::too_many_arguments, reason = "the function is the ABI's")]
pub(super) fn http_call(
    caller: &mut Caller<'_, State>,
    upstream: u32,
    upstream_length: u32,
    headers: u32,
    headers_length: u32,
    body: u32,
    body_length: u32,
    trailers: u32,
    trailers_length: u32,
    timeout_ms: u32,
    token_to: u32,
) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    let upstream = slice(memory, upstream, upstream_length)?;
    let headers = slice(memory, headers, headers_length)?;
    let body = slice(memory, body, body_length)?;
    let trailers = slice(memory, trailers, trailers_length)?;
    slice(memory, token_to, 4)?;
    let bounds = &state.loaded.settings.bounds;
    let has_room = state.calls.len() < bounds.calls && state.host.has_room_for_call();
    if body.len() > bounds.body_bytes || !has_room {
        return Err(Status::InternalFailure.into());
    }
    let upstream = str::from_utf8(upstream).map_err(|_| Status::BadArgument)?;
    let request = Collected::of(headers, bounds)?.into_request()?;
    let trailers = Collected::of(trailers, bounds)?.into_trailers()?;
    let timeout = timeout(timeout_ms, bounds.call_time);
    let token = state.next_token();
    let call = HttpCall {
        token,
        stream: state.effective_id(),
        upstream: upstream.to_owned(),
        request: Request::from_parts(request, Bytes::copy_from_slice(body)),
        trailers,
        timeout,
    };
    if state.host.call(call).is_err() {
        state.calls.remove(&token);
        state.denials += 1;
        return Err(Status::BadArgument.into());
    }
    Ok(put(memory, token_to, token.to_le_bytes())?)
}

/// 0 is as long as it takes.
fn timeout(timeout_ms: u32, most: Duration) -> Duration {
    match timeout_ms {
        0 => most,
        _ => Duration::from_millis(timeout_ms.into()).min(most),
    }
}

/// There is no gRPC: a guest can go without, which it could not if this ended it.
macro_rules! unimplemented {
    ($($name:ident [$($argument:ident)*];)*) => {$(
        #[allow(clippy::too_many_arguments, reason = "the function is the ABI's")]
        pub(super) fn $name(_caller: &mut Caller<'_, State>, $($argument: u32),*) -> Outcome {
            Err(Status::Unimplemented.into())
        }
    )*};
}

unimplemented! {
    grpc_call [_a _b _c _d _e _f _g _h _i _j _k _l];
    grpc_stream [_a _b _c _d _e _f _g _h _i];
    grpc_send [_token _at _length _end_of_stream];
    grpc_cancel [_token];
    grpc_close [_token];
}
