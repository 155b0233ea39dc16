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
    let mut use_of_memory = UseOfMemory::default();
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        if use_of_memory.has_fallen(sys::bytes_in_use()) {
            sys::give_back();
        }
    }
}

/// The most that was in use since memory was given back last.
#[derive(Debug, Default)]
struct UseOfMemory {
    most_bytes: usize,
    /// At the last look.
    last_bytes: usize,
}

impl UseOfMemory {
    /// Whether much less is in use, and the fall is over: else there is more to give back at the next look.
    fn has_fallen(&mut self, bytes: usize) -> bool {
        self.most_bytes = self.most_bytes.max(bytes);
        let is_falling = self.last_bytes.saturating_sub(bytes) >= WORTH_BYTES;
        self.last_bytes = bytes;
        if is_falling || self.most_bytes - bytes < WORTH_BYTES {
            return false;
        }
        self.most_bytes = bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_its_use_has_fallen() {
        let mut use_of_memory = UseOfMemory::default();
        let looks = [10, 12, 90, 88, 40, 20, 19, 19, 26, 27, 60, 10, 11];
        let given: Vec<_> = looks
            .into_iter()
            .filter(|mib| use_of_memory.has_fallen(mib << 20))
            .collect();
        assert_eq!(given, [19, 11]);
    }

    #[test]
    fn what_is_in_use_is_known() {
        let before = sys::bytes_in_use();
        let much: Vec<Vec<u8>> = (0..4000).map(|_| vec![1; 4096]).collect();
        assert!(sys::bytes_in_use() >= before + (12 << 20));
        drop(std::hint::black_box(much));
        sys::give_back();
    }
}
