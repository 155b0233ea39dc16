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
const OPEN: &[(&[&str], Of, &str)] = &[
    (
        &[
            "memfd-fexecve",
            "memfd-execveat",
            "ld-so",
            "copy-exec",
            "exec-race",
        ],
        Of::Both,
        "a container executes what it has written: its /tmp and memory files are no volumes",
    ),
    (
        &[
            "drop-setuid",
            "drop-setuid-open",
            "drop-socket",
            "drop-fifo",
            "drop-socket-race",
            "drop-fifo-race",
        ],
        Of::Both,
        "what root makes in a volume is root's, of every kind that its capabilities allow",
    ),
    (
        &["drop-device"],
        Of::Pod,
        "CAP_MKNOD is there; the devices group and nodev keep it from being opened inside",
    ),
    (
        &[
            "write-guarded-hook",
            "write-guarded-settings",
            "swap-guarded-directory",
            "write-guarded-second-name",
            "write-guarded-worktree",
            "write-guarded-repository",
        ],
        Of::Both,
        "a volume has no guard over what git executes: only `palisade run` has",
    ),
    (
        &["read-kallsyms"],
        Of::Both,
        "no engine masks /proc/kallsyms; addresses are the kernel's to hide (kptr_restrict)",
    ),
    (
        &["tmp-inodes"],
        Of::Both,
        "podman limits the bytes of a tmpfs and not its files",
    ),
    (
        &["granted-socket", "datagram-in-folder"],
        Of::Both,
        "a volume is given with the sockets in it",
    ),
    (
        &["flags-granted", "lease-granted"],
        Of::Both,
        "the files of a volume are root's, and so the container's",
    ),
    (
        &["boot-id"],
        Of::Both,
        "the kernel's name for its present run has no namespace",
    ),
    (
        &[
            "udplite",
            "interfaces",
            "every-protocol",
            "every-family",
            "socket-netlink",
        ],
        Of::Both,
        "its network is a namespace of its own, and nothing is in it",
    ),
    (
        &["raw-socket", "socket-packet", "socket-xdp"],
        Of::Pod,
        "CAP_NET_RAW is there, in a network namespace of its own",
    ),
    (&["filecaps-exec"], Of::Pod, "CAP_NET_RAW is there already"),
    (
        &[
            "inotify-hoard",
            "watch-hoard",
            "queue-hoard",
            "lock-hoard",
            "aio-context",
        ],
        Of::Both,
        "root of a container without a user namespace is root: what the kernel counts by user is shared",
    ),
    (
        &["lock-memory"],
        Of::Both,
        "the kernel charges file locks to nobody",
    ),
    (
        &["chroot"],
        Of::Both,
        "CAP_SYS_CHROOT is there: engines leave it",
    ),
    (
        &["modify-ldt", "prctl-mm", "own-listener"],
        Of::Both,
        "a process's own memory and calls are its own, and filters of engines allow it",
    ),
    (
        &["personality"],
        Of::Pod,
        "a process's own layout is its own",
    ),
    (
        &["sweep"],
        Of::Both,
        "the filters name what is refused, and the kernel answers for numbers that are no calls",
    ),
];

/// Attacks whose end hangs on what other programs of root's have taken of a number that they share: they are told, not judged.
const EITHER: &[&str] = &["timer-hoard", "signal-hoard"];

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

/// Whether `attack` may end either way in a container.
#[must_use]
pub fn may_end_either_way(tool: Tool, attack: &Attack) -> bool {
    tool.is_container() && EITHER.contains(&attack.name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{EITHER, OPEN};
    use crate::attacks;

    #[test]
    fn what_is_open_are_attacks_and_each_stands_once() {
        let mut names = HashSet::new();
        for name in OPEN.iter().flat_map(|(names, _, _)| *names).chain(EITHER) {
            assert!(attacks::named(name).is_some(), "no attack {name}");
            assert!(names.insert(name), "{name} stands twice");
        }
    }
}
