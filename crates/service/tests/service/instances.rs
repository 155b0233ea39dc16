//! Instances: whose they are, how many, and who waits for one.

use crate::{
    LONG, Loaded, TURNS,
    fixture::{self, Fixture, policy},
    guests::{self, Missing},
};
use http::StatusCode;
use http_body_util::BodyExt;
use palisade_engine::{
    permits::Share,
    service::{Engine, EngineOptions},
};
use palisade_service::{Component, Fault, Imports, Isolation, Links, LoadError, World};
use std::time::Duration;

pub(crate) fn nothing_of_one_request_is_left_for_another(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    for _ in 0..3 {
        assert_eq!(fixture.get("/count").text(), "1");
    }
}

pub(crate) fn an_instance_is_kept_until_it_fails(component: &Loaded) {
    let fixture = Fixture::kept(component, "");
    for count in ["1", "2", "3"] {
        assert_eq!(fixture.get("/count").text(), count);
    }
    assert!(fixture.metrics().memory_bytes > 0, "it waits");
    assert_eq!(
        fixture.get("/trap").status,
        StatusCode::INTERNAL_SERVER_ERROR
    );
    assert_eq!(fixture.metrics().memory_bytes, 0);
    assert_eq!(fixture.metrics().restarted, 1);
    assert_eq!(fixture.get("/count").text(), "1", "another one");
}

