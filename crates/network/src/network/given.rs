//! Grants that come while the guest runs, and go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_policy::{
    ConnectGrant, HostName, HostPattern, IpNetwork, ListenAddress, ListenGrant, Transport,
};

use super::{AddressRule, ListenPlace, ListenRule, NameRule, Network};

/// Why a guest that runs cannot be given something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum GiveError {
    #[error("it is no grant for the network: {0}")]
    NoGrant(String),
    #[error(
        "a guest that runs is given single hosts, networks and names, and places to listen: {0} takes a start"
    )]
    TakesAStart(&'static str),
}

/// A grant to connect or to listen, as a flag writes it: `--connect tcp://example.com:443`.
pub(crate) fn parse(flag: &str) -> Result<Network, GiveError> {
    let no_grant = |why: String| GiveError::NoGrant(why);
    match flag.split_once(' ') {
        Some(("--connect", text)) => {
            let grant: ConnectGrant = text.parse().map_err(|error| no_grant(format!("{error}")))?;
            to_connect(&grant)
        }
        Some(("--listen", text)) => {
            let grant: ListenGrant = text.parse().map_err(|error| no_grant(format!("{error}")))?;
            to_listen(&grant)
        }
        _ => Err(no_grant(flag.to_owned())),
    }
}

fn to_connect(grant: &ConnectGrant) -> Result<Network, GiveError> {
    let (transport, host, ports) = match grant {
        ConnectGrant::Internet {
            transport,
            host,
            ports,
        } => (*transport, host, *ports),
        ConnectGrant::Public { .. } => return Err(GiveError::TakesAStart("`internet`")),
        ConnectGrant::Unix(_) => return Err(GiveError::TakesAStart("a local socket")),
    };
    let mut network = Network::default();
    match host {
        HostPattern::Network(granted) => network.addresses.push(AddressRule {
            transport,
            scope: scope(granted.zone.as_deref())?,
            network: granted.clone(),
            ports,
        }),
        HostPattern::Name(name) if name.is_localhost() => {
            let rule = |address| AddressRule {
                transport,
                network: IpNetwork::of_address(address),
                scope: 0,
                ports,
            };
            network.addresses.extend(LOOPBACK.map(rule));
        }
        HostPattern::Name(name) => network.names.push(NameRule {
            transport,
            name: name.clone(),
            ports,
        }),
        HostPattern::Wildcard(_) => return Err(GiveError::TakesAStart("a wildcard")),
    }
    Ok(network)
}

fn to_listen(grant: &ListenGrant) -> Result<Network, GiveError> {
    let ListenGrant::At {
        transport,
        address,
        ports,
        host_port: None,
        ready: false,
    } = grant
    else {
        return Err(GiveError::TakesAStart(
            "a socket that is ready, or at another port",
        ));
    };
    let rule = |place| ListenRule {
        transport: *transport,
        place,
        ports: *ports,
        host_port: None,
        ready: false,
    };
    let listen = match address {
        ListenAddress::Every => vec![rule(ListenPlace::Every)],
        ListenAddress::Localhost => LOOPBACK
            .map(|address| rule(ListenPlace::At(address, 0)))
            .into(),
        ListenAddress::Address { address, zone } => {
            vec![rule(ListenPlace::At(*address, scope(zone.as_deref())?))]
        }
    };
    Ok(Network {
        listen,
        ..Network::default()
    })
}

/// Nobody is asked for the name of an interface.
fn scope(zone: Option<&str>) -> Result<u32, GiveError> {
    let index = zone.map(|zone| zone.parse().ok().filter(|index| *index != 0));
    match index {
        None => Ok(0),
        Some(index) => index.ok_or(GiveError::TakesAStart(
            "the name of an interface, for which its number stands,",
        )),
    }
}

const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

impl Network {
    /// Takes these rules in.
    pub(crate) fn extend(&mut self, rules: Self) {
        self.addresses.extend(rules.addresses);
        self.names.extend(rules.names);
        self.listen.extend(rules.listen);
    }

