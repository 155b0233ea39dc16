//! What a domain has used, as its groups counted it.

use std::path::Path;

use serde::Serialize;

use super::{
    detect::{Controller, Version},
    leaf::Group,
    tree::Tree,
};

/// What a domain has used. `None` is what nothing here counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Processor time of all processes, ended ones included.
    pub cpu_us: Option<u64>,
    /// How much of it the kernel spent for them, to a clock tick.
    pub cpu_system_us: Option<u64>,
    /// The most memory in use at one time. Version 2 tells since Linux 5.19.
    pub memory_peak_bytes: Option<u64>,
    /// Processes ended because memory ran out.
    pub oom_kills: Option<u64>,
    /// Forks refused because there were too many processes.
    pub pids_rejected: Option<u64>,
    /// The most processes and threads at one time, where that was asked for. Linux tells since 6.1, of version 1 since 6.11.
    pub pids_peak: Option<u64>,
}

impl Usage {
    /// What each group counts is unlike what the others count, except processor time, where one
    /// is enough.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            cpu_us: self.cpu_us.or(other.cpu_us),
            cpu_system_us: self.cpu_system_us.or(other.cpu_system_us),
            memory_peak_bytes: self.memory_peak_bytes.or(other.memory_peak_bytes),
            oom_kills: self.oom_kills.or(other.oom_kills),
            pids_rejected: self.pids_rejected.or(other.pids_rejected),
            pids_peak: self.pids_peak.or(other.pids_peak),
        }
    }

    /// With that of a group which counts processes. Few want to know, and it takes a file more.
    pub(super) fn with_pids_peak<'a>(
        mut self,
        mut groups: impl Iterator<Item = &'a Group>,
        tree: &impl Tree,
    ) -> Self {
        self.pids_peak = groups.find_map(|group| Counters { group, tree }.number("pids.peak"));
        self
    }

    /// User and system time in µs, where a group counted them: of all processes, also of those that nobody
    /// waited for.
    pub(crate) fn processor_us(&self) -> Option<(u64, u64)> {
        let total_us = self.cpu_us?;
        let system_us = self.cpu_system_us.unwrap_or(0).min(total_us);
        Some((total_us - system_us, system_us))
    }

    pub(super) fn of(group: &Group, tree: &impl Tree) -> Self {
        let counters = Counters { group, tree };
        match group.version {
            Version::V2 => counters.version_2(),
            Version::V1 => counters.version_1(),
        }
    }
}

struct Counters<'a, T> {
    group: &'a Group,
    tree: &'a T,
}

impl<T: Tree> Counters<'_, T> {
    fn version_2(&self) -> Usage {
        Usage {
            cpu_us: self.field("cpu.stat", "usage_usec"),
            cpu_system_us: self.field("cpu.stat", "system_usec"),
            memory_peak_bytes: self.number("memory.peak"),
            oom_kills: self.field("memory.events", "oom_kill"),
            pids_rejected: self.field("pids.events", "max"),
            pids_peak: None,
        }
    }

    /// Only what the group is there for: a hierarchy may have more controllers than were asked
    /// of it.
    fn version_1(&self) -> Usage {
        let mut usage = Usage::default();
        for controller in &self.group.controllers {
            match controller {
                Controller::Memory => {
                    usage.memory_peak_bytes = self.number("memory.max_usage_in_bytes");
                    usage.oom_kills = self.field("memory.oom_control", "oom_kill");
                }
                Controller::Pids => usage.pids_rejected = self.field("pids.events", "max"),
                Controller::Cpuacct => {
                    let microseconds = |file| self.number(file).map(|ns| ns / 1000);
                    usage.cpu_us = microseconds("cpuacct.usage");
                    usage.cpu_system_us = microseconds("cpuacct.usage_sys");
                }
                Controller::Cpu | Controller::Freezer => {}
            }
        }
        usage
    }

    fn number(&self, file: &str) -> Option<u64> {
        self.read(file)?.trim().parse().ok()
    }

    /// The number behind a word at the beginning of a line.
    fn field(&self, file: &str, word: &str) -> Option<u64> {
        let text = self.read(file)?;
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.parse().ok())
    }

    fn read(&self, file: &str) -> Option<String> {
        let path: &Path = &self.group.dir.join(file);
        self.tree.read(path).ok()
    }
}
