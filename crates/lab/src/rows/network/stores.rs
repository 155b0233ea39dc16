//! The rows of servers that keep data, each behind the wall and asked by the client that it comes with:
//! memcached (OSv 2013, a library operating system for one program in one virtual machine), Redis and
//! PostgreSQL.

use super::{
    READING, WRITING,
    ends::{Client, CommandAt, Ends, Hello, Place, Side, add_own_folder},
};
use crate::{
    floor::Floor,
    network::Transport,
    rows::{
        Extent,
        operations::{Operations, Workload, rate},
    },
    sample::{Reading, Unit},
    subjects::{NOBODY, server_program},
    workloads::Workloads,
};
use anyhow::{Context, ensure};
use palisade_wall::Command;
use rustix::process::geteuid;
use std::{
    ffi::OsString,
    fs,
    num::NonZeroUsize,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process,
    rc::Rc,
    thread::available_parallelism,
};

pub(in crate::rows) static MEMCACHED: Operations = Operations {
    name: "osv-mc",
    title: "requests a second with no wall, and times as much behind each, with 95 % intervals:",
    workload: Workload::TwoEnds(
        lay_out_memcached,
        &[
            ("memcached", "memcached", "--version"),
            ("memcaslap", "libmemcached-tools", "--version"),
        ],
    ),
    walls: &[READING],
    operations: &[rate("requests", "memcached", 0.99, "+39.6 %")],
    unit: Unit::PerSecond,
    floor: Floor::Filter,
    mean: None,
    least_times_bridged: Some(1.4),
    original: Some("OSv"),
    pinned: false,
    through_wasi: None,
};

fn lay_out_memcached(workloads: &Workloads, extent: Extent) -> anyhow::Result<Ends> {
    let program: OsString = server_program("memcached")
        .context("host: memcached is gone")?
        .into();
    let server = move |place: &Place| {
        let udp = format!("{}", place.port);
        let listens = place.listens.to_string();
        let words = ["-t", "1", "-p", "0", "-U", &udp, "-l", &listens];
        Ok(Command {
            program: program.clone(),
            arguments: words.map(Into::into).into(),
        })
    };
    // What it takes by itself, which it would write to the home of whoever runs it.
    let settings = workloads.folder().join("memcaslap.conf");
    fs::write(
        &settings,
        "key\n64 64 1\nvalue\n1024 1024 1\ncmd\n0 0.1\n1 0.9\n",
    )
    .context("host: cannot write the settings of memcaslap")?;
    let threads = memcaslap_threads(available_parallelism().map_or(1, NonZeroUsize::get));
    // Not by a number of requests: it looks only once a second whether they are done.
    let client = move |place: &Place| {
        let server = format!("{}:{}", place.connects, place.port);
        let threads = threads.to_string();
        let words = [
            "-s", &server, "-U", "-T", &threads, "-c", "60", "-t", "1s", "-F",
        ];
        let words = words.map(OsString::from).into_iter();
        words.chain([settings.clone().into()]).collect()
    };
    Ok(Ends {
        inside: Side::Server,
        transport: Transport::Udp,
        refuses_root: true,
        is_apart: true,
        server: Box::new(server),
        // A frame's head of eight bytes: request, sequence, datagrams, reserved.
        hello: Hello::Answers(
            b"\0\x01\0\0\0\x01\0\0version\r\n",
            b"\0\x01\0\0\0\x01\0\0VERSION",
        ),
        clients: vec![Client {
            // It aborts where an answer comes after it was given up, which says nothing of the server.
            most_repeats: 4,
            // Nor does that it waits for ever for an answer that was lost.
            may_hang: true,
            ..client_of("memcaslap", Rc::new(client), Rc::new(read_memcaslap))?
        }],
        turns: extent.turns(2),
    })
}

/// One for each processor that the server leaves, and no more than the original had. Threads that share one spend it on taking
/// turns, now more and now less.
fn memcaslap_threads(processors: usize) -> usize {
    processors.saturating_sub(1).clamp(1, 3)
}

/// `Run time: 1.0s Ops: 275488 TPS: 275471 Net_rate: 312.4M/s`. What was lost on the way is not in the rate.
fn read_memcaslap(said: &str) -> anyhow::Result<Vec<Reading>> {
    let after = |title: &str| {
        let mut words = said.split_whitespace().skip_while(|word| *word != title);
        words.nth(1).and_then(|word| word.parse().ok())
    };
    one_rate("requests", after("TPS:"))
}

