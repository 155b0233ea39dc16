//! A program as one worker reaches it.

use super::{
    Program,
    endpoint::{Access, Endpoint},
    shared::View,
};
use crate::{
    body::Body,
    client::{Attempt, Client, Owner, Pool, Tally, Times, UpstreamError, prepare},
    config::{Address, Server},
};
use http::{Request, Response};
use palisade_filter::Peer;
use std::{
    cell::{Cell, RefCell},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// Connections without a request that a worker keeps to a program, and how long.
const KEPT: (usize, Duration) = (32, Duration::from_secs(15));

/// A program as one worker reaches it, with connections of its own.
#[derive(Debug)]
pub struct ProgramService {
    program: Arc<Program>,
    client: Client,
    name: Arc<str>,
    /// What stands for the program where a request names no host.
    local: Server,
    times: Times,
    reached: RefCell<Option<Rc<EndpointPool>>>,
    /// To a listener of the program's own, where it has one: a connection there is what starts it.
    direct: Option<Rc<Pool>>,
}

/// An endpoint, and this worker's connections through it.
#[derive(Debug)]
struct EndpointPool {
    endpoint: Arc<Endpoint>,
    pool: Rc<Pool>,
    tally: Arc<Tally>,
    /// How often the process had stood still when a connection was taken last.
    stands: Cell<u64>,
}

impl EndpointPool {
    /// Connections that have waited through a stand of the process's are not used: it closes them as soon as it runs, if
    /// they have waited for too long by its own count.
    fn forget_stale(&self) {
        let stands = self.endpoint.stands();
        if self.stands.replace(stands) != stands {
            self.pool.forget_idle();
        }
    }
}

/// A request that is at the endpoint. Its response's body is counted by its connection.
struct Visit {
    reached: Rc<EndpointPool>,
    is_proven: bool,
}

impl ProgramService {
    /// `program`, for this worker. `times` hold once it has answered for the first time.
    pub fn new(program: &Arc<Program>, client: &Client, times: Times) -> Self {
        let name: Arc<str> = program.settings().name.as_str().into();
        let direct = program.direct_address().map(|address| {
            // The program goes on while one of these connections has a response to bring.
            let owner: Owner = program.clone();
            Pool::new(
                server_at(address),
                Arc::clone(&name),
                KEPT,
                None,
                Some(owner),
            )
        });
        Self {
            program: Arc::clone(program),
            client: client.clone(),
            name,
            local: Server::Unix(PathBuf::new()),
            times,
            reached: RefCell::default(),
            direct,
        }
    }

    /// Has the program respond to the request of `peer`.
    ///
    /// # Errors
    ///
    /// When it did not.
    pub async fn respond(
        &self,
        request: Request<Body>,
        peer: &Peer,
    ) -> Result<Response<Body>, UpstreamError> {
        let (mut parts, body) = request.into_parts();
        prepare(&mut parts, &body, &self.local)?;
        self.client.forwarded().tell(&mut parts.headers, peer);
        let request = Request::from_parts(parts, body);
        let mut attempt = Attempt::new(request, self.client.spares());
        let mut is_first = true;
        let deaths = self.program.shared.deaths();
        loop {
            let response = match &self.direct {
                Some(pool) => pool.send(&self.client, &mut attempt, &self.times).await,
                None => self.visit(&self.enter().await?, &mut attempt).await,
            };
            let error = match response {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            // Its next process may do better, once.
            let may_repeat = attempt.is_untouched()
                || (std::mem::take(&mut is_first) && attempt.may_be_repeated());
            let is_over = matches!(
                error,
                UpstreamError::NotReady { .. } | UpstreamError::AnswerTime { .. }
            );
            if is_over || !may_repeat {
                return Err(self.tell_lateness(error, deaths));
            }
        }
    }

    async fn visit(
        &self,
        visit: &Visit,
        attempt: &mut Attempt<'_>,
    ) -> Result<Response<Body>, UpstreamError> {
        let start_time = self.program.settings().program.start_time;
        let times = match visit.is_proven {
            true => self.times,
            false => Times {
                answer: start_time,
                ..self.times
            },
        };
        let reached = &visit.reached;
        let sending = reached.pool.send(&self.client, attempt, &times);
        let response = match visit.is_proven {
            true => sending.await,
            // A request that waits for it to accept is not the next process's as well.
            false => tokio::select! {
                biased;
                response = sending => response,
                why = self.is_hopeless() => Err(why),
            },
        };
        match response {
            Ok(response) => {
                // Looked at anew: there may be another process since the request came.
                if reached.endpoint.access() != Access::Proven {
                    reached.endpoint.prove();
                }
                Ok(response)
            }
            Err(error) => {
                match error {
                    UpstreamError::Connect { .. } => {
                        reached.pool.forget_idle();
                        reached.endpoint.refused();
                    }
                    // One process answers all: the other connections lead to a dead one, too.
                    UpstreamError::Closed { .. } => reached.pool.forget_idle(),
                    _ => {}
                }
                Err(error)
            }
        }
    }

    /// There was nobody to answer, rather than nobody who was fast enough, if the program has died since.
    fn tell_lateness(&self, error: UpstreamError, deaths: u64) -> UpstreamError {
        let shared = &self.program.shared;
        if !matches!(error, UpstreamError::AnswerTime { .. }) || shared.deaths() == deaths {
            return error;
        }
        let (reason, left) = shared.reason();
        resting(&reason, left)
    }

    /// Waits until there is no point in waiting.
    async fn is_hopeless(&self) -> UpstreamError {
        let mut view = self.program.shared.view.subscribe();
        let is_hopeless = |view: &View| {
            matches!(
                view,
                View::Resting {
                    is_hopeless: true,
                    ..
                }
            )
        };
        match view.wait_for(is_hopeless).await.as_deref() {
            Ok(View::Resting { until, reason, .. }) => resting(reason, left(*until)),
            _ => self.not_ready("is gone"),
        }
    }

    /// By the endpoint that is known, if it is still open.
    async fn enter(&self) -> Result<Visit, UpstreamError> {
        if let Some(visit) = self.reached.borrow().as_ref().and_then(Visit::begin) {
            return Ok(visit);
        }
        self.wait_for_endpoint().await
    }

    async fn wait_for_endpoint(&self) -> Result<Visit, UpstreamError> {
        let shared = &self.program.shared;
        let deadline = Instant::now() + shared.settings.program.start_time;
        // Before the state is looked at: the supervisor looks at both the other way round.
        let _in_line = shared.wait_in_line();
        let mut view = shared.view.subscribe();
        loop {
            let seen = view.borrow_and_update().clone();
            match seen {
                View::Open(endpoint) => {
                    if let Some(visit) = Visit::begin(&self.reach(&endpoint)) {
                        return Ok(visit);
                    }
                }
                View::Idle => shared.want(),
                View::Starting => {}
                View::Resting {
                    until,
                    reason,
                    is_hopeless,
                } => {
                    let left = left(until);
                    if is_hopeless || Instant::now() + left >= deadline {
                        return Err(resting(&reason, left));
                    }
                }
                View::Gone => return Err(self.not_ready("is gone")),
            }
            match tokio::time::timeout_at(deadline, view.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(self.not_ready("is gone")),
                Err(_) if shared.is_crowded() => return Err(self.crowded()),
                Err(_) => return Err(self.not_ready("did not start in time")),
            }
        }
    }

    /// The connections to this endpoint, made where it is another than before.
    fn reach(&self, endpoint: &Arc<Endpoint>) -> Rc<EndpointPool> {
        let mut reached = self.reached.borrow_mut();
        if let Some(known) = reached
            .as_ref()
            .filter(|known| Arc::ptr_eq(&known.endpoint, endpoint))
        {
            return Rc::clone(known);
        }
        let tally = endpoint.add_tally();
        let counting = Some(Arc::clone(&tally));
        let pool = endpoint.pool(Arc::clone(&self.name), KEPT, counting);
        let made = Rc::new(EndpointPool {
            stands: Cell::new(endpoint.stands()),
            endpoint: Arc::clone(endpoint),
            pool,
            tally,
        });
        Rc::clone(reached.insert(made))
    }

    /// It would be one too many.
    fn crowded(&self) -> UpstreamError {
        UpstreamError::NotReady {
            reason: format!(
                "host: the program {} cannot start: as many run as `programs` allows, and all of them have requests under \
                 way; come again, or raise it",
                self.name
            ),
            retry_after: Duration::from_secs(1),
        }
    }

    fn not_ready(&self, why: &str) -> UpstreamError {
        UpstreamError::NotReady {
            reason: format!("guest: the program {} cannot answer now: {why}", self.name),
            retry_after: Duration::ZERO,
        }
    }
}

fn left(until: std::time::Instant) -> Duration {
    until.saturating_duration_since(std::time::Instant::now())
}

/// It ended or did not start, for a reason that says whose fault that is.
fn resting(reason: &str, left: Duration) -> UpstreamError {
    UpstreamError::NotReady {
        reason: format!("{reason}; it cannot answer until it is started again"),
        retry_after: left,
    }
}

/// Where this machine reaches a listener at `address`.
fn server_at(address: &Address) -> Server {
    match address {
        Address::Unix(path) => Server::Unix(path.clone()),
        Address::Internet(address) => {
            let host = match address.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                ip => ip,
            };
            Server::Internet {
                host: host.to_string(),
                port: address.port(),
                tls: false,
            }
        }
    }
}

impl Visit {
    /// Goes in, if the endpoint is open.
    fn begin(reached: &Rc<EndpointPool>) -> Option<Self> {
        reached.tally.begin();
        // From here on its end is counted too.
        let mut visit = Self {
            reached: Rc::clone(reached),
            is_proven: false,
        };
        match reached.endpoint.access() {
            Access::Started => reached.endpoint.is_asked_first(),
            Access::Proven => visit.is_proven = true,
            Access::Closed | Access::Retired => return None,
        }
        reached.forget_stale();
        Some(visit)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.reached.tally.end();
    }
}
