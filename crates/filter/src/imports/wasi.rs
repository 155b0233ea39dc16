//! What language run-time libraries need of WASI preview 1: output that becomes log lines, an environment,
//! clocks, random bytes. There are no files: every descriptor but the standard streams is `badf`.

use super::{
    general::now_ns,
    memory::{put, slice},
};
use crate::{LogLevel, abi::Status, fault::Exited, state::State};
use palisade_engine::guest::{Caller, HostError, Imports, LoadError, MemoryError, fill_randomly};
use rustix::time::{ClockId, clock_gettime};

/// `errno` of preview 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errno {
    Badf = 8,
    Fault = 21,
    Inval = 28,
    Io = 29,
    Noent = 44,
    Notsup = 58,
    Spipe = 70,
}

type Outcome = Result<(), Errno>;

impl From<Status> for Errno {
    fn from(_: Status) -> Self {
        Self::Fault
    }
}

impl From<MemoryError> for Errno {
    fn from(_: MemoryError) -> Self {
        Self::Fault
    }
}

/// The standard streams.
const OUTPUT: u32 = 1;
const ERRORS: u32 = 2;

/// Parts of one write.
const MOST_PARTS: u32 = 1024;
/// Bytes of a part's record: where it is, and how long.
const PART_BYTES: u32 = 8;
/// Random bytes of one call, as in browsers and in Envoy.
const MOST_RANDOM_BYTES: u32 = 64 << 10;
/// Bytes of a text that says why a guest ended itself.
const MOST_TEXT_BYTES: u32 = 4 << 10;

macro_rules! register {
    ($imports:ident, $module:expr; $($name:literal => $function:path [$($argument:ident: $type:ty),*];)*) => {$(
        $imports.function($module, $name, |mut caller: Caller<'_, State>, $($argument: $type),*| -> u32 {
            caller.state_mut().crossings += 1;
            match $function(&mut caller, $($argument),*) {
                Ok(()) => 0,
                Err(errno) => errno as u32,
            }
        })?;
    )*};
}

/// Functions on descriptors that there are none of.
macro_rules! register_badf {
    ($imports:ident, $module:expr; $($name:literal [$($argument:ident: $type:ty),*];)*) => {$(
        $imports.function($module, $name, |_: Caller<'_, State>, $($argument: $type),*| -> u32 {
            Errno::Badf as u32
        })?;
    )*};
}

pub(super) fn register(imports: &mut Imports<State>, module: &str) -> Result<(), LoadError> {
    register!(imports, module;
        "fd_write" => fd_write [fd: u32, parts: u32, count: u32, written_to: u32];
        "fd_seek" => fd_seek [fd: u32, offset: u64, whence: u32, to: u32];
        "fd_close" => on_stream [fd: u32];
        "fd_sync" => on_stream [fd: u32];
        "fd_datasync" => on_stream [fd: u32];
        "fd_fdstat_get" => fd_fdstat_get [fd: u32, to: u32];
        "fd_fdstat_set_flags" => fd_fdstat_set_flags [fd: u32, flags: u32];
        "environ_sizes_get" => environ_sizes_get [count_to: u32, bytes_to: u32];
        "environ_get" => environ_get [pointers_to: u32, bytes_to: u32];
        "args_sizes_get" => args_sizes_get [count_to: u32, bytes_to: u32];
        "args_get" => args_get [pointers_to: u32, bytes_to: u32];
        "clock_time_get" => clock_time_get [clock: u32, precision: u64, to: u32];
        "clock_res_get" => clock_res_get [clock: u32, to: u32];
        "random_get" => random_get [at: u32, length: u32];
        "sched_yield" => sched_yield [];
        "poll_oneoff" => poll_oneoff [from: u32, to: u32, count: u32, count_to: u32];
        "path_open" => path_open
            [fd: u32, dirflags: u32, path: u32, length: u32, oflags: u32, base: u64, inheriting: u64,
             flags: u32, to: u32];
    );
    imports.function(module, "proc_exit", proc_exit)?;
    register_files(imports, module)
}

