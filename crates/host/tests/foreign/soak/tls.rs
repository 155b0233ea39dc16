//! Certificates of one issuer, and clients that believe it.

use crate::fixture::Fixture;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, client::Resumption};
use rustls_pki_types::{CertificateDer, ServerName};
use std::{io, os::unix::net::UnixStream, path::Path, sync::Arc};

/// Who every certificate is accepted for.
const NAME: &str = "soak.test";

/// Who vouches for the server.
pub(crate) struct Issuer {
    issuer: CertifiedIssuer<'static, KeyPair>,
    clients: Arc<ClientConfig>,
}

impl Issuer {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(issuer.der().clone()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut clients = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Each connection looks at the certificate of its day.
        clients.resumption = Resumption::disabled();
        Self {
            issuer,
            clients: Arc::new(clients),
        }
    }

    /// Puts a new certificate and its key in place of those that there are.
    pub(super) fn certify(&self, fixture: &Fixture) -> CertificateDer<'static> {
        self.certify_name(fixture, NAME, "")
    }

    /// A certificate of this name, and its key, whose files' names begin so.
    pub(crate) fn certify_name(
        &self,
        fixture: &Fixture,
        name: &str,
        begin: &str,
    ) -> CertificateDer<'static> {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        fixture.put(&format!("{begin}key.pem"), key.serialize_pem());
        fixture.put(&format!("{begin}certificate.pem"), certificate.pem());
        certificate.der().clone()
    }

    pub(super) fn connect(
        &self,
        socket: &Path,
    ) -> io::Result<StreamOwned<ClientConnection, UnixStream>> {
        self.connect_to(socket, NAME)
    }

    /// A connection to whoever has a certificate of this name.
    pub(crate) fn connect_to(
        &self,
        socket: &Path,
        name: &'static str,
    ) -> io::Result<StreamOwned<ClientConnection, UnixStream>> {
        let name = ServerName::try_from(name).expect("a name");
        let session = ClientConnection::new(Arc::clone(&self.clients), name);
        let session = session.map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, UnixStream::connect(socket)?);
        stream.conn.complete_io(&mut stream.sock)?;
        Ok(stream)
    }

    /// What the server shows to those who come now.
    pub(super) fn shown(&self, socket: &Path) -> io::Result<CertificateDer<'static>> {
        let stream = self.connect(socket)?;
        let shown = stream.conn.peer_certificates().and_then(<[_]>::first);
        shown
            .map(|certificate| certificate.clone().into_owned())
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}
