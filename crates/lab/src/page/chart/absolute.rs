//! Figures as they were measured, where there is no wall to compare with.

use super::{
    Group, Kind, Lane, Lanes, Peers, SMALL_US, Series, everybody, scale_of, series_of, some_of,
    unique,
};
use crate::{
    KeptRow,
    figure::{Figure, Target},
    notation::four_figures,
    rows::{BARE, Style},
    sample::Unit,
};

/// Times or sizes as they are, a group for each contender. Its title tells it, so that colours only
/// tell kinds.
pub(super) fn absolute(row: &KeptRow, figures: &[&Figure]) -> Option<Lanes> {
    let unit = figures.first()?.unit;
    // One axis has one unit: what is counted besides is in the tables.
    let figures: Vec<&Figure> = figures
        .iter()
        .copied()
        .filter(|figure| figure.unit == unit)
        .collect();
    let figures = figures.as_slice();
    // Times of a few µs are not told in ms.
    let medians = figures.iter().filter_map(|figure| figure.summary);
    let is_small = medians.clone().all(|summary| summary.median < SMALL_US);
    let shown = match unit {
        Unit::Microseconds if is_small => ("µs", 1.0),
        unit => shown_unit(unit),
    };
    let everybody = everybody(figures);
    let workloads = unique(figures.iter().map(|figure| &figure.contender.workload));
    let mut groups = Vec::new();
    for workload in &workloads {
        let mut part = (workloads.len() > 1).then(|| (*workload).clone());
        // What is compared with somebody else once more is in the chart already.
        let of_workload: Vec<&Figure> = figures
            .iter()
            .copied()
            .filter(|figure| figure.contender.workload == **workload && figure.summary.is_some())
            .collect();
        let is_titled = are_told_apart_by_titles(&of_workload);
        for figure in by_measure(of_workload) {
            let Some(mut group) = absolute_group(row, &everybody, figures, (figure, shown)) else {
                continue;
            };
            if let Some(title) = figure.title.as_ref().filter(|_| is_titled) {
                group.title.clone_from(title);
            }
            group.part = part.take();
            groups.push(group);
        }
    }
    // Servers are there to be seen beside each other.
    let peers = match row.outcome.chart.style {
        Style::Absolute => Peers::All,
        Style::Usual | Style::Lines => Peers::Near,
    };
    let scale = scale_of(&groups, 0.0, peers)?;
    Some(Lanes {
        axis: match unit {
            Unit::PerSecond => "in a second; more is better",
            _ => shown.0,
        },
        scale,
        bare: None,
        groups,
    })
}

fn are_told_apart_by_titles(figures: &[&Figure]) -> bool {
    let titles: Vec<&String> = figures
        .iter()
        .filter_map(|one| one.title.as_ref())
        .collect();
    titles.len() == figures.len() && unique(titles.iter()).len() == titles.len()
}

/// Those of one measure beside each other.
fn by_measure(mut figures: Vec<&Figure>) -> Vec<&Figure> {
    let measures = unique(figures.iter().map(|figure| &figure.measure));
    figures.sort_by_key(|figure| measures.iter().position(|one| **one == figure.measure));
    figures
}

/// One colour for the command, one for the library, one for all peers.
fn by_kind(series: Series) -> Series {
    let kind = match series.kind {
        Kind::Bare => Kind::Bare,
        Kind::Ours(_) if series.name.starts_with("library") => Kind::Ours(1),
        Kind::Ours(_) => Kind::Ours(0),
        Kind::Peer(_) => Kind::Peer(0),
    };
    Series { kind, ..series }
}

/// What a chart shows a unit in, and how many of ours one is.
pub(super) fn shown_unit(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::Microseconds => ("ms", 1000.0),
        Unit::Nanoseconds => ("ns", 1.0),
        Unit::Bytes => ("KiB", 1024.0),
        Unit::Count | Unit::Outcome => ("how many", 1.0),
        Unit::PerSecond | Unit::MegabytesPerSecond => (unit.symbol(), 1.0),
    }
}

fn absolute_group(
    row: &KeptRow,
    everybody: &[Series],
    figures: &[&Figure],
    (figure, (unit, size)): (&Figure, (&'static str, f64)),
) -> Option<Group> {
    let summary = figure.summary?;
    let bare = figures.iter().find(|other| {
        other.contender.subject == BARE && other.contender.workload == figure.contender.workload
    });
    let bare = bare.and_then(|bare| bare.summary);
    let other = figures.iter().find(|other| {
        figure.against.as_ref() == Some(&other.contender.subject)
            && (other.measure == figure.measure)
            && (other.contender.workload == figure.contender.workload)
    });
    let other = other.and_then(|other| other.summary);
    let target = figure.target.and_then(|target| match target {
        Target::AtMost(most) => Some(most / size),
        Target::AtMostOverBare(more) => bare.map(|bare| (bare.median + more) / size),
        Target::AtMostTimesBare(times) | Target::AtLeastTimesBare(times) => {
            bare.map(|bare| bare.median * times / size)
        }
        Target::AtMostOverOther(more) => other.map(|other| (other.median + more) / size),
        Target::AtMostTimesOther(times) | Target::AtLeastTimesOther(times) => {
            other.map(|other| other.median * times / size)
        }
        Target::AtMostTimesProcess(_)
        | Target::AtMostTimesWasmtime(_)
        | Target::AtLeastTimesBridged(_)
        | Target::AtMostTimesFloor(_)
        | Target::AtLeastTimesFloor(_)
        | Target::AtMostTimesFloorOrOver(..) => None,
    });
    let series = by_kind(series_of(everybody, figure)?);
    let rounds = row.samples.series(&figure.contender, &figure.measure);
    let at = |value: f64| four_figures(value / size);
    let lane = Lane {
        dots: some_of(rounds.into_iter().map(|value| value / size).collect()),
        span: (summary.p10 / size, summary.p90 / size),
        middle: summary.median / size,
        hover: format!(
            "{}: median {} {unit} (p10 {}, p90 {}, p99 {})",
            series.name,
            at(summary.median),
            at(summary.p10),
            at(summary.p90),
            at(summary.p99)
        ),
        value: at(summary.median),
        verdict: figure.verdict,
        is_minor: false,
        series,
    };
    let is_only = figures
        .iter()
        .all(|other| other.measure == figure.measure || other.summary.is_none());
    let title = match figure.measure.as_str() {
        "wall" => figure.contender.subject.clone(),
        _ if is_only => figure.contender.subject.clone(),
        measure => format!("{}: {measure}", figure.contender.subject),
    };
    Some(Group {
        part: None,
        title,
        lanes: vec![lane],
        targets: target.into_iter().collect(),
        published: Vec::new(),
    })
}
