//! Components that answer requests, without a network between.

#[path = "service/guests.rs"]
mod guests;
#[path = "service/stage.rs"]
mod stage;

use guests::Missing;
use http::StatusCode;
use http_body_util::BodyExt;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use palisade_engine::{
    places::Share,
    service::{Engine, EngineOptions},
};
use palisade_service::{Component, Fault, Isolation, LoadError, Stream, World};
use stage::{Stage, policy};
use std::{process::ExitCode, time::Duration};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);
/// More than a guest that only answers needs, however slow the machine.
const TURNS: usize = 100;

fn main() -> ExitCode {
    let trials = vec![
        calls("hello", a_short_answer_is_whole_and_its_length_known),
        calls("request", a_guest_sees_its_request),
        calls("echo", bodies_stream_both_ways_with_trailers),
        calls("head-alone", a_head_alone_holds_no_instance),
        calls("broken-body", a_body_that_breaks_off_starts_no_guest),
        calls("empty", an_answer_may_have_no_body),
        calls("missing", a_status_is_the_guests),
        calls("ignored-body", a_body_need_not_be_read),
        calls("back-pressure", a_guest_waits_for_its_reader),
        calls("large", a_large_answer_comes_whole),
        calls("gone", a_client_that_goes_ends_the_guest),
        calls("after", a_guest_may_go_on_when_it_has_answered),
        calls("fresh", nothing_of_one_request_is_left_for_another),
        calls("kept", an_instance_is_kept_until_it_fails),
        calls("many", requests_at_one_time_have_instances_of_their_own),
        calls("share", one_service_leaves_instances_to_others),
        calls("turn", requests_wait_for_an_instance_in_order),
        calls("idle", instances_that_wait_give_way),
        calls("idle-elsewhere", instances_of_another_thread_give_way),
        calls("busy", who_waits_too_long_is_told_to_come_again),
        calls("full", a_pool_that_is_full_is_no_fault_of_guests),
        calls("trap", a_trap_is_an_error_with_its_backtrace),
        calls("late-trap", a_body_breaks_off_with_its_guest),
        calls("loop", a_loop_is_ended_in_time),
        calls("turns", a_loop_gives_others_their_turn),
        calls("processor-time", processor_time_has_its_limit),
        calls("sleep", a_wait_is_ended_in_time),
        calls("slow-client", a_slow_client_is_not_its_guests_fault),
        calls("slow-reader", a_slow_reader_is_not_its_guests_fault),
        calls(
            "slow-guest",
            a_slow_guest_is_at_fault_whatever_its_client_does,
        ),
        calls("grow", memory_has_its_limit),
        calls("none", a_guest_must_answer),
        calls("exit", a_guest_that_exits_has_not_answered),
        calls("error", an_error_code_has_a_status),
        calls("unfinished", an_unfinished_body_breaks_off),
        calls("announced", a_body_is_as_long_as_announced),
        calls("words", words_go_to_the_log_by_lines),
        calls("flood", output_has_its_limit),
        calls("environment", variables_are_those_granted),
        calls("files", files_are_those_granted),
        calls("special-files", what_is_no_file_is_not_opened),
        calls("sockets", there_are_no_sockets),
        calls("denied", a_request_is_sent_only_where_granted),
        calls("sent", a_request_is_sent_where_granted),
        calls("sends", requests_under_way_have_their_limits),
        calls("memory", memory_that_is_held_is_told),
        calls("refused", what_cannot_be_held_is_refused_when_loaded),
        tasks("0.3/hello", a_short_answer_is_whole_and_its_length_known),
        tasks("0.3/large", a_large_answer_comes_whole),
        tasks("0.3/echo", a_new_body_streams_both_ways),
        tasks("0.3/request", a_new_guest_sees_its_request),
        tasks("0.3/ends", new_faults_are_told),
        tasks("0.3/slow-client", a_slow_client_is_not_its_guests_fault),
        tasks("0.3/special-files", what_is_no_file_is_not_opened_by_a_task),
        tasks("0.3/kept", a_new_component_is_not_kept),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test of `guests/component/answers`.
fn calls(name: &str, test: fn(&wasmtime::component::Component)) -> Trial {
    trial(name, guests::answers, test)
}

/// A test of `guests/component/tasks`.
fn tasks(name: &str, test: fn(&wasmtime::component::Component)) -> Trial {
    trial(name, guests::tasks, test)
}

type Loaded = wasmtime::component::Component;

fn trial(name: &str, load: fn() -> Result<Loaded, Missing>, test: fn(&Loaded)) -> Trial {
    Trial::ignorable_test(format!("service/{name}"), move || {
        match load() {
            Ok(component) => test(&component),
            Err(Missing(reason)) => return Ok(Completion::ignored_with(reason)),
        }
        Ok::<_, Failed>(Completion::Completed)
    })
}

fn a_short_answer_is_whole_and_its_length_known(component: &Loaded) {
    let stage = Stage::new(component, "");
    let answer = stage.get("/hello");
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.text(), "Hello, WASI!\n");
    assert_eq!(answer.announced_bytes, Some(13));
    let figures = stage.figures();
    assert_eq!((figures.done, figures.faults, figures.denied), (1, 0, 0));
    assert!(figures.cpu_ns > 0);
    assert!(figures.lines.is_empty(), "{:?}", figures.lines);
}

fn a_guest_sees_its_request(component: &Loaded) {
    let stage = Stage::new(component, "");
    let request = http::Request::put("/request?a=b")
        .header("host", "example.com:8080")
        .header("x-color", "red")
        .header("connection", "close");
    let answer = stage.ask(request.body(stage::whole("")).unwrap());
    let text = answer.text();
    let first = "Method::Put Some(Scheme::Http) Some(\"example.com:8080\") Some(\"/request?a=b\")";
    assert_eq!(text.lines().next(), Some(first));
    assert!(text.contains("x-color: red\n"), "{text}");
    assert!(
        !text.contains("connection"),
        "a connection is the server's: {text}"
    );
}

fn bodies_stream_both_ways_with_trailers(component: &Loaded) {
    let stage = Stage::new(component, "");
    stage.run(async {
        let (parts, body) = stage::channel();
        parts.data("begun");
        let asked = stage.ask_async(stage::request("/echo", body));
        let mut answer = asked.await.unwrap().into_body();
        assert_eq!(stage::next(&mut answer).await.into_data().unwrap(), "begun");
        for part in ["one", "two"] {
            parts.data(part);
            assert_eq!(stage::next(&mut answer).await.into_data().unwrap(), part);
        }
        parts.trailers("x-sum", "6");
        let trailers = stage::next(&mut answer).await.into_trailers().unwrap();
        assert_eq!(trailers["x-sum"], "6");
        assert!(stage::is_at_end(&mut answer).await);
    });
    assert_eq!(stage.figures().faults, 0);
}

/// The client sends a head, and nothing for a while.
fn a_head_alone_holds_no_instance(component: &Loaded) {
    let share = Share {
        instances: 1,
        wait_time: LONG,
    };
    let stage = Stage::sharing(&guests::engine(), component, share);
    stage.run(async {
        let (parts, body) = stage::channel();
        let mut slow = std::pin::pin!(stage.ask_async(stage::request("/echo", body)));
        assert!(stage::poll_once(slow.as_mut()).await.is_none());
        let hello = stage.ask_async(stage::request("/hello", stage::whole("")));
        assert_eq!(hello.await.unwrap().status(), StatusCode::OK);
        parts.data("one");
        let mut answer = slow.await.unwrap().into_body();
        assert_eq!(stage::next(&mut answer).await.into_data().unwrap(), "one");
    });
}

fn a_body_that_breaks_off_starts_no_guest(component: &Loaded) {
    let stage = Stage::new(component, "");
    stage.run(async {
        let fault = stage
            .ask_async(stage::request("/echo", stage::Broken))
            .await;
        let fault = fault.unwrap_err();
        assert!(fault.to_string().contains("it is broken"), "{fault}");
        assert_eq!(fault.status(), StatusCode::BAD_REQUEST);
    });
    assert_eq!(stage.figures().done, 0);
}

fn an_answer_may_have_no_body(component: &Loaded) {
    let answer = Stage::new(component, "").get("/empty");
    assert_eq!(
        (answer.text().as_str(), answer.announced_bytes),
        ("", Some(0))
    );
}

fn a_status_is_the_guests(component: &Loaded) {
    assert_eq!(
        Stage::new(component, "").get("/elsewhere").status,
        StatusCode::NOT_FOUND
    );
}

fn a_body_need_not_be_read(component: &Loaded) {
    let stage = Stage::new(component, "");
    let request = http::Request::post("/hello").header("host", "h");
    let answer = stage.ask(request.body(stage::never()).unwrap());
    assert_eq!(answer.text(), "Hello, WASI!\n");
}

/// Of a gigabyte the host holds what a few writes have.
fn a_guest_waits_for_its_reader(component: &Loaded) {
    let stage = Stage::new(component, "");
    stage.run(async {
        let asked = stage.ask_async(stage::request("/big?1000000000", stage::whole("")));
        let mut answer = asked.await.unwrap().into_body();
        for _ in 0..20 {
            let data = stage::next(&mut answer).await.into_data().unwrap();
            assert!(data.len() <= 64 << 10);
        }
        drop(answer);
    });
    let figures = stage.figures();
    assert_eq!((figures.done, figures.faults), (1, 0));
}

fn a_large_answer_comes_whole(component: &Loaded) {
    let answer = Stage::new(component, "").get("/big");
    assert_eq!(answer.body.len(), 1 << 20);
    assert!(answer.body.iter().all(|byte| *byte == b'x'));
}

fn a_client_that_goes_ends_the_guest(component: &Loaded) {
    let stage = Stage::new(component, "");
    stage.run(async {
        // Before the head, and after it.
        let asked = stage.ask_async(stage::request("/sleep", stage::whole("")));
        assert!(stage::is_pending(asked).await);
        let asked = stage.ask_async(stage::request("/late-loop", stage::whole("")));
        drop(asked.await.unwrap());
    });
    let figures = stage.figures();
    assert_eq!((figures.done, figures.faults), (2, 0));
    assert_eq!(figures.memory_bytes, 0);
}

fn a_guest_may_go_on_when_it_has_answered(component: &Loaded) {
    let stage = Stage::new(component, "");
    let answer = stage.get("/after");
    assert_eq!(answer.text(), "answered\n");
    stage.wait_for_done(1);
    assert_eq!(stage.figures().lines, [(Stream::Stdout, "went on".into())]);
}

fn nothing_of_one_request_is_left_for_another(component: &Loaded) {
    let stage = Stage::new(component, "");
    for _ in 0..3 {
        assert_eq!(stage.get("/count").text(), "1");
    }
}

fn an_instance_is_kept_until_it_fails(component: &Loaded) {
    let stage = Stage::kept(component, "");
    for count in ["1", "2", "3"] {
        assert_eq!(stage.get("/count").text(), count);
    }
    assert!(stage.figures().memory_bytes > 0, "it waits");
    assert_eq!(stage.get("/trap").status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(stage.figures().memory_bytes, 0);
    assert_eq!(stage.figures().restarted, 1);
    assert_eq!(stage.get("/count").text(), "1", "another one");
}

fn requests_at_one_time_have_instances_of_their_own(component: &Loaded) {
    for stage in [Stage::new(component, ""), Stage::kept(component, "")] {
        stage.run(async {
            let (first, one) = stage::channel();
            let (second, other) = stage::channel();
            first.data("first");
            second.data("second");
            let one = stage.ask_async(stage::request("/echo", one)).await.unwrap();
            let other = stage
                .ask_async(stage::request("/echo", other))
                .await
                .unwrap();
            let (mut one, mut other) = (one.into_body(), other.into_body());
            assert_eq!(stage::next(&mut other).await.into_data().unwrap(), "second");
            assert_eq!(stage::next(&mut one).await.into_data().unwrap(), "first");
        });
    }
}

/// `answers`, in an engine of so many instances.
fn pool_of(instances: u32) -> (Engine, Loaded) {
    let engine = Engine::new(EngineOptions {
        instances,
        ..EngineOptions::default()
    })
    .expect("an engine");
    match guests::load(&engine, "answers") {
        Ok(component) => (engine, component),
        Err(Missing(reason)) => panic!("{reason}"),
    }
}

/// A hundred slow requests, in a pool of eight.
fn one_service_leaves_instances_to_others(_: &Loaded) {
    let (engine, component) = pool_of(8);
    let share = Share {
        instances: 4,
        wait_time: LONG,
    };
    let slow = Stage::sharing(&engine, &component, share);
    let other = Stage::sharing(&engine, &component, share);
    slow.run(async {
        let (mut bodies, mut answers) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            let (parts, body) = stage::channel();
            parts.data("begun");
            bodies.push(parts);
            answers.push(Box::pin(slow.ask_async(stage::request("/echo", body))));
        }
        // A guest that takes longer than its turn goes on when it is polled again.
        let mut begun = Vec::new();
        for _ in 0..TURNS {
            let mut waiting = Vec::new();
            for mut answer in answers {
                match stage::poll_once(answer.as_mut()).await {
                    Some(answer) => begun.push(answer),
                    None => waiting.push(answer),
                }
            }
            answers = waiting;
            tokio::task::yield_now().await;
        }
        assert_eq!(begun.len(), 4);
        for _ in 0..20 {
            let hello = other.ask_async(stage::request("/hello", stage::whole("")));
            assert_eq!(hello.await.unwrap().status(), StatusCode::OK);
        }
        // Their clients go on, and none is lost.
        drop(bodies);
        for answer in begun {
            let collected = answer.unwrap().into_body().collect().await;
            assert_eq!(collected.unwrap().to_bytes(), "begun");
        }
        for answer in answers {
            let collected = answer.await.unwrap().into_body().collect().await;
            assert_eq!(collected.unwrap().to_bytes(), "begun");
        }
    });
    let figures = slow.figures();
    assert_eq!((figures.done, figures.faults), (100, 0));
}

fn requests_wait_for_an_instance_in_order(component: &Loaded) {
    let share = Share {
        instances: 1,
        wait_time: LONG,
    };
    let stage = Stage::sharing(&guests::engine(), component, share);
    stage.run(async {
        let (parts, body) = stage::channel();
        parts.data("begun");
        let held = stage.ask_async(stage::request("/echo", body)).await;
        let hello = || Box::pin(stage.ask_async(stage::request("/hello", stage::whole(""))));
        let (mut first, mut second, gone) = (hello(), hello(), hello());
        assert!(stage::poll_once(first.as_mut()).await.is_none());
        assert!(stage::is_pending(gone).await, "its client goes");
        assert!(stage::poll_once(second.as_mut()).await.is_none());
        drop(held);
        assert!(stage::poll_once(second.as_mut()).await.is_none());
        assert_eq!(first.await.unwrap().status(), StatusCode::OK);
        assert_eq!(second.await.unwrap().status(), StatusCode::OK);
    });
}

/// Fills a pool of four with instances that are kept and wait.
async fn fill(service: &Stage) {
    let (mut bodies, mut answers) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let (parts, body) = stage::channel();
        parts.data("begun");
        bodies.push(parts);
        let answer = service.ask_async(stage::request("/echo", body)).await;
        answers.push(answer.expect("an answer"));
    }
    drop(bodies);
    for answer in answers {
        let collected = answer.into_body().collect().await;
        assert_eq!(collected.unwrap().to_bytes(), "begun");
    }
}

