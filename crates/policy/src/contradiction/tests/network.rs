use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;
use crate::{
    ConnectGrant, HostPattern, IpNetwork, ListenAddress, ListenGrant, Ports, Transport, UnixGrant,
};

fn network_policy(connect: &[&str], listen: &[&str]) -> Policy {
    let connect = connect
        .iter()
        .map(|text| ConnectGrant::parse(text, Path::new("/p")));
    let listen = listen.iter().map(|text| text.parse());
    let mut policy = Policy::default();
    policy.grants.connect = connect.collect::<Result<_, _>>().unwrap();
    policy.grants.listen = listen.collect::<Result<_, _>>().unwrap();
    policy
}

fn found(connect: &[&str], listen: &[&str]) -> Contradiction {
    find_contradiction(&network_policy(connect, listen)).expect("a contradiction")
}

fn assert_fine(connect: &[&str], listen: &[&str]) {
    let policy = network_policy(connect, listen);
    assert_eq!(policy.validate(), Ok(()), "{connect:?} {listen:?}");
}

#[test]
fn usual_network_policies_are_fine() {
    assert_fine(
        &[
            "tcp://*.example.com:443",
            "tcp://example.com:443",
            "udp://224.0.0.0/4:5353",
            "udp://[ff02::fb%eth0]:5353",
            "udp://255.255.255.255:67",
            "tcp://0.0.0.0/0:*",
            "tcp://[::/0]:*",
            "tcp://224.0.0.0/3:80",
            "tcp://0.0.0.0/8:80",
            "tcp://localhost:5432",
            "unix:/run/db.sock",
            "unix:/run/systemd/journal/dev-log:/dev/log",
        ],
        &[
            "tcp://*:80,host-port=8080",
            "tcp://*:443,host-port=8443",
            "udp://*:80,host-port=8081",
            "tcp://localhost:0,ready",
            "inherited",
        ],
    );
    assert_fine(&[], &["tcp://*:80", "tcp://127.0.0.1:80", "tcp://*:1-90"]);
    assert_fine(&[], &["tcp://*:80,host-port=80", "tcp://*:80"]);
    assert_fine(
        &[],
        &[
            "tcp://127.0.0.1:80,host-port=81",
            "tcp://127.0.0.2:80,host-port=82",
        ],
    );
}

#[test]
fn wildcards_are_names_that_a_proxy_can_check() {
    insta::assert_snapshot!(found(&["udp://*.example.com:53"], &[]), @"--connect `udp://*.example.com:53` cannot be held: the names behind `*` are checked by a proxy, which carries tcp only; name each host, as in `--connect udp://host.example.com:53`");
    insta::assert_snapshot!(found(&["tcp://*.localhost:53"], &[]), @"--connect `tcp://*.localhost:53` would be the host's loopback under any name: if it is meant, write `--connect tcp://localhost:53`");
    assert_eq!(
        found(&["tcp://*.a.localhost:53"], &[]).to_string(),
        found(&["tcp://*.localhost:53"], &[])
            .to_string()
            .replace("*.localhost", "*.a.localhost")
    );
}

#[test]
fn hosts_that_are_none() {
    insta::assert_snapshot!(found(&["tcp://0.0.0.0:80"], &[]), @"--connect `tcp://0.0.0.0:80` names no host: who connects to that address reaches the own machine, which is `tcp://localhost:80`");
    insta::assert_snapshot!(found(&["tcp://224.0.0.1:80"], &[]), @"`tcp://224.0.0.1:80` has no effect, for many hosts share that address and tcp speaks with one: only `udp://` reaches it");
    insta::assert_snapshot!(found(&["udp://[::]:80"], &[]), @"--connect `udp://[::]:80` names no host: who connects to that address reaches the own machine, which is `udp://localhost:80`");
    for grant in [
        "tcp://224.0.0.0/4:80",
        "tcp://[ff00::/8]:80",
        "tcp://255.255.255.255:80",
    ] {
        assert!(found(&[grant], &[]).to_string().contains("only `udp://`"));
    }
    assert!(
        found(&[], &["tcp://224.0.0.1:80"])
            .to_string()
            .contains("only `udp://`")
    );
}

