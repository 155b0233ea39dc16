//! How much code is loaded at one time, and kept on disk.
//!
//! A module that is loaded takes two or three mappings and may keep a file open ([`Handles`]). Of both a process has so many,
//! which connections and instances need too: the defaults leave most of them to these.

use palisade_engine::handles::Handles;
use rustix::process::{Resource, getrlimit};

/// One part of so many of the machine's memory.
const MEMORY_PART: u64 = 8;
/// At least, in bytes.
const LEAST_MEMORY: u64 = 256 << 20;
/// One part of so many of the mappings that a process can have.
const MAPPINGS_PART: u64 = 3;
/// What the kernel has where it does not say (`vm.max_map_count`).
const USUAL_MAPPINGS: u64 = 65_530;
/// One part of so many of the descriptors that a process can have.
const FILES_PART: u64 = 2;
/// At most: the hard limit can be without end.
const MOST_FILES: u64 = 32_768;
/// Of what no configuration names.
const DISK_BYTES: u64 = 512 << 20;

/// What the configuration says; `None`: by the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeLimitsSetting {
    /// Bytes of loaded code.
    pub memory_bytes: Option<u64>,
    /// Mappings of loaded code.
    pub mappings: Option<u64>,
    /// Descriptors of loaded code.
    pub files: Option<u64>,
    /// Bytes of compiled code on disk.
    pub disk_bytes: Option<u64>,
}

/// What holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeLimits {
    /// Bytes of loaded code.
    pub memory_bytes: u64,
    /// Mappings of loaded code.
    pub mappings: u64,
    /// Descriptors of loaded code.
    pub files: u64,
    /// Bytes of compiled code on disk. What the configuration names stays beyond it.
    pub disk_bytes: u64,
}

impl CodeLimits {
    /// On this machine, where so many descriptors are taken by other things of the configuration.
    pub fn of(setting: &CodeLimitsSetting, taken_files: u64) -> Self {
        let files = most_files().saturating_sub(taken_files);
        let default = Self::of_machine(memory_bytes(), most_mappings(), files);
        Self {
            memory_bytes: setting.memory_bytes.unwrap_or(default.memory_bytes),
            mappings: setting.mappings.unwrap_or(default.mappings),
            files: setting.files.unwrap_or(default.files),
            disk_bytes: setting.disk_bytes.unwrap_or(default.disk_bytes),
        }
    }

    fn of_machine(memory_bytes: u64, most_mappings: u64, most_files: u64) -> Self {
        Self {
            memory_bytes: (memory_bytes / MEMORY_PART).max(LEAST_MEMORY),
            mappings: most_mappings / MAPPINGS_PART,
            files: (most_files / FILES_PART).min(MOST_FILES),
            disk_bytes: DISK_BYTES,
        }
    }

    /// Modules that can be loaded at one time, each of those that take most; one at least.
    pub(super) fn modules(&self) -> u64 {
        let Handles { mappings, files } = Handles::MOST;
        (self.mappings / mappings).min(self.files / files).max(1)
    }
}

fn memory_bytes() -> u64 {
    let told = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = told.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|total| total.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.map_or(0, |kilobytes| kilobytes << 10)
}

fn most_mappings() -> u64 {
    let told = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    let told = told.ok().and_then(|text| text.trim().parse().ok());
    told.unwrap_or(USUAL_MAPPINGS)
}

/// The hard limit: the server raises its own to it.
fn most_files() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_leave_most_to_others() {
        let limits = CodeLimits::of_machine(24 << 30, 65_530, 20_000);
        assert_eq!(limits.memory_bytes, 3 << 30);
        assert!(limits.mappings < 65_530 / 2 && limits.files <= 20_000 / 2);
        assert_eq!(limits.modules(), 65_530 / 3 / 3);
        let small = CodeLimits::of_machine(512 << 20, 65_530, u64::MAX);
        assert_eq!(small.memory_bytes, LEAST_MEMORY);
        assert_eq!(small.files, MOST_FILES);
        let none = CodeLimits { files: 0, ..small };
        assert_eq!(none.modules(), 1, "nothing could be served");
    }

    #[test]
    fn descriptors_that_are_taken_are_nobodys() {
        let default = CodeLimitsSetting::default();
        let most = most_files();
        let limits = CodeLimits::of(&default, most - 100);
        assert_eq!(limits.files, 50);
        assert_eq!(CodeLimits::of(&default, u64::MAX).modules(), 1);
    }

    #[test]
    fn this_machine_can_be_asked() {
        assert!(memory_bytes() > 64 << 20);
        assert!(most_mappings() > 1000);
        assert!(most_files() >= 256);
    }

    #[test]
    fn what_the_configuration_says_holds() {
        let setting = CodeLimitsSetting {
            memory_bytes: Some(1 << 20),
            ..CodeLimitsSetting::default()
        };
        let limits = CodeLimits::of(&setting, 0);
        assert_eq!(limits.memory_bytes, 1 << 20);
        assert_eq!(
            limits.mappings,
            CodeLimits::of(&CodeLimitsSetting::default(), 0).mappings
        );
    }
}
