//! What parts of palisade that are processes of their own may still ask the kernel for.
//!
//! They work on descriptors that they have, or make sockets: no file is opened or looked at, nothing is
//! started, and nobody else is signalled or looked into.

use super::{
    allow_list::{ALLOW, EPERM, set},
    filter::{Action, Check, Filter, Test, int},
};
use libc::*;

/// Allowed whatever the arguments.
#[rustfmt::skip]
const ALLOWED: &[c_long] = &[
    // Descriptors that are open.
    SYS_read, SYS_write, SYS_close, SYS_ppoll, SYS_sendto, SYS_recvfrom, SYS_shutdown,
    // Memory of its own.
    SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise,
    // Itself.
    SYS_exit, SYS_exit_group, SYS_gettid, SYS_getpid, SYS_futex, SYS_set_robust_list, SYS_rseq,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_restart_syscall,
    SYS_sched_yield, SYS_sched_getaffinity,
    SYS_clock_gettime, SYS_clock_nanosleep, SYS_gettimeofday, SYS_getrandom,
];

/// What [`proxy`] allows beside that.
#[rustfmt::skip]
const FOR_TUNNELS: &[c_long] = &[
    SYS_connect, SYS_accept4, SYS_getsockopt, SYS_setsockopt, SYS_getsockname, SYS_getpeername,
    SYS_sendmsg, SYS_recvmsg, SYS_pipe2,
];

/// For who tunnels a guest's connections: it makes sockets for TCP and threads.
pub(crate) fn proxy() -> Filter {
    let mut filter = common();
    for call in FOR_TUNNELS {
        set(&mut filter, *call, ALLOW);
    }
    set(
        &mut filter,
        SYS_socket,
        only([
            is_internet(),
            int(1).masked(
                !((SOCK_CLOEXEC | SOCK_NONBLOCK) as u64) & 0xffff_ffff,
                SOCK_STREAM as u64,
            ),
        ]),
    );
    // It asks for names through them.
    set(
        &mut filter,
        SYS_socketpair,
        only([int(0).is(AF_UNIX as u64)]),
    );
    set(
        &mut filter,
        SYS_ioctl,
        only([int(1).is(u64::from(FIONBIO as u32))]),
    );
    set(
        &mut filter,
        SYS_fcntl,
        only([int(1).is(F_DUPFD_CLOEXEC as u64)]),
    );
    allow_threads(&mut filter);
    filter
}

/// For who passes bytes between streams: from socket to socket, from file or pipe to pipe.
pub(crate) fn relay() -> Filter {
    let mut filter = common();
    for call in [SYS_lseek, SYS_splice, SYS_tee, SYS_epoll_pwait] {
        set(&mut filter, call, ALLOW);
    }
    let unread = only([int(1).is(u64::from(FIONREAD as u32))]);
    set(&mut filter, SYS_ioctl, unread);
    filter
}

fn common() -> Filter {
    let mut filter = Filter::new(EPERM);
    for call in ALLOWED {
        set(&mut filter, *call, ALLOW);
    }
    #[cfg(target_arch = "x86_64")]
    set(&mut filter, SYS_poll, ALLOW);
    allow_memory(&mut filter);
    filter
}

/// Threads, and no processes.
pub(super) fn allow_threads(filter: &mut Filter) {
    let is_thread = int(0).has_any(CLONE_THREAD as u64);
    set(filter, SYS_clone, only([is_thread]));
    // Its flags lie in memory; the C library falls back to clone(2).
    set(filter, SYS_clone3, Action::Errno(ENOSYS as u16));
    // Of threads, and of their memory.
    let names = [PR_SET_NAME, PR_SET_VMA].map(|option| option as u64);
    set(filter, SYS_prctl, only([int(0).one_of(names)]));
}

/// Memory that is no program.
pub(super) fn allow_memory(filter: &mut Filter) {
    let is_program = int(2).has_any(PROT_EXEC as u64);
    for call in [SYS_mmap, SYS_mprotect] {
        let check = Check::otherwise(ALLOW).when([is_program.clone()], EPERM);
        set(filter, call, check);
    }
}

/// Of socket(2): addresses are no paths.
pub(super) fn is_internet() -> Test {
    int(0).one_of([AF_INET, AF_INET6].map(|family| family as u64))
}

pub(super) fn only(tests: impl Into<Vec<Test>>) -> Check {
    Check::otherwise(EPERM).when(tests, ALLOW)
}
