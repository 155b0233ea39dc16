//! What a wall is made of, piece by piece.

use super::{
    advice::{self, Advice},
    container::Container,
    diagnosis::Finding,
    facts::{Call, Facts, OLDEST_KERNEL, Trial},
};

/// Everything that can be judged without the namespaces, and what they change about it.
pub(super) fn others(facts: &Facts) -> impl Iterator<Item = Finding> {
    let always = [
        landlock,
        seccomp,
        network,
        wasm,
        memory_files,
        terminals,
        tracing,
    ]
    .map(|judge| judge(facts));
    always
        .into_iter()
        .chain(server(facts))
        .chain(owners(facts))
        .chain(container(facts))
}

pub(super) fn kernel(facts: &Facts) -> Finding {
    let release = &facts.kernel;
    if release.is_empty() {
        let what = "/proc is not mounted here, and nothing can be told or confined without it";
        return Finding::missing("kernel", what)
            .advise([Advice::new("mount it", "sudo mount -t proc proc /proc")]);
    }
    if facts.kernel_version() >= OLDEST_KERNEL {
        return Finding::ok("kernel", format!("Linux {release}"));
    }
    let (major, minor) = OLDEST_KERNEL;
    Finding::missing(
        "kernel",
        format!("Linux {release}; the wall needs {major}.{minor} or later"),
    )
    .advise([Advice::new(
        "install a newer kernel and restart; on Debian 11",
        "sudo apt install -t bullseye-backports linux-image-amd64",
    )])
}

pub(super) fn mount_calls(facts: &Facts) -> Finding {
    const NAME: &str = "mount calls";
    let worst = [facts.open_tree, facts.openat2]
        .into_iter()
        .find(|answer| *answer != Call::Works);
    match worst {
        Some(Call::Refused) => Finding::missing(
            NAME,
            "open_tree or openat2 is refused by a system-call filter around palisade",
        ),
        Some(_) => Finding::missing(NAME, "open_tree or openat2 is unknown to this kernel"),
        None if !facts.kernel.is_empty() && facts.kernel_version() < (5, 12) => Finding::missing(
            NAME,
            "mount_setattr is unknown to this kernel: Linux 5.12 brought it",
        ),
        None => Finding::ok(NAME, "open_tree, mount_setattr, openat2"),
    }
}

fn landlock(facts: &Facts) -> Finding {
    match facts.landlock_abi {
        Some(abi) => landlock_of(abi, facts.stood()),
        None => no_landlock(facts).advise([advice::accept_less("landlock")]),
    }
}

fn landlock_of(abi: u32, with_namespaces: bool) -> Finding {
    const NAME: &str = "Landlock";
    let lacks: Vec<_> = [
        (2, "files cannot be moved between folders"),
        (4, "no rules for TCP"),
        (6, "no scopes for signals and abstract sockets"),
    ]
    .into_iter()
    .filter(|(since, _)| abi < *since)
    .map(|(_, lack)| lack)
    .collect();
    let instead = if with_namespaces {
        "; the namespaces hold what it lacks"
    } else {
        ""
    };
    match lacks.is_empty() {
        true => Finding::ok(NAME, format!("ABI {abi}")),
        false => Finding::weak(NAME, format!("ABI {abi}: {}{instead}", lacks.join(", "))),
    }
}

fn no_landlock(facts: &Facts) -> Finding {
    const NAME: &str = "Landlock";
    let modules = facts.security_modules.as_deref();
    let is_listed =
        modules.is_some_and(|modules| modules.iter().any(|module| module == "landlock"));
    if facts.kernel_version() < OLDEST_KERNEL {
        Finding::missing(NAME, "Linux 5.13 brought it")
    } else if is_listed && facts.seccomp.already_filtered {
        Finding::missing(NAME, "refused by a system-call filter around palisade")
    } else {
        Finding::missing(NAME, "not among the kernel's active security modules")
            .advise([advice::landlock_in_list(modules)])
    }
}

fn seccomp(facts: &Facts) -> Finding {
    match facts.seccomp.available {
        true => Finding::ok("seccomp", "filters"),
        false => Finding::missing(
            "seccomp",
            "this kernel was built without CONFIG_SECCOMP_FILTER",
        )
        .advise([advice::accept_less("seccomp")]),
    }
}

/// What network grants need beyond the wall itself.
fn network(facts: &Facts) -> Finding {
    const NAME: &str = "network";
    let weak = |why: &str| {
        Finding::weak(
            NAME,
            format!("--connect and --listen cannot be granted: {why}"),
        )
    };
    match (&facts.network, facts.pidfd_getfd) {
        _ if facts.kernel_version() < (5, 14) => weak("Linux 5.14 brought what they need"),
        (_, Call::Unknown | Call::Refused) => {
            weak("pidfd_getfd is refused by a system-call filter around palisade")
        }
        (Trial::Failed { message, .. }, _) => weak(message),
        (Trial::Stood, Call::Works) => Finding::ok(
            NAME,
            "nothing unless granted; palisade can answer a guest's calls",
        ),
    }
}

