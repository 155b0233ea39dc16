//! Other servers, as services.
//!
//! ```text
//!  request ──fields──▶ server in turn ──▶ kept connection, or a new one ──▶ response
//!              ▲             │ refused: rests for a moment, the next one gets it
//!              └─────────────┘ cut off: once more, where that does no harm
//! ```
//!
//! HTTP/1.1 over TCP, TLS or a Unix socket. Bodies stream both ways, each at the pace of whoever takes it.
//!
//! **What is sent again.** A request that did not reach a server, because it refused the connection or a
//! kept one was closed before anything was written, is sent to the next. One that was cut off is
//! sent again only if it is idempotent and its body is there as a whole, and no more often than `retries`
//! says. One that took too long is never.
//!
//! **What a client gets** ([`UpstreamError::status`]): 502 when the server could not be reached, broke off or
//! sent an invalid HTTP response; 504 when it took too long; 503 when there is nothing to ask yet; 501 for
//! `CONNECT` and for upgrades of the connection (WebSocket), which are not passed through.

use crate::{
    body::Body,
    client::{Attempt, Client, Pool, Times, UpstreamError, prepare},
    config,
};
use http::{Request, Response};
use palisade_filter::Peer;
use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

/// Other servers as a service, on one worker.
#[derive(Debug)]
pub struct Upstream {
    client: Client,
    endpoints: Vec<Endpoint>,
    next: Cell<usize>,
    times: Times,
    retries: u32,
}

/// One of the servers.
#[derive(Debug)]
struct Endpoint {
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
        let endpoints = config.servers.iter().map(|server| Endpoint {
            pool: client.pool(server, config.idle_connections),
            rests_until: Cell::new(None),
            refusals: Cell::new(0),
        });
        Self {
            client: client.clone(),
            endpoints: endpoints.collect(),
            next: Cell::new(0),
            times: Times {
                connect: config.connect_time,
                answer: config.answer_time,
            },
            retries: config.retries,
        }
    }

    /// Has one of the servers respond to the request of `peer`.
    ///
    /// # Errors
    ///
    /// When none did.
    pub async fn respond(
        &self,
        request: Request<Body>,
        peer: &Peer,
    ) -> Result<Response<Body>, UpstreamError> {
        let Some(first) = self.endpoints.first() else {
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
        let mut refusals = self.endpoints.len();
        loop {
            let endpoint = self.choose();
            let error = match endpoint.pool.send(&self.client, attempt, &self.times).await {
                Ok(response) => {
                    endpoint.is_well();
                    return Ok(response);
                }
                Err(error) => error,
            };
            let budget_is_left = if error.is_refusal() {
                endpoint.refused();
                refusals = refusals.saturating_sub(1);
                refusals > 0 && attempt.may_be_repeated()
            } else if attempt.may_retry() {
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
    fn choose(&self) -> &Endpoint {
        let count = self.endpoints.len();
        let turn = self.next.get();
        self.next.set((turn + 1) % count);
        if count == 1 {
            return &self.endpoints[0];
        }
        let in_turn = (0..count).map(|step| &self.endpoints[(turn + step) % count]);
        let now = Instant::now();
        in_turn
            .min_by_key(|endpoint| endpoint.rests_until.get().filter(|until| *until > now))
            .unwrap_or(&self.endpoints[0])
    }
}

impl Endpoint {
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
