//! Metadata: calls that ask for no right to open the file.

use crate::attack::Attack;
use crate::fixtures::Fixture::Victim;
use crate::guests::Controls::{GrantedRead, GrantedWrite, OwnChild};
use crate::guests::Metadata as Guest;
use crate::policy::Grant::{Read, Write};
use crate::witness::{Effect, Fact, Trace, Witness};

/// FS_NODUMP_FL (linux/fs.h).
const NODUMP: u32 = 0x40;

/// A file that no policy grants is changed.
const fn outside(effect: Effect) -> Attack {
    Attack::new(75, Witness::Effect(effect)).controlled_by(&[Write("{outside}")])
}

/// A file that was granted to read is changed.
const fn read_only(effect: Effect) -> Attack {
    Attack::new(75, Witness::Effect(effect)).controlled_by(&[Write("{readable}")])
}

/// Something about a file that no policy grants is known.
const fn known(witness: Witness) -> Attack {
    Attack::new(76, witness).controlled_by(&[Read("{outside}")])
}

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::ChmodOutside => outside(Effect::Mode("{outside}/secret", 0o777)),
        Guest::ChmodReadOnly => read_only(Effect::Mode("{readable}/granted", 0o777)),
        Guest::TimesOutside => outside(Effect::ModifiedAt("{outside}/secret", 1)),
        Guest::TimesReadOnly => read_only(Effect::ModifiedAt("{readable}/granted", 1)),
        Guest::MarkOutside => outside(Effect::Marked("{outside}/secret")),
        Guest::MarkReadOnly => read_only(Effect::Marked("{readable}/granted")),
        Guest::FlagsReadOnly => Attack::new(
            75,
            Witness::Effect(Effect::Flags("{readable}/granted", NODUMP)),
        )
        .ungrantable(GrantedWrite),
        Guest::FlagsGranted => Attack::new(
            75,
            Witness::Effect(Effect::Flags("{scratch}/flagged", NODUMP)),
        )
        .ungrantable(GrantedWrite),
        Guest::LeaseGranted => {
            Attack::new(75, Witness::Trace(Trace::Lease)).ungrantable(GrantedWrite)
        }
        Guest::BootId => Attack::new(76, Witness::Fact(Fact::BootId)).ungrantable(GrantedRead),
        Guest::AttributeOutside => known(Witness::Secret),
        Guest::WatchOutside => known(Witness::Trace(Trace::Watch)),
        Guest::StatOutside => known(Witness::Fact(Fact::Inode("{outside}/secret"))),
        Guest::NoticeProcess
        | Guest::TimeOfProcess
        | Guest::ProcessorsOfProcess
        | Guest::GroupOfProcess
        | Guest::SessionOfProcess
        | Guest::PriorityOfProcess
        | Guest::MoveProcess => Attack::new(76, Witness::SelfReported)
            .with(&[Victim])
            .ungrantable(OwnChild),
        Guest::HostName => Attack::new(76, Witness::Fact(Fact::HostName)).ungrantable(GrantedRead),
    }
}
