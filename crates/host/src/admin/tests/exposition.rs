//! A page of metrics, read as strictly as the text format of Prometheus (version 0.0.4) and its conventions want it.

use super::Fixture;
use crate::{
    admin::prometheus::{Page, write_at, write_defined},
    config::Metrics,
    kinds::GuestKind,
};
use http::StatusCode;
use palisade_filter::{Histogram, Metric, MetricValue};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// One sample: its name, its labels, its value.
type Sample = (String, Vec<(String, String)>, f64);

/// A family, as far as it has been read.
#[derive(Debug, Default)]
struct Family {
    name: String,
    kind: String,
    samples: Vec<Sample>,
}

/// Fails if anything in the page is not as it should be.
pub(super) fn check(page: &str) {
    let families = read(page);
    let mut names = BTreeSet::new();
    let mut series = BTreeSet::new();
    for family in &families {
        assert!(names.insert(&family.name), "{} twice", family.name);
        check_name(family);
        for (name, labels, value) in &family.samples {
            let mut labels = labels.clone();
            labels.sort();
            assert!(
                series.insert((name.clone(), labels.clone())),
                "{name} {labels:?} twice"
            );
            assert!(value.is_finite(), "{name} {value}");
        }
        match &*family.kind {
            "histogram" => check_histogram(family),
            kind => check_plain(family, kind),
        }
    }
}

fn read(page: &str) -> Vec<Family> {
    assert!(page.ends_with('\n'), "the last line has an end");
    let mut families: Vec<Family> = Vec::new();
    let mut helped = None;
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').expect("a text behind the name");
            assert!(!text.is_empty() && !text.contains('\\'), "{line}");
            assert_eq!(helped.replace(name), None, "no type of {name}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type");
            assert_eq!(helped.take(), Some(name), "its help stands before it");
            families.push(Family {
                name: name.into(),
                kind: kind.into(),
                samples: Vec::new(),
            });
        } else {
            let family = families.last_mut().expect("a family before its samples");
            family.samples.push(sample(line));
        }
    }
    assert_eq!(helped, None);
    families
}

/// `name{label="value",…} number`
fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').expect("a value");
    let value = value
        .parse()
        .unwrap_or_else(|_| panic!("no number: {line}"));
    let Some((name, labels)) = series.split_once('{') else {
        return (series.into(), Vec::new(), value);
    };
    let labels = labels.strip_suffix('}').expect("an end of the labels");
    (name.into(), read_labels(labels), value)
}

fn read_labels(text: &str) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    let mut rest = text.chars().peekable();
    while rest.peek().is_some() {
        let name: String = rest.by_ref().take_while(|c| *c != '=').collect();
        assert!(is_label(&name), "{name:?} in {text}");
        assert_eq!(rest.next(), Some('"'), "{text}");
        let mut value = String::new();
        loop {
            match rest.next().expect("the value's end") {
                '"' => break,
                '\\' => value.push(match rest.next() {
                    Some('n') => '\n',
                    Some(escaped @ ('\\' | '"')) => escaped,
                    other => panic!("{other:?} is no escape: {text}"),
                }),
                c => {
                    assert!(!c.is_control(), "{text:?}");
                    value.push(c);
                }
            }
        }
        assert!(
            labels.iter().all(|(known, _)| *known != name),
            "{name} twice: {text}"
        );
        labels.push((name, value));
        assert!(matches!(rest.next(), None | Some(',')), "{text}");
    }
    labels
}

