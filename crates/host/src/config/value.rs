//! Single values of `host.toml` that a policy does not have.

use super::{Address, ConfigProblem, Isolation, OnFailure, Rest, Server, error::Found};
use crate::{
    kinds::{Format, Level},
    path::{self, Ambiguity},
};
use http::{HeaderName, HeaderValue, Method, Uri, uri::PathAndQuery};
use palisade_policy::{
    Capability, HostName,
    document::{self, Key, Value},
    value::parse_path,
};
use std::{
    net::{IpAddr, SocketAddr},
    ops::Range,
    path::{Path, PathBuf},
};

/// Of a route's path: each of its segments is a step for whoever looks for it, and one more table in another.
const MOST_PREFIX_BYTES: usize = 1024;

/// `sun_path` of unix(7), with its NUL.
const MOST_SOCKET_PATH_BYTES: usize = 107;

/// Why a text is no value of its kind.
pub(super) struct Refusal {
    noun: &'static str,
    reason: String,
    accepted: &'static str,
}

/// For a value that stands in no text that could be shown.
impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "not a valid {}: {}; accepted is {}",
            self.noun, self.reason, self.accepted
        )
    }
}

impl Refusal {
    pub(super) fn new(
        noun: &'static str,
        reason: impl Into<String>,
        accepted: &'static str,
    ) -> Self {
        Self {
            noun,
            reason: reason.into(),
            accepted,
        }
    }

    fn found(self, given: &str, span: Range<usize>) -> Found {
        let problem = ConfigProblem::Value {
            noun: self.noun,
            given: given.into(),
            reason: self.reason,
            accepted: self.accepted.into(),
        };
        Found::at(span, problem)
    }

    /// The key itself is refused.
    pub(super) fn at_key(self, key: &Key) -> Found {
        self.found(key.get_ref(), key.span())
    }
}

/// Reads a string by `parse`.
pub(super) fn text<T>(
    key: &Key,
    value: &Value,
    parse: impl FnOnce(&str) -> Result<T, Refusal>,
) -> Result<T, Found> {
    let text = document::string(key, value)?;
    parse(text).map_err(|refusal| refusal.found(text, value.span()))
}

/// Reads a list of strings, or one string alone, each by `parse`.
pub(super) fn texts<T>(
    key: &Key,
    value: &Value,
    parse: impl Fn(&str) -> Result<T, Refusal>,
) -> Result<Vec<T>, Found> {
    let Some(items) = value.get_ref().as_array() else {
        return Ok(vec![text(key, value, parse)?]);
    };
    items.iter().map(|item| text(key, item, &parse)).collect()
}

/// A choice of the file's.
pub(super) trait Word: Copy + 'static {
    /// What messages call it.
    const NOUN: &'static str;
    /// What each word means.
    const WORDS: &'static [(&'static str, Self)];
    /// The words, as messages show them.
    const ACCEPTED: &'static str;
}

impl Word for Level {
    const NOUN: &'static str = "level";
    const WORDS: &'static [(&'static str, Self)] = Level::WORDS;
    const ACCEPTED: &'static str = "`trace`, `debug`, `info`, `warn`, `error` or `critical`";
}

impl Word for Format {
    const NOUN: &'static str = "format";
    const WORDS: &'static [(&'static str, Self)] = Format::WORDS;
    const ACCEPTED: &'static str = "`auto`, `json` or `text`";
}

impl Word for Ambiguity {
    const NOUN: &'static str = "kind of ambiguity";
    const WORDS: &'static [(&'static str, Self)] = Ambiguity::WORDS;
    const ACCEPTED: &'static str = "`separators`, `parameters`, `encodings`, `bytes` or `dots`";
}

impl Word for Isolation {
    const NOUN: &'static str = "isolation";
    const WORDS: &'static [(&'static str, Self)] = &[("kept", Self::Kept), ("fresh", Self::Fresh)];
    const ACCEPTED: &'static str =
        "`kept` (one instance of each worker) or `fresh` (one for each request)";
}

