//! TLS to other servers: whom their certificates must come from.

use super::names::without_brackets;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use std::{
    io,
    sync::{Arc, OnceLock},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Whom a server's certificate must come from. The name in it must be the server's.
#[derive(Clone, Debug, Default)]
pub enum Roots {
    /// Those of the system, read when they are first needed.
    #[default]
    System,
    /// These.
    Own(Arc<RootCertStore>),
}

impl Roots {
    /// Speaks TLS over `stream`, as a client of `host`.
    pub(super) async fn secure(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name =
            ServerName::try_from(without_brackets(host).to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(self.config().await?);
        connector.connect(name, stream).await
    }

    async fn config(&self) -> io::Result<Arc<ClientConfig>> {
        static SYSTEM: OnceLock<Arc<ClientConfig>> = OnceLock::new();
        match self {
            Self::Own(roots) => config_with(Arc::clone(roots)),
            Self::System => match SYSTEM.get() {
                Some(config) => Ok(Arc::clone(config)),
                None => {
                    let config = tokio::task::spawn_blocking(config_of_system).await??;
                    Ok(Arc::clone(SYSTEM.get_or_init(|| config)))
                }
            },
        }
    }
}

/// Reads a few hundred files.
fn config_of_system() -> io::Result<Arc<ClientConfig>> {
    let loaded = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(loaded.certs);
    match (roots.is_empty(), loaded.errors.into_iter().next()) {
        (true, Some(error)) => Err(io::Error::other(error)),
        _ => config_with(Arc::new(roots)),
    }
}

fn config_with(roots: Arc<RootCertStore>) -> io::Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
