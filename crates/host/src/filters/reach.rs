//! Whom a filter's calls lead to: the servers that its policy grants, and of a name's addresses only those that a name
//! may stand for.
//!
//! A policy grants a *name*; whoever answers for that name on the network does not thereby get to choose among the
//! machine's own services. So each address is judged when it is connected to, as a component's are: what is not public
//! needs a grant by address. A server that the configuration itself writes as an address was meant so.
//!
//! Names are looked up when they are called, not when the configuration is loaded: a server starts without its name
//! servers.

use crate::{client::Settings, config::Server};
use palisade_network::{
    Answer, Gate, NameRule, Network, NetworkError, Pins, Resolve, ResolveError,
};
use palisade_policy::{ConnectGrant, HostName, HostPattern, Ports, Transport};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

/// What `localhost` stands for does not change.
const LOOPBACK_TTL: Duration = Duration::from_secs(60);

/// The rules for calls to `servers`, which the policy's `grants` cover. Asks `resolver` for interfaces only.
///
/// # Errors
///
/// When a grant names an interface that is not there.
pub(crate) fn rules<'a>(
    servers: impl IntoIterator<Item = &'a Server>,
    grants: &[ConnectGrant],
    resolver: &dyn Resolve,
) -> Result<Network, NetworkError> {
    let servers: Vec<_> = servers.into_iter().filter_map(grant_of).collect();
    let by_address: Vec<_> = grants
        .iter()
        .chain(&servers)
        .filter(|grant| is_by_address(grant))
        .cloned()
        .collect();
    let mut network = Network::resolve(&by_address, &[], resolver)?;
    for (name, ports) in servers.iter().filter_map(by_name) {
        add_name(&mut network, name, ports);
    }
    Ok(network)
}

/// A grant of this server alone. `None`: a socket's file, which no name leads to.
pub(crate) fn grant_of(server: &Server) -> Option<ConnectGrant> {
    match server {
        Server::Internet { host, port, .. } => format!("tcp://{host}:{port}").parse().ok(),
        Server::Unix(_) | Server::UnixWithoutLinks(_) => None,
    }
}

/// Whether it names addresses, or what stands for some by itself.
pub(crate) fn is_by_address(grant: &ConnectGrant) -> bool {
    match grant {
        ConnectGrant::Internet { host, .. } => match host {
            HostPattern::Network(_) => true,
            HostPattern::Name(name) => name.is_localhost(),
            HostPattern::Wildcard(_) => false,
        },
        ConnectGrant::Public { .. } | ConnectGrant::Unix(_) => false,
    }
}

fn by_name(grant: &ConnectGrant) -> Option<(&HostName, Ports)> {
    match grant {
        ConnectGrant::Internet {
            host: HostPattern::Name(name),
            ports,
            ..
        } if !name.is_localhost() => Some((name, *ports)),
        _ => None,
    }
}

/// One that stands for nothing until it is looked up.
fn add_name(network: &mut Network, name: &HostName, ports: Ports) {
    network.names.push(NameRule {
        transport: Transport::Tcp,
        name: name.clone(),
        ports,
    });
    if network.pins.iter().all(|pins| pins.name != *name) {
        network.pins.push(Pins {
            name: name.clone(),
            addresses: Vec::new(),
            former: Vec::new(),
            withheld: Vec::new(),
            ttl_s: 0,
        });
    }
}

/// For the connections of one worker. Its gate is its own: what a name stands for is what this worker found.
pub(crate) fn settings(rules: &Network, resolver: Arc<dyn Resolve>) -> Settings {
    let gate = Arc::new(Gate::new(rules.clone()));
    Settings {
        resolver: Arc::new(Judged {
            gate: Arc::clone(&gate),
            resolver,
        }),
        gate: Some(gate),
        ..Settings::default()
    }
}

/// Names stand for those of their addresses that they may stand for.
struct Judged {
    gate: Arc<Gate>,
    resolver: Arc<dyn Resolve>,
}

impl Judged {
    fn loopback(&self) -> Vec<IpAddr> {
        let network = self.gate.network();
        let both: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let is_granted =
            |address: &IpAddr| network.is_granted_for_tcp(SocketAddr::new(*address, 0));
        both.into_iter().filter(is_granted).collect()
    }

    /// What the name stands for from now on, and what was withheld.
    fn pin(&self, name: &HostName, addresses: &[IpAddr]) -> (Vec<IpAddr>, Vec<IpAddr>) {
        self.gate.pin(name, addresses);
        let network = self.gate.network();
        let pins = network.pins.iter().find(|pins| pins.name == *name);
        pins.map(|pins| (pins.addresses.clone(), pins.withheld.clone()))
            .unwrap_or_default()
    }
}

impl Resolve for Judged {
    fn addresses(&self, name: &HostName) -> Result<Answer, ResolveError> {
        if name.is_localhost() {
            return some(self.loopback(), Vec::new(), LOOPBACK_TTL);
        }
        let answer = self.resolver.addresses(name)?;
        let (allowed, withheld) = self.pin(name, &answer.addresses);
        some(allowed, withheld, answer.ttl)
    }

    fn interface(&self, zone: &str) -> Option<u32> {
        self.resolver.interface(zone)
    }
}

fn some(
    addresses: Vec<IpAddr>,
    withheld: Vec<IpAddr>,
    ttl: Duration,
) -> Result<Answer, ResolveError> {
    match addresses.is_empty() {
        true => Err(ResolveError::Withheld(withheld)),
        false => Ok(Answer { addresses, ttl }),
    }
}

#[cfg(test)]
mod tests;
