//! What the memories and tables of a guest have grown to, in bytes.
//!
//! What becomes of a guest that asks for more is for those to say who ask here: a program is told that there is no
//! more, a plugin and a service are ended.

/// Bytes that an element of a table takes: a pointer.
pub(crate) const ELEMENT_BYTES: usize = size_of::<usize>();

/// Counts the bytes of memories and tables together, up to a limit.
#[derive(Clone, Debug)]
pub struct Growth {
    used_bytes: usize,
    most_bytes: usize,
    /// Of the last growth, which the engine may still fail to carry out.
    last_bytes: usize,
}

impl Growth {
    /// Of nothing yet.
    pub fn new(most_bytes: usize) -> Self {
        Self {
            used_bytes: 0,
            most_bytes,
            last_bytes: 0,
        }
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
        let fits = used_bytes <= self.most_bytes;
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
        bytes
    }

    /// All memories and tables are gone. Gives their bytes.
    pub fn clear(&mut self) -> usize {
        self.last_bytes = 0;
        std::mem::take(&mut self.used_bytes)
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
    fn nothing_fits_that_cannot_be_counted() {
        let mut growth = Growth::new(usize::MAX - 1);
        assert!(growth.grow(1) && !growth.grow(usize::MAX));
    }
}
