//! TLS: certificates, what is negotiated, and what a broken certificate leaves.

use super::{
    http2::{get, handshake, with_client},
    limits::wait_until_gone,
    stand_in::{Server, anywhere, edge, short},
};
use crate::raw_http::Client;
use palisade_host::config::{Limits, Listener, Tls};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, ServerName};
use std::{fs, io, net::SocketAddr, path::PathBuf, sync::Arc};
use tempfile::TempDir;

/// A certificate for `NAME` and its key, in files.
struct Files {
    folder: TempDir,
    der: CertificateDer<'static>,
}

impl Files {
    fn new(name: &str) -> Self {
        let files = Self {
            folder: tempfile::tempdir().expect("a folder"),
            der: CertificateDer::from(Vec::new()),
        };
        files.renew(name)
    }

    /// Writes another certificate over the first.
    fn renew(mut self, name: &str) -> Self {
        let CertifiedKey { cert, signing_key } = certificate(name);
        fs::write(self.certificate(), cert.pem()).expect("a file");
        fs::write(self.key(), signing_key.serialize_pem()).expect("a file");
        self.der = cert.der().clone();
        self
    }

    fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    fn listener(&self) -> Listener {
        Listener {
            tls: vec![self.tls()],
            ..anywhere()
        }
    }

    fn tls(&self) -> Tls {
        Tls {
            certificate: self.certificate(),
            key: self.key(),
        }
    }

    fn client_config(&self) -> ClientConfig {
        client_config(&self.der, &[&TLS12, &TLS13])
    }
}

fn certificate(name: &str) -> CertifiedKey<KeyPair> {
    generate_simple_self_signed([name.to_owned()]).expect("a certificate")
}

fn client_config(
    trusted: &CertificateDer<'static>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// A client of HTTP/1.1 over TLS.
fn connect(address: SocketAddr, config: &Arc<ClientConfig>, name: &str) -> io::Result<Client> {
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let session = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
    let tcp = std::net::TcpStream::connect(address)?;
    let mut stream = StreamOwned::new(session, tcp);
    stream.conn.complete_io(&mut stream.sock)?;
    Ok(Client::over(stream))
}

fn start(listeners: Vec<Listener>, limits: Limits) -> Server {
    Server::try_start(&edge(listeners, limits), 2).expect("the server starts")
}

#[test]
fn tls_1_2_and_1_3_are_spoken() {
    let files = Files::new("one.test");
    let server = start(vec![files.listener()], Limits::default());
    for (version, name) in [(&TLS12, "TLSv1.2"), (&TLS13, "TLSv1.3")] {
        let config = Arc::new(client_config(&files.der, &[version]));
        let mut client = connect(server.address(), &config, "one.test").expect("a connection");
        let peer = client.get("/peer").text();
        assert!(peer.contains(name), "{peer}");
        assert!(peer.contains("one.test"), "{peer}");
        assert_eq!(client.get("/").text(), "first");
    }
}

#[test]
fn http_2_is_negotiated() {
    let files = Files::new("one.test");
    let server = start(vec![files.listener()], Limits::default());
    let mut config = files.client_config();
    config.alpn_protocols = vec![b"h2".to_vec()];
    with_client(async || {
        let tcp = tokio::net::TcpStream::connect(server.address())
            .await
            .expect("a connection");
        let name = ServerName::try_from("one.test").expect("a name");
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, tcp).await.expect("a handshake");
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let mut sender = handshake(stream).await;
        assert_eq!(
            &get(&mut sender, "/").await.expect("an answer").1[..],
            b"first"
        );
    });
}

#[test]
fn each_listener_has_its_certificate() {
    let (one, two) = (Files::new("one.test"), Files::new("two.test"));
    let server = start(vec![one.listener(), two.listener()], Limits::default());
    for (address, files, name) in [(0, &one, "one.test"), (1, &two, "two.test")]
        .map(|(index, files, name)| (server.addresses()[index], files, name))
    {
        let config = Arc::new(files.client_config());
        let mut client = connect(address, &config, name).expect("a connection");
        assert_eq!(client.get("/").text(), "first");
    }
}

