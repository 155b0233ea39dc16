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
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};

/// A system call by its number, with as many arguments as it takes. The child may be begun before the C library ([`super::entry`]):
/// nothing that is larger than some words is copied there, for that would be memcpy(3)'s to do.
macro_rules! call {
    ($number:expr) => {
        call!($number, 0)
    };
    ($number:expr, $a:expr) => {
        call!($number, $a, 0)
    };
    ($number:expr, $a:expr, $b:expr) => {
        call!($number, $a, $b, 0)
    };
    ($number:expr, $a:expr, $b:expr, $c:expr) => {
        call!($number, $a, $b, $c, 0)
    };
    ($number:expr, $a:expr, $b:expr, $c:expr, $d:expr) => {
        call!($number, $a, $b, $c, $d, 0, 0)
    };
    ($number:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr) => {
        crate::sys::spawn::system_call(
            $number, $a as usize, $b as usize, $c as usize, $d as usize, $e as usize, $f as usize,
        )
    };
}
pub(super) use call;

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
pub(super) struct Birth {
    /// Not zero until the child has let go of this memory.
    sharing: AtomicU32,
    /// Why the program is not executed; zero if it is.
    errno: AtomicU32,
    /// Zero as long as the child shall wait for its parent, which has this pid.
    may_go: AtomicU32,
    parent: i32,
    /// Which processors the child may have, if it was put on some of them to begin with.
    processors: Processors,
    /// What these are compared with.
    others: Processors,
    program: Program,
    /// The last one is `/dev/null` where it is [`NOT_OPEN`].
    streams: [RawFd; 3],
    arguments: [*const libc::c_char; 2],
    environment: [*const libc::c_char; 1],
}

/// A descriptor that the child makes itself.
pub(super) const NOT_OPEN: RawFd = -1;

/// A set of processors, as the kernel writes it: the first `bytes` count.
#[derive(Default)]
#[repr(C)]
struct Processors {
    bits: [u64; 8],
    bytes: usize,
}

/// Where the program is.
#[repr(C)]
enum Program {
    /// It is open.
    File(RawFd),
    /// In memory: the child makes a sealed file of that.
    Memory(*const u8, usize),
}

pub(super) const PLACE_BYTES: usize = 32 * 1024;

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
        may_go: AtomicU32::new(1),
        parent: 0,
        processors: Processors::default(),
        others: Processors::default(),
        program: Program::File(program.as_raw_fd()),
        streams: streams.map(|stream| stream.as_raw_fd()),
        arguments: [name.as_ptr(), ptr::null()],
        environment: [ptr::null()],
    })?;
    // SAFETY: the birthplace is kept until the child has let go of it.
    let pid = with_signals_blocked(|| unsafe { clone_at(birth.0) });
    let pid = match Pid::from_raw(pid as i32) {
        Some(started) if pid > 0 => started,
        _ => return Err(Errno::from_raw_os_error(-pid as i32)),
    };
    let spawned = Spawned { pid, birth };
    // If the child was put behind this thread: it moves on to an idle processor when it executes.
    rustix::thread::sched_yield();
    Ok(spawned)
}

impl Birth {
    /// Writes one of this program in memory to a place that is all zero; the last of its streams is `/dev/null`. It waits for
    /// [`let_go`]. Part by part, for the whole would be copied by memcpy(3).
    ///
    /// # Safety
    ///
    /// The place is large enough and aligned to a page.
    pub(super) unsafe fn of_memory(
        place: *mut Self,
        name: &'static CStr,
        program: &'static [u8],
        (input, output): (RawFd, RawFd),
        parent: i32,
    ) {
        // SAFETY: the caller's promise; zero is a value of all else.
        unsafe {
            (&raw mut (*place).sharing).write(AtomicU32::new(1));
            (&raw mut (*place).program).write(Program::Memory(program.as_ptr(), program.len()));
            (&raw mut (*place).streams).write([input, output, NOT_OPEN]);
            (&raw mut (*place).arguments[0]).write(name.as_ptr());
            (&raw mut (*place).parent).write(parent);
        }
    }
}

