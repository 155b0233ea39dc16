//! The keeper's own loop: parks domains, remembers what to clean, reaps.

mod order;

use crate::{
    CONTROL, During, Failure, SUPERVISOR,
    clean::List,
    door, failed, holder,
    init::{self, launch},
    kernel, maker, namespace, privileges,
    quotas::Quotas,
    record_from, send_record,
    title::Title,
    wire,
};
use kernel::{Errno, Fd, PollFd, Result};
use order::Order;
use wire::{Record, Step};

/// Largest control message: a record and a prelude, or names to remember.
const MESSAGE_BYTES: usize = 64 * 1024;

/// A domain whose init has not been reaped (`pid` above zero), or a list of what to remove should the
/// supervisor die.
#[derive(Clone, Copy)]
struct Entry {
    pid: i32,
    /// When it was made, in ns of the monotonic clock.
    made_ns: u64,
    /// Its init ends the domain by itself when the supervisor is gone.
    bare: bool,
    /// By which init hears what is asked for at the door.
    gate: Option<Fd>,
    /// Its mount namespace. Whoever holds it last waits for an RCU grace period (`namespace_unlock` in
    /// fs/namespace.c): with this that is the keeper, and the domain's end is told before.
    mounts: Option<Fd>,
    clean: Option<List>,
    /// The domain that is to be made when this one has ended.
    next: Option<Order>,
}

impl Entry {
    fn of(pid: i32) -> Self {
        Self {
            pid,
            made_ns: 0,
            bare: false,
            gate: None,
            mounts: None,
            clean: None,
            next: None,
        }
    }
}

/// The domains of this keeper, in memory that grows by doubling.
struct Table {
    memory: &'static mut [u8],
    length: usize,
    /// What each domain may have of its starter's.
    quotas: Quotas,
    title: Title,
    /// There are children that are no domain's init.
    has_helpers: bool,
}

impl Table {
    fn new(title: Title) -> Result<Self> {
        Ok(Self {
            memory: kernel::allocate(4096)?,
            length: 0,
            quotas: Quotas::half_of_own(),
            title,
            has_helpers: false,
        })
    }

    fn entries(&mut self) -> &mut [Entry] {
        // SAFETY: the mapping is aligned to a page and its first `length` entries were written by `push`.
        unsafe {
            core::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast::<Entry>(), self.length)
        }
    }

    fn push(&mut self, entry: Entry) -> Result<()> {
        if (self.length + 1) * size_of::<Entry>() > self.memory.len() {
            self.grow()?;
        }
        // SAFETY: there is room for one more entry behind the last, just checked.
        unsafe {
            self.memory
                .as_mut_ptr()
                .cast::<Entry>()
                .add(self.length)
                .write(entry);
        };
        self.length += 1;
        Ok(())
    }

    fn grow(&mut self) -> Result<()> {
        let larger = kernel::allocate(self.memory.len() * 2)?;
        larger[..self.memory.len()].copy_from_slice(self.memory);
        kernel::release(core::mem::replace(&mut self.memory, larger));
        Ok(())
    }

    /// Forgets all of them, for a child that is no keeper.
    fn empty(&mut self) {
        for order in self
            .entries()
            .iter_mut()
            .filter_map(|entry| entry.next.take())
        {
            order.release();
        }
        self.length = 0;
        kernel::empty(self.memory);
    }

    /// The domain after which another one is asked for, if it has not been reaped.
    fn running(&mut self, request: &Record) -> Option<&mut Entry> {
        let (pid, made_ns) = (
            request.words[wire::PARK_AFTER] as i32,
            request.words[wire::PARK_AFTER_MADE],
        );
        // The number of one that was reaped may be another one's by now.
        let is_it = |entry: &&mut Entry| entry.pid == pid && entry.made_ns == made_ns;
        self.entries()
            .iter_mut()
            .find(|entry| entry.pid > 0 && is_it(entry))
    }

    fn position(&mut self, pid: i32) -> Option<usize> {
        self.entries().iter().position(|entry| entry.pid == pid)
    }

    /// By which the init with this pid hears what is asked for.
    fn gate(&mut self, pid: i32) -> Option<Fd> {
        let mut domains = self.entries().iter().filter(|entry| entry.pid > 0);
        domains.find(|entry| entry.pid == pid)?.gate
    }

    /// Takes an entry out, or all lists of this number; what it remembered goes with it.
    fn forget(&mut self, pid: i32) {
        while let Some(position) = self.position(pid) {
            let entry = &mut self.entries()[position];
            if let Some(list) = entry.clean.take() {
                list.release();
            }
            if let Some(order) = entry.next.take() {
                order.release();
            }
            for fd in [entry.gate.take(), entry.mounts.take()]
                .into_iter()
                .flatten()
            {
                kernel::close(fd);
            }
            let last = self.length - 1;
            self.entries().swap(position, last);
            self.length = last;
        }
    }
}

