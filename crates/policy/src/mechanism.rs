//! What holds a guest: walls, and what each of them enforces.

use crate::value::words;

/// The mechanism around a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WallKind {
    /// Linux namespaces, Landlock, seccomp and cgroups.
    Process,
    /// A WebAssembly engine inside the process wall.
    Wasm,
}

words!(WallKind, "wall", { Process => "process", Wasm => "wasm" });

/// One thing a wall enforces, and the word `--allow-degraded` takes for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Capability {
    /// User, mount, pid, ipc, uts and cgroup namespaces with a private root.
    Namespaces,
    /// An empty network namespace of its own.
    Network,
    /// Landlock scopes and rights.
    Landlock,
    /// The system-call allow-list.
    Seccomp,
    /// A host user id that no other domain and no person has (only root can give one).
    Uid,
    /// `grants.hide`.
    Hide,
    /// `limits.memory`.
    Memory,
    /// `limits.cpu`.
    Cpu,
    /// `limits.processes`.
    Processes,
    /// `limits.cpu_time`.
    CpuTime,
}

words!(Capability, "capability", {
    Namespaces => "namespaces",
    Network => "network",
    Landlock => "landlock",
    Seccomp => "seccomp",
    Uid => "uid",
    Hide => "hide",
    Memory => "memory",
    Cpu => "cpu",
    Processes => "processes",
    CpuTime => "cpu-time",
});
