//! Network. There is no network grant yet: every control shows that sockets of the
//! domain's own work, and that the witness sees them.

use crate::attack::Attack;
use crate::attack::Prop::Servers;
use crate::guests::Controls::OwnSocket;
use crate::guests::Network as Guest;
use crate::witness::{Effect, Trace, Witness};

/// The guest's nonce reaches a server on the loopback device.
const fn delivered(entry: usize) -> Attack {
    Attack::new(entry, Witness::Effect(Effect::Received))
        .with(&[Servers])
        .ungrantable(OwnSocket)
}

/// A socket that could reach out is open.
const fn socket(entry: usize, protocol: &'static str) -> Attack {
    Attack::new(entry, Witness::Trace(Trace::Socket(protocol))).ungrantable(OwnSocket)
}

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::Tcp4 | Guest::Tcp6 | Guest::Tcp4Mapped => delivered(60),
        Guest::Udp4 | Guest::Udp6 | Guest::UdpDns => delivered(61),
        Guest::PingSocket => socket(63, "PING"),
        Guest::RawSocket => socket(63, "RAW"),
        Guest::Mptcp => delivered(64),
        Guest::Udplite => socket(64, "UDP-Lite"),
        Guest::Sctp => socket(64, "SCTP"),
        Guest::TcpFastopen | Guest::ReconnectUnspec => delivered(65),
        Guest::ListenAutobind => Attack::new(65, Witness::Trace(Trace::Listener))
            .with(&[Servers])
            .ungrantable(OwnSocket),
        Guest::AnyAddress => delivered(66),
        Guest::Interfaces => Attack::new(66, Witness::Text("interface lo"))
            .with(&[Servers])
            .ungrantable(OwnSocket),
    }
}
