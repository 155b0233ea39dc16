//! Where the bare tier differs from the wall with namespaces, attack by attack, and why.
//!
//! What is not here ends as the attack's own row says. `docs/walls/process.md` tells the same
//! to users: whoever accepts `--allow-degraded namespaces` accepts what is [`Expected::Open`] here.

use crate::attack::Attack;
use crate::guests::Controls;
use crate::guests::Controls::{
    GrantedConnect, GrantedDatagram, GrantedRead, GrantedWrite, OwnChild, OwnSocket,
};
use crate::policy::Policy;

/// How an attack ends without namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It succeeds under these policies: only namespaces could stop it.
    Open(&'static [Policy]),
    /// Palisade refuses to start, because only mounts could hold what the policy asks for.
    Refused,
    /// It is denied under every policy.
    Denied,
}

/// One attack's difference.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// How it ends.
    pub expected: Expected,
    /// In place of the attack's own control, where that is not to be had either.
    pub control: Option<Controls>,
    /// Why, for the table of attacks.
    pub why: &'static str,
}

const EVERY: &[Policy] = &Policy::FACED;
const WRITING: &[Policy] = &[Policy::Generous];
const READING: &[Policy] = &[Policy::Minimum, Policy::Generous];

const fn open(policies: &'static [Policy], why: &'static str) -> Difference {
    Difference {
        expected: Expected::Open(policies),
        control: None,
        why,
    }
}

const fn denied(control: Controls, why: &'static str) -> Difference {
    Difference {
        expected: Expected::Denied,
        control: Some(control),
        why,
    }
}

/// Every difference, with the names of its attacks.
const DIFFERENCES: &[(&[&str], Difference)] = &[
    (
        &["stat-outside"],
        open(EVERY, "Landlock does not ask about stat"),
    ),
    (
        &["notice-process"],
        open(
            EVERY,
            "the refusal of a signal tells that somebody is there",
        ),
    ),
    (
        &[
            "processors-of-process",
            "group-of-process",
            "session-of-process",
            "priority-of-process",
        ],
        open(
            EVERY,
            "programs ask these about their own threads and children by number, and a filter cannot tell whose it is",
        ),
    ),
    (&["host-name"], open(EVERY, "the host name is the host's")),
    (
        &["times-read-only"],
        open(
            READING,
            "the owner of a file may set its times through any descriptor",
        ),
    ),
    (
        &["ld-so"],
        open(WRITING, "Landlock does not ask about mmap"),
    ),
    (
        &["abstract-name"],
        open(WRITING, "who may make sockets may take abstract names"),
    ),
    (
        &[
            "write-git-hook",
            "write-bashrc",
            "swap-git-directory",
            "create-protected",
            "create-protected-deep",
        ],
        Difference {
            expected: Expected::Refused,
            control: None,
            why: "protected paths take mounts",
        },
    ),
    (
        &["hidden-file", "hidden-folder"],
        Difference {
            expected: Expected::Refused,
            control: None,
            why: "to hide takes mounts",
        },
    ),
    (
        &[
            "write-guarded-hook",
            "write-guarded-settings",
            "swap-guarded-directory",
            "write-guarded-worktree",
            "write-guarded-repository",
        ],
        open(EVERY, "what git executes is guarded by mounts"),
    ),
    (
        &["write-guarded-second-name"],
        Difference {
            expected: Expected::Refused,
            control: Some(GrantedWrite),
            why: "a place of another name takes a mount",
        },
    ),
    (
        &["root-climb"],
        Difference {
            expected: Expected::Refused,
            control: Some(GrantedRead),
            why: "a folder as the root takes mounts",
        },
    ),
    (
        &[
            "chmod-outside",
            "chmod-read-only",
            "times-outside",
            "mark-outside",
            "mark-read-only",
        ],
        denied(GrantedWrite, "metadata stays as it is, granted or not"),
    ),
    (
        &["attribute-outside"],
        denied(
            GrantedRead,
            "attributes are not read by path, granted or not",
        ),
    ),
    (
        &["watch-outside"],
        denied(GrantedRead, "nothing is watched, granted or not"),
    ),
    (
        &["granted-socket", "datagram-in-folder", "other-local-socket"],
        denied(OwnSocket, "no socket is connected"),
    ),
    (
        &["race-local-datagram", "race-local-send"],
        denied(GrantedDatagram, "local sockets that send are not made"),
    ),
    (
        &["datagram-memory"],
        denied(OwnSocket, "local sockets that send are not made"),
    ),
    (
        &["segment-memory", "message-memory"],
        denied(OwnChild, "the host's IPC is not touched"),
    ),
    (
        &[
            "passed-stream",
            "passed-fast-open",
            "passed-fast-open-message",
            "passed-fast-open-batch",
            "passed-fast-open-connect",
            "passed-reconnect",
            "passed-listens",
            "passed-binds",
        ],
        denied(
            GrantedConnect,
            "no socket is connected: the two do not meet",
        ),
    ),
    (
        &["granted-fifo"],
        denied(GrantedWrite, "to read a FIFO is not to write to it"),
    ),
    (
        &["tmp-fill", "shm-fill", "tmp-inodes"],
        denied(GrantedWrite, "there is no private folder to fill"),
    ),
];

/// How `attack` differs without namespaces, if it does.
#[must_use]
pub fn difference(attack: &Attack) -> Option<Difference> {
    let (_, difference) = DIFFERENCES
        .iter()
        .find(|(names, _)| names.contains(&attack.name))?;
    Some(*difference)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;
    use std::path::Path;

    use super::{DIFFERENCES, Expected};
    use crate::attacks;

    #[test]
    fn every_difference_is_of_attacks_and_each_has_one() {
        let mut names = HashSet::new();
        for name in DIFFERENCES.iter().flat_map(|(names, _)| *names) {
            assert!(attacks::named(name).is_some(), "no attack {name}");
            assert!(names.insert(name), "{name} stands twice");
        }
    }

    #[test]
    fn what_is_open_is_denied_behind_the_wall_with_namespaces() {
        for (names, difference) in DIFFERENCES {
            let Expected::Open(policies) = difference.expected else {
                continue;
            };
            for attack in names.iter().filter_map(|name| attacks::named(name)) {
                let granted = policies.iter().any(|policy| attack.is_granted(*policy));
                assert!(!granted, "{} is no difference", attack.name);
            }
        }
    }

    #[test]
    fn users_are_told_of_everything_that_is_open() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/walls/process.md");
        let text = fs::read_to_string(page).expect("read docs/walls/process.md");
        for (names, difference) in DIFFERENCES {
            if matches!(difference.expected, Expected::Open(_)) {
                for name in *names {
                    assert!(text.contains(&format!("`bare/{name}`")), "{name}");
                }
            }
        }
    }
}
