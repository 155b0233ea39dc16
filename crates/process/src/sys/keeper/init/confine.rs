//! What a guest's process does to itself before it executes the guest's program.

use super::{
    guest,
    launch::{Rlimits, Setup},
};
use crate::{
    During, Failure, kernel,
    message::Reader,
    privileges,
    wire::{self, Step, notifies},
};
use kernel::Errno;

/// Creates the Landlock ruleset of all who are under one.
pub(crate) fn prepare_landlock(
    reader: &mut Reader,
    setup: &mut Setup,
    item: u32,
) -> Result<(), Failure> {
    let ruleset = make_ruleset(reader, setup, item)?;
    // The guest's own come before these.
    setup.landlock.get_or_insert(ruleset);
    setup.landlock_of_calls = Some(ruleset);
    Ok(())
}

/// The same of the guest's process alone.
pub(crate) fn prepare_guests_landlock(
    reader: &mut Reader,
    setup: &mut Setup,
    item: u32,
) -> Result<(), Failure> {
    setup.landlock = Some(make_ruleset(reader, setup, item)?);
    Ok(())
}

/// Its rules name paths inside the new root.
fn make_ruleset(reader: &mut Reader, setup: &Setup, item: u32) -> Result<kernel::Fd, Failure> {
    let mut word = || reader.u64().during(Step::DecodeLaunch, item);
    let attributes = [word()?, word()?, word()?];
    let rules = word()?;
    let ruleset =
        kernel::landlock_create_ruleset(&attributes).during(Step::LandlockRuleset, item)?;
    for rule in 0..rules {
        let rights = reader.u64().during(Step::DecodeLaunch, item)?;
        let path = reader.text().during(Step::DecodeLaunch, item)?;
        let parent = kernel::open_plain(path).during(Step::LandlockRule, rule as u32)?;
        kernel::landlock_add_path(ruleset, rights, parent)
            .during(Step::LandlockRule, rule as u32)?;
        kernel::close(parent);
    }
    allow_streams_again(ruleset, attributes[0], setup);
    Ok(ruleset)
}

/// A standard stream that is a file may be opened again as it is open: programs do so by the name of
/// `/dev/stdout`. What is no file (a pipe, a socket) takes no rule and needs none.
fn allow_streams_again(ruleset: kernel::Fd, handled: u64, setup: &Setup) {
    const WRITE_FILE_AND_TRUNCATE: u64 = 1 << 1 | 1 << 14;
    const READ_FILE: u64 = 1 << 2;
    for stream in setup.fds().iter().take(guest::STANDARD_STREAMS) {
        let rights = match kernel::access_mode(*stream) {
            Ok(kernel::O_RDONLY) => READ_FILE,
            Ok(kernel::O_WRONLY) => WRITE_FILE_AND_TRUNCATE,
            Ok(_) => READ_FILE | WRITE_FILE_AND_TRUNCATE,
            Err(_) => 0,
        };
        let _ = kernel::landlock_add_path(ruleset, handled & rights, *stream);
    }
}

/// What confines a guest's process.
#[derive(Clone, Copy)]
pub(crate) struct Confinement {
    new_keyring: bool,
    rlimits: Rlimits,
    affinity: Option<&'static [u8]>,
    landlock: Option<kernel::Fd>,
    seccomp: Option<&'static [u8]>,
    notifies: u32,
}

impl Confinement {
    pub(crate) fn of(setup: &Setup) -> Self {
        Self {
            new_keyring: setup.new_keyring,
            rlimits: setup.rlimits,
            affinity: setup.affinity,
            landlock: setup.landlock,
            seccomp: setup.seccomp,
            notifies: setup.notifies,
        }
    }

    /// Everything but the program itself, in the only order that works: privileges are given up after
    /// what needs them, seccomp comes last because it forbids what the others use. Gives the filter's listener, if it leaves
    /// calls to somebody.
    pub(crate) fn apply(&self) -> Result<Option<kernel::Fd>, Failure> {
        if self.new_keyring {
            join_keyring().during(Step::Keyring, 0)?;
        }
        limit_where(&self.rlimits, |resource| resource != OPEN_FILES)?;
        if let Some(mask) = self.affinity {
            kernel::set_affinity(mask).during(Step::Affinity, 0)?;
        }
        privileges::drop_all()?;
        restrict(self.landlock)?;
        match self.seccomp {
            Some(program) => filter_calls(program, self.notifies).during(Step::Seccomp, 0),
            None => Ok(None),
        }
    }

    /// What could not be made yet when this was applied: Landlock rules that name paths. Filters let everybody confine himself
    /// further.
    pub(crate) fn complete(&self, setup: &Setup) -> Result<(), Failure> {
        match self.landlock {
            Some(_) => Ok(()),
            None => restrict(setup.landlock),
        }
    }
}