impl Word for Rest {
    const NOUN: &'static str = "rest";
    const WORDS: &'static [(&'static str, Self)] =
        &[("stop", Self::Stop), ("freeze", Self::Freeze)];
    const ACCEPTED: &'static str =
        "`stop` (it ends) or `freeze` (it stands still and keeps its memory)";
}

impl Word for OnFailure {
    const NOUN: &'static str = "answer to failure";
    const WORDS: &'static [(&'static str, Self)] = &[("close", Self::Close), ("open", Self::Open)];
    const ACCEPTED: &'static str =
        "`close` (the request gets an error) or `open` (it goes on without the filter)";
}

/// One of the words.
pub(super) fn parse_word<T: Word>(text: &str) -> Result<T, Refusal> {
    let known = T::WORDS.iter().find(|(word, _)| *word == text);
    let known = known.map(|(_, value)| *value);
    known.ok_or_else(|| Refusal::new(T::NOUN, "there is no such name", T::ACCEPTED))
}

/// `ADDRESS:PORT`, `[ADDRESS]:PORT` or `unix:PATH`.
pub(super) fn parse_address(text: &str, base_dir: &Path) -> Result<Address, Refusal> {
    const ACCEPTED: &str =
        "ADDRESS:PORT, [ADDRESS]:PORT for IPv6, or unix:PATH, as in `127.0.0.1:8080`";
    let refuse = |reason: &str| Refusal::new("address", reason, ACCEPTED);
    if let Some(path) = text.strip_prefix("unix:") {
        return socket_path(path, base_dir)
            .map(Address::Unix)
            .map_err(|reason| refuse(&reason));
    }
    let plain = text.strip_prefix("tcp://").unwrap_or(text);
    if let Ok(address) = plain.parse::<SocketAddr>() {
        return Ok(Address::Internet(address));
    }
    let reason = match plain.rsplit_once(':') {
        _ if plain.is_empty() => "nothing was given",
        _ if plain.parse::<IpAddr>().is_ok() => "there is no port behind the address",
        None if plain.bytes().all(|byte| byte.is_ascii_digit()) => "there is no address",
        None => "there is no port",
        Some(("" | "*", _)) => {
            "which addresses are meant is not said: 0.0.0.0 is every one of IPv4, [::] every one of IPv6"
        }
        Some((name, _)) if name.parse::<HostName>().is_ok() => {
            "a listener has an address, not a name: a name's addresses may change"
        }
        Some((_, port)) if port.parse::<u16>().is_err() => "that is no port",
        Some(_) => "that is no address",
    };
    Err(refuse(reason))
}

/// Why others than this machine reach `admin` with a token only.
pub(super) const OPEN_ADMIN: &str =
    "others than this machine would reach it, and who reaches it may reload the server";

/// What `admin` may be without one.
pub(super) const ADMIN_ADDRESSES: &str = "unix:PATH or a loopback address, as in `unix:admin.sock`; with a token any: \
     `{ listen = \"10.0.0.1:9000\", token-file = \"admin.token\" }`";

/// A Unix socket or a port that only this machine reaches: whoever reaches it may reload.
pub(super) fn parse_admin_address(text: &str, base_dir: &Path) -> Result<Address, Refusal> {
    match parse_address(text, base_dir)? {
        Address::Internet(address) if !address.ip().is_loopback() => {
            Err(Refusal::new("address", OPEN_ADMIN, ADMIN_ADDRESSES))
        }
        address => Ok(address),
    }
}

fn socket_path(path: &str, base_dir: &Path) -> Result<PathBuf, String> {
    let path = parse_path(path, base_dir).map_err(|error| error.reason().to_string())?;
    let length = path.as_os_str().len();
    match length <= MOST_SOCKET_PATH_BYTES {
        true => Ok(path),
        false => Err(format!(
            "the whole path has {length} bytes, and a socket's has {MOST_SOCKET_PATH_BYTES} at most"
        )),
    }
}

