//! Init with a running guest: reaps, forwards, keeps time, and accounts for everything at the end.

use super::{
    Init, exec,
    guest::Running,
    launch::{CpuCounter, Setup},
    observe::{self, Observer},
    perform, terminal,
};
use crate::{
    kernel, record_bytes, record_from, send_record,
    text::{Text, number},
    wire,
};
use kernel::{CStr, Fd, POLLIN, PollFd};
use wire::{RECORD_WORDS, Record, ended};

const WNOHANG: u32 = 1;
const WUNTRACED: u32 = 2;
/// `__WALL`: also children made with another exit signal.
const WALL: u32 = 0x4000_0000;

/// Stays until the guest has ended, or the supervisor, or time is up.
pub(crate) fn stay(init: &Init, mut running: Running, setup: Setup) -> ! {
    // What the end of a guest that ends at once does not wait for.
    let mut begun = Some(setup);
    let mut clock = Clock::new(&running);
    let mut observer = Observer::new(running.listener);
    let mut has_more = false;
    loop {
        let heard = [running.children, init.socket, running.supervisor];
        let [children, socket, supervisor] = heard.map(readable);
        let gate = readable(running.gate.unwrap_or(-1));
        let [moves, mounts] = running
            .guard
            .map_or(NOTHING_TO_POLL, |guard| guard.polled());
        let calls = observer.polled();
        let mut fds = [children, socket, supervisor, moves, mounts, calls, gate];
        let wait_ns = if begun.is_some() || has_more {
            Some(0)
        } else {
            clock.wait_ns()
        };
        let _ = kernel::poll(&mut fds, wait_ns);
        if fds[3].revents | fds[4].revents != 0 {
            end_if_unprotected(init, &running, &observer);
        }
        if fds[2].revents != 0 {
            // The kernel ends every process of the namespace with its PID 1; without one, end them here.
            finish(init, (&running, &observer), 0, wire::REASON_KILLED);
        }
        if fds[1].revents != 0 {
            obey_all(init, &running, &mut clock, &mut observer);
        }
        if fds[0].revents != 0 || has_more {
            has_more = reap(init, &mut running, &mut observer);
        }
        if fds[6].revents != 0 {
            answer_gate(init, &mut running, &observer);
        }
        // One at a time: the time is looked at between them.
        if fds[5].revents != 0 {
            observer.answer(&running, fds[5].revents);
        }
        if let Some(reason) = clock.expired(&observer) {
            finish(init, (&running, &observer), 0, reason);
        }
        if let Some(setup) = begun.take() {
            // SAFETY: what `running` has of the messages are copies, by `Kept`; the guest's process has left this memory.
            unsafe { setup.release() };
            // A guest with hundreds of busy processes would hold up its own end. Without it limits are kept a little later.
            let _ = kernel::ask_for_short_slices();
        }
    }
}

fn readable(fd: Fd) -> PollFd {
    PollFd {
        fd,
        events: POLLIN,
        revents: 0,
    }
}

/// Does what somebody asks for who did not start the domain.
fn answer_gate(init: &Init, running: &mut Running, observer: &Observer) {
    let Some(gate) = running.gate else { return };
    match exec::hear(gate) {
        exec::Heard::Nobody => running.gate = None,
        exec::Heard::Start(session) => exec::begin(init, running, session),
        exec::Heard::Supervisor(session) => {
            let asked = Record {
                kind: wire::INIT_ASKED,
                ..Record::default()
            };
            // Whoever asked hears that the session is closed, where the supervisor does not take it.
            let _ = kernel::send_at_once(init.socket, record_bytes(&asked), &[session]);
            kernel::close(session);
        }
        exec::Heard::End => finish(init, (&*running, observer), 0, wire::REASON_OPERATOR),
        exec::Heard::Nothing => {}
    }
}

/// Passed over by poll(2).
const NOTHING_TO_POLL: [PollFd; 2] = [const {
    PollFd {
        fd: -1,
        events: 0,
        revents: 0,
    }
}; 2];

fn end_if_unprotected(init: &Init, running: &Running, observer: &Observer) {
    if let Some(lost) = running.guard.and_then(|guard| guard.lost()) {
        finish_for(init, (running, observer), 0, wire::REASON_UNPROTECTED, lost);
    }
}