/// Tenants of one listener: each is shown its own, whoever asks for none of them the first, and a change is one of all.
#[test]
fn a_listener_has_several_certificates() {
    let (one, two, below) = (
        Files::new("one.test"),
        Files::new("two.test"),
        Files::new("*.below.test"),
    );
    let listener = Listener {
        tls: vec![one.tls(), two.tls(), below.tls()],
        ..anywhere()
    };
    let server = start(vec![listener], Limits::default());
    let is_shown = |files: &Files, name: &str| {
        let config = Arc::new(files.client_config());
        let connected = connect(server.address(), &config, name);
        connected.is_ok_and(|mut client| client.get("/").text() == "first")
    };
    for (name, shown) in [
        ("one.test", [true, false, false]),
        ("two.test", [false, true, false]),
        ("TWO.test", [false, true, false]),
        ("a.below.test", [false, false, true]),
        // No certificate is of these: the first is shown, which its client does not take.
        ("below.test", [false, false, false]),
        ("b.a.below.test", [false, false, false]),
    ] {
        let found = [&one, &two, &below].map(|files| is_shown(files, name));
        assert_eq!(found, shown, "{name}");
    }
    let two = two.renew("three.test");
    server.reload_certificates().expect("the new one is good");
    let is_shown = |files: &Files, name: &str| {
        let config = Arc::new(files.client_config());
        connect(server.address(), &config, name).is_ok()
    };
    assert!(is_shown(&two, "three.test") && is_shown(&one, "one.test"));
    assert!(!is_shown(&two, "two.test"));
}

