//! From a module and a context to a program that can be run.
//!
//! Host functions are made for the imports that a module has, not for all there are: a small program
//! imports six or seven of 46.

use super::{Context, errno::Errno, memory::GuestMemory};
use crate::ended::Exited;
use palisade_compiler::shorten;
use wasmtime::{
    AsContextMut, Caller, Extern, ExternType, Func, Instance, Module, Store, Trap, TypedFunc,
};

/// The module that the functions are imported from.
const PREVIEW_1: &str = "wasi_snapshot_preview1";
/// Imports that an error names.
const NAMED: usize = 8;

/// Why a module is no program for this wall.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// What the wall does not offer.
    #[error("guest: it imports what the wasm wall does not offer: {0}")]
    Missing(String),
    /// Something that is no program.
    #[error(
        "guest: it has no `_start`: it is a library, not a program; build it as a command (with a `main`)"
    )]
    NoStart,
    /// Wrong types, or more memory at once than it may have.
    #[error("guest: it cannot be set up: {0}")]
    SetUp(String),
    /// It ended in its start section, which runs before its main function.
    #[error("guest: it ended before its main function")]
    Ended(#[source] wasmtime::Error),
}

/// A guest that was set up and has not run yet.
pub struct Program {
    start: TypedFunc<(), ()>,
}

impl Program {
    /// Runs it to its end. An [`Exited`] is an error here, as for everything that unwinds a guest.
    ///
    /// # Errors
    ///
    /// How it ended, if not by coming back from its main function.
    pub fn run(&self, store: &mut Store<Context>) -> wasmtime::Result<()> {
        self.start.call(store, ())
    }
}

/// Gives a module its imports and its memory.
///
/// # Errors
///
/// When it is not a program, or needs what is not offered.
pub fn link(store: &mut Store<Context>, module: &Module) -> Result<Program, LinkError> {
    store.limiter(|context| &mut context.limits);
    let imports = imports(store, module)?;
    if module.get_export("_start").is_none() {
        return Err(LinkError::NoStart);
    }
    let instance = Instance::new(&mut *store, module, &imports).map_err(LinkError::of)?;
    store.data_mut().memory = instance.get_memory(&mut *store, "memory");
    let start = instance
        .get_typed_func(&mut *store, "_start")
        .map_err(LinkError::of)?;
    Ok(Program { start })
}

impl LinkError {
    fn of(error: wasmtime::Error) -> Self {
        match error.is::<Exited>() || error.is::<Trap>() {
            true => Self::Ended(error),
            false => Self::SetUp(shorten(format!("{error:#}"))),
        }
    }
}

fn imports(store: &mut Store<Context>, module: &Module) -> Result<Vec<Extern>, LinkError> {
    let mut found = Vec::with_capacity(module.imports().len());
    let mut missing = Vec::new();
    for import in module.imports() {
        let function = match (import.module(), import.ty()) {
            (PREVIEW_1, ExternType::Func(_)) => host_function(&mut *store, import.name()),
            _ => None,
        };
        match function {
            Some(function) => found.push(function.into()),
            None => missing.push(format!("{}.{}", import.module(), import.name())),
        }
    }
    match missing.is_empty() {
        true => Ok(found),
        false => Err(LinkError::Missing(name_some(&missing))),
    }
}

/// `a, b and 3 more`
fn name_some(names: &[String]) -> String {
    let named = names[..names.len().min(NAMED)].join(", ");
    let all = match names.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    };
    shorten(all)
}

/// The memory of the guest that calls, and what is known of the guest.
fn parts<'caller>(
    caller: &'caller mut Caller<'_, Context>,
) -> (GuestMemory<'caller>, &'caller mut Context) {
    let memory = match caller.data().memory {
        Some(memory) => Some(memory),
        None => find_memory(caller),
    };
    match memory {
        Some(memory) => {
            let (bytes, context) = memory.data_and_store_mut(caller);
            (GuestMemory(bytes), context)
        }
        None => (GuestMemory(&mut []), caller.data_mut()),
    }
}

/// A call from a module's start section comes before its exports were looked at.
#[cold]
fn find_memory(caller: &mut Caller<'_, Context>) -> Option<wasmtime::Memory> {
    let memory = caller.get_export("memory")?.into_memory()?;
    caller.data_mut().memory = Some(memory);
    Some(memory)
}

