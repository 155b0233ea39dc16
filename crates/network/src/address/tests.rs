use super::*;

fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn network(text: &str) -> IpNetwork {
    text.parse().unwrap()
}

#[test]
fn one_destination_has_one_form() {
    for (written, arrives) in [
        ("192.0.2.1:80", "192.0.2.1:80"),
        ("[::ffff:192.0.2.1]:80", "192.0.2.1:80"),
        ("[::ffff:127.0.0.1]:80", "127.0.0.1:80"),
        ("0.0.0.0:80", "127.0.0.1:80"),
        ("[::ffff:0.0.0.0]:80", "127.0.0.1:80"),
        ("[::]:80", "[::1]:80"),
        ("[::1]:80", "[::1]:80"),
        ("[fe80::1%7]:80", "[fe80::1%7]:80"),
        // An IPv4-compatible address is an IPv6 address of its own to the kernel.
        ("[::127.0.0.1]:80", "[::127.0.0.1]:80"),
    ] {
        assert_eq!(destination(socket(written)), socket(arrives), "{written}");
    }
    let flow = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 80, 5, 0).into();
    assert_eq!(destination(flow), socket("[::1]:80"));
    assert_eq!(canonical(socket("0.0.0.0:80")), socket("0.0.0.0:80"));
    assert_eq!(canonical(socket("[::]:80")), socket("[::]:80"));
    assert_eq!(
        canonical(socket("[::ffff:0.0.0.0]:80")),
        socket("0.0.0.0:80")
    );
}

#[test]
fn special_ranges() {
    for (address, name, range) in [
        ("127.0.0.1", "loopback", "127.0.0.0/8"),
        ("127.255.255.254", "loopback", "127.0.0.0/8"),
        ("::1", "loopback", "::1"),
        ("169.254.169.254", "link-local", "169.254.0.0/16"),
        ("fe80::1", "link-local", "fe80::/10"),
        ("febf::1", "link-local", "fe80::/10"),
        ("fd00:ec2::254", "cloud metadata", "fd00:ec2::254"),
        ("fd20:ce::254", "cloud metadata", "fd20:ce::254"),
        ("168.63.129.16", "cloud metadata", "168.63.129.16"),
        ("100.100.100.200", "cloud metadata", "100.100.100.200"),
        ("192.0.0.192", "cloud metadata", "192.0.0.192"),
        ("0.1.2.3", "this network", "0.0.0.0/8"),
        ("224.0.0.1", "multicast", "224.0.0.0/4"),
        ("ff02::1", "multicast", "ff00::/8"),
        ("255.255.255.255", "broadcast", "255.255.255.255"),
        ("240.0.0.1", "reserved", "240.0.0.0/4"),
        ("::", "unspecified", "::"),
        // What ends up there.
        (
            "64:ff9b::169.254.169.254",
            "link-local",
            "64:ff9b::a9fe:0/112",
        ),
        ("64:ff9b::127.0.0.1", "loopback", "64:ff9b::7f00:0/104"),
        ("2002:7f00:1::1", "loopback", "2002:7f00::/24"),
        ("::127.0.0.1", "loopback", "::7f00:0/104"),
        // Teredo, with its client at 127.0.0.1.
        ("2001::80ff:fffe", "loopback", "2001::80ff:fffe"),
    ] {
        let found = special_range(ip(address)).map(|range| (range.name, range.network));
        assert_eq!(found, Some((name, network(range))), "{address}");
        assert!(!is_public(ip(address)), "{address}");
    }
}

#[test]
fn clouds_hand_out_credentials_at_these() {
    for text in ["169.254.169.254", "168.63.129.16", "fd00:ec2::254"] {
        assert!(is_metadata(ip(text)), "{text}");
    }
    for text in ["169.254.169.253", "168.63.129.17", "127.0.0.1", "fd00::1"] {
        assert!(!is_metadata(ip(text)), "{text}");
    }
}

#[test]
fn private_addresses_are_not_special_and_not_public() {
    for address in [
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "198.18.0.1",
        "192.0.0.1",
        "fc00::1",
        "fd12:3456::1",
        "fec0::1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::8.8.8.8",
        "2002:a00:1::1",
        "2002:c0a8:101::1",
        "::10.0.0.1",
        // Teredo, with its client at 10.0.0.1.
        "2001:0:4136:e378::f5ff:fffe",
        "2001:2::1",
        // Nothing of the internet's.
        "::8.8.8.8",
        "::ffff:0:10.0.0.1",
        "100::1",
        "5f00::1",
        "1fff::1",
        "4000::1",
    ] {
        assert_eq!(special_range(ip(address)), None, "{address}");
        assert!(!is_public(ip(address)), "{address}");
    }
    for address in [
        "8.8.8.8",
        "172.32.0.1",
        "100.128.0.1",
        "2001:db8::1",
        "2001:4860:4860::8888",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
    ] {
        assert!(is_public(ip(address)), "{address}");
    }
}

#[test]
fn a_wider_network_does_not_cover_a_special_address() {
    for (grant, address, covered) in [
        ("0.0.0.0/0", "8.8.8.8", true),
        ("0.0.0.0/0", "10.0.0.1", true),
        ("0.0.0.0/0", "127.0.0.1", false),
        ("0.0.0.0/0", "169.254.169.254", false),
        ("0.0.0.0/0", "255.255.255.255", false),
        ("0.0.0.0/0", "224.0.0.1", false),
        ("0.0.0.0/0", "0.0.0.1", false),
        ("126.0.0.0/7", "127.0.0.1", false),
        ("127.0.0.0/8", "127.0.0.1", true),
        ("127.0.0.1", "127.0.0.1", true),
        ("127.0.0.1", "127.0.0.2", false),
        ("169.254.0.0/16", "169.254.169.254", true),
        ("168.0.0.0/7", "169.254.169.254", false),
        ("240.0.0.0/4", "255.255.255.255", false),
        ("240.0.0.0/4", "250.0.0.1", true),
        ("100.64.0.0/10", "100.64.0.1", true),
        ("100.64.0.0/10", "100.100.100.200", false),
        ("::/0", "2001:db8::1", true),
        ("::/0", "::1", false),
        ("::/0", "fe80::1", false),
        ("::/0", "ff02::fb", false),
        ("::/0", "64:ff9b::127.0.0.1", false),
        ("64:ff9b::/96", "64:ff9b::127.0.0.1", false),
        ("64:ff9b::/96", "64:ff9b::8.8.8.8", true),
        ("64:ff9b::7f00:0/104", "64:ff9b::127.0.0.1", true),
        ("fd00::/8", "fd00::1", true),
        ("fd00::/8", "fd00:ec2::254", false),
        ("fd00:ec2::254", "fd00:ec2::254", true),
        ("fe80::/10", "fe80::1", true),
        ("::/0", "8.8.8.8", false),
    ] {
        assert_eq!(
            covers(&network(grant), ip(address)),
            covered,
            "{grant} {address}"
        );
    }
}
