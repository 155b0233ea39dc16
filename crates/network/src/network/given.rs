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
        "the guest asks name servers itself, so that nobody sees which name an address is: grant the address"
    )]
    AsksItself,
    #[error(
        "a guest that runs is given single hosts, networks and names, and places to listen: {0} takes a start"
    )]
    TakesAStart(&'static str),
}

/// What was given with one flag.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// As it reads back: what is written differently and means the same is the same.
    pub(crate) flag: String,
    rules: Network,
}

impl Given {
    /// A grant to connect or to listen, as a flag writes it: `--connect tcp://example.com:443`.
    pub(crate) fn parse(flag: &str) -> Result<Self, GiveError> {
        let no_grant = |why: String| GiveError::NoGrant(why);
        match flag.split_once(' ') {
            Some(("--connect", text)) => {
                let parsed = text.parse::<ConnectGrant>();
                let grant = parsed.map_err(|error| no_grant(error.to_string()))?;
                Ok(Self {
                    rules: to_connect(&grant)?,
                    flag: format!("--connect {grant}"),
                })
            }
            Some(("--listen", text)) => {
                let parsed = text.parse::<ListenGrant>();
                let grant = parsed.map_err(|error| no_grant(error.to_string()))?;
                Ok(Self {
                    rules: to_listen(&grant)?,
                    flag: format!("--listen {grant}"),
                })
            }
            _ => Err(no_grant(flag.to_owned())),
        }
    }

    pub(crate) fn has_names(&self) -> bool {
        !self.rules.names.is_empty()
    }
}

/// How a flag that can be given reads back.
///
/// # Errors
/// When it cannot.
pub fn canonical_flag(flag: &str) -> Result<String, GiveError> {
    Ok(Given::parse(flag)?.flag)
}

/// All that was given, and their rules together.
#[derive(Debug, Default)]
pub(crate) struct AllGiven {
    each: Vec<Given>,
    pub(crate) rules: Network,
}

impl AllGiven {
    /// Nothing changes where it is there already.
    pub(crate) fn add(&mut self, given: Given) {
        if !self.each.iter().any(|known| known.flag == given.flag) {
            self.rules.extend(&given.rules);
            self.each.push(given);
        }
    }

    /// The whole of what was given with a flag, and nothing else.
    pub(crate) fn remove(&mut self, flag: &str) -> bool {
        let count = self.each.len();
        self.each.retain(|known| known.flag != flag);
        self.rules = Network::default();
        let each = self.each.iter();
        each.for_each(|given| self.rules.extend(&given.rules));
        self.each.len() < count
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
    fn extend(&mut self, more: &Self) {
        self.addresses.extend_from_slice(&more.addresses);
        self.names.extend_from_slice(&more.names);
        self.listen.extend_from_slice(&more.listen);
    }

    /// Whether a name is granted at this port, whatever it stands for.
    pub(crate) fn names_grant(&self, transport: Transport, name: &HostName, port: u16) -> bool {
        let mut rules = self.names.iter();
        rules.any(|rule| {
            rule.transport == transport && rule.name == *name && rule.ports.contains(port)
        })
    }
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
        // However often it was given, and however it is written.
        assert!(gate.take_back("--connect tcp://10.0.0.0/8:1-9") && !reaches("10.1.1.1:9"));
        gate.give("--connect tcp://localhost:80").unwrap();
        gate.give("--connect tcp://127.0.0.1:80").unwrap();
        assert!(
            !gate.take_back("--connect tcp://[::1]:80"),
            "a part of it is nothing"
        );
        assert!(gate.take_back("--connect tcp://127.0.0.1:80-80") && reaches("127.0.0.1:80"));
        assert!(gate.take_back("--connect tcp://localhost:80") && !reaches("127.0.0.1:80"));
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

    /// It has the address from its file of names.
    #[test]
    fn a_name_that_has_addresses_already_is_given_at_another_port() {
        let address: IpAddr = "203.0.113.7".parse().unwrap();
        let name: HostName = "a.example".parse().unwrap();
        let gate = Gate::new(Network {
            pins: vec![crate::Pins {
                name,
                addresses: vec![address],
                former: Vec::new(),
                withheld: Vec::new(),
                ttl_s: 60,
            }],
            ..Network::default()
        });
        gate.give("--connect tcp://a.example:80").unwrap();
        assert!(gate.connect(Transport::Tcp, at("203.0.113.7:80")).is_ok());
        assert!(gate.connect(Transport::Tcp, at("203.0.113.7:81")).is_err());
        assert!(gate.connect(Transport::Tcp, at("203.0.113.8:80")).is_err());
        assert_eq!(gate.pinned_name(address).unwrap().as_str(), "a.example");
        let ports = palisade_policy::Ports::one(443);
        let asks_itself = Gate::new(Network {
            public: vec![crate::PublicRule { ports }],
            ..Network::default()
        });
        let refused = asks_itself
            .give("--connect tcp://a.example:80")
            .unwrap_err();
        assert_eq!(refused, GiveError::AsksItself);
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
