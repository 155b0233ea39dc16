//! The launch message: its arrival and the walk through its instructions.

use super::{
    confine, guard, guest, hide,
    meeting_places::{self, MeetingPlaces},
    root::{self, InRoot},
    streams, terminal,
};
use crate::{
    During, Failure, kernel,
    message::{Reader, read_exactly},
    title::Title,
    wire,
};
use kernel::{CStr, Errno, Fd, Pool, Progress};
use wire::{Step, op};

/// Most resource limits in one message; the kernel knows 16.
const MAX_RLIMITS: usize = 16;

/// What the instructions have built so far and what is kept for the guest's process.
pub(crate) struct Setup {
    pub(crate) title: Option<Title>,
    pub(crate) root: Option<Fd>,
    /// The device of the domain's own `tmpfs`, which need not be that of its root.
    pub(crate) own_device: Option<(u32, u32)>,
    pub(crate) terminal: Option<terminal::Terminal>,
    pub(crate) terminal_replaces: u32,
    pub(crate) landlock: Option<Fd>,
    /// The rules that hold what init's child does for the guest, and processes that are started later.
    pub(crate) landlock_of_calls: Option<Fd>,
    pub(crate) seccomp: Option<&'static [u8]>,
    /// To whom the filter leaves calls: a number of `wire::notifies`.
    pub(crate) notifies: u32,
    /// Descriptors of the message that the guest finds open: first index, how many.
    pub(crate) passed: (usize, usize),
    /// Some of them are sockets for whoever finds its own pid in `LISTEN_PID`.
    pub(crate) tells_pid: bool,
    /// A `/proc` that only init has.
    pub(crate) own_proc: Option<Fd>,
    /// The domain's own `devpts`.
    pub(crate) devpts: Option<Fd>,
    /// A file of the root that the supervisor writes anew now and then.
    pub(crate) kept_file: Option<Fd>,
    /// Its user and mount namespaces, for who mounts more into it.
    pub(crate) namespaces: Option<[Fd; 2]>,
    /// Where inotify(7) tells that what a mount stands on has been moved.
    pub(crate) moves: Option<Fd>,
    pub(crate) guard: Option<guard::Guard>,
    pub(crate) meeting_places: MeetingPlaces,
    /// Where the supervisor learns of them, once the filter is loaded.
    pub(crate) listener: Option<Fd>,
    pub(crate) rlimits: Rlimits,
    pub(crate) affinity: Option<&'static [u8]>,
    pub(crate) new_keyring: bool,
    pub(crate) cwd: Option<CStr<'static>>,
    pub(crate) program: Option<Program>,
    pub(crate) time_ns: Option<u64>,
    pub(crate) cpu_time_us: Option<u64>,
    pub(crate) cpu_counter: Option<CpuCounter>,
    pub(crate) root_ns: u64,
    pub(crate) pivot_ns: u64,
    /// When the launch message had arrived.
    pub(crate) received_ns: u64,
    /// The guest's process is made before its launch message.
    pub(crate) guest_ahead: bool,
    /// The guest's process, if it was made while the root was built.
    pub(crate) guest: Option<i32>,
    /// What that process began on.
    pub(crate) stack: Option<&'static mut [u8]>,
    /// The first of the streams was opened anew; the supervisor wants to know how far it is read.
    pub(crate) input: bool,
    /// Sockets in place of streams: the supervisor's end, the guest's.
    pub(crate) pairs: [[Fd; 2]; guest::STANDARD_STREAMS],
    pub(crate) pair_count: usize,
    /// The memory of prelude and launch message. All that is 'static here lies in it.
    pub(crate) messages: Messages,
    /// Steps of the plan carried out so far, of prelude and launch message together.
    items: u32,
    fds: [Fd; wire::MAX_FDS],
    fd_count: usize,
}

/// Memory of the messages that a domain is started by.
#[derive(Default)]
pub(crate) struct Messages {
    begun: [Option<Pool>; 2],
    /// For the next, if it is no longer than that.
    room: Option<Pool>,
}

impl Messages {
    /// Room for a message of this length, and for pointers to all of its strings.
    fn begin(&mut self, length: usize) -> kernel::Result<&mut Pool> {
        /// A length and a NUL.
        const SHORTEST_STRING: usize = 5;
        /// Nulls, places in front of arguments, what is short of a pointer's alignment, and a variable.
        const MORE: usize = 16;
        let pointers = length / SHORTEST_STRING + MORE;
        let place = self.begun.iter_mut().find(|place| place.is_none());
        let place = place.ok_or(Errno::INVAL)?;
        let needed = length + pointers * size_of::<*const u8>();
        let pool = match self.room.take_if(|room| room.has(needed)) {
            Some(room) => room,
            None => Pool::new(needed)?,
        };
        Ok(place.insert(pool))
    }

