//! A granted destination, and options that send the packet to another host first. No grant
//! allows them: the control sends a packet that is seen to the same host.

use crate::attack::Attack;
use crate::fixtures::Fixture::{SecondLink, Servers};
use crate::guests::Controls::GrantedDatagram;
use crate::guests::Reroute as Guest;
use crate::policy::Grant::{self, Connect};
use crate::witness::{Effect, Witness};

/// `ELSEWHERE4` and `ELSEWHERE6` of `sockets.h`.
pub(super) const ELSEWHERE4: &str = "192.0.2.9";
pub(super) const ELSEWHERE6: &str = "2001:db8::9";

const fn rerouted(by: &'static str) -> Attack {
    Attack::new(83, Witness::Effect(Effect::PacketTo(by)))
        .with(&[Servers])
        .ungrantable(GrantedDatagram)
}

const GROUPS: &[Grant] = &[
    Connect("udp://239.1.2.3:5353"),
    Connect("udp://[ff15::1234]:5353"),
];

/// What is granted leaves by another link than the host's routes say.
const fn beside(group: &'static str) -> Attack {
    Attack::new(83, Witness::Effect(Effect::PacketBeside(group)))
        .with(&[Servers, SecondLink])
        .launched(GROUPS)
        .ungrantable(GrantedDatagram)
}

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::LooseRoute
        | Guest::StrictRoute
        | Guest::RouteBeforeConnect
        | Guest::RouteTcp
        | Guest::RouteMapped
        | Guest::RouteMessage
        | Guest::RouteBatch
        | Guest::RouteAddressedMessage
        | Guest::RouteSecondMessage => rerouted(ELSEWHERE4),
        Guest::SegmentsUdp
        | Guest::SegmentsTcp
        | Guest::SegmentsSend
        | Guest::PacketOptions
        | Guest::RoutingHeaderMessage
        | Guest::RoutingHeader2292 => rerouted(ELSEWHERE6),
        Guest::GroupInterface4 | Guest::MessageInterface4 => beside("239.1.2.3"),
        Guest::GroupInterface6 | Guest::PacketInterface6 | Guest::MessageInterface6 => {
            beside("ff15::1234")
        }
    }
}
