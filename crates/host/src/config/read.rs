//! The file's text → [`Config`].

use super::{
    Config, ConfigFile, ConfigProblem, Limits, Listener, Log, ReadFile, Route, Tls, check,
    error::Found,
    guest::{read_filter, read_service},
    value::{self, Refusal},
};
use crate::{
    kinds::{Format, Level},
    path::Ambiguities,
};
use palisade_policy::{
    document::{self, Key, Value, in_written_order},
    value::{parse_count, parse_duration, parse_size},
};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    num::NonZeroUsize,
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};
use toml::de::{DeTable, DeValue};

pub(super) const TOP_KEYS: &[&str] = &[
    "workers",
    "allow-degraded",
    "admin",
    "log",
    "limits",
    "listen",
    "filters",
    "services",
    "route",
];
pub(super) const LOG_KEYS: &[&str] = &["path", "access", "level", "format"];
pub(super) const LIMIT_KEYS: &[&str] = &[
    "connections",
    "header-size",
    "headers",
    "underscores",
    "body-size",
    "streams",
    "header-time",
    "body-time",
    "answer-time",
    "idle-time",
    "stop-time",
];
pub(super) const LISTEN_KEYS: &[&str] = &["address", "tls", "mode"];
pub(super) const TLS_KEYS: &[&str] = &["certificate", "key"];
pub(super) const ROUTE_KEYS: &[&str] = &[
    "name",
    "host",
    "path",
    "methods",
    "headers",
    "strip",
    "ambiguous-paths",
    "filters",
    "service",
];

/// More would only wait for each other.
const MOST_WORKERS: u32 = 1024;

/// What reading needs beside the text, and what it comes upon.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) base_dir: &'a Path,
    read_file: ReadFile<'a>,
    files: RefCell<Vec<PathBuf>>,
    warnings: RefCell<Vec<String>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, base_dir: &'a Path, read_file: ReadFile<'a>) -> Self {
        Self {
            text,
            base_dir,
            read_file,
            files: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    pub(super) fn into_file(self, config: Config) -> ConfigFile {
        ConfigFile {
            config,
            files: self.files.into_inner(),
            warnings: self.warnings.into_inner(),
        }
    }

    /// Reads a file that `value` names.
    pub(super) fn read_file(&self, path: &Path, value: &Value) -> Result<String, Found> {
        self.files.borrow_mut().push(path.into());
        (self.read_file)(path).map_err(|error| {
            let problem = ConfigProblem::Unreadable {
                path: path.into(),
                reason: error.to_string(),
            };
            Found::at(value.span(), problem)
        })
    }

    /// Notes what is probably not meant.
    pub(super) fn warn(&self, span: &Range<usize>, text: &str) {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let warning = format!("line {line}: {text}");
        self.warnings.borrow_mut().push(warning);
    }
}

/// Something that has a name, and where the name stands.
pub(super) type Named<T> = BTreeMap<String, (Range<usize>, T)>;

/// A thing of a list, and where it stands.
pub(super) type Placed<T> = Vec<(Range<usize>, T)>;

/// The file's parts, each with its place, before they are looked at together.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) admin: Option<(Range<usize>, super::Address)>,
    pub(super) listeners: Placed<Listener>,
    pub(super) filters: Named<super::Filter>,
    pub(super) services: Named<super::Service>,
    pub(super) routes: Placed<RouteParts>,
    pub(super) config: Config,
}

/// A route and where its parts stand.
pub(super) struct RouteParts {
    pub(super) route: Route,
    pub(super) filters: Vec<Range<usize>>,
    pub(super) service: Range<usize>,
}

pub(super) fn read_document(reader: &Reader<'_>) -> Result<Config, Found> {
    let document = DeTable::parse(reader.text).map_err(|error| {
        let problem = ConfigProblem::Syntax(error.message().to_owned());
        Found::at(error.span().unwrap_or(0..0), problem)
    })?;
    let mut parts = Parts::default();
    for (key, value) in in_written_order(document.get_ref()) {
        read_top(&mut parts, key, value, reader)?;
    }
    check::check(&parts, reader)?;
    Ok(parts.into_config())
}

impl Parts {
    fn into_config(self) -> Config {
        fn without_places<T>(named: Named<T>) -> BTreeMap<String, T> {
            let named = named.into_iter();
            named.map(|(name, (_, value))| (name, value)).collect()
        }
        Config {
            admin: self.admin.map(|(_, address)| address),
            listeners: self
                .listeners
                .into_iter()
                .map(|(_, listener)| listener)
                .collect(),
            filters: without_places(self.filters),
            services: without_places(self.services),
            routes: self
                .routes
                .into_iter()
                .map(|(_, parts)| parts.route)
                .collect(),
            ..self.config
        }
    }
}

