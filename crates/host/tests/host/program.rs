//! Programs behind the process wall, as services.

mod alive;
mod attacks;
mod bodies;
mod direct;
mod end;
mod frozen;
mod idle;
mod own_port;
mod replaced;
mod whole;

pub(super) use super::served::served;
use super::upstream::fake::on_worker;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use palisade_filter::Peer;
use palisade_host::{
    body::Body,
    client::{self, Client, Times, UpstreamError},
    config::{self, FaultBudget, Health, ProgramBounds},
    services::program::{
        Output, Program, ProgramError, ProgramMetrics, ProgramService, Settings, State, Supervisor,
    },
};
use palisade_policy::{Access, FileGrant, Policy};
use palisade_process::{Launcher, Machine};
use palisade_suite::executable::copy_program;
use std::{
    os::unix::fs::PermissionsExt,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

/// All that a program said, and its supervisor about it.
#[derive(Debug, Default)]
struct Heard(Mutex<Vec<String>>);

impl Output for Heard {
    fn line(&self, is_stderr: bool, line: &str) {
        let stream = if is_stderr { "stderr" } else { "stdout" };
        self.0.lock().unwrap().push(format!("{stream}: {line}"));
    }

    fn notice(&self, text: &str) {
        self.0.lock().unwrap().push(format!("notice: {text}"));
    }
}

/// A server with one program.
struct Host {
    // In this order: the supervisor ends what is left of the program.
    program: Option<Arc<Program>>,
    supervisor: Option<Supervisor>,
    machine: Machine,
    heard: Arc<Heard>,
}

fn settings(habit: &[&str]) -> Settings {
    let program = served();
    let folder = program.parent().unwrap();
    let mut policy = Policy::default();
    policy.grants.files.push(FileGrant {
        access: Access::Read,
        host: folder.into(),
        guest: None,
    });
    let command = std::iter::once(program.to_str().unwrap()).chain(habit.iter().copied());
    Settings {
        name: "served".into(),
        program: config::Program {
            command: command.map(str::to_owned).collect(),
            direct: None,
            port: None,
            idle_time: None,
            rest: config::Rest::Stop,
            start_time: Duration::from_secs(30),
            health: None,
            back_off: Duration::from_millis(10),
            back_off_most: Duration::from_secs(1),
        },
        policy,
        faults: FaultBudget::default(),
        libexec: None,
    }
}

impl Host {
    fn start(settings: Settings) -> Self {
        Self::start_within(settings, ProgramBounds::default())
    }

    fn start_within(settings: Settings, bounds: ProgramBounds) -> Self {
        let launcher = Arc::new(Launcher::new(Machine::probe()));
        let machine = launcher.machine().clone();
        let mut host = Self {
            program: None,
            supervisor: Some(Supervisor::start(launcher, bounds).unwrap()),
            machine,
            heard: Arc::default(),
        };
        host.program = Some(host.begin(settings, None));
        host
    }

    /// One more program, planned and no more.
    fn plan(&self, settings: Settings) -> Program {
        let output = Arc::clone(&self.heard) as Arc<dyn Output>;
        Program::new(settings, output, &self.machine).unwrap()
    }

    /// One more program.
    fn begin(&self, settings: Settings, predecessor: Option<&Program>) -> Arc<Program> {
        let program = self.plan(settings);
        program.open(predecessor).unwrap();
        program.begin(self.supervisor.as_ref().unwrap(), predecessor);
        Arc::new(program)
    }

    fn program(&self) -> &Arc<Program> {
        self.program.as_ref().unwrap()
    }

    fn service(&self) -> ProgramService {
        self.service_within(Duration::from_secs(30))
    }

    fn service_within(&self, answer: Duration) -> ProgramService {
        service_of(self.program(), answer)
    }

    fn metrics(&self) -> ProgramMetrics {
        self.program().metrics()
    }

    /// Waits until the metrics are so.
    async fn becomes(&self, wanted: impl Fn(&ProgramMetrics) -> bool) -> ProgramMetrics {
        becomes(self.program(), wanted).await
    }

    /// Waits until its supervisor has said so much; the last of it has this text.
    async fn hears_last(&self, count: usize, text: &str) {
        loop {
            let heard = self.heard.0.lock().unwrap().clone();
            let notices = heard.iter().filter(|line| line.starts_with("notice: "));
            let notices: Vec<_> = notices.collect();
            if notices.len() >= count {
                assert!(notices[count - 1].contains(text), "{text}: {notices:?}");
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until this was said.
    async fn hears(&self, text: &str) {
        while !self
            .heard
            .0
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.contains(text))
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn service_of(program: &Arc<Program>, answer: Duration) -> ProgramService {
    let times = Times {
        connect: Duration::from_secs(10),
        answer,
    };
    let client = Client::new(client::Settings::default());
    ProgramService::new(program, &client, times)
}

async fn becomes(program: &Program, wanted: impl Fn(&ProgramMetrics) -> bool) -> ProgramMetrics {
    loop {
        let metrics = program.metrics();
        if wanted(&metrics) {
            return metrics;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.program.take());
        drop(self.supervisor.take());
    }
}

type Answer = Result<Response<Body>, UpstreamError>;

async fn ask(service: &ProgramService, method: Method, path: &str, body: &'static str) -> Answer {
    let request = Request::builder().method(method).uri(path);
    let body = match body {
        "" => Body::Empty,
        body => Body::from(body),
    };
    let request = request.header("host", "one.example").body(body).unwrap();
    service.respond(request, &Peer::default()).await
}

async fn get(service: &ProgramService, path: &str) -> Answer {
    ask(service, Method::GET, path, "").await
}

async fn body_of(answer: Answer) -> Bytes {
    let answer = answer.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    answer.into_body().collect().await.unwrap().to_bytes()
}

/// Waits until the program has been asked for its health more than once: it has been well then.
async fn is_well(service: &ProgramService) {
    while body_of(get(service, "/asked").await).await.len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Ends the program's first process from outside.
fn kill(metrics: &ProgramMetrics) {
    let pid = rustix::process::Pid::from_raw(metrics.pid.unwrap() as i32).unwrap();
    // It may have ended since.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// One that has ended and that nobody has waited for yet does not.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    state.is_some_and(|state| !["Z", "X"].contains(&state))
}

#[test]
fn a_program_is_started_by_its_first_request() {
    let host = Host::start(settings(&[]));
    on_worker(async {
        let service = host.service();
        assert_eq!(host.metrics().starts, 0);
        assert_eq!(body_of(get(&service, "/env").await).await, "1 own http");
        assert_eq!(
            body_of(ask(&service, Method::POST, "/echo", "text").await).await,
            "text"
        );
        assert_eq!(body_of(get(&service, "/secret").await).await, "");
        let head = body_of(get(&service, "/head").await).await;
        let head = String::from_utf8_lossy(&head).into_owned();
        assert!(head.contains("host: one.example\r\n"), "{head}");
        assert!(
            head.contains("forwarded: for=unknown;proto=http\r\n"),
            "{head}"
        );
        let metrics = host.metrics();
        assert_eq!(
            (metrics.state, metrics.starts, metrics.restarts),
            (State::Running, 1, 0)
        );
        assert!(metrics.memory_bytes > 0);
        assert_eq!(
            get(&service, "/none").await.unwrap().status(),
            StatusCode::NOT_FOUND
        );
    });
}

#[test]
fn all_requests_wait_for_the_same_start() {
    let host = Host::start(settings(&["late"]));
    on_worker(async {
        // Two workers, as far as the program can tell.
        let (one, two) = (host.service(), host.service());
        let ask = |service| async move { body_of(get(service, "/env").await).await };
        let answers = tokio::join!(ask(&one), ask(&two), ask(&one), ask(&two));
        assert!(
            [answers.0, answers.1, answers.2, answers.3]
                .iter()
                .all(|text| text == "1 own http")
        );
        assert_eq!(host.metrics().starts, 1);
    });
}

#[test]
fn what_a_program_writes_is_told_line_by_line() {
    let host = Host::start(settings(&[]));
    on_worker(async {
        let service = host.service();
        body_of(get(&service, "/talk").await).await;
        host.hears("stdout: line 2 of this request").await;
        let heard = host.heard.0.lock().unwrap().clone();
        let lines: Vec<_> = heard.iter().map(String::as_str).collect();
        let expected = [
            "stdout: ready",
            "stdout: line 0 of this request",
            "stdout: line 1 of this request",
            "stdout: line 2 of this request",
        ];
        assert_eq!(lines, expected);
    });
}

#[test]
fn a_crash_costs_the_requests_that_brought_it_about() {
    let host = Host::start(settings(&[]));
    on_worker(async {
        let service = host.service();
        body_of(get(&service, "/").await).await;
        let error = ask(&service, Method::POST, "/crash", "text")
            .await
            .unwrap_err();
        assert_eq!(error.status(), StatusCode::BAD_GATEWAY, "{error}");
        body_of(get(&service, "/").await).await;
        let metrics = host.becomes(|metrics| metrics.starts == 2).await;
        assert_eq!(metrics.faults, 1);
        let error = get(&service, "/crash").await.unwrap_err();
        assert_eq!(error.status(), StatusCode::BAD_GATEWAY, "{error}");
        body_of(get(&service, "/").await).await;
        let metrics = host.becomes(|metrics| metrics.starts >= 4).await;
        assert_eq!(
            (metrics.starts, metrics.restarts, metrics.faults),
            (4, 3, 3),
            "once more, and no more"
        );
        assert_eq!(metrics.last_end.unwrap(), "ended with signal 6");
        let half = get(&service, "/cut").await.unwrap();
        assert!(half.into_body().collect().await.is_err());
        assert_eq!(host.metrics().starts, 4, "that was no crash");
    });
}

#[test]
fn a_killed_program_fails_no_request_that_may_be_repeated() {
    const ROUNDS: usize = 12;
    let host = Host::start(settings(&[]));
    on_worker(async {
        let (one, two) = (host.service(), host.service());
        let is_over = std::cell::Cell::new(false);
        let answered = [const { std::cell::Cell::new(0) }; 3];
        let load = async |service, answered: &std::cell::Cell<u64>| {
            while !is_over.get() {
                body_of(get(service, "/").await).await;
                answered.set(answered.get() + 1);
            }
        };
        let counts = || answered.each_ref().map(std::cell::Cell::get);
        let kills = async {
            for round in 1..=ROUNDS {
                let metrics = host
                    .becomes(|metrics| metrics.starts >= round as u64 && metrics.pid.is_some())
                    .await;
                // Each has had an answer since: what is cut off now has not been before.
                let before = counts();
                while counts()
                    .iter()
                    .zip(before)
                    .any(|(now, then)| *now < then + 2)
                {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                kill(&metrics);
                host.becomes(|metrics| metrics.faults >= round as u64).await;
            }
            host.becomes(|metrics| metrics.starts > ROUNDS as u64).await;
            is_over.set(true);
        };
        let [first, second, third] = &answered;
        tokio::join!(
            load(&one, first),
            load(&one, second),
            load(&two, third),
            kills
        );
        assert_eq!(host.metrics().restarts, ROUNDS as u64);
    });
}

#[test]
fn a_program_that_does_not_start_is_not_waited_for_for_ever() {
    let mut settings = settings(&["refuse"]);
    settings.program.start_time = Duration::from_millis(400);
    settings.program.back_off = Duration::from_millis(50);
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        let error = ask(&service, Method::POST, "/", "text").await.unwrap_err();
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE, "{error}");
        assert!(error.retry_after().is_some());
        host.hears("stderr: cannot start today").await;
        let metrics = host.becomes(|metrics| metrics.faults >= 3).await;
        assert_eq!(metrics.last_end.unwrap(), "ended with exit code 3");
        let fault = metrics.last_fault.unwrap();
        assert_eq!(fault.message, "ended with exit code 3");
        // 50 + 100 + 200 + 400 ms lie between the first five starts.
        assert!(metrics.starts < 8, "{} starts", metrics.starts);
    });
}

/// Each of its processes dies before it has answered: also who stands in its queue is told, and not held until the time
/// for a start is over.
#[test]
fn a_program_that_dies_at_each_start_holds_nobody() {
    let mut settings = settings(&["refuse"]);
    settings.program.start_time = Duration::from_secs(3600);
    settings.program.back_off = Duration::from_millis(50);
    settings.program.back_off_most = Duration::from_secs(3600);
    let host = Host::start(settings);
    on_worker(async {
        let (one, two) = (host.service(), host.service());
        let ask = async |service| {
            let error = ask(service, Method::POST, "/", "text").await.unwrap_err();
            assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE, "{error}");
            assert!(error.retry_after().is_some());
        };
        tokio::join!(ask(&one), ask(&one), ask(&two));
        // Later ones are told at once, for as long as it rests.
        host.becomes(|metrics| metrics.faults >= 2).await;
        ask(&two).await;
    });
}

#[test]
fn a_first_start_that_fails_costs_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let mut settings = settings(&["once", mark.to_str().unwrap()]);
    settings.policy.grants.files.push(FileGrant {
        access: Access::Write,
        host: folder.path().into(),
        guest: None,
    });
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        let answer = ask(&service, Method::POST, "/echo", "text").await;
        assert_eq!(body_of(answer).await, "text");
        let metrics = host.becomes(|metrics| metrics.starts == 2).await;
        assert_eq!(metrics.faults, 1);
    });
}

