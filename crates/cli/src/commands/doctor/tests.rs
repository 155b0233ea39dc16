//! Machines that are made up, and what the doctor says about them.

use super::{
    container::{Container, Traces, recognise},
    diagnosis::{Diagnosis, Level, diagnose},
    facts::{Call, Facts, FolderTrial, LimitFact, Seccomp, Stage, Sysctls, Trial},
    gather::{covered_proc, file_system_of, has_mounted_etc},
    show,
};
use palisade_process::{
    Tier,
    cgroup::{Obstacle, Version},
};
use std::path::Path;

fn limits(version: Version, obstacle: [Option<Obstacle>; 2]) -> Vec<LimitFact> {
    let names = ["memory", "cpu"];
    let fact = |(limit, obstacle)| LimitFact {
        limit,
        version: Some(version),
        obstacle,
    };
    names.into_iter().zip(obstacle).map(fact).collect()
}

/// Debian 12, an ordinary user in a systemd session with all controllers delegated.
fn fine() -> Facts {
    Facts {
        kernel: "6.1.0-28-amd64".into(),
        uid: 1000,
        tier: Tier::UserNamespace,
        program: "/usr/local/bin/palisade".into(),
        trial: Trial::Stood,
        bare_trial: None,
        folder: None,
        network: Trial::Stood,
        wasm: Trial::Stood,
        no_server: None,
        pidfd_getfd: Call::Works,
        landlock_abi: Some(6),
        security_modules: Some(["lockdown", "yama", "apparmor"].map(Into::into).into()),
        apparmor_profile: Some("unconfined".into()),
        seccomp: Seccomp {
            available: true,
            already_filtered: false,
        },
        open_tree: Call::Works,
        openat2: Call::Works,
        sysctls: Sysctls {
            max_user_namespaces: Some(63_000),
            memfd_noexec: Some(0),
            ptrace_scope: Some(1),
            legacy_tiocsti: Some(0),
            ..Sysctls::default()
        },
        container: None,
        covered_proc: Vec::new(),
        user_manager: true,
        limits: limits(Version::V2, [None, None]),
    }
}

fn failed(at: Stage, message: &str) -> Trial {
    Trial::Failed {
        at,
        message: message.into(),
    }
}

fn level(diagnosis: &Diagnosis, name: &str) -> Level {
    diagnosis
        .findings
        .iter()
        .find(|finding| finding.name == name)
        .unwrap()
        .level
}

#[test]
fn webassembly_needs_the_worker() {
    let facts = Facts {
        wasm: Trial::Failed {
            at: Stage::Guest,
            message: "host: palisade-worker was not found in /opt".into(),
        },
        ..fine()
    };
    let diagnosis = diagnose(&facts);
    assert_eq!(level(&diagnosis, "WebAssembly"), Level::Weak);
    assert!(diagnosis.full_wall, "native programs need it not");
}

#[test]
fn a_server_that_is_missing_is_told_and_no_more() {
    let facts = Facts {
        no_server: Some("host: palisade-host was not found in /opt".into()),
        ..fine()
    };
    let diagnosis = diagnose(&facts);
    assert_eq!(level(&diagnosis, "server"), Level::Weak);
    assert!(diagnosis.full_wall);
}

#[test]
fn network_grants_need_more_than_the_wall() {
    let answered = failed(
        Stage::Guest,
        "host: another supervisor around palisade answers network calls already, and the kernel allows one",
    );
    let change: [fn(&mut Facts); 2] = [
        |facts| facts.pidfd_getfd = Call::Refused,
        |facts| facts.kernel = "5.13.0".into(),
    ];
    for change in change {
        let mut facts = fine();
        change(&mut facts);
        assert_eq!(level(&diagnose(&facts), "network"), Level::Weak);
    }
    let inside = Facts {
        network: answered,
        ..fine()
    };
    let diagnosis = diagnose(&inside);
    assert_eq!(level(&diagnosis, "network"), Level::Weak);
    assert!(diagnosis.full_wall, "everything else can be had");
}

#[test]
fn nothing_is_missing() {
    let diagnosis = diagnose(&fine());
    assert!(diagnosis.full_wall);
    assert_eq!(diagnosis.tier, Some(Tier::UserNamespace));
    assert!(
        diagnosis
            .findings
            .iter()
            .all(|finding| finding.level == Level::Ok && finding.advice.is_empty())
    );
}

#[test]
fn ubuntu_24_04_restricts_user_namespaces_by_apparmor() {
    let facts = Facts {
        kernel: "6.8.0-45-generic".into(),
        trial: failed(
            Stage::Root,
            "host: the domain's root cannot be built: SetPropagation: Permission denied (os error 13)",
        ),
        landlock_abi: Some(4),
        sysctls: as_ubuntu_24_04(),
        ..fine()
    };
    insta::assert_snapshot!(diagnose(&facts));
}

