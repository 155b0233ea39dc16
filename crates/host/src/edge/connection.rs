//! One connection: which protocol it speaks, its requests, its end.

use super::{
    body::{Fault, Received, ReceivedFault, Sent},
    check::check,
    connections::Connections,
    form::{Formless, form},
    io::{Socket, Stream, Transport, Wire},
    stream::Streams,
    tls::{Secured, Tenancy},
    watch::{Closing, OpenRequest, Watch, Watched},
};
use crate::{
    body::Body,
    config::{Address, Limits},
    kinds::BrokenBy,
    responses::{self, Reset},
    serve::Serve,
};
use bytes::BytesMut;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header, request};
use http_body::Body as _;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use palisade_filter::Peer;
use rustls::ProtocolVersion;
use std::{
    future::poll_fn,
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};
use tokio::io::AsyncReadExt;
use tokio_rustls::TlsAcceptor;

/// What an HTTP/2 client that knows before says first: RFC 9113, section 3.4.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What is read of a connection before its protocol is known.
const FIRST_READ: usize = 2048;

/// What is held of one connection, in each direction, before there is back-pressure.
const BUFFER: usize = 128 << 10;

/// Bytes that may come for one HTTP/2 stream, and for a connection, before they are read.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// Streams that the client reset before they were looked at, and those that we had to reset: more end the
/// connection.
const MOST_PENDING_RESETS: usize = 20;
const MOST_ERROR_RESETS: usize = 128;

/// HTTP as the limits want it.
pub(crate) struct Protocols {
    http1: http1::Builder,
    /// Requests of one HTTP/2 connection at one time.
    streams: u32,
    header_bytes: u32,
}

impl Protocols {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            http1: http1_builder(limits),
            streams: limits.streams,
            header_bytes: u32::try_from(limits.header_bytes).unwrap_or(u32::MAX),
        }
    }

    /// One for each connection, for it knows whose its streams are.
    fn http2(&self, watch: &Rc<Watch>) -> http2::Builder<Streams> {
        let mut builder = http2::Builder::new(Streams(Rc::clone(watch)));
        builder
            .max_concurrent_streams(self.streams)
            .max_header_list_size(self.header_bytes)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .adaptive_window(false)
            .max_send_buf_size(BUFFER)
            .max_pending_accept_reset_streams(MOST_PENDING_RESETS)
            .max_local_error_reset_streams(MOST_ERROR_RESETS);
        builder
    }
}

fn http1_builder(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .half_close(true)
        .header_read_timeout(None)
        .max_header_size(limits.header_bytes)
        .max_buf_size(limits.header_bytes.max(BUFFER));
    // hyper has room for a hundred fields on its stack, and allocates for any other number.
    if limits.headers > 100 {
        builder.max_headers(limits.headers);
    }
    builder
}

/// Begins to serve an accepted connection, which `shared.connections` has counted.
pub(super) fn begin<S: Serve>(
    stream: Stream,
    client: Option<SocketAddr>,
    listener: &Address,
    tls: Option<Secured>,
    connections: &Rc<Connections<S>>,
) {
    let sweep = connections.sweep();
    let Some(whose) = sweep.customer(client.map(|client| client.ip())) else {
        // It has more than are left for all others: let it close some.
        sweep.metrics.refused.add(1);
        sweep.shared.connections.fetch_sub(1, Ordering::Relaxed);
        return;
    };
    let watched = Watched::new(sweep, whose, tls.is_some());
    let peer = Peer {
        address: client,
        local_address: local_address(&stream, listener),
        number: connections.next_number(),
        ..Peer::default()
    };
    let socket = Socket::new(stream, Rc::clone(&watched.0));
    let connections = Rc::clone(connections);
    tokio::task::spawn_local(async move {
        match tls {
            None => serve_plain(socket, &watched.0, peer, connections).await,
            Some(tls) => serve_tls(socket, tls, &watched.0, peer, connections).await,
        }
    });
}

