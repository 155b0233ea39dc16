//! `prctl`: one call, some eighty operations.

use super::filter::{Action, Check, int};

/// Options that are neither allowed nor refused return `EINVAL`, as on a kernel without them.
pub(super) fn check() -> Check {
    let option = int(0);
    Check::otherwise(Action::Errno(libc::EINVAL as u16))
        .when([option.one_of(values(ALLOWED))], Action::Allow)
        .when(
            [option.one_of(values(REFUSED))],
            Action::Errno(libc::EPERM as u16),
        )
}

fn values(options: &[libc::c_int]) -> Vec<u64> {
    options.iter().map(|option| *option as u64).collect()
}

/// What the C library, Go, the JVM, Chrome and service managers ask for; the commonest first.
#[rustfmt::skip]
const ALLOWED: &[libc::c_int] = &[
    libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA, libc::PR_SET_PDEATHSIG,
    libc::PR_GET_PDEATHSIG, libc::PR_GET_DUMPABLE, libc::PR_SET_DUMPABLE,
    libc::PR_SET_NO_NEW_PRIVS, libc::PR_GET_NO_NEW_PRIVS, libc::PR_GET_SECCOMP,
    libc::PR_SET_SECCOMP, libc::PR_CAPBSET_READ, libc::PR_CAPBSET_DROP, libc::PR_CAP_AMBIENT,
    libc::PR_GET_KEEPCAPS, libc::PR_SET_KEEPCAPS, libc::PR_GET_SECUREBITS,
    libc::PR_SET_CHILD_SUBREAPER, libc::PR_GET_CHILD_SUBREAPER, libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK, libc::PR_SET_THP_DISABLE, libc::PR_GET_THP_DISABLE,
    libc::PR_GET_TID_ADDRESS, libc::PR_GET_TSC, libc::PR_GET_TIMING, libc::PR_MCE_KILL,
    libc::PR_MCE_KILL_GET, unnamed::PR_GET_SPECULATION_CTRL, unnamed::PR_SET_SPECULATION_CTRL,
    libc::PR_SET_MDWE, libc::PR_GET_MDWE, libc::PR_GET_MEMORY_MERGE, unnamed::PR_GET_AUXV,
    unnamed::PR_SVE_SET_VL, unnamed::PR_SVE_GET_VL, unnamed::PR_PAC_RESET_KEYS,
    unnamed::PR_SET_TAGGED_ADDR_CTRL, unnamed::PR_GET_TAGGED_ADDR_CTRL,
    unnamed::PR_SET_SYSCALL_USER_DISPATCH, unnamed::PR_GET_SHADOW_STACK_STATUS,
    unnamed::PR_SET_SHADOW_STACK_STATUS, unnamed::PR_LOCK_SHADOW_STACK_STATUS,
    unnamed::PR_FUTEX_HASH,
];

/// `PR_SET_MM` forges what `/proc/self/{exe,cmdline}` say, `PR_SET_PTRACER` invites a tracer,
/// `PR_SCHED_CORE` leaves a core-scheduling group, `PR_SET_TSC` makes the vDSO's clock fault,
/// `PR_SET_MEMORY_MERGE` lets pages be shared with strangers; the others need a capability.
#[rustfmt::skip]
const REFUSED: &[libc::c_int] = &[
    libc::PR_SET_MM, libc::PR_SET_PTRACER, libc::PR_SCHED_CORE, libc::PR_SET_TSC,
    libc::PR_SET_MEMORY_MERGE, libc::PR_SET_SECUREBITS, unnamed::PR_SET_IO_FLUSHER,
    libc::PR_TASK_PERF_EVENTS_DISABLE, libc::PR_TASK_PERF_EVENTS_ENABLE,
];

/// Options of `linux/prctl.h` that the `libc` crate does not name.
mod unnamed {
    use libc::c_int;

    pub(super) const PR_SVE_SET_VL: c_int = 50;
    pub(super) const PR_SVE_GET_VL: c_int = 51;
    pub(super) const PR_GET_SPECULATION_CTRL: c_int = 52;
    pub(super) const PR_SET_SPECULATION_CTRL: c_int = 53;
    pub(super) const PR_PAC_RESET_KEYS: c_int = 54;
    pub(super) const PR_SET_TAGGED_ADDR_CTRL: c_int = 55;
    pub(super) const PR_GET_TAGGED_ADDR_CTRL: c_int = 56;
    pub(super) const PR_SET_IO_FLUSHER: c_int = 57;
    pub(super) const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;
    pub(super) const PR_GET_SHADOW_STACK_STATUS: c_int = 74;
    pub(super) const PR_SET_SHADOW_STACK_STATUS: c_int = 75;
    pub(super) const PR_LOCK_SHADOW_STACK_STATUS: c_int = 76;
    pub(super) const PR_FUTEX_HASH: c_int = 78;
    pub(super) const PR_GET_AUXV: c_int = 0x4155_5856;
}