#[test]
fn a_program_that_cannot_be_started_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    copy_program(&served(), &program).unwrap();
    let mut settings = settings(&[]);
    settings.program.command = vec![program.to_str().unwrap().into()];
    settings.policy.grants.files.push(FileGrant {
        access: Access::Read,
        host: folder.path().into(),
        guest: None,
    });
    let host = Host::start(settings);
    std::fs::remove_file(&program).unwrap();
    on_worker(async {
        let service = host.service();
        let error = get(&service, "/").await.unwrap_err();
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE, "{error}");
        let metrics = host.metrics();
        assert_eq!(metrics.starts, 0);
        assert!(metrics.last_end.unwrap().contains("program"));
        // It is there again.
        copy_program(&served(), &program).unwrap();
        let answer = async {
            loop {
                if let Ok(answer) = get(&service, "/env").await {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        assert_eq!(body_of(Ok(answer.await)).await, "1 own http");
    });
}

#[test]
fn a_policy_that_cannot_be_carried_out_is_refused_when_it_is_loaded() {
    let mut settings = settings(&[]);
    settings.policy.grants.files.push(FileGrant {
        access: Access::Read,
        host: "/no/such/folder".into(),
        guest: None,
    });
    let machine = Machine::probe();
    let refused = Program::new(settings.clone(), Arc::new(Heard::default()), &machine);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("/no/such/folder"), "{error}");
    settings.policy.grants.files.pop();
    let refused = |command: &[&str]| {
        let mut settings = settings.clone();
        settings.program.command = command.iter().map(|word| (*word).into()).collect();
        Program::new(settings, Arc::new(Heard::default()), &machine)
    };
    assert!(matches!(refused(&[]), Err(ProgramError::NoCommand)));
    let folder = served().parent().unwrap().to_str().unwrap().to_owned();
    // Not there, not shown, no program, and in no folder of PATH.
    for missing in [
        "/no/such/program",
        "/var/log",
        "/etc/hostname",
        "no-such-program",
    ] {
        let refused = refused(&[missing]);
        assert!(
            matches!(refused, Err(ProgramError::Missing(_))),
            "{missing}"
        );
    }
    assert!(matches!(refused(&[&folder]), Err(ProgramError::Missing(_))));
    // The control: by its path, by a link and by its name.
    for there in [served().to_str().unwrap(), "/bin/sh", "sh", "/usr/bin/env"] {
        assert!(refused(&[there]).is_ok(), "{there}");
    }
}

