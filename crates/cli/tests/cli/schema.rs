//! The part of JSON Schema that the published schemas use, as a check.
//!
//! A complete validator takes minutes to build here. This one knows few keywords and panics at
//! any other, so that nothing is left unchecked in silence.

use serde_json::{Map, Value};

/// Every place where `value` is not what `schema` says.
pub(crate) fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut check = Check {
        root: schema,
        found: Vec::new(),
    };
    check.value(schema, value, "report");
    check.found
}

struct Check<'a> {
    root: &'a Value,
    found: Vec<String>,
}

impl<'a> Check<'a> {
    fn value(&mut self, schema: &Value, value: &Value, place: &str) {
        let schema = schema.as_object().expect("a schema is an object");
        for (keyword, argument) in schema {
            self.keyword(schema, keyword, argument, value, place);
        }
    }

    fn keyword(
        &mut self,
        schema: &Map<String, Value>,
        keyword: &str,
        argument: &Value,
        value: &Value,
        place: &str,
    ) {
        match keyword {
            "$schema" | "$defs" | "definitions" | "title" | "description" | "format"
            | "default" | "examples" => {}
            "$ref" => self.value(self.referred(argument), value, place),
            "type" => self.demand(has_type(argument, value), place, || {
                format!("is not {argument}")
            }),
            "const" => self.demand(argument == value, place, || format!("is not {argument}")),
            "enum" => self.demand(list(argument).contains(value), place, || {
                format!("is none of {argument}")
            }),
            "minimum" => self.demand(
                number(value).is_none_or(|given| given >= number(argument).unwrap()),
                place,
                || format!("is below {argument}"),
            ),
            "maximum" => self.demand(
                number(value).is_none_or(|given| given <= number(argument).unwrap()),
                place,
                || format!("is above {argument}"),
            ),
            "anyOf" => self.count_matches(argument, value, place, |matches| matches >= 1),
            "oneOf" => self.count_matches(argument, value, place, |matches| matches == 1),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    self.value(argument, item, &format!("{place}[{index}]"));
                }
            }
            "properties" => {
                for (name, schema) in argument.as_object().unwrap() {
                    if let Some(field) = value.get(name) {
                        self.value(schema, field, &format!("{place}.{name}"));
                    }
                }
            }
            "required" => {
                for name in list(argument).iter().filter_map(Value::as_str) {
                    self.demand(value.get(name).is_some(), place, || format!("lacks {name}"));
                }
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                let is_known = |name: &String| known.is_some_and(|known| known.contains_key(name));
                let fields = value.as_object().into_iter().flatten();
                for (name, field) in fields.filter(|(name, _)| !is_known(name)) {
                    match argument {
                        Value::Bool(false) => self.demand(false, place, || {
                            format!("has {name}, which the schema does not")
                        }),
                        schema => self.value(schema, field, &format!("{place}.{name}")),
                    }
                }
            }
            unknown => panic!("the schema uses `{unknown}`, which this check does not know"),
        }
    }

    fn demand(&mut self, holds: bool, place: &str, complaint: impl FnOnce() -> String) {
        if !holds {
            self.found.push(format!("{place} {}", complaint()));
        }
    }

    fn count_matches(
        &mut self,
        schemas: &Value,
        value: &Value,
        place: &str,
        enough: fn(usize) -> bool,
    ) {
        let matches = list(schemas).iter().filter(|schema| {
            let mut check = Check {
                root: self.root,
                found: Vec::new(),
            };
            check.value(schema, value, place);
            check.found.is_empty()
        });
        let matches = matches.count();
        self.demand(enough(matches), place, || {
            format!("fits {matches} of the alternatives")
        });
    }

    fn referred(&self, reference: &Value) -> &'a Value {
        let pointer = reference
            .as_str()
            .and_then(|text| text.strip_prefix('#'))
            .expect("a reference within the schema");
        self.root
            .pointer(pointer)
            .expect("what a reference names exists")
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

fn has_type(wanted: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type `{other}`"),
    };
    wanted
        .as_array()
        .map_or_else(|| is(wanted), |names| names.iter().any(is))
}