/// `http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH`.
pub(super) fn parse_server(text: &str, base_dir: &Path) -> Result<Server, Refusal> {
    const ACCEPTED: &str =
        "http://HOST:PORT, https://HOST:PORT or unix:PATH, as in `http://127.0.0.1:3000`";
    let refuse = |reason: &str| Refusal::new("server", reason, ACCEPTED);
    if let Some(path) = text.strip_prefix("unix:") {
        return socket_path(path, base_dir)
            .map(Server::Unix)
            .map_err(|reason| refuse(&reason));
    }
    let (rest, tls) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (rest, false),
        (_, Some(rest)) => (rest, true),
        _ => return Err(refuse("it begins with none of http://, https:// and unix:")),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#']) {
        return Err(refuse(
            "a server has no path: a route's `path` and `strip` say what it is asked for",
        ));
    }
    if rest.contains('@') {
        return Err(refuse("a server has no user and no password"));
    }
    let (host, port) =
        split_port(rest, if tls { 443 } else { 80 }).ok_or_else(|| refuse("that is no port"))?;
    let host = host_name(host).ok_or_else(|| refuse("that is no host's name or address"))?;
    Ok(Server::Internet { host, port, tls })
}

/// Splits `HOST:PORT`; IPv6 stands in brackets.
fn split_port(text: &str, default: u16) -> Option<(&str, u16)> {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            Some((host, port.parse().ok().filter(|port| *port > 0)?))
        }
        _ => Some((text, default)),
    }
}

/// A name in lower case, or an address without brackets.
fn host_name(text: &str) -> Option<String> {
    if let Some(inside) = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
    {
        let address: std::net::Ipv6Addr = inside.parse().ok()?;
        return Some(address.to_string());
    }
    if let Ok(address) = text.parse::<std::net::Ipv4Addr>() {
        return Some(address.to_string());
    }
    let name: HostName = text.parse().ok()?;
    Some(name.as_str().into())
}

/// A route's host: `NAME`, `*.NAME` or an address.
pub(super) fn parse_host(text: &str) -> Result<String, Refusal> {
    const ACCEPTED: &str = "a name, *.NAME or an address, without port, as in `www.example.com`";
    let refuse = |reason: &str| Refusal::new("host", reason, ACCEPTED);
    if let Ok(address) = text.parse::<std::net::Ipv6Addr>() {
        return Ok(format!("[{address}]"));
    }
    if text.starts_with('[') {
        let host = host_name(text).map(|address| format!("[{address}]"));
        return host.ok_or_else(|| refuse("that is no address"));
    }
    let (wildcard, name) = match text.strip_prefix("*.") {
        Some(name) => ("*.", name),
        None => ("", text),
    };
    let name = match host_name(name) {
        Some(name) => name,
        None if text == "*" => return Err(refuse("every host is meant where the key is left out")),
        None if text.contains(':') => return Err(refuse("a host is compared without its port")),
        None => return Err(refuse("that is no host's name")),
    };
    Ok(format!("{wildcard}{name}"))
}

/// A route's path, without a slash at its end.
pub(super) fn parse_prefix(text: &str) -> Result<String, Refusal> {
    const ACCEPTED: &str = "whole segments from the first on, as in `/api/v1`";
    let refuse = |reason: &str| Refusal::new("path", reason, ACCEPTED);
    let parts: Vec<&str> = text.trim_end_matches('/').split('/').skip(1).collect();
    let reason = match text {
        _ if text.len() > MOST_PREFIX_BYTES => "it is longer than 1024 bytes",
        _ if !text.starts_with('/') => "it does not begin with `/`",
        _ if text.contains('*') => "there are no wildcards: a path fits all that it begins",
        _ if text.contains(['?', '#']) => "a path has no query and no fragment",
        _ if parts.iter().any(|part| matches!(*part, "" | "." | "..")) => {
            "requests are compared without empty segments, `.` and `..`"
        }
        _ => {
            let whole = format!("/{}", parts.join("/"));
            let normal = normal_path(&whole);
            return normal
                .ok_or_else(|| refuse("other characters than those of a URL are written as %XX"));
        }
    };
    Err(refuse(reason))
}