fn read_top(parts: &mut Parts, key: &Key, value: &Value, reader: &Reader<'_>) -> Result<(), Found> {
    match key.get_ref().as_ref() {
        "workers" => parts.config.workers = Some(workers(key, value)?),
        "allow-degraded" => {
            let capabilities = value::texts(key, value, value::parse_dispensable)?;
            parts.config.allow_degraded = capabilities.into_iter().collect();
        }
        "admin" => {
            let address = value::text(key, value, |text| admin_address(text, reader.base_dir))?;
            parts.admin = Some((value.span(), address));
        }
        "log" => parts.config.log = read_log(key, value, reader)?,
        "limits" => {
            for (key, value) in in_written_order(document::table(key, value)?) {
                read_limit(&mut parts.config.limits, key, value)?;
            }
        }
        "listen" => {
            for table in tables(key, value)? {
                let listener = read_listener(table, reader)?;
                parts.listeners.push((table.span(), listener));
            }
        }
        "filters" => {
            for (key, value) in in_written_order(document::table(key, value)?) {
                let name = value::checked_name(key)?;
                let filter = read_filter(&name, key, value, reader)?;
                parts.filters.insert(name, (key.span(), filter));
            }
        }
        "services" => {
            for (key, value) in in_written_order(document::table(key, value)?) {
                let name = value::checked_name(key)?;
                let service = read_service(&name, key, value, reader)?;
                parts.services.insert(name, (key.span(), service));
            }
        }
        "route" => {
            for (place, table) in tables(key, value)?.iter().enumerate() {
                let route = read_route(place, table)?;
                parts.routes.push((table.span(), route));
            }
        }
        _ => return Err(unknown_key(key, "at the top, before any table", TOP_KEYS)),
    }
    Ok(())
}

/// The problem of a key that means nothing in this table.
pub(super) fn unknown_key(key: &Key, place: &str, known: &'static [&'static str]) -> Found {
    let name = key.get_ref().as_ref();
    let belongs = match name {
        _ if known == TOP_KEYS => None,
        "workers" | "admin" => Some("at the top, before any table"),
        "address" | "tls" => Some("in [[listen]]"),
        "strip" | "methods" => Some("in [[route]]"),
        _ => None,
    };
    let problem = ConfigProblem::UnknownKey {
        key: name.to_owned(),
        place: place.to_owned(),
        known,
        belongs,
    };
    Found::at(key.span(), problem)
}

pub(super) fn missing_key(
    span: Range<usize>,
    place: &str,
    key: &'static str,
    example: &'static str,
) -> Found {
    let problem = ConfigProblem::MissingKey {
        place: place.to_owned(),
        key,
        example,
    };
    Found::at(span, problem)
}

/// The tables of a list such as `[[listen]]`.
fn tables<'a, 'i>(key: &Key, value: &'a Value<'i>) -> Result<&'a [Value<'i>], Found> {
    let items = value.get_ref().as_array();
    let Some(items) = items.filter(|items| items.iter().all(|item| item.get_ref().is_table()))
    else {
        let expected = match key.get_ref().as_ref() {
            "listen" => "a list of tables, each [[listen]]",
            _ => "a list of tables, each [[route]]",
        };
        return Err(document::wrong_type(key, value, expected).into());
    };
    Ok(items.as_ref())
}

/// The entries of a table that is an item of a list.
fn entries<'a, 'i>(item: &'a Value<'i>) -> Vec<(&'a Key<'i>, &'a Value<'i>)> {
    item.get_ref()
        .as_table()
        .map(in_written_order)
        .unwrap_or_default()
}

fn workers(key: &Key, value: &Value) -> Result<NonZeroUsize, Found> {
    let count: u32 = count(key, value)?;
    let workers = NonZeroUsize::new(count as usize).filter(|_| count <= MOST_WORKERS);
    workers.ok_or_else(|| {
        let problem = ConfigProblem::Value {
            noun: "number of workers",
            given: count.to_string(),
            reason: "each is a thread, and one a processor is enough".into(),
            accepted: format!("1 to {MOST_WORKERS}"),
        };
        Found::at(value.span(), problem)
    })
}

/// A Unix socket or a port that only this machine reaches: whoever reaches it may reload.
fn admin_address(text: &str, base_dir: &Path) -> Result<super::Address, Refusal> {
    let address = value::parse_address(text, base_dir)?;
    match address {
        super::Address::Internet(address) if !address.ip().is_loopback() => Err(Refusal::new(
            "address",
            "others than this machine would reach it, and who reaches it may reload the server",
            "unix:PATH or a loopback address, as in `unix:admin.sock`",
        )),
        address => Ok(address),
    }
}

