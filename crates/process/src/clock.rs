//! The clock by which the moments of a start are told.

/// Now, in ns of the monotonic clock, which the keeper reads too.
pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
