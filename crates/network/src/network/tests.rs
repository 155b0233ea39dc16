use std::{collections::HashMap, time::Duration};

use palisade_policy::{ConnectGrant, ListenGrant};

use super::*;
use crate::names::{Answer, Resolve, ResolveError};

/// A resolver of fixed names, and of interfaces: `eth0` is 2, and each has its index.
struct Table(HashMap<&'static str, Vec<IpAddr>>);

impl Resolve for Table {
    fn addresses(&self, name: &HostName) -> Result<Answer, ResolveError> {
        match self.0.get(name.as_str()) {
            Some(addresses) => Ok(Answer {
                addresses: addresses.clone(),
                ttl: Duration::from_secs(60),
            }),
            None => Err(ResolveError::NotFound),
        }
    }

    fn name_servers(&self) -> Vec<SocketAddr> {
        let servers = ["127.0.0.53:53", "[fe80::53%2]:53"];
        servers.map(|server| server.parse().unwrap()).into()
    }

    fn interface(&self, zone: &str) -> Option<u32> {
        match zone {
            "eth0" => Some(2),
            index => index.parse().ok(),
        }
    }
}

fn table() -> Table {
    let addresses = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
    Table(HashMap::from([
        ("web.example", addresses(&["198.51.100.7", "2001:db8::7"])),
        (
            "mixed.example",
            addresses(&["198.51.100.9", "10.0.0.9", "169.254.169.254"]),
        ),
        (
            "mapped.example",
            addresses(&["::ffff:198.51.100.8", "198.51.100.8"]),
        ),
        ("rebound.example", addresses(&["127.0.0.1"])),
        (
            "inside.example",
            addresses(&["10.0.0.5", "fd00::5", "64:ff9b::10.0.0.5"]),
        ),
    ]))
}

fn resolve(grants: &[&str]) -> Result<Network, NetworkError> {
    let (listen, connect): (Vec<&str>, Vec<&str>) = grants
        .iter()
        .partition(|grant| grant.starts_with("listen "));
    let connect: Vec<ConnectGrant> = connect.iter().map(|text| text.parse().unwrap()).collect();
    let parse = |text: &&str| text.strip_prefix("listen ").unwrap().parse().unwrap();
    let listen: Vec<ListenGrant> = listen.iter().map(parse).collect();
    Network::resolve(&connect, &listen, &table())
}

fn network(grants: &[&str]) -> Network {
    resolve(grants).unwrap()
}

/// `tcp 192.0.2.1:80` as it is asked for.
fn asked(text: &str) -> (Transport, SocketAddr) {
    let (transport, address) = text.split_once(' ').unwrap();
    (transport.parse().unwrap(), address.parse().unwrap())
}

/// The address to act on, or the refusal in words. The grant in a refusal is one that is taken, and
/// is enough.
fn connect(network: &Network, text: &str) -> String {
    let (transport, address) = asked(text);
    let decision = network.connect(transport, address);
    let more = with_grant(network, decision.as_ref().err());
    assert!(
        more.is_none_or(|more| more.connect(transport, address).is_ok()),
        "{text}"
    );
    shown(decision)
}

fn bind(network: &Network, text: &str, one_family: bool) -> String {
    let (transport, address) = asked(text);
    let decision = network.bind(transport, address, one_family);
    let more = with_grant(network, decision.as_ref().err());
    assert!(
        more.is_none_or(|more| more.bind(transport, address, one_family).is_ok()),
        "{text}"
    );
    shown(decision)
}

/// The network with the grant that a refusal names.
fn with_grant(network: &Network, refusal: Option<&crate::Refusal>) -> Option<Network> {
    let grant = refusal?.grant.as_ref()?;
    let more = match grant.strip_prefix("--connect ") {
        Some(connect) => Network::resolve(&[connect.parse().unwrap()], &[], &table()).unwrap(),
        None => {
            let listen = grant.strip_prefix("--listen ").unwrap();
            Network::resolve(&[], &[listen.parse().unwrap()], &table()).unwrap()
        }
    };
    let mut network = network.clone();
    network.addresses.extend(more.addresses);
    network.public.extend(more.public);
    network.names.extend(more.names);
    network.listen.extend(more.listen);
    Some(network)
}

fn shown(decision: Result<SocketAddr, crate::Refusal>) -> String {
    match decision {
        Ok(address) => address.to_string(),
        Err(refusal) => format!("{:?} {}", refusal.reason, refusal.grant.unwrap_or_default()),
    }
}

fn listen(network: &Network, bound: &str) -> String {
    let bound = (!bound.is_empty()).then(|| bound.parse().unwrap());
    let decision = network.listen(bound);
    let more = with_grant(network, decision.as_ref().err());
    assert!(
        more.is_none_or(|more| more.listen(bound).is_ok()),
        "{bound:?}"
    );
    match decision {
        Ok(()) => "ok".into(),
        Err(refusal) => format!("{:?} {}", refusal.reason, refusal.grant.unwrap_or_default()),
    }
}

/// Whatever the spelling, it is about where the call arrives.
#[test]
fn the_internet_is_what_is_public() {
    let all = network(&["internet"]);
    for public in [
        "tcp 93.184.216.34:443",
        "udp 93.184.216.34:443",
        "tcp 93.184.216.34:1",
        "tcp [2606:2800:220:1::1]:65535",
        "tcp [::ffff:93.184.216.34]:80",
        "tcp [64:ff9b::93.184.216.34]:80",
        "udp [2002:5db8:d822::1]:80",
    ] {
        let (transport, address) = asked(public);
        let arrives = address::canonical(address).to_string();
        assert_eq!(connect(&all, public), arrives, "{public}");
        assert!(all.is_granted_for_tcp(address), "{public}");
        assert!(all.uses(transport).connect);
    }
    for other in [
        "tcp 10.0.0.1:443",
        "tcp 172.16.0.1:443",
        "tcp 192.168.1.1:443",
        "udp 100.64.0.1:443",
        "tcp 127.0.0.1:443",
        "tcp 0.0.0.0:443",
        "tcp 169.254.169.254:80",
        "tcp 168.63.129.16:80",
        "udp 224.0.0.1:5353",
        "udp 255.255.255.255:67",
        "tcp 240.0.0.1:1",
        "tcp [::]:443",
        "tcp [::1]:443",
        "tcp [::ffff:10.0.0.1]:443",
        "tcp [::ffff:127.0.0.1]:443",
        "tcp [fc00::1]:443",
        "tcp [fd00:ec2::254]:80",
        "tcp [fe80::1%2]:443",
        "udp [ff02::fb]:5353",
        "tcp [64:ff9b::10.0.0.1]:443",
        "tcp [64:ff9b:1::1]:443",
        "tcp [2002:0a00:0001::1]:443",
        "tcp [2001:0:1:2:3:4:f5ff:fffe]:443",
        "tcp [::10.0.0.1]:443",
        "tcp 93.184.216.34:0",
    ] {
        let decision = connect(&all, other);
        assert!(
            decision.parse::<SocketAddr>().is_err(),
            "{other}: {decision}"
        );
        let (_, address) = asked(other);
        assert!(
            address.port() == 0 || !all.is_granted_for_tcp(address),
            "{other}"
        );
    }
}

#[test]
fn the_internet_at_some_ports() {
    let web = network(&["internet:443"]);
    assert_eq!(connect(&web, "tcp 93.184.216.34:443"), "93.184.216.34:443");
    assert_eq!(
        connect(&web, "tcp 93.184.216.34:80"),
        "OtherPort --connect tcp://93.184.216.34:80"
    );
    assert_eq!(
        connect(&web, "tcp 10.0.0.1:443"),
        "NotGranted --connect tcp://10.0.0.1:443"
    );
    assert_eq!(network(&["tcp://192.0.2.1:1"]).resolver_file(), None);
}

/// Who may reach every host has to find them, and asks the machine's own name servers, at their port alone.
#[test]
fn names_of_the_internet_are_looked_up() {
    let all = network(&["internet:443", "internet:80"]);
    let servers = "nameserver 127.0.0.53\nnameserver fe80::53%2\n";
    assert_eq!(all.resolver_file().as_deref(), Some(servers));
    for server in ["udp 127.0.0.53:53", "tcp 127.0.0.53:53"] {
        assert_eq!(connect(&all, server), "127.0.0.53:53");
    }
    assert_eq!(connect(&all, "udp [fe80::53]:53"), "[fe80::53%2]:53");
    for other in [
        "udp 127.0.0.53:54",
        "udp 127.0.0.1:53",
        "udp [fe80::53%3]:53",
    ] {
        assert!(connect(&all, other).contains("--connect"), "{other}");
    }
    assert_eq!(
        all.to_string(),
        "connect every public address at ports 443, by tcp and udp\n\
         connect every public address at ports 80, by tcp and udp\n\
         connect udp://127.0.0.53:53\nconnect tcp://127.0.0.53:53\n\
         connect udp://[fe80::53]:53\nconnect tcp://[fe80::53]:53\n"
    );
}

#[test]
fn connect_by_address() {
    let one = &["tcp://192.0.2.1:443"][..];
    let net = &["tcp://10.0.0.0/8:8000-8099", "udp://10.1.0.0/16:53"][..];
    let all = &["tcp://0.0.0.0/0:*", "tcp://[::/0]:*"][..];
    let home = &["tcp://localhost:5432"][..];
    for (grants, call, decision) in [
        (
            &[][..],
            "tcp 192.0.2.1:443",
            "NotGranted --connect tcp://192.0.2.1:443",
        ),
        (one, "tcp 192.0.2.1:443", "192.0.2.1:443"),
        (one, "tcp [::ffff:192.0.2.1]:443", "192.0.2.1:443"),
        (
            one,
            "tcp 192.0.2.1:80",
            "OtherPort --connect tcp://192.0.2.1:80",
        ),
        (
            one,
            "udp 192.0.2.1:443",
            "OtherTransport(Udp) --connect udp://192.0.2.1:443",
        ),
        (
            one,
            "tcp 192.0.2.2:443",
            "NotGranted --connect tcp://192.0.2.2:443",
        ),
        (
            one,
            "tcp [2001:db8::1]:443",
            "NotGranted --connect tcp://[2001:db8::1]:443",
        ),
        (one, "tcp 192.0.2.1:0", "PortZero "),
        (net, "tcp 10.255.255.255:8000", "10.255.255.255:8000"),
        (
            net,
            "tcp 10.0.0.1:8100",
            "OtherPort --connect tcp://10.0.0.1:8100",
        ),
        (net, "udp 10.1.2.3:53", "10.1.2.3:53"),
        (
            net,
            "udp 10.2.2.3:53",
            "OtherTransport(Udp) --connect udp://10.2.2.3:53",
        ),
        (all, "tcp 8.8.8.8:1", "8.8.8.8:1"),
        (all, "tcp [2001:db8::1]:65535", "[2001:db8::1]:65535"),
        (all, "tcp 10.0.0.1:80", "10.0.0.1:80"),
        (
            all,
            "tcp 127.0.0.1:80",
            "Special(\"loopback\") --connect tcp://127.0.0.1:80",
        ),
        (
            all,
            "tcp 0.0.0.0:80",
            "Special(\"loopback\") --connect tcp://127.0.0.1:80",
        ),
        (
            all,
            "tcp [::]:80",
            "Special(\"loopback\") --connect tcp://[::1]:80",
        ),
        (
            all,
            "tcp [::ffff:127.0.0.1]:80",
            "Special(\"loopback\") --connect tcp://127.0.0.1:80",
        ),
        (
            all,
            "tcp 169.254.169.254:80",
            "Special(\"link-local\") --connect tcp://169.254.169.254:80",
        ),
        (
            all,
            "tcp [fd00:ec2::254]:80",
            "Special(\"cloud metadata\") --connect tcp://[fd00:ec2::254]:80",
        ),
        (
            all,
            "tcp [fe80::1%2]:80",
            "Special(\"link-local\") --connect tcp://[fe80::1%2]:80",
        ),
        (
            all,
            "tcp [64:ff9b::7f00:1]:80",
            "Special(\"loopback\") --connect tcp://[64:ff9b::7f00:1]:80",
        ),
        (home, "tcp 127.0.0.1:5432", "127.0.0.1:5432"),
        (home, "tcp [::1]:5432", "[::1]:5432"),
        (home, "tcp 0.0.0.0:5432", "127.0.0.1:5432"),
        (home, "tcp [::]:5432", "[::1]:5432"),
        (
            home,
            "tcp 127.0.0.2:5432",
            "NotGranted --connect tcp://127.0.0.2:5432",
        ),
        (
            home,
            "tcp 127.0.0.1:22",
            "OtherPort --connect tcp://127.0.0.1:22",
        ),
        (
            &["udp://127.0.0.0/8:53"],
            "udp 127.0.0.53:53",
            "127.0.0.53:53",
        ),
        (
            &["udp://255.255.255.255:67"],
            "udp 255.255.255.255:67",
            "255.255.255.255:67",
        ),
    ] {
        assert_eq!(
            connect(&network(grants), call),
            decision,
            "{grants:?}: {call}"
        );
    }
}

#[test]
fn connect_on_an_interface() {
    let zoned = &["tcp://[fe80::1%eth0]:80"][..];
    // Without an interface, it is good for each.
    let any = &["tcp://[fe80::/10]:80"][..];
    for (grants, call, decision) in [
        (zoned, "tcp [fe80::1%2]:80", "[fe80::1%2]:80"),
        (zoned, "tcp [fe80::1]:80", "[fe80::1%2]:80"),
        (
            zoned,
            "tcp [fe80::1%3]:80",
            "OtherInterface --connect tcp://[fe80::1%3]:80",
        ),
        (
            zoned,
            "tcp [fe80::2%2]:80",
            "NotGranted --connect tcp://[fe80::2%2]:80",
        ),
        (any, "tcp [fe80::9%7]:80", "[fe80::9%7]:80"),
    ] {
        assert_eq!(
            connect(&network(grants), call),
            decision,
            "{grants:?}: {call}"
        );
    }
    let unknown = resolve(&["tcp://[fe80::1%wlan7]:80"]).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "policy: there is no network interface `wlan7` here: `ip link` lists those there are"
    );
}

