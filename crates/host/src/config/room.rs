//! How much a tenant's file may hold. Who wrote it is not trusted, and the server reads it, checks it and keeps what it
//! comes to: each of these numbers bounds something that costs the server time or memory.

use super::{ConfigProblem, error::Found};
use std::{cell::Cell, ops::Range};
use toml::de::{DeTable, DeValue};

/// Routes of a tenant's file.
pub(super) const MOST_ROUTES: usize = 1000;
/// Different hosts that these are for.
pub(super) const MOST_HOSTS: usize = 250;
/// Its filters, and its services.
const MOST_GUESTS: usize = 100;
/// Entries of all lists in the policies of its guests together. Each grant is looked at in the file system, and beside the
/// other guests' grants.
const MOST_GRANTS: usize = 500;
/// Bytes of the policies and configurations that it names, each as often as it is named.
const MOST_NAMED_BYTES: usize = 4 << 20;

/// What a file may still hold beside what is counted in its text.
pub(super) struct Room {
    grants: Cell<usize>,
    bytes: Cell<usize>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            grants: Cell::new(MOST_GRANTS),
            bytes: Cell::new(MOST_NAMED_BYTES),
        }
    }
}

impl Room {
    /// Whether a document is one that can be read: looked at before anything of it is.
    pub(super) fn check(document: &DeTable) -> Result<(), Found> {
        for (key, most) in [
            ("filters", MOST_GUESTS),
            ("services", MOST_GUESTS),
            ("route", MOST_ROUTES),
        ] {
            let Some((name, value)) = document.get_key_value(key) else {
                continue;
            };
            let (what, count) = match value.get_ref() {
                DeValue::Table(table) => (key.to_owned(), table.len()),
                DeValue::Array(items) => (format!("{key}s"), items.len()),
                _ => continue,
            };
            at_most(&what, count, most).map_err(|problem| Found::at(name.span(), problem))?;
        }
        Ok(())
    }

    /// Counts the lists of a policy, before they are made anything of.
    pub(super) fn take_policy(&self, policy: &DeTable, span: &Range<usize>) -> Result<(), Found> {
        let count = count_items(policy);
        let Some(left) = self.grants.get().checked_sub(count) else {
            let problem = ConfigProblem::TooMany {
                what: "entries in policies of its guests, all together".into(),
                count: MOST_GRANTS - self.grants.get() + count,
                most: MOST_GRANTS,
            };
            return Err(Found::at(span.clone(), problem));
        };
        self.grants.set(left);
        Ok(())
    }

    /// Counts a file that was read because the tenant's file names it.
    pub(super) fn take_bytes(&self, count: usize, span: &Range<usize>) -> Result<(), Found> {
        let Some(left) = self.bytes.get().checked_sub(count) else {
            let problem = ConfigProblem::TooMany {
                what: "bytes in policies and configurations that it names".into(),
                count: MOST_NAMED_BYTES - self.bytes.get() + count,
                most: MOST_NAMED_BYTES,
            };
            return Err(Found::at(span.clone(), problem));
        };
        self.bytes.set(left);
        Ok(())
    }
}

/// Refuses what there is more of than there may be.
pub(super) fn at_most(what: &str, count: usize, most: usize) -> Result<(), ConfigProblem> {
    match count <= most {
        true => Ok(()),
        false => Err(ConfigProblem::TooMany {
            what: what.into(),
            count,
            most,
        }),
    }
}

/// Entries of all lists of a table and of the tables in it.
fn count_items(table: &DeTable) -> usize {
    let of_value = |value: &DeValue| match value {
        DeValue::Array(items) => items.len(),
        DeValue::Table(inner) => count_items(inner),
        _ => 0,
    };
    table.values().map(|value| of_value(value.get_ref())).sum()
}
