//! Charts as SVG. Places along the width are in percent, so that a chart fits every screen and its
//! letters keep their size.
//!
//! By hand: a library draws on a canvas of so many pixels in colours of its own; here widths are the screen's and colours
//! the style sheet's, by day and by night.

mod curves;

use super::{
    chart::{Chart, Group, Kind, Lane, Lanes, Series},
    scale::Scale,
};
use crate::rows::Published;
use curves::{draw_lines, draw_panel};
use maud::{Markup, html};

/// Height of a lane of ours or bare, of a peer's, and of a published figure, in px.
const LANE: f64 = 18.0;
const PEER_LANE: f64 = 11.0;
const PUBLISHED_LANE: f64 = 14.0;
/// Above the first lane and below the last.
const ROOM: f64 = 4.0;

pub(super) fn draw(chart: &Chart) -> Markup {
    let whose = chart.published();
    html! {
        figure {
            (legend(chart))
            @match chart {
                Chart::Lanes(lanes) => (draw_lanes(lanes, &whose)),
                Chart::Curves(panels) => div.panels { @for panel in panels { (draw_panel(panel, &whose)) } },
                Chart::Lines(panels) => div.panels { @for panel in panels { (draw_lines(panel)) } },
            }
        }
    }
}

fn legend(chart: &Chart) -> Markup {
    let is_told = |series: &&Series| series.kind != Kind::Bare;
    let is_ratio = match chart {
        Chart::Lanes(lanes) => lanes.bare.is_some(),
        Chart::Curves(_) => true,
        Chart::Lines(_) => false,
    };
    let whose = chart.published();
    // Lines are told apart by their dashes too.
    let stroke = match chart {
        Chart::Lines(_) => "curve",
        Chart::Lanes(_) | Chart::Curves(_) => "span",
    };
    let interval = if is_ratio {
        "95 % interval"
    } else {
        "p10 to p90"
    };
    html! {
        ul.legend {
            @for series in chart.series().iter().filter(is_told) {
                li {
                    svg width="30" height="14" aria-hidden="true" {
                        g.(class_of(series.kind)) {
                            line.(stroke) x1="1" x2="29" y1="7" y2="7" {}
                            (middle("15", 7.0, series.kind))
                        }
                    }
                    (series.name)
                }
            }
            @for by in &whose {
                li {
                    svg width="14" height="14" aria-hidden="true" { g.published.(place_of(&whose, by)) { (diamond("7", 7.0)) } }
                    (by) " (published)"
                }
            }
            @if chart.has_target() {
                li {
                    svg width="14" height="14" aria-hidden="true" {
                        line.target x1="7" x2="7" y1="0" y2="14" {}
                    }
                    "target"
                }
            }
            @if matches!(chart, Chart::Lines(_)) {
                li.how { "mark: median; bar: " (interval) "; thin line: as much as is offered" }
            } @else {
                li.how { "large mark: median; bar: " (interval) "; faint dots: single rounds" }
            }
        }
    }
}

fn class_of(kind: Kind) -> String {
    match kind {
        Kind::Bare => "bare".to_owned(),
        Kind::Ours(index) => format!("ours{}", index % 4),
        Kind::Peer(index) => format!("peer{}", index % 4),
    }
}

fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

fn pixels(value: f64) -> String {
    format!("{value:.1}")
}

fn draw_lanes(lanes: &Lanes, whose: &[String]) -> Markup {
    html! {
        div.lanes {
            (axis_labels(&lanes.scale))
            @for group in &lanes.groups {
                @if let Some(part) = &group.part { h3 { (part) } }
                (draw_group(group, lanes, whose))
            }
            (axis_labels(&lanes.scale))
            p.axis { (lanes.axis) }
        }
    }
}

fn axis_labels(scale: &Scale) -> Markup {
    html! {
        div.group {
            svg.strip.ticks height="16" aria-hidden="true" {
                @for (value, label) in scale.ticks() {
                    text x=(percent(scale.percent(value))) y="12" { (label) }
                }
            }
        }
    }
}

fn height_of(lane: &Lane) -> f64 {
    if lane.is_minor { PEER_LANE } else { LANE }
}

fn draw_group(group: &Group, lanes: &Lanes, whose: &[String]) -> Markup {
    let tops = group.lanes.iter().scan(ROOM, |top, lane| {
        let this = *top;
        *top += height_of(lane);
        Some(this)
    });
    let placed: Vec<(f64, &Lane)> = tops.zip(&group.lanes).collect();
    let lanes_height: f64 = group.lanes.iter().map(height_of).sum();
    let height = 2.0 * ROOM + lanes_height + PUBLISHED_LANE * group.published.len() as f64;
    let scale = &lanes.scale;
    html! {
        div.group {
            div.name { (group.title) }
            div.values { @for lane in &group.lanes { (value_of(lane)) } }
            svg.strip height=(pixels(height)) role="img" aria-label=(spoken(group)) {
                @for (value, _) in scale.ticks() { (upright("grid", scale, value)) }
                @if let Some(bare) = lanes.bare { (upright("bare-line", scale, bare)) }
                @for target in &group.targets { (upright("target", scale, *target)) }
                @for (top, lane) in placed {
                    (draw_lane(lane, scale, top + height_of(lane) / 2.0))
                }
                @for (index, published) in group.published.iter().enumerate() {
                    @let y = ROOM + lanes_height + PUBLISHED_LANE * (index as f64 + 0.5);
                    (draw_published(published, scale, y, place_of(whose, &published.by)))
                }
            }
        }
    }
}

