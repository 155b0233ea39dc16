//! The system calls of Linux, sorted by what becomes of them.
//!
//! Every call of the native table up to Linux 6.18 stands in exactly one list here; a test
//! counts them. Calls that a later kernel adds are in none and return
//! `ENOSYS`, which is what their callers know from older kernels.

/// A system call: its number and its name in the kernel's table.
pub(super) type Call = (u32, &'static str);

/// Pairs each `SYS_name` with its number.
macro_rules! calls {
    ($($name:ident)*) => { &[$(($name as u32, stringify!($name))),*] };
}

/// Calls that the `libc` crate does not name. From 424 on, all architectures share the numbers.
#[expect(
    non_upper_case_globals,
    reason = "named after the constants of the libc crate"
)]
mod unnamed {
    #[cfg(target_arch = "x86_64")]
    pub(super) const SYS_io_pgetevents: u32 = 333;
    #[cfg(target_arch = "aarch64")]
    pub(super) const SYS_io_pgetevents: u32 = 292;
    pub(super) const SYS_cachestat: u32 = 451;
    // Named by the libc crate on some architectures only.
    pub(in super::super) const SYS_fchmodat2: libc::c_long = 452;
    pub(super) const SYS_map_shadow_stack: u32 = 453;
    pub(super) const SYS_futex_wake: u32 = 454;
    pub(super) const SYS_futex_wait: u32 = 455;
    pub(super) const SYS_futex_requeue: u32 = 456;
    pub(super) const SYS_statmount: u32 = 457;
    pub(super) const SYS_listmount: u32 = 458;
    pub(super) const SYS_lsm_get_self_attr: u32 = 459;
    pub(super) const SYS_lsm_set_self_attr: u32 = 460;
    pub(super) const SYS_lsm_list_modules: u32 = 461;
    pub(super) const SYS_setxattrat: u32 = 463;
    pub(super) const SYS_getxattrat: u32 = 464;
    pub(super) const SYS_listxattrat: u32 = 465;
    pub(super) const SYS_removexattrat: u32 = 466;
    pub(super) const SYS_open_tree_attr: u32 = 467;
    pub(super) const SYS_file_getattr: u32 = 468;
    pub(super) const SYS_file_setattr: u32 = 469;
}

use libc::*;
pub(super) use unnamed::SYS_fchmodat2;
use unnamed::*;

/// Allowed whatever the arguments: what programs are made of.
#[rustfmt::skip]
pub(super) const ALLOWED: &[Call] = calls![
    // Files by descriptor.
    SYS_read SYS_write SYS_pread64 SYS_pwrite64 SYS_readv SYS_writev SYS_preadv SYS_pwritev
    SYS_preadv2 SYS_pwritev2 SYS_lseek SYS_close SYS_close_range SYS_fstat SYS_fstatfs
    SYS_flock SYS_fsync SYS_fdatasync SYS_ftruncate SYS_fallocate SYS_fadvise64
    SYS_readahead SYS_sync_file_range SYS_sync SYS_syncfs SYS_getdents64 SYS_fchdir
    SYS_dup SYS_dup3 SYS_pipe2 SYS_sendfile SYS_splice SYS_tee SYS_vmsplice SYS_copy_file_range
    SYS_cachestat
    // Files by name. No directory can be made setuid: `mkdir` drops the bits itself.
    SYS_newfstatat SYS_statx SYS_statfs SYS_readlinkat SYS_faccessat SYS_faccessat2 SYS_truncate
    SYS_mkdirat SYS_unlinkat SYS_linkat SYS_symlinkat
    SYS_getcwd SYS_chdir SYS_umask SYS_fgetxattr SYS_flistxattr
    SYS_inotify_rm_watch
    // Memory.
    SYS_brk SYS_munmap SYS_mprotect SYS_mremap SYS_madvise SYS_process_madvise SYS_mincore
    SYS_msync SYS_mlock SYS_mlock2 SYS_munlock SYS_mlockall SYS_munlockall SYS_mseal
    SYS_pkey_mprotect SYS_pkey_alloc SYS_pkey_free SYS_map_shadow_stack
    SYS_mbind SYS_set_mempolicy SYS_get_mempolicy SYS_set_mempolicy_home_node
    // Processes and threads.
    SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_wait4 SYS_waitid
    SYS_getpid SYS_getppid SYS_gettid SYS_set_tid_address SYS_setpgid SYS_getpgid SYS_setsid
    SYS_getsid SYS_pidfd_open SYS_times SYS_getrusage SYS_uname SYS_sysinfo SYS_getcpu
    SYS_sched_yield SYS_sched_getaffinity SYS_sched_getparam SYS_sched_getscheduler
    SYS_sched_getattr SYS_sched_get_priority_max SYS_sched_get_priority_min
    SYS_sched_rr_get_interval SYS_getpriority SYS_ioprio_get
    SYS_futex SYS_futex_waitv SYS_futex_wake SYS_futex_wait SYS_futex_requeue
    SYS_set_robust_list SYS_get_robust_list SYS_membarrier SYS_rseq SYS_restart_syscall
    // Identity. Without capabilities these can only give something up.
    SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getresuid SYS_getresgid SYS_getgroups
    SYS_setuid SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid SYS_setgroups
    SYS_setfsuid SYS_setfsgid SYS_capget SYS_capset
    // Signals. Whom they may reach is the pid namespace's and Landlock's business.
    SYS_kill SYS_tkill SYS_tgkill SYS_pidfd_send_signal SYS_rt_sigaction SYS_rt_sigprocmask
    SYS_rt_sigpending SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_rt_sigreturn
    SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_sigaltstack SYS_signalfd4
    // Time.
    SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_nanosleep SYS_gettimeofday
    SYS_getitimer SYS_setitimer SYS_timer_create SYS_timer_settime SYS_timer_gettime
    SYS_timer_getoverrun SYS_timer_delete SYS_timerfd_create SYS_timerfd_settime
    SYS_timerfd_gettime
    // Waiting and asynchronous input and output.
    SYS_ppoll SYS_pselect6 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2
    SYS_eventfd2
    // Sockets, once made. Which kinds can be made is checked.
    SYS_accept SYS_accept4 SYS_getsockname SYS_getpeername SYS_getsockopt SYS_recvfrom SYS_recvmsg
    SYS_recvmmsg SYS_shutdown
    // Limits that a process sets on itself.
    SYS_getrlimit SYS_setrlimit
    SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self
    SYS_getrandom
];

