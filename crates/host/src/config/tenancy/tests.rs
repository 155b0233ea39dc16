use super::*;
use crate::config::{ConfigFile, ConfigProblem};

const MAIN: &str = "
include = ['tenants.d/*.toml', '/etc/more/t-*.toml']
[[listen]]
address = '127.0.0.1:8080'
";

fn main_file(text: &str) -> Result<ConfigFile, String> {
    let file = format!("{MAIN}{text}");
    let read = |_: &Path| Err(std::io::Error::from_raw_os_error(2));
    let read = ConfigFile::from_text(&file, "host.toml", Path::new("/srv"), &read);
    read.map_err(|error| error.to_string())
}

fn bounds(text: &str, tenant: &str) -> Result<Bounds, String> {
    main_file(text)?.config.tenancy.bounds(tenant)
}

const GIVEN: &str = "
[tenants]
hosts = ['{tenant}.example.org']
paths = ['/', '/{tenant}/v1']
folder = 'tenants/{tenant}'
";

fn tenant_file(may: &str, text: &str) -> Result<ConfigFile, crate::config::ConfigError> {
    let bounds = bounds(&format!("{GIVEN}{may}"), "acme").unwrap();
    let read = |path: &Path| match path.to_str() {
        Some("/srv/tenants/acme/out.toml") => Ok("[grants]\nread = ['/etc']\n".into()),
        _ => Err(std::io::Error::from_raw_os_error(2)),
    };
    ConfigFile::tenant_from_text(text, "acme.toml", &bounds, &read)
}

#[test]
fn files_of_a_folder_are_tenants_by_their_names() {
    let file = main_file(GIVEN).unwrap();
    let [first, second] = &file.config.tenancy.include[..] else {
        panic!("{:?}", file.config.tenancy.include);
    };
    assert_eq!(first.folder, Path::new("/srv/tenants.d"));
    assert_eq!(second.folder, Path::new("/etc/more"));
    let tenant =
        |include: &Include, name: &str| include.tenant(OsStr::new(name)).map(str::to_owned);
    assert_eq!(tenant(first, "acme.toml").as_deref(), Some("acme"));
    assert_eq!(tenant(second, "t-acme.toml").as_deref(), Some("t-acme"));
    for name in ["acme", "acme.toml~", ".acme.toml", ".toml", "acme.toml.new"] {
        assert_eq!(tenant(first, name), None, "{name}");
    }
    assert_eq!(tenant(second, "acme.toml"), None);
    for name in ["..", ".a", "a b", "a/b", "", &"a".repeat(65)] {
        assert!(file.config.tenancy.bounds(name).is_err(), "{name}");
    }
}

#[test]
fn a_pattern_is_of_one_folder() {
    for wrong in [
        "*/a.toml",
        "tenants.d/a.toml",
        "tenants.d/*",
        "a/**.toml",
        "a/*.*.toml",
        "~/*.toml",
    ] {
        let text = MAIN.replace("tenants.d/*.toml", wrong) + GIVEN;
        let read = |_: &Path| Err(std::io::Error::from_raw_os_error(2));
        let read = ConfigFile::from_text(&text, "host.toml", Path::new("/srv"), &read);
        assert!(read.is_err(), "{wrong}");
    }
}

#[test]
fn one_tenant_has_what_its_table_says_in_place_of_what_all_have() {
    let text = format!(
        "{GIVEN}may = 'connect'\n[tenant.acme]\nhosts = ['acme.org', '*.ACME.org']\nfolder = '/home/acme'"
    );
    let all = bounds(&text, "other").unwrap();
    assert_eq!(all.hosts, ["other.example.org"]);
    assert_eq!(all.paths, ["/", "/other/v1"]);
    assert_eq!(all.folder, Path::new("/srv/tenants/other"));
    assert!(all.may.contains(&May::Connect));
    let one = bounds(&text, "acme").unwrap();
    assert_eq!(one.hosts, ["*.acme.org", "acme.org"]);
    assert_eq!(one.paths, ["/", "/acme/v1"]);
    assert_eq!(one.folder, Path::new("/home/acme"));
    let refused = bounds(GIVEN, "a|b").unwrap_err();
    assert!(refused.contains("a|b.example.org"), "{refused}");
    let homeless = bounds("[tenants]\nhosts = 'a.org'", "acme").unwrap_err();
    assert!(homeless.contains("folder"), "{homeless}");
}

