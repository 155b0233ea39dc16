//! What supervisor, keeper and init say to each other.
//!
//! This file is compiled twice: into this crate and into the `no_std` keeper program, so that both
//! ends agree by construction. Every message is native-endian and travels between processes that
//! palisade started itself; nothing a guest says ever reaches these parsers.
//!
//! ```text
//! supervisor ──control socket (SEQPACKET)──▶ keeper        Record both ways, descriptors attached
//! supervisor ──domain socket (STREAM)──────▶ init (PID 1)  one launch message, then Record both ways
//! supervisor ◀─domain socket────────────── keeper          one Record, before init's first
//!
//! anybody of the user's ──door (SEQPACKET)──▶ keeper       Record, a descriptor attached
//!                                 keeper ──gate──▶ init     the same
//! anybody of the user's ──session (STREAM)──▶ init's child one launch message, then Record both ways
//! ```
//!
//! The door is for who did not start the domain: `palisade kill`, `palisade exec`. It has no name and no address. Both
//! of its ends are the keeper's, and whoever comes takes a copy of the outer one by pidfd_getfd(2). So the kernel decides
//! as for ptrace(2): it refuses everybody of another user, in another user namespace or under Landlock's rules, and
//! each guest is one of these.

// By their paths from here, for the keeper's program does not find them by their names.
#[path = "wire/container.rs"]
pub mod container;
#[path = "wire/op.rs"]
pub mod op;
#[path = "wire/step.rs"]
mod step;

pub use step::Step;

/// A message of fixed size: what it is, then its figures.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// One of the `KEEPER_*`, `DOMAIN_*` or `INIT_*` numbers.
    pub kind: u64,
    /// Meaning depends on `kind`.
    pub words: [u64; RECORD_WORDS],
}

/// Figures in a [`Record`].
pub const RECORD_WORDS: usize = 31;
/// Size of a [`Record`] on the wire.
pub const RECORD_BYTES: usize = (RECORD_WORDS + 1) * 8;
/// Size of the kernel's `struct termios` (asm-generic/termbits.h).
pub const TERMIOS_BYTES: usize = 36;
/// Most descriptors in one message (`SCM_MAX_FD` of the kernel is 253).
pub const MAX_FDS: usize = 250;

/// Most sockets of the host's, and folders for them, that a guest may meet others at ([`op::MEETING_PLACES`]).
pub const MOST_MEETING_PLACES: usize = 64;

// Supervisor to keeper.

/// Make a domain that waits for its guest. Words: flags (`PARK_*`), uid inside, gid inside, the
/// uid and gid outside unless the domain gets its own, and of the domain after whose end it is to be made the pid of init, or 0,
/// and when the keeper began to make it. Descriptors: init's end of the domain socket,
/// which may hold the launch message already; the cgroup to be born in, if any. Instructions to
/// carry out at once may follow the record: the prelude of the launch message.
pub const KEEPER_PARK: u64 = 1;
/// Make a user namespace for an id-mapped mount. Words: disk uid, disk gid, host uid.
pub const KEEPER_MAP_IDS: u64 = 2;
/// What to remove should the supervisor die. Words: a number for the list. Descriptors: the folder that
/// each lies in. Bytes follow the record: for each folder a `CLEAN_*` letter, a name in it, a NUL.
pub const KEEPER_REMEMBER: u64 = 3;
/// The supervisor has removed everything with this number itself. Words: the number.
pub const KEEPER_FORGET: u64 = 4;

/// Fork a process that makes descriptors for who answers a domain's calls. Words: 1 if the second descriptor
/// is the cgroup to be born in. Descriptors: its socket; that cgroup, or `tasks` files of cgroups to join, if
/// any. It does nothing before [`MAKER_BEGIN`].
pub const KEEPER_MAKER: u64 = 5;

/// No further domain will be asked for: give up what seeing those there are to their end does not need. A
/// keeper that cannot ends, and its domains with it. Descriptor: Landlock rules, if there are any. The program
/// of a system-call filter follows the record.
pub const KEEPER_CONFINE: u64 = 9;