fn as_ubuntu_24_04() -> Sysctls {
    Sysctls {
        apparmor_restrict_unprivileged_userns: Some(1),
        ..fine().sysctls
    }
}

#[test]
fn a_profile_of_its_own_is_not_what_restricts() {
    let facts = Facts {
        trial: failed(Stage::Namespaces, "EPERM"),
        apparmor_profile: Some("palisade".into()),
        sysctls: as_ubuntu_24_04(),
        ..fine()
    };
    let shown = diagnose(&facts).to_string();
    assert!(!shown.contains("/etc/apparmor.d"), "{shown}");
    assert!(shown.contains("sudo dmesg"), "{shown}");
}

#[test]
fn docker_without_flags() {
    let facts = Facts {
        uid: 0,
        trial: failed(
            Stage::Namespaces,
            "host: cannot make the domain's namespaces (Clone): Operation not permitted (os error 1)",
        ),
        bare_trial: Some(Trial::Stood),
        apparmor_profile: Some("docker-default".into()),
        seccomp: Seccomp {
            available: true,
            already_filtered: true,
        },
        open_tree: Call::Refused,
        container: Some(Container::Docker),
        covered_proc: covered_proc(DOCKER_MOUNTS),
        limits: limits(
            Version::V2,
            [
                not_writable("/sys/fs/cgroup"),
                not_writable("/sys/fs/cgroup"),
            ],
        ),
        ..fine()
    };
    insta::assert_snapshot!(diagnose(&facts));
}

#[test]
fn podman_that_only_masks() {
    let facts = Facts {
        trial: failed(Stage::Proc, "EPERM"),
        container: Some(Container::Podman),
        covered_proc: vec!["/proc/kcore".into()],
        ..fine()
    };
    let shown = diagnose(&facts).to_string();
    assert!(
        shown.contains("podman run --security-opt unmask=ALL …"),
        "{shown}"
    );
}

#[test]
fn a_systemd_user_without_the_cpu_controller() {
    let dir = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-u1.scope";
    let not_delegated = Some(Obstacle::NotDelegated { dir: dir.into() });
    let facts = Facts {
        limits: limits(Version::V2, [None, not_delegated]),
        ..fine()
    };
    let diagnosis = diagnose(&facts);
    assert!(diagnosis.full_wall, "limits are asked for one by one");
    assert_eq!(level(&diagnosis, "memory"), Level::Ok);
    insta::assert_snapshot!(diagnosis);
}

#[test]
fn a_session_scope_that_is_not_delegated_at_all() {
    let dir = "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope";
    let facts = Facts {
        limits: limits(Version::V2, [not_writable(dir), not_writable(dir)]),
        ..fine()
    };
    let shown = diagnose(&facts).to_string();
    assert!(
        shown.contains("\nmemory, cpu:\n"),
        "one advice for both: {shown}"
    );
    assert!(
        shown.contains("systemd-run --user --scope -p Delegate=yes palisade run"),
        "{shown}"
    );
}

fn not_writable(dir: &str) -> Option<Obstacle> {
    Some(Obstacle::NotWritable { dir: dir.into() })
}

#[test]
fn a_kernel_without_landlock_in_its_list() {
    let facts = Facts {
        landlock_abi: None,
        ..fine()
    };
    let diagnosis = diagnose(&facts);
    assert!(!diagnosis.full_wall);
    assert_eq!(
        level(&diagnosis, "namespaces"),
        Level::Ok,
        "judged apart from Landlock"
    );
    let shown = diagnosis.to_string();
    assert!(
        shown.contains("      lsm=landlock,lockdown,yama,apparmor\n"),
        "{shown}"
    );
    assert!(shown.contains("--allow-degraded landlock"), "{shown}");
}

#[test]
fn an_old_landlock_is_weak() {
    for (abi, lack) in [(1, "moved between folders"), (3, "TCP"), (5, "scopes")] {
        let diagnosis = diagnose(&Facts {
            landlock_abi: Some(abi),
            ..fine()
        });
        assert!(diagnosis.full_wall);
        assert_eq!(level(&diagnosis, "Landlock"), Level::Weak);
        assert!(diagnosis.to_string().contains(lack), "{abi}");
    }
}

#[test]
fn linux_5_10() {
    let facts = Facts {
        kernel: "5.10.0-33-amd64".into(),
        trial: failed(
            Stage::Root,
            "host: the domain's root cannot be built: SetPropagation: Function not implemented (os error 38)",
        ),
        landlock_abi: None,
        sysctls: Sysctls {
            unprivileged_userns_clone: Some(0),
            legacy_tiocsti: None,
            memfd_noexec: None,
            ..fine().sysctls
        },
        ..fine()
    };
    let diagnosis = diagnose(&facts);
    assert_eq!(
        diagnosis.tier, None,
        "without Landlock there is no lower tier either"
    );
    insta::assert_snapshot!(diagnosis);
}

