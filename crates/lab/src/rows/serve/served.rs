//! Rows of whole servers beside each other, one processor each, with the clients on another: requests in a second, or
//! what a single answer takes. Contenders go down the table.

use super::{
    asking::Asking,
    load::{FASTEST, REPLY, REQUESTS, WRK},
    sites::{Layout, Site, Who},
    turns::Shared,
};
use crate::{
    Trial,
    figure::{FLOOR, Figure, TO_FLOOR, Target},
    floor::Floor,
    measure::{Schedule, Watched},
    notation::{four_figures, short, signed},
    rows::{BARE, Method, Prepared, TO_BE_SET, Tools, operations::target_cell, ratio_cell},
    sample::{Contender, Samples, Unit},
    statistics::{Estimate, estimate_difference},
    subjects::{named_version, on_path, server_program, version_by},
    table::Table,
    workloads::Workloads,
};
use std::{cell::RefCell, collections::BTreeMap, path::PathBuf, rc::Rc, time::Duration};

/// A row of this kind: all of it is data, but for what lies on disk.
pub(in crate::rows) struct Served {
    /// Of the table, without what it is measured in.
    pub(super) title: &'static str,
    pub(super) way: Way,
    pub(super) lanes: &'static [Lane],
    pub(super) documents: &'static [Document],
    pub(super) judgements: &'static [Judgement],
    /// The same in both isolations.
    pub(super) isolations: &'static [Isolations],
    /// Lays out what the servers serve.
    pub(super) lay_out: fn(&Tools, &Workloads) -> anyhow::Result<()>,
    /// What `palisade serve` is told; see [`Layout::tables`].
    pub(super) tables: fn(&Layout<'_>) -> anyhow::Result<String>,
    /// Those of one family are asked in turn, by [`Way::InTurn`].
    pub(super) family: fn(Who) -> &'static str,
}

/// How they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// One request at a time, in turn: what an answer takes.
    InTurn,
    /// As many as come back: how many there are.
    Busy,
}

/// One contender.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) subject: &'static str,
    /// In tables.
    pub(super) title: &'static str,
    pub(super) who: Who,
    /// Of what it serves.
    pub(super) path: &'static str,
}

/// What is asked for.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) title: &'static str,
    /// After a lane's own path.
    pub(super) path: &'static str,
    /// It is posted to, and answers with the same in grey.
    pub(super) posted: Option<Picture>,
}

/// A picture, in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picture {
    /// Among the files.
    pub(super) name: &'static str,
    pub(super) width: usize,
    pub(super) height: usize,
    /// It is posted once for so many requests of other rows: a large one takes its time.
    pub(super) one_in: usize,
}

/// Lanes of one guest: whose instance is kept, and who has a fresh one for each request.
#[derive(Debug)]
pub(super) struct Isolations {
    pub(super) title: &'static str,
    pub(super) kept: &'static str,
    pub(super) fresh: &'static str,
}

/// What a fresh instance takes more than one that is kept, of one processor.
const ISOLATION: &str = "isolation";
const PRICE: &str = "\
Price of isolation, µs of the server's processor for each request. Kept: one instance has them all.
Fresh: each has its own, and nothing of one client's can be read or spoilt by the next one's:";

/// What a lane is held to.
#[derive(Debug)]
pub(super) struct Judgement {
    pub(super) subject: &'static str,
    pub(super) against: &'static str,
    /// `None`: it is told and not judged.
    pub(super) target: Option<Target>,
    /// What the least takes more than the least without it.
    pub(super) floor: Option<Beside>,
}

/// Two lanes of a floor: who has what is judged, and who has not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    pub(super) subject: &'static str,
    pub(super) against: &'static str,
}

