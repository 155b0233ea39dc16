//! What a module tries on the wasm wall: `guests/wasi/attacks`.
//!
//! With no wall they run in the worker alone, its root folder open. A trick that only a broken engine falls for
//! is followed by the plain act, so that each attack succeeds there.

use crate::attack::Attack;
use crate::fixtures::Fixture::{Flaw, Flip, Victim};
use crate::guests::Controls::{GrantedRead, OwnHandle};
use crate::guests::{WasiLeaks, WasiNames, WasiPaths, WasiResources};
use crate::policy::Grant::{self, Cwd, Env, Limit, NoGuard, Protect, Read, Write};
use crate::witness::{Course, Effect, Trace, Witness};

/// Rows of the catalogue.
const PATHS: usize = 91;
const NAMES: usize = 92;
const RIGHTS: usize = 93;
const PROCESS: usize = 94;
const RESIDUE: usize = 95;
const BOUNDS: usize = 96;
const TIME: usize = 97;

const PROTECTED: &[Grant] = &[
    Write("{scratch}"),
    Protect("{scratch}/.git/hooks"),
    Protect("{scratch}/.env"),
];

/// The secret beside the grants comes out.
const fn secret(entry: usize) -> Attack {
    Attack::new(entry, Witness::Secret).controlled_by(&[Read("{outside}")])
}

pub(super) const fn paths(guest: WasiPaths) -> Attack {
    match guest {
        WasiPaths::WasiTrailingSlash
        | WasiPaths::WasiClimb
        | WasiPaths::WasiAbsolute
        | WasiPaths::WasiSymlink
        | WasiPaths::WasiClimbFromFolder => secret(PATHS),
        WasiPaths::WasiRaceFolder => {
            secret(PATHS).with(&[Flip("{scratch}/sub", "{scratch}/relative-link")])
        }
        WasiPaths::WasiRaceClimb => {
            secret(PATHS).with(&[Flip("{scratch}/sub/target", "{scratch}/root")])
        }
        WasiPaths::WasiProcessMemory => {
            Attack::new(PROCESS, Witness::Trace(Trace::Descriptor("/mem"))).ungrantable(OwnHandle)
        }
        // The launcher's own environment holds it.
        WasiPaths::WasiProcessEnvironment => {
            Attack::new(PROCESS, Witness::Secret).ungrantable(GrantedRead)
        }
        WasiPaths::WasiDevices => {
            Attack::new(PATHS, Witness::Trace(Trace::Descriptor("/dev/ptmx")))
                .ungrantable(OwnHandle)
        }
        WasiPaths::WasiSettings => {
            Attack::new(PROCESS, Witness::Text("Linux version ")).ungrantable(GrantedRead)
        }
    }
}

/// Something changes beside the grants.
const fn outside(effect: Effect) -> Attack {
    Attack::new(NAMES, Witness::Effect(effect)).controlled_by(&[Write("{outside}")])
}

const fn protected(path: &'static str) -> Attack {
    Attack::new(NAMES, Witness::Effect(Effect::Holds(path)))
        .launched(PROTECTED)
        .controlled_instead_by(&[Write("{scratch}"), NoGuard])
}

/// A file that was granted to read is changed.
const fn changed(effect: Effect) -> Attack {
    Attack::new(RIGHTS, Witness::Effect(effect)).controlled_by(&[Write("{readable}")])
}

const fn confused(target: &'static [&'static str], granted: &'static [Grant]) -> Attack {
    Attack::new(PATHS, Witness::Secret)
        .launched(&[Read("{paths}/dir"), Cwd("{paths}/dir")])
        .told(target)
        .controlled_by(granted)
}

