//! Shared data, queues, metrics.

use super::memory::{check_allocator, check_numbers, give, put, slice};
use crate::{
    abi::{Outcome, Status},
    metrics::{Cell, Kind},
    space::SetError,
    state::State,
};
use palisade_engine::guest::Caller;
use std::sync::Arc;

pub(super) fn get_data(
    caller: &mut Caller<'_, State>,
    key: u32,
    key_length: u32,
    data_to: u32,
    length_to: u32,
    cas_to: u32,
) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    let key = slice(memory, key, key_length)?;
    let (value, cas) = state.loaded.space.data.get(key).ok_or(Status::NotFound)?;
    check_numbers(memory, [cas_to])?;
    give(caller, &value, data_to, length_to)?;
    Ok(put(caller.memory()?, cas_to, cas.to_le_bytes())?)
}

pub(super) fn set_data(
    caller: &mut Caller<'_, State>,
    key: u32,
    key_length: u32,
    value: u32,
    value_length: u32,
    cas: u32,
) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    let key = slice(memory, key, key_length)?;
    let value = slice(memory, value, value_length)?;
    match state.loaded.space.data.set(key, value, cas) {
        Ok(()) => Ok(()),
        Err(SetError::Changed) => Err(Status::CasMismatch.into()),
        Err(SetError::Full) => Err(Status::InternalFailure.into()),
    }
}

pub(super) fn register_queue(
    caller: &mut Caller<'_, State>,
    name: u32,
    name_length: u32,
    to: u32,
) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    check_numbers(memory, [to])?;
    let name = slice(memory, name, name_length)?;
    let queue = state.register_queue(name)?;
    Ok(put(memory, to, queue.to_le_bytes())?)
}

/// Queues of another `vm_id` are not found: filters share with those alone that are told to.
pub(super) fn resolve_queue(
    caller: &mut Caller<'_, State>,
    vm_id: u32,
    vm_id_length: u32,
    name: u32,
    name_length: u32,
    to: u32,
) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    let vm_id = slice(memory, vm_id, vm_id_length)?;
    let name = slice(memory, name, name_length)?;
    if !vm_id.is_empty() && vm_id != state.loaded.settings.vm_id.as_bytes() {
        return Err(Status::NotFound.into());
    }
    let queue = state.loaded.space.queues.resolve(name);
    let queue = queue.ok_or(Status::NotFound)?;
    Ok(put(memory, to, queue.to_le_bytes())?)
}

pub(super) fn enqueue(caller: &mut Caller<'_, State>, queue: u32, at: u32, length: u32) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    let value = slice(memory, at, length)?;
    match state.loaded.space.queues.enqueue(queue, value) {
        Some(Ok(())) => Ok(()),
        Some(Err(_full)) => Err(Status::InternalFailure.into()),
        None => Err(Status::NotFound.into()),
    }
}

pub(super) fn dequeue(
    caller: &mut Caller<'_, State>,
    queue: u32,
    data_to: u32,
    length_to: u32,
) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    check_numbers(memory, [data_to, length_to])?;
    check_allocator(state)?;
    let value = state.loaded.space.queues.dequeue(queue);
    let value = value.ok_or(Status::NotFound)?.ok_or(Status::Empty)?;
    give(caller, &value, data_to, length_to)
}

/// A name has one number, however often it is defined.
pub(super) fn define_metric(
    caller: &mut Caller<'_, State>,
    kind: u32,
    name: u32,
    name_length: u32,
    to: u32,
) -> Outcome {
    let kind = Kind::of_number(kind).ok_or(Status::BadArgument)?;
    let (memory, state) = caller.memory_and_state()?;
    check_numbers(memory, [to])?;
    let name = slice(memory, name, name_length)?;
    if !state.loaded.series.takes_name(name) {
        return Err(Status::InternalFailure.into());
    }
    let name = str::from_utf8(name).map_err(|_| Status::BadArgument)?;
    let number = match state.metric_numbers.get(name) {
        Some(number) if state.metrics[*number as usize].kind() == kind => *number,
        Some(_) => return Err(Status::BadArgument.into()),
        None => define(state, kind, name)?,
    };
    Ok(put(memory, to, number.to_le_bytes())?)
}

fn define(state: &mut State, kind: Kind, name: &str) -> Result<u32, Status> {
    if state.metrics.len() >= state.loaded.settings.bounds.metrics {
        return Err(Status::InternalFailure);
    }
    let cell = state.loaded.series.define(kind, name);
    let number = state.metrics.len() as u32;
    state.metrics.push(cell.ok_or(Status::InternalFailure)?);
    state.metric_numbers.insert(name.into(), number);
    Ok(number)
}

fn metric(state: &State, number: u32) -> Result<&Arc<Cell>, Status> {
    state.metrics.get(number as usize).ok_or(Status::NotFound)
}

pub(super) fn increment_metric(
    caller: &mut Caller<'_, State>,
    number: u32,
    offset: i64,
) -> Outcome {
    match metric(caller.state(), number)?.increment(offset) {
        true => Ok(()),
        false => Err(Status::BadArgument.into()),
    }
}

pub(super) fn record_metric(caller: &mut Caller<'_, State>, number: u32, value: u64) -> Outcome {
    metric(caller.state(), number)?.record(value);
    Ok(())
}

pub(super) fn get_metric(caller: &mut Caller<'_, State>, number: u32, to: u32) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    let value = metric(state, number)?.get().ok_or(Status::BadArgument)?;
    Ok(put(memory, to, value.to_le_bytes())?)
}
