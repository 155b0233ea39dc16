//! `[filters.NAME]`, and what filters and services have in common.

use super::{
    ConfigProblem, FaultBudget, Filter, Isolation, OnFailure,
    error::Found,
    keys::{Entry, Kind, Section, find_key, keys},
    kind::{Count, HasName, HostPath, In, OneOf, Percent, Size, Text, Time, kinds, string},
    policy::{GuestKind, GuestPolicy},
    read::Reader,
};
use palisade_engine::permits::Share;
use palisade_policy::{
    Policy,
    document::{self, Key, Value},
};
use serde_json::json;
use std::path::PathBuf;
use toml::de::{DeTable, DeValue};

/// Percent of a worker's time for slow callbacks of a filter that says nothing about it.
const SLOW_SHARE: u32 = 50;

/// A filter and its name.
pub(super) struct NamedFilter {
    name: String,
    filter: Filter,
}

impl HasName for Filter {
    fn read_named(
        name: &str,
        key: &Key,
        value: &Value,
        reader: &Reader<'_>,
    ) -> Result<Self, Found> {
        let named = NamedFilter::new(name);
        let read = named.read(document::table(key, value)?, key.span(), reader)?;
        Ok(read.filter)
    }

    fn schema() -> serde_json::Value {
        <NamedFilter as Section>::schema()
    }
}

impl NamedFilter {
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            filter: Filter {
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
            },
        }
    }
}

impl Section for NamedFilter {
    const KEYS: &'static [Entry<Self>] = keys! {
        /// The module's file.
        "module" must be as "module = \"FILE.wasm\"": HostPath => |named, path|
            named.filter.module = path;
        /// Which of the module's filters, where it has several.
        "root-id": Text => |named, text| named.filter.root_id = text;
        /// Filters of one `vm-id` share data and queues; the filter's name, if left out.
        "vm-id": Text => |named, text| named.filter.vm_id = text;
        /// What `proxy_on_configure` is given: a string, or a table that becomes JSON.
        "configuration": TextOrJson => |named, text| named.filter.configuration = text;
        /// The same from a file.
        "configuration-file": TextOfFile => |named, text| named.filter.configuration = text;
        /// What `proxy_on_vm_start` is given, a string or a table.
        "vm-configuration": TextOrJson => |named, text| named.filter.vm_configuration = text;
        /// What a request gets whose filter fails.
        "on-failure": OneOf<OnFailure> => |named, answer| named.filter.on_failure = answer;
        /// What a request finds of those before it.
        "isolation": OneOf<Isolation> => |named, isolation| named.filter.isolation = isolation;
        /// Instances on each worker at one time.
        "instances": Count<usize> => |named, count| named.filter.share.instances = count;
        /// How long a request waits for an instance.
        "wait-time": Time => |named, time| named.filter.share.wait_time = time;
        /// Bytes of a body that are held for the filter at one time.
        "body-size": Size<usize> => |named, bytes| named.filter.body_bytes = bytes;
        /// How often it may fail.
        "faults": In<FaultBudget> => |named, faults| named.filter.faults = faults;
        /// How much of a worker's time its slow callbacks may take, in percent.
        "slow-share": Percent => |named, share| named.filter.slow_share = share;
        /// What it may reach and use: a policy file's path, or a table with its keys.
        "policy": GuestPolicy => |named, policy|
            named.filter.policy = policy.of(GuestKind::Filter, &named.name)?;
        /// A file for its lines; the server's log, if left out.
        "log": HostPath => |named, path| named.filter.log = Some(path);
    };

    fn place(&self) -> String {
        format!("in [filters.{}]", self.name)
    }

    fn check(&self, table: &DeTable) -> Result<(), Found> {
        let last_of = |names: [&str; 2]| {
            let keys = names.iter().filter_map(|name| find_key(table, name));
            keys.max_by_key(|key| key.span().start)
        };
        let configured = ["configuration", "configuration-file"];
        let is_twice = configured
            .iter()
            .all(|name| find_key(table, name).is_some());
        match (last_of(configured), last_of(["instances", "wait-time"])) {
            (Some(key), _) if is_twice => Err(configured_twice(key)),
            (_, Some(key)) if self.filter.isolation == Isolation::Kept => Err(kept_is_one(key)),
            _ => Ok(()),
        }
    }
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

kinds! {
    /// Filters take their configuration as text, most of them as JSON: a table becomes that.
    TextOrJson is String, json!({ "type": ["string", "object"] }), |key, value, _| {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.as_ref().into()),
            DeValue::Table(_) => Ok(json(value.get_ref()).to_string()),
            _ => {
                let expected = "a string, or a table that becomes JSON";
                Err(document::wrong_type(key, value, expected).into())
            }
        }
    };

    /// The text of a file.
    TextOfFile is String, string(), |key, value, reader| {
        reader.read_file(&HostPath::read(key, value, reader)?, value)
    };
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

impl Section for FaultBudget {
    const PLACE: &'static str = "in `faults`";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// So many faults
        "most": Count<u32> => |faults, count| faults.most = count;
        /// within this time
        "within": Time => |faults, time| faults.within = time;
        /// put it out of use for so long.
        "rest": Time => |faults, time| faults.rest = time;
    };
}
