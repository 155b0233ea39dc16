//! `container-requests`: requests a second to nginx and to Redis in a container that shares the host's network, so that
//! what is measured is the runtime's filter and nothing of a network of containers. Their floor is the same server behind a filter
//! of one instruction, in no container.

use super::{
    OURS, RUNC, add_floor, add_runtimes,
    bundle::{Asked, lay_out},
    figure_of, figures_of, per_second, ratio_cells,
    runtime::{Container, Runtime},
    subjects, watch_ours,
};
use crate::{
    Trial,
    figure::{Figure, TO_FLOOR, Target},
    floor::Floor,
    measure::Schedule,
    network::{Port, Transport},
    notation::short,
    pin::{Apart, Pin},
    program::Program,
    rows::{Extent, Method, Prepared, TO_BE_SET, Tools, ratio_cell},
    sample::{Reading, Samples, Unit},
    server::{self, Answer, Readiness},
    subjects::{named_version, server_program, version_by},
    table::Table,
    workloads::Workloads,
};
use anyhow::{Context, bail, ensure};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

pub(in crate::rows) struct Requests;

const NGINX: &str = "nginx";
const REDIS: &str = "Redis";
/// Requests a second, of nginx by wrk and of Redis' command GET by redis-benchmark.
const RATE: &str = "requests";
const TARGETS: [(&str, Option<Target>); 1] = [(RUNC, Some(Target::AtLeastTimesOther(0.99)))];
/// Programs, Debian's packages of them and how they tell their version.
const PROGRAMS: [(&str, &str, &str); 4] = [
    ("nginx", "nginx-light", "-v"),
    ("wrk", "wrk", "-v"),
    ("redis-server", "redis-server", "--version"),
    ("redis-benchmark", "redis-tools", "--version"),
];
/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

impl Method for Requests {
    fn floor(&self) -> Floor {
        Floor::Filter
    }

    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        for (program, package, _) in PROGRAMS {
            ensure!(
                server_program(program).is_some(),
                "host: {program} is not installed: apt-get install {package}"
            );
        }
        let workloads = Workloads::new()?;
        let servers = [nginx(&workloads, tools.extent)?, redis(tools.extent)?];
        let bundles = servers.map(|server| bundle(&workloads, server));
        let mut prepared = Prepared::new(schedule(), workloads);
        for made in bundles {
            let (server, bundle) = made?;
            let name = server.name;
            add_runtimes(&mut prepared, tools, server.name, |runtime| {
                Ok(Served {
                    runtime: runtime.clone(),
                    bundle: bundle.clone(),
                    server: server.clone(),
                    apart: Apart::find()?,
                })
            })?;
            let floor = Filtered::lay_out(&prepared.workloads, server);
            add_floor(&mut prepared, name, || floor);
        }
        prepared.schedule.watched = watch_ours(&prepared, RATE);
        Ok(prepared)
    }

    fn versions(&self) -> Vec<(&'static str, Option<String>)> {
        let told = |(program, _, flag)| {
            let told = server_program(program).and_then(|program| version_by(&program, flag));
            (program, told.map(|told| named_version(program, &told)))
        };
        PROGRAMS.map(told).into()
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let figures: Vec<Figure> = [NGINX, REDIS]
            .into_iter()
            .flat_map(|server| figures_of(samples, server, (RATE, Unit::PerSecond), &TARGETS))
            .collect();
        let title = "Requests a second over loopback to a server in a container on the host's network: nginx, 1 KB\n\
                     by wrk, and Redis, GET by redis-benchmark, 25 connections each:";
        let table = table(samples, &figures);
        (figures, vec![(title.to_owned(), table)])
    }
}

fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 1,
        least_rounds: 6,
        most_rounds: 600,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.01,
        watched: Vec::new(),
    }
}

/// A server, what it runs and who asks it.
#[derive(Clone, Debug)]
struct Server {
    name: &'static str,
    words: Vec<String>,
    writable: Option<PathBuf>,
    port: u16,
    hello: (&'static [u8], &'static [u8]),
    client: Vec<String>,
    read: fn(&str) -> Option<f64>,
}