#[test]
fn connect_by_name() {
    let web = &["tcp://web.example:443"][..];
    let mixed = &["tcp://mixed.example:443"][..];
    let both = &["tcp://mixed.example:443", "tcp://10.0.0.9:443"][..];
    let apart = &[
        "tcp://mixed.example:443",
        "tcp://mixed.example:80",
        "tcp://10.0.0.9:80",
    ][..];
    for (grants, call, decision) in [
        (web, "tcp 198.51.100.7:443", "198.51.100.7:443"),
        (web, "tcp [2001:db8::7]:443", "[2001:db8::7]:443"),
        (web, "tcp [::ffff:198.51.100.7]:443", "198.51.100.7:443"),
        (
            web,
            "tcp 198.51.100.7:80",
            "OtherPort --connect tcp://web.example:80",
        ),
        (
            web,
            "udp 198.51.100.7:443",
            "OtherTransport(Udp) --connect udp://web.example:443",
        ),
        (
            web,
            "tcp 198.51.100.8:443",
            "NotGranted --connect tcp://198.51.100.8:443",
        ),
        (mixed, "tcp 198.51.100.9:443", "198.51.100.9:443"),
        (
            mixed,
            "tcp 10.0.0.9:443",
            "BehindName(HostName(\"mixed.example\")) --connect tcp://10.0.0.9:443",
        ),
        (
            mixed,
            "tcp 169.254.169.254:443",
            "BehindName(HostName(\"mixed.example\")) --connect tcp://169.254.169.254:443",
        ),
        (both, "tcp 10.0.0.9:443", "10.0.0.9:443"),
        (apart, "tcp 10.0.0.9:80", "10.0.0.9:80"),
        (
            apart,
            "tcp 10.0.0.9:443",
            "OtherPort --connect tcp://10.0.0.9:443",
        ),
    ] {
        assert_eq!(
            connect(&network(grants), call),
            decision,
            "{grants:?}: {call}"
        );
    }
}

