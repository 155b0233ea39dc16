//! The proxy between a client and a server that the tests run, on loopback. The server is the
//! witness: what it has not received was not let through.

use std::{
    io::{Read, Write},
    net::{IpAddr, Shutdown},
    sync::mpsc::{self, Receiver},
};

use palisade_policy::{ConnectGrant, HostName};
use rustix::net::{AddressFamily, SocketType};

use super::{
    hello::tests::{encrypted_hello, hello, nameless_hello},
    *,
};
use crate::{Answer, Network, ResolveError};

/// Names and where they lead; only 127.0.0.1 is granted as an address.
struct Table;

impl Resolve for Table {
    fn addresses(&self, name: &HostName) -> Result<Answer, ResolveError> {
        let address: IpAddr = match name.as_str() {
            "rebound.example.com" => "127.0.0.2".parse().unwrap(),
            "metadata.example.com" => "169.254.169.254".parse().unwrap(),
            "missing.example.com" => return Err(ResolveError::NotFound),
            "silent.example.com" => {
                return Err(ResolveError::NoAnswer("192.0.2.53: timed out".into()));
            }
            _ => Ipv4Addr::LOCALHOST.into(),
        };
        Ok(Answer {
            addresses: vec![address],
            ttl: Duration::from_secs(60),
        })
    }

    fn interface(&self, _: &str) -> Option<u32> {
        None
    }
}

/// A proxy and the server behind it.
struct Stage {
    proxy: Proxy,
    address: SocketAddr,
    observations: Arc<Observations>,
    port: u16,
    /// What each connection to the server has brought, once its client has said all.
    received: Receiver<Vec<u8>>,
}

const PATIENT: Limits = Limits {
    // Nothing is to end by time on a slow machine.
    request: Duration::from_secs(60),
    hello: Duration::from_secs(60),
    ..LIMITS
};

fn process() -> Process {
    Process {
        pid: 7,
        name: "client".into(),
    }
}

impl Stage {
    fn new() -> Self {
        Self::with(PATIENT)
    }

    /// `*.example.com` and `named.example` are granted at the server's port, with its address.
    fn with(limits: Limits) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let received = witness(server);
        let grants = [
            "tcp://*.example.com",
            "tcp://named.example",
            "tcp://127.0.0.1",
        ];
        let grant = |host: &&str| format!("{host}:{port}").parse().unwrap();
        let connect: Vec<ConnectGrant> = grants.iter().map(grant).collect();
        let network = Network::resolve(&connect, &[], &Table).unwrap();
        let gate = Arc::new(Gate::new(network));
        let observations = Arc::new(Observations::of_everything());
        let (resolver, seen) = (Arc::new(Table), Arc::clone(&observations));
        let listening = Listening::begin(&gate).unwrap().unwrap();
        let proxy = Proxy::serve_with(limits, &listening, Arc::clone(&gate), resolver, seen, None);
        Self {
            proxy: proxy.unwrap(),
            address: gate.proxy().unwrap(),
            observations,
            port,
            received,
        }
    }

    /// A connection to the proxy, as the broker makes one.
    fn connect(&self) -> TcpStream {
        let (socket, from) = bound_socket();
        self.proxy.admit(from, process());
        rustix::net::connect(&socket, &self.address).unwrap();
        socket.into()
    }

    fn request(&self, name: &str) -> Vec<u8> {
        let port = self.port;
        format!("CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n").into()
    }

    /// All that the proxy answers to these bytes.
    fn answer(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // A reset ends an answer as well.
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    fn answer_in_words(&self, bytes: &[u8]) -> String {
        let answer = String::from_utf8_lossy(&self.answer(bytes)).into_owned();
        answer.replace(&self.port.to_string(), "PORT")
    }

    /// A connection with an open tunnel to this host.
    fn tunnel(&self, name: &str) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(&self.request(name)).unwrap();
        assert_eq!(read_exactly(&mut stream, ESTABLISHED.len()), ESTABLISHED);
        stream.write_all(&hello(name)).unwrap();
        stream
    }

    fn observed(&self) -> Vec<String> {
        let (observed, more) = self.observations.drain();
        assert_eq!(more, 0);
        let port = self.port.to_string();
        observed
            .iter()
            .map(|one| one.to_string().replace(&port, "PORT"))
            .collect()
    }

    /// What has reached the server; asked once the proxy is gone, and with it all connections.
    fn received(self) -> Vec<Vec<u8>> {
        drop(self.proxy);
        // The server's last connection is this one.
        let mut last = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        last.write_all(LAST).unwrap();
        drop(last);
        self.received
            .iter()
            .take_while(|bytes| bytes != LAST)
            .collect()
    }
}

