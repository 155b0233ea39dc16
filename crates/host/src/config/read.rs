//! The file's text → [`Config`].

use super::{
    Config, ConfigFile, ConfigProblem, Limits, Log, Metrics, ProgramBounds, ReadFile,
    admin::Operators,
    check,
    error::Found,
    keys::{Entry, Kind, Section, keys},
    kind::{
        Count, CountOrNone, Dispensable, HostPath, In, Items, Names, OneOf, Size, Switch, Texts,
        Time, WithPlace, Workers,
    },
    listener::ListenerParts,
    room::Room,
    route::RouteParts,
    tenancy::{Pattern, Share, ShareOfAll},
};
use crate::{
    code::CodeLimitsSetting,
    kinds::{Format, Level},
};
use palisade_policy::{
    document::{self, Located, TomlProblem, Value},
    policy_schema,
};
use serde_json::json;
use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
};

/// Warnings that are told of one file. What comes behind them is counted.
const MOST_WARNINGS: usize = 50;

/// What reading needs beside the text, and what it comes upon.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) base_dir: &'a Path,
    read_file: ReadFile<'a>,
    files: RefCell<Vec<PathBuf>>,
    warnings: RefCell<Vec<String>>,
    more_warnings: Cell<usize>,
    /// What the file may still hold; `None`: it is the main one, whose owner is trusted.
    room: Option<Room>,
    /// Where lines end.
    ends: OnceCell<Vec<usize>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, base_dir: &'a Path, read_file: ReadFile<'a>) -> Self {
        Self {
            text,
            base_dir,
            read_file,
            files: RefCell::default(),
            warnings: RefCell::default(),
            more_warnings: Cell::default(),
            room: None,
            ends: OnceCell::new(),
        }
    }

    /// The same for a tenant's file, whose author is not trusted.
    pub(super) fn within(self, room: Room) -> Self {
        Self {
            room: Some(room),
            ..self
        }
    }

    pub(super) fn into_file(self, config: Config) -> ConfigFile {
        let mut warnings = self.warnings.into_inner();
        let more = self.more_warnings.get();
        if more > 0 {
            warnings.push(format!("there are {more} more warnings"));
        }
        ConfigFile {
            config,
            files: self.files.into_inner(),
            warnings,
        }
    }

    /// Reads a file that `value` names.
    pub(super) fn read_file(&self, path: &Path, value: &Value) -> Result<String, Found> {
        self.files.borrow_mut().push(path.into());
        let text = (self.read_file)(path).map_err(|error| {
            let problem = ConfigProblem::Unreadable {
                path: path.into(),
                reason: error.to_string(),
            };
            Found::at(value.span(), problem)
        })?;
        if let Some(room) = &self.room {
            room.take_bytes(text.len(), &value.span())?;
        }
        Ok(text)
    }

    /// What the file may still hold, if that is bounded.
    pub(super) fn room(&self) -> Option<&Room> {
        self.room.as_ref()
    }

    /// Notes what is probably not meant.
    pub(super) fn warn(&self, span: &Range<usize>, text: &str) {
        let mut warnings = self.warnings.borrow_mut();
        if warnings.len() == MOST_WARNINGS {
            self.more_warnings.set(self.more_warnings.get() + 1);
            return;
        }
        let line = self.line(span.start);
        warnings.push(format!("line {line}: {text}"));
    }

    /// The number of the line of this byte. The text is searched for lines once: a file may give many reasons to ask.
    fn line(&self, at: usize) -> usize {
        let find = || self.text.match_indices('\n').map(|(at, _)| at).collect();
        let ends: &Vec<usize> = self.ends.get_or_init(find);
        ends.partition_point(|end| *end < at) + 1
    }
}

/// Something that has a name, and where the name stands.
pub(super) type Named<T> = BTreeMap<String, (Range<usize>, T)>;

/// A thing of a list, and where it stands.
pub(super) type Placed<T> = Vec<(Range<usize>, T)>;

/// The file's parts, each with its place, before they are looked at together.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) admin: Option<(Range<usize>, super::Admin)>,
    pub(super) listeners: Placed<super::Listener>,
    pub(super) filters: Named<super::Filter>,
    pub(super) services: Named<super::Service>,
    pub(super) routes: Placed<RouteParts>,
    pub(super) tenants: Named<Share>,
    pub(super) config: Config,
}

