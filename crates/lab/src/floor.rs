//! The floor of a row: the least that the kernel charges for what the row needs, whoever builds the wall.
//!
//! It is a subject as palisade and peers are: a small program in C around the workload (`lab/workloads/floor-*.c`),
//! which does that and nothing else. Targets of palisade's are against it; where one against bare lies below it, the
//! verdict says so ([`Verdict::BelowFloor`](crate::figure::Verdict::BelowFloor)).

use std::fmt;

/// What a row's floor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// The workload with no wall: for what the row needs the kernel charges nothing.
    Bare,
    /// A filter of one instruction, and a pid namespace and mounts where the policy takes some: `floor-filter`.
    Filter,
    /// The namespaces of a domain with one mount, and waiting for the program: `floor-start`.
    Start,
    /// Somebody else who makes sockets and connects them: `floor-notify`.
    Notifier,
    /// Somebody else who is told which files are named: `floor-notify --names`.
    Names,
    /// [`Filter`](Self::Filter), whose filter tells somebody else of what is executed: `floor-notify --programs`.
    Programs,
    /// The engine alone: the same through Wasmtime, with nothing of palisade's.
    Engine,
}

impl Floor {
    /// Whether it is measured as a subject of its own.
    pub fn is_subject(self) -> bool {
        match self {
            Self::Bare => false,
            Self::Filter
            | Self::Start
            | Self::Notifier
            | Self::Names
            | Self::Programs
            | Self::Engine => true,
        }
    }
}

impl fmt::Display for Floor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Bare => "bare; the kernel charges nothing for what this row needs",
            Self::Filter => {
                "the program behind a system-call filter of one instruction, with the pid namespace and the mounts that its policy takes, and a look at modes where it may write"
            }
            Self::Start => {
                "a launcher in C: the same namespaces, one mount, the program; whole wall: all that a domain is; parked: all but the program made ahead"
            }
            Self::Notifier => {
                "a listener in C that makes the program's sockets and connects them, with nothing to decide"
            }
            Self::Names => {
                "a listener in C that copies the name of each file which the program asks for, and lets the call go on"
            }
            Self::Programs => {
                "the program behind a filter that tells a listener in C of execve(2) and allows all else, with the pid namespace and the mounts that its policy takes, and a look at modes where it may write"
            }
            Self::Engine => "the engine alone, with nothing of palisade's around it",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::rows;

    /// Rows that need the kernel's help have a floor of their own; none says that it has one and measures none.
    #[test]
    fn every_row_says_what_its_floor_is() {
        let with = |floor| {
            let rows = rows().iter().filter(move |row| row.method.floor() == floor);
            rows.map(|row| row.name).collect::<Vec<_>>()
        };
        assert_eq!(with(Floor::Programs), ["syscalls"]);
        let calls = [
            "mk-2",
            "mk-3",
            "mk-6",
            "mk-7",
            "sva-f4",
            "mk-4",
            "mk-5",
            "den-tcp",
            "den-f3",
            "redis",
            "sva-f2",
            "sva-f3",
            "osv-mc",
            "pgbench",
            "kp-6",
            "container-requests",
        ];
        assert_eq!(with(Floor::Filter), calls);
        let starts = ["start", "osv-boot", "container-start", "container-many"];
        assert_eq!(with(Floor::Start), starts);
        assert_eq!(with(Floor::Notifier), ["broker"]);
        assert_eq!(with(Floor::Names), ["watch", "learn"]);
        assert_eq!(
            with(Floor::Engine),
            ["kp-5", "kp-c", "kp-x", "kp-7", "kp-8", "serve-filter"]
        );
    }
}
