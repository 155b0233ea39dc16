//! A run as one page of HTML: charts, tables and doubts of every row.
//!
//! It asks nothing of the network and has no script: what a reader sees is in the file. Widths are in
//! percent and heights in pixels, so that letters keep their size from a phone to a wide screen.
//! `maud` writes it: it escapes whatever it is given, and tags that do not match do not compile.
//! `plotters` would draw the charts too, but in fixed colours and at a fixed width.

mod chart;
mod draw;
mod scale;

use crate::{
    KeptRow, KeptRun,
    environment::Environment,
    figure::{Figure, Verdict},
    notation::four_figures,
    outcome::Outcome,
    sample::Samples,
    table::{Line, Table},
};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page/style.css");

/// Whoever serves the page: it loads nothing.
const LOAD_NOTHING: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The page of a run.
pub fn page(run: &KeptRun) -> String {
    let title = format!("What the wall costs on {}", run.environment.machine());
    let common = common_warnings(run);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(LOAD_NOTHING);
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    p.lead { (headline(run)) }
                    (overview(run))
                    (machine(&run.environment))
                    (warnings(&common))
                }
                main {
                    @for row in &run.rows { (row_section(row, &common)) }
                }
                footer { (how_a_number_is_made()) }
            }
        }
    };
    page.into_string()
}

/// `Of 14 targets 12 are reached, 1 is uncertain, 0 lie below the floor and 1 is missed.`
fn headline(run: &KeptRun) -> String {
    let count = |verdict| {
        let rows = run.rows.iter();
        rows.map(|row| row.outcome.count(verdict)).sum::<usize>()
    };
    let [reached, even, uncertain, below, missed] = Verdict::ALL.map(count);
    let targets = reached + even + uncertain + below + missed;
    if targets == 0 {
        return "No targets are set for it.".to_owned();
    }
    let is = |count: usize| if count == 1 { "is" } else { "are" };
    let even = match even {
        0 => String::new(),
        1 => ", 1 is met within a hundredth".to_owned(),
        even => format!(", {even} are met within a hundredth"),
    };
    let below = match below {
        0 => String::new(),
        1 => ", 1 lies below the floor".to_owned(),
        below => format!(", {below} lie below the floor"),
    };
    format!(
        "Of {targets} {} {reached} {} reached{even}, {uncertain} {} uncertain{below} and {missed} {} missed.",
        if targets == 1 { "target" } else { "targets" },
        is(reached),
        is(uncertain),
        is(missed),
    )
}

fn overview(run: &KeptRun) -> Markup {
    html! {
        @if run.rows.len() > 1 {
            nav aria-label="Rows" {
                @for KeptRow { outcome, .. } in &run.rows {
                    a href={ "#" (outcome.row) } {
                        b { (outcome.row) }
                        (verdict_chips(outcome))
                        span { (with_code(&outcome.about)) }
                    }
                }
            }
        }
    }
}

fn verdict_chips(outcome: &Outcome) -> Markup {
    let counted = Verdict::ALL.map(|verdict| (outcome.count(verdict), verdict));
    html! {
        span.chips {
            @if outcome.failed.is_some() {
                span.chip.short { "failed" }
            }
            @for (count, verdict) in counted {
                @if count > 0 {
                    span.chip.(verdict.word()) { (count) " " (verdict) }
                }
            }
        }
    }
}

fn machine(environment: &Environment) -> Markup {
    let facts = environment.facts();
    let short = ["processor", "memory", "kernel", "user", "tools", "measured"];
    let told: Vec<_> = facts
        .iter()
        .filter(|(name, _)| short.contains(name))
        .map(|(_, fact)| fact.split(" #").next().unwrap_or(fact))
        .collect();
    html! {
        p.machine { (told.join(" · ")) }
        details {
            summary { "The machine, and how to make this again" }
            dl {
                @for (name, fact) in &facts {
                    dt { (name) }
                    dd { (fact) }
                }
            }
            pre { code { (environment.command()) } }
        }
    }
}

/// Those that are about every row: told once.
fn common_warnings(run: &KeptRun) -> Vec<&str> {
    let [first, second, rest @ ..] = &run.rows[..] else {
        return Vec::new();
    };
    let has = |row: &KeptRow, text: &str| {
        let mut warnings = row.outcome.warnings.iter();
        warnings.any(|warning| warning.text == text)
    };
    let of_first = first.outcome.warnings.iter();
    let texts = of_first.map(|warning| warning.text.as_str());
    texts
        .filter(|text| has(second, text) && rest.iter().all(|row| has(row, text)))
        .collect()
}

fn warnings(texts: &[&str]) -> Markup {
    html! {
        @if !texts.is_empty() {
            ul.warnings {
                @for text in texts { li { (with_code(text)) } }
            }
        }
    }
}

