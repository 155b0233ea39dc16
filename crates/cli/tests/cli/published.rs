//! Schemas that stand beside the documents, and what they are made of.

use super::fixture::Fixture;
use serde_json::Value;
use std::{
    env, fs,
    path::{Path, PathBuf},
};

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name)
}

/// A schema of the documents.
pub(crate) fn published(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(place(name)).unwrap()).unwrap()
}

/// `PALISADE_BLESS=1` writes it anew.
pub(crate) fn is_current(fixture: &Fixture, name: &str, schema: &Value) {
    let current = serde_json::to_string_pretty(schema).unwrap() + "\n";
    let place = place(name);
    if env::var_os("PALISADE_BLESS").is_some() {
        // By renaming: the same case runs beside this one as another user.
        let new = place.with_extension(fixture.user.name());
        fs::write(&new, &current).unwrap();
        fs::rename(&new, &place).unwrap();
    }
    let is = fs::read_to_string(&place).unwrap_or_default() == current;
    assert!(
        is,
        "docs/{name} is out of date: run the tests with PALISADE_BLESS=1 and look at what changed"
    );
}
