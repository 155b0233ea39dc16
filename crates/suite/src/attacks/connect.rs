//! Connecting where the policy grants another port, host, family, transport or moment.

use crate::attack::Attack;
use crate::fixtures::Fixture;
use crate::fixtures::Fixture::{
    LocalServers, NameServices, Names, NamesIn, Servers, StartedIn, Variable,
};
use crate::guests::Connect as Guest;
use crate::guests::Controls::GrantedConnect;
use crate::policy::Grant::{self, Connect, Listen, Write};
use crate::witness::{Effect, Witness};

const TCP4: &[Grant] = &[Connect("tcp://127.0.0.1:{tcp4}")];
const TCP6: &[Grant] = &[Connect("tcp://[::1]:{tcp6}")];
const UDP4: &[Grant] = &[Connect("udp://127.0.0.1:{udp4}")];
const WHOLE_INTERNET: &[Grant] = &[Connect("tcp://0.0.0.0/0:*"), Connect("tcp://[::/0]:*")];
const OTHER_HOST: &[Grant] = &[Connect("tcp://127.0.0.2:{tcp-any}")];

/// The launcher's host names: one elsewhere, and two that have come to mean this host.
const HOSTS: &str = "\
127.0.0.1 localhost
192.0.2.9 named.test
127.0.0.2 rebound.test a.proxied.test
169.254.169.254 metadata.test
";

const WILDCARD: Grant = Connect("tcp://*.proxied.test:{tcp-any}");
/// Somebody beside DNS knows names: the system's own lookup is asked.
const ASKED_BY_SYSTEM: Fixture = NameServices("hosts: files resolve dns\n");

/// A program in place of what the launcher runs outside to look up a name that the guest asks the proxy for.
/// The guest can be granted what it plants, too.
const fn planted(plant: &'static [&'static str], fixtures: &'static [Fixture]) -> Attack {
    Attack::new(32, Witness::Effect(Effect::Holds("{outside}/planted")))
        .with(fixtures)
        .launched(&[WILDCARD, Write("{scratch}")])
        .told(plant)
        .told_without_wall(&["naive=1"])
        .controlled_at(&[Write("{outside}")], &["naive=1"])
        .within_ms(20_000)
}

/// The guest's nonce reaches a witness; with `grants` it may.
const fn delivered(entry: usize, grants: &'static [Grant]) -> Attack {
    Attack::new(entry, Witness::Effect(Effect::Received))
        .with(&[Servers])
        .controlled_by(grants)
}

/// What is granted already is near, and not it.
const fn other(granted: &'static [Grant], grants: &'static [Grant]) -> Attack {
    delivered(77, grants).launched(granted)
}

