//! When a program ends because nobody needs it.

use super::*;

fn idle_after(milliseconds: u64) -> Settings {
    let mut settings = settings(&[]);
    settings.program.idle_time = Some(Duration::from_millis(milliseconds));
    settings
}

#[test]
fn an_idle_program_is_ended_and_started_again() {
    let host = Host::start(idle_after(100));
    on_worker(async {
        let service = host.service();
        for round in 1..=3 {
            body_of(get(&service, "/").await).await;
            let metrics = host
                .becomes(|metrics| metrics.state == State::Idle && metrics.pid.is_none())
                .await;
            assert_eq!(metrics.starts, round);
            assert_eq!((metrics.restarts, metrics.faults), (0, 0));
            assert_eq!(metrics.last_end.unwrap(), "ended with exit code 0");
        }
        host.hears("stdout: leaving").await;
    });
}

#[test]
fn a_long_answer_is_no_idleness() {
    let host = Host::start(idle_after(100));
    on_worker(async {
        let service = host.service();
        let answer = get(&service, "/stream").await;
        assert_eq!(body_of(answer).await, "part\n".repeat(10));
        assert_eq!(host.metrics().starts, 1);
    });
}

#[test]
fn no_request_is_lost_while_programs_come_and_go() {
    let host = Host::start(idle_after(20));
    on_worker(async {
        let (one, two) = (host.service(), host.service());
        let load = |service, step| async move {
            for round in 0..60u64 {
                let answer = ask(service, Method::POST, "/echo", "text").await;
                assert_eq!(body_of(answer).await, "text");
                // Round about the time after which it is idle.
                tokio::time::sleep(Duration::from_millis(round % step)).await;
            }
        };
        tokio::join!(load(&one, 50), load(&two, 47));
        let metrics = host.metrics();
        assert!(metrics.starts > 2, "{metrics:?}");
        assert_eq!((metrics.restarts, metrics.faults), (0, 0), "{metrics:?}");
    });
}

/// As soon as nobody is inside; whoever comes at that moment is not lost.
#[test]
fn no_request_is_lost_to_a_program_that_is_always_about_to_leave() {
    const ROUNDS: usize = 150;
    let host = Host::start(idle_after(0));
    on_worker(async {
        let (one, two) = (host.service(), host.service());
        let load = |service, step: u64| async move {
            for round in 0..ROUNDS as u64 {
                let answer = ask(service, Method::POST, "/echo", "text").await;
                assert_eq!(body_of(answer).await, "text");
                tokio::time::sleep(Duration::from_millis(round % step)).await;
            }
        };
        tokio::join!(load(&one, 11), load(&two, 13));
        let metrics = host.metrics();
        // Nobody is started for nobody.
        let most = 2 * ROUNDS as u64;
        assert!((3..=most).contains(&metrics.starts), "{metrics:?}");
        assert_eq!((metrics.restarts, metrics.faults), (0, 0), "{metrics:?}");
    });
}

/// Doors are descriptors, whose numbers are used again and again.
#[test]
fn nobody_gets_in_by_the_door_of_another_program() {
    let called = |name| {
        let mut settings = settings(&["called", name]);
        settings.program.idle_time = Some(Duration::ZERO);
        settings
    };
    let host = Host::start(called("one"));
    let other = host.begin(called("two"), None);
    on_worker(async {
        let (one, two) = (host.service(), service_of(&other, Duration::from_secs(30)));
        let load = |service, name, step: u64| async move {
            for round in 0..100u64 {
                assert_eq!(body_of(get(service, "/name").await).await, name);
                tokio::time::sleep(Duration::from_millis(round % step)).await;
            }
        };
        tokio::join!(load(&one, "one", 11), load(&two, "two", 13));
        assert!(host.metrics().starts > 2, "{:?}", host.metrics());
    });
}

#[test]
fn counts_go_on_in_the_next_program() {
    let mut host = Host::start(settings(&[]));
    on_worker(async {
        let service = host.service();
        body_of(get(&service, "/").await).await;
        let _ = ask(&service, Method::POST, "/crash", "text").await;
        body_of(get(&service, "/").await).await;
        let old = host
            .becomes(|metrics| (metrics.starts, metrics.state) == (2, State::Running))
            .await;
        drop(service);
        let mut changed = host.program().settings().clone();
        changed.program.back_off *= 2;
        let next = host.begin(changed, Some(host.program()));
        host.program = Some(next);
        assert!(host.metrics().cpu_us >= old.cpu_us, "it has not ended yet");
        body_of(get(&host.service(), "/").await).await;
        let metrics = host.becomes(|metrics| metrics.starts == 3).await;
        assert_eq!((metrics.restarts, metrics.faults), (1, 1));
        assert_eq!(metrics.last_fault, old.last_fault);
    });
}