/// Serves the supervisor until it is gone, then ends and cleans everything.
pub(crate) fn serve(title: Title) -> ! {
    let (Ok(mut table), Ok(buffer), Ok(children), Ok(door)) = (
        Table::new(title),
        kernel::allocate(MESSAGE_BYTES),
        kernel::signalfd(1 << (kernel::SIGCHLD - 1)),
        door::open(),
    ) else {
        crate::exit(125)
    };
    loop {
        let mut fds = [CONTROL, SUPERVISOR, children, door].map(|fd| PollFd {
            fd,
            events: kernel::POLLIN,
            revents: 0,
        });
        let _ = kernel::poll(&mut fds, None);
        if fds[2].revents != 0 {
            reap(&mut table, children, buffer);
        }
        if fds[3].revents != 0 {
            door::answer(door, |pid| table.gate(pid));
        }
        if fds[1].revents != 0 || (fds[0].revents != 0 && !answer(&mut table, buffer)) {
            end_everything(&mut table);
        }
    }
}

/// Reads and answers one request; `false` when the supervisor has closed its end.
fn answer(table: &mut Table, buffer: &mut [u8]) -> bool {
    let mut fds = [-1; wire::MAX_FDS];
    let (length, fd_count) = match kernel::receive(CONTROL, buffer, &mut fds) {
        Ok((0, _)) => return false,
        Ok(received) => received,
        Err(errno) => return errno == Errno::INTR,
    };
    let Some(request) = record_from(&buffer[..length]) else {
        return false;
    };
    let mut fds = &fds[..fd_count];
    let outcome = match request.kind {
        wire::KEEPER_PARK => {
            match table.running(&request) {
                Some(entry) => {
                    // The socket is the order's from here on.
                    keep_order(entry, &buffer[..length], fds);
                    fds = &[];
                }
                None => park(table, &request, fds, (buffer, length)),
            }
            Ok(())
        }
        wire::KEEPER_MAKER => {
            table.has_helpers = true;
            maker::begin(&request, fds);
            Ok(())
        }
        wire::KEEPER_HOLDER => {
            if let Some(pid) = holder::begin(&request, fds) {
                table.has_helpers = true;
                // It ends with the domains.
                let _ = table.push(Entry::of(pid));
            }
            Ok(())
        }
        wire::KEEPER_MAP_IDS => map_ids(&request),
        wire::KEEPER_REMEMBER => {
            let remembered = remember(table, &request, fds, &buffer[wire::RECORD_BYTES..length]);
            if remembered.is_ok() {
                // The list's from here on.
                fds = &[];
            }
            remembered
        }
        wire::KEEPER_FORGET => {
            table.forget(not_a_process(&request));
            Ok(())
        }
        wire::KEEPER_LEAVE => {
            leave(table);
            Ok(())
        }
        wire::KEEPER_CONFINE => {
            let program = &buffer[wire::RECORD_BYTES..length];
            if privileges::give_up(fds.first().copied(), program).is_err() {
                return false;
            }
            Ok(())
        }
        _ => return false,
    };
    for fd in fds {
        kernel::close(*fd);
    }
    if let Err(failure) = outcome {
        send_record(CONTROL, &failed(wire::KEEPER_FAILED, &failure), &[]);
    }
    true
}

fn namespaces(flags: u64) -> u64 {
    if flags & wire::PARK_BARE != 0 {
        return 0;
    }
    let always = kernel::CLONE_NEWUSER
        | kernel::CLONE_NEWNS
        | kernel::CLONE_NEWPID
        | kernel::CLONE_NEWIPC
        | kernel::CLONE_NEWUTS;
    let network = if flags & wire::PARK_NETWORK != 0 {
        kernel::CLONE_NEWNET
    } else {
        0
    };
    let cgroup = if flags & wire::PARK_CGROUP != 0 {
        kernel::CLONE_NEWCGROUP
    } else {
        0
    };
    always | network | cgroup
}

