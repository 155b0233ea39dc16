//! Resource exhaustion: the limit is set, the guest goes a little past it, the witness
//! counts. The control is a limit that is wide enough.

use crate::attack::Attack;
use crate::guests::Controls::{GrantedWrite, OwnChild};
use crate::guests::Resources as Guest;
use crate::policy::Grant::Limit;
use crate::witness::{Course, Effect, Trace, Witness};

const fn counted(entry: usize, trace: Trace) -> Attack {
    Attack::new(entry, Witness::Trace(trace))
}

const fn processes(trace: Trace) -> Attack {
    counted(67, trace)
        .launched(&[Limit("processes", "32")])
        .told(&["count=200"])
        .controlled_by(&[Limit("processes", "400")])
}

const fn memory() -> Attack {
    counted(68, Trace::ResidentMb(80))
        .launched(&[Limit("memory", "48M")])
        .told(&["megabytes=128"])
        .controlled_by(&[Limit("memory", "512M")])
}

/// What the kernel keeps for a guest is nobody's resident memory.
const fn kernel_memory() -> Attack {
    Attack::new(68, Witness::SelfReported)
        .launched(&[Limit("memory", "24M")])
        .told(&["megabytes=48"])
        .controlled_by(&[Limit("memory", "512M")])
        .within_ms(15_000)
}

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::ForkBomb | Guest::ZombieHoard => processes(Trace::Processes(100)),
        Guest::ThreadBomb => processes(Trace::Threads(100)),
        Guest::MemoryBomb | Guest::MemfdBomb | Guest::SharedBomb => memory(),
        // A user whose pipes hold more than 64 MiB gets small ones (`fs.pipe-user-pages-soft`).
        Guest::PipeMemory => kernel_memory().in_turn(),
        Guest::StreamMemory
        | Guest::DatagramMemory
        | Guest::SegmentMemory
        | Guest::MessageMemory
        | Guest::EpollMemory
        | Guest::TableMemory => kernel_memory(),
        Guest::LockMemory => kernel_memory()
            .pending("the kernel charges file locks to nobody (filelock_cache in fs/locks.c)"),
        Guest::OomScore => counted(69, Trace::OomScoreLowered).ungrantable(OwnChild),
        Guest::DescriptorBomb => counted(70, Trace::Descriptors(200))
            .launched(&[Limit("files", "64")])
            .told(&["count=400"])
            .controlled_by(&[Limit("files", "1000")]),
        Guest::FileSize => Attack::new(
            49,
            Witness::Effect(Effect::LargerThanMb("{scratch}/planted", 2)),
        )
        .launched(&[Limit("file-size", "1M")])
        .controlled_by(&[Limit("file-size", "64M")]),
        Guest::OutputFlood => Attack::new(73, Witness::Course(Course::OutputOver(2 << 20)))
            .launched(&[Limit("output", "1M")])
            .controlled_by(&[Limit("output", "64M")]),
        Guest::Overtime => Attack::new(72, Witness::Course(Course::LongerThanMs(1_300)))
            .launched(&[Limit("time", "300ms")])
            .controlled_by(&[Limit("time", "20s")]),
        Guest::StopSelf => Attack::new(72, Witness::Course(Course::LongerThanMs(1_300)))
            .launched(&[Limit("time", "300ms")])
            .ungrantable(OwnChild)
            .within_ms(1_500),
        Guest::CpuBurn | Guest::CpuBurnCaught => counted(72, Trace::CpuMs(1_500))
            .launched(&[Limit("cpu-time", "1s")])
            .controlled_by(&[Limit("cpu-time", "20s")])
            .within_ms(12_000),
        // Nothing tells afterwards what was burned by children that nobody waited for.
        Guest::CpuBurnUnreaped | Guest::CpuBurnNocldwait | Guest::CpuBurnStorm => {
            Attack::new(72, Witness::SelfReported)
                .launched(&[Limit("cpu-time", "1s")])
                .controlled_by(&[Limit("cpu-time", "20s")])
                .within_ms(25_000)
        }
        Guest::RealTime => counted(72, Trace::Stat(POLICY, "1")).ungrantable(OwnChild),
        Guest::NiceUp => counted(72, Trace::Stat(NICE, "-5")).ungrantable(OwnChild),
        // A launcher that hunts until the flight of ten seconds is over has hung. Two hundred runnable
        // processes hold up each wake-up of the suite's own by a third of a second on two processors.
        Guest::ForkFlight => Attack::new(73, Witness::Course(Course::Survivor))
            .ungrantable(GrantedWrite)
            .within_ms(6_000),
        Guest::Survivor => {
            Attack::new(73, Witness::Course(Course::Survivor)).ungrantable(GrantedWrite)
        }
        Guest::StdoutHeld => {
            Attack::new(73, Witness::Course(Course::OutputHeld)).ungrantable(GrantedWrite)
        }
    }
}

/// Fields of `/proc/PID/stat`, proc(5).
const NICE: usize = 19;
const POLICY: usize = 41;
