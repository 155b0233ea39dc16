//! Plans and leaves on models of the layouts that machines have.

use std::{
    io,
    path::{Path, PathBuf},
    process,
    time::{Duration, Instant},
};

use super::{
    model::Model,
    name::Life,
    sweep::sweep_in,
    tree::{Kernel, Tree},
    *,
};

const V2_MOUNT: &str = "25 30 0:23 / /cg rw - cgroup2 cgroup2 rw\n";
const V1_MOUNTS: &str = "32 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
     35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n\
     39 31 0:36 / /cg/pids rw - cgroup cgroup rw,pids\n";
const EMPTY_V2_MOUNT: &str = "41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n";

/// A limit of each kind.
const ALL: Need = Need {
    memory_bytes: Some(64 << 20),
    host_sockets: false,
    cpu_cores: Some(0.5),
    processes: Some(10),
    cpu_time: true,
    freezer: false,
};

const COUNTING: Need = Need {
    memory_bytes: None,
    host_sockets: false,
    cpu_cores: None,
    processes: None,
    cpu_time: true,
    freezer: false,
};

fn survey(model: &Model, memberships: &str, mounts: &str) -> Survey {
    Survey::of(&detect(memberships, mounts), model)
}

fn leaf_name() -> LeafName {
    LeafName::parse("10-2000-4026531836-0").unwrap()
}

const NAME: &str = "10-2000-4026531836-0";

/// Version 2 with everything at the top and a session of its own for this process.
fn unified() -> Model {
    Model::default()
        .mount("/cg", Version::V2, "cpu memory pids io")
        .group("/cg/user.slice", "cpu memory pids")
        .group("/cg/user.slice/me.scope", "cpu memory pids")
        .populate("/cg/user.slice/me.scope", &[process::id()])
}

fn unified_survey(model: &Model) -> Survey {
    survey(model, "0::/user.slice/me.scope\n", V2_MOUNT)
}

/// A machine with every controller.
pub(crate) fn full_survey() -> Survey {
    unified_survey(&unified())
}

/// Version 1 with cpu and cpuacct together, and version 2 without controllers beside it.
fn hybrid() -> Model {
    Model::default()
        .mount("/cg/cpu", Version::V1, "cpu cpuacct")
        .mount("/cg/memory", Version::V1, "memory")
        .mount("/cg/pids", Version::V1, "pids")
        .mount("/cg/unified", Version::V2, "")
        .group("/cg/memory/job", "")
}

fn hybrid_survey(model: &Model) -> Survey {
    let memberships = "4:memory:/job\n8:pids:/\n1:cpu,cpuacct:/\n0::/\n";
    survey(model, memberships, &format!("{V1_MOUNTS}{EMPTY_V2_MOUNT}"))
}

fn create(model: &Model, need: &Need, survey: &Survey) -> Leaf {
    let plan = plan(need, survey).unwrap();
    Leaf::create_in(model, &plan, &leaf_name()).unwrap()
}

fn dirs(leaf: &Leaf) -> Vec<String> {
    leaf.dirs().map(|dir| dir.display().to_string()).collect()
}

#[test]
fn nothing_needed_makes_nothing() {
    let model = unified();
    assert!(Need::default().is_empty());
    let plan = plan(&Need::default(), &unified_survey(&model)).unwrap();
    assert_eq!(plan, Plan::default());
}

