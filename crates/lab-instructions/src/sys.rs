//! Single steps, counted: of this thread by itself, of others by ptrace(2).
//!
//! ```text
//!  flag TF set ─▶ an instruction ─▶ trap ─▶ SIGTRAP ─▶ handler: one more ─▶ sigreturn, TF still set ─▶ …
//! ```
//!
//! The kernel takes the flag away for the handler and for itself, and puts it back: neither is counted. (Intel SDM, volume 3,
//! 19.3.1.4; signal(7))

use std::{
    arch::asm,
    fmt, io, mem,
    os::fd::AsRawFd,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitStatus},
    ptr,
    sync::{
        Once,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

/// Instructions of one pass whose addresses can be kept.
const MOST_ADDRESSES: usize = 1 << 20;

/// The processor's trap flag.
const TF: i64 = 0x100;
/// `syscall`
const SYSCALL: [u8; 2] = [0x0f, 0x05];

static STEPS: AtomicU64 = AtomicU64::new(0);
/// The pass was about to block signals, as who starts a thread does: a trap would be its end.
static IS_GIVEN_UP: AtomicBool = AtomicBool::new(false);
static ADDRESSES: [AtomicU64; MOST_ADDRESSES] = [const { AtomicU64::new(0) }; MOST_ADDRESSES];
/// How many of them are to be kept.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// This machine makes no single steps, or nobody can be told of them.
#[derive(Debug)]
pub(crate) struct NoSteps(Option<io::Error>);

impl fmt::Display for NoSteps {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(error) => write!(formatter, "host: no single steps: {error}"),
            None => formatter.write_str("host: this machine makes no single steps"),
        }
    }
}

impl std::error::Error for NoSteps {}

impl NoSteps {
    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(crate) fn because(error: io::Error) -> Self {
        Self(Some(error))
    }
}

/// How many instructions this takes, and the few that turn the steps on and off. `None`: it did what can't be counted, which
/// few passes do.
pub(crate) fn count(pass: &mut dyn FnMut()) -> Result<Option<u64>, NoSteps> {
    install()?;
    IS_GIVEN_UP.store(false, Ordering::Relaxed);
    STEPS.store(0, Ordering::Relaxed);
    let stepping = Stepping::begin();
    pass();
    drop(stepping);
    match STEPS.load(Ordering::Relaxed) {
        0 => Err(NoSteps(None)),
        steps => Ok((!IS_GIVEN_UP.load(Ordering::Relaxed)).then_some(steps)),
    }
}

/// The addresses of the instructions that this takes, one after the other.
pub(crate) fn addresses(pass: &mut dyn FnMut()) -> Result<Vec<u64>, NoSteps> {
    KEPT.store(MOST_ADDRESSES, Ordering::Relaxed);
    let steps = count(pass);
    KEPT.store(0, Ordering::Relaxed);
    let kept = ADDRESSES.iter().take(steps?.unwrap_or_default() as usize);
    Ok(kept
        .map(|address| address.load(Ordering::Relaxed))
        .collect())
}

fn install() -> Result<(), NoSteps> {
    static INSTALL: Once = Once::new();
    let mut installed = 0;
    INSTALL.call_once(|| {
        // SAFETY: all bits zero are a value of this C struct.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        let handler: extern "C" fn(_, _, _) = on_step;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: the handler only writes to atomics, which signal-safety(7) allows, and has the type that SA_SIGINFO wants.
        installed = unsafe { libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()) };
    });
    match installed {
        0 => Ok(()),
        _ => Err(NoSteps(Some(io::Error::last_os_error()))),
    }
}

extern "C" fn on_step(
    _signal: libc::c_int,
    _info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let step = STEPS.fetch_add(1, Ordering::Relaxed) as usize;
    // SAFETY: with SA_SIGINFO the kernel hands over a context that is there until the handler returns, and nobody else's.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = &mut context.uc_mcontext.gregs;
    let address = registers[libc::REG_RIP as usize];
    if step < KEPT.load(Ordering::Relaxed) {
        ADDRESSES[step].store(address as u64, Ordering::Relaxed);
    }
    let is_block = registers[libc::REG_RAX as usize] == libc::SYS_rt_sigprocmask;
    // SAFETY: it is the address of the instruction that comes next.
    if is_block && unsafe { is_syscall(address as *const u8) } {
        registers[libc::REG_EFL as usize] &= !TF;
        IS_GIVEN_UP.store(true, Ordering::Relaxed);
    }
}

/// # Safety
///
/// An instruction is there.
unsafe fn is_syscall(instruction: *const u8) -> bool {
    // SAFETY: each has one byte at least, and with this one as the first a second.
    unsafe { *instruction == SYSCALL[0] && *instruction.add(1) == SYSCALL[1] }
}

/// While this lives, the thread makes single steps.
struct Stepping;

impl Stepping {
    #[inline(always)]
    fn begin() -> Self {
        // SAFETY: TF alone changes. What it brings about, SIGTRAP, has a handler: `install` was called.
        unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
        Self
    }
}

impl Drop for Stepping {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: TF alone changes.
        unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
    }
}

