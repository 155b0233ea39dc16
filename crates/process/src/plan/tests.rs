//! Rules of the plan that are not the layout's.

use super::*;
use crate::{
    host::table::{HOME, Table},
    seccomp::HostNetwork,
};
use palisade_wall::Command;
use std::sync::OnceLock;

/// Of a native program.
fn make_plan(
    policy: &Policy,
    command: &Command,
    machine: &Machine,
    surroundings: &Surroundings,
    host: &dyn Host,
) -> Result<Plan, PlanError> {
    let spec = Spec::new(policy, command, machine, surroundings);
    super::make_plan(&spec, host, &Options::default())
}

fn home() -> Table {
    Table::with_home()
        .folder("/home/ada/work")
        .file("/home/ada/script", "")
}

fn machine(tier: Tier, uid: u32, gid: u32) -> Machine {
    Machine {
        tier,
        uid,
        gid,
        landlock_abi: Some(6),
        memfd_noexec: true,
        quotas: crate::machine::Quotas::default(),
        processors: 2,
        cgroups: OnceLock::new(),
        filtered: false.into(),
        seccomp: true.into(),
        stays: true.into(),
    }
}

fn user() -> Machine {
    machine(Tier::UserNamespace, 1001, 1002)
}

fn policy(text: &str) -> Policy {
    Policy::from_toml(text, "policy.toml", Path::new(HOME)).unwrap()
}

fn surroundings(environment: &[(&str, &str)]) -> Surroundings {
    let environment = environment
        .iter()
        .map(|(name, value)| (name.into(), value.into()));
    Surroundings {
        cwd: Some(HOME.into()),
        environment: environment.collect(),
        ..Surroundings::default()
    }
}

fn plan_in(surroundings: &Surroundings, program: &str, text: &str) -> Plan {
    make_plan(
        &policy(text),
        &Command::new(program),
        &user(),
        surroundings,
        &home(),
    )
    .unwrap()
}

fn plan(text: &str) -> Plan {
    plan_in(&surroundings(&[]), "program", text)
}

fn texts(words: &[OsString]) -> Vec<&str> {
    words.iter().map(|word| word.to_str().unwrap()).collect()
}

#[test]
fn the_guest_starts_where_it_can_see_something() {
    let cwd = |text: &str| plan(text).cwd;
    assert_eq!(cwd(""), Path::new("/"));
    assert_eq!(cwd("[grants]\nread = ['.']"), Path::new(HOME));
    assert_eq!(
        cwd("[grants]\nread = ['script']"),
        Path::new(HOME),
        "so that `script` is found"
    );
    assert_eq!(cwd("[grants]\nread = ['.:/w']"), Path::new("/"));
    assert_eq!(
        cwd("cwd = '/usr'\n[grants]\nread = ['.']"),
        Path::new("/usr")
    );
    let lost = Surroundings {
        cwd: None,
        ..surroundings(&[])
    };
    assert_eq!(plan_in(&lost, "program", "").cwd, Path::new("/"));
}

/// What was prepared for a plan is not for a copy of it, which may have been changed. (Copies of a remembered plan differ in
/// arguments alone: `memory/tests.rs`.)
#[test]
fn a_copy_is_another_plan() {
    let plan = plan("");
    let (noted, copy) = (plan.identity.noted(), plan.clone());
    assert!(!noted.is(&copy.identity));
    assert!(noted.is(&plan.identity));
}

/// The guest of such a plan has some of the processors of whoever launches it.
#[test]
fn what_the_launching_thread_decides_is_not_prepared() {
    let launcher = crate::Launcher::new(Machine::probe()).park_ahead();
    let prepared = |plan: &Plan| crate::launch::Prepared::of(plan, &launcher).unwrap();
    let mut plan = plan("");
    assert!(prepared(&plan).is_some());
    plan.affinity = Some(1);
    assert!(prepared(&plan).is_none());
}

#[test]
fn a_program_with_a_slash_is_taken_as_it_is() {
    let candidates =
        |program: &str, text: &str| plan_in(&surroundings(&[]), program, text).candidates;
    assert_eq!(texts(&candidates("./x", "")), ["./x"]);
    assert_eq!(texts(&candidates("/x", "")), ["/x"]);
    assert_eq!(
        texts(&candidates("x", "[grants]\nenv = ['PATH=/a:/b']")),
        ["/a/x", "/b/x"]
    );
}

/// The host's own PATH leads to places that the guest may not have.
#[test]
fn the_host_s_path_is_not_the_guest_s() {
    let host = surroundings(&[("PATH", "/home/ada/bin")]);
    assert!(
        texts(&plan_in(&host, "x", "").candidates)
            .iter()
            .all(|path| !path.starts_with(HOME))
    );
    let passed_on = plan_in(&host, "x", "[grants]\nenv = ['PATH']");
    assert_eq!(texts(&passed_on.candidates), ["/home/ada/bin/x"]);
}

