use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    thread,
};

use super::*;
use crate::{Answer, Network, ResolveError, proxy::tests::bound_socket};

struct Nobody;

impl Resolve for Nobody {
    fn addresses(&self, _: &HostName) -> Result<Answer, ResolveError> {
        Ok(Answer {
            addresses: vec![Ipv4Addr::new(198, 51, 100, 1).into()],
            ttl: Duration::from_secs(60),
        })
    }

    fn interface(&self, _: &str) -> Option<u32> {
        None
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

fn process(name: &str) -> Process {
    Process {
        pid: 7,
        name: name.into(),
    }
}

fn gate() -> Gate {
    let grants = ["tcp://*.example.com:443", "tcp://named.example:443"];
    let grants = grants.map(|grant| grant.parse().unwrap());
    Gate::new(Network::resolve(&grants, &[], &Nobody).unwrap())
}

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

fn refused(target: Target, refusal: Refusal) -> Observation {
    Observation {
        call: Call::Proxy,
        target,
        process: process("a\nname"),
        refusal: Some(refusal),
        probe: false,
        count: 3,
    }
}

fn by_proxy(refusal: ProxyRefusal) -> Refusal {
    Refusal {
        reason: Reason::Proxy(refusal),
        grant: None,
    }
}

#[test]
fn each_refusal_arrives_as_it_was() {
    let gate = gate();
    let host = || Target::Name(Transport::Tcp, name("a.example.com"), 443);
    let address: SocketAddr = "[2001:db8::1]:443".parse().unwrap();
    let to_address = Refusal {
        grant: Some(flag::connect_to(Transport::Tcp, address)),
        ..by_proxy(ProxyRefusal::Request(RequestFault::Address(Some(address))))
    };
    let other_name = HelloFault::OtherName("b.example.com".into());
    let mut all = vec![
        (Target::Address(Transport::Tcp, address), to_address),
        (
            Target::Other("a request".into()),
            by_proxy(ProxyRefusal::Request(RequestFault::Address(None))),
        ),
        (host(), by_proxy(ProxyRefusal::Hello(other_name))),
    ];
    for (name_text, port) in [("a.example.com", 80), ("evil.example", 443)] {
        let refusal = gate.network().route(&name(name_text), port).unwrap_err();
        all.push((Target::Name(Transport::Tcp, name(name_text), port), refusal));
    }
    for addresses in [&["fe80::1".parse().unwrap()][..], &[]] {
        let named = name("a.example.com");
        let refusal = gate.network().allow_behind_name(&named, addresses, 443);
        all.push((host(), refusal.unwrap_err()));
    }
    for fault in OF_REQUESTS {
        let target = Target::Other("a request".into());
        all.push((target, by_proxy(ProxyRefusal::Request(fault))));
    }
    for fault in OF_HELLOS {
        all.push((host(), by_proxy(ProxyRefusal::Hello(fault))));
    }
    for (target, refusal) in all {
        let sent = refused(target, refusal);
        assert_eq!(decode(&encode(&sent).unwrap()).as_ref(), Some(&sent));
    }
}

#[test]
fn words_of_its_own_are_not_passed_on() {
    for told in [
        "",
        "\n",
        "1 7 not-granted a.example.com 443",
        "1 7 not-granted a.example.com 65536\nsh",
        "-1 7 not-granted a.example.com 443\nsh",
        "1 7 not-granted a\u{1b}[2J.example 443\nsh",
        "1 7 other-name a.example.com 443 --write=/\nsh",
        "1 7 other-name a.example.com 443\nsh",
        "1 7 special a.example.com 443\nsh",
        "1 7 request 8\nsh",
        "1 7 request -1\nsh",
        "1 7 hello a.example.com 443 5\nsh",
    ] {
        assert_eq!(decode(told), None, "{told:?}");
    }
    let told = decode("1 7 behind a.example.com 443 --write=/\nsh").unwrap();
    assert_eq!(told.refusal.unwrap().grant, None);
    let told = decode(&format!("1 7 request 0\n{}", "x".repeat(9000))).unwrap();
    assert_eq!(told.process.name.len(), 64);
}

#[test]
fn no_news_makes_decoding_panic() {
    for bytes in [
        &b""[..],
        b"c",
        b"c127.0.0.1:1",
        b"c127.0.0.1:1 7",
        b"a",
        b"\xff",
        b"x",
    ] {
        assert_eq!(News::decode(bytes), None, "{bytes:?}");
    }
    let from = "127.0.0.1:40000".parse().unwrap();
    let addresses = vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
    for news in [
        News::Connection(from, process("a name")),
        News::Addresses(name("a.example"), addresses),
        News::Addresses(name("a.example"), vec![]),
    ] {
        assert_eq!(News::decode(news.encode().as_bytes()), Some(news));
    }
}

/// A supervisor and its proxy.
fn with_proxy(act: impl FnOnce(&RemoteProxy, SocketAddr)) {
    let gate = Arc::new(gate());
    let (remote, theirs) = connect().unwrap();
    let listening = Listening::begin(&gate).unwrap().unwrap();
    let address = gate.proxy().unwrap();
    let serving = thread::spawn(move || serve(&theirs, &listening, gate, Arc::new(Nobody)));
    act(&remote, address);
    drop(remote);
    serving.join().unwrap().unwrap_or_default();
}

fn answer_to(remote: &RemoteProxy, proxy: SocketAddr, request: &str) -> String {
    let (socket, from) = bound_socket();
    remote.admit(from, process("client"));
    rustix::net::connect(&socket, &proxy).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn what_it_refuses_is_told_at_the_end() {
    with_proxy(|remote, proxy| {
        let answer = answer_to(remote, proxy, "CONNECT evil.example:443 HTTP/1.0\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        let (refused, more) = remote.finish(PATIENCE);
        let shown: Vec<String> = refused.iter().map(ToString::to_string).collect();
        let why = "no grant covers it; `--connect tcp://evil.example:443` would allow it";
        assert_eq!(
            shown,
            [format!("client (7): proxy tcp://evil.example:443: {why}")]
        );
        assert_eq!(more, 0);
    });
}

/// The one address that the name has now may not stand for it.
#[test]
fn new_addresses_hold_for_its_verdicts() {
    with_proxy(|remote, proxy| {
        remote.pin(&name("named.example"), &[Ipv4Addr::LOCALHOST.into()]);
        let answer = answer_to(remote, proxy, "CONNECT named.example:443 HTTP/1.0\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    });
}

#[test]
fn one_that_says_too_much_is_not_heard_out() {
    let (remote, theirs) = connect().unwrap();
    let speaker = thread::spawn(
        move || {
            while send(theirs.as_fd(), b"1 7 request 0\nsh", None).is_ok() {}
        },
    );
    assert_eq!(remote.finish(PATIENCE).0.len(), LIMIT);
    drop(remote);
    speaker.join().unwrap();
}

#[test]
fn one_that_says_nothing_is_not_waited_for() {
    let (remote, _theirs) = connect().unwrap();
    assert_eq!(remote.finish(Duration::from_millis(1)), (Vec::new(), 1));
}