#[test]
fn a_program_that_never_answers_is_ended() {
    let mut settings = settings(&["silent"]);
    settings.program.start_time = Duration::from_millis(300);
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        let error = get(&service, "/").await.unwrap_err();
        assert_eq!(error.status(), StatusCode::GATEWAY_TIMEOUT, "{error}");
        let asks = async {
            // Nobody is ended whom nobody asks.
            while host.metrics().faults == 0 {
                let _ = get(&service, "/").await;
            }
        };
        asks.await;
        let end = host.metrics().last_end.unwrap();
        assert_eq!(end, "did not answer in the time for its start");
    });
}

#[test]
fn a_request_that_takes_too_long_is_given_up() {
    let host = Host::start(settings(&[]));
    on_worker(async {
        let service = host.service_within(Duration::from_millis(300));
        body_of(get(&service, "/").await).await;
        let error = get(&service, "/hang").await.unwrap_err();
        assert_eq!(error.status(), StatusCode::GATEWAY_TIMEOUT, "{error}");
        body_of(get(&service, "/").await).await;
        assert_eq!(host.metrics().starts, 1);
    });
}

/// Also where the answer's request came while the process before it was taken to live.
#[test]
fn a_program_that_has_answered_is_known_to_answer() {
    let host = Host::start(settings(&[]));
    on_worker(async {
        let service = host.service();
        let hasty = host.service_within(Duration::from_millis(50));
        for _ in 0..10 {
            let _ = ask(&service, Method::POST, "/crash", "text").await;
            body_of(get(&service, "/").await).await;
            let began = std::time::Instant::now();
            let error = get(&hasty, "/hang").await.unwrap_err();
            assert_eq!(error.status(), StatusCode::GATEWAY_TIMEOUT, "{error}");
            // Not for as long as a start may take.
            assert!(began.elapsed() < host.program().settings().program.start_time);
        }
    });
}

