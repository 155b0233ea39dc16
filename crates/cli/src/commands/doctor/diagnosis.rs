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
    let stood = facts.trial == Trial::Stood;
    let confined = facts.landlock_abi.is_some() && facts.seccomp.available;
    let mechanisms = [
        kernel(facts),
        mount_calls(facts),
        namespaces(facts),
        landlock(facts),
        seccomp(facts),
    ];
    let on_the_side = [memory_files(facts), terminals(facts), tracing(facts)];
    let findings = mechanisms
        .into_iter()
        .chain(owners(facts))
        .chain(on_the_side);
    Diagnosis {
        full_wall: stood && confined,
        tier: if stood {
            Some(facts.tier)
        } else {
            confined.then_some(Tier::Bare)
        },
        findings: findings
            .chain(container(facts))
            .chain(facts.limits.iter().map(|fact| limit(facts, fact)))
            .collect(),
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

/// Major and minor number of `6.1.0-28-amd64`.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release
        .split(|character: char| !character.is_ascii_digit())
        .map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Linux 5.12 brought mount_setattr(2), 5.13 Landlock.
const OLDEST_KERNEL: (u32, u32) = (5, 13);

fn kernel(facts: &Facts) -> Finding {
    let release = &facts.kernel;
    if version(release) >= OLDEST_KERNEL {
        return finding("kernel", Level::Ok, format!("Linux {release}"));
    }
    let (major, minor) = OLDEST_KERNEL;
    finding(
        "kernel",
        Level::Missing,
        format!("Linux {release}; the wall needs {major}.{minor} or later"),
    )
    .advise([Advice::new(
        "install a newer kernel and restart; on Debian 11",
        "sudo apt install -t bullseye-backports linux-image-amd64",
    )])
}

fn mount_calls(facts: &Facts) -> Finding {
    const NAME: &str = "mount calls";
    let worst = [facts.open_tree, facts.openat2]
        .into_iter()
        .find(|answer| *answer != Call::Works);
    match worst {
        Some(Call::Refused) => finding(
            NAME,
            Level::Missing,
            "open_tree or openat2 is refused by a system-call filter around palisade",
        ),
        Some(_) => finding(
            NAME,
            Level::Missing,
            "open_tree or openat2 is unknown to this kernel",
        ),
        None if version(&facts.kernel) < (5, 12) => finding(
            NAME,
            Level::Missing,
            "mount_setattr is unknown to this kernel: Linux 5.12 brought it",
        ),
        None => finding(NAME, Level::Ok, "open_tree, mount_setattr, openat2"),
    }
}

fn namespaces(facts: &Facts) -> Finding {
    const NAME: &str = "namespaces";
    match &facts.trial {
        Trial::Stood => finding(NAME, Level::Ok, "a trial domain was made, ran and is gone"),
        Trial::Failed { at, message } => {
            let finding = finding(
                NAME,
                Level::Missing,
                format!("a trial domain could not be made: {message}"),
            );
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
    if let Some(container) = facts.container {
        let purpose = format!(
            "start {} so that domains can be made in it",
            container.name()
        );
        ways.push(Advice::new(purpose, &container.way_to_start(facts)));
    } else {
        ways.extend(ways_out_of_confinement(facts));
    }
    if ways.is_empty() && version(&facts.kernel) >= OLDEST_KERNEL {
        ways.push(look_closer(at));
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

fn landlock(facts: &Facts) -> Finding {
    const NAME: &str = "Landlock";
    let Some(abi) = facts.landlock_abi else {
        let listed = facts
            .security_modules
            .as_ref()
            .is_some_and(|modules| modules.iter().any(|module| module == "landlock"));
        return match (
            version(&facts.kernel) < OLDEST_KERNEL,
            facts.seccomp.already_filtered && listed,
        ) {
            (true, _) => finding(NAME, Level::Missing, "Linux 5.13 brought it"),
            (_, true) => finding(
                NAME,
                Level::Missing,
                "refused by a system-call filter around palisade",
            ),
            _ => finding(
                NAME,
                Level::Missing,
                "not among the kernel's active security modules",
            )
            .advise([advice::landlock_in_list(facts.security_modules.as_deref())]),
        }
        .advise([advice::accept_less("landlock")]);
    };
    let lacks = [
        (2, "files cannot be moved between folders"),
        (4, "no rules for TCP"),
        (6, "no scopes for signals and abstract sockets"),
    ];
    let lacks: Vec<_> = lacks
        .into_iter()
        .filter(|(since, _)| abi < *since)
        .map(|(_, lack)| lack)
        .collect();
    match (lacks.is_empty(), facts.trial == Trial::Stood) {
        (true, _) => finding(NAME, Level::Ok, format!("ABI {abi}")),
        (false, true) => finding(
            NAME,
            Level::Weak,
            format!(
                "ABI {abi}: {}; the namespaces hold what it lacks",
                lacks.join(", ")
            ),
        ),
        (false, false) => finding(
            NAME,
            Level::Weak,
            format!("ABI {abi}: {}", lacks.join(", ")),
        ),
    }
}

fn seccomp(facts: &Facts) -> Finding {
    match facts.seccomp.available {
        true => finding("seccomp", Level::Ok, "filters"),
        false => finding(
            "seccomp",
            Level::Missing,
            "this kernel was built without CONFIG_SECCOMP_FILTER",
        )
        .advise([advice::accept_less("seccomp")]),
    }
}

/// Only root gives domains user ids of their own, and only then must files change their owner.
fn owners(facts: &Facts) -> Option<Finding> {
    const NAME: &str = "file owners";
    let trial = facts
        .folder
        .as_ref()
        .filter(|_| facts.trial == Trial::Stood)?;
    let folder = trial.folder.display();
    let kind = &trial.file_system;
    Some(match &trial.refusal {
        None => finding(NAME, Level::Ok, format!("a guest can own granted files of {folder} ({kind})")),
        Some(refusal) => finding(NAME, Level::Weak, format!("{kind} of {folder}: {refusal}")).advise([Advice::new(
            "work on a file system that maps owners (ext4, xfs and btrfs do; tmpfs since Linux 6.3), or run palisade as the files' owner",
            "",
        )]),
    })
}

fn memory_files(facts: &Facts) -> Finding {
    const NAME: &str = "memory files";
    match facts.sysctls.memfd_noexec {
        Some(2..) => finding(
            NAME,
            Level::Missing,
            "vm.memfd_noexec = 2 keeps the keeper from being started",
        )
        .advise([advice::set_sysctl(
            "memory files stay not executable unless asked for",
            "vm.memfd_noexec",
            1,
        )]),
        Some(value) => finding(
            NAME,
            Level::Ok,
            format!("executable for palisade (vm.memfd_noexec = {value}), never for guests"),
        ),
        None => finding(
            NAME,
            Level::Ok,
            "executable for palisade; the system-call filter refuses them to guests",
        ),
    }
}

fn terminals(facts: &Facts) -> Finding {
    const NAME: &str = "terminals";
    let injection = match facts.sysctls.legacy_tiocsti {
        Some(0) => "the kernel refuses to type into a terminal",
        _ => "the kernel lets programs type into their terminal",
    };
    match facts.trial {
        Trial::Stood => finding(
            NAME,
            Level::Ok,
            format!("a guest gets one of its own; {injection}"),
        ),
        Trial::Failed { .. } if facts.sysctls.legacy_tiocsti == Some(0) => {
            finding(NAME, Level::Ok, injection)
        }
        Trial::Failed { .. } => finding(
            NAME,
            Level::Weak,
            format!("{injection}, and without namespaces a guest has yours"),
        )
        .advise([advice::set_sysctl(
            "refuse it (Linux 6.2 and later)",
            "dev.tty.legacy_tiocsti",
            0,
        )]),
    }
}

fn tracing(facts: &Facts) -> Finding {
    const NAME: &str = "tracing";
    match (&facts.trial, facts.sysctls.ptrace_scope) {
        (Trial::Stood, _) => finding(NAME, Level::Ok, "a guest sees no process but its own"),
        (_, Some(1..)) => finding(
            NAME,
            Level::Ok,
            "Yama keeps programs from tracing each other",
        ),
        (_, Some(0)) => finding(
            NAME,
            Level::Weak,
            "any program may trace your others (kernel.yama.ptrace_scope = 0)",
        )
        .advise([advice::set_sysctl(
            "let programs trace only what they started",
            "kernel.yama.ptrace_scope",
            1,
        )]),
        (_, None) => finding(
            NAME,
            Level::Weak,
            "any program may trace your others: this kernel has no Yama",
        ),
    }
}

/// Worth a line only where it explains something.
fn container(facts: &Facts) -> Option<Finding> {
    const NAME: &str = "container";
    let name = facts.container.map(Container::name)?;
    Some(match facts.trial {
        Trial::Stood => finding(
            NAME,
            Level::Ok,
            format!("signs of {name}, which allows domains"),
        ),
        Trial::Failed { .. } => finding(
            NAME,
            Level::Weak,
            format!("signs of {name}, which must allow domains: see namespaces"),
        ),
    })
}

fn limit(facts: &Facts, fact: &LimitFact) -> Finding {
    let version = match fact.version {
        Some(Version::V1) => "cgroup v1",
        Some(Version::V2) => "cgroup v2",
        None => "no cgroup",
    };
    let Some(obstacle) = &fact.obstacle else {
        return finding(
            fact.limit,
            Level::Ok,
            format!("--{} is held by {version}", fact.limit),
        );
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
    finding(
        fact.limit,
        Level::Weak,
        format!("--{} cannot be held: {why}", fact.limit),
    )
    .advise([way_to_limit(facts, fact, obstacle), advice::approximate()])
}

fn way_to_limit(facts: &Facts, fact: &LimitFact, obstacle: &Obstacle) -> Advice {
    match (obstacle, facts.container, fact.version) {
        (Obstacle::NoController, ..) => advice::mount_cgroups(),
        (_, Some(container), _) if facts.trial != Trial::Stood || facts.uid == 0 => {
            advice::writable_cgroups(container)
        }
        (Obstacle::NotWritable { dir }, _, Some(Version::V1)) => advice::own_group(dir),
        (Obstacle::NotDelegated { .. }, ..) => advice::delegate_to_users(),
        (Obstacle::NotWritable { .. } | Obstacle::Occupied { .. }, ..) => {
            advice::scope_of_its_own()
        }
    }
}