/// Carries out what the supervisor has asked for, so far: what the guest did before its end is looked at before it is told.
fn obey_all(init: &Init, running: &Running, clock: &mut Clock, observer: &mut Observer) {
    const MOST: usize = 64;
    for _ in 0..MOST {
        obey(init, running, clock, observer);
        let mut fds = [PollFd {
            fd: init.socket,
            events: POLLIN,
            revents: 0,
        }];
        if !matches!(kernel::poll(&mut fds, Some(0)), Ok(1..)) {
            return;
        }
    }
}

/// Carries out one request of the supervisor.
fn obey(init: &Init, running: &Running, clock: &mut Clock, observer: &mut Observer) {
    let mut buffer = [0u8; wire::RECORD_BYTES];
    let mut fds = [-1; wire::MAX_FDS];
    let (length, fd_count) = kernel::receive(init.socket, &mut buffer, &mut fds).unwrap_or((0, 0));
    match record_from(&buffer[..length]) {
        Some(Record {
            kind: wire::DOMAIN_SIGNAL,
            words,
        }) => {
            // The guest leads a group of its own; a signal meant for it reaches its pipeline too.
            let _ = kernel::kill(-running.pid, words[0] as i32);
        }
        Some(Record {
            kind: wire::DOMAIN_CONTINUE,
            words,
        }) => continue_guest(init, running, words[0]),
        Some(Record {
            kind: wire::DOMAIN_PERFORM,
            words,
        }) => perform::begin(running, &words, &fds[..fd_count]),
        Some(Record {
            kind: wire::DOMAIN_SOCKET,
            words,
        }) => crate::perform::make_socket(&words, &fds[..fd_count]),
        Some(Record {
            kind: wire::DOMAIN_CPU_USED,
            words,
        }) => clock.hear(words[0]),
        Some(Record {
            kind: wire::DOMAIN_LOOK,
            words,
        }) => look(init, running, observer, &words, &fds[..fd_count]),
        _ => finish(init, (running, &*observer), 0, wire::REASON_KILLED),
    }
}

/// Looks at a program that the guest is about to execute, in the broker's stead. A call that comes with it waits for init.
fn look(
    init: &Init,
    running: &Running,
    observer: &mut Observer,
    words: &[u64; RECORD_WORDS],
    fds: &[Fd],
) {
    let [length, call, folder, ..] = *words;
    let mut buffer = [0; wire::MOST_PATH_BYTES];
    let path = observe::receive_path(init.socket, length, &mut buffer);
    match (call, fds) {
        (0, _) => {
            if let Some(path) = path {
                observer.look(running, fds.first().copied(), path);
            }
        }
        (call, [listener, caller @ ..]) => {
            let thread = caller.first().and_then(|caller| kernel::owner_of(*caller));
            if let (Some(path), Some(thread)) = (path, thread) {
                observer.execution(running, thread, folder as Fd, path);
            }
            kernel::answer_notified(*listener, call, kernel::Answer::Continue);
        }
        // Nobody could answer it any more.
        (_, []) => finish(init, (running, &*observer), 0, wire::REASON_KILLED),
    }
    fds.iter().for_each(|fd| kernel::close(*fd));
}

/// With init's own group in front, the guest's is in the background: it is stopped when it reads its
/// terminal or sets it (SIGTTIN, SIGTTOU).
fn continue_guest(init: &Init, running: &Running, place: u64) {
    let group = match place {
        wire::PLACE_FRONT => Some(running.pid),
        wire::PLACE_BACKGROUND => Some(kernel::process_id()),
        _ => None,
    };
    if let (Some(slave), Some(group)) = (running.terminal, group) {
        let _ = terminal::put_in_front(slave, group);
    }
    let _ = kernel::kill(-running.pid, kernel::SIGCONT);
    let answer = Record {
        kind: wire::INIT_CONTINUED,
        ..Record::default()
    };
    send_record(init.socket, &answer, &[]);
}