#[test]
fn the_environment_is_a_short_list() {
    let host = surroundings(&[
        ("TERM", "xterm"),
        ("LC_ALL", "C"),
        ("LC_TOKEN", "secret"),
        ("HOME", "/home/ada"),
        ("LD_PRELOAD", "/evil.so"),
        ("TOKEN", "secret"),
        ("A", "from the host"),
    ]);
    let plan = plan_in(&host, "x", "[grants]\nenv = ['A', 'B=', 'ABSENT']");
    let own = ["PATH=", "USER=", "LOGNAME="];
    let others: Vec<_> = texts(&plan.environment)
        .into_iter()
        .filter(|variable| !own.iter().any(|own| variable.starts_with(own)))
        .collect();
    assert_eq!(
        others,
        [
            "A=from the host",
            "B=",
            "HOME=/tmp",
            "LC_ALL=C",
            "TERM=xterm"
        ]
    );
}

#[test]
fn profiles_tell_runtimes_how_much_memory_there_is() {
    let variables = |text: &str| texts(&plan(text).environment).join("\n");
    let of = |profile: &str| {
        let accepted = "allow-degraded = ['memory']\n";
        variables(&format!(
            "profiles = ['{profile}']\n{accepted}[limits]\nmemory = '512M'"
        ))
    };
    assert!(of("java").contains("-XX:MaxRAM=536870912"));
    assert!(of("node").contains("--max-old-space-size=384"));
    assert!(variables("profiles = ['python']").contains("PYTHONDONTWRITEBYTECODE=1"));
    assert!(
        !variables("profiles = ['java', 'node']").contains("OPTIONS"),
        "nothing to tell without a limit"
    );
}

#[test]
fn landlock_is_what_the_kernel_has() {
    let of = |abi| {
        let machine = Machine {
            landlock_abi: Some(abi),
            ..user()
        };
        let policy = policy("[grants]\nwrite = ['work']");
        let plan = make_plan(
            &policy,
            &Command::new("x"),
            &machine,
            &surroundings(&[]),
            &home(),
        )
        .unwrap();
        let landlock = plan.landlock.unwrap();
        (
            landlock.network != 0,
            landlock.scopes != 0,
            landlock.files.count_ones(),
        )
    };
    assert_eq!(
        [of(1), of(3), of(5), of(6)].map(|(network, scopes, _)| (network, scopes)),
        [(false, false), (false, false), (true, false), (true, true)]
    );
    assert_eq!(of(1).2 + 1, of(2).2, "REFER came with 2");
}

#[test]
fn limits_of_processes_leave_room_for_init() {
    let limit = |text: &str, name: &str| {
        plan(text)
            .rlimits
            .iter()
            .find(|limit| limit.name == name)
            .map(|limit| limit.value)
    };
    assert_eq!(limit("[limits]\nprocesses = 1", "NPROC"), Some(2));
    assert!(
        limit("", "NPROC").is_some_and(|most| most < 10_000),
        "a bomb stays inside"
    );
    assert_eq!(limit("", "CORE"), Some(0));
    assert_eq!(limit("", "NOFILE"), None);
    assert!(
        limit("[limits]\ncpu-time = '1500ms'", "CPU").is_some_and(|seconds| seconds >= 2),
        "never before init's own clock"
    );
}

/// The others end by their init, which would not run.
#[test]
fn what_has_no_namespaces_is_not_frozen() {
    let bare = machine(Tier::Bare, 1000, 1000);
    let refused = bounds::share(&policy(""), &bare, false, 0, true);
    assert!(matches!(refused, Err(PlanError::FrozenInit)));
}

/// Else a worker whose guest has one process starts no thread where a group counts, as it does for other limits' sake.
#[test]
fn the_group_has_room_for_what_a_runner_starts_itself() {
    let machine = Machine {
        cgroups: cgroup::tests::full_survey().into(),
        ..user()
    };
    let share = |own_threads| {
        let policy = policy("[limits]\nprocesses = 1\nmemory = '64M'");
        let share = bounds::share(&policy, &machine, false, own_threads, false).unwrap();
        (share.need.processes, share.processes)
    };
    assert_eq!(
        share(0),
        (Some(2), 3),
        "init and the guest; the namespace's lies one behind"
    );
    assert_eq!(share(16), (Some(18), 19));
}

#[test]
fn sockets_are_as_many_as_init_knows() {
    let plan = |count: usize| {
        let folders = (0..count).map(|number| format!("/home/ada/work/{number}"));
        let host = folders.clone();
        let host = host.fold(home(), |host, path| host.folder(&path));
        let grants: Vec<_> = folders.map(|path| format!("'{path}'")).collect();
        let text = format!("[grants]\nwrite = ['work']\nipc = [{}]", grants.join(", "));
        let command = Command::new("program");
        make_plan(&policy(&text), &command, &user(), &surroundings(&[]), &host)
    };
    plan(64).unwrap();
    let refused = plan(65).unwrap_err().to_string();
    assert!(refused.starts_with("policy: 65 sockets and "), "{refused}");
}

#[test]
fn what_profiles_grant_is_told_as_far_as_it_is_there() {
    let host = home()
        .folder("/home/ada/.cargo")
        .folder("/home/ada/.cargo/registry");
    let text = "profiles = ['rust']\n[grants]\nread = ['work']";
    let command = Command::new("program");
    let surroundings = surroundings(&[("HOME", HOME)]);
    let plan = make_plan(&policy(text), &command, &user(), &surroundings, &host).unwrap();
    let told: Vec<_> = plan.of_profiles.iter().map(|grant| &grant.host).collect();
    assert_eq!(told, [Path::new("/home/ada/.cargo/registry")]);
}

