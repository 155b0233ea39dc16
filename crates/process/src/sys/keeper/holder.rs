//! Mounts more of the host's files into a domain while it runs (`palisade grant`).
//!
//! Whoever stands behind a new root has no way back to the host's files, and keeper and supervisor give up theirs once a guest runs.
//! So a domain that may be granted more has this process, which does nothing else:
//!
//! ```text
//! host's mounts, or a copy ── open_tree(2) ──▶ a mount that lies nowhere ── setns(2), move_mount(2) ──▶ domain's mounts
//! ```
//!
//! An ordinary user may do that in the domain's user namespace alone, which it therefore enters, and no other of the domain's for
//! longer than one request: the guest neither sees nor signals it. It hears its supervisor only, and what the paths of a
//! request lead to is compared with what the supervisor found there, as at the start of a domain. It ends with its supervisor's end
//! of the socket.

use crate::{
    CONTROL, During, Failure, failed,
    init::root::{RESOLVE_HOST, is_file, open_in},
    kernel, namespace, privileges, record_bytes, record_from, send_record,
    text::Text,
    wire::{self, hold},
};
use kernel::{CStr, Errno, Fd, MountAttr, PollFd, Result, c};
use wire::{Record, Step};

/// Longest request: a record and two paths; or a filter.
const MESSAGE_BYTES: usize = wire::RECORD_BYTES + 16 * 1024;

/// What one request mounted: no name of it is the guest's to choose.
#[derive(Clone, Copy)]
struct Held {
    number: u64,
    mount: Fd,
}

/// Forks the holder. Descriptors: its socket, the domain's user and mount namespaces. Gives its pid.
pub(crate) fn begin(request: &Record, fds: &[Fd]) -> Option<i32> {
    let [socket, user, mounts] = *fds else {
        return None;
    };
    let enters = request.words[0] != 0;
    match kernel::fork(0, None).during(Step::Clone, 5) {
        Ok(Some((pid, pidfd))) => {
            kernel::close(pidfd);
            Some(pid)
        }
        Ok(None) => run(socket, enters.then_some(user), mounts),
        Err(failure) => {
            send_record(socket, &failed(wire::KEEPER_FAILED, &failure), &[]);
            None
        }
    }
}

fn run(socket: Fd, user: Option<Fd>, mounts: Fd) -> ! {
    match Holder::settle(socket, user, mounts) {
        Ok(mut holder) => loop {
            holder.answer();
        },
        Err(failure) => {
            send_record(socket, &failed(wire::KEEPER_FAILED, &failure), &[]);
            crate::exit(125)
        }
    }
}

struct Holder {
    /// To the supervisor.
    socket: Fd,
    buffer: &'static mut [u8],
    /// Bytes of the last message.
    length: usize,
    /// Its own mounts, which are the host's, and the domain's.
    own: Fd,
    domain: Fd,
    /// Its own descriptors by their numbers, proc_pid_fd(5): a mount that is open is found so, wherever it lies.
    descriptors: Fd,
    held: [Option<Held>; hold::MOST_HELD],
}

impl Holder {
    fn settle(socket: Fd, user: Option<Fd>, domain: Fd) -> core::result::Result<Self, Failure> {
        if let Some(user) = user {
            kernel::enter_namespace(user, kernel::CLONE_NEWUSER).during(Step::Enter, 2)?;
            kernel::own_mounts().during(Step::Enter, 3)?;
        }
        let own =
            kernel::open(kernel::AT_FDCWD, c!("/proc/self/ns/mnt"), 0, 0).during(Step::Enter, 1)?;
        // After the user namespace, whose change takes it back.
        kernel::prctl(privileges::SET_PARENT_DEATH_SIGNAL, kernel::SIGKILL as u64)
            .during(Step::Clone, 4)?;
        let flags = kernel::O_PATH | kernel::O_DIRECTORY;
        let descriptors = kernel::open(kernel::AT_FDCWD, c!("/proc/self/fd"), flags, 0)
            .during(Step::Redirect, 5)?;
        // Those that make maps are not waited for.
        kernel::ignore(kernel::SIGCHLD);
        keep_open([socket, domain, own, descriptors]).during(Step::Redirect, 6)?;
        let mut holder = Self {
            socket,
            length: 0,
            buffer: kernel::allocate(MESSAGE_BYTES).during(Step::Clone, 5)?,
            own,
            domain,
            descriptors,
            held: [None; hold::MOST_HELD],
        };
        let begin = holder.receive();
        if begin.kind != wire::MAKER_BEGIN {
            crate::exit(125)
        }
        privileges::give_up(None, holder.rest()).during(Step::Seccomp, 1)?;
        Ok(holder)
    }

