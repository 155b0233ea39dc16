//! What a chart shows, as data: lanes along one axis, or curves over sizes. Pure.

mod absolute;
mod curves;
mod lines;

use super::scale::Scale;
use crate::{
    KeptRow,
    figure::{Figure, Target, Verdict, is_ours},
    notation::four_figures,
    rows::{Axis, BARE, Published, Style},
    sample::{Contender, Samples},
    statistics::ratios_by_round,
};

use absolute::{absolute, shown_unit};
use curves::{curves, kind_and_size};
pub(super) use lines::{LinePanel, Point};

/// In µs: what is less is told in µs.
const SMALL_US: f64 = 100.0;

/// More dots than these hide each other.
const MOST_DOTS: usize = 150;

/// A row's chart.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Chart {
    /// Lanes along a common axis, in groups.
    Lanes(Lanes),
    /// A panel of curves for each kind of operation.
    Curves(Vec<Panel>),
    /// A panel of lines for each measure.
    Lines(Vec<LinePanel>),
}

/// Groups of lanes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lanes {
    /// What the axis measures.
    pub(super) axis: &'static str,
    pub(super) scale: Scale,
    /// Where no wall stands, where that is the same in all groups.
    pub(super) bare: Option<f64>,
    pub(super) groups: Vec<Group>,
}

/// One operation, or one contender.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    /// Begins a part of the chart, where there are several.
    pub(super) part: Option<String>,
    pub(super) title: String,
    pub(super) lanes: Vec<Lane>,
    /// Of whoever has one; equal ones once.
    pub(super) targets: Vec<f64>,
    pub(super) published: Vec<Published>,
}

/// One contender's figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lane {
    pub(super) series: Series,
    /// One for each round; not all, where there are many.
    pub(super) dots: Vec<f64>,
    /// What the bar spans.
    pub(super) span: (f64, f64),
    pub(super) middle: f64,
    pub(super) value: String,
    pub(super) verdict: Option<Verdict>,
    pub(super) hover: String,
    /// It is only there to compare with, in a group where others matter.
    pub(super) is_minor: bool,
}

/// Who it is, and how it is told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// What kind of contender; counted from 0 on within the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bare,
    Ours(usize),
    Peer(usize),
}

/// Whose figures they are, and by size the lowest and the highest.
pub(super) type PublishedCurve = (String, Vec<Option<(f64, f64)>>);

/// Curves over sizes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) axis: Axis,
    /// Of the ratios.
    pub(super) scale: Scale,
    pub(super) sizes: Vec<f64>,
    /// By size, in the order of `sizes`.
    pub(super) targets: Vec<Option<f64>>,
    /// A lane for each size.
    pub(super) curves: Vec<(Series, Vec<Option<Lane>>)>,
    pub(super) published: Vec<PublishedCurve>,
}

/// The chart that fits a row; `None` if it has no figures to draw.
pub(super) fn chart_of(row: &KeptRow) -> Option<Chart> {
    let outcome = &row.outcome;
    let has_value = |figure: &&Figure| match figure.summary {
        Some(summary) => summary.count > 0,
        None => figure.ratio.is_some(),
    };
    // What is compared with the floor once more is in the chart already.
    let figures = outcome
        .figures
        .iter()
        .filter(|figure| !figure.is_to_floor());
    let figures: Vec<&Figure> = figures.filter(has_value).collect();
    let has_ratio = figures.iter().any(|figure| figure.ratio.is_some());
    let is_absolute = figures.iter().any(|figure| {
        matches!(
            figure.target,
            Some(Target::AtMost(_) | Target::AtMostOverBare(_))
        )
    });
    if outcome.chart.style == Style::Lines {
        return lines::lines(&figures, outcome.chart.axis.as_ref()?).map(Chart::Lines);
    }
    if !has_ratio || is_absolute || outcome.chart.style == Style::Absolute {
        return absolute(row, &figures).map(Chart::Lanes);
    }
    match &outcome.chart.axis {
        Some(axis) => curves(row, &figures, axis).map(Chart::Curves),
        None => ratios(row, &figures).map(Chart::Lanes),
    }
}

impl Chart {
    /// Everybody who is told apart by colour and not by a label, once.
    pub(super) fn series(&self) -> Vec<Series> {
        let all: Vec<&Series> = match self {
            Self::Lanes(lanes) if lanes.bare.is_none() => Vec::new(),
            Self::Lanes(lanes) => {
                let lanes = lanes.groups.iter().flat_map(|group| &group.lanes);
                lanes.map(|lane| &lane.series).collect()
            }
            Self::Curves(panels) => {
                let curves = panels.iter().flat_map(|panel| &panel.curves);
                curves.map(|(series, _)| series).collect()
            }
            Self::Lines(panels) => {
                let lines = panels.iter().flat_map(|panel| &panel.lines);
                lines.map(|(series, _)| series).collect()
            }
        };
        unique(all.into_iter().cloned())
    }

    /// Whose published figures are in it, once each.
    pub(super) fn published(&self) -> Vec<String> {
        let all: Vec<&String> = match self {
            Self::Lanes(lanes) => {
                let groups = lanes.groups.iter();
                let published = groups.flat_map(|group| &group.published);
                published.map(|published| &published.by).collect()
            }
            Self::Curves(panels) => {
                let published = panels.iter().flat_map(|panel| &panel.published);
                published.map(|(by, _)| by).collect()
            }
            Self::Lines(_) => Vec::new(),
        };
        unique(all.into_iter().cloned())
    }

    /// Whether it has a target.
    pub(super) fn has_target(&self) -> bool {
        match self {
            Self::Lanes(lanes) => lanes.groups.iter().any(|group| !group.targets.is_empty()),
            Self::Curves(panels) => {
                let mut targets = panels.iter().flat_map(|panel| &panel.targets);
                targets.any(Option::is_some)
            }
            Self::Lines(_) => false,
        }
    }
}

