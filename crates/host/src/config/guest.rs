//! Filters and services.

use super::{
    Component, ConfigProblem, FaultBudget, Files, Filter, Health, Isolation, OnFailure, Program,
    Service, ServiceKind, Upstream,
    error::Found,
    policy::{GuestKind, read_policy},
    read::{Reader, count, duration, missing_key, size, unknown_key},
    value,
};
use palisade_engine::permits::Share;
use palisade_policy::{
    Policy,
    document::{self, Key, Value, in_written_order},
};
use std::{path::PathBuf, time::Duration};
use toml::de::{DeTable, DeValue};

/// Keys of which a service has exactly one.
pub(super) const KINDS: &[&str] = &["component", "program", "files", "upstream"];

pub(super) const FILTER_KEYS: &[&str] = &[
    "module",
    "root-id",
    "vm-id",
    "configuration",
    "configuration-file",
    "vm-configuration",
    "on-failure",
    "isolation",
    "instances",
    "wait-time",
    "body-size",
    "faults",
    "slow-share",
    "policy",
    "log",
];
pub(super) const COMPONENT_KEYS: &[&str] = &[
    "component",
    "isolation",
    "instances",
    "wait-time",
    "faults",
    "policy",
    "log",
];
pub(super) const PROGRAM_KEYS: &[&str] = &[
    "program",
    "direct",
    "port",
    "idle-time",
    "start-time",
    "health",
    "back-off",
    "back-off-most",
    "faults",
    "policy",
    "log",
];
pub(super) const FILES_KEYS: &[&str] = &["files", "index", "precompressed", "cache-control", "log"];
pub(super) const UPSTREAM_KEYS: &[&str] = &[
    "upstream",
    "idle-connections",
    "connect-time",
    "answer-time",
    "retries",
    "log",
];
pub(super) const HEALTH_KEYS: &[&str] = &["path", "every", "time", "failures"];
pub(super) const FAULT_KEYS: &[&str] = &["most", "within", "rest"];

/// Percent of a worker's time for slow callbacks of a filter that says nothing about it.
const SLOW_SHARE: u32 = 50;

const ISOLATIONS: &[(&str, Isolation)] = &[("kept", Isolation::Kept), ("fresh", Isolation::Fresh)];
const ISOLATION_WORDS: &str =
    "`kept` (one instance of each worker) or `fresh` (one for each request)";

type Entries<'a, 'i> = Vec<(&'a Key<'i>, &'a Value<'i>)>;

/// Reads `[filters.NAME]`.
pub(super) fn read_filter(
    name: &str,
    key: &Key,
    value: &Value,
    reader: &Reader<'_>,
) -> Result<Filter, Found> {
    let place = format!("[filters.{name}]");
    let mut module = None;
    let mut filter = Filter {
        module: PathBuf::new(),
        root_id: String::new(),
        vm_id: name.into(),
        configuration: String::new(),
        vm_configuration: String::new(),
        on_failure: OnFailure::default(),
        isolation: Isolation::default(),
        share: Share::default(),
        body_bytes: 1 << 20,
        faults: FaultBudget::default(),
        slow_share: SLOW_SHARE,
        policy: Policy::default(),
        log: None,
    };
    let mut configured: Option<&Key> = None;
    let mut shared: Option<&Key> = None;
    for (key, value) in in_written_order(document::table(key, value)?) {
        let word = key.get_ref().as_ref();
        match word {
            "module" => module = Some(value::host_path(key, value, reader.base_dir)?),
            "root-id" => filter.root_id = document::string(key, value)?.into(),
            "vm-id" => filter.vm_id = document::string(key, value)?.into(),
            "configuration" | "configuration-file" => {
                if configured.replace(key).is_some() {
                    return Err(configured_twice(key));
                }
                filter.configuration = match word {
                    "configuration" => text_or_json(key, value)?,
                    _ => {
                        reader.read_file(&value::host_path(key, value, reader.base_dir)?, value)?
                    }
                };
            }
            "vm-configuration" => filter.vm_configuration = text_or_json(key, value)?,
            "on-failure" => {
                const WORDS: &[(&str, OnFailure)] =
                    &[("close", OnFailure::Close), ("open", OnFailure::Open)];
                const ACCEPTED: &str =
                    "`close` (the request gets an error) or `open` (it goes on without the filter)";
                filter.on_failure =
                    value::one_of(key, value, "answer to failure", WORDS, ACCEPTED)?;
            }
            "isolation" => {
                filter.isolation =
                    value::one_of(key, value, "isolation", ISOLATIONS, ISOLATION_WORDS)?;
            }
            "instances" | "wait-time" => {
                shared = Some(key);
                read_share(&mut filter.share, key, value)?;
            }
            "body-size" => filter.body_bytes = size(key, value)?,
            "faults" => filter.faults = read_faults(key, value)?,
            "slow-share" => filter.slow_share = percent(key, value)?,
            "policy" => {
                filter.policy = read_policy(key, value, name, GuestKind::Filter, reader)?;
            }
            "log" => filter.log = Some(value::host_path(key, value, reader.base_dir)?),
            _ => return Err(unknown_key(key, &format!("in {place}"), FILTER_KEYS)),
        }
    }
    if let Some(key) = shared.filter(|_| filter.isolation == Isolation::Kept) {
        return Err(kept_is_one(key));
    }
    filter.module = module
        .ok_or_else(|| missing_key(key.span(), &place, "module", "module = \"FILE.wasm\""))?;
    Ok(filter)
}

