//! The catalogue that the attacks come from: what a hostile guest tries, row by row.

/// One row: its section, and what is tried.
pub type Row = (&'static str, &'static str);

const CALLS: &str = "system calls";
const EXEC: &str = "execution";
const FILES: &str = "files";
const IPC: &str = "terminal and IPC";
const NETWORK: &str = "network";
const RESOURCES: &str = "resources";
const LEAKS: &str = "leaks";

/// Every row in order; an attack's `entry` counts from 1.
pub const ROWS: &[Row] = &[
    (CALLS, "a denied call through int 0x80 from 64-bit code"),
    (CALLS, "a 32-bit ELF, for another system-call table"),
    (CALLS, "x32 numbers"),
    (CALLS, "io_uring operations instead of calls"),
    (CALLS, "an io_uring descriptor from before the lock-down"),
    (CALLS, "clone3 with CLONE_NEWUSER inside a struct"),
    (CALLS, "a nested user namespace, then mount and netfilter"),
    (CALLS, "setns through /proc/PID/ns or a pidfd"),
    (CALLS, "arguments rewritten between check and use"),
    (CALLS, "ptrace of a sibling, init or the supervisor"),
    (CALLS, "process_vm_readv and process_vm_writev"),
    (CALLS, "pidfd_getfd"),
    (CALLS, "kcmp, perf_event_open, bpf"),
    (CALLS, "userfaultfd and FUSE as a pause"),
    (CALLS, "keyrings of the host's user"),
    (
        CALLS,
        "modules, kexec, reboot, swap, accounting, clock, ports, LDT",
    ),
    (CALLS, "personality"),
    (CALLS, "open_by_handle_at"),
    (CALLS, "fanotify"),
    (CALLS, "the mount calls, old and new, pivot_root and chroot"),
    (CALLS, "quotactl, syslog, lookup_dcookie, vhangup"),
    (CALLS, "socket families beyond unix and internet"),
    (CALLS, "prctl tricks"),
    (CALLS, "numbers that a wall may not know"),
    (EXEC, "memfd and fexecve or execveat"),
    (EXEC, "the dynamic loader on a file that is not executable"),
    (EXEC, "a copy in a writable directory"),
    (EXEC, "a shell round a list of denied commands"),
    (EXEC, "setuid, setgid and file capabilities inside grants"),
    (EXEC, "code made at run time"),
    (EXEC, "the policy file itself"),
    (FILES, "the launcher's own executable (CVE-2019-5736)"),
    (FILES, "a leaked directory (CVE-2024-21626)"),
    (FILES, "a symlink exchanged during set-up (CVE-2021-30465)"),
    (FILES, "/dev/null replaced by a symlink (CVE-2025-31133)"),
    (FILES, "/dev/console replaced by a symlink (CVE-2025-52565)"),
    (FILES, "/dev itself a symlink (CVE-2026-41579)"),
    (FILES, "out of a root: chroot, dot-dot, a kept directory"),
    (FILES, "magic links of other processes"),
    (
        FILES,
        "setuid files, devices, sockets and FIFOs left for the host",
    ),
    (FILES, "hooks and start-up files in a writable folder"),
    (FILES, "a protected path that did not exist"),
    (FILES, "kernel settings in /proc and /sys"),
    (FILES, "kernel information in /proc and /sys"),
    (FILES, "cgroup files and mounts (CVE-2022-0492)"),
    (FILES, "block devices and device nodes"),
    (FILES, "overlayfs in a user namespace"),
    (FILES, "a FIFO that hangs the launcher"),
    (FILES, "filling disks and tmpfs"),
    (FILES, "archives for an unpacker"),
    (FILES, "how a policy spells its paths"),
    (IPC, "TIOCSTI (CVE-2017-5226)"),
    (IPC, "TIOCLINUX"),
    (IPC, "escape sequences in the output"),
    (IPC, "abstract sockets (CVE-2020-15257)"),
    (IPC, "sockets and FIFOs by path"),
    (IPC, "System V and POSIX IPC, /dev/shm"),
    (IPC, "signals"),
    (IPC, "a session bus"),
    (NETWORK, "TCP over IPv4, IPv6 and mapped addresses"),
    (NETWORK, "UDP, and port 53 above all"),
    (NETWORK, "names as a channel"),
    (NETWORK, "ping and raw sockets"),
    (NETWORK, "MPTCP, SCTP, UDP-Lite"),
    (NETWORK, "Fast Open, reconnect, listen without bind"),
    (NETWORK, "other spellings of this host"),
    (RESOURCES, "processes, threads and zombies"),
    (RESOURCES, "memory of every kind"),
    (RESOURCES, "the OOM killer's choice"),
    (RESOURCES, "descriptors"),
    (RESOURCES, "limits shared with the host's user"),
    (RESOURCES, "processor time and priority"),
    (RESOURCES, "output without end, and pipes held open"),
    (LEAKS, "environment, arguments and descriptors of others"),
];

/// Rows without an attack of their own, and why.
pub const WITHOUT_ATTACK: &[(usize, &str)] = &[
    (50, "palisade unpacks no archives"),
    (54, "output is passed on as it is, and documented so"),
    (
        59,
        "the machine needs a session bus; the socket attacks cover its way in",
    ),
    (62, "no name is resolved: there is no network grant yet"),
    (
        71,
        "the counters of inotify and its like show no trace outside; the guest's uid is its own",
    ),
];