    /// The next message; leaves with the supervisor.
    fn receive(&mut self) -> Record {
        let mut fds = [-1; wire::MAX_FDS];
        let Ok((length @ 1.., 0)) = kernel::receive(self.socket, self.buffer, &mut fds) else {
            crate::exit(0)
        };
        self.length = length;
        match record_from(&self.buffer[..length]) {
            Some(record) => record,
            None => crate::exit(125),
        }
    }

    /// What follows its record.
    fn rest(&self) -> &[u8] {
        &self.buffer[wire::RECORD_BYTES..self.length]
    }

    fn answer(&mut self) {
        let request = self.receive();
        let outcome = match request.kind {
            wire::HOLD => self.hold(&request),
            wire::RELEASE => self.release(request.words[0]),
            wire::IS_FREE => self.look(),
            _ => Err(Errno::NOSYS).during(Step::Unknown, 0),
        };
        let answer = match &outcome {
            Ok(()) => Record {
                kind: wire::HELD,
                ..Record::default()
            },
            Err(failure) => failed(wire::KEEPER_FAILED, failure),
        };
        if kernel::send(self.socket, record_bytes(&answer), &[]).is_err() {
            // Nobody knows that it was done.
            if outcome.is_ok() && request.kind == wire::HOLD {
                let _ = self.release(request.words[hold::NUMBER]);
            }
            crate::exit(0)
        }
    }

    /// Mounts what the request names.
    fn hold(&mut self, request: &Record) -> core::result::Result<(), Failure> {
        let place = self.held.iter().position(Option::is_none);
        let place = place.ok_or(Errno::NOSPC).during(Step::AttachMount, 0)?;
        let (source, target) = paths_of(request, self.rest()).during(Step::DecodeLaunch, 0)?;
        let mount = clone(request, source)?;
        let attached = self.inside(|| attach(request, mount, target, self.socket));
        attached.inspect_err(|_| kernel::close(mount))?;
        self.held[place] = Some(Held {
            number: request.words[hold::NUMBER],
            mount,
        });
        Ok(())
    }

    /// Whether nothing lies at a path inside.
    fn look(&self) -> core::result::Result<(), Failure> {
        let path = CStr::new(self.rest()).filter(|path| path.is_absolute());
        let path = path.ok_or(Errno::INVAL).during(Step::DecodeLaunch, 0)?;
        let found = self.inside(|| {
            let root = open_root().during(Step::OpenTarget, 0)?;
            let found = open_in(root, path);
            kernel::close(root);
            Ok(found)
        })?;
        match found {
            Err(errno) if errno == Errno::NOENT => Ok(()),
            Err(errno) => Err(errno).during(Step::OpenTarget, 1),
            Ok(place) => {
                kernel::close(place);
                Err(Errno::EXIST).during(Step::OpenTarget, 2)
            }
        }
    }

    /// Takes a mount away again.
    fn release(&mut self, number: u64) -> core::result::Result<(), Failure> {
        let is_it = |held: &Option<Held>| held.is_some_and(|held| held.number == number);
        let place = self.held.iter().position(is_it);
        let place = place.ok_or(Errno::NOENT).during(Step::OpenTarget, 1)?;
        let Some(Held { mount, .. }) = self.held[place] else {
            return Ok(());
        };
        let detached = self.inside(|| {
            close_to_changes(mount);
            detach(self.descriptors, mount).during(Step::DetachOldRoot, 1)
        });
        detached?;
        kernel::close(mount);
        self.held[place] = None;
        Ok(())
    }

    /// Does something among the domain's mounts.
    fn inside<T>(
        &self,
        act: impl FnOnce() -> core::result::Result<T, Failure>,
    ) -> core::result::Result<T, Failure> {
        kernel::enter_namespace(self.domain, kernel::CLONE_NEWNS).during(Step::Enter, 4)?;
        let outcome = act();
        match kernel::enter_namespace(self.own, kernel::CLONE_NEWNS) {
            Ok(()) => outcome,
            // It must not stay there.
            Err(_) => crate::exit(125),
        }
    }
}

/// Closes everything but these.
fn keep_open(mut kept: [Fd; 4]) -> Result<()> {
    const AFTER_STREAMS: Fd = crate::NOTHING + 1;
    kept.sort_unstable();
    let mut first = AFTER_STREAMS;
    for fd in kept {
        if fd > first {
            kernel::close_range(first, fd - 1)?;
        }
        first = fd + 1;
    }
    kernel::close_range(first, Fd::MAX)?;
    kernel::duplicate_to(crate::NOTHING, CONTROL)?;
    kernel::duplicate_to(crate::NOTHING, crate::SUPERVISOR)
}