fn register_files(imports: &mut Imports<State>, module: &str) -> Result<(), LoadError> {
    register_badf!(imports, module;
        "fd_advise" [_a: u32, _b: u64, _c: u64, _d: u32];
        "fd_allocate" [_a: u32, _b: u64, _c: u64];
        "fd_fdstat_set_rights" [_a: u32, _b: u64, _c: u64];
        "fd_filestat_get" [_a: u32, _b: u32];
        "fd_filestat_set_size" [_a: u32, _b: u64];
        "fd_filestat_set_times" [_a: u32, _b: u64, _c: u64, _d: u32];
        "fd_pread" [_a: u32, _b: u32, _c: u32, _d: u64, _e: u32];
        "fd_prestat_get" [_a: u32, _b: u32];
        "fd_prestat_dir_name" [_a: u32, _b: u32, _c: u32];
        "fd_pwrite" [_a: u32, _b: u32, _c: u32, _d: u64, _e: u32];
        "fd_read" [_a: u32, _b: u32, _c: u32, _d: u32];
        "fd_readdir" [_a: u32, _b: u32, _c: u32, _d: u64, _e: u32];
        "fd_renumber" [_a: u32, _b: u32];
        "fd_tell" [_a: u32, _b: u32];
        "path_create_directory" [_a: u32, _b: u32, _c: u32];
        "path_filestat_get" [_a: u32, _b: u32, _c: u32, _d: u32, _e: u32];
        "path_filestat_set_times" [_a: u32, _b: u32, _c: u32, _d: u32, _e: u64, _f: u64, _g: u32];
        "path_link" [_a: u32, _b: u32, _c: u32, _d: u32, _e: u32, _f: u32, _g: u32];
        "path_readlink" [_a: u32, _b: u32, _c: u32, _d: u32, _e: u32, _f: u32];
        "path_remove_directory" [_a: u32, _b: u32, _c: u32];
        "path_rename" [_a: u32, _b: u32, _c: u32, _d: u32, _e: u32, _f: u32];
        "path_symlink" [_a: u32, _b: u32, _c: u32, _d: u32, _e: u32];
        "path_unlink_file" [_a: u32, _b: u32, _c: u32];
        "sock_accept" [_a: u32, _b: u32, _c: u32];
        "sock_recv" [_a: u32, _b: u32, _c: u32, _d: u32, _e: u32, _f: u32];
        "sock_send" [_a: u32, _b: u32, _c: u32, _d: u32, _e: u32];
        "sock_shutdown" [_a: u32, _b: u32];
    );
    Ok(())
}

/// One log line: output at level info, errors at level error.
fn fd_write(
    caller: &mut Caller<'_, State>,
    fd: u32,
    parts: u32,
    count: u32,
    written_to: u32,
) -> Outcome {
    let level = match fd {
        OUTPUT => LogLevel::Info,
        ERRORS => LogLevel::Error,
        _ => return Err(Errno::Badf),
    };
    if count > MOST_PARTS {
        return Err(Errno::Inval);
    }
    let (memory, state) = caller.memory_and_state()?;
    slice(memory, written_to, 4)?;
    let most = state.loaded.settings.bounds.line_bytes;
    let mut line = std::mem::take(&mut state.scratch);
    line.clear();
    let written = collect(memory, parts, count, most, &mut line);
    if written.is_ok_and(|written| written > 0) {
        state.log(level, line.strip_suffix(b"\n").unwrap_or(&line));
    }
    state.scratch = line;
    Ok(put(memory, written_to, written?.to_le_bytes())?)
}

