//! Plans for machines that are made up, as `palisade explain` prints them.
//!
//! `INSTA_UPDATE=always` writes the snapshots anew; look at what changed before you commit it.

use palisade_policy::Limits;
use palisade_process::{
    Machine, Tier,
    cgroup::{Base, Controller, Occupants, Survey, UsableHierarchy, Version},
    plan::{Options, Plan, PlanError, Step, make_plan},
};
use palisade_wall::{Command, Spec};
use std::{path::Path, sync::OnceLock};

mod golden;
use golden::{HOME, Table, policy, steps, surroundings, user};

fn home() -> Table {
    Table::with_home()
        .folder("/home/ada/work")
        .folder("/home/ada/work/.git")
        .folder("/home/ada/work/.git/hooks")
        .folder("/home/ada/work/target")
        .folder("/home/ada/work/target/keep")
        .file("/home/ada/work/source.c", "int main;")
        .file("/home/ada/script.py", "print()")
}

fn root() -> Machine {
    Machine {
        tier: Tier::Privileged,
        uid: 0,
        gid: 0,
        ..user()
    }
}

fn plan_on(host: &Table, machine: &Machine, text: &str) -> Result<Plan, PlanError> {
    let command = Command {
        program: "python3".into(),
        arguments: vec!["script.py".into()],
    };
    make_plan(
        &Spec::new(&policy(text), &command, machine, &surroundings()),
        host,
        &Options::default(),
    )
}

/// The file system alone, for who grants files.
fn files(text: &str) -> String {
    files_on(&home(), text)
}

/// A grant beside the default policy shows in the lines that the default policy's plan lacks.
fn files_on(host: &Table, text: &str) -> String {
    let usual = steps(&plan_on(host, &user(), "").unwrap());
    let plan = plan_on(host, &user(), text).unwrap();
    let held = plan.placeholders.iter().map(|placeholder| {
        format!(
            "hold      {} ({})",
            placeholder.path.display(),
            if placeholder.folder { "folder" } else { "file" }
        )
    });
    // The root's size follows from how much there is in it.
    let new = steps(&plan)
        .into_iter()
        .filter(|step| !usual.contains(step) && !step.starts_with("tmpfs"));
    held.chain(new).collect::<Vec<_>>().join("\n")
}

/// Policies that are refused, each with what is said.
fn refusals(host: &Table, policies: &[&str]) -> String {
    let said = policies.iter().map(|text| {
        let error = plan_on(host, &user(), &format!("[grants]\n{text}")).unwrap_err();
        format!("{}\n    {error}\n", text.replace('\n', ", "))
    });
    said.collect()
}

#[test]
fn default_policy_as_a_user() {
    insta::assert_snapshot!(plan_on(&home(), &user(), "").unwrap());
}

#[test]
fn default_policy_as_root() {
    insta::assert_snapshot!(plan_on(&home(), &root(), "").unwrap());
}

#[test]
fn default_policy_on_a_host_with_split_usr() {
    let plan = plan_on(&Table::split_usr(), &user(), "").unwrap();
    insta::assert_snapshot!(steps(&plan).join("\n"));
}

#[test]
fn nothing_but_a_static_program() {
    let plan = plan_on(
        &home(),
        &user(),
        "system = false\n[grants]\nread = ['work:/program']",
    )
    .unwrap();
    insta::assert_snapshot!(plan);
}

#[test]
fn a_folder_as_the_root() {
    let host = home()
        .folder("/home/ada/root")
        .folder("/home/ada/root/dev")
        .folder("/home/ada/root/proc")
        .folder("/home/ada/root/data");
    let read = "[grants]\nread = ['root:/', 'work:/data']";
    let write = "[grants]\nwrite = ['work:/']\nexec = ['/']\nprotect = ['/.git']";
    let plans =
        [(&host, read), (&home(), write)].map(|(host, text)| plan_on(host, &user(), text).unwrap());
    insta::assert_snapshot!(plans.map(|plan| plan.to_string()).join("\n"));
}