/// Whether there may be more to reap.
fn reap(init: &Init, running: &mut Running, observer: &mut Observer) -> bool {
    kernel::reap_some(running.children, WUNTRACED | WALL, |pid, status| {
        let has_stopped = status & 0xff == 0x7f;
        if pid != running.pid {
            if !has_stopped {
                running.attendants.end(pid, observer);
            }
        } else if has_stopped {
            tell_of_stop(init, status >> 8 & 0xff);
        } else {
            finish(init, (&*running, &*observer), status, wire::REASON_GUEST);
        }
    })
}

/// A guest can stop and go on as often as it likes, also while its supervisor is stopped and reads
/// nothing. Without room hundreds of stops wait to be read, and one more says nothing new: init, which
/// keeps time, does not wait for it.
fn tell_of_stop(init: &Init, signal: u32) {
    let mut record = Record {
        kind: wire::INIT_STOPPED,
        ..Record::default()
    };
    record.words[0] = u64::from(signal);
    let _ = kernel::send_at_once(init.socket, record_bytes(&record), &[]);
}

/// Ends what still runs, accounts for all of it, reports and leaves.
fn finish(init: &Init, (running, observer): (&Running, &Observer), status: u32, reason: u64) -> ! {
    finish_for(init, (running, observer), status, reason, 0)
}

/// The same for a path that is lost.
fn finish_for(
    init: &Init,
    (running, observer): (&Running, &Observer),
    status: u32,
    reason: u64,
    lost: u32,
) -> ! {
    let guest_end_ns = kernel::monotonic_ns();
    // Before what still runs lets go of its files.
    let failed = reason != wire::REASON_GUEST || status != 0;
    let full = if failed { used_up(running) } else { 0 };
    let (status, killed) = end_all(running.pid, status, reason);
    let usage = kernel::children_usage();
    let mut words = [0; RECORD_WORDS];
    words[ended::STATUS] = u64::from(status);
    words[ended::REASON] = reason;
    words[ended::USER_US] = microseconds(usage.user);
    words[ended::SYSTEM_US] = microseconds(usage.system);
    words[ended::MAX_RSS_KIB] = usage.max_rss_kib as u64;
    words[ended::MINOR_FAULTS] = usage.minor_faults as u64;
    words[ended::MAJOR_FAULTS] = usage.major_faults as u64;
    words[ended::BLOCKS_IN] = usage.blocks_in as u64;
    words[ended::BLOCKS_OUT] = usage.blocks_out as u64;
    words[ended::VOLUNTARY_SWITCHES] = usage.voluntary_switches as u64;
    words[ended::INVOLUNTARY_SWITCHES] = usage.involuntary_switches as u64;
    words[ended::GUEST_END_NS] = guest_end_ns;
    words[ended::REAPED_NS] = kernel::monotonic_ns();
    words[ended::KILLED] = killed;
    words[ended::LOST] = u64::from(lost);
    let (seen, more) = observer.list().entries();
    words[ended::SEEN] = (seen.len() / wire::seen::ENTRY_BYTES) as u64;
    words[ended::MORE] = more;
    words[ended::FULL] = full;
    let kind = wire::INIT_ENDED;
    send_record(init.socket, &Record { kind, words }, &[]);
    if !seen.is_empty() {
        let _ = kernel::send(init.socket, seen, &[]);
    }
    if init.ends_alone {
        // The kernel may have put who was just woken behind this process, which takes as long to end as all the rest did.
        kernel::let_others_run();
    }
    crate::exit(0)
}

/// What is used up of the domain's own `tmpfs`, which `/tmp` and `/dev/shm` share. In a root that was granted its
/// folder may be the host's.
fn used_up(running: &Running) -> u64 {
    // A granted root may be a file system that a process serves: its end would wait for that.
    let Ok(folder) = observe::open_known(kernel::AT_FDCWD, kernel::c!("/tmp"), kernel::O_PATH)
    else {
        return 0;
    };
    let device = kernel::statx_fd(folder).map(|about| (about.device_major, about.device_minor));
    let is_own = device.is_ok_and(|device| running.own_device == Some(device));
    let (room, files) = match is_own {
        true => kernel::is_used_up(folder).unwrap_or_default(),
        false => (false, false),
    };
    kernel::close(folder);
    let bit = |is_used_up, bit| if is_used_up { bit } else { 0 };
    bit(room, wire::FULL_ROOM) | bit(files, wire::FULL_FILES)
}