pub(super) fn read_document(reader: &Reader<'_>) -> Result<Config, Found> {
    let document = document::parse(reader.text).map_err(not_toml)?;
    let whole = 0..reader.text.len();
    let parts = Parts::default().read(document.get_ref(), whole, reader)?;
    check::check(&parts, reader)?;
    Ok(parts.into_config())
}

pub(super) fn not_toml(located: Located) -> Found {
    match located.problem {
        TomlProblem::Syntax(message) => Found::at(located.span, ConfigProblem::Syntax(message)),
        _ => located.into(),
    }
}

/// The JSON Schema of the file, as `docs/host.schema.json` has it.
pub fn host_schema() -> serde_json::Value {
    whole_schema(Parts::schema(), "Configuration of palisade serve")
}

/// The schema of a file with what its parts refer to.
pub(super) fn whole_schema(mut schema: serde_json::Value, title: &str) -> serde_json::Value {
    let mut policy = policy_schema();
    if let Some(policy) = policy.as_object_mut() {
        policy.remove("$schema");
    }
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = title.into();
    schema["definitions"] = json!({ "policy": policy });
    schema
}

impl Parts {
    pub(super) fn into_config(mut self) -> Config {
        fn without_places<T, U: From<T>>(named: Named<T>) -> BTreeMap<String, U> {
            let named = named.into_iter();
            let named = named.map(|(name, (_, value))| (name, value.into()));
            named.collect()
        }
        let routes = self.routes.into_iter().map(|(_, parts)| parts.route);
        let mut routes: Vec<_> = routes.collect();
        // Of a tenant's few, of whom there are many.
        routes.shrink_to_fit();
        self.config.tenancy.each = without_places(self.tenants);
        self.config.tenancy.underscores = self.config.limits.underscores;
        Config {
            admin: self.admin.map(|(_, admin)| admin),
            listeners: self
                .listeners
                .into_iter()
                .map(|(_, listener)| listener)
                .collect(),
            filters: without_places(self.filters),
            services: without_places(self.services),
            routes,
            ..self.config
        }
    }
}

impl Section for Parts {
    const PLACE: &'static str = "at the top, before any table";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// Threads that serve, 1 to 1024; changing it needs a restart.
        "workers": Workers => |parts, count| parts.config.workers = Some(count);
        /// What the server itself may do without: `["landlock"]`.
        "allow-degraded": Texts<Dispensable> => |parts, capabilities|
            parts.config.allow_degraded = capabilities.into_iter().collect();
        /// Where the page for operators, figures and status are, and a reload is asked for: unix:PATH or a port of the
        /// loopback, or a table with `listen` and `token-file`.
        "admin": WithPlace<Operators> => |parts, admin| parts.admin = Some(admin);
        /// Files of tenants: `tenants.d/*.toml`.
        "include": Texts<Pattern> => |parts, include| parts.config.tenancy.include = include;
        /// What every tenant may have.
        "tenants": ShareOfAll => |parts, share| parts.config.tenancy.all = share;
        /// What one tenant may have instead, by its name.
        "tenant": Names<Share> => |parts, tenants| parts.tenants = tenants;
        /// Where lines go.
        "log": In<Log> => |parts, log| parts.config.log = log;
        /// How much `/metrics` shows.
        "metrics": In<Metrics> => |parts, metrics| parts.config.metrics = metrics;
        /// Bounds of every connection and request.
        "limits": In<Limits> => |parts, limits| parts.config.limits = limits;
        /// What code of filters and components may take that is loaded, and that is kept on disk.
        "code": In<CodeLimitsSetting> => |parts, code| parts.config.code = code;
        /// Bounds of all programs together.
        "programs": In<ProgramBounds> => |parts, bounds| parts.config.programs = bounds;
        /// Where requests come in, one table for each place.
        "listen": Items<ListenerParts> => |parts, listeners|
            parts.listeners = listeners.into_iter().filter_map(ListenerParts::complete).collect();
        /// Filters, by name.
        "filters": Names<super::Filter> => |parts, filters| parts.filters = filters;
        /// Services, by name.
        "services": Names<super::Service> => |parts, services| parts.services = services;
        /// Which requests go through which filters to which service; the first that fits has a request.
        "route": Items<RouteParts> => |parts, routes| parts.routes = with_names(routes);
    };
}

