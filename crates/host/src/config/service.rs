//! `[services.NAME]`.

use super::{
    Component, ConfigProblem, FaultBudget, Files, Health, Isolation, Program, Rest, Service,
    ServiceKind, Upstream,
    error::Found,
    keys::{Entry, Kind, Section, find_key, keys},
    kind::{
        self, Argument, Count, CountOrNone, FileName, HasName, HeaderValue, HostPath, In, OneOf,
        Port, Server, Switch, Target, Texts, Time, TimeOrNever, kinds, string,
    },
    policy::{GuestKind, GuestPolicy},
    read::Reader,
};
use palisade_policy::{
    Policy,
    document::{self, Key, Value, in_written_order},
    value::parse_path,
};
use serde_json::json;
use std::{path::PathBuf, time::Duration};
use toml::de::DeTable;

/// Keys of which a service has exactly one.
pub(super) const KINDS: &[&str] = &["component", "program", "files", "upstream"];

impl HasName for Service {
    fn read_named(
        name: &str,
        key: &Key,
        value: &Value,
        reader: &Reader<'_>,
    ) -> Result<Self, Found> {
        let table = document::table(key, value)?;
        let keys = in_written_order(table).into_iter();
        let kinds = keys.filter_map(|(key, _)| {
            let word = key.get_ref().as_ref();
            KINDS.iter().find(|kind| **kind == word).copied()
        });
        let kinds: Vec<_> = kinds.collect();
        match kinds.as_slice() {
            ["component"] => read_service(name, table, reader, ServiceKind::Component),
            ["program"] => read_service(name, table, reader, |mut program: Program| {
                program.back_off_most = program.back_off_most.max(program.back_off);
                ServiceKind::Program(program)
            }),
            ["files"] => read_service(name, table, reader, ServiceKind::Files),
            ["upstream"] => read_service(name, table, reader, ServiceKind::Upstream),
            _ => {
                let problem = ConfigProblem::Kind {
                    name: name.into(),
                    found: kinds,
                };
                Err(Found::at(key.span(), problem))
            }
        }
    }

    fn schema() -> serde_json::Value {
        let kinds = [
            Parts::<Component>::schema(),
            Parts::<Program>::schema(),
            Parts::<Files>::schema(),
            Parts::<Upstream>::schema(),
        ];
        json!({ "anyOf": kinds })
    }
}

/// A service and what services of every kind have.
pub(super) struct Parts<K> {
    name: String,
    kind: K,
    faults: FaultBudget,
    policy: Policy,
    log: Option<PathBuf>,
}

/// A kind of service.
pub(super) trait KindOfService: Default + 'static {
    /// Its own keys; that which decides the kind must be there.
    const KEYS: &'static [Entry<Parts<Self>>];

    /// Keys that it shares with other kinds.
    const SHARED_KEYS: &'static [Entry<Parts<Self>>];

    /// The guest that it is; without one it is the server's own, and has no policy.
    const GUEST: Option<GuestKind>;

    /// Keys that do not go together.
    fn check(&self, _table: &DeTable) -> Result<(), Found> {
        Ok(())
    }
}

impl<K: KindOfService> Parts<K> {
    const KEYS_OF_GUESTS: &'static [Entry<Self>] = keys! {
        /// How often it may fail.
        "faults": In<FaultBudget> => |service, faults| service.faults = faults;
        /// What it may reach and use: a policy file's path, or a table with its keys.
        "policy": GuestPolicy => |service, policy| if let Some(kind) = K::GUEST {
            service.policy = policy.of(kind, &service.name)?;
        };
        /// A file for its lines; the server's log, if left out.
        "log": HostPath => |service, path| service.log = Some(path);
    };

    /// Of those, what is no guest's alone.
    const KEYS_OF_ALL: &'static [Entry<Self>] = Self::KEYS_OF_GUESTS.split_at(2).1;
}

fn read_service<K: KindOfService>(
    name: &str,
    table: &DeTable,
    reader: &Reader<'_>,
    whole: impl FnOnce(K) -> ServiceKind,
) -> Result<Service, Found> {
    let parts = Parts {
        name: name.into(),
        kind: K::default(),
        faults: FaultBudget::default(),
        // What runs no code of others is granted nothing: it is the server's own.
        policy: match K::GUEST {
            Some(_) => Policy::default(),
            None => Policy::nothing(),
        },
        log: None,
    };
    let parts = parts.read(table, 0..0, reader)?;
    Ok(Service {
        kind: whole(parts.kind),
        policy: parts.policy,
        faults: parts.faults,
        log: parts.log,
    })
}