fn kept_in(engine: &Engine, component: &Loaded) -> Stage {
    let share = Share {
        instances: 4,
        wait_time: LONG,
    };
    Stage::in_pool(engine, component, share, Isolation::Kept)
}

/// A pool is not its first guest's for good: fresh and kept ones of others find room.
fn instances_that_wait_give_way(_: &Loaded) {
    let (engine, component) = pool_of(4);
    let first = kept_in(&engine, &component);
    let second = kept_in(&engine, &component);
    let share = Share {
        instances: 4,
        wait_time: LONG,
    };
    let fresh = Stage::sharing(&engine, &component, share);
    first.run(async {
        fill(&first).await;
        let held = first.figures().memory_bytes;
        let hello = fresh.ask_async(stage::request("/hello", stage::whole("")));
        assert_eq!(hello.await.unwrap().status(), StatusCode::OK);
        assert!(first.figures().memory_bytes < held, "one has gone");
        fill(&second).await;
        fill(&first).await;
    });
    let figures = first.figures();
    assert_eq!((figures.faults, figures.restarted), (0, 0));
}

fn instances_of_another_thread_give_way(_: &Loaded) {
    let (engine, component) = pool_of(4);
    let (filled, is_filled) = tokio::sync::oneshot::channel();
    let (end, is_over) = tokio::sync::oneshot::channel::<()>();
    let elsewhere = {
        let (engine, component) = (engine.clone(), component.clone());
        std::thread::spawn(move || {
            let service = kept_in(&engine, &component);
            service.run(async {
                fill(&service).await;
                filled.send(()).expect("somebody waits");
                let _ = is_over.await;
            });
        })
    };
    let here = kept_in(&engine, &component);
    here.run(async {
        is_filled.await.expect("it is filled");
        fill(&here).await;
    });
    drop(end);
    elsewhere.join().expect("no panic");
    assert_eq!(here.figures().faults, 0);
}

