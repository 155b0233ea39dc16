//! `wasi:http` for programs: requests that a component sends.
//!
//! Each has a connection of its own, made as any socket of this process is: where it may lead is the process
//! wall's verdict, which its report tells, and a name is what the domain's `/etc/hosts` says. TLS believes in the
//! certificates that the domain shows.
//!
//! | what comes | the guest is told |
//! |---|---|
//! | no grant covers the address; no grant has the name | `HTTP-request-denied`; `DNS-error` |
//! | nobody listens there; nobody answers in time | `connection-refused`; `connection-timeout` |
//! | the server does not show that it is who it should be | `TLS-protocol-error` |

use bytes::Bytes;
use http::{Request, Response, Uri, uri::Scheme};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::{body::Incoming, client::conn::http1};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use std::{
    io,
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::TlsConnector;
use wasmtime::{
    Engine,
    component::{Component, Linker},
};
use wasmtime_wasi::runtime::spawn;
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttpHooks, WasiHttpView, io::TokioIo, p2, p3,
};

/// How long a guest waits that names no time.
const PATIENCE: Duration = Duration::from_secs(600);

/// The end of a request's connection.
type Io = Box<dyn Future<Output = Result<(), Error>> + Send>;
type Responded = Result<(Response<WasiBody>, Io), Error>;

/// Sends the requests of a guest.
pub(crate) struct Client;

impl WasiHttpHooks for Client {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Io,
    ) -> Box<dyn Future<Output = Responded> + Send> {
        Box::new(send(request, options.unwrap_or_default()))
    }
}

/// Offers it, to a component that asks for it: others do not pay for so many functions.
pub(crate) fn link<T: WasiHttpView + 'static>(
    linker: &mut Linker<T>,
    engine: &Engine,
    component: &Component,
) -> wasmtime::Result<()> {
    let asks = |version: &str| {
        let component = component.component_type();
        let mut names = component.imports(engine).map(|(name, _)| name.to_owned());
        names.any(|name| name.starts_with("wasi:http/") && name.contains(version))
    };
    if asks("@0.2.") {
        p2::add_only_http_to_linker_async(linker)?;
    }
    if asks("@0.3.") {
        p3::add_to_linker(linker)?;
    }
    Ok(())
}

async fn send(mut request: Request<WasiBody>, options: RequestOptions) -> Responded {
    let server = Server::of(request.uri())?;
    *request.uri_mut() = origin_form(request.uri())?;
    let patience = options.connect_timeout.unwrap_or(PATIENCE);
    let connection = timeout(patience, server.connect()).await;
    let stream = connection.map_err(|_| Error::ConnectionTimeout)??;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It goes on for as long as somebody holds its end.
    let connection = spawn(connection);
    let response = timeout(
        options.first_byte_timeout.unwrap_or(PATIENCE),
        sender.send_request(request),
    );
    let response = response.await.map_err(|_| Error::ConnectionReadTimeout)??;
    let between_bytes = options.between_bytes_timeout.unwrap_or(PATIENCE);
    let response = response.map(|body| Timely::new(body, between_bytes).boxed_unsync());
    Ok((response, Box::new(async move { Ok(connection.await?) })))
}

/// Whom a request is for.
struct Server {
    host: String,
    port: u16,
    is_secure: bool,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Server {
    fn of(uri: &Uri) -> Result<Self, Error> {
        let host = uri.host().ok_or(Error::HttpRequestUriInvalid)?;
        let is_secure = uri.scheme() == Some(&Scheme::HTTPS);
        let usual = if is_secure { 443 } else { 80 };
        Ok(Self {
            // An IPv6 address stands in brackets.
            host: host.trim_matches(['[', ']']).into(),
            port: uri.port_u16().unwrap_or(usual),
            is_secure,
        })
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, Error> {
        let addresses = lookup_host((self.host.as_str(), self.port)).await;
        let addresses: Vec<_> = addresses.map_err(|_| unknown_name())?.collect();
        let stream = TcpStream::connect(addresses.as_slice()).await;
        let stream = stream.map_err(|error| of_connect(&error))?;
        match self.is_secure {
            true => Ok(Box::new(self.secure(stream).await?)),
            false => Ok(Box::new(stream)),
        }
    }

    async fn secure(&self, stream: TcpStream) -> Result<impl Stream + use<>, Error> {
        let name = ServerName::try_from(self.host.clone()).map_err(|_| unknown_name())?;
        let connector = TlsConnector::from(Arc::clone(&TLS));
        connector.connect(name, stream).await.map_err(Error::Tls)
    }
}

/// Without a certificate to believe in, nobody is believed.
static TLS: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder().with_root_certificates(roots);
    Arc::new(config.with_no_client_auth())
});

fn unknown_name() -> Error {
    Error::DnsError {
        rcode: Some("NXDOMAIN".into()),
        info_code: None,
    }
}

fn of_connect(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::HttpRequestDenied,
        io::ErrorKind::TimedOut => Error::ConnectionTimeout,
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            Error::DestinationUnavailable
        }
        _ => Error::ConnectionRefused,
    }
}

/// A server is asked for a path, a proxy for more.
fn origin_form(uri: &Uri) -> Result<Uri, Error> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    path.parse().map_err(|_| Error::HttpRequestUriInvalid)
}

/// A body whose next part comes in time.
struct Timely {
    body: Incoming,
    between: Duration,
    until: Pin<Box<Sleep>>,
}

impl Timely {
    fn new(body: Incoming, between: Duration) -> Self {
        Self {
            body,
            between,
            until: Box::pin(sleep(between)),
        }
    }
}

impl Body for Timely {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let between = self.between;
            self.until.set(sleep(between));
            return Poll::Ready(frame.map(|frame| frame.map_err(Error::from)));
        }
        let late = self.until.as_mut().poll(context);
        late.map(|()| Some(Err(Error::ConnectionReadTimeout)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