/// End now, and your domain with you: its init has said its last words, and the supervisor adopts what you leave behind
/// (`PR_SET_CHILD_SUBREAPER`) and waits for it.
pub const KEEPER_LEAVE: u64 = 22;

/// Fork a process that mounts more of the host's into a domain while it runs. Words: 1 if it belongs into the domain's user
/// namespace. Descriptors: its socket (SEQPACKET), the domain's user and mount namespaces. It does nothing before [`MAKER_BEGIN`].
pub const KEEPER_HOLDER: u64 = 12;

// Supervisor to that process, and back.

/// Mount a file or folder. Words: see `hold`. Source and target follow the record, each with a NUL.
pub const HOLD: u64 = 13;
/// Take the mount of this number away again. Words: the number.
pub const RELEASE: u64 = 14;
/// Is nothing there? The path inside follows the record, with a NUL.
pub const IS_FREE: u64 = 21;
/// It was done, or it is so.
pub const HELD: u64 = 20;

/// Positions in the words of [`HOLD`].
pub mod hold {
    /// Most mounts at a time.
    pub const MOST_HELD: usize = 256;
    /// What it is called from then on.
    pub const NUMBER: usize = 0;
    /// `MOUNT_ATTR_*` to set.
    pub const ATTRIBUTES: usize = 1;
    /// Device and inode of what lies at the source.
    pub const IDENTITY: usize = 2;
    /// Bytes of the source, with its NUL.
    pub const SOURCE_BYTES: usize = 5;
    /// What to make where nothing is, in the domain's own root.
    pub const MAKE: usize = 6;
    /// Nothing.
    pub const MAKE_NOTHING: u64 = 0;
    /// An empty file, and the folders that lead there.
    pub const MAKE_FILE: u64 = 1;
    /// A folder.
    pub const MAKE_FOLDER: u64 = 2;
    /// How files are shown as the guest's.
    pub const MAP: usize = 7;
    /// They are not.
    pub const MAP_NONE: u64 = 0;
    /// Or else not at all.
    pub const MAP_ALWAYS: u64 = 1;
    /// Where the file system can.
    pub const MAP_IF_POSSIBLE: u64 = 2;
    /// Owner and group on disk.
    pub const OWNER: usize = 8;
    /// The domain's user on the host, who owns its root and whom files are shown as; 0 where that is the holder's own.
    pub const HOST_UID: usize = 10;
}

// Supervisor to the process that makes descriptors, and back.

/// Confine yourself, for there is a guest. The program of a system-call filter follows the record: its cost is
/// nothing that the guest waits for.
pub const MAKER_BEGIN: u64 = 11;
/// Make a socket. Words: the request's number, family, type with flags, protocol.
pub const MAKE_SOCKET: u64 = 6;
/// It is in its cgroup, and confined.
pub const MAKER_READY: u64 = 7;
/// What was asked for. Words: see [`ANSWER_TO`]. Descriptors: it.
pub const MADE: u64 = 8;
/// Open files of a thread's in `/proc`. Words: the request's number, the thread's, which (a number of
/// `of_thread`).
pub const OPEN_OF_THREAD: u64 = 10;
/// Which word of an answer, a refusal too, has the request's number.
pub const ANSWER_TO: usize = 3;

/// Where that process has `/proc` open.
pub const MAKERS_PROC: i32 = 4;

/// Files of a thread's, proc(5).
pub mod of_thread {
    /// What it is called, and its `status`.
    pub const NAMES: u64 = 0;
    /// Where it stands.
    pub const FOLDER: u64 = 1;
    /// Its memory, to write to, and what is mapped there.
    pub const MEMORY: u64 = 2;
    /// What is known of one of its descriptors. One more word: the descriptor's number.
    pub const DESCRIPTOR: u64 = 3;
    /// What it takes for the root.
    pub const ROOT: u64 = 4;
}

// Keeper to supervisor.