#[test]
fn what_is_counted_for_a_user_stays_half_with_the_starter() {
    let of = |quotas| {
        let machine = Machine { quotas, ..user() };
        let command = Command::new("program");
        let plan = make_plan(&policy(""), &command, &machine, &surroundings(&[]), &home());
        let plan = plan.unwrap();
        let names = ["NPROC", "MEMLOCK", "SIGPENDING", "MSGQUEUE"];
        names.map(|name| {
            let mut limits = plan.rlimits.iter();
            limits.find(|limit| limit.name == name).unwrap().value
        })
    };
    let few = crate::machine::Quotas {
        processes: Some(200),
        pending_signals: Some(1000),
        message_queue_bytes: Some(819_200),
        locked_bytes: Some(65_536),
    };
    assert_eq!(of(few), [101, 32_768, 500, 409_600]);
    let unlimited = of(crate::machine::Quotas::default());
    assert!(
        unlimited.iter().all(|value| *value < 1 << 24),
        "{unlimited:?}"
    );
}

/// What the guest may use, and a little for the root's own files, which lie there too.
#[test]
fn the_root_is_as_large_as_what_the_guest_may_write_to_it() {
    for (text, tmp_bytes, files) in [("64M", 64 << 20, 16384), ("4K", 4096, 1024)] {
        let plan = plan(&format!("[limits]\ntmp-size = '{text}'"));
        let Step::MakeRoot { size_bytes, inodes } = plan.steps[0] else {
            panic!("{:?}", plan.steps[0]);
        };
        let room = tmp_bytes..tmp_bytes + (1 << 20);
        assert!(room.contains(&size_bytes), "{text}: {size_bytes}");
        assert!((files..files + 256).contains(&inodes), "{text}: {inodes}");
    }
}

#[test]
fn setuid_is_guarded_where_files_outlive_the_guest() {
    assert!(!plan("").seccomp.unwrap().guard_setuid);
    assert!(
        !plan("[grants]\nread = ['work']")
            .seccomp
            .unwrap()
            .guard_setuid
    );
    assert!(
        plan("[grants]\nwrite = ['work']")
            .seccomp
            .unwrap()
            .guard_setuid
    );
}

#[test]
fn terminals_are_made_where_one_is_wanted() {
    let has_terminals = |plan: &Plan| {
        let targets = plan.steps.iter().filter_map(|step| match step {
            Step::MountTerminals { target } | Step::Mount { target, .. } => Some(target.as_path()),
            _ => None,
        });
        let targets: Vec<_> = targets.collect();
        let has = |path| targets.contains(&Path::new(path));
        assert_eq!(has("/dev/pts"), has("/dev/tty"));
        has("/dev/pts")
    };
    assert!(!has_terminals(&plan("")));
    assert!(has_terminals(&plan("[grants]\ndevice = ['pts']")));
    let on_a_terminal = Surroundings {
        terminal: true,
        ..surroundings(&[])
    };
    assert!(has_terminals(&plan_in(&on_a_terminal, "x", "")));
}

#[test]
fn the_host_is_left_after_everything_is_mounted() {
    let text = "[grants]\nwrite = ['work']\ndevice = ['pts', '/dev/fuse']\nprotect = ['work/x']";
    let steps = plan(text).steps;
    let leave = steps
        .iter()
        .position(|step| matches!(step, Step::LeaveHost { .. }))
        .unwrap();
    assert!(matches!(steps[0], Step::MakeRoot { .. }));
    assert!(
        steps[leave + 1..]
            .iter()
            .all(|step| matches!(step, Step::NameHost { .. } | Step::Guard { .. }))
    );
}

#[test]
fn a_network_grant_decides_which_calls_the_supervisor_answers() {
    let network = |text| {
        let plan = plan(text);
        plan.seccomp.and_then(|groups| groups.host_network)
    };
    assert_eq!(network(""), None);
    let tcp = HostNetwork {
        tcp: true,
        brokered: true,
        sends: true,
        ..HostNetwork::default()
    };
    assert_eq!(network("grants.connect = ['tcp://10.0.0.1:80']"), Some(tcp));
    let udp = HostNetwork {
        udp: true,
        brokered: true,
        listens: true,
        ..HostNetwork::default()
    };
    assert_eq!(network("grants.listen = ['udp://127.0.0.1:53']"), Some(udp));
    let sending = HostNetwork {
        listens: false,
        sends: true,
        messages: true,
        ..udp
    };
    assert_eq!(
        network("grants.connect = ['udp://10.0.0.1:53']"),
        Some(sending)
    );
}

#[test]
fn a_guest_that_meets_others_has_what_they_pass_to_it_judged() {
    let host = home().socket("/home/ada/socket");
    let network = |text: &str| {
        let (policy, command) = (policy(text), Command::new("program"));
        let plan = make_plan(&policy, &command, &user(), &surroundings(&[]), &host);
        plan.unwrap().seccomp.unwrap().host_network
    };
    let met = HostNetwork {
        brokered: true,
        sends: true,
        ..HostNetwork::default()
    };
    let ipc = "grants.write = ['/home/ada/work']\ngrants.ipc = ['/home/ada/work']";
    assert_eq!(network(ipc), Some(met));
    assert_eq!(network("grants.write = ['/home/ada/work']"), None);
    for by in [
        "read = ['socket']",
        "write = ['socket:/s']",
        "connect = ['unix:socket']",
    ] {
        assert_eq!(network(&format!("[grants]\n{by}")), Some(met), "{by}");
    }
}

