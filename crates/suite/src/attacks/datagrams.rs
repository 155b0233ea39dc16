//! Datagrams, each with an address of its own.

use crate::attack::Attack;
use crate::fixtures::Fixture::Servers;
use crate::guests::Controls::GrantedDatagram;
use crate::guests::Datagrams as Guest;
use crate::policy::Grant::{self, Connect};
use crate::policy::Policy;
use crate::witness::{Effect, Trace, Witness};

const UDP4: &[Grant] = &[Connect("udp://127.0.0.1:{udp4}")];
const UDP6: &[Grant] = &[Connect("udp://[::1]:{udp6}")];
const RESOLVER: &[Grant] = &[Connect("udp://127.0.0.53:53")];

/// The guest's nonce reaches a witness; with `grants` it may.
const fn delivered(grants: &'static [Grant]) -> Attack {
    Attack::new(81, Witness::Effect(Effect::Received))
        .with(&[Servers])
        .controlled_by(grants)
}

/// A packet goes to a group, or to everybody.
const fn broadcast(address: &'static str, grants: &'static [Grant]) -> Attack {
    Attack::new(82, Witness::Effect(Effect::PacketTo(address)))
        .with(&[Servers])
        .controlled_by(grants)
}

/// The host joins a group, and says so to its routers.
const fn joined(group: &'static str) -> Attack {
    Attack::new(82, Witness::Trace(Trace::Membership(group)))
        .with(&[Servers])
        .ungrantable(GrantedDatagram)
}

/// 239.1.2.3 and ff12::1234 as the kernel's tables write them.
const GROUP4: &str = "030201EF";
const GROUP6: &str = "ff120000000000000000000000001234";

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::SendToResolver => delivered(RESOLVER),
        Guest::SendTo6
        | Guest::SendToAny6
        | Guest::SendMessage6
        | Guest::SendBatch6
        | Guest::SendPastDoor6
        | Guest::SendShortAddress => delivered(UDP6),
        Guest::SendTo4
        | Guest::SendToMapped
        | Guest::SendToAny
        | Guest::SendMessage4
        | Guest::SendBatch4
        | Guest::SendPastDoor
        | Guest::MessagePastDoor
        | Guest::BatchPastDoor
        | Guest::ForkedPastDoor
        | Guest::SendV4OnV6
        | Guest::SendLongAddress
        | Guest::Corked
        | Guest::CorkedByOption
        | Guest::CorkedPastDoor
        | Guest::Segmented
        | Guest::ZeroCopy => delivered(UDP4),
        // Who may listen may answer whoever asked, and so anybody.
        Guest::SendFromBound => delivered(UDP4).granted_by(&[Policy::Generous]),
        // The kernel takes it for IPv4; no program needs that, and nobody is granted it.
        Guest::SendUnspecFamily => delivered(&[]).ungrantable(GrantedDatagram),

        Guest::Multicast4 | Guest::MulticastConnect => {
            broadcast("239.1.2.3", &[Connect("udp://239.1.2.3:5353")])
        }
        Guest::Multicast6 => broadcast("ff12::1234", &[Connect("udp://[ff12::1234]:5353")]),
        Guest::Broadcast => broadcast(
            "127.255.255.255",
            &[Connect("udp://127.255.255.255:{udp-any}")],
        ),
        // It takes a socket that is bound to a device, which nobody is granted.
        Guest::BroadcastAll => broadcast("255.255.255.255", &[]).ungrantable(GrantedDatagram),

        Guest::JoinGroup4 | Guest::JoinAnyGroup | Guest::JoinSource => joined(GROUP4),
        Guest::JoinGroup6 => joined(GROUP6),
    }
}
