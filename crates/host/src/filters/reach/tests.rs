use super::*;
use crate::{
    body::Body,
    client::{Client, Times, UpstreamError},
};
use http::Request;
use palisade_policy::Policy;
use std::{
    io,
    net::TcpListener,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Answers with one list after the other, the last of them for good.
struct Script {
    answers: Vec<&'static [&'static str]>,
    asked: AtomicUsize,
}

impl Resolve for Script {
    fn addresses(&self, _: &HostName) -> Result<Answer, ResolveError> {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers[turn.min(self.answers.len() - 1)];
        Ok(Answer {
            addresses: answer.iter().map(|text| text.parse().unwrap()).collect(),
            ttl: Duration::ZERO,
        })
    }

    fn interface(&self, _: &str) -> Option<u32> {
        None
    }
}

fn resolver(answers: &[&'static [&'static str]]) -> Arc<dyn Resolve> {
    Arc::new(Script {
        answers: answers.to_vec(),
        asked: AtomicUsize::new(0),
    })
}

fn server(host: &str, port: u16) -> Server {
    Server::Internet {
        host: host.into(),
        port,
        tls: false,
    }
}

fn grants(text: &str) -> Vec<ConnectGrant> {
    let text = format!("[grants]\nconnect = [{text}]");
    let policy = Policy::from_toml(&text, "test", Path::new("/")).unwrap();
    policy.grants.connect
}

/// What a call to `host` comes to, and whether the machine's own service at this port was reached.
fn call(host: &str, granted: &str, answers: &[&'static [&'static str]]) -> (UpstreamError, bool) {
    let witness = TcpListener::bind("127.0.0.1:0").unwrap();
    witness.set_nonblocking(true).unwrap();
    let port = witness.local_addr().unwrap().port();
    let server = server(host, port);
    let granted = grants(&granted.replace("PORT", &port.to_string()));
    let resolver = resolver(answers);
    let rules = rules([&server], &granted, &*resolver).unwrap();
    let client = Client::new(settings(&rules, resolver));
    let times = Times {
        connect: Duration::from_millis(300),
        answer: Duration::from_millis(300),
    };
    let error = on_worker(async {
        let error = client.send(&server, Request::new(Body::Empty), &times);
        error.await.unwrap_err()
    });
    let came = witness.accept();
    let nobody = matches!(&came, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    (error, !nobody)
}

fn on_worker<T>(act: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, act)
}

/// However the address is written: the machine's own, a neighbour's, a cloud's, and what a translator makes of them.
#[test]
fn a_name_does_not_lead_to_what_is_not_public() {
    for address in [
        "127.0.0.1",
        "0.0.0.0",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "10.1.2.3",
        "169.254.169.254",
        "fd00:ec2::254",
        "fe80::1",
    ] {
        let answer: &'static [&'static str] = Box::leak(Box::new([address]));
        let (error, came) = call(
            "api.example.com",
            "\"tcp://api.example.com:PORT\"",
            &[answer],
        );
        let is_withheld = matches!(
            &error,
            UpstreamError::Resolve {
                source: ResolveError::Withheld(_),
                ..
            }
        );
        assert!(
            is_withheld && error.is_denial() && !came,
            "{address}: {error}"
        );
    }
}

/// Of those that a wildcard covers the same holds.
#[test]
fn a_wildcard_grants_names_and_no_addresses() {
    let (error, came) = call(
        "api.example.com",
        "\"tcp://*.example.com:PORT\"",
        &[&["127.0.0.1"]],
    );
    assert!(error.is_denial() && !came, "{error}");
}

/// The control: the same name and address, granted.
#[test]
fn a_grant_by_address_lets_a_name_lead_there() {
    for granted in [
        "\"tcp://api.example.com:PORT\", \"tcp://127.0.0.1:PORT\"",
        "\"tcp://api.example.com:PORT\", \"tcp://127.0.0.0/8:*\"",
        "\"tcp://api.example.com:PORT\", \"tcp://localhost:PORT\"",
    ] {
        let (error, came) = call("api.example.com", granted, &[&["127.0.0.1"]]);
        assert!(came && !error.is_denial(), "{granted}: {error}");
    }
}

/// What the configuration writes as an address was meant so, and `localhost` is one.
#[test]
fn a_server_that_is_written_as_an_address_is_reached() {
    for (host, granted) in [
        ("127.0.0.1", "\"tcp://127.0.0.1:PORT\""),
        ("127.0.0.1", "\"tcp://0.0.0.0/0:*\""),
        ("localhost", "\"tcp://localhost:PORT\""),
    ] {
        let (error, came) = call(host, granted, &[]);
        assert!(came && !error.is_denial(), "{host} by {granted}: {error}");
    }
}

/// A name server says something harmless first, and something else to whoever asks again: no connection is made to what
/// was not judged.
#[test]
fn a_name_that_turns_leads_nowhere() {
    let port = 80;
    let server = server("turns.example.com", port);
    let resolver = resolver(&[&["192.0.2.1"], &["127.0.0.1"]]);
    let rules = rules([&server], &[], &*resolver).unwrap();
    let settings = settings(&rules, resolver);
    let (judged, gate) = (settings.resolver, settings.gate.unwrap());
    let name = rules.names[0].name.clone();
    let is_open = |address: &str| {
        let address = SocketAddr::new(address.parse().unwrap(), port);
        gate.connect(Transport::Tcp, address).is_ok()
    };
    let answer = judged.addresses(&name).unwrap();
    assert_eq!(answer.addresses, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
    assert!(is_open("192.0.2.1") && !is_open("127.0.0.1"));
    assert!(judged.addresses(&name).is_err());
    assert!(!is_open("127.0.0.1"));
}

/// Names are not asked for when the configuration is loaded.
#[test]
fn a_configuration_is_loaded_without_name_servers() {
    struct Mute;
    impl Resolve for Mute {
        fn addresses(&self, name: &HostName) -> Result<Answer, ResolveError> {
            panic!("{} is asked for", name.as_str());
        }
        fn interface(&self, _: &str) -> Option<u32> {
            None
        }
    }
    let servers = [
        server("api.example.com", 80),
        Server::Unix("/run/socket".into()),
    ];
    let granted = grants("\"tcp://api.example.com:80\", \"tcp://*.example.com:80\"");
    let rules = rules(&servers, &granted, &Mute).unwrap();
    assert_eq!((rules.names.len(), rules.wildcards.len()), (1, 0));
}