/// The form in which requests' paths are compared; `None` if no request can have it.
fn normal_path(text: &str) -> Option<String> {
    let uri: Uri = text.parse().ok()?;
    match path::normalize(&uri).ok()? {
        None => Some(text.into()),
        Some(normal) => Some(normal.path().into()),
    }
}

/// What the server itself may do without.
pub(super) fn parse_dispensable(text: &str) -> Result<Capability, Refusal> {
    let capability = text.parse().ok();
    let known = capability.filter(|capability| *capability == Capability::Landlock);
    known.ok_or_else(|| {
        Refusal::new(
            "capability that the server can do without",
            "what guests do without stands in their policies",
            "`landlock`",
        )
    })
}

/// What a request asks for, in capitals.
pub(super) fn parse_method(text: &str) -> Result<Method, Refusal> {
    const ACCEPTED: &str = "a method in capitals, as in `GET`";
    let method = Method::from_bytes(text.as_bytes()).ok();
    let method = method.filter(|method| {
        method
            .as_str()
            .bytes()
            .all(|byte| !byte.is_ascii_lowercase())
    });
    method.ok_or_else(|| Refusal::new("method", "there is no such method", ACCEPTED))
}

/// A header field's name.
pub(super) fn parse_header_name(text: &str) -> Result<HeaderName, Refusal> {
    HeaderName::try_from(text).map_err(|_| {
        Refusal::new(
            "header field",
            "no field can have this name",
            "letters, digits and hyphens, as in `x-api-key`",
        )
    })
}

/// A header field's value.
pub(super) fn parse_header_value(text: &str) -> Result<HeaderValue, Refusal> {
    HeaderValue::try_from(text).map_err(|_| {
        Refusal::new(
            "header field's value",
            "it has a line break or another unprintable character",
            "one line of printable characters",
        )
    })
}

/// A name that stands in logs and metrics, and by which filters call a server: those made for a mesh call it
/// `outbound|8090||auth.dns`.
pub(super) fn check_name(text: &str) -> Result<(), Refusal> {
    const MOST: usize = 64;
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'|' | b':');
    let reason = match text.len() {
        0 => "it is empty",
        1..=MOST if text.bytes().all(is_plain) => return Ok(()),
        1..=MOST => "it has other characters",
        _ => "it is longer",
    };
    Err(Refusal::new(
        "name",
        reason,
        "1 to 64 letters, digits and any of - _ . | :",
    ))
}

/// [`check_name`] of a key.
pub(super) fn checked_name(key: &Key) -> Result<String, Found> {
    let name = key.get_ref().as_ref();
    check_name(name).map_err(|refusal| refusal.at_key(key))?;
    Ok(name.into())
}

/// Permissions of a file, in octal.
pub(super) fn parse_mode(text: &str) -> Result<u32, Refusal> {
    let mode = u32::from_str_radix(text, 8).ok();
    mode.filter(|mode| *mode <= 0o777).ok_or_else(|| {
        Refusal::new(
            "mode",
            "it is not an octal number up to 777",
            "three octal digits, as in `660`",
        )
    })
}

/// What a health check asks for: a path, with a query where wanted.
pub(super) fn parse_target(text: &str) -> Result<String, Refusal> {
    const ACCEPTED: &str = "a path, as in `/healthz`";
    let is_target = text.starts_with('/') && PathAndQuery::try_from(text).is_ok();
    match is_target {
        true => Ok(text.into()),
        false => Err(Refusal::new(
            "path",
            "it is not what a request can ask for",
            ACCEPTED,
        )),
    }
}

/// The name of a file in a folder.
pub(super) fn parse_file_name(text: &str) -> Result<String, Refusal> {
    let is_name = !text.is_empty() && !matches!(text, "." | "..") && !text.contains(['/', '\0']);
    match is_name {
        true => Ok(text.into()),
        false => Err(Refusal::new(
            "file's name",
            "it names no file of a folder",
            "a name without `/`, as in `index.html`",
        )),
    }
}