fn configured_twice(key: &Key) -> Found {
    let problem = ConfigProblem::Exclusive {
        first: "`configuration`".into(),
        second: "`configuration-file`".into(),
        advice: "a filter is configured by one of them",
    };
    Found::at(key.span(), problem)
}

fn kept_is_one(key: &Key) -> Found {
    let problem = ConfigProblem::Exclusive {
        first: "`isolation = \"kept\"`".into(),
        second: format!("`{}`", key.get_ref()),
        advice: "a filter that is kept has one instance for all requests of a worker",
    };
    Found::at(key.span(), problem)
}

/// Reads `instances` or `wait-time`.
fn read_share(share: &mut Share, key: &Key, value: &Value) -> Result<(), Found> {
    match key.get_ref().as_ref() {
        "instances" => share.instances = count(key, value)?,
        _ => share.wait_time = duration(key, value)?,
    }
    Ok(())
}

/// Filters take their configuration as text, most of them as JSON: a table becomes that.
fn text_or_json(key: &Key, value: &Value) -> Result<String, Found> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.as_ref().into()),
        DeValue::Table(_) => Ok(json(value.get_ref()).to_string()),
        _ => Err(document::wrong_type(key, value, "a string, or a table that becomes JSON").into()),
    }
}

fn json(value: &DeValue) -> serde_json::Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix());
            number.map_or(serde_json::Value::Null, Into::into)
        }
        DeValue::Float(number) => {
            let number = number.as_str().parse::<f64>();
            number.map_or(serde_json::Value::Null, Into::into)
        }
        DeValue::Boolean(boolean) => (*boolean).into(),
        DeValue::Datetime(time) => time.to_string().into(),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => json_object(table),
    }
}

fn json_object(table: &DeTable) -> serde_json::Value {
    let entries = table.iter();
    let entries = entries.map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref())));
    serde_json::Value::Object(entries.collect())
}

fn read_faults(key: &Key, value: &Value) -> Result<FaultBudget, Found> {
    let mut faults = FaultBudget::default();
    for (key, value) in in_written_order(document::table(key, value)?) {
        match key.get_ref().as_ref() {
            "most" => faults.most = count(key, value)?,
            "within" => faults.within = duration(key, value)?,
            "rest" => faults.rest = duration(key, value)?,
            _ => return Err(unknown_key(key, "in `faults`", FAULT_KEYS)),
        }
    }
    Ok(faults)
}

/// Reads `[services.NAME]`.
pub(super) fn read_service(
    name: &str,
    key: &Key,
    value: &Value,
    reader: &Reader<'_>,
) -> Result<Service, Found> {
    let entries = in_written_order(document::table(key, value)?);
    let kinds = entries.iter().filter_map(|(key, _)| {
        let word = key.get_ref().as_ref();
        KINDS.iter().find(|kind| **kind == word).copied()
    });
    let kinds: Vec<_> = kinds.collect();
    let [kind] = kinds.as_slice() else {
        let problem = ConfigProblem::Kind {
            name: name.into(),
            found: kinds,
        };
        return Err(Found::at(key.span(), problem));
    };
    let mut common = Common {
        name,
        place: format!("in [services.{name}]"),
        reader,
        faults: FaultBudget::default(),
        policy: None,
        log: None,
    };
    let kind = match *kind {
        "component" => ServiceKind::Component(read_component(&entries, &mut common)?),
        "program" => ServiceKind::Program(read_program(&entries, &mut common)?),
        "files" => ServiceKind::Files(read_files(&entries, &mut common)?),
        _ => ServiceKind::Upstream(read_upstream(&entries, &mut common)?),
    };
    Ok(Service {
        policy: common.policy.unwrap_or_else(|| default_policy(&kind)),
        kind,
        faults: common.faults,
        log: common.log,
    })
}

