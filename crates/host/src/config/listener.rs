//! `[[listen]]`.

use super::{
    Address, ConfigProblem, Listener, Tls,
    error::Found,
    keys::{Entry, Kind, Section, find_key, keys},
    kind::{self, HostPath, kinds, some},
    read::Reader,
    value,
};
use palisade_policy::document::{self, Key, Value};
use serde_json::json;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// What of a listener has been read.
#[derive(Default)]
pub(super) struct ListenerParts {
    address: Option<Address>,
    tls: Vec<Tls>,
    mode: Option<u32>,
}

impl ListenerParts {
    /// The listener; one without an address was refused.
    pub(super) fn complete(
        (span, parts): (Range<usize>, Self),
    ) -> Option<(Range<usize>, Listener)> {
        let listener = Listener {
            address: parts.address?,
            tls: parts.tls,
            mode: parts.mode,
        };
        Some((span, listener))
    }
}

impl Section for ListenerParts {
    const PLACE: &'static str = "in [[listen]]";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// ADDRESS:PORT, [ADDRESS]:PORT for IPv6, or unix:PATH; port 0 takes a free one.
        "address" must be as "address = \"127.0.0.1:8080\"": kind::Address => |listener, address|
            listener.address = Some(address);
        /// Certificates and keys, where it speaks TLS.
        "tls": Certificates => |listener, tls| listener.tls = tls;
        /// Permissions of a Unix socket's file, in octal.
        "mode": Mode => |listener, mode| listener.mode = Some(mode);
    };

    fn check(&self, table: &DeTable) -> Result<(), Found> {
        match (&self.address, find_key(table, "mode")) {
            (Some(Address::Internet(_)), Some(key)) => {
                let problem = ConfigProblem::Exclusive {
                    first: "`mode`".into(),
                    second: "an internet address".into(),
                    advice: "permissions are a Unix socket's: drop `mode`",
                };
                Err(Found::at(key.span(), problem))
            }
            _ => Ok(()),
        }
    }
}

kinds! {
    /// Permissions of a file. An integer is taken where it was written in octal: `mode = 660` would be 0o1224.
    Mode is u32, json!({ "type": ["string", "integer"] }), |key, value, _| {
        match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 8 => value::parse_mode(number.as_str())
                .or_else(|_| value::text(key, value, value::parse_mode)),
            DeValue::Integer(_) => {
                Err(document::wrong_type(key, value, "octal, as \"660\" or 0o660").into())
            }
            _ => value::text(key, value, value::parse_mode),
        }
    };

    /// One certificate with its key, or a list of them.
    Certificates is Vec<Tls>, some(&Tls::schema()), |key, value, reader| {
        let read = |value| {
            let table = document::table(key, value)?;
            Tls::default().read(table, key.span(), reader)
        };
        match value.get_ref().as_array() {
            None => Ok(vec![read(value)?]),
            Some(items) if items.is_empty() => {
                Err(document::wrong_type(key, value, "a table, or a list of at least one").into())
            }
            Some(items) => items.iter().map(read).collect(),
        }
    };
}

impl Section for Tls {
    const PLACE: &'static str = "in `tls`";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// The certificate and those that vouch for it, in PEM.
        "certificate" must be as "certificate = \"certificate.pem\"": HostPath => |tls, path|
            tls.certificate = path;
        /// Its private key, in PEM.
        "key" must be as "key = \"key.pem\"": HostPath => |tls, path| tls.key = path;
    };
}
