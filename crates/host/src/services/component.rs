//! Components as services.

mod beside;
mod errands;
mod resting;

use crate::{
    body::Body,
    budget::Budget,
    client::{Client, Settings, Times, UpstreamError},
    code::{CodeError, CodeStore, Link, NotReady, OnDemand, Source},
    config::{self, Server},
    kinds::Level,
    log::{Line, Log, denied_request},
    metrics::{GuestMetrics, State},
    quota::Quota,
    responses,
    turns::Party,
};
use errands::Errands;
use http::{Request, Response, StatusCode};
use palisade_engine::{
    handles::Handles,
    permits::Share,
    service::{self, Engine},
};
use palisade_filter::Peer;
use palisade_network::{Answer, Gate, Resolve, ResolveError};
use palisade_policy::HostName;
use palisade_service::{
    self as guest, AnyBody, Component, Denied, Done, Errand, Fault, Host, Imports, Isolation,
    Links, LoadError, ResponseBody, SendError, Sending, Stream, Target, Worker,
};
use palisade_wasm::code::Code;
use std::{
    cell::{Cell, RefCell},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    rc::Rc,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};
use tokio::task::JoinHandle;

/// Where the guest says nothing, what a server may take that it asks: to be connected to, and to answer.
const TIMES: Times = Times {
    connect: Duration::from_secs(10),
    answer: Duration::from_secs(60),
};
/// How long the addresses of a granted name are taken for right; whoever keeps them up to date is asked then.
const PINNED_TTL: Duration = Duration::from_secs(1);

/// A component can't be a service.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum ComponentError {
    #[error(transparent)]
    Engine(#[from] service::LoadError),
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// A component, as all workers share it.
#[derive(Debug)]
pub(crate) struct Loaded {
    component: Component,
    code: Arc<OnDemand<ComponentLink>>,
    budget: Budget,
    log: Log,
}

/// Makes a component of compiled code.
#[derive(Debug)]
pub(crate) struct ComponentLink {
    engine: Engine,
    component: Component,
    log: Log,
}

impl Link for ComponentLink {
    type Linked = guest::Code;

    /// Of one of 150 KB by a profile of the heap: 36 KB.
    const HEAP_BYTES: u64 = 35 << 10;

    fn link(&self, code: &Code) -> Result<guest::Code, CodeError> {
        let loaded = self.engine.load(code).map_err(CodeError::of_host)?;
        self.component.link(&loaded).map_err(CodeError::of_guest)
    }

    fn handles(code: &guest::Code) -> Handles {
        code.handles()
    }

    fn is_in_use(code: &guest::Code) -> bool {
        code.is_in_use()
    }

    fn ask_to_leave(code: &guest::Code) {
        guest::ask_oldest_to_leave(code);
    }

    fn tell_broken(&self, error: &CodeError) {
        self.log.write(Line::new(Level::Error, error.to_string()));
    }
}

/// What components of all configurations import.
fn imports() -> Result<Imports, service::LoadError> {
    static IMPORTS: OnceLock<Imports> = OnceLock::new();
    if let Some(imports) = IMPORTS.get() {
        return Ok(imports.clone());
    }
    let imports = Imports::new(&Engine::shared()?);
    Ok(IMPORTS.get_or_init(|| imports).clone())
}

impl Loaded {
    /// What its policy comes to, and where its code comes from when it is needed. `bound` gives what it has of a pool of so
    /// many instances.
    ///
    /// # Errors
    ///
    /// When the policy asks for what no component can have.
    pub(crate) fn new(
        settings: &config::Component,
        service: &config::Service,
        source: Source,
        store: &Arc<CodeStore>,
        bound: impl FnOnce(Share, u32) -> Share,
        (quota, log): (&Arc<Quota>, Log),
    ) -> Result<Self, ComponentError> {
        let imports = imports()?;
        let engine = imports.engine().clone();
        let isolation = match settings.isolation {
            config::Isolation::Fresh => Isolation::Fresh,
            config::Isolation::Kept => Isolation::Kept,
        };
        let share = bound(settings.share, engine.options().instances);
        let links = match source.within {
            Some(_) => Links::Refused,
            None => Links::Followed,
        };
        let pool = Some(Arc::clone(quota.memory()));
        let component =
            Component::within(&imports, &service.policy, isolation, share, links, pool)?;
        let link = ComponentLink {
            engine,
            component: component.clone(),
            log: log.clone(),
        };
        Ok(Self {
            component,
            code: OnDemand::new(source, link, store),
            budget: Budget::new(service.faults),
            log,
        })
    }

    /// Its code.
    pub(crate) fn code(&self) -> &Arc<OnDemand<ComponentLink>> {
        &self.code
    }
}

/// A component on one worker.
#[derive(Debug)]
pub(crate) struct ComponentService {
    loaded: Arc<Loaded>,
    metrics: Arc<GuestMetrics>,
    party: Rc<Party>,
    /// What answers requests; made for the first, and gone when others were asked more.
    live: RefCell<Option<Rc<Live>>>,
    is_used: Cell<bool>,
}

/// What a component needs on a worker to answer.
#[derive(Debug)]
struct Live {
    worker: Worker,
    server: Rc<ForGuest>,
}

/// There is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoResponse {
    /// The guest failed; the log has been told.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// There is no code of it now.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// It failed too often, and is left alone for a while.
    #[error("guest: the component failed too often and is left alone for a while")]
    Resting,
}

