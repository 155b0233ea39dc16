//! Controls: what every policy of the generous kind allows.

use crate::attack::Attack;
use crate::guests::Controls;
use crate::witness::{Effect, Trace, Witness};

pub(super) const fn row(guest: Controls) -> Attack {
    Attack::new(
        0,
        match guest {
            Controls::OwnEventfd => Witness::Trace(Trace::Descriptor("[eventfd]")),
            Controls::OwnSocket => Witness::Trace(Trace::Socket("UNIX-STREAM")),
            Controls::OwnChild => Witness::Trace(Trace::Processes(1)),
            Controls::OwnPayload => Witness::Trace(Trace::Executes("/hostile")),
            Controls::GrantedRead => Witness::Token,
            Controls::GrantedWrite => Witness::Effect(Effect::Holds("{scratch}/planted")),
        },
    )
}
