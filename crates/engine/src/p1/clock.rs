//! `clock_…`: the kernel's clocks, read without a system call where the vDSO can.

use super::{Context, abi, errno::Errno, memory::GuestMemory};
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

/// A clock by WASI's number. The clocks of CPU time count the engine's start too.
pub(super) fn clock(id: u32) -> Result<ClockId, Errno> {
    match id {
        0 => Ok(ClockId::Realtime),
        1 => Ok(ClockId::Monotonic),
        2 => Ok(ClockId::ProcessCPUTime),
        3 => Ok(ClockId::ThreadCPUTime),
        _ => Err(Errno::INVALID),
    }
}

/// The time now, in ns.
pub(super) fn now(clock: ClockId) -> u64 {
    nanoseconds(clock_gettime(clock))
}

fn nanoseconds(time: Timespec) -> u64 {
    abi::nanoseconds(time.tv_sec, time.tv_nsec)
}

impl Context {
    pub(super) fn clock_res_get(
        &mut self,
        mut memory: GuestMemory<'_>,
        id: u32,
        resolution: u32,
    ) -> Result<(), Errno> {
        memory.put_u64(resolution, nanoseconds(clock_getres(clock(id)?)))
    }

    /// The precision that is asked for is always kept.
    pub(super) fn clock_time_get(
        &mut self,
        mut memory: GuestMemory<'_>,
        id: u32,
        _precision: u64,
        time: u32,
    ) -> Result<(), Errno> {
        memory.put_u64(time, now(clock(id)?))
    }
}