#[test]
fn the_hosts_file_has_what_names_may_stand_for() {
    for (grants, lines) in [
        (&["tcp://192.0.2.1:443"][..], None),
        (&["tcp://*.example:443"], None),
        (&["tcp://localhost:443"], None),
        (
            &[
                "tcp://web.example:443",
                "tcp://web.example:80",
                "udp://web.example:443",
            ],
            Some("198.51.100.7 web.example\n2001:db8::7 web.example\n"),
        ),
        (
            &["tcp://mixed.example:443", "tcp://mapped.example:1"],
            Some("198.51.100.9 mixed.example\n198.51.100.8 mapped.example\n"),
        ),
        (
            &["tcp://mixed.example:443", "tcp://10.0.0.0/8:443"],
            Some("198.51.100.9 mixed.example\n10.0.0.9 mixed.example\n"),
        ),
        (
            &[
                "tcp://mixed.example:443",
                "udp://10.0.0.0/8:443",
                "tcp://10.0.0.0/8:80",
            ],
            Some("198.51.100.9 mixed.example\n"),
        ),
        (
            &["tcp://inside.example:443", "tcp://10.0.0.0/8:*"],
            Some("10.0.0.5 inside.example\n"),
        ),
    ] {
        assert_eq!(network(grants).hosts_file().as_deref(), lines, "{grants:?}");
    }
}