/// The domain exists; said on its own socket. Words: init's host pid, host uid, times in ns before and
/// after its making. Descriptors: init's pidfd; the supervisor's end of the socket of the domain that is made after its end, if
/// one is.
pub const KEEPER_PARKED: u64 = 16;
/// The user namespace asked for. Descriptor: the namespace.
pub const KEEPER_IDS_MAPPED: u64 = 17;
/// A request failed; said on the domain's socket if it was for one. Words: step, item, errno.
pub const KEEPER_FAILED: u64 = 18;
/// The keeper will remove what it was told of.
pub const KEEPER_REMEMBERED: u64 = 19;

/// Give the domain a host user id of its own (needs root).
pub const PARK_OWN_UID: u64 = 1;
/// Make an empty network namespace.
pub const PARK_NETWORK: u64 = 2;
/// Make a cgroup namespace.
pub const PARK_CGROUP: u64 = 4;
/// Make no namespace at all: the guest is held by Landlock and seccomp alone.
pub const PARK_BARE: u64 = 8;
/// Let go of the domain's mounts after its end has been told, not before.
pub const PARK_KEEP_MOUNTS: u64 = 16;
/// Make another one like it after its end, and so on, as long as the other end of its socket is open. That end comes with
/// [`KEEPER_PARKED`].
pub const PARK_FOLLOW: u64 = 32;

/// Positions of the last words of [`KEEPER_PARK`].
pub const PARK_AFTER: usize = 5;
/// See [`PARK_AFTER`].
pub const PARK_AFTER_MADE: usize = 6;

/// First host uid for domains of root: systemd's table of uid ranges leaves 0x70000000 and up free.
pub const OWN_UID_BASE: u64 = 0x7000_0000;

/// In a [`KEEPER_REMEMBER`] message: remove this empty directory.
pub const CLEAN_RMDIR: u8 = b'd';
/// In a [`KEEPER_REMEMBER`] message: remove this placeholder if it is empty and nobody holds it.
pub const CLEAN_PLACEHOLDER: u8 = b'f';
/// The same for a folder.
pub const CLEAN_PLACEHOLDER_FOLDER: u8 = b'p';

/// Permission bits of a placeholder that is a file. The sticky bit, which says nothing about a file,
/// tells it from one that a person left empty.
pub const PLACEHOLDER_FILE_MODE: u32 = 0o1444;
/// The same for a folder.
pub const PLACEHOLDER_FOLDER_MODE: u32 = 0o1555;

// At the keeper's door, and on to init.

/// The number of the door's outer end in the keeper.
pub const DOOR: i32 = 5;
/// The number of the door's inner end in the keeper.
pub const DOOR_INSIDE: i32 = 4;
/// Start a further process in a domain. Words: the pid of its init. Descriptor: a session, which may hold the message
/// already: as a launch message, with [`op::TERMINAL`] and [`op::EXEC`] alone.
pub const DOOR_EXEC: u64 = 64;
/// End a domain. Words: the pid of its init. Descriptor: any.
pub const DOOR_END: u64 = 65;
/// Ask something of a domain's supervisor. Words: the pid of its init. Descriptor: a session, which holds the request already.
pub const DOOR_SUPERVISOR: u64 = 66;

/// What the keeper is called in `/proc/PID/cmdline`.
pub const KEEPERS_TITLE: &[u8] = b"palisade-keeper";
/// What an init is called there once its guest is launched: this, a NUL, [`TITLE_VERSION`], and what [`op::TITLE`] says.
pub const INITS_TITLE: &[u8] = b"palisade-init";
/// What a child of init's is called there that stands by a further process.
pub const SESSIONS_TITLE: &[u8] = b"palisade-exec";
/// What the first process of a container is called: this, a NUL, its id, a NUL, and one of the two that follow.
pub const CONTAINERS_TITLE: &[u8] = b"palisade-container";
/// It waits for its start.
pub const CREATED_TITLE: &[u8] = b"created";
/// It has been started.
pub const RUNNING_TITLE: &[u8] = b"running";
/// Of what is said here and of what is understood at the door.
pub const TITLE_VERSION: &[u8] = b"1";
/// Most bytes of a title.
pub const TITLE_BYTES: usize = 1000;

