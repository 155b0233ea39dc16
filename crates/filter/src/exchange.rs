//! One request and its response, as the filters of its route see and change them.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, request, response};
use std::{collections::BTreeMap, net::SocketAddr, rc::Rc, time::SystemTime};

/// A request, and its response once there is one. Filters of a chain get the same one, one after the other.
///
/// What few requests have is in boxes: every request's exchange is made anew.
#[derive(Debug)]
pub struct Exchange {
    /// Method, target and header fields. `:method`, `:path`, `:authority` and `:scheme` of the ABI are these.
    pub request: request::Parts,
    /// A filter has changed the head since the server last inspected it.
    pub is_request_changed: bool,
    /// What of the request's body is held for filters to inspect, and its trailers.
    pub request_rest: Message,
    /// Status and header fields, once there are any. `:status` of the ABI is this.
    pub response: Option<response::Parts>,
    /// What of the response's body is held, and its trailers.
    pub response_rest: Message,
    /// The connection that it came by.
    pub peer: Rc<Peer>,
    /// Where the route stands in the configuration, for the property `route_name`.
    pub route: Rc<str>,
    /// The service's name, for the property `cluster_name`.
    pub service: Rc<str>,
    /// Those that filters have set.
    pub properties: Properties,
    /// The response of a filter in place of the service's.
    pub local_response: Option<Box<LocalResponse>>,
    /// When the request's first byte came, for the property `request.time`.
    pub started: Option<SystemTime>,
}

impl Exchange {
    /// A copy without bodies and trailers.
    pub(crate) fn heads(&self) -> Self {
        Self {
            request: self.request.clone(),
            is_request_changed: self.is_request_changed,
            request_rest: self.request_rest.size(),
            response: self.response.clone(),
            response_rest: self.response_rest.size(),
            peer: Rc::clone(&self.peer),
            route: Rc::clone(&self.route),
            service: Rc::clone(&self.service),
            properties: self.properties.clone(),
            local_response: None,
            started: self.started,
        }
    }
}

/// Properties by path; the parts of a path are parted by NUL. Most exchanges have none.
#[derive(Clone, Debug, Default)]
pub struct Properties(Option<BTreeMap<Bytes, Bytes>>);

impl Properties {
    /// The value of one.
    pub fn get(&self, path: &[u8]) -> Option<&Bytes> {
        self.0.as_ref()?.get(path)
    }

    /// Sets one.
    pub fn set(&mut self, path: Bytes, value: Bytes) {
        self.0.get_or_insert_default().insert(path, value);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.0.iter().flat_map(|set| set.iter())
    }
}

/// Body and trailers of one direction.
#[derive(Debug, Default)]
pub struct Message {
    /// Bytes that have come and are not passed on yet.
    pub body: BytesMut,
    /// Trailers, once they have come.
    pub trailers: Option<Box<HeaderMap>>,
    /// Bytes of the body that were passed on, for the properties `request.size` and `response.size`.
    pub passed_bytes: u64,
}

impl Message {
    /// A message of the same size, without what is held of it.
    fn size(&self) -> Self {
        Self {
            passed_bytes: self.passed_bytes + self.body.len() as u64,
            ..Self::default()
        }
    }
}

/// An exchange within an instance. That of an exchange that was closed means nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(pub(crate) u32);

/// The two ways that parts of an exchange go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the service.
    Request,
    /// From the service to the client.
    Response,
}

/// Who is at the other end of a connection, and how it was made.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The client's address; `None` for a Unix socket.
    pub address: Option<SocketAddr>,
    /// The address that it connected to.
    pub local_address: Option<SocketAddr>,
    /// Number of the connection, for this server's life.
    pub number: u64,
    /// The TLS version, `TLSv1.3`.
    pub tls_version: Option<&'static str>,
    /// The name that the client asked for in TLS.
    pub server_name: Option<String>,
}

/// A response made by a filter.
#[derive(Clone, Debug, Default)]
pub struct LocalResponse {
    /// The status.
    pub status: StatusCode,
    /// Header fields beside those that the server sets.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The gRPC status, or -1.
    pub grpc_status: i32,
    /// What the filter notes about it, for the log.
    pub details: String,
}

/// What a callback wants to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Go on: to the next filter, the service, the client.
    Continue,
    /// Hold this part until the filter says that the stream goes on, or more of it has come.
    Pause,
    /// Hold this head until the filter lets some of its body go on; the body is for the filter to see meanwhile.
    HoldHead,
}

/// The parts of an exchange, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is its name")]
pub enum Part {
    RequestHeaders,
    RequestBody,
    RequestTrailers,
    ResponseHeaders,
    ResponseBody,
    ResponseTrailers,
}

impl Part {
    /// In their order.
    pub(crate) const ALL: [Self; 6] = [
        Self::RequestHeaders,
        Self::RequestBody,
        Self::RequestTrailers,
        Self::ResponseHeaders,
        Self::ResponseBody,
        Self::ResponseTrailers,
    ];

    /// The callback's name in the ABI.
    pub(crate) fn callback(self) -> &'static str {
        match self {
            Self::RequestHeaders => "proxy_on_request_headers",
            Self::RequestBody => "proxy_on_request_body",
            Self::RequestTrailers => "proxy_on_request_trailers",
            Self::ResponseHeaders => "proxy_on_response_headers",
            Self::ResponseBody => "proxy_on_response_body",
            Self::ResponseTrailers => "proxy_on_response_trailers",
        }
    }

    /// Which way it goes.
    pub fn direction(self) -> Direction {
        match self {
            Self::RequestHeaders | Self::RequestBody | Self::RequestTrailers => Direction::Request,
            _ => Direction::Response,
        }
    }
}