#[test]
fn as_json() {
    let plan = plan_on(
        &home(),
        &root(),
        "system = false\n[grants]\nwrite = ['work']",
    )
    .unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&plan).unwrap());
}

/// The guest of root's domain owns what its starter granted, and nothing of the system view. A
/// single file that anybody may read needs no owner.
#[test]
fn owners_are_mapped_for_grants_alone() {
    let grants = "[grants]\nread = ['work', 'script.py']\nwrite = ['work/source.c']";
    let plan = plan_on(&home(), &root(), grants).unwrap();
    let mapped = plan.steps.iter().filter_map(|step| match step {
        Step::Mount {
            target,
            owner: Some(owner),
            ..
        } => Some((target.to_str().unwrap(), *owner)),
        _ => None,
    });
    assert_eq!(
        mapped.collect::<Vec<_>>(),
        [
            ("/home/ada/work", (1001, 1002)),
            ("/home/ada/work/source.c", (1001, 1002))
        ]
    );
}

#[test]
fn write_with_existing_and_missing_paths_protected() {
    let text = "[grants]\nwrite = ['work']\n\
                protect = ['work/source.c', 'work/.git/hooks', 'work/.env', 'work/new/deep/file']";
    insta::assert_snapshot!(files(text));
}

#[test]
fn writable_in_read_only() {
    insta::assert_snapshot!(files(
        "[grants]\nread = ['work']\nwrite = ['work/target', 'work/source.c']"
    ));
}

#[test]
fn read_only_in_writable() {
    insta::assert_snapshot!(files(
        "[grants]\nwrite = ['work']\nread = ['work/target/keep']"
    ));
}

#[test]
fn four_deep() {
    let text = "[grants]\nread = ['.', 'work/target']\nwrite = ['work', 'work/target/keep']";
    insta::assert_snapshot!(files(text));
}

#[test]
fn mapped_to_other_paths() {
    let text = "[grants]\nread = ['script.py:/app/main.py', 'work/.git:/repo']\nwrite = ['work/target:/tmp']";
    insta::assert_snapshot!(files(text));
}

#[test]
fn a_grant_in_place_of_a_system_file_or_link() {
    insta::assert_snapshot!(files(
        "[grants]\nread = ['script.py:/etc/os-release', 'work:/bin', 'work/.git:/etc/ssl']"
    ));
}

#[test]
fn executable_places() {
    let text = "[grants]\nwrite = ['work']\nexec = ['work/target', '/tmp', '/dev/shm/deep']";
    insta::assert_snapshot!(files(text));
}

#[test]
fn executable_grant_with_a_nested_one() {
    let text = "[grants]\nwrite = ['work', 'work/target']\nread = ['work/.git']\nexec = ['work']";
    insta::assert_snapshot!(files(text));
}

#[test]
fn devices_and_terminals() {
    insta::assert_snapshot!(files("[grants]\ndevice = ['/dev/fuse', 'pts']"));
}

#[test]
fn granted_through_links() {
    let host = home()
        .link("/home/ada/here", "work")
        .file("/home/ada/work/data", "")
        .link("/home/ada/there", "/home/ada/here/data");
    insta::assert_snapshot!(files_on(&host, "[grants]\nread = ['here', 'there']"));
}

#[test]
fn sockets_in_a_writable_folder() {
    let landlock = |text: &str| plan_on(&home(), &user(), text).unwrap().landlock.unwrap();
    let without = landlock("[grants]\nwrite = ['work']");
    let with = landlock("[grants]\nwrite = ['work']\nipc = ['work/target']");
    let paths = |rules: &[palisade_process::plan::LandlockRule]| {
        rules
            .iter()
            .map(|rule| rule.path.clone())
            .collect::<Vec<_>>()
    };
    let more: Vec<_> = paths(&with.rules)
        .into_iter()
        .filter(|path| !paths(&without.rules).contains(path))
        .collect();
    assert_eq!(more, [Path::new("/home/ada/work/target")]);
    assert_eq!(with.files, without.files);
}

