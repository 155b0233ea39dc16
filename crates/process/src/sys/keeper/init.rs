//! Init, the first process of a domain: waits for the launch message, builds the domain, starts the guest, stays
//! with it.

mod confine;
mod exec;
mod guard;
mod guest;
mod hide;
pub(crate) mod launch;
mod meeting_places;
mod observe;
mod part;
mod perform;
mod reap;
pub(crate) mod root;
mod streams;
mod terminal;

use crate::{
    During, Failure, SUPERVISOR, failed, kernel, message::Reader, privileges, quotas::Quotas,
    record_bytes, send_record, title::Title, wire,
};
use kernel::{Errno, Fd};
use wire::{Record, Step};

/// `PR_SET_DUMPABLE`.
const SET_DUMPABLE: u32 = 4;
/// `PR_SET_CHILD_SUBREAPER`.
const SET_CHILD_SUBREAPER: u32 = 36;

/// Descriptor of the domain socket from here on.
const SOCKET: Fd = 3;
/// Descriptor by which the keeper passes on what is asked for at its door.
const GATE: Fd = 4;

/// What init is for the rest of its life.
pub(crate) struct Init {
    /// Socket to the supervisor.
    pub(crate) socket: Fd,
    /// Without namespaces init is an ordinary process in the middle of others.
    pub(crate) bare: bool,
    /// Nobody waits for its end, only for its last words.
    ends_alone: bool,
    /// What the domain may have of its starter's; without namespaces the guest's own limits and the
    /// system-call filter hold it.
    quotas: Quotas,
    pub(crate) title: Title,
}

/// Runs init in a fresh child of the keeper.
pub(crate) fn run(
    socket: Fd,
    gate: [Fd; 2],
    (flags, quotas, title): (u64, Quotas, Title),
    ids: (u32, u32),
    (setup, prelude): (launch::Setup, Reader),
) -> ! {
    let init = Init {
        socket: SOCKET,
        bare: flags & wire::PARK_BARE != 0,
        ends_alone: flags & wire::PARK_KEEP_MOUNTS != 0,
        quotas,
        title,
    };
    if settle(&init, socket, gate, ids).is_err() {
        crate::exit(125)
    }
    match begin(&init, setup, prelude) {
        Ok((running, setup)) => reap::stay(&init, running, setup),
        Err(failure) => {
            send_record(init.socket, &failed(wire::INIT_FAILED, &failure), &[]);
            // Without a pid namespace nothing of a guest that had begun ends with init.
            if init.bare {
                reap::kill_others();
            }
            crate::exit(125)
        }
    }
}

/// Takes the domain's identity and lets go of everything that was the keeper's.
fn settle(init: &Init, socket: Fd, gate: [Fd; 2], (uid, gid): (u32, u32)) -> kernel::Result<()> {
    kernel::close(gate[1]);
    if kernel::read(gate[0], &mut [0])? != 1 {
        return Err(Errno::PERM);
    }
    // Both come from further up: the keeper has these numbers for what it has from its beginning.
    kernel::duplicate_to(socket, SOCKET)?;
    kernel::duplicate_to(gate[0], GATE)?;
    // Kept open on /dev/null: descriptors that arrive later must not land on 0, 1 or 2.
    kernel::duplicate_to(crate::NOTHING, crate::CONTROL)?;
    kernel::close_from(GATE + 1)?;
    if init.bare {
        kernel::prctl(SET_CHILD_SUBREAPER, 1)?;
        scope_signals()?;
    } else {
        forbid_memory_exec();
        kernel::set_ids(uid, gid)?;
    }
    // After the change of ids, which resets both (commit_creds in kernel/cred.c). Without a pid
    // namespace nothing ends with init: it lives to see its supervisor die and ends the rest then.
    if !init.bare {
        kernel::prctl(privileges::SET_PARENT_DEATH_SIGNAL, kernel::SIGKILL as u64)?;
    }
    kernel::prctl(SET_DUMPABLE, 0)?;
    kernel::set_session()
}

/// Keeps init's own signals to what it starts: the guest's Landlock domain will lie inside this one.
/// `kill(-1)` then means what it means to a PID 1, and nobody escapes it by forking. There is no
/// init without: as root's it would end the machine.
fn scope_signals() -> kernel::Result<()> {
    const SCOPE_SIGNAL: u64 = 1 << 1;
    kernel::prctl(privileges::SET_NO_NEW_PRIVS, 1)?;
    let ruleset = kernel::landlock_create_ruleset(&[0, 0, SCOPE_SIGNAL])?;
    let outcome = kernel::landlock_restrict_self(ruleset);
    kernel::close(ruleset);
    outcome
}

/// `vm.memfd_noexec = 2` for this pid namespace: memory files can't be executed. Only the host's
/// root may write it (its file mode is 0644); for others the system-call filter holds the rule, so
/// a failure here is no hole.
fn forbid_memory_exec() {
    if let Ok(fd) = kernel::open(
        kernel::AT_FDCWD,
        kernel::c!("/proc/sys/vm/memfd_noexec"),
        kernel::O_WRONLY,
        0,
    ) {
        let _ = kernel::write(fd, b"2");
        kernel::close(fd);
    }
}