/// The grant is of a name.
const fn named(granted: &'static [Grant], grants: &'static [Grant]) -> Attack {
    other(granted, grants).with(&[Servers, Names(HOSTS)])
}

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::OtherAddress | Guest::OtherAddressMapped => {
            other(&[Connect("tcp://127.0.0.1:{tcp-any}")], OTHER_HOST)
        }
        Guest::OtherAddressUdp => other(
            &[Connect("udp://127.0.0.1:{udp-any}")],
            &[Connect("udp://127.0.0.2:{udp-any}")],
        ),
        Guest::OtherFamily => other(
            &[Connect("tcp://127.0.0.1:{tcp-any}")],
            &[Connect("tcp://[::1]:{tcp-any}")],
        ),
        Guest::TransportTcp => other(&[Connect("udp://127.0.0.1:{tcp4}")], TCP4),
        Guest::TransportUdp => other(&[Connect("tcp://127.0.0.1:{udp4}")], UDP4),

        Guest::WholeInternet | Guest::WholeInternetAny | Guest::WholeInternetMapped => {
            other(WHOLE_INTERNET, TCP4)
        }
        Guest::WholeInternet6 => other(WHOLE_INTERNET, TCP6),
        Guest::Metadata4 | Guest::MetadataMapped => other(
            WHOLE_INTERNET,
            &[Connect("tcp://169.254.169.254:{tcp-any}")],
        ),
        Guest::Metadata6 => other(
            WHOLE_INTERNET,
            &[Connect("tcp://[fd00:ec2::254]:{tcp-any}")],
        ),

        Guest::OtherThanNamed => named(&[Connect("tcp://named.test:{tcp-any}")], OTHER_HOST),
        // A launcher may also say that nothing is left of the name.
        Guest::ReboundName => {
            named(&[Connect("tcp://rebound.test:{tcp-any}")], OTHER_HOST).or_refused()
        }
        Guest::ReboundMetadata => named(
            &[Connect("tcp://metadata.test:{tcp-any}")],
            &[Connect("tcp://169.254.169.254:{tcp-any}")],
        )
        .or_refused(),

        Guest::OtherLocalSocket => other(
            &[Connect("unix:{outside}/host.sock")],
            &[Connect("unix:{outside}/host.dgram")],
        )
        .with(&[Servers, LocalServers]),
        Guest::ProxyElsewhere => other(&[Connect("tcp://*.proxied.test:{tcp-any}")], &[])
            .with(&[Servers, Names(HOSTS)])
            .told_without_wall(&["naive=1"])
            .ungrantable(GrantedConnect)
            .within_ms(20_000),

        // A virtual environment's `bin`, `node_modules/.bin`.
        Guest::PlantLookup => planted(
            &["plant={scratch}/bin"],
            &[
                Servers,
                Names(HOSTS),
                ASKED_BY_SYSTEM,
                Variable("PATH", "{scratch}/bin:/usr/bin:/bin"),
            ],
        ),
        // An empty name in PATH is the folder that the launcher was started in.
        Guest::PlantLookupHere => planted(
            &["plant={scratch}/bin"],
            &[
                Servers,
                Names(HOSTS),
                ASKED_BY_SYSTEM,
                Variable("PATH", ":/usr/bin:/bin"),
                StartedIn("{scratch}/bin"),
            ],
        ),
        Guest::RewriteHosts => Attack::new(32, Witness::Effect(Effect::Holds("{scratch}/hosts")))
            .with(&[Servers, NamesIn("{scratch}/hosts", HOSTS)])
            .launched(&[WILDCARD, Write("{scratch}")])
            .told(&["hosts={scratch}/hosts"])
            .controlled_instead_by(&[Write("{scratch}")])
            .or_refused(),

        Guest::AnyAddress6 | Guest::ScopedLoopback | Guest::ShortAddress => delivered(78, TCP6),
        Guest::ScopedLinkLocal => delivered(78, &[Connect("tcp://[fe80::1%lo]:{tcp-any}")]),
        // No socket is bound to a device, granted or not.
        Guest::ScopedByDevice => delivered(78, &[]).ungrantable(GrantedConnect),
        Guest::ConnectV4OnV6 => delivered(78, UDP4),
        Guest::AnyAddressMapped
        | Guest::LongAddress
        | Guest::WideRegisters
        | Guest::EdgeOfPage
        | Guest::AddressInFile => delivered(78, TCP4),
        // Each length is refused by the kernel, or by who reads the address in its stead; the
        // lengths that only look odd in a register are not.
        Guest::OddLengths => delivered(78, TCP4),

        Guest::TcpReconnect6 => delivered(79, TCP6),
        Guest::UdpReconnect | Guest::AddressForm => delivered(79, UDP4),
        Guest::AfterFailure => delivered(79, TCP4).launched(&[Connect("tcp://127.0.0.1:{closed}")]),
        Guest::AcceptedReconnect => delivered(79, TCP4).launched(&[
            Listen("tcp://127.0.0.1:{listen}"),
            Connect("tcp://127.0.0.1:{listen}"),
        ]),
        Guest::TcpReconnect
        | Guest::ListenerReconnect
        | Guest::Duplicate
        | Guest::ForkedConnect
        | Guest::VforkedConnect
        | Guest::SharedTable
        | Guest::PassedConnect
        | Guest::ExecutedConnect
        | Guest::LeaderlessConnect
        | Guest::NamedThread
        | Guest::NonblockingConnect => delivered(79, TCP4),

        // The 32-bit calls are not there for anybody, granted or not.
        Guest::Int80Socketcall => delivered(80, &[]).ungrantable(GrantedConnect),
        // Data without a connect is refused to everybody, as where the host has Fast Open switched
        // off; programs connect then.
        Guest::Fastopen6
        | Guest::FastopenMessage
        | Guest::FastopenBatch
        | Guest::FastopenReconnect => delivered(80, &[]).ungrantable(GrantedConnect),
        Guest::FastopenConnect => delivered(80, TCP4),
    }
}
