//! Leases of files: fcntl(2), `F_SETLEASE`.

use rustix::io::Errno;
use std::{ffi::c_int, fs::File, os::fd::AsRawFd};

/// Of fcntl(2): which signal tells the holder that somebody wants the file. `libc` has it for few machines.
const F_SETSIG: c_int = 10;

/// A read lease of a file of the caller's own that is open for reading: as long as this lives nobody has the file open
/// for writing, nor a mapping that writes to it, and who opens it so waits.
#[derive(Debug)]
pub(crate) struct Leased(File);

impl Leased {
    /// Takes the lease.
    ///
    /// # Errors
    ///
    /// Gives the file back with `EAGAIN` when somebody has it open for writing, with others where its file system knows no
    /// leases or it is not the caller's own.
    pub(crate) fn take(file: File) -> Result<Self, (File, Errno)> {
        // Who is to be told of a lease that is wanted gets SIGIO, which ends a process that does not expect it. SIGURG
        // does nothing to one.
        let taken = fcntl(&file, F_SETSIG, libc::SIGURG)
            .and_then(|_| fcntl(&file, libc::F_SETLEASE, libc::F_RDLCK));
        match taken {
            Ok(_) => Ok(Self(file)),
            Err(errno) => Err((file, errno)),
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.0
    }

    /// Whether somebody waits for it to be given back.
    #[cfg(test)]
    pub(crate) fn is_wanted(&self) -> bool {
        fcntl(&self.0, libc::F_GETLEASE, 0) == Ok(libc::F_UNLCK)
    }
}

impl Drop for Leased {
    /// Closing alone would leave it with a child that was forked meanwhile.
    fn drop(&mut self) {
        // There is nothing to do about a failure: the lease goes with the last copy of the descriptor then.
        let _ = fcntl(&self.0, libc::F_SETLEASE, libc::F_UNLCK);
    }
}

fn fcntl(file: &File, command: c_int, argument: c_int) -> Result<c_int, Errno> {
    // SAFETY: the descriptor is open as long as `file` is, and these commands take a number and touch no memory.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        result => Ok(result),
    }
}