impl Spawned {
    /// The child that was begun as `pid` at this place.
    ///
    /// # Safety
    ///
    /// It was, by [`clone_at`], and this is the only one for it.
    pub(super) unsafe fn begun(pid: Pid, place: *mut Birth) -> Self {
        Self {
            pid,
            birth: Birthplace(place),
        }
    }

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

/// Begins the child; gives its pid, or minus an error number.
///
/// # Safety
///
/// A [`Birth`] lies at the beginning of the [`PLACE_BYTES`] there, which stay mapped until the child has let go of this memory.
pub(super) unsafe fn clone_at(place: *mut Birth) -> isize {
    let flags = libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD;
    let top = place as usize + PLACE_BYTES;
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
            in("r10") &raw const (*place).sharing,
            in("r8") 0,
            in("r12") place,
            in("r13") execute as unsafe extern "C" fn(*mut Birth) -> !,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// Lets a child go that waits, on another processor than this one if there is any: where processors are virtual, the kernel puts
/// nobody who was just begun or woken on one that is idle (`vcpu_is_preempted`).
///
/// # Safety
///
/// A [`Birth`] lies there, of the child with this pid, which waits.
pub(super) unsafe fn let_go(place: *mut Birth, pid: isize) {
    // SAFETY: the child reads what is written here after `may_go`, which is there.
    unsafe {
        let (all, others) = (&mut (*place).processors, &mut (*place).others);
        all.find();
        if !others.become_all_but_this(all) || !others.put(pid) {
            all.bytes = 0;
        }
        let word = &(*place).may_go;
        word.store(1, Ordering::Release);
        futex(word, libc::FUTEX_WAKE, 1);
    }
}

impl Processors {
    /// Those of the calling thread; none where the kernel has more than there is room for.
    unsafe fn find(&mut self) {
        let room = size_of_val(&self.bits);
        // SAFETY: the kernel writes as many bytes at most.
        let written =
            unsafe { call!(libc::SYS_sched_getaffinity, 0, room, self.bits.as_mut_ptr()) };
        self.bytes = if written > 0 { written as usize } else { 0 };
    }

    /// Whether there is any other than the one that this runs on.
    unsafe fn become_all_but_this(&mut self, all: &Self) -> bool {
        let mut this = 0u32;
        // SAFETY: the kernel writes one number.
        let known = unsafe { call!(libc::SYS_getcpu, &raw mut this) };
        let (mut at, mut any) = (0, 0);
        while at < self.bits.len() {
            let is_here = at == this as usize / 64;
            let without = if is_here { 1 << (this % 64) } else { 0 };
            self.bits[at] = all.bits[at] & !without;
            any |= self.bits[at];
            at += 1;
        }
        self.bytes = all.bytes;
        known == 0 && self.bytes > 0 && any != 0
    }

    /// Has a thread be on these alone; 0 is the calling one.
    unsafe fn put(&self, thread: isize) -> bool {
        let bits = self.bits.as_ptr();
        // SAFETY: the kernel reads as many bytes.
        unsafe { call!(libc::SYS_sched_setaffinity, thread, self.bytes, bits) == 0 }
    }

    /// Gives the calling thread back what it had. Asked for all, the kernel gives what control groups leave, and goes on doing so
    /// when they leave something else (`user_cpus_ptr`); only less than that had been somebody's wish.
    unsafe fn restore(&self, others: &mut Self) {
        if self.bytes == 0 {
            return;
        }
        let mut at = 0;
        while at < others.bits.len() {
            others.bits[at] = u64::MAX;
            at += 1;
        }
        others.bytes = self.bytes;
        // SAFETY: they are sets as the kernel takes them.
        unsafe {
            others.put(0);
            others.find();
            if !self.is(others) {
                self.put(0);
            }
        }
    }

    fn is(&self, other: &Self) -> bool {
        let (mut at, mut differ) = (0, 0);
        while at < self.bits.len() {
            differ |= self.bits[at] ^ other.bits[at];
            at += 1;
        }
        differ == 0
    }
}

unsafe fn futex(word: &AtomicU32, operation: libc::c_int, value: usize) {
    // SAFETY: the word is there for the call; no timeout is given.
    unsafe { call!(libc::SYS_futex, word.as_ptr(), operation, value) };
}

/// The child. The C library's wrappers are out of bounds here: they write the parent thread's errno, and where
/// [`super::entry`] begins it there is no library yet.
unsafe extern "C" fn execute(birth: *mut Birth) -> ! {
    // SAFETY: the parent keeps it until this process has let go, and writes nothing there once this may go.
    unsafe {
        if (*birth).may_go.load(Ordering::Acquire) == 0 {
            wait_for_parent(&*birth);
        }
        (*birth).processors.restore(&mut (*birth).others);
        let errno = -become_program(&*birth);
        (*birth).errno.store(errno as u32, Ordering::Release);
        loop {
            call!(libc::SYS_exit_group, 127);
        }
    }
}

/// Waits until the parent says so, and ends with it: its signals are blocked, and nobody else would ever let it go.
unsafe fn wait_for_parent(birth: &Birth) {
    // SAFETY: numbers, and a word that is there.
    unsafe {
        call!(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // It may have ended before.
        if call!(libc::SYS_getppid) != birth.parent as isize {
            call!(libc::SYS_exit_group, 127);
        }
        while birth.may_go.load(Ordering::Acquire) == 0 {
            futex(&birth.may_go, libc::FUTEX_WAIT, 0);
        }
        // The program outlives it, to clean up.
        call!(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, 0);
    }
}

/// Comes back only with what kept it: minus an error number.
unsafe fn become_program(birth: &Birth) -> isize {
    let program = match birth.program {
        Program::File(file) => file as isize,
        // SAFETY: it is the program of this binary, which nobody changes.
        Program::Memory(content, length) => unsafe { file_of(content, length) },
    };
    if program < 0 {
        return program;
    }
    let mut number = 0;
    while number < birth.streams.len() {
        let mut stream = birth.streams[number] as isize;
        if birth.streams[number] == NOT_OPEN {
            // SAFETY: the path ends with a NUL.
            stream = unsafe { open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        }
        if stream < 0 {
            return stream;
        }
        // SAFETY: no pointer.
        let placed = unsafe { call!(libc::SYS_dup3, stream, number) };
        if placed < 0 {
            return placed;
        }
        number += 1;
    }
    let path = c"".as_ptr();
    let (arguments, environment) = (birth.arguments.as_ptr(), birth.environment.as_ptr());
    let flags = libc::AT_EMPTY_PATH;
    // SAFETY: the path is empty, both arrays end with null; all of it outlives the call.
    unsafe {
        call!(
            libc::SYS_execveat,
            program,
            path,
            arguments,
            environment,
            flags,
            0
        )
    }
}

/// A sealed memory file of this, open to read alone; or minus an error number. As `keeper::memory_file`, which says why.
unsafe fn file_of(content: *const u8, length: usize) -> isize {
    const SEALS: libc::c_int =
        libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    let name = c"palisade-keeper".as_ptr();
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name ends with a NUL; as many bytes are there as are written; the rest takes numbers.
    unsafe {
        let mut file = call!(libc::SYS_memfd_create, name, flags | libc::MFD_EXEC);
        if file == -(libc::EINVAL as isize) {
            file = call!(libc::SYS_memfd_create, name, flags);
        }
        if file < 0 {
            return file;
        }
        let mut written = 0;
        while written < length {
            let (rest, left) = (content as usize + written, length - written);
            let part = call!(libc::SYS_write, file, rest, left);
            if part < 0 {
                return part;
            }
            written += part as usize;
        }
        let sealed = call!(libc::SYS_fcntl, file, libc::F_ADD_SEALS, SEALS);
        if sealed < 0 {
            return sealed;
        }
        let readable = open_again(file as usize);
        // Executing a file that is open for writing is refused.
        call!(libc::SYS_close, file);
        readable
    }
}

/// What is open under this number, to read alone, by its name below `/proc/self/fd`.
unsafe fn open_again(number: usize) -> isize {
    const FOLDER: &[u8] = b"/proc/self/fd/";
    // The longest number has 20 digits.
    let mut path = MaybeUninit::<[u8; 40]>::uninit();
    let bytes = path.as_mut_ptr().cast::<u8>();
    let (mut length, mut digits, mut rest) = (0, 1, number);
    // SAFETY: all of it has room there, and the NUL behind it, too.
    unsafe {
        while length < FOLDER.len() {
            *bytes.add(length) = FOLDER[length];
            length += 1;
        }
        while rest >= 10 {
            rest /= 10;
            digits += 1;
        }
        length += digits;
        let mut at = length;
        rest = number;
        while digits > 0 {
            at -= 1;
            *bytes.add(at) = b'0' + (rest % 10) as u8;
            rest /= 10;
            digits -= 1;
        }
        *bytes.add(length) = 0;
        open(bytes.cast(), libc::O_CLOEXEC)
    }
}

unsafe fn open(path: *const libc::c_char, flags: libc::c_int) -> isize {
    // SAFETY: the path ends with a NUL, by the caller's promise.
    unsafe { call!(libc::SYS_openat, libc::AT_FDCWD, path, flags) }
}

/// One system call, and nothing else.
///
/// # Safety
///
/// The call's own rules.
#[allow(
    clippy::too_many_arguments,
    reason = "an array of them would be copied by memcpy(3)"
)]
pub(super) unsafe fn system_call(
    number: libc::c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> isize {
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
            in("r9") sixth,
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
