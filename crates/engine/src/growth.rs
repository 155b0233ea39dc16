//! What the memories and tables of a guest have grown to, in bytes.
//!
//! What becomes of a guest that asks for more is for those to say who ask here: a program is told that there is no
//! more, a plugin and a service are ended.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// Bytes that an element of a table takes: a pointer.
pub(crate) const ELEMENT_BYTES: usize = size_of::<usize>();

/// Bytes that the guests of one owner have together, on whatever threads they run.
#[derive(Debug)]
pub struct MemoryPool {
    used_bytes: AtomicUsize,
    most_bytes: AtomicUsize,
    refused: AtomicU64,
}

impl Default for MemoryPool {
    /// Without a limit.
    fn default() -> Self {
        Self {
            used_bytes: AtomicUsize::new(0),
            most_bytes: AtomicUsize::new(usize::MAX),
            refused: AtomicU64::new(0),
        }
    }
}

/// A pool is the same as itself alone.
impl PartialEq for MemoryPool {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for MemoryPool {}

impl MemoryPool {
    /// Sets the limit. What is beyond it already stays until its guests give it back.
    pub fn set_most(&self, most_bytes: usize) {
        self.most_bytes.store(most_bytes, Ordering::Relaxed);
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// How often something was more than is left.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        let most_bytes = self.most_bytes.load(Ordering::Relaxed);
        let taken = |used: usize| used.checked_add(bytes).filter(|used| *used <= most_bytes);
        let used = &self.used_bytes;
        let fits = bytes == 0
            || used
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken)
                .is_ok();
        if !fits {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        fits
    }

    fn give_back(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Counts the bytes of memories and tables together, up to a limit.
#[derive(Debug)]
pub struct Growth {
    used_bytes: usize,
    most_bytes: usize,
    /// Of the last growth, which the engine may still fail to carry out.
    last_bytes: usize,
    /// What it has a part of.
    pool: Option<Arc<MemoryPool>>,
    /// The last growth would have fitted its own limit.
    is_pool_full: bool,
}

impl Growth {
    /// Of nothing yet.
    pub fn new(most_bytes: usize) -> Self {
        Self::within(most_bytes, None)
    }

    /// Of nothing yet, where what it counts is taken from a pool, too.
    pub fn within(most_bytes: usize, pool: Option<Arc<MemoryPool>>) -> Self {
        Self {
            used_bytes: 0,
            most_bytes,
            last_bytes: 0,
            pool,
            is_pool_full: false,
        }
    }

    /// Whether the last growth that did not fit was too much for the pool, and not for the guest's own limit.
    pub fn is_pool_full(&self) -> bool {
        self.is_pool_full
    }

    /// What it has grown to.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Counts a memory's growth, both in bytes. Gives how many it takes more, if there is room for them.
    pub fn grow_memory(&mut self, current: usize, desired: usize) -> Option<usize> {
        let more_bytes = desired.saturating_sub(current);
        self.grow(more_bytes).then_some(more_bytes)
    }

    /// The same for a table, both in elements.
    pub fn grow_table(&mut self, current: usize, desired: usize) -> Option<usize> {
        let more_bytes = desired
            .saturating_sub(current)
            .saturating_mul(ELEMENT_BYTES);
        self.grow(more_bytes).then_some(more_bytes)
    }

    fn grow(&mut self, more_bytes: usize) -> bool {
        let used_bytes = self.used_bytes.saturating_add(more_bytes);
        let fits_own = used_bytes <= self.most_bytes;
        let fits = fits_own && self.pool.as_ref().is_none_or(|pool| pool.take(more_bytes));
        self.is_pool_full = fits_own && !fits;
        if fits {
            self.used_bytes = used_bytes;
            self.last_bytes = more_bytes;
        }
        fits
    }

    /// The last growth came to nothing. Gives its bytes. (Of memories with pages of other sizes, which no guest
    /// here has, the engine says so also where it did not ask before.)
    pub fn take_back(&mut self) -> usize {
        let bytes = std::mem::take(&mut self.last_bytes);
        self.used_bytes -= bytes;
        self.give_back(bytes);
        bytes
    }

    /// All memories and tables are gone. Gives their bytes.
    pub fn clear(&mut self) -> usize {
        self.last_bytes = 0;
        let bytes = std::mem::take(&mut self.used_bytes);
        self.give_back(bytes);
        bytes
    }

    fn give_back(&self, bytes: usize) {
        if let Some(pool) = &self.pool {
            pool.give_back(bytes);
        }
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_not_counted() {
        let mut growth = Growth::new(100);
        assert!(growth.grow(60));
        assert!(!growth.grow(41));
        assert!(growth.grow(40));
        assert_eq!((growth.take_back(), growth.take_back()), (40, 0));
        assert!(growth.grow(40) && !growth.grow(1));
        assert_eq!(growth.clear(), 100);
        assert_eq!((growth.take_back(), growth.clear()), (0, 0));
    }

    #[test]
    fn guests_of_one_pool_have_it_together() {
        let pool = Arc::new(MemoryPool::default());
        pool.set_most(100);
        let mut one = Growth::within(80, Some(Arc::clone(&pool)));
        let mut other = Growth::within(80, Some(Arc::clone(&pool)));
        assert!(one.grow(70));
        assert!(!other.grow(40) && other.is_pool_full());
        assert!(!other.grow(81) && !other.is_pool_full());
        assert!(other.grow(30));
        assert_eq!((pool.used_bytes(), pool.refused()), (100, 1));
        assert_eq!((other.take_back(), pool.used_bytes()), (30, 70));
        drop(one);
        assert_eq!(pool.used_bytes(), 0);
        assert!(other.grow(40));
        assert_eq!((other.clear(), pool.used_bytes()), (40, 0));
    }

    #[test]
    fn nothing_fits_that_cannot_be_counted() {
        let mut growth = Growth::new(usize::MAX - 1);
        assert!(growth.grow(1) && !growth.grow(usize::MAX));
    }
}
