//! The rows: what can be measured.

mod boot;
mod calls;
mod conformance;
mod containers;
mod counts;
mod learn;
mod list;
mod memory;
mod network;
mod operations;
pub mod osv;
mod pictures;
mod policies;
mod programs;
mod published;
mod serve;
mod sources;
mod start;
mod sva;
mod syscalls;
mod ukvm;
mod wasm;
mod watch;

pub(crate) use crate::figure::BARE;
use crate::{
    Trial, Warning,
    figure::{FLOOR, Figure},
    floor::Floor,
    measure::{Schedule, Watched},
    network::Network,
    notation::four_figures,
    rest::Rested,
    sample::{Contender, Samples},
    subjects::{InstalledPeer, PEERS, Palisade, Peer, Subject},
    table::{MOST_COLUMNS, Table},
    trial::{Limits, left_out},
    warning,
    workloads::Workloads,
};
pub(crate) use counts::VARYING;
use list::ROWS;
use palisade_policy::{Access, FileGrant};
use palisade_wall::Command;
pub(crate) use published::chart_facts;
pub use published::{Axis, ChartFacts, Published, Style};
use std::{path::Path, time::Duration};

/// One question about what a wall costs.
#[derive(Clone, Copy)]
pub struct Row {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it runs, in a line.
    pub about: &'static str,
    /// How long it takes at most, about, where nothing else was asked for.
    pub budget: Duration,
    /// How it is measured and shown.
    pub method: &'static dyn Method,
}

/// How a row is measured, and how its samples are shown.
pub trait Method: Sync {
    /// Lays out the workload and makes everyone ready who will run it, for about so much time: rows whose single
    /// runs can be made shorter make them so.
    ///
    /// # Errors
    ///
    /// When palisade does not run here. A peer that does not is left out with a warning.
    fn prepare(&self, tools: &Tools, budget: Duration) -> anyhow::Result<Prepared>;

    /// The least that the kernel charges for what it needs.
    fn floor(&self) -> Floor {
        Floor::Bare
    }

    /// Versions of what its workloads need and no other row does, by name.
    fn versions(&self) -> Vec<(&'static str, Option<String>)> {
        Vec::new()
    }

    /// What the samples say, and how to show it. Pure.
    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>);
}

/// A row that takes longer than this runs where it is named, or all are.
const LONG: Duration = Duration::from_secs(90);
/// In the schedule of a method: the row's budget takes its place, or what was asked for.
const TO_BE_SET: Duration = Duration::MAX;

impl Row {
    /// Whether it takes so long that it runs only where it is named, or all are.
    pub fn is_long(&self) -> bool {
        self.budget > LONG
    }
}

/// Every row there is.
pub fn rows() -> &'static [Row] {
    &ROWS
}

/// The row of that name.
pub fn row(name: &str) -> Option<&'static Row> {
    rows().iter().find(|row| row.name == name)
}

/// How much of its work a row does. Less is the same work on smaller inputs, and tables say what was
/// run: figures of different extents are figures of different things. The most comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// What the original did.
    #[default]
    Full,
    /// In a minute at most.
    Quick,
    /// As little as shows that the row runs here: for tests.
    Tiny,
}

impl Extent {
    /// How often clients that ask in turn do so in a run.
    fn turns(self, full: usize) -> usize {
        match self {
            Self::Full | Self::Quick => full,
            Self::Tiny => 1,
        }
    }
}

/// What rows run workloads in.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The `palisade` that is measured.
    pub palisade: Palisade,
    /// What it is compared with.
    pub peers: Vec<InstalledPeer>,
    /// What it would be compared with too, were it installed.
    pub absent: Vec<&'static Peer>,
    /// How much is asked of them.
    pub extent: Extent,
}

/// A row that can begin.
pub struct Prepared {
    /// Who takes part.
    pub trials: Vec<(Contender, Box<dyn Trial>)>,
    /// When to stop.
    pub schedule: Schedule,
    /// Doubts that are there before the first run.
    pub warnings: Vec<Warning>,
    /// The files that the contenders use.
    pub workloads: Workloads,
    /// Keep everything on one processor.
    pub pinned: bool,
    /// How long runs of others may take.
    pub(crate) limits: Limits,
}

impl Prepared {
    /// A row in which nobody takes part yet.
    fn new(schedule: Schedule, workloads: Workloads) -> Self {
        Self {
            trials: Vec::new(),
            schedule,
            warnings: Vec::new(),
            workloads,
            pinned: false,
            limits: Limits::default(),
        }
    }

    /// Has each of them begin when the kernel is done with the one before.
    fn rested(self) -> Self {
        let trials = self.trials.into_iter();
        let rested = trials.map(|(contender, trial)| (contender, Box::new(Rested(trial)) as _));
        Self {
            trials: rested.collect(),
            ..self
        }
    }
}

impl Tools {
    /// The same for a row whose runs take long: compared with the peer that is like palisade the most, where
    /// it runs WebAssembly with wasmtime, and on rows of the network with that of a container.
    pub(crate) fn for_long_row(&self) -> Self {
        let is_kept = |peer: &Peer| ["bubblewrap", "wasmtime", "bridged"].contains(&peer.name);
        let mut tools = self.clone();
        tools.peers.retain(|peer| is_kept(peer.peer));
        tools.absent.retain(|peer| is_kept(peer));
        tools
    }
}

/// Adds each peer that runs here, or the reason why it is left out.
fn try_peers<T: Trial + 'static>(
    prepared: &mut Prepared,
    tools: &Tools,
    workload: &str,
    command: &Command,
    make: impl Fn(&InstalledPeer) -> anyhow::Result<T>,
) {
    try_peers_on(prepared, tools, workload, (command, &Network::None), make);
}

