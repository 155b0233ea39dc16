//! What a container's process does to itself before it executes its program, and what init gives up then.

use super::{
    During, Failure,
    message::{Credentials, Setup},
    record, record_bytes,
};
use crate::{
    kernel,
    wire::container::{self, Step},
};
use core::sync::atomic::AtomicU32;
use kernel::{Errno, Fd, Progress};

const SET_KEEPCAPS: u32 = 8;
const CAPBSET_DROP: u32 = 24;
const SET_NO_NEW_PRIVS: u32 = 38;
/// `CAP_KILL`, capabilities(7).
const CAP_KILL: u32 = 5;
const CAP_SETGID: u64 = 1 << 6;
const MOST_CAPABILITIES: u32 = 64;

/// In the only order that works: what needs rights comes before they are given up, filters last of all that they may forbid.
/// Without `no_new_privs` a filter takes CAP_SYS_ADMIN, and so comes before.
pub(super) fn confine(setup: &Setup) -> Result<(), Failure> {
    let credentials = setup.credentials.as_ref().ok_or(Errno::INVAL);
    let credentials = credentials.during(Step::Decode, 30)?;
    if setup.new_keyring {
        join_keyring().during(Step::Keyring, 0)?;
    }
    schedule(setup).during(Step::Scheduling, 0)?;
    for (item, (resource, soft, hard)) in (0..).zip(setup.limits.iter()) {
        limit(resource, soft, hard).during(Step::Limit, item)?;
    }
    for (item, (file, text)) in (0..).zip(setup.labels.iter()) {
        label(setup.proc, file, text).during(Step::Label, item)?;
    }
    if credentials.no_new_privs {
        kernel::prctl(SET_NO_NEW_PRIVS, 1).during(Step::NoNewPrivileges, 0)?;
    }
    if let Some(handled) = &setup.landlock {
        restrict(handled).during(Step::Landlock, 0)?;
    }
    if !credentials.no_new_privs {
        filter(setup)?;
    }
    become_user(credentials)?;
    if credentials.no_new_privs {
        filter(setup)?;
    }
    kernel::set_umask(credentials.umask);
    Ok(())
}

/// Who may not raise a limit has it as high as its starter's: what is held is more than was asked for, never less.
fn limit(resource: u32, soft: u64, hard: u64) -> kernel::Result<()> {
    match kernel::set_limit(resource, soft, hard) {
        Err(errno) if errno == Errno::PERM => {
            let most = kernel::hard_limit(resource)?;
            kernel::set_limit(resource, soft.min(most), hard.min(most))
        }
        outcome => outcome,
    }
}

fn filter(setup: &Setup) -> Result<(), Failure> {
    for (item, (program, flags, supervisor)) in (0..).zip(setup.filters.iter()) {
        match supervisor {
            None => kernel::seccomp(program, flags).map(drop),
            Some(supervisor) => load_and_tell(program, flags, supervisor),
        }
        .during(Step::Filter, item)?;
    }
    Ok(())
}

/// What the process that tells of a listener waits for, and says.
struct Teller<'a> {
    supervisor: Fd,
    /// The listener's number and 1; [`NOT_YET`]; [`IN_VAIN`].
    listener: &'a AtomicU32,
    outcome: kernel::Result<usize>,
}

const NOT_YET: u32 = 0;
const IN_VAIN: u32 = u32::MAX;

