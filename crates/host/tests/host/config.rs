//! Whatever the text, reading it ends in a configuration that can be relied on, or in an error that can be shown.

#[path = "../../../../fuzz/checks/host_config.rs"]
mod host_config;

/// Pieces that mean something to TOML or to a value.
const PIECES: &[&[u8]] = &[
    b"[",
    b"]",
    b"[[",
    b"]]",
    b"=",
    b"\"",
    b"'",
    b"'''",
    b"{",
    b"}",
    b",",
    b".",
    b"#",
    b"\n",
    b"\r",
    b"\\",
    b"\\u001b",
    b"..",
    b"~",
    b"\0",
    b"9",
    b"99999999999999999999",
    b"0o",
    b"K",
    b"ms",
    b"true",
    b"filters",
    b"services.a",
    b"[[route]]\n",
    b"[[listen]]\n",
    b"address",
    b"unix:",
    b"127.0.0.1:80",
    b"[::1]:80",
    b"http://",
    b"policy",
    b"policy.grants.",
    b"limits",
    b"files",
    b"upstream",
    b"program",
    b"component",
    b"module",
    b"a.toml",
    b"a.json",
    b"*.",
    b"/",
    b"%",
    "\u{202e}".as_bytes(),
    "🦀".as_bytes(),
];

#[test]
fn no_text_is_read_as_what_cannot_be_served() {
    let seeds = crate::edits::seeds("host_config");
    for seed in &seeds {
        assert_eq!(
            host_config::check(seed),
            1,
            "{}",
            String::from_utf8_lossy(seed)
        );
    }
    let read = crate::edits::check_edits(&seeds, PIECES, 20_000, host_config::check);
    assert!(read > 1000, "{read} of them are configurations");
}
