//! What an instance's memory and tables may take together.
//!
//! A guest that asks for more is ended. The worker's own limits tell it that there is no more; but a plugin's
//! call is to end as a program does that the process wall ends for its memory.

use wasmtime::ResourceLimiter;

/// What an element of a table takes, in bytes: a pointer.
const ELEMENT_BYTES: usize = size_of::<usize>();

/// A guest asked for more than its limit and was ended for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OverLimit {
    /// Linear memory, and tables as far as they take memory.
    #[error("guest: it asked for more memory than its limit")]
    Memory,
    /// Elements of one table.
    #[error("guest: it asked for a larger table than its limit")]
    Table,
}

/// Counts what a guest has. The memory of its host functions is not in it.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    memory_bytes: usize,
    table_elements: usize,
    used_bytes: usize,
    /// Granted by the last answer, which the engine may still fail to carry out.
    granted_bytes: usize,
}

impl Growth {
    /// Allows memories and tables of so many bytes together, and so many elements in each table.
    pub(super) fn new(memory_bytes: usize, table_elements: usize) -> Self {
        Self {
            memory_bytes,
            table_elements,
            used_bytes: 0,
            granted_bytes: 0,
        }
    }

    fn grow(&mut self, bytes: usize) -> wasmtime::Result<bool> {
        match self.used_bytes.checked_add(bytes) {
            Some(used_bytes) if used_bytes <= self.memory_bytes => {
                self.used_bytes = used_bytes;
                self.granted_bytes = bytes;
                Ok(true)
            }
            _ => Err(OverLimit::Memory.into()),
        }
    }

    fn take_back(&mut self) {
        self.used_bytes -= std::mem::take(&mut self.granted_bytes);
    }
}

impl ResourceLimiter for Growth {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        self.grow(desired.saturating_sub(current))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.take_back();
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
        let added = desired.saturating_sub(current);
        self.grow(added.saturating_mul(ELEMENT_BYTES))
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.take_back();
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
        let mut growth = Growth::new(3 * PAGE_BYTES, 2 * PAGE_BYTES);
        assert!(growth.memory_growing(0, 2 * PAGE_BYTES, None).unwrap());
        assert!(growth.table_growing(0, 1000, None).unwrap());
        assert_eq!(
            over(growth.memory_growing(2 * PAGE_BYTES, 3 * PAGE_BYTES, None)),
            OverLimit::Memory
        );
        assert!(growth.table_growing(1000, PAGE_BYTES / 8, None).unwrap());
        assert_eq!(
            over(growth.table_growing(PAGE_BYTES / 8, PAGE_BYTES / 8 + 1, None)),
            OverLimit::Memory
        );
    }

    #[test]
    fn a_table_has_a_limit_of_its_own() {
        let mut growth = Growth::new(PAGE_BYTES, 10);
        assert_eq!(over(growth.table_growing(0, 11, None)), OverLimit::Table);
        assert!(growth.table_growing(0, 10, None).unwrap());
    }

    #[test]
    fn what_the_engine_could_not_give_is_not_counted() {
        let mut growth = Growth::new(PAGE_BYTES, 0);
        for _ in 0..3 {
            assert!(growth.memory_growing(0, PAGE_BYTES, None).unwrap());
            growth
                .memory_grow_failed(wasmtime::format_err!("no pages"))
                .unwrap();
        }
    }
}