fn code(result: Result<(), Errno>) -> u32 {
    match result {
        Ok(()) => 0,
        Err(Errno(number)) => number.into(),
    }
}

macro_rules! host_functions {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        /// Makes one of the functions of preview 1.
        fn host_function(
            mut store: impl AsContextMut<Data = Context>,
            name: &str,
        ) -> Option<Func> {
            Some(match name {
                $(stringify!($name) => Func::wrap(
                    store.as_context_mut(),
                    |mut caller: Caller<'_, Context>, $($argument: $type),*| {
                        let (memory, context) = parts(&mut caller);
                        code(context.$name(memory, $($argument),*))
                    },
                ),)*
                "proc_exit" => Func::wrap(
                    store.as_context_mut(),
                    |code: u32| -> wasmtime::Result<()> { Err(Exited(code).into()) },
                ),
                _ => return None,
            })
        }
    };
}

host_functions! {
    args_get(pointers: u32, buffer: u32);
    args_sizes_get(count: u32, bytes: u32);
    environ_get(pointers: u32, buffer: u32);
    environ_sizes_get(count: u32, bytes: u32);
    clock_res_get(id: u32, resolution: u32);
    clock_time_get(id: u32, precision: u64, time: u32);
    fd_advise(fd: u32, offset: u64, length: u64, advice: u32);
    fd_allocate(fd: u32, offset: u64, length: u64);
    fd_close(fd: u32);
    fd_datasync(fd: u32);
    fd_fdstat_get(fd: u32, fdstat: u32);
    fd_fdstat_set_flags(fd: u32, flags: u32);
    fd_fdstat_set_rights(fd: u32, base: u64, inheriting: u64);
    fd_filestat_get(fd: u32, filestat: u32);
    fd_filestat_set_size(fd: u32, size: u64);
    fd_filestat_set_times(fd: u32, accessed: u64, modified: u64, which: u32);
    fd_pread(fd: u32, list: u32, count: u32, offset: u64, moved: u32);
    fd_prestat_get(fd: u32, prestat: u32);
    fd_prestat_dir_name(fd: u32, buffer: u32, length: u32);
    fd_pwrite(fd: u32, list: u32, count: u32, offset: u64, moved: u32);
    fd_read(fd: u32, list: u32, count: u32, moved: u32);
    fd_readdir(fd: u32, buffer: u32, length: u32, cookie: u64, used: u32);
    fd_renumber(from: u32, to: u32);
    fd_seek(fd: u32, offset: i64, whence: u32, position: u32);
    fd_sync(fd: u32);
    fd_tell(fd: u32, position: u32);
    fd_write(fd: u32, list: u32, count: u32, moved: u32);
    path_create_directory(fd: u32, path: u32, length: u32);
    path_filestat_get(fd: u32, lookup: u32, path: u32, length: u32, filestat: u32);
    path_filestat_set_times(
        fd: u32, lookup: u32, path: u32, length: u32, accessed: u64, modified: u64, which: u32
    );
    path_link(
        old_fd: u32, lookup: u32, old: u32, old_length: u32, new_fd: u32, new: u32, new_length: u32
    );
    path_open(
        fd: u32, lookup: u32, path: u32, length: u32, oflags: u32, base: u64, inheriting: u64,
        fdflags: u32, opened: u32
    );
    path_readlink(fd: u32, path: u32, length: u32, buffer: u32, buffer_length: u32, used: u32);
    path_remove_directory(fd: u32, path: u32, length: u32);
    path_rename(
        old_fd: u32, old: u32, old_length: u32, new_fd: u32, new: u32, new_length: u32
    );
    path_symlink(text: u32, text_length: u32, fd: u32, path: u32, length: u32);
    path_unlink_file(fd: u32, path: u32, length: u32);
    poll_oneoff(subscriptions: u32, events: u32, count: u32, stored: u32);
    proc_raise(signal: u32);
    random_get(buffer: u32, length: u32);
    sched_yield();
    sock_accept(fd: u32, flags: u32, accepted: u32);
    sock_recv(fd: u32, list: u32, count: u32, flags: u32, received: u32, out_flags: u32);
    sock_send(fd: u32, list: u32, count: u32, flags: u32, sent: u32);
    sock_shutdown(fd: u32, which: u32);
}
