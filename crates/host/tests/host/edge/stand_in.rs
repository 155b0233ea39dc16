//! What answers in place of a site: each path shows one thing.

use crate::raw_http::Client;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use palisade_filter::Peer;
use palisade_host::{
    body::{Body, BodyError},
    config::{Address, Limits, Listener},
    edge::{Edge, EdgeError, EdgeMetrics, Notice},
    record::RequestRecord,
    serve::Serve,
    worker::Workers,
};
use std::{
    fmt::Write,
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    path::Path,
    pin::Pin,
    rc::Rc,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::Semaphore;

/// A generation: its name is in its answers.
pub(crate) struct Generation {
    name: &'static str,
    /// What requests for `/gate` wait for.
    gate: Arc<Semaphore>,
    entered: mpsc::Sender<()>,
    /// What `/hang` waits for, and its worker with it.
    hanging: Arc<Mutex<mpsc::Receiver<()>>>,
}

pub(crate) struct StandIn {
    generation: Arc<Generation>,
}

impl Serve for StandIn {
    type Generation = Generation;

    fn state(generation: &Arc<Generation>, _: usize) -> Rc<Self> {
        Rc::new(Self {
            generation: Arc::clone(generation),
        })
    }

    async fn respond(
        self: Rc<Self>,
        peer: &Rc<Peer>,
        request: Request<Body>,
        _: &mut RequestRecord,
    ) -> Response<Body> {
        match request.uri().path() {
            "/" => Response::new(Body::from(self.generation.name)),
            "/head" => Response::new(Body::from(Bytes::from(describe(&request)))),
            "/peer" => Response::new(Body::from(Bytes::from(format!("{peer:?}")))),
            "/echo" => echo(request).await,
            "/trailers" => tell_trailers(request).await,
            "/gate" => self.wait_at_gate().await,
            "/hang" => self.hang(),
            "/stuck" => stick().await,
            "/walls" => Response::new(Body::from(Bytes::from(try_walls().await))),
            "/forever" => std::future::pending().await,
            "/stalled" => Response::new(Body::new(Stalled { has_begun: false })),
            "/file-once" => file_once(),
            "/file" => Response::new(Body::new(Endless::of_file())),
            "/endless" => Response::new(Body::new(Endless::default())),
            "/switch" => {
                let mut response = Response::new(Body::Empty);
                *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                response
            }
            _ => {
                let mut response = Response::new(Body::Empty);
                *response.status_mut() = StatusCode::NOT_FOUND;
                response
            }
        }
    }
}

impl StandIn {
    async fn wait_at_gate(&self) -> Response<Body> {
        let _ = self.generation.entered.send(());
        if let Ok(permit) = self.generation.gate.acquire().await {
            permit.forget();
        }
        Response::new(Body::from(self.generation.name))
    }

    /// Nothing else runs on this worker until it is over.
    fn hang(&self) -> Response<Body> {
        let _ = self.generation.entered.send(());
        let hanging = self.generation.hanging.lock();
        let _ = hanging.map(|hanging| hanging.recv());
        Response::new(Body::from(self.generation.name))
    }
}

/// Everything that a service could see of a request but its body, a line each.
fn describe(request: &Request<Body>) -> String {
    let mut text = format!("{} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        let _ = writeln!(
            text,
            "{name}: {}",
            String::from_utf8_lossy(value.as_bytes())
        );
    }
    text
}

/// What a worker's threads may do that answers strangers, a line each.
async fn try_walls() -> String {
    let beside = tokio::task::spawn_blocking(start_program);
    let beside = beside.await.unwrap_or_else(|error| error.to_string());
    let folder = tempfile::tempdir().expect("a folder");
    let of_folder = |name: &str| folder.path().join(name);
    let moved = std::fs::create_dir(of_folder("a"))
        .and_then(|()| std::fs::create_dir(of_folder("b")))
        .and_then(|()| std::fs::write(of_folder("a/f"), "moved"))
        .and_then(|()| std::fs::rename(of_folder("a/f"), of_folder("b/f")))
        .and_then(|()| std::fs::read_to_string(of_folder("b/f")));
    let moved = moved.unwrap_or_else(|error| error.to_string());
    format!(
        "worker {}\nbeside {beside}\nfile {moved}\n",
        start_program()
    )
}

fn start_program() -> String {
    match std::process::Command::new("/bin/true").status() {
        Ok(status) => status.to_string(),
        Err(error) => error.kind().to_string(),
    }
}

/// What it was asked for, and the fields behind its body.
async fn tell_trailers(request: Request<Body>) -> Response<Body> {
    let mut text = format!("{} {}\n", request.method(), request.uri());
    let body = request.into_body().collect().await;
    let trailers = body.ok().and_then(|body| body.trailers().cloned());
    for (name, value) in &trailers.unwrap_or_default() {
        let _ = writeln!(text, "{name}: {}", value.to_str().unwrap_or_default());
    }
    Response::new(Body::from(Bytes::from(text)))
}

/// On a thread for calls that wait.
async fn stick() -> Response<Body> {
    let stuck = tokio::task::spawn_blocking(|| {
        loop {
            std::thread::park();
        }
    });
    let _ = stuck.await;
    Response::new(Body::Empty)
}

async fn echo(request: Request<Body>) -> Response<Body> {
    match request.into_body().collect().await {
        Ok(body) => Response::new(Body::from(body.to_bytes())),
        Err(error) => {
            let mut response = Response::new(Body::from(Bytes::from(error.to_string())));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }
    }
}

