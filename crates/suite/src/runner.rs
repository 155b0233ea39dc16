//! From the table to cases: each combination is run once and judged against the table.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::arena::Arenas;
use crate::attack::{Attack, Control};
use crate::attacks;
use crate::bare;
use crate::containers;
use crate::fixtures::Fixture;
use crate::outcome::{Outcome, Verdict};
use crate::policy::{Grant, Policy};
use crate::tools::Tool;
use crate::user::{User, lacks_root};

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// As the table says, and with no wall the attack succeeds.
    Holds,
    /// It would prove nothing here; the reason.
    Ignored(String),
    /// Not as the table says; what happened.
    Fails(String),
}

/// Makes runs, each combination at most once.
#[derive(Debug)]
pub struct Runner {
    arenas: Arenas,
    made: Mutex<HashMap<Key, Arc<OnceLock<Outcome>>>>,
    turn: Mutex<()>,
}

/// What palisade says of a grant that the bare tier cannot give.
const NEEDS_MOUNTS: &str = " needs mounts (";
/// What only root can set up, whoever starts the launcher then.
const FIXTURES_OF_ROOT: [Fixture; 2] = [Fixture::Privileged, Fixture::KernelLog];

type Key = (Tool, &'static str, Policy, User);

impl Runner {
    /// A runner with prepared arenas.
    #[must_use]
    pub fn new(arenas: Arenas) -> Self {
        Self {
            arenas,
            made: Mutex::default(),
            turn: Mutex::default(),
        }
    }

    /// The outcome of one combination.
    pub fn outcome(&self, tool: Tool, attack: &Attack, policy: Policy, user: User) -> Outcome {
        let cell = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(made.entry((tool, attack.name, policy, user)).or_default())
        };
        cell.get_or_init(|| {
            // One run at a time may take what all runs of a user share.
            let turn = attack.in_turn.then(|| self.turn.lock());
            let outcome = self.arenas.run(tool, attack, policy, user);
            drop(turn);
            outcome
        })
        .clone()
    }

    /// Forgets the outcome, so that the combination is run again.
    pub fn forget(&self, tool: Tool, attack: &Attack, policy: Policy, user: User) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.remove(&(tool, attack.name, policy, user));
    }

    /// With no wall the attack succeeds, or the machine's refusal is the reason to ignore it.
    pub fn judge_without_wall(&self, tool: Tool, attack: &Attack, user: User) -> Judgement {
        if let Some(reason) = unavailable(attack, user) {
            return Judgement::Ignored(reason);
        }
        let outcome = self.without_wall(tool, attack, user);
        match outcome.verdict() {
            Verdict::Allowed => Judgement::Holds,
            Verdict::Denied(why) if outcome.was_refused() => Judgement::Ignored(refused_here(&why)),
            verdict => Judgement::Fails(format!(
                "with no wall it should succeed: {verdict:?}\n{}",
                outcome.command
            )),
        }
    }

    /// Behind the wall the attack ends as the table says, or it is known that it does not.
    pub fn judge(&self, tool: Tool, attack: &Attack, policy: Policy, user: User) -> Judgement {
        match (
            self.judge_strictly(tool, attack, policy, user),
            attack.pending,
        ) {
            (Judgement::Fails(why), Some(reason)) => {
                Judgement::Ignored(format!("pending: {reason}: {why}"))
            }
            (judgement, _) => judgement,
        }
    }

    fn judge_strictly(&self, tool: Tool, attack: &Attack, policy: Policy, user: User) -> Judgement {
        if let Some(reason) =
            unavailable(attack, user).or_else(|| no_run(tool, attack, policy, user))
        {
            return Judgement::Ignored(reason);
        }
        let outcome = self.outcome(tool, attack, policy, user);
        let verdict = outcome.verdict();
        let fails =
            |what: &str| Judgement::Fails(format!("{what}: {verdict:?}\n{}", outcome.command));
        match (&verdict, expected(tool, attack, policy)) {
            (Verdict::Allowed | Verdict::Denied(_), _)
                if containers::may_end_either_way(tool, attack) =>
            {
                Judgement::Holds
            }
            (Verdict::Allowed, Expected::Allowed) => Judgement::Holds,
            (Verdict::Allowed, _) => fails("ESCAPE"),
            (Verdict::Refused(why), _) if is_missing(tool, attack, why) => {
                Judgement::Ignored(why.clone())
            }
            (Verdict::Refused(why), Expected::Refused) if why.contains(NEEDS_MOUNTS) => {
                Judgement::Holds
            }
            (Verdict::Denied(_) | Verdict::Refused(_), Expected::Allowed) => {
                fails("the table says that it succeeds, but it did not")
            }
            (Verdict::Void(_), _) => fails("the run proves nothing"),
            (_, Expected::Refused) => {
                fails("the launcher did not refuse to start for want of mounts")
            }
            (Verdict::Refused(_), Expected::Denied) if !attack.refusal_counts => {
                fails("the launcher refused to start")
            }
            (Verdict::Denied(_) | Verdict::Refused(_), Expected::Denied)
                if outcome.survivors > 0 =>
            {
                fails(&format!(
                    "{} processes outlived the launcher",
                    outcome.survivors
                ))
            }
            (Verdict::Denied(_) | Verdict::Refused(_), Expected::Denied) => {
                self.meaning_of_denial(tool, attack, user)
            }
        }
    }

    /// The attack's control succeeds behind the wall.
    pub fn judge_control(&self, tool: Tool, attack: &Attack, user: User) -> Judgement {
        match control_of(tool, attack) {
            Control::Granted { .. } | Control::Instead(_) => {
                match self.judge_without_wall(tool, attack, user) {
                    Judgement::Ignored(reason) => Judgement::Ignored(reason),
                    _ => self.judge(tool, attack, Policy::Control, user),
                }
            }
            Control::NoGrant(neighbour) => {
                self.judge(tool, &attacks::control(neighbour), Policy::Control, user)
            }
        }
    }

    /// With no wall, on the host that `tool` runs on.
    fn without_wall(&self, tool: Tool, attack: &Attack, user: User) -> Outcome {
        self.outcome(tool.without_wall(), attack, Policy::Generous, user)
    }

    /// Rule 1: a denial only counts where the attack succeeds with no wall.
    fn meaning_of_denial(&self, tool: Tool, attack: &Attack, user: User) -> Judgement {
        match self.without_wall(tool, attack, user).verdict() {
            Verdict::Allowed => Judgement::Holds,
            Verdict::Denied(why) => Judgement::Ignored(refused_here(&why)),
            verdict => Judgement::Fails(format!("with no wall it should succeed: {verdict:?}")),
        }
    }
}

