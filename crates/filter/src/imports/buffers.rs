//! Bodies and configurations.

use super::memory::{give_with, put, slice};
use crate::{
    abi::{Buffer, Outcome, Status},
    state::State,
};
use palisade_engine::guest::Caller;

pub(super) fn get_bytes(
    caller: &mut Caller<'_, State>,
    buffer: u32,
    start: u32,
    length: u32,
    data_to: u32,
    length_to: u32,
) -> Outcome {
    let buffer = Buffer::of_number(buffer)?;
    let there = caller.state().buffer(buffer)?.len();
    start.checked_add(length).ok_or(Status::BadArgument)?;
    let start = (start as usize).min(there);
    let length = (length as usize).min(there - start);
    if length == 0 {
        // As Envoy does it: of nothing, nothing is written. AssemblyScript's runtime has it write a length in
        // the wrong place and does not look at it.
        return Ok(());
    }
    give_with(caller, length, data_to, length_to, |to, state| {
        let bytes = state.buffer(buffer).unwrap_or_default();
        let bytes = bytes.get(start..).unwrap_or_default();
        let count = bytes.len().min(to.len());
        to[..count].copy_from_slice(&bytes[..count]);
        count
    })
}

pub(super) fn get_status(
    caller: &mut Caller<'_, State>,
    buffer: u32,
    length_to: u32,
    flags_to: u32,
) -> Outcome {
    let buffer = Buffer::of_number(buffer)?;
    let (memory, state) = caller.memory_and_state()?;
    let length = state.buffer(buffer)?.len() as u32;
    put(memory, length_to, length.to_le_bytes())?;
    Ok(put(memory, flags_to, 0u32.to_le_bytes())?)
}

pub(super) fn set_bytes(
    caller: &mut Caller<'_, State>,
    buffer: u32,
    start: u32,
    length: u32,
    at: u32,
    bytes: u32,
) -> Outcome {
    let buffer = Buffer::of_number(buffer)?;
    let (memory, state) = caller.memory_and_state()?;
    let bytes = slice(memory, at, bytes)?;
    Ok(state.set_buffer(buffer, start, length, bytes)?)
}
