//! `den-f12`: servers of a game, each with some clients that ask ten times a second: how evenly their answers come.

use super::{
    super::{
        DIRECT, PROGRAM, PROXIED,
        asking::Asking,
        load::{Load, Spread},
        sites::{ANSWER, ANY_ANSWER, Site, at, server},
    },
    crowd::{Ground, Kind, name},
};
use crate::{
    Trial,
    figure::{Figure, Target},
    measure::{Schedule, Watched},
    network::{Port, Transport},
    notation::short,
    pin::{Apart, Pin},
    rows::{Extent, Method, Prepared, TO_BE_SET, Tools, operations::target_cell, ratio_cell},
    sample::{Contender, Reading, Samples, Unit},
    table::Table,
    workloads::Workloads,
};
use std::{path::PathBuf, time::Duration};

pub(in crate::rows) struct Jitter;

const WORKLOAD: &str = "servers of a game";
/// How far the time between two answers is from that between two requests: the median, all but a hundredth.
const USUAL: &str = "jitter p50";
const SLOW: &str = "jitter p99";
/// From when a request was due to its answer, all but a hundredth.
const LATENCY: &str = "latency p99";

const HERTZ: u32 = 10;
const CLIENTS: u32 = 4;
const MOST: Target = Target::AtMostTimesOther(1.05);

/// Who serves, and what tables call it.
const LANES: [(&str, &str); 3] = [
    (PROGRAM, "no wall"),
    (DIRECT, "walled, own socket"),
    (PROXIED, "walled, behind palisade"),
];

impl Method for Jitter {
    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        workloads.add_files(0)?;
        let ground = Ground::new(tools, &workloads);
        ground.add_guests(Kind::Programs, 0)?;
        let (servers, time_ms) = match tools.extent {
            Extent::Full => (32, 6_000),
            Extent::Quick => (32, 2_000),
            Extent::Tiny => (2, 250),
        };
        let asking = Asking::by_ours(tools)?;
        let made = [
            bare(&ground, servers)?,
            walled(&ground, servers, true)?,
            walled(&ground, servers, false)?,
        ];
        let trials = made
            .into_iter()
            .zip(LANES)
            .map(|((site, list), (subject, _))| {
                let trial = Paced {
                    site,
                    list,
                    load: asking.load.clone(),
                    apart: asking.apart,
                    time: Duration::from_millis(time_ms),
                };
                let trial: Box<dyn Trial> = Box::new(trial);
                (Contender::new(WORKLOAD, subject), trial)
            });
        let trials = trials.collect();
        Ok(Prepared {
            trials,
            ..Prepared::new(schedule(), workloads)
        })
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders().iter();
        let figures: Vec<Figure> = contenders
            .flat_map(|contender| [USUAL, SLOW, LATENCY].map(|one| figure(samples, contender, one)))
            .collect();
        let title = "Servers of 4 clients each, which ask 10 times a second, µs: how far the time between two\n\
                     answers is from a tenth of a second, and from when a request is due to its answer. Denali: flat\n\
                     up to 32 servers:";
        let table = table(&figures);
        (figures, vec![(title.to_owned(), table)])
    }
}

fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 1,
        least_rounds: 6,
        most_rounds: 400,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.03,
        watched: vec![Watched {
            measure: SLOW.to_owned(),
            contender: Contender::new(WORKLOAD, DIRECT),
            baseline: Contender::new(WORKLOAD, PROGRAM),
        }],
    }
}

/// Ports that are nobody else's, and an address at each.
fn ports(count: usize) -> anyhow::Result<(Vec<Port>, String)> {
    let ports = (0..count).map(|_| Port::find(Transport::Tcp));
    let ports = ports.collect::<anyhow::Result<Vec<_>>>()?;
    let lines = ports
        .iter()
        .map(|port| format!("http://{}/1\n", at(port.number)));
    let list = lines.collect();
    Ok((ports, list))
}

fn bare(ground: &Ground<'_>, count: usize) -> anyhow::Result<(Site, PathBuf)> {
    let (reserved, list) = ports(count)?;
    let servers = reserved
        .iter()
        .map(|port| ground.layout.program(port.number));
    let site = Site {
        servers: servers.collect::<anyhow::Result<_>>()?,
        base: String::new(),
        _reserved: reserved,
    };
    Ok((site, ground.layout.file("list-bare", &list)?))
}

