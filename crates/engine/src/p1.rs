//! WASI preview 1: the host functions of programs that are core modules.
//!
//! Straight between the guest's memory and the kernel: a read is one read(2) or readv(2) into the guest's
//! own memory, a path is one openat2(2), in the thread that the guest runs in. There is no copy, no
//! runtime, no other thread and no table of open files behind the kernel's own.
//!
//! How it differs from wasmtime-wasi's implementation, and why:
//!
//! - A call is carried out where the guest calls it. wasmtime-wasi has one implementation for everything, which is
//!   asynchronous underneath, and hands calls on files to a thread that may block.
//! - All buffers of a call are passed to the kernel, not the first one only.
//! - Names are bytes, as for any program here, and need not be UTF-8.
//! - The kernel says what is an error: whether a file with a slash behind its name is opened, what is
//!   renamed onto what, whether a pipe seeks. A program gets the code that the same source, compiled for this
//!   machine, gets. The one exception is what leads out of a folder: `notcapable`.
//! - Rights are kept and hold. A read from a file that is open for writing only is `badf`, as natively.
//! - What a descriptor is, type and flags, the kernel is asked once, unless others have the same open file: wasi-libc asks it of
//!   the folder before each open.
//! - A cookie of `fd_readdir` is the kernel's: reading on does not read all that was before anew.
//! - The listeners that a guest is started with are descriptors from 3 on (sd_listen_fds(3)).
//! - What reaches out of the guest's memory is `fault`, and ends nothing.
//!
//! Times as much as the same program compiled natively, with no wall (`palisade bench syscalls mk-2 sva-f4`;
//! wasmtime 49 stands with no wall around it):
//!
//! | | here, in the worker | wasmtime |
//! |---|---|---|
//! | open and close | 2.5 | 4.0 |
//! | stat | 4.2 | 10.2 |
//! | read of 64 bytes | 1.7 | 3.2 |
//! | write of 64 bytes | 1.7 | 3.4 |
//! | poll of one descriptor | 3.4 | 85 |
//! | read of a file of 4 KB | 2.4 | 3.4 |
//!
//! The functions of `wasi_unstable`, the version before, are not offered: records have other layouts there.
#![allow(
    clippy::too_many_arguments,
    reason = "the functions are the interface's"
)]

mod abi;
mod clock;
mod errno;
mod files;
mod folder;
mod link;
mod memory;
mod poll;
mod process;
mod readdir;
mod socket;
mod table;

pub use link::{LinkError, Program, link};

use crate::{
    folders::{FolderError, Root},
    limits::GuestLimits,
    resolve::Resolver,
    sys,
};
use palisade_wasm::order::Order;
use process::Strings;
use std::{
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};
use table::{Descriptor, Table};
use wasmtime::Memory;

/// The first descriptor after the standard streams: sd_listen_fds(3).
const FIRST_LISTENER: i32 = 3;

/// What the host functions of one guest know.
#[derive(Debug)]
pub struct Context {
    table: Table,
    resolver: Resolver,
    arguments: Strings,
    environment: Strings,
    /// Found at the guest's first call, and the same for all others.
    memory: Option<Memory>,
    limits: GuestLimits,
}

/// Why a guest has no context.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// A folder of the order's.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Fewer descriptors are allowed than the guest is started with.
    #[error(
        "policy: the guest is started with more open files than it may have: allow more with --files"
    )]
    TooFewFiles,
}

impl Context {
    /// Nothing is open, and there are no arguments. `files` is how many may be open at one time.
    pub fn new(files: Option<u64>, memory_bytes: Option<u64>) -> Self {
        let files = files.and_then(|files| usize::try_from(files).ok());
        Self {
            table: Table::new(files.unwrap_or(table::MOST).min(table::MOST)),
            resolver: Resolver::new(),
            arguments: Strings::default(),
            environment: Strings::default(),
            memory: None,
            limits: GuestLimits::new(memory_bytes),
        }
    }

    /// What an order says, with this process's own environment and standard streams. Once for a process:
    /// the streams and listeners are the guest's from now on.
    ///
    /// # Errors
    ///
    /// When a folder that the order names cannot be opened.
    pub fn of_order(order: &Order) -> Result<Self, ContextError> {
        let mut context = Self::new(order.files, order.memory_bytes);
        for argument in &order.arguments {
            context.arguments.push(&[argument]);
        }
        for (name, value) in std::env::vars_os() {
            // It names this process, which is none for the guest.
            if name != "LISTEN_PID" {
                context.environment.push(&[&name, "=".as_ref(), &value]);
            }
        }
        context.take_descriptors(order)?;
        let root = Root::open(order)?;
        for name in order.folders() {
            context.preopen_in(&root, order.place(name), name.as_os_str())?;
        }
        Ok(context)
    }

    fn take_descriptors(&mut self, order: &Order) -> Result<(), ContextError> {
        for stream in 0..FIRST_LISTENER {
            self.stream(sys::adopt(stream))?;
        }
        for listener in FIRST_LISTENER..FIRST_LISTENER + order.listeners {
            let listener = sys::adopt(listener);
            self.add(Descriptor::listener(listener))?;
        }
        Ok(())
    }

    /// Opens a folder for the guest, under a name of the guest's.
    ///
    /// One that this process may not even look at is left out: a native program could not open anything
    /// there either.
    ///
    /// # Errors
    ///
    /// When there is no such folder.
    pub fn preopen(&mut self, path: &Path, name: &OsStr) -> Result<(), ContextError> {
        self.preopen_in(&Root::Own, path, name)
    }

    fn preopen_in(&mut self, root: &Root, path: &Path, name: &OsStr) -> Result<(), ContextError> {
        match root.open_folder(path) {
            Ok(folder) => self.add(Descriptor::folder(folder, name.as_bytes())),
            Err(error) if error.is_denied() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the guest a stream, with its lowest free number.
    ///
    /// # Errors
    ///
    /// When it may have no more.
    pub fn stream(&mut self, file: OwnedFd) -> Result<(), ContextError> {
        self.add(Descriptor::stream(file))
    }

    fn add(&mut self, descriptor: Descriptor) -> Result<(), ContextError> {
        match self.table.insert(descriptor) {
            Ok(_) => Ok(()),
            Err(_) => Err(ContextError::TooFewFiles),
        }
    }
}