fn who_waits_too_long_is_told_to_come_again(component: &Loaded) {
    let share = Share {
        instances: 1,
        wait_time: Duration::from_millis(1),
    };
    let stage = Stage::sharing(&guests::engine(), component, share);
    stage.run(async {
        let (parts, body) = stage::channel();
        parts.data("begun");
        let held = stage.ask_async(stage::request("/echo", body)).await;
        for _ in 0..3 {
            let asked = stage.ask_async(stage::request("/hello", stage::whole("")));
            let fault = asked.await.unwrap_err();
            assert!(matches!(fault, Fault::Busy(_)), "{fault}");
            assert_eq!(fault.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(!fault.is_breakdown() && fault.is_want_of_instances());
        }
        drop(held);
    });
    assert_eq!(stage.get("/hello").status, StatusCode::OK);
    let figures = stage.figures();
    assert_eq!((figures.done, figures.faults), (2, 0), "no guest ran");
    let told: Vec<_> = figures.lines.iter().map(|(_, line)| line).collect();
    assert!(
        told.len() == 1 && told[0].contains("raise `instances`"),
        "{told:?}"
    );
}

fn a_pool_that_is_full_is_no_fault_of_guests(_: &Loaded) {
    let (engine, component) = pool_of(1);
    let one = Stage::sharing(&engine, &component, Share::default());
    let other = Stage::sharing(&engine, &component, Share::default());
    one.run(async {
        let (parts, body) = stage::channel();
        parts.data("begun");
        let held = one.ask_async(stage::request("/echo", body)).await;
        for _ in 0..3 {
            let asked = other.ask_async(stage::request("/hello", stage::whole("")));
            let fault = asked.await.unwrap_err();
            assert!(matches!(fault, Fault::Full(_)), "{fault}");
            assert_eq!(fault.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(!fault.is_breakdown());
        }
        drop(held);
    });
    assert_eq!(other.get("/hello").status, StatusCode::OK);
    assert_eq!(other.figures().lines.len(), 1, "told once");
}

fn a_trap_is_an_error_with_its_backtrace(component: &Loaded) {
    let stage = Stage::new(component, "");
    let fault = stage.fail("/trap");
    assert!(matches!(fault, Fault::Trap(_)), "{fault}");
    assert_eq!(fault.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let figures = stage.figures();
    assert_eq!((figures.done, figures.faults), (1, 1));
    let (stream, line) = figures.lines.last().unwrap();
    assert_eq!(*stream, Stream::Wall);
    assert!(
        line.starts_with("guest: it trapped: ") && line.contains("; at "),
        "{line}"
    );
    assert_eq!(stage.get("/hello").status, StatusCode::OK, "the next one");
}

fn a_body_breaks_off_with_its_guest(component: &Loaded) {
    let stage = Stage::new(component, "");
    let answer = stage.get("/late-trap");
    // Nothing had gone out.
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(stage.figures().faults, 1);
}

fn a_loop_is_ended_in_time(component: &Loaded) {
    let stage = Stage::new(component, "[limits]\ntime = \"50ms\"");
    for path in ["/loop", "/late-loop"] {
        let fault = stage.fail(path);
        assert!(matches!(fault, Fault::Time(_)), "{fault}");
        assert_eq!(fault.status(), StatusCode::GATEWAY_TIMEOUT);
    }
    assert_eq!(stage.get("/hello").status, StatusCode::OK);
}

/// On the same thread.
fn a_loop_gives_others_their_turn(component: &Loaded) {
    let stage = Stage::new(component, "[limits]\ntime = \"10s\"");
    stage.run(async {
        let looping = stage.ask_async(stage::request("/loop", stage::whole("")));
        let hello = stage.ask_async(stage::request("/hello", stage::whole("")));
        assert!(stage::is_first(hello, looping).await);
    });
}

fn processor_time_has_its_limit(component: &Loaded) {
    let stage = Stage::new(component, "[limits]\ncpu-time = \"50ms\"");
    let fault = stage.fail("/loop");
    assert!(matches!(fault, Fault::CpuTime(_)), "{fault}");
}

fn a_wait_is_ended_in_time(component: &Loaded) {
    let stage = Stage::new(component, "[limits]\ntime = \"50ms\"");
    let fault = stage.fail("/sleep");
    assert!(matches!(fault, Fault::Time(_)), "{fault}");
    assert_eq!(stage.figures().memory_bytes, 0);
}

/// It begins its request's body, and sends no more of it.
fn a_slow_client_is_not_its_guests_fault(component: &Loaded) {
    let stage = Stage::new(component, "[limits]\ntime = \"50ms\"");
    let fault = stage.fail_with("/echo", stage::never());
    assert_eq!(fault, Fault::Client);
    assert_eq!(fault.status(), StatusCode::REQUEST_TIMEOUT);
    assert!(!fault.is_breakdown());
    assert_eq!(stage.figures().memory_bytes, 0);
}

/// It takes a part of the answer, and asks for the next one when time is up.
fn a_slow_reader_is_not_its_guests_fault(component: &Loaded) {
    let stage = Stage::new(component, "[limits]\ntime = \"50ms\"");
    stage.run(async {
        let asked = stage.ask_async(stage::request("/big?1000000000", stage::whole("")));
        let mut answer = asked.await.unwrap().into_body();
        let pause = tokio::time::Instant::now() + Duration::from_millis(60);
        let error = loop {
            match answer.frame().await.expect("it is no whole answer") {
                Ok(_) => tokio::time::sleep_until(pause).await,
                Err(error) => break error,
            }
        };
        assert_eq!(*error.downcast::<Fault>().unwrap(), Fault::Client);
    });
    assert_eq!(stage.figures().faults, 1);
}

/// Neither a request that goes on and on, nor one that waits for its guest, is its fault.
fn a_slow_guest_is_at_fault_whatever_its_client_does(component: &Loaded) {
    let stage = Stage::new(component, "[limits]\ntime = \"50ms\"");
    for path in ["/sleep", "/loop", "/read-and-sleep"] {
        let fault = stage.fail_with(path, stage::never());
        assert!(matches!(fault, Fault::Time(_)), "{path}: {fault}");
        assert!(fault.is_breakdown());
    }
}

fn memory_has_its_limit(component: &Loaded) {
    let stage = Stage::new(component, "[limits]\nmemory = \"32MiB\"");
    let fault = stage.fail("/grow");
    assert!(matches!(fault, Fault::Memory(_)), "{fault}");
    assert!(fault.to_string().contains("; at "), "{fault}");
    assert_eq!(stage.figures().memory_bytes, 0);
}

fn a_guest_must_answer(component: &Loaded) {
    assert_eq!(Stage::new(component, "").fail("/none"), Fault::NoAnswer);
}

fn a_guest_that_exits_has_not_answered(component: &Loaded) {
    assert_eq!(Stage::new(component, "").fail("/exit"), Fault::Exit(1));
}

fn an_error_code_has_a_status(component: &Loaded) {
    let stage = Stage::new(component, "");
    let fault = stage.fail("/error");
    assert_eq!(fault.status(), StatusCode::BAD_GATEWAY);
    assert!(!fault.is_breakdown());
}

fn an_unfinished_body_breaks_off(component: &Loaded) {
    for stage in [Stage::new(component, ""), Stage::kept(component, "")] {
        assert_eq!(stage.fail("/unfinished"), Fault::Unfinished);
        assert!(matches!(stage.fail("/given-up"), Fault::Broken(_)));
    }
}

fn a_body_is_as_long_as_announced(component: &Loaded) {
    let stage = Stage::new(component, "");
    assert_eq!(stage.get("/announced?10").body.len(), 10);
    assert!(matches!(stage.fail("/announced?5"), Fault::Broken(_)));
    assert!(matches!(stage.fail("/announced?15"), Fault::Broken(_)));
}

fn words_go_to_the_log_by_lines(component: &Loaded) {
    let stage = Stage::new(component, "");
    assert_eq!(stage.get("/words").text(), "said\n");
    let line = |stream, text: &str| (stream, text.to_owned());
    assert_eq!(
        stage.figures().lines,
        [
            line(Stream::Stdout, "one"),
            line(Stream::Stderr, "to the terminal \\u{1b}[2J"),
            line(Stream::Stdout, "two"),
            line(Stream::Stdout, "three"),
        ]
    );
}

fn output_has_its_limit(component: &Loaded) {
    let stage = Stage::new(component, "[limits]\noutput = \"10KiB\"");
    for requests in 1..=2 {
        assert_eq!(stage.get("/flood").text(), "said\n");
        let figures = stage.figures();
        let told: usize = figures.lines.iter().map(|(_, line)| line.len()).sum();
        assert!(told < requests * (11 << 10), "{told}");
        let cuts = figures
            .lines
            .iter()
            .filter(|(stream, _)| *stream == Stream::Wall);
        assert_eq!(cuts.count(), requests, "told once");
    }
}

fn variables_are_those_granted(component: &Loaded) {
    assert_eq!(Stage::new(component, "").get("/env").text(), "[]");
    let stage = Stage::new(component, "[grants]\nenv = [\"GREETING=hello\"]");
    assert_eq!(stage.get("/env").text(), "[(\"GREETING\", \"hello\")]");
}

fn files_are_those_granted(component: &Loaded) {
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().join("site");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("page"), "a page").unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
    let grant = |access| format!("[grants]\n{access} = [\"{}:/site\"]", folder.display());
    let none = Stage::new(component, "");
    assert_eq!(
        none.get("/read?/site//page").text(),
        "no such folder among 0"
    );
    let reads = Stage::new(component, &grant("read"));
    assert_eq!(reads.get("/read?/site//page").text(), "a page");
    for path in ["../secret", "link", "/etc/passwd"] {
        let text = reads.get(&format!("/read?/site//{path}")).text();
        assert!(text != "secret" && text.len() < 40, "{path}: {text}");
    }
    assert_ne!(reads.get("/write?/site//new").text(), "7");
    assert!(!folder.join("new").exists());
    let writes = Stage::new(component, &grant("write"));
    assert_eq!(writes.get("/write?/site//new").text(), "7");
    assert_eq!(
        std::fs::read_to_string(folder.join("new")).unwrap(),
        "written"
    );
}

/// A page, a FIFO and a link to it, and what lets a guest write there.
fn folder_with_fifo() -> (tempfile::TempDir, String) {
    use rustix::fs::{CWD, FileType, mknodat};
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("page"), "a page").unwrap();
    let fifo = folder.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, 0o666.into(), 0).unwrap();
    std::os::unix::fs::symlink("fifo", folder.path().join("link")).unwrap();
    let path = folder.path().canonicalize().unwrap();
    let policy = format!(
        "[grants]\nwrite = [\"{}:/site\"]\n[limits]\ntime = \"10s\"",
        path.display()
    );
    (folder, policy)
}