#[test]
fn each_setting_that_forbids_namespaces_is_named() {
    let forbidding = [
        Sysctls {
            max_user_namespaces: Some(0),
            ..fine().sysctls
        },
        Sysctls {
            unprivileged_userns_clone: Some(0),
            ..fine().sysctls
        },
    ];
    let names = [
        "user.max_user_namespaces = 15000",
        "kernel.unprivileged_userns_clone = 1",
    ];
    for (sysctls, name) in forbidding.into_iter().zip(names) {
        let facts = Facts {
            trial: failed(Stage::Namespaces, "EPERM"),
            sysctls,
            ..fine()
        };
        let shown = diagnose(&facts).to_string();
        assert!(shown.contains(name), "{name}: {shown}");
    }
    let facts = Facts {
        trial: failed(Stage::Keeper, "EACCES"),
        sysctls: Sysctls {
            memfd_noexec: Some(2),
            ..fine().sysctls
        },
        ..fine()
    };
    let diagnosis = diagnose(&facts);
    assert_eq!(level(&diagnosis, "memory files"), Level::Missing);
    assert!(diagnosis.to_string().contains("vm.memfd_noexec = 1"));
}

#[test]
fn landlock_and_seccomp_alone_are_a_tier() {
    let facts = Facts {
        trial: failed(Stage::Namespaces, "EPERM"),
        bare_trial: Some(Trial::Stood),
        sysctls: Sysctls {
            legacy_tiocsti: Some(1),
            ptrace_scope: Some(0),
            ..fine().sysctls
        },
        ..fine()
    };
    let diagnosis = diagnose(&facts);
    assert!(!diagnosis.full_wall);
    assert_eq!(diagnosis.tier, Some(Tier::Bare));
    assert!(
        diagnosis
            .to_string()
            .contains("palisade run --allow-degraded namespaces")
    );
    for name in ["terminals", "tracing"] {
        assert_eq!(
            level(&diagnosis, name),
            Level::Ok,
            "{name}: the filter and Landlock hold it"
        );
    }
}

#[test]
fn with_nothing_at_all_terminals_and_tracing_count() {
    let failed = failed(Stage::Namespaces, "EPERM");
    let facts = Facts {
        bare_trial: Some(failed.clone()),
        trial: failed,
        landlock_abi: None,
        seccomp: Seccomp {
            available: false,
            already_filtered: false,
        },
        sysctls: Sysctls {
            legacy_tiocsti: Some(1),
            ptrace_scope: Some(0),
            ..fine().sysctls
        },
        ..fine()
    };
    let diagnosis = diagnose(&facts);
    assert_eq!(diagnosis.tier, None);
    for name in ["terminals", "tracing"] {
        assert_eq!(level(&diagnosis, name), Level::Weak);
    }
    assert!(
        diagnosis
            .to_string()
            .ends_with("`palisade run` cannot work here as things are.\n")
    );
}

#[test]
fn root_on_a_file_system_that_cannot_map_owners() {
    let refusal = Some("the file system cannot show its files as the guest's (EINVAL)".into());
    let folder = FolderTrial {
        folder: "/mnt/share".into(),
        file_system: "nfs4".into(),
        refusal,
    };
    let facts = Facts {
        uid: 0,
        tier: Tier::Privileged,
        folder: Some(folder),
        ..fine()
    };
    let diagnosis = diagnose(&facts);
    assert!(diagnosis.full_wall);
    assert_eq!(level(&diagnosis, "file owners"), Level::Weak);
}

#[test]
fn a_machine_without_proc_has_no_old_kernel() {
    let facts = Facts {
        kernel: String::new(),
        trial: failed(Stage::Keeper, "host: /proc is not mounted here"),
        ..fine()
    };
    let diagnosis = diagnose(&facts);
    assert_eq!(level(&diagnosis, "mount calls"), Level::Ok);
    let shown = diagnosis.to_string();
    assert!(
        shown.contains("missing  kernel        /proc is not mounted"),
        "{shown}"
    );
    assert!(shown.contains("mount -t proc proc /proc"), "{shown}");
}

#[test]
fn json_has_findings_and_facts() {
    let facts = fine();
    let all = show::json(&diagnose(&facts), &facts).unwrap();
    assert_eq!(all["full_wall"], true);
    assert_eq!(all["tier"], "user-namespace");
    assert_eq!(all["findings"][0]["name"], "kernel");
    assert_eq!(all["findings"][0]["level"], "ok");
    assert_eq!(all["facts"]["sysctls"]["ptrace_scope"], 1);
}