/// Loads a filter that leaves calls to a supervisor, who gets its listener. From then on sendmsg(2) may be such a call, and nobody
/// answers yet: so a process that was made before, and has the same descriptors, tells.
fn load_and_tell(program: &[u8], flags: u32, supervisor: Fd) -> kernel::Result<()> {
    const STACK_BYTES: usize = 16 * 1024;
    let stack = kernel::allocate(STACK_BYTES)?;
    let listener = AtomicU32::new(NOT_YET);
    let mut teller = Teller {
        supervisor,
        listener: &listener,
        // One that is killed has told nothing.
        outcome: Err(Errno::SRCH),
    };
    let mut loaded = Ok(None);
    let spawned = kernel::spawn_beside(stack, (tell, &mut teller), true, &Progress::new(), |_| {
        let load = |flags| kernel::seccomp(program, flags | kernel::NEW_LISTENER);
        // Older kernels do not know it, and signals take calls back there.
        let older = flags & !kernel::WAIT_KILLABLE;
        loaded = load(flags).or_else(|errno| {
            if older == flags {
                Err(errno)
            } else {
                load(older)
            }
        });
        let number = loaded.ok().flatten();
        kernel::change(&listener, number.map_or(IN_VAIN, |fd| fd as u32 + 1));
    });
    kernel::release(stack);
    let told = teller.outcome;
    kernel::wait_for(spawned?)?;
    let listener = loaded?.ok_or(Errno::INVAL)?;
    kernel::close(listener);
    told.map(drop)
}

extern "C" fn tell(teller: &mut Teller<'_>) -> ! {
    match kernel::wait_for_change(teller.listener, NOT_YET) {
        IN_VAIN => {}
        number => {
            let said = record(container::LISTENER, &[]);
            let listener = [number as Fd - 1];
            teller.outcome = kernel::send(teller.supervisor, record_bytes(&said), &listener);
        }
    }
    crate::exit(0)
}

fn restrict(handled: &[u64; 3]) -> kernel::Result<()> {
    let ruleset = kernel::landlock_create_ruleset(handled)?;
    let outcome = kernel::landlock_restrict_self(ruleset);
    kernel::close(ruleset);
    outcome
}

fn label(proc: Option<Fd>, file: Option<kernel::CStr>, text: &[u8]) -> kernel::Result<()> {
    let file = file.ok_or(Errno::INVAL)?;
    let file = match proc {
        None => kernel::open(kernel::AT_FDCWD, file, kernel::O_WRONLY, 0)?,
        // The container has none: it is this process's own file in the host's.
        Some(proc) => {
            let below = file.with_nul().strip_prefix(b"/proc/");
            let below = below.and_then(kernel::CStr::new).ok_or(Errno::INVAL)?;
            kernel::open(proc, below, kernel::O_WRONLY, 0)?
        }
    };
    // An image that mounts something else there would swallow it.
    let written = match kernel::file_system(file)? {
        PROC => kernel::write(file, text),
        _ => Err(Errno::INVAL),
    };
    kernel::close(file);
    written.map(drop)
}

/// What statfs(2) says of `/proc` (linux/magic.h).
const PROC: u64 = 0x9fa0;

/// A kernel without keyrings has none to leave, and a filter around may refuse it.
fn join_keyring() -> kernel::Result<()> {
    match kernel::join_new_keyring() {
        Err(errno) if errno == Errno::NOSYS || errno == Errno::PERM => Ok(()),
        outcome => outcome,
    }
}

fn schedule(setup: &Setup) -> kernel::Result<()> {
    if let Some(mask) = setup.affinity {
        kernel::set_affinity(mask)?;
    }
    if let Some(attributes) = setup.scheduler {
        kernel::set_scheduler(attributes)?;
    }
    if let Some(priority) = setup.io_priority {
        kernel::set_io_priority(priority)?;
    }
    if let Some(personality) = setup.personality {
        kernel::set_personality(personality)?;
    }
    Ok(())
}

