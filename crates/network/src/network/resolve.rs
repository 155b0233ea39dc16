//! Grants to rules: names are looked up, interfaces found.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    thread,
};

use palisade_policy::{
    ConnectGrant, HostName, HostPattern, IpNetwork, ListenAddress, ListenGrant, Ports, Transport,
};

use super::{
    AddressRule, ListenPlace, ListenRule, NameRule, Network, NetworkError, Pins, PublicRule,
    WildcardRule,
};
use crate::{
    address::{canonical, scope_of},
    names::{Answer, Resolve, ResolveError},
};

impl Network {
    /// What these grants come to here. Asks the resolver for each granted name, all at once, and
    /// for the interfaces that addresses name. `unix:` grants and `inherited` are of no concern
    /// here.
    ///
    /// # Errors
    /// When a name has no address that may stand for it, or an interface does not exist.
    pub fn resolve(
        connect: &[ConnectGrant],
        listen: &[ListenGrant],
        resolver: &dyn Resolve,
    ) -> Result<Self, NetworkError> {
        let mut network = Self::default();
        for grant in connect {
            network.add_connect(grant, resolver)?;
        }
        for grant in listen {
            network.add_listen(grant, resolver)?;
        }
        network.look_up_names(resolver)?;
        Ok(network)
    }

    fn add_connect(
        &mut self,
        grant: &ConnectGrant,
        resolver: &dyn Resolve,
    ) -> Result<(), NetworkError> {
        let (transport, host, ports) = match grant {
            ConnectGrant::Internet {
                transport,
                host,
                ports,
            } => (transport, host, ports),
            ConnectGrant::Public { ports } => {
                self.add_public(*ports, resolver);
                return Ok(());
            }
            ConnectGrant::Unix(_) => return Ok(()),
        };
        let (transport, ports) = (*transport, *ports);
        match host {
            HostPattern::Network(network) => self.addresses.push(AddressRule {
                transport,
                scope: find_scope(network.zone.as_deref(), resolver)?,
                network: network.clone(),
                ports,
            }),
            HostPattern::Name(name) if name.is_localhost() => {
                let rule = |address| loopback_rule(transport, address, ports);
                self.addresses.extend(LOOPBACK.map(rule));
            }
            HostPattern::Name(name) => self.names.push(NameRule {
                transport,
                name: name.clone(),
                ports,
            }),
            HostPattern::Wildcard(name) => self.wildcards.push(WildcardRule {
                below: name.clone(),
                ports,
            }),
        }
        Ok(())
    }

    /// All that is public, and the name servers of this machine: a guest that may reach every host has to find them.
    /// These may be private, or the loopback's.
    fn add_public(&mut self, ports: Ports, resolver: &dyn Resolve) {
        if self.public.is_empty() {
            self.name_servers = resolver.name_servers();
        }
        self.public.push(PublicRule { ports });
        for server in self.name_servers.iter().copied().map(canonical) {
            let rule = |transport| AddressRule {
                transport,
                network: IpNetwork::of_address(server.ip()),
                scope: scope_of(server),
                ports: Ports::one(server.port()),
            };
            for rule in [Transport::Udp, Transport::Tcp].map(rule) {
                if !self.addresses.contains(&rule) {
                    self.addresses.push(rule);
                }
            }
        }
    }

    fn add_listen(
        &mut self,
        grant: &ListenGrant,
        resolver: &dyn Resolve,
    ) -> Result<(), NetworkError> {
        let ListenGrant::At {
            transport,
            address,
            ports,
            host_port,
            ready,
        } = grant
        else {
            return Ok(());
        };
        let rule = |place| ListenRule {
            transport: *transport,
            place,
            ports: *ports,
            host_port: *host_port,
            ready: *ready,
        };
        match address {
            ListenAddress::Every => self.listen.push(rule(ListenPlace::Every)),
            ListenAddress::Localhost => {
                self.listen
                    .extend(LOOPBACK.map(|address| rule(ListenPlace::At(address, 0))));
            }
            ListenAddress::Address { address, zone } => {
                let scope = find_scope(zone.as_deref(), resolver)?;
                self.listen.push(rule(ListenPlace::At(*address, scope)));
            }
        }
        Ok(())
    }

    fn look_up_names(&mut self, resolver: &dyn Resolve) -> Result<(), NetworkError> {
        let mut names: Vec<HostName> = Vec::new();
        for rule in &self.names {
            if !names.contains(&rule.name) {
                names.push(rule.name.clone());
            }
        }
        for (name, answer) in look_up_all(&names, resolver) {
            let answer = answer.map_err(|source| NetworkError::Resolve {
                name: name.clone(),
                source,
            })?;
            let (addresses, withheld) = self.split_by_public(&name, &answer.addresses);
            if addresses.is_empty() {
                return Err(self.only_withheld(name, withheld));
            }
            self.pins.push(Pins {
                name,
                addresses,
                former: Vec::new(),
                withheld,
                ttl_s: answer.ttl.as_secs(),
            });
        }
        Ok(())
    }

    fn only_withheld(&self, name: HostName, addresses: Vec<IpAddr>) -> NetworkError {
        let rule = self.names.iter().find(|rule| rule.name == name);
        NetworkError::OnlyWithheld {
            transport: rule.map_or(Transport::Tcp, |rule| rule.transport),
            ports: rule.map_or(Ports::ANY, |rule| rule.ports).to_string(),
            name,
            addresses,
        }
    }
}

type Found = Result<Answer, ResolveError>;

/// Looks up all names at the same time: each may take as long as a name server does.
fn look_up_all(names: &[HostName], resolver: &dyn Resolve) -> Vec<(HostName, Found)> {
    /// Threads at a time.
    const AT_ONCE: usize = 16;
    let ask = |name: &HostName| (name.clone(), resolver.addresses(name));
    if let [name] = names {
        return vec![ask(name)];
    }
    let ask_some = |names: &[HostName]| -> Vec<(HostName, Found)> {
        thread::scope(|scope| {
            let lookups: Vec<_> = names
                .iter()
                .map(|name| scope.spawn(move || ask(name)))
                .collect();
            lookups
                .into_iter()
                .zip(names)
                .map(|(lookup, name)| {
                    lookup
                        .join()
                        .unwrap_or_else(|_| (name.clone(), Err(ResolveError::Broken)))
                })
                .collect()
        })
    };
    names.chunks(AT_ONCE).flat_map(ask_some).collect()
}

const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

fn loopback_rule(transport: Transport, address: IpAddr, ports: Ports) -> AddressRule {
    AddressRule {
        transport,
        network: IpNetwork::of_address(address),
        scope: 0,
        ports,
    }
}

fn find_scope(zone: Option<&str>, resolver: &dyn Resolve) -> Result<u32, NetworkError> {
    let Some(zone) = zone else { return Ok(0) };
    resolver
        .interface(zone)
        .ok_or_else(|| NetworkError::Interface {
            zone: zone.to_owned(),
        })
}