fn is_label(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Counters end in `_total` and nothing else does; units are seconds and bytes.
fn check_name(family: &Family) {
    let Family { name, kind, .. } = family;
    assert!(name.starts_with("palisade_") && is_label(name), "{name}");
    assert_eq!(
        name.ends_with("_total"),
        kind == "counter",
        "{name} is a {kind}"
    );
    for word in name.split('_') {
        let wrong = [
            "ns", "us", "ms", "minutes", "kb", "kib", "mb", "mib", "percent",
        ];
        assert!(!wrong.contains(&word), "{name}: not the base unit");
    }
    for suffix in ["_bucket", "_count", "_sum"] {
        assert!(!name.ends_with(suffix), "{name}");
    }
}

fn check_plain(family: &Family, kind: &str) {
    assert!(["counter", "gauge"].contains(&kind), "{kind}");
    for (name, labels, value) in &family.samples {
        assert_eq!(*name, family.name);
        assert!(
            labels
                .iter()
                .all(|(label, _)| label != "le" && label != "quantile")
        );
        assert!(kind == "gauge" || *value >= 0.0, "{name} {value}");
    }
}

/// Of each series: buckets that only grow, up to `+Inf`, and as many in it as there are in all.
fn check_histogram(family: &Family) {
    type Parts = (Vec<(f64, f64)>, Option<f64>, Option<f64>);
    let mut series: BTreeMap<Vec<(String, String)>, Parts> = BTreeMap::new();
    for (name, labels, value) in &family.samples {
        let (le, rest): (Vec<_>, Vec<_>) =
            labels.iter().cloned().partition(|(label, _)| label == "le");
        let (buckets, sum, count) = series.entry(rest).or_default();
        match (name.strip_prefix(&*family.name), &*le) {
            (Some("_bucket"), [(_, bound)]) => {
                buckets.push((bound.parse().expect("a bound"), *value));
            }
            (Some("_sum"), []) => assert_eq!(sum.replace(*value), None),
            (Some("_count"), []) => assert_eq!(count.replace(*value), None),
            _ => panic!("{name} {labels:?} in {}", family.name),
        }
    }
    for (labels, (buckets, sum, count)) in series {
        assert!(sum.is_some() && count.is_some(), "{labels:?}");
        assert!(
            buckets.is_sorted_by(|(bound, number), (next, more)| bound < next && number <= more),
            "{labels:?}: {buckets:?}"
        );
        let last = buckets
            .last()
            .map(|(bound, number)| (*bound, Some(*number)));
        assert_eq!(last, Some((f64::INFINITY, count)), "{labels:?}");
    }
}

/// Whatever filters call their metrics.
#[test]
fn names_of_filters_metrics_are_labels() {
    let metric = |name: &str, value| Metric {
        filter: "auth".into(),
        name: name.into(),
        value,
    };
    let names = [
        "plain",
        "",
        "a\\b\"c\nd",
        "\"} 1\npalisade_requests_total{guest=\"x",
        "\u{1b}[2J\u{202e}ü",
        "le",
    ];
    let metrics: Vec<_> = names
        .iter()
        .flat_map(|name| {
            let histogram = Histogram {
                count: 3,
                sum: 9,
                buckets: vec![(1, 0), (2, 1), (4, 2)],
            };
            [
                metric(name, MetricValue::Counter(1)),
                metric(name, MetricValue::Gauge(2)),
                metric(name, MetricValue::Histogram(histogram)),
            ]
        })
        .collect();
    let mut page = Page::default();
    write_defined(&mut page, &metrics, |_| true, usize::MAX);
    check(&page.text);
    let families = read(&page.text);
    let shown: Vec<_> = families[0]
        .samples
        .iter()
        .map(|(_, labels, _)| labels[2].1.as_str())
        .collect();
    assert_eq!(
        shown,
        [
            "plain",
            "",
            "a\\b\"c\\nd",
            "\"} 1\\npalisade_requests_total{guest=\"x",
            "\\u{1b}[2J\\u{202e}ü",
            "le",
        ]
    );
    assert_eq!(families.len(), 4);
}

/// One of them would make Prometheus take none of the page.
#[test]
fn names_that_look_the_same_are_one_series() {
    let metrics = ["a\nb", "a\\nb"].map(|name| Metric {
        filter: "auth".into(),
        name: name.into(),
        value: MetricValue::Counter(1),
    });
    let mut page = Page::default();
    write_defined(&mut page, &metrics, |_| true, usize::MAX);
    check(&page.text);
    assert!(
        page.text.contains("palisade_filter_metrics_hidden 1\n"),
        "{}",
        page.text
    );
}

/// As many metrics as a filter may define, with names as long as they get.
fn hostile_metrics(filter: &str) -> Vec<Metric> {
    let names = (0..1000).map(|number| format!("{}{number:04}", "\u{1}".repeat(252)));
    let metrics = names.map(|name| Metric {
        filter: filter.into(),
        name,
        value: MetricValue::Histogram(Histogram {
            count: u64::MAX,
            sum: u64::MAX,
            buckets: (0..32).map(|power| (1 << power, u64::MAX)).collect(),
        }),
    });
    metrics.collect()
}

#[test]
fn what_filters_define_has_its_room_and_no_filter_takes_anothers() {
    let modest = |filter: &str| Metric {
        filter: filter.into(),
        name: "hits".into(),
        value: MetricValue::Counter(u64::MAX),
    };
    let mut metrics = hostile_metrics("a-hostile");
    metrics.extend(["modest", "no-place"].map(modest));
    let mut page = Page::default();
    let most = Metrics::default().filter_bytes;
    write_defined(&mut page, &metrics, |filter| filter != "no-place", most);
    check(&page.text);
    let samples = page.text.lines().filter(|line| !line.starts_with('#'));
    let bytes: usize = samples.map(|line| line.len() + 1).sum();
    assert!(bytes < most && bytes > most / 3, "{bytes} of {most}");
    assert!(
        page.text
            .contains(r#"guest="modest",metric="hits"} 18446744073709551615"#)
    );
    assert!(!page.text.contains("no-place"));
    let hidden = page.text.lines().last().unwrap();
    assert_ne!(hidden, "palisade_filter_metrics_hidden 1", "{hidden}");
}

/// What ten thousand tenants come to: names as long as they may be, numbers as long as they get.
#[test]
fn ten_thousand_guests_and_routes_are_within_a_million_bytes() {
    let fixture = Fixture::new();
    let registry = &fixture.report.registry;
    for number in 0..10_000_u64 {
        let name = format!("{:0>64}/{number:0>64}", "t");
        let kind = [GuestKind::Filter, GuestKind::Service][number as usize % 2];
        for worker in 0..2 {
            let guest = registry.guest(kind, &name, worker);
            for counter in [
                &guest.requests,
                &guest.errors,
                &guest.crossings,
                &guest.denials,
            ] {
                counter.add(u64::MAX / 20_001 + number);
            }
            guest.cpu_ns.add(u64::MAX / 20_001);
            guest.memory_bytes.set(u64::MAX / 20_001);
        }
        let route = registry.route(&name, 0);
        route.count(Some(StatusCode::OK), None);
        route.count_time(Duration::from_secs(number), 16);
    }
    let page = write_at(&fixture.report, Instant::now());
    check(&page);
    let mut defined = Page::default();
    let metrics = hostile_metrics(&format!("{:0>64}/{:0>64}", "t", 0));
    write_defined(
        &mut defined,
        &metrics,
        |_| true,
        Metrics::default().filter_bytes,
    );
    let bytes = page.len() + defined.text.len();
    assert!(bytes <= 1_000_000, "{bytes}");
    for told in [
        "palisade_guests{kind=\"filter\",series=\"others\"} 49",
        "palisade_routes{series=\"others\"} 9936\n",
        "palisade_requests_total{kind=\"service\",guest=\"(others)\"} ",
        "palisade_route_requests_total{route=\"(others)\",code=\"2xx\"} 9936\n",
    ] {
        assert!(page.contains(told), "{told}");
    }
}

/// Counters and parts of histograms, by their names and labels.
fn counts(page: &str) -> BTreeMap<String, f64> {
    let families = read(page);
    let counters = families.into_iter().filter(|family| family.kind != "gauge");
    let samples = counters.flat_map(|family| family.samples);
    samples
        .map(|(name, labels, value)| (format!("{name} {labels:?}"), value))
        .collect()
}

#[test]
fn no_counter_goes_down_while_places_move() {
    let fixture = Fixture::new();
    let registry = &fixture.report.registry;
    fixture.report.now().metrics = Metrics {
        guests: 10,
        routes: 5,
        ..Metrics::default()
    };
    let begun = Instant::now();
    let mut seen = BTreeMap::new();
    let mut look = |round: u64| {
        let page = write_at(&fixture.report, begun + Duration::from_secs(200 * round));
        check(&page);
        for (series, value) in counts(&page) {
            let before = seen.insert(series.clone(), value).unwrap_or_default();
            assert!(value >= before, "{series}: {value} after {before}");
        }
        seen.clone()
    };
    for round in 0..100 {
        for step in 0..20 {
            let name = format!("guest-{}", (round / 2 + step) % 60);
            let guest = registry.guest(GuestKind::Service, &name, (step % 2) as usize);
            guest.requests.add(1 + step);
            guest.cpu_ns.add(1_000_000_000);
            let route = registry.route(&name, 0);
            route.count(Some(StatusCode::OK), None);
            route.count_time(Duration::from_millis(step), 1);
        }
        look(round);
    }
    registry.retain(|_| false);
    registry.retain_routes(|_| false);
    let seen = look(100);
    let sum = |family: &str| {
        let series = seen.iter().filter(|(series, _)| series.starts_with(family));
        let (count, sum) = series.fold((0, 0.0), |(count, sum), (_, value)| {
            (count + 1, sum + value)
        });
        (count, sum)
    };
    let (guests, requests) = sum("palisade_requests_total ");
    assert!(guests > 20, "places moved: {guests} series");
    assert_eq!(
        requests,
        100.0 * 210.0,
        "and nothing is lost or counted twice"
    );
    let (routes, requests) = sum("palisade_route_duration_seconds_count ");
    assert!(routes > 10, "places moved: {routes} series");
    assert_eq!(requests, 100.0 * 20.0);
}
