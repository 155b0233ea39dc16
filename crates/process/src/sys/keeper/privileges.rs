//! Giving up what a process may.

use crate::{During, Failure, kernel, wire::Step};

/// `PR_SET_PDEATHSIG` of prctl(2).
pub(crate) const SET_PARENT_DEATH_SIGNAL: u32 = 1;
pub(crate) const SET_NO_NEW_PRIVS: u32 = 38;
const SET_SECUREBITS: u32 = 28;
const CAPBSET_DROP: u32 = 24;
/// NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, each with its lock (securebits.h).
const SECUREBITS: u64 = 0b1100_1111 & !0b11_0000;

/// What somebody of palisade's does to itself who will need nothing else any more. Capabilities stay: the
/// keeper has to end processes and remove files of others.
pub(crate) fn give_up(rules: Option<kernel::Fd>, program: &[u8]) -> kernel::Result<()> {
    kernel::prctl(SET_NO_NEW_PRIVS, 1)?;
    if let Some(rules) = rules {
        kernel::landlock_restrict_self(rules)?;
    }
    kernel::seccomp(program, 0).map(drop)
}

/// Capabilities, and all ways to gain any.
pub(crate) fn drop_all() -> Result<(), Failure> {
    kernel::prctl(SET_NO_NEW_PRIVS, 1).during(Step::NoNewPrivileges, 0)?;
    // Both need CAP_SETPCAP, which a process without a user namespace of its own may lack; with no
    // capabilities and no_new_privs they are a second line only.
    let _ = kernel::prctl(SET_SECUREBITS, SECUREBITS);
    let mut capability = 0;
    while kernel::prctl(CAPBSET_DROP, capability).is_ok() {
        capability += 1;
    }
    kernel::drop_capabilities().during(Step::DropCapabilities, 0)
}
