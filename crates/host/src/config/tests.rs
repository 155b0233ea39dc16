use super::{keys::Section, *};
use std::{env, fs, io, path::Path};

/// Files that the configurations name.
fn read_file(path: &Path) -> io::Result<String> {
    match path.to_str() {
        Some("/srv/app/policies/api.toml") => Ok("[grants]\nread = [\"data\"]\n".into()),
        Some("/srv/app/policies/bad.toml") => Ok("[limits]\nmemroy = \"1G\"\n".into()),
        Some("/srv/app/auth.json") => Ok("{\"realm\": \"x\"}".into()),
        _ => Err(io::Error::from_raw_os_error(2)),
    }
}

fn read(text: &str) -> Result<ConfigFile, ConfigError> {
    ConfigFile::from_text(text, "host.toml", Path::new("/srv/app"), &read_file)
}

/// A file with this in it, and whatever else a file needs.
fn read_with(part: &str) -> Result<ConfigFile, ConfigError> {
    const REST: &str = "
[[listen]]
address = '127.0.0.1:8080'
[services.site]
files = 'site'
[[route]]
service = 'site'
";
    read(&format!("{part}\n{REST}"))
}

const FULL: &str = include_str!("tests/full.toml");

#[test]
fn every_key_is_read() {
    let file = read(FULL).unwrap_or_else(|error| panic!("{error}"));
    insta::assert_debug_snapshot!(file);
}

#[test]
fn every_key_stands_in_the_full_example() {
    fn names<T: Section>() -> Vec<&'static str> {
        T::entries().map(|entry| entry.name).collect()
    }
    let tables = [
        names::<read::Parts>(),
        names::<Log>(),
        names::<Metrics>(),
        names::<Limits>(),
        names::<ProgramBounds>(),
        names::<listener::ListenerParts>(),
        names::<Tls>(),
        names::<route::RouteParts>(),
        names::<filter::NamedFilter>(),
        names::<service::Parts<Component>>(),
        names::<service::Parts<Program>>(),
        names::<service::Parts<Files>>(),
        names::<service::Parts<Upstream>>(),
        names::<Health>(),
        names::<FaultBudget>(),
        names::<TenantShare>(),
        names::<Quotas>(),
    ];
    let reference = include_str!("../../../../docs/serve.md");
    for key in tables.concat() {
        let is_set = |line: &str| {
            let line = line.trim_start_matches(['[', ' ', '{']);
            line.strip_prefix(key)
                .is_some_and(|rest| rest.starts_with([' ', '.', ']']))
        };
        let parts = FULL.lines().flat_map(|line| line.split([',', '{']));
        assert!(
            parts.map(str::trim_start).any(is_set),
            "{key} is not in full.toml"
        );
        assert!(
            ["`", "`[", "`[["]
                .iter()
                .any(|open| reference.contains(&format!("{open}{key}"))),
            "{key} is not in docs/serve.md"
        );
    }
}

/// `PALISADE_BLESS=1` writes them anew.
#[test]
fn published_host_schema_is_current() {
    const DOCUMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    for (name, schema) in [
        ("host.schema.json", host_schema()),
        ("tenant.schema.json", tenant_schema()),
    ] {
        let path = Path::new(DOCUMENTS).join(name);
        let current = format!("{schema:#}\n");
        if env::var_os("PALISADE_BLESS").is_some() {
            fs::write(&path, &current).unwrap();
        }
        let published = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            published == current,
            "{name} is out of date: run the tests with PALISADE_BLESS=1 and look at what changed"
        );
    }
}

#[test]
fn examples_of_the_reference_can_be_served() {
    let reference = include_str!("../../../../docs/serve.md");
    let examples = reference.split("\n```toml\n").skip(1);
    let examples = examples.filter_map(|rest| rest.split("\n```").next());
    let mut count = 0;
    let mut main = None;
    for example in examples {
        let file = match example.starts_with("# tenants.d/acme.toml") {
            true => {
                let main: &ConfigFile = main.as_ref().expect("the main file stands before");
                let bounds = main.config.tenancy.bounds("acme").unwrap();
                ConfigFile::tenant_from_text(example, "acme.toml", &bounds, &read_file)
            }
            false => read(example),
        };
        let file = file.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(file.warnings, Vec::<String>::new(), "{example}");
        count += 1;
        main = Some(file);
    }
    assert_eq!(count, 6, "an example was not found");
}

#[test]
fn what_is_left_out_has_a_default() {
    let file = read_with("").unwrap();
    insta::assert_debug_snapshot!(file);
}

