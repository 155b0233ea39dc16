//! One row of the table: what a guest tries, how it is seen, and what should happen.

use crate::fixtures::Fixture;
use crate::guests::Controls;
use crate::policy::{Grant, Policy};
use crate::witness::Witness;

/// The act that shows that it is the wall, not the act, that failed.
#[derive(Clone, Copy, Debug)]
pub enum Control {
    /// The same guest with these grants more, and these arguments instead, succeeds.
    Granted {
        /// Added to the generous policy and the attack's own; a limit replaces the attack's.
        grants: &'static [Grant],
        /// `KEY=VALUE`, looked up before the attack's own.
        arguments: &'static [&'static str],
    },
    /// The same guest with these grants instead of the attack's own succeeds.
    Instead(&'static [Grant]),
    /// No grant exists for the act. The nearest one that every policy allows succeeds,
    /// and the same kind of witness sees it through the same wall.
    NoGrant(Controls),
}

/// An attack, with all that it takes to run and to judge it.
#[derive(Clone, Debug)]
pub struct Attack {
    /// The name on the command line and in test names.
    pub name: &'static str,
    /// The row of [`crate::catalogue`] that it comes from, counted from 1; 0 for controls.
    pub entry: usize,
    /// What must be ready before.
    pub fixtures: &'static [Fixture],
    /// Grants and limits that every policy of this attack has.
    pub launch: &'static [Grant],
    /// `KEY=VALUE` for the guest, templates.
    pub arguments: &'static [&'static str],
    /// `KEY=VALUE` only where there is no wall and the guest plays the naive launcher.
    pub naive_arguments: &'static [&'static str],
    /// How success is seen.
    pub witness: Witness,
    /// The policies under which it is granted; denied under all others.
    pub granted_by: &'static [Policy],
    /// Its control.
    pub control: Control,
    /// A launcher that refuses to start has also stopped it.
    pub refusal_counts: bool,
    /// Takes much of what the kernel counts for each user: one run of it at a time.
    pub in_turn: bool,
    /// How often the launcher starts in one run: more than once for races.
    pub launches: usize,
    /// When the run is cut off.
    pub deadline_ms: u64,
    /// Why the wall does not hold this yet, or not always: a case that fails counts as ignored.
    pub pending: Option<&'static str>,
}

impl Attack {
    /// An attack of catalogue row `entry`, denied under every policy, with the given witness.
    #[must_use]
    pub const fn new(entry: usize, witness: Witness) -> Self {
        Self {
            name: "",
            entry,
            fixtures: &[],
            launch: &[],
            arguments: &[],
            naive_arguments: &[],
            witness,
            granted_by: &[],
            control: Control::NoGrant(Controls::GrantedRead),
            refusal_counts: false,
            in_turn: false,
            launches: 1,
            deadline_ms: 5_000,
            pending: None,
        }
    }

    /// Seen in this way instead.
    #[must_use]
    pub const fn seen_by(mut self, witness: Witness) -> Self {
        self.witness = witness;
        self
    }

    /// What must be ready before.
    #[must_use]
    pub const fn with(mut self, fixtures: &'static [Fixture]) -> Self {
        self.fixtures = fixtures;
        self
    }

    /// Grants and limits under every policy.
    #[must_use]
    pub const fn launched(mut self, launch: &'static [Grant]) -> Self {
        self.launch = launch;
        self
    }

