use super::*;
use crate::{
    Outcome,
    rows::ChartFacts,
    sample::{Reading, Samples, Unit},
};

const US: Unit = Unit::Microseconds;

/// Three rounds of bare (100 µs), palisade and a peer, all of which measure the same.
fn samples(measures: &[&str], ours_us: f64, peer_us: f64) -> Samples {
    let contenders = [BARE, "palisade run", "bubblewrap"].map(|one| Contender::new("row", one));
    let mut samples = Samples::new(contenders.to_vec());
    for more in [0.0, 10.0, 20.0] {
        let round = [100.0, ours_us + more, peer_us].map(|value_us| {
            let readings = measures.iter();
            readings.map(|one| Reading::one_us(one, value_us)).collect()
        });
        samples.push_round(round.to_vec());
    }
    samples
}

fn row(samples: Samples, measures: &[&str], target: Target, chart: ChartFacts) -> KeptRow {
    let bare = Contender::new("row", BARE);
    let figure = |contender: &Contender, measure: &str| {
        let baseline = (*contender != bare).then_some(&bare);
        let target = is_ours(&contender.subject).then_some(target);
        Figure::of(&samples, contender, baseline, (measure, US), target)
    };
    let figures = samples.contenders().iter();
    let figures = figures.flat_map(|contender| measures.iter().map(move |one| (contender, *one)));
    KeptRow {
        outcome: Outcome {
            figures: figures
                .map(|(contender, one)| figure(contender, one))
                .collect(),
            chart,
            ..Outcome::default()
        },
        samples,
    }
}

fn lanes(row: &KeptRow) -> Lanes {
    match chart_of(row) {
        Some(Chart::Lanes(lanes)) => lanes,
        other => panic!("no lanes: {other:?}"),
    }
}

fn published(of: Option<&str>, low: f64, high: f64) -> Published {
    Published {
        of: of.map(ToOwned::to_owned),
        by: "µKVM".into(),
        low,
        high,
    }
}

#[test]
fn ratios_have_a_group_for_each_operation() {
    let facts = ChartFacts {
        axis: None,
        published: vec![published(Some("stat"), 1.3, 1.3)],
        ..ChartFacts::default()
    };
    let measures = ["stat", "poll"];
    let row = row(
        samples(&measures, 110.0, 103.0),
        &measures,
        Target::AtMostTimesBare(1.15),
        facts,
    );
    let lanes = lanes(&row);
    assert_eq!(
        (lanes.axis, lanes.bare),
        ("times as much as with no wall", Some(1.0))
    );
    let [stat, poll] = &lanes.groups[..] else {
        panic!("{lanes:?}");
    };
    assert_eq!((stat.title.as_str(), poll.title.as_str()), ("stat", "poll"));
    assert_eq!((stat.published.len(), poll.published.len()), (1, 0));
    assert_eq!(stat.targets, [1.15]);
    let [ours, peer] = &stat.lanes[..] else {
        panic!("{stat:?}");
    };
    assert_eq!(
        (ours.series.kind, peer.series.kind),
        (Kind::Ours(0), Kind::Peer(0))
    );
    assert_eq!(ours.dots, [1.1, 1.2, 1.3], "round by round");
    assert_eq!((ours.middle, ours.value.as_str()), (1.2, "1.200"));
    assert_eq!(
        ours.hover,
        "stat, palisade run: 1.200 times bare (95 %: 1.100 to 1.300)"
    );
    assert_eq!((peer.middle, peer.verdict), (1.03, None));
}

#[test]
fn a_peer_far_away_does_not_stretch_the_axis() {
    let target = Target::AtMostTimesBare(1.15);
    let at = |peer_us| {
        let row = row(
            samples(&["stat"], 110.0, peer_us),
            &["stat"],
            target,
            ChartFacts::default(),
        );
        lanes(&row).scale
    };
    assert!(at(140.0).holds(1.4), "near enough");
    assert!(!at(3000.0).holds(30.0) && at(3000.0).holds(1.3));
}

#[test]
fn the_mean_of_ratios_is_drawn_too() {
    let target = Target::AtMostTimesBare(1.15);
    let measures = ["stat"];
    let mut row = row(
        samples(&measures, 110.0, 103.0),
        &measures,
        target,
        ChartFacts::default(),
    );
    let ours = Contender::new("row", "palisade run");
    let bare = Contender::new("row", BARE);
    let mean = Figure::mean_ratio(
        &row.samples,
        &ours,
        &bare,
        (&measures, US),
        Some(Target::AtMostTimesBare(1.05)),
    );
    row.outcome.figures.push(mean);
    let lanes = lanes(&row);
    let mean = lanes.groups.last().expect("the mean");
    assert_eq!(
        (mean.title.as_str(), mean.targets.clone()),
        ("geometric mean", vec![1.05])
    );
    assert_eq!((mean.lanes[0].middle, mean.lanes[0].dots.len()), (1.2, 0));
}

