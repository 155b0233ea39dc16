//! How processes begin: the entry point, fork, a child in the same memory, execve.

use super::{
    CStr, Errno, Fd, Result, call6,
    file::{O_WRONLY, close, open, write},
    number,
    process::SIGCHLD,
};
use core::{
    arch::global_asm,
    sync::atomic::{AtomicU32, Ordering},
};

pub(crate) const CLONE_VM: u64 = 0x100;
pub(crate) const CLONE_FILES: u64 = 0x400;
pub(crate) const CLONE_PIDFD: u64 = 0x1000;
pub(crate) const CLONE_CHILD_CLEARTID: u64 = 0x0020_0000;
pub(crate) const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
pub(crate) const CLONE_NEWNS: u64 = 0x0002_0000;
pub(crate) const CLONE_NEWCGROUP: u64 = 0x0200_0000;
pub(crate) const CLONE_NEWUTS: u64 = 0x0400_0000;
pub(crate) const CLONE_NEWIPC: u64 = 0x0800_0000;
pub(crate) const CLONE_NEWUSER: u64 = 0x1000_0000;
pub(crate) const CLONE_NEWPID: u64 = 0x2000_0000;
pub(crate) const CLONE_NEWNET: u64 = 0x4000_0000;

#[repr(C)]
#[derive(Default)]
pub(super) struct CloneArgs {
    pub(super) flags: u64,
    pub(super) pidfd: u64,
    pub(super) child_tid: u64,
    pub(super) parent_tid: u64,
    pub(super) exit_signal: u64,
    pub(super) stack: u64,
    pub(super) stack_size: u64,
    pub(super) tls: u64,
    pub(super) set_tid: u64,
    pub(super) set_tid_size: u64,
    pub(super) cgroup: u64,
}

/// # Safety
///
/// `arguments` and `environment` must point to arrays of string pointers that end with null.
pub(crate) unsafe fn execute(
    path: CStr,
    arguments: *const *const u8,
    environment: *const *const u8,
) -> Errno {
    // SAFETY: the path is NUL-terminated; the arrays are the caller's promise. On success the
    // call does not return.
    match unsafe {
        call!(
            number::EXECVE,
            path.pointer(),
            arguments,
            environment,
            crate::wire::OWN_CALL
        )
    } {
        Err(errno) => errno,
        Ok(_) => Errno(0),
    }
}

/// Forks with new namespaces, into a cgroup if one is given. `Ok(None)` in the child.
pub(crate) fn fork(namespaces: u64, cgroup: Option<Fd>) -> Result<Option<(i32, Fd)>> {
    /// The structure as of Linux 5.3, before cgroups: older kernels know no other.
    const BYTES_WITHOUT_CGROUP: usize = 64;
    let mut pidfd: Fd = -1;
    let arguments = CloneArgs {
        flags: namespaces
            | CLONE_PIDFD
            | if cgroup.is_some() {
                CLONE_INTO_CGROUP
            } else {
                0
            },
        pidfd: &raw mut pidfd as u64,
        exit_signal: SIGCHLD as u64,
        cgroup: cgroup.unwrap_or(0) as u64,
        ..CloneArgs::default()
    };
    let bytes = if cgroup.is_some() {
        size_of::<CloneArgs>()
    } else {
        BYTES_WITHOUT_CGROUP
    };
    // SAFETY: without CLONE_VM the child works on a copy of all memory, this stack included; the
    // kernel writes the pidfd before either side returns.
    let forked = unsafe { call!(number::CLONE3, &raw const arguments, bytes) };
    let pid = match forked {
        Err(Errno::NOSYS) => fork_by_clone(namespaces, cgroup, &mut pidfd)?,
        forked => forked?,
    };
    Ok((pid != 0).then_some((pid as i32, pidfd)))
}