    /// Has memory for a message that is still to come, as most are: who waits for it has the time.
    pub(crate) fn make_room(&mut self) -> kernel::Result<()> {
        const MOST_ARE_SHORTER: usize = 4096;
        let mut room = Pool::new(MOST_ARE_SHORTER)?;
        room.populate();
        self.room = Some(room);
        Ok(())
    }

    /// The last message's.
    pub(crate) fn last(&mut self) -> kernel::Result<&mut Pool> {
        let pools = self.begun.iter_mut().rev();
        pools.flatten().next().ok_or(Errno::INVAL)
    }

    /// Takes over a message that has come already.
    fn copy(&mut self, message: &[u8]) -> kernel::Result<Reader> {
        match message {
            [] => Ok(Reader::new(&[])),
            _ => Ok(Reader::new(self.begin(message.len())?.keep(message)?)),
        }
    }
}

impl Setup {
    /// One that a prelude goes before, whose bytes are somebody else's.
    pub(crate) fn after(prelude: &[u8]) -> kernel::Result<(Self, Reader)> {
        let mut setup = Self::default();
        let prelude = setup.messages.copy(prelude)?;
        Ok((setup, prelude))
    }

    /// Gives the memory of its messages back.
    ///
    /// # Safety
    ///
    /// What was taken from it must have been copied.
    pub(crate) unsafe fn release(self) {
        if let Some(stack) = self.stack {
            kernel::release(stack);
        }
        let Messages { begun, room } = self.messages;
        for pool in begun.into_iter().chain([room]).flatten() {
            // SAFETY: what this value has of it goes with it, and the rest is the caller's promise.
            unsafe { pool.release() };
        }
    }
}

/// Resource limits: which, soft, hard.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rlimits {
    all: [(u32, u64, u64); MAX_RLIMITS],
    count: usize,
}

impl Rlimits {
    fn push(&mut self, limit: (u32, u64, u64)) -> kernel::Result<()> {
        *self.all.get_mut(self.count).ok_or(Errno::INVAL)? = limit;
        self.count += 1;
        Ok(())
    }

    pub(crate) fn all(&self) -> &[(u32, u64, u64)] {
        &self.all[..self.count]
    }
}

/// A file of a control group that counts the domain's processor time.
#[derive(Clone, Copy)]
pub(crate) struct CpuCounter {
    pub(crate) file: Fd,
    pub(crate) unit_ns: u64,
}

/// What to execute: candidates in order, arguments, environment.
pub(crate) struct Program {
    pub(crate) candidates: Reader,
    pub(crate) candidate_count: u32,
    /// Pointers to the arguments, a null behind them, and room for two more in front.
    pub(crate) arguments: &'static mut [*const u8],
    pub(crate) environment: &'static mut [*const u8],
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            title: None,
            root: None,
            own_device: None,
            terminal: None,
            terminal_replaces: 0,
            landlock: None,
            landlock_of_calls: None,
            seccomp: None,
            notifies: wire::notifies::NOBODY,
            stack: None,
            passed: (0, 0),
            tells_pid: false,
            own_proc: None,
            devpts: None,
            kept_file: None,
            namespaces: None,
            moves: None,
            guard: None,
            meeting_places: MeetingPlaces::default(),
            listener: None,
            rlimits: Rlimits::default(),
            affinity: None,
            new_keyring: false,
            cwd: None,
            program: None,
            time_ns: None,
            cpu_time_us: None,
            cpu_counter: None,
            root_ns: 0,
            pivot_ns: 0,
            received_ns: 0,
            guest_ahead: false,
            guest: None,
            input: false,
            pairs: [[-1; 2]; guest::STANDARD_STREAMS],
            pair_count: 0,
            messages: Messages::default(),
            items: 0,
            fds: [-1; wire::MAX_FDS],
            fd_count: 0,
        }
    }
}

impl Setup {
    /// Loading the filter makes a listener.
    pub(crate) fn has_listener(&self) -> bool {
        self.seccomp.is_some() && self.notifies != wire::notifies::NOBODY
    }

    /// Descriptors that came with the message: the guest's 0, 1 and 2 first.
    pub(crate) fn fds(&self) -> &[Fd] {
        &self.fds[..self.fd_count]
    }

    /// Puts another descriptor in the place of one.
    pub(crate) fn replace(&mut self, index: usize, fd: Fd) -> kernel::Result<()> {
        let place = self.fds[..self.fd_count].get_mut(index);
        kernel::close(core::mem::replace(place.ok_or(Errno::INVAL)?, fd));
        Ok(())
    }

