//! Information leaks: what the launcher left in sight.

use crate::attack::Attack;
use crate::fixtures::Fixture::{Flaw, Victim};
use crate::guests::Controls::GrantedRead;
use crate::guests::Leaks as Guest;
use crate::policy::Grant::Env;
use crate::witness::Witness;

pub(super) const fn row(guest: Guest) -> Attack {
    let secret = Attack::new(74, Witness::Secret);
    match guest {
        // The launcher's own environment holds it.
        Guest::Environment => secret.controlled_by(&[Env("GRANTED={secret}")]),
        Guest::DescriptorLeft => secret
            .with(&[Flaw("leak-file={outside}/secret")])
            .ungrantable(GrantedRead),
        Guest::CmdlineVictim => secret.with(&[Victim]).ungrantable(GrantedRead),
    }
}