/// Container runtimes hide clone3, whose flags their filters cannot read. Without it the child has
/// to move itself into the cgroup.
fn fork_by_clone(namespaces: u64, cgroup: Option<Fd>, pidfd: &mut Fd) -> Result<usize> {
    let flags = namespaces | CLONE_PIDFD | SIGCHLD as u64;
    // SAFETY: as in `fork`. The third argument is where CLONE_PIDFD stores (clone(2)).
    let pid = unsafe { call!(number::CLONE, flags, 0usize, &raw mut *pidfd)? };
    if pid == 0 && cgroup.is_some_and(|cgroup| enter_cgroup(cgroup).is_err()) {
        crate::exit(125);
    }
    Ok(pid)
}

fn enter_cgroup(cgroup: Fd) -> Result<()> {
    let processes = open(cgroup, c!("cgroup.procs"), O_WRONLY, 0)?;
    let entered = write(processes, b"0");
    close(processes);
    entered.map(drop)
}

/// How far a child in the same memory has come. It says itself that it has made what others wait for; the kernel, that it has let
/// go of this memory, by execve or exit (mm_release in kernel/fork.c).
pub(crate) struct Progress(AtomicU32);

impl Progress {
    const GONE: u32 = 0;
    const BEGUN: u32 = 1;
    const MADE: u32 = 2;

    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(Self::BEGUN))
    }

    /// Says that what others wait for is made.
    pub(crate) fn tell_made(&self) {
        change(&self.0, Self::MADE);
    }

    /// Waits for that; `false` if the child has gone, be it after.
    pub(crate) fn wait_until_made(&self) -> bool {
        wait_for_change(&self.0, Self::BEGUN) == Self::MADE
    }

    fn wait_until_gone(&self) {
        loop {
            match self.0.load(Ordering::Acquire) {
                Self::GONE => return,
                other => wait_while(&self.0, other),
            }
        }
    }
}

/// Runs `run(argument)` in a child that shares this memory, and this process's descriptors too if it
/// says so, and waits until the child has executed a program or ended. Gives the child's pid.
///
/// It is vfork(2) but for the wait, which counts as sleep: a parent in vfork adds to the load
/// average of the machine, and this one may wait for hours.
pub(crate) fn spawn<T>(
    stack: &mut [u8],
    run: extern "C" fn(&mut T) -> !,
    argument: &mut T,
    share_descriptors: bool,
) -> Result<i32> {
    let progress = Progress::new();
    spawn_beside(stack, (run, argument), share_descriptors, &progress, |_| {})
}

/// The same, and does something before it waits, with the child's pid. What the child works on is the child's meanwhile.
pub(crate) fn spawn_beside<T>(
    stack: &mut [u8],
    (run, argument): (extern "C" fn(&mut T) -> !, &mut T),
    share_descriptors: bool,
    progress: &Progress,
    meanwhile: impl FnOnce(i32),
) -> Result<i32> {
    let top = (stack.as_mut_ptr() as usize + stack.len()) & !15;
    let files = if share_descriptors { CLONE_FILES } else { 0 };
    let flags = CLONE_VM | CLONE_CHILD_CLEARTID | files | SIGCHLD as u64;
    // SAFETY: the child runs on `stack` and the kernel clears the word of `progress`; both are there until this returns, and
    // that is after the child has stopped using this memory. `run` never returns.
    let result = unsafe {
        palisade_spawn(
            flags,
            top,
            run as usize,
            &raw mut *argument as usize,
            progress.0.as_ptr() as usize,
        )
    };
    if result < 0 {
        return Err(Errno(-result as u32));
    }
    meanwhile(result as i32);
    progress.wait_until_gone();
    Ok(result as i32)
}

/// From here on this process's descriptors are its own: a copy of those it shared.
pub(crate) fn own_descriptors() -> Result<()> {
    // SAFETY: takes a number only.
    unsafe { call!(number::UNSHARE, CLONE_FILES).map(drop) }
}

/// From here on it has a copy of the mounts that it had.
pub(crate) fn own_mounts() -> Result<()> {
    // SAFETY: takes a number only.
    unsafe { call!(number::UNSHARE, CLONE_NEWNS).map(drop) }
}