/// A body that begins and does not go on.
struct Stalled {
    has_begun: bool,
}

impl http_body::Body for Stalled {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        match std::mem::replace(&mut self.has_begun, true) {
            false => Poll::Ready(Some(Ok(http_body::Frame::data("part".into())))),
            true => Poll::Pending,
        }
    }
}

/// An answer for which a file is opened.
fn file_once() -> Response<Body> {
    let mut response = Response::new(Body::Empty);
    if std::fs::File::open("/dev/null").is_err() {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// A body without end, which may hold a descriptor.
#[derive(Default)]
struct Endless(#[expect(dead_code, reason = "it is held")] Option<std::fs::File>);

impl Endless {
    fn of_file() -> Self {
        Self(std::fs::File::open("/dev/null").ok())
    }
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, BodyError>>> {
        static PART: [u8; 16 << 10] = [b'x'; 16 << 10];
        Poll::Ready(Some(Ok(http_body::Frame::data(Bytes::from_static(&PART)))))
    }
}

/// A server in this process.
pub(crate) struct Server {
    workers: Workers<StandIn>,
    gate: Arc<Semaphore>,
    entering: mpsc::Sender<()>,
    entered: mpsc::Receiver<()>,
    hanging: Arc<Mutex<mpsc::Receiver<()>>>,
    unhang: mpsc::Sender<()>,
    pub(crate) notices: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Two workers at a free port of loopback.
    pub(crate) fn start(limits: Limits) -> Self {
        Self::try_start(&edge(vec![anywhere()], limits), 2).expect("the server starts")
    }

    pub(crate) fn try_start(edge: &Edge, workers: usize) -> Result<Self, EdgeError> {
        let gate = Arc::new(Semaphore::new(0));
        let (entering, entered) = mpsc::channel();
        let (unhang, hanging) = mpsc::channel();
        let hanging = Arc::new(Mutex::new(hanging));
        let notices = Arc::new(Mutex::new(Vec::new()));
        let noticed = {
            let notices = Arc::clone(&notices);
            move |notice: Notice| {
                notices
                    .lock()
                    .expect("no test panicked")
                    .push(notice.to_string());
            }
        };
        let first = Arc::new(Generation {
            name: "first",
            gate: Arc::clone(&gate),
            entered: entering.clone(),
            hanging: Arc::clone(&hanging),
        });
        let workers = Workers::start(first, edge, NonZeroUsize::new(workers), noticed)?;
        Ok(Self {
            workers,
            gate,
            entering,
            entered,
            hanging,
            unhang,
            notices,
        })
    }

    pub(crate) fn swap(&mut self, name: &'static str, edge: &Edge) -> Result<(), EdgeError> {
        let next = Arc::new(Generation {
            name,
            gate: Arc::clone(&self.gate),
            entered: self.entering.clone(),
            hanging: Arc::clone(&self.hanging),
        });
        self.workers.swap(next, edge)
    }

    pub(crate) fn reload_certificates(&self) -> Result<(), EdgeError> {
        self.workers.reload_certificates()
    }

    pub(crate) fn stop(self, time: Duration) -> usize {
        self.workers.stop(time)
    }

    /// Waits until a request stands at the gate.
    pub(crate) fn wait_for_request(&self) {
        self.entered
            .recv_timeout(Duration::from_secs(20))
            .expect("a request comes to the gate");
    }

    /// What is over once every worker has had its turn.
    pub(crate) fn all_answer(&self) -> impl Future<Output = ()> + use<> {
        self.workers.all_answer()
    }

    /// Lets a worker go on that hangs.
    pub(crate) fn unhang(&self) {
        self.unhang.send(()).expect("a generation waits for it");
    }

    /// Lets requests through the gate.
    pub(crate) fn open_gate(&self, requests: usize) {
        self.gate.add_permits(requests);
    }

    pub(crate) fn gate(&self) -> Arc<Semaphore> {
        Arc::clone(&self.gate)
    }

    /// The addresses of internet listeners, in the configuration's order.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let internet = |address| match address {
            Address::Internet(address) => Some(address),
            Address::Unix(_) => None,
        };
        self.workers
            .addresses()
            .into_iter()
            .filter_map(internet)
            .collect()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses()[0]
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// One of the workers' metrics, added up.
    pub(crate) fn figure(&self, figure: impl Fn(&EdgeMetrics) -> u64) -> u64 {
        self.workers
            .metrics()
            .iter()
            .map(|metrics| figure(metrics))
            .sum()
    }
}

pub(crate) fn edge(listeners: Vec<Listener>, limits: Limits) -> Edge {
    Edge { listeners, limits }
}

/// A free port of loopback.
pub(crate) fn anywhere() -> Listener {
    at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

pub(crate) fn at(address: SocketAddr) -> Listener {
    Listener {
        address: Address::Internet(address),
        tls: Vec::new(),
        mode: None,
    }
}

pub(crate) fn at_path(path: &Path) -> Listener {
    Listener {
        address: Address::Unix(path.to_owned()),
        tls: Vec::new(),
        mode: None,
    }
}

/// Limits that a test can wait for: half a second for everything.
pub(crate) fn short() -> Limits {
    let time = Duration::from_millis(500);
    Limits {
        header_time: time,
        body_time: time,
        idle_time: time,
        ..Limits::default()
    }
}
