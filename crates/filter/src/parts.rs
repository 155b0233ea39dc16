//! Parts of an exchange.

use crate::{Direction, Part};

/// Some of them: a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(u8);

impl Parts {
    pub(crate) const fn of(part: Part) -> Self {
        Self(1 << part as u8)
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn has(self, part: Part) -> bool {
        self.0 & Self::of(part).0 != 0
    }

    /// Those that go this way.
    pub(crate) const fn in_direction(direction: Direction) -> Self {
        match direction {
            Direction::Request => Self(0b000_111),
            Direction::Response => Self(0b111_000),
        }
    }
}
