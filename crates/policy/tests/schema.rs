//! The published schema is the one that this crate makes.

use std::{env, fs};

const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policy.schema.json");

/// `PALISADE_BLESS=1` writes it anew.
#[test]
fn published_policy_schema_is_current() {
    let current = format!("{:#}\n", palisade_policy::policy_schema());
    if env::var_os("PALISADE_BLESS").is_some() {
        fs::write(PUBLISHED, &current).unwrap();
    }
    let published = fs::read_to_string(PUBLISHED).unwrap_or_default();
    assert!(
        published == current,
        "{PUBLISHED} is out of date: run the tests with PALISADE_BLESS=1 and look at what changed"
    );
}
