//! Starting the keeper beside the calling thread, whatever process that belongs to.
//!
//! posix_spawn(3) has the caller sleep until the child has executed its program, and wake where the
//! scheduler likes: on the child's processor and before it, as often as not, which on two processors
//! cost up to 270 of the microseconds that a start shall overlap. So the child is started as by
//! vfork(2) but for the wait. Memory is shared, so that it costs the same in a large process; the
//! child makes system calls on a stack of its own and touches nothing else, and the caller's memory
//! that it needs is kept until it has let go.

use rustix::{
    io::Errno,
    mm::{MapFlags, ProtFlags},
    process::{Pid, WaitOptions},
    thread::futex,
};
use std::{
    arch::asm,
    ffi::CStr,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};

/// A process that executes a program, or will.
#[derive(Debug)]
pub(crate) struct Spawned {
    pid: Pid,
    birth: Birthplace,
}

/// The mapping that holds a [`Birth`] and, above it, the child's stack.
#[derive(Debug)]
struct Birthplace(*mut Birth);

// SAFETY: what both processes write are atomics; the rest does not change after the child's start.
unsafe impl Send for Birthplace {}
// SAFETY: as above.
unsafe impl Sync for Birthplace {}

/// What the child works on.
#[repr(C)]
struct Birth {
    /// Not zero until the child has let go of this memory.
    sharing: AtomicU32,
    /// Why the program is not executed; zero if it is.
    errno: AtomicU32,
    program: RawFd,
    streams: [RawFd; 3],
    arguments: [*const libc::c_char; 2],
    environment: [*const libc::c_char; 1],
}

const PLACE_BYTES: usize = 32 * 1024;

/// Starts the program behind a descriptor, with these for its 0, 1 and 2 and an empty environment.
/// All four must be above 2 and close on exec. They may be closed as soon as this returns: the child
/// has a list of its own. Signals are blocked in it.
///
/// # Errors
///
/// When there can be no further process. Whether the program is executed turns out later:
/// [`Spawned::confirm`].
pub(crate) fn spawn(
    name: &'static CStr,
    program: BorrowedFd<'_>,
    streams: [BorrowedFd<'_>; 3],
) -> rustix::io::Result<Spawned> {
    let birth = Birthplace::new(Birth {
        sharing: AtomicU32::new(1),
        errno: AtomicU32::new(0),
        program: program.as_raw_fd(),
        streams: streams.map(|stream| stream.as_raw_fd()),
        arguments: [name.as_ptr(), ptr::null()],
        environment: [ptr::null()],
    })?;
    let pid = with_signals_blocked(|| clone_at(&birth))?;
    let spawned = Spawned { pid, birth };
    // If the child was put behind this thread: it moves on to an idle processor when it executes.
    rustix::thread::sched_yield();
    Ok(spawned)
}

impl Spawned {
    /// Waits until the program runs.
    ///
    /// # Errors
    ///
    /// When it could not be executed.
    pub(crate) fn confirm(&self) -> rustix::io::Result<()> {
        let birth = self.birth.get();
        let mut waited = false;
        while birth.sharing.load(Ordering::Acquire) == 1 {
            // Not the private kind: it is the kernel that wakes when it clears the word.
            let _ = futex::wait(&birth.sharing, futex::Flags::empty(), 1, None);
            waited = true;
        }
        if waited {
            // The kernel wakes one thread (`mm_release` in kernel/fork.c); who is woken wakes the rest.
            let _ = futex::wake(&birth.sharing, futex::Flags::empty(), i32::MAX as u32);
        }
        match birth.errno.load(Ordering::Acquire) {
            0 => Ok(()),
            errno => Err(Errno::from_raw_os_error(errno as i32)),
        }
    }
}

impl Spawned {
    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Leaves it to whoever is its parent next. Only once it runs its program.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for Spawned {
    /// Waits until the process has ended.
    fn drop(&mut self) {
        // Somebody else in this process may have waited for it.
        let _ = rustix::io::retry_on_intr(|| {
            rustix::process::waitpid(Some(self.pid), WaitOptions::empty())
        });
    }
}

impl Birthplace {
    fn new(birth: Birth) -> rustix::io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let place = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                PLACE_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        }
        .cast::<Birth>();
        // SAFETY: the mapping is aligned to a page and larger than this.
        unsafe { place.write(birth) };
        Ok(Self(place))
    }

    fn get(&self) -> &Birth {
        // SAFETY: `new` wrote it, and the mapping lives as long as this value.
        unsafe { &*self.0 }
    }
}

impl Drop for Birthplace {
    fn drop(&mut self) {
        // SAFETY: whoever drops this has waited for the child's end, or it never began; nobody
        // else knows the mapping.
        let _ = unsafe { rustix::mm::munmap(self.0.cast(), PLACE_BYTES) };
    }
}

