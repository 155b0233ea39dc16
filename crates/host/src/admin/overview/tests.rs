use super::*;
use crate::{
    admin::{Guest, Route, recent::Recent, tests::Fixture},
    kinds::{BrokenBy, GuestKind},
    metrics::State,
};
use http::StatusCode;
use serde_json::Value;
use std::time::Instant;

/// Guests of these names, each a service with a route of its own that leads through the filter `auth`.
fn fixture(names: &[&str]) -> Fixture {
    let fixture = Fixture::new();
    let service = |name: &&str| Guest {
        kind: GuestKind::Service,
        name: (*name).to_owned(),
        what: "component",
    };
    let auth = Guest {
        kind: GuestKind::Filter,
        name: "auth".into(),
        what: "filter",
    };
    let route = |name: &&str| Route {
        name: (*name).to_owned(),
        filters: vec!["auth".into()],
        service: (*name).to_owned(),
    };
    {
        let mut now = fixture.report.now();
        now.guests = std::iter::once(auth)
            .chain(names.iter().map(service))
            .collect();
        now.routes = names.iter().map(route).collect();
    }
    serve(&fixture, names, 1);
    fixture
}

/// So many requests to the first, twice as many to the second, and so on.
fn serve(fixture: &Fixture, names: &[&str], requests: u64) {
    let registry = &fixture.report.registry;
    let auth = registry.guest(GuestKind::Filter, "auth", 0);
    for (at, name) in names.iter().enumerate() {
        let service = registry.guest(GuestKind::Service, name, 0);
        let route = registry.route(name, 0);
        for _ in 0..requests * (at as u64 + 1) {
            service.requests.add(1);
            auth.requests.add(1);
            service.cpu_ns.add(1_000_000);
            route.count(Some(StatusCode::OK), None);
            route.count_time(Duration::from_millis(3), 1);
        }
    }
}

fn ask(report: &Report, look: &Look, query: &str) -> Value {
    let asked = Asked::read(query).unwrap_or_else(|wrong| panic!("{query}: {wrong}"));
    serde_json::to_value(overview(report, look, &asked)).unwrap()
}

fn names(told: &Value) -> Vec<&str> {
    let rows = told["rows"].as_array().unwrap();
    rows.iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect()
}