/// Makes a domain whose init carries out the prelude, if there is one, and waits for its launch
/// message. The answer goes to the domain's own socket: whoever waits for this domain hears of no
/// other.
fn park(table: &mut Table, request: &Record, fds: &[Fd], message: (&mut [u8], usize)) {
    let [socket, cgroup @ ..] = fds else { return };
    if let Err(failure) = make_domain(table, request, *socket, cgroup.first().copied(), message) {
        send_record(*socket, &failed(wire::KEEPER_FAILED, &failure), &[]);
    }
}

/// The order for the domain that follows, of the message that this one was ordered by, and the supervisor's end of its socket.
fn order_of_next(message: &[u8]) -> Result<(Order, Fd)> {
    let [own, supervisors] = kernel::socket_pair()?;
    match Order::new(message, &[own]) {
        Ok(order) => Ok((order, supervisors)),
        Err(errno) => {
            [own, supervisors].into_iter().for_each(kernel::close);
            Err(errno)
        }
    }
}

/// Keeps a message until a domain has ended.
fn keep_order(entry: &mut Entry, message: &[u8], fds: &[Fd]) {
    match Order::new(message, fds).during(Step::Clone, 2) {
        Ok(order) => {
            if let Some(other) = entry.next.replace(order) {
                other.release();
            }
        }
        Err(failure) => {
            if let Some(socket) = fds.first() {
                send_record(*socket, &failed(wire::KEEPER_FAILED, &failure), &[]);
            }
            fds.iter().for_each(|fd| kernel::close(*fd));
        }
    }
}

fn make_domain(
    table: &mut Table,
    request: &Record,
    socket: Fd,
    cgroup: Option<Fd>,
    (buffer, length): (&mut [u8], usize),
) -> core::result::Result<(), Failure> {
    let [flags, uid, gid, outer_uid, outer_gid, ..] = request.words;
    let gate = kernel::socket_pair().during(Step::Clone, 0)?;
    let clone_ns = kernel::monotonic_ns();
    let forked = kernel::fork(namespaces(flags), cgroup).during(Step::Clone, 1);
    if forked.is_err() {
        gate.iter().for_each(|end| kernel::close(*end));
    }
    let Some((pid, pidfd)) = forked? else {
        let ids = (uid as u32, gid as u32);
        let own = (flags, table.quotas, table.title);
        let setup = launch::Setup::after(&buffer[wire::RECORD_BYTES..length]);
        // The keeper's memory, shared until the keeper writes to it; then this would be the domain's alone.
        kernel::empty(buffer);
        table.empty();
        match setup {
            Ok(setup) => init::run(socket, gate, own, ids, setup),
            Err(_) => crate::exit(125),
        }
    };
    kernel::close(gate[0]);
    let own_uid = flags & wire::PARK_OWN_UID != 0;
    let outer = if own_uid {
        [wire::OWN_UID_BASE + pid as u64; 2]
    } else {
        [outer_uid, outer_gid]
    };
    let bare = flags & wire::PARK_BARE != 0;
    let mapped = if bare {
        Ok(())
    } else {
        namespace::write_maps(pid, [uid, gid], outer, !own_uid)
    };
    let keeps_mounts = flags & wire::PARK_KEEP_MOUNTS != 0 && !bare;
    // A group is held by who made it: that domain is followed by none. Nor is one here where there is no room: the supervisor
    // orders it.
    let is_followed = flags & wire::PARK_FOLLOW != 0 && cgroup.is_none();
    let next = is_followed.then(|| order_of_next(&buffer[..length]).ok());
    let (next, next_socket) = next.flatten().unzip();
    let entry = Entry {
        next,
        made_ns: clone_ns,
        bare,
        gate: Some(gate[1]),
        // Without it the end is told later, no more.
        mounts: keeps_mounts
            .then(|| namespace::open(pid, b"mnt").ok())
            .flatten(),
        ..Entry::of(pid)
    };
    let outcome = mapped.and_then(|()| table.push(entry));
    match outcome {
        Ok(()) => {
            let parked = Record {
                kind: wire::KEEPER_PARKED,
                words: parked_words(pid, outer[0], clone_ns),
            };
            match next_socket {
                Some(next) => send_record(socket, &parked, &[pidfd, next]),
                None => send_record(socket, &parked, &[pidfd]),
            }
            // The byte lets init go on: its ids exist now.
            let _ = kernel::write(gate[1], b"m");
        }
        Err(_) => {
            kernel::pidfd_kill(pidfd);
            kernel::close(gate[1]);
            entry.mounts.into_iter().for_each(kernel::close);
            next.into_iter().for_each(Order::release);
        }
    }
    next_socket.into_iter().for_each(kernel::close);
    kernel::close(pidfd);
    outcome.during(Step::MapIds, 0)
}