    /// The same, once.
    pub(crate) fn take_fds(&mut self) -> &[Fd] {
        let count = core::mem::take(&mut self.fd_count);
        &self.fds[..count]
    }
}

/// Waits for the one launch message of this domain, keeps the descriptors that come with it and
/// carries it out.
pub(crate) fn obey(socket: Fd, setup: &mut Setup) -> Result<(), Failure> {
    let message = receive(socket, setup)?;
    setup.received_ns = kernel::monotonic_ns();
    perform(message, setup)
}

pub(crate) fn receive(socket: Fd, setup: &mut Setup) -> Result<Reader, Failure> {
    let mut header = [0u8; 12];
    let (length, fd_count) =
        kernel::receive(socket, &mut header, &mut setup.fds).during(Step::ReceiveLaunch, 0)?;
    if length == 0 {
        // The supervisor let the parked domain go.
        crate::exit(0)
    }
    setup.fd_count = fd_count;
    let [magic, body_length, announced_fds] = [0, 4, 8].map(|at| header_word(&header, at));
    if length != header.len()
        || magic != wire::LAUNCH_MAGIC
        || announced_fds as usize != fd_count
        || body_length == 0
    {
        return Err(Failure {
            step: Step::DecodeLaunch,
            item: 1,
            errno: Errno::INVAL,
        });
    }
    let length = body_length as usize;
    let pool = setup.messages.begin(length);
    let body = pool.and_then(|pool| pool.take(length));
    let body = body.during(Step::ReceiveLaunch, 1)?;
    read_exactly(socket, body).during(Step::ReceiveLaunch, 2)?;
    Ok(Reader::new(body))
}

