//! What one instruction of a launch message does. Strings are a `u32` length, the bytes and a NUL.

/// `mkdir`: path, mode.
pub const MAKE_DIR: u32 = 1;
/// `symlink`: path, target.
pub const SYMLINK: u32 = 2;
/// A small file: path, mode, contents.
pub const FILE: u32 = 3;
/// The same, and kept open for the supervisor to write anew.
pub const KEPT_FILE: u32 = 25;
/// Bind a host path: source, device major, device minor, inode low, inode high, attributes, target.
pub const BIND: u32 = 4;
/// Attach a detached mount that the supervisor made: descriptor index, attributes, target.
pub const ATTACH: u32 = 5;
/// Mount a path of the new root on itself with other attributes: set, clear, target.
pub const REMOUNT: u32 = 6;
/// `/proc` of the domain's pid namespace: target.
pub const PROC: u32 = 7;
/// The same, mounted nowhere: for init, which adds up processor times there.
pub const OWN_PROC: u32 = 27;
/// A private `devpts`: target.
pub const DEVPTS: u32 = 8;
/// The root file system itself: size in KiB, inodes.
pub const ROOT: u32 = 9;
/// Mount something of the new root into a folder that is mounted there: source, attributes, target.
pub const SHOW: u32 = 33;
/// Where the guest meets others: paths of mounts, each a string behind their number. Not a step of the
/// plan.
pub const MEETING_PLACES: u32 = 34;
/// Leave the host's file system, for a folder that is mounted in the new root: its path. With none, for
/// the new root itself, which becomes read-only.
pub const PIVOT: u32 = 10;
/// Host name of the domain.
pub const HOST_NAME: u32 = 11;
/// Landlock: handled file rights (low, high), handled net rights, scopes, number of rules,
/// then for each: rights (low, high), path.
pub const LANDLOCK: u32 = 13;
/// The Landlock domain of the guest's own process, as above, where another one holds what init's child does for it: see
/// [`super::RULED`].
pub const LANDLOCK_OF_GUEST: u32 = 39;
/// Seccomp: the program's bytes; to whom it leaves calls, a number of [`super::notifies`].
pub const SECCOMP: u32 = 14;
/// One resource limit: resource, soft (low, high), hard (low, high).
pub const RLIMIT: u32 = 15;
/// Restrict to these processors: mask as bytes.
pub const AFFINITY: u32 = 16;
/// The guest's working directory.
pub const CWD: u32 = 17;
/// The guest gets a terminal: rows, columns, mask of descriptors 0-2 it replaces, whether the
/// guest's group is in front, settings (`struct termios` of the kernel).
pub const TERMINAL: u32 = 18;
/// Wall-clock limit in ns (low, high).
pub const TIME: u32 = 19;
/// Processor-time limit in µs (low, high).
pub const CPU_TIME: u32 = 20;
/// An open file of a cgroup whose first number is the processor time used: descriptor index, ns in
/// its unit. Without it init adds up what it sees.
pub const CPU_COUNTER: u32 = 28;
/// What to execute: candidates, arguments, environment; each a count and that many strings.
pub const EXEC: u32 = 21;
/// What init is called from here on, as `/proc/PID/cmdline` has it: words, a NUL behind each.
pub const TITLE: u32 = 35;
/// New session keyring.
pub const KEYRING: u32 = 22;
/// Write `0` into an open `tasks` file of a cgroup: descriptor index.
pub const JOIN: u32 = 23;
/// Descriptors that the guest finds open from 3 on: index of the first in the message, how many; 1
/// if the last variable, `LISTEN_PID=`, gets the pid of the guest's process, else 0.
pub const PASSED: u32 = 26;
/// Notice when what lies at a path is moved, before something is mounted on it: the path, the folder
/// it lies in.
pub const WATCH: u32 = 29;
/// Lay names of nothing over a folder that is mounted: the folder, attributes; a count of folders in it, itself first, each a path
/// below it and a mode; a count of names, each a path below it.
pub const HIDE: u32 = 37;
/// Lay something empty over what is there: the path; 1 for a folder, else 0.
pub const COVER: u32 = 38;
/// From here on end the domain when one of these is no mount any more: their paths, each a string
/// behind their number.
pub const GUARD: u32 = 30;
/// A standard stream that is a file, opened anew through a read-only mount of it: which stream,
/// device major, device minor, inode (low, high), offset (low, high), path. Not a step of the plan:
/// it does not count as an item.
pub const REOPEN: u32 = 31;
/// Open the domain's user and mount namespaces, for who mounts more into it while it runs: init gives up the right to have them
/// opened. Not a step of the plan: it does not count as an item.
pub const NAMESPACES: u32 = 36;
/// A pair of connected sockets of the domain's own, one end in place of standard streams: mask of
/// those.
pub const PAIR: u32 = 32;
/// Make the guest's process now, which confines itself while what follows is carried out, and executes after that. Before it
/// stands what it confines itself with, which names no path; Landlock rules that do come later, and it goes behind them last, which
/// its filter lets anybody do. What it makes of the root before it confines itself, as a string: `MAKE_DIR`, `SYMLINK`, `FILE`, `BIND`
/// and `REMOUNT`, each behind its `ITEM`.
pub const GUEST_BESIDE: u32 = 40;
/// Wait until that process has made its part of the root. Not a step of the plan: it does not count as an item.
pub const PART_MADE: u32 = 42;
/// Which step of the plan the next instruction is: not the one behind the last one.
pub const ITEM: u32 = 43;
/// The last of a prelude: make the guest's process now. It confines itself, and the launch message,
/// which then holds no more than `CWD` and what to execute, finds it waiting.
pub const GUEST_AHEAD: u32 = 24;
