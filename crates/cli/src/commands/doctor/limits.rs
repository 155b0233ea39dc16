//! Limits that need a control group.

use super::{
    advice::{self, Advice},
    diagnosis::Finding,
    facts::{Facts, LimitFact},
};
use palisade_process::cgroup::{Obstacle, Version};

pub(super) fn judge(facts: &Facts, fact: &LimitFact) -> Finding {
    let version = match fact.version {
        Some(Version::V1) => "cgroup v1",
        Some(Version::V2) => "cgroup v2",
        None => "no cgroup",
    };
    let Some(obstacle) = &fact.obstacle else {
        return Finding::ok(fact.limit, format!("--{} is held by {version}", fact.limit));
    };
    let why = match obstacle {
        Obstacle::NoController => "no mounted cgroup hierarchy has its controller".into(),
        Obstacle::NotWritable { dir } => {
            format!("{version}: {} belongs to somebody else", dir.display())
        }
        Obstacle::NotDelegated { dir } => {
            format!("{version}: {} was not given the controller", dir.display())
        }
        Obstacle::Occupied { dir } => {
            format!("{version}: {} holds other processes too", dir.display())
        }
    };
    Finding::weak(
        fact.limit,
        format!("--{} cannot be held: {why}", fact.limit),
    )
    .advise([way_to_limit(facts, fact, obstacle), advice::approximate()])
}

fn way_to_limit(facts: &Facts, fact: &LimitFact, obstacle: &Obstacle) -> Advice {
    match (obstacle, facts.container, fact.version) {
        (Obstacle::NoController, ..) => advice::mount_cgroups(),
        (_, Some(container), _) if !facts.stood() || facts.uid == 0 => {
            advice::writable_cgroups(container)
        }
        (Obstacle::NotWritable { dir }, _, Some(Version::V1)) => advice::own_group(dir),
        (Obstacle::NotDelegated { .. }, ..) => advice::delegate_to_users(),
        (Obstacle::NotWritable { .. } | Obstacle::Occupied { .. }, ..) => {
            advice::scope_of_its_own(facts.user_manager)
        }
    }
}