/// Each open of a FIFO would hold a thread for ever, also at the end.
fn what_is_no_file_is_not_opened(component: &Loaded) {
    let (folder, policy) = folder_with_fifo();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    let stage = Stage::new(component, &policy);
    for path in ["fifo", "link", "socket"] {
        for act in ["read", "write"].repeat(16) {
            let text = stage.get(&format!("/{act}?/site//{path}")).text();
            assert_eq!(text, "unsupported", "{act} {path}");
        }
    }
    assert_eq!(stage.get("/read?/site//page").text(), "a page");
    assert_eq!(stage.get("/read?/site//none").text(), "no-entry");
    assert_eq!(stage.get("/read?/site//page/x").text(), "not-directory");
    assert_eq!(stage.figures().faults, 0);
}

fn what_is_no_file_is_not_opened_by_a_task(component: &Loaded) {
    let (_folder, policy) = folder_with_fifo();
    let stage = Stage::new(component, &policy);
    for path in ["fifo", "link"].repeat(16) {
        let text = stage.get(&format!("/open?{path}")).text();
        assert!(text.ends_with("Unsupported"), "{path}: {text}");
    }
    let text = stage.get("/open?page").text();
    assert!(text.contains("RegularFile"), "{text}");
    let text = stage.get("/open?../page").text();
    assert!(text.ends_with("NotPermitted"), "{text}");
}

