//! TLS to other servers: whom their certificates must come from.

use super::names::without_brackets;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use std::{
    env, io,
    path::PathBuf,
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

/// Where systems keep the roots of all their programs, as a file or a folder of files.
const PLACES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/certs/any",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/tls/certs/any",
    "/etc/ssl/ca-bundle.pem",
];
/// Where whoever starts the server says that they are: files, and folders of files.
const FILE_VARIABLE: &str = "SSL_CERT_FILE";
const FOLDERS_VARIABLE: &str = "SSL_CERT_DIR";

/// What may be read for the system's roots, long after the start. No guest may change it: it would choose whom the
/// server believes. Of a folder any file stands for all.
pub(crate) fn files() -> Vec<PathBuf> {
    let file = env::var_os(FILE_VARIABLE).map(PathBuf::from);
    let folders = env::var_os(FOLDERS_VARIABLE).unwrap_or_default();
    let folders = env::split_paths(&folders).filter(|folder| !folder.as_os_str().is_empty());
    let named = file
        .into_iter()
        .chain(folders.map(|folder| folder.join("any")));
    let named = named.filter_map(|path| std::path::absolute(path).ok());
    named.chain(PLACES.map(PathBuf::from)).collect()
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
