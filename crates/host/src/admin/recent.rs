//! What was counted some seconds ago, so that there is a rate to tell.
//!
//! Nothing is noted unless somebody looks: the first look has no rate, and what was noted is dropped once nobody has looked
//! for a while.

use super::Report;
use crate::metrics::{GuestId, GuestSum, RouteSum};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
    time::{Duration, Instant},
};

/// Rates are of the last one or two times this long.
const WINDOW: Duration = Duration::from_secs(10);
/// Over less, a rate says more about chance.
const LEAST_WINDOW: Duration = Duration::from_millis(500);
/// Looks within this time see the same: many pages cost little more than one.
const SAME_LOOK: Duration = Duration::from_millis(500);
/// After so long without a look, nobody is looking.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// What had been counted at a moment.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) at: Instant,
    /// In order.
    guests: Vec<(GuestId, GuestSum)>,
    /// In order.
    pub(super) routes: Vec<(Arc<str>, RouteSum)>,
}

impl Counted {
    fn now(report: &Report, at: Instant) -> Self {
        Self {
            at,
            guests: report.registry.guests_now(),
            routes: report.registry.routes_now(),
        }
    }

    /// What this guest had counted.
    pub(super) fn guest(&self, id: &GuestId) -> Option<&GuestSum> {
        let at = self.guests.binary_search_by(|(other, _)| other.cmp(id));
        at.ok()
            .and_then(|at| self.guests.get(at))
            .map(|(_, sum)| sum)
    }

    /// What this route had counted.
    pub(super) fn route(&self, name: &str) -> Option<&RouteSum> {
        let at = self
            .routes
            .binary_search_by(|(other, _)| (**other).cmp(name));
        at.ok()
            .and_then(|at| self.routes.get(at))
            .map(|(_, sum)| sum)
    }
}

/// What is there now, and what was there before.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) now: Arc<Counted>,
    /// `None`: nobody has looked lately.
    pub(super) before: Option<Arc<Counted>>,
}

/// What was seen by whoever looked last.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    last: Option<Arc<Counted>>,
    /// Some seconds old.
    older: Option<Arc<Counted>>,
    /// At least a window older.
    oldest: Option<Arc<Counted>>,
    /// Whether somebody drops this once nobody looks any more.
    is_watched: bool,
}

impl Recent {
    /// What is there at this moment.
    pub(super) fn look(&self, report: &Report, at: Instant) -> Look {
        self.seen().look(at, || Counted::now(report, at))
    }

    /// Drops what nobody has looked at for a while; whether there is anything left to drop.
    fn forget(&self, at: Instant) -> bool {
        // Who looks at this moment may take a while, and this is called where nobody waits for that.
        let mut seen = match self.0.try_lock() {
            Ok(seen) => seen,
            Err(TryLockError::Poisoned(poison)) => poison.into_inner(),
            Err(TryLockError::WouldBlock) => return true,
        };
        let is_looked_at = seen
            .last
            .as_ref()
            .is_some_and(|last| at.saturating_duration_since(last.at) < FORGOTTEN);
        if !is_looked_at {
            *seen = Seen::default();
        }
        is_looked_at
    }

    /// Sees to it that what nobody looks at any more is dropped, on this thread's runtime.
    pub(super) fn forget_later(self: &Arc<Self>) {
        if std::mem::replace(&mut self.seen().is_watched, true) {
            return;
        }
        let recent = Arc::clone(self);
        tokio::spawn(async move {
            while recent.forget(Instant::now()) {
                tokio::time::sleep(FORGOTTEN).await;
            }
        });
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn look(&mut self, at: Instant, count: impl FnOnce() -> Counted) -> Look {
        let age = |counted: &Option<Arc<Counted>>| {
            let counted = counted.as_ref()?;
            Some(at.saturating_duration_since(counted.at))
        };
        if age(&self.last).is_some_and(|age| age >= FORGOTTEN) {
            (self.last, self.older, self.oldest) = (None, None, None);
        }
        let now = match &self.last {
            Some(last) if at.saturating_duration_since(last.at) < SAME_LOOK => Arc::clone(last),
            _ => Arc::new(count()),
        };
        self.last = Some(Arc::clone(&now));
        if age(&self.older).is_none_or(|age| age >= WINDOW) {
            self.oldest = self.older.replace(Arc::clone(&now));
        }
        let before = [&self.oldest, &self.older];
        let mut before = before.into_iter().flatten();
        let is_long_ago =
            |before: &&Arc<Counted>| now.at.saturating_duration_since(before.at) >= LEAST_WINDOW;
        Look {
            before: before.find(is_long_ago).map(Arc::clone),
            now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(at: Instant) -> Counted {
        Counted {
            at,
            guests: Vec::new(),
            routes: Vec::new(),
        }
    }

    #[test]
    fn rates_are_of_the_last_seconds_while_somebody_looks() {
        let begun = Instant::now();
        let mut seen = Seen::default();
        let mut window = |ms: u64| {
            let at = begun + Duration::from_millis(ms);
            let look = seen.look(at, || counted(at));
            look.before
                .map(|before| (look.now.at - before.at).as_millis())
        };
        assert_eq!(window(0), None, "the first look");
        assert_eq!(window(100), None, "the same look");
        assert_eq!(window(2_000), Some(2_000));
        assert_eq!(window(9_000), Some(9_000));
        assert_eq!(window(10_000), Some(10_000));
        assert_eq!(window(19_000), Some(19_000));
        assert_eq!(window(20_000), Some(10_000));
        assert_eq!(window(79_000), Some(59_000), "a page that sleeps in a tab");
        assert_eq!(window(139_000), None, "nobody has looked");
    }

    #[test]
    fn what_nobody_looks_at_is_dropped() {
        let begun = Instant::now();
        let recent = Recent::default();
        recent.seen().look(begun, || counted(begun));
        assert!(recent.forget(begun + FORGOTTEN / 2));
        assert!(!recent.forget(begun + FORGOTTEN));
        assert!(recent.seen().older.is_none());
    }
}
