//! The network of a container engine: a namespace with one end of a pair of virtual Ethernet devices, a
//! bridge at the other end, and ports that are published by rewriting addresses. There is no other
//! wall: what it costs is what the network costs.

use super::{
    peer::{Peer, Request, takes_networks},
    words_of,
};
use anyhow::{Context, ensure};
use rustix::process::geteuid;
use std::ffi::OsString;

pub(super) static BRIDGED: Peer = Peer {
    name: "bridged",
    title: "bridged",
    program: "nft",
    lacks: "nothing but a container's network: no other wall",
    install: "apt-get install nftables iproute2",
    waits_for_all: true,
    takes: takes_networks,
    line,
    line_to_end: None,
};

/// The namespace is made beforehand, by [`crate::network::Bridge`].
fn line(request: &Request<'_>) -> anyhow::Result<Vec<OsString>> {
    ensure!(
        geteuid().is_root(),
        "only root can give a network namespace a bridge"
    );
    let endpoint = request.network.endpoint();
    let namespace = endpoint.and_then(|endpoint| endpoint.namespace.as_deref());
    let namespace = namespace.context("there is no network namespace for it")?;
    let mut words: Vec<OsString> = vec!["nsenter".into()];
    words.push(super::joined("--net", namespace));
    words.extend(words_of(request.command));
    Ok(words)
}