#[test]
fn version_2_as_root() {
    let model = unified();
    let plan = plan(&ALL, &unified_survey(&model)).unwrap();
    let [placement] = &plan.placements[..] else {
        panic!("{plan:?}");
    };
    assert_eq!(placement.parent, Path::new("/cg/palisade"));
    assert_eq!(placement.move_self, None);
    let enabled: Vec<&Path> = placement.enable.iter().map(|e| e.dir.as_path()).collect();
    assert_eq!(
        enabled,
        [Path::new("/cg/palisade")],
        "the top hands them on already"
    );

    let leaf = Leaf::create_in(&model, &plan, &leaf_name()).unwrap();
    let dir = format!("/cg/palisade/{NAME}");
    assert_eq!(dirs(&leaf).join(" "), dir);
    assert_eq!(model.text(&format!("{dir}/memory.max")), "67108864");
    assert_eq!(model.text(&format!("{dir}/memory.swap.max")), "0");
    assert_eq!(model.text(&format!("{dir}/memory.oom.group")), "1");
    assert_eq!(model.text(&format!("{dir}/cpu.max")), "50000 100000");
    assert_eq!(model.text(&format!("{dir}/pids.max")), "10");
    let usage = Usage {
        cpu_us: Some(2500),
        cpu_system_us: Some(500),
        memory_peak_bytes: Some(8192),
        oom_kills: Some(2),
        pids_rejected: Some(5),
        pids_peak: Some(6),
    };
    assert_eq!(leaf.usage_with_processes_in(&model), usage);
    assert!(leaf.kill_in(&model));
    assert_eq!(model.text(&format!("{dir}/cgroup.kill")), "1");
    leaf.remove_in(&model, Instant::now()).unwrap();
    assert_eq!(model.below("/cg/palisade"), [""; 0]);
}

#[test]
fn the_top_is_made_to_hand_controllers_on() {
    let model = Model::default().mount("/cg", Version::V2, "cpu memory pids");
    let survey = survey(&model, "0::/\n", V2_MOUNT);
    let leaf = create(&model, &ALL, &survey);
    assert_eq!(model.text("/cg/cgroup.subtree_control"), "cpu memory pids");
    assert_eq!(
        model.text("/cg/palisade/cgroup.subtree_control"),
        "cpu memory pids"
    );
    leaf.remove_in(&model, Instant::now()).unwrap();
}

#[test]
fn version_1_as_root() {
    let model = hybrid();
    let leaf = create(&model, &ALL, &hybrid_survey(&model));
    let dir = |controller: &str| format!("/cg/{controller}/palisade/{NAME}");
    // Processor time is counted by the leaf that the bound needs anyway.
    assert_eq!(dirs(&leaf), [dir("cpu"), dir("memory"), dir("pids")]);
    let text = |controller: &str, file: &str| model.text(&format!("{}/{file}", dir(controller)));
    assert_eq!(text("memory", "memory.limit_in_bytes"), "67108864");
    assert_eq!(text("memory", "memory.memsw.limit_in_bytes"), "67108864");
    assert_eq!(text("cpu", "cpu.cfs_quota_us"), "50000");
    assert_eq!(text("pids", "pids.max"), "10");
    let usage = Usage {
        cpu_us: Some(1500),
        cpu_system_us: Some(400),
        memory_peak_bytes: Some(4096),
        oom_kills: Some(3),
        pids_rejected: Some(7),
        pids_peak: Some(9),
    };
    assert_eq!(leaf.usage_with_processes_in(&model), usage);
    assert!(!leaf.kill_in(&model), "version 1 cannot");
    leaf.remove_in(&model, Instant::now()).unwrap();
    assert_eq!(model.below("/cg/memory/palisade"), [""; 0]);
}

#[test]
fn a_process_enters_every_group() {
    let model = hybrid();
    let leaf = create(&model, &ALL, &hybrid_survey(&model));
    let pid = rustix::process::Pid::from_raw(77).unwrap();
    leaf.add_process_in(&model, pid).unwrap();
    for dir in dirs(&leaf) {
        assert_eq!(model.text(&format!("{dir}/cgroup.procs")), "77\n");
    }
    // And keeps it busy, but not the others.
    let error = leaf.remove_in(&model, Instant::now()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("does a process still live in it")
    );
}

