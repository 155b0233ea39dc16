//! System-call surface and ABI. A policy has no word for most of these calls: the control
//! then shows that the same kind of witness sees a permitted act through the wall.

use crate::attack::Attack;
use crate::fixtures::Fixture::{
    Flaw, Handle, KernelLog, Masked, ReadOnlyMount, Servers, Terminal, Victim, VictimNamespaced,
};
use crate::guests::Controls::{GrantedRead, GrantedWrite, OwnChild, OwnEventfd, OwnSocket};
use crate::guests::Syscalls as Guest;
use crate::policy::Grant::Read;
use crate::witness::{Effect, Trace, Witness};

const USERFAULTFD: Witness = Witness::Trace(Trace::Descriptor("[userfaultfd]"));

/// A descriptor that only the denied call hands out, seen in `/proc/PID/fd`.
const fn descriptor(entry: usize, link: &'static str) -> Attack {
    Attack::new(entry, Witness::Trace(Trace::Descriptor(link))).ungrantable(OwnEventfd)
}

/// A socket of a denied family, seen by its protocol's name.
const fn socket(protocol: &'static str) -> Attack {
    Attack::new(22, Witness::Trace(Trace::Socket(protocol))).ungrantable(OwnSocket)
}

/// Another change that `/proc/PID` shows.
const fn trace(entry: usize, trace: Trace) -> Attack {
    Attack::new(entry, Witness::Trace(trace)).ungrantable(OwnChild)
}

/// The random secret of a victim comes out.
const fn secret(entry: usize) -> Attack {
    Attack::new(entry, Witness::Secret).ungrantable(GrantedRead)
}

/// A call without an outside trace, or that must not succeed.
const fn self_reported(entry: usize) -> Attack {
    Attack::new(entry, Witness::SelfReported).ungrantable(OwnEventfd)
}

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::Int80 | Guest::Userfaultfd => Attack::new(
            if matches!(guest, Guest::Int80) { 1 } else { 14 },
            USERFAULTFD,
        )
        .ungrantable(OwnEventfd),
        Guest::Elf32 => Attack::new(2, USERFAULTFD).ungrantable(OwnEventfd),
        Guest::X32 => Attack::new(3, USERFAULTFD).ungrantable(OwnEventfd),

        Guest::UringSetup => descriptor(4, "[io_uring]"),
        Guest::UringOpenat => secret(4),
        Guest::UringConnect => Attack::new(4, Witness::Effect(Effect::Received))
            .with(&[Servers])
            .ungrantable(OwnSocket),
        Guest::UringInherited => secret(5)
            .with(&[Flaw("leak-ring={outside}/secret")])
            .told(&["ring="]),

        Guest::Clone3Newuser | Guest::Clone3Flags | Guest::CloneNewuser => {
            trace(6, Trace::Namespaces("user"))
        }
        Guest::UnshareNewuser => trace(7, Trace::Namespaces("user")),
        Guest::UnshareMount => trace(7, Trace::Mount("{nonce}")),
        Guest::UnshareNetfilter => {
            Attack::new(7, Witness::Trace(Trace::Socket("NETLINK"))).ungrantable(OwnSocket)
        }
        Guest::SetnsProc => secret(8).with(&[VictimNamespaced]),
        Guest::SetnsPidfd => secret(8)
            .with(&[VictimNamespaced, Flaw("leak-pidfd={namespaced}")])
            .told(&["pidfd=100"]),

        Guest::RacePath => secret(9).controlled_by(&[Read("{outside}")]),
        Guest::RaceSockaddr => Attack::new(9, Witness::Effect(Effect::Received))
            .with(&[Servers])
            .ungrantable(OwnSocket),

        Guest::PtraceAttach => secret(10).with(&[Victim]),
        Guest::PtraceInit | Guest::PtraceSupervisor => trace(10, Trace::TracesStranger),
        Guest::VmReadv => secret(11).with(&[Victim]),
        Guest::ProcMem => secret(11).with(&[Victim]),
        Guest::VmWritev => Attack::new(11, Witness::Effect(Effect::VictimChanged))
            .with(&[Victim])
            .ungrantable(GrantedWrite),
        Guest::PidfdGetfd => secret(12).with(&[Victim]),
        Guest::Kcmp => secret(13).with(&[Victim]),
        Guest::PerfEvent => descriptor(13, "[perf_event]"),
        Guest::Bpf => descriptor(13, "bpf-map"),
        Guest::UserfaultfdDevice => descriptor(14, "/dev/userfaultfd"),
        Guest::FuseDevice => descriptor(14, "/dev/fuse"),

        Guest::KeySession | Guest::KeyRequest => {
            secret(15).with(&[Flaw("session-key={nonce}:{secret}")])
        }
        Guest::KeyUser => secret(15).with(&[Flaw("user-key={nonce}:{secret}")]),
        Guest::KeyAdd => {
            Attack::new(15, Witness::Effect(Effect::KeyPlanted)).ungrantable(GrantedWrite)
        }

        Guest::InitModule
        | Guest::FinitModule
        | Guest::KexecLoad
        | Guest::Reboot
        | Guest::Swapon
        | Guest::Settimeofday
        | Guest::Iopl
        | Guest::Ioperm
        | Guest::ModifyLdt => self_reported(16),
        Guest::Acct => Attack::new(
            16,
            Witness::Effect(Effect::LargerThanMb("{outside}/acct", 0)),
        )
        .ungrantable(GrantedWrite),

        Guest::Personality => trace(
            17,
            Trace::Personality(ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC),
        ),
        Guest::OpenByHandle => secret(18).with(&[Handle]),
        Guest::Fanotify => descriptor(19, "[fanotify]"),

        Guest::Mount | Guest::MoveMount => trace(20, Trace::Mount("{nonce}")),
        Guest::Fsopen => descriptor(20, "[fscontext]"),
        Guest::OpenTree => trace(20, Trace::DetachedTree),
        Guest::PivotRoot => trace(20, Trace::Mount(" /old ")),
        Guest::Chroot => trace(20, Trace::Roots),
        Guest::MountSetattr | Guest::Remount => {
            Attack::new(20, Witness::Effect(Effect::Holds("{readable}/planted")))
                .with(&[ReadOnlyMount])
                .ungrantable(GrantedWrite)
        }
        Guest::Umount => secret(20).with(&[Masked]),

        Guest::Quotactl | Guest::LookupDcookie => self_reported(21),
        Guest::Syslog => secret(21).with(&[KernelLog]),
        Guest::Vhangup => Attack::new(
            21,
            Witness::Effect(Effect::HoldsText("{case}/typed", "hung up")),
        )
        .with(&[Terminal])
        .ungrantable(GrantedWrite),

        Guest::SocketAlg => socket("ALG"),
        Guest::SocketPacket => socket("PACKET"),
        Guest::SocketKey => socket("KEY"),
        Guest::SocketXdp => socket("XDP"),
        Guest::SocketTipc => socket("TIPC"),
        Guest::SocketVsock => socket("AF_VSOCK"),
        Guest::SocketSmc => socket("SMC"),
        Guest::SocketNetlink => socket("NETLINK"),

        Guest::PrctlMm => trace(23, Trace::Stat(START_STACK, "268435456")),
        Guest::Sweep => self_reported(24),
    }
}

/// personality(2).
const ADDR_NO_RANDOMIZE: u32 = 0x004_0000;
const READ_IMPLIES_EXEC: u32 = 0x040_0000;
/// Field of `/proc/PID/stat`, proc(5).
const START_STACK: usize = 28;
