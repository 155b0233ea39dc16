//! The order in which it is asked, with files of the tests' own.

use std::{net::UdpSocket, thread};

use simple_dns::{
    CLASS, Packet, RCODE, ResourceRecord,
    rdata::{A, RData},
};
use tempfile::TempDir;

use super::*;

/// A resolver with these files, and a name server that has 198.51.100.1 for each name in `known`.
fn resolver(
    hosts: &str,
    nsswitch: &str,
    known: &'static [&'static str],
) -> (SystemResolver, TempDir) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let dns_port = server.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, peer)) = server.recv_from(&mut buffer) {
            let _ = server.send_to(&answer(&buffer[..length], known), peer);
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let resolver = SystemResolver {
        hosts: write("hosts", hosts),
        resolv_conf: write("resolv.conf", "nameserver 127.0.0.1\n"),
        nsswitch_conf: write("nsswitch.conf", nsswitch),
        dns_port,
    };
    (resolver, folder)
}

fn answer(question: &[u8], known: &[&str]) -> Vec<u8> {
    let packet = Packet::parse(question).unwrap();
    let mut reply = Packet::new_reply(packet.id());
    let name = packet.questions[0].qname.clone();
    reply.questions = packet.questions;
    match known.contains(&name.to_string().as_str()) {
        true => {
            let data = RData::A(A {
                address: 0xc633_6401,
            });
            reply
                .answers
                .push(ResourceRecord::new(name, CLASS::IN, 7, data));
        }
        false => *reply.rcode_mut() = RCODE::NameError,
    }
    reply.build_bytes_vec().unwrap()
}

fn shown(resolver: &SystemResolver, name: &str) -> String {
    match resolver.look_up(&name.parse().unwrap()) {
        Ok(Answer { addresses, ttl }) => format!("{addresses:?} for {ttl:?}"),
        Err(error) => format!("{error:?}"),
    }
}

#[test]
fn the_hosts_file_first_and_dns_after_it() {
    let hosts = "192.0.2.9 here.example\n";
    let (resolver, _folder) = resolver(hosts, "", &["here.example", "there.example"]);
    assert_eq!(shown(&resolver, "here.example"), "[192.0.2.9] for 60s");
    assert_eq!(shown(&resolver, "there.example"), "[198.51.100.1] for 7s");
}

#[test]
fn the_system_is_asked_for_what_dns_does_not_know() {
    // Which knows `localhost` everywhere.
    let (resolver, _folder) = resolver("", "", &[]);
    assert!(shown(&resolver, "localhost").ends_with("for 60s"));
}

#[test]
fn a_whole_name_that_dns_does_not_know_is_not_searched_for() {
    let (resolver, _folder) = resolver("", "", &[]);
    assert_eq!(shown(&resolver, "nowhere.example"), "NotFound");
}

#[test]
fn another_service_before_dns_is_asked_by_the_system() {
    let nsswitch = "hosts: files resolve [!UNAVAIL=return] dns\n";
    let (resolver, _folder) = resolver("", nsswitch, &["localhost"]);
    assert!(shown(&resolver, "localhost").ends_with("for 60s"));
}

#[test]
fn missing_files_are_empty_ones() {
    let resolver = SystemResolver {
        hosts: "/nonexistent/hosts".into(),
        resolv_conf: "/nonexistent/resolv.conf".into(),
        nsswitch_conf: "/nonexistent/nsswitch.conf".into(),
        // Nobody listens there.
        dns_port: UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port(),
    };
    let answer = shown(&resolver, "a.example");
    assert!(
        answer.starts_with("NoAnswer(\"127.0.0.1: Connection refused"),
        "{answer}"
    );
}

#[test]
fn interfaces_by_name_and_by_index() {
    let resolver = SystemResolver::default();
    let index = resolver.interface("lo").unwrap();
    assert_eq!(resolver.interface(&index.to_string()), Some(index));
    for none in [
        "nonesuch7",
        "0",
        "4294967295",
        "",
        "a-name-that-is-far-too-long-for-one",
    ] {
        assert_eq!(resolver.interface(none), None, "{none}");
    }
}

#[test]
fn addresses_without_a_route_come_last_of_all() {
    let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
    // Loopback always has a route; a multicast address of an interface that is not there has none.
    let mut both = vec![ip("ff02::1"), ip("127.0.0.1")];
    let reachable: Vec<IpAddr> = both.iter().copied().filter(|ip| has_route(*ip)).collect();
    assert!(reachable.contains(&ip("127.0.0.1")));
    drop_unreachable(&mut both);
    assert_eq!(both, reachable);
    let mut none = vec![ip("0.0.0.1"), ip("255.255.255.255")];
    none.retain(|ip| !has_route(*ip));
    let before = none.clone();
    drop_unreachable(&mut none);
    assert_eq!(none, before);
}