/// What comes by a connection is asked of the tenant whose certificate it was made with.
#[test]
fn a_connection_asks_no_other_tenant() {
    let (one, two) = (Files::new("one.test"), Files::new("two.test"));
    let listener = Listener {
        tls: vec![one.tls(), two.tls()],
        ..anywhere()
    };
    let server = start(vec![listener], Limits::default());
    let status = |name: &str, host: &str| {
        let files = if name == "two.test" { &two } else { &one };
        let config = Arc::new(files.client_config());
        let mut client = connect(server.address(), &config, name).expect("a connection");
        client.send(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n"));
        client.answer().status
    };
    for (name, host, expected) in [
        ("one.test", "one.test", 200),
        ("one.test", "ONE.test.:443", 200),
        ("two.test", "two.test:1", 200),
        ("one.test", "two.test", 421),
        ("one.test", "TWO.test:443", 421),
        ("two.test", "one.test", 421),
        // Of neither: which route has it is what routes are for.
        ("one.test", "three.test", 200),
        ("one.test", "[::1]:443", 200),
    ] {
        assert_eq!(status(name, host), expected, "{name}: {host}");
    }
    let config = Arc::new(one.client_config());
    let mut client = connect(server.address(), &config, "one.test").expect("a connection");
    client.send("GET http://two.test/ HTTP/1.1\r\nhost: one.test\r\n\r\n");
    assert_eq!(client.answer().status, 421);
    client.send("GET / HTTP/1.1\r\nhost: one.test\r\n\r\n");
    assert_eq!(client.answer().status, 200, "the connection goes on");
}

/// One certificate may be of several: then there is nothing to tell apart.
#[test]
fn one_certificate_serves_any_host() {
    let one = Files::new("one.test");
    let server = start(vec![one.listener()], Limits::default());
    let config = Arc::new(one.client_config());
    let mut client = connect(server.address(), &config, "one.test").expect("a connection");
    client.send("GET / HTTP/1.1\r\nhost: two.test\r\n\r\n");
    assert_eq!(client.answer().status, 200);
}

#[test]
fn a_session_is_taken_up_again() {
    let files = Files::new("one.test");
    let server = start(vec![files.listener()], Limits::default());
    let config = Arc::new(files.client_config());
    for expected in [rustls::HandshakeKind::Full, rustls::HandshakeKind::Resumed] {
        let name = ServerName::try_from("one.test").expect("a name");
        let session = ClientConnection::new(Arc::clone(&config), name).expect("a session");
        let tcp = std::net::TcpStream::connect(server.address()).expect("a connection");
        let mut stream = StreamOwned::new(session, tcp);
        stream
            .conn
            .complete_io(&mut stream.sock)
            .expect("a handshake");
        assert_eq!(stream.conn.handshake_kind(), Some(expected));
        assert_eq!(Client::over(stream).get("/").text(), "first");
    }
}

#[test]
fn a_certificate_is_replaced_under_its_listener() {
    let files = Files::new("one.test");
    let server = start(vec![files.listener()], Limits::default());
    let old = Arc::new(files.client_config());
    let mut kept = connect(server.address(), &old, "one.test").expect("a connection");
    let files = files.renew("one.test");
    server.reload_certificates().expect("the new one is good");
    let new = Arc::new(files.client_config());
    assert_eq!(
        connect(server.address(), &new, "one.test")
            .expect("a connection")
            .get("/")
            .text(),
        "first"
    );
    let fresh = Arc::new(client_config(&CertificateDer::clone(&files.der), &[&TLS13]));
    connect(server.address(), &fresh, "one.test").expect("the new certificate is shown");
    assert_eq!(kept.get("/").text(), "first");
}

#[test]
fn a_broken_certificate_leaves_the_old_one() {
    let files = Files::new("one.test");
    let mut server = start(vec![files.listener()], Limits::default());
    let config = Arc::new(files.client_config());
    let good_key = fs::read(files.key()).expect("the key");
    let other_key = certificate("one.test").signing_key.serialize_pem();
    let breaks: [(&[u8], &str); 3] = [
        (other_key.as_bytes(), "is not that of the certificate"),
        (b"nonsense", "cannot read the private key"),
        (
            b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "of no kind that can be used",
        ),
    ];
    for (key, message) in breaks {
        fs::write(files.key(), key).expect("a file");
        let told = server
            .reload_certificates()
            .expect_err("the key is broken")
            .to_string();
        assert!(told.contains(message), "{told}");
        let swapped = server.swap("second", &edge(vec![files.listener()], Limits::default()));
        assert!(
            swapped
                .expect_err("the key is broken")
                .to_string()
                .contains(message)
        );
        let mut client =
            connect(server.address(), &config, "one.test").expect("the old one serves");
        assert_eq!(client.get("/").text(), "first");
    }
    fs::write(files.key(), good_key).expect("a file");
    fs::write(files.certificate(), "").expect("a file");
    let told = server
        .reload_certificates()
        .expect_err("there is no certificate")
        .to_string();
    assert!(told.contains("holds no certificate"), "{told}");
}

#[test]
fn a_handshake_that_does_not_end_ends_the_connection() {
    let files = Files::new("one.test");
    let server = start(vec![files.listener()], short());
    let mut client = server.connect();
    client.send([0x16, 3, 1]);
    assert_eq!(client.read_to_end().expect("it ends"), "");
    wait_until_gone(&server);
    assert_eq!(server.figure(|metrics| metrics.handshakes_failed.get()), 1);
}

#[test]
fn plain_http_to_tls_is_no_request() {
    let files = Files::new("one.test");
    let server = start(vec![files.listener()], Limits::default());
    assert!(server.connect().try_get("/").is_err());
    assert_eq!(server.figure(|metrics| metrics.requests.get()), 0);
}

#[test]
fn a_head_that_does_not_end_gets_408_and_a_clean_end() {
    let files = Files::new("one.test");
    let server = start(vec![files.listener()], short());
    let config = Arc::new(files.client_config());
    let mut client = connect(server.address(), &config, "one.test").expect("a connection");
    client.send("GET / HTTP/1.1\r\nhost:");
    assert_eq!(client.answer().status, 408);
    // An end without close_notify would be an error.
    assert_eq!(client.read_to_end().expect("it ends"), "");
}