/// What runs no code of others is granted nothing: it is the server's own.
fn default_policy(kind: &ServiceKind) -> Policy {
    match kind {
        ServiceKind::Component(_) | ServiceKind::Program(_) => Policy::default(),
        ServiceKind::Files(_) | ServiceKind::Upstream(_) => Policy::nothing(),
    }
}

/// What services of every kind have.
struct Common<'a> {
    name: &'a str,
    place: String,
    reader: &'a Reader<'a>,
    faults: FaultBudget,
    policy: Option<Policy>,
    log: Option<PathBuf>,
}

impl Common<'_> {
    /// Reads a key that is no kind's own.
    fn read(
        &mut self,
        key: &Key,
        value: &Value,
        kind: GuestKind,
        known: &'static [&'static str],
    ) -> Result<(), Found> {
        match key.get_ref().as_ref() {
            word if !known.contains(&word) && word == "policy" => {
                return Err(no_policy(self.name, key));
            }
            word if !known.contains(&word) => return Err(unknown_key(key, &self.place, known)),
            "faults" => self.faults = read_faults(key, value)?,
            "policy" => self.policy = Some(read_policy(key, value, self.name, kind, self.reader)?),
            _ => self.log = Some(value::host_path(key, value, self.reader.base_dir)?),
        }
        Ok(())
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

fn read_component(entries: &Entries<'_, '_>, common: &mut Common<'_>) -> Result<Component, Found> {
    let mut component = Component {
        component: PathBuf::new(),
        isolation: Isolation::default(),
        share: Share::default(),
    };
    for (key, value) in entries {
        match key.get_ref().as_ref() {
            "component" => {
                component.component = value::host_path(key, value, common.reader.base_dir)?;
            }
            "isolation" => {
                component.isolation =
                    value::one_of(key, value, "isolation", ISOLATIONS, ISOLATION_WORDS)?;
            }
            "instances" | "wait-time" => read_share(&mut component.share, key, value)?,
            _ => common.read(key, value, GuestKind::Component, COMPONENT_KEYS)?,
        }
    }
    Ok(component)
}

fn read_program(entries: &Entries<'_, '_>, common: &mut Common<'_>) -> Result<Program, Found> {
    let mut program = Program {
        command: Vec::new(),
        direct: None,
        port: None,
        idle_time: Some(Duration::from_secs(600)),
        start_time: Duration::from_secs(10),
        health: None,
        back_off: Duration::from_millis(100),
        back_off_most: Duration::from_secs(30),
    };
    let mut own_port: Option<&Key> = None;
    for (key, value) in entries {
        match key.get_ref().as_ref() {
            "program" => program.command = read_command(key, value, common.reader)?,
            "direct" => {
                let parse = |text: &str| value::parse_address(text, common.reader.base_dir);
                program.direct = Some(value::text(key, value, parse)?);
            }
            "port" => {
                program.port = Some(read_port(key, value)?);
                own_port = Some(*key);
            }
            "idle-time" => program.idle_time = duration_or_never(key, value)?,
            "start-time" => program.start_time = duration(key, value)?,
            "health" => program.health = Some(read_health(key, value)?),
            "back-off" => program.back_off = duration(key, value)?,
            "back-off-most" => program.back_off_most = duration(key, value)?,
            _ => common.read(key, value, GuestKind::Program, PROGRAM_KEYS)?,
        }
    }
    if let Some(key) = own_port.filter(|_| program.direct.is_some()) {
        return Err(direct_has_no_port(key));
    }
    program.back_off_most = program.back_off_most.max(program.back_off);
    Ok(program)
}

fn read_port(key: &Key, value: &Value) -> Result<u16, Found> {
    let text = document::scalar(key, value)?;
    let port = text.trim().parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| {
        let problem = ConfigProblem::Value {
            noun: "port",
            given: text.into_owned(),
            reason: "no program can bind it".into(),
            accepted: "a number from 1 to 65535, as in `8000`".into(),
        };
        Found::at(value.span(), problem)
    })
}

fn direct_has_no_port(key: &Key) -> Found {
    let problem = ConfigProblem::Exclusive {
        first: "`direct`".into(),
        second: "`port`".into(),
        advice: "clients connect to a `direct` program themselves, and to a port of its domain's own nobody but the server",
    };
    Found::at(key.span(), problem)
}

