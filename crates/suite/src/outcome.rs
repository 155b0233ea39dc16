//! What one run showed, and the verdict that follows from it. Pure.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// What the warden saw of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The guest announced itself: the launcher did start it.
    pub begun: bool,
    /// The witness saw the attack's effect.
    pub seen: bool,
    /// The launcher's exit code, or 128 + signal; none if the deadline passed first.
    pub exit_code: Option<i32>,
    /// From the launch to the launcher's end, or to the deadline.
    pub lasted_ms: u64,
    /// Guest processes that were still alive after the launcher had ended.
    pub survivors: usize,
    /// The last lines on stderr, the guest's and the launcher's.
    pub stderr: String,
    /// The exact command, for the report of a failure.
    pub command: String,
}

/// As seen by the witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The attack had its effect.
    Allowed,
    /// The guest ran and had no effect; `0` says what stopped it, as far as the guest knows.
    Denied(String),
    /// The launcher refused to start under this policy.
    Refused(String),
    /// The run proves nothing: it never began, hung, or its preparation failed.
    Void(String),
}

/// Exit code of a guest whose preparation failed (`UNREADY` in `hostile.h`).
const UNREADY: i32 = 99;
/// Exit code of a guest that was told no (`REFUSED` in `hostile.h`).
const REFUSED: i32 = 1;
/// Exit codes of a launcher that refused or failed: palisade's is 125, others' are lower.
/// 126 and 127 mean that it could not execute the guest, which no refusal explains.
const LAUNCHER_FAILED: RangeInclusive<i32> = 1..=125;
/// What palisade says when it ends a domain because a protected path was moved outside.
const ENDED_UNPROTECTED: &str = "which takes its protection away, and the guest was ended";
/// 128 + SIGSYS.
const KILLED_BY_FILTER: i32 = 128 + 31;

impl Outcome {
    /// A run that could not even be made.
    #[must_use]
    pub fn void(why: impl Into<String>) -> Self {
        Self {
            stderr: why.into(),
            ..Self::default()
        }
    }

    /// The verdict of this run.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let said = || self.stderr.trim_end().to_owned();
        if self.seen {
            return Verdict::Allowed;
        }
        match self.exit_code {
            Some(code) if !self.begun && LAUNCHER_FAILED.contains(&code) => {
                Verdict::Refused(said())
            }
            // Before its first words.
            _ if !self.begun && self.stderr.contains(ENDED_UNPROTECTED) => Verdict::Refused(said()),
            _ if !self.begun => Verdict::Void(format!("the guest never began: {}", said())),
            Some(UNREADY) => Verdict::Void(said()),
            None => Verdict::Void(format!("hung for {} ms: {}", self.lasted_ms, said())),
            Some(KILLED_BY_FILTER) => Verdict::Denied("killed by SIGSYS".to_owned()),
            Some(code) => Verdict::Denied(self.last_refusal(code)),
        }
    }

    /// Whether the guest itself was told no, as opposed to believing in a success that
    /// the witness did not see.
    #[must_use]
    pub fn was_refused(&self) -> bool {
        self.exit_code
            .is_some_and(|code| code == REFUSED || code > 128)
    }

    fn last_refusal(&self, code: i32) -> String {
        let refusal = self
            .stderr
            .lines()
            .rev()
            .find(|line| line.starts_with("refused: "));
        refusal.map_or_else(|| format!("exit {code}"), str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Verdict};

    fn ended(code: i32, stderr: &str) -> Outcome {
        Outcome {
            begun: true,
            exit_code: Some(code),
            stderr: stderr.to_owned(),
            ..Outcome::default()
        }
    }

    #[test]
    fn what_the_witness_saw_outweighs_every_exit_code() {
        let outcome = Outcome {
            seen: true,
            ..ended(1, "refused: open: EPERM")
        };
        assert_eq!(outcome.verdict(), Verdict::Allowed);
    }

    #[test]
    fn a_refused_guest_is_denied_with_its_errno() {
        let outcome = ended(1, "refused: bpf: EPERM\n");
        assert_eq!(
            outcome.verdict(),
            Verdict::Denied("refused: bpf: EPERM".to_owned())
        );
        assert!(outcome.was_refused());
    }

    #[test]
    fn a_believed_success_is_denied_but_was_not_refused() {
        assert_eq!(ended(0, "").verdict(), Verdict::Denied("exit 0".to_owned()));
        assert!(!ended(0, "").was_refused());
    }

    #[test]
    fn a_guest_that_never_began_proves_nothing() {
        let outcome = Outcome {
            begun: false,
            ..ended(127, "not found")
        };
        assert!(matches!(outcome.verdict(), Verdict::Void(_)));
    }

    #[test]
    fn a_guest_that_is_ended_before_it_began_was_refused() {
        let said = "palisade: host: sub was moved, replaced or removed outside, which takes its \
                    protection away, and the guest was ended; look at what is there now";
        let outcome = |stderr| Outcome {
            begun: false,
            ..ended(137, stderr)
        };
        assert!(matches!(outcome(said).verdict(), Verdict::Refused(_)));
        assert!(matches!(outcome("").verdict(), Verdict::Void(_)));
    }

    #[test]
    fn a_launcher_that_refuses_is_told_from_a_guest_that_fails() {
        let outcome = Outcome {
            begun: false,
            ..ended(125, "missing path")
        };
        assert_eq!(
            outcome.verdict(),
            Verdict::Refused("missing path".to_owned())
        );
        assert!(matches!(ended(99, "unready").verdict(), Verdict::Void(_)));
    }

    #[test]
    fn a_hang_proves_nothing() {
        let outcome = Outcome {
            begun: true,
            ..Outcome::default()
        };
        assert!(matches!(outcome.verdict(), Verdict::Void(_)));
    }
}
