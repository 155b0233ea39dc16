//! Certificates of listeners, and what TLS offers.

use crate::config::Tls;
use arc_swap::ArcSwap;
use rustls::{
    InconsistentKeys, ServerConfig,
    client::verify_server_name,
    crypto::{CryptoProvider, ring},
    server::{ClientHello, NoServerSessionStorage, ParsedCertificate, ResolvesServerCert},
    sign::CertifiedKey,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem, pem::PemObject};
use std::{cell::RefCell, path::PathBuf, sync::Arc};

/// Why a listener cannot speak TLS.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum TlsError {
    #[error("cannot read the certificate {}: make it a PEM file that this process may read", path.display())]
    ReadCertificate { path: PathBuf, source: pem::Error },
    #[error("{} holds no certificate in PEM", .0.display())]
    NoCertificate(PathBuf),
    #[error("cannot read the private key {}: make it a PEM file that this process may read", path.display())]
    ReadKey { path: PathBuf, source: pem::Error },
    #[error("the key {} is of no kind that can be used: take RSA, ECDSA or Ed25519", path.display())]
    UnknownKey {
        path: PathBuf,
        source: rustls::Error,
    },
    #[error("the key {} is not that of the certificate {}", key.display(), certificate.display())]
    Mismatch {
        key: PathBuf,
        certificate: PathBuf,
        source: rustls::Error,
    },
    #[error("this machine cannot make keys for TLS")]
    Provider(#[source] rustls::Error),
}

/// What connections of a listener speak TLS with.
#[derive(Clone, Debug)]
pub(crate) struct Secured {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) certificate: Arc<Certificate>,
}

/// A listener's certificates, of which a client is shown one, and which can change under it.
#[derive(Debug)]
pub(crate) struct Certificate(ArcSwap<Vec<Arc<CertifiedKey>>>);

impl Certificate {
    /// Reads certificates and keys.
    pub(crate) fn read(files: &[Tls]) -> Result<Arc<Self>, TlsError> {
        let keys = files
            .iter()
            .map(|files| read_certified_key(files).map(Arc::new));
        let keys = keys.collect::<Result<_, _>>()?;
        Ok(Arc::new(Self(ArcSwap::from_pointee(keys))))
    }

    /// Handshakes from now on are made with what `new` holds.
    pub(crate) fn replace(&self, new: &Self) {
        self.0.store(new.0.load_full());
    }

    /// TLS 1.2 and 1.3, HTTP/2 before HTTP/1.1. Sessions are resumed by tickets, so that workers share no
    /// store of sessions.
    pub(crate) fn server_config(self: Arc<Self>) -> Result<Arc<ServerConfig>, TlsError> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Provider)?
            .with_no_client_auth()
            .with_cert_resolver(self);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = ring::Ticketer::new().map_err(TlsError::Provider)?;
        Ok(Arc::new(config))
    }
}

/// Whose requests may come by one connection, where its listener has the certificates of several.
///
/// A client that was shown one tenant's certificate has checked that it talks to that tenant; what it then asks of
/// another one would come by a connection that this one's client certificate, cookies or trust had nothing to do with, and
/// so it is asked to make another (RFC 9110, section 15.5.20).
#[derive(Debug)]
pub(super) struct Tenancy {
    certificate: Arc<Certificate>,
    /// The name that the client asked for.
    name: Option<String>,
    /// The last other name that was right here.
    known: RefCell<Option<Box<str>>>,
}

impl Tenancy {
    /// `None`: the listener has one certificate for all.
    pub(super) fn of(certificate: &Arc<Certificate>, name: Option<&str>) -> Option<Self> {
        (certificate.0.load().len() > 1).then(|| Self {
            certificate: Arc::clone(certificate),
            name: name.map(str::to_owned),
            known: RefCell::default(),
        })
    }

    /// Whether a request for this host, as it stands in its form, belongs to a connection with another certificate. A host
    /// that no certificate is of is the routes' to find.
    pub(super) fn is_misdirected(&self, host: &str) -> bool {
        let host = without_port(host);
        let is_asked_for = |name: &str| name.eq_ignore_ascii_case(host);
        if self.name.as_deref().is_some_and(is_asked_for)
            || self.known.borrow().as_deref() == Some(host)
        {
            return false;
        }
        let keys = self.certificate.0.load();
        let shown = choose(&keys, self.name.as_deref());
        let is_misdirected = !shown.is_some_and(|shown| is_of(shown, host))
            && keys.iter().any(|key| is_of(key, host));
        if !is_misdirected {
            *self.known.borrow_mut() = Some(host.into());
        }
        is_misdirected
    }
}

/// A host without its port, and an address of IPv6 without its brackets.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or(inner),
        None => host.split(':').next().unwrap_or(host),
    }
}

impl ResolvesServerCert for Certificate {
    /// The first that is of the name asked for (RFC 6066, section 3), else the first: whom the client believes is its own
    /// affair.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        choose(&self.0.load(), hello.server_name()).cloned()
    }
}

fn choose<'a>(keys: &'a [Arc<CertifiedKey>], name: Option<&str>) -> Option<&'a Arc<CertifiedKey>> {
    let named = match (name, keys.len()) {
        (Some(name), 2..) => keys.iter().find(|key| is_of(key, name)),
        _ => None,
    };
    named.or(keys.first())
}

fn is_of(key: &CertifiedKey, name: &str) -> bool {
    let (Some(certificate), Ok(name)) = (key.cert.first(), ServerName::try_from(name)) else {
        return false;
    };
    let parsed = ParsedCertificate::try_from(certificate);
    parsed.is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn read_certified_key(files: &Tls) -> Result<CertifiedKey, TlsError> {
    let chain = read_chain(files)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|source| TlsError::ReadKey {
        path: files.key.clone(),
        source,
    })?;
    let key = ring::sign::any_supported_type(&key).map_err(|source| TlsError::UnknownKey {
        path: files.key.clone(),
        source,
    })?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        // Some kinds of keys cannot say; the first handshake will.
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(source) => Err(TlsError::Mismatch {
            key: files.key.clone(),
            certificate: files.certificate.clone(),
            source,
        }),
    }
}

fn read_chain(files: &Tls) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let path = &files.certificate;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let chain = chain.map_err(|source| TlsError::ReadCertificate {
        path: path.clone(),
        source,
    })?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(path.clone()));
    }
    Ok(chain)
}