#[test]
fn sockets_that_only_come_in_need_no_supervisor_who_answers() {
    let brokered = |filtered: bool| {
        let machine = Machine {
            filtered: filtered.into(),
            ..user()
        };
        let plan = make_plan(
            &policy("grants.listen = ['tcp://127.0.0.1:80,ready', 'inherited']"),
            &Command::new("x"),
            &machine,
            &surroundings(&[]),
            &home(),
        );
        plan.unwrap().is_brokered()
    };
    assert!(brokered(false));
    assert!(!brokered(true), "somebody around may answer already");
}

#[test]
fn a_granted_name_is_in_the_domains_own_hosts_file() {
    let plan = plan("grants.connect = ['tcp://api.example.com:443']");
    let hosts = plan.steps.iter().find_map(|step| match step {
        Step::WriteFile { path, content, .. } if path == Path::new("/etc/hosts") => Some(content),
        _ => None,
    });
    let hosts = String::from_utf8_lossy(hosts.unwrap());
    assert!(hosts.contains("93.184.216.34 api.example.com\n"), "{hosts}");
}

#[test]
fn a_name_that_nobody_knows_has_no_plan() {
    let error = make_plan(
        &policy("grants.connect = ['tcp://nowhere.test:443']"),
        &Command::new("x"),
        &user(),
        &surroundings(&[]),
        &home(),
    )
    .unwrap_err();
    assert!(matches!(error, PlanError::Network(_)), "{error}");
}

#[test]
fn a_policy_that_contradicts_itself_has_no_plan() {
    let policy = policy("[grants]\nread = ['work']\nprotect = ['work/x']");
    let error = make_plan(
        &policy,
        &Command::new("x"),
        &user(),
        &surroundings(&[]),
        &home(),
    )
    .unwrap_err();
    assert!(matches!(error, PlanError::Policy(_)), "{error}");
}

#[test]
fn every_filter_that_a_plan_can_ask_for_compiles() {
    for (tier, text) in [
        (Tier::Privileged, ""),
        (Tier::UserNamespace, "[grants]\nwrite = ['work']"),
        (Tier::Bare, "[grants]\nread = ['script']"),
    ] {
        let plan = make_plan(
            &policy(text),
            &Command::new("x"),
            &machine(tier, 1, 1),
            &surroundings(&[]),
            &home(),
        )
        .unwrap();
        assert!(
            !plan.seccomp.unwrap().program().unwrap().is_empty(),
            "{tier:?}"
        );
    }
}

#[test]
fn an_output_file_gives_nothing_more_when_opened_anew() {
    /// The numbers of landlock(7).
    const EXECUTE: u64 = 1;
    const READ: u64 = 1 << 2;
    const REFER: u64 = 1 << 13;
    let handled = |files| plan("").landlock.unwrap().with_streams(files).files;
    let none = StreamFiles::default();
    assert_eq!(handled(none), 0, "other streams cost nothing");
    assert_eq!(handled(OUTPUT), EXECUTE | READ | REFER);
}

#[test]
fn init_looks_at_nothing_where_the_input_may_stall_it() {
    let served = StreamFiles {
        may_stall: true,
        ..StreamFiles::default()
    };
    let looks = |text: &str, files| plan(text).seccomp_groups(files).unwrap().observed;
    assert!(looks("", StreamFiles::default()));
    assert!(!looks("", served));
    // A broker has a thread of its own for that.
    assert!(looks("grants.connect = ['tcp://192.0.2.1:80']", served));
}

const OUTPUT: StreamFiles = StreamFiles {
    output: true,
    may_stall: false,
};

#[test]
fn nothing_but_the_one_program_is_executed_whatever_is_granted() {
    const EXECUTE: u64 = 1;
    let program = Path::new("/bin/true");
    let mut plan = plan("[grants]\nwrite = ['work']\nexec = ['work', '/tmp']");
    plan.execute_only(program);
    for step in plan.steps.iter() {
        let is_held = match step {
            Step::Mount { attributes, .. } => *attributes == *attributes | Attributes::NOEXEC,
            Step::Remount { set, clear, .. } => {
                *set == *set | Attributes::NOEXEC && *clear == clear.without(Attributes::NOEXEC)
            }
            _ => true,
        };
        assert!(is_held, "{step}");
    }
    for files in [StreamFiles::default(), OUTPUT] {
        let landlock = plan.landlock.clone().unwrap().with_streams(files);
        assert_ne!(landlock.files & EXECUTE, 0);
        let executes = landlock.rules.iter();
        let executes = executes.filter(|rule| rule.rights & EXECUTE != 0);
        let places: Vec<_> = executes.map(|rule| rule.path.as_path()).collect();
        assert_eq!(places, [program]);
    }
}