    /// Further arguments of the guest.
    #[must_use]
    pub const fn told(mut self, arguments: &'static [&'static str]) -> Self {
        self.arguments = arguments;
        self
    }

    /// Further arguments of the guest where there is no wall.
    #[must_use]
    pub const fn told_without_wall(mut self, arguments: &'static [&'static str]) -> Self {
        self.naive_arguments = arguments;
        self
    }

    /// Policies that grant it.
    #[must_use]
    pub const fn granted_by(mut self, policies: &'static [Policy]) -> Self {
        self.granted_by = policies;
        self
    }

    /// The control is the same act with these grants.
    #[must_use]
    pub const fn controlled_by(mut self, grants: &'static [Grant]) -> Self {
        self.control = Control::Granted {
            grants,
            arguments: &[],
        };
        self
    }

    /// The control is the same act with these grants instead of its own.
    #[must_use]
    pub const fn controlled_instead_by(mut self, grants: &'static [Grant]) -> Self {
        self.control = Control::Instead(grants);
        self
    }

    /// The control is the same act with other arguments.
    #[must_use]
    pub const fn controlled_at(
        mut self,
        grants: &'static [Grant],
        arguments: &'static [&'static str],
    ) -> Self {
        self.control = Control::Granted { grants, arguments };
        self
    }

    /// No grant exists; `neighbour` is the nearest act that always is allowed.
    #[must_use]
    pub const fn ungrantable(mut self, neighbour: Controls) -> Self {
        self.control = Control::NoGrant(neighbour);
        self
    }

    /// A refusal to start counts as stopped.
    #[must_use]
    pub const fn or_refused(mut self) -> Self {
        self.refusal_counts = true;
        self
    }

    /// Launches that often.
    #[must_use]
    pub const fn repeated(mut self, launches: usize) -> Self {
        self.launches = launches;
        self
    }

    /// Cut off after `deadline_ms`.
    #[must_use]
    pub const fn within_ms(mut self, deadline_ms: u64) -> Self {
        self.deadline_ms = deadline_ms;
        self
    }

    /// The wall does not hold this yet; the reason.
    #[must_use]
    pub const fn pending(mut self, reason: &'static str) -> Self {
        self.pending = Some(reason);
        self
    }

    /// One run at a time.
    #[must_use]
    pub const fn in_turn(mut self) -> Self {
        self.in_turn = true;
        self
    }

    /// Whether the table says that it succeeds behind a wall under `policy`.
    #[must_use]
    pub fn is_granted(&self, policy: Policy) -> bool {
        policy == Policy::Control || self.granted_by.contains(&policy)
    }

    /// All grants under `policy`: the policy's, then the attack's and its control's.
    #[must_use]
    pub fn grants(&self, policy: Policy) -> Vec<Grant> {
        let (own, more): (_, &[Grant]) = match self.control {
            Control::Granted { grants, .. } if policy == Policy::Control => (self.launch, grants),
            Control::Instead(grants) if policy == Policy::Control => (grants, &[]),
            _ => (self.launch, &[]),
        };
        let mut grants = Vec::new();
        let doors: &[Grant] = if self.fixtures.contains(&Fixture::Servers) {
            policy.doors()
        } else {
            &[]
        };
        let all = policy.grants().iter().chain(doors).chain(own).chain(more);
        for grant in all {
            grants.retain(|other| !grant.replaces(*other));
            grants.push(*grant);
        }
        grants
    }

    /// The arguments that the control puts before the attack's own; none under other policies.
    #[must_use]
    pub fn control_arguments(&self, policy: Policy) -> &'static [&'static str] {
        match self.control {
            Control::Granted { arguments, .. } if policy == Policy::Control => arguments,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Attack, Grant, Policy};
    use crate::witness::Witness;

    const BOMB: Attack = Attack::new(1, Witness::SelfReported)
        .launched(&[Grant::Limit("memory", "32M")])
        .controlled_by(&[Grant::Limit("memory", "1G")]);

    #[test]
    fn the_control_replaces_the_attacks_limit() {
        let limits = |policy| -> Vec<_> {
            BOMB.grants(policy)
                .into_iter()
                .filter(|g| matches!(g, Grant::Limit(..)))
                .collect()
        };
        assert_eq!(limits(Policy::Generous), [Grant::Limit("memory", "32M")]);
        assert_eq!(limits(Policy::Control), [Grant::Limit("memory", "1G")]);
    }

    #[test]
    fn an_attack_is_denied_unless_the_table_grants_it() {
        assert!(Policy::FACED.iter().all(|policy| !BOMB.is_granted(*policy)));
        assert!(
            BOMB.granted_by(&[Policy::Generous])
                .is_granted(Policy::Generous)
        );
    }
}