impl Method for Served {
    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        (self.lay_out)(tools, &workloads)?;
        let mut prepared = Prepared::new(self.schedule(), workloads);
        let lanes = open_lanes(self.lanes, self.tables, tools, &mut prepared)?;
        let asking = Asking::new(self.way, tools)?;
        for document in self.documents {
            let mut families = BTreeMap::new();
            for (lane, site) in &lanes {
                let url = format!("{}{}{}", site.borrow().base, lane.path, document.path);
                let site = Rc::clone(site);
                let trial: Box<dyn Trial> = match self.way {
                    Way::Busy => Box::new(asking.busy(site, url)),
                    Way::InTurn => {
                        let family = families.entry((self.family)(lane.who));
                        let turns = family.or_insert_with(|| {
                            asking.turns_of(document.posted, &prepared.workloads)
                        });
                        Box::new(turns.join(site, url))
                    }
                };
                let contender = Contender::new(document.title, lane.subject);
                prepared.trials.push((contender, trial));
            }
        }
        Ok(prepared)
    }

    fn floor(&self) -> Floor {
        let has_one = self.judgements.iter().any(|one| one.floor.is_some());
        match has_one {
            true => Floor::Engine,
            false => Floor::Bare,
        }
    }

    fn versions(&self) -> Vec<(&'static str, Option<String>)> {
        let wrk = (self.way == Way::Busy).then_some((WRK, on_path(WRK), "-v"));
        let has = |wanted: fn(Who) -> bool| self.lanes.iter().any(|lane| wanted(lane.who));
        let nginx = has(|who| matches!(who, Who::Nginx(_) | Who::NginxProxy));
        let nginx = nginx.then(|| ("nginx", server_program("nginx"), "-v"));
        let wasmtime = has(|who| matches!(who, Who::Wasmtime(_)));
        let wasmtime = wasmtime.then(|| ("wasmtime", on_path("wasmtime"), "--version"));
        let version = |(name, path, flag): (&'static str, Option<PathBuf>, &str)| {
            let told = path.and_then(|path| version_by(&path, flag));
            (name, told.map(|told| named_version(name, &told)))
        };
        let all = wrk.into_iter().chain(nginx).chain(wasmtime);
        all.map(version).collect()
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let mut figures = self.figures(samples);
        let title = match self.way {
            Way::InTurn => format!("{}, µs of an answer:", self.title),
            Way::Busy => format!("{}, requests in a second:", self.title),
        };
        let mut tables = vec![(title, self.table(&figures))];
        let prices = self.prices(samples);
        if !prices.is_empty() {
            tables.push((PRICE.to_owned(), self.price_table(&figures, &prices)));
        }
        figures.extend(prices);
        (figures, tables)
    }
}

