use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use super::*;
use crate::{HostName, HostPattern, IpNetwork, ListenAddress, Ports, value::NetworkReason};

const BASE: &str = "/home/ada/project";

fn connect(text: &str) -> Result<ConnectGrant, ValueError> {
    ConnectGrant::parse(text, Path::new(BASE))
}

fn listen(text: &str) -> Result<ListenGrant, ValueError> {
    text.parse()
}

/// Why a connect grant is refused, in words.
fn why(text: &str) -> String {
    connect(text).unwrap_err().reason().to_string()
}

fn why_not_listen(text: &str) -> String {
    listen(text).unwrap_err().reason().to_string()
}

fn is_why(text: &str, reason: NetworkReason) {
    assert_eq!(
        *connect(text).unwrap_err().reason(),
        reason.into(),
        "{text}"
    );
}

fn internet(transport: Transport, host: HostPattern, ports: Ports) -> ConnectGrant {
    ConnectGrant::Internet {
        transport,
        host,
        ports,
    }
}

fn network(address: &str, prefix: u8) -> HostPattern {
    HostPattern::Network(IpNetwork {
        address: address.parse().unwrap(),
        prefix,
        zone: None,
    })
}

fn name(text: &str) -> HostName {
    HostName::from_checked(text.into())
}

#[test]
fn hosts_to_connect_to() {
    use Transport::{Tcp, Udp};
    let cases = [
        (
            "tcp://192.0.2.1:443",
            internet(Tcp, network("192.0.2.1", 32), Ports::one(443)),
        ),
        (
            "udp://10.0.0.0/8:53",
            internet(Udp, network("10.0.0.0", 8), Ports::one(53)),
        ),
        (
            "tcp://0.0.0.0/0:*",
            internet(Tcp, network("0.0.0.0", 0), Ports::ANY),
        ),
        (
            "tcp://[2001:db8::1]:80",
            internet(Tcp, network("2001:db8::1", 128), Ports::one(80)),
        ),
        (
            "udp://[2001:db8::/32]:1-2",
            internet(Udp, network("2001:db8::", 32), Ports::new(1..=2).unwrap()),
        ),
        (
            "tcp://[fe80::1%eth0]:80",
            internet(
                Tcp,
                HostPattern::Network(IpNetwork {
                    address: "fe80::1".parse().unwrap(),
                    prefix: 128,
                    zone: Some("eth0".into()),
                }),
                Ports::one(80),
            ),
        ),
        (
            "tcp://localhost:5432",
            internet(Tcp, HostPattern::Name(name("localhost")), Ports::one(5432)),
        ),
        (
            "tcp://*.example.com:443",
            internet(
                Tcp,
                HostPattern::Wildcard(name("example.com")),
                Ports::one(443),
            ),
        ),
    ];
    for (text, grant) in cases {
        assert_eq!(connect(text).as_ref(), Ok(&grant));
        assert_eq!(grant.to_string(), text);
        assert_eq!(text.parse(), Ok(grant));
    }
}

