//! What an instance's memory and tables may take together.
//!
//! A guest that asks for more is ended. The worker's own limits tell it that there is no more; but a plugin's
//! call is to end as a program does that the process wall ends for its memory.

use crate::growth::{Growth, MemoryPool};
use std::sync::Arc;
use wasmtime::ResourceLimiter;

/// A guest asked for more than its limit and was ended for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OverLimit {
    /// Linear memory, and tables as far as they take memory.
    #[error("guest: it asked for more memory than its limit")]
    Memory,
    /// What it has its memory of, together with others.
    #[error(
        "policy: it asked for memory, and all that its owner may have is in use: raise `memory` of the quotas"
    )]
    Pool,
    /// Elements of one table.
    #[error("guest: it asked for a larger table than its limit")]
    Table,
}

/// Counts what an instance has. The memory of its host functions is not in it.
#[derive(Debug)]
pub(super) struct Limiter {
    growth: Growth,
    table_elements: usize,
}

impl Limiter {
    /// Allows memories and tables of so many bytes together, and so many elements in each table.
    /// All of it is taken from the `pool`, too.
    pub(super) fn new(
        memory_bytes: usize,
        table_elements: usize,
        pool: Option<Arc<MemoryPool>>,
    ) -> Self {
        Self {
            growth: Growth::within(memory_bytes, pool),
            table_elements,
        }
    }

    /// What it has now.
    pub(super) fn used_bytes(&self) -> usize {
        self.growth.used_bytes()
    }

    fn over(&self) -> OverLimit {
        match self.growth.is_pool_full() {
            true => OverLimit::Pool,
            false => OverLimit::Memory,
        }
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let grown = self.growth.grow_memory(current, desired);
        grown.map(|_| true).ok_or_else(|| self.over().into())
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.growth.take_back();
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired > self.table_elements {
            return Err(OverLimit::Table.into());
        }
        let grown = self.growth.grow_table(current, desired);
        grown.map(|_| true).ok_or_else(|| self.over().into())
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.growth.take_back();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_BYTES: usize = 64 << 10;

    fn over(grown: wasmtime::Result<bool>) -> OverLimit {
        grown.unwrap_err().downcast().unwrap()
    }

    #[test]
    fn memories_and_tables_count_together() {
        let mut limiter = Limiter::new(3 * PAGE_BYTES, 2 * PAGE_BYTES, None);
        assert!(limiter.memory_growing(0, 2 * PAGE_BYTES, None).unwrap());
        assert!(limiter.table_growing(0, 1000, None).unwrap());
        assert_eq!(
            over(limiter.memory_growing(2 * PAGE_BYTES, 3 * PAGE_BYTES, None)),
            OverLimit::Memory
        );
        assert!(limiter.table_growing(1000, PAGE_BYTES / 8, None).unwrap());
        assert_eq!(
            over(limiter.table_growing(PAGE_BYTES / 8, PAGE_BYTES / 8 + 1, None)),
            OverLimit::Memory
        );
        assert_eq!(limiter.used_bytes(), 3 * PAGE_BYTES);
    }

    #[test]
    fn a_table_has_a_limit_of_its_own() {
        let mut limiter = Limiter::new(PAGE_BYTES, 10, None);
        assert_eq!(over(limiter.table_growing(0, 11, None)), OverLimit::Table);
        assert!(limiter.table_growing(0, 10, None).unwrap());
    }

    #[test]
    fn what_the_engine_could_not_give_is_not_counted() {
        let mut limiter = Limiter::new(PAGE_BYTES, 0, None);
        for _ in 0..3 {
            assert!(limiter.memory_growing(0, PAGE_BYTES, None).unwrap());
            limiter
                .memory_grow_failed(wasmtime::format_err!("no pages"))
                .unwrap();
        }
    }
}