fn unique<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// Everybody of a row, in the order in which they were measured.
fn everybody(figures: &[&Figure]) -> Vec<Series> {
    let subjects = unique(figures.iter().map(|figure| &figure.contender.subject));
    let (mut ours, mut peers) = (0, 0);
    let next = |count: &mut usize| std::mem::replace(count, *count + 1);
    let mut kind_of = |subject: &String| match subject.as_str() {
        BARE => Kind::Bare,
        subject if is_ours(subject) => Kind::Ours(next(&mut ours)),
        _ => Kind::Peer(next(&mut peers)),
    };
    let kinds: Vec<Kind> = subjects.iter().map(|subject| kind_of(subject)).collect();
    let series = subjects.into_iter().zip(kinds);
    series
        .map(|(name, kind)| Series {
            name: name.clone(),
            kind,
        })
        .collect()
}

/// Ratios to no wall, a group for each operation.
fn ratios(row: &KeptRow, figures: &[&Figure]) -> Option<Lanes> {
    let everybody = everybody(figures);
    let keys = unique(figures.iter().map(|figure| key_of(figure)));
    let group = |key: &(String, String)| {
        let of_group: Vec<&Figure> = figures
            .iter()
            .copied()
            .filter(|figure| key_of(figure) == *key)
            .collect();
        ratio_group(row, &everybody, &of_group)
    };
    let groups: Vec<Group> = keys.iter().filter_map(group).collect();
    let scale = scale_of(&groups, 1.0, Peers::Near)?;
    Some(Lanes {
        axis: "times as much as with no wall",
        scale,
        bare: Some(1.0),
        groups,
    })
}

fn key_of(figure: &Figure) -> (String, String) {
    (figure.contender.workload.clone(), figure.measure.clone())
}

fn ratio_group(row: &KeptRow, everybody: &[Series], figures: &[&Figure]) -> Option<Group> {
    let first = figures.first()?;
    let lane = |figure: &&Figure| ratio_lane(&row.samples, everybody, figure);
    let published = row.outcome.chart.published.iter();
    let about =
        |published: &&Published| published.is_about(&first.measure, &first.contender.workload);
    let group = Group {
        part: None,
        title: first.title().to_owned(),
        lanes: ours_first(figures.iter().filter_map(lane).collect()),
        targets: unique(figures.iter().filter_map(|figure| match figure.target {
            Some(Target::AtMostTimesBare(limit) | Target::AtLeastTimesBare(limit)) => Some(limit),
            _ => None,
        })),
        published: published.filter(about).cloned().collect(),
    };
    (!group.lanes.is_empty()).then_some(group)
}

fn ours_first(mut lanes: Vec<Lane>) -> Vec<Lane> {
    lanes.sort_by_key(|lane| lane.is_minor);
    lanes
}

fn ratio_lane(samples: &Samples, everybody: &[Series], figure: &Figure) -> Option<Lane> {
    let ratio = figure.ratio.filter(|ratio| ratio.value.is_finite())?;
    let series = series_of(everybody, figure)?;
    let bare = Contender::new(&figure.contender.workload, BARE);
    let bare = samples.series(&bare, &figure.measure);
    let ours = samples.series(&figure.contender, &figure.measure);
    let (low, high) = (four_figures(ratio.low), four_figures(ratio.high));
    let value = four_figures(ratio.value);
    Some(Lane {
        dots: some_of(ratios_by_round(&ours, &bare)),
        span: (ratio.low, ratio.high),
        middle: ratio.value,
        hover: format!(
            "{}, {}: {value} times bare (95 %: {low} to {high})",
            figure.title(),
            series.name
        ),
        value,
        verdict: figure.verdict,
        is_minor: matches!(series.kind, Kind::Peer(_)),
        series,
    })
}

fn series_of(everybody: &[Series], figure: &Figure) -> Option<Series> {
    let is_whose = |series: &&Series| series.name == figure.contender.subject;
    everybody.iter().find(is_whose).cloned()
}

/// At most so many of them as can be seen, evenly spaced in time.
fn some_of(values: Vec<f64>) -> Vec<f64> {
    let every = values.len().div_ceil(MOST_DOTS).max(1);
    values.into_iter().step_by(every).collect()
}

/// Which peers an axis must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peers {
    All,
    /// Those that do not stretch it.
    Near,
}

/// Holds figures, targets, what was published, `origin` and peers.
fn scale_of(groups: &[Group], origin: f64, whose: Peers) -> Option<Scale> {
    let lanes = groups.iter().flat_map(|group| &group.lanes);
    let published = groups.iter().flat_map(|group| &group.published);
    let targets = groups
        .iter()
        .flat_map(|group| group.targets.iter().copied());
    let is_peer = |lane: &&Lane| matches!(lane.series.kind, Kind::Peer(_));
    let ends = |lane: &Lane| [lane.span.0, lane.span.1];
    let must: Vec<f64> = published
        .flat_map(|published| [published.low, published.high])
        .chain(targets)
        .chain(lanes.clone().filter(|lane| !is_peer(lane)).flat_map(ends))
        .chain([origin])
        .collect();
    let low = must.iter().copied().fold(f64::INFINITY, f64::min);
    let high = must.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let span = high - low;
    let is_near = |value: &f64| (low - span / 2.0..=high + span / 2.0).contains(value);
    let is_held = |value: &f64| whose == Peers::All || is_near(value);
    let peers = lanes.filter(is_peer).flat_map(ends).filter(is_held);
    let peers: Vec<f64> = peers.collect();
    Scale::around(must.iter().copied().chain(peers))
}

#[cfg(test)]
mod tests;
