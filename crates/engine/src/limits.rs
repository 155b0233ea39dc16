//! What a guest's memories and tables may take.

use crate::growth::{ELEMENT_BYTES, Growth};
use wasmtime::ResourceLimiter;

/// Elements of all tables: a program has one for each function whose address it takes.
const ELEMENTS: usize = 10_000_000;
/// Memories, tables and instances of one program.
const PARTS: usize = 64;

/// Counts the bytes of all memories and tables together. Beyond its limit a guest's `memory.grow` fails, as
/// malloc(3) does in a native program.
#[derive(Debug)]
pub(crate) struct GuestLimits {
    growth: Growth,
    elements: usize,
}

impl GuestLimits {
    /// At most so many bytes; `None` for what WebAssembly's own types allow.
    pub(crate) fn new(most_bytes: Option<u64>) -> Self {
        let most = most_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        Self {
            growth: Growth::new(most.unwrap_or(usize::MAX)),
            elements: 0,
        }
    }
}

impl ResourceLimiter for GuestLimits {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let within = maximum.is_none_or(|maximum| desired <= maximum);
        Ok(within && self.growth.grow_memory(current, desired).is_some())
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.growth.take_back();
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let within = maximum.is_none_or(|maximum| desired <= maximum)
            && self.elements.saturating_add(more) <= ELEMENTS;
        if !within || self.growth.grow_table(current, desired).is_none() {
            return Ok(false);
        }
        self.elements += more;
        Ok(true)
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.elements -= self.growth.take_back() / ELEMENT_BYTES;
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
    fn memories_and_tables_share_one_limit() {
        let mut limits = GuestLimits::new(Some(1000));
        assert!(limits.memory_growing(0, 800, None).unwrap());
        assert!(!limits.memory_growing(800, 1001, None).unwrap());
        assert!(limits.table_growing(0, 25, None).unwrap());
        assert!(!limits.table_growing(25, 26, None).unwrap());
    }

    #[test]
    fn what_failed_is_given_back() {
        let mut limits = GuestLimits::new(Some(1000));
        assert!(limits.memory_growing(0, 1000, None).unwrap());
        limits
            .memory_grow_failed(wasmtime::Error::msg("no"))
            .unwrap();
        assert!(limits.memory_growing(0, 1000, None).unwrap());
        assert!(!limits.table_growing(0, 1, None).unwrap());
    }

    #[test]
    fn a_growth_beyond_the_declared_maximum_takes_nothing() {
        let mut limits = GuestLimits::new(Some(1000));
        assert!(!limits.memory_growing(0, 600, Some(500)).unwrap());
        assert!(limits.memory_growing(0, 1000, None).unwrap());
    }

    #[test]
    fn tables_are_bounded_also_without_a_limit() {
        let mut limits = GuestLimits::new(None);
        assert!(limits.table_growing(0, ELEMENTS, None).unwrap());
        assert!(!limits.table_growing(ELEMENTS, ELEMENTS + 1, None).unwrap());
    }
}
