//! What a call is about is exchanged while it is under way. The control wins the same race, for
//! both of what is exchanged is granted.

use super::reroute::ELSEWHERE4;
use crate::attack::Attack;
use crate::fixtures::Fixture::Servers;
use crate::guests::Controls::GrantedDatagram;
use crate::guests::Races as Guest;
use crate::policy::Grant::{self, Connect, Listen};
use crate::witness::{Effect, Trace, Witness};

const TCP4: &[Grant] = &[Connect("tcp://127.0.0.1:{tcp4}")];
const TCP6: &[Grant] = &[Connect("tcp://[::1]:{tcp6}")];
const UDP4: &[Grant] = &[Connect("udp://127.0.0.1:{udp4}")];
const LISTEN_OTHER: &[Grant] = &[Listen("tcp://127.0.0.1:{other}")];

/// Who answers for a granted call takes longer than the kernel, and the control has to win one round.
const fn raced(witness: Witness, grants: &'static [Grant]) -> Attack {
    Attack::new(87, witness)
        .with(&[Servers])
        .controlled_at(grants, &["race-ms=4000"])
        .within_ms(8_000)
}

const fn delivered(grants: &'static [Grant]) -> Attack {
    raced(Witness::Effect(Effect::Received), grants)
}

/// Of datagrams the guest cannot tell which it won: it goes on to the end.
const fn flooded(grants: &'static [Grant]) -> Attack {
    delivered(grants).controlled_at(grants, &["race-ms=1000"])
}

const OTHER: Witness = Witness::Trace(Trace::TcpAnswers("127.0.0.1:{other}"));

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::RaceConnect4
        | Guest::RaceConnectShared
        | Guest::RaceLocalConnect
        | Guest::RaceReusedNumber => delivered(TCP4),
        Guest::RaceConnect6 | Guest::RaceFamily => delivered(TCP6),
        Guest::RaceConnectUdp | Guest::RaceLocalDatagram | Guest::RaceLocalSend => delivered(UDP4),
        Guest::RaceSendTo
        | Guest::RaceMessageName
        | Guest::RaceMessageLength
        | Guest::RaceBatch => flooded(UDP4),
        Guest::RaceTransport => delivered(TCP4).launched(&[Connect("udp://127.0.0.1:{tcp4}")]),
        Guest::RaceControl => {
            raced(Witness::Effect(Effect::PacketTo(ELSEWHERE4)), &[]).ungrantable(GrantedDatagram)
        }
        Guest::RaceBind | Guest::RaceLocalBind => raced(OTHER, LISTEN_OTHER),
        Guest::RaceListen => raced(Witness::Trace(Trace::Listener), &[Listen("tcp://*:0")]),
    }
}
