//! The steps around those of the layout.

use super::own_files::HOST_NAME;
use crate::{
    host::Host,
    layout::{Arrangement, OwnMounts, ROOT_PLACE, in_root_place},
    plan_error::PlanError,
    steps::{Attributes, Step},
};
use palisade_policy::Limits;
use std::path::Path;

/// Size of the private folders where the policy names none.
const DEFAULT_TMP_BYTES: u64 = 1 << 30;

/// What `/proc` tells about the kernel and about keys, whoever asks, and the name of the host's present boot, by which guests and
/// logs could be matched.
const MASKED: [&str; 3] = [
    "/proc/kallsyms",
    "/proc/keys",
    "/proc/sys/kernel/random/boot_id",
];

/// The steps around those of the layout.
pub(super) fn frame(
    limits: &Limits,
    arrangement: Arrangement,
    terminals: bool,
    masks: Vec<Step>,
) -> Vec<Step> {
    let Arrangement {
        steps: inner,
        guarded,
        own_mounts,
        ..
    } = arrangement;
    let size_bytes = limits.tmp_size_bytes.unwrap_or(DEFAULT_TMP_BYTES) + own_bytes(&inner);
    // A file of less than a page still takes one; this many files of a page each fill the size.
    let inodes = (size_bytes / 4096).max(1024);
    let mut steps = vec![Step::MakeRoot { size_bytes, inodes }];
    if terminals {
        steps.push(Step::MakeFolder {
            path: "/dev".into(),
            mode: 0o755,
        });
        steps.push(Step::MakeFolder {
            path: "/dev/pts".into(),
            mode: 0o755,
        });
    }
    let made = |step: &Step| matches!(step, Step::MakeFolder { path, .. } if terminals && path == Path::new("/dev"));
    steps.extend(inner.into_iter().filter(|step| !made(step)));
    if terminals {
        steps.push(Step::MountTerminals {
            target: "/dev/pts".into(),
        });
    }
    match own_mounts {
        Some(own) => end_in_granted_root(&mut steps, own, masks),
        None => end_in_own_root(&mut steps, masks),
    }
    if !guarded.is_empty() {
        steps.push(Step::Guard { targets: guarded });
    }
    steps.push(Step::NameHost {
        name: HOST_NAME.into(),
    });
    steps
}

fn end_in_own_root(steps: &mut Vec<Step>, masks: Vec<Step>) {
    steps.push(Step::MountProc {
        target: "/proc".into(),
    });
    steps.extend(masks);
    steps.push(Step::LeaveHost { root: None });
}

/// Init has a `/proc` of its own: what lies at that path is for whoever may write to the folder to exchange.
fn end_in_granted_root(steps: &mut Vec<Step>, own: OwnMounts, masks: Vec<Step>) {
    steps.extend(own.steps);
    if own.has_proc {
        steps.push(Step::MountProc {
            target: in_root_place(Path::new("/proc")),
        });
        steps.extend(masks.into_iter().map(in_granted_root));
    }
    steps.push(Step::OpenProc);
    steps.push(Step::LeaveHost {
        root: Some(ROOT_PLACE.into()),
    });
}

fn in_granted_root(mut mask: Step) -> Step {
    if let Step::Mount { target, .. } = &mut mask {
        *target = in_root_place(target);
    }
    mask
}

/// `/dev/null` over each of [`MASKED`] that this kernel has.
pub(super) fn masks(host: &dyn Host) -> Result<Vec<Step>, PlanError> {
    let Ok(null) = host.find(Path::new("/dev/null")) else {
        return Ok(Vec::new());
    };
    let mut masks = Vec::new();
    for path in MASKED.map(Path::new) {
        let is_there = host.kernel_has(path);
        if !is_there.map_err(|errno| PlanError::missing(path, errno))? {
            continue;
        }
        masks.push(Step::Mount {
            source: null.canonical.clone(),
            identity: null.identity,
            owner: None,
            is_own_place: false,
            open_to_all: true,
            attributes: Attributes::RDONLY | Attributes::NOSUID | Attributes::NOEXEC,
            target: path.into(),
        });
    }
    Ok(masks)
}

/// What palisade itself puts into the `tmpfs`: the limit is for the guest.
fn own_bytes(steps: &[Step]) -> u64 {
    const PAGE: usize = 4096;
    let pages = steps.iter().map(|step| match step {
        Step::WriteFile { content, .. } => content.len().div_ceil(PAGE),
        _ => 0,
    });
    (pages.sum::<usize>() * PAGE) as u64
}
