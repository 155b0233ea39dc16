//! What `palisade run` does before all else: it has the domain made, which takes the kernel longer than the runtime, flags and
//! plan take us.
//!
//! The keeper is begun before the C library (`sys/entry.rs` of `palisade-process`), and a domain ordered from it before `main`.
//! What the runtime would have done by then is not needed: no output, no thread and no handler of a signal; and a standard stream
//! that is closed, which is `/dev/null` from `main` on, leaves it all for later, or a descriptor of palisade's would be taken for
//! the guest's input.

mod sys;

use palisade_policy::Capability;
use palisade_process::{Launcher, plan::forbids_early_start};
use rustix::fs::{Mode, OFlags};
use std::{
    ffi::OsStr,
    sync::{Mutex, MutexGuard, PoisonError},
};

static LAUNCHER: Mutex<Option<Launcher>> = Mutex::new(None);

fn begin() {
    if has_all_streams() {
        *lock() = start();
    }
}

/// Whether a domain has been ordered.
fn has_begun() -> bool {
    lock().is_some()
}

/// The launcher of a guest's, whose domain is being made. Not having one is no reason to fail: whoever needs it asks again
/// and gets the error.
pub(crate) fn launcher() -> Option<Launcher> {
    lock().take().or_else(start)
}

/// Ends this process when nothing of the launcher's is left, and its own pages of the program before: the kernel is still taking
/// the domain down. Nothing of the runtime's is left to do when all is written.
pub(crate) fn end(launcher: Launcher, code: u8) -> ! {
    // Whom the kernel needs to end the domain may wait for this processor.
    rustix::thread::sched_yield();
    sys::let_go_of_own_pages();
    drop(launcher);
    sys::end(code)
}

fn start() -> Option<Launcher> {
    starts_a_guest()
        .then(|| Launcher::for_one_guest().ok())
        .flatten()
}

fn lock() -> MutexGuard<'static, Option<Launcher>> {
    LAUNCHER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn has_all_streams() -> bool {
    let streams = [
        rustix::stdio::stdin(),
        rustix::stdio::stdout(),
        rustix::stdio::stderr(),
    ];
    streams.map(|stream| rustix::io::fcntl_getfd(stream).is_ok()) == [true; 3]
}

/// Opens `/dev/null` for those: what is opened later would be taken for one of them.
fn open_missing_streams() {
    while !has_all_streams() {
        let null = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty());
        // It is the lowest that was not open.
        match null {
            Ok(stream) => std::mem::forget(stream),
            Err(_) => std::process::abort(),
        }
    }
}

/// Whether the arguments do, and no flag forbids that it begins before all of them are read.
fn starts_a_guest() -> bool {
    let mut words = std::env::args_os().skip(1);
    words.next().is_some_and(|verb| verb == "run")
        && !words
            .take_while(|word| word != "--")
            .any(|word| limit_of(&word).is_some_and(forbids_early_start))
}

/// What a flag that has the name of a limit bounds.
fn limit_of(word: &OsStr) -> Option<Capability> {
    let flag = word.as_encoded_bytes().strip_prefix(b"--")?;
    let name = flag.split(|byte| *byte == b'=').next()?;
    let mut all = Capability::ALL.iter().copied();
    all.find(|capability| capability.name().as_bytes() == name)
}