fn read_log(key: &Key, value: &Value, reader: &Reader<'_>) -> Result<Log, Found> {
    let mut log = Log::default();
    for (key, value) in in_written_order(document::table(key, value)?) {
        match key.get_ref().as_ref() {
            "path" => log.path = Some(value::host_path(key, value, reader.base_dir)?),
            "access" => log.access = document::boolean(key, value)?,
            "level" => {
                const ACCEPTED: &str = "`trace`, `debug`, `info`, `warn`, `error` or `critical`";
                log.level = value::one_of(key, value, "level", Level::WORDS, ACCEPTED)?;
            }
            "format" => {
                const ACCEPTED: &str = "`auto`, `json` or `text`";
                log.format = value::one_of(key, value, "format", Format::WORDS, ACCEPTED)?;
            }
            _ => return Err(unknown_key(key, "in [log]", LOG_KEYS)),
        }
    }
    Ok(log)
}

fn read_limit(limits: &mut Limits, key: &Key, value: &Value) -> Result<(), Found> {
    match key.get_ref().as_ref() {
        "connections" => limits.connections = count(key, value)?,
        "header-size" => limits.header_bytes = size(key, value)?,
        "headers" => limits.headers = count(key, value)?,
        "underscores" => limits.underscores = document::boolean(key, value)?,
        "body-size" => limits.body_bytes = size(key, value)?,
        "streams" => limits.streams = count(key, value)?,
        "header-time" => limits.header_time = duration(key, value)?,
        "body-time" => limits.body_time = duration(key, value)?,
        "answer-time" => limits.answer_time = duration(key, value)?,
        "idle-time" => limits.idle_time = duration(key, value)?,
        "stop-time" => limits.stop_time = duration(key, value)?,
        _ => return Err(unknown_key(key, "in [limits]", LIMIT_KEYS)),
    }
    Ok(())
}

/// A number of things, at least 1.
pub(super) fn count<T: TryFrom<u64>>(key: &Key, value: &Value) -> Result<T, Found> {
    let text = document::scalar(key, value)?;
    Ok(document::parsed(&text, value, parse_count)?)
}

/// A number of bytes, as the policy writes it.
pub(super) fn size<T: TryFrom<u64>>(key: &Key, value: &Value) -> Result<T, Found> {
    let text = document::scalar(key, value)?;
    let bytes = document::parsed(&text, value, parse_size)?;
    T::try_from(bytes).map_err(|_| {
        let problem = ConfigProblem::Value {
            noun: "size",
            given: text.into_owned(),
            reason: "this machine has no such memory".into(),
            accepted: "less".into(),
        };
        Found::at(value.span(), problem)
    })
}

/// A length of time, as the policy writes it.
pub(super) fn duration(key: &Key, value: &Value) -> Result<Duration, Found> {
    let text = document::scalar(key, value)?;
    Ok(document::parsed(&text, value, parse_duration)?)
}

fn read_listener(item: &Value, reader: &Reader<'_>) -> Result<Listener, Found> {
    const PLACE: &str = "in [[listen]]";
    let (mut address, mut tls, mut mode) = (None, Vec::new(), None);
    for (key, value) in entries(item) {
        match key.get_ref().as_ref() {
            "address" => {
                let parse = |text: &str| value::parse_address(text, reader.base_dir);
                address = Some(value::text(key, value, parse)?);
            }
            "tls" => tls = read_certificates(key, value, reader)?,
            "mode" => mode = Some((key.span(), read_mode(key, value)?)),
            _ => return Err(unknown_key(key, PLACE, LISTEN_KEYS)),
        }
    }
    let address = address.ok_or_else(|| {
        const EXAMPLE: &str = "address = \"127.0.0.1:8080\"";
        missing_key(item.span(), "this [[listen]]", "address", EXAMPLE)
    })?;
    if let (super::Address::Internet(_), Some((span, _))) = (&address, &mode) {
        let problem = ConfigProblem::Exclusive {
            first: "`mode`".into(),
            second: "an internet address".into(),
            advice: "permissions are a Unix socket's: drop `mode`",
        };
        return Err(Found::at(span.clone(), problem));
    }
    Ok(Listener {
        address,
        tls,
        mode: mode.map(|(_, mode)| mode),
    })
}