/// How the table says that a run ends.
enum Expected {
    Allowed,
    Denied,
    Refused,
}

fn expected(tool: Tool, attack: &Attack, policy: Policy) -> Expected {
    let difference = bare_difference(tool, attack).map(|difference| difference.expected);
    match difference {
        Some(bare::Expected::Open(policies)) if policies.contains(&policy) => Expected::Allowed,
        Some(bare::Expected::Refused) if policy != Policy::Control => Expected::Refused,
        Some(bare::Expected::Denied) => Expected::Denied,
        _ if attack.is_granted(policy) => Expected::Allowed,
        _ if containers::why_open(tool, attack).is_some() => Expected::Allowed,
        _ => Expected::Denied,
    }
}

fn control_of(tool: Tool, attack: &Attack) -> Control {
    let difference = bare_difference(tool, attack);
    let control = difference.and_then(|difference| difference.control);
    control.map_or(attack.control, Control::NoGrant)
}

fn bare_difference(tool: Tool, attack: &Attack) -> Option<bare::Difference> {
    (tool == Tool::Bare)
        .then(|| bare::difference(attack))
        .flatten()
}

/// Whether this host lacks what the attack's limit or the tool's tier takes, and palisade says so
/// and stops.
fn is_missing(tool: Tool, attack: &Attack, why: &str) -> bool {
    let is_limited = attack
        .launch
        .iter()
        .any(|grant| matches!(grant, Grant::Limit(..)));
    (is_limited && why.starts_with("palisade: host: a limit on "))
        || (tool == Tool::Bare && why.starts_with("palisade: host: without namespaces Landlock "))
}

fn refused_here(why: &str) -> String {
    format!(
        "with no wall this machine refuses it too: {}",
        why.trim_start_matches("refused: ")
    )
}

/// Why this tool is not asked.
fn no_run(tool: Tool, attack: &Attack, policy: Policy, user: User) -> Option<String> {
    let rootless = tool.is_container() && user == User::Ordinary;
    let no_ids =
        || "the suite's ordinary user has no ranges of ids, which rootless podman takes".to_owned();
    let no_words = || {
        Some(format!(
            "no words for it: {}",
            tool.refusal(attack, policy)?
        ))
    };
    tool.lacks()
        .or_else(|| rootless.then(no_ids))
        .or_else(no_words)
}

/// Why a case cannot run at all.
fn unavailable(attack: &Attack, user: User) -> Option<String> {
    let needs_root = user == User::Root
        || attack
            .fixtures
            .iter()
            .any(|fixture| FIXTURES_OF_ROOT.contains(fixture));
    needs_root.then(lacks_root).flatten()
}
