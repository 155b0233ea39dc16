//! Which other tools `--peers` means.

use anyhow::bail;
use palisade_command_line::args::{NO_PEER, PeerArgs};
use palisade_lab::subjects::{Peer, find_peers, peer};

/// Those that were asked for; `None` is everybody.
pub(crate) fn resolve(typed: &PeerArgs) -> anyhow::Result<Option<Vec<&'static Peer>>> {
    let Some(names) = &typed.peers else {
        return Ok(None);
    };
    let peers: Vec<_> = names.iter().filter_map(|name| peer(name)).collect();
    if names.iter().any(|name| name == NO_PEER) && !peers.is_empty() {
        bail!("usage: --peers: none is nobody: leave it out, or leave the names out");
    }
    if let Some(absent) = find_peers(peers.iter().copied()).1.first() {
        bail!("host: {} is not installed: {}", absent.name, absent.install);
    }
    Ok(Some(peers))
}
