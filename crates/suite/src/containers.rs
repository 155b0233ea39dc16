//! Where a container differs from a domain of palisade's, attack by attack, and why.
//!
//! A container is what its image is and what its engine leaves it, and its walls are told apart by what starts it. What is
//! not here ends behind `palisade-oci` as the attack's own row says, or the run fails; of other runtimes it is only told.

use crate::attack::Attack;
use crate::policy::Policy;
use crate::tools::{Settings, Tool};

/// Whom a difference is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// A container with podman's settings or with those of a pod.
    Both,
    /// Only one with those of a pod.
    Pod,
}

/// Attacks that succeed in every container, and why that is so.
const OPEN: &[(&[&str], Of, &str)] = &[];

/// The policy under which a container faces `attack`: the widest that the engine has words for.
///
/// # Errors
///
/// What it has no words for under any.
pub fn policy_faced(tool: Tool, attack: &Attack) -> Result<Policy, &'static str> {
    let mut refusal = Ok(Policy::Nothing);
    for policy in [Policy::Generous, Policy::Minimum, Policy::Nothing] {
        match tool.refusal(attack, policy) {
            None => return Ok(policy),
            Some(why) => refusal = Err(why),
        }
    }
    refusal
}

/// Why `attack` succeeds in a container of `tool`'s, if that is known.
#[must_use]
pub fn why_open(tool: Tool, attack: &Attack) -> Option<&'static str> {
    let Tool::Podman(_, settings) = tool else {
        return None;
    };
    let is_it = |(names, of, _): &&(&[&str], Of, &str)| {
        names.contains(&attack.name) && (*of == Of::Both || settings == Settings::Pod)
    };
    OPEN.iter().find(is_it).map(|(_, _, why)| *why)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::OPEN;
    use crate::attacks;

    #[test]
    fn what_is_open_are_attacks_and_each_stands_once() {
        let mut names = HashSet::new();
        for name in OPEN.iter().flat_map(|(names, _, _)| *names) {
            assert!(attacks::named(name).is_some(), "no attack {name}");
            assert!(names.insert(name), "{name} stands twice");
        }
    }
}