/// Each comes out in its one normal form.
#[test]
fn other_spellings_of_the_same() {
    for (text, normal) in [
        ("tcp://Example.COM.:443", "tcp://example.com:443"),
        ("tcp://*.Example.com.:443", "tcp://*.example.com:443"),
        ("tcp://192.0.2.1/32:443", "tcp://192.0.2.1:443"),
        ("tcp://[2001:DB8:0:0::1/128]:80", "tcp://[2001:db8::1]:80"),
        (
            "tcp://[64:ff9b::192.0.2.1]:80",
            "tcp://[64:ff9b::c000:201]:80",
        ),
        ("tcp://a:1-65535", "tcp://a:*"),
        ("tcp://a:7-7", "tcp://a:7"),
        ("tcp://_srv.a_b.x-1:7", "tcp://_srv.a_b.x-1:7"),
        ("tcp://1.a:7", "tcp://1.a:7"),
        ("tcp://0x7f.com:7", "tcp://0x7f.com:7"),
        ("udp://[ff02::fb%br-0]:5353", "udp://[ff02::fb%br-0]:5353"),
        ("tcp://[fe80::%eth0/10]:80", "tcp://[fe80::%eth0/10]:80"),
        ("unix:run/db", "unix:/home/ada/project/run/db"),
        ("unix:///run/db.sock", "unix:/run/db.sock"),
        ("internet", "internet"),
        ("internet:*", "internet"),
        ("internet:443", "internet:443"),
        ("internet:8000-8099", "internet:8000-8099"),
        // A host of that name.
        ("tcp://internet:443", "tcp://internet:443"),
        (r"unix:/a\:b:/c", r"unix:/a\:b:/c"),
        ("unix:/a:/a", "unix:/a"),
        ("unix:./@x", "unix:/home/ada/project/@x"),
    ] {
        let grant = connect(text).unwrap();
        assert_eq!(grant.to_string(), normal, "{text}");
        assert_eq!(normal.parse(), Ok(grant), "{text}");
    }
}

#[test]
fn sockets_of_the_file_system() {
    let ConnectGrant::Unix(socket) = connect("unix:run/db:/db").unwrap() else {
        panic!("not a unix grant");
    };
    assert_eq!(socket.host, Path::new("/home/ada/project/run/db"));
    assert_eq!(socket.guest_path(), Path::new("/db"));
    let text = OsStr::from_bytes(b"unix:/a\xff");
    let ConnectGrant::Unix(socket) = ConnectGrant::parse(text, Path::new(BASE)).unwrap() else {
        panic!("not a unix grant");
    };
    assert_eq!(socket.guest_path().as_os_str().as_bytes(), b"/a\xff");
    let reason = |text: &str| connect(text).unwrap_err().reason().clone();
    assert_eq!(reason("unix:"), Reason::Empty);
    assert_eq!(reason("unix:/a:"), Reason::EmptyPart);
    assert_eq!(reason("unix:/a:b"), Reason::RelativeGuest("b".into()));
    assert_eq!(reason("unix:/a:/b:/c"), Reason::TooManyColons);
    assert_eq!(reason("unix:~/a"), Reason::Tilde);
    assert_eq!(reason("unix:/a/../b"), Reason::ParentInside);
    is_why("internet:", NetworkReason::NoPort);
    is_why("internet:0", NetworkReason::PortZero);
    is_why("internets", NetworkReason::NoTransport);
    is_why(
        "internet://x:1",
        NetworkReason::UnknownTransport("internet".into()),
    );
    is_why("unix:@bus", NetworkReason::AbstractSocket);
    let relative = "unix:run/db".parse::<ConnectGrant>().unwrap_err();
    assert_eq!(*relative.reason(), NetworkReason::RelativePath.into());
}

/// Every one of these is 127.0.0.1, 10.0.0.1 or the like to inet_aton(3) or to browsers.
#[test]
fn addresses_that_programs_read_differently() {
    for host in [
        "2130706433",
        "0177.0.0.1",
        "0177.1",
        "0x7f.1",
        "0x7f000001",
        "0X7F000001",
        "0x",
        "127.1",
        "127.0.1",
        "127.0.0.01",
        "127.0.0.1.",
        "127.0.0.256",
        "1.2.3.4.5",
        "example.1",
        "example.0x1",
        "0/8",
        "10/8",
    ] {
        let reason = connect(&format!("tcp://{host}:80"))
            .unwrap_err()
            .reason()
            .clone();
        assert!(
            matches!(reason, Reason::Network(NetworkReason::BadAddress(_))),
            "{host}: {reason}"
        );
    }
    for host in ["*.1", "*.0x7f", "*.127.0.0.1"] {
        assert!(connect(&format!("tcp://{host}:80")).is_err(), "{host}");
    }
    assert_eq!(
        why("tcp://[::ffff:192.0.2.1]:80"),
        "it is an IPv4 address within an IPv6 one: write `192.0.2.1`, which covers both"
    );
    assert_eq!(
        why("tcp://[::ffff:10.0.0.0/104]:80"),
        "it is an IPv4 address within an IPv6 one: write `10.0.0.0/8`, which covers both"
    );
    assert_eq!(
        why("tcp://[::ffff:0:0/96]:80"),
        "it is an IPv4 address within an IPv6 one: write `0.0.0.0/0`, which covers both"
    );
    assert_eq!(
        why("tcp://10.0.0.5/8:80"),
        "it has bits beyond its prefix: the network is `10.0.0.0/8`, the single address `10.0.0.5`"
    );
    assert!(why("tcp://[2001:db8::1/64]:80").contains("`2001:db8::/64`"));
    assert!(why("tcp://[::ffff:0:0/90]:80").contains("beyond its prefix"));
    for prefix in ["33", "-1", "+8", "08", "", "8 ", "99999999999", "255.0.0.0"] {
        let reason = connect(&format!("tcp://10.0.0.0/{prefix}:80")).unwrap_err();
        let expected = NetworkReason::BadPrefix {
            given: prefix.into(),
            bits: 32,
        };
        assert_eq!(*reason.reason(), expected.into());
    }
}

