//! Network: a server of the host that no policy grants. The minimum policy grants another port of
//! the same host, the generous one others, see [`crate::policy::Policy::doors`].

use crate::attack::Attack;
use crate::fixtures::Fixture::Servers;
use crate::guests::Controls::{GrantedConnect, OwnSocket};
use crate::guests::Network as Guest;
use crate::policy::Grant::{self, Connect, Listen};
use crate::witness::{Effect, Trace, Witness};

const TCP4: &[Grant] = &[Connect("tcp://127.0.0.1:{tcp4}")];
const UDP4: &[Grant] = &[Connect("udp://127.0.0.1:{udp4}")];

/// The guest's nonce reaches a server on the loopback device; with `grants` it may.
const fn delivered(entry: usize, grants: &'static [Grant]) -> Attack {
    Attack::new(entry, Witness::Effect(Effect::Received))
        .with(&[Servers])
        .controlled_by(grants)
}

/// A socket that could reach out is open. No grant gives one of this protocol.
const fn socket(entry: usize, protocol: &'static str) -> Attack {
    Attack::new(entry, Witness::Trace(Trace::Socket(protocol)))
        .with(&[Servers])
        .ungrantable(OwnSocket)
}

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::Tcp4 | Guest::Tcp4Mapped => delivered(60, TCP4),
        Guest::Tcp6 => delivered(60, &[Connect("tcp://[::1]:{tcp6}")]),
        Guest::Udp4 => delivered(61, UDP4),
        Guest::Udp6 => delivered(61, &[Connect("udp://[::1]:{udp6}")]),
        Guest::UdpDns => delivered(61, &[Connect("udp://127.0.0.53:53")]),
        Guest::PingSocket => socket(63, "PING"),
        Guest::RawSocket => socket(63, "RAW"),
        Guest::Mptcp => delivered(64, &[]).ungrantable(GrantedConnect),
        Guest::Udplite => socket(64, "UDP-Lite"),
        Guest::Sctp => socket(64, "SCTP"),
        Guest::TcpFastopen => delivered(65, &[]).ungrantable(GrantedConnect),
        Guest::ReconnectUnspec => delivered(65, UDP4),
        Guest::ListenAutobind => Attack::new(65, Witness::Trace(Trace::Listener))
            .with(&[Servers])
            .controlled_by(&[Listen("tcp://*:0")]),
        Guest::AnyAddress => delivered(66, TCP4),
        Guest::Interfaces => Attack::new(66, Witness::Text("interface lo"))
            .with(&[Servers])
            .ungrantable(OwnSocket),
    }
}