#[test]
fn a_name_that_grants_nothing_is_an_error() {
    for (grants, message) in [
        (
            &["tcp://nowhere.example:443"][..],
            "policy: the granted name `nowhere.example` has no address: no name server knows it: \
             correct the name or leave the grant out",
        ),
        (
            &["tcp://rebound.example:443"],
            "policy: the granted name `rebound.example` stands for 127.0.0.1 only, and a name does \
             not grant what is not public: add --connect tcp://127.0.0.1:443",
        ),
        (
            &["udp://inside.example:53", "tcp://10.0.0.5:53"],
            "policy: the granted name `inside.example` stands for 10.0.0.5, fd00::5, \
             64:ff9b::a00:5 only, and a name does not grant what is not public: add \
             --connect udp://10.0.0.5:53, --connect udp://[fd00::5]:53, \
             --connect udp://[64:ff9b::a00:5]:53",
        ),
    ] {
        assert_eq!(resolve(grants).unwrap_err().to_string(), message);
    }
}

#[test]
fn new_pins_leave_the_old_ones_for_one_turn() {
    let mut network = network(&["tcp://web.example:443"]);
    let name: HostName = "web.example".parse().unwrap();
    let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
    let old = "tcp 198.51.100.7:443";
    let new = "tcp 203.0.113.1:443";

    assert!(connect(&network, new).starts_with("NotGranted"));
    assert!(network.pin(&name, &[ip("203.0.113.1"), ip("127.0.0.1")]));
    assert_eq!(connect(&network, new), "203.0.113.1:443");
    assert_eq!(connect(&network, old), "198.51.100.7:443");
    assert_eq!(
        network.hosts_file().as_deref(),
        Some("203.0.113.1 web.example\n")
    );
    assert!(connect(&network, "tcp 127.0.0.1:443").starts_with("BehindName"));

    assert!(!network.pin(&name, &[ip("203.0.113.1")]));
    assert!(connect(&network, old).starts_with("NotGranted"));
    assert_eq!(connect(&network, new), "203.0.113.1:443");

    let stranger: HostName = "other.example".parse().unwrap();
    assert!(!network.pin(&stranger, &[ip("203.0.113.2")]));
    assert!(connect(&network, "tcp 203.0.113.2:443").starts_with("NotGranted"));
}