/// The listener's address, unless that is every address of the machine.
fn local_address(stream: &Stream, listener: &Address) -> Option<SocketAddr> {
    match (stream, listener) {
        (_, Address::Internet(address)) if !address.ip().is_unspecified() => Some(*address),
        (Stream::Tcp(stream), _) => stream.local_addr().ok(),
        (Stream::Unix(_), _) => None,
    }
}

async fn serve_plain<S: Serve>(
    mut socket: Socket,
    watch: &Rc<Watch>,
    peer: Peer,
    connections: Rc<Connections<S>>,
) {
    let first = watch.unless_ended(read_first(&mut socket, watch)).await;
    let Some(Some((is_http2, first))) = first else {
        return;
    };
    let wire = Wire::new(Transport::Plain(socket), first, is_http2, Rc::clone(watch));
    serve(wire, is_http2, watch, (peer, None), connections).await;
}

/// Reads until it is clear what the client speaks. `None`: nothing.
async fn read_first(socket: &mut Socket, watch: &Watch) -> Option<(bool, BytesMut)> {
    let mut first = BytesMut::with_capacity(FIRST_READ);
    loop {
        let count = socket.read_buf(&mut first).await.ok()?;
        if count == 0 && first.is_empty() {
            return None;
        }
        watch.read();
        let compared = first.len().min(PREFACE.len());
        if count == 0 || first[..compared] != PREFACE[..compared] {
            return Some((false, first));
        }
        if compared == PREFACE.len() {
            return Some((true, first));
        }
    }
}

async fn serve_tls<S: Serve>(
    socket: Socket,
    tls: Secured,
    watch: &Rc<Watch>,
    mut peer: Peer,
    connections: Rc<Connections<S>>,
) {
    let handshake = TlsAcceptor::from(Arc::clone(&tls.config)).accept(socket);
    let Some(Ok(stream)) = watch.unless_ended(handshake).await else {
        connections.sweep().metrics.handshakes_failed.add(1);
        return;
    };
    let session = stream.get_ref().1;
    peer.tls_version = session.protocol_version().and_then(tls_version);
    peer.server_name = session.server_name().map(str::to_owned);
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let tenancy = Tenancy::of(&tls.certificate, peer.server_name.as_deref());
    let transport = Transport::Tls(Box::new(stream));
    let wire = Wire::new(transport, BytesMut::new(), is_http2, Rc::clone(watch));
    serve(wire, is_http2, watch, (peer, tenancy), connections).await;
}

fn tls_version(version: ProtocolVersion) -> Option<&'static str> {
    match version {
        ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
        ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
        _ => None,
    }
}

async fn serve<S: Serve>(
    wire: Wire,
    is_http2: bool,
    watch: &Rc<Watch>,
    (peer, tenancy): (Peer, Option<Tenancy>),
    connections: Rc<Connections<S>>,
) {
    watch.begin(is_http2);
    let protocols = connections.protocols();
    let client = Rc::new(Client {
        peer: Rc::new(peer),
        tenancy,
        watch: Rc::clone(watch),
        connections,
    });
    let service = service_fn(move |request| {
        let request_open = OpenRequest::new(&client.watch);
        respond(Rc::clone(&client), request, request_open)
    });
    // How the connection ended is the client's affair: there is nobody to tell.
    if is_http2 {
        let connection = protocols.http2(watch).serve_connection(wire, service);
        let connection = std::pin::pin!(connection);
        drive(connection, watch, http2::Connection::graceful_shutdown).await;
    } else {
        let mut connection = protocols.http1.serve_connection(wire, service);
        drive(
            Pin::new(&mut connection),
            watch,
            http1::Connection::graceful_shutdown,
        )
        .await;
        // After some errors, and requests for another protocol, hyper leaves the end to us.
        connection.into_parts().io.end().await;
    }
}

