//! Mount attributes.

use serde::{Serialize, Serializer};
use std::{fmt, ops::BitOr};

/// What can't be done through a mount (`MOUNT_ATTR_*` of mount_setattr(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(u32);

impl Attributes {
    /// Nothing in particular.
    pub const NONE: Self = Self(0);
    /// Write.
    pub const RDONLY: Self = Self(1);
    /// Gain privilege by a setuid bit.
    pub const NOSUID: Self = Self(2);
    /// Open devices.
    pub const NODEV: Self = Self(4);
    /// Execute, or map as executable.
    pub const NOEXEC: Self = Self(8);

    /// These without those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The kernel's number.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl BitOr for Attributes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["ro", "nosuid", "nodev", "noexec"];
        let set: Vec<_> = (0..)
            .zip(names)
            .filter(|(bit, _)| self.0 & 1 << bit != 0)
            .map(|(_, name)| name)
            .collect();
        formatter.write_str(&set.join(","))
    }
}

impl Serialize for Attributes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