/// A socket of version 4 and its address.
pub(super) fn bound_socket() -> (OwnedFd, SocketAddr) {
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let socket = rustix::net::socket(family, kind, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = rustix::net::getsockname(&socket).unwrap();
    (socket, address.try_into().unwrap())
}

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
const LAST: &[u8] = b"the last";

fn read_exactly(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// A server that says back what it hears, one connection after another.
fn witness(server: TcpListener) -> Receiver<Vec<u8>> {
    let (tell, received) = mpsc::channel();
    thread::spawn(move || {
        for mut stream in server.incoming().flatten() {
            let mut heard = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                heard.extend(&buffer[..count]);
                if stream.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            if tell.send(heard).is_err() {
                return;
            }
        }
    });
    received
}

#[test]
fn a_tunnel_carries_bytes_both_ways_and_ends_one_way_at_a_time() {
    let stage = Stage::new();
    let hello = hello("a.b.example.com");
    let mut tunnel = stage.tunnel("a.b.example.com");
    assert_eq!(read_exactly(&mut tunnel, hello.len()), hello);
    tunnel.write_all(b"more").unwrap();
    assert_eq!(read_exactly(&mut tunnel, 4), b"more");
    tunnel.write_all(b"and all").unwrap();
    tunnel.shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    tunnel.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"and all");
    assert_eq!(
        stage.observed(),
        ["client (7): proxy tcp://a.b.example.com:PORT: allowed"]
    );
    assert_eq!(stage.received(), [[&hello[..], b"moreand all"].concat()]);
}

#[test]
fn a_tunnel_carries_more_than_fits_into_any_buffer() {
    let stage = Stage::new();
    let first = hello("a.example.com").len();
    let mut tunnel = stage.tunnel("a.example.com");
    let sent: Vec<u8> = (0..4 << 20).map(|index: u32| (index % 251) as u8).collect();
    let mut writer = tunnel.try_clone().unwrap();
    let bytes = sent.clone();
    let writing = thread::spawn(move || {
        writer.write_all(&bytes).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut heard = Vec::new();
    tunnel.read_to_end(&mut heard).unwrap();
    writing.join().unwrap();
    assert!(heard[first..] == sent);
}

#[test]
fn what_comes_with_the_request_is_the_start_of_the_tunnel() {
    let stage = Stage::new();
    let hello = hello("a.example.com");
    let request = stage.request("a.example.com");
    let mut stream = stage.connect();
    stream.write_all(&[&request[..], &hello].concat()).unwrap();
    assert_eq!(read_exactly(&mut stream, ESTABLISHED.len()), ESTABLISHED);
    assert_eq!(read_exactly(&mut stream, hello.len()), hello);
    drop(stream);

    // A second request, plain HTTP, or another protocol does not get through.
    for smuggled in [
        stage.request("b.example.com"),
        b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_vec(),
        b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
    ] {
        let answer = stage.answer(&[&request[..], &smuggled].concat());
        assert_eq!(answer, ESTABLISHED);
    }
    let received = stage.received();
    assert_eq!(
        received
            .iter()
            .filter(|bytes| !bytes.is_empty())
            .collect::<Vec<_>>(),
        [&hello]
    );
}

/// Each is refused, and nothing reaches the server, not even a connection.
#[test]
fn requests_that_are_refused() {
    let stage = Stage::new();
    let port = stage.port;
    let connect = |name: &str| format!("CONNECT {name}:PORT HTTP/1.1\r\nHost: {name}:PORT\r\n\r\n");
    let mut shown = String::new();
    for request in [
        connect("example.com"),
        connect("evil.example"),
        connect("badexample.com"),
        connect("example.com.evil.example"),
        connect("localhost"),
        connect("127.0.0.1"),
        connect("[::1]"),
        connect("2130706433"),
        connect("rebound.example.com"),
        connect("metadata.example.com"),
        connect("missing.example.com"),
        connect("silent.example.com"),
        "CONNECT a.example.com:1 HTTP/1.1\r\nHost: a.example.com:1\r\n\r\n".into(),
        "CONNECT named.example:1 HTTP/1.1\r\nHost: named.example:1\r\n\r\n".into(),
        "CONNECT a.example.com:PORT HTTP/1.1\r\nHost: evil.example\r\n\r\n".into(),
        "CONNECT a.example.com:PORT HTTP/1.1\r\nHost: a.example.com\r\nHost: evil.example\r\n\r\n".into(),
        "CONNECT a.example.com:PORT HTTP/1.1\r\nHost: a.example.com\nX: y\r\n\r\n".into(),
        "CONNECT a.example.com:PORT HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: chunked\r\n\r\n"
            .into(),
        "CONNECT a.example.com:PORT HTTP/2.0\r\n\r\n".into(),
        "GET http://a.example.com:PORT/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n".into(),
        format!("CONNECT a.example.com:PORT HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9000)),
    ] {
        let answer = stage.answer_in_words(request.replace("PORT", &port.to_string()).as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let request: String = request.escape_debug().take(90).collect();
        let status = head.lines().next().unwrap();
        shown += &format!("{request}\n  {status}\n  {}\n", body.trim_end());
    }
    insta::assert_snapshot!("requests", shown);
    insta::assert_snapshot!("observed", stage.observed().join("\n"));
    assert_eq!(stage.received(), Vec::<Vec<u8>>::new());
}

/// Each has a tunnel to a granted host and says something else in it.
#[test]
fn tunnels_that_are_refused() {
    const DENIED: &[u8] = &[21, 3, 3, 0, 2, 2, 49];
    let stage = Stage::new();
    for (first, answer) in [
        (hello("evil.example"), DENIED),
        (hello("b.example.com"), DENIED),
        (hello("127.0.0.1"), DENIED),
        (nameless_hello(), DENIED),
        (encrypted_hello("a.example.com"), DENIED),
        (vec![22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff], DENIED),
        (b"EHLO a.example.com\r\n".to_vec(), b""),
    ] {
        let request = stage.request("a.example.com");
        assert_eq!(
            stage.answer(&[request, first].concat()),
            [ESTABLISHED, answer].concat()
        );
    }
    insta::assert_snapshot!("tunnels", stage.observed().join("\n"));
    assert!(stage.received().iter().all(Vec::is_empty));
}

#[test]
fn a_granted_name_goes_through_too() {
    let stage = Stage::new();
    let mut tunnel = stage.tunnel("named.example");
    let hello = hello("named.example");
    assert_eq!(read_exactly(&mut tunnel, hello.len()), hello);
    drop(tunnel);
    assert_eq!(stage.received(), [hello]);
}

#[test]
fn a_request_must_come_in_time_however_steadily() {
    let stage = Stage::with(Limits {
        request: Duration::from_millis(100),
        ..PATIENT
    });
    let mut stream = stage.connect();
    stream
        .set_read_timeout(Some(Duration::from_millis(5)))
        .unwrap();
    stream.write_all(b"CONNECT ").unwrap();
    let mut answer = [0; 12];
    let answered = loop {
        match stream.read(&mut answer) {
            Ok(count) => break &answer[..count],
            // One byte more, each time that nothing has come.
            Err(_) => stream.write_all(b"a").unwrap(),
        }
    };
    assert_eq!(answered, b"HTTP/1.1 408");
    assert_eq!(stage.received(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_hello_must_come_in_time() {
    let stage = Stage::with(Limits {
        hello: Duration::from_millis(50),
        ..PATIENT
    });
    let partial = &hello("a.example.com")[..40];
    let answer = stage.answer(&[&stage.request("a.example.com")[..], partial].concat());
    assert_eq!(answer, ESTABLISHED);
    assert!(stage.received().iter().all(Vec::is_empty));
}

#[test]
fn a_silent_tunnel_ends() {
    let stage = Stage::with(Limits {
        idle: Idle {
            open: Duration::from_millis(50),
            half_closed: Duration::from_millis(50),
        },
        ..PATIENT
    });
    let hello = hello("a.example.com");
    let mut heard = Vec::new();
    stage
        .tunnel("a.example.com")
        .read_to_end(&mut heard)
        .unwrap();
    assert_eq!(heard, hello);
    assert_eq!(stage.received(), [hello]);
}

#[test]
fn strangers_get_nothing() {
    let stage = Stage::new();
    let mut stranger = TcpStream::connect(stage.address).unwrap();
    // Nor does it help that another connection is announced, or the same one late.
    let (_other, from) = bound_socket();
    stage.proxy.admit(from, process());
    let _ = stranger.write_all(&stage.request("a.example.com"));
    let mut answer = Vec::new();
    let _ = stranger.read_to_end(&mut answer);
    assert_eq!(answer, b"");
    assert_eq!(stage.observed(), Vec::<String>::new());
    assert_eq!(stage.received(), Vec::<Vec<u8>>::new());
}

/// As many at a time as they like, before and while the guest asks.
#[test]
fn strangers_take_no_place_from_the_guest() {
    const ROUNDS: usize = 20;
    let stage = Stage::new();
    let (address, over) = (stage.address, AtomicUsize::new(0));
    let flood = || {
        while over.load(Ordering::Relaxed) == 0 {
            let strangers: Vec<_> = (0..100).map(|_| TcpStream::connect(address)).collect();
            drop(strangers);
        }
    };
    thread::scope(|scope| {
        scope.spawn(flood);
        scope.spawn(flood);
        let hello = hello("a.example.com");
        for _ in 0..ROUNDS {
            let mut tunnel = stage.tunnel("a.example.com");
            assert_eq!(read_exactly(&mut tunnel, hello.len()), hello);
        }
        over.store(1, Ordering::Relaxed);
    });
}

#[test]
fn too_many_connections_are_told_so() {
    let stage = Stage::with(Limits {
        served: 1,
        ..PATIENT
    });
    let mut first = stage.tunnel("a.example.com");
    read_exactly(&mut first, hello("a.example.com").len());
    let answer = stage.answer_in_words(&stage.request("a.example.com"));
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

#[test]
fn an_announcement_is_good_for_one_connection() {
    let admission = Admission::default();
    let peer = "127.0.0.1:40000".parse().unwrap();
    admission.announce(peer, process());
    assert_eq!(admission.take(peer), Some(process()));
    assert_eq!(admission.take(peer), None);
}

#[test]
fn announcements_that_nobody_takes_are_forgotten() {
    let admission = Admission::default();
    let peer = |index: u32| SocketAddr::new(Ipv4Addr::from_bits(0x7f00_0001 + index).into(), 1);
    for index in 0..5000 {
        admission.announce(peer(index), process());
    }
    assert_eq!(admission.take(peer(0)), None);
    assert_eq!(admission.take(peer(4999)), Some(process()));
}

#[test]
fn dropping_the_proxy_ends_everything() {
    let stage = Stage::new();
    let address = stage.address;
    let mut tunnel = stage.tunnel("a.example.com");
    let hello = hello("a.example.com");
    read_exactly(&mut tunnel, hello.len());
    let mut waiting = TcpStream::connect(address).unwrap();
    let mut asking = stage.connect();
    asking.write_all(b"CONN").unwrap();
    assert_eq!(stage.received(), [hello]);
    assert!(TcpStream::connect(address).is_err());
    for stream in [&mut tunnel, &mut asking] {
        assert!(!matches!(stream.read(&mut [0]), Ok(1)));
    }
    drop(waiting.write_all(b"x"));
}

#[test]
fn no_proxy_without_a_wildcard() {
    let grant = "tcp://named.example:443".parse().unwrap();
    let loopback = "tcp://127.0.0.1:443".parse().unwrap();
    let network = Network::resolve(&[grant, loopback], &[], &Table).unwrap();
    let gate = Arc::new(Gate::new(network));
    let listening = Listening::begin(&gate).unwrap();
    assert!(listening.is_none() && gate.proxy().is_none());
}

#[test]
fn the_gate_lets_the_guest_connect_to_the_proxy_and_to_nothing_beside_it() {
    use palisade_policy::Transport::{Tcp, Udp};
    let stage = Stage::new();
    let gate = &stage.proxy.shared.gate;
    let address = stage.address;
    let mapped: SocketAddr = format!("[::ffff:127.0.0.1]:{}", address.port())
        .parse()
        .unwrap();
    assert_eq!(gate.connect(Tcp, address), Ok(address));
    assert_eq!(gate.connect(Tcp, mapped), Ok(address));
    assert!(gate.connect(Udp, address).is_err());
    let beside: SocketAddr = format!("127.0.0.2:{}", address.port()).parse().unwrap();
    assert!(gate.connect(Tcp, beside).is_err());
}

#[test]
fn the_environment_names_the_proxy_and_what_needs_none() {
    let grants = [
        "tcp://*.example.com:443",
        "tcp://example.com:443",
        "tcp://com:443",
        "tcp://other.example:443",
        "tcp://other.example:80",
        "udp://udp.example:53",
        "tcp://127.0.0.0/8:*",
        "tcp://10.0.0.0/8:443",
        "tcp://[2001:db8::/32]:443",
        "tcp://localhost:5432",
    ];
    let connect: Vec<ConnectGrant> = grants.iter().map(|grant| grant.parse().unwrap()).collect();
    let udp: ConnectGrant = "udp://127.0.0.1:53".parse().unwrap();
    let network = Network::resolve(&[&connect[..], &[udp]].concat(), &[], &Table).unwrap();
    let variables = environment::environment("127.0.0.1:4321".parse().unwrap(), &network);
    let lines: Vec<String> = variables
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}