/// Polls a connection until it ends or the sweep ends it.
async fn drive<C: Future>(
    mut connection: Pin<&mut C>,
    watch: &Watch,
    finish: impl Fn(Pin<&mut C>),
) {
    poll_fn(|context| {
        watch.begin_turn();
        let closing = watch.closing(context);
        if matches!(closing, Closing::Drop | Closing::Reset) {
            return Poll::Ready(());
        }
        let mut polled = connection.as_mut().poll(context);
        // A request may have come while the connection was thought idle.
        if closing == Closing::Finish && watch.take_finish() && polled.is_pending() {
            finish(connection.as_mut());
            polled = connection.as_mut().poll(context);
        }
        polled.map(|_| ())
    })
    .await;
}

/// The other end of a connection, for its requests.
struct Client<S> {
    peer: Rc<Peer>,
    tenancy: Option<Tenancy>,
    watch: Rc<Watch>,
    connections: Rc<Connections<S>>,
}

async fn respond<S: Serve>(
    client: Rc<Client<S>>,
    request: Request<Incoming>,
    open: OpenRequest,
) -> Result<Response<Sent>, Reset> {
    let bounds = client.watch.sweep().bounds();
    let (mut parts, body) = request.into_parts();
    client.watch.asked(parts.version);
    let is_secure = client.peer.tls_version.is_some();
    let checked = match open.has_permit() {
        true => check(&parts, body.size_hint().exact(), &bounds),
        false => Err(StatusCode::SERVICE_UNAVAILABLE),
    };
    let formed = match checked {
        _ if let Some(wait) = open.too_soon() => Err(too_many(wait)),
        Err(status) => Err(refusal(status, true)),
        Ok(()) => {
            form(&mut parts, is_secure, bounds.underscores).map_err(|formless| match formless {
                Formless::Path => responses::bad_path(),
                Formless::Repeated => refusal(StatusCode::BAD_REQUEST, true),
            })
        }
    };
    let is_misdirected =
        |tenancy: &Tenancy| host_of(&parts).is_some_and(|host| tenancy.is_misdirected(host));
    let formed = match &client.tenancy {
        Some(tenancy) if formed.is_ok() && is_misdirected(tenancy) => {
            Err(refusal(StatusCode::MISDIRECTED_REQUEST, false))
        }
        _ => formed,
    };
    // From here on nobody sees the request in another form: its record neither.
    let tick = client.watch.sweep().tick();
    let mut record = client
        .connections
        .with_state(|state| state.open(&client.peer, &parts, tick));
    let is_head = parts.method == Method::HEAD;
    let (mut response, fault) = match formed {
        Err(response) => {
            client.watch.sweep().metrics.refused.add(1);
            (response, None)
        }
        Ok(()) => {
            let expects = is_http2_that_expects(&parts);
            let (body, fault) = receive(body, expects, &client.watch);
            let request = Request::from_parts(parts, body);
            let state = client.connections.state();
            let response = state.respond(&client.peer, request, &mut record).await;
            (amend(response, fault.as_ref()), fault)
        }
    };
    if let Some(&reset) = response.extensions().get::<Reset>() {
        record.broke(BrokenBy::Filter);
        return Err(reset);
    }
    client.watch.responded();
    take_out_body(&mut response, is_head);
    if !client.watch.is_http2() && client.watch.sweep().is_stopping() {
        set_close(&mut response);
    }
    let length = length_of(&response);
    let is_whole = response.body().is_there();
    record.responded(response.status(), is_whole);
    Ok(response.map(|body| Sent::new(body, length, fault, open, record)))
}

/// The host of a request that has its form.
fn host_of(parts: &request::Parts) -> Option<&str> {
    let field = || parts.headers.get(header::HOST)?.to_str().ok();
    let authority = parts.uri.authority();
    authority.map(|authority| authority.as_str()).or_else(field)
}

/// Bytes that the body will have, where it says so or its head has promised it.
fn length_of(response: &Response<Body>) -> Option<u64> {
    let promised = || {
        let length = response.headers().get(header::CONTENT_LENGTH)?;
        length.to_str().ok()?.parse().ok()
    };
    response.body().size_hint().exact().or_else(promised)
}

