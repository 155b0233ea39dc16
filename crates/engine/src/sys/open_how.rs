//! openat2(2) from a folder on, with structures that are constants of this program's own file.
//!
//! Where the process wall guards the modes of new files, its filter takes no other ones: it tells by the
//! address what a structure says ([`palisade_wasm::open_how`]). The worker is linked so that they lie there.

use super::transfer::last_error;
use palisade_wasm::open_how::STRIDE;
use rustix::{fs::OFlags, io::Errno, path::Arg};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Of every new file. The umask takes from it.
pub(crate) const MODE: u64 = 0o666;

/// `struct open_how`.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

const _: () = assert!(size_of::<OpenHow>() as u64 == STRIDE);

/// What may be asked for beside the access; each is a bit of a structure's number.
const FLAGS: [i32; 9] = [
    libc::O_CREAT,
    libc::O_EXCL,
    libc::O_TRUNC,
    libc::O_APPEND,
    libc::O_NONBLOCK,
    libc::O_DSYNC,
    libc::O_SYNC & !libc::O_DSYNC,
    libc::O_DIRECTORY,
    libc::O_NOFOLLOW,
];
/// Reading, writing, both, or looking only.
const ACCESSES: [i32; 4] = [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR, libc::O_PATH];
const COUNT: usize = ACCESSES.len() << (FLAGS.len() + 1);

/// What keeps a path below its folder. The last bit of a structure's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolve {
    /// The kernel sees to it, whatever the path says, and looks in the end for the folder above what it has found.
    Beneath,
    /// There is no link on the way (`ELOOP` where there is). That is enough for a path without `..` that is not absolute.
    NoLinks,
}

impl Resolve {
    const fn flags(self) -> u64 {
        match self {
            Self::Beneath => libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS,
            Self::NoLinks => libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS,
        }
    }
}

#[unsafe(link_section = ".palisade.open_how")]
static STRUCTURES: [OpenHow; COUNT] = structures();

const fn structures() -> [OpenHow; COUNT] {
    let nothing = OpenHow {
        flags: 0,
        mode: 0,
        resolve: 0,
    };
    let mut structures = [nothing; COUNT];
    let mut number = 0;
    while number < COUNT {
        structures[number] = structure(number);
        number += 1;
    }
    structures
}

const fn structure(number: usize) -> OpenHow {
    let resolve = match number < COUNT / 2 {
        true => Resolve::Beneath,
        false => Resolve::NoLinks,
    };
    let access = ACCESSES[number % ACCESSES.len()];
    // To look only, openat2(2) takes no flag that is about opening.
    let mut flags = access | libc::O_CLOEXEC;
    if access != libc::O_PATH {
        flags |= libc::O_NOCTTY;
    }
    let mut bit = 0;
    while bit < FLAGS.len() {
        if (number / ACCESSES.len()) >> bit & 1 == 1 {
            flags |= FLAGS[bit];
        }
        bit += 1;
    }
    OpenHow {
        flags: flags as u64,
        // It must be zero where nothing is made.
        mode: if flags & libc::O_CREAT == 0 { 0 } else { MODE },
        resolve: resolve.flags(),
    }
}

fn number_of(flags: OFlags, resolve: Resolve) -> usize {
    let flags = flags.bits() as i32;
    let access = match flags & libc::O_PATH {
        0 => flags & libc::O_ACCMODE,
        _ => 3,
    };
    let first = match resolve {
        Resolve::Beneath => 0,
        Resolve::NoLinks => COUNT / 2,
    };
    FLAGS
        .iter()
        .enumerate()
        .filter(|(_, flag)| flags & **flag != 0)
        .fold(first + access as usize, |number, (bit, _)| {
            number + (ACCESSES.len() << bit)
        })
}

/// Opens a path from a folder on. Closed on execve(2), never a controlling terminal; a new file has [`MODE`].
///
/// # Errors
///
/// What the kernel says. With [`Resolve::Beneath`] `EAGAIN` asks to be asked again: something was renamed in the middle.
pub(crate) fn open(
    folder: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    resolve: Resolve,
) -> Result<OwnedFd, Errno> {
    let how = &STRUCTURES[number_of(flags, resolve)];
    let wanted = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    if how.flags & !u64::from(wanted.bits()) != 0 || u64::from(flags.bits()) & !how.flags != 0 {
        return Err(Errno::INVAL);
    }
    path.into_with_c_str(|path| {
        // SAFETY: the path ends with a zero, and the structure is as long as the kernel is told.
        let opened = unsafe {
            libc::syscall(
                libc::SYS_openat2,
                folder.as_raw_fd(),
                path.as_ptr(),
                std::ptr::from_ref(how),
                palisade_wasm::open_how::STRUCTURE_BYTES,
            )
        };
        match i32::try_from(opened) {
            // SAFETY: the kernel has just given it, so nothing else has it.
            Ok(opened) if opened >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(opened) }),
            _ => Err(last_error()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_structure_has_its_own_flags() {
        for number in 0..COUNT {
            let how = structure(number);
            let flags = OFlags::from_bits_retain(how.flags as u32);
            let (resolve, bits) = match number < COUNT / 2 {
                true => (Resolve::Beneath, 0x0a),
                false => (Resolve::NoLinks, 0x06),
            };
            assert_eq!(how.resolve, bits);
            assert_eq!(number_of(flags, resolve), number);
            assert_eq!(
                how.mode,
                if flags.contains(OFlags::CREATE) {
                    0o666
                } else {
                    0
                }
            );
            assert!(flags.contains(OFlags::CLOEXEC));
        }
    }

    #[test]
    fn a_flag_without_a_structure_is_refused() {
        let here = rustix::fs::CWD;
        let open = |flags| open(here, b".", flags, Resolve::Beneath).map(drop);
        assert_eq!(open(OFlags::RDONLY | OFlags::DIRECTORY), Ok(()));
        assert_eq!(open(OFlags::PATH | OFlags::NOFOLLOW), Ok(()));
        assert_eq!(open(OFlags::TMPFILE | OFlags::WRONLY), Err(Errno::INVAL));
        assert_eq!(open(OFlags::DIRECT), Err(Errno::INVAL));
    }
}