impl<K: KindOfService> Section for Parts<K> {
    const KEYS: &'static [Entry<Self>] = K::KEYS;
    const SHARED_KEYS: &'static [Entry<Self>] = K::SHARED_KEYS;

    fn place(&self) -> String {
        format!("in [services.{}]", self.name)
    }

    fn refuse(&self, key: &Key) -> Option<Found> {
        let is_policy = key.get_ref() == "policy";
        is_policy.then(|| no_policy(&self.name, key))
    }

    fn check(&self, table: &DeTable) -> Result<(), Found> {
        self.kind.check(table)
    }
}

fn no_policy(name: &str, key: &Key) -> Found {
    let problem = ConfigProblem::NotGrantable {
        guest: format!("service `{name}`"),
        what: "a policy".into(),
        advice: "files and upstream servers are served by palisade itself: no code of others runs for them",
    };
    Found::at(key.span(), problem)
}

impl KindOfService for Component {
    const KEYS: &'static [Entry<Parts<Self>>] = keys! {
        /// The component's file.
        "component" must be as "": HostPath => |service, path| service.kind.component = path;
        /// What a request finds of those before it.
        "isolation": OneOf<Isolation> => |service, isolation| service.kind.isolation = isolation;
        /// Instances on each worker at one time.
        "instances": Count<usize> => |service, count| service.kind.share.instances = count;
        /// How long a request waits for an instance.
        "wait-time": Time => |service, time| service.kind.share.wait_time = time;
    };
    const SHARED_KEYS: &'static [Entry<Parts<Self>>] = Parts::KEYS_OF_GUESTS;
    const GUEST: Option<GuestKind> = Some(GuestKind::Component);
}

impl Default for Program {
    /// Ended after 10 minutes without a request, up to 10 s to start, 100 ms to 30 s until it is started again.
    fn default() -> Self {
        Self {
            command: Vec::new(),
            direct: None,
            port: None,
            idle_time: Some(Duration::from_secs(600)),
            rest: Rest::default(),
            start_time: Duration::from_secs(10),
            health: None,
            back_off: Duration::from_millis(100),
            back_off_most: Duration::from_secs(30),
        }
    }
}

impl KindOfService for Program {
    const KEYS: &'static [Entry<Parts<Self>>] = keys! {
        /// The program alone, or a list with its arguments.
        "program" must be as "": Command => |service, command| service.kind.command = command;
        /// Connections of this address are the program's own.
        "direct": kind::Address => |service, address| service.kind.direct = Some(address);
        /// A port that it binds itself, at the loopback of its domain.
        "port": Port => |service, port| service.kind.port = Some(port);
        /// Rests after so long without a request; `"never"` is taken too.
        "idle-time": TimeOrNever => |service, time| service.kind.idle_time = time;
        /// What it does then: it ends, or it keeps its memory and stands still.
        "rest": OneOf<Rest> => |service, rest| service.kind.rest = rest;
        /// How long it may take from its start to its first answer.
        "start-time": Time => |service, time| service.kind.start_time = time;
        /// The path that is asked for to see whether it is well, or a table.
        "health": PathOrHealth => |service, health| service.kind.health = Some(health);
        /// After an end that nobody asked for: the wait before the next start.
        "back-off": Time => |service, time| service.kind.back_off = time;
        /// The longest such wait.
        "back-off-most": Time => |service, time| service.kind.back_off_most = time;
    };
    const SHARED_KEYS: &'static [Entry<Parts<Self>>] = Parts::KEYS_OF_GUESTS;
    const GUEST: Option<GuestKind> = Some(GuestKind::Program);

    fn check(&self, table: &DeTable) -> Result<(), Found> {
        let mut keys = NOT_OF_DIRECT
            .iter()
            .filter_map(|(name, advice)| Some((find_key(table, name)?, *advice)));
        match keys.next() {
            Some((key, advice)) if self.direct.is_some() => Err(not_of_direct(key, advice)),
            _ => Ok(()),
        }
    }
}

/// Keys of a program that the server itself talks to, and why a `direct` one has none of them.
const NOT_OF_DIRECT: [(&str, &str); 3] = [
    (
        "rest",
        "clients connect to a `direct` program themselves, and nobody would see that one needs it to go on",
    ),
    (
        "port",
        "clients connect to a `direct` program themselves, and to a port of its domain's own nobody but the server",
    ),
    (
        "health",
        "clients connect to a `direct` program themselves, and the server asks it nothing",
    ),
];