// Supervisor to init, after the launch message.

/// Send the guest a signal. Words: signal number.
pub const DOMAIN_SIGNAL: u64 = 32;
/// End every process of the domain.
pub const DOMAIN_KILL: u64 = 33;
/// Continue the guest's group. Words: its place on its terminal from then on, a `PLACE_*` number.
pub const DOMAIN_CONTINUE: u64 = 34;
/// Where it was.
pub const PLACE_SAME: u64 = 0;
/// In front.
pub const PLACE_FRONT: u64 = 1;
/// In the background: init's group is in front.
pub const PLACE_BACKGROUND: u64 = 2;

/// Carry out a call of the guest's on a socket of the domain's own. Words: see `perform`. Descriptors:
/// the socket, where to write the result (an `i64`, negative for an error number), what
/// `perform::ATTACHED` tells of, and what a message carries.
pub const DOMAIN_PERFORM: u64 = 35;

/// Make an internet socket in the domain's own network, whose loopback is brought up for it. Words: family, type with
/// flags, protocol. Descriptor: where to answer, as a [`MADE`] or a [`KEEPER_FAILED`] record.
pub const DOMAIN_SOCKET: u64 = 37;

/// What the supervisor used of the processors to answer the guest's calls, which counts towards the limit on
/// processor time. Words: all of it so far, in µs.
pub const DOMAIN_CPU_USED: u64 = 36;

/// Look whether the guest is about to execute what it can't: a path that it named, which follows the record.
/// Words: how many bytes that are, [`MOST_PATH_BYTES`] at most; the call; the number of the caller's folder that a relative
/// path begins in, or `AT_FDCWD`. Descriptors of a relative one: that folder; or the listener of the call, which init
/// lets go on then, and a file whose owner is the calling thread (`F_SETOWN_EX`), for each pid namespace has numbers of its
/// own.
pub const DOMAIN_LOOK: u64 = 38;

/// Most bytes of a path that is looked at.
pub const MOST_PATH_BYTES: usize = 1024;

/// In the fourth register of the chdir(2) and the execve(2) by which a guest's own program is started: these take less,
/// and nobody could answer yet. A guest that has it there too is not looked at, no more.
pub const OWN_CALL: u64 = u64::from_be_bytes(*b"palisade");

/// Positions in the words of [`DOMAIN_PERFORM`], and what stands there.
pub mod perform {
    /// Which call: one of the following five.
    pub const CALL: usize = 0;
    /// connect(2).
    pub const CONNECT: u64 = 1;
    /// bind(2).
    pub const BIND: u64 = 2;
    /// listen(2).
    pub const LISTEN: u64 = 3;
    /// sendmsg(2).
    pub const SEND: u64 = 4;
    /// mknodat(2): a folder in place of the socket, the path for the data of a message.
    pub const MAKE_NODE: u64 = 5;
    /// The backlog of `listen`, the flags of `sendmsg`, the mode of `mknodat`.
    pub const NUMBER: usize = 1;
    /// The guest's umask, for `bind` and `mknodat`.
    pub const UMASK: usize = 2;
    /// Bytes of the address; none for a message that goes where the socket is connected.
    pub const ADDRESS_LENGTH: usize = 3;
    /// Which descriptors follow the first two, in this order.
    pub const ATTACHED: usize = 4;
    /// The guest's working directory.
    pub const ATTACHED_FOLDER: u64 = 1;
    /// A memory file with the data of a message.
    pub const ATTACHED_DATA: u64 = 2;
    /// The caller's root, in a container.
    pub const ATTACHED_ROOT: u64 = 4;
    /// A memory file with whom the caller is, in a container: see [`super::caller`].
    pub const ATTACHED_CALLER: u64 = 8;
    /// A folder that the guest has open, which the path leads through by its number: it is put there.
    pub const ATTACHED_OPEN: u64 = 16;
    /// That number.
    pub const OPEN_NUMBER: usize = 22;
    /// How many descriptors, the last ones, go with the message.
    pub const RIGHTS: usize = 5;
    /// The address itself, in this and the following words.
    pub const ADDRESS: usize = 6;
    /// Most bytes of it.
    pub const MOST_ADDRESS: usize = 128;
}

