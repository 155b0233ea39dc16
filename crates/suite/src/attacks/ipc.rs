//! Terminal and IPC.

use crate::attack::Attack;
use crate::fixtures::Fixture::{Flaw, LocalServers, SharedGroup, Terminal, Victim};
use crate::guests::Controls::{GrantedRead, GrantedWrite, OwnChild, OwnSocket};
use crate::guests::Ipc as Guest;
use crate::policy::Grant::Limit;
use crate::policy::Policy;
use crate::witness::{Effect, Trace, Witness};

const RECEIVED: Witness = Witness::Effect(Effect::Received);

/// A message reaches a server of the host.
const fn message(entry: usize) -> Attack {
    Attack::new(entry, RECEIVED).with(&[LocalServers])
}

/// An object that the victim made holds the secret.
const fn shared() -> Attack {
    Attack::new(57, Witness::Secret)
        .with(&[Victim])
        .ungrantable(GrantedRead)
}

/// A signal reaches the victim.
const fn signal(effect: Effect) -> Attack {
    Attack::new(58, Witness::Effect(effect))
        .with(&[Victim])
        .ungrantable(OwnChild)
}

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::Tiocsti => Attack::new(52, Witness::Effect(Effect::Holds("{case}/typed")))
            .with(&[Terminal])
            .ungrantable(GrantedWrite),
        Guest::Tioclinux => Attack::new(53, Witness::SelfReported)
            .with(&[Terminal])
            .ungrantable(GrantedWrite),

        Guest::AbstractSocket => message(55).ungrantable(OwnSocket),
        Guest::AbstractName => {
            Attack::new(55, Witness::Trace(Trace::AbstractName)).ungrantable(OwnSocket)
        }
        Guest::PathSocket | Guest::PathDatagram => message(56).ungrantable(OwnSocket),
        Guest::GrantedSocket => message(56).controlled_at(&[], &["from={scratch}/run"]),
        // By sendto(2), whose address is looked at. That of sendmsg(2) is not, where sockets may be made
        // (SECURITY.md, "Where the wall ends").
        Guest::DatagramInFolder => message(56).controlled_at(&[], &["from={scratch}/run"]),
        // A folder is granted with the FIFOs in it: a read-only mount does not close them.
        Guest::GrantedFifo => message(56)
            .granted_by(&[Policy::Minimum, Policy::Generous])
            .controlled_at(&[], &["from={scratch}/run"]),

        Guest::SysvShm | Guest::SysvMsg | Guest::PosixMq | Guest::DevShm => shared(),

        Guest::KillAll | Guest::KillVictim | Guest::Tgkill | Guest::Sigqueue => {
            signal(Effect::VictimDead)
        }
        Guest::KillGroup => signal(Effect::VictimDead).with(&[Victim, SharedGroup]),
        Guest::StopGroup => signal(Effect::VictimStopped)
            .with(&[Victim, SharedGroup])
            .launched(&[Limit("time", "500ms")])
            .within_ms(1_500),
        Guest::StopVictim => signal(Effect::VictimStopped),
        Guest::PidfdSignal => signal(Effect::VictimDead)
            .with(&[Victim, Flaw("leak-pidfd={victim}")])
            .told(&["pidfd=100"]),
        Guest::Hostname => {
            Attack::new(58, Witness::Effect(Effect::HostName)).ungrantable(GrantedWrite)
        }
    }
}