#[test]
fn zones() {
    for host in ["2001:db8::1%eth0", "::1%lo", "ff05::2%eth0", "fc00::1%eth0"] {
        is_why(&format!("tcp://[{host}]:80"), NetworkReason::ZoneElsewhere);
    }
    is_why("tcp://10.0.0.1%eth0:80", NetworkReason::HostCharacter('%'));
    for zone in [
        "",
        ".",
        "..",
        "a name",
        "sixteen-letters-",
        "a%b",
        "é",
        "a\0",
        "a:b",
    ] {
        is_why(
            &format!("tcp://[fe80::1%{zone}]:80"),
            NetworkReason::BadZone(zone.into()),
        );
    }
}

#[test]
fn names_that_are_none() {
    is_why("tcp://:80", NetworkReason::NoHost);
    is_why("tcp://.:80", NetworkReason::EmptyLabel);
    is_why("tcp://a..b:80", NetworkReason::EmptyLabel);
    is_why("tcp://.a:80", NetworkReason::EmptyLabel);
    is_why("tcp://a..:80", NetworkReason::EmptyLabel);
    is_why("tcp://-a.b:80", NetworkReason::HyphenAtEnd);
    is_why("tcp://a.b-:80", NetworkReason::HyphenAtEnd);
    is_why("tcp://bücher.example:80", NetworkReason::NotAscii);
    is_why("tcp://a b:80", NetworkReason::HostCharacter(' '));
    is_why("tcp://user@a:80", NetworkReason::HostCharacter('@'));
    is_why("tcp://a\0:80", NetworkReason::HostCharacter('\0'));
    is_why("tcp://*:80", NetworkReason::EveryHost);
    is_why("tcp://a.*.b:80", NetworkReason::WildcardPlace);
    is_why("tcp://a*.b:80", NetworkReason::WildcardPlace);
    is_why("tcp://*.*.b:80", NetworkReason::WildcardPlace);
    is_why("tcp://*.:80", NetworkReason::NoHost);
    let label = "a".repeat(63);
    let longest = [label.as_str(); 4].join(".")[..253].to_owned();
    assert!(connect(&format!("tcp://{longest}.:80")).is_ok());
    is_why(&format!("tcp://{longest}a:80"), NetworkReason::LongName);
    is_why(&format!("tcp://{label}a:80"), NetworkReason::LongLabel);
}