#[test]
fn who_is_inside_is_waited_for_when_the_service_goes() {
    let mut host = Host::start(settings(&[]));
    on_worker(async {
        let service = host.service();
        body_of(get(&service, "/").await).await;
        let pid = host.metrics().pid.unwrap();
        let answer = {
            let asked = get(&service, "/slow");
            tokio::pin!(asked);
            tokio::select! {
                biased;
                _ = &mut asked => panic!("it takes longer"),
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
            // The service's own handle is what is left.
            drop(host.program.take());
            asked.await
        };
        assert_eq!(body_of(answer).await, "slow");
        assert!(lives(pid));
        drop(service);
        host.hears("stdout: leaving").await;
        while lives(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn nothing_is_left_when_the_server_ends() {
    let mut stubborn = settings(&["stubborn"]);
    stubborn.program.idle_time = None;
    for settings in [settings(&[]), stubborn] {
        let host = Host::start(settings);
        let pid = on_worker(async {
            body_of(get(&host.service(), "/").await).await;
            host.metrics().pid.unwrap()
        });
        assert!(lives(pid));
        drop(host);
        assert!(!lives(pid));
    }
}

/// Each takes its time to end, and there is a next one for each request.
#[test]
fn programs_that_do_not_leave_do_not_pile_up() {
    let mark = format!("mark-{}", std::process::id());
    let mut settings = settings(&["stubborn", &mark]);
    settings.program.idle_time = Some(Duration::ZERO);
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        for round in 1..=8 {
            body_of(get(&service, "/").await).await;
            host.becomes(|metrics| (metrics.starts, metrics.state) == (round, State::Idle))
                .await;
            let count = with_argument(&mark);
            assert!((1..=5).contains(&count), "{count} in round {round}");
        }
    });
}

/// Processes that were started with this as their last argument.
fn with_argument(argument: &str) -> usize {
    let end = format!("\0{argument}\0");
    let processes = std::fs::read_dir("/proc").unwrap().filter(|entry| {
        let line = std::fs::read(entry.as_ref().unwrap().path().join("cmdline"));
        line.is_ok_and(|line| line.ends_with(end.as_bytes()))
    });
    processes.count()
}

#[test]
fn a_server_that_ends_does_not_wait_for_those_who_still_hold_on() {
    let mut host = Host::start(settings(&[]));
    on_worker(async {
        let service = host.service();
        body_of(get(&service, "/").await).await;
        let pid = host.metrics().pid.unwrap();
        drop(host.supervisor.take());
        assert!(!lives(pid));
        let error = get(&service, "/").await.unwrap_err();
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE, "{error}");
    });
}

/// Alone in its process: other tests open descriptors too.
#[test]
fn what_has_ended_leaves_no_descriptor_and_no_thread() {
    alone_in_a_process(
        "program::end::what_has_ended_leaves_no_descriptor_and_no_thread",
        come_and_go(),
    );
}

async fn come_and_go() {
    let host = Host::start(idle_after(20));
    let service = host.service();
    let count = |of: &str| {
        std::fs::read_dir(format!("/proc/self/{of}"))
            .unwrap()
            .count()
    };
    let mut before = None;
    for round in 0..20 {
        body_of(get(&service, "/").await).await;
        let path = if round % 2 == 0 { "/crash" } else { "/cut" };
        // Whatever becomes of it.
        let _ = ask(&service, Method::POST, path, "text").await;
        host.becomes(|metrics| metrics.state == State::Idle && metrics.pid.is_none())
            .await;
        // Idle threads for what blocks stay for a while; there are no more of them than at first.
        let now = (count("fd"), count("task"));
        let first = *before.get_or_insert(now);
        assert!(
            now.0 <= first.0 + 2 && now.1 <= first.1 + 4,
            "{now:?} after round {round}, {first:?} after the first"
        );
    }
}
