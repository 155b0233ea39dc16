//! Two guests with different grants, and what one passes to the other.

use super::reroute::ELSEWHERE6;
use crate::attack::Attack;
use crate::fixtures::Fixture::{Accomplice, Servers};
use crate::guests::Controls::GrantedConnect;
use crate::guests::Together as Guest;
use crate::policy::Grant::{self, Connect, Ipc, Listen, NoSystem, ReadAt, Write};
use crate::witness::{Effect, Trace, Witness};

const TCP4: &[Grant] = &[Connect("tcp://127.0.0.1:{tcp4}")];
/// Where the two meet.
const MEETING: &[Grant] = &[Write("{scratch}"), Ipc("{scratch}/run")];

/// What the other guest may: the doors, and to meet.
const GIVER: &[Grant] = &[
    NoSystem,
    ReadAt("{bin}", "/guest"),
    Write("{scratch}"),
    Ipc("{scratch}/run"),
    Connect("tcp://127.0.0.1:{door-tcp4}"),
    Connect("tcp://[::1]:{door-tcp6}"),
];
/// The same with datagrams: then its messages are looked at.
const GIVER_OF_DATAGRAMS: &[Grant] = &[
    NoSystem,
    ReadAt("{bin}", "/guest"),
    Write("{scratch}"),
    Ipc("{scratch}/run"),
    Connect("udp://127.0.0.1:{door-udp4}"),
];

/// The guest does with a passed stream what `grants` would allow.
const fn stream(witness: Witness, grants: &'static [Grant]) -> Attack {
    Attack::new(98, witness)
        .with(&[Servers, Accomplice(GIVER)])
        .launched(MEETING)
        .controlled_by(grants)
}

/// Nobody may pass on what sends to whom it likes, so that there is nothing to grant.
const fn datagrams() -> Attack {
    Attack::new(98, Witness::Effect(Effect::Received))
        .with(&[Servers, Accomplice(GIVER_OF_DATAGRAMS)])
        .launched(MEETING)
        .ungrantable(GrantedConnect)
}

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::PassedStream
        | Guest::PassedFastOpen
        | Guest::PassedFastOpenMessage
        | Guest::PassedFastOpenBatch
        | Guest::PassedFastOpenConnect
        | Guest::PassedReconnect => stream(Witness::Effect(Effect::Received), TCP4),
        Guest::PassedDatagrams
        | Guest::PassedDatagramsMessage
        | Guest::PassedDatagramsBatch
        | Guest::PassedDatagramsReconnect => datagrams(),
        Guest::PassedListens => stream(Witness::Trace(Trace::Listener), &[Listen("tcp://*:0")]),
        Guest::PassedBinds => stream(
            Witness::Trace(Trace::Listener),
            &[Listen("tcp://127.0.0.1:{other}")],
        ),
        Guest::PassedOption => {
            stream(Witness::Effect(Effect::PacketTo(ELSEWHERE6)), &[]).ungrantable(GrantedConnect)
        }
        Guest::PassedTellsAddresses => {
            stream(Witness::Text("address 198.51.100.77"), &[]).ungrantable(GrantedConnect)
        }
    }
}