/// The same of those that can give a command this of the network.
fn try_peers_on<T: Trial + 'static>(
    prepared: &mut Prepared,
    tools: &Tools,
    workload: &str,
    (command, network): (&Command, &Network),
    make: impl Fn(&InstalledPeer) -> anyhow::Result<T>,
) {
    let able = |peer: &Peer| peer.takes(command, network);
    let mut doubts = Vec::new();
    for peer in tools.peers.iter().filter(|one| able(one.peer)) {
        let contender = Contender::new(workload, peer.name());
        doubts.extend(try_one(prepared, contender, || make(peer)));
    }
    let taking_part = prepared.trials.iter().map(|(contender, _)| contender);
    let told = prepared.warnings.iter().find_map(|known| match known {
        Warning::PeersAbsent { peers } => Some(peers.clone()),
        _ => None,
    });
    let is_told = |one: &Peer| told.iter().flatten().any(|name| *name == one.name);
    let absent = tools.absent.iter();
    let absent = absent.filter(|one| able(one) || is_told(one));
    doubts.extend(warning::about_peers(taking_part, absent));
    for doubt in doubts {
        prepared
            .warnings
            .retain(|known| !known.is_about_the_same(&doubt));
        prepared.warnings.push(doubt);
    }
}

/// Adds one of others, if it runs here; else gives the reason.
fn try_one<T: Trial + 'static>(
    prepared: &mut Prepared,
    contender: Contender,
    make: impl FnOnce() -> anyhow::Result<T>,
) -> Option<Warning> {
    let ran = make().and_then(|mut trial| {
        see_bare(prepared, &contender.workload)?;
        prepared.limits.run(&contender, &mut trial)?;
        Ok(trial)
    });
    match ran {
        Ok(trial) => {
            prepared.trials.push((contender, Box::new(trial)));
            None
        }
        Err(error) => Some(left_out(&contender.subject, &error)),
    }
}

/// Runs a workload once with no wall, if nobody has seen how long that takes.
fn see_bare(prepared: &mut Prepared, workload: &str) -> anyhow::Result<()> {
    let bare = Contender::new(workload, BARE);
    let mut trials = prepared.trials.iter_mut();
    if let Some((_, trial)) = trials.find(|(contender, _)| *contender == bare)
        && !prepared.limits.knows(workload)
    {
        prepared.limits.run(&bare, trial.as_mut())?;
    }
    Ok(())
}

/// Watches `measure` of everyone who is not bare.
pub(crate) fn watch_all<'a>(
    contenders: impl Iterator<Item = &'a Contender>,
    measure: &str,
) -> Vec<Watched> {
    contenders
        .filter(|contender| contender.subject != BARE)
        .map(|contender| Watched {
            measure: measure.to_owned(),
            contender: contender.clone(),
            baseline: Contender::new(&contender.workload, BARE),
        })
        .collect()
}

/// A ratio to bare, without its interval; empty where there is none.
pub(crate) fn ratio_cell(figure: Option<&Figure>) -> String {
    let ratio = figure.and_then(|figure| figure.ratio);
    ratio.map_or_else(String::new, |ratio| four_figures(ratio.value))
}

/// The title of a second table, where the first one has no room for all.
const OTHER_PEERS: &str = "The same beside the other tools, times as much as with no wall:";

/// Whether a subject is a floor.
pub(crate) fn is_floor(contender: &Contender) -> bool {
    contender.subject.starts_with(FLOOR)
}

/// The subject that is measured.
pub(crate) const PALISADE: &str = "palisade run";
/// The same around a WebAssembly program.
pub(crate) const WASM: &str = "palisade run, wasm";

/// The peers among contenders that run what this machine does, each once and in the order of [`PEERS`].
fn peers_among(contenders: &[Contender]) -> Vec<&'static Peer> {
    let all = all_peers_among(contenders);
    all.filter(|peer| !peer.is_engine()).collect()
}

/// Those that run WebAssembly.
fn engines_among(contenders: &[Contender]) -> Vec<&'static Peer> {
    let all = all_peers_among(contenders);
    all.filter(|peer| peer.is_engine()).collect()
}

fn all_peers_among(contenders: &[Contender]) -> impl Iterator<Item = &'static Peer> {
    let takes_part = |peer: &&Peer| contenders.iter().any(|one| one.subject == peer.name);
    PEERS.into_iter().filter(takes_part)
}

/// The table with as many peers as fit beside each other, and one with the others.
fn tables_of_peers(
    peers: &[&'static Peer],
    table: impl Fn(&[&'static Peer]) -> Table,
    others: impl Fn(&[&'static Peer]) -> Table,
) -> (Table, Option<Table>) {
    let fits = |count: &usize| table(&peers[..*count]).width() <= MOST_COLUMNS;
    let shown = (0..=peers.len()).rev().find(fits).unwrap_or(0);
    let (first, rest) = peers.split_at(shown);
    (table(first), (!rest.is_empty()).then(|| others(rest)))
}

fn grant(access: Access, path: &Path) -> FileGrant {
    FileGrant {
        access,
        host: path.to_owned(),
        guest: None,
    }
}

/// What a row shows of samples, for its tests: the tables as text, which must fit a terminal.
#[cfg(test)]
fn present_on_terminal(method: &dyn Method, samples: &Samples) -> (Vec<Figure>, String) {
    let (figures, tables) = method.present(samples);
    let shown = tables
        .iter()
        .map(|(title, table)| format!("{title}\n{table}\n"));
    let text: String = shown.collect();
    let fits = |line: &str| line.chars().count() <= MOST_COLUMNS;
    assert!(text.lines().all(fits), "{text}");
    (figures, text)
}