/// Puts the parts of a write together, as far as a line goes; gives the bytes of all.
fn collect(
    memory: &[u8],
    parts: u32,
    count: u32,
    most: usize,
    line: &mut Vec<u8>,
) -> Result<u32, Errno> {
    let mut total = 0u32;
    let records = slice(memory, parts, count * PART_BYTES)?;
    for record in records.chunks_exact(PART_BYTES as usize) {
        let (at, length) = record.split_at(4);
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
        let bytes = slice(memory, number(at), number(length))?;
        total = total.checked_add(number(length)).ok_or(Errno::Inval)?;
        let room = most.saturating_sub(line.len());
        line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
    Ok(total)
}

fn is_stream(fd: u32) -> bool {
    fd <= ERRORS
}

fn fd_seek(
    _caller: &mut Caller<'_, State>,
    fd: u32,
    _offset: u64,
    _whence: u32,
    _to: u32,
) -> Outcome {
    match is_stream(fd) {
        true => Err(Errno::Spipe),
        false => Err(Errno::Badf),
    }
}

/// There is nothing to do.
fn on_stream(_caller: &mut Caller<'_, State>, fd: u32) -> Outcome {
    match is_stream(fd) {
        true => Ok(()),
        false => Err(Errno::Badf),
    }
}

fn fd_fdstat_set_flags(caller: &mut Caller<'_, State>, fd: u32, _flags: u32) -> Outcome {
    on_stream(caller, fd)
}

/// A terminal that can be written to: so that libraries write at the end of each line.
fn fd_fdstat_get(caller: &mut Caller<'_, State>, fd: u32, to: u32) -> Outcome {
    const CHARACTER_DEVICE: u8 = 2;
    const RIGHT_TO_WRITE: u64 = 1 << 6;
    if !is_stream(fd) {
        return Err(Errno::Badf);
    }
    let mut record = [0; 24];
    record[0] = CHARACTER_DEVICE;
    if fd != 0 {
        record[8..16].copy_from_slice(&RIGHT_TO_WRITE.to_le_bytes());
    }
    Ok(put(caller.memory()?, to, record)?)
}

fn environ_sizes_get(caller: &mut Caller<'_, State>, count_to: u32, bytes_to: u32) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    let env = &state.loaded.settings.env;
    // "NAME=VALUE\0"
    let bytes: usize = env
        .iter()
        .map(|(name, value)| name.len() + value.len() + 2)
        .sum();
    put(memory, count_to, (env.len() as u32).to_le_bytes())?;
    Ok(put(memory, bytes_to, (bytes as u32).to_le_bytes())?)
}

fn environ_get(caller: &mut Caller<'_, State>, pointers_to: u32, bytes_to: u32) -> Outcome {
    let (memory, state) = caller.memory_and_state()?;
    let (mut pointer, mut at) = (pointers_to, bytes_to);
    for (name, value) in &state.loaded.settings.env {
        put(memory, pointer, at.to_le_bytes())?;
        pointer = pointer.checked_add(4).ok_or(Errno::Fault)?;
        for text in [name.as_bytes(), b"=", value.as_bytes(), b"\0"] {
            let to = memory.get_mut(at as usize..).unwrap_or_default();
            let to = to.get_mut(..text.len()).ok_or(Errno::Fault)?;
            to.copy_from_slice(text);
            at = at.checked_add(text.len() as u32).ok_or(Errno::Fault)?;
        }
    }
    Ok(())
}

fn args_sizes_get(caller: &mut Caller<'_, State>, count_to: u32, bytes_to: u32) -> Outcome {
    let memory = caller.memory()?;
    put(memory, count_to, [0; 4])?;
    Ok(put(memory, bytes_to, [0; 4])?)
}

fn args_get(_caller: &mut Caller<'_, State>, _pointers_to: u32, _bytes_to: u32) -> Outcome {
    Ok(())
}

fn clock_time_get(caller: &mut Caller<'_, State>, clock: u32, _precision: u64, to: u32) -> Outcome {
    let now_ns = match clock {
        0 => now_ns(),
        1 => {
            let now = clock_gettime(ClockId::Monotonic);
            now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
        }
        _ => return Err(Errno::Notsup),
    };
    Ok(put(caller.memory()?, to, now_ns.to_le_bytes())?)
}

fn clock_res_get(caller: &mut Caller<'_, State>, clock: u32, to: u32) -> Outcome {
    match clock {
        0 | 1 => Ok(put(caller.memory()?, to, 1u64.to_le_bytes())?),
        _ => Err(Errno::Notsup),
    }
}

fn random_get(caller: &mut Caller<'_, State>, at: u32, length: u32) -> Outcome {
    if length > MOST_RANDOM_BYTES {
        return Err(Errno::Inval);
    }
    let to = caller.memory()?.get_mut(at as usize..);
    let to = to.and_then(|rest| rest.get_mut(..length as usize));
    fill_randomly(to.ok_or(Errno::Fault)?).map_err(|_| Errno::Io)
}

fn sched_yield(_caller: &mut Caller<'_, State>) -> Outcome {
    Ok(())
}

/// Nothing happens, at once: Go's run-time library asks as it starts, and needs no more.
fn poll_oneoff(
    caller: &mut Caller<'_, State>,
    _from: u32,
    _to: u32,
    _count: u32,
    count_to: u32,
) -> Outcome {
    Ok(put(caller.memory()?, count_to, [0; 4])?)
}

#[allow(clippy::too_many_arguments, reason = "the function is the interface's")]
fn path_open(
    _caller: &mut Caller<'_, State>,
    _fd: u32,
    _dirflags: u32,
    _path: u32,
    _length: u32,
    _oflags: u32,
    _base: u64,
    _inheriting: u64,
    _flags: u32,
    _to: u32,
) -> Outcome {
    Err(Errno::Noent)
}

fn proc_exit(_caller: Caller<'_, State>, code: u32) -> Result<(), HostError> {
    Err(HostError::new(Exited(format!("it exited with {code}"))))
}

/// AssemblyScript's end: two texts of UTF-16 with their lengths before them, a line and a column.
pub(super) fn abort(
    mut caller: Caller<'_, State>,
    message: u32,
    file: u32,
    line: u32,
    column: u32,
) -> Result<(), HostError> {
    let memory = caller.memory().map_or(&[][..], |memory| &*memory);
    let message = utf16(memory, message);
    let file = utf16(memory, file);
    let text = format!("it aborted: {message} at {file}:{line}:{column}");
    Err(HostError::new(Exited(text)))
}

/// A text as AssemblyScript has it, or nothing where there is none.
fn utf16(memory: &[u8], at: u32) -> String {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
    let length = at.checked_sub(4).and_then(|at| slice(memory, at, 4).ok());
    let length = length.map_or(0, number).min(MOST_TEXT_BYTES);
    let bytes = slice(memory, at, length).unwrap_or_default();
    let units = bytes
        .chunks_exact(2)
        .map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    char::decode_utf16(units)
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}
