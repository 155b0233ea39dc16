//! A page of metrics, read as strictly as the text format of Prometheus (version 0.0.4) and its conventions want it.

use crate::admin::prometheus::{Page, write_defined};
use palisade_filter::{Histogram, Metric, MetricValue};
use std::collections::{BTreeMap, BTreeSet};

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
    write_defined(&mut page, &metrics);
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
    assert_eq!(families.len(), 3);
}

#[test]
#[should_panic = "twice"]
fn a_series_that_is_there_twice_is_found() {
    check(
        "# HELP palisade_a_total A.\n# TYPE palisade_a_total counter\npalisade_a_total 1\npalisade_a_total 2",
    );
}