fn nginx(workloads: &Workloads, extent: Extent) -> anyhow::Result<Server> {
    let folder = workloads.folder().join("nginx");
    let port = free_port()?;
    let write = || -> std::io::Result<()> {
        fs::create_dir(&folder)?;
        fs::write(folder.join("1"), vec![b'x'; 1024])?;
        fs::write(folder.join("nginx.conf"), nginx_settings(&folder, port))
    };
    write().context("host: cannot write the settings of nginx")?;
    let seconds = match extent {
        Extent::Full => "2s",
        Extent::Quick | Extent::Tiny => "1s",
    };
    let url = format!("http://127.0.0.1:{port}/1");
    let settings = folder.join("nginx.conf").display().to_string();
    Ok(Server {
        name: NGINX,
        words: words(&[&program(NGINX)?, "-e", "stderr", "-c", &settings]),
        writable: Some(folder),
        port,
        hello: (b"GET /1 HTTP/1.0\r\n\r\n", b"HTTP/1.1 200"),
        client: words(&[&program("wrk")?, "-t1", "-c25", "-d", seconds, &url]),
        read: read_wrk,
    })
}

/// One process; everything that it writes is in its folder.
fn nginx_settings(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|one| format!("{one}_temp_path {folder}/{one};\n"));
    format!(
        "daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log stderr crit;\nevents {{}}\n\
         http {{\naccess_log off;\nkeepalive_requests 1000000;\n{}server {{\nlisten 127.0.0.1:{port};\n\
         root {folder};\n}}\n}}\n",
        temporary.concat()
    )
}

fn redis(extent: Extent) -> anyhow::Result<Server> {
    let port = free_port()?;
    let number = port.to_string();
    let requests = match extent {
        Extent::Full => "100000",
        Extent::Quick => "20000",
        Extent::Tiny => "500",
    };
    let server = program("redis-server")?;
    let client = program("redis-benchmark")?;
    Ok(Server {
        name: REDIS,
        words: words(&[
            &server,
            "--bind",
            "127.0.0.1",
            "--port",
            &number,
            "--save",
            "",
            "--appendonly",
            "no",
            "--daemonize",
            "no",
            "--loglevel",
            "warning",
            "--dir",
            "/tmp",
        ]),
        writable: None,
        port,
        hello: (b"PING\r\n", b"+PONG"),
        client: words(&[
            &client,
            "-h",
            "127.0.0.1",
            "-p",
            &number,
            "-t",
            "get",
            "-n",
            requests,
            "-c",
            "25",
            "--csv",
        ]),
        read: read_redis,
    })
}

fn free_port() -> anyhow::Result<u16> {
    Ok(Port::find(Transport::Tcp)?.number)
}

fn program(name: &str) -> anyhow::Result<String> {
    let program = server_program(name).with_context(|| format!("host: {name} is gone"))?;
    Ok(program.display().to_string())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// `Requests/sec:  26611.37`. wrk goes on where a request fails, and counts that.
fn read_wrk(said: &str) -> Option<f64> {
    let is_failure = |line: &str| line.contains("Socket errors:") || line.contains("Non-2xx");
    if said.lines().any(is_failure) {
        return None;
    }
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"))?;
    line.trim().parse().ok()
}

/// `"GET","79051.38",…` below a line of titles.
fn read_redis(said: &str) -> Option<f64> {
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix("\"GET\",\""))?;
    line.split('"').next()?.parse().ok()
}

fn bundle(workloads: &Workloads, server: Server) -> anyhow::Result<(Server, PathBuf)> {
    let asked = Asked {
        words: server.words.clone(),
        program: None,
        writable: server.writable.clone(),
        shares_network: true,
    };
    let bundle = lay_out(workloads, &format!("bundle-{}", server.name), &asked)?;
    Ok((server, bundle))
}

struct Served {
    runtime: Runtime,
    bundle: PathBuf,
    server: Server,
    apart: Apart,
}

impl Trial for Served {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let pin = Pin::to(&self.apart.inside)?;
        let container = self.runtime.create(&self.bundle)?;
        container.start()?;
        drop(pin);
        let _pin = Pin::to(&self.apart.outside)?;
        self.await_answer(&container)?;
        Ok(vec![per_second(RATE, self.server.ask()?)])
    }
}

/// The server by itself.
struct Filtered {
    started: server::Server,
    server: Server,
    apart: Apart,
}

