//! Memory that clients had goes back to the kernel once they are gone.
//!
//! The C library keeps what is freed for whoever asks next, and gives back by itself only what lies at the end of an arena:
//! one connection that stays there holds what thousands have left. So the main thread looks now and then how much
//! is in use, and has it give back the rest after that has become much less.

mod sys;

use std::time::Duration;

/// Between two looks. A look visits what is free, and holds up each worker for as long.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// So much less in use than before is worth the faults of whoever needs it again.
const WORTH_BYTES: usize = 8 << 20;

/// Looks after it for ever.
pub(crate) async fn give_back() {
    let mut memory = Memory::default();
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
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
