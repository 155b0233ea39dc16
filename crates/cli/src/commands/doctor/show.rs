//! A diagnosis for people, and for programs.

use super::{
    advice::IN_A_SCOPE,
    diagnosis::{Diagnosis, Finding, Level},
    facts::Facts,
};
use palisade_process::Tier;
use std::fmt;

/// Findings and the facts they come from.
pub(super) fn json(diagnosis: &Diagnosis, facts: &Facts) -> serde_json::Result<serde_json::Value> {
    let mut all = serde_json::to_value(diagnosis)?;
    all["facts"] = serde_json::to_value(facts)?;
    Ok(all)
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tier = self.tier.map_or("none", describe_tier);
        let of_memory = self.describe_memory().unwrap_or_default();
        writeln!(f, "tier     {tier}{of_memory}\n")?;
        for finding in &self.findings {
            writeln!(
                f,
                "{:<8} {:<13} {}",
                finding.level.word(),
                finding.name,
                finding.detail
            )?;
        }
        let advised: Vec<_> = self
            .findings
            .iter()
            .filter(|finding| !finding.advice.is_empty())
            .collect();
        for alike in advised.chunk_by(|one, next| one.advice == next.advice) {
            write_advice(f, alike)?;
        }
        let verdict = match (self.full_wall, self.tier) {
            (true, _) => "works here with the full wall",
            (false, None) => "cannot work here as things are",
            (false, Some(_)) => "refuses to start here unless less than the full wall is accepted",
        };
        writeln!(f, "\n`palisade run` {verdict}.")
    }
}

impl Diagnosis {
    /// What `--memory` takes, where domains can be made and it cannot be held as palisade was started.
    fn describe_memory(&self) -> Option<String> {
        self.tier?;
        let mut findings = self.findings.iter();
        let memory = findings.find(|finding| finding.name == "memory")?;
        let lines = &memory.advice.first()?.lines;
        Some(match lines.iter().any(|line| line == IN_A_SCOPE) {
            true => format!("; --memory takes `{IN_A_SCOPE}`"),
            false => "; --memory takes a control group of your own, as below".into(),
        })
    }
}

/// What is the same for neighbours is said once.
fn write_advice(f: &mut fmt::Formatter<'_>, alike: &[&Finding]) -> fmt::Result {
    let names: Vec<_> = alike.iter().map(|finding| finding.name).collect();
    writeln!(f, "\n{}:", names.join(", "))?;
    for advice in alike.first().iter().flat_map(|finding| &finding.advice) {
        writeln!(f, "  {}", advice.purpose)?;
        for line in &advice.lines {
            writeln!(f, "{}", format!("      {line}").trim_end())?;
        }
    }
    Ok(())
}

fn describe_tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Privileged => "privileged: namespaces, and a host user id of its own for each domain",
        Tier::UserNamespace => "user namespace: all namespaces, under your own user id",
        Tier::Bare => "Landlock and seccomp only: no namespaces",
    }
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Weak => "weak",
            Self::Missing => "missing",
        }
    }
}