/// Allowed as [`ALLOWED`], but only old architectures still have them.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const ALLOWED_OLD: &[Call] = calls![
    SYS_stat SYS_lstat SYS_access SYS_readlink SYS_getdents SYS_dup2 SYS_pipe SYS_mkdir SYS_rmdir
    SYS_link SYS_unlink SYS_symlink SYS_rename SYS_renameat
    SYS_poll SYS_select SYS_epoll_create SYS_epoll_wait SYS_eventfd
    SYS_signalfd SYS_fork SYS_vfork SYS_getpgrp SYS_pause SYS_alarm SYS_time
    SYS_arch_prctl
];
/// Allowed as [`ALLOWED`], but only old architectures still have them.
#[cfg(target_arch = "aarch64")]
pub(super) const ALLOWED_OLD: &[Call] = calls![SYS_renameat];

/// What a file is like, by path or descriptor, and watching it. Nothing here asks for the right to
/// open the file.
#[rustfmt::skip]
pub(super) const METADATA: &[Call] = calls![
    SYS_fchown SYS_fchownat SYS_utimensat
    SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_setxattrat
    SYS_removexattr SYS_lremovexattr SYS_fremovexattr SYS_removexattrat
    SYS_getxattr SYS_lgetxattr SYS_getxattrat SYS_listxattr SYS_llistxattr SYS_listxattrat
    SYS_inotify_add_watch SYS_inotify_init1
];
/// As [`METADATA`], but only old architectures still have them.
#[cfg(target_arch = "x86_64")]
pub(super) const METADATA_OLD: &[Call] =
    calls![SYS_chown SYS_lchown SYS_utime SYS_utimes SYS_futimesat SYS_inotify_init];
/// As [`METADATA`], but only old architectures still have them.
#[cfg(target_arch = "aarch64")]
pub(super) const METADATA_OLD: &[Call] = &[];

/// System V and POSIX message queues, semaphores and shared memory. They are named, so who shares
/// an ipc namespace shares them.
#[rustfmt::skip]
pub(super) const IPC: &[Call] = calls![
    SYS_shmat SYS_shmdt SYS_shmctl SYS_semget SYS_semop SYS_semtimedop SYS_semctl
    SYS_msgget SYS_msgsnd SYS_msgrcv SYS_msgctl
    SYS_mq_open SYS_mq_unlink SYS_mq_timedsend SYS_mq_timedreceive SYS_mq_notify
    SYS_mq_getsetattr
];

