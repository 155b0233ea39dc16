//! Panels of curves over sizes, and of lines.

use super::{class_of, diamond, in_words, middle, percent, pixels, place_of, spread};
use crate::{
    page::{
        chart::{Kind, Lane, LinePanel, Panel, Point},
        scale::{Scale, percents_of_logs},
    },
    rows::Axis,
};
use maud::{Markup, html};

/// Inside a panel, in px.
const PANEL_TOP: f64 = 22.0;
const PANEL_HEIGHT: f64 = 190.0;

pub(super) fn draw_panel(panel: &Panel, whose: &[String]) -> Markup {
    let xs = percents_of_logs(&panel.sizes);
    let height = PANEL_TOP + PANEL_HEIGHT;
    html! {
        div.panel {
            h3 { (panel.title) }
            svg.curves height=(pixels(height + 22.0)) role="img"
                aria-label={ (panel.title) ": times as much as with no wall, by " (panel.axis.title) } {
                @for (value, label) in panel.scale.ticks() {
                    @let y = pixels(height_in(panel, value));
                    line.grid x1="0" x2="100%" y1=(y) y2=(y) {}
                    text.tick x="0" y=(pixels(height_in(panel, value) - 3.0)) { (label) }
                }
                @let bare = pixels(height_in(panel, 1.0));
                line.bare-line x1="0" x2="100%" y1=(bare) y2=(bare) {}
                (draw_targets(panel, &xs))
                @for (index, (series, lanes)) in panel.curves.iter().enumerate() {
                    (draw_curve(panel, &xs, series.kind, lanes, offset(index, panel.curves.len())))
                }
                @for (by, ranges) in &panel.published { (draw_published_curve(panel, &xs, by, ranges, place_of(whose, by))) }
                @for (x, size) in xs.iter().zip(&panel.sizes) {
                    text.size x=(percent(*x)) y=(pixels(height + 16.0)) { (short_size(*size, &panel.axis)) }
                }
            }
            p.axis { (panel.axis.title) @if panel.axis.bytes.is_some() { ", in bytes" } }
        }
    }
}

fn height_in(panel: &Panel, value: f64) -> f64 {
    height_on(&panel.scale, value)
}

fn height_on(scale: &Scale, value: f64) -> f64 {
    PANEL_TOP + PANEL_HEIGHT * (1.0 - scale.percent(value) / 100.0)
}

pub(super) fn draw_lines(panel: &LinePanel) -> Markup {
    /// Room for the labels of the other axis, in percent.
    const LEFT: f64 = 14.0;
    const RIGHT: f64 = 96.0;
    let x = |value: f64| percent(LEFT + (RIGHT - LEFT) * panel.x.percent(value) / 100.0);
    let y = |value: f64| pixels(height_on(&panel.y, value));
    let height = PANEL_TOP + PANEL_HEIGHT;
    html! {
        div.panel {
            h3 { (panel.title) }
            svg.curves height=(pixels(height + 22.0)) role="img" aria-label={ (panel.title) ", by " (panel.axis) } {
                @for (value, label) in panel.y.ticks() {
                    line.grid x1="0" x2="100%" y1=(y(value)) y2=(y(value)) {}
                    text.tick x="0" y=(pixels(height_on(&panel.y, value) - 3.0)) {
                        @if panel.is_logarithmic { (short_power(value)) } @else { (label) }
                    }
                }
                @if let Some([from, to]) = panel.equal {
                    line.bare-line x1=(x(from)) x2=(x(to)) y1=(y(from)) y2=(y(to)) {}
                }
                @for (series, points) in &panel.lines {
                    (draw_line(series.kind, points, &x, &y))
                }
                @for (value, label) in panel.x.ticks() {
                    text.size x=(x(value)) y=(pixels(height + 16.0)) {
                        @if panel.has_powers { (short_power(value)) } @else { (label) }
                    }
                }
            }
            p.axis { (panel.axis) }
        }
    }
}

fn draw_line(
    kind: Kind,
    points: &[Point],
    x: &dyn Fn(f64) -> String,
    y: &dyn Fn(f64) -> String,
) -> Markup {
    html! {
        g.(class_of(kind)) {
            @for pair in points.windows(2) {
                @if let [one, other] = pair {
                    line.curve x1=(x(one.x)) x2=(x(other.x)) y1=(y(one.y)) y2=(y(other.y)) {}
                }
            }
            @for point in points {
                g {
                    title { (point.hover) }
                    line.span x1=(x(point.x)) x2=(x(point.x)) y1=(y(point.span.0)) y2=(y(point.span.1)) {}
                    circle.middle cx=(x(point.x)) cy=(y(point.y)) r="3" {}
                }
            }
        }
    }
}