#[test]
fn rows_are_those_that_were_asked_for() {
    let fixture = fixture(&["a/shop", "a/blog", "b/shop", "c"]);
    let report = &fixture.report;
    report
        .registry
        .guest(GuestKind::Service, "a/shop", 0)
        .memory_bytes
        .set(1 << 20);
    let look = Recent::default().look(report, Instant::now());
    let told = ask(report, &look, "");
    assert_eq!(names(&told), ["auth", "c", "b/shop", "a/blog", "a/shop"]);
    assert_eq!(
        (&told["matching"], &told["all"], &told["has_tenants"]),
        (&5.into(), &5.into(), &true.into())
    );
    assert_eq!(
        names(&ask(report, &look, "sort=memory&count=1")),
        ["a/shop"]
    );
    assert_eq!(
        names(&ask(report, &look, "sort=name&from=1&count=2")),
        ["a/shop", "auth"]
    );
    assert_eq!(
        names(&ask(report, &look, "search=SHOP&sort=name")),
        ["a/shop", "b/shop"]
    );
    assert_eq!(names(&ask(report, &look, "search=shop+b%2F")), ["b/shop"]);
    assert_eq!(names(&ask(report, &look, "search=filter")), ["auth"]);
    assert_eq!(names(&ask(report, &look, "search=%3Cnothing")), [""; 0]);
    assert_eq!(names(&ask(report, &look, "from=99")), [""; 0]);
    assert_eq!(
        names(&ask(report, &look, "view=routes&sort=requests")),
        ["c", "b/shop", "a/blog", "a/shop"]
    );
    let told = ask(report, &look, "view=tenants&sort=name");
    assert_eq!(names(&told), ["a", "b"]);
    assert_eq!(
        (&told["rows"][0]["guests"], &told["rows"][0]["requests"]),
        (&2.into(), &3.into())
    );
    assert_eq!(told["rows"][0]["memory_bytes"], 1 << 20);
    for wrong in [
        "view=x",
        "sort=",
        "from=-1",
        "count=x",
        "nothing=1",
        &format!("search={}", "x".repeat(300)),
    ] {
        assert!(Asked::read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn rates_and_latencies_are_of_the_last_seconds() {
    let fixture = fixture(&["one", "two"]);
    let report = &fixture.report;
    let recent = Recent::default();
    let begun = Instant::now();
    let first = ask(report, &recent.look(report, begun), "");
    assert!(
        first["window_s"].is_null() && first["rows"][0]["requests_s"].is_null(),
        "{first}"
    );
    serve(&fixture, &["one", "two"], 100);
    let slow = report.registry.route("one", 0);
    for _ in 0..100 {
        slow.count(None, Some(BrokenBy::Service));
        slow.count_time(Duration::from_millis(700), 1);
    }
    let look = recent.look(report, begun + Duration::from_secs(10));
    let told = ask(report, &look, "view=guests&sort=name");
    let [auth, one, two] = told["rows"].as_array().unwrap().as_slice() else {
        panic!("{told}");
    };
    assert_eq!(told["window_s"], 10.0);
    assert_eq!(
        (&auth["requests_s"], &one["requests_s"], &two["requests_s"]),
        (&30.0.into(), &10.0.into(), &20.0.into())
    );
    assert_eq!(two["cpu"], 0.02, "200 ms of 10 s");
    assert_eq!(
        (&two["requests"], &told["totals"]["errors_s"]),
        (&202.into(), &10.0.into())
    );
    let ms = |row: &Value, quantile: &str| row[quantile].as_f64().unwrap() * 1000.0;
    assert!((2.5..=5.0).contains(&ms(two, "p99_s")), "{two}");
    assert!((500.0..=1000.0).contains(&ms(one, "p99_s")), "{one}");
    assert!((500.0..=1000.0).contains(&ms(auth, "p99_s")), "{auth}");
    assert!((2.5..=5.0).contains(&ms(auth, "p50_s")), "{auth}");
}

#[test]
fn what_guests_say_is_told_as_text_and_in_bounds() {
    let hostile = [
        "<img src=x onerror=alert(1)>",
        "\u{202e}gnp.exe",
        "x\u{1b}[2J",
    ];
    let fixture = fixture(&hostile);
    let report = &fixture.report;
    for name in hostile {
        let guest = report.registry.guest(GuestKind::Service, name, 0);
        guest.fault(format!("</script>\u{202e}{}", "ü".repeat(100_000)));
        guest.set_state(State::Resting);
    }
    report.now().warnings = vec!["\u{1b}]0;x\u{7}".into(); 1000];
    report.now().last_failure = Some((SystemTime::now(), "x".repeat(100_000)));
    let look = Recent::default().look(report, Instant::now());
    for view in ["guests", "routes", "tenants"] {
        let told = ask(report, &look, &format!("view={view}"));
        let text = told.to_string();
        assert!(text.len() < 40_000, "{}", text.len());
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{text}");
        assert_eq!(
            (
                &told["all_warnings"],
                told["faults"].as_array().unwrap().len()
            ),
            (&1000.into(), 3)
        );
        assert_eq!(told["totals"]["resting"], 3);
    }
}

/// Ten thousand guests of a thousand tenants, with names as long as they may be.
#[test]
fn ten_thousand_guests_are_a_small_answer() {
    let names: Vec<_> = (0..10_000)
        .map(|at| format!("{:0>64}/{at:0>64}", at % 1000))
        .collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let fixture = fixture(&[]);
    let report = &fixture.report;
    {
        let mut now = report.now();
        let guests = names.iter().map(|name| Guest {
            kind: GuestKind::Service,
            name: (*name).to_owned(),
            what: "component",
        });
        now.guests = guests.collect();
        let routes = names.iter().map(|name| Route {
            name: (*name).to_owned(),
            filters: Vec::new(),
            service: (*name).to_owned(),
        });
        now.routes = routes.collect();
    }
    for name in &names {
        report
            .registry
            .guest(GuestKind::Service, name, 0)
            .fault("it trapped");
        report
            .registry
            .route(name, 0)
            .count(Some(StatusCode::OK), None);
    }
    let look = Recent::default().look(report, Instant::now());
    for (query, matching) in [
        ("view=guests&sort=errors", 10_000),
        ("view=tenants&sort=faults&from=900", 1_000),
        ("view=routes&count=100000", 10_000),
        ("search=0007", 0),
    ] {
        let told = ask(report, &look, query);
        let bytes = told.to_string().len();
        assert!(bytes < 100_000, "{query}: {bytes}");
        assert!(
            matching == 0 || told["matching"] == matching,
            "{query}: {}",
            told["matching"]
        );
        assert!(told["rows"].as_array().unwrap().len() <= 100);
    }
}