fn not_of_direct(key: &Key, advice: &'static str) -> Found {
    let problem = ConfigProblem::Exclusive {
        first: "`direct`".into(),
        second: format!("`{}`", key.get_ref()),
        advice,
    };
    Found::at(key.span(), problem)
}

kinds! {
    /// A program alone, or with its arguments. A path with a slash in it starts at the file's folder; a name
    /// without one is looked up where the guest's PATH says.
    Command is Vec<String>, Texts::<Argument>::schema(), |key, value, reader| {
        let mut command = Texts::<Argument>::read(key, value, reader)?;
        let Some(program) = command.first_mut().filter(|program| !program.is_empty()) else {
            return Err(Found::at(value.span(), ConfigProblem::Empty("program")));
        };
        if program.contains('/') {
            let parse = |text: &str| parse_path(text, reader.base_dir);
            let whole = document::parsed(program, value, parse)?;
            *program = whole.to_string_lossy().into_owned();
        }
        Ok(command)
    };
}

impl Default for Health {
    /// `/` every 10 s, answered within 2 s; three failures are too many.
    fn default() -> Self {
        Self {
            path: "/".into(),
            every: Duration::from_secs(10),
            time: Duration::from_secs(2),
            failures: 3,
        }
    }
}

impl Section for Health {
    const PLACE: &'static str = "in `health`";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// The path asked for.
        "path": Target => |health, path| health.path = path;
        /// How often.
        "every": Time => |health, time| health.every = time;
        /// How long an answer may take.
        "time": Time => |health, time| health.time = time;
        /// Failures in a row after which it is ended and started anew.
        "failures": Count<u32> => |health, count| health.failures = count;
    };
}

kinds! {
    /// `"/healthz"`, or a table.
    PathOrHealth is Health, json!({ "anyOf": [string(), <Health as Section>::schema()] }), |key, value, reader| {
        match value.get_ref().is_str() {
            true => Ok(Health {
                path: Target::read(key, value, reader)?,
                ..Health::default()
            }),
            false => In::read(key, value, reader),
        }
    };
}

impl Default for Files {
    fn default() -> Self {
        Self {
            root: PathBuf::new(),
            index: "index.html".into(),
            precompressed: true,
            cache_control: None,
        }
    }
}

impl KindOfService for Files {
    const KEYS: &'static [Entry<Parts<Self>>] = keys! {
        /// The folder.
        "files" must be as "": HostPath => |service, path| service.kind.root = path;
        /// What a path that ends in `/` means.
        "index": FileName => |service, name| service.kind.index = name;
        /// Serve `NAME.br`, `NAME.zst` or `NAME.gz` in place of `NAME` to clients that take them.
        "precompressed": Switch => |service, is_on| service.kind.precompressed = is_on;
        /// The field `cache-control`.
        "cache-control": HeaderValue => |service, value| service.kind.cache_control = Some(value);
    };
    const SHARED_KEYS: &'static [Entry<Parts<Self>>] = Parts::KEYS_OF_ALL;
    const GUEST: Option<GuestKind> = None;
}

impl Default for Upstream {
    /// 32 idle connections, 5 s to connect, 60 s to answer, one retry.
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            idle_connections: 32,
            connect_time: Duration::from_secs(5),
            answer_time: Duration::from_secs(60),
            retries: 1,
        }
    }
}

impl KindOfService for Upstream {
    const KEYS: &'static [Entry<Parts<Self>>] = keys! {
        /// http://HOST:PORT, https://HOST:PORT or unix:PATH, one or a list.
        "upstream" must be as "": Servers => |service, servers| service.kind.servers = servers;
        /// Connections without a request that each worker keeps for each server.
        "idle-connections": CountOrNone<usize> => |service, count|
            service.kind.idle_connections = count;
        /// How long a connection may take to be made.
        "connect-time": Time => |service, time| service.kind.connect_time = time;
        /// From a request's end to its answer's head.
        "answer-time": Time => |service, time| service.kind.answer_time = time;
        /// How often a request that was not answered is sent again, where that is harmless.
        "retries": CountOrNone<u32> => |service, count| service.kind.retries = count;
    };
    const SHARED_KEYS: &'static [Entry<Parts<Self>>] = Parts::KEYS_OF_ALL;
    const GUEST: Option<GuestKind> = None;
}

kinds! {
    /// At least one server.
    Servers is Vec<super::Server>, Texts::<Server>::schema(), |key, value, reader| {
        let servers = Texts::<Server>::read(key, value, reader)?;
        match servers.is_empty() {
            true => Err(Found::at(value.span(), ConfigProblem::Empty("upstream"))),
            false => Ok(servers),
        }
    };
}
