//! What threads of the supervisor's may still ask the kernel for once its guest runs.
//!
//! Nothing here starts a program or a process, makes a file, or gives anything another name. Which file is
//! opened or removed is Landlock's to say ([`crate::confine`]), for a filter sees no path.

use super::{
    allow_list::{ALLOW, EPERM, set},
    apart::{allow_memory, allow_threads, is_internet, only},
    filter::{Check, Filter, Test, int},
};
use crate::{
    sys::{ended::PIDFD_GET_INFO, maps::PROCMAP_QUERY},
    wire,
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
    // Memory of its own.
    SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise,
    // Itself, its signals.
    SYS_exit, SYS_exit_group, SYS_getpid, SYS_gettid, SYS_getppid, SYS_getpgid,
    SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getrusage,
    SYS_tgkill, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigtimedwait, SYS_sigaltstack,
    SYS_restart_syscall, SYS_futex, SYS_membarrier, SYS_set_robust_list, SYS_rseq,
    SYS_sched_yield, SYS_sched_getaffinity,
    SYS_clock_gettime, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_getrandom,
];

/// As [`ALLOWED`]: what the C library still calls on old architectures.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_OLD: &[c_long] = &[SYS_poll, SYS_pipe, SYS_dup2, SYS_getpgrp];
/// As [`ALLOWED`]: what the C library still calls on old architectures.
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[c_long] = &[];

/// What [`supervisor`] allows beside that.
#[rustfmt::skip]
const FOR_THE_END: &[c_long] = &[
    // What lies at a path and in which file system, and that it goes.
    SYS_fstatfs, SYS_newfstatat, SYS_statx, SYS_readlinkat, SYS_getcwd, SYS_getdents64, SYS_unlinkat,
    // Processes of its own.
    SYS_kill, SYS_pidfd_send_signal, SYS_wait4, SYS_waitid,
];

/// As [`FOR_THE_END`]: what the C library still calls on old architectures.
#[cfg(target_arch = "x86_64")]
const FOR_THE_END_OLD: &[c_long] = &[SYS_stat, SYS_lstat, SYS_readlink, SYS_rmdir, SYS_unlink];
/// As [`FOR_THE_END`]: what the C library still calls on old architectures.
#[cfg(not(target_arch = "x86_64"))]
const FOR_THE_END_OLD: &[c_long] = &[];

/// For who sees a domain to its end: it passes bytes, signals and words on, waits, removes what it made.
pub(crate) fn supervisor() -> Filter {
    let mut filter = common();
    for call in FOR_THE_END.iter().chain(FOR_THE_END_OLD) {
        set(&mut filter, *call, ALLOW);
    }
    decide_open(&mut filter, O_ACCMODE);
    let adopts = [PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER].map(|option| option as u64);
    set(&mut filter, SYS_prctl, only([int(0).one_of(adopts)]));
    let how_it_ended = int(1).one_of([PIDFD_GET_INFO]);
    set(
        &mut filter,
        SYS_ioctl,
        of_terminals().when([how_it_ended], ALLOW),
    );
    filter
}

/// For who serves a guest's network: it makes sockets, and looks into the guest. Landlock's rules would keep
/// it from the latter (`hook_ptrace_access_check`). It opens no files: see [`maker`].
pub(crate) fn broker(names_folders: bool) -> Filter {
    let mut filter = common();
    if names_folders {
        // Where a thread stands, and what an open folder is called: proc_pid_cwd(5), proc_pid_fd(5).
        set(&mut filter, SYS_readlinkat, ALLOW);
    }
    for call in FOR_GUESTS.iter().chain(FOR_GUESTS_OLD) {
        set(&mut filter, *call, ALLOW);
    }
    set(&mut filter, SYS_socket, only([is_internet()]));
    set(&mut filter, SYS_ioctl, of_what_it_answers());
    // What kind of file is open, as the kernel knows it without asking anybody.
    let of_what_is_open = int(2).is((AT_EMPTY_PATH | AT_STATX_DONT_SYNC) as u64);
    set(&mut filter, SYS_statx, only([of_what_is_open]));
    // Whether something is a process.
    set(&mut filter, SYS_pidfd_send_signal, only([int(1).is(0)]));
    allow_threads(&mut filter);
    filter
}

/// For who makes sockets and opens files of the guest's threads (`sys/keeper/maker.rs`): by names below
/// `/proc`, as it has it open.
pub(crate) fn maker() -> Filter {
    let mut filter = Filter::new(EPERM);
    for call in [
        SYS_recvmsg,
        SYS_sendmsg,
        SYS_close,
        SYS_exit,
        SYS_exit_group,
        SYS_restart_syscall,
    ] {
        set(&mut filter, call, ALLOW);
    }
    set(&mut filter, SYS_socket, only([is_internet()]));
    let proc = int(0).one_of([u64::from(wire::MAKERS_PROC.unsigned_abs())]);
    set(&mut filter, SYS_openat, only([proc, makes_nothing(2, 0)]));
    filter
}

