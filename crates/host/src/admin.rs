//! The admin socket: a page for people, metrics for Prometheus, status as JSON, reload.
//!
//! ```text
//!  GET /         ─┐
//!  GET /overview ─┤
//!  GET /metrics  ─┼─gate─▶ main thread ──▶ one thread at a time ──▶ Report
//!  GET /status   ─┤            └──asks──▶ reload
//!  POST /reload  ─┘
//! ```
//!
//! It is served by the main thread, which answers no requests of clients: it answers while every worker is
//! busy. What grows with the number of guests is computed beside it, for signals, reloads and the watchdog are the main
//! thread's too; one answer at a time, so that no number of scrapes takes more than one processor. Who reaches the socket
//! may reload the server, so it is a Unix socket of the server's user, a port of
//! the loopback that other web pages cannot use, or an address where everybody must have a token.

mod access;
mod code;
mod listener;
mod overview;
mod page;
pub mod prometheus;
mod recent;
mod seats;
pub mod status;
#[cfg(test)]
mod tests;

pub use access::{Token, TokenError};
pub use code::CodeStatus;
pub use listener::{AdminError, AdminListener};

use crate::{
    code::CodeStore,
    config::{Config, Metrics, ServiceKind},
    edge::EdgeMetrics,
    generation::Suspects,
    kinds::{GuestKind, Level, full_name},
    log::{Line, Log},
    metrics::Registry,
};
use access::{Gate, Refused};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use overview::Asked as Wanted;
use page::PAGE;
use palisade_filter::Shared;
use percent_encoding::percent_decode_str;
use recent::Recent;
use serde::Serialize;
use std::{
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
    /// Guests that the main file has, each with what it is, in order.
    pub guests: Arc<[Guest]>,
    /// Routes that it has, each with where it leads.
    pub routes: Arc<[Route]>,
    /// What each tenant's file asks for, by their names.
    pub tenants: Arc<[(Arc<str>, Arc<Config>)]>,
    /// Tenants whose files are not served as they stand.
    pub broken: Vec<BrokenTenant>,
    /// How much `/metrics` shows.
    pub metrics: Metrics,
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
    pub kind: GuestKind,
    /// Its name.
    pub name: String,
    /// `filter`, `component`, `program`, `files` or `upstream`.
    pub what: &'static str,
}

/// A tenant whose file is not served as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenTenant {
    /// Its name.
    pub name: Arc<str>,
    /// Why.
    pub message: Arc<str>,
    /// What its file was before serves on.
    pub is_served: bool,
}

/// The guests of a file, which is that of a tenant where `tenant` is not empty.
pub(crate) fn guests_of<'a>(tenant: &'a str, config: &'a Config) -> impl Iterator<Item = Guest> {
    let full_name = move |name: &String| full_name(tenant, name);
    let filters = config.filters.keys().map(move |name| Guest {
        kind: GuestKind::Filter,
        name: full_name(name),
        what: "filter",
    });
    let services = config.services.iter().map(move |(name, service)| Guest {
        kind: GuestKind::Service,
        name: full_name(name),
        what: match service.kind {
            ServiceKind::Component(_) => "component",
            ServiceKind::Program(_) => "program",
            ServiceKind::Files(_) => "files",
            ServiceKind::Upstream(_) => "upstream",
        },
    });
    filters.chain(services)
}

/// The routes of a file, which is that of a tenant where `tenant` is not empty.
pub(crate) fn routes_of<'a>(tenant: &'a str, config: &'a Config) -> impl Iterator<Item = Route> {
    let full = move |name: &String| full_name(tenant, name);
    config.routes.iter().map(move |route| Route {
        name: full(&route.name),
        filters: route.filters.iter().map(full).collect(),
        service: full(&route.service),
    })
}

/// A route of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its name.
    pub name: String,
    /// Filters that its requests pass.
    pub filters: Vec<String>,
    /// The service that it leads to.
    pub service: String,
}

impl Now {
    /// Every guest that there is.
    fn each_guest(&self) -> impl Iterator<Item = Guest> {
        let tenants = self.tenants.iter();
        let of_tenants = tenants.flat_map(|(name, config)| guests_of(name, config));
        self.guests.iter().cloned().chain(of_tenants)
    }

    /// Every route that there is.
    fn each_route(&self) -> impl Iterator<Item = Route> {
        let tenants = self.tenants.iter();
        let of_tenants = tenants.flat_map(|(name, config)| routes_of(name, config));
        self.routes.iter().cloned().chain(of_tenants)
    }
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
#[derive(Debug)]
pub struct Asked {
    /// Whose files are to be looked at.
    pub suspects: Suspects,
    /// Where what it came to goes.
    pub answer: oneshot::Sender<Reloaded>,
}

/// What answers at the admin socket.
#[derive(Clone, Debug)]
pub struct Admin {
    report: Arc<Report>,
    recent: Arc<Recent>,
    reloads: mpsc::Sender<Asked>,
    /// Held by whoever computes an answer.
    computes: Arc<tokio::sync::Mutex<()>>,
}

impl Admin {
    /// Tells `report`, and hands those who want a reload over to `reloads`.
    pub fn new(report: Arc<Report>, reloads: mpsc::Sender<Asked>) -> Self {
        Self {
            report,
            recent: Arc::default(),
            reloads,
            computes: Arc::default(),
        }
    }