/// Moves this process into an open namespace of one kind, a `CLONE_NEW*` number.
pub(crate) fn enter_namespace(namespace: Fd, kind: u64) -> Result<()> {
    // SAFETY: takes numbers only.
    unsafe { call!(number::SETNS, namespace, kind).map(drop) }
}

/// Sleeps while the word has this value; may wake for no reason.
fn wait_while(word: &AtomicU32, value: u32) {
    const FUTEX_WAIT: usize = 0;
    // SAFETY: the kernel reads the word, which is borrowed for the call; no timeout is given.
    let _ = unsafe { call!(number::FUTEX, word.as_ptr(), FUTEX_WAIT, value, 0) };
}

/// Waits until the word has another value.
pub(crate) fn wait_for_change(word: &AtomicU32, value: u32) -> u32 {
    loop {
        match word.load(Ordering::Acquire) {
            same if same == value => wait_while(word, value),
            other => return other,
        }
    }
}

/// Sets the word, and wakes who waits for that.
pub(crate) fn change(word: &AtomicU32, value: u32) {
    const FUTEX_WAKE: usize = 1;
    word.store(value, Ordering::Release);
    // SAFETY: the kernel does not look at the word, which is borrowed for the call.
    let _ = unsafe { call!(number::FUTEX, word.as_ptr(), FUTEX_WAKE, 1, 0) };
}

/// Whether a child in the same memory may go on: it waits until it is told.
pub(crate) struct MayGo(AtomicU32);

impl MayGo {
    const WAIT: u32 = 0;
    const GO: u32 = 1;
    const END: u32 = 2;

    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(Self::WAIT))
    }

    pub(crate) fn tell(&self, may_go: bool) {
        change(&self.0, if may_go { Self::GO } else { Self::END });
    }

    pub(crate) fn wait(&self) -> bool {
        wait_for_change(&self.0, Self::WAIT) == Self::GO
    }
}

unsafe extern "C" {
    fn palisade_spawn(
        flags: u64,
        stack: usize,
        run: usize,
        argument: usize,
        cleared: usize,
    ) -> isize;
}

global_asm!(
    // The entry point: the kernel leaves argc at the stack pointer and the stack aligned (psABI 3.4.1).
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {keeper}",
    "ud2",
    // isize palisade_spawn(flags, stack, run, argument, cleared)
    ".globl palisade_spawn",
    "palisade_spawn:",
    "mov r10, r8",
    "mov r8, rdx",
    "mov r9, rcx",
    "xor edx, edx",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jnz 2f",
    "xor ebp, ebp",
    "mov rdi, r9",
    "call r8",
    "ud2",
    "2:",
    "ret",
    // What the compiler may call for copies, comparisons and lengths.
    ".globl memcpy",
    ".globl memmove",
    ".globl memset",
    "memmove:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "cmp rdi, rsi",
    "jbe 3f",
    "lea r8, [rsi + rdx]",
    "cmp rdi, r8",
    "jae 3f",
    "lea rdi, [rdi + rdx - 1]",
    "lea rsi, [rsi + rdx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    "memcpy:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "3:",
    "rep movsb",
    "ret",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    ".globl memcmp",
    ".globl bcmp",
    "memcmp:",
    "bcmp:",
    "xor eax, eax",
    "mov rcx, rdx",
    "cmp rcx, rcx",
    "repe cmpsb",
    "je 4f",
    "movzx eax, byte ptr [rdi - 1]",
    "movzx ecx, byte ptr [rsi - 1]",
    "sub eax, ecx",
    "4:",
    "ret",
    ".globl strlen",
    "strlen:",
    "xor eax, eax",
    "7:",
    "cmp byte ptr [rdi + rax], 0",
    "je 8f",
    "inc rax",
    "jmp 7b",
    "8:",
    "ret",
    keeper = sym crate::start,
);