/// A lane and its site, which other lanes may have too.
type OpenLane = (&'static Lane, Shared<Site>);

/// Each lane that can be had here; the others are told.
pub(super) fn open_lanes(
    lanes: &'static [Lane],
    tables: fn(&Layout<'_>) -> anyhow::Result<String>,
    tools: &Tools,
    prepared: &mut Prepared,
) -> anyhow::Result<Vec<OpenLane>> {
    let layout = Layout {
        tools,
        workloads: &prepared.workloads,
        tables,
    };
    let mut sites: Vec<(Who, Option<Shared<Site>>)> = Vec::new();
    let mut open = Vec::new();
    for lane in lanes {
        if !sites.iter().any(|(who, _)| *who == lane.who) {
            let site = match layout.site(lane.who)? {
                Ok(site) => Some(Rc::new(RefCell::new(site))),
                Err(absent) => {
                    if !prepared.warnings.contains(&absent) {
                        prepared.warnings.push(absent);
                    }
                    None
                }
            };
            sites.push((lane.who, site));
        }
        let site = sites.iter().find(|(who, _)| *who == lane.who);
        if let Some((_, Some(site))) = site {
            open.push((lane, Rc::clone(site)));
        }
    }
    Ok(open)
}

impl Served {
    fn measure(&self) -> (&'static str, Unit) {
        match self.way {
            Way::InTurn => (REPLY, Unit::Microseconds),
            Way::Busy => (REQUESTS, Unit::PerSecond),
        }
    }

    fn schedule(&self) -> Schedule {
        let (measure, _) = self.measure();
        let watched = self.documents.iter().flat_map(|document| {
            self.judgements.iter().map(|judgement| Watched {
                measure: measure.to_owned(),
                contender: Contender::new(document.title, judgement.subject),
                baseline: Contender::new(document.title, judgement.against),
            })
        });
        Schedule {
            warm_up_rounds: 1,
            least_rounds: 10,
            most_rounds: 2000,
            budget: TO_BE_SET,
            patience: TO_BE_SET,
            relative_width: 0.005,
            watched: watched.collect(),
        }
    }

    fn figures(&self, samples: &Samples) -> Vec<Figure> {
        let contenders = samples.contenders().iter();
        contenders
            .flat_map(|contender| self.figures_of(samples, contender))
            .collect()
    }

    /// Its own figures, against the first that it is held to, and the same against the others.
    fn figures_of(&self, samples: &Samples, contender: &Contender) -> Vec<Figure> {
        let (measure, unit) = self.measure();
        let is_here = |judgement: &&Judgement| {
            let against = Contender::new(&contender.workload, judgement.against);
            judgement.subject == contender.subject && samples.contenders().contains(&against)
        };
        let judgements: Vec<_> = self.judgements.iter().filter(is_here).collect();
        let figure = |measure: &str, judgement: Option<&Judgement>, is_judged: bool| {
            let against = judgement.map(|one| Contender::new(&contender.workload, one.against));
            let target = judgement.and_then(|one| one.target).filter(|_| is_judged);
            let figure = Figure::of(
                samples,
                contender,
                against.as_ref(),
                (measure, unit),
                target,
            );
            let Some(judgement) = judgement else {
                return figure;
            };
            let figure = figure.against(judgement.against);
            match judgement.floor {
                Some(floor) => floor.beside(samples, figure),
                None => figure,
            }
        };
        let first = judgements.first().copied();
        let title = self.title_in_charts(contender);
        let mut figures = vec![figure(measure, first, true).titled(title)];
        if self.way == Way::InTurn {
            let title = format!("{title}, fastest");
            let first = first.filter(|_| !self.is_to_bare());
            figures.push(figure(FASTEST, first, false).titled(&title));
        }
        let others = judgements.iter().skip(1).map(|judgement| Figure {
            measure: format!("{measure} to {}", judgement.against),
            // It is the first figure's; only the comparison is another one.
            summary: None,
            ..figure(measure, Some(judgement), true)
        });
        figures.extend(others);
        let floors = judgements.iter().filter_map(|judgement| {
            let floor = judgement.floor?;
            floor.figure(samples, contender, (judgement.against, measure, unit))
        });
        figures.extend(floors);
        figures
    }

    /// Of each guest that was measured in both isolations.
    fn prices(&self, samples: &Samples) -> Vec<Figure> {
        let guests = self.documents.iter().flat_map(|document| {
            let guests = self.isolations.iter();
            guests.map(|guest| guest.price(samples, document.title))
        });
        guests.flatten().collect()
    }

    fn price_table(&self, figures: &[Figure], prices: &[Figure]) -> Table {
        let mut table = Table::new(["", "kept µs", "fresh µs", "more", "95 %"]);
        for price in prices {
            let us = |subject: Option<&String>| {
                let is_it = |one: &&Figure| {
                    one.measure == REQUESTS
                        && Some(&one.contender.subject) == subject
                        && one.contender.workload == price.contender.workload
                };
                let summary = figures.iter().find(is_it).and_then(|one| one.summary);
                summary.map_or_else(String::new, |one| four_figures(us_of(one.median)))
            };
            let more = price.difference.map(|more| hundredths(more.value));
            let interval = price.difference.map(interval_cell);
            table.line([
                price.title().to_owned(),
                us(price.against.as_ref()),
                us(Some(&price.contender.subject)),
                more.unwrap_or_default(),
                interval.unwrap_or_default(),
            ]);
        }
        table
    }

    fn table(&self, figures: &[Figure]) -> Table {
        let headings: &[&str] = match self.way {
            Way::InTurn => &["", "µs", "fastest", "more", "95 %", "target", "", "than"],
            Way::Busy => &["", "/s", "×", "95 %", "target", "", "of"],
        };
        let mut table = Table::new(headings.iter().copied());
        for document in self.documents {
            if self.documents.len() > 1 {
                table.section(document.title);
            }
            let of_document = |figure: &&Figure| figure.contender.workload == document.title;
            for figure in figures.iter().filter(of_document) {
                if figure.measure != FASTEST {
                    self.line(&mut table, figure, figures);
                }
            }
        }
        table
    }

    /// Of times as much as with no wall, a document has one place for all; else each lane has its own.
    fn title_in_charts<'a>(&self, contender: &'a Contender) -> &'a str {
        match self.is_to_bare() {
            true => &contender.workload,
            false => self.title_of(&contender.subject),
        }
    }

    /// Whether it is drawn as times as much as with no wall.
    fn is_to_bare(&self) -> bool {
        self.lanes.iter().any(|lane| lane.subject == BARE)
    }

    /// What the tables call a subject.
    fn title_of<'a>(&self, subject: &'a str) -> &'a str {
        let lane = self.lanes.iter().find(|lane| lane.subject == subject);
        lane.map_or(subject, |lane| lane.title)
    }

    fn line(&self, table: &mut Table, figure: &Figure, figures: &[Figure]) {
        let name = match figure.summary {
            Some(_) => self.title_of(&figure.contender.subject).to_owned(),
            None => String::new(),
        };
        let median = |figure: Option<&Figure>| {
            let summary = figure.and_then(|figure| figure.summary);
            summary.map_or_else(String::new, |summary| short(summary.median))
        };
        let target = figure.target.map_or_else(String::new, target_cell);
        let verdict = figure.verdict_cell();
        let against = figure.against.as_deref().unwrap_or_default();
        let against = self.title_of(against).to_owned();
        match self.way {
            Way::InTurn => {
                let is_fastest = |other: &&Figure| {
                    other.measure == FASTEST && other.contender == figure.contender
                };
                let fastest = figures.iter().find(is_fastest);
                let fastest = fastest.filter(|_| figure.summary.is_some());
                let over = figure.difference.filter(|_| !against.is_empty());
                let more = over.map_or_else(String::new, |over| hundredths(over.value));
                let interval = over.map(interval_cell);
                table.line([
                    name,
                    median(Some(figure)),
                    median(fastest),
                    more,
                    interval.unwrap_or_default(),
                    target,
                    verdict,
                    against,
                ]);
            }
            Way::Busy => table.line([
                name,
                median(Some(figure)),
                ratio_cell(Some(figure)),
                figure.ratio_interval(),
                target,
                verdict,
                against,
            ]),
        }
    }
}

