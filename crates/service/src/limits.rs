//! Bounds of a guest, as the engine asks for them.

use crate::sys::OnThread;
use palisade_engine::growth::{Growth, MemoryPool};
use std::{
    cell::Cell,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};
use wasmtime::ResourceLimiter;

/// What a guest can make the host allocate in one call, in bytes.
pub(crate) const HOST_CALL_BYTES: usize = 16 << 20;
/// Open files, bodies, streams, pollables and the like that the host holds for a guest.
pub(crate) const HANDLES: usize = 4096;
/// The most random bytes that one call gives.
pub(crate) const RANDOM_BYTES: u64 = 16 << 20;

/// Memories, tables and instances of one component.
const PARTS: usize = 64;

/// A guest asked for more memory than it may have.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it asked for more memory than its limit")]
pub(crate) struct OverMemory;

/// A guest asked for memory, and its owner has none left.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("all memory that its owner may have is in use")]
pub(crate) struct PoolFull;

/// A guest's time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TimeUp {
    /// Of the clock on the wall.
    #[error("its time was up")]
    Wall,
    /// Of the processor.
    #[error("its processor time was up")]
    Processor,
}

/// Until when the guest that runs on a worker's thread now may go on. Atomics, for the engine asks that
/// whoever looks could be on another thread.
#[derive(Debug)]
pub(crate) struct Until {
    start: Instant,
    /// In ns since `start`.
    wall_ns: AtomicU64,
    processor_ns: AtomicU64,
    /// It has run for as long as it may before others have their turn.
    has_yielded: AtomicBool,
}

impl Until {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            wall_ns: AtomicU64::new(u64::MAX),
            processor_ns: AtomicU64::new(u64::MAX),
            has_yielded: AtomicBool::new(false),
        }
    }

    /// The guest that runs now lets others have their turn.
    pub(crate) fn note_yield(&self) {
        self.has_yielded.store(true, Ordering::Relaxed);
    }

    /// Whether it did, since this was asked last.
    pub(crate) fn take_yielded(&self) -> bool {
        self.has_yielded.load(Ordering::Relaxed) && self.has_yielded.swap(false, Ordering::Relaxed)
    }

    /// Of the worker's clock.
    pub(crate) fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// When a clock's value will have been.
    pub(crate) fn instant(&self, at_ns: u64) -> Instant {
        self.start + std::time::Duration::from_nanos(at_ns)
    }

    /// Another guest runs now.
    pub(crate) fn set(&self, wall_ns: u64, processor_ns: u64) {
        self.wall_ns.store(wall_ns, Ordering::Relaxed);
        self.processor_ns.store(processor_ns, Ordering::Relaxed);
    }

    /// Whether the guest that runs now may go on.
    pub(crate) fn check(&self) -> Result<(), TimeUp> {
        let now_ns = self.now_ns();
        if now_ns >= self.wall_ns.load(Ordering::Relaxed) {
            return Err(TimeUp::Wall);
        }
        match now_ns >= self.processor_ns.load(Ordering::Relaxed) {
            true => Err(TimeUp::Processor),
            false => Ok(()),
        }
    }
}

/// What the instances of a worker hold together, in bytes.
pub(crate) type Held = Rc<Cell<u64>>;

/// Counts the bytes of an instance's memories and tables. A guest that asks for more is ended.
pub(crate) struct Memory {
    growth: Growth,
    held: OnThread<Held>,
}

impl Memory {
    pub(crate) fn new(most_bytes: usize, pool: Option<Arc<MemoryPool>>, held: Held) -> Self {
        Self {
            growth: Growth::within(most_bytes, pool),
            held: OnThread::new(held),
        }
    }

    /// Counts a growth for all instances, if there was room for it.
    fn hold(&mut self, grown_bytes: Option<usize>) -> wasmtime::Result<bool> {
        let more_bytes = match grown_bytes {
            Some(more_bytes) => more_bytes,
            None if self.growth.is_pool_full() => return Err(PoolFull.into()),
            None => return Err(OverMemory.into()),
        };
        let held = self.held.get();
        held.set(held.get() + more_bytes as u64);
        Ok(true)
    }

    fn give_back(&mut self, bytes: usize) {
        let held = self.held.get();
        held.set(held.get().saturating_sub(bytes as u64));
    }

    /// The instance is gone.
    pub(crate) fn clear(&mut self) {
        let bytes = self.growth.clear();
        self.give_back(bytes);
    }

    fn take_back(&mut self) {
        let bytes = self.growth.take_back();
        self.give_back(bytes);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.clear();
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        match maximum.is_none_or(|maximum| desired <= maximum) {
            true => {
                let grown_bytes = self.growth.grow_memory(current, desired);
                self.hold(grown_bytes)
            }
            false => Ok(false),
        }
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.take_back();
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        match maximum.is_none_or(|maximum| desired <= maximum) {
            true => {
                let grown_bytes = self.growth.grow_table(current, desired);
                self.hold(grown_bytes)
            }
            false => Ok(false),
        }
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.take_back();
        Ok(())
    }

    fn instances(&self) -> usize {
        PARTS
    }

    fn tables(&self) -> usize {
        PARTS
    }

    fn memories(&self) -> usize {
        PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_goes_up_and_down_with_the_instances() {
        let held = Held::default();
        let mut one = Memory::new(1000, None, Rc::clone(&held));
        let mut other = Memory::new(1000, None, Rc::clone(&held));
        assert!(one.memory_growing(0, 800, None).unwrap());
        assert!(other.table_growing(0, 10, None).unwrap());
        assert_eq!(held.get(), 880);
        assert!(
            one.memory_growing(800, 1001, None)
                .unwrap_err()
                .is::<OverMemory>()
        );
        one.memory_grow_failed(wasmtime::Error::msg("no pages"))
            .unwrap();
        assert_eq!(held.get(), 80);
        drop((one, other));
        assert_eq!(held.get(), 0);
    }

    #[test]
    fn memory_of_others_with_the_same_owner_counts_too() {
        let pool = Arc::new(MemoryPool::default());
        pool.set_most(1000);
        let memory = || Memory::new(1000, Some(Arc::clone(&pool)), Held::default());
        let (mut one, mut other) = (memory(), memory());
        assert!(one.memory_growing(0, 800, None).unwrap());
        let refused = other.memory_growing(0, 400, None).unwrap_err();
        assert!(refused.is::<PoolFull>());
        assert!(
            other
                .memory_growing(0, 1001, None)
                .unwrap_err()
                .is::<OverMemory>()
        );
        drop(one);
        assert!(other.memory_growing(0, 400, None).unwrap());
    }

    #[test]
    fn time_is_up_by_either_clock() {
        let until = Until::new();
        assert_eq!(until.check(), Ok(()));
        until.set(0, u64::MAX);
        assert_eq!(until.check(), Err(TimeUp::Wall));
        until.set(u64::MAX, 0);
        assert_eq!(until.check(), Err(TimeUp::Processor));
    }
}
