//! What threads of the supervisor's may still ask the kernel for once its guest runs.
//!
//! Nothing here starts a program or a process, makes a file, or gives anything another name. Which file is
//! opened or removed is Landlock's to say ([`crate::confine`]), for a filter sees no path.

use super::{
    allow_list::{ALLOW, EPERM, set},
    filter::{Action, Check, Filter, int},
};
use libc::*;

/// Allowed whatever the arguments.
#[rustfmt::skip]
const ALLOWED: &[c_long] = &[
    // Descriptors that are open.
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_lseek,
    SYS_close, SYS_fstat, SYS_ftruncate, SYS_fsync, SYS_fcntl, SYS_flock, SYS_dup, SYS_dup3,
    SYS_splice, SYS_tee, SYS_pipe2, SYS_eventfd2, SYS_ppoll,
    SYS_sendto, SYS_sendmsg, SYS_recvfrom, SYS_recvmsg, SYS_shutdown, SYS_getsockopt,
    // What lies at a path.
    SYS_newfstatat, SYS_statx, SYS_readlinkat, SYS_getcwd, SYS_getdents64,
    // Memory of its own.
    SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise,
    // Itself, its signals, its children.
    SYS_exit, SYS_exit_group, SYS_getpid, SYS_gettid, SYS_getppid, SYS_getpgid,
    SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getrusage,
    SYS_kill, SYS_tgkill, SYS_pidfd_send_signal, SYS_wait4, SYS_waitid,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigtimedwait, SYS_sigaltstack,
    SYS_restart_syscall, SYS_futex, SYS_membarrier, SYS_set_robust_list, SYS_rseq,
    SYS_sched_yield, SYS_sched_getaffinity,
    SYS_clock_gettime, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_getrandom,
];

/// As [`ALLOWED`]: what the C library still calls on old architectures.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_OLD: &[c_long] = &[
    SYS_poll, SYS_stat, SYS_lstat, SYS_readlink, SYS_pipe, SYS_dup2, SYS_getpgrp,
];
/// As [`ALLOWED`]: what the C library still calls on old architectures.
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[c_long] = &[];

/// For who sees a domain to its end: it passes bytes, signals and words on, waits, removes what it made.
pub(crate) fn supervisor() -> Filter {
    let mut filter = common();
    set(&mut filter, SYS_unlinkat, ALLOW);
    decide_open(&mut filter, O_ACCMODE);
    #[cfg(target_arch = "x86_64")]
    for call in [SYS_rmdir, SYS_unlink] {
        set(&mut filter, call, ALLOW);
    }
    set(&mut filter, SYS_ioctl, of_terminals());
    filter
}

/// For who serves a guest's network: it makes sockets, and looks into the guest. Landlock's rules would keep
/// it from the latter (`hook_ptrace_access_check`).
pub(crate) fn broker() -> Filter {
    let mut filter = common();
    for call in FOR_GUESTS {
        set(&mut filter, *call, ALLOW);
    }
    decide_open(&mut filter, 0);
    allow_threads(&mut filter);
    filter
}

/// For who makes sockets in the domain's memory group (`sys/keeper/maker.rs`).
pub(crate) fn maker() -> Filter {
    let mut filter = Filter::new(EPERM);
    for call in [
        SYS_socket,
        SYS_recvmsg,
        SYS_sendmsg,
        SYS_close,
        SYS_exit,
        SYS_exit_group,
        SYS_restart_syscall,
    ] {
        set(&mut filter, call, ALLOW);
    }
    filter
}

/// What [`broker`] allows beside the common part.
#[rustfmt::skip]
const FOR_GUESTS: &[c_long] = &[
    SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept4, SYS_setsockopt,
    SYS_getsockname, SYS_getpeername, SYS_sendmmsg, SYS_recvmmsg, SYS_ioctl,
    SYS_pidfd_open, SYS_pidfd_getfd, SYS_process_vm_readv, SYS_process_vm_writev,
    SYS_memfd_create,
];

/// Threads, and no processes.
fn allow_threads(filter: &mut Filter) {
    let thread = Check::otherwise(EPERM).when([int(0).has_any(CLONE_THREAD as u64)], ALLOW);
    set(filter, SYS_clone, thread);
    // Its flags lie in memory; the C library falls back to clone(2).
    set(filter, SYS_clone3, Action::Errno(ENOSYS as u16));
    // Their names.
    set(filter, SYS_prctl, ALLOW);
}

fn common() -> Filter {
    let mut filter = Filter::new(EPERM);
    for call in ALLOWED.iter().chain(ALLOWED_OLD) {
        set(&mut filter, *call, ALLOW);
    }
    for call in [SYS_mmap, SYS_mprotect] {
        set(&mut filter, call, unless_executable());
    }
    filter
}

/// Files are opened without these flags, and none is made or emptied.
fn decide_open(filter: &mut Filter, without: c_int) {
    let makes = O_CREAT | O_TRUNC | (O_TMPFILE & !O_DIRECTORY);
    let check = |flags| {
        let mask = (makes | without) as u64;
        Check::otherwise(EPERM).when([int(flags).masked(mask, 0)], ALLOW)
    };
    set(filter, SYS_openat, check(2));
    #[cfg(target_arch = "x86_64")]
    set(filter, SYS_open, check(1));
}

fn unless_executable() -> Check {
    Check::otherwise(ALLOW).when([int(2).has_any(PROT_EXEC as u64)], EPERM)
}

/// Settings, size and foreground of a terminal (ioctl_tty(2)), but no keystrokes (`TIOCSTI`, `TIOCLINUX`,
/// `TIOCSCTTY` are not among them).
fn of_terminals() -> Check {
    let requests = [
        TCGETS, TCSETS, TCSETSW, TCSETSF, TCGETS2, TCSETS2, TCSETSW2, TCSETSF2, TCFLSH, TCSBRK,
        TIOCGWINSZ, TIOCSWINSZ, TIOCGPGRP, TIOCSPGRP, TIOCGSID, TIOCOUTQ, TIOCGPTN, FIONREAD,
        FIONBIO,
    ];
    Check::otherwise(EPERM).when(
        [int(1).one_of(requests.map(|request| u64::from(request as u32)))],
        ALLOW,
    )
}
