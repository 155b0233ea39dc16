//! The schema of a policy file, by which editors complete and check one.

use serde_json::{Map, Value, json};

use crate::{
    Setting,
    setting::{TABLES, Table, Takes},
    value::Accepted,
};

/// The JSON Schema of a policy file, as `docs/policy.schema.json` has it.
pub fn policy_schema() -> Value {
    let mut schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Policy of palisade",
    });
    let [top, inner @ ..] = TABLES;
    let mut keys = table_schema(top);
    for table in inner {
        keys["properties"][table.name] = table_schema(table);
    }
    if let (Value::Object(schema), Value::Object(keys)) = (&mut schema, keys) {
        schema.extend(keys);
    }
    schema
}

fn table_schema(table: &Table) -> Value {
    let settings = table.settings.iter();
    let properties: Map<_, _> = settings
        .map(|setting| (setting.key.to_owned(), setting_schema(setting)))
        .collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn setting_schema(setting: &Setting) -> Value {
    let Setting { flag, help, .. } = setting;
    let (mut schema, description) = match setting.takes {
        Takes::Switch => (
            json!({ "type": "boolean" }),
            format!("`false` is `--{flag}`: {help}"),
        ),
        Takes::One => (
            value_schema(setting, "string"),
            format!("`--{flag}`: {help}"),
        ),
        Takes::Amount | Takes::Number => (
            value_schema(setting, ["string", "number"]),
            format!("`--{flag}`: {help}"),
        ),
        Takes::List => (
            json!({ "type": "array", "items": value_schema(setting, "string") }),
            format!("`--{flag}`: {help}"),
        ),
    };
    schema["description"] = description.into();
    schema
}

fn value_schema(setting: &Setting, types: impl Into<Value>) -> Value {
    match setting.accepted() {
        Accepted::Names(names) => json!({ "enum": names }),
        Accepted::Form(form, example) => {
            json!({ "type": types.into(), "title": form, "examples": [example] })
        }
    }
}