/// `0.1`, `1`, `32`: ten to that power.
fn short_power(exponent: f64) -> String {
    let value = 10f64.powf(exponent);
    // What is smaller than any figure is 0 here.
    let decimals = (1.0 - exponent).ceil().clamp(0.0, 30.0) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Curves stand beside each other, in px.
fn offset(index: usize, count: usize) -> f64 {
    7.0 * (index as f64 - (count as f64 - 1.0) / 2.0)
}

/// Each target reaches half way to its neighbours.
fn draw_targets(panel: &Panel, xs: &[f64]) -> Markup {
    let end = |index: usize, other: Option<usize>| match other.and_then(|other| xs.get(other)) {
        Some(neighbour) => f64::midpoint(xs[index], *neighbour),
        None if other == Some(xs.len()) => 100.0,
        None => xs[index] - 4.0,
    };
    html! {
        @for (index, target) in panel.targets.iter().enumerate() {
            @if let Some(target) = target {
                @let y = pixels(height_in(panel, *target));
                line.target
                    x1=(percent(end(index, index.checked_sub(1))))
                    x2=(percent(end(index, Some(index + 1))))
                    y1=(y) y2=(y) {}
            }
        }
    }
}

fn draw_curve(
    panel: &Panel,
    xs: &[f64],
    kind: Kind,
    lanes: &[Option<Lane>],
    offset: f64,
) -> Markup {
    let places: Vec<(f64, &Lane)> = xs
        .iter()
        .zip(lanes)
        .filter_map(|(x, lane)| Some((*x, lane.as_ref()?)))
        .collect();
    let y = |value| pixels(height_in(panel, value));
    html! {
        g.(class_of(kind)) transform={ "translate(" (pixels(offset)) " 0)" } {
            @for pair in places.windows(2) {
                @if let [(x1, one), (x2, other)] = pair {
                    line.curve x1=(percent(*x1)) x2=(percent(*x2)) y1=(y(one.middle)) y2=(y(other.middle)) {}
                }
            }
            @for (x, lane) in &places {
                g {
                    title { (lane.hover) }
                    @if !lane.is_minor {
                        @for (index, dot) in lane.dots.iter().enumerate() {
                            circle.dot cx=(percent(*x)) cy=(y(*dot)) r="1.5"
                                transform={ "translate(" (pixels(spread(index, 10.0))) " 0)" } {}
                        }
                    }
                    line.span x1=(percent(*x)) x2=(percent(*x)) y1=(y(lane.span.0)) y2=(y(lane.span.1)) {}
                    (middle(&percent(*x), height_in(panel, lane.middle), kind))
                }
            }
        }
    }
}

fn draw_published_curve(
    panel: &Panel,
    xs: &[f64],
    by: &str,
    ranges: &[Option<(f64, f64)>],
    class: String,
) -> Markup {
    let places: Vec<(f64, f64, f64)> = xs
        .iter()
        .zip(ranges)
        .filter_map(|(x, range)| range.map(|(low, high)| (*x, low, high)))
        .collect();
    let y = |value| pixels(height_in(panel, value));
    html! {
        g.published.(class) {
            @for pair in places.windows(2) {
                @if let [(x1, low1, high1), (x2, low2, high2)] = pair {
                    line x1=(percent(*x1)) x2=(percent(*x2)) y1=(y(*low1)) y2=(y(*low2)) {}
                    @if low1 < high1 || low2 < high2 {
                        line x1=(percent(*x1)) x2=(percent(*x2)) y1=(y(*high1)) y2=(y(*high2)) {}
                    }
                }
            }
            @for (x, low, high) in &places {
                g {
                    title { (by) ": " (in_words(*low, *high)) }
                    line x1=(percent(*x)) x2=(percent(*x)) y1=(y(*low)) y2=(y(*high)) {}
                    (diamond(&percent(*x), height_in(panel, *low)))
                    @if low < high { (diamond(&percent(*x), height_in(panel, *high))) }
                }
            }
        }
    }
}

/// `64`, `4K`, `1M`; what is counted stays a number.
fn short_size(size: f64, axis: &Axis) -> String {
    const KIB: f64 = 1024.0;
    let Some(bytes) = axis.bytes else {
        return format!("{size}");
    };
    let size = size * bytes as f64;
    match size {
        size if size >= KIB * KIB => format!("{}M", size / KIB / KIB),
        size if size >= KIB => format!("{}K", size / KIB),
        size => format!("{size}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten_are_short() {
        let powers = [-2.0, -1.0, 0.0, 0.5, 1.5, 3.0];
        let labels = powers.map(short_power);
        assert_eq!(labels, ["0.01", "0.1", "1", "3.2", "32", "1000"]);
    }

    #[test]
    fn sizes_are_short() {
        let axis = |bytes| Axis {
            title: String::new(),
            bytes,
        };
        let kib = axis(Some(1024));
        assert_eq!(
            [4.0, 256.0, 4096.0].map(|size| short_size(size, &kib)),
            ["4K", "256K", "4M"]
        );
        assert_eq!(short_size(64.0, &axis(Some(1))), "64");
        assert_eq!(short_size(1000.0, &axis(None)), "1000");
    }

    #[test]
    fn curves_stand_beside_each_other() {
        assert_eq!([0, 1, 2].map(|index| offset(index, 3)), [-7.0, 0.0, 7.0]);
    }
}
