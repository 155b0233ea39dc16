//! Why the grants come to nothing on this machine.

use std::{fmt, net::IpAddr};

use palisade_policy::{HostName, Transport};

use crate::{flag, names::ResolveError};

/// A grant that comes to nothing on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Nobody knows the name's addresses.
    #[error("{}: the granted name `{name}` has no address: {source}", source.fault())]
    Resolve {
        /// The name.
        name: HostName,
        /// Why.
        source: ResolveError,
    },
    /// All of the name's addresses are private or special.
    #[error(
        "policy: the granted name `{name}` stands for {} only, and a name does not grant what is \
         not public: add {}",
        list(addresses),
        grants(*transport, addresses, ports)
    )]
    OnlyWithheld {
        /// The name.
        name: HostName,
        /// The transport of its first grant.
        transport: Transport,
        /// The ports of its first grant.
        ports: String,
        /// What it stands for.
        addresses: Vec<IpAddr>,
    },
    /// No interface has the name after `%`.
    #[error("policy: there is no network interface `{zone}` here: `ip link` lists those there are")]
    Interface {
        /// What was written.
        zone: String,
    },
}

fn list(addresses: &[IpAddr]) -> String {
    join(addresses.iter())
}

fn grants(transport: Transport, addresses: &[IpAddr], ports: &str) -> String {
    join(
        addresses
            .iter()
            .map(|address| flag::connect(transport, *address, 0, ports)),
    )
}

fn join(items: impl Iterator<Item = impl fmt::Display>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    items.join(", ")
}
