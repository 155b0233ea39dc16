//! What programs try on their server.

use super::*;

/// One that is ended once nobody is inside: so whoever holds on is seen.
fn attacker() -> Settings {
    let mut settings = settings(&[]);
    settings.program.idle_time = Some(Duration::from_millis(50));
    settings.program.start_time = Duration::from_secs(5);
    settings
}

async fn is_left(host: &Host) {
    host.becomes(|metrics| metrics.state == State::Idle && metrics.pid.is_none())
        .await;
}

#[test]
fn what_is_no_http_is_a_bad_gateway() {
    let host = Host::start(attacker());
    on_worker(async {
        let service = host.service();
        for path in ["/garbage", "/fields", "/long-field", "/cut-head"] {
            let error = ask(&service, Method::POST, path, "text").await.unwrap_err();
            assert_eq!(error.status(), StatusCode::BAD_GATEWAY, "{path}: {error}");
            body_of(get(&service, "/").await).await;
        }
        is_left(&host).await;
        assert_eq!(host.metrics().faults, 0);
    });
}

#[test]
fn an_answer_that_only_announces_itself_is_given_up() {
    let host = Host::start(attacker());
    on_worker(async {
        let service = host.service_within(Duration::from_millis(300));
        body_of(get(&service, "/").await).await;
        let error = get(&service, "/announce").await.unwrap_err();
        assert_eq!(error.status(), StatusCode::BAD_GATEWAY, "{error}");
        assert!(error.to_string().contains("128 KiB"), "{error}");
        is_left(&host).await;
    });
}

#[test]
fn others_are_answered_while_one_announces_itself() {
    let host = Host::start(settings(&[]));
    on_worker(async {
        let service = host.service();
        let announces = get(&service, "/announce");
        let others = async {
            for _ in 0..50 {
                body_of(get(&service, "/").await).await;
            }
        };
        let (announced, ()) = tokio::join!(announces, others);
        announced.unwrap_err();
    });
}

#[test]
fn a_body_without_end_ends_with_its_client() {
    let host = Host::start(attacker());
    on_worker(async {
        let service = host.service();
        let mut body = get(&service, "/endless").await.unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        drop(body);
        is_left(&host).await;
        host.hears("stdout: nobody takes more").await;
    });
}

#[test]
fn a_thousand_children_go_with_their_program() {
    let host = Host::start(settings(&[]));
    let pid = on_worker(async {
        let service = host.service();
        assert_eq!(body_of(get(&service, "/fork").await).await, "1000");
        body_of(get(&service, "/").await).await;
        let metrics = host.metrics();
        assert!(metrics.memory_bytes > 0);
        metrics.pid.unwrap()
    });
    drop(host);
    assert!(!lives(pid));
}

/// Its lines come as fast as they are taken, and other programs are looked after all the same.
#[test]
fn one_that_fills_its_log_keeps_nobody_waiting() {
    struct Nobody;
    impl Output for Nobody {
        fn line(&self, _: bool, _: &str) {}
        fn notice(&self, _: &str) {}
    }
    let host = Host::start(attacker());
    let mut noisy = settings(&[]);
    noisy.program.idle_time = None;
    let noisy = Program::new(noisy, Arc::new(Nobody), &host.machine).unwrap();
    noisy.begin(host.supervisor.as_ref().unwrap(), None);
    let noisy = Arc::new(noisy);
    on_worker(async {
        let noise = service_of(&noisy, Duration::from_secs(30));
        body_of(get(&noise, "/flood").await).await;
        for _ in 0..5 {
            body_of(get(&host.service(), "/").await).await;
            is_left(&host).await;
        }
        body_of(get(&noise, "/").await).await;
    });
}

#[test]
fn one_that_closes_its_socket_is_replaced_if_it_is_asked_for_its_health() {
    let mut settings = settings(&[]);
    settings.program.health = Some(Health {
        path: "/health".into(),
        every: Duration::from_millis(20),
        time: Duration::from_millis(500),
        failures: 2,
    });
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        body_of(get(&service, "/close").await).await;
        host.becomes(|metrics| metrics.starts == 2).await;
        assert_eq!(body_of(get(&service, "/env").await).await, "1 own http");
    });
}

/// Alone in its process, whose memory is looked at.
#[test]
fn attacks_leave_neither_memory_nor_descriptors() {
    alone_in_a_process(
        "program::attacks::attacks_leave_neither_memory_nor_descriptors",
        attack_again_and_again(),
    );
}

async fn attack_again_and_again() {
    let host = Host::start(attacker());
    let mut first = None;
    for round in 0..12 {
        let service = host.service();
        body_of(get(&service, "/").await).await;
        for path in ["/garbage", "/fields", "/long-field", "/crash"] {
            ask(&service, Method::POST, path, "text").await.unwrap_err();
        }
        body_of(get(&service, "/").await).await;
        let hasty = host.service_within(Duration::from_millis(100));
        ask(&hasty, Method::POST, "/announce", "text")
            .await
            .unwrap_err();
        let mut body = get(&service, "/endless").await.unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        drop((body, service, hasty));
        is_left(&host).await;
        let now = (descriptors(), resident_kib());
        // The first rounds fill caches.
        if round < 3 {
            first = Some(now);
        }
        let first = first.unwrap();
        assert!(
            now.0 <= first.0 + 2 && now.1 <= first.1 + (4 << 10),
            "{now:?} after round {round}, {first:?} at first"
        );
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse().unwrap()
}