/// From prelude and launch message to a running guest, and what is left of its launch.
fn begin(
    init: &Init,
    mut setup: launch::Setup,
    prelude: Reader,
) -> Result<(guest::Running, launch::Setup), Failure> {
    if !init.bare {
        init.quotas.set()?;
    }
    setup.title = Some(init.title);
    let has_prelude = !prelude.is_empty();
    launch::perform(prelude, &mut setup)?;
    if !setup.guest_ahead {
        if has_prelude {
            tell_ready(init.socket);
        }
        launch::obey(init.socket, &mut setup)?;
    }
    // A parked domain may have waited for long.
    if has_prelude && setup.guard.is_some_and(|guard| guard.lost().is_some()) {
        return Err(Errno::AGAIN).during(Step::Guard, 0);
    }
    let children = kernel::signalfd(1 << (kernel::SIGCHLD - 1)).during(Step::CloneGuest, 0)?;
    let pid = match setup.guest {
        Some(pid) => pid,
        None => guest::start(init, &mut setup)?,
    };
    let looks = setup.notifies == wire::notifies::INIT;
    if let Some(mask) = setup.affinity.filter(|_| looks) {
        // What it does for the guest counts as the guest's.
        let _ = kernel::set_affinity(mask);
    }
    tell_started(init, &setup);
    // Who waits for the start does not wait for this. The domain ends if there is no memory for it.
    let kept = exec::Kept::of(&setup).during(Step::CloneGuest, 4)?;
    let counter = setup.cpu_counter.map(|counter| counter.file);
    for fd in setup.fds().iter().filter(|fd| Some(**fd) != counter) {
        kernel::close(*fd);
    }
    let running = guest::Running {
        pid,
        gate: Some(GATE),
        again: kept.again,
        attendants: exec::Attendants::default(),
        terminal: setup.terminal.map(|terminal| terminal.slave),
        children,
        supervisor: SUPERVISOR,
        deadline_ns: setup
            .time_ns
            .map(|limit| setup.received_ns.saturating_add(limit)),
        cpu_time_us: setup.cpu_time_us,
        cpu_counter: setup.cpu_counter,
        own_proc: setup.own_proc,
        own_device: setup.own_device,
        landlock: setup.landlock_of_calls,
        guard: kept.guard,
        meeting_places: setup.meeting_places,
        listener: setup.listener.filter(|_| looks),
    };
    Ok((running, setup))
}

/// The prelude is carried out. By write(2): the guest's process says so under its filter, which may leave
/// sendmsg(2) to a supervisor who does not hear yet.
pub(crate) fn tell_ready(socket: Fd) {
    let record = Record {
        kind: wire::INIT_READY,
        ..Record::default()
    };
    let _ = kernel::write(socket, record_bytes(&record));
}

/// The guest's program runs. What the supervisor needs of it goes to the supervisor.
fn tell_started(init: &Init, setup: &launch::Setup) {
    let mut record = Record {
        kind: wire::INIT_STARTED,
        ..Record::default()
    };
    record.words[..4].copy_from_slice(&[
        setup.received_ns,
        setup.root_ns,
        setup.pivot_ns,
        kernel::monotonic_ns(),
    ]);
    let [user, mounts] = setup.namespaces.map_or([None; 2], |both| both.map(Some));
    let offered = [
        (
            wire::ATTACHED_TERMINAL,
            setup.terminal.map(|terminal| terminal.master),
        ),
        (
            wire::ATTACHED_LISTENER,
            (setup.listener).filter(|_| setup.notifies != wire::notifies::INIT),
        ),
        (wire::ATTACHED_FILE, setup.kept_file),
        (wire::ATTACHED_NAMESPACES, user),
        (wire::ATTACHED_NAMESPACES, mounts),
    ];
    let mut fds = [-1; MOST_TOLD];
    let mut count = 0;
    for (bit, fd) in offered {
        if let Some(fd) = fd {
            record.words[wire::started::ATTACHED] |= bit;
            fds[count] = fd;
            count += 1;
        }
    }
    // The guest's own, which are closed with all of the message.
    let owned = count;
    let mut add = |fd| {
        fds[count] = fd;
        count += 1;
    };
    if let (true, Some(input)) = (setup.input, setup.fds().first()) {
        record.words[wire::started::ATTACHED] |= wire::ATTACHED_INPUT;
        add(*input);
    }
    for pair in &setup.pairs[..setup.pair_count] {
        record.words[wire::started::PAIRS] += 1;
        pair.iter().for_each(|end| add(*end));
    }
    send_record(init.socket, &record, &fds[..count]);
    let ours = setup.pairs[..setup.pair_count].iter().map(|pair| &pair[0]);
    for fd in fds[..owned].iter().chain(ours) {
        kernel::close(*fd);
    }
}

/// What init offers of its own, an input, and both ends of a pair for each stream.
const MOST_TOLD: usize = 5 + 1 + 2 * guest::STANDARD_STREAMS;
