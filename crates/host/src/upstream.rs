//! Other servers, as services.
//!
//! ```text
//!  request ──fields──▶ server in turn ──▶ kept connection, or a new one ──▶ answer
//!              ▲             │ refused: rests for a moment, the next one gets it
//!              └─────────────┘ cut off: once more, where that does no harm
//! ```
//!
//! HTTP/1.1 over TCP, TLS or a Unix socket. Bodies stream both ways, each at the pace of whoever takes it.
//! What becomes of header fields stands in the module that does it, `fields`; that nothing of a message's
//! framing is passed through is what keeps requests from being smuggled past this server.
//!
//! **What is sent again.** A request that did not reach a server, because it refused the connection or a
//! kept one was closed before anything was written, is sent to the next. One that was cut off is
//! sent again only if it is idempotent and its body is there as a whole, and no more often than `retries`
//! says. One that took too long is never.
//!
//! **What a client gets** ([`UpstreamError::status`]): 502 when the server could not be reached, broke off or
//! sent an invalid HTTP response; 504 when it took too long; 503 when there is nothing to ask yet; 501 for
//! `CONNECT` and for upgrades of the connection (WebSocket), which are not passed through.

mod client;
mod fields;
mod inside;
mod names;
mod patience;
mod replay;
mod sys;
mod tally;
mod tls;
mod wire;

pub(crate) use client::{Attempt, Pool};
pub use client::{Client, Settings};
pub(crate) use fields::prepare;
pub(crate) use inside::Inside;
pub(crate) use tally::Tally;
pub use tls::Roots;
pub(crate) use tls::files as files_of_roots;

use crate::{
    body::Body,
    config::{self, Server},
    responses,
};
use http::{Request, Response, StatusCode};
use palisade_filter::Peer;
use palisade_network::ResolveError;
use std::{
    cell::Cell,
    fmt, io,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a server may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// To be connected to: its name's lookup, the connection, TLS.
    pub connect: Duration,
    /// To begin its answer, from the last part of the request that it took.
    pub answer: Duration,
}

/// There is no answer.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum UpstreamError {
    #[error("{}: {server} has no address: {source}", source.fault())]
    Resolve {
        server: Arc<str>,
        source: ResolveError,
    },
    #[error("host: cannot connect to {server}: {source}; see whether it runs")]
    Connect { server: Arc<str>, source: io::Error },
    #[error(
        "host: {server} was not connected to in time; see whether it runs, or raise connect-time"
    )]
    ConnectTime { server: Arc<str> },
    #[error(
        "host: no TLS with {server}: {source}; see whether its certificate is of this name and trusted here"
    )]
    Tls { server: Arc<str>, source: io::Error },
    #[error("host: {server} broke off before it answered{}", Because(source))]
    Closed {
        server: Arc<str>,
        source: Option<hyper::Error>,
    },
    #[error("host: {server} sent an invalid HTTP response: {source}")]
    Malformed {
        server: Arc<str>,
        source: hyper::Error,
    },
    #[error("host: the heads of {server}'s answer have more than 128 KiB")]
    Heads { server: Arc<str> },
    #[error("host: {server} switched to a protocol that nobody asked for")]
    Switched { server: Arc<str> },
    #[error("host: {server} did not answer in time; raise answer-time if that was meant")]
    AnswerTime { server: Arc<str> },
    #[error("client: the request's body broke off: {source}")]
    RequestBody { source: hyper::Error },
    #[error("client: tunnels (CONNECT) are not offered")]
    Tunnel,
    #[error(
        "client: the connection's protocol cannot be changed here (WebSocket); reach the program by a listener of its own"
    )]
    Upgrade,
    /// A program that cannot take requests now.
    #[error("{reason}")]
    NotReady {
        reason: String,
        retry_after: Duration,
    },
}

impl UpstreamError {
    /// Whether whoever asked may not reach that server.
    pub(crate) fn is_denial(&self) -> bool {
        match self {
            Self::Resolve { source, .. } => matches!(source, ResolveError::Withheld(_)),
            // The kernel's own refusal has a number.
            Self::Connect { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied && source.raw_os_error().is_none()
            }
            _ => false,
        }
    }

    /// What the client is answered.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Tls { .. }
            | Self::Closed { .. }
            | Self::Malformed { .. }
            | Self::Heads { .. }
            | Self::Switched { .. } => StatusCode::BAD_GATEWAY,
            Self::ConnectTime { .. } | Self::AnswerTime { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::RequestBody { .. } => StatusCode::BAD_REQUEST,
            Self::Tunnel | Self::Upgrade => StatusCode::NOT_IMPLEMENTED,
            Self::NotReady { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What the client gets.
    pub(crate) fn response(&self) -> Response<Body> {
        let text = match self.status() {
            StatusCode::GATEWAY_TIMEOUT => "the service did not answer in time\n",
            StatusCode::SERVICE_UNAVAILABLE => "the service is not ready\n",
            StatusCode::BAD_REQUEST => "the request broke off\n",
            StatusCode::NOT_IMPLEMENTED => "this is not passed through\n",
            _ => "the service could not be reached\n",
        };
        let response = responses::plain(self.status(), text);
        match self.retry_after() {
            Some(seconds) => responses::with_retry_after(response, seconds),
            None => response,
        }
    }

    /// After how many seconds the client may ask again, where that can be told.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::NotReady { retry_after, .. } => {
                Some(retry_after.as_millis().div_ceil(1000).max(1) as u64)
            }
            _ => None,
        }
    }

    /// Whether no server was reached.
    fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Resolve { .. }
                | Self::Connect { .. }
                | Self::ConnectTime { .. }
                | Self::Tls { .. }
        )
    }
}

