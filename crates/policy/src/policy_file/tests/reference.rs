//! `docs/policy.md` is true as far as this crate can tell.

use std::path::Path;

use super::read;
use crate::{Capability, Policy, PolicyLayer, Profile, WallKind, setting::TABLES};

const REFERENCE: &str = include_str!("../../../../../docs/policy.md");

/// The text of each fenced block of this language.
fn blocks(language: &str) -> Vec<String> {
    let fence = format!("```{language}");
    let mut lines = REFERENCE.lines();
    let mut blocks = Vec::new();
    while let Some(opening) = lines.find(|line| line.trim() == fence) {
        let indent = opening.len() - opening.trim_start().len();
        let inside = lines.by_ref().take_while(|line| line.trim() != "```");
        let text: Vec<_> = inside
            .map(|line| line.get(indent..).unwrap_or(""))
            .collect();
        blocks.push(text.join("\n"));
    }
    blocks
}

#[test]
fn every_example_is_a_policy_without_contradiction() {
    let examples = blocks("toml");
    assert!(examples.len() >= 5, "{} examples found", examples.len());
    for text in examples {
        let policy = Policy::from_toml(&text, "docs/policy.md", Path::new("/home/ada/project"));
        let mut policy = policy.unwrap_or_else(|error| panic!("{error}"));
        // Whoever runs the guest has read these.
        policy.grants.env_files.clear();
        assert_eq!(policy.validate(), Ok(()), "{text}");
    }
}

#[test]
fn the_complete_example_has_every_key() {
    let examples = blocks("toml");
    let complete = examples.iter().max_by_key(|text| text.len()).unwrap();
    for key in TABLES.iter().flat_map(|table| table.keys()) {
        let set =
            complete.contains(&format!("\n{key} = ")) || complete.contains(&format!("[{key}]"));
        assert!(set || complete.starts_with(key), "{key}");
    }
    assert_ne!(read(complete), Ok(PolicyLayer::default()));
}

#[test]
fn every_key_and_name_is_explained() {
    let keys = TABLES.iter().flat_map(|table| table.keys());
    let names = [Capability::NAMES, Profile::NAMES, WallKind::NAMES].concat();
    for word in keys.chain(names) {
        let named = REFERENCE.contains(&format!("`{word}`"));
        assert!(
            named || REFERENCE.contains(&format!("`[{word}]`")),
            "{word}"
        );
    }
}

#[test]
fn every_flag_is_explained() {
    for setting in TABLES.iter().flat_map(|table| table.settings) {
        let flag = format!("`--{}", setting.flag);
        assert!(REFERENCE.contains(&flag), "{flag}");
    }
}

#[test]
fn the_error_shown_is_the_error_given() {
    let shown = &blocks("text")[0];
    let error = read("[limits]\nmemroy = \"512M\"\n").unwrap_err();
    assert_eq!(error.to_string(), *shown);
}
