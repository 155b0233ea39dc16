//! Every example of a policy and of a server's file is what its published schema says.

#[path = "../../cli/tests/cli/schema.rs"]
mod schema;

use palisade_docs::documents;
use schema::violations;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};
use toml::de::{DeTable, DeValue};

/// Files of the tree that are served.
const HOST_FILES: [&str; 2] = [
    "crates/cli/src/commands/serve/init/host.toml",
    "crates/host/src/config/tests/full.toml",
];

fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo test sets it");
    fs::canonicalize(Path::new(&package).join("../..")).expect("the workspace's root")
}

fn published(name: &str) -> Value {
    let text = fs::read_to_string(root().join("docs").join(name)).expect("a schema in docs/");
    serde_json::from_str(&text).expect("JSON")
}

fn json(value: &DeValue) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix());
            number.expect("a number of an example").into()
        }
        DeValue::Float(number) => {
            let number = number.as_str().parse::<f64>();
            number.expect("a number of an example").into()
        }
        DeValue::Boolean(boolean) => (*boolean).into(),
        DeValue::Datetime(time) => time.to_string().into(),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => table_json(table),
    }
}

fn table_json(table: &DeTable) -> Value {
    let entries = table.iter();
    let entries = entries.map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref())));
    Value::Object(entries.collect())
}

/// Where the text is not what the schema says.
fn violations_of(schema: &Value, text: &str) -> Vec<String> {
    let table = DeTable::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    violations(schema, &table_json(table.get_ref()))
}

/// The examples of a document, each with the schema that it is of.
#[test]
fn every_example_is_what_its_schema_says() {
    let [policy, host, tenant, containers] = ["policy", "host", "tenant", "containers"]
        .map(|name| published(&format!("{name}.schema.json")));
    let mut count = 0;
    for document in documents(&root()) {
        let is_reference = document.path.ends_with("docs/serve.md");
        for fence in document
            .fences()
            .iter()
            .filter(|fence| fence.info == "toml")
        {
            let text = fence.content.join("\n");
            let is_of_server = is_reference || text.contains("[[listen]]");
            let is_of_containers = text.contains("containers.toml");
            let schema = match (is_of_server, text.starts_with("# tenants.d/")) {
                (true, true) => &tenant,
                (true, false) => &host,
                (false, _) if is_of_containers => &containers,
                (false, _) => &policy,
            };
            let wrong = violations_of(schema, &text);
            assert_eq!(wrong, [""; 0], "{}:{}", document.path.display(), fence.line);
            count += 1;
        }
    }
    assert!(count >= 15, "{count} examples found");
    for file in HOST_FILES {
        let text = fs::read_to_string(root().join(file)).expect("a file of the tree");
        assert_eq!(violations_of(&host, &text), [""; 0], "{file}");
    }
}

/// Or the check would prove nothing.
#[test]
fn the_schemas_tell_right_from_wrong() {
    let policy = published("policy.schema.json");
    for wrong in [
        "memory = '1G'",
        "limits.memroy = '1G'",
        "limits.memory = true",
        "system = 'yes'",
        "wall = 'vm'",
        "profiles = ['jave']",
        "grants.read = '/a'",
        "grants.read = [1]",
    ] {
        assert_eq!(violations_of(&policy, wrong).len(), 1, "{wrong}");
    }
    let host = published("host.schema.json");
    for wrong in [
        "wrokers = 1",
        "log.level = 'loud'",
        "listen = '127.0.0.1:80'",
        "listen = [{}]",
        "listen = [{ address = '127.0.0.1:80', tls = { key = 'a' } }]",
        "route = [{ path = '/' }]",
        "route = [{ service = 's', headers = { a = false } }]",
        "filters.a = {}",
        "filters.a = { module = 'a', policy = { grants.raed = [] } }",
        "services.s = {}",
        "services.s = { files = 'a', upstream = 'http://b' }",
        "services.s = { files = 'a', policy = 'p.toml' }",
    ] {
        assert_eq!(violations_of(&host, wrong).len(), 1, "{wrong}");
    }
    let tenant = published("tenant.schema.json");
    for wrong in [
        "workers = 1",
        "listen = [{ address = '127.0.0.1:80' }]",
        "services.s = {}",
    ] {
        assert_eq!(violations_of(&tenant, wrong).len(), 1, "{wrong}");
    }
}