fn microseconds([seconds, microseconds]: [i64; 2]) -> u64 {
    seconds as u64 * 1_000_000 + microseconds as u64
}

/// Kills and reaps every process of the domain but init. Gives the guest's status, if it was still
/// running the one it got now, and how many were killed.
fn end_all(guest: i32, mut status: u32, reason: u64) -> (u32, u64) {
    let mut killed = 0;
    // Only the guest's own status tells its user anything. Others, which it may have left behind, may have ended before.
    let mut bury = |pid, ended| {
        if reason != wire::REASON_GUEST && pid == guest {
            status = ended;
        }
        killed += 1;
    };
    match kernel::wait_any(WALL | WNOHANG) {
        Ok(Some((pid, ended))) => bury(pid, ended),
        Ok(None) => {}
        // Who has no child has no descendant either: orphans are init's.
        Err(_) => return (status, killed),
    }
    // Before anybody is waited for: who makes processes faster than they are reaped makes none from here on.
    kill_others();
    while let Ok(Some((pid, ended))) = kernel::wait_any(WALL) {
        bury(pid, ended);
        // The kernel looks at every process for one kill: not once for each that is dead already.
        while let Ok(Some((pid, ended))) = kernel::wait_any(WALL | WNOHANG) {
            bury(pid, ended);
        }
        kill_others();
    }
    (status, killed)
}

/// Signals everything there is to end, at one time, so that nobody flees by forking: as PID 1 that
/// is its namespace (kill(2)), without one it is what `init::scope_signals` leaves in reach.
pub(super) fn kill_others() {
    // ESRCH: nobody is left.
    let _ = kernel::kill(-1, kernel::SIGKILL);
}

/// The two limits that are kept by looking at a clock.
struct Clock {
    deadline_ns: Option<u64>,
    cpu_time_us: Option<u64>,
    cpu_counter: Option<CpuCounter>,
    own_proc: Option<Fd>,
    /// What init itself had used when it first looked at a call of the guest's.
    before_us: Option<u64>,
    /// Processor time of the supervisor's for the guest's calls, as far as it told.
    answering_us: u64,
    next_look_ns: u64,
}

/// Processors a domain could burn at once; the next look at its processor time is due no later
/// than so many of them could have used up what is left.
const MOST_PROCESSORS: u64 = 64;
/// Never look more often than the kernel's own clock tick.
const TICK_NS: u64 = 10_000_000;

impl Clock {
    fn new(running: &Running) -> Self {
        Self {
            deadline_ns: running.deadline_ns,
            cpu_time_us: running.cpu_time_us,
            cpu_counter: running.cpu_counter,
            own_proc: running.own_proc,
            before_us: None,
            answering_us: 0,
            next_look_ns: 0,
        }
    }

    /// Looks at once what that leaves. Two threads tell of it, and the later may be heard first.
    fn hear(&mut self, answering_us: u64) {
        self.answering_us = self.answering_us.max(answering_us);
        self.next_look_ns = 0;
    }

    /// How long to sleep at most. Without these limits init never wakes by itself.
    fn wait_ns(&self) -> Option<u64> {
        let look = self.cpu_time_us.map(|_| self.next_look_ns);
        let next = match (self.deadline_ns, look) {
            (Some(deadline), Some(look)) => deadline.min(look),
            (deadline, look) => deadline.or(look)?,
        };
        Some(next.saturating_sub(kernel::monotonic_ns()))
    }

    fn expired(&mut self, observer: &Observer) -> Option<u64> {
        if self.deadline_ns.is_none() && self.cpu_time_us.is_none() {
            return None;
        }
        let now_ns = kernel::monotonic_ns();
        if self.deadline_ns.is_some_and(|deadline| now_ns >= deadline) {
            return Some(wire::REASON_TIME);
        }
        let limit_us = self.cpu_time_us.filter(|_| now_ns >= self.next_look_ns)?;
        let used_us = match &self.cpu_counter {
            // A group that is gone counts nothing any more: what is not known is too much.
            Some(counter) => counted_cpu_us(counter).unwrap_or(u64::MAX),
            None => seen_cpu_us(self.own_proc).saturating_add(self.looking_us(observer)),
        };
        let used_us = used_us.saturating_add(self.answering_us);
        if used_us >= limit_us {
            return Some(wire::REASON_CPU_TIME);
        }
        let left_ns = (limit_us - used_us).saturating_mul(1000);
        self.next_look_ns = now_ns + (left_ns / MOST_PROCESSORS).max(TICK_NS);
        None
    }
}

