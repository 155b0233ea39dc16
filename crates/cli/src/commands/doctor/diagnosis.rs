//! From facts to findings. Pure.

use super::{advice::Advice, facts::Facts, limits, mechanisms, namespaces};
use palisade_process::Tier;
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
    let mut findings = vec![
        mechanisms::kernel(facts),
        mechanisms::mount_calls(facts),
        namespaces::judge(facts),
    ];
    findings.extend(mechanisms::others(facts));
    findings.extend(facts.limits.iter().map(|fact| limits::judge(facts, fact)));
    Diagnosis {
        full_wall: facts.stood() && facts.landlock_abi.is_some() && facts.seccomp.available,
        tier: facts.best_tier(),
        findings,
    }
}

impl Finding {
    pub(super) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Level::Ok, detail.into())
    }

    pub(super) fn weak(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Level::Weak, detail.into())
    }

    pub(super) fn missing(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Level::Missing, detail.into())
    }

    fn new(name: &'static str, level: Level, detail: String) -> Self {
        Self {
            name,
            level,
            detail,
            advice: Vec::new(),
        }
    }

    pub(super) fn advise(mut self, advice: impl IntoIterator<Item = Advice>) -> Self {
        self.advice.extend(advice);
        self
    }
}