/// Whom a caller in a container is, as 32-bit words: these, and then its supplementary groups.
pub mod caller {
    /// The user by whom files are looked for, as the container's user namespace has it.
    pub const UID: usize = 0;
    /// The same of the group.
    pub const GID: usize = 1;
    /// Effective capabilities: low, high.
    pub const CAPABILITIES: usize = 2;
    /// How many words there are before the groups.
    pub const WORDS: usize = 4;
    /// Most groups that are told.
    pub const MOST_GROUPS: usize = 1024;
}

// Init to supervisor.

/// The guest's program runs. Words: see `started`. Descriptors: what `started::ATTACHED` tells of.
pub const INIT_STARTED: u64 = 48;
/// The prelude is carried out, by the guest's process itself if it asked for one.
pub const INIT_READY: u64 = 52;
/// The guest could not be started. Words: step, index of the item in that step, errno.
pub const INIT_FAILED: u64 = 49;
/// The guest was stopped by a signal. Words: signal.
pub const INIT_STOPPED: u64 = 50;
/// The guest was continued as asked.
pub const INIT_CONTINUED: u64 = 53;
/// The guest ended and nothing of the domain runs any more. Words: see `ended`.
pub const INIT_ENDED: u64 = 51;
/// Somebody at the door asks something of the supervisor. Descriptor: the session.
pub const INIT_ASKED: u64 = 54;

/// Positions in the words of [`INIT_STARTED`]: first moments, in ns of the monotonic clock.
pub mod started {
    /// The launch message had arrived.
    pub const RECEIVED: usize = 0;
    /// The root file system stood.
    pub const ROOT: usize = 1;
    /// The old root was gone and `/proc` mounted.
    pub const PIVOT: usize = 2;
    /// The guest's process was confined and had executed its program.
    pub const EXEC: usize = 3;
    /// Which descriptors come with the message, in the order of the `ATTACHED_*` bits.
    pub const ATTACHED: usize = 4;
    /// How many pairs of sockets (`op::PAIR`) follow them: our end and the guest's of each.
    pub const PAIRS: usize = 5;
}

/// The master end of the guest's terminal.
pub const ATTACHED_TERMINAL: u64 = 1;
/// Where the kernel tells of the guest's calls that the supervisor decides (seccomp_unotify(2)).
pub const ATTACHED_LISTENER: u64 = 2;
/// The file of `op::KEPT_FILE`, open for writing.
pub const ATTACHED_FILE: u64 = 4;
/// The file that `op::REOPEN` opened, shared with the guest.
pub const ATTACHED_INPUT: u64 = 8;
/// The domain's user and mount namespaces.
pub const ATTACHED_NAMESPACES: u64 = 16;

/// Positions in the words of [`INIT_ENDED`].
pub mod ended {
    /// Wait status as `wait4` gives it.
    pub const STATUS: usize = 0;
    /// Why init ended the guest: one of the `REASON_*` numbers.
    pub const REASON: usize = 1;
    /// User time of all processes of the domain in µs.
    pub const USER_US: usize = 2;
    /// System time of all processes of the domain in µs.
    pub const SYSTEM_US: usize = 3;
    /// Largest resident set of one process in KiB.
    pub const MAX_RSS_KIB: usize = 4;
    /// Page faults without I/O.
    pub const MINOR_FAULTS: usize = 5;
    /// Page faults with I/O.
    pub const MAJOR_FAULTS: usize = 6;
    /// Blocks of 512 bytes read.
    pub const BLOCKS_IN: usize = 7;
    /// Blocks of 512 bytes written.
    pub const BLOCKS_OUT: usize = 8;
    /// Voluntary context switches.
    pub const VOLUNTARY_SWITCHES: usize = 9;
    /// Involuntary context switches.
    pub const INVOLUNTARY_SWITCHES: usize = 10;
    /// Time of the guest's end in ns of the monotonic clock.
    pub const GUEST_END_NS: usize = 11;
    /// Time when the last process of the domain was reaped, same clock.
    pub const REAPED_NS: usize = 12;
    /// Processes that still ran when the guest ended and were killed.
    pub const KILLED: usize = 13;
    /// With `REASON_UNPROTECTED`: which path of `op::GUARD` was lost.
    pub const LOST: usize = 14;
    /// How many entries of [`super::seen`] follow the record.
    pub const SEEN: usize = 15;
    /// Tries beside those, which were all different.
    pub const MORE: usize = 16;
    /// Of a guest that failed: what of the domain's own `tmpfs` was used up when it ended, `FULL_*` bits.
    pub const FULL: usize = 17;
}