/// For who mounts more of the host's into a domain (`sys/keeper/holder.rs`): what its supervisor names, and at no other word. As
/// root it makes the user namespaces by which files are shown as the guest's.
pub(crate) fn holder(is_root: bool) -> Filter {
    let mut filter = Filter::new(EPERM);
    let always = [
        SYS_recvmsg,
        SYS_sendmsg,
        SYS_close,
        SYS_exit,
        SYS_exit_group,
        SYS_restart_syscall,
        SYS_openat,
        SYS_openat2,
        SYS_statx,
        SYS_open_tree,
        SYS_mount_setattr,
        SYS_move_mount,
        SYS_mkdirat,
        SYS_chdir,
        SYS_fchdir,
        SYS_umount2,
        SYS_ppoll,
    ];
    let of_root = [
        SYS_clone3,
        SYS_clone,
        SYS_write,
        SYS_pidfd_send_signal,
        SYS_wait4,
        SYS_setfsuid,
        SYS_setfsgid,
    ];
    let of_root = of_root.iter().filter(|_| is_root);
    for call in always.iter().chain(of_root) {
        set(&mut filter, *call, ALLOW);
    }
    let mounts = int(1).one_of([CLONE_NEWNS as u64]);
    set(&mut filter, SYS_setns, only([mounts]));
    filter
}

/// What [`broker`] allows beside the common part.
#[rustfmt::skip]
const FOR_GUESTS: &[c_long] = &[
    SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept4, SYS_setsockopt,
    SYS_getsockname, SYS_getpeername, SYS_sendmmsg, SYS_recvmmsg,
    SYS_pidfd_open, SYS_pidfd_getfd, SYS_process_vm_readv, SYS_memfd_create,
    // Of many guests' calls, which comes next.
    SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2,
];

/// As [`FOR_GUESTS`]: what the C library still calls on old architectures.
#[cfg(target_arch = "x86_64")]
const FOR_GUESTS_OLD: &[c_long] = &[SYS_epoll_wait];
/// As [`FOR_GUESTS`]: what the C library still calls on old architectures.
#[cfg(not(target_arch = "x86_64"))]
const FOR_GUESTS_OLD: &[c_long] = &[];

/// Calls that wait for an answer (`SECCOMP_IOCTL_NOTIF_*`), what is mapped where, and whether a descriptor blocks.
fn of_what_it_answers() -> Check {
    const KIND: u64 = 0xff00;
    const SECCOMP: u64 = (b'!' as u64) << 8;
    Check::otherwise(EPERM)
        .when([int(1).masked(KIND, SECCOMP)], ALLOW)
        .when([int(1).one_of([FIONBIO, PROCMAP_QUERY])], ALLOW)
}

fn common() -> Filter {
    let mut filter = Filter::new(EPERM);
    for call in ALLOWED.iter().chain(ALLOWED_OLD) {
        set(&mut filter, *call, ALLOW);
    }
    allow_memory(&mut filter);
    filter
}

/// Files are opened without these flags, and none is made or emptied.
fn decide_open(filter: &mut Filter, without: c_int) {
    let check = |flags| only([makes_nothing(flags, without)]);
    set(filter, SYS_openat, check(2));
    #[cfg(target_arch = "x86_64")]
    set(filter, SYS_open, check(1));
}

/// This argument has none of the flags by which open(2) makes or empties a file, and none of these.
fn makes_nothing(flags: u8, without: c_int) -> Test {
    let makes = O_CREAT | O_TRUNC | (O_TMPFILE & !O_DIRECTORY);
    int(flags).masked((makes | without) as u64, 0)
}

/// Settings, size and foreground of a terminal (ioctl_tty(2)), but no keystrokes (`TIOCSTI`, `TIOCLINUX`,
/// `TIOCSCTTY` are not among them).
fn of_terminals() -> Check {
    let requests = [
        TCGETS, TCSETS, TCSETSW, TCSETSF, TCGETS2, TCSETS2, TCSETSW2, TCSETSF2, TCFLSH, TCSBRK,
        TIOCGWINSZ, TIOCSWINSZ, TIOCGPGRP, TIOCSPGRP, TIOCGSID, TIOCOUTQ, TIOCGPTN, FIONREAD,
        FIONBIO,
    ];
    only([int(1).one_of(requests.map(|request| u64::from(request as u32)))])
}
