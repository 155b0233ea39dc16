//! Filesystem, /proc and /sys.

use crate::attack::Attack;
use crate::fixtures::Fixture;
use crate::fixtures::Fixture::{Flaw, Flip, KernelLog, Victim};
use crate::guests::Controls::{GrantedRead, GrantedWrite, OwnChild, OwnEventfd};
use crate::guests::Files as Guest;
use crate::policy::Grant;
use crate::policy::Grant::{
    Cwd, Hide, Ipc, Limit, NoGuard, PolicyFile, Protect, Read, ReadAt, Write, WriteAt,
};
use crate::witness::{Course, Effect, FileKind, Trace, Witness};

/// What a project folder asks to be kept as it is.
const PROTECTED: &[Grant] = &[
    Write("{scratch}"),
    Protect("{scratch}/.git/hooks"),
    Protect("{scratch}/.bashrc"),
    Protect("{scratch}/.env"),
    Protect("{scratch}/.vscode/tasks.json"),
];
/// One directory leaks into the guest.
const LEAK: &[Fixture] = &[Flaw("leak-directory=/")];

/// The secret beside the grants comes out; granted, it does so too.
const fn secret(entry: usize) -> Attack {
    Attack::new(entry, Witness::Secret).controlled_by(&[Read("{outside}")])
}

/// A secret that no grant can give.
const fn foreign_secret(entry: usize) -> Attack {
    Attack::new(entry, Witness::Secret)
        .with(&[Victim])
        .ungrantable(GrantedRead)
}

/// The host's folder gets something that the launcher was tricked to make there.
const fn tricked(entry: usize, made: &'static str) -> Attack {
    Attack::new(entry, Witness::Effect(Effect::Exists(made)))
        .ungrantable(GrantedWrite)
        .or_refused()
}

/// Something is left in the scratch folder.
const fn dropped(effect: Effect) -> Attack {
    Attack::new(40, Witness::Effect(effect)).ungrantable(GrantedWrite)
}

/// A protected path gets the guest's nonce; the control is a folder without protection.
const fn protected(entry: usize, path: &'static str) -> Attack {
    Attack::new(entry, Witness::Effect(Effect::Holds(path)))
        .launched(PROTECTED)
        .controlled_instead_by(&[Write("{scratch}"), NoGuard])
}

/// What git executes gets the guest's nonce, in a folder that is granted for writing and nothing else said; the control
/// says that it is the guest's.
const fn guarded(
    launch: &'static [Grant],
    told: &'static [&'static str],
    path: &'static str,
    control: &'static [Grant],
) -> Attack {
    Attack::new(41, Witness::Effect(Effect::Holds(path)))
        .launched(launch)
        .told(told)
        .controlled_instead_by(control)
}

/// A kernel setting is open for writing.
const fn setting(entry: usize, file: &'static str) -> Attack {
    Attack::new(entry, Witness::Trace(Trace::KernelFile(file))).ungrantable(OwnEventfd)
}

/// Kernel information comes out, known by a text that only it holds.
const fn information(text: &'static str) -> Attack {
    Attack::new(44, Witness::Text(text)).ungrantable(GrantedRead)
}

/// A mount of the guest's, seen in its own mount table.
const fn mount(entry: usize) -> Attack {
    Attack::new(entry, Witness::Trace(Trace::Mount("{nonce}"))).ungrantable(OwnChild)
}

/// A file that was granted to read is changed.
const fn changed(effect: Effect) -> Attack {
    Attack::new(51, Witness::Effect(effect))
}

/// A path that a careless policy confuses with `granted`.
const fn confused(
    launch: &'static [Grant],
    told: &'static [&'static str],
    control: &'static [Grant],
) -> Attack {
    Attack::new(51, Witness::Secret)
        .launched(launch)
        .told(told)
        .controlled_instead_by(control)
}

