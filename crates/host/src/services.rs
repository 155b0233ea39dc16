//! What responds to requests in the end: four kinds of services, each with the same rooms and the same way in.
//!
//! ```text
//!  config::Service ──load──▶ Loaded, for all workers ──▶ Service, on one worker ──respond──▶ response
//! ```
//!
//! | kind | what all workers share | on a worker |
//! |---|---|---|
//! | `files` | open folders, and threads that read them | a cache |
//! | `upstream` | nothing | connections |
//! | `program` | processes behind the wall | connections |
//! | `component` | machine code | instances |
//!
//! Whatever goes wrong is a response: `Service::respond` has no error.

pub mod component;
pub mod files;
pub mod program;
pub mod upstream;

use crate::{
    body::Body,
    client::{Client, Times},
    config,
    kinds::Level,
    log::{Line, Log},
    metrics::GuestMetrics,
    permits::{Permit, Permits, Share},
    responses,
    turns::Party,
};
use component::ComponentService;
use files::{Files, Served};
use http::{Request, Response, request};
use palisade_filter::Peer;
use program::{Program, ProgramService};
use std::{
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};
use upstream::Upstream;

/// How long a program that runs may take to accept a connection.
const PROGRAM_CONNECT_TIME: Duration = Duration::from_secs(5);

/// A service, as far as all workers share it.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) shared: Shared,
    pub(crate) log: Log,
}

/// What of a service all workers share.
#[derive(Debug)]
pub(crate) enum Shared {
    /// Each worker opens the folder itself.
    Files(config::Files, Arc<Served>),
    /// Each worker makes connections itself.
    Upstream(config::Upstream),
    Program(Arc<Program>),
    Component(Arc<component::Loaded>),
}

/// A service on one worker.
pub(crate) struct Service {
    pub(crate) name: Rc<str>,
    pub(crate) metrics: Arc<GuestMetrics>,
    kind: Kind,
    log: Log,
    share: Rc<Share>,
}

enum Kind {
    Files(Box<Files>),
    Upstream(Upstream),
    Program(Box<ProgramService>),
    Component(Rc<ComponentService>),
    /// It was there when the configuration was loaded, and is no more.
    Missing,
}

/// What a worker has for its services.
pub(crate) struct Context<'a> {
    pub(crate) client: &'a Client,
    /// How long a service may take for its response.
    pub(crate) answer_time: Duration,
    /// The components of the generation before.
    pub(crate) components: &'a [Weak<ComponentService>],
    /// Whose they are.
    pub(crate) party: &'a Rc<Party>,
}

impl Service {
    /// `loaded`, for this worker. What can't be had any more is told to its log, and responded to as missing.
    pub(crate) fn new(
        name: &str,
        loaded: &Loaded,
        metrics: Arc<GuestMetrics>,
        context: &Context<'_>,
    ) -> Self {
        let kind = Kind::new(loaded, &metrics, context);
        let kind = kind.unwrap_or_else(|error| {
            loaded.log.write(Line::new(Level::Error, error.to_string()));
            Kind::Missing
        });
        Self {
            name: Rc::from(name),
            metrics,
            kind,
            log: loaded.log.clone(),
            share: Rc::default(),
        }
    }

    /// What the next generation may go on with.
    pub(crate) fn component(&self) -> Option<Weak<ComponentService>> {
        match &self.kind {
            Kind::Component(component) => Some(Rc::downgrade(component)),
            _ => None,
        }
    }

    /// Whether it looks at a request's body; others are lent the head, and copy nothing of it.
    pub(crate) fn takes_body(&self) -> bool {
        !matches!(self.kind, Kind::Files(_))
    }

    /// Whether its paths lead to folders, whose pages name others beside them.
    pub(crate) fn has_folders(&self) -> bool {
        matches!(self.kind, Kind::Files(_))
    }

    /// A permit for a request that waits; `None`: the service has as many as are left for all others.
    pub(crate) fn permit(&self) -> Option<Permit> {
        let permit = Permits::here().pass_on(&self.share);
        if permit.is_none() {
            self.count_late();
        }
        permit
    }

    /// The response for which nothing has to be waited; `None`: it has to be asked for by `Service::respond` or
    /// [`Service::respond_to_head`], which do not look for it again.
    pub(crate) fn respond_at_once(&self, head: &request::Parts) -> Option<Response<Body>> {
        let Kind::Files(files) = &self.kind else {
            return None;
        };
        let response = files.respond_at_once(head)?;
        self.metrics.requests.add(1);
        Some(self.counted(response))
    }

    /// Responds to a request's head. Of a service that takes no body.
    pub(crate) async fn respond_to_head(&self, head: &request::Parts) -> Response<Body> {
        self.metrics.requests.add(1);
        match &self.kind {
            Kind::Files(files) => self.counted(files.respond_later(head).await),
            _ => responses::service_missing(),
        }
    }

    /// Responds to a request, whatever comes.
    pub(crate) async fn respond(
        &self,
        head: request::Parts,
        body: Body,
        peer: &Rc<Peer>,
    ) -> Response<Body> {
        if !self.takes_body() {
            return Box::pin(self.respond_to_head(&head)).await;
        }
        self.metrics.requests.add(1);
        let request = Request::from_parts(head, body);
        // Boxes: the largest of them would be every one's size.
        let response = match &self.kind {
            Kind::Upstream(upstream) => Box::pin(upstream.respond(request, peer)).await,
            Kind::Program(program) => Box::pin(program.respond(request, peer)).await,
            Kind::Component(component) => {
                let response = Box::pin(component.respond(request, peer)).await;
                // Its log has been told.
                return self.counted(response.unwrap_or_else(|error| error.response()));
            }
            Kind::Files(_) | Kind::Missing => return responses::service_missing(),
        };
        self.counted(response.unwrap_or_else(|error| {
            self.log.write(Line::new(Level::Warn, error.to_string()));
            error.response()
        }))
    }

    /// Its response was given up.
    pub(crate) fn count_late(&self) {
        self.metrics.errors.add(1);
    }

    fn counted(&self, response: Response<Body>) -> Response<Body> {
        if response.status().is_server_error() {
            self.metrics.errors.add(1);
        }
        response
    }
}

/// A service can't be had on a worker.
#[derive(Debug, thiserror::Error)]
enum MissingError {
    #[error(transparent)]
    Files(#[from] files::FilesError),
}

impl Kind {
    fn new(
        loaded: &Loaded,
        metrics: &Arc<GuestMetrics>,
        context: &Context<'_>,
    ) -> Result<Self, MissingError> {
        let client = context.client;
        Ok(match &loaded.shared {
            Shared::Files(files, served) => Self::Files(Box::new(Files::new(files, served)?)),
            Shared::Upstream(upstream) => Self::Upstream(Upstream::new(upstream, client)),
            Shared::Program(program) => {
                let times = Times {
                    connect: PROGRAM_CONNECT_TIME,
                    answer: context.answer_time,
                };
                Self::Program(Box::new(ProgramService::new(program, client, times)))
            }
            Shared::Component(loaded) => {
                let known = context.components.iter();
                let mut known = known.filter_map(Weak::upgrade);
                // Its bounds hold for what it still has under way, too.
                Self::Component(match known.find(|component| component.is_of(loaded)) {
                    Some(component) => component,
                    None => ComponentService::new(loaded, Arc::clone(metrics), context.party),
                })
            }
        })
    }
}