/// No handler of this process runs in what is started meanwhile: not in a child that shares its memory,
/// and not in a thread of palisade's, for a host's signals are for its own threads.
pub(crate) fn with_signals_blocked<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are written before they are read.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let outcome = run();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        outcome
    }
}

fn clone_at(birth: &Birthplace) -> rustix::io::Result<Pid> {
    let flags = libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD;
    let top = birth.0 as usize + PLACE_BYTES;
    let result: isize;
    // SAFETY: the child runs `execute` on a stack of its own and never comes back here; the kernel
    // clears `sharing`, which stays mapped, when it lets go of this memory (mm_release in
    // kernel/fork.c). The stack is aligned as a call wants it (psABI 3.2.2).
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone as isize => result,
            in("rdi") flags,
            in("rsi") top,
            in("rdx") 0,
            in("r10") &raw const birth.get().sharing,
            in("r8") 0,
            in("r12") birth.0,
            in("r13") execute as unsafe extern "C" fn(*const Birth) -> !,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    match Pid::from_raw(result as i32) {
        Some(pid) if result > 0 => Ok(pid),
        _ => Err(Errno::from_raw_os_error(-result as i32)),
    }
}

/// The child. The C library's wrappers are out of bounds here: they write the parent thread's errno.
unsafe extern "C" fn execute(birth: *const Birth) -> ! {
    // SAFETY: the parent keeps it until this process has let go.
    let birth = unsafe { &*birth };
    let mut outcome = 0;
    for (stream, fd) in (0..).zip(birth.streams) {
        // SAFETY: no pointer.
        outcome = unsafe { call(libc::SYS_dup3, [fd as usize, stream, 0, 0, 0]) };
        if outcome < 0 {
            break;
        }
    }
    if outcome >= 0 {
        let execveat = [
            birth.program as usize,
            c"".as_ptr() as usize,
            birth.arguments.as_ptr() as usize,
            birth.environment.as_ptr() as usize,
            libc::AT_EMPTY_PATH as usize,
        ];
        // SAFETY: the path is empty, both arrays end with null; all of it outlives the call.
        outcome = unsafe { call(libc::SYS_execveat, execveat) };
    }
    birth.errno.store(-outcome as u32, Ordering::Release);
    loop {
        // SAFETY: no pointer; it does not return.
        unsafe { call(libc::SYS_exit_group, [127, 0, 0, 0, 0]) };
    }
}

/// One system call, and nothing else.
unsafe fn call(number: libc::c_long, arguments: [usize; 5]) -> isize {
    let [first, second, third, fourth, fifth] = arguments;
    let result: isize;
    // SAFETY: the caller keeps the call's own rules; the kernel preserves all but these registers.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

#[cfg(test)]
mod tests {
    use super::spawn;
    use rustix::io::Errno;
    use std::{
        fs::File,
        io::{PipeReader, Read, pipe},
        os::fd::AsFd,
        sync::{Barrier, OnceLock},
        thread,
    };

    fn output_of(program: &str) -> (PipeReader, super::Spawned) {
        let program = File::open(program).unwrap();
        let null = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap();
        let (reader, writer) = pipe().unwrap();
        let streams = [null.as_fd(), writer.as_fd(), null.as_fd()];
        let spawned = spawn(c"spawned", program.as_fd(), streams).unwrap();
        (reader, spawned)
    }

    #[test]
    fn a_program_gets_its_streams_and_nothing_else() {
        let (mut reader, spawned) = output_of("/usr/bin/env");
        let mut shown = String::new();
        reader.read_to_string(&mut shown).unwrap();
        assert_eq!(
            shown, "",
            "no environment, and the pipe ends with the program"
        );
        assert_eq!(spawned.confirm(), Ok(()));
    }

    #[test]
    fn what_cannot_be_executed_is_told() {
        let (_, spawned) = output_of("/etc/passwd");
        assert_eq!(spawned.confirm(), Err(Errno::ACCESS));
    }

    #[test]
    fn threads_wait_for_one_program_at_once() {
        for _ in 0..100 {
            let start = Barrier::new(5);
            let spawned = OnceLock::new();
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        start.wait();
                        let spawned: &super::Spawned = spawned.wait();
                        assert_eq!(spawned.confirm(), Ok(()));
                    });
                }
                start.wait();
                let _ = spawned.set(output_of("/usr/bin/true").1);
            });
        }
    }

    #[test]
    fn threads_spawn_at_once() {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let (mut reader, spawned) = output_of("/usr/bin/pwd");
                        let mut shown = String::new();
                        reader.read_to_string(&mut shown).unwrap();
                        assert!(shown.starts_with('/'), "{shown}");
                        drop(spawned);
                    }
                });
            }
        });
    }
}