/// A program alone, or with its arguments. A path with a slash in it starts at the file's folder; a name
/// without one is looked up where the guest's PATH says.
fn read_command(key: &Key, value: &Value, reader: &Reader<'_>) -> Result<Vec<String>, Found> {
    let mut command = value::texts(key, value, |text| Ok(text.to_owned()))?;
    let Some(program) = command.first_mut().filter(|program| !program.is_empty()) else {
        return Err(Found::at(value.span(), ConfigProblem::Empty("program")));
    };
    if program.contains('/') {
        let whole = document::parsed(program, value, |text| {
            palisade_policy::value::parse_path(text, reader.base_dir)
        })?;
        *program = whole.to_string_lossy().into_owned();
    }
    Ok(command)
}

/// A part of a whole, in percent.
fn percent(key: &Key, value: &Value) -> Result<u32, Found> {
    let share = count(key, value)?;
    if share <= 100 {
        return Ok(share);
    }
    let problem = ConfigProblem::Value {
        noun: "share",
        given: share.to_string(),
        reason: "nobody has more than all of it".into(),
        accepted: "a number from 1 to 100, which is percent".into(),
    };
    Err(Found::at(value.span(), problem))
}

fn duration_or_never(key: &Key, value: &Value) -> Result<Option<Duration>, Found> {
    match value.get_ref().as_str() {
        Some("never") => Ok(None),
        _ => Ok(Some(duration(key, value)?)),
    }
}

/// `"/healthz"`, or a table.
fn read_health(key: &Key, value: &Value) -> Result<Health, Found> {
    let mut health = Health {
        path: "/".into(),
        every: Duration::from_secs(10),
        time: Duration::from_secs(2),
        failures: 3,
    };
    if value.get_ref().is_str() {
        health.path = value::text(key, value, value::parse_target)?;
        return Ok(health);
    }
    for (key, value) in in_written_order(document::table(key, value)?) {
        match key.get_ref().as_ref() {
            "path" => health.path = value::text(key, value, value::parse_target)?,
            "every" => health.every = duration(key, value)?,
            "time" => health.time = duration(key, value)?,
            "failures" => health.failures = count(key, value)?,
            _ => return Err(unknown_key(key, "in `health`", HEALTH_KEYS)),
        }
    }
    Ok(health)
}

fn read_files(entries: &Entries<'_, '_>, common: &mut Common<'_>) -> Result<Files, Found> {
    let mut files = Files {
        root: PathBuf::new(),
        index: "index.html".into(),
        precompressed: true,
        cache_control: None,
    };
    for (key, value) in entries {
        match key.get_ref().as_ref() {
            "files" => files.root = value::host_path(key, value, common.reader.base_dir)?,
            "index" => files.index = value::text(key, value, value::parse_file_name)?,
            "precompressed" => files.precompressed = document::boolean(key, value)?,
            "cache-control" => {
                files.cache_control = Some(value::text(key, value, value::parse_header_value)?);
            }
            _ => common.read(key, value, GuestKind::Program, FILES_KEYS)?,
        }
    }
    Ok(files)
}

fn read_upstream(entries: &Entries<'_, '_>, common: &mut Common<'_>) -> Result<Upstream, Found> {
    let mut upstream = Upstream {
        servers: Vec::new(),
        idle_connections: 32,
        connect_time: Duration::from_secs(5),
        answer_time: Duration::from_secs(60),
        retries: 1,
    };
    for (key, value) in entries {
        match key.get_ref().as_ref() {
            "upstream" => {
                let parse = |text: &str| value::parse_server(text, common.reader.base_dir);
                upstream.servers = value::texts(key, value, parse)?;
                if upstream.servers.is_empty() {
                    return Err(Found::at(value.span(), ConfigProblem::Empty("upstream")));
                }
            }
            "idle-connections" => upstream.idle_connections = count_or_none(key, value)?,
            "connect-time" => upstream.connect_time = duration(key, value)?,
            "answer-time" => upstream.answer_time = duration(key, value)?,
            "retries" => upstream.retries = count_or_none(key, value)?,
            _ => common.read(key, value, GuestKind::Program, UPSTREAM_KEYS)?,
        }
    }
    Ok(upstream)
}

/// A number of things that may be none.
fn count_or_none<T: TryFrom<u64> + Default>(key: &Key, value: &Value) -> Result<T, Found> {
    match document::scalar(key, value)?.trim() {
        "0" => Ok(T::default()),
        _ => count(key, value),
    }
}
