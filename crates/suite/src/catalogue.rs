//! The catalogue that the attacks come from: what a hostile guest tries, row by row.

/// One row: its section, what is tried, and which mechanisms should hold it: N namespaces
/// and mounts, L Landlock, S seccomp, C cgroups and rlimits, B the supervisor, D the design
/// of the set-up, W the worker's own host functions.
pub type Row = (&'static str, &'static str, &'static str);

const CALLS: &str = "system calls";
const EXEC: &str = "execution";
const FILES: &str = "files";
const IPC: &str = "terminal and IPC";
const NETWORK: &str = "network";
const SOCKETS: &str = "sockets by grant";
const RESOURCES: &str = "resources";
const LEAKS: &str = "leaks";
const METADATA: &str = "metadata";
const MODULES: &str = "modules";
const TOGETHER: &str = "guests together";

/// Every row in order; an attack's `entry` counts from 1.
pub const ROWS: &[Row] = &[
    (
        CALLS,
        "a denied call through int 0x80 from 64-bit code",
        "S",
    ),
    (CALLS, "a 32-bit ELF, for another system-call table", "S"),
    (CALLS, "x32 numbers", "S"),
    (CALLS, "io_uring operations instead of calls", "S"),
    (
        CALLS,
        "an io_uring descriptor from before the lock-down",
        "D S",
    ),
    (CALLS, "clone3 with CLONE_NEWUSER inside a struct", "S"),
    (
        CALLS,
        "a nested user namespace, then mount and netfilter",
        "S",
    ),
    (CALLS, "setns through /proc/PID/ns or a pidfd", "S N"),
    (CALLS, "arguments rewritten between check and use", "B"),
    (
        CALLS,
        "ptrace of a sibling, init or the supervisor",
        "S L N",
    ),
    (CALLS, "process_vm_readv and process_vm_writev", "S N"),
    (CALLS, "pidfd_getfd", "S N"),
    (CALLS, "kcmp, perf_event_open, bpf", "S"),
    (CALLS, "userfaultfd and FUSE as a pause", "S"),
    (CALLS, "keyrings of the host's user", "S"),
    (
        CALLS,
        "modules, kexec, reboot, swap, clock, ports, LDT",
        "S",
    ),
    (CALLS, "personality", "S"),
    (CALLS, "open_by_handle_at", "S"),
    (CALLS, "fanotify", "S"),
    (
        CALLS,
        "the mount calls, old and new, pivot_root and chroot",
        "S",
    ),
    (CALLS, "quotactl, syslog, lookup_dcookie, vhangup", "S"),
    (CALLS, "socket families beyond unix and internet", "S"),
    (CALLS, "prctl tricks", "S"),
    (CALLS, "numbers that a wall may not know", "S"),
    (EXEC, "memfd and fexecve or execveat", "N S"),
    (
        EXEC,
        "the dynamic loader on a file that is not executable",
        "N",
    ),
    (EXEC, "a copy in a writable directory", "N"),
    (EXEC, "a shell round a list of denied commands", "D"),
    (
        EXEC,
        "setuid, setgid and file capabilities inside grants",
        "N",
    ),
    (EXEC, "code made at run time", "-"),
    (EXEC, "the policy file itself", "D"),
    (
        FILES,
        "what the launcher executes or reads outside (CVE-2019-5736)",
        "D",
    ),
    (FILES, "a leaked directory (CVE-2024-21626)", "D"),
    (
        FILES,
        "a symlink exchanged during set-up (CVE-2021-30465)",
        "D",
    ),
    (
        FILES,
        "/dev/null replaced by a symlink (CVE-2025-31133)",
        "D",
    ),
    (
        FILES,
        "/dev/console replaced by a symlink (CVE-2025-52565)",
        "D",
    ),
    (FILES, "/dev itself a symlink (CVE-2026-41579)", "D"),
    (
        FILES,
        "out of a root: chroot, dot-dot, a kept directory",
        "N S",
    ),
    (FILES, "magic links of other processes", "N"),
    (
        FILES,
        "setuid files, devices, sockets, FIFOs left behind",
        "S L",
    ),
    (FILES, "hooks and start-up files in a writable folder", "N"),
    (FILES, "a protected path that did not exist", "N"),
    (FILES, "kernel settings in /proc and /sys", "N"),
    (FILES, "kernel information in /proc and /sys", "N"),
    (FILES, "cgroup files and mounts (CVE-2022-0492)", "N S"),
    (FILES, "block devices and device nodes", "S N"),
    (FILES, "overlayfs in a user namespace", "S"),
    (FILES, "a FIFO that hangs the launcher", "D"),
    (FILES, "filling disks and tmpfs", "N C"),
    (FILES, "archives for an unpacker", "D"),
    (FILES, "how a policy spells its paths", "D"),
    (IPC, "TIOCSTI (CVE-2017-5226)", "D S"),
    (IPC, "TIOCLINUX", "S"),
    (IPC, "escape sequences in the output", "-"),
    (IPC, "abstract sockets (CVE-2020-15257)", "N"),
    (IPC, "sockets and FIFOs by path", "N L"),
    (IPC, "System V and POSIX IPC, /dev/shm", "N"),
    (IPC, "signals", "N L"),
    (IPC, "a session bus", "-"),
    (NETWORK, "TCP over IPv4, IPv6 and mapped addresses", "N"),
    (NETWORK, "UDP, and port 53 above all", "N"),
    (NETWORK, "names as a channel", "-"),
    (NETWORK, "ping and raw sockets", "S N"),
    (NETWORK, "MPTCP, SCTP, UDP-Lite", "S N"),
    (NETWORK, "Fast Open, reconnect, listen without bind", "N S"),
    (NETWORK, "other spellings of this host", "N"),
    (RESOURCES, "processes, threads and zombies", "C"),
    (RESOURCES, "memory of every kind", "C"),
    (RESOURCES, "the OOM killer's choice", "S"),
    (RESOURCES, "descriptors", "C"),
    (RESOURCES, "limits shared with the host's user", "C"),
    (RESOURCES, "processor time and priority", "C S"),
    (RESOURCES, "output without end, and pipes held open", "B N"),
    (
        LEAKS,
        "environment, arguments and descriptors of others",
        "N D",
    ),
    (METADATA, "mode, times and attributes of files", "N S"),
    (METADATA, "which files and processes there are", "N S"),
    (SOCKETS, "another host or port than the granted one", "B"),
    (SOCKETS, "addresses of odd spelling, length or place", "B"),
    (SOCKETS, "a socket again, or by another process", "B"),
    (SOCKETS, "connections without connect", "B S"),
    (SOCKETS, "datagrams with an address of their own", "B"),
    (SOCKETS, "groups and broadcasts", "B S"),
    (SOCKETS, "options that send a packet by another host", "B S"),
    (SOCKETS, "protocols beside TCP and UDP, and upgrades", "S"),
    (SOCKETS, "ports and addresses to listen at", "B"),
    (SOCKETS, "the host's interfaces, routes and sockets", "S N"),
    (
        SOCKETS,
        "addresses, messages and descriptors exchanged during a call",
        "B",
    ),
    (
        SOCKETS,
        "floods, waits, and the end of callers and of the supervisor",
        "B",
    ),
    (SOCKETS, "a second decider in front of the wall's", "S"),
    (SOCKETS, "whom a message comes from", "B"),
    (MODULES, "paths out of an open folder", "W N"),
    (
        MODULES,
        "names made, moved and removed outside of it",
        "W N",
    ),
    (MODULES, "rights and flags that were not given", "W N"),
    (MODULES, "the engine's own process", "N"),
    (MODULES, "what is left in memory and in descriptors", "W N"),
    (MODULES, "memory, files and output past the limits", "W C"),
    (MODULES, "time, with and without calls", "B C"),
    (TOGETHER, "sockets that another guest passes on", "B S"),
    (FILES, "what a policy hides in a folder that it grants", "N"),
];

/// Rows without an attack of their own, and why.
pub const WITHOUT_ATTACK: &[(usize, &str)] = &[
    (50, "palisade unpacks no archives"),
    (54, "output is passed on as it is, and documented so"),
    (
        59,
        "the machine needs a session bus; the socket attacks cover its way in",
    ),
    (
        62,
        "no query leaves a domain: the names that are granted stand in its /etc/hosts",
    ),
];