/// Control groups of version 1 that root owns, and one of version 2 that was delegated.
fn survey(version: Version, writable: bool) -> Survey {
    let controllers = vec![
        Controller::Memory,
        Controller::Cpu,
        Controller::Cpuacct,
        Controller::Pids,
    ];
    let dir = match version {
        Version::V1 => "/sys/fs/cgroup/all",
        Version::V2 => "/sys/fs/cgroup/user.slice/run.scope",
    };
    let base = Base {
        dir: dir.into(),
        top: version == Version::V1,
        writable,
        available: controllers.clone(),
        enabled: controllers.clone(),
        occupants: Occupants::NoMatter,
    };
    Survey {
        hierarchies: vec![UsableHierarchy {
            version,
            controllers,
            bases: vec![base],
        }],
    }
}

fn with_cgroups(machine: Machine, survey: Survey) -> Machine {
    Machine {
        cgroups: OnceLock::from(survey),
        ..machine
    }
}

const LIMITS: &str = "[limits]\nmemory = '512M'\ncpu = 1.5\nprocesses = 64\nfiles = 100\nfile-size = '1G'\n\
                      tmp-size = '64M'\ntime = '10m'\ncpu-time = '90s'\noutput = '1M'";

/// What limits add to a plan.
fn bounds(machine: &Machine, text: &str) -> String {
    let plan = plan_on(&home(), machine, text).unwrap().to_string();
    let words = ["tmpfs", "limit", "cgroup", "enforce"];
    let lines = plan
        .lines()
        .filter(|line| words.iter().any(|word| line.starts_with(word)));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn limits_held_by_cgroups_of_version_1() {
    insta::assert_snapshot!(bounds(
        &with_cgroups(root(), survey(Version::V1, true)),
        LIMITS
    ));
}

#[test]
fn limits_held_by_cgroups_of_version_2() {
    insta::assert_snapshot!(bounds(
        &with_cgroups(user(), survey(Version::V2, true)),
        LIMITS
    ));
}

/// What a network grant adds.
#[test]
fn memory_of_sockets_is_within_the_limit() {
    let text = "[grants]\nconnect = ['tcp://127.0.0.1:80']\n[limits]\nmemory = '64M'";
    let of = |machine, version| {
        let all = bounds(&with_cgroups(machine, survey(version, true)), text);
        let lines = all.lines().filter(|line| line.contains("memory"));
        lines.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!([of(root(), Version::V1), of(user(), Version::V2)].join("\n\n"));
}

#[test]
fn limits_approximated_where_that_was_accepted() {
    let text = format!("allow-degraded = ['memory', 'cpu', 'cpu-time']\n{LIMITS}");
    insta::assert_snapshot!(bounds(
        &with_cgroups(user(), survey(Version::V2, false)),
        &text
    ));
}

#[test]
fn limits_that_nothing_holds_are_refused() {
    let machine = with_cgroups(user(), survey(Version::V2, false));
    for (limit, capability) in [
        ("memory = '1G'", "memory"),
        ("cpu = 1", "cpu"),
        ("cpu-time = 1", "cpu-time"),
    ] {
        let error = plan_on(&home(), &machine, &format!("[limits]\n{limit}"))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(&format!("host: a limit on {capability} ")),
            "{error}"
        );
        assert!(
            error.contains(&format!("--allow-degraded {capability}")),
            "{error}"
        );
    }
}

fn bare(machine: Machine) -> Machine {
    Machine {
        tier: Tier::Bare,
        ..machine
    }
}

#[test]
fn without_namespaces() {
    let text = "[grants]\nread = ['script.py']\nwrite = ['work']\nexec = ['work/target']\n\
                ipc = ['work/target/keep', '/tmp']";
    let plan = plan_on(&home(), &bare(user()), text).unwrap();
    assert!(plan.steps.is_empty(), "nothing can be mounted");
    let rules = plan.landlock.unwrap().rules.into_iter();
    let own: Vec<_> = rules
        .filter(|rule| rule.path.starts_with(HOME) || rule.path.starts_with("/tmp"))
        .map(|rule| format!("{} {:#x}", rule.path.display(), rule.rights))
        .collect();
    insta::assert_snapshot!(own.join("\n"));
}

#[test]
fn limits_without_namespaces() {
    let machine = bare(with_cgroups(user(), survey(Version::V2, true)));
    insta::assert_snapshot!(bounds(&machine, LIMITS));
}

#[test]
fn without_namespaces_and_control_groups() {
    let limits = "[limits]\nprocesses = 64\ncpu-time = 1.5";
    let accepted = format!("allow-degraded = ['processes', 'cpu-time']\n{limits}");
    let [user, root] =
        [user(), root()].map(|machine| bare(with_cgroups(machine, survey(Version::V2, false))));
    for capability in ["processes", "cpu-time"] {
        let other = accepted.replace(&format!("'{capability}'"), "'memory'");
        let error = plan_on(&home(), &user, &other).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("host: a limit on {capability} ")),
            "{error}"
        );
    }
    let as_user = bounds(&user, &accepted);
    let as_root = bounds(&root, &accepted);
    let by_default = bounds(&root, "");
    insta::assert_snapshot!([as_user, as_root, by_default].join("\n\n"));
}