/// A server as `host.toml` writes it.
fn name_of(server: &Server) -> Arc<str> {
    match server {
        Server::Internet { host, port, tls } => {
            let scheme = if *tls { "https" } else { "http" };
            format!("{scheme}://{host}:{port}").into()
        }
        Server::Unix(path) => format!("unix:{}", path.display()).into(),
    }
}

struct Because<'a>(&'a Option<hyper::Error>);

impl fmt::Display for Because<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(error) => write!(formatter, ": {error}"),
            None => Ok(()),
        }
    }
}

/// Other servers as a service, on one worker.
#[derive(Debug)]
pub struct Upstream {
    client: Client,
    places: Vec<Place>,
    next: Cell<usize>,
    times: Times,
    retries: u32,
}

/// One of the servers.
#[derive(Debug)]
struct Place {
    pool: Rc<Pool>,
    /// It refused connections: nobody asks it until then, while there is another.
    rests_until: Cell<Option<Instant>>,
    /// How often it refused, one after the other.
    refusals: Cell<u32>,
}

/// How long a server rests that refused a connection; doubled each time.
const FIRST_REST: Duration = Duration::from_millis(500);
/// The longest such rest.
const LONGEST_REST: Duration = Duration::from_secs(30);

impl Upstream {
    /// The servers of `config`, reached by `client`.
    pub fn new(config: &config::Upstream, client: &Client) -> Self {
        let places = config.servers.iter().map(|server| Place {
            pool: client.pool(server, config.idle_connections),
            rests_until: Cell::new(None),
            refusals: Cell::new(0),
        });
        Self {
            client: client.clone(),
            places: places.collect(),
            next: Cell::new(0),
            times: Times {
                connect: config.connect_time,
                answer: config.answer_time,
            },
            retries: config.retries,
        }
    }

    /// Has one of the servers answer the request of `peer`.
    ///
    /// # Errors
    ///
    /// When none did.
    pub async fn answer(
        &self,
        request: Request<Body>,
        peer: &Peer,
    ) -> Result<Response<Body>, UpstreamError> {
        let Some(first) = self.places.first() else {
            return Err(UpstreamError::NotReady {
                reason: "policy: the upstream has no servers; name one".into(),
                retry_after: Duration::from_secs(60),
            });
        };
        let (mut parts, body) = request.into_parts();
        prepare(&mut parts, &body, first.pool.server())?;
        self.client.forwarded().tell(&mut parts.headers, peer);
        let request = Request::from_parts(parts, body);
        self.send(&mut Attempt::new(request, self.client.spares()))
            .await
    }

    async fn send(&self, attempt: &mut Attempt<'_>) -> Result<Response<Body>, UpstreamError> {
        let mut retries = self.retries;
        // Each server may refuse once, whatever `retries` says: nothing was asked of it.
        let mut refusals = self.places.len();
        loop {
            let place = self.choose();
            let error = match place.pool.send(&self.client, attempt, &self.times).await {
                Ok(response) => {
                    place.is_well();
                    return Ok(response);
                }
                Err(error) => error,
            };
            let budget_is_left = if error.is_refusal() {
                place.refused();
                refusals = refusals.saturating_sub(1);
                refusals > 0 && attempt.may_be_repeated()
            } else if attempt.may_go_on() {
                true
            } else {
                let is_left = retries > 0 && attempt.may_be_repeated();
                retries = retries.saturating_sub(1);
                is_left
            };
            if !budget_is_left {
                return Err(error);
            }
        }
    }

    /// The next in turn that does not rest; if all do, the one that has rested most.
    fn choose(&self) -> &Place {
        let count = self.places.len();
        let turn = self.next.get();
        self.next.set((turn + 1) % count);
        if count == 1 {
            return &self.places[0];
        }
        let in_turn = (0..count).map(|step| &self.places[(turn + step) % count]);
        let now = Instant::now();
        in_turn
            .min_by_key(|place| place.rests_until.get().filter(|until| *until > now))
            .unwrap_or(&self.places[0])
    }
}

impl Place {
    fn is_well(&self) {
        self.rests_until.set(None);
        self.refusals.set(0);
    }

    fn refused(&self) {
        let refusals = self.refusals.get();
        let rest = LONGEST_REST.min(FIRST_REST * 2u32.saturating_pow(refusals.min(16)));
        self.refusals.set(refusals.saturating_add(1));
        self.rests_until.set(Some(Instant::now() + rest));
    }
}