    /// Takes these rules out, each once. Tells whether there was one of them.
    pub(crate) fn remove(&mut self, rules: &Self) -> bool {
        let addresses = remove(&mut self.addresses, &rules.addresses);
        let names = remove(&mut self.names, &rules.names);
        let listen = remove(&mut self.listen, &rules.listen);
        addresses || names || listen
    }

    /// Whether a name is granted at this port, whatever it stands for.
    pub(crate) fn names_grant(&self, transport: Transport, name: &HostName, port: u16) -> bool {
        let mut rules = self.names.iter();
        rules.any(|rule| {
            rule.transport == transport && rule.name == *name && rule.ports.contains(port)
        })
    }
}

fn remove<T: PartialEq>(from: &mut Vec<T>, these: &[T]) -> bool {
    let mut found = false;
    for one in these {
        if let Some(place) = from.iter().position(|known| known == one) {
            from.remove(place);
            found = true;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gate, Reason};
    use std::net::SocketAddr;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_given_is_granted_until_it_is_taken_back() {
        let gate = Gate::new(Network::default());
        let reaches = |address: &str| gate.connect(Transport::Tcp, at(address)).is_ok();
        gate.give("--connect tcp://127.0.0.1:80").unwrap();
        gate.give("--connect tcp://10.0.0.0/8:1-9").unwrap();
        gate.give("--connect tcp://10.0.0.0/8:1-9").unwrap();
        gate.give("--listen tcp://*:8000").unwrap();
        assert!(reaches("127.0.0.1:80") && reaches("0.0.0.0:80") && reaches("10.1.1.1:9"));
        assert!(!reaches("127.0.0.1:81") && !reaches("10.1.1.1:10"));
        assert!(gate.bind(Transport::Tcp, at("0.0.0.0:8000"), true).is_ok());
        assert!(gate.listen(Some(at("0.0.0.0:8000"))).is_ok());
        assert!(gate.take_back("--connect tcp://127.0.0.1:80"));
        assert!(
            !gate.take_back("--connect tcp://127.0.0.1:80"),
            "it is gone"
        );
        assert!(!reaches("127.0.0.1:80"));
        assert!(gate.take_back("--connect tcp://10.0.0.0/8:1-9") && reaches("10.1.1.1:9"));
        assert!(gate.take_back("--connect tcp://10.0.0.0/8:1-9") && !reaches("10.1.1.1:9"));
        let refusal = gate.connect(Transport::Tcp, at("10.1.1.1:9")).unwrap_err();
        assert_eq!(refusal.reason, Reason::NotGranted);
    }

    #[test]
    fn a_name_is_given_at_its_ports() {
        let gate = Gate::new(Network::default());
        let name: HostName = "a.example".parse().unwrap();
        gate.give("--connect tcp://a.example:443").unwrap();
        assert!(gate.gives_name(Transport::Tcp, &name, 443));
        assert!(!gate.gives_name(Transport::Tcp, &name, 80));
        gate.take_back("--connect tcp://a.example:443");
        assert!(!gate.gives_name(Transport::Tcp, &name, 443));
    }

    #[test]
    fn what_takes_a_start_is_refused() {
        let gate = Gate::new(Network::default());
        for flag in [
            "--connect internet",
            "--connect tcp://*.example.com:443",
            "--connect unix:/run/x",
            "--connect tcp://[fe80::1%eth0]:80",
            "--listen inherited",
            "--listen tcp://127.0.0.1:80,ready",
            "--read /etc",
            "--connect tcp://a.example",
            "--connect",
            "",
        ] {
            let refused = gate.give(flag).unwrap_err().to_string();
            assert!(!refused.contains(char::is_control), "{flag}: {refused}");
        }
        gate.give("--connect tcp://[fe80::1%2]:80").unwrap();
        gate.give("--connect tcp://localhost:80").unwrap();
    }
}