#[test]
fn times_far_away_do_not_stretch_the_axis_either() {
    let target = Target::AtMost(1500.0);
    let row = row(
        samples(&["wall"], 1000.0, 90e3),
        &["wall"],
        target,
        ChartFacts::default(),
    );
    let lanes = lanes(&row);
    assert!(lanes.scale.holds(1.5) && !lanes.scale.holds(90.0));
    assert_eq!(lanes.groups[2].lanes[0].value, "90.00");
}

#[test]
fn what_was_published_is_always_on_the_axis() {
    let facts = ChartFacts {
        axis: None,
        published: vec![published(None, 2.3645, 2.3645)],
        ..ChartFacts::default()
    };
    let target = Target::AtMostTimesBare(1.15);
    let row = row(samples(&["stat"], 110.0, 103.0), &["stat"], target, facts);
    assert!(lanes(&row).scale.holds(2.3645));
}

#[test]
fn a_target_in_time_makes_a_chart_of_times() {
    let target = Target::AtMostOverBare(350.0);
    let row = row(
        samples(&["wall"], 1000.0, 3000.0),
        &["wall"],
        target,
        ChartFacts::default(),
    );
    let lanes = lanes(&row);
    assert_eq!((lanes.axis, lanes.bare), ("ms", None));
    let told: Vec<_> = lanes
        .groups
        .iter()
        .map(|group| {
            (
                group.title.as_str(),
                group.lanes[0].value.as_str(),
                group.targets.clone(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("bare", "0.100", vec![]),
            ("palisade run", "1.010", vec![0.45]),
            ("bubblewrap", "3.000", vec![])
        ]
    );
    let ours = &lanes.groups[1].lanes[0];
    assert_eq!(ours.span, (1.002, 1.018), "p10 and p90");
    assert_eq!(
        ours.hover,
        "palisade run: median 1.010 ms (p10 1.002, p90 1.018, p99 1.020)"
    );
}

#[test]
fn sizes_make_curves_in_a_panel_for_each_operation() {
    let axis = Axis {
        title: "file size".into(),
        bytes: Some(1024),
    };
    let facts = ChartFacts {
        axis: Some(axis),
        published: vec![published(Some("read-4"), 1.05, 1.25)],
        ..ChartFacts::default()
    };
    let measures = ["read-4", "read-16", "write-4"];
    let target = Target::AtMostTimesBare(1.01);
    let row = row(samples(&measures, 110.0, 103.0), &measures, target, facts);
    let Some(Chart::Curves(panels)) = chart_of(&row) else {
        panic!("no curves");
    };
    let told: Vec<_> = panels
        .iter()
        .map(|panel| (panel.title.as_str(), panel.sizes.clone()))
        .collect();
    assert_eq!(told, [("read", vec![4.0, 16.0]), ("write", vec![4.0])]);
    let read = &panels[0];
    assert_eq!(read.targets, [Some(1.01), Some(1.01)]);
    assert_eq!(
        read.published,
        [("µKVM".to_owned(), vec![Some((1.05, 1.25)), None])]
    );
    let (series, curve) = &read.curves[0];
    assert_eq!(series.name, "palisade run");
    let middles: Vec<_> = curve.iter().flatten().map(|lane| lane.middle).collect();
    assert_eq!(middles, [1.2, 1.2]);
}

#[test]
fn many_rounds_are_thinned_evenly() {
    let values: Vec<f64> = (0..1000).map(f64::from).collect();
    let some = some_of(values);
    assert_eq!(some.len(), 143);
    assert_eq!(some[..3], [0.0, 7.0, 14.0]);
}

#[test]
fn names_of_measures_end_in_a_size() {
    assert_eq!(kind_and_size("read-64"), Some(("read", 64.0)));
    assert_eq!(kind_and_size("open+close"), None);
    assert_eq!(kind_and_size("signal-handler"), None);
}

#[test]
fn without_figures_there_is_no_chart() {
    let row = KeptRow {
        outcome: Outcome::default(),
        samples: Samples::default(),
    };
    assert_eq!(chart_of(&row), None);
}

/// Servers beside each other: by their titles, a measure after the other, none beyond the axis, and no count on an axis
/// of times.
#[test]
fn servers_stand_beside_each_other_on_an_axis_of_one_unit() {
    let contenders = ["palisade serve", "nginx"].map(|one| Contender::new("file", one));
    let mut samples = Samples::new(contenders.to_vec());
    for more in [0.0, 1.0, 2.0] {
        let of = |us: f64| {
            let us = us + more;
            vec![
                Reading::one_us("reply", us),
                Reading::one_us("fastest", us / 2.0),
                Reading::one_count("lost", 30_000),
            ]
        };
        samples.push_round(vec![of(20.0), of(400.0)]);
    }
    let titles = ["no filter", "nginx"];
    let figures = contenders
        .iter()
        .zip(titles)
        .flat_map(|(contender, title)| {
            let figure = |measure, unit, title: &str| {
                Figure::of(&samples, contender, None, (measure, unit), None).titled(title)
            };
            [
                figure("reply", US, title),
                figure("fastest", US, &format!("{title}, fastest tenth")),
                figure("lost", Unit::Count, "lost"),
            ]
        });
    let row = KeptRow {
        outcome: Outcome {
            figures: figures.collect(),
            chart: crate::rows::chart_facts("kp-7"),
            ..Outcome::default()
        },
        samples: samples.clone(),
    };
    let lanes = lanes(&row);
    let titles: Vec<_> = lanes.groups.iter().map(|one| one.title.as_str()).collect();
    let expected = [
        "no filter",
        "nginx",
        "no filter, fastest tenth",
        "nginx, fastest tenth",
    ];
    assert_eq!(titles, expected);
    let middles = lanes.groups.iter().map(|group| group.lanes[0].middle);
    assert!(middles.into_iter().all(|middle| lanes.scale.holds(middle)));
}

/// From one service to ten thousand: the small numbers are not all at one place, and no rate is to be as large as there
/// are services.
#[test]
fn services_stand_at_powers_of_ten() {
    let contender = Contender::new("many services", "palisade serve, components");
    let mut samples = Samples::new(vec![contender.clone()]);
    let measures = ["small-1", "small-100", "small-10000"];
    for _ in 0..3 {
        let reading = |measure: &str| Reading {
            measure: measure.to_owned(),
            unit: Unit::PerSecond,
            values: vec![40_000.0],
        };
        samples.push_round(vec![measures.map(reading).to_vec()]);
    }
    let figure = |measure| Figure::of(&samples, &contender, None, (measure, Unit::PerSecond), None);
    let row = KeptRow {
        outcome: Outcome {
            figures: measures.map(figure).to_vec(),
            chart: crate::rows::chart_facts("den-f8"),
            ..Outcome::default()
        },
        samples: samples.clone(),
    };
    let Some(Chart::Lines(panels)) = chart_of(&row) else {
        panic!("no lines");
    };
    let [panel] = &panels[..] else {
        panic!("{panels:?}");
    };
    assert!(panel.has_powers && panel.equal.is_none(), "{panel:?}");
    let places: Vec<_> = panel.lines[0].1.iter().map(|point| point.x).collect();
    assert_eq!(places, [0.0, 2.0, 4.0]);
}

/// Replies and their delay at two rates, of a server of ours and of nginx.
#[test]
fn what_was_offered_and_came_back_are_lines() {
    let contenders = ["palisade serve", "nginx"].map(|one| Contender::new("file", one));
    let mut samples = Samples::new(contenders.to_vec());
    for more in [0.0, 2.0, 4.0] {
        let of = |replies: f64, delay_us: f64| {
            let reading = |measure: &str, unit, value| Reading {
                measure: measure.to_owned(),
                unit,
                values: vec![value + more],
            };
            vec![
                reading("replies-20000", Unit::PerSecond, 20_000.0),
                reading("replies-40000", Unit::PerSecond, replies),
                reading("p99-20000", US, 100.0),
                reading("p99-40000", US, delay_us),
            ]
        };
        samples.push_round(vec![of(39_000.0, 1_000.0), of(30_000.0, 100_000.0)]);
    }
    let figure = |contender: &Contender, measure: &&str| {
        let unit = match measure.starts_with("p99") {
            true => US,
            false => Unit::PerSecond,
        };
        Figure::of(&samples, contender, None, (measure, unit), None)
    };
    let figures = contenders.iter().flat_map(|contender| {
        let measures = samples.measures(contender);
        let figures = measures.iter().map(|measure| figure(contender, measure));
        figures.collect::<Vec<_>>()
    });
    let row = KeptRow {
        outcome: Outcome {
            figures: figures.collect(),
            chart: crate::rows::chart_facts("kp-8"),
            ..Outcome::default()
        },
        samples: samples.clone(),
    };
    let Some(Chart::Lines(panels)) = chart_of(&row) else {
        panic!("no lines");
    };
    let [replies, delays] = &panels[..] else {
        panic!("{panels:?}");
    };
    assert_eq!(replies.equal, Some([0.0, 40_000.0]));
    assert!(delays.is_logarithmic && delays.equal.is_none());
    let (series, points) = &replies.lines[1];
    assert_eq!(
        (series.name.as_str(), series.kind),
        ("nginx", Kind::Peer(0))
    );
    let places: Vec<_> = points.iter().map(|point| (point.x, point.y)).collect();
    assert_eq!(places, [(20_000.0, 20_002.0), (40_000.0, 30_002.0)]);
    // 0.1 ms is the power of ten below 1.
    let delay = &delays.lines[0].1[0];
    assert!((delay.y + 1.0).abs() < 0.02, "{delay:?}");
    assert!(points.iter().all(|point| replies.y.holds(point.y)));
    let page = super::super::draw::draw(&Chart::Lines(panels)).into_string();
    assert!(page.contains("replies in a second") && page.contains("palisade serve"));
}
