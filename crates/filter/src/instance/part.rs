//! The callback of a part of an exchange.

use crate::{
    Action, Exchange, Fault, Part, StreamId, callbacks::OnPart, fields::View, parts::Parts,
    phase::Phase, state::At,
};

/// Makes the callback of a part, if the module has it. The guest hears of the stream before.
pub(super) fn call(
    phase: &mut Phase<'_>,
    id: StreamId,
    part: Part,
    end_of_stream: bool,
) -> Result<Action, Fault> {
    phase.create(id.0)?;
    let callback = phase.callbacks().on_part(part);
    let Some(stream) = phase.state().stream_mut(id) else {
        return Ok(Action::Continue);
    };
    let Some(callback) = callback else {
        return Ok(Action::Continue);
    };
    stream.begin(part, changeable(part, end_of_stream));
    let exchange = stream.exchange.as_deref();
    let size = exchange.map_or(0, |exchange| size_of(part, exchange));
    let (at, name) = (At::Stream(id.0), part.callback());
    let wanted = match callback {
        OnPart::Two(function) => phase.call(at, name, &function, (id.0, size))?,
        OnPart::Three(function) => {
            let parameters = (id.0, size, u32::from(end_of_stream));
            phase.call(at, name, &function, parameters)?
        }
    };
    let action = match phase.state().stops {
        true => Action::Pause,
        false => action(part, wanted, phase.callbacks().is_v0_2_100()),
    };
    if let Some(stream) = phase.state().stream_mut(id) {
        stream.end(part, action);
    }
    Ok(action)
}

/// What a callback may change. Where a body ends without trailers, it may make some.
fn changeable(part: Part, end_of_stream: bool) -> Parts {
    let own = Parts::of(part);
    match (part, end_of_stream) {
        (Part::RequestBody, true) => own.and(Parts::of(Part::RequestTrailers)),
        (Part::ResponseBody, true) => own.and(Parts::of(Part::ResponseTrailers)),
        _ => own,
    }
}

/// Fields or bytes of a part.
fn size_of(part: Part, exchange: &Exchange) -> u32 {
    let trailers =
        |trailers: &Option<Box<http::HeaderMap>>| trailers.as_ref().map_or(0, |map| map.len());
    match part {
        Part::RequestHeaders => View::of_request(exchange).len(),
        Part::RequestBody => exchange.request_rest.body.len() as u32,
        Part::RequestTrailers => trailers(&exchange.request_rest.trailers) as u32,
        Part::ResponseHeaders => match &exchange.response {
            Some(parts) => View::Response(parts.status, &parts.headers).len(),
            None => 0,
        },
        Part::ResponseBody => exchange.response_rest.body.len() as u32,
        Part::ResponseTrailers => trailers(&exchange.response_rest.trailers) as u32,
    }
}

/// Of Envoy's numbers: 0 goes on; 2, for headers, goes on and ends the stream, which is the server's to know;
/// every other one holds. With 1 a module of 0.2.100 holds a head and has its body come all the same.
fn action(part: Part, wanted: u32, is_v0_2_100: bool) -> Action {
    let is_head = matches!(part, Part::RequestHeaders | Part::ResponseHeaders);
    match wanted {
        0 => Action::Continue,
        1 if is_head && is_v0_2_100 => Action::HoldHead,
        2 if is_head => Action::Continue,
        _ => Action::Pause,
    }
}