#[test]
fn containers_are_told_by_what_they_leave() {
    let none = Traces {
        cgroups: "0::/user.slice/user-1000.slice/session-3.scope\n".into(),
        ..Traces::default()
    };
    assert_eq!(recognise(&none), None);
    let marked = Traces {
        dockerenv: true,
        containerenv: true,
        ..Traces::default()
    };
    assert_eq!(
        recognise(&marked),
        None,
        "left in a machine whose disk was made from an image"
    );
    let dockerenv = Traces {
        dockerenv: true,
        mounted_etc: true,
        ..Traces::default()
    };
    assert_eq!(recognise(&dockerenv), Some(Container::Docker));
    let pod = Traces {
        kubernetes_secrets: true,
        ..dockerenv
    };
    assert_eq!(
        recognise(&pod),
        Some(Container::Kubernetes),
        "whatever runtime made it"
    );
    let podman = Traces {
        containerenv: true,
        mounted_etc: true,
        ..Traces::default()
    };
    assert_eq!(recognise(&podman), Some(Container::Podman));
    let lxc = Traces {
        systemd_says: "lxc\n".into(),
        ..Traces::default()
    };
    assert_eq!(recognise(&lxc), Some(Container::Lxc));
    let nspawn = Traces {
        systemd_says: "systemd-nspawn\n".into(),
        ..Traces::default()
    };
    assert_eq!(recognise(&nspawn), Some(Container::Other));
    let old_docker = Traces {
        cgroups: "4:memory:/docker/ab12\n".into(),
        ..Traces::default()
    };
    assert_eq!(recognise(&old_docker), Some(Container::Docker));
}

const DOCKER_MOUNTS: &str = "\
    601 500 0:52 / / rw,relatime - overlay overlay rw,lowerdir=/a\n\
    602 601 0:55 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n\
    603 602 0:55 /bus /proc/bus ro,nosuid,nodev,noexec,relatime - proc proc rw\n\
    604 602 0:60 / /proc/kcore rw,nosuid - tmpfs tmpfs rw,size=65536k\n\
    605 602 0:61 / /proc/sys/fs/binfmt_misc rw,relatime - binfmt_misc binfmt_misc rw\n\
    606 601 0:62 / /data rw,relatime - ext4 /dev/sda1 rw\n\
    607 606 0:63 / /data rw,relatime - xfs /dev/sdb1 rw\n\
    608 601 254:1 /docker/ab12/hosts /etc/hosts rw,relatime - ext4 /dev/sda1 rw\n";

fn first_line(facts: &Facts) -> String {
    let shown = diagnose(facts).to_string();
    shown.lines().next().unwrap().into()
}

/// What most people ask for first, and do not find further down.
#[test]
fn the_first_line_tells_what_a_limit_on_memory_needs() {
    let line = first_line(&fine());
    assert!(!line.contains("--memory"), "{line}");
    let dir = "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope";
    let session = Facts {
        limits: limits(Version::V2, [not_writable(dir), None]),
        ..fine()
    };
    insta::assert_snapshot!(first_line(&session), @"tier     user namespace: all namespaces, under your own user id; --memory takes `systemd-run --user --scope -p Delegate=yes palisade run …`");
    let without = Facts {
        user_manager: false,
        ..session
    };
    let shown = diagnose(&without).to_string();
    assert!(shown.contains("loginctl enable-linger"), "{shown}");
    let version_1 = Facts {
        limits: limits(Version::V1, [not_writable(dir), None]),
        ..fine()
    };
    insta::assert_snapshot!(first_line(&version_1), @"tier     user namespace: all namespaces, under your own user id; --memory takes a control group of your own, as below");
    // Where nothing runs at all, limits are not the matter.
    let nothing = Facts {
        trial: failed(Stage::Namespaces, "host: no"),
        limits: limits(Version::V2, [not_writable(dir), None]),
        ..fine()
    };
    assert_eq!(first_line(&nothing), "tier     none");
}

#[test]
fn files_that_a_runtime_writes_are_mounted_on() {
    assert!(has_mounted_etc(DOCKER_MOUNTS));
    assert!(!has_mounted_etc("27 1 254:0 / / rw - ext4 /dev/vda rw\n"));
}

#[test]
fn what_covers_proc_is_read_from_the_mounts() {
    assert_eq!(
        covered_proc(DOCKER_MOUNTS),
        [Path::new("/proc/bus"), Path::new("/proc/kcore")]
    );
}

#[test]
fn the_uppermost_mount_tells_the_file_system() {
    assert_eq!(
        file_system_of(Path::new("/home/x"), DOCKER_MOUNTS),
        "overlay"
    );
    assert_eq!(file_system_of(Path::new("/data/x"), DOCKER_MOUNTS), "xfs");
    assert_eq!(file_system_of(Path::new("/"), ""), "unknown");
}
