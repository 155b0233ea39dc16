//! Lines over sizes, as they were measured: what came back over what was offered. Pure.

use super::{Series, everybody, kind_and_size, series_of, shown_unit, unique};
use crate::{figure::Figure, notation::four_figures, page::scale::Scale, rows::Axis, sample::Unit};

/// A measure, by its size.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::page) struct LinePanel {
    pub(in crate::page) title: String,
    /// What the sizes are.
    pub(in crate::page) axis: String,
    pub(in crate::page) x: Scale,
    /// Of times their logarithm to the base of ten: they grow a thousandfold.
    pub(in crate::page) y: Scale,
    pub(in crate::page) is_logarithmic: bool,
    /// The same of sizes.
    pub(in crate::page) has_powers: bool,
    /// Where as much comes back as is offered, from one end of the panel to the other.
    pub(in crate::page) equal: Option<[f64; 2]>,
    pub(in crate::page) lines: Vec<(Series, Vec<Point>)>,
}

/// A figure on a line; `x`, `y` and the ends of its span as the panel's scales have them.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::page) struct Point {
    pub(in crate::page) x: f64,
    pub(in crate::page) y: f64,
    /// From the tenth to the ninetieth percentile.
    pub(in crate::page) span: (f64, f64),
    pub(in crate::page) hover: String,
}

/// A panel for each kind of measure that has sizes.
pub(super) fn lines(figures: &[&Figure], axis: &Axis) -> Option<Vec<LinePanel>> {
    let sized = figures.iter().copied();
    let sized: Vec<(&Figure, &str, f64)> = sized
        .filter_map(|figure| {
            let (kind, size) = kind_and_size(&figure.measure)?;
            Some((figure, kind, size))
        })
        .collect();
    let kinds = unique(sized.iter().map(|(_, kind, _)| *kind));
    let panels: Vec<LinePanel> = kinds
        .into_iter()
        .filter_map(|kind| panel(figures, &sized, kind, axis))
        .collect();
    (!panels.is_empty()).then_some(panels)
}

fn panel(
    figures: &[&Figure],
    sized: &[(&Figure, &str, f64)],
    kind: &str,
    axis: &Axis,
) -> Option<LinePanel> {
    let of_kind = sized.iter().filter(|(_, other, _)| *other == kind);
    let unit = of_kind.clone().next()?.0.unit;
    let is_logarithmic = unit == Unit::Microseconds;
    let (symbol, divisor) = shown_unit(unit);
    let at = |value: f64| match is_logarithmic {
        true => (value / divisor).log10(),
        false => value / divisor,
    };
    let has_powers = has_powers(of_kind.clone().map(|(_, _, size)| *size));
    let across = |size: f64| if has_powers { size.log10() } else { size };
    let line = |series: Series| {
        let own = of_kind
            .clone()
            .filter(|(figure, ..)| figure.contender.subject == series.name);
        let mut points: Vec<Point> = own
            .filter_map(|(figure, _, size)| {
                let summary = figure.summary?;
                let value = four_figures(summary.median / divisor);
                Some(Point {
                    x: across(*size),
                    y: at(summary.median),
                    span: (at(summary.p10), at(summary.p90)),
                    hover: format!("{}, {size}: {value} {symbol}", series.name),
                })
            })
            .collect();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        (series, points)
    };
    let whose = everybody(figures).into_iter();
    let takes_part = |series: &Series| {
        let mut own = of_kind.clone();
        own.any(|(figure, ..)| series_of(std::slice::from_ref(series), figure).is_some())
    };
    let lines: Vec<_> = whose.filter(|one| takes_part(one)).map(line).collect();
    let points = lines.iter().flat_map(|(_, points)| points);
    let ends = points
        .clone()
        .flat_map(|point| [point.y, point.span.0, point.span.1]);
    let sizes = points.clone().map(|point| point.x);
    let x = match has_powers {
        true => Scale::around_powers(sizes)?,
        false => Scale::around(sizes.chain([0.0]))?,
    };
    let y = match is_logarithmic {
        true => Scale::around_powers(ends)?,
        false => Scale::around(ends.chain([0.0]))?,
    };
    Some(LinePanel {
        title: title_of(kind, symbol),
        axis: match kind {
            "budget" => "of a hundred services, whose code there is room for".to_owned(),
            _ => axis.title.clone(),
        },
        // What is offered and what comes back are of one kind there alone.
        equal: (kind == "replies").then(|| {
            let sizes = points.map(|point| point.x);
            [0.0, sizes.fold(0.0, f64::max)]
        }),
        x,
        y,
        is_logarithmic,
        has_powers,
        lines,
    })
}

/// Whether sizes grow so much that those at one end would lie on each other.
fn has_powers(sizes: impl Iterator<Item = f64> + Clone) -> bool {
    let least = sizes.clone().fold(f64::INFINITY, f64::min);
    let most = sizes.fold(0.0, f64::max);
    most >= 100.0 * least
}

fn title_of(kind: &str, symbol: &str) -> String {
    match kind {
        "replies" => "replies in a second".to_owned(),
        "p50" => format!("delay, median, {symbol}"),
        "p99" => format!("delay, 99th percentile, {symbol}"),
        kind => format!("{kind}, {symbol}"),
    }
}
