//! Memory that clients had goes back to the kernel once they are gone.
//!
//! The C library keeps what is freed for whoever asks next, and gives back by itself only what lies at the end of an arena:
//! one connection that stays there holds what thousands have left. So the main thread looks now and then how much
//! is in use, and has it give back the rest after that has become much less.

mod sys;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::sync::Notify;

/// From the first end of something to a look. A look visits what is free, and holds up each worker for as long.
const LOOK_AFTER: Duration = Duration::from_secs(5);

/// Something has ended since the last look. (The allocator is the process's, and so is this.)
static HAS_ENDED: AtomicBool = AtomicBool::new(false);
static LOOK: Notify = Notify::const_new();

/// So much less in use than before is worth the faults of whoever needs it again.
const WORTH_BYTES: usize = 8 << 20;

/// Says that something has ended which took memory: a request, a connection, a configuration.
pub(crate) fn has_ended() {
    // Written to once between two looks: all workers read it.
    if !HAS_ENDED.load(Ordering::Relaxed) && !HAS_ENDED.swap(true, Ordering::Relaxed) {
        LOOK.notify_one();
    }
}

/// Looks after it for ever, and wakes nobody while nothing happens.
pub(crate) async fn give_back() {
    let mut memory = Memory::default();
    loop {
        LOOK.notified().await;
        tokio::time::sleep(LOOK_AFTER).await;
        // Before the look: what ends now is for the next one.
        HAS_ENDED.store(false, Ordering::Relaxed);
        if memory.is_worth_it(&Seen::now()) {
            sys::give_back();
            memory = Memory::after(&Seen::now());
        }
    }
}

/// What one look saw, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    used: usize,
    /// Freed, and perhaps given back already.
    free: usize,
    /// All that the process has.
    resident: usize,
}

impl Seen {
    fn now() -> Self {
        let (used, free) = sys::used_and_free_bytes();
        Self {
            used,
            free,
            resident: resident_bytes().unwrap_or_default(),
        }
    }
}

/// What was seen since memory was given back last.
#[derive(Debug, Default)]
struct Memory {
    most_used: usize,
    /// Right after that.
    resident: usize,
}

impl Memory {
    fn after(seen: &Seen) -> Self {
        Self {
            most_used: seen.used,
            resident: seen.resident,
        }
    }

    /// Whether much less is in use than at a look before; or there is much more than then, and as much of it is free: what came
    /// and went between two looks.
    fn is_worth_it(&mut self, seen: &Seen) -> bool {
        self.most_used = self.most_used.max(seen.used);
        let is_less_used = self.most_used - seen.used >= WORTH_BYTES;
        let more = seen.resident.saturating_sub(self.resident);
        is_less_used || more.min(seen.free) >= WORTH_BYTES
    }
}

/// The second number of /proc/self/statm, proc_pid_statm(5).
fn resident_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn seen([used, free, resident]: [usize; 3]) -> Seen {
        Seen {
            used: used * MIB,
            free: free * MIB,
            resident: resident * MIB,
        }
    }

    #[test]
    fn memory_is_given_back_once_less_of_it_is_used() {
        let mut memory = Memory::after(&seen([10, 1, 20]));
        let looks = [[10, 1, 20], [60, 2, 72], [90, 2, 100], [83, 7, 100]];
        assert!(!looks.map(seen).iter().any(|look| memory.is_worth_it(look)));
        assert!(memory.is_worth_it(&seen([82, 8, 100])));
    }

    /// Clients that came and went between two looks.
    #[test]
    fn memory_that_nobody_was_seen_to_use_is_given_back() {
        let mut memory = Memory::after(&seen([10, 1, 20]));
        assert!(memory.is_worth_it(&seen([10, 60, 80])));
        let mut memory = Memory::after(&seen([10, 60, 22]));
        assert!(!memory.is_worth_it(&seen([10, 60, 29])));
        assert!(memory.is_worth_it(&seen([10, 60, 30])));
    }

    #[test]
    fn what_is_in_use_is_known() {
        let before = Seen::now();
        let much: Vec<Vec<u8>> = (0..4000).map(|_| vec![1; 4096]).collect();
        assert!(Seen::now().used >= before.used + (12 << 20));
        assert!(before.resident > 0);
        drop(std::hint::black_box(much));
        sys::give_back();
    }
}
