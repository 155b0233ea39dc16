//! Which other tools to measure beside palisade, as a flag.

use anyhow::bail;
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser},
};
use palisade_lab::subjects::{PEERS, Peer, find_peers, peer};

/// Nobody, as a name.
const NONE: &str = "none";

// `--peers`.
#[derive(Debug, Args)]
pub(crate) struct PeerArgs {
    /// Compare with these tools only, or with none; without the flag, with all that are installed
    /// (a row of bench that takes minutes: with bubblewrap, wasmtime and bridged alone)
    #[arg(
        long,
        value_name = "NAME,…|none",
        value_delimiter = ',',
        hide_possible_values = true,
        value_parser = names()
    )]
    peers: Option<Vec<String>>,
}

fn names() -> PossibleValuesParser {
    let names = PEERS.iter().map(|peer| peer.name);
    PossibleValuesParser::new(names.chain([NONE]).map(PossibleValue::new))
}

impl PeerArgs {
    /// Those that were asked for; `None` is everybody.
    pub(crate) fn resolve(&self) -> anyhow::Result<Option<Vec<&'static Peer>>> {
        let Some(names) = &self.peers else {
            return Ok(None);
        };
        let peers: Vec<_> = names.iter().filter_map(|name| peer(name)).collect();
        if names.iter().any(|name| name == NONE) && !peers.is_empty() {
            bail!("usage: --peers: none is nobody: leave it out, or leave the names out");
        }
        if let Some(absent) = find_peers(peers.iter().copied()).1.first() {
            bail!("host: {} is not installed: {}", absent.name, absent.install);
        }
        Ok(Some(peers))
    }
}
