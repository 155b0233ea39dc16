//! What is kept of a path: its file and the file's compressed siblings, with the headers of their responses made.

use super::{
    condition::Validators,
    encoding::{self, CODINGS},
    load::{self, Loaded, Sibling, Stamp, Stored},
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue,
    header::{
        ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
        LAST_MODIFIED, VARY, X_CONTENT_TYPE_OPTIONS,
    },
};
use std::{
    cell::Cell,
    ffi::{CStr, CString},
    hash::{DefaultHasher, Hash, Hasher},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The first second that HTTP has no date for: year 10000.
const END_OF_DATES_S: u64 = 253_402_300_800;

/// A path's file.
#[derive(Debug)]
pub(super) struct Entry {
    plain: Variant,
    /// As [`CODINGS`] has them; none where they are not looked for.
    siblings: Vec<Sibling<Variant>>,
    checked_ms: Cell<u64>,
    /// Read so soon after a change that the next one may not show.
    is_new: bool,
}

/// One form of the content.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) name: CString,
    pub(super) stamp: Stamp,
    /// All of it, if it is small.
    pub(super) content: Option<Bytes>,
    /// Of the response with all of it.
    pub(super) headers: HeaderMap,
    etag: HeaderValue,
    modified_s: Option<u64>,
}

impl Entry {
    /// Makes the headers.
    pub(super) fn new(loaded: Loaded, cache_control: Option<&HeaderValue>, now_ms: u64) -> Self {
        let is_new = loaded.stored().any(|stored| stored.is_new);
        let common = common_headers(&loaded, cache_control);
        let Loaded { plain, siblings } = loaded;
        let siblings = siblings.into_iter().zip(&CODINGS).map(|(sibling, coding)| {
            let mut headers = common.clone();
            headers.insert(CONTENT_ENCODING, coding.name.clone());
            Sibling {
                name: sibling.name,
                stamp: sibling.stamp,
                file: sibling.file.map(|stored| Variant::new(stored, headers)),
            }
        });
        Self {
            siblings: siblings.collect(),
            plain: Variant::new(plain, common.clone()),
            checked_ms: Cell::new(now_ms),
            is_new,
        }
    }

    /// Whether the files are as they were. They are not looked at if they were so lately.
    pub(super) fn is_current(&self, root: &OwnedFd, now_ms: u64, trust_ms: u64) -> bool {
        if now_ms.saturating_sub(self.checked_ms.get()) < trust_ms {
            return true;
        }
        let is_same = |name: &CStr, stamp: Option<&Stamp>| {
            load::look_by_name(root, name).ok().as_ref() == stamp
        };
        let is_current = !self.is_new
            && is_same(&self.plain.name, Some(&self.plain.stamp))
            && self
                .siblings
                .iter()
                .all(|sibling| is_same(&sibling.name, sibling.stamp.as_ref()));
        if is_current {
            self.checked_ms.set(now_ms);
        }
        is_current
    }

    /// The variant that a client likes best.
    pub(super) fn choose(&self, headers: &HeaderMap) -> &Variant {
        if self.siblings.iter().all(|sibling| sibling.file.is_none()) {
            return &self.plain;
        }
        let at = |place: usize| self.siblings.get(place)?.file.as_ref();
        encoding::choose(headers, |place| at(place).is_some())
            .and_then(at)
            .unwrap_or(&self.plain)
    }

    /// Memory that its content takes.
    pub(super) fn bytes(&self) -> usize {
        let siblings = self
            .siblings
            .iter()
            .filter_map(|sibling| sibling.file.as_ref());
        let variants = siblings.chain([&self.plain]);
        let contents = variants.filter_map(|variant| variant.content.as_ref());
        contents.map(Bytes::len).sum()
    }
}

impl Loaded {
    fn stored(&self) -> impl Iterator<Item = &Stored> {
        let siblings = self
            .siblings
            .iter()
            .filter_map(|sibling| sibling.file.as_ref());
        siblings.chain([&self.plain])
    }
}

impl Variant {
    fn new(stored: Stored, mut headers: HeaderMap) -> Self {
        let Stored {
            name,
            stamp,
            content,
            ..
        } = stored;
        let etag = etag(&stamp);
        let modified_s = modified_s(&stamp);
        headers.insert(CONTENT_LENGTH, stamp.bytes.into());
        headers.insert(ETAG, etag.clone());
        if let Some(date) = modified_s.and_then(date) {
            headers.insert(LAST_MODIFIED, date);
        }
        Self {
            name,
            stamp,
            content,
            headers,
            etag,
            modified_s,
        }
    }

    /// What its responses are recognised by.
    pub(super) fn validators(&self) -> Validators<'_> {
        Validators {
            etag: &self.etag,
            modified_s: self.modified_s,
        }
    }
}

/// What the responses of all variants have.
fn common_headers(loaded: &Loaded, cache_control: Option<&HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(CONTENT_TYPE, content_type(&loaded.plain.name));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(value) = cache_control {
        headers.insert(CACHE_CONTROL, value.clone());
    }
    if loaded.siblings.iter().any(|sibling| sibling.file.is_some()) {
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    }
    headers
}

/// By the name's ending. Text is UTF-8; XML says itself what it is.
fn content_type(name: &CStr) -> HeaderValue {
    let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
    let kind = mime_guess::from_path(path)
        .first_raw()
        .unwrap_or("application/octet-stream");
    match kind {
        // The one name of it that RFC 9239 leaves.
        "application/javascript" => HeaderValue::from_static("text/javascript; charset=utf-8"),
        "text/xml" => HeaderValue::from_static("text/xml"),
        text if text.starts_with("text/") => {
            HeaderValue::from_maybe_shared(Bytes::from(format!("{text}; charset=utf-8")))
                .unwrap_or_else(|_| HeaderValue::from_static("text/plain; charset=utf-8"))
        }
        other => HeaderValue::from_static(other),
    }
}

/// A strong tag: another one whenever the kernel saw a change of the file's content, place or rights. A hash, so
/// that it tells nothing of the file system.
fn etag(stamp: &Stamp) -> HeaderValue {
    // With keys of zero: the same in each worker and after a restart.
    let mut hasher = DefaultHasher::new();
    stamp.hash(&mut hasher);
    let tag = format!("\"{:016x}-{:x}\"", hasher.finish(), stamp.bytes);
    HeaderValue::from_maybe_shared(Bytes::from(tag))
        .unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// In seconds since 1970. None for what HTTP has no date for, or what is yet to come: no response may say so
/// (RFC 9110, section 8.8.2.1).
fn modified_s(stamp: &Stamp) -> Option<u64> {
    let seconds = u64::try_from(stamp.modified_ns.div_euclid(1_000_000_000)).ok()?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    (seconds <= now_s && seconds < END_OF_DATES_S).then_some(seconds)
}

fn date(seconds: u64) -> Option<HeaderValue> {
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
    HeaderValue::from_maybe_shared(Bytes::from(date)).ok()
}