fn there_are_no_sockets(component: &Loaded) {
    // Also where requests may be sent.
    let stage = Stage::new(component, "[grants]\nconnect = [\"tcp://127.0.0.1:80\"]");
    let text = stage.get("/socket").text();
    assert!(
        text.contains("connect Err(") && text.contains("look up Err("),
        "{text}"
    );
}

fn a_request_is_sent_only_where_granted(component: &Loaded) {
    let stage = Stage::new(component, "[grants]\nconnect = [\"tcp://127.0.0.1:8080\"]");
    for target in ["127.0.0.1:8081/x", "127.0.0.2:8080/x", "example.com/x"] {
        let text = stage.get(&format!("/send?{target}")).text();
        assert_eq!(text, "ErrorCode::HttpRequestDenied", "{target}");
    }
    let figures = stage.figures();
    assert_eq!(figures.denied, 3);
    assert!(figures.sent.is_empty());
    assert!(
        figures.lines[0].1.contains("tcp://127.0.0.1:8081"),
        "{:?}",
        figures.lines
    );
}

fn a_request_is_sent_where_granted(component: &Loaded) {
    let stage = Stage::new(component, "[grants]\nconnect = [\"tcp://127.0.0.1:8080\"]");
    assert_eq!(stage.get("/send?127.0.0.1:8080/x").text(), "200 sent /x");
    let figures = stage.figures();
    let (target, times) = &figures.sent[0];
    assert_eq!((target.host.as_str(), target.port), ("127.0.0.1", 8080));
    assert_eq!(times.connect, Some(Duration::from_secs(5)));
    assert_eq!(figures.denied, 0);
}