#[test]
fn bind_where_listening_is_granted() {
    let every = &["listen tcp://*:8080"][..];
    let home = &["listen tcp://localhost:8080"][..];
    let v4 = &["listen tcp://127.0.0.1:8080"][..];
    let two = &["listen tcp://192.0.2.5:80", "listen tcp://127.0.0.1:80"][..];
    let v6 = &["listen tcp://[2001:db8::5]:80"][..];
    let mapped = &["listen tcp://127.0.0.1:80,host-port=8080"][..];
    let kernel = &["listen tcp://127.0.0.1:0"][..];
    let all_v4 = &["listen tcp://0.0.0.0:80"][..];
    let all_v6 = &["listen tcp://[::]:80"][..];
    let (one, dual) = (true, false);
    for (grants, call, family, decision) in [
        (
            &[][..],
            "tcp 127.0.0.1:8080",
            one,
            "NotBindable --listen tcp://127.0.0.1:8080",
        ),
        (&[], "tcp 0.0.0.0:0", one, "NotBindable --listen tcp://*:0"),
        (every, "tcp 0.0.0.0:8080", one, "0.0.0.0:8080"),
        (every, "tcp [::]:8080", dual, "[::]:8080"),
        (every, "tcp [::]:8080", one, "[::]:8080"),
        (every, "tcp 127.0.0.1:8080", one, "127.0.0.1:8080"),
        (every, "tcp [::ffff:127.0.0.1]:8080", dual, "127.0.0.1:8080"),
        (
            every,
            "tcp 0.0.0.0:8081",
            one,
            "NotBindable --listen tcp://*:8081",
        ),
        (
            every,
            "udp 0.0.0.0:8080",
            one,
            "NotBindable --listen udp://*:8080",
        ),
        (
            every,
            "tcp 0.0.0.0:0",
            one,
            "NotBindable --listen tcp://*:0",
        ),
        (home, "tcp 0.0.0.0:8080", one, "127.0.0.1:8080"),
        (home, "tcp [::]:8080", one, "[::1]:8080"),
        (home, "tcp [::]:8080", dual, "127.0.0.1:8080"),
        (home, "tcp [::ffff:0.0.0.0]:8080", dual, "127.0.0.1:8080"),
        (home, "tcp [::1]:8080", dual, "[::1]:8080"),
        (
            home,
            "tcp 192.0.2.5:8080",
            one,
            "NotBindable --listen tcp://192.0.2.5:8080",
        ),
        (
            v4,
            "tcp [::]:8080",
            one,
            "NotBindable --listen tcp://*:8080",
        ),
        (v4, "tcp [::]:8080", dual, "127.0.0.1:8080"),
        (
            v4,
            "tcp 127.0.0.2:8080",
            one,
            "NotBindable --listen tcp://127.0.0.2:8080",
        ),
        (
            v4,
            "tcp 127.0.0.1:0",
            one,
            "NotBindable --listen tcp://127.0.0.1:0",
        ),
        (two, "tcp 0.0.0.0:80", one, "192.0.2.5:80"),
        (two, "tcp 127.0.0.1:80", one, "127.0.0.1:80"),
        (v6, "tcp [::]:80", dual, "[2001:db8::5]:80"),
        (v6, "tcp 0.0.0.0:80", one, "NotBindable --listen tcp://*:80"),
        (mapped, "tcp 0.0.0.0:80", one, "127.0.0.1:8080"),
        (
            mapped,
            "tcp 127.0.0.1:8080",
            one,
            "NotBindable --listen tcp://127.0.0.1:8080",
        ),
        (kernel, "tcp 0.0.0.0:0", one, "127.0.0.1:0"),
        (
            kernel,
            "tcp 127.0.0.1:40000",
            one,
            "NotBindable --listen tcp://127.0.0.1:40000",
        ),
        (
            &["listen tcp://[fe80::1%eth0]:80"],
            "tcp [::]:80",
            one,
            "[fe80::1%2]:80",
        ),
        (
            &["listen tcp://[fe80::1%eth0]:80"],
            "tcp [fe80::1]:80",
            one,
            "[fe80::1%2]:80",
        ),
        (
            &["listen tcp://[fe80::1%eth0]:80"],
            "tcp [fe80::1%3]:80",
            one,
            "NotBindable --listen tcp://[fe80::1%3]:80",
        ),
        (all_v4, "tcp 0.0.0.0:80", one, "0.0.0.0:80"),
        (all_v4, "tcp 127.0.0.1:80", one, "127.0.0.1:80"),
        (all_v4, "tcp [::]:80", dual, "0.0.0.0:80"),
        (
            all_v4,
            "tcp [::]:80",
            one,
            "NotBindable --listen tcp://*:80",
        ),
        (all_v6, "tcp [::]:80", dual, "[::]:80"),
        (all_v6, "tcp [::1]:80", one, "[::1]:80"),
        (
            all_v6,
            "tcp 0.0.0.0:80",
            one,
            "NotBindable --listen tcp://*:80",
        ),
        // A client's bind.
        (&["tcp://192.0.2.1:443"], "tcp 0.0.0.0:0", one, "0.0.0.0:0"),
        (&["tcp://192.0.2.1:443"], "tcp [::]:0", dual, "[::]:0"),
        (
            &["tcp://192.0.2.1:443"],
            "tcp 192.0.2.9:0",
            one,
            "192.0.2.9:0",
        ),
        (
            &["tcp://192.0.2.1:443"],
            "udp 0.0.0.0:0",
            one,
            "NotBindable --listen udp://*:0",
        ),
        (
            &["tcp://192.0.2.1:443"],
            "tcp 0.0.0.0:1",
            one,
            "NotBindable --listen tcp://*:1",
        ),
        (&["tcp://*.example:443"], "tcp 0.0.0.0:0", one, "0.0.0.0:0"),
    ] {
        assert_eq!(
            bind(&network(grants), call, family),
            decision,
            "{grants:?}: {call}"
        );
    }
}