pub(super) const fn row(guest: Guest) -> Attack {
    match guest {
        Guest::ExeOverwrite => Attack::new(32, Witness::Effect(Effect::VictimRewritten))
            .with(&[Victim])
            .ungrantable(GrantedWrite),
        Guest::LeakedFd | Guest::FchdirLeaked => Attack::new(
            if matches!(guest, Guest::LeakedFd) {
                33
            } else {
                38
            },
            Witness::Secret,
        )
        .with(LEAK)
        .ungrantable(GrantedRead),
        Guest::LeakedCwd => Attack::new(33, Witness::Secret)
            .with(LEAK)
            .launched(&[Cwd("/proc/self/fd/100")])
            .ungrantable(GrantedRead)
            .or_refused(),

        Guest::InheritedCwd => Attack::new(33, Witness::Secret)
            .with(&[Flaw("enter={outside}")])
            .controlled_by(&[Read("{outside}"), Cwd("{outside}")]),

        Guest::MountRace => tricked(34, "{outside}/target")
            .with(&[Flip("{scratch}/sub", "{scratch}/sub-link")])
            .launched(&[Write("{scratch}"), ReadAt("{bin}", "{scratch}/sub/target")])
            .repeated(20),
        Guest::MountSymlink => tricked(34, "{outside}/target")
            .launched(&[Write("{scratch}"), ReadAt("{bin}", "{scratch}/link/target")]),
        Guest::NullSymlink => Attack::new(35, Witness::Secret)
            .launched(&[
                WriteAt("{scratch}/dev", "/dev"),
                Protect("{scratch}/.env"),
                Write("{scratch}"),
            ])
            .ungrantable(GrantedRead)
            .or_refused(),
        Guest::ConsoleSymlink => Attack::new(36, Witness::Secret)
            .launched(&[WriteAt("{scratch}/dev", "/dev")])
            .ungrantable(GrantedRead)
            .or_refused(),
        Guest::DevSymlink => tricked(37, "{outside}/pts").launched(&[
            WriteAt("{scratch}/root", "/srv"),
            ReadAt("{bin}", "/srv/dev/pts"),
        ]),

        Guest::ChrootEscape => Attack::new(38, Witness::Secret).ungrantable(GrantedRead),
        Guest::Dotdot => secret(38),
        Guest::RootClimb => secret(38).launched(&[WriteAt("{case}/rooted", "/")]),
        Guest::MagicRoot | Guest::MagicCwd | Guest::MagicFd | Guest::MagicMapFiles => {
            foreign_secret(39)
        }

        Guest::DropSetuid | Guest::DropSetuidOpen => {
            dropped(Effect::Mode("{scratch}/planted", 0o4000))
        }
        Guest::DropDevice => dropped(Effect::Is("{scratch}/planted", FileKind::Device)),
        Guest::DropSocket | Guest::DropSocketRace => {
            dropped(Effect::Is("{scratch}/planted", FileKind::Socket))
                .controlled_by(&[Ipc("{scratch}")])
        }
        Guest::DropFifo | Guest::DropFifoRace => {
            dropped(Effect::Is("{scratch}/planted", FileKind::Fifo))
                .controlled_by(&[Ipc("{scratch}")])
        }

        Guest::WriteGitHook | Guest::SwapGitDirectory => {
            protected(41, "{scratch}/.git/hooks/pre-commit")
        }
        Guest::WriteGuardedHook => guarded(
            &[Write("{scratch}")],
            &["target={scratch}/.git/hooks/pre-commit"],
            "{scratch}/.git/hooks/pre-commit",
            &[Write("{scratch}"), NoGuard],
        ),
        Guest::WriteGuardedSettings => guarded(
            &[Write("{scratch}")],
            &["target={scratch}/.git/config"],
            "{scratch}/.git/config",
            &[Write("{scratch}"), NoGuard],
        ),
        Guest::SwapGuardedDirectory => guarded(
            &[Write("{scratch}")],
            &[],
            "{scratch}/.git/hooks/pre-commit",
            &[Write("{scratch}"), NoGuard],
        ),
        Guest::WriteGuardedSecondName => guarded(
            &[Write("{case}/bare"), Write("{case}/second")],
            &["target={case}/second/config"],
            "{case}/bare/config",
            &[Write("{case}/bare"), Write("{case}/second"), NoGuard],
        ),
        Guest::WriteGuardedWorktree => guarded(
            &[Write("{case}/linked")],
            &["target={case}/linked/.git"],
            "{case}/linked/.git",
            &[Write("{case}/linked"), NoGuard],
        ),
        Guest::WriteGuardedRepository => guarded(
            &[Write("{case}/bare")],
            &["target={case}/bare/config"],
            "{case}/bare/config",
            &[Write("{case}/bare"), NoGuard],
        ),
        Guest::WriteBashrc => protected(41, "{scratch}/.bashrc"),
        Guest::CreateProtected => protected(42, "{scratch}/.env"),
        Guest::CreateProtectedDeep => protected(42, "{scratch}/.vscode/tasks.json"),

        Guest::ProtectSymlink => Attack::new(42, Witness::Secret)
            .launched(&[Write("{scratch}"), Protect("{scratch}/link")])
            .told(&["target={scratch}/link/secret"])
            .controlled_instead_by(&[Write("{scratch}"), Read("{outside}")])
            .or_refused(),
        Guest::ProtectRace => Attack::new(42, Witness::Secret)
            .with(&[Flip("{scratch}/sub", "{scratch}/sub-link")])
            .launched(&[Write("{scratch}"), Protect("{scratch}/sub")])
            .told(&["target={scratch}/sub/secret"])
            .controlled_instead_by(&[Write("{scratch}"), Read("{outside}")])
            .or_refused()
            .repeated(20),

        Guest::SysctlCorePattern => setting(43, "/core_pattern"),
        Guest::SysctlModprobe => setting(43, "/modprobe"),
        Guest::SysrqTrigger => setting(43, "/sysrq-trigger"),
        Guest::UeventHelper => setting(43, "/uevent_helper"),
        Guest::BinfmtMisc => setting(43, "/register"),
        Guest::SysfsWrite => setting(43, "/enabled"),
        Guest::SysctlHostname => {
            Attack::new(43, Witness::Effect(Effect::HostName)).ungrantable(GrantedWrite)
        }

        Guest::ReadKcore => information("\x7fELF"),
        Guest::ReadKallsyms => information(" _stext"),
        Guest::ReadKeys => Attack::new(44, Witness::Secret)
            .with(&[Flaw("user-key={secret}:key")])
            .ungrantable(GrantedRead),
        Guest::ReadTimerList => information("Timer List Version"),
        Guest::ReadSchedDebug => information("Sched Debug Version"),
        Guest::ReadFirmware => information("DSDT"),
        Guest::EnvironInit => Attack::new(44, Witness::Secret).ungrantable(GrantedRead),
        Guest::EnvironVictim => foreign_secret(44),

        Guest::CgroupReleaseAgent => setting(45, "/release_agent"),
        Guest::CgroupDevicesAllow => setting(45, "/devices.allow"),
        Guest::CgroupLeave => setting(45, "/cgroup.procs"),
        Guest::CgroupMount => mount(45),

        Guest::MknodDisk => {
            Attack::new(46, Witness::Trace(Trace::BlockDevice)).ungrantable(OwnEventfd)
        }
        Guest::KernelLogDevice => Attack::new(46, Witness::Secret)
            .with(&[KernelLog])
            .ungrantable(GrantedRead),
        Guest::DevtmpfsMount => mount(46),
        Guest::OverlayUserns => mount(47),

        Guest::HangOnFifo => hang().launched(&[Read("{scratch}/fifo")]),
        Guest::HangOnPolicy => hang().launched(&[PolicyFile("{scratch}/fifo")]),

        Guest::TmpFill => filled(Trace::FileInside("/tmp/fill", 20)),
        Guest::ShmFill => filled(Trace::FileInside("/dev/shm/fill", 20)),
        Guest::TmpInodes => filled(Trace::EntriesInside("/tmp/many", 50_000)),
        Guest::SparseBomb => Attack::new(
            49,
            Witness::Effect(Effect::LargerThanMb("{scratch}/planted", 64)),
        )
        .launched(&[Limit("file-size", "8M")])
        .controlled_by(&[Limit("file-size", "100G")]),

        Guest::PathPrefix => confused(
            &[Read("{paths}/dir")],
            &["target={paths}/dir-secret/secret"],
            &[Read("{paths}/dir-secret")],
        ),
        Guest::PathGlob => confused(
            &[Read("{paths}/gl*")],
            &["target={paths}/glob/secret"],
            &[Read("{paths}/glob")],
        )
        .or_refused(),
        Guest::PathNewline => confused(
            &[Read("{paths}/line\nbreak")],
            &["target={paths}/line/secret"],
            &[Read("{paths}/line")],
        ),
        Guest::PathCase => confused(
            &[Read("{paths}/case")],
            &["target={paths}/CASE/secret"],
            &[Read("{paths}/CASE")],
        ),
        Guest::GrantedSymlink => {
            confused(&[], &["target={scratch}/dev/null"], &[Read("{outside}")])
        }
        Guest::PathDotdotGrant => confused(
            &[Read("{paths}/dotted/link/..")],
            &["target={paths}/dir-secret/secret"],
            &[Read("{paths}/dir-secret")],
        )
        .or_refused(),

        Guest::HiddenFile => hidden(
            &[Read("{paths}/glob"), Hide("{paths}/glob/secret")],
            &[Read("{paths}/glob")],
        ),
        Guest::HiddenFolder => hidden(
            &[Write("{paths}"), Hide("{paths}/glob")],
            &[Write("{paths}")],
        ),

        Guest::ReadOnlyWrite => {
            changed(Effect::Holds("{readable}/granted")).controlled_by(&[Write("{readable}")])
        }
        // Hard links do not cross mounts: the control has both names in one grant.
        Guest::ReadOnlyLink => changed(Effect::Holds("{readable}/granted"))
            .controlled_at(&[Write("{readable}")], &["scratch={readable}"]),
    }
}

/// The secret lies in a folder that is granted, and is hidden there; the control does not hide it.
const fn hidden(launch: &'static [Grant], control: &'static [Grant]) -> Attack {
    Attack::new(99, Witness::Secret)
        .launched(launch)
        .told(&["target={paths}/glob/secret"])
        .controlled_instead_by(control)
}

/// The launcher must not wait for what it was given; with no wall the guest opens it itself.
const fn hang() -> Attack {
    Attack::new(48, Witness::Course(Course::LongerThanMs(1_500)))
        .told_without_wall(&["naive={scratch}/fifo"])
        .ungrantable(GrantedRead)
        .or_refused()
        .within_ms(2_000)
}

/// A private tmpfs grows past its limit, seen through `/proc/PID/root`.
const fn filled(trace: Trace) -> Attack {
    Attack::new(49, Witness::Trace(trace))
        .launched(&[Limit("tmp-size", "8M")])
        .controlled_by(&[Limit("tmp-size", "1G")])
}
