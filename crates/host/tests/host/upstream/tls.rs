//! Servers that speak TLS.

use super::{ask, config, fake::on_worker, get, text};
use palisade_host::{
    client::{Client, Roots, Settings, UpstreamError},
    config::Server,
    services::upstream::Upstream,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::PrivateKeyDer;
use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::Arc,
    thread,
};

/// Who vouches for servers.
fn issuer() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server of this name, that answers every connection once.
fn serve(name: &str, issuer: &CertifiedIssuer<'static, KeyPair>) -> u16 {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream);
            let mut bytes = [0; 4096];
            // A client that does not believe the certificate sends nothing.
            if stream.read(&mut bytes).is_ok_and(|length| length > 0) {
                let _ = stream.write_all(super::OK.as_bytes());
            }
        }
    });
    port
}

fn upstream_with(roots: &CertifiedIssuer<'static, KeyPair>, port: u16) -> Upstream {
    let mut store = RootCertStore::empty();
    store.add(roots.der().clone()).unwrap();
    let settings = Settings {
        roots: Roots::Own(Arc::new(store)),
        ..Settings::default()
    };
    let server = Server::Internet {
        host: "localhost".into(),
        port,
        tls: true,
    };
    Upstream::new(&config(&[server]), &Client::new(settings))
}

#[test]
fn a_server_with_a_certificate_of_its_name_is_believed() {
    let issuer = issuer();
    let port = serve("localhost", &issuer);
    on_worker(async {
        let upstream = upstream_with(&issuer, port);
        for _ in 0..3 {
            assert_eq!(text(ask(&upstream, get("/")).await).await, "ok");
        }
    });
}

#[test]
fn a_certificate_of_another_name_or_root_is_not() {
    let ours = issuer();
    let other_name = serve("other.example", &ours);
    let other_root = serve("localhost", &issuer());
    on_worker(async {
        for port in [other_name, other_root] {
            let upstream = upstream_with(&ours, port);
            let error = ask(&upstream, get("/")).await.unwrap_err();
            assert!(matches!(error, UpstreamError::Tls { .. }), "{error}");
            assert_eq!(error.status(), http::StatusCode::BAD_GATEWAY);
        }
    });
}

#[test]
fn the_roots_of_the_system_do_not_vouch_for_a_test() {
    let port = serve("localhost", &issuer());
    on_worker(async {
        let server = Server::Internet {
            host: "localhost".into(),
            port,
            tls: true,
        };
        let error = ask(&super::upstream(&[server]), get("/"))
            .await
            .unwrap_err();
        assert!(matches!(error, UpstreamError::Tls { .. }), "{error}");
    });
}
