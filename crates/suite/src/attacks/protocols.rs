//! Protocols beside TCP and UDP, and what a socket of the host's network tells.

use super::reroute::ELSEWHERE4;
use crate::attack::Attack;
use crate::fixtures::Fixture::Servers;
use crate::guests::Controls::{GrantedConnect, GrantedDatagram, OwnSocket};
use crate::guests::Protocols as Guest;
use crate::witness::{Effect, Fact, Trace, Witness};

const fn beside(entry: usize, witness: Witness) -> Attack {
    Attack::new(entry, witness)
        .with(&[Servers])
        .ungrantable(GrantedConnect)
}

/// Something about the host, which only its own network knows.
const HOST_ADDRESS: Witness = Witness::Text("address 198.51.100.77");

/// Holds every address and route of the arena.
const fn in_routes(address: &'static str) -> Witness {
    Witness::Effect(Effect::HoldsText("/proc/self/net/fib_trie", address))
}

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::Mptcp6
        | Guest::MptcpMapped
        | Guest::SmcProtocol
        | Guest::UdpliteSend
        | Guest::RawDatagram => beside(84, Witness::Effect(Effect::Received)),
        Guest::MptcpToDoor => {
            beside(84, Witness::Trace(Trace::Socket("MPTCP"))).ungrantable(OwnSocket)
        }
        Guest::EveryProtocol | Guest::EveryFamily => {
            beside(84, Witness::Trace(Trace::ForeignSocket)).ungrantable(OwnSocket)
        }
        Guest::PingElsewhere => {
            beside(84, Witness::Effect(Effect::PacketTo(ELSEWHERE4))).ungrantable(GrantedDatagram)
        }
        Guest::UpgradeSmc | Guest::UpgradeEsp | Guest::UpgradeTls => {
            beside(84, Witness::SelfReported)
        }

        Guest::HostAddresses | Guest::HostAddress => beside(86, HOST_ADDRESS),
        Guest::HostAddressSet => beside(86, in_routes("203.0.113.7")),
        Guest::HostRouteSet => beside(86, in_routes("203.0.113.8")),
        Guest::HostArp | Guest::HostFlags | Guest::HostNamespace => {
            beside(86, Witness::SelfReported)
        }
        Guest::SocketList | Guest::SocketTable => beside(86, Witness::Fact(Fact::HiddenPort)),
    }
}
