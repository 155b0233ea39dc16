//! What must hold of a policy's text to which values are added, whoever wrote it.
//!
//! The fuzz target and an ordinary test call the same function.

use super::edit::{PROFILES, Value, edit, has, parse};

/// Checks what comes of a text. Tells whether values could be added.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let value = |key, text: &str, why: Option<&str>| Value {
        key,
        text: text.into(),
        why: why.map(Into::into),
    };
    let wanted = [
        value("read", "~/a b", Some("read by \"cat\" # or so")),
        value("read", "\\u{0}\n'", None),
        value("connect", "tcp://a.example:443", Some("asked for")),
        value(PROFILES, "rust", None),
    ];
    let before = parse(text, "it");
    let edited = edit(text, &wanted, "it");
    let Ok(before) = before else {
        assert!(edited.is_err(), "what is no TOML is not edited");
        return false;
    };
    let Ok(edited) = edited else {
        return false;
    };
    let after = parse(&edited, "it").expect("what comes out is TOML");
    assert!(wanted.iter().all(|value| has(&after, value)), "{edited}");
    for key in ["read", "connect", "write", PROFILES] {
        for there in values(&before, key) {
            assert!(
                has(&after, &value(key, &there, None)),
                "{key} {there}: {edited}"
            );
        }
    }
    for comment in text.lines().filter(|line| line.starts_with('#')) {
        assert!(edited.contains(comment), "{comment:?}: {edited}");
    }
    true
}

fn values(document: &toml_edit::DocumentMut, key: &str) -> Vec<String> {
    let grants = document
        .get("grants")
        .and_then(|grants| grants.as_table_like());
    let list = match key {
        PROFILES => document.get(PROFILES),
        key => grants.and_then(|grants| grants.get(key)),
    };
    let list = list.and_then(|list| list.as_array()).into_iter().flatten();
    list.filter_map(|value| value.as_str().map(str::to_owned))
        .collect()
}