#[test]
fn hybrid_counts_processor_time_where_a_waiting_domain_can_join() {
    let model = hybrid();
    let survey = hybrid_survey(&model);
    let leaf = create(&model, &COUNTING, &survey);
    assert_eq!(dirs(&leaf), [format!("/cg/cpu/palisade/{NAME}")]);
    assert_eq!(leaf.usage_in(&model).cpu_us, Some(1500));
    let memory = Need {
        memory_bytes: Some(1 << 20),
        ..COUNTING
    };
    let versions: Vec<Version> = (plan(&memory, &survey).unwrap().placements.iter())
        .map(|placement| placement.version)
        .collect();
    assert_eq!(versions, [Version::V1, Version::V1]);
}

#[test]
fn counting_falls_back_to_version_2() {
    let model = hybrid().only_writable(&["/cg/unified"]);
    let leaf = create(&model, &COUNTING, &hybrid_survey(&model));
    assert_eq!(dirs(&leaf), [format!("/cg/unified/palisade/{NAME}")]);
    assert_eq!(leaf.usage_in(&model).cpu_us, Some(2500));
}

/// Nothing frozen by version 1 could be killed.
#[test]
fn freezing_takes_version_2_whatever_version_1_has() {
    let freezing = Need {
        freezer: true,
        ..Need::default()
    };
    let model = hybrid().mount("/cg/freezer", Version::V1, "freezer");
    let leaf = create(&model, &freezing, &hybrid_survey(&model));
    assert_eq!(dirs(&leaf), [format!("/cg/unified/palisade/{NAME}")]);
    let frozen = format!("/cg/unified/palisade/{NAME}/guest");
    assert_eq!(
        model.below(&format!("/cg/unified/palisade/{NAME}")),
        [frozen]
    );
    leaf.remove_in(&model, Instant::now()).unwrap();
    assert!(model.below("/cg/unified/palisade").is_empty());
    let mounts = "38 31 0:35 / /cg/freezer rw - cgroup cgroup rw,freezer\n";
    let version_1 = survey(&model, "9:freezer:/\n", mounts);
    assert_eq!(
        refusal(&freezing, &version_1),
        [(Limit::Freezer, Obstacle::NoController)]
    );
    let text = plan(&freezing, &version_1).unwrap_err().unmet[0].to_string();
    assert!(text.contains("mount cgroup2"), "{text}");
    // Of version 2 a group that has no controllers, and is not made to hand any on.
    let plan = plan(&freezing, &full_survey()).unwrap();
    assert!(plan.placements[0].enable.is_empty());
    assert!(plan.placements[0].move_self.is_none());
}

#[test]
fn whoever_watches_processor_time_reads_what_the_group_counts() {
    let counter = |model: Model, survey: fn(&Model) -> Survey| {
        let leaf = create(&model, &COUNTING, &survey(&model));
        let (path, unit_ns) = leaf.cpu_counter().unwrap();
        (model.text(path.to_str().unwrap()), unit_ns)
    };
    let of_version_2 = "usage_usec 2500\nuser_usec 2000\nsystem_usec 500\n";
    assert_eq!(
        counter(unified(), unified_survey),
        (of_version_2.into(), 1000)
    );
    let of_version_1 = || hybrid().only_writable(&["/cg/cpu"]);
    assert_eq!(
        counter(of_version_1(), hybrid_survey),
        ("1500000\n".into(), 1)
    );
    let model = unified();
    let memory = Need {
        memory_bytes: Some(1 << 20),
        ..Need::default()
    };
    let leaf = create(&model, &memory, &unified_survey(&model));
    assert_eq!(leaf.cpu_counter(), None, "nobody asked");
}

#[test]
fn user_and_system_time_are_what_was_counted() {
    let counted = |cpu_us, cpu_system_us| {
        let usage = Usage {
            cpu_us,
            cpu_system_us,
            ..Usage::default()
        };
        usage.processor_us()
    };
    assert_eq!(counted(Some(10), Some(4)), Some((6, 4)));
    assert_eq!(counted(Some(10), Some(12)), Some((0, 10)), "clock ticks");
    assert_eq!(counted(Some(10), None), Some((10, 0)));
    assert_eq!(counted(None, Some(4)), None);
}