/// Its ids and capabilities. Of those that are asked for, such as this process has: a container without more rights than its
/// starter is no failure.
fn become_user(credentials: &Credentials) -> Result<(), Failure> {
    drop_bounding(credentials.bounding);
    kernel::prctl(SET_KEEPCAPS, 1).during(Step::Credentials, 0)?;
    match kernel::set_groups(credentials.groups) {
        // Denied in a user namespace that an ordinary user mapped: there is nothing to set, and none to drop.
        Err(errno) if errno == Errno::PERM && credentials.groups.is_empty() => {}
        outcome => outcome.during(Step::Credentials, 1)?,
    }
    kernel::set_group(credentials.gid).during(Step::Credentials, 2)?;
    kernel::set_user(credentials.uid).during(Step::Credentials, 3)?;
    kernel::prctl(SET_KEEPCAPS, 0).during(Step::Credentials, 4)?;
    let [_, had, _] = kernel::capabilities().during(Step::Credentials, 5)?;
    let permitted = credentials.permitted & had;
    let inheritable = credentials.inheritable & had;
    let sets = [credentials.effective & permitted, permitted, inheritable];
    kernel::set_capabilities(sets).during(Step::Credentials, 6)?;
    let ambient = credentials.ambient & permitted & inheritable;
    for capability in (0..MOST_CAPABILITIES).filter(|bit| ambient & 1 << bit != 0) {
        kernel::raise_ambient(capability).during(Step::Credentials, 7)?;
    }
    Ok(())
}

/// Numbers beyond the kernel's last are refused, which says nothing.
fn drop_bounding(kept: u64) {
    for capability in (0..MOST_CAPABILITIES).filter(|bit| kept & 1 << bit == 0) {
        let _ = kernel::prctl(CAPBSET_DROP, capability.into());
    }
}

/// Who carries calls out for others becomes each of them, and so keeps what that takes; it executes nothing.
pub(super) fn attend(setup: &Setup) -> Result<(), Failure> {
    let credentials = setup.credentials.as_ref().ok_or(Errno::INVAL);
    let credentials = credentials.during(Step::Decode, 31)?;
    for (item, (file, text)) in (0..).zip(setup.labels.iter()) {
        label(setup.proc, file, text).during(Step::Label, item)?;
    }
    kernel::prctl(SET_NO_NEW_PRIVS, 1).during(Step::NoNewPrivileges, 2)?;
    drop_bounding(credentials.bounding);
    let [_, had, _] = kernel::capabilities().during(Step::Credentials, 10)?;
    let kept = credentials.permitted & had;
    kernel::set_capabilities([kept, kept, 0]).during(Step::Credentials, 11)?;
    filter(setup)
}

/// One of those whom it does it for, with no more capabilities than this process has.
pub(super) fn become_caller(
    (uid, gid): (u32, u32),
    groups: &[u32],
    capabilities: u64,
) -> kernel::Result<()> {
    let [_, had, _] = kernel::capabilities()?;
    kernel::prctl(SET_KEEPCAPS, 1)?;
    match kernel::set_groups(groups) {
        // Denied in the whole user namespace: nobody there has other groups than this process.
        Err(errno) if errno == Errno::PERM && had & CAP_SETGID != 0 => {}
        outcome => outcome?,
    }
    kernel::set_group(gid)?;
    kernel::set_user(uid)?;
    kernel::prctl(SET_KEEPCAPS, 0)?;
    let kept = capabilities & had;
    kernel::set_capabilities([kept, kept, 0])
}

/// Init signals its children, of whatever user, and does nothing else any more.
/// Who gets at it, as the holder of CAP_SYS_PTRACE does, gets no call that the container has not.
pub(super) fn give_up(own_filter: Option<&[u8]>) -> Result<(), Failure> {
    kernel::prctl(SET_NO_NEW_PRIVS, 1).during(Step::NoNewPrivileges, 1)?;
    let [_, had, _] = kernel::capabilities().during(Step::Credentials, 8)?;
    let kept = had & 1 << CAP_KILL;
    drop_bounding(kept);
    kernel::set_capabilities([kept, kept, 0]).during(Step::Credentials, 9)?;
    match own_filter {
        Some(program) => kernel::seccomp(program, 0)
            .map(drop)
            .during(Step::Filter, 9),
        None => Err(Errno::INVAL).during(Step::Filter, 10),
    }
}
