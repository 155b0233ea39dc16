//! The policy file: TOML in and out.
//!
//! The text is walked as a tree of spanned values rather than through serde: each error can then
//! point at the very key or string, say which keys are known there, and name the nearest one.

mod error;
mod read;
mod write;

pub use error::{Place, TomlError, TomlProblem};
pub(crate) use read::read_layer;
pub use write::NotUnicode;

/// Keys outside every table.
const TOP_KEYS: &[&str] = &[
    "wall",
    "profiles",
    "system",
    "guard",
    "cwd",
    "allow-degraded",
    "grants",
    "limits",
];

/// Keys of `[grants]`.
const GRANT_KEYS: &[&str] = &[
    "read",
    "read-if-there",
    "write",
    "protect",
    "exec",
    "ipc",
    "env",
    "env-file",
    "device",
    "connect",
    "listen",
];

/// Keys of `[limits]`, and with `--` before them the flags.
pub const LIMIT_KEYS: &[&str] = &[
    "memory",
    "cpu",
    "processes",
    "files",
    "file-size",
    "tmp-size",
    "time",
    "cpu-time",
    "output",
];

#[cfg(test)]
mod tests;