/// Programs in WebAssembly need two more of palisade's own.
fn wasm(facts: &Facts) -> Finding {
    const NAME: &str = "WebAssembly";
    match &facts.wasm {
        Trial::Stood => Finding::ok(NAME, "modules and components are compiled and run"),
        Trial::Failed { message, .. } => Finding::weak(NAME, message.clone()),
    }
}

/// The server is a program of its own, and only `palisade serve` needs it.
fn server(facts: &Facts) -> Option<Finding> {
    let missing = facts.no_server.as_ref()?;
    Some(Finding::weak(
        "server",
        format!("`palisade serve` has no server: {missing}"),
    ))
}

/// Only root gives domains user ids of their own, and only then must files change their owner.
fn owners(facts: &Facts) -> Option<Finding> {
    const NAME: &str = "file owners";
    let trial = facts.folder.as_ref().filter(|_| facts.stood())?;
    let folder = trial.folder.display();
    let kind = &trial.file_system;
    Some(match &trial.refusal {
        None => Finding::ok(NAME, format!("a guest can own granted files of {folder} ({kind})")),
        Some(refusal) => Finding::weak(NAME, format!("{kind} of {folder}: {refusal}")).advise([Advice::new(
            "work on a file system that maps owners (ext4, xfs and btrfs do; tmpfs since Linux 6.3), or run palisade as the files' owner",
            "",
        )]),
    })
}

fn memory_files(facts: &Facts) -> Finding {
    const NAME: &str = "memory files";
    match facts.sysctls.memfd_noexec {
        Some(2..) => Finding::missing(
            NAME,
            "vm.memfd_noexec = 2 keeps the keeper from being started",
        )
        .advise([advice::set_sysctl(
            "memory files stay not executable unless asked for",
            "vm.memfd_noexec",
            1,
        )]),
        Some(value) => Finding::ok(
            NAME,
            format!("executable for palisade (vm.memfd_noexec = {value}), never for guests"),
        ),
        None => Finding::ok(
            NAME,
            "executable for palisade; the system-call filter refuses them to guests",
        ),
    }
}

/// Typing into a terminal that others read from (CVE-2017-5226).
fn terminals(facts: &Facts) -> Finding {
    const NAME: &str = "terminals";
    let refused = facts.sysctls.legacy_tiocsti == Some(0);
    match (facts.stood(), facts.seccomp.available, refused) {
        (true, _, true) => Finding::ok(
            NAME,
            "a guest gets one of its own; the kernel lets nobody type into it",
        ),
        (true, _, false) => Finding::ok(
            NAME,
            "a guest gets one of its own, and the filter keeps it from typing into it",
        ),
        (false, true, _) => Finding::ok(
            NAME,
            "a guest has yours, and the filter keeps it from typing into it",
        ),
        (false, false, true) => Finding::ok(
            NAME,
            "a guest has yours; the kernel lets nobody type into it",
        ),
        (false, false, false) => Finding::weak(NAME, "a guest has yours and may type into it")
            .advise([advice::set_sysctl(
                "refuse that (Linux 6.2 and later)",
                "dev.tty.legacy_tiocsti",
                0,
            )]),
    }
}

/// ptrace(2) and its kin.
fn tracing(facts: &Facts) -> Finding {
    const NAME: &str = "tracing";
    let yama = match facts.sysctls.ptrace_scope {
        Some(scope) => format!("kernel.yama.ptrace_scope = {scope}"),
        None => "this kernel has no Yama".into(),
    };
    match (
        facts.stood(),
        facts.landlock_abi,
        facts.sysctls.ptrace_scope,
    ) {
        (true, ..) => Finding::ok(NAME, "a guest sees no process but its own"),
        (_, Some(_), _) => Finding::ok(NAME, "Landlock lets a guest trace none but its own"),
        (_, _, Some(1..)) => Finding::ok(
            NAME,
            format!("programs trace only what they started ({yama})"),
        ),
        _ => Finding::weak(NAME, format!("programs may trace your others ({yama})")).advise([
            advice::set_sysctl(
                "let programs trace only what they started",
                "kernel.yama.ptrace_scope",
                1,
            ),
        ]),
    }
}

/// Worth a line only where it explains something.
fn container(facts: &Facts) -> Option<Finding> {
    const NAME: &str = "container";
    let name = facts.container.map(Container::name)?;
    Some(match facts.stood() {
        true => Finding::ok(NAME, format!("signs of {name}, which allows domains")),
        false => Finding::weak(
            NAME,
            format!("signs of {name}, which must allow domains: see namespaces"),
        ),
    })
}
