//! The rows that move bytes by TCP, with a program of ours at both ends and the client behind the wall:
//! those of µKVM (2006), a microkernel Java machine whose libraries reach the system through connectors
//! only, and what a connection costs that the wall must be asked for.

use super::{
    READING,
    ends::{Client, Ends, Hello, Place, Side},
};
use crate::{
    figure::Target,
    floor::Floor,
    network::Transport,
    rows::{
        Extent,
        operations::{Allowance, Operation, Operations, Workload, operation, parse_lines},
    },
    sample::Unit,
    workloads::Workloads,
};
use palisade_wall::Command;
use std::{ffi::OsString, path::PathBuf, rc::Rc};

/// What `mk-4` moves, by one call for each block.
const MEGABYTE: u32 = 1 << 20;

pub(in crate::rows) static BLOCKS: Operations = Operations {
    name: "mk-4",
    title: "µs for 1 MB with no wall, and times as much behind each, with 95 % intervals:",
    workload: Workload::TwoEnds(lay_out_blocks, &[]),
    walls: &[READING],
    operations: &[
        operation("block-64", "blocks of 64 B", 1.01, "−1.01 …").of_calls(MEGABYTE / 64),
        operation("block-128", "blocks of 128 B", 1.01, "+3.37 %").of_calls(MEGABYTE / 128),
        operation("block-256", "blocks of 256 B", 1.01, "in all").of_calls(MEGABYTE / 256),
        operation("block-512", "blocks of 512 B", 1.01, "").of_calls(MEGABYTE / 512),
        operation("block-1024", "blocks of 1 KB", 1.01, "").of_calls(MEGABYTE / 1024),
        operation("block-2048", "blocks of 2 KB", 1.01, "").of_calls(MEGABYTE / 2048),
        operation("block-4096", "blocks of 4 KB", 1.01, "").of_calls(MEGABYTE / 4096),
        operation("block-8192", "blocks of 8 KB", 1.01, "").of_calls(MEGABYTE / 8192),
        operation("block-16384", "blocks of 16 KB", 1.01, "").of_calls(MEGABYTE / 16384),
    ],
    unit: Unit::Microseconds,
    floor: Floor::Filter,
    mean: None,
    least_times_bridged: None,
    original: Some("µKVM"),
    pinned: false,
    through_wasi: None,
};

pub(in crate::rows) static PACKETS: Operations = Operations {
    name: "mk-5",
    title: "µs for all packets with no wall, and times as much behind each, with 95 % intervals:",
    workload: Workload::TwoEnds(lay_out_packets, &[]),
    operations: &[
        operation("packets-64", "64 packets", 1.01, "−1.01 …").of_calls(64),
        operation("packets-128", "128 packets", 1.01, "+2.84 %").of_calls(128),
        operation("packets-256", "256 packets", 1.01, "in all").of_calls(256),
        operation("packets-512", "512 packets", 1.01, "").of_calls(512),
        operation("packets-1024", "1024 packets", 1.01, "").of_calls(1024),
        operation("packets-2048", "2048 packets", 1.01, "").of_calls(2048),
        operation("packets-4096", "4096 packets", 1.01, "").of_calls(4096),
    ],
    ..BLOCKS
};

/// The most that asking for a connection may take, in µs.
const MOST_OVER_US: f64 = 12.0;
/// The same beside a listener that decides nothing.
const MOST_TIMES_FLOOR: f64 = 1.25;
/// 64 MB by writes of 64 KB.
const BULK_CALLS: u32 = 1024;

pub(in crate::rows) static BROKER: Operations = Operations {
    name: "broker",
    title: "µs with no wall; what connecting takes more behind each, and times as much for the bytes:",
    workload: Workload::TwoEnds(lay_out_connects, &[]),
    operations: &[
        Operation {
            key: "connect",
            title: "socket, connect, close",
            target: Target::AtMostOverBare(MOST_OVER_US),
            beside_floor: Allowance::Times(MOST_TIMES_FLOOR),
            published: "",
        },
        operation("bulk", "64 MB over one connection", 1.01, "").of_calls(BULK_CALLS),
    ],
    floor: Floor::Notifier,
    original: None,
    ..BLOCKS
};

fn lay_out_blocks(workloads: &Workloads, extent: Extent) -> anyhow::Result<Ends> {
    streams(workloads, extent, "blocks", 3)
}

fn lay_out_packets(workloads: &Workloads, extent: Extent) -> anyhow::Result<Ends> {
    streams(workloads, extent, "packets", 3)
}

fn lay_out_connects(workloads: &Workloads, extent: Extent) -> anyhow::Result<Ends> {
    streams(workloads, extent, "connects", 5)
}

fn streams(
    workloads: &Workloads,
    extent: Extent,
    what: &'static str,
    repeats: usize,
) -> anyhow::Result<Ends> {
    let program = workloads.add_stream()?;
    let repeats = match extent {
        Extent::Full | Extent::Quick => repeats,
        Extent::Tiny => 2,
    };
    Ok(Ends {
        inside: Side::Client,
        transport: Transport::Tcp,
        refuses_root: false,
        is_apart: true,
        server: serving(program.clone()),
        hello: Hello::Says("ready"),
        clients: vec![asking(program, what, repeats, Unit::Microseconds)],
        turns: extent.turns(5),
    })
}

/// One of our servers.
pub(super) fn serving(program: PathBuf) -> super::ends::CommandAt {
    Box::new(move |place: &Place| {
        Ok(Command {
            program: program.clone().into(),
            arguments: ["serve".into()]
                .into_iter()
                .chain(place.server_words(place.listens))
                .collect(),
        })
    })
}

/// One of our clients.
pub(super) fn asking(program: PathBuf, what: &'static str, repeats: usize, unit: Unit) -> Client {
    let command = move |place: &Place| {
        let words = [OsString::from(what)].into_iter();
        let words = words.chain(place.server_words(place.connects));
        Ok(Command {
            program: program.clone().into(),
            arguments: words.chain([repeats.to_string().into()]).collect(),
        })
    };
    Client {
        command: Box::new(command),
        read: Rc::new(move |said| parse_lines(said, unit)),
        most_repeats: 0,
        may_hang: false,
        is_asked_once: false,
    }
}
