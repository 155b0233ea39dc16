//! Whoever decides about sockets: its patience, its end, and rivals. Most of these acts are
//! granted under every policy, and have to succeed in spite of what the guest does beside them.

use crate::attack::Attack;
use crate::fixtures::Fixture::{LauncherDies, LocalServers, Servers};
use crate::guests::Broker as Guest;
use crate::guests::Controls::{GrantedConnect, GrantedWrite, OwnEventfd, OwnSocket};
use crate::policy::Grant::{self, Connect};
use crate::policy::Policy;
use crate::witness::{Course, Effect, Trace, Witness};

const TCP4: &[Grant] = &[Connect("tcp://127.0.0.1:{tcp4}")];
const GRANTED: &[Grant] = &[
    Connect("tcp://127.0.0.1:{tcp4}"),
    Connect("tcp://127.0.0.1:{door-tcp4}"),
    Connect("tcp://127.0.0.1:{full}"),
    Connect("tcp://127.0.0.1:{deaf}"),
    Connect("udp://127.0.0.1:{door-udp4}"),
];

/// The nonce arrives in spite of everything.
const fn must_arrive() -> Attack {
    Attack::new(88, Witness::Effect(Effect::Received))
        .with(&[Servers])
        .launched(GRANTED)
        .granted_by(&Policy::FACED)
        .controlled_by(&[])
        .within_ms(10_000)
}

/// The nonce does not arrive, whoever else is asked.
const fn delivered(entry: usize) -> Attack {
    Attack::new(entry, Witness::Effect(Effect::Received))
        .with(&[Servers])
        .controlled_by(TCP4)
}

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::ConnectInStorm
        | Guest::ConnectPastWaiting
        | Guest::ConnectPastManyWaiting
        | Guest::ConnectPastLingering
        | Guest::ConnectRestarted
        | Guest::ConnectInterrupted
        | Guest::ConnectAfterInterrupted
        | Guest::ConnectPastKilled
        | Guest::ConnectAfterExec
        | Guest::ConnectAtFullTable
        | Guest::ConnectByFlickeringPage
        | Guest::ConnectWithoutLeader => must_arrive(),
        Guest::ConnectPastUnblocked => must_arrive().pending(
            "the supervisor makes the guest's socket non-blocking for its connect, and the guest undoes it",
        ),
        Guest::OutliveSupervisor => Attack::new(88, Witness::Course(Course::Survivor))
            .with(&[Servers, LauncherDies])
            .launched(GRANTED)
            .ungrantable(GrantedWrite),

        Guest::MessageAsSupervisor => Attack::new(90, Witness::Effect(Effect::ReceivedAsRoot))
            .with(&[Servers, LocalServers])
            .ungrantable(OwnSocket),
        Guest::SupervisorByMessage => Attack::new(90, Witness::Trace(Trace::LauncherPidfd))
            .with(&[Servers])
            .told_without_wall(&["naive=1"])
            .ungrantable(OwnEventfd),

        // What the kernel itself would refuse to write: only who may write anywhere could.
        Guest::ResultInConstant => {
            Attack::new(87, Witness::Trace(Trace::MemoryChanged(0x100_0000_0000 + 56)))
                .with(&[Servers])
                .launched(&[Connect("udp://127.0.0.1:{door-udp4}")])
                .told_without_wall(&["naive=1"])
                .controlled_at(&[], &["writable=1"])
        }

        Guest::OwnListener => Attack::new(89, Witness::Trace(Trace::Descriptor("seccomp notify")))
            .with(&[Servers])
            .ungrantable(OwnEventfd),
        Guest::ListenerLetsPass => delivered(89).ungrantable(GrantedConnect),
        Guest::FilterOnTop => delivered(89),
        // A domain has no ptrace, granted or not.
        Guest::TracedConnect | Guest::TracedIntoConnect => {
            delivered(89).ungrantable(GrantedConnect)
        }
    }
}