/// Runs a test in a process of its own, where nothing else opens descriptors or takes memory. `test` is its name.
fn alone_in_a_process(test: &str, work: impl Future<Output = ()>) {
    const CHILD: &str = "PALISADE_TEST_ALONE";
    if std::env::var_os(CHILD).is_some() {
        return on_worker(work);
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", test])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let listed = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && listed.contains("1 passed"),
        "{said}{listed}"
    );
}

#[test]
fn an_unwell_program_is_started_anew() {
    let mut settings = settings(&[]);
    settings.program.health = Some(Health {
        path: "/health".into(),
        every: Duration::from_millis(20),
        time: Duration::from_secs(5),
        failures: 3,
    });
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        is_well(&service).await;
        body_of(get(&service, "/unwell").await).await;
        let metrics = host.becomes(|metrics| metrics.starts == 2).await;
        let end = metrics.last_end.unwrap();
        assert_eq!(
            end,
            "was not well: /health: it answered 500 Internal Server Error"
        );
        body_of(get(&service, "/").await).await;
        assert_eq!(host.metrics().faults, 1);
    });
}

/// Its first answers for its health are errors.
#[test]
fn a_program_may_be_unwell_while_it_starts() {
    let mut settings = settings(&["warms"]);
    settings.program.health = Some(Health {
        path: "/health".into(),
        every: Duration::from_millis(10),
        time: Duration::from_secs(5),
        failures: 1,
    });
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        while body_of(get(&service, "/asked").await).await.len() < 8 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!((host.metrics().starts, host.metrics().faults), (1, 0));
    });
}