/// Debian 12's kernel has interface 2: no ports, no scopes.
#[test]
fn an_old_kernel_is_sent_no_empty_ruleset() {
    let made_on = |landlock_abi, text| {
        let machine = Machine {
            landlock_abi: Some(landlock_abi),
            ..user()
        };
        let plan = make_plan(
            &policy(text),
            &Command::new("x"),
            &machine,
            &surroundings(&[]),
            &home(),
        )
        .unwrap();
        crate::launch::encode::encode_confinement(&plan, &[], StreamFiles::default(), None).len()
    };
    let without_ruleset = made_on(2, "");
    assert!(made_on(6, "") > without_ruleset, "scopes");
    assert!(made_on(4, "") > without_ruleset, "ports");
    assert!(
        made_on(2, "[grants]\nwrite = ['work']") > without_ruleset,
        "special files"
    );
    assert_eq!(made_on(1, ""), without_ruleset);
}

#[test]
fn memory_files_are_never_executable() {
    let sealed = |tier, memfd_noexec| {
        let machine = Machine {
            memfd_noexec,
            ..machine(tier, 0, 0)
        };
        let policy = policy("");
        let layout = Layout::resolve(&policy, &home(), Check::Contents).unwrap();
        calls::groups(&policy, &machine, &layout).memfd_must_be_sealed
    };
    assert!(
        !sealed(Tier::Privileged, true),
        "the kernel's own setting holds it"
    );
    assert!(sealed(Tier::Privileged, false), "before Linux 6.3");
    assert!(sealed(Tier::UserNamespace, true), "only root can set it");
}

/// A guest of an ordinary user's runs as that user, who owns the file.
#[test]
fn a_stream_that_is_the_user_s_file_does_not_become_setuid() {
    let guarded = |tier, files| {
        let plan = Plan { tier, ..plan("") };
        plan.seccomp_groups(files).unwrap().guard_chmod
    };
    assert!(guarded(Tier::UserNamespace, OUTPUT));
    assert!(guarded(Tier::Bare, OUTPUT));
    assert!(!guarded(Tier::UserNamespace, StreamFiles::default()));
    assert!(
        !guarded(Tier::Privileged, OUTPUT),
        "its own user owns nothing"
    );
}

#[test]
fn a_socket_that_is_handed_over_needs_no_grant() {
    let plan = |internet| {
        let handed = Surroundings {
            handed: vec![HandedListener {
                name: "http".into(),
                internet,
            }],
            ..surroundings(&[])
        };
        plan_in(&handed, "x", "")
    };
    let local = plan(false);
    assert_eq!(local.count_listeners(), 1);
    assert_eq!(local.seccomp.unwrap().host_network, None);
    assert!(local.to_string().contains("pass on the local socket http"));
    let network = plan(true).seccomp.unwrap().host_network.unwrap();
    assert!(network.tcp && network.listens && !network.udp);
}

/// A host with the folders `/data` and `/data/real`.
fn beside_data() -> Table {
    home().folder("/data").folder("/data/real")
}

fn plan_beside_data(grants: &str) -> Result<Plan, PlanError> {
    let policy = policy(&format!("[grants]\n{grants}"));
    let command = Command::new("x");
    make_plan(
        &policy,
        &command,
        &user(),
        &surroundings(&[]),
        &beside_data(),
    )
}

/// The table's resolver reads `/etc/hosts`, and executes a program in `/usr/bin`.
#[test]
fn what_a_resolver_reads_is_kept_from_guests_whose_names_it_looks_up() {
    for name in ["www.example.com", "*.example.com"] {
        for folder in ["/etc", "/usr/bin"] {
            let grants = format!("write = ['{folder}']\nconnect = ['tcp://{name}:443']");
            let refused = plan_beside_data(&grants);
            let is_refused = matches!(refused, Err(PlanError::ResolverInReach { .. }));
            assert!(is_refused, "{grants}: {refused:?}");
        }
        let other = format!("write = ['/data']\nconnect = ['tcp://{name}:443']");
        assert!(plan_beside_data(&other).is_ok(), "{other}");
    }
    let address = "write = ['/etc']\nconnect = ['tcp://192.0.2.1:443']";
    assert!(plan_beside_data(address).is_ok());
}

#[test]
fn whoever_reads_files_again_is_told_which_a_guest_could_change() {
    let paths = ["/etc/hosts", "/data/real/file"]
        .map(PathBuf::from)
        .map(Relied::Content);
    let find = |grants: &str| {
        let policy = policy(&format!("[grants]\n{grants}"));
        find_changeable(&policy, paths.clone(), &beside_data()).unwrap()
    };
    assert_eq!(find("write = ['/data']"), Some(paths[1].clone()));
    assert_eq!(find("write = ['/data']\nread = ['/data/real']"), None);
}

#[test]
fn a_grant_that_may_be_missing_grants_nothing_where_it_is() {
    let with = plan("[grants]\nread-if-there = ['work', 'absent', 'script/below']");
    assert_eq!(
        with.absent,
        ["/home/ada/absent", "/home/ada/script/below"].map(PathBuf::from)
    );
    assert!(with.shows(Path::new("/home/ada/work")));
    assert!(!with.shows(Path::new("/home/ada/absent")));
    let shown = with.to_string();
    assert!(
        shown.contains("absent    /home/ada/absent is not there"),
        "{shown}"
    );
    let all_there = plan("[grants]\nread-if-there = ['work']");
    let steps = |plan: &Plan| format!("{:?}", plan.steps);
    assert_eq!(steps(&all_there), steps(&plan("[grants]\nread = ['work']")));
    let refused = make_plan(
        &policy("[grants]\nread-if-there = ['absent:/']"),
        &Command::new("x"),
        &user(),
        &surroundings(&[]),
        &home(),
    );
    assert!(matches!(refused, Err(PlanError::Missing { .. })));
}