fn header_word(header: &[u8; 12], at: usize) -> u32 {
    u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// Carries out every instruction, in the order of the message.
pub(crate) fn perform(reader: Reader, setup: &mut Setup) -> Result<(), Failure> {
    perform_beside(reader, setup, None)
}

/// The same beside a process that makes a part of the root.
fn perform_beside(
    mut reader: Reader,
    setup: &mut Setup,
    helper: Option<&Progress>,
) -> Result<(), Failure> {
    // Modes in the message are meant as written.
    kernel::clear_umask();
    while !reader.is_empty() {
        let item = setup.items;
        let operation = reader.u32().during(Step::DecodeLaunch, item)?;
        match operation {
            op::ITEM => setup.items = reader.u32().during(Step::DecodeLaunch, item)?,
            op::GUEST_BESIDE => {
                let part = reader.bytes().during(Step::DecodeLaunch, item)?;
                let part = (Reader::new(part), root::root_of(setup, item)?);
                let pid = guest::start_beside(setup, part, |setup, helper| {
                    perform_beside(reader, setup, Some(helper))
                })?;
                setup.guest = Some(pid);
                return Ok(());
            }
            op::PART_MADE => {
                // Where it is not, that process has told why, or was killed: nothing goes on in half a root.
                let is_made = helper.is_none_or(Progress::wait_until_made);
                let made = is_made.then_some(()).ok_or(Errno::CHILD);
                made.during(Step::CloneGuest, 5)?;
            }
            _ => {
                setup.items += u32::from(operation != op::REOPEN && operation != op::NAMESPACES);
                perform_one(operation, &mut reader, setup, item)?;
            }
        }
    }
    Ok(())
}

fn perform_one(
    operation: u32,
    reader: &mut Reader,
    setup: &mut Setup,
    item: u32,
) -> Result<(), Failure> {
    match operation {
        op::ROOT => root::make(reader, setup, item),
        op::MAKE_DIR => root::make_dir(reader, &mut InRoot::of(setup, item)?, item),
        op::SYMLINK => root::symlink(reader, &mut InRoot::of(setup, item)?, item),
        op::FILE => root::write_file(reader, &mut InRoot::of(setup, item)?, item).map(drop),
        op::KEPT_FILE => root::keep_file(reader, setup, item),
        op::BIND => root::bind(reader, &mut InRoot::of(setup, item)?, item),
        op::ATTACH => root::attach(reader, setup, item),
        op::REMOUNT => root::remount(reader, &mut InRoot::of(setup, item)?, item),
        op::REOPEN => streams::reopen(reader, setup, item),
        op::NAMESPACES => root::open_namespaces(setup, item),
        op::PAIR => streams::pair(reader, setup, item),
        op::PROC => root::mount_proc(reader, setup, item),
        op::OWN_PROC => root::open_proc(setup, item),
        op::DEVPTS => root::mount_devpts(reader, setup, item),
        op::SHOW => root::show(reader, setup, item),
        op::PIVOT => root::pivot(reader, setup, item),
        op::MEETING_PLACES => meeting_places::look_up(reader, setup, item),
        op::HIDE => hide::hide(reader, setup, item),
        op::COVER => hide::cover(reader, setup, item),
        op::WATCH => guard::watch(reader, setup, item),
        op::GUARD => guard::begin(reader, setup, item),
        op::HOST_NAME => {
            let name = reader.bytes().during(Step::DecodeLaunch, item)?;
            kernel::set_host_name(name).during(Step::HostName, item)
        }
        op::TERMINAL => terminal::open(reader, setup, item),
        op::JOIN => join_cgroup(reader, setup, item),
        op::CPU_COUNTER => keep_counter(reader, setup).during(Step::DecodeLaunch, item),
        op::LANDLOCK => confine::prepare_landlock(reader, setup, item),
        op::LANDLOCK_OF_GUEST => confine::prepare_guests_landlock(reader, setup, item),
        _ => keep(operation, reader, setup).during(Step::DecodeLaunch, item),
    }
}

/// A single-threaded process that moves itself does not wait for an RCU grace period (Linux commit
/// 9a3284fad42f); the permission is that of the supervisor, who opened the file.
fn join_cgroup(reader: &mut Reader, setup: &Setup, item: u32) -> Result<(), Failure> {
    let index = reader.u32().during(Step::DecodeLaunch, item)?;
    let tasks = *setup
        .fds()
        .get(index as usize)
        .ok_or(Errno::INVAL)
        .during(Step::DecodeLaunch, item)?;
    kernel::write(tasks, b"0")
        .during(Step::JoinCgroup, item)
        .map(drop)
}

fn keep_counter(reader: &mut Reader, setup: &mut Setup) -> kernel::Result<()> {
    let index = reader.u32()?;
    let file = *setup.fds().get(index as usize).ok_or(Errno::INVAL)?;
    let unit_ns = u64::from(reader.u32()?);
    setup.cpu_counter = Some(CpuCounter { file, unit_ns });
    Ok(())
}

/// Instructions for later: limits, and what the guest's own process does to itself.
fn keep(operation: u32, reader: &mut Reader, setup: &mut Setup) -> kernel::Result<()> {
    match operation {
        op::SECCOMP => {
            setup.seccomp = Some(reader.bytes()?);
            setup.notifies = reader.u32()?;
        }
        op::RLIMIT => {
            let limit = (reader.u32()?, reader.u64()?, reader.u64()?);
            setup.rlimits.push(limit)?;
        }
        op::AFFINITY => setup.affinity = Some(reader.bytes()?),
        op::KEYRING => setup.new_keyring = true,
        op::CWD => setup.cwd = Some(reader.text()?),
        op::TITLE => {
            let text = reader.bytes()?;
            if let Some(title) = setup.title {
                title.set(text);
            }
        }
        op::TIME => setup.time_ns = Some(reader.u64()?),
        op::CPU_TIME => setup.cpu_time_us = Some(reader.u64()?),
        op::PASSED => {
            setup.passed = (reader.u32()? as usize, reader.u32()? as usize);
            setup.tells_pid = reader.u32()? != 0;
        }
        op::GUEST_AHEAD => setup.guest_ahead = true,
        op::EXEC => setup.program = Some(program(reader, setup.messages.last()?)?),
        _ => return Err(Errno::NOSYS),
    }
    Ok(())
}

/// What to execute; pointers to it lie in `pool`.
pub(crate) fn program(reader: &mut Reader, pool: &mut Pool) -> kernel::Result<Program> {
    let candidate_count = reader.u32()?;
    let candidates = *reader;
    for _ in 0..candidate_count {
        reader.text()?;
    }
    // Two places in front: a file without an interpreter line is given to the shell.
    let arguments = pointers(reader, pool, 2)?;
    let environment = pointers(reader, pool, 0)?;
    Ok(Program {
        candidates,
        candidate_count,
        arguments,
        environment,
    })
}

/// An array of string pointers that ends with null, with `spare` unused places in front.
fn pointers(
    reader: &mut Reader,
    pool: &mut Pool,
    spare: usize,
) -> kernel::Result<&'static mut [*const u8]> {
    let count = reader.u32()? as usize;
    if count > reader.remaining() {
        return Err(Errno::INVAL);
    }
    let pointers = pool.take_pointers(spare + count + 1)?;
    for pointer in &mut pointers[spare..spare + count] {
        *pointer = reader.text()?.pointer();
    }
    Ok(pointers)
}