fn restrict(landlock: Option<kernel::Fd>) -> Result<(), Failure> {
    match landlock {
        Some(rules) => kernel::landlock_restrict_self(rules).during(Step::LandlockRestrict, 0),
        None => Ok(()),
    }
}

/// Loads the filter. Gives its listener, if it leaves calls to somebody.
fn filter_calls(program: &[u8], leaves_to: u32) -> kernel::Result<Option<kernel::Fd>> {
    match leaves_to {
        notifies::INIT => {
            let flags = kernel::NEW_LISTENER | kernel::WAIT_KILLABLE;
            let unseen = || kernel::seccomp(unattended(program)?, 0);
            kernel::seccomp(program, flags).or_else(|_| unseen())
        }
        // No signal takes a call back that was only to be looked at: `stat` is never interrupted.
        notifies::WATCHER => {
            let flags = kernel::NEW_LISTENER | kernel::WAIT_KILLABLE;
            let interruptible = || kernel::seccomp(program, kernel::NEW_LISTENER);
            kernel::seccomp(program, flags).or_else(|_| interruptible())
        }
        notifies::SUPERVISOR => kernel::seccomp(program, kernel::NEW_LISTENER),
        _ => kernel::seccomp(program, 0),
    }
}

/// The same filter where nobody can attend to its calls (an older kernel, one that has a listener already, a process
/// that is started later): what somebody would only have looked at goes on, as does what Landlock rules, and what somebody would
/// have decided is refused.
pub(crate) fn unattended(program: &[u8]) -> kernel::Result<&'static [u8]> {
    /// `BPF_RET | BPF_K` with `SECCOMP_RET_USER_NOTIF`, whose data is `wire::LOOK`, `wire::ABSENT`, `wire::RULED` or 0.
    const DECIDE: [u8; 8] = [0x06, 0, 0, 0, 0, 0, 0xc0, 0x7f];
    const LOOK: [u8; 8] = [0x06, 0, 0, 0, wire::LOOK as u8, 0, 0xc0, 0x7f];
    const ABSENT: [u8; 8] = [0x06, 0, 0, 0, wire::ABSENT as u8, 0, 0xc0, 0x7f];
    const RULED: [u8; 8] = [0x06, 0, 0, 0, wire::RULED as u8, 0, 0xc0, 0x7f];
    /// With `SECCOMP_RET_ERRNO` and `EACCES` or `ENOSYS`, and with `SECCOMP_RET_ALLOW`.
    const REFUSE: [u8; 8] = [0x06, 0, 0, 0, 13, 0, 0x05, 0];
    const NO_CALL: [u8; 8] = [0x06, 0, 0, 0, 38, 0, 0x05, 0];
    const ALLOW: [u8; 8] = [0x06, 0, 0, 0, 0, 0, 0xff, 0x7f];
    let copy = kernel::allocate(program.len().max(1))?;
    let copy = &mut copy[..program.len()];
    copy.copy_from_slice(program);
    let (instructions, _) = copy.as_chunks_mut::<8>();
    for instruction in instructions {
        match *instruction {
            LOOK | RULED => *instruction = ALLOW,
            DECIDE => *instruction = REFUSE,
            ABSENT => *instruction = NO_CALL,
            _ => {}
        }
    }
    Ok(copy)
}

/// A kernel without keyrings has none to leave, and inside another domain the filter around keeps
/// everybody from them (an unnamed keyring is refused by nobody else).
fn join_keyring() -> kernel::Result<()> {
    match kernel::join_new_keyring() {
        Err(errno) if errno == Errno::NOSYS || errno == Errno::PERM => Ok(()),
        outcome => outcome,
    }
}

/// `RLIMIT_NOFILE`.
const OPEN_FILES: u32 = 7;

/// The limit on open files comes when all are where the guest finds them: until then there are more.
pub(crate) fn limit_files(setup: &Setup) -> Result<(), Failure> {
    limit_where(&setup.rlimits, |resource| resource == OPEN_FILES)
}

fn limit_where(rlimits: &Rlimits, chosen: impl Fn(u32) -> bool) -> Result<(), Failure> {
    let limits = rlimits.all().iter();
    for (resource, soft, hard) in limits.filter(|limit| chosen(limit.0)) {
        set_limit(*resource, *soft, *hard).during(Step::Rlimit, *resource)?;
    }
    Ok(())
}

/// Whoever started palisade may have less than the plan gives (`ulimit -H`). That bound holds for the guest, too:
/// it is never raised, and a lower one keeps the promise of a higher.
fn set_limit(resource: u32, soft: u64, hard: u64) -> kernel::Result<()> {
    match kernel::set_limit(resource, soft, hard) {
        Err(errno) if errno == Errno::PERM => {
            let most = kernel::hard_limit(resource)?;
            kernel::set_limit(resource, soft.min(most), hard.min(most))
        }
        outcome => outcome,
    }
}
