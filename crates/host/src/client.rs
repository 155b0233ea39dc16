//! Sending requests, over connections that are kept.
//!
//! ```text
//!                    ┌────────── idle, newest on top ◀────────┐ the response's body has been read
//!  send ──take──▶ link ──request──▶ driver ──bytes──▶ server  │
//!            └ none: connect, spawn the driver ───────────────┘
//! ```
//!
//! A connection has one task, its driver, for all its life. The driver puts the connection back when hyper
//! says that it could take another request, so that a response needs no wrapper for that.
//!
//! Servers that guests name are forgotten again: a guest may name as many as it likes.
//!
//! What becomes of header fields stands in the module that does it, `fields`; that nothing of a message's
//! framing is passed through is what keeps requests from being smuggled past this server.

mod error;
mod fields;
mod inside;
mod names;
mod patience;
mod pool;
mod replay;
pub(crate) mod sys;
mod tally;
#[cfg(test)]
mod tests;
mod tls;
mod wire;

pub use error::UpstreamError;
pub(crate) use fields::prepare;
pub(crate) use inside::Inside;
pub(crate) use pool::{Attempt, Owner, Pool};
pub(crate) use tally::{Tally, coarse_ms};
pub use tls::Roots;
pub(crate) use tls::files as files_of_roots;

use crate::{body::Body, config::Server};
use fields::ForwardedCache;
use http::{Request, Response};
use names::Names;
use palisade_network::{Gate, Resolve, SystemResolver};
use replay::Spares;
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

/// How long a server may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// To be connected to: its name's lookup, the connection, TLS.
    pub connect: Duration,
    /// To begin its response, from the last part of the request that it took.
    pub answer: Duration,
}

/// Servers that are remembered for the sake of connections that may be used again. Those of services, and
/// those that a request is under way to, come on top.
const MOST_POOLS: usize = 128;

/// What a worker's connections to other servers have in common.
#[derive(Clone)]
pub struct Settings {
    /// Connections without a request that are kept for a server that nobody said more about.
    pub idle_connections: usize,
    /// They are kept no longer than this, and at least half as long.
    pub idle_time: Duration,
    /// Who knows the addresses of names.
    pub resolver: Arc<dyn Resolve>,
    /// Whom certificates must come from.
    pub roots: Roots,
    /// Whose verdict each connection needs. `None`: the operator has named all servers.
    pub gate: Option<Arc<Gate>>,
}

impl Default for Settings {
    /// 8 connections, for 60 s; the system's resolver and the system's roots; no gate.
    fn default() -> Self {
        Self {
            idle_connections: 8,
            idle_time: Duration::from_secs(60),
            resolver: Arc::new(SystemResolver::default()),
            roots: Roots::default(),
            gate: None,
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("idle_connections", &self.idle_connections)
            .field("idle_time", &self.idle_time)
            .finish_non_exhaustive()
    }
}

/// Sends requests to other servers. One for each worker, in whose `LocalSet` it must be used; clones are
/// the same client.
#[derive(Clone, Debug)]
pub struct Client(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    names: Names,
    pools: RefCell<HashMap<Server, Rc<Pool>>>,
    /// Counts the times that a pool was asked for.
    asked: Cell<u64>,
    spares: Spares,
    forwarded: ForwardedCache,
}

impl Client {
    /// A client without connections.
    pub fn new(settings: Settings) -> Self {
        Self(Rc::new(Inner {
            names: Names::new(Arc::clone(&settings.resolver)),
            pools: RefCell::default(),
            asked: Cell::new(0),
            spares: Spares::default(),
            forwarded: ForwardedCache::of_thread(),
            settings,
        }))
    }

    /// Sends a request as its sender made it: to what its target says it is, with the `Host` that it has,
    /// else the one of its target, else the server's name. Fields of one connection only are taken out, and
    /// the body's framing is made anew. Nothing tells for whom it is sent.
    ///
    /// It is sent once more where the connection turned out to be closed and nothing was lost by that: the
    /// request had not been sent, or is idempotent and has no body that has been read.
    ///
    /// # Errors
    ///
    /// When there was no response.
    pub async fn send(
        &self,
        server: &Server,
        request: Request<Body>,
        times: &Times,
    ) -> Result<Response<Body>, UpstreamError> {
        let (mut parts, body) = request.into_parts();
        prepare(&mut parts, &body, server)?;
        let pool = self.pool(server, self.0.settings.idle_connections);
        let mut attempt = Attempt::new(Request::from_parts(parts, body), &self.0.spares);
        loop {
            match pool.send(self, &mut attempt, times).await {
                Err(_) if attempt.may_retry() => {}
                done => return done,
            }
        }
    }

    /// The connections to one server; `idle` of them may be kept, or as many as somebody else wants.
    pub(crate) fn pool(&self, server: &Server, idle: usize) -> Rc<Pool> {
        let asked = self.0.asked.get() + 1;
        self.0.asked.set(asked);
        let mut pools = self.0.pools.borrow_mut();
        if !pools.contains_key(server) {
            make_room(&mut pools);
            let keeps = (idle, self.0.settings.idle_time);
            let pool = Pool::new(server.clone(), name_of(server), keeps, None, None);
            pools.insert(server.clone(), pool);
        }
        let pool = &pools[server];
        pool.asked.set(asked);
        pool.most_idle.set(pool.most_idle.get().max(idle));
        Rc::clone(pool)
    }

    pub(crate) fn spares(&self) -> &Spares {
        &self.0.spares
    }

    pub(crate) fn forwarded(&self) -> &ForwardedCache {
        &self.0.forwarded
    }
}

/// Has one server less than [`MOST_POOLS`] remembered, as far as nobody has their pools. Those without a
/// connection go first, then the one that was asked for longest ago.
fn make_room(pools: &mut HashMap<Server, Rc<Pool>>) {
    let is_free = |pool: &Rc<Pool>| Rc::strong_count(pool) == 1;
    let free = pools.values().filter(|pool| is_free(pool)).count();
    if free < MOST_POOLS {
        return;
    }
    pools.retain(|_, pool| !is_free(pool) || pool.has_idle());
    let mut free: Vec<_> = pools
        .iter()
        .filter(|(_, pool)| is_free(pool))
        .map(|(server, pool)| (pool.asked.get(), server))
        .collect();
    free.sort_unstable_by_key(|(asked, _)| std::cmp::Reverse(*asked));
    let oldest = free.split_off(free.len().min(MOST_POOLS - 1));
    let oldest: Vec<_> = oldest
        .into_iter()
        .map(|(_, server)| server.clone())
        .collect();
    for server in &oldest {
        pools.remove(server);
    }
}

/// A server as `host.toml` writes it.
fn name_of(server: &Server) -> Arc<str> {
    match server {
        Server::Internet { host, port, tls } => {
            let scheme = if *tls { "https" } else { "http" };
            format!("{scheme}://{host}:{port}").into()
        }
        Server::Unix(path) | Server::UnixWithoutLinks(path) => {
            format!("unix:{}", path.display()).into()
        }
    }
}