/// Each guest sends a hundred requests, and keeps the answers as long as its client goes on.
fn requests_under_way_have_their_limits(component: &Loaded) {
    let stage = Stage::new(component, "[grants]\nconnect = [\"tcp://127.0.0.1:8080\"]");
    stage.run(async {
        let ask = || async {
            let (parts, body) = stage::channel();
            parts.data("begun");
            let request = stage::request("/send-many?127.0.0.1:8080/x", body);
            let mut answer = stage.ask_async(request).await.unwrap().into_body();
            let told = stage::next(&mut answer).await.into_data().unwrap();
            (String::from_utf8(told.to_vec()).unwrap(), parts, answer)
        };
        const REFUSED: &str = "Some(Err(ErrorCode::ConnectionLimitReached))";
        let mut under_way = Vec::new();
        for _ in 0..8 {
            let (told, parts, answer) = ask().await;
            assert_eq!(told, format!("32 {REFUSED}"));
            under_way.push((parts, answer));
        }
        assert_eq!(ask().await.0, format!("0 {REFUSED}"));
        under_way.pop();
        assert_eq!(
            ask().await.0,
            format!("32 {REFUSED}"),
            "there is room again"
        );
    });
    let figures = stage.figures();
    assert_eq!((figures.faults, figures.denied), (0, 0));
    assert_eq!(figures.lines.len(), 10, "each is told once");
}

