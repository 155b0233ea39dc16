//! A call of the guest's on a socket of the domain's own, as the domain's user and under its rules.

use super::guest::Running;
use crate::{
    kernel,
    perform::{self, Call, LOCAL, names_path},
    privileges,
    text::Text,
    wire::{RECORD_WORDS, perform as wire},
};
use kernel::{CStr, Errno, Fd, Result, c};

/// Begins it: see [`perform::begin`].
pub(crate) fn begin(running: &Running, words: &[u64; RECORD_WORDS], fds: &[Fd]) {
    perform::begin(words, fds, |call| carry_out(running, call));
}

fn carry_out(running: &Running, call: &Call<'_>) -> Result<usize> {
    privileges::drop_all().map_err(|failure| failure.errno)?;
    let address = call.address;
    let concerns_files = call.kind == wire::MAKE_NODE || names_path(address);
    if let Some(ruleset) = running.landlock.filter(|_| concerns_files) {
        kernel::landlock_restrict_self(ruleset)?;
    }
    if let Some(folder) = call.folder {
        kernel::change_directory_fd(folder)?;
    }
    // The last of what takes a number that may be in its way.
    if let Some((folder, number)) = call.open {
        kernel::duplicate_to(folder, number)?;
    }
    kernel::set_umask(call.umask);
    call.check_abstract()?;
    let mut found = Text::default();
    match call.kind {
        wire::CONNECT | wire::SEND if names_path(address) => {
            call.make(find(running, address, &mut found)?)
        }
        wire::MAKE_NODE => make_node(call).map(|()| 0),
        _ => call.make(address),
    }
}

/// A FIFO, or a socket that nobody has open. The kernel looks for the path, and the rules that this process is under hold what
/// it finds.
fn make_node(call: &Call<'_>) -> Result<()> {
    const S_IFMT: u32 = 0o170_000;
    const S_IFIFO: u32 = 0o010_000;
    const S_IFSOCK: u32 = 0o140_000;
    let mode = call.number as u32;
    let path = call.data.map(perform::contents).transpose()?;
    let path = path.and_then(CStr::new).ok_or(Errno::INVAL)?;
    match mode & S_IFMT {
        S_IFIFO | S_IFSOCK => {
            // As `/proc/self/cwd` too.
            kernel::change_directory_fd(call.socket)?;
            kernel::make_node(kernel::AT_FDCWD, path, mode, (0, 0))
        }
        _ => Err(Errno::PERM),
    }
}

/// The address of the socket that a path leads to now, by a descriptor of it: between a look at a path and
/// its use, the guest could put something else there. The socket must lie in the domain's own `tmpfs`, or at
/// one of these places. `EACCES` for a service of the host's; other errors are those of connect(2).
fn find<'a>(running: &Running, address: &[u8], found: &'a mut Text) -> Result<&'a [u8]> {
    const S_IFMT: u16 = 0o170_000;
    const S_IFSOCK: u16 = 0o140_000;
    let mut path = [0; wire::MOST_ADDRESS];
    let named = address[LOCAL.len()..]
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or(&[]);
    path[..named.len()].copy_from_slice(named);
    let path = CStr::new(&path[..=named.len()]).ok_or(Errno::INVAL)?;
    let socket = kernel::open(kernel::AT_FDCWD, path, kernel::O_PATH, 0)?;
    let about = kernel::statx_fd(socket)?;
    if about.mode & S_IFMT != S_IFSOCK {
        return Err(Errno::CONNREFUSED);
    }
    let is_own = running.own_device == Some((about.device_major, about.device_minor));
    if !is_own && !running.meeting_places.has(about.mount) {
        return Err(Errno::ACCESS);
    }
    let proc = running
        .own_proc
        .map_or_else(|| open_path(c!("/proc")), Ok)?;
    kernel::change_directory_fd(proc)?;
    found
        .text(&LOCAL)
        .text(b"self/fd/")
        .number(socket as u64)
        .text(b"\0");
    Ok(found.bytes())
}

fn open_path(path: CStr) -> Result<Fd> {
    kernel::open(kernel::AT_FDCWD, path, kernel::O_PATH, 0)
}