#[test]
fn no_two_tenants_have_one_folder() {
    for (text, wanted) in [
        ("[tenants]\nfolder = 'tenants'", "one folder"),
        ("[tenants]\nfolder = '{tenant}/x'", "one folder"),
        (
            "[tenants]\nfolder = 't/{tenant}'\n[tenant.a]\nfolder = 't/b'",
            "[tenant.a]",
        ),
        (
            "[tenants]\nfolder = 't/{tenant}'\n[tenant.a]\nfolder = '.'",
            "[tenant.a]",
        ),
        (
            "[tenants]\nfolder = 't/{tenant}'\n[tenant.a]\nfolder = 't/b/c'",
            "[tenant.a]",
        ),
        (
            "[tenant.a]\nfolder = 'x'\n[tenant.b]\nfolder = 'x'",
            "[tenant.b]",
        ),
        (
            "[tenant.a]\nfolder = 'x/y'\n[tenant.b]\nfolder = 'x'",
            "[tenant.a]",
        ),
    ] {
        let told = main_file(text).expect_err(text);
        assert!(told.contains(wanted), "{text}: {told}");
    }
    for text in [
        "[tenants]\nfolder = 't/{tenant}'\n[tenant.a]\nfolder = 't/a'",
        "[tenants]\nfolder = 't/{tenant}'\n[tenant.a]\nfolder = 'u'",
        "[tenant.a]\nfolder = 'x'\n[tenant.b]\nfolder = 'xy'",
    ] {
        main_file(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn the_main_file_of_tenants_alone_needs_no_route() {
    main_file(GIVEN).unwrap_or_else(|error| panic!("{error}"));
}

const SITE: &str = "[services.site]\nfiles = 'site'\n";

#[test]
fn a_tenants_file_has_what_it_is_given() {
    let text = format!("{SITE}[[route]]\nservice = 'site'\n");
    let file = tenant_file("", &text).unwrap_or_else(|error| panic!("{error}"));
    let config = file.config;
    assert_eq!(
        config.folder.as_deref(),
        Some(Path::new("/srv/tenants/acme"))
    );
    let roots: Vec<_> = config.roots().map(|(_, root)| root).collect();
    assert_eq!(roots, [Path::new("/srv/tenants/acme/site")]);
}

#[test]
fn what_routes_claim_is_what_is_given_around_them() {
    let bounds = Bounds {
        hosts: vec!["*.acme.org".into(), "acme.org".into()],
        paths: vec!["/".into(), "/a".into()],
        folder: "/srv/tenants/acme".into(),
        may: BTreeSet::new(),
        underscores: false,
    };
    let claims = |route: &str| {
        let text = format!("{SITE}[[route]]\nservice = 'site'\n{route}");
        let read = |_: &Path| Err(std::io::Error::from_raw_os_error(2));
        let file = ConfigFile::tenant_from_text(&text, "acme.toml", &bounds, &read);
        let claims = file
            .unwrap_or_else(|error| panic!("{error}"))
            .config
            .claims(&bounds);
        claims.iter().map(Claim::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        claims(""),
        ["*.acme.org/", "*.acme.org/a", "acme.org/", "acme.org/a"]
    );
    assert_eq!(claims("path = '/a/b'"), ["*.acme.org/a", "acme.org/a"]);
    assert_eq!(claims("path = '/ab'\nhost = 'acme.org'"), ["acme.org/"]);
    assert_eq!(
        claims("path = '/%61'\nhost = 'www.acme.org'"),
        ["www.acme.org/a"]
    );
}

/// Each thing that a tenant's file may not say, and what is said of it.
#[test]
fn a_tenants_file_cannot_say_what_is_not_its_own() {
    let route = "[[route]]\nservice = 'site'\n";
    let filter = |keys: &str| format!("[filters.f]\nmodule = 'f.wasm'\n{keys}\n");
    let component = |keys: &str| format!("[services.c]\ncomponent = 'c.wasm'\n{keys}\n");
    let cases = [
        "workers = 2".to_owned(),
        "admin = 'unix:admin.sock'".into(),
        "include = ['*.toml']".into(),
        "allow-degraded = ['landlock']".into(),
        "[log]\nlevel = 'debug'".into(),
        "[limits]\nstreams = 2".into(),
        "[[listen]]\naddress = '127.0.0.1:1'".into(),
        "[tenants]\nmay = ['program']".into(),
        "[tenant.acme]\nhosts = ['a.org']".into(),
        "[quotas]\nweight = 100".into(),
        format!("{route}host = 'other.example.org'"),
        format!("{route}host = '*.example.org'"),
        format!("{route}host = 'x.acme.example.org'"),
        "[services.up]\nfiles = '../other/site'".into(),
        "[services.up]\nfiles = '/etc'".into(),
        filter("log = '../f.log'"),
        "[filters.g]\nmodule = '../../filters/g.wasm'".into(),
        filter("configuration-file = '../other/secret.json'"),
        filter("policy = 'out.toml'"),
        filter("policy.grants.connect = ['tcp://10.0.0.1:80']"),
        component("policy.grants.read = ['../other']"),
        component("policy.grants.write = ['/tmp']"),
        component("policy.grants.env = ['AWS_SECRET_ACCESS_KEY']"),
        component("policy.allow-degraded = ['landlock']"),
        "[services.p]\nprogram = './p'".into(),
        "[services.up]\nupstream = 'http://127.0.0.1:9000'".into(),
        "[services.s]\ncomponent = '/srv/services/s.wasm'".into(),
    ];
    let mut told = String::new();
    for case in cases {
        let top = case.starts_with(|c: char| c.is_ascii_lowercase());
        let rest = format!("{SITE}{route}");
        let text = if top {
            format!("{case}\n{rest}")
        } else {
            format!("{rest}{case}\n")
        };
        let error = tenant_file("", &text).expect_err(&case);
        told += &format!("{case}\n---\n{error}\n\n=====\n");
    }
    insta::assert_snapshot!(told);
}

#[test]
fn the_main_file_may_allow_more() {
    let program = |keys: &str| {
        format!("{SITE}[[route]]\nservice = 'p'\n[services.p]\nprogram = './p'\n{keys}\n")
    };
    let upstream = "[services.up]\nupstream = 'http://127.0.0.1:9000'\n[[route]]\nservice = 'up'\n";
    for (may, text) in [
        ("may = 'connect'", upstream.to_owned()),
        ("may = ['program']", program("")),
        (
            "may = ['program', 'connect']",
            program("policy.grants.connect = ['tcp://10.0.0.1:80']"),
        ),
        (
            "may = ['program', 'listen']",
            program("policy.grants.listen = ['tcp://127.0.0.1:80']"),
        ),
        (
            "may = ['program', 'exec']",
            program("policy.grants.write = ['w']\npolicy.grants.exec = ['w']"),
        ),
        (
            "may = ['program', 'device']",
            program("policy.grants.device = ['/dev/kvm']"),
        ),
        (
            "may = ['program', 'profile']",
            program("policy.profiles = ['java']"),
        ),
        (
            "may = ['program', 'environment']",
            program("policy.grants.env = ['LANG']"),
        ),
        (
            "may = ['program', 'degraded']",
            program("policy.allow-degraded = ['landlock']"),
        ),
    ] {
        let read = tenant_file(may, &text);
        read.unwrap_or_else(|error| panic!("{may}: {error}"));
        // Without the last word it is refused, and the word is told.
        let words: Vec<_> = may.split('\'').skip(1).step_by(2).collect();
        let (last, others) = words.split_last().unwrap();
        let less = match others.is_empty() {
            true => String::new(),
            false => format!("may = {others:?}"),
        };
        let error = tenant_file(&less, &text).expect_err(may);
        assert!(
            matches!(error.problem(), ConfigProblem::Forbidden { word, .. } if word == last),
            "{error}"
        );
    }
    let direct = tenant_file(
        "may = ['program', 'listen']",
        &program("direct = '0.0.0.0:80'"),
    );
    let told = direct.unwrap_err().to_string();
    assert!(told.contains("`direct`"), "{told}");
    let socket = "[services.up]\nupstream = 'unix:/run/docker.sock'\n[[route]]\nservice = 'up'\n";
    let told = tenant_file("may = 'connect'", socket)
        .unwrap_err()
        .to_string();
    assert!(told.contains("/run/docker.sock"), "{told}");
}

#[test]
fn quotas_of_one_tenant_stand_in_place_of_those_of_all_key_by_key() {
    let text = format!(
        "{GIVEN}quotas = {{ rate = 10, burst = 30, processor = '50%', requests = 5 }}\n\
         [tenant.acme.quotas]\nrate = 100\nprocessor = '2s'\nweight = 300"
    );
    let tenancy = main_file(&text).unwrap().config.tenancy;
    let other = tenancy.quotas("other");
    assert_eq!((other.rate, other.burst), (Some(10), Some(30)));
    assert_eq!(other.processor_ns, Some(500_000_000));
    let acme = tenancy.quotas("acme");
    assert_eq!(
        (acme.rate, acme.burst),
        (Some(100), None),
        "a burst is of its rate"
    );
    assert_eq!(acme.processor_ns, Some(2_000_000_000));
    assert_eq!((acme.weight, acme.requests), (Some(300), Some(5)));
    for wrong in [
        "processor = 50",
        "processor = '50'",
        "processor = '0%'",
        "weight = 0",
        "weight = 10001",
        "rate = 0",
    ] {
        let text = format!("[tenants.quotas]\n{wrong}");
        assert!(main_file(&text).is_err(), "{wrong}");
    }
    let site_only = tenant_file("", "[quotas]\nrate = 1")
        .unwrap_err()
        .to_string();
    assert!(site_only.contains("quotas"), "{site_only}");
}

/// A tenant's file of a MiB: parts of it, one after the other, until there is no more room.
fn filled(part: impl Fn(usize) -> String) -> String {
    const MIB: usize = 1 << 20;
    let mut text = String::with_capacity(MIB);
    for at in 0.. {
        let more = part(at);
        if text.len() + more.len() > MIB {
            break;
        }
        text += &more;
    }
    text
}

/// Of each file that takes as long as a file can, whatever is wrong with it: who wrote it is not trusted.
#[test]
fn a_mebibyte_is_read_in_no_time() {
    let route = |keys: &str| format!("[[route]]\nservice='s'\n{keys}");
    let long = |part: &str| part.repeat((1 << 20) / part.len() - 100);
    let routed = |keys: String| format!("{SITE_OF_ROUTES}{}{keys}\n", route(""));
    let filter = |keys: String| format!("[filters.f]\nmodule='f'\n{keys}\n");
    let fields = |at: usize| -> String {
        let field = |number: usize| format!("x{at}-{number}='',");
        (0..64).map(field).collect()
    };
    for (what, text) in [
        ("routes", filled(|_| route(""))),
        ("paths", filled(|at| route(&format!("path='/{at}'\n")))),
        (
            "services",
            filled(|at| format!("[services.s{at}]\nfiles='s'\n")),
        ),
        (
            "filters",
            filled(|at| format!("[filters.f{at}]\nmodule='f'\n")),
        ),
        ("tables", filled(|at| format!("[x{at}]\n"))),
        ("inner tables", filled(|at| format!("[services.s.x{at}]\n"))),
        ("keys", filled(|at| format!("x{at}=1\n"))),
        ("lines", format!("{}x=1", long("\n"))),
        ("a line", format!("x='{}'", long("x"))),
        ("a key", format!("{}=1", long("x"))),
        ("an open string", format!("x='{}", long("x"))),
        ("dots", format!("{}x=1", long("x."))),
        ("brackets", format!("x={}", long("["))),
        ("braces", format!("x={}", long("{x="))),
        (
            "fields",
            routed(format!("headers={{{}}}", filled(|at| format!("x{at}='',")))),
        ),
        ("methods", routed(format!("methods=[{}]", long("'GET',")))),
        (
            "filters of a route",
            routed(format!("filters=[{}]", long("'f',"))),
        ),
        ("a path", routed(format!("path='{}'", long("/x")))),
        ("a host", routed(format!("host='{}x'", long("x.")))),
        (
            "grants",
            filter(format!(
                "policy.grants.connect=[{}]",
                filled(|at| format!("'tcp://a{at}:1',"))
            )),
        ),
        (
            "deep JSON",
            filter(format!("configuration.{}x=1", long("x."))),
        ),
        (
            "hosts",
            format!(
                "{SITE_OF_ROUTES}{}",
                (0..1000)
                    .map(|at| route(&format!("host='h{at}'\n")))
                    .collect::<String>()
            ),
        ),
    ] {
        within_two_seconds(what, || {
            tenant_file("may = 'connect'", &text)
                .unwrap_err()
                .to_string()
        });
    }
    // As much as there may be of each.
    for (what, more) in [
        ("nothing", (0..999).map(|_| route("")).collect::<String>()),
        (
            "fields",
            (0..999)
                .map(|at| route(&format!("headers={{{}}}\n", fields(at))))
                .collect(),
        ),
        (
            "lines",
            format!(
                "{}{}",
                long("\n"),
                (0..99)
                    .map(|at| format!("[services.s{at}]\nfiles='s'\n"))
                    .collect::<String>()
            ),
        ),
    ] {
        let text = format!("{SITE_OF_ROUTES}{}{more}", route("path='/first'\n"));
        within_two_seconds(what, || {
            tenant_file("", &text).unwrap_or_else(|error| panic!("{error}"))
        });
    }
    // A main file may be as long as its owner likes.
    let main = format!(
        "[services.s]\nfiles='s'\n{}",
        filled(|at| route(&format!("path='/{}'\n", at % 1000)))
    );
    let file = within_two_seconds("the main file", || main_file(&main).unwrap());
    assert!(
        file.config.routes.len() > 20_000 && file.warnings.len() == 51,
        "{:?}",
        file.warnings.last()
    );
}

const SITE_OF_ROUTES: &str = "[services.s]\nfiles='s'\n";

fn within_two_seconds<T>(what: &str, read: impl FnOnce() -> T) -> T {
    let began = std::time::Instant::now();
    let read = read();
    let took = began.elapsed();
    assert!(took < std::time::Duration::from_secs(2), "{what}: {took:?}");
    read
}

/// Each with a control: as much as there may be.
#[test]
fn what_a_tenants_file_may_hold_is_bounded() {
    let routes = |count: usize, keys: &dyn Fn(usize) -> String| -> String {
        let route = |at: usize| format!("[[route]]\nservice='site'\n{}\n", keys(at));
        (0..count).map(route).collect()
    };
    let services = |count: usize| -> String {
        (0..count)
            .map(|at| format!("[services.s{at}]\nfiles='site'\n"))
            .collect()
    };
    let filters = |count: usize, grants: usize| -> String {
        let policy = vec!["'tcp://a.org:1'"; grants].join(",");
        let filter =
            |at: usize| format!("[filters.f{at}]\nmodule='f'\npolicy.grants.connect=[{policy}]\n");
        (0..count).map(filter).collect()
    };
    let list =
        |key: &str, word: &str, count: usize| format!("{key}=[{}]", vec![word; count].join(","));
    let fields = |count: usize| -> String {
        let field = |at: usize| format!("x{at}=true");
        format!(
            "headers={{{}}}",
            (0..count).map(field).collect::<Vec<_>>().join(",")
        )
    };
    let path = |bytes: usize| format!("path='/{}'", "x".repeat(bytes - 1));
    let one = |keys: String| routes(1, &|_| keys.clone());
    let host = |at: usize| format!("host='h{at}.more.example.org'");
    for (much, too_much, told) in [
        (
            routes(1000, &|_| String::new()),
            routes(1001, &|_| String::new()),
            "too many routes: 1001",
        ),
        (
            routes(250, &host),
            routes(251, &host),
            "too many hosts of routes: 251",
        ),
        (
            one(String::new()) + &services(99),
            one(String::new()) + &services(100),
            "too many services: 101",
        ),
        (
            one(String::new()) + &filters(100, 5),
            one(String::new()) + &filters(101, 0),
            "too many filters: 101",
        ),
        (
            one(String::new()) + &filters(1, 500),
            one(String::new()) + &filters(3, 167),
            "policies of its guests, all together: 501",
        ),
        (
            one(list("methods", "'GET'", 64)),
            one(list("methods", "'GET'", 65)),
            "too many methods of a route: 65",
        ),
        (
            one(fields(64)),
            one(fields(65)),
            "too many fields of a route: 65",
        ),
        (one(path(1024)), one(path(1025)), "longer than 1024 bytes"),
    ] {
        let given =
            "may = 'connect'\n[tenant.acme]\nhosts = ['acme.example.org', '*.more.example.org']\n";
        let read = |text: &str| tenant_file(given, &format!("{SITE}{text}"));
        read(&much).unwrap_or_else(|error| panic!("{error}"));
        let error = read(&too_much).expect_err(told).to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn of_many_warnings_the_first_are_told() {
    let routes = "[[route]]\nservice='site'\n".repeat(200);
    let file = tenant_file("", &format!("{SITE}{routes}")).unwrap();
    assert_eq!(file.warnings.len(), 51);
    assert!(
        file.warnings[49].starts_with("line 103: no request reaches"),
        "{}",
        file.warnings[49]
    );
    assert_eq!(file.warnings[50], "there are 149 more warnings");
}

#[test]
fn files_that_are_named_are_counted_as_often_as_they_are() {
    let bounds = bounds(GIVEN, "acme").unwrap();
    let read = |_: &Path| Ok("x".repeat(1 << 20));
    let text = |count: usize| -> String {
        let filter = |at: usize| format!("[filters.f{at}]\nmodule='f'\nconfiguration-file='c'\n");
        format!(
            "{SITE}[[route]]\nservice='site'\n{}",
            (0..count).map(filter).collect::<String>()
        )
    };
    let read =
        |count: usize| ConfigFile::tenant_from_text(&text(count), "acme.toml", &bounds, &read);
    read(4).unwrap_or_else(|error| panic!("{error}"));
    let told = read(5).unwrap_err().to_string();
    assert!(
        told.contains("configurations that it names: 5242880, and 4194304"),
        "{told}"
    );
}