/// Source and target.
fn paths_of<'a>(request: &Record, paths: &'a [u8]) -> Result<(CStr<'a>, CStr<'a>)> {
    let source_bytes = request.words[hold::SOURCE_BYTES] as usize;
    let (source, rest) = paths.split_at_checked(source_bytes).ok_or(Errno::INVAL)?;
    let end = rest.iter().position(|byte| *byte == 0);
    let target = end.and_then(|end| CStr::new(&rest[..=end]));
    let source = CStr::new(source).filter(|source| source.is_absolute());
    source
        .zip(target.filter(|target| target.is_absolute()))
        .ok_or(Errno::INVAL)
}

/// A mount of the host's file or folder that lies nowhere yet, if that is the one that was meant.
fn clone(request: &Record, source: CStr) -> core::result::Result<Fd, Failure> {
    let [major, minor, inode] = [0, 1, 2].map(|at| request.words[hold::IDENTITY + at]);
    let file = kernel::open_resolved(kernel::AT_FDCWD, source, kernel::O_PATH, RESOLVE_HOST)
        .during(Step::OpenSource, 0)?;
    let device = (major as u32, minor as u32);
    let is_meant = is_file(file, device, inode).during(Step::OpenSource, 1);
    let mount = match is_meant {
        Ok(true) => kernel::open_tree(file, kernel::AT_RECURSIVE).during(Step::CloneMount, 0),
        Ok(false) => Err(Errno::ACCESS).during(Step::SourceChanged, 0),
        Err(failure) => Err(failure),
    };
    kernel::close(file);
    let mount = mount?;
    restrict(request, mount).inspect_err(|_| kernel::close(mount))?;
    Ok(mount)
}

fn restrict(request: &Record, mount: Fd) -> core::result::Result<(), Failure> {
    let wanted = |map: Option<Fd>| MountAttr {
        attr_set: request.words[hold::ATTRIBUTES] | map.map_or(0, |_| kernel::MOUNT_ATTR_IDMAP),
        attr_clr: 0,
        propagation: kernel::MS_PRIVATE,
        userns_fd: map.unwrap_or(0) as u64,
    };
    let set = |map| kernel::set_mount_attributes(mount, kernel::AT_RECURSIVE, &wanted(map));
    let how = request.words[hold::MAP];
    if how == hold::MAP_NONE {
        return set(None).during(Step::SetMountAttributes, 0);
    }
    let [uid, gid] = [0, 1].map(|at| request.words[hold::OWNER + at]);
    let map = namespace::make_map([uid, gid], request.words[hold::HOST_UID])?.finish();
    let outcome = match set(Some(map)) {
        Err(_) if how == hold::MAP_IF_POSSIBLE => set(None).during(Step::SetMountAttributes, 0),
        outcome => outcome.during(Step::SetMountAttributes, 1),
    };
    kernel::close(map);
    outcome
}

/// Puts a mount at its place, among the domain's, unless whoever asked for it has given it up.
fn attach(
    request: &Record,
    mount: Fd,
    target: CStr,
    socket: Fd,
) -> core::result::Result<(), Failure> {
    let root = open_root().during(Step::OpenTarget, 0)?;
    let placed = match open_in(root, target) {
        Err(errno) if errno == Errno::NOENT && request.words[hold::MAKE] != hold::MAKE_NOTHING => {
            make(request, root, target)
                .and_then(|()| open_in(root, target).during(Step::OpenTarget, 2))
        }
        found => found.during(Step::OpenTarget, 1),
    };
    kernel::close(root);
    let place = placed?;
    let moved = match is_given_up(socket) {
        true => Err(Errno::PIPE).during(Step::AttachMount, 2),
        false => cover(request, place)
            .and_then(|()| kernel::move_mount(mount, place).during(Step::AttachMount, 1)),
    };
    kernel::close(place);
    moved
}

/// What is written is not executed, neither by what is open of a mount that lies there already.
fn cover(request: &Record, place: Fd) -> core::result::Result<(), Failure> {
    let wanted = request.words[hold::ATTRIBUTES] & kernel::MOUNT_ATTR_NOEXEC;
    let about = kernel::statx_fd(place).during(Step::OpenTarget, 3)?;
    let is_mount = about.attributes & kernel::STATX_ATTR_MOUNT_ROOT != 0;
    match wanted != 0 && is_mount {
        true => set(place, wanted).during(Step::SetMountAttributes, 2),
        false => Ok(()),
    }
}

