//! The system calls the keeper makes, without a C library.
//!
//! Each wrapper is one call and returns its errno. Structures and numbers are the kernel's own
//! (`include/uapi/linux`), named as the kernel names them.

use core::arch::asm;

/// An errno of the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) u32);

pub(crate) type Result<T> = core::result::Result<T, Errno>;
pub(crate) type Fd = i32;

impl Errno {
    pub(crate) const PERM: Self = Self(1);
    pub(crate) const NOENT: Self = Self(2);
    pub(crate) const SRCH: Self = Self(3);
    pub(crate) const INTR: Self = Self(4);
    pub(crate) const NOEXEC: Self = Self(8);
    pub(crate) const CHILD: Self = Self(10);
    pub(crate) const AGAIN: Self = Self(11);
    pub(crate) const ACCESS: Self = Self(13);
    pub(crate) const EXIST: Self = Self(17);
    pub(crate) const NOSPC: Self = Self(28);
    pub(crate) const PIPE: Self = Self(32);
    pub(crate) const BUSY: Self = Self(16);
    pub(crate) const NOTDIR: Self = Self(20);
    pub(crate) const XDEV: Self = Self(18);
    pub(crate) const INVAL: Self = Self(22);
    pub(crate) const NOSYS: Self = Self(38);
    pub(crate) const LOOP: Self = Self(40);
    pub(crate) const OVERFLOW: Self = Self(75);
    pub(crate) const CONNREFUSED: Self = Self(111);
}

/// # Safety
///
/// The arguments must be what call `n` of the kernel's ABI takes: every pointer among them valid for
/// the access that the call makes, for as long as it makes it.
#[inline(always)]
unsafe fn call6(
    n: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> Result<usize> {
    let result: isize;
    // SAFETY: the registers are those of the x86-64 system call ABI (psABI, A.2.1): rcx and r11
    // are overwritten by the kernel, memory only as the caller's contract allows.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") n as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    if (-4095..0).contains(&result) {
        Err(Errno(-result as u32))
    } else {
        Ok(result as usize)
    }
}

macro_rules! call {
    ($n:expr $(, $argument:expr)* $(,)?) => { call!(@ $n; $($argument,)*; 0, 0, 0, 0, 0, 0) };
    (@ $n:expr; ; $($zero:expr),*) => { call6($n, 0, 0, 0, 0, 0, 0) };
    (@ $n:expr; $a:expr,; $($zero:expr),*) => { call6($n, $a as usize, 0, 0, 0, 0, 0) };
    (@ $n:expr; $a:expr, $b:expr,; $($zero:expr),*) => { call6($n, $a as usize, $b as usize, 0, 0, 0, 0) };
    (@ $n:expr; $a:expr, $b:expr, $c:expr,; $($zero:expr),*) => { call6($n, $a as usize, $b as usize, $c as usize, 0, 0, 0) };
    (@ $n:expr; $a:expr, $b:expr, $c:expr, $d:expr,; $($zero:expr),*) => { call6($n, $a as usize, $b as usize, $c as usize, $d as usize, 0, 0) };
    (@ $n:expr; $a:expr, $b:expr, $c:expr, $d:expr, $e:expr,; $($zero:expr),*) => { call6($n, $a as usize, $b as usize, $c as usize, $d as usize, $e as usize, 0) };
    (@ $n:expr; $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr,; $($zero:expr),*) => { call6($n, $a as usize, $b as usize, $c as usize, $d as usize, $e as usize, $f as usize) };
}

/// A NUL-terminated string in a message or a literal.
#[derive(Clone, Copy)]
pub(crate) struct CStr<'a>(&'a [u8]);

impl<'a> CStr<'a> {
    /// `None` if the last byte is not the only NUL.
    pub(crate) fn new(bytes_with_nul: &'a [u8]) -> Option<Self> {
        let (last, rest) = bytes_with_nul.split_last()?;
        (*last == 0 && !rest.contains(&0)).then_some(Self(bytes_with_nul))
    }

    pub(crate) fn pointer(self) -> *const u8 {
        self.0.as_ptr()
    }

    pub(crate) fn with_nul(self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.len() == 1
    }

    pub(crate) fn is_absolute(self) -> bool {
        self.0.first() == Some(&b'/')
    }

    /// What stands between its slashes.
    pub(crate) fn names(self) -> impl Iterator<Item = &'a [u8]> {
        let separators = |byte: &u8| *byte == b'/' || *byte == 0;
        self.0.split(separators).filter(|name| !name.is_empty())
    }

    /// The folder that an absolute path leads to, and the name in it, which may have slashes at its end.
    pub(crate) fn last_name(self) -> Option<(&'a [u8], Self)> {
        let is_of_name = |byte: &u8| *byte != b'/' && *byte != 0;
        let last = self.0.iter().rposition(is_of_name)?;
        let slash = self.0[..last].iter().rposition(|byte| *byte == b'/')?;
        Some((&self.0[..slash], Self(&self.0[slash + 1..])))
    }

    pub(crate) fn without_leading_slash(self) -> Self {
        match self.0 {
            [b'/', rest @ ..] => Self(rest),
            _ => self,
        }
    }
}

macro_rules! c {
    ($text:literal) => {
        match $crate::kernel::CStr::new(concat!($text, "\0").as_bytes()) {
            Some(text) => text,
            None => $crate::exit(125),
        }
    };
}
pub(crate) use c;

// Below the macros, which they use.
mod birth;
#[cfg(container)]
mod container;
mod file;
mod filter;
mod memory;
mod mount;
mod number;
mod process;
mod processors;
mod socket;
mod wait;

#[cfg(container)]
pub(crate) use container::*;
pub(crate) use {
    birth::*, file::*, filter::*, memory::*, mount::*, process::*, processors::*, socket::*,
    wait::*,
};

pub(crate) fn exit(code: i32) -> ! {
    loop {
        // SAFETY: exit_group takes no pointer and does not return.
        let _ = unsafe { call!(number::EXIT_GROUP, code) };
    }
}