fn memory_that_is_held_is_told(component: &Loaded) {
    let stage = Stage::new(component, "");
    stage.run(async {
        let (parts, body) = stage::channel();
        parts.data("begun");
        let answer = stage
            .ask_async(stage::request("/echo", body))
            .await
            .unwrap();
        // Another request's end tells it.
        stage
            .ask_async(stage::request("/hello", stage::whole("")))
            .await
            .unwrap();
        assert!(stage.figures().memory_bytes >= 1 << 20);
        drop(answer);
    });
    assert_eq!(stage.figures().memory_bytes, 0);
}

fn what_cannot_be_held_is_refused_when_loaded(component: &Loaded) {
    let load = |text| {
        Component::new(
            &guests::engine(),
            component,
            &policy(text),
            Isolation::Fresh,
            Share::default(),
        )
    };
    let error = load("[limits]\nmemory = \"100GiB\"").unwrap_err();
    assert!(matches!(error, LoadError::Memory { .. }), "{error}");
    let error = load("[limits]\nprocesses = 1").unwrap_err();
    assert!(error.to_string().starts_with("policy: "), "{error}");
    assert_eq!(load("").unwrap().world(), World::Preview2);
}

fn a_new_body_streams_both_ways(component: &Loaded) {
    let stage = Stage::new(component, "");
    stage.run(async {
        let (parts, body) = stage::channel();
        parts.data("begun");
        let asked = stage.ask_async(stage::request("/echo", body));
        let mut answer = asked.await.unwrap().into_body();
        assert_eq!(stage::next(&mut answer).await.into_data().unwrap(), "begun");
        for part in ["one", "two"] {
            parts.data(part);
            assert_eq!(stage::next(&mut answer).await.into_data().unwrap(), part);
        }
        drop(parts);
        assert!(stage::is_at_end(&mut answer).await);
    });
    assert_eq!(stage.figures().faults, 0);
}

fn a_new_guest_sees_its_request(component: &Loaded) {
    let text = Stage::new(component, "").get("/request").text();
    assert!(
        text.starts_with("Method::Get Some(Scheme::Http) Some(\"test\")"),
        "{text}"
    );
}

fn new_faults_are_told(component: &Loaded) {
    let stage = Stage::new(component, "[limits]\ntime = \"100ms\"");
    assert!(matches!(stage.fail("/trap"), Fault::Trap(_)));
    assert!(matches!(stage.fail("/loop"), Fault::Time(_)));
    assert!(matches!(stage.fail("/wait"), Fault::Time(_)));
    assert_eq!(
        stage.fail("/error").status(),
        StatusCode::INTERNAL_SERVER_ERROR
    );
    assert_eq!(stage.figures().memory_bytes, 0);
    assert_eq!(stage.get("/hello").status, StatusCode::OK);
}

fn a_new_component_is_not_kept(component: &Loaded) {
    let load = |isolation| {
        let share = Share::default();
        Component::new(&guests::engine(), component, &policy(""), isolation, share)
    };
    assert!(matches!(load(Isolation::Kept), Err(LoadError::Kept)));
    assert_eq!(load(Isolation::Fresh).unwrap().world(), World::Preview3);
}