#[test]
fn a_delegated_group_is_vacated_first() {
    let model = unified().only_writable(&["/cg/user.slice/me.scope"]);
    let plan = plan(&ALL, &unified_survey(&model)).unwrap();
    let scope = "/cg/user.slice/me.scope";
    let supervisor = format!("{scope}/palisade-supervisor");
    let placement = &plan.placements[0];
    assert_eq!(placement.move_self, Some(PathBuf::from(&supervisor)));
    let leaf = Leaf::create_in(&model, &plan, &leaf_name()).unwrap();
    assert_eq!(dirs(&leaf), [format!("{scope}/palisade-{NAME}")]);
    let own = process::id();
    assert_eq!(
        model.text(&format!("{supervisor}/cgroup.procs")),
        format!("{own}\n")
    );
    assert_eq!(model.text(&format!("{scope}/cgroup.procs")), "");
    leaf.remove_in(&model, Instant::now()).unwrap();
}

#[test]
fn a_supervisor_that_has_moved_does_not_move_again() {
    let scope = "/cg/user.slice/me.scope";
    let model = unified().only_writable(&[scope]);
    let first = create(&model, &ALL, &unified_survey(&model));
    let membership = "0::/user.slice/me.scope/palisade-supervisor\n";
    let second = plan(&ALL, &survey(&model, membership, V2_MOUNT)).unwrap();
    let placement = &second.placements[0];
    assert_eq!(placement.parent, Path::new(scope));
    assert_eq!(
        (&placement.move_self, &placement.enable[..]),
        (&None, &[][..])
    );
    first.remove_in(&model, Instant::now()).unwrap();
}

#[test]
fn counting_alone_needs_no_move() {
    let model = unified().only_writable(&["/cg/user.slice/me.scope"]);
    let plan = plan(&COUNTING, &unified_survey(&model)).unwrap();
    assert_eq!(plan.placements[0].move_self, None);
    assert!(plan.placements[0].enable.is_empty());
}

#[test]
fn other_processes_in_the_own_group_send_the_leaf_one_up() {
    let shared = [process::id(), 999];
    let model = unified()
        .populate("/cg/user.slice/me.scope", &shared)
        .only_writable(&["/cg/user.slice"]);
    let leaf = create(&model, &ALL, &unified_survey(&model));
    assert_eq!(dirs(&leaf), [format!("/cg/user.slice/palisade-{NAME}")]);
}

fn refusal(need: &Need, survey: &Survey) -> Vec<(Limit, Obstacle)> {
    let unmet = plan(need, survey).unwrap_err().unmet;
    unmet
        .into_iter()
        .map(|unmet| (unmet.limit(), unmet.obstacle))
        .collect()
}

#[test]
fn other_processes_in_the_only_group_are_an_obstacle() {
    let model = unified()
        .populate("/cg/user.slice/me.scope", &[process::id(), 999])
        .only_writable(&["/cg/user.slice/me.scope"]);
    let dir = PathBuf::from("/cg/user.slice/me.scope");
    let obstacle = Obstacle::Occupied { dir };
    let expected = [Limit::Memory, Limit::Cpu, Limit::Processes].map(|l| (l, obstacle.clone()));
    assert_eq!(refusal(&ALL, &unified_survey(&model)), expected);
}

#[test]
fn a_controller_that_was_not_delegated_is_named() {
    let scope = "/cg/user.slice/me.scope";
    let model = Model::default()
        .mount("/cg", Version::V2, "cpu memory pids")
        .group("/cg/user.slice", "memory pids")
        .group(scope, "memory pids")
        .populate(scope, &[process::id()])
        .only_writable(&[scope]);
    let survey = unified_survey(&model);
    let obstacle = Obstacle::NotDelegated { dir: scope.into() };
    assert_eq!(refusal(&ALL, &survey), [(Limit::Cpu, obstacle)]);
    let rest = Need {
        cpu_cores: None,
        ..ALL
    };
    create(&model, &rest, &survey)
        .remove_in(&model, Instant::now())
        .unwrap();
}

