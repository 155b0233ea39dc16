//! A worker with a server that writes down what it is told.

use crate::guests;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use palisade_engine::{permits::Share, service::Engine};
use palisade_policy::Policy;
use palisade_service::{
    AnyBody, BodyError, Code, Component, Denied, Done, Errand, Fault, Host, Imports, Isolation,
    Links, LoadError, ResponseBody, Sending, Stream, Target, Times, Worker,
};
use std::{
    cell::RefCell,
    future::poll_fn,
    path::Path,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll},
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc,
    task::LocalSet,
};

/// What the server was told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) lines: Vec<(Stream, String)>,
    pub(crate) sent: Vec<(Target, Times)>,
    pub(crate) denied: u32,
    pub(crate) done: u32,
    pub(crate) faults: u32,
    pub(crate) restarted: u32,
    pub(crate) cpu_ns: u64,
    pub(crate) memory_bytes: u64,
}

#[derive(Default)]
struct Server(RefCell<Metrics>);

impl Host for Server {
    fn log(&self, stream: Stream, line: &str) {
        self.0.borrow_mut().lines.push((stream, line.to_owned()));
    }

    fn send(&self, request: Request<AnyBody>, target: Target, times: Times) -> Sending {
        self.0.borrow_mut().sent.push((target, times));
        let text = format!("sent {}", request.uri().path());
        let body: AnyBody = Box::pin(whole(&text));
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(Response::new(body))
        })
    }

    fn spawn(&self, errand: Errand) {
        tokio::task::spawn_local(errand);
    }

    fn denied(&self, _: &Denied) {
        self.0.borrow_mut().denied += 1;
    }

    fn done(&self, done: Done<'_>) {
        let mut metrics = self.0.borrow_mut();
        metrics.done += 1;
        metrics.cpu_ns += done.cpu_ns;
        metrics.faults += u32::from(done.fault.is_some());
    }

    fn memory(&self, bytes: u64) {
        self.0.borrow_mut().memory_bytes = bytes;
    }

    fn restarted(&self) {
        self.0.borrow_mut().restarted += 1;
    }
}

/// One worker, on this thread.
pub(crate) struct Fixture {
    worker: Worker,
    code: Code,
    server: Rc<Server>,
    runtime: Runtime,
    local: LocalSet,
}

/// A response, to its end.
#[derive(Debug)]
pub(crate) struct WholeResponse {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
    /// By the body itself.
    pub(crate) announced_bytes: Option<u64>,
}

impl WholeResponse {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub(crate) fn policy(text: &str) -> Policy {
    Policy::from_toml(text, "test", Path::new("/")).expect("a policy")
}

impl Fixture {
    pub(crate) fn new(component: &wasmtime::component::Component, text: &str) -> Self {
        Self::isolated(component, text, Isolation::Fresh)
    }

    /// With so much of the engine's pool.
    pub(crate) fn sharing(
        engine: &Engine,
        component: &wasmtime::component::Component,
        share: Share,
    ) -> Self {
        Self::in_pool(engine, component, share, Isolation::Fresh)
    }

    /// The same, with instances that wait for a next request or do not.
    pub(crate) fn in_pool(
        engine: &Engine,
        component: &wasmtime::component::Component,
        share: Share,
        isolation: Isolation,
    ) -> Self {
        let made = Component::new(
            &Imports::new(engine),
            &policy(""),
            isolation,
            share,
            Links::Followed,
        );
        Self::of(made, component)
    }

    pub(crate) fn kept(component: &wasmtime::component::Component, text: &str) -> Self {
        Self::isolated(component, text, Isolation::Kept)
    }

    fn isolated(
        component: &wasmtime::component::Component,
        text: &str,
        isolation: Isolation,
    ) -> Self {
        let share = Share::default();
        let imports = Imports::new(&guests::engine());
        Self::of(
            Component::new(&imports, &policy(text), isolation, share, Links::Followed),
            component,
        )
    }

    fn of(made: Result<Component, LoadError>, component: &wasmtime::component::Component) -> Self {
        let made = made.expect("a policy of a service");
        let server = Rc::new(Server::default());
        let host: Rc<dyn Host> = Rc::clone(&server) as _;
        Self {
            worker: Worker::new(&made, host),
            code: made.link(component).expect("a service"),
            server,
            runtime: Builder::new_current_thread().enable_all().build().unwrap(),
            local: LocalSet::new(),
        }
    }

    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.local.block_on(&self.runtime, future)
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.server.0.borrow().clone()
    }

    pub(crate) async fn ask_async<B>(
        &self,
        request: Request<B>,
    ) -> Result<Response<ResponseBody>, Fault>
    where
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<BodyError>,
    {
        self.worker.answer(&self.code, request, false).await
    }

