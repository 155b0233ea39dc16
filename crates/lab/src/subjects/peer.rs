//! Tools that palisade is compared with.

use super::{
    LeavesRoot, Subject, bridged, bubblewrap, containers, firejail, javascript, named_version,
    pasta, sandlock, server_program, version_of, wasmtime,
};
use crate::network::Network;
use palisade_policy::Policy;
use palisade_wall::Command;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// A tool that runs commands behind a wall of its own.
#[derive(Debug)]
pub struct Peer {
    /// What it is called.
    pub name: &'static str,
    /// The same at the head of a narrow column.
    pub title: &'static str,
    /// Its executable in `PATH`.
    pub program: &'static str,
    /// What it leaves out of what palisade holds.
    pub lacks: &'static str,
    /// How to get it.
    pub install: &'static str,
    /// Whether the process that is started waits for the others: else what they used is not known.
    pub(super) waits_for_all: bool,
    /// Whether a command is of the kind that it runs, with a network or without.
    pub(super) takes: fn(&Command, &Network) -> bool,
    pub(super) line: fn(&Request<'_>) -> anyhow::Result<Vec<OsString>>,
    /// See [`Subject::line_to_end`].
    pub(super) line_to_end: Option<LineToEnd>,
}

/// From a command line to the one that ends what is left of it.
pub(super) type LineToEnd = fn(&[OsString]) -> Vec<OsString>;

/// What a peer's command line is made of.
pub(super) struct Request<'a> {
    /// The peer's executable.
    pub(super) program: &'a Path,
    pub(super) policy: &'a Policy,
    pub(super) command: &'a Command,
    pub(super) network: &'a Network,
    /// See [`Subject::command_line`].
    pub(super) room: &'a Path,
}

/// Every peer that the lab knows, in the order of its tables.
pub static PEERS: [&Peer; 11] = [
    &bubblewrap::BUBBLEWRAP,
    &firejail::FIREJAIL,
    &sandlock::SANDLOCK,
    &containers::CRUN,
    &containers::RUNC,
    &containers::RUNSC,
    &wasmtime::WASMTIME,
    &javascript::NODE,
    &javascript::DENO,
    &bridged::BRIDGED,
    &pasta::PASTA,
];

/// The peer of that name.
pub fn peer(name: &str) -> Option<&'static Peer> {
    PEERS.into_iter().find(|peer| peer.name == name)
}

/// Those that are installed, of these; and those that are not.
pub fn find_peers(
    wanted: impl IntoIterator<Item = &'static Peer>,
) -> (Vec<InstalledPeer>, Vec<&'static Peer>) {
    let (mut installed, mut absent) = (Vec::new(), Vec::new());
    for peer in wanted {
        match server_program(peer.program) {
            Some(program) => installed.push(InstalledPeer { peer, program }),
            None => absent.push(peer),
        }
    }
    (installed, absent)
}

impl Peer {
    /// Whether a command is of the kind that it runs, with a network or without.
    pub fn takes(&self, command: &Command, network: &Network) -> bool {
        (self.takes)(command, network)
    }

    /// Whether it is an engine for WebAssembly.
    pub fn is_engine(&self) -> bool {
        self.takes(&Command::new("program.wasm"), &Network::None)
    }
}

/// A peer's executable.
#[derive(Clone, Debug)]
pub struct InstalledPeer {
    /// Whose.
    pub peer: &'static Peer,
    program: PathBuf,
}

impl InstalledPeer {
    /// The executable at `program`.
    pub fn new(peer: &'static Peer, program: PathBuf) -> Self {
        Self { peer, program }
    }

    /// Where the executable is.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// What it says its version is.
    pub fn version(&self) -> Option<String> {
        version_of(&self.program).map(|told| named_version(self.peer.name, &told))
    }
}

impl Subject for InstalledPeer {
    fn name(&self) -> &'static str {
        self.peer.name
    }

    fn waits_for_all(&self) -> bool {
        self.peer.waits_for_all
    }

    fn refuses_root(&self) -> bool {
        self.peer.name == pasta::PASTA.name
    }

    fn has_network_of_the_lab(&self) -> bool {
        self.peer.name == bridged::BRIDGED.name
    }

    fn leaves_root(&self) -> LeavesRoot {
        match self.has_network_of_the_lab() {
            true => LeavesRoot::Last,
            false => LeavesRoot::First,
        }
    }

    fn line_to_end(&self, killed: &[OsString]) -> Option<Vec<OsString>> {
        self.peer.line_to_end.map(|line_to_end| line_to_end(killed))
    }

    fn command_line(
        &self,
        policy: &Policy,
        command: &Command,
        network: &Network,
        room: &Path,
    ) -> anyhow::Result<Vec<OsString>> {
        (self.peer.line)(&Request {
            program: &self.program,
            policy,
            command,
            network,
            room,
        })
    }
}

/// For peers that run whatever Linux runs, and are asked for no network.
pub(super) fn takes_programs(command: &Command, network: &Network) -> bool {
    takes_all_programs(command, network) && !network.is_some()
}

/// For those that can be asked for a network too.
pub(super) fn takes_all_programs(command: &Command, _network: &Network) -> bool {
    !wasmtime::is_wasm(command)
}

/// For those that are nothing but a network.
pub(super) fn takes_networks(command: &Command, network: &Network) -> bool {
    takes_all_programs(command, network) && network.is_some()
}