/// An integer is taken where it was written in octal: `mode = 660` would be 0o1224.
fn read_mode(key: &Key, value: &Value) -> Result<u32, Found> {
    match value.get_ref() {
        DeValue::Integer(number) if number.radix() == 8 => value::parse_mode(number.as_str())
            .or_else(|_| value::text(key, value, value::parse_mode)),
        DeValue::Integer(_) => {
            Err(document::wrong_type(key, value, "octal, as \"660\" or 0o660").into())
        }
        _ => value::text(key, value, value::parse_mode),
    }
}

/// One certificate with its key, or a list of them.
fn read_certificates(key: &Key, value: &Value, reader: &Reader<'_>) -> Result<Vec<Tls>, Found> {
    let Some(items) = value.get_ref().as_array() else {
        return Ok(vec![read_tls(key, value, reader)?]);
    };
    if items.is_empty() {
        return Err(document::wrong_type(key, value, "a table, or a list of at least one").into());
    }
    let items = items.iter();
    items.map(|item| read_tls(key, item, reader)).collect()
}

fn read_tls(key: &Key, value: &Value, reader: &Reader<'_>) -> Result<Tls, Found> {
    let (mut certificate, mut private) = (None, None);
    for (key, value) in in_written_order(document::table(key, value)?) {
        match key.get_ref().as_ref() {
            "certificate" => certificate = Some(value::host_path(key, value, reader.base_dir)?),
            "key" => private = Some(value::host_path(key, value, reader.base_dir)?),
            _ => return Err(unknown_key(key, "in `tls`", TLS_KEYS)),
        }
    }
    let need = |key_name, example| missing_key(key.span(), "`tls`", key_name, example);
    Ok(Tls {
        certificate: certificate
            .ok_or_else(|| need("certificate", "certificate = \"certificate.pem\""))?,
        key: private.ok_or_else(|| need("key", "key = \"key.pem\""))?,
    })
}

fn read_route(place: usize, item: &Value) -> Result<RouteParts, Found> {
    let mut route = Route {
        name: format!("route-{place}"),
        host: None,
        path: "/".into(),
        methods: Vec::new(),
        headers: Vec::new(),
        strip: false,
        ambiguous_paths: Ambiguities::default(),
        filters: Vec::new(),
        service: String::new(),
    };
    let (mut filters, mut service) = (Vec::new(), None);
    for (key, value) in entries(item) {
        match key.get_ref().as_ref() {
            "name" => {
                let parse = |text: &str| value::check_name(text).map(|()| text.to_owned());
                route.name = value::text(key, value, parse)?;
            }
            "host" => route.host = Some(value::text(key, value, value::parse_host)?),
            "path" => route.path = value::text(key, value, value::parse_prefix)?,
            "methods" => route.methods = value::texts(key, value, value::parse_method)?,
            "headers" => route.headers = read_headers(key, value)?,
            "strip" => route.strip = document::boolean(key, value)?,
            "ambiguous-paths" => {
                for kind in value::texts(key, value, value::parse_ambiguity)? {
                    route.ambiguous_paths.add(kind);
                }
            }
            "filters" => {
                route.filters = document::list(key, value, |text| Ok(text.to_owned()))?;
                let items = value.get_ref().as_array();
                filters = items
                    .iter()
                    .flat_map(|items| items.iter())
                    .map(|item| item.span())
                    .collect();
            }
            "service" => {
                route.service = document::string(key, value)?.to_owned();
                service = Some(value.span());
            }
            _ => return Err(unknown_key(key, "in [[route]]", ROUTE_KEYS)),
        }
    }
    let service = service.ok_or_else(|| {
        missing_key(
            item.span(),
            "this [[route]]",
            "service",
            "service = \"NAME\"",
        )
    })?;
    Ok(RouteParts {
        route,
        filters,
        service,
    })
}

/// `{ x-api-version = "2", x-debug = true }`: a field with a value, or only that there is one.
fn read_headers(
    key: &Key,
    value: &Value,
) -> Result<Vec<(http::HeaderName, Option<http::HeaderValue>)>, Found> {
    let mut headers = Vec::new();
    for (key, value) in in_written_order(document::table(key, value)?) {
        let name = value::parse_header_name(key.get_ref());
        let name = name.map_err(|refusal| refusal.at_key(key))?;
        let wanted = match value.get_ref() {
            DeValue::Boolean(true) => None,
            DeValue::String(_) => Some(value::text(key, value, value::parse_header_value)?),
            _ => {
                return Err(
                    document::wrong_type(key, value, "a string, or `true` for any value").into(),
                );
            }
        };
        headers.push((name, wanted));
    }
    Ok(headers)
}
