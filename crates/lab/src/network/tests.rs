use super::*;
use crate::{
    subjects::Bare,
    trial::{Program, ending_with_the_lab},
};
use std::{
    ffi::OsString,
    io::{BufRead, BufReader},
    net::{TcpListener, TcpStream},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
};

fn shell(script: &str) -> Program {
    Program::new(&["/bin/sh", "-c", script].map(OsString::from)).unwrap()
}

fn server(script: &str, says: &'static str) -> Server {
    Server {
        program: shell(script),
        readiness: Readiness::Says(says),
    }
}

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
    // The standard library sets SO_REUSEADDR, as servers do.
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, port.number)).unwrap();
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

#[test]
fn a_server_is_there_once_it_says_so_and_gone_once_it_is_dropped() {
    let mut server = server("echo here I am; exec sleep 600", "here I am");
    for _ in 0..2 {
        let running = server.start().unwrap();
        let folder = format!("/proc/{}", running.id());
        assert!(Path::new(&folder).exists());
        drop(running);
        assert!(!Path::new(&folder).exists());
    }
}

#[test]
fn a_server_that_ends_before_it_is_there_says_why() {
    let error = server("echo no such port >&2; exit 1", "ready").start();
    let text = format!("{:#}", error.expect_err("no server"));
    assert_eq!(text, "the server: it ended: no such port");
}

#[test]
fn a_server_that_does_not_heed_is_ended_with_force() {
    let mut server = server(
        "trap '' TERM; echo ready; while :; do sleep 1; done",
        "ready",
    );
    let running = server.start().unwrap();
    let folder = format!("/proc/{}", running.id());
    drop(running);
    assert!(!Path::new(&folder).exists());
}

/// A listener of our own that answers one client.
#[test]
fn a_server_is_there_once_it_answers() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        io::Write::write_all(&mut &stream, b"+PONG\r\n").unwrap();
        line
    });
    let mut server = Server {
        program: shell("exec sleep 600"),
        readiness: Readiness::Answers(Answer {
            transport: Transport::Tcp,
            address,
            namespace: None,
            question: b"PING\r\n",
            answer: b"+PONG",
        }),
    };
    server.start().unwrap();
    assert_eq!(answering.join().unwrap(), "PING\r\n");
}

#[test]
fn a_client_that_hangs_is_ended() {
    let limit = std::time::Duration::from_millis(1);
    let error = shell("echo waiting >&2; exec sleep 600").run_for_output_within(limit);
    let text = error.unwrap_err().to_string();
    assert!(text.starts_with("it did not end within 0 s"), "{text}");
    let said = shell("head -c 300000 /dev/zero | tr '\\0' x")
        .run_for_output_within(std::time::Duration::from_secs(60));
    assert_eq!(said.unwrap().len(), 300_000);
}

/// A lab that is killed cannot end its servers itself.
#[test]
fn a_server_ends_with_the_lab() {
    let line = ["sh", "-c", "echo $$; exec sleep 600"].map(OsString::from);
    let line = ending_with_the_lab(line.to_vec());
    let words: Vec<_> = line.iter().map(|word| word.to_str().unwrap()).collect();
    let quoted = shlex::try_join(words).unwrap();
    let mut lab = Command::new("sh")
        .args(["-c", &format!("{quoted} & wait")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = String::new();
    let mut said = BufReader::new(lab.stdout.take().unwrap());
    said.read_line(&mut server).unwrap();
    lab.kill().unwrap();
    assert_eq!(lab.wait().unwrap().signal(), Some(9));
    // Its end is the end of the pipe that it holds.
    assert_eq!(said.read_line(&mut server).unwrap(), 0);
    assert!(
        !Path::new(&format!("/proc/{}", server.trim()))
            .join("exe")
            .exists()
    );
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
    let devices = std::fs::read_to_string("/proc/net/dev").unwrap();
    assert!(
        !devices.contains("lab0"),
        "the host's own network is as it was"
    );
    drop(bridge);
    assert!(!inside.exists() && !outside.exists());
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