#[test]
fn forms_that_are_none() {
    assert_eq!(*connect("").unwrap_err().reason(), Reason::Empty);
    is_why("example.com:443", NetworkReason::NoTransport);
    is_why("tcp:example.com:443", NetworkReason::NoTransport);
    is_why(
        "https://example.com",
        NetworkReason::UnknownTransport("https".into()),
    );
    is_why(
        "TCP://example.com:443",
        NetworkReason::UnknownTransport("TCP".into()),
    );
    is_why("tcp://example.com", NetworkReason::NoPort);
    is_why("tcp://example.com:", NetworkReason::NoPort);
    is_why("tcp://[::1]", NetworkReason::NoPort);
    is_why("tcp://[::1]443", NetworkReason::NoPort);
    is_why("tcp://[::1:443", NetworkReason::OpenBracket);
    is_why("tcp://::1:443", NetworkReason::NoBrackets);
    is_why("tcp://[10.0.0.1]:443", NetworkReason::BracketedIpv4);
    is_why(
        "tcp://[localhost]:443",
        NetworkReason::BadAddress("localhost".into()),
    );
    is_why(
        "tcp://example.com/24:443",
        NetworkReason::BadAddress("example.com".into()),
    );
    is_why(
        "tcp://a:443/path",
        NetworkReason::BadPort("443/path".into()),
    );
    for ports in ["0", "0-5"] {
        is_why(&format!("tcp://a:{ports}"), NetworkReason::PortZero);
    }
    is_why("tcp://a:9-8", NetworkReason::PortOrder);
    for port in [
        "65536", "+1", "-1", "01", "0x50", " 1", "https", "1-", "1-2-3", "1,2",
    ] {
        let reason = connect(&format!("tcp://a:{port}"))
            .unwrap_err()
            .reason()
            .clone();
        assert!(
            matches!(reason, Reason::Network(NetworkReason::BadPort(_))),
            "{port}: {reason}"
        );
    }
}

fn at(transport: Transport, address: ListenAddress, ports: Ports) -> ListenGrant {
    ListenGrant::At {
        transport,
        address,
        ports,
        host_port: None,
        ready: false,
    }
}

fn address(text: &str, zone: Option<&str>) -> ListenAddress {
    ListenAddress::Address {
        address: text.parse().unwrap(),
        zone: zone.map(str::to_owned),
    }
}

#[test]
fn places_to_listen_at() {
    use Transport::{Tcp, Udp};
    let published = |host_port, ready| ListenGrant::At {
        transport: Tcp,
        address: ListenAddress::Every,
        ports: Ports::one(80),
        host_port,
        ready,
    };
    let cases = [
        (
            "tcp://127.0.0.1:8080",
            at(Tcp, address("127.0.0.1", None), Ports::one(8080)),
        ),
        (
            "udp://0.0.0.0:53",
            at(Udp, address("0.0.0.0", None), Ports::one(53)),
        ),
        (
            "tcp://[::]:0",
            at(Tcp, address("::", None), Ports::KERNEL_PICKS),
        ),
        (
            "tcp://[fe80::1%eth0]:80",
            at(Tcp, address("fe80::1", Some("eth0")), Ports::one(80)),
        ),
        ("tcp://*:*", at(Tcp, ListenAddress::Every, Ports::ANY)),
        (
            "udp://localhost:8000-8099",
            at(
                Udp,
                ListenAddress::Localhost,
                Ports::new(8000..=8099).unwrap(),
            ),
        ),
        ("tcp://*:80,host-port=8080", published(Some(8080), false)),
        ("tcp://*:80,ready", published(None, true)),
        (
            "tcp://*:80,host-port=8080,ready",
            published(Some(8080), true),
        ),
        ("inherited", ListenGrant::Inherited),
    ];
    for (text, grant) in cases {
        assert_eq!(listen(text).as_ref(), Ok(&grant));
        assert_eq!(grant.to_string(), text);
    }
    assert_eq!(
        listen("tcp://*:80,ready,host-port=8080"),
        Ok(published(Some(8080), true))
    );
    assert_eq!(
        listen("tcp://LOCALHOST:80").unwrap().to_string(),
        "tcp://localhost:80"
    );
}

