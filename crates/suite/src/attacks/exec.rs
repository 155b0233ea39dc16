//! Execution control: code that no grant made executable.

use crate::attack::Attack;
use crate::fixtures::Fixture::Privileged;
use crate::fixtures::{FILE_CAPABILITY, STRANGER_ID};
use crate::guests::Controls::{OwnChild, OwnPayload};
use crate::guests::Exec as Guest;
use crate::policy::Grant::{PolicyFile, Read, Write};
use crate::policy::Policy::{Control, Generous, Minimum, Nothing};
use crate::witness::{Effect, Trace, Witness};

/// A planted program runs: seen in `/proc/PID/exe`.
const fn planted(entry: usize) -> Attack {
    Attack::new(entry, Witness::Trace(Trace::Executes("/planted")))
}

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::MemfdFexecve | Guest::MemfdExecveat => Attack::new(
            25,
            Witness::Trace(Trace::Executes("/memfd:planted (deleted)")),
        )
        .ungrantable(OwnPayload),
        Guest::LdSo => {
            Attack::new(26, Witness::Trace(Trace::MapsCode("/planted"))).ungrantable(OwnPayload)
        }
        Guest::CopyExec => planted(27).controlled_at(&[], &["into={scratch}/bin"]),
        Guest::ShmExec => planted(27).ungrantable(OwnPayload),
        // Init or the broker reads the path, and the kernel reads it once more.
        Guest::ExecRace => planted(87)
            .controlled_at(&[], &["into={scratch}/bin", "race-ms=4000"])
            .within_ms(8_000),
        Guest::ShellRoute => Attack::new(28, Witness::Secret).controlled_by(&[Read("{outside}")]),
        Guest::SetuidExec => privileged(Trace::Uid(STRANGER_ID)),
        Guest::SetgidExec => privileged(Trace::Gid(STRANGER_ID)),
        Guest::FilecapsExec => privileged(Trace::Capability(FILE_CAPABILITY)),
        // Compilers at run time are part of Java, Node and many more: no policy forbids them.
        Guest::MmapRwx | Guest::MprotectExec => {
            Attack::new(30, Witness::Trace(Trace::WritableCode))
                .granted_by(&[Nothing, Minimum, Generous, Control])
                .ungrantable(OwnChild)
        }
        Guest::PolicyOff => {
            Attack::new(31, Witness::Effect(Effect::Holds("{scratch}/policy.toml")))
                .launched(&[Write("{scratch}"), PolicyFile("{scratch}/policy.toml")])
                .told(&["policy={scratch}/policy.toml"])
                .controlled_instead_by(&[Write("{scratch}")])
                .or_refused()
        }
    }
}

const fn privileged(trace: Trace) -> Attack {
    Attack::new(29, Witness::Trace(trace))
        .with(&[Privileged])
        .ungrantable(OwnPayload)
}
