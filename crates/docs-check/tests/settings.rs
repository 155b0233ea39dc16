//! What can be said in a policy can be said everywhere.

use palisade_policy::setting::TABLES;
use std::{fs, path::Path};

/// The builder names a wall by what it is given to run, and reads no files.
const NOT_BUILT: [&str; 2] = ["wall", "env-file"];

#[test]
fn every_setting_is_a_method_of_the_builder() {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo test sets it");
    let builder = Path::new(&package).join("../palisade/src/domain/builder.rs");
    let builder = fs::read_to_string(builder).expect("the builder");
    let settings = TABLES.iter().flat_map(|table| table.settings);
    for setting in settings.filter(|setting| !NOT_BUILT.contains(&setting.key)) {
        let method = format!("pub fn {}(", setting.flag.replace('-', "_"));
        assert!(builder.contains(&method), "there is no {method}");
    }
}
