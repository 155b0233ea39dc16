//! `admin`: where operators ask.

use super::{
    Address, Admin, ConfigProblem,
    error::Found,
    keys::{Entry, Kind, Section, find_key, keys},
    kind::{self, HostPath, kinds, string},
    read::Reader,
    value,
};
use palisade_policy::document::{Key, Value};
use serde_json::json;
use std::path::PathBuf;
use toml::de::DeTable;

/// What of the table has been read.
#[derive(Default)]
struct AdminParts {
    address: Option<Address>,
    token_file: Option<PathBuf>,
}

impl Section for AdminParts {
    const PLACE: &'static str = "in `admin`";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// unix:PATH, a port of the loopback, or with `token-file` another address.
        "listen" must be as "listen = \"127.0.0.1:9000\"": kind::Address => |parts, address|
            parts.address = Some(address);
        /// A file with what everybody must know who asks; it must be private.
        "token-file": HostPath => |parts, path| parts.token_file = Some(path);
    };

    fn check(&self, table: &DeTable) -> Result<(), Found> {
        match (&self.address, find_key(table, "listen")) {
            (Some(address), Some(key)) if self.token_file.is_none() && !is_local(address) => {
                let problem = ConfigProblem::Value {
                    noun: "address",
                    given: address.to_string(),
                    reason: value::OPEN_ADMIN.into(),
                    accepted: value::ADMIN_ADDRESSES.into(),
                };
                Err(Found::at(key.span(), problem))
            }
            _ => Ok(()),
        }
    }
}

/// Whether only this machine reaches it.
fn is_local(address: &Address) -> bool {
    match address {
        Address::Internet(address) => address.ip().is_loopback(),
        Address::Unix(_) => true,
    }
}

kinds! {
    /// An address, or a table with one.
    Operators is Admin, json!({ "anyOf": [string(), AdminParts::schema()] }), |key, value, reader| {
        let Some(table) = value.get_ref().as_table() else {
            let parse = |text: &str| value::parse_admin_address(text, reader.base_dir);
            let address = value::text(key, value, parse)?;
            return Ok(Admin { address, token_file: None });
        };
        let AdminParts { address, token_file } =
            AdminParts::default().read(table, value.span(), reader)?;
        let Some(address) = address else {
            // A table without an address was refused.
            return Err(Found::at(value.span(), ConfigProblem::Nothing {
                missing: "there is no address of `admin`",
                advice: "add `listen`",
            }));
        };
        if !is_local(&address) {
            reader.warn(&value.span(), "others than this machine reach `admin`, and the token goes over the network as it \
                is: put TLS in front, or take `unix:PATH` and `ssh -L`");
        }
        Ok(Admin { address, token_file })
    };
}
