//! `[[route]]`.

use super::{
    ConfigProblem, Route,
    error::Found,
    keys::{Entry, Kind, Section, keys},
    kind::{
        Host, Method, Name, OneOf, Prefix, Switch, Text, Texts, WithPlace, kinds, some, string,
    },
    read::Reader,
    room::at_most,
    value,
};
use crate::path::{Ambiguities, Ambiguity};
use http::{HeaderName, HeaderValue};
use palisade_policy::document::{self, Key, Value, in_written_order};
use serde_json::json;
use std::ops::Range;
use toml::de::DeValue;

/// A route and where its parts stand.
pub(super) struct RouteParts {
    pub(super) route: Route,
    pub(super) filters: Vec<Range<usize>>,
    pub(super) service: Range<usize>,
}

impl Default for RouteParts {
    /// Every request, and no name yet.
    fn default() -> Self {
        let route = Route {
            name: String::new(),
            host: None,
            path: "/".into(),
            methods: Vec::new(),
            headers: Vec::new(),
            strip: false,
            ambiguous_paths: Ambiguities::default(),
            filters: Vec::new(),
            service: String::new(),
        };
        Self {
            route,
            filters: Vec::new(),
            service: 0..0,
        }
    }
}

impl Section for RouteParts {
    const PLACE: &'static str = "in [[route]]";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// What it is called in logs and metrics.
        "name": Name => |parts, name| parts.route.name = name;
        /// The host asked for, without port: a name, *.NAME for every name below one, or an address.
        "host": Host => |parts, host| parts.route.host = Some(host);
        /// How the path begins, by whole segments.
        "path": Prefix => |parts, path| parts.route.path = path;
        /// Methods, in capitals; any, if left out.
        "methods": Methods => |parts, methods| parts.route.methods = methods;
        /// Header fields that there must be: with this value, or with any if it is `true`.
        "headers": Headers => |parts, headers| parts.route.headers = headers;
        /// Take `path` away before filters and service see the request.
        "strip": Switch => |parts, is_on| parts.route.strip = is_on;
        /// What its paths may have that other readers take otherwise.
        "ambiguous-paths": Texts<OneOf<Ambiguity>> => |parts, kinds|
            for kind in kinds { parts.route.ambiguous_paths.add(kind); };
        /// Names of filters, in the order in which they see requests.
        "filters": FilterNames => |parts, names|
            (parts.filters, parts.route.filters) = names.into_iter().unzip();
        /// The service's name.
        "service" must be as "service = \"NAME\"": WithPlace<Text> => |parts, service|
            (parts.service, parts.route.service) = service;
    };
}

/// Methods, header fields and filters of one route: requests are compared with each, and routes with each other.
const MOST_OF_ROUTE: usize = 64;

fn few(what: &str, count: usize, value: &Value) -> Result<(), Found> {
    at_most(what, count, MOST_OF_ROUTE).map_err(|problem| Found::at(value.span(), problem))
}

kinds! {
    /// What a request may ask for.
    Methods is Vec<http::Method>, some(&string()), |key, value, reader| {
        few("methods of a route", value.get_ref().as_array().map_or(0, |items| items.len()), value)?;
        Texts::<Method>::read(key, value, reader)
    };

    /// Names of filters, each with its place.
    FilterNames is Vec<(Range<usize>, String)>, json!({ "type": "array", "items": string() }), |key, value, _| {
        few("filters of a route", value.get_ref().as_array().map_or(0, |items| items.len()), value)?;
        let names: Vec<_> = document::list(key, value, |text| Ok(text.to_owned()))?;
        let items = value.get_ref().as_array().into_iter().flatten();
        Ok(items.map(|item| item.span()).zip(names).collect())
    };

    /// `{ x-api-version = "2", x-debug = true }`: a field with a value, or only that there is one.
    Headers is Vec<(HeaderName, Option<HeaderValue>)>, json!({
            "type": "object",
            "additionalProperties": { "anyOf": [string(), { "const": true }] },
        }), |key, value, _| {
        let table = document::table(key, value)?;
        few("fields of a route", table.len(), value)?;
        let mut headers: Vec<(HeaderName, Option<HeaderValue>)> = Vec::new();
        for (key, value) in in_written_order(table) {
            let (name, wanted) = read_header(key, value)?;
            if headers.iter().any(|(earlier, _)| *earlier == name) {
                return Err(header_twice(key, &name));
            }
            headers.push((name, wanted));
        }
        Ok(headers)
    };
}

/// Names of fields are the same in capitals, to HTTP and not to TOML.
fn header_twice(key: &Key, name: &HeaderName) -> Found {
    let problem = ConfigProblem::Twice {
        what: format!("the header field `{name}`"),
        advice: "a request with both values matches no route: keep one, and write another route for the other value",
    };
    Found::at(key.span(), problem)
}

fn read_header(key: &Key, value: &Value) -> Result<(HeaderName, Option<HeaderValue>), Found> {
    let name = value::parse_header_name(key.get_ref());
    let name = name.map_err(|refusal| refusal.at_key(key))?;
    let wanted = match value.get_ref() {
        DeValue::Boolean(true) => None,
        DeValue::String(_) => Some(value::text(key, value, value::parse_header_value)?),
        _ => {
            let expected = "a string, or `true` for any value";
            return Err(document::wrong_type(key, value, expected).into());
        }
    };
    Ok((name, wanted))
}