/// A route without a name is called by its place.
pub(super) fn with_names(mut routes: Placed<RouteParts>) -> Placed<RouteParts> {
    for (place, (_, parts)) in routes.iter_mut().enumerate() {
        if parts.route.name.is_empty() {
            parts.route.name = format!("route-{place}");
        }
    }
    routes
}

impl Section for Log {
    const PLACE: &'static str = "in [log]";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// A file, appended to; stderr, if left out.
        "path": HostPath => |log, path| log.path = Some(path);
        /// Write a line for each request.
        "access": Switch => |log, is_on| log.access = is_on;
        /// Write a line for what happens to guests: starts, denials, limits that are reached, ends.
        "events": Switch => |log, is_on| log.events = is_on;
        /// The least of what is written.
        "level": OneOf<Level> => |log, level| log.level = level;
        /// How lines are written.
        "format": OneOf<Format> => |log, format| log.format = format;
    };
}

impl Section for CodeLimitsSetting {
    const PLACE: &'static str = "in [code]";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// Bytes of code loaded at one time; an eighth of the machine's memory, if left out.
        "memory": Size<u64> => |code, bytes| code.memory_bytes = Some(bytes);
        /// Mappings of it, two or three for each module; a third of `vm.max_map_count`, if left out.
        "mappings": Count<u64> => |code, count| code.mappings = Some(count);
        /// Descriptors of it, one for each module that keeps its file open; half of the hard limit, if left out.
        "files": Count<u64> => |code, count| code.files = Some(count);
        /// Bytes of compiled code kept on disk; what this file names is kept beyond it.
        "disk": Size<u64> => |code, bytes| code.disk_bytes = Some(bytes);
    };
}

impl Section for ProgramBounds {
    const PLACE: &'static str = "in [programs]";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// Programs that run at one time; those used least lately are ended for others.
        "most": Count<usize> => |bounds, count| bounds.most = count;
        /// Memory of all programs that run, which no one of them may exceed either; not counted, if left out.
        "memory": Size<u64> => |bounds, bytes| bounds.memory_bytes = Some(bytes);
    };
}

impl Section for Metrics {
    const PLACE: &'static str = "in [metrics]";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// Filters and services that have series of their own; the others have one together.
        "guests": CountOrNone<usize> => |metrics, count| metrics.guests = count;
        /// Routes that have series of their own; the others have one together.
        "routes": CountOrNone<usize> => |metrics, count| metrics.routes = count;
        /// Bytes of the metrics that filters define.
        "filter-metrics": Size<usize> => |metrics, bytes| metrics.filter_bytes = bytes;
    };
}

impl Section for Limits {
    const PLACE: &'static str = "in [limits]";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// Connections at one time.
        "connections": Count<usize> => |limits, count| limits.connections = count;
        /// Bytes of a request's head.
        "header-size": Size<usize> => |limits, bytes| limits.header_bytes = bytes;
        /// Header fields of a request.
        "headers": Count<usize> => |limits, count| limits.headers = count;
        /// Pass on header fields with `_` in their names.
        "underscores": Switch => |limits, is_on| limits.underscores = is_on;
        /// Bytes of a request's body.
        "body-size": Size<u64> => |limits, bytes| limits.body_bytes = bytes;
        /// Requests of one HTTP/2 connection at one time.
        "streams": Count<u32> => |limits, count| limits.streams = count;
        /// Requests that one client may begin in a second, by its address or its IPv6 network of 64 bits.
        "client-rate": Count<u64> => |limits, count| limits.client_rate = Some(count);
        /// How many of them may come at once after a pause; as many as in a second, if left out.
        "client-burst": Count<u64> => |limits, count| limits.client_burst = Some(count);
        /// From a request's first byte to the end of its head.
        "header-time": Time => |limits, time| limits.header_time = time;
        /// Between two parts of a body, and for each part of an answer to be taken.
        "body-time": Time => |limits, time| limits.body_time = time;
        /// From the end of the head to the first byte of the answer.
        "answer-time": Time => |limits, time| limits.answer_time = time;
        /// How long a connection without a request is kept.
        "idle-time": Time => |limits, time| limits.idle_time = time;
        /// How long requests may go on once the server is to stop.
        "stop-time": Time => |limits, time| limits.stop_time = time;
    };
}