pub(in crate::rows) static REDIS: Operations = Operations {
    name: "redis",
    workload: Workload::TwoEnds(
        lay_out_redis,
        &[
            ("redis-server", "redis-server", "--version"),
            ("redis-benchmark", "redis-tools", ""),
        ],
    ),
    operations: &[rate("SET", "set", 0.99, ""), rate("GET", "get", 0.99, "")],
    least_times_bridged: None,
    original: None,
    ..MEMCACHED
};

fn lay_out_redis(_workloads: &Workloads, extent: Extent) -> anyhow::Result<Ends> {
    let program: OsString = server_program("redis-server")
        .context("host: Redis is gone")?
        .into();
    let server = move |place: &Place| {
        let (address, port) = (place.listens.to_string(), place.port.to_string());
        let words = [
            "--bind",
            &address,
            "--port",
            &port,
            "--save",
            "",
            "--appendonly",
            "no",
            "--daemonize",
            "no",
            "--protected-mode",
            "no",
            "--loglevel",
            "warning",
        ];
        Ok(Command {
            program: program.clone(),
            arguments: words.map(Into::into).into(),
        })
    };
    let requests = match extent {
        Extent::Full => 10_000,
        Extent::Quick => 5000,
        Extent::Tiny => 500,
    };
    let client = move |place: &Place| {
        let (address, port) = (place.connects.to_string(), place.port.to_string());
        let requests = requests.to_string();
        let words = [
            "-h", &address, "-p", &port, "-t", "set,get", "-n", &requests, "-c", "25", "--csv",
        ];
        words.map(OsString::from).to_vec()
    };
    Ok(Ends {
        inside: Side::Server,
        transport: Transport::Tcp,
        refuses_root: true,
        is_apart: true,
        server: Box::new(server),
        hello: Hello::Answers(b"PING\r\n", b"+PONG"),
        clients: vec![Client {
            // On a busy machine it was seen to spin without an end, once in many runs.
            may_hang: true,
            ..client_of("redis-benchmark", Rc::new(client), Rc::new(read_redis))?
        }],
        turns: extent.turns(4),
    })
}

/// `"SET","79051.38","0.236",…`, a line for each test below a line of titles.
fn read_redis(said: &str) -> anyhow::Result<Vec<Reading>> {
    let readings = said.lines().skip(1).map(|line| {
        let mut cells = line.split(',').map(|cell| cell.trim_matches('"'));
        let key = cells.next().unwrap_or_default();
        one_rate(key, cells.next().and_then(|cell| cell.parse().ok()))
    });
    let readings: Vec<Vec<Reading>> = readings.collect::<anyhow::Result<_>>()?;
    Ok(readings.concat())
}

pub(in crate::rows) static POSTGRES: Operations = Operations {
    name: "pgbench",
    title: "transactions a second with no wall, and times as much behind each, with 95 % intervals:",
    workload: Workload::TwoEnds(
        lay_out_postgres,
        &[
            ("postgres", "postgresql", "--version"),
            ("initdb", "postgresql", ""),
            ("pgbench", "postgresql", ""),
        ],
    ),
    walls: &[WRITING],
    operations: &[
        rate("select", "select only", 0.99, ""),
        rate("update", "with updates", 0.99, ""),
    ],
    least_times_bridged: None,
    original: None,
    ..MEMCACHED
};

/// With nothing synced to the disk, which would be measured otherwise.
fn lay_out_postgres(workloads: &Workloads, extent: Extent) -> anyhow::Result<Ends> {
    add_own_folder(workloads)?;
    let server = postgres(workloads.files_folder())?;
    let transactions: u32 = match extent {
        Extent::Full => 1000,
        Extent::Quick => 250,
        Extent::Tiny => 25,
    };
    Ok(Ends {
        inside: Side::Server,
        transport: Transport::Tcp,
        refuses_root: true,
        is_apart: false,
        server,
        hello: Hello::Says("ready to accept connections"),
        clients: vec![
            Client {
                is_asked_once: true,
                ..pgbench(None, vec!["-i".into(), "-q".into(), "-n".into()])?
            },
            pgbench(Some("select"), asking_pgbench("-S", transactions))?,
            pgbench(Some("update"), asking_pgbench("-N", transactions / 5))?,
        ],
        turns: extent.turns(4),
    })
}

fn asking_pgbench(script: &str, transactions: u32) -> Vec<String> {
    let transactions = transactions.max(25).to_string();
    let words = ["-n", script, "-c", "4", "-j", "1", "-t", &transactions];
    words.map(ToOwned::to_owned).to_vec()
}