fn spoken(group: &Group) -> String {
    let hovers: Vec<_> = group.lanes.iter().map(|lane| lane.hover.as_str()).collect();
    hovers.join("; ")
}

fn value_of(lane: &Lane) -> Markup {
    html! {
        @if !lane.is_minor {
            div.(class_of(lane.series.kind)) {
                span.value { (lane.value) }
                " "
                @if let Some(verdict) = lane.verdict {
                    span.chip.(verdict.word()) { (verdict) }
                }
            }
        }
    }
}

fn upright(class: &str, scale: &Scale, value: f64) -> Markup {
    let x = percent(scale.percent(value));
    html! { line.(class) x1=(x) x2=(x) y1="0" y2="100%" {} }
}

fn draw_lane(lane: &Lane, scale: &Scale, y: f64) -> Markup {
    let at = |value| percent(scale.percent(value));
    let height = pixels(y);
    html! {
        g.(class_of(lane.series.kind)) {
            title { (lane.hover) }
            @if !lane.is_minor && scale.holds(lane.middle) {
                @for (index, dot) in lane.dots.iter().enumerate() {
                    circle.dot cx=(at(*dot)) cy=(pixels(y + spread(index, LANE - 6.0))) r="1.5" {}
                }
            }
            @if scale.holds(lane.middle) {
                line.span x1=(at(lane.span.0)) x2=(at(lane.span.1)) y1=(height) y2=(height) {}
                (middle(&at(lane.middle), y, lane.series.kind))
            } @else {
                text.beyond x="100%" y=(pixels(y + 4.0)) {
                    @if lane.is_minor { (lane.value) " " }
                    "→"
                }
            }
        }
    }
}

/// Where a dot stands across its lane, so that dots of equal value do not hide each other. The same
/// every time.
fn spread(index: usize, width: f64) -> f64 {
    const PLACES: usize = 7;
    const STEP: usize = 3;
    let place = (index * STEP) % PLACES;
    width * (place as f64 / (PLACES - 1) as f64 - 0.5)
}

/// Of ours a filled mark, of peers a ring.
fn middle(x: &str, y: f64, kind: Kind) -> Markup {
    let radius = if matches!(kind, Kind::Peer(_)) {
        "3"
    } else {
        "4.5"
    };
    html! { circle.middle cx=(x) cy=(pixels(y)) r=(radius) {} }
}

/// The class of a published figure, by whose it is.
fn place_of(whose: &[String], by: &str) -> String {
    let place = whose.iter().position(|other| other == by);
    format!("original{}", place.unwrap_or(0) % 2)
}

fn draw_published(published: &Published, scale: &Scale, y: f64, class: String) -> Markup {
    let (low, high) = (
        percent(scale.percent(published.low)),
        percent(scale.percent(published.high)),
    );
    html! {
        g.published.(class) {
            title { (published.by) ": " (in_words(published.low, published.high)) }
            @if published.low < published.high {
                line x1=(low) x2=(high) y1=(pixels(y)) y2=(pixels(y)) {}
                (diamond(&high, y))
            }
            (diamond(&low, y))
        }
    }
}

/// `+2.98 % published`.
fn in_words(low: f64, high: f64) -> String {
    let more = |ratio: f64| {
        let more = (ratio - 1.0) * 100.0;
        format!("{}{:.2} %", if more < 0.0 { '−' } else { '+' }, more.abs())
    };
    if low < high {
        format!("{} to {}, published", more(low), more(high))
    } else {
        format!("{}, published", more(low))
    }
}

/// A path has no percentages: a picture of its own is put there.
fn diamond(x: &str, y: f64) -> Markup {
    html! {
        svg.mark x=(x) y=(pixels(y)) { path d="M0 -5 5 0 0 5 -5 0Z" {} }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_ratios_are_told_as_the_originals_do() {
        assert_eq!(in_words(1.0298, 1.0298), "+2.98 %, published");
        assert_eq!(in_words(0.9859, 1.0071), "−1.41 % to +0.71 %, published");
    }

    #[test]
    fn dots_are_spread_over_the_whole_lane() {
        let places: Vec<_> = (0..7).map(|index| pixels(spread(index, 6.0))).collect();
        assert_eq!(places, ["-3.0", "0.0", "3.0", "-1.0", "2.0", "-2.0", "1.0"]);
    }
}
