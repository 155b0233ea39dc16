//! Landlock and seccomp for threads of this process.
//!
//! The crates `landlock` and `seccompiler` would bring rights and compilers that this crate has already.

use super::last_errno;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `struct landlock_ruleset_attr`, up to interface 6.
#[repr(C)]
pub(crate) struct Handled {
    /// `LANDLOCK_ACCESS_FS_*`.
    pub(crate) files: u64,
    /// `LANDLOCK_ACCESS_NET_*`.
    pub(crate) network: u64,
    /// `LANDLOCK_SCOPE_*`.
    pub(crate) scopes: u64,
}

impl Handled {
    /// How much of the structure kernels of this interface know (landlock_create_ruleset(2)).
    fn known_bytes(abi: u32) -> usize {
        match abi {
            0..=3 => 8,
            4..=5 => 16,
            _ => size_of::<Self>(),
        }
    }
}

/// A set of rules that denies everything handled.
pub(crate) fn landlock_ruleset(handled: &Handled, abi: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: the kernel reads as many bytes of the structure as it is told.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const *handled,
            Handled::known_bytes(abi),
            0u32,
        )
    };
    if fd < 0 {
        return Err(last_errno());
    }
    // SAFETY: the kernel just made it for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Allows these rights below an open path.
pub(crate) fn landlock_allow(
    ruleset: BorrowedFd<'_>,
    rights: u64,
    below: BorrowedFd<'_>,
) -> Result<(), Errno> {
    /// `struct landlock_path_beneath_attr`.
    #[repr(C, packed)]
    struct PathBeneath {
        rights: u64,
        parent: libc::c_int,
    }
    const LANDLOCK_RULE_PATH_BENEATH: libc::c_int = 1;
    let rule = PathBeneath {
        rights,
        parent: below.as_raw_fd(),
    };
    // SAFETY: the kernel reads a structure of this layout.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            LANDLOCK_RULE_PATH_BENEATH,
            &raw const rule,
            0u32,
        )
    };
    if result < 0 {
        Err(last_errno())
    } else {
        Ok(())
    }
}

/// Puts the calling thread under these rules, and all that it starts.
pub(crate) fn landlock_restrict(ruleset: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: takes two numbers.
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) };
    if result < 0 {
        Err(last_errno())
    } else {
        Ok(())
    }
}

/// Puts the calling thread under a system-call filter, whose program is instructions of eight bytes
/// (`struct sock_filter`). It must have `no_new_privs`.
pub(crate) fn load_filter(program: &[u8]) -> Result<(), Errno> {
    let (instructions, rest) = program.as_chunks::<{ size_of::<libc::sock_filter>() }>();
    if !rest.is_empty() {
        return Err(Errno::INVAL);
    }
    let program = libc::sock_fprog {
        len: instructions.len().try_into().map_err(|_| Errno::INVAL)?,
        filter: instructions.as_ptr().cast_mut().cast(),
    };
    // SAFETY: the kernel copies `len` instructions of eight bytes, which are all there, from wherever they lie.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0u32,
            &raw const program,
        )
    };
    if result < 0 {
        Err(last_errno())
    } else {
        Ok(())
    }
}