    /// The whole response; a fault's status where there is none.
    pub(crate) fn ask<B>(&self, request: Request<B>) -> WholeResponse
    where
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<BodyError>,
    {
        self.run(async {
            match self.ask_async(request).await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    WholeResponse {
                        status: head.status,
                        announced_bytes: body.size_hint().exact(),
                        body: body.collect().await.expect("a whole body").to_bytes(),
                    }
                }
                Err(fault) => WholeResponse {
                    status: fault.status(),
                    announced_bytes: None,
                    body: Bytes::new(),
                },
            }
        })
    }

    pub(crate) fn get(&self, path: &str) -> WholeResponse {
        self.ask(request(path, whole("")))
    }

    /// The fault of a request that must fail, before its head or in its body; the server was told once.
    pub(crate) fn fail(&self, path: &str) -> Fault {
        self.fail_with(path, whole(""))
    }

    /// The same, of a request with a body.
    pub(crate) fn fail_with<B>(&self, path: &str, body: B) -> Fault
    where
        B: Body<Data = Bytes, Error = BodyError> + 'static,
    {
        let before = self.metrics();
        let fault = self.run(async {
            match self.ask_async(request(path, body)).await {
                Err(fault) => fault,
                Ok(response) => {
                    let error = response.into_body().collect().await.expect_err("a fault");
                    *error.downcast().expect("a fault")
                }
            }
        });
        // A guest that has said no may need another turn to end.
        self.wait_for_done(before.done + 1);
        let metrics = self.metrics();
        assert_eq!(metrics.done, before.done + 1, "{fault}");
        assert_eq!(metrics.faults, before.faults + 1, "{fault}");
        let told = (Stream::Wall, fault.to_string());
        assert!(
            metrics.lines[before.lines.len()..].contains(&told),
            "{fault}"
        );
        fault
    }

    /// Lets what is under way go on until so many requests are over.
    pub(crate) fn wait_for_done(&self, requests: u32) {
        self.run(async {
            while self.metrics().done < requests {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        });
    }
}

pub(crate) fn request<B>(path: &str, body: B) -> Request<B> {
    let request = Request::get(path).header("host", "test");
    request.body(body).expect("a request")
}

pub(crate) fn whole(text: &str) -> impl Body<Data = Bytes, Error = BodyError> + use<> {
    Full::new(Bytes::copy_from_slice(text.as_bytes())).map_err(|never| match never {})
}

/// A body that breaks off before its first part.
pub(crate) struct Broken;

impl Body for Broken {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Ready(Some(Err("it is broken".into())))
    }
}

/// A body that goes on for ever after its first part.
pub(crate) fn never() -> impl Body<Data = Bytes, Error = BodyError> {
    let (parts, body) = channel();
    parts.data("begun");
    std::mem::forget(parts);
    body
}

/// The end of a body where its parts are put in.
pub(crate) struct Parts(mpsc::UnboundedSender<Frame<Bytes>>);

impl Parts {
    pub(crate) fn data(&self, text: &str) {
        let data = Bytes::copy_from_slice(text.as_bytes());
        assert!(self.0.send(Frame::data(data)).is_ok());
    }

    pub(crate) fn trailers(self, name: &'static str, value: &'static str) {
        let mut trailers = HeaderMap::new();
        trailers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
        assert!(self.0.send(Frame::trailers(trailers)).is_ok());
    }
}

/// A body of the same thread, which must not leave it.
pub(crate) struct Parted {
    parts: mpsc::UnboundedReceiver<Frame<Bytes>>,
    _same_thread: Rc<()>,
}

pub(crate) fn channel() -> (Parts, Parted) {
    let (sender, parts) = mpsc::unbounded_channel();
    let body = Parted {
        parts,
        _same_thread: Rc::new(()),
    };
    (Parts(sender), body)
}

impl Body for Parted {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.parts.poll_recv(context).map(|part| part.map(Ok))
    }
}

/// The next part of a response, which must come.
pub(crate) async fn next(body: &mut ResponseBody) -> Frame<Bytes> {
    body.frame().await.expect("a part").expect("no fault")
}

pub(crate) async fn is_at_end(body: &mut ResponseBody) -> bool {
    body.frame().await.is_none()
}

/// Whether a future waits; it is dropped then.
pub(crate) async fn is_pending<T>(future: impl Future<Output = T>) -> bool {
    let mut future = pin!(future);
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

/// What a future gives now, if it does.
pub(crate) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

/// Whether the first of two futures is ready before the other, which is polled first.
pub(crate) async fn is_first<A, B>(
    first: impl Future<Output = A>,
    other: impl Future<Output = B>,
) -> bool {
    let (mut first, mut other) = (pin!(first), pin!(other));
    poll_fn(|context| {
        if other.as_mut().poll(context).is_ready() {
            return Poll::Ready(false);
        }
        first.as_mut().poll(context).map(|_| true)
    })
    .await
}