impl NoResponse {
    fn status(&self) -> StatusCode {
        match self {
            Self::Fault(fault) => fault.status(),
            Self::NotReady(NotReady::Broken(_)) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NotReady(NotReady::Compiling) | Self::Resting => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What the client gets.
    pub(crate) fn response(&self) -> Response<Body> {
        if matches!(self, Self::Fault(Fault::Time(_))) {
            return responses::too_late();
        }
        let text = match self.status() {
            StatusCode::BAD_REQUEST => "the request names no host, or broke off\n",
            StatusCode::REQUEST_TIMEOUT => "the request took too long\n",
            StatusCode::SERVICE_UNAVAILABLE => "the service is not ready\n",
            StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
                "a server that the service asked did not answer\n"
            }
            _ => "the service failed\n",
        };
        let response = responses::plain(self.status(), text);
        match self {
            Self::Fault(fault) if fault.is_want_of_instances() => responses::come_again(response),
            Self::NotReady(NotReady::Compiling) => responses::come_again(response),
            _ => response,
        }
    }
}

impl ComponentService {
    /// `loaded`, for this worker.
    pub(crate) fn new(
        loaded: &Arc<Loaded>,
        metrics: Arc<GuestMetrics>,
        party: &Rc<Party>,
    ) -> Rc<Self> {
        Rc::new(Self {
            loaded: Arc::clone(loaded),
            metrics,
            party: Rc::clone(party),
            live: RefCell::default(),
            is_used: Cell::new(false),
        })
    }

    /// Whether it is this one's.
    pub(crate) fn is_of(&self, loaded: &Arc<Loaded>) -> bool {
        Arc::ptr_eq(&self.loaded, loaded)
    }

    /// Has the component respond to the request of `peer`.
    ///
    /// # Errors
    ///
    /// When it did not.
    pub(crate) async fn respond(
        self: &Rc<Self>,
        request: Request<Body>,
        peer: &Peer,
    ) -> Result<Response<Body>, NoResponse> {
        if self.loaded.budget.is_at_rest() {
            self.metrics.set_state(State::Resting);
            return Err(NoResponse::Resting);
        }
        let code = self.code().await?;
        self.metrics.set_state(State::Ready);
        let live = self.live();
        let (mut parts, body) = request.into_parts();
        live.server.client.forwarded().tell_guest(&mut parts, peer);
        let request = Request::from_parts(parts, beside::read_beside(body));
        let is_secure = peer.tls_version.is_some();
        let response = live.worker.answer(&code, request, is_secure).await?;
        Ok(response.map(Body::from))
    }

    /// Its code; what keeps it away is counted.
    async fn code(&self) -> Result<guest::Code, NotReady> {
        match self.loaded.code.get_loaded() {
            Some(code) => Ok(code),
            None => Box::pin(self.load()).await,
        }
    }

    /// Its code, loaded when it is its tenant's turn.
    async fn load(&self) -> Result<guest::Code, NotReady> {
        self.metrics.set_state(State::Starting);
        let load = || self.loaded.code.get_at_once();
        let code = match self.party.run_in_turn(load).await {
            Some(code) => code,
            None => self.loaded.code.get().await,
        };
        if let Err(NotReady::Broken(error)) = &code {
            self.metrics.set_state(State::Broken);
            self.metrics.fault(error.to_string());
        }
        code
    }