pub(super) const fn names(guest: WasiNames) -> Attack {
    match guest {
        WasiNames::WasiLinkIn | WasiNames::WasiRenameIn => secret(NAMES),
        WasiNames::WasiRenameOut | WasiNames::WasiMakeOut => {
            outside(Effect::Exists("{outside}/planted"))
        }
        WasiNames::WasiRemoveOut => outside(Effect::Gone("{outside}/secret")),
        WasiNames::WasiDateOut => outside(Effect::ModifiedAt("{outside}/secret", 1)),
        WasiNames::WasiRaceMake => outside(Effect::Exists("{outside}/planted"))
            .with(&[Flip("{scratch}/sub", "{scratch}/relative-link")]),
        WasiNames::WasiWriteHook | WasiNames::WasiSwapHooks => {
            protected("{scratch}/.git/hooks/pre-commit")
        }
        WasiNames::WasiCreateProtected => protected("{scratch}/.env"),
        WasiNames::WasiReadOnlyWrite => changed(Effect::Holds("{readable}/granted")),
        // Hard links do not cross mounts: the control has both names in one grant.
        WasiNames::WasiReadOnlyLink => changed(Effect::Holds("{readable}/granted"))
            .controlled_at(&[Write("{readable}")], &["scratch={readable}"]),
        WasiNames::WasiReadOnlyTruncate => changed(Effect::Empty("{readable}/granted")),
        WasiNames::WasiReadOnlyDate => changed(Effect::ModifiedAt("{readable}/granted", 1)),
        WasiNames::WasiConfusedPrefix => confused(
            &["target={paths}/dir-secret/secret"],
            &[Read("{paths}/dir-secret")],
        ),
        WasiNames::WasiGrantedSymlink => confused(
            &["target={scratch}/relative-link/secret"],
            &[Read("{outside}")],
        ),
    }
}

pub(super) const fn leaks(guest: WasiLeaks) -> Attack {
    let secret_given = Attack::new(RESIDUE, Witness::Secret);
    match guest {
        // The launcher's own environment holds it.
        WasiLeaks::WasiEnvironment | WasiLeaks::WasiResidue => {
            secret_given.controlled_by(&[Env("GRANTED={secret}")])
        }
        WasiLeaks::WasiDescriptorsLeft | WasiLeaks::WasiRenumbered => secret_given
            .with(&[Flaw("leak-file={outside}/secret")])
            .controlled_by(&[Read("{outside}")]),
        WasiLeaks::WasiArgumentsOfOthers => secret_given.with(&[Victim]).ungrantable(GrantedRead),
    }
}

pub(super) const fn resources(guest: WasiResources) -> Attack {
    let bound = Attack::new(BOUNDS, Witness::SelfReported);
    let long = Attack::new(TIME, Witness::Course(Course::LongerThanMs(2_000)))
        .launched(&[Limit("time", "500ms")])
        .controlled_by(&[Limit("time", "20s")])
        .within_ms(10_000);
    match guest {
        WasiResources::WasiMemoryBomb => bound
            .seen_by(Witness::Trace(Trace::ResidentMb(96)))
            .launched(&[Limit("memory", "64M")])
            .told(&["megabytes=160"])
            .controlled_by(&[Limit("memory", "512M")]),
        WasiResources::WasiDescriptorBomb => bound
            .seen_by(Witness::Trace(Trace::Descriptors(200)))
            .launched(&[Limit("files", "64")])
            .told(&["count=400"])
            .controlled_by(&[Limit("files", "1000")]),
        WasiResources::WasiFileSize => bound
            .seen_by(Witness::Effect(Effect::LargerThanMb(
                "{scratch}/planted",
                2,
            )))
            .launched(&[Limit("file-size", "1M")])
            .controlled_by(&[Limit("file-size", "64M")]),
        WasiResources::WasiSparseBomb => bound
            .seen_by(Witness::Effect(Effect::LargerThanMb(
                "{scratch}/planted",
                64,
            )))
            .launched(&[Limit("file-size", "8M")])
            .controlled_by(&[Limit("file-size", "100G")]),
        WasiResources::WasiTmpFill => bound
            .seen_by(Witness::Trace(Trace::FileInside("/tmp/fill", 20)))
            .launched(&[Limit("tmp-size", "8M")])
            .controlled_by(&[Limit("tmp-size", "1G")]),
        WasiResources::WasiOutputFlood => bound
            .seen_by(Witness::Course(Course::OutputOver(2 << 20)))
            .launched(&[Limit("output", "1M")])
            .controlled_by(&[Limit("output", "64M")]),
        WasiResources::WasiOvertime | WasiResources::WasiSleep | WasiResources::WasiPollStorm => {
            long
        }
        WasiResources::WasiCpuBurn => Attack::new(TIME, Witness::Trace(Trace::CpuMs(1_500)))
            .launched(&[Limit("cpu-time", "1s")])
            .controlled_by(&[Limit("cpu-time", "20s")])
            .within_ms(12_000),
    }
}
