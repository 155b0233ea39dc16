//! The admin socket: metrics for Prometheus, status as JSON, reload.
//!
//! ```text
//!  GET /metrics ─┐
//!  GET /status  ─┼─▶ main thread ──▶ Report
//!  POST /reload ─┘        └──asks──▶ reload
//! ```
//!
//! It is served by the main thread, which answers no requests of clients: it answers while every worker is
//! busy. Who reaches it may reload the server, so it is a Unix socket of the server's user, or a port of
//! the loopback that web pages cannot use.

mod code;
mod listener;
pub mod prometheus;
pub mod status;
#[cfg(test)]
mod tests;

pub use code::CodeStatus;
pub use listener::{AdminError, AdminListener};

use crate::{
    code::CodeStore,
    edge::EdgeMetrics,
    kinds::Level,
    log::{Line, Log},
    metrics::Registry,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, uri::Authority};
use http_body_util::Full;
use hyper::body::Incoming;
use palisade_filter::Shared;
use serde::Serialize;
use std::{
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
    time::{Instant, SystemTime},
};
use tokio::sync::{mpsc, oneshot};

/// What there is to tell of a server.
#[derive(Debug)]
pub struct Report {
    /// The configuration's file.
    pub file: PathBuf,
    /// When the server began.
    pub started: SystemTime,
    /// The same, for lengths of time.
    pub begun: Instant,
    /// Figures of all guests.
    pub registry: Arc<Registry>,
    /// What filters share, their own metrics among it.
    pub shared: Arc<Shared>,
    /// The log.
    pub log: Log,
    code: Option<Arc<CodeStore>>,
    now: Mutex<Now>,
}

/// What changes with reloads.
#[derive(Clone, Debug, Default)]
pub struct Now {
    /// The generation that serves, from 1.
    pub generation: u64,
    /// Since when it does.
    pub since: Option<SystemTime>,
    /// Where requests come in, as people write it.
    pub listeners: Vec<String>,
    /// Figures of the workers' connections, one for each worker.
    pub edge: Vec<Arc<EdgeMetrics>>,
    /// What in the configuration is probably not meant.
    pub warnings: Vec<String>,
    /// Guests that the configuration has, each with what it is.
    pub guests: Vec<Guest>,
    /// Reloads that led to a new generation.
    pub reloads: u64,
    /// Reloads that left the old one serving.
    pub failed_reloads: u64,
    /// Why the last reload failed, and when; nothing once one has succeeded.
    pub last_failure: Option<(SystemTime, String)>,
}

/// A guest of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// Filter or service.
    pub kind: crate::kinds::GuestKind,
    /// Its name.
    pub name: String,
    /// `filter`, `component`, `program`, `files` or `upstream`.
    pub what: &'static str,
}

impl Report {
    /// Of a server that begins now and serves nothing yet.
    pub fn new(file: PathBuf, registry: Arc<Registry>, shared: Arc<Shared>, log: Log) -> Self {
        Self {
            file,
            started: SystemTime::now(),
            begun: Instant::now(),
            registry,
            shared,
            log,
            code: None,
            now: Mutex::default(),
        }
    }

    /// Tells of the code that is loaded, too.
    #[must_use]
    pub fn with_code(self, code: Arc<CodeStore>) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    /// What code is loaded.
    pub fn code(&self) -> Option<CodeStatus> {
        self.code.as_ref().map(|code| code.figures().into())
    }

    /// What changes with reloads, to be looked at or changed.
    pub fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

/// What a reload came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub struct Reloaded {
    /// The generation that serves now.
    pub generation: u64,
    /// What in the configuration is probably not meant.
    pub warnings: Vec<String>,
    /// Why the old generation still serves; nothing if the new one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Somebody who waits for a reload.
pub type Asked = oneshot::Sender<Reloaded>;

/// What answers at the admin socket.
#[derive(Clone, Debug)]
pub struct Admin {
    report: Arc<Report>,
    reloads: mpsc::Sender<Asked>,
}

impl Admin {
    /// Tells `report`, and hands those who want a reload over to `reloads`.
    pub fn new(report: Arc<Report>, reloads: mpsc::Sender<Asked>) -> Self {
        Self { report, reloads }
    }

    async fn answer(&self, request: Request<Incoming>, is_internet: bool) -> Response<Full<Bytes>> {
        if is_internet && let Some(why) = from_a_web_page(request.headers()) {
            return refuse(StatusCode::FORBIDDEN, why);
        }
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/metrics") => text(prometheus::TYPE, prometheus::write(&self.report)),
            (&Method::GET, "/status") => json(StatusCode::OK, &status::status(&self.report)),
            (&Method::POST, "/reload") => self.reload().await,
            (_, "/metrics" | "/status") => not_allowed("GET"),
            (_, "/reload") => not_allowed("POST"),
            _ => refuse(
                StatusCode::NOT_FOUND,
                "there are GET /metrics, GET /status and POST /reload",
            ),
        }
    }

    /// Answers once the new generation serves, or when it is sure that it will not.
    async fn reload(&self) -> Response<Full<Bytes>> {
        let (asked, answer) = oneshot::channel();
        let about_to_stop = || {
            refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "the server is about to stop",
            )
        };
        if self.reloads.send(asked).await.is_err() {
            return about_to_stop();
        }
        let Ok(reloaded) = answer.await else {
            return about_to_stop();
        };
        let status = match reloaded.error {
            None => StatusCode::OK,
            Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
        };
        json(status, &reloaded)
    }

    /// Notes what goes wrong with a connection only where somebody looks for it.
    fn note(&self, error: &dyn std::error::Error) {
        let line = Line::new(Level::Debug, "a connection to the admin socket broke off");
        self.report
            .log
            .write(line.with("error", &*error.to_string()));
    }
}

/// A web page can make a browser on this machine send requests to a port of the loopback, under a name that
/// the page's owner has lead there. A browser tells by the host asked for, or by an `origin`.
fn from_a_web_page(headers: &HeaderMap) -> Option<&'static str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let is_local = hosts.next().is_some_and(is_loopback) && hosts.next().is_none();
    match (is_local, headers.contains_key(header::ORIGIN)) {
        (true, false) => None,
        (false, _) => {
            Some("the admin socket is asked for by its address, as 127.0.0.1 or localhost")
        }
        (_, true) => Some("the admin socket answers no web page"),
    }
}

/// Whether no name server was needed to come here.
fn is_loopback(host: &HeaderValue) -> bool {
    let authority = Authority::try_from(host.as_bytes());
    authority.is_ok_and(|authority| {
        let host = authority.host();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let is_address = |address: IpAddr| address.is_loopback();
        host.eq_ignore_ascii_case("localhost") || address.parse().is_ok_and(is_address)
    })
}

fn text(kind: &'static str, text: String) -> Response<Full<Bytes>> {
    with_type(StatusCode::OK, kind, text)
}

fn json(status: StatusCode, value: &impl Serialize) -> Response<Full<Bytes>> {
    match serde_json::to_string_pretty(value) {
        Ok(text) => with_type(status, "application/json", text + "\n"),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn not_allowed(method: &'static str) -> Response<Full<Bytes>> {
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, &format!("use {method}"));
    let allowed = HeaderValue::from_static(method);
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

fn refuse(status: StatusCode, why: &str) -> Response<Full<Bytes>> {
    let error = serde_json::json!({ "error": why });
    with_type(status, "application/json", format!("{error}\n"))
}

fn with_type(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
