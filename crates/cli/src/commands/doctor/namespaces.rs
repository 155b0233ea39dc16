//! Whether domains can be made here, and every way to have them.

use super::{
    advice::{self, Advice},
    diagnosis::Finding,
    facts::{Facts, OLDEST_KERNEL, Stage, Trial},
};
use palisade_process::Tier;

pub(super) fn judge(facts: &Facts) -> Finding {
    const NAME: &str = "namespaces";
    match &facts.trial {
        Trial::Stood => Finding::ok(NAME, "a trial domain was made, ran and is gone"),
        Trial::Failed { at, message } => {
            let finding =
                Finding::missing(NAME, format!("a trial domain could not be made: {message}"));
            finding.advise(ways_to_namespaces(facts, *at))
        }
    }
}

/// Every reason that the facts give, for more than one can hold at a time.
fn ways_to_namespaces(facts: &Facts, at: Stage) -> Vec<Advice> {
    let settings = facts.sysctls;
    let mut ways = Vec::new();
    if settings.max_user_namespaces == Some(0) {
        ways.push(advice::set_sysctl(
            "allow user namespaces",
            "user.max_user_namespaces",
            15_000,
        ));
    }
    if settings.unprivileged_userns_clone == Some(0) && facts.tier != Tier::Privileged {
        ways.push(advice::set_sysctl(
            "allow ordinary users to make user namespaces",
            "kernel.unprivileged_userns_clone",
            1,
        ));
    }
    if is_restricted_by_apparmor(facts) {
        ways.push(advice::apparmor_profile(facts));
        ways.push(advice::set_sysctl(
            "or allow user namespaces to every program, which is weaker",
            "kernel.apparmor_restrict_unprivileged_userns",
            0,
        ));
    }
    match facts
        .container
        .and_then(|container| Some((container, container.way_to_start(facts)?)))
    {
        Some((container, way)) => {
            let purpose = format!(
                "start {} so that domains can be made in it",
                container.name()
            );
            ways.push(Advice::new(purpose, &way));
        }
        None => ways.extend(ways_out_of_confinement(facts)),
    }
    if ways.is_empty() && facts.kernel_version() >= OLDEST_KERNEL {
        ways.push(look_closer(at));
    }
    if facts.best_tier() == Some(Tier::Bare) {
        ways.push(Advice::new(
            "or go on with Landlock and seccomp alone, which hold less",
            "palisade run --allow-degraded namespaces …",
        ));
    }
    ways
}

fn is_restricted_by_apparmor(facts: &Facts) -> bool {
    let unconfined = facts
        .apparmor_profile
        .as_deref()
        .is_none_or(|profile| profile == "unconfined");
    facts.sysctls.apparmor_restrict_unprivileged_userns == Some(1)
        && facts.tier != Tier::Privileged
        && unconfined
}

/// What holds palisade back where no known container does.
fn ways_out_of_confinement(facts: &Facts) -> Vec<Advice> {
    let mut ways = Vec::new();
    if facts.seccomp.already_filtered {
        ways.push(Advice::new("palisade itself runs under a system-call filter: start it outside, or from a unit without SystemCallFilter= and RestrictNamespaces=", ""));
    }
    if let Some(covered) = facts.covered_proc.first() {
        let purpose =
            "the kernel refuses a new /proc while parts of the old one are covered: uncover them";
        ways.push(Advice::new(
            purpose,
            &format!("sudo umount {}", covered.display()),
        ));
    }
    ways
}

fn look_closer(at: Stage) -> Advice {
    match at {
        Stage::Keeper => Advice::new(
            "the keeper's program is a memory file: /proc must be mounted, and `vm.memfd_noexec` below 2",
            "sysctl vm.memfd_noexec",
        ),
        Stage::Namespaces => Advice::new(
            "see whether the kernel has namespaces at all, and what refused them",
            "ls /proc/self/ns\nsudo dmesg | tail",
        ),
        Stage::Root | Stage::Proc | Stage::Guest => Advice::new(
            "see what the kernel or a security module refused",
            "sudo dmesg | tail",
        ),
    }
}