/// What init saw the guest try in vain: positions in an entry, whose numbers are `u64`. Every byte of it may be the
/// guest's choice.
pub mod seen {
    /// One of the numbers below.
    pub const KIND: usize = 0;
    /// How often.
    pub const COUNT: usize = 8;
    /// What the process is called, up to a NUL.
    pub const NAME: usize = 16;
    /// Bytes of that.
    pub const NAME_BYTES: usize = 16;
    /// How many bytes follow.
    pub const LENGTH: usize = 32;
    /// Those bytes.
    pub const BYTES: usize = 40;
    /// Size of an entry.
    pub const ENTRY_BYTES: usize = 512;
    /// Most entries.
    pub const MOST: usize = 32;

    /// An execution of what lies where nothing is executed: the path.
    pub const EXECUTION: u64 = 1;
    /// connect(2) of a stream: the address, as the kernel has it.
    pub const STREAM: u64 = 2;
    /// connect(2) of what sends datagrams: the address.
    pub const DATAGRAM: u64 = 3;
    /// A datagram with an address: the address.
    pub const SENT: u64 = 4;
    /// A question to a name server: its message.
    pub const QUESTION: u64 = 5;
    /// The same, not seen: no bytes.
    pub const LOOKUP: u64 = 6;
}

/// There was no room for a byte more.
pub const FULL_ROOM: u64 = 1;
/// There was none for another file.
pub const FULL_FILES: u64 = 2;

/// The guest ended by itself.
pub const REASON_GUEST: u64 = 0;
/// The wall-clock limit was reached.
pub const REASON_TIME: u64 = 1;
/// The processor-time limit was reached.
pub const REASON_CPU_TIME: u64 = 2;
/// The supervisor asked for the end.
pub const REASON_KILLED: u64 = 3;
/// A path that mounts protect was moved, replaced or removed from outside.
pub const REASON_UNPROTECTED: u64 = 4;
/// Somebody asked for the end at the keeper's door.
pub const REASON_OPERATOR: u64 = 5;

/// Data of `SECCOMP_RET_USER_NOTIF` where a call is only looked at, and goes on whatever is seen.
pub const LOOK: u32 = 1;
/// The same where a call is told of that nobody has: `ENOSYS`, whoever answers.
pub const ABSENT: u32 = 2;
/// The same where a call is carried out inside, under Landlock rules that who calls is not under. Where nobody attends, he is
/// under them, and the call goes on.
pub const RULED: u32 = 3;

/// To whom a system-call filter leaves calls.
pub mod notifies {
    /// Nobody.
    pub const NOBODY: u32 = 0;
    /// The supervisor, who decides.
    pub const SUPERVISOR: u32 = 1;
    /// Init, who looks and lets them go on. Where the kernel has no room for that, they are not looked at.
    pub const INIT: u32 = 2;
    /// The supervisor, and no signal takes a call back that it attends to: one that is only looked at, or is carried out at once.
    pub const WATCHER: u32 = 3;
}

/// First word of a launch message.
pub const LAUNCH_MAGIC: u32 = 0x5041_4c31;