/// Where somebody holds it open for writing, that one goes on.
fn close_to_changes(mount: Fd) {
    let _ = set(mount, kernel::MOUNT_ATTR_NOEXEC);
    let _ = set(mount, kernel::MOUNT_ATTR_RDONLY);
}

fn set(mount: Fd, attributes: u64) -> Result<()> {
    let wanted = MountAttr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    kernel::set_mount_attributes(mount, kernel::AT_RECURSIVE, &wanted)
}

/// Whether nobody waits for the answer.
fn is_given_up(socket: Fd) -> bool {
    let mut waits = [PollFd {
        fd: socket,
        events: 0,
        revents: 0,
    }];
    let _ = kernel::poll(&mut waits, Some(0));
    waits[0].revents & kernel::POLLHUP != 0
}

fn open_root() -> Result<Fd> {
    let flags = kernel::O_PATH | kernel::O_DIRECTORY;
    kernel::open(kernel::AT_FDCWD, c!("/"), flags, 0)
}

/// Takes away a mount that is open, and before it what lies on it: the kernel finds that first. The guest may have moved it there.
fn detach(descriptors: Fd, mount: Fd) -> Result<()> {
    let mut name = Text::default();
    name.number(mount as u64).text(b"\0");
    let name = CStr::new(name.bytes()).ok_or(Errno::INVAL)?;
    kernel::change_directory_fd(descriptors)?;
    let mut detached = Ok(());
    for _ in 0..=hold::MOST_HELD {
        // It has this one always, and is told so as long as it is the domain's.
        if set(mount, kernel::MOUNT_ATTR_NOSUID).is_err() {
            break;
        }
        detached = kernel::detach(name);
        if detached.is_err() {
            break;
        }
    }
    kernel::change_directory(c!("/"))?;
    detached
}

/// Makes a place to mount on, and what leads there, in the domain's own root. That is mounted for reading: a second mount of it,
/// which lies nowhere, is not.
fn make(request: &Record, root: Fd, target: CStr) -> core::result::Result<(), Failure> {
    let tree = kernel::open_tree(root, 0).during(Step::CloneMount, 1)?;
    let writable = MountAttr {
        attr_set: 0,
        attr_clr: kernel::MOUNT_ATTR_RDONLY,
        propagation: 0,
        userns_fd: 0,
    };
    let opened = kernel::set_mount_attributes(tree, 0, &writable).during(Step::SealRoot, 1);
    let made = opened.and_then(|()| {
        let owner = request.words[hold::HOST_UID] as u32;
        // Nobody else's files fit into it.
        let is_another = owner != 0;
        if is_another {
            kernel::set_file_ids(owner, owner);
        }
        let made = make_below(tree, target, request.words[hold::MAKE]).during(Step::MakeDir, 0);
        if is_another {
            kernel::set_file_ids(0, 0);
        }
        made
    });
    kernel::close(tree);
    made
}

fn make_below(tree: Fd, target: CStr, what: u64) -> Result<()> {
    /// With its NUL.
    const NAME_BYTES: usize = 256;
    const FILE: u32 = 0o444;
    const FOLDER: u32 = 0o755;
    let flags = kernel::O_PATH | kernel::O_DIRECTORY | kernel::O_NOFOLLOW;
    let mut names = target.names().peekable();
    let mut folder = kernel::open(tree, c!("."), flags, 0)?;
    let mut outcome = Ok(());
    while let (Some(name), Ok(())) = (names.next(), outcome) {
        let mut bytes = [0; NAME_BYTES];
        let text = bytes.get_mut(..name.len()).map(|place| {
            place.copy_from_slice(name);
            name.len()
        });
        let text = text.and_then(|length| CStr::new(bytes.get(..=length)?));
        let Some(text) = text.filter(|_| name != b"..") else {
            outcome = Err(Errno::INVAL);
            break;
        };
        if names.peek().is_none() && what == hold::MAKE_FILE {
            let flags = kernel::O_WRONLY | kernel::O_CREAT | kernel::O_EXCL | kernel::O_NOFOLLOW;
            outcome = kernel::open(folder, text, flags, FILE).map(kernel::close);
            break;
        }
        outcome = match kernel::make_dir(folder, text, FOLDER) {
            Err(errno) if errno != Errno::EXIST => Err(errno),
            _ => kernel::open(folder, text, flags, 0).map(|next| {
                kernel::close(folder);
                folder = next;
            }),
        };
    }
    kernel::close(folder);
    outcome
}
