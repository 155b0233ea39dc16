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
    let (read, _) = crate::edits::check_edits(&seeds, PIECES, 20_000, host_config::check);
    assert!(read > 1000, "{read} of them are configurations");
}

/// What a tenant may have, and what would lead out of that.
const TENANTS: [&str; 2] = [
    "[filters.f]\nmodule = \"f/./f.wasm\"\nlog = 'a.log'\nconfiguration-file = 'a.json'\n\
     [services.s]\nfiles = \"site\"\n[[route]]\nhost = 'a'\npath = '/%61'\nfilters = ['f']\nservice = 's'\n",
    "[services.c]\ncomponent = './c.wasm'\npolicy.grants.read = ['a', './b/./c:/d']\n\
     policy.grants.write = [\"w\"]\n[[route]]\nservice = 'c'\n",
];

const PIECES_OF_TENANTS: &[&[u8]] = &[
    b"../",
    b"/..",
    b"/",
    b"/etc",
    b"tenants/other/",
    b"/base/tenants/tenant/../other",
    b"./",
    b"~/",
    b"\"",
    b"'",
    b"\\u002e",
    b"\\u0000",
    b"unix:",
    b"policy.grants.connect = ['tcp://10.0.0.1:80']\n",
    b"policy.grants.env = ['A']\n",
    b"policy = 'a.toml'\n",
    b"upstream = 'unix:a'\n",
    b"program = 'a'\n",
    b"listen = []\n",
    b"\n",
    b"[",
    b"]",
    b",",
];

#[test]
fn no_text_of_a_tenant_names_what_is_not_its_own() {
    let seeds: Vec<Vec<u8>> = TENANTS
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .collect();
    for seed in &seeds {
        let text = String::from_utf8_lossy(seed);
        assert_eq!(host_config::check_tenant(seed), 1, "{text}");
    }
    let (read, _) =
        crate::edits::check_edits(&seeds, PIECES_OF_TENANTS, 20_000, host_config::check_tenant);
    assert!(read > 300, "{read} of them are configurations");
}