#[test]
fn listen_where_the_socket_is_bound() {
    let mapped = &["listen tcp://127.0.0.1:80,host-port=8080"][..];
    for (grants, bound, decision) in [
        (&[][..], "", "Unbound --listen tcp://*:0"),
        (
            &["tcp://192.0.2.1:443"],
            "0.0.0.0:45678",
            "NotListenable --listen tcp://*:0",
        ),
        (&["listen tcp://*:80"], "", "Unbound --listen tcp://*:0"),
        (&["listen tcp://*:80"], "0.0.0.0:80", "ok"),
        (&["listen tcp://*:80"], "[::]:80", "ok"),
        (&["listen tcp://*:80"], "127.0.0.1:80", "ok"),
        (
            &["listen tcp://*:80"],
            "127.0.0.1:81",
            "NotListenable --listen tcp://127.0.0.1:0",
        ),
        (
            &["listen udp://*:80"],
            "0.0.0.0:80",
            "NotListenable --listen tcp://*:0",
        ),
        (&["listen tcp://*:0"], "", "ok"),
        (&["listen tcp://*:0"], "0.0.0.0:45678", "ok"),
        (&["listen tcp://127.0.0.1:0"], "127.0.0.1:45678", "ok"),
        (
            &["listen tcp://127.0.0.1:0"],
            "0.0.0.0:45678",
            "NotListenable --listen tcp://*:0",
        ),
        (
            &["listen tcp://127.0.0.1:0"],
            "",
            "Unbound --listen tcp://*:0",
        ),
        (
            &["listen tcp://127.0.0.1:80"],
            "[::ffff:127.0.0.1]:80",
            "ok",
        ),
        (&["listen tcp://0.0.0.0:80"], "127.0.0.1:80", "ok"),
        (
            &["listen tcp://0.0.0.0:80"],
            "[::]:80",
            "NotListenable --listen tcp://*:0",
        ),
        (&["listen tcp://[::]:80"], "[::]:80", "ok"),
        (mapped, "127.0.0.1:8080", "ok"),
        (
            mapped,
            "127.0.0.1:80",
            "NotListenable --listen tcp://127.0.0.1:0",
        ),
        (&["listen tcp://[fe80::1%eth0]:80"], "[fe80::1%2]:80", "ok"),
        (
            &["listen tcp://[fe80::1%eth0]:80"],
            "[fe80::1%3]:80",
            "NotListenable --listen tcp://[fe80::1%3]:0",
        ),
    ] {
        assert_eq!(
            listen(&network(grants), bound),
            decision,
            "{grants:?}: {bound}"
        );
    }
}

