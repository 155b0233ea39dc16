//! Ratios over sizes.

use super::{Group, Lane, Panel, PublishedCurve, Series, everybody, ratios, unique};
use crate::{KeptRow, figure::Figure, rows::Axis};

/// Ratios over sizes, a panel for each kind of operation. Operations whose names end in no number are
/// in no panel.
pub(super) fn curves(row: &KeptRow, figures: &[&Figure], axis: &Axis) -> Option<Vec<Panel>> {
    let lanes = ratios(row, figures)?;
    let everybody = everybody(figures);
    let sized: Vec<(&Figure, &str, f64)> = figures
        .iter()
        .filter_map(|figure| {
            let (kind, size) = kind_and_size(&figure.measure)?;
            Some((*figure, kind, size))
        })
        .collect();
    let panels = unique(sized.iter().map(|(_, kind, _)| *kind)).into_iter();
    let panel = |kind: &str| {
        let of_kind = sized.iter().filter(|(_, other, _)| *other == kind);
        let sizes = unique(of_kind.map(|(_, _, size)| *size));
        let group_at = |size: f64| {
            let mut of_kind = sized.iter().filter(|(_, other, _)| *other == kind);
            let (figure, _, _) = of_kind.find(|(_, _, other)| *other == size)?;
            lanes
                .groups
                .iter()
                .find(|group| group.title == figure.title())
        };
        let groups: Vec<Option<&Group>> = sizes.iter().map(|size| group_at(*size)).collect();
        Panel {
            title: kind.to_owned(),
            axis: axis.clone(),
            scale: lanes.scale,
            targets: groups
                .iter()
                .map(|group| group.and_then(|group| group.targets.first().copied()))
                .collect(),
            curves: curves_of(&everybody, &groups),
            published: published_of(&groups),
            sizes,
        }
    };
    let panels: Vec<Panel> = panels.map(panel).collect();
    (!panels.is_empty()).then_some(panels)
}

fn curves_of(everybody: &[Series], groups: &[Option<&Group>]) -> Vec<(Series, Vec<Option<Lane>>)> {
    let curve = |series: &Series| {
        let lane = |group: &Option<&Group>| {
            let lanes = group.map_or(&[][..], |group| &group.lanes);
            lanes.iter().find(|lane| lane.series == *series).cloned()
        };
        let lanes: Vec<Option<Lane>> = groups.iter().map(lane).collect();
        lanes
            .iter()
            .any(Option::is_some)
            .then(|| (series.clone(), lanes))
    };
    everybody.iter().filter_map(curve).collect()
}

fn published_of(groups: &[Option<&Group>]) -> Vec<PublishedCurve> {
    let all = groups.iter().flatten().flat_map(|group| &group.published);
    let whose = unique(all.map(|published| published.by.clone()));
    let of = |by: &String| {
        let at = |group: &Option<&Group>| {
            let mut published = group.iter().flat_map(|group| &group.published);
            let found = published.find(|published| published.by == *by)?;
            Some((found.low, found.high))
        };
        groups.iter().map(at).collect()
    };
    whose.into_iter().map(|by| (by.clone(), of(&by))).collect()
}

/// `read-64` is `read` at 64.
pub(super) fn kind_and_size(measure: &str) -> Option<(&str, f64)> {
    let (kind, size) = measure.rsplit_once('-')?;
    let size: u32 = size.parse().ok()?;
    (size > 0).then_some((kind, size.into()))
}