pub(crate) fn requests_at_one_time_have_instances_of_their_own(component: &Loaded) {
    for fixture in [Fixture::new(component, ""), Fixture::kept(component, "")] {
        fixture.run(async {
            let (first, one) = fixture::channel();
            let (second, other) = fixture::channel();
            first.data("first");
            second.data("second");
            let one = fixture
                .ask_async(fixture::request("/echo", one))
                .await
                .unwrap();
            let other = fixture
                .ask_async(fixture::request("/echo", other))
                .await
                .unwrap();
            let (mut one, mut other) = (one.into_body(), other.into_body());
            assert_eq!(
                fixture::next(&mut other).await.into_data().unwrap(),
                "second"
            );
            assert_eq!(fixture::next(&mut one).await.into_data().unwrap(), "first");
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
pub(crate) fn one_service_leaves_instances_to_others(_: &Loaded) {
    let (engine, component) = pool_of(8);
    let share = Share {
        instances: 4,
        wait_time: LONG,
    };
    let slow = Fixture::sharing(&engine, &component, share);
    let other = Fixture::sharing(&engine, &component, share);
    slow.run(async {
        let (mut bodies, mut answers) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            let (parts, body) = fixture::channel();
            parts.data("begun");
            bodies.push(parts);
            answers.push(Box::pin(slow.ask_async(fixture::request("/echo", body))));
        }
        // A guest that takes longer than its turn goes on when it is polled again.
        let mut begun = Vec::new();
        for _ in 0..TURNS {
            let mut waiting = Vec::new();
            for mut response in answers {
                match fixture::poll_once(response.as_mut()).await {
                    Some(response) => begun.push(response),
                    None => waiting.push(response),
                }
            }
            answers = waiting;
            tokio::task::yield_now().await;
        }
        assert_eq!(begun.len(), 4);
        for _ in 0..20 {
            let hello = other.ask_async(fixture::request("/hello", fixture::whole("")));
            assert_eq!(hello.await.unwrap().status(), StatusCode::OK);
        }
        // Their clients go on, and none is lost.
        drop(bodies);
        for response in begun {
            let collected = response.unwrap().into_body().collect().await;
            assert_eq!(collected.unwrap().to_bytes(), "begun");
        }
        for response in answers {
            let collected = response.await.unwrap().into_body().collect().await;
            assert_eq!(collected.unwrap().to_bytes(), "begun");
        }
    });
    let metrics = slow.metrics();
    assert_eq!((metrics.done, metrics.faults), (100, 0));
}

pub(crate) fn requests_wait_for_an_instance_in_order(component: &Loaded) {
    let share = Share {
        instances: 1,
        wait_time: LONG,
    };
    let fixture = Fixture::sharing(&guests::engine(), component, share);
    fixture.run(async {
        let (parts, body) = fixture::channel();
        parts.data("begun");
        let held = fixture.ask_async(fixture::request("/echo", body)).await;
        let hello = || Box::pin(fixture.ask_async(fixture::request("/hello", fixture::whole(""))));
        let (mut first, mut second, gone) = (hello(), hello(), hello());
        assert!(fixture::poll_once(first.as_mut()).await.is_none());
        assert!(fixture::is_pending(gone).await, "its client goes");
        assert!(fixture::poll_once(second.as_mut()).await.is_none());
        drop(held);
        assert!(fixture::poll_once(second.as_mut()).await.is_none());
        assert_eq!(first.await.unwrap().status(), StatusCode::OK);
        assert_eq!(second.await.unwrap().status(), StatusCode::OK);
    });
}

/// Fills a pool of four with instances that are kept and wait.
async fn fill(service: &Fixture) {
    let (mut bodies, mut answers) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let (parts, body) = fixture::channel();
        parts.data("begun");
        bodies.push(parts);
        let response = service.ask_async(fixture::request("/echo", body)).await;
        answers.push(response.expect("a response"));
    }
    drop(bodies);
    for response in answers {
        let collected = response.into_body().collect().await;
        assert_eq!(collected.unwrap().to_bytes(), "begun");
    }
}

fn kept_in(engine: &Engine, component: &Loaded) -> Fixture {
    let share = Share {
        instances: 4,
        wait_time: LONG,
    };
    Fixture::in_pool(engine, component, share, Isolation::Kept)
}

/// A pool is not its first guest's for good: fresh and kept ones of others find room.
pub(crate) fn instances_that_wait_give_way(_: &Loaded) {
    let (engine, component) = pool_of(4);
    let first = kept_in(&engine, &component);
    let second = kept_in(&engine, &component);
    let share = Share {
        instances: 4,
        wait_time: LONG,
    };
    let fresh = Fixture::sharing(&engine, &component, share);
    first.run(async {
        fill(&first).await;
        let held = first.metrics().memory_bytes;
        let hello = fresh.ask_async(fixture::request("/hello", fixture::whole("")));
        assert_eq!(hello.await.unwrap().status(), StatusCode::OK);
        assert!(first.metrics().memory_bytes < held, "one has gone");
        fill(&second).await;
        fill(&first).await;
    });
    let metrics = first.metrics();
    assert_eq!((metrics.faults, metrics.restarted), (0, 0));
}

pub(crate) fn instances_of_another_thread_give_way(_: &Loaded) {
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
    assert_eq!(here.metrics().faults, 0);
}

pub(crate) fn who_waits_too_long_is_told_to_come_again(component: &Loaded) {
    let share = Share {
        instances: 1,
        wait_time: Duration::from_millis(1),
    };
    let fixture = Fixture::sharing(&guests::engine(), component, share);
    fixture.run(async {
        let (parts, body) = fixture::channel();
        parts.data("begun");
        let held = fixture.ask_async(fixture::request("/echo", body)).await;
        for _ in 0..3 {
            let asked = fixture.ask_async(fixture::request("/hello", fixture::whole("")));
            let fault = asked.await.unwrap_err();
            assert!(matches!(fault, Fault::Busy(_)), "{fault}");
            assert_eq!(fault.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(!fault.is_breakdown() && fault.is_want_of_instances());
        }
        drop(held);
    });
    assert_eq!(fixture.get("/hello").status, StatusCode::OK);
    let metrics = fixture.metrics();
    assert_eq!((metrics.done, metrics.faults), (2, 0), "no guest ran");
    let told: Vec<_> = metrics.lines.iter().map(|(_, line)| line).collect();
    assert!(
        told.len() == 1 && told[0].contains("raise `instances`"),
        "{told:?}"
    );
}

pub(crate) fn a_pool_that_is_full_is_no_fault_of_guests(_: &Loaded) {
    let (engine, component) = pool_of(1);
    let one = Fixture::sharing(&engine, &component, Share::default());
    let other = Fixture::sharing(&engine, &component, Share::default());
    one.run(async {
        let (parts, body) = fixture::channel();
        parts.data("begun");
        let held = one.ask_async(fixture::request("/echo", body)).await;
        for _ in 0..3 {
            let asked = other.ask_async(fixture::request("/hello", fixture::whole("")));
            let fault = asked.await.unwrap_err();
            assert!(matches!(fault, Fault::Full(_)), "{fault}");
            assert_eq!(fault.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(!fault.is_breakdown());
        }
        drop(held);
    });
    assert_eq!(other.get("/hello").status, StatusCode::OK);
    assert_eq!(other.metrics().lines.len(), 1, "told once");
}

pub(crate) fn a_new_component_is_not_kept(component: &Loaded) {
    let load = |isolation| {
        let share = Share::default();
        let imports = Imports::new(&guests::engine());
        let made = Component::new(&imports, &policy(""), isolation, share, Links::Followed);
        made.unwrap().link(component)
    };
    assert!(matches!(load(Isolation::Kept), Err(LoadError::Kept)));
    assert_eq!(load(Isolation::Fresh).unwrap().world(), World::Preview3);
}
