//! Log, clock, configuration, properties, contexts.

use super::memory::{check_numbers, give, give_written, put, slice};
use crate::{
    LogLevel,
    abi::{BROKEN_CONNECTION, Outcome, Status},
    properties,
    state::{CallResponse, Life, State},
};
use bytes::Bytes;
use palisade_engine::guest::Caller;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) fn log(caller: &mut Caller<'_, State>, level: u32, at: u32, length: u32) -> Outcome {
    let level = LogLevel::of_number(level).ok_or(Status::BadArgument)?;
    let (memory, state) = caller.memory_and_state()?;
    state.log(level, slice(memory, at, length)?);
    Ok(())
}

pub(super) fn get_log_level(caller: &mut Caller<'_, State>, to: u32) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    let level = state.host.log_level() as u32;
    Ok(put(memory, to, level.to_le_bytes())?)
}

pub(super) fn get_current_time(caller: &mut Caller<'_, State>, to: u32) -> Outcome {
    Ok(put(caller.memory()?, to, now_ns().to_le_bytes())?)
}

/// Since 1970.
pub(super) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

pub(super) fn set_tick_period(caller: &mut Caller<'_, State>, period_ms: u32) -> Outcome {
    let period = (period_ms > 0).then(|| Duration::from_millis(period_ms.into()));
    let state = caller.state_mut();
    if state.tick_period != period {
        state.tick_period = period;
        state.host.set_tick_period(period);
    }
    Ok(())
}

/// Of 0.1.0: the configuration that the callback under way is about.
pub(super) fn get_configuration(
    caller: &mut Caller<'_, State>,
    data_to: u32,
    length_to: u32,
) -> Outcome {
    give_written(caller, data_to, length_to, |_, state, out| {
        let settings = &state.loaded.settings;
        out.extend_from_slice(match state.is_in_vm_start {
            true => &settings.vm_configuration,
            false => &settings.configuration,
        });
        Ok(())
    })
}

pub(super) fn get_property(
    caller: &mut Caller<'_, State>,
    path: u32,
    path_length: u32,
    data_to: u32,
    length_to: u32,
) -> Outcome {
    give_written(caller, data_to, length_to, |memory, state, out| {
        properties::read(state, slice(memory, path, path_length)?, out)
    })
}

/// Of the exchange; whatever filters come after this one can read it.
pub(super) fn set_property(
    caller: &mut Caller<'_, State>,
    path: u32,
    path_length: u32,
    value: u32,
    value_length: u32,
) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    let path = properties::normalize(slice(memory, path, path_length)?);
    let value = slice(memory, value, value_length)?;
    let most = state.loaded.settings.bounds.property_bytes;
    let stream = state.effective_stream_mut().ok_or(Status::NotFound)?;
    let exchange = stream.exchange.as_deref_mut().ok_or(Status::NotFound)?;
    let others = exchange
        .properties
        .iter()
        .filter(|(other, _)| ***other != *path);
    let bytes: usize = others
        .map(|(path, value)| properties::cost(path, value))
        .sum();
    if bytes + properties::cost(&path, value) > most {
        return Err(Status::InternalFailure.into());
    }
    let value = Bytes::copy_from_slice(value);
    exchange
        .properties
        .set(Bytes::copy_from_slice(&path), value);
    Ok(())
}

/// Of the HTTP call whose callback is under way.
pub(super) fn get_status(
    caller: &mut Caller<'_, State>,
    code_to: u32,
    data_to: u32,
    length_to: u32,
) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    let (code, message) = match state.response {
        CallResponse::Failed => (BROKEN_CONNECTION, "reset"),
        CallResponse::None | CallResponse::Here(_) => (0, ""),
    };
    check_numbers(memory, [code_to, data_to, length_to])?;
    give(caller, message.as_bytes(), data_to, length_to)?;
    Ok(put(caller.memory()?, code_to, code.to_le_bytes())?)
}

pub(super) fn set_effective_context(caller: &mut Caller<'_, State>, context: u32) -> Outcome {
    let state = caller.state_mut();
    state.effective = state.context(context).ok_or(Status::BadArgument)?;
    Ok(())
}

/// What follows, follows the callback that is under way.
pub(super) fn done(caller: &mut Caller<'_, State>) -> Outcome {
    let state = caller.state_mut();
    let at = state.effective;
    let life = match state.effective_stream_mut() {
        Some(stream) => &mut stream.life,
        None => &mut state.root,
    };
    if *life != Life::Unfinished {
        return Err(Status::NotFound.into());
    }
    *life = Life::Finished;
    state.done.push(at);
    Ok(())
}

/// There are none.
pub(super) fn call_foreign_function(
    caller: &mut Caller<'_, State>,
    name: u32,
    name_length: u32,
    at: u32,
    length: u32,
    _data_to: u32,
    _length_to: u32,
) -> Outcome {
    let memory = caller.memory()?;
    slice(memory, name, name_length)?;
    slice(memory, at, length)?;
    Err(Status::NotFound.into())
}
