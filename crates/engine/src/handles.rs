//! What few of a process's things the code of a guest takes.

/// What a process has few of, and a loaded guest takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handles {
    /// Of memory: its machine code, and what is only read.
    pub mappings: u64,
    /// Open files.
    pub files: u64,
}

impl Handles {
    /// Of code whose file is not kept open.
    pub const LEAST: Self = Self {
        mappings: 2,
        files: 0,
    };
    /// Of code whose file is kept open.
    pub const MOST: Self = Self {
        mappings: 3,
        files: 1,
    };
}
