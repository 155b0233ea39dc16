//! What the kernel counts for each user: a guest takes all that it gets, and another program of whoever
//! started it asks for one more.

use crate::attack::Attack;
use crate::guests::Controls::OwnEventfd;
use crate::guests::Quotas as Guest;
use crate::witness::{Trace, Witness};

/// Row of the catalogue: limits shared with the host's user.
const SHARED: usize = 71;

const fn exhausts(what: &'static str) -> Attack {
    Attack::new(SHARED, Witness::Trace(Trace::Exhausted(what)))
        .ungrantable(OwnEventfd)
        .in_turn()
        .within_ms(20_000)
}

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::InotifyHoard => exhausts("inotify"),
        Guest::WatchHoard => exhausts("watch"),
        Guest::TimerHoard => exhausts("timer"),
        Guest::SignalHoard => exhausts("signal"),
        Guest::QueueHoard => exhausts("queue"),
        Guest::LockHoard => exhausts("lock"),
        Guest::AioContext => Attack::new(SHARED, Witness::SelfReported).ungrantable(OwnEventfd),
    }
}
