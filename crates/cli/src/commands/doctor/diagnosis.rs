//! From facts to findings. Pure.

use super::{
    advice::{self, Advice},
    container::Container,
    facts::{Call, Facts, LimitFact, Stage, Trial},
};
use palisade_process::{
    Tier,
    cgroup::{Obstacle, Version},
};
use serde::Serialize;

/// What the facts come to.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Diagnosis {
    /// `run` works here and nothing of the wall is missing. Limits are not part of the wall.
    pub(super) full_wall: bool,
    /// The best tier to be had here.
    pub(super) tier: Option<Tier>,
    pub(super) findings: Vec<Finding>,
}

/// One mechanism.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    pub(super) name: &'static str,
    pub(super) level: Level,
    pub(super) detail: String,
    pub(super) advice: Vec<Advice>,
}

/// How much of a mechanism there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Level {
    Ok,
    Weak,
    Missing,
}

/// Judges every mechanism.
pub(super) fn diagnose(facts: &Facts) -> Diagnosis {
    let mechanisms = [
        kernel(facts),
        mount_calls(facts),
        namespaces(facts),
        landlock(facts),
        seccomp(facts),
    ];
    let on_the_side = [memory_files(facts), terminals(facts), tracing(facts)];
    let limits = facts.limits.iter().map(|fact| limit(facts, fact));
    Diagnosis {
        full_wall: stood(facts) && facts.landlock_abi.is_some() && facts.seccomp.available,
        tier: tier(facts),
        findings: mechanisms
            .into_iter()
            .chain(owners(facts))
            .chain(on_the_side)
            .chain(container(facts))
            .chain(limits)
            .collect(),
    }
}

fn stood(facts: &Facts) -> bool {
    facts.trial == Trial::Stood
}

fn tier(facts: &Facts) -> Option<Tier> {
    let bare = facts.bare_trial == Some(Trial::Stood);
    if stood(facts) {
        Some(facts.tier)
    } else {
        bare.then_some(Tier::Bare)
    }
}

fn finding(name: &'static str, level: Level, detail: impl Into<String>) -> Finding {
    Finding {
        name,
        level,
        detail: detail.into(),
        advice: Vec::new(),
    }
}

impl Finding {
    fn advise(mut self, advice: impl IntoIterator<Item = Advice>) -> Self {
        self.advice.extend(advice);
        self
    }
}