impl Beside {
    /// Its lanes, where both were measured.
    fn contenders(self, samples: &Samples, workload: &str) -> Option<[Contender; 2]> {
        let lanes = [self.subject, self.against].map(|subject| Contender::new(workload, subject));
        let are_here = lanes.iter().all(|lane| samples.contenders().contains(lane));
        are_here.then_some(lanes)
    }

    /// The figure, judged beside what the floor reaches of its target.
    pub(super) fn beside(self, samples: &Samples, figure: Figure) -> Figure {
        match self.contenders(samples, &figure.contender.workload) {
            Some([floor, without]) => figure.beside_floor(samples, &floor, Some(&without)),
            None => figure,
        }
    }

    /// The whole beside what it would be if it took no more than the floor does: what others take without it, and what
    /// the floor takes more with it.
    fn figure(
        self,
        samples: &Samples,
        contender: &Contender,
        (against, measure, unit): (&str, &str, Unit),
    ) -> Option<Figure> {
        let lanes = self.contenders(samples, &contender.workload)?;
        let [floor, without] = lanes.map(|lane| samples.series(&lane, measure));
        let against = samples.series(&Contender::new(&contender.workload, against), measure);
        let least: Vec<f64> = against
            .iter()
            .zip(floor.iter().zip(&without))
            .map(|(plain, (floor, without))| match unit {
                // So many in a second, each of which takes so much longer.
                Unit::PerSecond => 1.0 / (1.0 / plain + 1.0 / floor - 1.0 / without),
                _ => plain + floor - without,
            })
            .collect();
        let series = samples.series(contender, measure);
        let figure = Figure::of_series(contender, (measure, unit), &series, Some(&least), None);
        Some(Figure {
            measure: format!("{measure}{TO_FLOOR}"),
            summary: None,
            ..figure.against(FLOOR)
        })
    }
}

impl Isolations {
    /// A figure without a summary: what it is made of stands in other figures, as rates.
    fn price(&self, samples: &Samples, workload: &str) -> Option<Figure> {
        let us = |subject: &str| -> Vec<f64> {
            let rates = samples.series(&Contender::new(workload, subject), REQUESTS);
            rates.into_iter().map(us_of).collect()
        };
        let (kept, fresh) = (us(self.kept), us(self.fresh));
        let was_measured = !kept.is_empty() && !fresh.is_empty();
        was_measured.then(|| Figure {
            contender: Contender::new(workload, self.fresh),
            measure: ISOLATION.to_owned(),
            title: Some(self.title.to_owned()),
            unit: Unit::Microseconds,
            summary: None,
            against: Some(self.kept.to_owned()),
            ratio: None,
            difference: Some(estimate_difference(&fresh, &kept)),
            target: None,
            floor: None,
            verdict: None,
        })
    }
}

/// What one takes of a processor that does nothing else, of so many in a second.
fn us_of(per_second: f64) -> f64 {
    1e6 / per_second
}

fn interval_cell(over: Estimate) -> String {
    format!("{}–{}", hundredths(over.low), hundredths(over.high))
}

/// `+0.31`: half a µs is much here.
fn hundredths(us: f64) -> String {
    match us.abs() {
        size if size < 9.995 => format!("{}{size:.2}", if us < 0.0 { '−' } else { '+' }),
        _ => signed(us),
    }
}

#[cfg(test)]
mod tests;
