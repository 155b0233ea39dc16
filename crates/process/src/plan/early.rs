//! Whether something may be started before there is a plan: the keeper, and a domain that waits for its guest.
//!
//! A limit on memory or processors is held by a control group that the domain is born in, and that is made while palisade is
//! the only process of its own group (version 2): what was started before would be in the way.

use super::Plan;
use palisade_policy::{Capability, Limits};

/// Whether what is asked for lets a start come before its plan. By the limits alone, on whatever machine.
pub fn may_start_early(limits: &Limits) -> bool {
    let asked = [
        (limits.memory_bytes.is_some(), Capability::Memory),
        (limits.cpu_cores.is_some(), Capability::Cpu),
    ];
    let mut asked = asked.into_iter().filter(|(is_asked_for, _)| *is_asked_for);
    asked.all(|(_, capability)| !forbids_early_start(capability))
}

/// Whether a limit on this, whatever it says, forbids it. For who has seen no more than a flag's name.
pub fn forbids_early_start(capability: Capability) -> bool {
    matches!(capability, Capability::Memory | Capability::Cpu)
}

impl Plan {
    /// Whether what the plan needs on the host has to be made before the keeper starts: palisade must be the only process
    /// of its group then. The keeper can only be told afterwards.
    pub(crate) fn precedes_keeper(&self) -> bool {
        let mut placements = self.cgroup.placements.iter();
        placements.any(|placement| placement.move_self.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_that_take_a_group_of_their_own_wait_for_the_plan() {
        let limits = Limits::default();
        assert!(may_start_early(&limits));
        let with_memory = Limits {
            memory_bytes: Some(1 << 20),
            ..limits
        };
        assert!(!may_start_early(&with_memory));
        let with_processes = Limits {
            processes: Some(3),
            ..limits
        };
        assert!(may_start_early(&with_processes));
    }
}