#[test]
fn nothing_writable_names_the_own_group() {
    let model = unified().only_writable(&[]);
    let obstacle = Obstacle::NotWritable {
        dir: "/cg/user.slice/me.scope".into(),
    };
    let limits = [Limit::Memory, Limit::Cpu, Limit::Processes, Limit::CpuTime];
    let expected = limits.map(|limit| (limit, obstacle.clone()));
    assert_eq!(refusal(&ALL, &unified_survey(&model)), expected);
}

#[test]
fn a_missing_controller_is_named() {
    let model = Model::default().mount("/cg", Version::V2, "memory pids");
    let unified = survey(&model, "0::/\n", V2_MOUNT);
    assert_eq!(
        refusal(&ALL, &unified),
        [(Limit::Cpu, Obstacle::NoController)]
    );
    let none = Survey::default();
    assert_eq!(
        refusal(&COUNTING, &none),
        [(Limit::CpuTime, Obstacle::NoController)]
    );
}

#[test]
fn a_refusal_says_what_is_missing_and_what_to_do() {
    let memory = Need {
        memory_bytes: Some(1),
        cpu_cores: Some(1.0),
        ..Need::default()
    };
    let survey = Survey::default();
    let text = plan(&memory, &survey).unwrap_err().to_string();
    let expected = "host: this machine cannot hold a limit on memory: no mounted cgroup hierarchy \
         has the memory controller (mount cgroup2 on /sys/fs/cgroup, or boot with \
         cgroup_enable=memory); on cpu: no mounted cgroup hierarchy has the cpu controller \
         (mount cgroup2 on /sys/fs/cgroup, or boot with cgroup_enable=cpu)";
    assert_eq!(text, expected);
    let model = unified().only_writable(&[]);
    let text = plan(&ALL, &unified_survey(&model)).unwrap_err().to_string();
    assert!(text.contains("/cg/user.slice/me.scope is not"), "{text}");
    assert!(
        text.contains("systemd-run --user --scope -p Delegate=yes"),
        "{text}"
    );
}

#[test]
fn version_1_delegated() {
    let model = hybrid().only_writable(&["/cg/memory/job"]);
    let memory = Need {
        memory_bytes: Some(4096),
        ..Need::default()
    };
    let leaf = create(&model, &memory, &hybrid_survey(&model));
    assert_eq!(dirs(&leaf), [format!("/cg/memory/job/palisade-{NAME}")]);
    let obstacle = Obstacle::NotWritable {
        dir: "/cg/pids".into(),
    };
    let pids = Need {
        processes: Some(1),
        ..Need::default()
    };
    let refused = refusal(&pids, &hybrid_survey(&model));
    assert_eq!(refused, [(Limit::Processes, obstacle)]);
}

#[test]
fn the_top_of_a_cgroup_namespace_is_no_root() {
    let container = Model::default()
        .mount("/above", Version::V2, "cpu memory pids")
        .group("/above/cg", "cpu memory pids")
        .populate("/above/cg", &[process::id()])
        .only_writable(&["/above/cg"]);
    let mount = "25 30 0:23 / /above/cg rw - cgroup2 cgroup2 rw\n";
    let plan = plan(&ALL, &survey(&container, "0::/\n", mount)).unwrap();
    let placement = &plan.placements[0];
    assert_eq!(
        placement.move_self,
        Some("/above/cg/palisade-supervisor".into())
    );
    assert_eq!(placement.parent, Path::new("/above/cg"));
}

#[test]
fn what_a_failed_creation_made_is_undone() {
    let model = hybrid().broken("pids.max");
    let plan = plan(&ALL, &hybrid_survey(&model)).unwrap();
    let error = Leaf::create_in(&model, &plan, &leaf_name()).unwrap_err();
    assert!(matches!(error, CreateError::Set { .. }), "{error:?}");
    for controller in ["cpu", "memory", "pids"] {
        let collection = format!("/cg/{controller}/palisade");
        assert_eq!(model.below(&collection), [""; 0]);
    }
}