#[test]
fn back_off_grows_to_a_most_and_ends_with_a_life() {
    let mut settings = settings(&[]);
    settings.program.back_off = Duration::from_millis(20);
    settings.program.back_off_most = Duration::from_millis(160);
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        // A short life makes the wait longer, one as long as the longest wait makes it short again.
        for (round, wait) in [(1, 20), (2, 40), (3, 80), (4, 160), (5, 160)] {
            body_of(get(&service, "/").await).await;
            let _ = ask(&service, Method::POST, "/crash", "text").await;
            host.hears_last(round, &format!("again in {wait} ms")).await;
        }
        body_of(get(&service, "/").await).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let _ = ask(&service, Method::POST, "/crash", "text").await;
        host.hears_last(6, "again in 20 ms").await;
    });
}

#[test]
fn a_program_that_shuts_its_socket_gets_another() {
    let host = Host::start(settings(&[]));
    on_worker(async {
        let service = host.service();
        let _ = get(&service, "/shut").await;
        host.becomes(|metrics| metrics.faults > 0).await;
        assert_eq!(body_of(get(&service, "/env").await).await, "1 own http");
    });
}

#[test]
fn a_limit_ends_a_program_and_not_its_service() {
    let mut settings = settings(&[]);
    settings.policy.limits.output_bytes = Some(70);
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        body_of(get(&service, "/talk").await).await;
        let metrics = host.becomes(|metrics| metrics.faults == 1).await;
        assert_eq!(metrics.last_end.unwrap(), "was ended: the limit on output");
        body_of(get(&service, "/").await).await;
    });
}