/// Refused with `EPERM`: each reaches past the domain or into parts of the kernel that have let
/// guests out before. Most also need a capability, which no guest has; the filter is the second
/// wall.
#[rustfmt::skip]
pub(super) const REFUSED: &[Call] = calls![
    // Other processes: their memory, descriptors, layout.
    SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_pidfd_getfd SYS_kcmp
    SYS_process_mrelease SYS_migrate_pages
    // Namespaces and mounts.
    SYS_setns SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_fsopen SYS_fsconfig SYS_fsmount
    SYS_fspick SYS_open_tree SYS_open_tree_attr SYS_move_mount SYS_mount_setattr
    // Files by handle (CVE-2014-3519), notification for whole mounts, quotas.
    SYS_name_to_handle_at SYS_open_by_handle_at SYS_fanotify_init SYS_fanotify_mark
    SYS_quotactl SYS_quotactl_fd
    // Programs for the kernel, its counters, pausing it in a page fault.
    SYS_bpf SYS_perf_event_open SYS_userfaultfd SYS_lookup_dcookie
    // Keyrings have no namespace: they belong to the host's user.
    SYS_add_key SYS_request_key SYS_keyctl
    // The machine.
    SYS_init_module SYS_finit_module SYS_delete_module SYS_kexec_load SYS_kexec_file_load
    SYS_reboot SYS_swapon SYS_swapoff SYS_acct SYS_syslog SYS_vhangup SYS_sethostname
    SYS_setdomainname SYS_nfsservctl
    // The clock. Reading its discipline goes through the same calls and only clock daemons do it.
    SYS_settimeofday SYS_clock_settime SYS_clock_adjtime SYS_adjtimex
];

/// Refused as [`REFUSED`], but only old architectures still have them. `ustat` reports on any
/// mounted device by number, seen or not.
#[cfg(target_arch = "x86_64")]
pub(super) const REFUSED_OLD: &[Call] =
    calls![SYS_iopl SYS_ioperm SYS_modify_ldt SYS_uselib SYS_ustat];
/// Refused as [`REFUSED`], but only old architectures still have them.
#[cfg(target_arch = "aarch64")]
pub(super) const REFUSED_OLD: &[Call] = &[];

/// `ENOSYS`, as on a kernel without them: every caller has another way, and takes it.
///
/// `clone3` hides its flags in memory, where a filter cannot look; it is there where nothing that it could hide is left
/// ([`super::Groups::clone3`]). io_uring performs calls that no
/// filter sees. The mount queries repeat what `/proc/self/mountinfo` says. Contexts of io_setup(2) are counted
/// for the whole machine (`fs.aio-max-nr`): a guest could take those that a database needs.
#[rustfmt::skip]
pub(super) const ABSENT: &[Call] = calls![
    SYS_clone3 SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register SYS_memfd_secret
    SYS_statmount SYS_listmount SYS_lsm_get_self_attr SYS_lsm_set_self_attr
    SYS_lsm_list_modules SYS_file_getattr SYS_file_setattr SYS_remap_file_pages
    SYS_io_setup SYS_io_destroy SYS_io_submit SYS_io_cancel SYS_io_getevents SYS_io_pgetevents
];

/// Decided in [`mod@super::allow_list`], by argument or by what the plan needs.
#[rustfmt::skip]
pub(super) const DECIDED: &[Call] = calls![
    SYS_openat SYS_openat2 SYS_fchmod SYS_fchmodat SYS_fchmodat2 SYS_mknodat SYS_renameat2
    SYS_mmap SYS_memfd_create SYS_shmget SYS_move_pages
    SYS_clone SYS_unshare SYS_personality SYS_prctl SYS_seccomp SYS_ioctl SYS_fcntl
    SYS_socket SYS_socketpair SYS_connect SYS_bind SYS_listen SYS_sendto SYS_sendmsg SYS_sendmmsg
    SYS_setsockopt
    SYS_prlimit64 SYS_setpriority SYS_ioprio_set SYS_sched_setaffinity SYS_sched_setattr
    SYS_sched_setparam SYS_sched_setscheduler
];

/// Decided as [`DECIDED`], but only old architectures still have them.
#[cfg(target_arch = "x86_64")]
pub(super) const DECIDED_OLD: &[Call] = calls![SYS_open SYS_creat SYS_chmod SYS_mknod];
/// Decided as [`DECIDED`], but only old architectures still have them.
#[cfg(target_arch = "aarch64")]
pub(super) const DECIDED_OLD: &[Call] = &[];

/// Every list.
pub(super) const LISTS: &[&[Call]] = &[
    ALLOWED,
    ALLOWED_OLD,
    METADATA,
    METADATA_OLD,
    IPC,
    REFUSED,
    REFUSED_OLD,
    ABSENT,
    DECIDED,
    DECIDED_OLD,
];

/// The name of a system call, where this module knows it.
#[must_use]
pub fn call_name(number: u32) -> Option<&'static str> {
    LISTS
        .iter()
        .flat_map(|list| list.iter())
        .find(|call| call.0 == number)
        .map(|call| call.1.trim_start_matches("SYS_"))
}

/// The number of a system call, where this module knows it.
#[must_use]
pub fn call_number(name: &str) -> Option<u32> {
    let mut calls = LISTS.iter().flat_map(|list| list.iter());
    calls
        .find(|call| call.1.trim_start_matches("SYS_") == name)
        .map(|call| call.0)
}
