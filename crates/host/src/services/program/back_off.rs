//! How long a program is left alone after it has failed.

use crate::config::{self, FaultBudget};
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// What counts for the wait before the next start.
#[derive(Debug, Default)]
pub(super) struct BackOff {
    /// Ends that nobody asked for, one after the other.
    failures: u32,
    /// Those of them, up to the last, before which nobody had a response.
    mute_lives: u32,
    faults: VecDeque<Instant>,
}

impl BackOff {
    /// It was ended because nobody needed it: it does what it shall.
    pub(super) fn forget(&mut self) {
        self.failures = 0;
    }

    /// Whether its last end was one that nobody asked for.
    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// It died after so long. `true` if there is no point in waiting for the next start.
    pub(super) fn died(
        &mut self,
        lived: Duration,
        is_mute: bool,
        program: &config::Program,
    ) -> bool {
        if lived >= program.back_off_most {
            self.failures = 0;
        }
        self.mute_lives = if is_mute { self.mute_lives + 1 } else { 0 };
        // A first start that fails costs no request.
        self.mute_lives > 1
    }

    /// How long to wait, this failure counted.
    pub(super) fn rest(&mut self, program: &config::Program, budget: FaultBudget) -> Duration {
        let doubled = 2u32.saturating_pow(self.failures.min(24));
        let rest = program
            .back_off
            .saturating_mul(doubled)
            .min(program.back_off_most);
        self.failures = self.failures.saturating_add(1);
        let now = Instant::now();
        self.faults.push_back(now);
        let most = budget.most as usize;
        let is_past = |at: &Instant| now - *at > budget.within;
        while self.faults.front().is_some_and(is_past) || self.faults.len() > most + 1 {
            self.faults.pop_front();
        }
        match self.faults.len() > most {
            true => rest.max(budget.rest),
            false => rest,
        }
    }
}