/// Each file that can't be meant, and what is said of it.
#[test]
fn what_cannot_be_meant_is_shown_with_its_line() {
    let cases = include_str!("tests/bad.txt").split("=====\n");
    let mut told = String::new();
    for text in cases.filter(|text| !text.trim().is_empty()) {
        let (whole, text) = match text.strip_prefix("+") {
            Some(part) => (read_with(part.trim_start()), part.trim_start()),
            None => (read(text), text),
        };
        let error = whole.expect_err(text);
        told += &format!("{text}---\n{error}\n\n=====\n");
    }
    insta::assert_snapshot!(told);
}

#[test]
fn a_kept_filter_can_stand_in_a_route_twice() {
    let config = read_with(
        "[filters.stamp]\nmodule = 'stamp.wasm'\nisolation = 'kept'\n\
         [[route]]\nfilters = ['stamp', 'stamp']\nservice = 'site'",
    );
    assert_eq!(config.unwrap().config.routes[0].filters, ["stamp", "stamp"]);
}

#[test]
fn a_route_that_nothing_reaches_is_told() {
    let route = |keys: &str| format!("[[route]]\nservice = 'site'\n{keys}\n");
    let warned = |earlier: &str, later: &str| {
        let text = format!(
            "[[listen]]\naddress = '[::1]:80'\n[services.site]\nfiles = '/srv'\n{}{}",
            route(earlier),
            route(later)
        );
        read(&text).unwrap().warnings
    };
    insta::assert_debug_snapshot!(warned("path = '/api'", "path = '/api/v1'"), @r#"
    [
        "line 8: no request reaches route `route-1`: `route-0` stands before it and takes all that it would",
    ]
    "#);
    for (earlier, later) in [
        ("", ""),
        ("", "host = 'a.example'"),
        ("host = '*.example'", "host = 'a.b.example'"),
        ("host = '*.example'", "host = '*.b.example'"),
        ("methods = ['GET', 'HEAD']", "methods = ['GET']"),
        (
            "headers = { x-a = true }",
            "headers = { x-a = '1', x-b = '2' }",
        ),
        ("path = '/a/'", "path = '/a'"),
    ] {
        assert_eq!(warned(earlier, later).len(), 1, "{earlier} / {later}");
    }
    for (earlier, later) in [
        ("path = '/api'", "path = '/apis'"),
        ("path = '/api/v1'", "path = '/api'"),
        ("host = 'a.example'", ""),
        ("host = '*.example'", "host = 'example'"),
        ("host = '*.example'", "host = 'badexample'"),
        ("methods = 'GET'", ""),
        ("headers = { x-a = '1' }", "headers = { x-a = true }"),
    ] {
        assert_eq!(warned(earlier, later), [""; 0], "{earlier} / {later}");
    }
}

#[test]
fn a_path_is_compared_as_requests_paths_are() {
    let path = |text: &str| {
        let part = format!("[[route]]\nservice = 'site'\npath = '{text}'\n");
        read_with(&part).map(|file| file.config.routes[0].path.clone())
    };
    assert_eq!(path("/%61pi/%c3%bc/").unwrap(), "/api/%C3%BC");
    assert_eq!(path("///").unwrap(), "/");
    for wrong in ["/%", "/%00", "/a\\b", "/%2e%2e/b", "/a b"] {
        assert!(path(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_no_route_needs_is_told() {
    let warnings =
        read_with("[filters.auth]\nmodule = 'auth.wasm'\n[services.other]\nfiles = '/srv'")
            .unwrap();
    insta::assert_debug_snapshot!(warnings.warnings, @r#"
    [
        "line 1: no route has filter `auth`",
        "line 3: no route leads to service `other`",
    ]
    "#);
}

#[test]
fn a_file_reads_from_its_own_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.toml");
    fs::write(
        &path,
        "[[listen]]\naddress = 'unix:a.sock'\n[services.s]\nfiles = '.'\n[[route]]\nservice = 's'",
    )
    .unwrap();
    let file = ConfigFile::read(&path).unwrap();
    let folder = folder.path().canonicalize().unwrap();
    assert_eq!(
        file.config.listeners[0].address,
        Address::Unix(folder.join("a.sock"))
    );
    let missing = ConfigFile::read(&folder.join("none.toml")).unwrap_err();
    assert!(missing.to_string().contains("cannot be read"), "{missing}");
    let fifo = folder.join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let waits = ConfigFile::read(&fifo).unwrap_err();
    assert!(waits.to_string().contains("not a regular file"), "{waits}");
}
