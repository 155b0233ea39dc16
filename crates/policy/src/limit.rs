//! Limits: one bound each.

use std::time::Duration;

/// Upper bounds on what a domain may use. `None` is no bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Memory of the whole domain, page cache and tmpfs included, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processors, fractional: 0.5 is half of one.
    pub cpu_cores: Option<f64>,
    /// Processes and threads of the whole domain at one time.
    pub processes: Option<u32>,
    /// Open files of each process.
    pub files: Option<u64>,
    /// Largest file that may be written, in bytes.
    pub file_size_bytes: Option<u64>,
    /// Size of the private `/tmp` and `/dev/shm` together, in bytes.
    pub tmp_size_bytes: Option<u64>,
    /// Wall-clock time from start to end.
    pub time: Option<Duration>,
    /// Processor time of the whole domain.
    pub cpu_time: Option<Duration>,
    /// Bytes written to stdout and stderr together.
    pub output_bytes: Option<u64>,
}

impl Limits {
    /// The limits of `upper`, and those of `self` where `upper` has none.
    pub(crate) fn overlaid_with(self, upper: Self) -> Self {
        Self {
            memory_bytes: upper.memory_bytes.or(self.memory_bytes),
            cpu_cores: upper.cpu_cores.or(self.cpu_cores),
            processes: upper.processes.or(self.processes),
            files: upper.files.or(self.files),
            file_size_bytes: upper.file_size_bytes.or(self.file_size_bytes),
            tmp_size_bytes: upper.tmp_size_bytes.or(self.tmp_size_bytes),
            time: upper.time.or(self.time),
            cpu_time: upper.cpu_time.or(self.cpu_time),
            output_bytes: upper.output_bytes.or(self.output_bytes),
        }
    }
}