    /// Called where requests are answered, and so in the worker's `LocalSet`.
    fn live(self: &Rc<Self>) -> Rc<Live> {
        self.is_used.set(true);
        if let Some(live) = &*self.live.borrow() {
            return Rc::clone(live);
        }
        let live = Rc::new(Live::new(self));
        *self.live.borrow_mut() = Some(Rc::clone(&live));
        resting::note(self);
        live
    }
}

impl Live {
    fn new(service: &ComponentService) -> Self {
        let gate = Arc::clone(service.loaded.component.reach().gate());
        let server = Rc::new(ForGuest {
            // Of its own: no other guest's connections, and no names but those that are granted.
            client: Client::new(guest_settings(gate)),
            loaded: Arc::clone(&service.loaded),
            metrics: Arc::clone(&service.metrics),
            party: Rc::clone(&service.party),
            errands: errands::of_thread(),
        });
        let host: Rc<dyn Host> = Rc::clone(&server) as _;
        Self {
            worker: Worker::new(&service.loaded.component, host),
            server,
        }
    }
}

impl From<ResponseBody> for Body {
    fn from(body: ResponseBody) -> Self {
        match body {
            ResponseBody::Empty => Self::Empty,
            ResponseBody::Whole(bytes) => Self::Whole(bytes),
            streaming @ ResponseBody::Streaming(_) => Self::Other(Box::pin(streaming)),
        }
    }
}

/// What the server does for a component.
struct ForGuest {
    loaded: Arc<Loaded>,
    metrics: Arc<GuestMetrics>,
    party: Rc<Party>,
    client: Client,
    errands: Errands,
}

impl std::fmt::Debug for ForGuest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ForGuest").finish_non_exhaustive()
    }
}

impl Host for ForGuest {
    fn log(&self, stream: Stream, line: &str) {
        let line = match stream {
            Stream::Stdout => Line::new(Level::Info, line).with("stream", "stdout"),
            Stream::Stderr => Line::new(Level::Info, line).with("stream", "stderr"),
            Stream::Wall => Line::new(Level::Warn, line),
        };
        self.loaded.log.write(line);
    }

    fn send(
        &self,
        request: Request<AnyBody>,
        target: Target,
        times: palisade_service::Times,
    ) -> Sending {
        let client = self.client.clone();
        let server = Server::Internet {
            host: target.host,
            port: target.port,
            tls: target.tls,
        };
        let times = Times {
            connect: times.connect.unwrap_or(TIMES.connect),
            answer: times.first_byte.unwrap_or(TIMES.answer),
        };
        // Guests run in the worker's own tasks, where others can be spawned; whoever waits need not be in one.
        let sending = UnderWay(tokio::task::spawn_local(async move {
            client.send(&server, request.map(Body::Other), &times).await
        }));
        let log = self.loaded.log.clone();
        Box::pin(async move {
            let response = sending.await.map_err(|error| {
                log.write(Line::new(Level::Warn, error.to_string()));
                send_error(&error)
            })?;
            Ok(response.map(|body| -> AnyBody { Box::pin(body) }))
        })
    }

    fn spawn(&self, errand: Errand) {
        // The task that takes them ends with the worker, and with it all errands.
        let _ = self.errands.send(errand);
    }

    fn turn(&self, has_yielded: bool) -> Option<Errand> {
        let turn = self.party.turn(has_yielded)?;
        Some(Box::pin(turn))
    }

    fn ran(&self, ns: u64, had_turn: bool) {
        self.party.ran(ns, had_turn);
    }

    fn denied(&self, denied: &Denied) {
        self.metrics.denials.add(1);
        let (target, why) = (denied.target.clone(), denied.why.clone());
        self.loaded.log.event(denied_request(target, why));
    }

    fn done(&self, done: Done<'_>) {
        self.metrics.cpu_ns.add(done.cpu_ns);
        let Some(fault) = done.fault.filter(|fault| fault.is_breakdown()) else {
            return;
        };
        self.metrics.fault(fault.to_string());
        if let Some(rest) = self.loaded.budget.spend() {
            let text = format!(
                "guest: it failed too often and is left alone for {} s",
                rest.as_secs()
            );
            self.loaded.log.write(Line::new(Level::Error, text));
        }
    }

    fn memory(&self, bytes: u64) {
        self.metrics.memory_bytes.set(bytes);
    }

    fn restarted(&self) {
        self.metrics.restarts.add(1);
    }
}

/// A request of the guest's. Nobody waits for it any more when this is dropped.
struct UnderWay(JoinHandle<Result<Response<Body>, UpstreamError>>);

