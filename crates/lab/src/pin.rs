//! Keeping programs on processors.

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps this thread, and what it starts, on some processors until it is dropped.
pub(crate) struct Pin {
    before: CpuSet,
}

/// The processors of two ends that shall not be in each other's way.
#[derive(Clone, Copy)]
pub(crate) struct Apart {
    /// One processor.
    pub(crate) inside: CpuSet,
    /// All others; the same where there is no other.
    pub(crate) outside: CpuSet,
}

impl Pin {
    /// Those of `set`.
    pub(crate) fn to(set: &CpuSet) -> anyhow::Result<Self> {
        let before = usable()?;
        sched_setaffinity(None, set).context("host: cannot keep to a processor")?;
        Ok(Self { before })
    }

    /// The last one that this thread may use; gives its number.
    pub(crate) fn to_last_processor() -> anyhow::Result<(Self, usize)> {
        let last = last_of(&usable()?)?;
        Ok((Self::to(&only(last))?, last))
    }
}

impl Apart {
    /// Of those that this thread may use.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let mut outside = usable()?;
        let last = last_of(&outside)?;
        let inside = only(last);
        if outside.count() > 1 {
            outside.unset(last);
        }
        Ok(Self { inside, outside })
    }

    /// Whether there is more than one processor.
    pub(crate) fn is_apart(&self) -> bool {
        self.inside != self.outside
    }
}

fn usable() -> anyhow::Result<CpuSet> {
    sched_getaffinity(None).context("host: cannot tell the processors")
}

/// The first one takes most interrupts.
fn last_of(set: &CpuSet) -> anyhow::Result<usize> {
    let last = (0..CpuSet::MAX_CPU)
        .rev()
        .find(|&processor| set.is_set(processor));
    last.context("host: no processor to run on")
}

fn only(processor: usize) -> CpuSet {
    let mut only = CpuSet::new();
    only.set(processor);
    only
}

impl Drop for Pin {
    fn drop(&mut self) {
        // It was allowed before; should it not be now, nothing worse than a slow rest follows.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_holds_one_processor_and_lets_go() {
        let before = usable().unwrap();
        let (pin, processor) = Pin::to_last_processor().unwrap();
        let during = usable().unwrap();
        assert!(during.count() == 1 && during.is_set(processor));
        drop(pin);
        assert!(usable().unwrap() == before);
    }

    #[test]
    fn two_ends_have_all_processors_between_them() {
        let all = usable().unwrap();
        let apart = Apart::find().unwrap();
        assert_eq!(apart.inside.count(), 1);
        let of_both = |one| apart.inside.is_set(one) || apart.outside.is_set(one);
        assert!((0..CpuSet::MAX_CPU).all(|one| all.is_set(one) == of_both(one)));
        let shared = (0..CpuSet::MAX_CPU)
            .filter(|&one| apart.inside.is_set(one) && apart.outside.is_set(one));
        assert_eq!(shared.count() > 0, all.count() == 1);
    }
}
