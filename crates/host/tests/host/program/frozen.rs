//! Programs that stand still while nobody asks for them.

use super::*;
use palisade_host::config::Rest;
use palisade_process::running::RunningDomain;
use std::fs;

/// One that stands still soon.
fn freezes() -> Settings {
    let mut settings = settings(&[]);
    settings.program.idle_time = Some(Duration::from_millis(20));
    settings.program.rest = Rest::Freeze;
    settings
}

/// Whether this user can freeze anything here. Root can, wherever version 2 is mounted.
pub(super) fn can_freeze() -> bool {
    let host = Host::start(settings(&[]));
    let output = Arc::clone(&host.heard) as Arc<dyn Output>;
    match Program::new(freezes(), output, &host.machine) {
        Ok(_) => true,
        Err(refused) => {
            let refused = refused.to_string();
            let is_mounted = group_of(std::process::id()).is_some();
            let is_root = rustix::process::geteuid().is_root();
            assert!(!(is_root && is_mounted), "{refused}");
            assert!(refused.contains("cannot freeze a domain"), "{refused}");
            println!("not run: {refused}");
            false
        }
    }
}

/// The folder of a process's group of version 2.
pub(super) fn group_of(pid: u32) -> Option<std::path::PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let folder = words.next()?;
        (words.next()? == "cgroup2").then_some(folder)
    })?;
    Some(std::path::Path::new(mount).join(group))
}

/// As the kernel says.
fn is_frozen(pid: u32) -> bool {
    let events = group_of(pid).map(|group| fs::read_to_string(group.join("cgroup.events")));
    events.is_some_and(|events| events.is_ok_and(|events| events.contains("frozen 1")))
}

async fn stands_still(program: &Program) -> u32 {
    let metrics = becomes(program, |metrics| metrics.state == State::Frozen).await;
    metrics.pid.unwrap()
}

#[test]
fn one_that_nobody_asks_stands_still_until_somebody_does() {
    if !can_freeze() {
        return;
    }
    let host = Host::start(freezes());
    on_worker(async {
        let service = host.service();
        let mut first = None;
        for _ in 0..3 {
            assert_eq!(body_of(get(&service, "/env").await).await, "1 own http");
            assert_eq!(host.metrics().state, State::Running);
            let pid = stands_still(host.program()).await;
            assert!(is_frozen(pid));
            assert_eq!(*first.get_or_insert(pid), pid, "it is the same one");
        }
        let metrics = host.metrics();
        assert_eq!((metrics.starts, metrics.faults), (1, 0));
        let group = group_of(metrics.pid.unwrap()).unwrap();
        assert!(group.exists());
        drop(host);
        assert!(!lives(metrics.pid.unwrap()));
        assert!(!group.exists(), "nothing of it is left");
    });
}

/// Requests that come in the moment in which it is frozen, from several workers.
#[test]
fn nobody_is_left_before_the_door_of_one_that_is_being_frozen() {
    const REQUESTS: usize = 400;
    if !can_freeze() {
        return;
    }
    let mut settings = freezes();
    settings.program.idle_time = Some(Duration::from_millis(1));
    let host = Host::start(settings);
    on_worker(async {
        let services = [host.service(), host.service(), host.service()];
        for number in 0..REQUESTS {
            let answer = body_of(get(&services[number % 3], "/env").await).await;
            assert_eq!(answer, "1 own http");
            // Not in step with what happens there.
            let pause = Duration::from_micros((number as u64 * 577) % 4000);
            tokio::time::sleep(pause).await;
        }
        let metrics = host.metrics();
        assert_eq!((metrics.starts, metrics.faults), (1, 0));
    });
}

#[test]
fn one_that_stands_still_ends_where_another_needs_its_room() {
    if !can_freeze() {
        return;
    }
    let bounds = ProgramBounds {
        most: 1,
        memory_bytes: None,
    };
    let host = Host::start_within(freezes(), bounds);
    let other = host.begin(settings(&[]), None);
    on_worker(async {
        let service = host.service();
        body_of(get(&service, "/").await).await;
        let pid = stands_still(host.program()).await;
        body_of(get(&service_of(&other, Duration::from_secs(30)), "/").await).await;
        assert!(!lives(pid), "one at a time");
        let metrics = host.becomes(|metrics| metrics.state == State::Idle).await;
        assert_eq!((metrics.starts, metrics.faults), (1, 0));
        assert_eq!(metrics.last_end.unwrap(), "ended with exit code 0");
    });
}