#[test]
fn places_that_are_none() {
    use NetworkReason::*;
    assert_eq!(*listen("").unwrap_err().reason(), Reason::Empty);
    for (text, reason) in [
        ("8080", NoTransport),
        ("unix:/run/x", NoTransport),
        ("Inherited", NoTransport),
        ("tcp://:80", NoHost),
        ("tcp://80", NoPort),
        ("tcp://example.com:80", ListenName),
        ("tcp://*.example.com:80", ListenName),
        ("tcp://10.0.0.0/8:80", ListenNetwork),
        ("tcp://[::/0]:80", ListenNetwork),
        ("tcp://127.1:80", BadAddress("127.1".into())),
        ("tcp://::1:80", NoBrackets),
        ("tcp://*:0-9", PortZero),
        ("tcp://*:80,host-port=0", PortZero),
        ("tcp://*:80,host-port=", BadPort(String::new())),
        ("tcp://*:80,host-port=1-2", BadPort("1-2".into())),
        ("tcp://*:80,host-port", UnknownOption("host-port".into())),
        ("tcp://*:80,ready=1", UnknownOption("ready=1".into())),
        ("tcp://*:80,", UnknownOption(String::new())),
        ("tcp://*:80,Ready", UnknownOption("Ready".into())),
        ("tcp://*:80,ready,ready", OptionTwice("ready".into())),
        (
            "tcp://*:80,host-port=1,host-port=1",
            OptionTwice("host-port".into()),
        ),
        ("inherited,ready", UnknownOption("ready".into())),
    ] {
        assert_eq!(*listen(text).unwrap_err().reason(), reason.into(), "{text}");
    }
    assert!(why_not_listen("tcp://[::ffff:127.0.0.1]:80").contains("write `127.0.0.1`"));
}

#[test]
fn messages() {
    insta::assert_snapshot!(connect("https://example.com").unwrap_err(), @"`https://example.com` is not a valid connect grant: `https` is not a transport (a web server is reached by `tcp`); accepted is tcp://HOST:PORTS or udp://HOST:PORTS, where HOST is a name, an address or a network, or unix:PATH[:GUEST], or internet[:PORTS], as in `tcp://example.com:443`");
    insta::assert_snapshot!(connect("tcp://0177.1:80").unwrap_err(), @"`tcp://0177.1:80` is not a valid connect grant: `0177.1` is not an address that every program reads alike: IPv4 is four decimal numbers without leading zeros; accepted is tcp://HOST:PORTS or udp://HOST:PORTS, where HOST is a name, an address or a network, or unix:PATH[:GUEST], or internet[:PORTS], as in `tcp://example.com:443`");
    insta::assert_snapshot!(connect("tcp://a\x1b[2J:80").unwrap_err(), @r"`tcp://a\u{1b}[2J:80` is not a valid connect grant: a host name has no `\u{1b}` in it; accepted is tcp://HOST:PORTS or udp://HOST:PORTS, where HOST is a name, an address or a network, or unix:PATH[:GUEST], or internet[:PORTS], as in `tcp://example.com:443`");
    insta::assert_snapshot!(listen("tcp://example.com:80").unwrap_err(), @"`tcp://example.com:80` is not a valid listen grant: a guest listens at an address and not at a name (`localhost` and `*` are taken); accepted is tcp://ADDRESS:PORT or udp://ADDRESS:PORT, after it `,host-port=N` and `,ready` where wanted, or the word `inherited`, as in `tcp://127.0.0.1:8080`");
    insta::assert_snapshot!("10.0.0.1/8".parse::<IpNetwork>().unwrap_err(), @"`10.0.0.1/8` is not a valid network: it has bits beyond its prefix: the network is `10.0.0.0/8`, the single address `10.0.0.1`; accepted is ADDRESS or ADDRESS/PREFIX, as in `2001:db8::/32`");
    insta::assert_snapshot!("a b".parse::<HostName>().unwrap_err(), @"`a b` is not a valid host name: a host name has no ` ` in it; accepted is letters, digits, hyphens and underscores between dots, as in `api.example.com`");
    insta::assert_snapshot!("sctp".parse::<Transport>().unwrap_err(), @"`sctp` is not a valid transport: there is no such name; known: tcp, udp");
}
