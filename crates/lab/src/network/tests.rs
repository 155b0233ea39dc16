use super::*;
use crate::{
    program::Program,
    server::{Readiness, Server},
    subjects::Bare,
};
use std::{
    ffi::OsString,
    io::ErrorKind,
    net::{TcpListener, TcpStream},
    path::Path,
    thread,
    time::{Duration, Instant},
};

fn endpoint(transport: Transport, address: [u8; 4]) -> Endpoint {
    Endpoint {
        transport,
        address: address.into(),
        port: 8080,
        namespace: None,
    }
}

#[test]
fn an_endpoint_is_written_as_a_grant() {
    let loopback = endpoint(Transport::Tcp, [127, 0, 0, 1]);
    assert_eq!(loopback.to_string(), "tcp://127.0.0.1:8080");
    let v6 = Endpoint {
        transport: Transport::Udp,
        address: IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        ..loopback
    };
    assert_eq!(v6.to_string(), "udp://[::1]:8080");
}

/// A server listens at it, ends, and listens again; whoever asks for any port meanwhile gets another one.
#[test]
fn a_port_is_kept_for_a_server_that_comes_and_goes() {
    let port = Port::find(Transport::Tcp).unwrap();
    // The standard library sets SO_REUSEADDR, as servers do. A child of another test's may have the last listener,
    // until it executes.
    let until = Instant::now() + Duration::from_secs(10);
    let listen = || loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port.number)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                thread::yield_now();
            }
            bound => break bound.unwrap(),
        }
    };
    for _ in 0..2 {
        let listener = listen();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // The server is the first to close: a pair of addresses stays behind that waits (TIME_WAIT).
        drop(listener.accept().unwrap());
        drop(client);
    }
    let bare = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number));
    let taken = bind(&bare, &address);
    assert_eq!(taken, Err(rustix::io::Errno::ADDRINUSE));
    let number = port.number;
    drop(port);
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, number)).is_err());
}

#[test]
fn a_port_for_datagrams_can_be_bound() {
    let port = Port::find(Transport::Udp).unwrap();
    UdpSocket::bind((Ipv4Addr::LOCALHOST, port.number)).unwrap();
}

/// Whether this user can make network namespaces with a bridge. Where all tests must run as root, it can.
fn can_bridge() -> bool {
    let can =
        rustix::process::geteuid().is_root() && crate::subjects::server_program("nft").is_some();
    if !can {
        eprintln!("skipped: a bridge needs root and nft (apt-get install nftables)");
    }
    can
}

/// From outside to inside, through the published port, and out again.
#[test]
fn a_bridge_joins_two_namespaces_and_leaves_nothing() {
    if !can_bridge() {
        return;
    }
    let port = Port::find(Transport::Tcp).unwrap();
    let bridge = Bridge::new(Transport::Tcp, port.number).unwrap();
    let workloads = crate::workloads::Workloads::new().unwrap();
    let stream = workloads.add_stream().unwrap();
    let run = |namespace: &Path, words: &[&str]| {
        let mut line: Vec<OsString> = vec!["nsenter".into(), "--net".into()];
        line[1] = format!("--net={}", namespace.display()).into();
        line.push(stream.clone().into());
        line.extend(words.iter().map(Into::into));
        Program::new(&line).unwrap()
    };
    let (inside, outside) = (bridge.inside(), bridge.outside());
    let port = port.number.to_string();
    let mut server = Server {
        program: run(&inside, &["serve", &Bridge::INSIDE.to_string(), &port]),
        readiness: Readiness::Says("ready"),
    };
    let running = server.start().unwrap();
    let mut client = run(
        &outside,
        &["packets", &Bridge::PUBLISHED.to_string(), &port, "1"],
    );
    let said = client.run_for_output().unwrap();
    assert!(said.starts_with("packets-64 "), "{said}");
    drop(running);
    let devices = fs::read_to_string("/proc/net/dev").unwrap();
    assert!(
        !devices.contains("lab0"),
        "the host's own network is as it was"
    );
    drop(bridge);
    assert!(!inside.exists() && !outside.exists());
}

/// Whatever the machine's own is.
#[test]
fn a_new_namespace_sends_by_the_rule_that_is_asked_for() {
    if !can_bridge() {
        return;
    }
    for rule in ["reno", &congestion_control().unwrap()] {
        let script = format!("{}\ncat {CONGESTION_CONTROL}", bridge::tcp_by(rule));
        let mut command = std::process::Command::new("unshare");
        let told = command.args(["--net", "sh", "-ec", &script]).output();
        let told = String::from_utf8(told.unwrap().stdout).unwrap();
        assert_eq!(told.trim(), rule);
    }
}

#[test]
fn a_bridge_needs_root_or_says_what_it_lacks() {
    if rustix::process::geteuid().is_root() {
        return;
    }
    let error = Bridge::new(Transport::Tcp, 1).unwrap_err();
    assert!(format!("{error:#}").starts_with("cannot make its network"));
}

#[test]
fn what_needs_no_network_says_nothing_of_one() {
    assert!(!Network::None.is_some());
    let end = endpoint(Transport::Udp, [127, 0, 0, 1]);
    assert_eq!(Network::Listens(end.clone()).endpoint(), Some(&end));
    let line = crate::subjects::Subject::command_line(
        &Bare,
        &palisade_policy::Policy::default(),
        &palisade_wall::Command::new("true"),
        &Network::Connects(end),
        Path::new("/"),
    );
    assert_eq!(line.unwrap(), ["true"]);
}