fn parked_words(pid: i32, host_uid: u64, clone_ns: u64) -> [u64; wire::RECORD_WORDS] {
    let mut words = [0; wire::RECORD_WORDS];
    words[..4].copy_from_slice(&[pid as u64, host_uid, clone_ns, kernel::monotonic_ns()]);
    words
}

fn map_ids(request: &Record) -> core::result::Result<(), Failure> {
    let [disk_uid, disk_gid, host_uid, ..] = request.words;
    let map = namespace::make_map([disk_uid, disk_gid], host_uid)?;
    send_record(
        CONTROL,
        &Record {
            kind: wire::KEEPER_IDS_MAPPED,
            ..Record::default()
        },
        &[map.namespace],
    );
    kernel::close(map.finish());
    Ok(())
}

/// Keeps a list for the case that the supervisor dies. It comes before anything on it is made, so that
/// nothing is ever there that nobody would remove.
fn remember(
    table: &mut Table,
    request: &Record,
    folders: &[Fd],
    names: &[u8],
) -> core::result::Result<(), Failure> {
    let list = List::new(folders, names).during(Step::Remember, 0)?;
    table
        .push(Entry {
            clean: Some(list),
            ..Entry::of(not_a_process(request))
        })
        .during(Step::Remember, 1)?;
    let remembered = Record {
        kind: wire::KEEPER_REMEMBERED,
        ..Record::default()
    };
    send_record(CONTROL, &remembered, &[]);
    Ok(())
}

/// Lists are kept beside processes, under the negative of the number the supervisor gave them.
fn not_a_process(request: &Record) -> i32 {
    -(request.words[0] as i32)
}

/// Reaps ended inits, and makes the domains that were to come after theirs. None comes after one that failed or was killed: what it
/// failed of is there still, and nobody might look for as long as domains fail, one after the other.
fn reap(table: &mut Table, children: Fd, buffer: &mut [u8]) {
    let mut drained = [0u8; 128];
    let _ = kernel::read(children, &mut drained);
    const WNOHANG: u32 = 1;
    while let Ok(Some((pid, status))) = kernel::wait_any(WNOHANG) {
        let position = table.position(pid);
        let next = position.and_then(|position| table.entries()[position].next.take());
        table.forget(pid);
        match next {
            Some(order) if status != 0 => order.refuse(),
            Some(order) if order.is_wanted() => carry_out(table, order, buffer),
            Some(order) => order.release(),
            None => {}
        }
    }
}

fn carry_out(table: &mut Table, order: Order, buffer: &mut [u8]) {
    let (length, socket) = order.take_into(buffer);
    if let Some(request) = record_from(&buffer[..length]) {
        park(table, &request, &[socket], (buffer, length));
    }
    kernel::close(socket);
}

/// Leaves the domain's init to the supervisor. What else there is to wait for or to clean is still this process's.
fn leave(table: &mut Table) {
    let is_alone = !table.has_helpers && table.entries().iter().all(|entry| entry.pid > 0);
    if is_alone {
        kill_all(table);
        crate::exit(0)
    }
}

/// The supervisor is gone: no domain outlives it, nothing it made stays behind.
fn end_everything(table: &mut Table) -> ! {
    kill_all(table);
    while !matches!(kernel::wait_any(0), Err(errno) if errno == Errno::CHILD) {}
    for list in table.entries().iter().filter_map(|entry| entry.clean) {
        list.clean();
    }
    crate::exit(0)
}

fn kill_all(table: &mut Table) {
    let entries = table.entries().iter();
    for entry in entries.filter(|entry| entry.pid > 0 && !entry.bare) {
        let _ = kernel::kill(entry.pid, kernel::SIGKILL);
    }
}