/// Each contender has data of its own: under some tools the server is killed, and the next one would find
/// what it left.
fn postgres(folder: PathBuf) -> anyhow::Result<CommandAt> {
    let program: OsString = server_program("postgres")
        .context("host: PostgreSQL is gone")?
        .into();
    let server = move |place: &Place| {
        let data = folder.join(format!("data-{}", place.port));
        if !data.exists() {
            init_data(&data)?;
        }
        let settings = [
            format!("listen_addresses={}", place.listens),
            format!("port={}", place.port),
            "unix_socket_directories=".to_owned(),
            "fsync=off".to_owned(),
            "max_connections=20".to_owned(),
        ];
        let mut arguments: Vec<OsString> = vec!["-D".into(), data.into()];
        arguments.extend(
            settings
                .into_iter()
                .flat_map(|one| ["-c".into(), one.into()]),
        );
        Ok(Command {
            program: program.clone(),
            arguments,
        })
    };
    Ok(Box::new(server))
}

fn pgbench(key: Option<&'static str>, flags: Vec<String>) -> anyhow::Result<Client> {
    let client = move |place: &Place| {
        let (address, port) = (place.connects.to_string(), place.port.to_string());
        let server = ["-h", &address, "-p", &port, "-U", "lab"].map(OsString::from);
        let words = server.into_iter().chain(flags.iter().map(OsString::from));
        words.chain(["postgres".into()]).collect()
    };
    let read = move |said: &str| match key {
        None => Ok(Vec::new()),
        Some(key) => {
            let mut words = said.split_whitespace().skip_while(|word| *word != "tps");
            one_rate(key, words.nth(2).and_then(|word| word.parse().ok()))
        }
    };
    client_of("pgbench", Rc::new(client), Rc::new(read))
}

/// A database as whoever the guest is with no wall. Everybody who reaches it may use it: a container's host
/// has no address of loopback.
fn init_data(data: &Path) -> anyhow::Result<()> {
    let initdb = server_program("initdb").context("host: initdb is gone")?;
    let mut command = process::Command::new(initdb);
    command
        .args(["-U", "lab", "-A", "trust", "-N", "--no-instructions", "-D"])
        .arg(data)
        .current_dir("/");
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().context("host: cannot run initdb")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "host: initdb: {complaint}");
    let everybody = "host all all 0.0.0.0/0 trust\n";
    fs::write(data.join("pg_hba.conf"), everybody)
        .context("host: cannot write PostgreSQL's settings")
}

type Words = Rc<dyn Fn(&Place) -> Vec<OsString>>;

fn client_of(program: &str, words: Words, read: super::ends::Read) -> anyhow::Result<Client> {
    let path: OsString = server_program(program)
        .with_context(|| format!("host: {program} is gone"))?
        .into();
    let command = move |place: &Place| {
        Ok(Command {
            program: path.clone(),
            arguments: words(place),
        })
    };
    Ok(Client {
        command: Box::new(command),
        read,
        most_repeats: 0,
        may_hang: false,
        is_asked_once: false,
    })
}

fn one_rate(key: &str, value: Option<f64>) -> anyhow::Result<Vec<Reading>> {
    Ok(vec![Reading {
        measure: key.to_owned(),
        unit: Unit::PerSecond,
        values: vec![value.with_context(|| format!("it says no rate of {key}"))?],
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_of_memcached_has_the_processors_that_the_server_leaves() {
        let threads = [1, 2, 3, 4, 64].map(memcaslap_threads);
        assert_eq!(threads, [1, 1, 2, 3, 3]);
        // It takes only what the requests in flight can be divided by.
        assert!(threads.iter().all(|threads| 60 % threads == 0));
    }

    #[test]
    fn rates_are_read_from_what_each_client_prints() {
        let values = |readings: anyhow::Result<Vec<Reading>>| {
            let readings = readings.unwrap().into_iter();
            let pairs = readings.map(|one| (one.measure, one.values[0]));
            pairs.collect::<Vec<_>>()
        };
        let said = "udp_timeout: 0\n\nRun time: 1.0s Ops: 275488 TPS: 275471 Net_rate: 312.4M/s\n";
        assert_eq!(
            values(read_memcaslap(said)),
            [("requests".to_owned(), 275_471.0)]
        );
        assert!(read_memcaslap("udp_timeout: 0\n").is_err());
        let said = "\"test\",\"rps\"\n\"SET\",\"100.5\",\"1\"\n\"GET\",\"200.25\",\"1\"\n";
        let expected = [("SET".to_owned(), 100.5), ("GET".to_owned(), 200.25)];
        assert_eq!(values(read_redis(said)), expected);
        assert!(read_redis("\"test\"\n\"SET\"\n").is_err());
    }
}