/// Takes out what the response must not have (RFC 9110, section 6.4.1): HTTP/2's would be sent. A response to HEAD
/// tells how long it would be.
fn take_out_body(response: &mut Response<Body>, is_head: bool) {
    let has_none = matches!(
        response.status(),
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
    );
    if !is_head && !has_none {
        return;
    }
    let body = std::mem::take(response.body_mut());
    if is_head && let Some(length) = body.size_hint().exact().filter(|length| *length > 0) {
        let length = HeaderValue::from(length);
        let headers = response.headers_mut();
        headers.entry(header::CONTENT_LENGTH).or_insert(length);
    }
}

/// The body with its bounds, and where it says why it was cut off. Most requests have none.
fn receive(body: Incoming, expects: bool, watch: &Watch) -> (Body, Option<Fault>) {
    if body.is_end_stream() {
        return (Body::Empty, None);
    }
    let body = Received::new(body, expects, watch);
    let fault = body.fault();
    (Body::new(body), Some(fault))
}

/// Whether a client waits for `100 Continue` (RFC 9110, section 10.1.1). hyper sends it in HTTP/1 once the body is read;
/// in HTTP/2 neither it nor h2 can.
fn is_http2_that_expects(parts: &request::Parts) -> bool {
    let expects = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    parts.version == Version::HTTP_2 && parts.headers.get(header::EXPECT).is_some_and(expects)
}

/// The response that a client gets in place of one that cannot be sent.
fn amend(response: Response<Body>, fault: Option<&Fault>) -> Response<Body> {
    match fault.and_then(|fault| fault.get()) {
        Some(ReceivedFault::TooLong) => refusal(StatusCode::PAYLOAD_TOO_LARGE, true),
        Some(ReceivedFault::TooLate) => refusal(StatusCode::REQUEST_TIMEOUT, true),
        Some(ReceivedFault::NotToldToGoOn) => refusal(StatusCode::EXPECTATION_FAILED, false),
        // Nobody here speaks another protocol once HTTP is left.
        None if response.status().is_informational() => refusal(StatusCode::BAD_GATEWAY, false),
        None => response,
    }
}

fn refusal(status: StatusCode, close: bool) -> Response<Body> {
    let mut response = Response::new(Body::from(text_of(status)));
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    if close {
        set_close(&mut response);
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let later = HeaderValue::from_static("1");
        response.headers_mut().insert(header::RETRY_AFTER, later);
    }
    response
}

/// Its client has asked too often, and may again in so long.
fn too_many(wait: Duration) -> Response<Body> {
    let response = refusal(StatusCode::TOO_MANY_REQUESTS, false);
    responses::with_retry_after(response, wait.as_secs() + 1)
}

fn text_of(refused: StatusCode) -> &'static str {
    match refused {
        StatusCode::METHOD_NOT_ALLOWED => "this method is not served here\n",
        StatusCode::MISDIRECTED_REQUEST => {
            "this host is not served by this connection: make another\n"
        }
        StatusCode::TOO_MANY_REQUESTS => "this client asks too often\n",
        StatusCode::EXPECTATION_FAILED => {
            "send the body without being told to: ask again without expect\n"
        }
        StatusCode::REQUEST_TIMEOUT => "the request did not come in time\n",
        StatusCode::PAYLOAD_TOO_LARGE => "the body of this request is too long\n",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "this request has too many header fields\n",
        StatusCode::NOT_IMPLEMENTED => "no transfer coding but chunked is understood\n",
        StatusCode::SERVICE_UNAVAILABLE => "too many requests are under way\n",
        StatusCode::BAD_GATEWAY => "the service answered with something that is not HTTP\n",
        _ => "this request could be understood in more than one way\n",
    }
}

/// HTTP/1: the connection ends with this response. (hyper takes the field away in HTTP/2.)
fn set_close(response: &mut Response<Body>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
}