#[test]
fn a_granted_udp_listener_may_answer() {
    let network = network(&["listen udp://127.0.0.1:53", "listen tcp://*:80"]);
    let may = |bound: &str| network.may_answer_from(bound.parse().unwrap());
    assert!(may("127.0.0.1:53") && may("[::ffff:127.0.0.1]:53"));
    assert!(!may("0.0.0.0:53") && !may("127.0.0.1:54") && !may("0.0.0.0:80"));
}

#[test]
fn probes_are_told_by_the_address_alone() {
    let network = network(&[
        "tcp://web.example:443",
        "tcp://192.0.2.0/24:80",
        "udp://10.0.0.1:53",
    ]);
    let granted = |address: &str| network.is_granted_for_tcp(address.parse().unwrap());
    for port in [0, 9, 443, 65535] {
        assert!(granted(&format!("198.51.100.7:{port}")));
        assert!(granted(&format!("[::ffff:192.0.2.200]:{port}")));
        assert!(!granted(&format!("10.0.0.1:{port}")));
    }
}

#[test]
fn uses_decide_what_must_be_trapped() {
    use Transport::{Tcp, Udp};
    let uses = |grants: &[&str], transport| {
        let Uses { connect, listen } = network(grants).uses(transport);
        (connect, listen)
    };
    assert!(network(&[]).is_empty() && network(&["listen inherited"]).is_empty());
    assert!(network(&["unix:/run/x"]).is_empty());
    assert_eq!(uses(&["tcp://web.example:1"], Tcp), (true, false));
    assert_eq!(uses(&["tcp://web.example:1"], Udp), (false, false));
    assert_eq!(uses(&["tcp://*.example:1"], Tcp), (true, false));
    assert_eq!(
        uses(&["listen udp://*:1", "tcp://192.0.2.1:1"], Udp),
        (false, true)
    );
    assert!(!network(&["tcp://*.example:1"]).is_empty());
}

#[test]
fn ready_listeners_are_where_the_host_sees_them() {
    let network = network(&[
        "listen tcp://*:80,ready",
        "listen tcp://localhost:80,host-port=8080,ready",
        "listen udp://192.0.2.1:53",
    ]);
    let shown: Vec<String> = network
        .ready_listeners()
        .iter()
        .map(|listener| format!("{} {}", listener.transport, listener.address))
        .collect();
    assert_eq!(
        shown,
        ["tcp [::]:80", "tcp 127.0.0.1:8080", "tcp [::1]:8080"]
    );
}

#[test]
fn a_network_is_printed_and_serialized() {
    let network = network(&[
        "tcp://10.0.0.0/8:8000-8099",
        "tcp://[fe80::1%eth0]:80",
        "tcp://localhost:5432",
        "tcp://mixed.example:443",
        "udp://mixed.example:443",
        "tcp://*.example:443",
        "listen tcp://*:80,host-port=8080,ready",
        "listen udp://127.0.0.1:0",
    ]);
    insta::assert_snapshot!(network);
    let json = serde_json::to_string_pretty(&network).unwrap();
    insta::assert_snapshot!("json", json);
}
