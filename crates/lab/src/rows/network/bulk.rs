//! Bulk TCP by iperf3, the server behind the wall (Denali 2002, an isolation kernel for small services).

use super::{
    READING,
    ends::{Client, Ends, Hello, Place, Side},
};
use crate::{
    floor::Floor,
    network::Transport,
    rows::{
        Extent,
        operations::{Operations, Workload, rate},
    },
    sample::{Reading, Unit},
    subjects::server_program,
    workloads::Workloads,
};
use anyhow::Context;
use palisade_wall::Command;
use serde_json::Value;
use std::{ffi::OsString, rc::Rc};

pub(in crate::rows) static BULK: Operations = Operations {
    name: "den-tcp",
    title: "MB/s with no wall, and times as much behind each, with 95 % intervals:",
    workload: Workload::TwoEnds(lay_out, &[("iperf3", "iperf3", "--version")]),
    walls: &[READING],
    operations: &[
        rate("in", "into the server", 0.99, "−6.3 %"),
        rate("out", "out of the server", 0.99, "−6.3 %"),
    ],
    unit: Unit::MegabytesPerSecond,
    floor: Floor::Filter,
    mean: None,
    least_times_bridged: None,
    original: Some("Denali"),
    pinned: false,
    through_wasi: None,
};

fn lay_out(_workloads: &Workloads, extent: Extent) -> anyhow::Result<Ends> {
    let program: OsString = server_program("iperf3")
        .context("host: iperf3 is gone")?
        .into();
    let server = {
        let program = program.clone();
        move |place: &Place| {
            let flags = ["-s", "--forceflush", "-B"].map(OsString::from);
            let place = [
                place.listens.to_string(),
                "-p".to_owned(),
                place.port.to_string(),
            ];
            Ok(Command {
                program: program.clone(),
                arguments: flags.into_iter().chain(place.map(Into::into)).collect(),
            })
        }
    };
    let bytes = match extent {
        Extent::Full => "512M",
        Extent::Quick => "128M",
        Extent::Tiny => "16M",
    };
    Ok(Ends {
        inside: Side::Server,
        transport: Transport::Tcp,
        refuses_root: false,
        is_apart: true,
        server: Box::new(server),
        hello: Hello::Says("Server listening"),
        clients: vec![
            client(program.clone(), "in", &["-n", bytes]),
            client(program, "out", &["-n", bytes, "-R"]),
        ],
        turns: extent.turns(4),
    })
}

fn client(program: OsString, key: &'static str, flags: &[&'static str]) -> Client {
    let flags = flags.to_vec();
    let command = move |place: &Place| {
        let server = ["-c".to_owned(), place.connects.to_string()];
        let port = ["-p".to_owned(), place.port.to_string(), "-J".to_owned()];
        let words = server.into_iter().chain(port).map(OsString::from);
        Ok(Command {
            program: program.clone(),
            arguments: words.chain(flags.iter().map(Into::into)).collect(),
        })
    };
    Client {
        command: Box::new(command),
        read: Rc::new(move |said| Ok(vec![received(said, key)?])),
        most_repeats: 200,
        may_hang: false,
        is_asked_once: false,
    }
}

/// What arrived, from the report of iperf3.
fn received(said: &str, key: &str) -> anyhow::Result<Reading> {
    let report: Value = serde_json::from_str(said).context("no report in JSON")?;
    if let Some(error) = report["error"].as_str() {
        anyhow::bail!("{error}");
    }
    let bits = report["end"]["sum_received"]["bits_per_second"].as_f64();
    Ok(Reading {
        measure: key.to_owned(),
        unit: Unit::MegabytesPerSecond,
        values: vec![bits.context("no rate in the report")? / 8e6],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrived_counts() {
        let said = r#"{"end": {"sum_sent": {"bits_per_second": 9e9}, "sum_received": {"bits_per_second": 8e9}}}"#;
        assert_eq!(received(said, "in").unwrap().values, [1000.0]);
        let failed = received(r#"{"end": {}, "error": "refused"}"#, "in").unwrap_err();
        assert_eq!(failed.to_string(), "refused");
    }
}