/// A read grant inside a write grant withholds.
#[test]
fn what_is_missing_in_a_writable_folder_is_kept_from_coming_into_being() {
    let plan = plan(
        "[grants]\nwrite = ['work']\nread-if-there = ['work/vendor/x', '/a:/home/ada/work/b']",
    );
    let held: Vec<_> = plan
        .placeholders
        .iter()
        .map(|held| held.path.clone())
        .collect();
    let expected = ["/home/ada/work/b", "/home/ada/work/vendor"].map(PathBuf::from);
    assert_eq!(held, expected);
    assert!(!plan.can_change(Path::new("/home/ada/work/vendor/x")));
}

#[test]
fn a_folder_to_execute_in_that_is_not_there_is_advised_on() {
    let refused = make_plan(
        &policy("[grants]\nwrite = ['work:/w']\nexec = ['/w/target/debug']"),
        &Command::new("x"),
        &user(),
        &surroundings(&[]),
        &home(),
    );
    let said = refused.unwrap_err().to_string();
    assert!(
        said.contains("--exec /w/target/debug")
            && said.contains("mkdir -p /home/ada/work/target/debug"),
        "{said}"
    );
}

#[test]
fn a_folder_to_execute_in_is_made_where_the_guest_may_write() {
    let made = |text: &str| {
        let policy = policy(text);
        let command = Command::new("x");
        let plan = make_plan(&policy, &command, &user(), &surroundings(&[]), &home());
        plan.map(|plan| plan.placeholders)
    };
    let placeholders = made("[grants]\nwrite = ['work:/w']\nexec = ['/w/target']").unwrap();
    let [made_folder] = &placeholders[..] else {
        panic!("{placeholders:?}");
    };
    assert_eq!(made_folder.path, Path::new("/home/ada/work/target"));
    assert!(made_folder.folder && made_folder.to_fill);
    let below_what_is_read =
        "[grants]\nwrite = ['work:/w']\nread = ['work/a:/w/a']\nexec = ['/w/a/target']";
    assert!(made(below_what_is_read).is_err());
}

fn profiled(host: &Table, environment: &[(&str, &str)], text: &str) -> Plan {
    let mut environment = environment.to_vec();
    environment.push(("HOME", HOME));
    make_plan(
        &policy(text),
        &Command::new("x"),
        &user(),
        &surroundings(&environment),
        host,
    )
    .unwrap()
}