    async fn answer(&self, request: Request<Incoming>, gate: &Gate) -> Response<Full<Bytes>> {
        let mut response = match gate.pass(request.headers()) {
            Ok(()) => self.answer_to_friends(&request).await,
            Err(Refused::WebPage(why)) => refuse(StatusCode::FORBIDDEN, why),
            Err(Refused::NoToken) => ask_for_token(),
        };
        // What a browser is told of whatever it gets: it shows it in no frame, keeps it nowhere, guesses at no other type,
        // and hands it to no other page.
        let fields = response.headers_mut();
        fields
            .entry(header::CONTENT_SECURITY_POLICY)
            .or_insert(page::NOTHING);
        for (name, value) in ALWAYS {
            fields.insert(name, HeaderValue::from_static(value));
        }
        response
    }

    async fn answer_to_friends(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/") => page(),
            (&Method::GET, "/overview") => self.overview(request.uri().query()).await,
            (&Method::GET, "/metrics") => {
                self.compute(|admin| text(prometheus::TYPE, prometheus::write(&admin.report)))
                    .await
            }
            (&Method::GET, "/status") => {
                self.compute(|admin| json(StatusCode::OK, &status::status(&admin.report)))
                    .await
            }
            (&Method::POST, "/reload") => self.reload(request.uri().query()).await,
            (_, "/" | "/overview" | "/metrics" | "/status") => not_allowed("GET"),
            (_, "/reload") => not_allowed("POST"),
            _ => refuse(
                StatusCode::NOT_FOUND,
                "there are GET /, GET /overview, GET /metrics, GET /status and POST /reload",
            ),
        }
    }

    async fn overview(&self, query: Option<&str>) -> Response<Full<Bytes>> {
        let wanted = match Wanted::read(query.unwrap_or_default()) {
            Ok(wanted) => wanted,
            Err(wrong) => return refuse(StatusCode::BAD_REQUEST, &wrong.to_string()),
        };
        self.compute(move |admin| {
            let look = admin.recent.look(&admin.report, Instant::now());
            admin.recent.forget_later();
            json(
                StatusCode::OK,
                &overview::overview(&admin.report, &look, &wanted),
            )
        })
        .await
    }

    /// An answer that takes the longer the more guests there are: on a thread of its own, when no other one is computed.
    async fn compute(
        &self,
        answer: impl FnOnce(&Self) -> Response<Full<Bytes>> + Send + 'static,
    ) -> Response<Full<Bytes>> {
        let turn = Arc::clone(&self.computes).lock_owned().await;
        let admin = self.clone();
        let computed = tokio::task::spawn_blocking(move || {
            // Kept to the end, also where nobody waits for the answer any more.
            let _turn = turn;
            answer(&admin)
        });
        let failed = |error: tokio::task::JoinError| {
            refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
        };
        computed.await.unwrap_or_else(failed)
    }

    /// Answers once the new generation serves, or when it is sure that it will not.
    async fn reload(&self, query: Option<&str>) -> Response<Full<Bytes>> {
        let Some(suspects) = suspects(query.unwrap_or_default()) else {
            return refuse(
                StatusCode::BAD_REQUEST,
                "a reload is of everything, or of each `tenant` in the query",
            );
        };
        let (answer, reloaded) = oneshot::channel();
        let asked = Asked { suspects, answer };
        let about_to_stop = || {
            refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "the server is about to stop",
            )
        };
        if self.reloads.send(asked).await.is_err() {
            return about_to_stop();
        }
        let Ok(reloaded) = reloaded.await else {
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

/// `tenant=NAME&tenant=NAME`, or nothing, which is all.
fn suspects(query: &str) -> Option<Suspects> {
    if query.is_empty() {
        return Some(Suspects::All);
    }
    let tenant = |part: &str| {
        let name = percent_decode_str(part.strip_prefix("tenant=")?);
        Some(Arc::from(name.decode_utf8().ok()?))
    };
    query.split('&').map(tenant).collect()
}

/// Fields of every answer.
const ALWAYS: [(HeaderName, &str); 6] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
];

fn page() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(PAGE.html.clone()));
    let fields = response.headers_mut();
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    fields.insert(header::CONTENT_TYPE, kind);
    fields.insert(header::CONTENT_SECURITY_POLICY, PAGE.policy.clone());
    response
}

/// A browser asks for it as a password, whose user's name is anything.
fn ask_for_token() -> Response<Full<Bytes>> {
    let mut response = refuse(
        StatusCode::UNAUTHORIZED,
        "the token of `admin` is wanted: as `authorization: Bearer TOKEN`, or as a password",
    );
    let challenge = HeaderValue::from_static(r#"Basic realm="palisade", charset="UTF-8""#);
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
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
