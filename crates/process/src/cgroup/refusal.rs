//! Why limits cannot be held here, and how that can be changed.

use std::{fmt, path::PathBuf};

use serde::Serialize;
use thiserror::Error;

use super::detect::Controller;

/// One field of [`Need`](super::Need).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Limit {
    /// [`memory_bytes`](super::Need::memory_bytes).
    Memory,
    /// [`cpu_cores`](super::Need::cpu_cores).
    Cpu,
    /// [`processes`](super::Need::processes).
    Processes,
    /// [`cpu_time`](super::Need::cpu_time).
    CpuTime,
    /// [`freezer`](super::Need::freezer), which is no limit but comes in the same way.
    Freezer,
}

/// All limits that no group can hold here. Never empty.
#[derive(Clone, Debug, Error, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Each with what stands in its way.
    pub unmet: Vec<Unmet>,
}

/// One limit that no group can hold here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unmet {
    /// The controller that would hold it.
    pub controller: Controller,
    /// What stands in its way.
    pub obstacle: Obstacle,
}

/// Why a group cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Obstacle {
    /// No mounted hierarchy has the controller.
    NoController,
    /// The group belongs to somebody else or is mounted read-only, and so are those above it.
    NotWritable {
        /// The nearest group.
        dir: PathBuf,
    },
    /// The group may be used, but was not given the controller.
    NotDelegated {
        /// The group.
        dir: PathBuf,
    },
    /// The group could hand the controller on if it had no processes of its own.
    Occupied {
        /// The group.
        dir: PathBuf,
    },
}

impl Unmet {
    /// The limit.
    #[must_use]
    pub fn limit(&self) -> Limit {
        match self.controller {
            Controller::Memory => Limit::Memory,
            Controller::Cpu => Limit::Cpu,
            Controller::Pids => Limit::Processes,
            Controller::Cpuacct => Limit::CpuTime,
            Controller::Freezer => Limit::Freezer,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Processes => "processes",
            Self::CpuTime => "cpu-time",
            Self::Freezer => "freezing",
        })
    }
}

/// `host: this machine cannot hold a limit on memory: …; on cpu: …`
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("host: this machine cannot hold a limit on ")?;
        for (position, unmet) in self.unmet.iter().enumerate() {
            let separator = if position == 0 { "" } else { "; on " };
            write!(f, "{separator}{}: {unmet}", unmet.limit())?;
        }
        Ok(())
    }
}

/// What is missing, and how to get it.
impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let controller = self.controller.name();
        match &self.obstacle {
            Obstacle::NoController if self.controller == Controller::Freezer => f.write_str(
                "no cgroup hierarchy of version 2 is mounted (mount cgroup2; a group of version 1 can be frozen, and \
                 nothing in it killed then)",
            ),
            Obstacle::NoController => write!(
                f,
                "no mounted cgroup hierarchy has the {controller} controller \
                 (mount cgroup2 on /sys/fs/cgroup, or boot with cgroup_enable={controller})"
            ),
            Obstacle::NotWritable { dir } => write!(
                f,
                "no writable cgroup, {} is not (run as root, or as `systemd-run --user --scope \
                 -p Delegate=yes palisade run …`; in Docker mount /sys/fs/cgroup writable with \
                 --cgroupns=private)",
                dir.display()
            ),
            Obstacle::NotDelegated { dir } => write!(
                f,
                "cgroup {} was not given the {controller} controller (run under `systemd-run \
                 --user --scope -p Delegate=yes`; for cpu, root must also set `Delegate=cpu memory \
                 pids` for user@.service)",
                dir.display()
            ),
            Obstacle::Occupied { dir } => write!(
                f,
                "cgroup {} has other processes, so it cannot hand the {controller} controller on \
                 (start palisade in a cgroup of its own: `systemd-run --user --scope \
                 -p Delegate=yes`)",
                dir.display()
            ),
        }
    }
}
