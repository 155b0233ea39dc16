//! Header fields and trailers.

use super::memory::{give_written, put, slice};
use crate::{
    abi::{Map, Outcome, Status},
    fields::Mode,
    pairs,
    state::State,
};
use palisade_engine::guest::Caller;

pub(super) fn get_size(caller: &mut Caller<'_, State>, map: u32, to: u32) -> Outcome {
    let map = Map::of_number(map)?;
    let (memory, state) = caller.memory_and_state()?;
    let bytes = state.view(map)?.bytes() as u32;
    Ok(put(memory, to, bytes.to_le_bytes())?)
}

pub(super) fn get_pairs(
    caller: &mut Caller<'_, State>,
    map: u32,
    data_to: u32,
    length_to: u32,
) -> Outcome {
    let map = Map::of_number(map)?;
    give_written(caller, data_to, length_to, |_, state, out| {
        let view = state.view(map)?;
        pairs::write(out, |visit| view.visit(visit));
        Ok(())
    })
}

pub(super) fn set_pairs(caller: &mut Caller<'_, State>, map: u32, at: u32, length: u32) -> Outcome {
    let map = Map::of_number(map)?;
    let (memory, state) = caller.memory_and_state()?;
    let pairs = slice(memory, at, length)?;
    state.change(map, |fields, written| fields.set_all(pairs, written))?;
    Ok(())
}

pub(super) fn get_value(
    caller: &mut Caller<'_, State>,
    map: u32,
    key: u32,
    key_length: u32,
    data_to: u32,
    length_to: u32,
) -> Outcome {
    let map = Map::of_number(map)?;
    give_written(caller, data_to, length_to, |memory, state, out| {
        let key = slice(memory, key, key_length)?;
        let found = state
            .view(map)?
            .get(key, |value| out.extend_from_slice(value));
        match found {
            Some(()) => Ok(()),
            // 0.1.0 has no field and an empty one be the same.
            None if state.loaded.callbacks.is_v0_1() => Ok(()),
            None => Err(Status::NotFound),
        }
    })
}

pub(super) fn set_value(
    caller: &mut Caller<'_, State>,
    map: u32,
    key: u32,
    key_length: u32,
    value: u32,
    value_length: u32,
    mode: Mode,
) -> Outcome {
    let map = Map::of_number(map)?;
    let (memory, state) = caller.memory_and_state()?;
    let key = slice(memory, key, key_length)?;
    let value = slice(memory, value, value_length)?;
    state.change(map, |fields, written| fields.set(key, value, mode, written))?;
    Ok(())
}

pub(super) fn remove_value(
    caller: &mut Caller<'_, State>,
    map: u32,
    key: u32,
    key_length: u32,
) -> Outcome {
    let map = Map::of_number(map)?;
    let (memory, state) = caller.memory_and_state()?;
    let key = slice(memory, key, key_length)?;
    state.change(map, |fields, _| fields.remove(key))?;
    Ok(())
}