fn variable(plan: &Plan, name: &str) -> Option<String> {
    let mut all = texts(&plan.environment).into_iter();
    all.find_map(|text| Some(text.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

/// What of the home is mounted, and where.
fn mounted(plan: &Plan) -> Vec<String> {
    let mounts = plan.steps.iter().filter_map(|step| match step {
        Step::Mount {
            source,
            attributes,
            target,
            ..
        } if source.starts_with(HOME) => {
            assert!(attributes.to_string().contains("ro"), "{source:?}");
            let source = source.strip_prefix(HOME).unwrap();
            Some(format!("{} at {}", source.display(), target.display()))
        }
        _ => None,
    });
    mounts.collect()
}

fn with_tool_chains() -> Table {
    let folders = [
        ".cargo",
        ".cargo/bin",
        ".cargo/registry",
        ".rustup",
        ".rustup/toolchains",
        "go",
        "go/pkg",
        "go/pkg/mod",
        ".m2",
        ".m2/repository",
        "other",
    ];
    let files = [
        (".cargo/credentials.toml", "token"),
        (".cargo/config.toml", "token"),
        (".m2/settings.xml", "password"),
        (".git-credentials", "token"),
        (
            ".gitconfig",
            "[user]\n\tname = Ada\n[credential]\n\thelper = evil\n",
        ),
    ];
    let host = folders
        .into_iter()
        .fold(home(), |host, name| host.folder(&format!("{HOME}/{name}")));
    files.into_iter().fold(host, |host, (name, text)| {
        host.file(&format!("{HOME}/{name}"), text)
    })
}

#[test]
fn profiles_of_tool_chains_show_caches_to_read_and_no_tokens() {
    let host = with_tool_chains();
    let rust = profiled(&host, &[], "profiles = ['rust']");
    let own = |name: &str| format!("{name} at {HOME}/{name}");
    let expected = [".cargo/bin", ".cargo/registry", ".rustup/toolchains"].map(own);
    assert_eq!(mounted(&rust), expected);
    assert_eq!(
        variable(&rust, "CARGO_HOME").as_deref(),
        Some("/home/ada/.cargo")
    );
    assert_eq!(
        variable(&rust, "RUSTUP_HOME").as_deref(),
        Some("/home/ada/.rustup")
    );
    assert!(
        variable(&rust, "PATH")
            .unwrap()
            .starts_with("/home/ada/.cargo/bin:/usr/")
    );
    assert!(rust.absent.contains(&"/home/ada/.cargo/git".into()));
    let moved = profiled(
        &host,
        &[("CARGO_HOME", "/home/ada/other")],
        "profiles = ['rust']",
    );
    assert_eq!(mounted(&moved), [own(".rustup/toolchains")]);

    let go = profiled(&host, &[], "profiles = ['go']");
    assert_eq!(mounted(&go), [own("go/pkg/mod")]);
    assert_eq!(
        variable(&go, "GOMODCACHE").as_deref(),
        Some("/home/ada/go/pkg/mod")
    );

    let maven = profiled(&host, &[], "profiles = ['maven']");
    assert_eq!(mounted(&maven), [".m2/repository at /tmp/.m2/repository"]);

    let git = profiled(&host, &[("GIT_AUTHOR_EMAIL", "a@b")], "profiles = ['git']");
    assert_eq!(mounted(&git), [""; 0]);
    assert_eq!(variable(&git, "GIT_AUTHOR_NAME").as_deref(), Some("Ada"));
    assert_eq!(variable(&git, "GIT_COMMITTER_NAME").as_deref(), Some("Ada"));
    assert_eq!(variable(&git, "GIT_AUTHOR_EMAIL").as_deref(), Some("a@b"));
    assert_eq!(variable(&git, "GIT_COMMITTER_EMAIL"), None);
}

#[test]
fn what_the_policy_shows_itself_a_profile_leaves_alone() {
    let host = with_tool_chains();
    let text = "profiles = ['rust']\n[grants]\nwrite = ['.cargo']\nenv = ['CARGO_HOME=/tmp/x']";
    let plan = profiled(&host, &[], text);
    assert!(plan.can_change(Path::new("/home/ada/.cargo/registry/x")));
    assert_eq!(variable(&plan, "CARGO_HOME").as_deref(), Some("/tmp/x"));
    let without = profiled(&home(), &[], "profiles = ['rust', 'go', 'maven', 'git']");
    assert_eq!(mounted(&without), [""; 0]);
}

#[test]
fn a_guest_with_the_internet_asks_the_machine_s_name_servers() {
    let content = |text: &str, path: &str| {
        let plan = plan(text);
        let mut files = plan.steps.iter().filter_map(|step| match step {
            Step::WriteFile {
                path: at, content, ..
            } if at == Path::new(path) => Some(String::from_utf8_lossy(content).into_owned()),
            _ => None,
        });
        files.next()
    };
    let all = "[grants]\nconnect = ['internet']";
    let resolver = content(all, "/etc/resolv.conf");
    assert_eq!(resolver.as_deref(), Some("nameserver 127.0.0.53\n"));
    let services = content(all, "/etc/nsswitch.conf").unwrap();
    assert!(services.contains("hosts: files dns\n"), "{services}");
    let one = "[grants]\nconnect = ['tcp://example.com:443']";
    assert_eq!(content(one, "/etc/resolv.conf"), None);
    let services = content(one, "/etc/nsswitch.conf").unwrap();
    assert!(services.contains("hosts: files dns files\n"), "{services}");
}

#[test]
fn explain_says_what_is_kept_for_git() {
    let host = home()
        .folder("/home/ada/work/.git")
        .folder("/home/ada/work/.git/hooks")
        .file("/home/ada/work/.git/config", "");
    let with = |text: &str| profiled(&host, &[], text).to_string();
    let said = with("[grants]\nwrite = ['work']");
    let line = "keep      what git executes outside, unless --no-guard is given: \
                /home/ada/work/.git/config, /home/ada/work/.git/hooks\n";
    assert!(said.contains(line), "{said}");
    assert!(!with("guard = false\n[grants]\nwrite = ['work']").contains("keep "));
}

fn with_chromium() -> Table {
    home()
        .folder("/etc/chromium.d")
        .file("/etc/chromium.d/default-flags", "export CHROMIUM_FLAGS=--x")
}

/// The files of its own that the domain has in Chromium's folder.
fn chromium_scripts(plan: &Plan) -> Vec<(&Path, String)> {
    let files = plan.steps.iter().filter_map(|step| match step {
        Step::WriteFile { path, content, .. } if path.starts_with("/etc/chromium.d") => {
            let name = path.file_name().unwrap();
            Some((Path::new(name), String::from_utf8_lossy(content).into()))
        }
        _ => None,
    });
    files.collect()
}

#[test]
fn chromium_is_told_to_do_without_its_own_sandbox() {
    let plan = profiled(&with_chromium(), &[], "profiles = ['chromium']");
    assert_eq!(plan.chromium_flags, Some(ChromiumFlags::Set));
    let scripts = chromium_scripts(&plan);
    let names: Vec<_> = scripts.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, [Path::new("default-flags"), Path::new("palisade")]);
    let export = "export CHROMIUM_FLAGS=\"$CHROMIUM_FLAGS --no-sandbox\"\n";
    assert!(scripts[1].1.ends_with(export), "{scripts:?}");
    let said = plan.to_string();
    let line = "chromium  /etc/chromium.d/palisade sets --no-sandbox: its own sandbox needs user namespaces";
    assert!(said.contains(line), "{said}");

    let plan = profiled(&with_chromium(), &[], "");
    assert_eq!(plan.chromium_flags, None);
    assert_eq!(chromium_scripts(&plan), []);
    let is_mounted = |step: &Step| matches!(step, Step::Mount { target, .. } if target == Path::new("/etc/chromium.d"));
    assert!(plan.steps.iter().any(is_mounted));
    assert!(!plan.to_string().contains("chromium  "));
}

#[test]
fn where_chromium_cannot_be_told_that_is_said() {
    let profile = "profiles = ['chromium']";
    let is_link = home()
        .folder("/usr/chromium.d")
        .link("/etc/chromium.d", "/usr/chromium.d");
    let shown = format!("{profile}\n[grants]\nread = ['/etc/chromium.d']");
    let without_system = format!("system = false\n{profile}");
    for (host, text) in [
        (home(), profile),
        (is_link, profile),
        (with_chromium(), &shown),
        (with_chromium(), &without_system),
    ] {
        let plan = profiled(&host, &[], text);
        assert_eq!(plan.chromium_flags, Some(ChromiumFlags::NoPlace), "{text}");
        let is_ours = |(name, _): &(&Path, String)| *name == Path::new("palisade");
        assert!(!chromium_scripts(&plan).iter().any(is_ours), "{text}");
        assert!(plan.to_string().contains("give --no-sandbox yourself"));
    }
}

#[test]
fn a_home_that_is_writable_as_a_whole_is_warned_of() {
    let home_of = |text: &str| profiled(&home(), &[], text).writable_home;
    let warned = Some(PathBuf::from(HOME));
    assert_eq!(home_of("[grants]\nwrite = ['.']"), warned);
    assert_eq!(home_of("[grants]\nwrite = ['/home:/all']"), warned);
    assert_eq!(home_of("[grants]\nwrite = ['work']"), None);
    assert_eq!(home_of("[grants]\nread = ['.']"), None);
    assert_eq!(home_of("guard = false\n[grants]\nwrite = ['.']"), None);
    assert_eq!(
        plan("[grants]\nwrite = ['.']").writable_home,
        None,
        "no home is known"
    );
}

#[test]
fn a_kernel_without_filters_is_accepted_where_the_policy_says_so() {
    let machine = Machine {
        seccomp: false.into(),
        ..user()
    };
    let plan_of = |text: &str| {
        let (policy, command) = (policy(text), Command::new("program"));
        make_plan(&policy, &command, &machine, &surroundings(&[]), &home())
    };
    let accepted = "allow-degraded = ['seccomp']\n";
    assert_eq!(plan_of(accepted).unwrap().seccomp, None);
    assert!(plan_of("").unwrap().seccomp.is_some(), "refused later");
    let network = format!("{accepted}[grants]\nconnect = ['tcp://192.0.2.1:80']");
    let refused = plan_of(&network);
    assert!(matches!(refused, Err(PlanError::NetworkNeedsSeccomp)));
}

/// Before Linux 5.19, which no distribution has that this is tried on.
#[test]
fn nobody_is_asked_where_a_signal_takes_calls_back() {
    let old = Machine {
        stays: false.into(),
        ..user()
    };
    let policy = policy("");
    let asked = Surroundings {
        asks: Some(Duration::from_secs(1)),
        ..surroundings(&[])
    };
    let grantable = Surroundings {
        grantable: true,
        ..surroundings(&[])
    };
    assert!(!old.holds_calls() && user().holds_calls());
    for surroundings in [asked, grantable] {
        let command = Command::new("program");
        let plan = |machine| make_plan(&policy, &command, machine, &surroundings, &home());
        let refusal = plan(&old).unwrap_err().to_string();
        assert!(refusal.contains("that takes Linux 5.19"), "{refusal}");
        plan(&user()).unwrap();
    }
}

/// An ordinary user may own some, and `CLONE_INTO_CGROUP` hides in memory which a process is put into.
#[test]
fn clone3_is_refused_where_a_folder_of_control_groups_is_in_sight() {
    let host = home()
        .socket("/home/ada/socket")
        .folder("/sys")
        .control_groups("/sys/fs")
        .folder("/sys/fs/mine")
        .file("/sys/fs/cgroup.procs", "");
    let allows = |grants: &str| {
        let policy = policy(&format!("[grants]\n{grants}"));
        let command = Command::new("program");
        let plan = make_plan(&policy, &command, &user(), &surroundings(&[]), &host);
        plan.unwrap().seccomp.unwrap().clone3
    };
    assert!(allows("read = ['work']") && allows("read = ['script']"));
    assert!(!allows("read = ['/sys/fs']"), "they are granted");
    assert!(!allows("read = ['/sys']"), "they lie in what is granted");
    assert!(!allows("read = ['/sys/fs/mine']"), "it is one");
    assert!(!allows("read = ['socket']"), "somebody else may pass one");
    assert!(!allows("write = ['work']\nread = ['/sys/fs:/groups']"));
    assert!(allows("read = ['/sys/fs/cgroup.procs']"), "no folder");
}

/// Where nobody can tell, there may be some.
#[test]
fn clone3_takes_a_table_of_mounts_that_shows_no_control_groups() {
    let allows = |host: &Table| {
        let policy = policy("[grants]\nread = ['work']");
        let command = Command::new("program");
        let plan = make_plan(&policy, &command, &user(), &surroundings(&[]), host);
        plan.unwrap().seccomp.unwrap().clone3
    };
    let host = home().folder("/sys").proc("/proc");
    assert!(allows(&host.clone().old_control_groups("/sys/fs")));
    assert!(!allows(&host.clone().old_control_groups("/home/ada/work")));
    assert!(!allows(
        &host.clone().control_groups("/home/ada/work/groups")
    ));
    assert!(!allows(&host.without_mount_table()), "it can't be read");
}
