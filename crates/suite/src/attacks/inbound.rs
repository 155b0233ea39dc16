//! Being reached where the policy grants another port or address to listen at.

use crate::attack::Attack;
use crate::fixtures::Fixture::{Caller, Servers, SharedPort};
use crate::guests::Controls::GrantedConnect;
use crate::guests::Inbound as Guest;
use crate::policy::Grant::{self, Connect, Listen};
use crate::witness::{Effect, Trace, Witness};

const TCP4: &[Grant] = &[Connect("tcp://127.0.0.1:{tcp4}")];

/// The suite reaches a server of the guest; with `grants` it may.
const fn reached(at: Trace, grants: &'static [Grant]) -> Attack {
    Attack::new(85, Witness::Trace(at))
        .with(&[Servers])
        .controlled_by(grants)
}

/// The policy grants one listener ready-made, and somebody of the host connects to it.
const fn ready(witness: Witness) -> Attack {
    Attack::new(85, witness)
        .with(&[Servers, Caller("127.0.0.1:{other}")])
        .launched(&[Listen("tcp://127.0.0.1:{other},ready")])
        .told_without_wall(&["naive=1"])
        .ungrantable(GrantedConnect)
}

/// Another port than the granted one.
const OTHER: Trace = Trace::TcpAnswers("127.0.0.1:{other}");
const LISTEN_OTHER: &[Grant] = &[Listen("tcp://127.0.0.1:{other}")];
/// Through another address than the granted one.
const BESIDE: Trace = Trace::TcpAnswers("127.0.0.2:{listen}");
/// At a port that the kernel chose.
const SOMEWHERE: Trace = Trace::Listener;
const LISTEN_EVERYWHERE: &[Grant] = &[Listen("tcp://*:0")];

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::ListenOtherPort | Guest::ListenOtherMapped | Guest::ListenLongAddress => {
            reached(OTHER, LISTEN_OTHER)
        }
        // The kernel takes it for IPv4; no program needs that, and nobody is granted it.
        Guest::BindUnspecFamily => reached(OTHER, &[]).ungrantable(GrantedConnect),
        Guest::ListenMptcp => reached(OTHER, &[]).ungrantable(GrantedConnect),
        Guest::ListenOtherPort6 => reached(
            Trace::TcpAnswers("[::1]:{other}"),
            &[Listen("tcp://[::1]:{other}")],
        ),
        Guest::AnswerDatagrams => reached(
            Trace::UdpAnswers("127.0.0.1:{other}"),
            &[Listen("udp://127.0.0.1:{other}")],
        ),
        Guest::AnswerDatagrams6 => reached(
            Trace::UdpAnswers("[::1]:{other}"),
            &[Listen("udp://[::1]:{other}")],
        ),
        Guest::ListenOtherTransport => reached(
            Trace::UdpAnswers("127.0.0.1:{other}"),
            &[Listen("udp://127.0.0.1:{other}")],
        )
        .launched(LISTEN_OTHER),

        Guest::ListenOtherAddress => reached(BESIDE, &[Listen("tcp://127.0.0.2:{listen}")]),
        Guest::ListenEverywhere | Guest::ListenEverywhere6 | Guest::ListenEverywhereMapped => {
            reached(BESIDE, &[Listen("tcp://*:{listen}")])
        }
        Guest::ListenV6Only => reached(
            Trace::TcpAnswers("[::1]:{listen}"),
            &[Listen("tcp://[::1]:{listen}")],
        ),
        Guest::AnswerEverywhere => reached(
            Trace::UdpAnswers("127.0.0.2:{listen}"),
            &[Listen("udp://*:{listen}")],
        ),

        Guest::ListenAutobind6 | Guest::ListenPortZero | Guest::ListenLatePort => {
            reached(SOMEWHERE, LISTEN_EVERYWHERE)
        }
        Guest::ListenLoopbackZero => reached(SOMEWHERE, &[Listen("tcp://127.0.0.1:0")]),
        Guest::ListenAfterConnect => reached(SOMEWHERE, &[]).ungrantable(GrantedConnect),

        // No grant gives an address that the host has not; the other takes a capability in its network.
        Guest::ListenFreeBind | Guest::ListenTransparent => {
            reached(SOMEWHERE, &[]).ungrantable(GrantedConnect)
        }

        Guest::StealPort => reached(
            Trace::TcpAnswers("127.0.0.1:{shared}"),
            &[Listen("tcp://127.0.0.1:{shared}")],
        )
        .with(&[Servers, SharedPort]),
        Guest::StealDatagrams => reached(
            Trace::UdpAnswers("127.0.0.1:{shared}"),
            &[Listen("udp://127.0.0.1:{shared}")],
        )
        .with(&[Servers, SharedPort]),

        Guest::ReadyConnects | Guest::ReadyAcceptedConnects => {
            ready(Witness::Effect(Effect::Received)).controlled_by(TCP4)
        }
        Guest::ReadyFastOpen => ready(Witness::Effect(Effect::Received)),
        Guest::ReadyListensElsewhere => ready(Witness::Trace(Trace::ListenerBeside("{other}"))),
        Guest::AcceptedListensElsewhere => {
            ready(Witness::Trace(Trace::ListenerBeside("{other}"))).launched(LISTEN_OTHER)
        }
    }
}
