//! Conditions on requests ([RFC 9110, section 13](https://www.rfc-editor.org/rfc/rfc9110#section-13)).

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE},
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a response is recognised by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validators<'response> {
    /// A strong tag, with its quotes.
    pub(super) etag: &'response HeaderValue,
    /// `Last-Modified` in seconds since 1970, where it has one.
    pub(super) modified_s: Option<u64>,
}

/// What conditions come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// They hold.
    Go,
    /// The client has it already: 304.
    NotModified,
    /// It is not what the client thinks: 412.
    Failed,
}

/// Judges the conditions of a GET or HEAD, in the order of section 13.2.2: tags before times, and each
/// kind of time only where there is no tag.
pub(super) fn judge(headers: &HeaderMap, validators: Validators<'_>) -> Outcome {
    let is_as_expected = match headers.contains_key(IF_MATCH) {
        true => any_tag(headers, IF_MATCH, |tag| tag.is_strongly(validators.etag)),
        false => !validators
            .is_newer_than(headers.get(IF_UNMODIFIED_SINCE))
            .unwrap_or(false),
    };
    if !is_as_expected {
        return Outcome::Failed;
    }
    let is_new = match headers.contains_key(IF_NONE_MATCH) {
        true => !any_tag(headers, IF_NONE_MATCH, |tag| tag.is_weakly(validators.etag)),
        false => validators
            .is_newer_than(headers.get(IF_MODIFIED_SINCE))
            .unwrap_or(true),
    };
    match is_new {
        true => Outcome::Go,
        false => Outcome::NotModified,
    }
}

/// Whether ranges may be sent: without `If-Range`, or when that names exactly this response (section 13.1.5).
pub(super) fn may_send_range(headers: &HeaderMap, validators: Validators<'_>) -> bool {
    let Some(field) = headers.get(IF_RANGE) else {
        return true;
    };
    match Tag::read(field.as_bytes()) {
        Some((tag, [])) => tag.is_strongly(validators.etag),
        _ => parse_date(field).is_some_and(|date_s| {
            // Only when the time is past is it sure that no second change bears it.
            validators.modified_s == Some(date_s) && now_s() > date_s + 1
        }),
    }
}

fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

impl Validators<'_> {
    /// `None` without a date that can be read: such a field counts for nothing.
    fn is_newer_than(&self, field: Option<&HeaderValue>) -> Option<bool> {
        let date_s = parse_date(field?)?;
        Some(self.modified_s? > date_s)
    }
}

/// In seconds since 1970.
fn parse_date(field: &HeaderValue) -> Option<u64> {
    let date = httpdate::parse_http_date(field.to_str().ok()?).ok()?;
    date.duration_since(UNIX_EPOCH)
        .ok()
        .as_ref()
        .map(Duration::as_secs)
}

/// Whether a list of tags is `*` or has one that fits.
fn any_tag(headers: &HeaderMap, name: HeaderName, fits: impl Fn(&Tag<'_>) -> bool) -> bool {
    headers.get_all(name).iter().any(|field| {
        let mut rest = field.as_bytes().trim_ascii();
        if rest == b"*" {
            return true;
        }
        while let Some((tag, after)) = Tag::read(skip_separators(rest)) {
            if fits(&tag) {
                return true;
            }
            rest = after;
        }
        false
    })
}

/// What stands between tags, any number of times: a list may have empty places.
fn skip_separators(mut list: &[u8]) -> &[u8] {
    while let [b',' | b' ' | b'\t', rest @ ..] = list {
        list = rest;
    }
    list
}

/// `"tag"` or `W/"tag"`.
struct Tag<'field> {
    is_weak: bool,
    /// With its quotes.
    quoted: &'field [u8],
}

impl<'field> Tag<'field> {
    /// The first of a list, and what follows it.
    fn read(list: &'field [u8]) -> Option<(Self, &'field [u8])> {
        let weak = list.strip_prefix(b"W/");
        let list = weak.unwrap_or(list);
        let inner = list.strip_prefix(b"\"")?;
        let end = inner.iter().position(|byte| *byte == b'"')?;
        let (quoted, rest) = list.split_at(end + 2);
        let tag = Self {
            is_weak: weak.is_some(),
            quoted,
        };
        Some((tag, rest))
    }

    fn is_strongly(&self, etag: &HeaderValue) -> bool {
        !self.is_weak && self.is_weakly(etag)
    }

    fn is_weakly(&self, etag: &HeaderValue) -> bool {
        self.quoted == etag.as_bytes()
    }
}

#[cfg(test)]
mod tests;