impl Future for UnderWay {
    type Output = Result<Response<Body>, UpstreamError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let joined = Pin::new(&mut self.0).poll(context);
        // Nobody but this ends it, so that it only fails with the worker itself.
        joined.map(|joined| {
            joined.unwrap_or_else(|_| {
                Err(UpstreamError::NotReady {
                    reason: "host: the server stops".into(),
                    retry_after: Duration::ZERO,
                })
            })
        })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// For connections that a guest asks for.
fn guest_settings(gate: Arc<Gate>) -> Settings {
    Settings {
        resolver: Arc::new(Pinned(Arc::clone(&gate))),
        gate: Some(gate),
        ..Settings::default()
    }
}

/// What a guest may know.
fn send_error(error: &UpstreamError) -> SendError {
    match error {
        UpstreamError::Resolve { .. } | UpstreamError::Connect { .. } => SendError::Refused,
        UpstreamError::ConnectTime { .. } | UpstreamError::AnswerTime { .. } => SendError::Timeout,
        UpstreamError::Tls { .. } => SendError::Tls,
        UpstreamError::Closed { .. }
        | UpstreamError::Malformed { .. }
        | UpstreamError::Heads { .. }
        | UpstreamError::Switched { .. } => SendError::Protocol,
        UpstreamError::RequestBody { .. }
        | UpstreamError::Tunnel
        | UpstreamError::Upgrade
        | UpstreamError::NotReady { .. } => SendError::Other("it was not sent".into()),
    }
}

/// Names stand for what is pinned for them, and nothing else has an address.
struct Pinned(Arc<Gate>);

impl Resolve for Pinned {
    fn addresses(&self, name: &HostName) -> Result<Answer, ResolveError> {
        let network = self.0.network();
        let pinned = match name.is_localhost() {
            true => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            false => network
                .pins
                .iter()
                .find(|pins| pins.name == *name)
                .map(|pins| pins.addresses.clone())
                .unwrap_or_default(),
        };
        let mut addresses: Vec<IpAddr> = pinned;
        addresses.retain(|address| network.is_granted_for_tcp(SocketAddr::new(*address, 0)));
        match addresses.is_empty() {
            true => Err(ResolveError::NotFound),
            false => Ok(Answer {
                addresses,
                ttl: PINNED_TTL,
            }),
        }
    }

    fn interface(&self, _: &str) -> Option<u32> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_network::{Network, SystemResolver};
    use palisade_policy::{ConnectGrant, HostPattern, Policy};
    use std::{net::TcpListener, path::Path};

    fn network(connect: &str) -> (Network, Policy) {
        let text = format!("[grants]\nconnect = [\"{connect}\"]");
        let policy = Policy::from_toml(&text, "test", Path::new("/")).unwrap();
        let resolver = SystemResolver::default();
        let network = Network::resolve(&policy.grants.connect, &[], &resolver).unwrap();
        (network, policy)
    }

    /// The name of the policy's first grant.
    fn name(policy: &Policy) -> HostName {
        match &policy.grants.connect[0] {
            ConnectGrant::Internet {
                host: HostPattern::Name(name),
                ..
            } => name.clone(),
            other => panic!("no name: {other:?}"),
        }
    }

    #[test]
    fn a_name_has_an_address_only_where_it_is_granted() {
        let (granted, policy) = network("tcp://localhost:80");
        let localhost = name(&policy);
        let asked = Pinned(Arc::new(Gate::new(granted))).addresses(&localhost);
        assert_eq!(asked.unwrap().addresses.len(), 2);
        let (other, _) = network("tcp://192.0.2.1:80");
        let asked = Pinned(Arc::new(Gate::new(other))).addresses(&localhost);
        assert_eq!(asked, Err(ResolveError::NotFound));
    }

    /// One address of a name is granted at this port, the other one at another port.
    #[tokio::test]
    async fn an_address_is_granted_with_its_port() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let port = server.local_addr().unwrap().port();
        let (network, _) = network(&format!("tcp://127.0.0.1:1\", \"tcp://[::1]:{port}"));
        let gate = Arc::new(Gate::new(network));
        let client = Client::new(guest_settings(gate));
        let target = Server::Internet {
            host: "localhost".into(),
            port,
            tls: false,
        };
        let send = client.send(&target, Request::new(Body::Empty), &TIMES);
        let answer = tokio::task::LocalSet::new().run_until(send).await;
        assert!(matches!(answer, Err(UpstreamError::Connect { .. })));
        let came = server.accept().map(drop).unwrap_err();
        assert_eq!(came.kind(), std::io::ErrorKind::WouldBlock);
    }
}
