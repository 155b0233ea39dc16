//! What a guest's memories and tables may take, all together.

use wasmtime::ResourceLimiter;

/// What an element of a table takes, in bytes: a pointer.
const ELEMENT_BYTES: usize = size_of::<usize>();

/// What comes of a guest that asks for more than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// The instruction tells it that there is no more: malloc(3) gives nothing then, as with ENOMEM.
    Refuse,
    /// It is ended.
    End,
}

/// A guest asked for more than its limit and was ended for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverLimit {
    /// Linear memory, and tables as far as they take memory.
    #[error("guest: it asked for more memory than its limit")]
    Memory,
    /// Elements of one table.
    #[error("guest: it asked for a larger table than its limit")]
    Table,
}

/// Counts what a guest has. The memory of its host functions is not in it.
#[derive(Clone, Debug)]
pub struct Growth {
    memory_bytes: usize,
    table_elements: usize,
    excess: Excess,
    used_bytes: usize,
    /// Granted by the last answer, which the engine may still fail to carry out.
    granted_bytes: usize,
}

impl Growth {
    /// Allows memories and tables of so many bytes together, and so many elements in each table.
    pub fn new(memory_bytes: usize, table_elements: usize, excess: Excess) -> Self {
        Self {
            memory_bytes,
            table_elements,
            excess,
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
            _ => self.refuse(OverLimit::Memory),
        }
    }

    fn refuse(&mut self, over: OverLimit) -> wasmtime::Result<bool> {
        self.granted_bytes = 0;
        match self.excess {
            Excess::Refuse => Ok(false),
            Excess::End => Err(over.into()),
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
            return self.refuse(OverLimit::Table);
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

    #[test]
    fn memories_and_tables_count_together() {
        let mut growth = Growth::new(3 * PAGE_BYTES, usize::MAX, Excess::Refuse);
        assert!(growth.memory_growing(0, 2 * PAGE_BYTES, None).unwrap());
        assert!(growth.table_growing(0, 1000, None).unwrap());
        assert!(
            !growth
                .memory_growing(2 * PAGE_BYTES, 3 * PAGE_BYTES, None)
                .unwrap()
        );
        assert!(growth.table_growing(1000, PAGE_BYTES / 8, None).unwrap());
        assert!(
            !growth
                .table_growing(PAGE_BYTES / 8, PAGE_BYTES / 8 + 1, None)
                .unwrap()
        );
    }

    #[test]
    fn what_the_engine_could_not_give_is_not_counted() {
        let mut growth = Growth::new(PAGE_BYTES, usize::MAX, Excess::Refuse);
        for _ in 0..3 {
            assert!(growth.memory_growing(0, PAGE_BYTES, None).unwrap());
            growth
                .memory_grow_failed(wasmtime::format_err!("no pages"))
                .unwrap();
        }
    }

    #[test]
    fn excess_ends_a_guest_where_that_is_asked_for() {
        let mut growth = Growth::new(PAGE_BYTES, 10, Excess::End);
        let over = |error: wasmtime::Error| error.downcast::<OverLimit>().unwrap();
        assert_eq!(
            over(growth.memory_growing(0, PAGE_BYTES + 1, None).unwrap_err()),
            OverLimit::Memory
        );
        assert_eq!(
            over(growth.table_growing(0, 11, None).unwrap_err()),
            OverLimit::Table
        );
        assert!(growth.memory_growing(0, PAGE_BYTES, None).unwrap());
    }
}