fn row_section(row: &KeptRow, common: &[&str]) -> Markup {
    let outcome = &row.outcome;
    let texts = outcome.warnings.iter().map(|warning| warning.text.as_str());
    let own: Vec<&str> = texts.filter(|text| !common.contains(text)).collect();
    html! {
        section id=(outcome.row) {
            h2 { (outcome.row) " " (verdict_chips(outcome)) }
            p.about { (with_code(&outcome.about)) }
            @if let Some(reason) = &outcome.failed {
                p.failed { "It could not be measured: " (reason) }
            } @else {
                p.circumstances { (circumstances(outcome)) }
                @if let Some(floor) = &outcome.floor {
                    p.circumstances { "Floor: " (with_code(floor)) }
                }
            }
            @if let Some(chart) = chart::chart_of(row) {
                (draw::draw(&chart))
            }
            @for (title, table) in &outcome.tables {
                (table_of(title, table))
            }
            @if let Some(below) = outcome.below_floor() {
                p.circumstances { "Below the floor: " (below) }
            }
            (warnings(&own))
            @if !outcome.figures.is_empty() {
                details {
                    summary { "Every figure and every round" }
                    (figures(&outcome.figures))
                    (rounds(&row.samples))
                }
            }
        }
    }
}

/// What stands between backticks, as code.
fn with_code(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn circumstances(outcome: &Outcome) -> String {
    let pinned = outcome
        .pinned_to
        .map(|processor| format!(", all on processor {processor}"));
    format!(
        "{} rounds in {:.0} s, in turn{}",
        outcome.rounds,
        outcome.took_s,
        pinned.unwrap_or_default()
    )
}

/// A table as it stands in the terminal. It scrolls by itself where it is wider than the screen.
fn table_of(title: &str, table: &Table) -> Markup {
    let columns = table.headings().len();
    html! {
        p.caption { (with_code(title)) }
        div.scroll tabindex="0" role="region" aria-label=(title) {
            table {
                thead {
                    tr { @for heading in table.headings() { th scope="col" { (heading) } } }
                }
                tbody {
                    @for line in table.lines() {
                        @match line {
                            Line::Section(title) => tr.part { th colspan=(columns) { (title) } },
                            Line::Cells(cells) => tr { (table_cells(cells)) },
                        }
                    }
                }
            }
        }
    }
}

fn table_cells(cells: &[String]) -> Markup {
    let is_verdict = |cell: &str| Verdict::ALL.iter().any(|one| one.word() == cell);
    html! {
        @for (column, cell) in cells.iter().enumerate() {
            @if column == 0 {
                th scope="row" { (cell.trim()) }
            } @else if is_verdict(cell) {
                td { span.chip.(cell) { (cell) } }
            } @else {
                td { (cell) }
            }
        }
    }
}

fn figures(figures: &[Figure]) -> Markup {
    let headings = [
        "workload",
        "contender",
        "measure",
        "unit",
        "runs",
        "median",
        "p10",
        "p90",
        "p99",
        "× bare",
        "from",
        "to",
    ];
    html! {
        div.scroll tabindex="0" role="region" aria-label="Every figure" {
            table {
                thead { tr { @for heading in headings { th scope="col" { (heading) } } } }
                tbody {
                    @for figure in figures {
                        tr { (figure_cells(figure)) }
                    }
                }
            }
        }
    }
}

fn figure_cells(figure: &Figure) -> Markup {
    let summary = figure.summary;
    let runs = summary.map_or_else(String::new, |summary| summary.count.to_string());
    let values = summary.map(|one| [one.median, one.p10, one.p90, one.p99]);
    let ratio = figure
        .ratio
        .map(|ratio| [ratio.value, ratio.low, ratio.high]);
    let cells = |values: Option<&[f64]>, count: usize| {
        let values = values.map(|values| values.iter().map(|value| four_figures(*value)).collect());
        values.unwrap_or_else(|| vec![String::new(); count])
    };
    let values: Vec<String> = cells(values.as_ref().map(|values| &values[..]), 4);
    let ratio: Vec<String> = cells(ratio.as_ref().map(|ratio| &ratio[..]), 3);
    html! {
        th scope="row" { (figure.contender.workload) }
        td.words { (figure.contender.subject) }
        td.words { (figure.measure) }
        td { (figure.unit.symbol()) }
        td { (runs) }
        @for cell in values.iter().chain(&ratio) { td { (cell) } }
    }
}

/// The series that the figures are made of, as numbers to be copied.
fn rounds(samples: &Samples) -> Markup {
    html! {
        @for contender in samples.contenders() {
            @for measure in samples.measures(contender) {
                h4 { (contender.workload) ", " (contender.subject) ", " (measure) }
                p.rounds { (joined(&samples.series(contender, measure))) }
            }
        }
    }
}

fn joined(values: &[f64]) -> String {
    let words: Vec<_> = values.iter().map(|value| four_figures(*value)).collect();
    words.join(" ")
}

fn how_a_number_is_made() -> Markup {
    html! {
        h2 { "How a number is made" }
        p {
            "Contenders take turns, A B B A, so that whatever drifts on the machine drifts for all of them. A figure "
            "is the median of the rounds; a comparison is the median of each round's ratio, with an interval that holds the "
            "true one in 95 of 100 cases, by bootstrap over whole rounds. Nothing is subtracted and nothing dropped. "
            "A target passes if the whole interval lies within it, is short if the whole interval lies beyond it, even if "
            "the whole interval lies within a hundredth of it, and unsure otherwise. The floor of a row is the least that the kernel charges for what the row needs, measured "
            "beside it; a target that is not reached and that the floor does not reach lies below the floor. Published figures were taken on other machines: they say how large an effect was, no "
            "more."
        }
    }
}

#[cfg(test)]
mod tests;
