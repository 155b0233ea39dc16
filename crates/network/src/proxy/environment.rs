//! The variables by which programs find the proxy.

use std::net::SocketAddr;

use palisade_policy::{HostName, Transport};

use crate::{NameRule, Network};

/// The variables, as (name, value).
///
/// Programs take `HTTPS_PROXY` for `https://` and open a tunnel. Not set are `HTTP_PROXY` and
/// `ALL_PROXY`, by which they would send plain HTTP, which this proxy does not do. `NO_PROXY` names
/// what is granted without a wildcard: that goes straight to its server.
pub(super) fn environment(proxy: SocketAddr, network: &Network) -> Vec<(String, String)> {
    let proxy = format!("http://{proxy}");
    let direct = direct(network).join(",");
    [
        // Programs differ in which of the two they read.
        ("HTTPS_PROXY", &proxy),
        ("https_proxy", &proxy),
        ("NO_PROXY", &direct),
        ("no_proxy", &direct),
    ]
    .into_iter()
    // Node.js heeds them only then, from version 24 on.
    .chain([("NODE_USE_ENV_PROXY", &"1".to_owned())])
    .map(|(name, value)| (name.to_owned(), value.clone()))
    .collect()
}

fn direct(network: &Network) -> Vec<String> {
    let mut direct: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(Into::into).into();
    let mut add = |text: String| {
        if !direct.contains(&text) {
            direct.push(text);
        }
    };
    for rule in tcp_names(network).filter(|rule| !swallows_wildcard(&rule.name, network)) {
        add(rule.name.to_string());
    }
    for rule in network
        .addresses
        .iter()
        .filter(|rule| rule.transport == Transport::Tcp)
    {
        // An interface after `%` means nothing there.
        let zone = None;
        add(palisade_policy::IpNetwork {
            zone,
            ..rule.network.clone()
        }
        .to_string());
    }
    direct
}

fn tcp_names(network: &Network) -> impl Iterator<Item = &NameRule> {
    network
        .names
        .iter()
        .filter(|rule| rule.transport == Transport::Tcp)
}

/// Whether a wildcard lies at this name or below it: programs take a name in `NO_PROXY` for all
/// names below it too.
fn swallows_wildcard(name: &HostName, network: &Network) -> bool {
    let mut wildcards = network.wildcards.iter();
    wildcards.any(|rule| rule.below == *name || name.is_above(&rule.below))
}