#[test]
fn a_guest_of_root_without_namespaces_is_root() {
    let machine = bare(with_cgroups(root(), survey(Version::V2, false)));
    let plan = plan_on(&home(), &machine, "").unwrap();
    assert_eq!((plan.uid, plan.gid), (0, 0), "nobody maps it to another");
    let row = plan.enforcement.iter().find(|row| row.capability == "uid");
    assert_eq!(row.unwrap().actual, palisade_wall::Level::None);
}

#[test]
fn refusals_of_paths_that_are_not_there() {
    insta::assert_snapshot!(refusals(
        &home(),
        &[
            "read = ['absent']",
            "read = ['script.py/below']",
            "write = ['absent:/somewhere']",
            "device = ['/dev/absent']",
            "device = ['/etc/os-release']",
        ]
    ));
}

#[test]
fn refusals_through_links() {
    let host = home()
        .link("/home/ada/work/link", "target")
        .link("/home/ada/work/dangling", "absent")
        .link("/home/ada/loop", "loop");
    insta::assert_snapshot!(refusals(
        &host,
        &[
            "read = ['loop']",
            "read = ['work/dangling']",
            "read = ['work:/lib64/x']",
            "write = ['work']\nprotect = ['work/link']",
            "write = ['work']\nprotect = ['work/link/keep']",
            "write = ['work']\nprotect = ['work/dangling']",
            "write = ['work']\nread = ['work/link/keep']",
        ]
    ));
}

#[test]
fn refusals_of_mount_points() {
    insta::assert_snapshot!(refusals(
        &home(),
        &[
            "write = ['work']\nread = ['script.py:/home/ada/work/absent']",
            "write = ['work']\nread = ['script.py:/home/ada/work/target']",
            "read = ['/usr', 'work:/usr/absent']",
        ]
    ));
}

#[test]
fn refusals_of_machines() {
    let none = Machine {
        landlock_abi: None,
        ..user()
    };
    let error = plan_on(&home(), &none, "").unwrap_err().to_string();
    assert!(error.contains("--allow-degraded landlock"), "{error}");
    let plan = plan_on(&home(), &none, "allow-degraded = ['landlock']").unwrap();
    assert!(plan.landlock.is_none());
    assert!(plan.to_string().contains("NONE"), "the plan says so");
}

#[test]
fn every_default_bound_is_there() {
    let plan = plan_on(&home(), &user(), "").unwrap();
    assert_eq!(policy("").limits, Limits::default());
    for name in ["NPROC", "CORE", "MEMLOCK"] {
        assert!(
            plan.rlimits.iter().any(|limit| limit.name == name),
            "{name}"
        );
    }
    assert!(
        plan.cgroup.placements.is_empty(),
        "no limit asks for a group"
    );
}