/// It may be about to close those that have waited for too long by its clock. While it runs they
/// are kept: `a_client_that_breaks_off_its_body_closes_its_own_connection_alone`.
#[test]
fn connections_are_not_used_again_once_it_has_stood_still() {
    if !can_freeze() {
        return;
    }
    let host = Host::start(freezes());
    on_worker(async {
        let service = host.service();
        for connections in ["1", "2", "3"] {
            let accepted = body_of(get(&service, "/accepted").await).await;
            assert_eq!(accepted, connections);
            stands_still(host.program()).await;
        }
        assert_eq!(host.metrics().starts, 1);
    });
}

/// Its health is not asked for while it cannot answer.
#[test]
fn one_that_stands_still_is_not_unwell() {
    if !can_freeze() {
        return;
    }
    let mut settings = freezes();
    settings.program.health = Some(Health {
        path: "/health".to_owned(),
        every: Duration::from_millis(5),
        time: Duration::from_millis(20),
        failures: 1,
    });
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        for _ in 0..3 {
            body_of(get(&service, "/").await).await;
            let pid = stands_still(host.program()).await;
            // Many times what a check has to be answered.
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert!(is_frozen(pid));
        }
        let metrics = host.metrics();
        assert_eq!((metrics.starts, metrics.faults), (1, 0));
    });
}

/// Somebody outside ends it while it stands still.
#[test]
fn one_that_is_killed_while_it_stands_still_is_started_again() {
    if !can_freeze() {
        return;
    }
    let host = Host::start(freezes());
    on_worker(async {
        let service = host.service();
        body_of(get(&service, "/").await).await;
        let pid = stands_still(host.program()).await;
        kill(&host.metrics());
        body_of(get(&service, "/").await).await;
        let metrics = host.becomes(|metrics| metrics.starts == 2).await;
        assert_ne!(metrics.pid, Some(pid));
    });
}

/// As `palisade kill` does, whom its init hears once it goes on.
#[test]
fn one_that_an_operator_ends_while_it_stands_still_is_told_of_as_that() {
    if !can_freeze() {
        return;
    }
    let mut settings = freezes();
    settings.name = "ended-by-an-operator".into();
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        body_of(get(&service, "/").await).await;
        let pid = stands_still(host.program()).await;
        let all = palisade_process::running::list().unwrap();
        let is_it =
            |domain: &&RunningDomain| domain.name.as_deref() == Some("ended-by-an-operator");
        let domain = all.iter().find(is_it).expect("it is listed");
        domain.kill().unwrap();
        assert!(!lives(pid));
        let metrics = host.becomes(|metrics| metrics.pid.is_none()).await;
        assert_eq!(metrics.last_end.unwrap(), "was ended by `palisade kill`");
        body_of(get(&service, "/").await).await;
        assert_eq!(host.metrics().starts, 2);
    });
}

/// Its time would not be held, and be over at the very request that wakes it up.
#[test]
fn one_whose_time_is_over_ends_while_it_stands_still() {
    if !can_freeze() {
        return;
    }
    let mut settings = freezes();
    settings.policy.limits.time = Some(Duration::from_millis(1500));
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        body_of(get(&service, "/").await).await;
        let pid = stands_still(host.program()).await;
        let ended =
            |metrics: &ProgramMetrics| metrics.state == State::Idle && metrics.pid.is_none();
        let metrics = host.becomes(ended).await;
        assert_eq!((metrics.starts, metrics.faults), (1, 0));
        assert!(!lives(pid));
        body_of(ask(&service, Method::POST, "/echo", "text").await).await;
        assert_eq!(host.metrics().starts, 2);
    });
}

#[test]
fn what_could_not_be_woken_up_is_not_frozen() {
    let host = Host::start(settings(&[]));
    let refused = |settings: Settings| {
        let output = Arc::clone(&host.heard) as Arc<dyn Output>;
        let refused = Program::new(settings, output, &host.machine).unwrap_err();
        refused.to_string()
    };
    let mut listens = freezes();
    let grant = "tcp://127.0.0.1:9".parse().unwrap();
    listens.policy.grants.listen.push(grant);
    let why = refused(listens);
    assert!(why.contains("would wait for ever"), "{why}");
}