/// Starts a program and tells of each of its instructions; gives how it ended (ptrace(2)).
pub(crate) fn step_through(
    command: &mut Command,
    step: &mut dyn FnMut(u64),
) -> io::Result<ExitStatus> {
    // SAFETY: between fork and exec it makes one system call.
    unsafe { command.pre_exec(|| traced(libc::PTRACE_TRACEME, 0, ptr::null_mut(), 0)) };
    let pid = command.spawn()?.id() as libc::pid_t;
    loop {
        let Some((_, status)) = wait_for(pid, 0)? else {
            continue;
        };
        if !libc::WIFSTOPPED(status) {
            return Ok(ExitStatus::from_raw(status));
        }
        // SAFETY: all bits zero are a value of this C struct.
        let mut registers: libc::user_regs_struct = unsafe { mem::zeroed() };
        traced(libc::PTRACE_GETREGS, pid, (&raw mut registers).cast(), 0)?;
        step(registers.rip);
        go_on(pid, status)?;
    }
}

/// Lets a thread that has stopped take one more step, with the signal that it stopped for.
fn go_on(thread: libc::pid_t, status: libc::c_int) -> io::Result<()> {
    let is_of_the_tracer = status >> 16 != 0;
    let signal = match libc::WSTOPSIG(status) {
        libc::SIGTRAP => 0,
        _ if is_of_the_tracer => 0,
        signal => signal,
    };
    traced(libc::PTRACE_SINGLESTEP, thread, ptr::null_mut(), signal)
}

fn wait_for(
    thread: libc::pid_t,
    flags: libc::c_int,
) -> io::Result<Option<(libc::pid_t, libc::c_int)>> {
    let mut status = 0;
    // SAFETY: the kernel writes the status.
    match unsafe { libc::waitpid(thread, &raw mut status, flags) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        thread => Ok(Some((thread, status))),
    }
}

/// Waits for the ends of children, and of those of their threads that are traced.
pub(crate) fn wait_for_all() {
    while wait_for(-1, libc::__WALL).is_ok() {}
}

/// Threads of a child's that take single steps from now on, until this process or theirs ends.
pub(crate) struct Threads {
    pid: u32,
    threads: Vec<libc::pid_t>,
}

impl Threads {
    pub(crate) fn of(pid: u32, threads: &[libc::pid_t]) -> io::Result<Self> {
        for thread in threads {
            traced(libc::PTRACE_SEIZE, *thread, ptr::null_mut(), 0)?;
            traced(libc::PTRACE_INTERRUPT, *thread, ptr::null_mut(), 0)?;
        }
        let mut all = Self {
            pid,
            threads: threads.to_vec(),
        };
        all.step_until(|| Ok(true))
            .map_err(|error| io::Error::other(format!("{error:#}")))?;
        Ok(all)
    }

    /// Lets them step until that is so and they all rest; gives how many steps it were.
    pub(crate) fn step_until(
        &mut self,
        mut is_over: impl FnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<u64> {
        let (mut steps, mut has_been_so) = (0, false);
        loop {
            // A stop that is one of the tracer's is no step.
            let stopped = wait_for(-1, libc::WNOHANG | libc::__WALL)?;
            if let Some((thread, status)) = stopped {
                anyhow::ensure!(libc::WIFSTOPPED(status), "wall: a thread has ended");
                steps += u64::from(status >> 16 == 0);
                go_on(thread, status)?;
                continue;
            }
            has_been_so = has_been_so || is_over()?;
            if has_been_so && self.threads.iter().all(|thread| self.rests(*thread)) {
                return Ok(steps);
            }
            std::thread::yield_now();
        }
    }

    /// Whether it sleeps within a call (proc_pid_stat(5)).
    fn rests(&self, thread: libc::pid_t) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/task/{thread}/stat", self.pid));
        stat.is_ok_and(|stat| {
            let state = stat.rsplit(')').next();
            state.is_some_and(|state| state.trim_start().starts_with('S'))
        })
    }
}

/// Whether a read of it would not wait.
pub(crate) fn is_readable(file: std::os::fd::BorrowedFd<'_>) -> bool {
    let mut one = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: there is one, and the kernel writes to no more.
    unsafe { libc::poll(&raw mut one, 1, 0) == 1 }
}

/// `data` is where the answer goes, or else a signal.
fn traced(
    request: libc::c_uint,
    pid: libc::pid_t,
    data: *mut libc::c_void,
    signal: libc::c_int,
) -> io::Result<()> {
    let data = if data.is_null() {
        signal as usize
    } else {
        data.addr()
    };
    // SAFETY: of these requests one writes, and its caller has room for what it writes.
    match unsafe { libc::ptrace(request, pid, 0, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// What a machine without steps says is told by the tool.
    #[test]
    fn instructions_are_counted_one_by_one() {
        let turns = |most: u64| {
            move || {
                for turn in 0..most {
                    black_box(turn);
                }
            }
        };
        let Ok(none) = count(&mut turns(0)) else {
            return;
        };
        let none = none.unwrap();
        let [some, again, twice] =
            [100, 100, 200].map(|most| count(&mut turns(most)).unwrap().unwrap() - none);
        assert_eq!(some, again);
        assert!(some >= 100 && twice > some, "{some}, {twice}");
        let kept = addresses(&mut turns(100)).unwrap();
        assert_eq!(kept.len() as u64, some + none);
        let mut thread = || drop(std::thread::spawn(|| {}).join());
        assert_eq!(count(&mut thread).unwrap(), None);
    }
}