#[test]
fn a_name_in_use_is_an_error_and_stays() {
    let model = unified();
    let plan = plan(&ALL, &unified_survey(&model)).unwrap();
    let first = Leaf::create_in(&model, &plan, &leaf_name()).unwrap();
    let error = Leaf::create_in(&model, &plan, &leaf_name()).unwrap_err();
    assert!(matches!(error, CreateError::MakeGroup { .. }), "{error:?}");
    assert_eq!(model.below("/cg/palisade"), dirs(&first));
}

#[test]
fn files_that_old_kernels_lack_are_reported() {
    let model = hybrid().without("memory.memsw.limit_in_bytes");
    let leaf = create(&model, &ALL, &hybrid_survey(&model));
    let skipped: Vec<&str> = leaf.skipped().iter().map(|setting| setting.file).collect();
    assert_eq!(skipped, ["memory.memsw.limit_in_bytes"]);
    let strict = hybrid().without("memory.limit_in_bytes");
    let plan = plan(&ALL, &hybrid_survey(&strict)).unwrap();
    let error = Leaf::create_in(&strict, &plan, &leaf_name()).unwrap_err();
    assert!(matches!(error, CreateError::Set { .. }), "{error:?}");
}

#[test]
fn a_busy_group_is_tried_again_for_a_while() {
    let model = unified();
    let leaf = create(&model, &ALL, &unified_survey(&model));
    let dir = leaf.dirs().next().unwrap().to_owned();
    model.busy(&dir, 3);
    let long = Instant::now() + Duration::from_secs(3600);
    leaf.remove_in(&model, long).unwrap();
    assert_eq!(*model.waits.borrow(), 3);
    // Gone is gone, whoever did it.
    leaf.remove_in(&model, long).unwrap();
}

#[test]
fn a_group_that_stays_busy_is_an_error() {
    let model = hybrid();
    let leaf = create(&model, &ALL, &hybrid_survey(&model));
    let dir = PathBuf::from(format!("/cg/memory/palisade/{NAME}"));
    model.busy(&dir, 3);
    assert!(leaf.remove_in(&model, Instant::now()).is_err());
    assert_eq!(
        model.below("/cg/pids/palisade"),
        [""; 0],
        "the others are gone"
    );
    assert_eq!(
        model.below("/cg/cpu/palisade"),
        [""; 0],
        "the others are gone"
    );
}

const STAT: &str = "10 (a) b ) S 1 10 10 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 2000 9 9 9\n";