#[test]
fn ports_are_published_once() {
    insta::assert_snapshot!(found(&[], &["tcp://*:80-90,host-port=8080"]), @"--listen `tcp://*:80-90,host-port=8080` gives one host port for several ports: `host-port` goes with a single port from 1");
    insta::assert_snapshot!(found(&[], &["tcp://*:0,host-port=8080"]), @"--listen `tcp://*:0,host-port=8080` gives one host port for any that the kernel picks: `host-port` goes with a single port from 1");
    insta::assert_snapshot!(found(&[], &["tcp://*:80,host-port=8080", "tcp://*:80,host-port=8081"]), @"--listen `tcp://*:80,host-port=8080` and `tcp://*:80,host-port=8081` publish the same port of the guest's under two of the host's: keep one");
    insta::assert_snapshot!(found(&[], &["tcp://*:80,host-port=8080", "tcp://*:81,host-port=8080"]), @"--listen `tcp://*:80,host-port=8080` and `tcp://*:81,host-port=8080` publish two ports of the guest's under the same one of the host's: give one of them another, as in `,host-port=8081`");
    let two = |one: &str, other: &str| {
        let found = found(&[], &[one, other]).to_string();
        (
            found.contains("under two of the host's"),
            found.contains("under the same one"),
        )
    };
    let (two_host_ports, same_host_port) = ((true, false), (false, true));
    assert_eq!(
        two("tcp://*:80,host-port=8080", "tcp://127.0.0.1:80"),
        two_host_ports
    );
    assert_eq!(
        two("tcp://[::1]:80", "tcp://localhost:80,host-port=8080"),
        two_host_ports
    );
    assert_eq!(
        two("tcp://[::]:80,host-port=8080", "tcp://127.0.0.1:80"),
        two_host_ports
    );
    assert_eq!(
        two("tcp://0.0.0.0:80,host-port=8080", "tcp://127.0.0.1:70-90"),
        two_host_ports
    );
    assert_eq!(
        two("tcp://*:80,host-port=8080", "tcp://*:8080"),
        same_host_port
    );
    assert_eq!(
        two("tcp://*:80,host-port=8080", "tcp://*:8000-8099"),
        same_host_port
    );
    assert_fine(&[], &["tcp://0.0.0.0:80,host-port=8080", "tcp://[::1]:80"]);
}

#[test]
fn ready_sockets_are_bound_by_palisade() {
    insta::assert_snapshot!(found(&[], &["tcp://*:80-81,ready"]), @"--listen `tcp://*:80-81,ready` asks for a ready socket at several ports: `ready` goes with a single port");
    insta::assert_snapshot!(found(&[], &["tcp://*:80,host-port=8080,ready"]), @"--listen `tcp://*:80,host-port=8080,ready` gives a host port to a ready socket, which the guest does not bind: write `--listen tcp://*:8080,ready`");
}

#[test]
fn sockets_are_paths_too() {
    insta::assert_snapshot!(found(&["unix:/run/a:/run/x", "unix:/run/b:/run/x"], &[]), @"`/run/x` inside the domain is granted from two host paths, `/run/a` and `/run/b`: give one of them another guest path, as in `/run/b:/other`");
    for grant in [
        "unix:/proc/1/root/run/x:/x",
        "unix:/x:/proc/x",
        "unix:/",
        "unix:/dev",
    ] {
        let found = found(&[grant], &[]);
        assert!(
            matches!(
                found,
                Contradiction::ReservedGuest { .. } | Contradiction::ReservedHost { .. }
            ),
            "{found}"
        );
    }
    let mut policy = network_policy(&["unix:/run/a:/x"], &[]);
    policy.grants.files = self::policy(&[(Read, "/b:/x")]).grants.files;
    assert!(matches!(
        find_contradiction(&policy),
        Some(Contradiction::TwoHosts { .. })
    ));
    policy.grants.files = self::policy(&[(Read, "/run/a:/x")]).grants.files;
    assert_eq!(
        policy.validate(),
        Ok(()),
        "one file, shown and connected to"
    );
    policy.grants.connect = vec![ConnectGrant::Unix(UnixGrant {
        host: "run/a".into(),
        guest: None,
    })];
    assert_eq!(
        find_contradiction(&policy),
        Some(Contradiction::UncleanPath("run/a".into()))
    );
}

#[test]
fn network_grants_of_a_hand_made_policy() {
    let connect = |address: IpAddr, prefix, zone: Option<&str>, ports| {
        let mut policy = Policy::default();
        policy.grants.connect = vec![ConnectGrant::Internet {
            transport: Transport::Tcp,
            host: HostPattern::Network(IpNetwork {
                address,
                prefix,
                zone: zone.map(str::to_owned),
            }),
            ports,
        }];
        find_contradiction(&policy)
            .expect("a contradiction")
            .to_string()
    };
    let v4 = IpAddr::from(Ipv4Addr::new(10, 0, 0, 1));
    let link_local = IpAddr::from(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
    let mapped = IpAddr::from(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    let port = Ports::one(80);
    insta::assert_snapshot!(connect(v4, 8, None, port), @"`tcp://10.0.0.1/8:80` cannot be granted: it has bits beyond its prefix: the network is `10.0.0.0/8`, the single address `10.0.0.1`");
    insta::assert_snapshot!(connect(link_local, 128, Some("a/128"), port), @"`tcp://[fe80::1%a/128]:80` cannot be granted: the interface's name cannot be told from what stands beside it");
    assert!(connect(v4, 33, None, port).contains("prefix of 0 to 32"));
    assert!(connect(v4, 32, Some("eth0"), port).contains("10.0.0.1%eth0"));
    assert!(connect(mapped, 128, None, port).contains("`127.0.0.1`"));
    assert!(connect(v4, 32, None, Ports::KERNEL_PICKS).contains("port 0"));
    let mut policy = Policy::default();
    policy.grants.listen = vec![ListenGrant::At {
        transport: Transport::Udp,
        address: ListenAddress::Address {
            address: v4,
            zone: Some("eth0".into()),
        },
        ports: port,
        host_port: None,
        ready: false,
    }];
    assert!(find_contradiction(&policy).is_some());
}