impl Clock {
    /// What init used since it first looked at a call of the guest's, all that it does besides included.
    fn looking_us(&mut self, observer: &Observer) -> u64 {
        if !observer.has_looked() {
            return 0;
        }
        let used_us = used_us(&kernel::own_usage());
        used_us.saturating_sub(*self.before_us.get_or_insert(used_us))
    }
}

/// Processor time of everything that is or was in the domain, init included, as its group counted it.
fn counted_cpu_us(counter: &CpuCounter) -> Option<u64> {
    let mut text = [0u8; 64];
    let length = kernel::read_at(counter.file, &mut text, 0).ok()?;
    let text = text.get(..length)?;
    let first = text.iter().position(u8::is_ascii_digit)?;
    let digits = text[first..].split(|byte| !byte.is_ascii_digit()).next()?;
    Some(number(digits)?.saturating_mul(counter.unit_ns) / 1000)
}

/// Processor time of everything that runs in the domain and of everything that was waited for. What a
/// parent lets go unseen (SIGCHLD ignored, `SA_NOCLDWAIT`) is lost: `wait_task_zombie` in kernel/exit.c is
/// where a child's times are added to its parent's.
fn seen_cpu_us(own_proc: Option<Fd>) -> u64 {
    used_us(&kernel::children_usage()) + living_cpu_us(own_proc).unwrap_or(0)
}

fn used_us(usage: &kernel::Rusage) -> u64 {
    microseconds(usage.user) + microseconds(usage.system)
}

fn living_cpu_us(own_proc: Option<Fd>) -> kernel::Result<u64> {
    let proc = match own_proc {
        Some(own) => kernel::open(own, kernel::c!("."), kernel::O_DIRECTORY, 0)?,
        None => kernel::open(
            kernel::AT_FDCWD,
            kernel::c!("/proc"),
            kernel::O_DIRECTORY,
            0,
        )?,
    };
    let mut buffer = [0u8; 4096];
    let mut total_us = 0;
    while let Ok(length @ 1..) = kernel::directory_entries(proc, &mut buffer) {
        total_us += entries_cpu_us(proc, &buffer[..length]);
    }
    kernel::close(proc);
    Ok(total_us)
}

/// Walks `struct linux_dirent64`s: record length at 16, name from 19 on.
fn entries_cpu_us(proc: Fd, mut entries: &[u8]) -> u64 {
    let mut total_us = 0;
    while let Some(length) = entries
        .get(16..18)
        .map(|bytes| usize::from(bytes[0]) | usize::from(bytes[1]) << 8)
    {
        let name = entries.get(19..length).unwrap_or(&[]);
        let name = name.split(|byte| *byte == 0).next().unwrap_or(&[]);
        if let Some(pid) = number(name).filter(|pid| *pid != 1) {
            total_us += process_cpu_us(proc, pid).unwrap_or(0);
        }
        entries = entries.get(length.max(1)..).unwrap_or(&[]);
    }
    total_us
}

/// utime, stime, cutime and cstime of proc_pid_stat(5), in µs.
fn process_cpu_us(proc: Fd, pid: u64) -> Option<u64> {
    /// USER_HZ is 100 on every architecture in use.
    const TICK_US: u64 = 10_000;
    let mut path = Text::default();
    path.number(pid).text(b"/stat\0");
    let fd = kernel::open(proc, CStr::new(path.bytes())?, 0, 0).ok()?;
    let mut text = [0u8; 1024];
    let length = kernel::read(fd, &mut text);
    kernel::close(fd);
    let text = &text[..length.ok()?];
    // The second field is the program's name, which the guest chooses: skip past its last bracket.
    let after_name = text.iter().rposition(|byte| *byte == b')')?;
    let fields = text[after_name..].split(|byte| *byte == b' ').skip(12);
    Some(fields.take(4).filter_map(number).sum::<u64>() * TICK_US)
}