/// Answers every connection once, by `sock_accept` of WASI.
const MODULE: &str = r#"(module
    (import "wasi_snapshot_preview1" "sock_accept" (func $accept (param i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 1024) "HTTP/1.1 200 OK\0d\0acontent-length: 4\0d\0aconnection: close\0d\0a\0d\0awasm")
    (func $part (param i32 i32)
        (i32.store (i32.const 16) (local.get 0))
        (i32.store (i32.const 20) (local.get 1)))
    (func (export "_start")
        (loop $next
            (if (call $accept (i32.const 3) (i32.const 0) (i32.const 0)) (then unreachable))
            (call $part (i32.const 4096) (i32.const 4096))
            (drop (call $read (i32.load (i32.const 0)) (i32.const 16) (i32.const 1) (i32.const 8)))
            (call $part (i32.const 1024) (i32.const 61))
            (drop (call $write (i32.load (i32.const 0)) (i32.const 16) (i32.const 1) (i32.const 8)))
            (drop (call $close (i32.load (i32.const 0))))
            (br $next))))"#;

#[test]
fn webassembly_is_a_program_too() {
    let folder = tempfile::tempdir().unwrap();
    let module = folder.path().join("served.wasm");
    std::fs::write(&module, wat::parse_str(MODULE).unwrap()).unwrap();
    let beside = std::path::Path::new(env!("CARGO_BIN_EXE_palisade-host"));
    let mut settings = settings(&[]);
    settings.program.command = vec![module.to_str().unwrap().into()];
    settings.policy.grants.files[0].host = folder.path().into();
    settings.libexec = beside.parent().map(Into::into);
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        for _ in 0..3 {
            assert_eq!(body_of(get(&service, "/").await).await, "wasm");
        }
        assert_eq!((host.metrics().starts, host.metrics().faults), (1, 0));
    });
}

/// As root, all of these once more as somebody else.
#[test]
fn an_ordinary_user_can_do_the_same() {
    const IS_CHILD: &str = "PALISADE_TEST_ORDINARY_USER";
    if !rustix::process::geteuid().is_root() {
        return;
    }
    assert!(std::env::var_os(IS_CHILD).is_none(), "still root");
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["program::", "--test-threads=2"])
        .env(IS_CHILD, "1")
        .env_remove("XDG_RUNTIME_DIR")
        .output()
        .unwrap();
    let listed = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    // Without the list of those that passed: what failed is told of first where little of it is shown.
    let failures = listed.find("\nfailures:\n").unwrap_or(0);
    assert!(output.status.success(), "{}{said}", &listed[failures..]);
}