impl Filtered {
    fn lay_out(workloads: &Workloads, server: Server) -> anyhow::Result<Self> {
        let floor = workloads.add_floor(Floor::Filter)?;
        let floor = floor.context("no floor of calls")?;
        let [program, arguments @ ..] = &server.words[..] else {
            bail!("a server without a program");
        };
        let command = palisade_wall::Command {
            program: program.into(),
            arguments: arguments.iter().map(Into::into).collect(),
        };
        Ok(Self {
            started: server::Server {
                program: Program::new(&floor.line(&command))?,
                readiness: Readiness::Answers(server.hello()),
            },
            server,
            apart: Apart::find()?,
        })
    }
}

impl Trial for Filtered {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let pin = Pin::to(&self.apart.inside)?;
        let _running = self.started.start()?;
        drop(pin);
        let _pin = Pin::to(&self.apart.outside)?;
        Ok(vec![per_second(RATE, self.server.ask()?)])
    }
}

impl Served {
    fn await_answer(&self, container: &Container<'_>) -> anyhow::Result<()> {
        let answer = self.server.hello();
        let began = Instant::now();
        while !answer.is_given()? {
            if container.has_ended()? || began.elapsed() > PATIENCE {
                bail!("{} does not answer", self.server.name);
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Server {
    fn hello(&self) -> Answer {
        let (question, answer) = self.hello;
        Answer {
            transport: Transport::Tcp,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)),
            namespace: None,
            question,
            answer,
        }
    }

    /// The client's rate.
    fn ask(&self) -> anyhow::Result<f64> {
        let [program, arguments @ ..] = &self.client[..] else {
            bail!("a client without a program");
        };
        let mut client = Command::new(program);
        client.args(arguments).stdin(Stdio::null());
        let output = client.output();
        let output = output.with_context(|| format!("host: cannot run {program}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let rate = output.status.success().then(|| (self.read)(&said));
        rate.flatten()
            .with_context(|| format!("{program} tells no rate: {}", said.trim()))
    }
}

fn table(samples: &Samples, figures: &[Figure]) -> Table {
    let mut table = Table::new([
        "", "median", "p10", "p90", "× floor", "× runc", "95 %", "target", "",
    ]);
    for server in [NGINX, REDIS] {
        let of_server: Vec<Figure> = figures
            .iter()
            .filter(|figure| figure.contender.workload == server)
            .cloned()
            .collect();
        if !of_server.is_empty() {
            table.section(server);
        }
        for subject in subjects(samples) {
            let figure = figure_of(&of_server, RATE, subject);
            let Some(summary) = figure.and_then(|figure| figure.summary) else {
                continue;
            };
            let mut cells = vec![format!("  {subject}")];
            cells.extend([summary.median, summary.p10, summary.p90].map(short));
            let ratio = figure_of(&of_server, &format!("{RATE}, × {RUNC}"), OURS);
            let to_floor = figure_of(&of_server, &format!("{RATE}{TO_FLOOR}"), subject);
            cells.push(ratio_cell(to_floor));
            if let Some(ratio) = ratio.filter(|_| subject == OURS) {
                cells.extend(ratio_cells(ratio));
            }
            table.line(cells);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{WITH_FLOOR, samples},
        *,
    };
    use crate::rows::present_on_terminal;

    #[test]
    fn servers_stand_down_and_their_rates_across() {
        let samples = samples((NGINX, WITH_FLOOR), |subject, round| {
            let rate = if subject == OURS { 49_900.0 } else { 50_000.0 };
            vec![per_second(RATE, rate + round)]
        });
        let (figures, text) = present_on_terminal(&Requests, &samples);
        insta::assert_snapshot!(text);
        let judged = figures.iter().filter(|one| one.verdict.is_some());
        assert_eq!(judged.count(), 1);
    }

    #[test]
    fn rates_are_read_from_what_each_client_prints() {
        let wrk = "  26630 requests in 1.00s, 32.86MB read\nRequests/sec:  26611.37\n";
        assert_eq!(read_wrk(wrk), Some(26_611.37));
        assert_eq!(
            read_wrk(&format!("  Non-2xx or 3xx responses: 3\n{wrk}")),
            None
        );
        let redis = "\"test\",\"rps\"\n\"GET\",\"200.25\",\"1\"\n";
        assert_eq!(read_redis(redis), Some(200.25));
        assert_eq!(read_redis(""), None);
    }
}
