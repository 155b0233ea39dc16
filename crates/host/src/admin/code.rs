//! Loaded code, in `/status` and `/metrics`.

use crate::code::CodeFigures;
use serde::Serialize;

/// What code of filters and components is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CodeStatus {
    /// Modules that are loaded now.
    pub modules: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Those of these that are private to the server.
    pub heap_bytes: u64,
    /// The most of these.
    pub most_bytes: u64,
    /// Mappings that they take.
    pub mappings: u64,
    /// The most of these.
    pub most_mappings: u64,
    /// Descriptors that they take.
    pub files: u64,
    /// The most of these.
    pub most_files: u64,
    /// Bytes of compiled code that are kept on disk at most, beside those that the configuration names.
    pub most_disk_bytes: u64,
    /// Times that a module was loaded.
    pub loads: u64,
    /// Times that one went for others.
    pub evictions: u64,
    /// Modules that are looked at or compiled, or wait for that.
    pub compiling: u64,
    /// Modules that were compiled.
    pub compiled: u64,
    /// Modules that there is no code of; the log says why.
    pub broken: u64,
}

impl From<CodeFigures> for CodeStatus {
    fn from(figures: CodeFigures) -> Self {
        let limits = figures.limits;
        Self {
            modules: figures.modules,
            bytes: figures.bytes,
            heap_bytes: figures.heap_bytes,
            most_bytes: limits.memory_bytes,
            mappings: figures.mappings,
            most_mappings: limits.mappings,
            files: figures.files,
            most_files: limits.files,
            most_disk_bytes: limits.disk_bytes,
            loads: figures.loads,
            evictions: figures.evictions,
            compiling: figures.compiling,
            compiled: figures.compiled,
            broken: figures.broken,
        }
    }
}

/// A family without labels: name, type, what it means, value.
pub(super) type Family = (&'static str, &'static str, &'static str, u64);

/// The families of loaded code.
pub(super) fn families(status: &CodeStatus) -> [Family; 8] {
    [
        (
            "palisade_code_modules",
            "gauge",
            "Modules of filters and components that are loaded.",
            status.modules,
        ),
        (
            "palisade_code_bytes",
            "gauge",
            "Bytes of loaded code.",
            status.bytes,
        ),
        (
            "palisade_code_limit_bytes",
            "gauge",
            "The most bytes of loaded code.",
            status.most_bytes,
        ),
        (
            "palisade_code_loads_total",
            "counter",
            "Times that a module was loaded.",
            status.loads,
        ),
        (
            "palisade_code_evictions_total",
            "counter",
            "Times that a loaded module went for others.",
            status.evictions,
        ),
        (
            "palisade_code_compiling",
            "gauge",
            "Modules that are compiled, or wait for that.",
            status.compiling,
        ),
        (
            "palisade_code_compiled_total",
            "counter",
            "Modules that were compiled.",
            status.compiled,
        ),
        (
            "palisade_code_broken",
            "gauge",
            "Modules that there is no code of.",
            status.broken,
        ),
    ]
}