fn stat(pid: u32) -> io::Result<String> {
    match pid {
        10 => Ok(STAT.to_owned()),
        11 => Ok(STAT.replace(" S ", " Z ")),
        12 => Err(io::ErrorKind::PermissionDenied.into()),
        13 => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

#[test]
fn owners_are_told_apart_by_their_start() {
    let observer = leaf_name().owner();
    let life = |name: &str| LeafName::parse(name).unwrap().owner().life(observer, stat);
    assert_eq!(life("10-2000-4026531836-5"), Life::Lives);
    assert_eq!(life("10-1999-4026531836-5"), Life::Ended, "a later process");
    assert_eq!(life("11-2000-4026531836-5"), Life::Ended, "a zombie");
    assert_eq!(life("12-2000-4026531836-5"), Life::Unknown);
    assert_eq!(life("13-2000-4026531836-5"), Life::Ended);
    assert_eq!(life("14-2000-4026531836-5"), Life::Ended);
    assert_eq!(life("14-2000-1-5"), Life::Unknown, "another pid namespace");
}

#[test]
fn names_of_leaves() {
    assert_eq!(leaf_name().to_string(), NAME);
    for other in [
        "init.scope",
        "1-2-3",
        "1-2-3-4-5",
        "1-2-3-x",
        "-1-2-3-4",
        "cgroup.procs",
    ] {
        assert_eq!(LeafName::parse(other), None, "{other}");
    }
    let owner = Owner::this_process().unwrap();
    assert_ne!(owner.next_name(), owner.next_name());
    let parsed = LeafName::parse(&owner.next_name().to_string()).unwrap();
    let stat = |pid| Kernel.read(Path::new(&format!("/proc/{pid}/stat")));
    assert_eq!(parsed.owner().life(owner, stat), Life::Lives);
}

#[test]
fn a_sweep_removes_what_ended_owners_left() {
    let model = unified();
    let plan = plan(&ALL, &unified_survey(&model)).unwrap();
    let names = [
        "10-2000-4026531836-1",
        "14-2000-4026531836-1",
        "14-2000-4026531836-2",
        "14-2000-1-1",
    ];
    for name in names {
        let _ = Leaf::create_in(&model, &plan, &LeafName::parse(name).unwrap()).unwrap();
    }
    let model = model
        .populate("/cg/palisade/14-2000-4026531836-2", &[500])
        .group("/cg/palisade/somebody-else", "");
    let observer = leaf_name().owner();
    let found = sweep_in(&model, &plan, observer, stat).unwrap();
    let expected = Sweep {
        removed: 1,
        occupied: 1,
    };
    assert_eq!(found, expected);
    let left = model.below("/cg/palisade");
    assert!(!left.contains(&"/cg/palisade/14-2000-4026531836-1".to_owned()));
    assert_eq!(left.len(), 4);
}

#[test]
fn a_sweep_where_nothing_ever_was_finds_nothing() {
    let model = unified();
    let plan = plan(&ALL, &unified_survey(&model)).unwrap();
    let found = sweep_in(&model, &plan, leaf_name().owner(), stat).unwrap();
    assert_eq!(found, Sweep::default());
}

/// The whole way on the kernel's own tree, whatever layout it has.
#[test]
#[ignore = "needs root and a writable cgroup hierarchy"]
fn a_leaf_of_this_machine() {
    let survey = Survey::of_this_process().unwrap();
    let name = Owner::this_process().unwrap().next_name();
    let leaf = Leaf::create(&plan(&ALL, &survey).unwrap(), &name).unwrap();
    let mut guest = process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = i32::try_from(guest.id()).unwrap();
    leaf.add_process(rustix::process::Pid::from_raw(pid).unwrap())
        .unwrap();
    let membership = Kernel
        .read(Path::new(&format!("/proc/{pid}/cgroup")))
        .unwrap();
    let inside = membership.matches(&name.to_string()).count();
    assert_eq!(inside, leaf.dirs().count(), "{membership}");
    guest.kill().unwrap();
    guest.wait().unwrap();
    let usage = leaf.usage();
    assert!(
        usage.cpu_us.is_some() && usage.oom_kills == Some(0),
        "{usage:?}"
    );
    leaf.remove().unwrap();
    assert!(leaf.dirs().all(|dir| !dir.exists()));
}

#[test]
fn a_meter_leaves_out_what_can_be_let_go() {
    let files = |all: &'static str, pages: &'static str| {
        [
            (all, "9000\n".to_owned()),
            ("memory.stat", format!("anon 1\n{pages} 2000\nfile 5\n")),
        ]
    };
    let of = |version, files: [(&str, String); 2]| {
        let dir = tempfile::tempdir().unwrap();
        let meter = MemoryMeter::new(version, dir.path().to_owned());
        for (name, text) in files {
            assert_eq!(meter.bytes(), None, "nothing tells");
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        meter.bytes()
    };
    let second = files("memory.current", "inactive_file");
    assert_eq!(of(Version::V2, second), Some(7000));
    let first = files("memory.usage_in_bytes", "total_inactive_file");
    assert_eq!(of(Version::V1, first), Some(7000));
}