/// One server, whose programs have sockets of their own or are found by the host.
fn walled(ground: &Ground<'_>, count: usize, direct: bool) -> anyhow::Result<(Site, PathBuf)> {
    let (mut reserved, own) = ports(count)?;
    let front = Port::find(Transport::Tcp)?;
    let port = front.number;
    let mut text = format!(
        "workers = 1\n\n[[listen]]\naddress = \"{}\"\n\n[programs]\nmost = {}\n\n",
        at(port),
        count + 8
    );
    let mut list = String::new();
    for (number, socket) in reserved.iter().enumerate() {
        let name = name(number);
        let own = format!("direct = \"{}\"\n", at(socket.number));
        ground.write_program(&name, if direct { &own } else { "" }, &mut text)?;
        if !direct {
            text += &format!("[[route]]\nhost = \"{name}.lab\"\nservice = \"{name}\"\n\n");
            list += &format!("http://{}/1 {name}.lab\n", at(port));
        }
    }
    if direct {
        // Nobody comes by it, and a server has one.
        text += "[services.none]\nupstream = [\"http://127.0.0.1:1\"]\n\n[[route]]\nservice = \"none\"\n";
        list = own;
    }
    let file = ground.layout.file(&format!("game-{port}.toml"), &text)?;
    let program = ground.layout.palisade(&[file.as_os_str()])?;
    let last = reserved.last().map_or(port, |one| one.number);
    let server = match direct {
        true => server(program, last, (QUESTION, ANY_ANSWER)),
        false => server(program, port, (QUESTION, ANSWER)),
    };
    reserved.push(front);
    let site = Site {
        servers: vec![server],
        base: String::new(),
        _reserved: reserved,
    };
    Ok((site, ground.layout.file(&format!("list-{port}"), &list)?))
}

const QUESTION: &[u8] = b"GET /1 HTTP/1.1\r\nHost: s0.lab\r\nConnection: close\r\n\r\n";

/// All servers, and the clients of all.
struct Paced {
    site: Site,
    list: PathBuf,
    load: Load,
    apart: Apart,
    time: Duration,
}

impl Trial for Paced {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let pin = Pin::to(&self.apart.inside)?;
        let _servers = self.site.start()?;
        drop(pin);
        let _pin = Pin::to(&self.apart.outside)?;
        // Each program is up before it matters.
        self.load.ask_each(&self.list)?;
        let paced = self.load.pace((HERTZ, CLIENTS), self.time, &self.list)?;
        let us = |spread: Option<Spread>, of: fn(Spread) -> f64| spread.map_or(0.0, of) / 1e3;
        Ok(vec![
            Reading::one_us(USUAL, us(paced.jitter, |one| one.p50_ns)),
            Reading::one_us(SLOW, us(paced.jitter, |one| one.p99_ns)),
            Reading::one_us(LATENCY, us(paced.latency, |one| one.p99_ns)),
        ])
    }
}

fn figure(samples: &Samples, contender: &Contender, measure: &str) -> Figure {
    let bare = Contender::new(WORKLOAD, PROGRAM);
    let baseline = (*contender != bare).then_some(&bare);
    let is_judged = contender.subject == DIRECT && measure == SLOW;
    let target = is_judged.then_some(MOST);
    let measured = (measure, Unit::Microseconds);
    let figure = Figure::of(samples, contender, baseline, measured, target);
    match baseline {
        Some(_) => figure.against(PROGRAM),
        None => figure,
    }
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new([
        "",
        "jitter",
        "p99",
        "×",
        "95 %",
        "target",
        "",
        "latency p99",
    ]);
    for (subject, title) in LANES {
        let find = |measure: &str| {
            let is_it = |one: &&Figure| one.contender.subject == subject && one.measure == measure;
            figures.iter().find(is_it)
        };
        let median = |measure: &str| {
            let summary = find(measure).and_then(|one| one.summary);
            summary.map_or_else(String::new, |one| short(one.median))
        };
        let slow = find(SLOW);
        table.line([
            title.to_owned(),
            median(USUAL),
            median(SLOW),
            ratio_cell(slow),
            slow.map_or_else(String::new, Figure::ratio_interval),
            slow.and_then(|one| one.target)
                .map_or_else(String::new, target_cell),
            slow.map_or_else(String::new, Figure::verdict_cell),
            median(LATENCY),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::present_on_terminal;

    #[test]
    fn servers_stand_down() {
        let contenders = LANES.map(|(subject, _)| Contender::new(WORKLOAD, subject));
        let mut samples = Samples::new(contenders.to_vec());
        for round in 0..6 {
            let of = |times: f64| {
                let reading =
                    |measure, us: f64| Reading::one_us(measure, us * times + f64::from(round));
                vec![
                    reading(USUAL, 30.0),
                    reading(SLOW, 400.0),
                    reading(LATENCY, 700.0),
                ]
            };
            samples.push_round([1.0, 1.02, 2.0].map(of).to_vec());
        }
        let (figures, text) = present_on_terminal(&Jitter, &samples);
        insta::assert_snapshot!(text);
        assert_eq!(
            figures.iter().filter(|one| one.verdict.is_some()).count(),
            1
        );
    }
}
