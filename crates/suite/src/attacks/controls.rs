//! Controls: what every policy of the generous kind allows.

use super::reroute::ELSEWHERE4;
use crate::attack::Attack;
use crate::fixtures::Fixture::Servers;
use crate::guests::Controls;
use crate::policy::Grant::{self, Connect};
use crate::witness::{Effect, Trace, Witness};

const fn at_a_server(effect: Effect, grants: &'static [Grant]) -> Attack {
    Attack::new(0, Witness::Effect(effect))
        .with(&[Servers])
        .launched(grants)
}

pub(super) const fn row(guest: Controls) -> Attack {
    Attack::new(
        0,
        match guest {
            Controls::OwnEventfd => Witness::Trace(Trace::Descriptor("[eventfd]")),
            Controls::OwnHandle => Witness::Trace(Trace::Descriptor("/granted")),
            Controls::OwnSocket => Witness::Trace(Trace::Socket("UNIX-STREAM")),
            Controls::OwnChild => Witness::Trace(Trace::Processes(1)),
            Controls::OwnPayload => Witness::Trace(Trace::Executes("/hostile")),
            Controls::GrantedRead => Witness::Token,
            Controls::GrantedConnect => {
                return at_a_server(Effect::Received, &[Connect("tcp://127.0.0.1:{tcp4}")]);
            }
            Controls::GrantedDatagram => {
                return at_a_server(
                    Effect::PacketTo(ELSEWHERE4),
                    &[Connect("udp://192.0.2.9:9")],
                );
            }
            Controls::GrantedWrite => Witness::Effect(Effect::Holds("{scratch}/planted")),
        },
    )
}
