//! From a request for a file to its response.

use super::{
    condition::{self, Outcome},
    entry::Variant,
    load::Fault,
    range::{self, Asked},
    stream::{FileBody, Piece},
};
use crate::body::Body;
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri,
    header::{
        ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_MATCH,
        IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, LOCATION,
        RANGE, RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS,
    },
    request::Parts,
};
use std::{
    hash::{BuildHasher, RandomState},
    ops::Range,
    os::fd::OwnedFd,
    sync::Arc,
};

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
const PLAIN_TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// What a request for a file comes to.
#[derive(Debug)]
pub(super) enum Plan {
    /// 200, and no content because none is asked for.
    Head,
    /// 200
    Whole,
    /// 206
    Part(Range<u64>),
    /// 206, multipart/byteranges
    Parts(Vec<Range<u64>>),
    /// 304
    NotModified,
    /// 412
    PreconditionFailed,
    /// 416
    RangeNotSatisfiable,
}

/// Whether a request with such a field may be for something else than the whole file.
fn may_change_plan(name: &HeaderName) -> bool {
    matches!(
        *name,
        IF_MATCH | IF_NONE_MATCH | IF_MODIFIED_SINCE | IF_UNMODIFIED_SINCE | IF_RANGE | RANGE
    )
}

impl Plan {
    /// Judges conditions, then ranges; those are only of GET (RFC 9110, section 14.2).
    pub(super) fn new(variant: &Variant, request: &Parts) -> Self {
        let headers = &request.headers;
        // One look at the names in place of a look-up for each.
        if !headers.keys().any(may_change_plan) {
            return match request.method {
                Method::HEAD => Self::Head,
                _ => Self::Whole,
            };
        }
        match condition::judge(headers, variant.validators()) {
            Outcome::NotModified => return Self::NotModified,
            Outcome::Failed => return Self::PreconditionFailed,
            Outcome::Go if request.method == Method::HEAD => return Self::Head,
            Outcome::Go => {}
        }
        match range::asked(headers, variant.stamp.bytes) {
            Asked::Whole => Self::Whole,
            _ if !condition::may_send_range(headers, variant.validators()) => Self::Whole,
            Asked::One(range) => Self::Part(range),
            Asked::Several(ranges) => Self::Parts(ranges),
            Asked::Nothing => Self::RangeNotSatisfiable,
        }
    }

    /// Whether the file has to be opened for it.
    pub(super) fn needs_file(&self, variant: &Variant) -> bool {
        matches!(self, Self::Whole | Self::Part(_) | Self::Parts(_)) && variant.content.is_none()
    }

    /// Makes the response. `file` is open if [`needs_file`](Self::needs_file).
    pub(super) fn carry_out(self, variant: &Variant, file: Option<Arc<OwnedFd>>) -> Response<Body> {
        match self {
            Self::Head => with(StatusCode::OK, variant.headers.clone(), Body::Empty),
            Self::Whole => {
                let body = body_of(variant, file, 0..variant.stamp.bytes);
                with(StatusCode::OK, variant.headers.clone(), body)
            }
            Self::Part(range) => part(variant, file, range),
            Self::Parts(ranges) => parts(variant, file, &ranges),
            Self::NotModified => not_modified(variant),
            Self::PreconditionFailed => text(
                StatusCode::PRECONDITION_FAILED,
                "the file is not as the client thinks\n",
            ),
            Self::RangeNotSatisfiable => {
                let mut response = text(
                    StatusCode::RANGE_NOT_SATISFIABLE,
                    "the file ends before that\n",
                );
                let range = format!("bytes */{}", variant.stamp.bytes);
                insert(&mut response, CONTENT_RANGE, range);
                response
            }
        }
    }
}

fn part(variant: &Variant, file: Option<Arc<OwnedFd>>, range: Range<u64>) -> Response<Body> {
    let mut headers = variant.headers.clone();
    headers.insert(CONTENT_LENGTH, (range.end - range.start).into());
    let content_range = content_range(&range, variant);
    let body = body_of(variant, file, range);
    let mut response = with(StatusCode::PARTIAL_CONTENT, headers, body);
    insert(&mut response, CONTENT_RANGE, content_range);
    response
}

