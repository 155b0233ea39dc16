//! A guest's memory, as host functions read and write it.

use crate::{
    abi::{Outcome, Status, Stop},
    state::State,
};
use palisade_engine::guest::Caller;

/// What is kept from one call for the next, at most.
const SCRATCH_BYTES: usize = 64 << 10;

/// Bytes of a memory that a guest means.
pub(super) fn slice(memory: &[u8], at: u32, length: u32) -> Result<&[u8], Status> {
    (at as usize)
        .checked_add(length as usize)
        .and_then(|end| memory.get(at as usize..end))
        .ok_or(Status::InvalidMemoryAccess)
}

/// Writes a few bytes where a guest wants them.
pub(super) fn put<const N: usize>(
    memory: &mut [u8],
    at: u32,
    bytes: [u8; N],
) -> Result<(), Status> {
    let to = memory.get_mut(at as usize..).unwrap_or_default();
    let to = to.first_chunk_mut().ok_or(Status::InvalidMemoryAccess)?;
    *to = bytes;
    Ok(())
}

/// That numbers of 32 bits can be written there: asked before anything is done that can't be undone.
pub(super) fn check_numbers<const N: usize>(
    memory: &[u8],
    numbers: [u32; N],
) -> Result<(), Status> {
    numbers
        .into_iter()
        .try_for_each(|at| slice(memory, at, 4).map(drop))
}

/// That the guest's allocator can be called: not from within itself, which might never come to an end. Asked
/// before anything is done that can't be undone.
pub(super) fn check_allocator(state: &State) -> Result<(), Status> {
    match state.is_allocating {
        true => Err(Status::InternalFailure),
        false => Ok(()),
    }
}

/// Gives the guest bytes in memory of its own allocator's: where they are and how many go where it
/// said. None are no memory: a null pointer.
pub(super) fn give(
    caller: &mut Caller<'_, State>,
    bytes: &[u8],
    data_to: u32,
    length_to: u32,
) -> Outcome {
    give_with(caller, bytes.len(), data_to, length_to, |to, _| {
        to.copy_from_slice(bytes);
        to.len()
    })
}

/// The same, of up to `length` bytes that are written straight into the guest's memory. `write` says how many they
/// were: the guest may have changed while it allocated what they are taken from.
pub(super) fn give_with(
    caller: &mut Caller<'_, State>,
    length: usize,
    data_to: u32,
    length_to: u32,
    write: impl FnOnce(&mut [u8], &State) -> usize,
) -> Outcome {
    check_numbers(caller.memory()?, [data_to, length_to])?;
    let number = u32::try_from(length).map_err(|_| Status::InternalFailure)?;
    let at = match number {
        0 => 0,
        _ => allocate(caller, number)?,
    };
    let (memory, state) = caller.memory_and_state()?;
    let to = memory
        .get_mut(at as usize..)
        .and_then(|rest| rest.get_mut(..length))
        .ok_or(Status::InvalidMemoryAccess)?;
    let written = write(to, state) as u32;
    put(memory, data_to, at.to_le_bytes())?;
    put(memory, length_to, written.to_le_bytes())?;
    Ok(())
}

fn allocate(caller: &mut Caller<'_, State>, length: u32) -> Result<u32, Stop> {
    let state = caller.state_mut();
    check_allocator(state)?;
    state.crossings += 1;
    state.is_allocating = true;
    let function = state.loaded.callbacks.allocate;
    let allocated = caller.call(&function, length);
    caller.state_mut().is_allocating = false;
    match allocated? {
        0 => Err(Status::InvalidMemoryAccess.into()),
        at => Ok(at),
    }
}

/// Has a value written to memory that is kept for it, and gives it to the guest.
pub(super) fn give_written(
    caller: &mut Caller<'_, State>,
    data_to: u32,
    length_to: u32,
    write: impl FnOnce(&[u8], &State, &mut Vec<u8>) -> Result<(), Status>,
) -> Outcome {
    let mut scratch = std::mem::take(&mut caller.state_mut().scratch);
    scratch.clear();
    let outcome = write_and_give(caller, &mut scratch, data_to, length_to, write);
    if scratch.capacity() <= SCRATCH_BYTES {
        caller.state_mut().scratch = scratch;
    }
    outcome
}

fn write_and_give(
    caller: &mut Caller<'_, State>,
    scratch: &mut Vec<u8>,
    data_to: u32,
    length_to: u32,
    write: impl FnOnce(&[u8], &State, &mut Vec<u8>) -> Result<(), Status>,
) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    write(memory, state, scratch)?;
    give(caller, scratch, data_to, length_to)
}
