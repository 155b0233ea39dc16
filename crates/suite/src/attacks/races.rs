//! What a call is about is exchanged while it is under way. The control wins the same race, for
//! both of what is exchanged is granted.

use super::reroute::ELSEWHERE4;
use crate::attack::Attack;
use crate::attack::Grant::{self, Connect, Listen};
use crate::attack::Prop::Servers;
use crate::guests::Controls::GrantedDatagram;
use crate::guests::Races as Guest;
use crate::witness::{Effect, Trace, Witness};

const TCP4: &[Grant] = &[Connect("tcp://127.0.0.1:{tcp4}")];
const TCP6: &[Grant] = &[Connect("tcp://[::1]:{tcp6}")];
const UDP4: &[Grant] = &[Connect("udp://127.0.0.1:{udp4}")];
const LISTEN_OTHER: &[Grant] = &[Listen("tcp://127.0.0.1:{other}")];

const fn raced(witness: Witness, grants: &'static [Grant]) -> Attack {
    Attack::new(87, witness)
        .with(&[Servers])
        .controlled_by(grants)
}

const fn delivered(grants: &'static [Grant]) -> Attack {
    raced(Witness::Effect(Effect::Received), grants)
}

const OTHER: Witness = Witness::Trace(Trace::TcpAnswers("127.0.0.1:{other}"));

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::RaceConnect4
        | Guest::RaceConnectShared
        | Guest::RaceLocalConnect
        | Guest::RaceReusedNumber => delivered(TCP4),
        Guest::RaceConnect6 | Guest::RaceFamily => delivered(TCP6),
        Guest::RaceConnectUdp
        | Guest::RaceSendTo
        | Guest::RaceMessageName
        | Guest::RaceMessageLength
        | Guest::RaceBatch
        | Guest::RaceLocalDatagram
        | Guest::RaceLocalSend => delivered(UDP4),
        Guest::RaceTransport => delivered(TCP4).launched(&[Connect("udp://127.0.0.1:{tcp4}")]),
        Guest::RaceControl => {
            raced(Witness::Effect(Effect::PacketTo(ELSEWHERE4)), &[]).ungrantable(GrantedDatagram)
        }
        Guest::RaceBind | Guest::RaceLocalBind => raced(OTHER, LISTEN_OTHER),
        Guest::RaceListen => raced(Witness::Trace(Trace::Listener), &[Listen("tcp://*:0")]),
    }
}