fn parts(variant: &Variant, file: Option<Arc<OwnedFd>>, ranges: &[Range<u64>]) -> Response<Body> {
    let boundary = boundary();
    let kind = variant
        .headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    let mut pieces = Vec::with_capacity(ranges.len() * 2 + 1);
    for (number, range) in ranges.iter().enumerate() {
        let before = if number == 0 { "" } else { "\r\n" };
        let content_range = content_range(range, variant);
        let head = format!(
            "{before}--{boundary}\r\ncontent-type: {kind}\r\ncontent-range: {content_range}\r\n\r\n"
        );
        pieces.push(Piece::Ready(head.into()));
        pieces.push(piece_of(variant, range.clone()));
    }
    pieces.push(Piece::Ready(format!("\r\n--{boundary}--\r\n").into()));
    let body = FileBody::new(pieces, file, variant.stamp);
    let mut headers = variant.headers.clone();
    headers.insert(CONTENT_LENGTH, body.bytes().into());
    let mut response = with(StatusCode::PARTIAL_CONTENT, headers, Body::new(body));
    insert(
        &mut response,
        CONTENT_TYPE,
        format!("multipart/byteranges; boundary={boundary}"),
    );
    response
}

/// 304 has the fields of 200 that a cache renews itself by (RFC 9110, section 15.4.5).
fn not_modified(variant: &Variant) -> Response<Body> {
    let names = [ETAG, LAST_MODIFIED, CACHE_CONTROL, VARY];
    let fields = names.into_iter().filter_map(|name| {
        let value = variant.headers.get(&name)?.clone();
        Some((name, value))
    });
    with(StatusCode::NOT_MODIFIED, fields.collect(), Body::Empty)
}

fn body_of(variant: &Variant, file: Option<Arc<OwnedFd>>, range: Range<u64>) -> Body {
    match piece_of(variant, range) {
        Piece::Ready(bytes) => Body::Whole(bytes),
        piece => Body::new(FileBody::new(vec![piece], file, variant.stamp)),
    }
}

fn piece_of(variant: &Variant, range: Range<u64>) -> Piece {
    match &variant.content {
        // The content has as many bytes as the stamp says, and no range goes on after them.
        Some(content) => Piece::Ready(content.slice(range.start as usize..range.end as usize)),
        None => Piece::OfFile(range),
    }
}

fn content_range(range: &Range<u64>, variant: &Variant) -> String {
    format!(
        "bytes {}-{}/{}",
        range.start,
        range.end - 1,
        variant.stamp.bytes
    )
}

/// What stands between parts. Nobody can know it before, so no file has it.
fn boundary() -> String {
    let random = RandomState::new();
    format!("{:016x}{:016x}", random.hash_one(1), random.hash_one(2))
}

/// A response without a file.
pub(super) fn to_fault(fault: &Fault, uri: &Uri) -> Response<Body> {
    match fault {
        Fault::Folder => to_folder(uri),
        Fault::Absent => text(StatusCode::NOT_FOUND, "not found\n"),
        Fault::Forbidden => text(StatusCode::FORBIDDEN, "forbidden\n"),
        Fault::Busy | Fault::WouldWait | Fault::Changing => {
            let mut response = text(
                StatusCode::SERVICE_UNAVAILABLE,
                "the file can't be read just now\n",
            );
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
        Fault::Failed(_) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the file can't be read\n",
        ),
    }
}

/// Sends the client to the same path with a slash. The address is a relative one that begins with `./`: it leads
/// to no other host, whatever the folder is called, and is right also where a part of the path was taken away
/// before.
fn to_folder(uri: &Uri) -> Response<Body> {
    let name = uri.path().rsplit('/').next().unwrap_or_default();
    let mut address = String::with_capacity(name.len() + 4);
    address.push_str("./");
    // What is no ASCII has no place in a header, and clients escape it anyway.
    address.extend(percent_encoding::utf8_percent_encode(
        name,
        percent_encoding::CONTROLS,
    ));
    address.push('/');
    if let Some(query) = uri.query() {
        address.push('?');
        address.extend(percent_encoding::utf8_percent_encode(
            query,
            percent_encoding::CONTROLS,
        ));
    }
    let mut response = text(StatusCode::MOVED_PERMANENTLY, "this is a folder\n");
    insert(&mut response, LOCATION, address);
    response
}

pub(super) fn to_options() -> Response<Body> {
    let headers = [(ALLOW, METHODS)].into_iter().collect();
    with(StatusCode::NO_CONTENT, headers, Body::Empty)
}

pub(super) fn to_other_method() -> Response<Body> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "files can only be read\n");
    response.headers_mut().insert(ALLOW, METHODS);
    response
}

fn with(status: StatusCode, headers: HeaderMap, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn text(status: StatusCode, text: &'static str) -> Response<Body> {
    let headers = [
        (CONTENT_TYPE, PLAIN_TEXT),
        (CONTENT_LENGTH, text.len().into()),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    with(status, headers.into_iter().collect(), text.into())
}

/// A header of ours, which is made of visible ASCII only.
fn insert(response: &mut Response<Body>, name: HeaderName, value: String) {
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(value)) {
        response.headers_mut().insert(name, value);
    }
}
